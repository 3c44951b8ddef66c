"""Task-nets of texts and images: what the classifier of texts reads, which saved nets read images, and the small
convolutional net."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    AutoConfig,
    AutoModel,
    PreTrainedModel,
)
from transformers.utils import find_adapter_config_file, logging

from ...data.tensors.words import load_tokenizer
from ...nets.cnn import CNNConfig, CNNForImageClassification
from ...nets.heads import FIRST, LAST, MEAN, POOLINGS
from ...nets.text_pooling import (
    IN_WORDS,
    PooledConfig,
    PooledForSequenceClassification,
    can_be_pooled,
    classifier_reads,
)
from ...nets.text_windows import WindowedConfig, most_tokens, read_by, reads_whole, special_ids
from ...saving.loading import LABELS, load_task_net
from ...utils.files import json_object
from ...utils.gate import config_of, values_beside
from ...utils.messages import check_owner
from ...utils.options import check_value
from .space import MultiLabelSpace

logger = logging.get_logger(__name__)

DECLARED = "1_Pooling/config.json"  # of a sentence encoder, as the library sentence-transformers saves it
MODE = "pooling_mode"  # its key there; older files have one key per mode, such as `pooling_mode_mean_tokens`
MODES = {"cls": FIRST, "cls_token": FIRST, "mean": MEAN, "mean_tokens": MEAN, "lasttoken": LAST}  # others: None
SWITCH = "classifier_pooling"  # ModernBERT's kin have classifiers of either kind in transformers
SWITCHED = {FIRST: "cls", MEAN: "mean"}
LONG_TEXTS = CUT, WINDOWS = ("cut", "windows")
OURS = (PooledConfig.model_type, WindowedConfig.model_type)


def declared_pooling(name: str, hub: Mapping[str, Any]) -> str | None:
    """What a sentence encoder says stands for a text, one of `POOLINGS`; None if it says nothing, or something else.

    Raises:
        ValueError: the file is damaged, or has values of a wrong type.
    """
    said = values_beside(name, DECLARED, hub) or {}
    for key, value in said.items():
        if key.startswith(f"{MODE}_") and not isinstance(value, bool | None):
            raise ValueError(f"{name}: {DECLARED}: `{key}` is {reprlib.repr(value)}; expected true or false.")
    newer = said.get(MODE)
    if not (newer is None or isinstance(newer, str) or (isinstance(newer, list) and all(map(_is_text, newer)))):
        raise ValueError(f"{name}: {DECLARED}: `{MODE}` is {reprlib.repr(newer)}; expected a name such as 'mean'.")
    modes = [newer] if isinstance(newer, str) else newer
    if modes is None:
        modes = [key.removeprefix(f"{MODE}_") for key, value in said.items() if key.startswith(f"{MODE}_") and value]
    return MODES.get(modes[0]) if len(modes) == 1 else None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def load_pooled(
    name: str,
    kwargs: Mapping[str, Any],
    hub: dict[str, Any],
    pooling: str,
    windows: bool = False,
    window_size: int | None = None,
) -> tuple[PooledForSequenceClassification, dict[str, Any]]:
    """A fresh classifier that reads the tokens of a saved encoder in this way, and transformers' loading info.

    Args:
        name: folder or Hub id of an encoder, or of a classifier, whose encoder is used.
        kwargs: of `from_pretrained`, as for [`load_task_net`].
        windows: True if it reads whole texts in windows; the tokenizer is saved beside the encoder.
        window_size: tokens per window; default and maximum: the encoder's limit.

    Raises:
        ValueError: windows without a tokenizer, or the encoder has no limit and `window_size` is missing; the encoder
            has code of its own, or a decoder beside it; or as [`load_task_net`].
    """
    labels = {key: value for key, value in kwargs.items() if key in LABELS}
    others = {key: value for key, value in kwargs.items() if key not in LABELS and key != "ignore_mismatched_sizes"}
    encoder, found = load_task_net(AutoModel, name, others, hub)
    if not can_be_pooled(encoder.config.to_dict()):
        raise ValueError(
            f"`pooling` is {pooling!r}, but the encoder in {name}, {type(encoder).__name__}, has code of its own or a "
            "decoder beside it, so that its tokens cannot be pooled. Leave it out."
        )
    reading: dict[str, Any] = {"pooling": pooling}
    if windows:
        code = {key: kwargs[key] for key in ("trust_remote_code", "code_revision") if key in kwargs}
        tokenizer = load_tokenizer(name, **hub, **code)
        if (size := min(filter(None, (window_size, most_tokens(tokenizer, encoder.config))), default=None)) is None:
            raise ValueError(f"`window_size` is missing: {name} does not state its encoder's limit of tokens.")
        before, after = special_ids(tokenizer)
        reading |= {"window_size": size, "before": before, "after": after, "pad_token_id": tokenizer.pad_token_id}
    net = read_by(encoder, reading, name_or_path=name, **labels)
    place = next(place for place, module in net.named_modules() if module is encoder)
    own = {parameter for parameter, _ in net.named_parameters()}
    fresh = {f"{place}.{key}" for key in found["missing_keys"]} | {"classifier.weight", "classifier.bias"}
    missing = sorted(own & fresh)
    return net, {"missing_keys": missing, "mismatched_keys": []}


def load_classifier(
    auto_class: Any,
    name: str,
    kwargs: dict[str, Any],
    hub: dict[str, Any],
    pooling: str | None = None,
    long_texts: str | None = None,
    window_size: int | None = None,
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """The task-net of texts of a folder or repo, and transformers' loading info.

    It is transformers' own classifier if that reads what is asked for, and else one of ours. A saved one of ours, and a
    saved adapter, stay as they are.

    Args:
        kwargs: of `from_pretrained`, as for [`load_task_net`].
        pooling, long_texts, window_size: as in `SealForMultiLabel.for_data`.

    Raises:
        ValueError: an unknown value; `pooling` is "first" for a decoder; or as [`load_pooled`].
    """
    if pooling is not None:
        check_value("pooling", pooling, POOLINGS)
    if long_texts is not None:
        check_value("long_texts", long_texts, LONG_TEXTS)
    values = values_beside(name, "config.json", hub) or {}  # empty: an adapter's, or none, which the loader reports
    if not values or values.get("model_type") in OURS:
        found = load_task_net(auto_class, name, kwargs, hub)
        _tell_kept(name, found[0], pooling, long_texts)
        return found
    heads = [each for each in values.get("architectures") or () if str(each).endswith("ForSequenceClassification")]
    wanted = pooling
    if wanted is None and not heads and can_be_pooled(values):
        wanted = declared_pooling(name, hub)
    if long_texts == WINDOWS:
        check_owner({"quantization": kwargs.get("quantization")}, "cut texts", "`long_texts` is 'windows'")
        return load_pooled(name, kwargs, hub, wanted or MEAN, True, window_size)
    if wanted in SWITCHED and hasattr(AutoConfig.for_model(values["model_type"]), SWITCH):
        return load_task_net(auto_class, name, {**kwargs, SWITCH: SWITCHED[wanted]}, hub)
    if wanted != MEAN:
        found = load_task_net(auto_class, name, kwargs, hub)
        reads = None if wanted is None else classifier_reads(found[0])
        if pooling == FIRST and reads == LAST:
            raise ValueError(
                f"`pooling` is 'first', but {type(found[0]).__name__} reads the last token of {name}. The first one "
                "has not seen the text. Use 'last' or 'mean'."
            )
        if wanted in (None, FIRST, reads):
            return found
    if heads:
        logger.warning(
            f"The classifier in {name}, {heads[0]}, is replaced by a fresh one that reads {IN_WORDS[wanted]}."
        )
    return load_pooled(name, kwargs, hub, wanted)


def _tell_kept(name: str, task_net: PreTrainedModel, pooling: str | None, long_texts: str | None) -> None:
    """Warn if a saved task-net reads texts in another way than was asked for."""
    if long_texts == CUT and reads_whole(task_net.config):
        logger.warning(f"The task-net in {name} keeps reading texts in windows; 'cut' is ignored.")
    if pooling is not None and pooling != (reads := classifier_reads(task_net)):
        logger.warning(f"The classifier in {name} keeps reading {IN_WORDS[reads]}; {pooling!r} is ignored.")


HEAD = "ForImageClassification"
DROPOUT = 0.2  # of a fresh convolutional net


def is_of_images(name: str, hub: dict[str, Any]) -> bool:
    """True if a folder or repo holds an image classifier, an encoder of images, or an adapter on one of them; False
    also for one that cannot be read, which the loader reports."""
    try:
        file = find_adapter_config_file(name, **hub)
        if file is not None:
            adapter = json_object(Path(file), "Was it saved completely?")
            base = adapter.get("base_model_name_or_path") or adapter.get("model_name")  # of PEFT, of `adapters`
            return isinstance(base, str) and base != name and is_of_images(base, {})
        config = config_of(name, hub)
    except (OSError, ValueError):
        return False
    if any(architecture.endswith(HEAD) for architecture in config.get("architectures") or ()):
        return True
    model_type = config.get("model_type", "")
    if model_type not in CONFIG_MAPPING:
        return False
    kind = CONFIG_MAPPING[model_type]
    return kind in MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING and kind not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING


def fresh_cnn(labels: dict[str, Any], hidden_size: int | None, dropout: float | None) -> CNNForImageClassification:
    """The small convolutional net, untrained.

    Args:
        labels: `id2label` and `label2id`.
        hidden_size: width of its features; default: that of [`CNNConfig`].
        dropout: default: 0.2.
    """
    dropout = DROPOUT if dropout is None else dropout
    sizes: dict[str, Any] = {} if hidden_size is None else {"hidden_size": hidden_size}
    config = CNNConfig(dropout=dropout, problem_type=MultiLabelSpace.problem_type, **sizes, **labels)
    return CNNForImageClassification(config)


def check_images(images: Any) -> None:
    """Raises ValueError for one image in place of a list."""
    if isinstance(images, (str, PathLike)) or hasattr(images, "convert") or getattr(images, "ndim", 4) != 4:
        raise ValueError(
            f"`images` is one {type(images).__name__}; expected a list of images, such as ['a.png']: paths, PIL images "
            "or uint8 arrays (H, W, 3)."
        )
