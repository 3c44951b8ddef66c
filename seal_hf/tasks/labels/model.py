"""Label sets: SealForMultiLabel; what its classifier of texts reads, and which saved nets read images."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    PreTrainedModel,
)
from transformers.utils import find_adapter_config_file, logging

from ...core.arrays import sigmoid
from ...core.hierarchy import Hierarchy, store_hierarchy
from ...core.label_sets import SPARSE_FROM
from ...data import MultiLabelData, load_multilabel
from ...data.table_sources import loaded
from ...data.tensors.collators import TensorRows
from ...data.tensors.images import ImageRows, load_image_processor
from ...data.tensors.words import load_tokenizer, saved_tokenizer
from ...nets.adapters import LIBRARIES
from ...nets.cnn import CNNConfig, CNNForImageClassification
from ...nets.encoders import MLPConfig, MLPEncoder, MLPForMultiLabel
from ...nets.heads import FIRST, LAST, MEAN, POOLINGS, reading, reads_images
from ...nets.text_pooling import (
    IN_WORDS,
    PooledConfig,
    PooledForSequenceClassification,
    WindowedConfig,
    WindowedEncoder,
    can_be_pooled,
    classifier_reads,
    most_tokens,
    read_by,
    reads_whole,
    special_ids,
)
from ...saving.batches import check_images, check_one_kind, check_rows, in_batches, text_rows
from ...saving.loading import LABELS, for_other_labels, hub_options, label_maps, load_task_net, place_of
from ...saving.model import SealModel, set_bias
from ...utils.files import json_object
from ...utils.gate import config_of, load_net, values_beside
from ...utils.messages import check_owner, check_unread
from ...utils.options import check_value
from .decisions.label_decisions import LabelDecisions
from .space import MultiLabelSpace

logger = logging.get_logger(__name__)

# What a net from scratch has unless something else is given: of features an MLP, of images a convolutional net.
FROM_SCRATCH: dict[str, dict[str, Any]] = {
    "features": {"hidden_size": 400, "num_layers": 2, "dropout": 0.5},
    "images": {"hidden_size": 128, "dropout": 0.2},
}
MAX_LENGTH = 128  # tokens in a text, or in a window
READING = ("pooling", "long_texts", "window_size")  # how a classifier of texts reads them
NOUNS = {"features": "feature data", "text": "text", "images": "images"}
OWNERS = {"text": "the MLP for features", "images": "small nets, trained from scratch"}


class SealForMultiLabel(SealModel):
    """A multi-label task-net of texts, features or images, with logits (B, L), and its loss-net. `from_pretrained` also
    takes `pooling`, `long_texts` and `window_size`, see [`for_data`]."""

    auto_class = AutoModelForSequenceClassification
    space_class = MultiLabelSpace

    @torch.no_grad()
    def predict(
        self,
        texts: Iterable[Any] | None = None,
        *,
        decoder: str | float | None = None,
        batch_size: int = 32,
        **inputs: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Label sets, by the task-net without dropout.

        Args:
            texts: N raw texts, or N pairs if the net was trained on pairs; for a net of images N paths, PIL images or
                uint8 arrays (H, W, 3); or
            inputs: the task-net's inputs, such as `features` (N, D) or a tokenizer's output, all in one batch.
            decoder: one of [`LabelDecisions`], or a threshold; default: the saved one, or else 0.5.
            batch_size: raw texts or images per batch; texts are batched by length.

        Returns:
            Probabilities (N, L), float32, and decisions (N, L), int64, 0 or 1; for raw texts and images on the CPU.

        Raises:
            ValueError: there are neither texts nor inputs, or something that is no list of texts; the decoder is
                unknown, or the image processor does not fit the net.
            DataError: a file is missing, or not an image of 8 bits per channel.
        """
        decisions, net = LabelDecisions.from_config(self.config), self.task_net.eval()
        of_images = reads_images(net)
        check_one_kind("images" if of_images else "texts", texts, inputs)
        if texts is None:
            logits = net(**inputs).logits
        else:
            if of_images:
                check_images(texts)
            else:
                check_rows("texts", texts)
            texts = texts if isinstance(texts, Sequence) else list(texts)
            logits = torch.empty(len(texts), len(self.config.id2label or ()))
            for chosen, batch in self.batches(texts, batch_size):
                with reading(net, batch):
                    logits[chosen] = net(**batch).logits.float().cpu()
        probabilities = sigmoid(logits.float().cpu().numpy())  # float64, as the decisions were fitted
        decided = torch.from_numpy(decisions.decide(probabilities, decoder)).long()
        return torch.from_numpy(probabilities).float().to(logits.device), decided.to(logits.device)

    def batches(self, raw: Sequence[Any], batch_size: int) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
        """Yields raw texts or images as batches of the task-net's inputs, on its device, each with the places of its
        rows. Arguments and errors are those of `predict`."""
        net = self.task_net
        if not reads_images(net):
            yield from in_batches(text_rows(raw, self.processor, self.config), batch_size, net.device)
            return
        rows: TensorRows = ImageRows.of(raw, self.processor)
        for chosen, batch in in_batches(rows, batch_size, net.device):
            yield chosen, {name: value.to(net.dtype) for name, value in batch.items()}

    def _load_processor(self, name: str, hub: dict[str, Any]) -> Any:
        if reads_images(self.task_net):
            return load_image_processor(name, **hub)
        if isinstance(self.task_net, MLPForMultiLabel):
            raise ValueError(f"{name} holds an MLP, which reads features: pass features=, a tensor (rows, features).")
        return saved_tokenizer(name, **hub)

    @classmethod
    def _auto_class_of(cls, name: str, hub: dict) -> Any:
        return AutoModelForImageClassification if is_of_images(name, hub) else cls.auto_class

    @classmethod
    def _load_task_net(cls, name: str, kwargs: dict, hub: dict) -> tuple[PreTrainedModel, dict]:
        """Texts are read as `pooling` and `long_texts` say."""
        reading = {key: kwargs[key] for key in READING if kwargs.get(key) is not None}
        kwargs = {key: value for key, value in kwargs.items() if key not in READING}
        values = values_beside(name, "config.json", hub) or {}
        if values.get("model_type") == MLPConfig.model_type or is_of_images(name, hub):
            check_owner(reading, "texts", f"{name} reads something else")
            return super()._load_task_net(name, kwargs, hub)
        return load_classifier(cls.auto_class, name, kwargs, hub, **reading)

    @classmethod
    def _load_encoder(cls, task_net: PreTrainedModel, name: str, read: dict) -> PreTrainedModel:
        """It reads windows if the task-net does."""
        config = task_net.config
        if _saved_config(name, read).get("model_type") in OURS:
            return load_net(cls.auto_class, name, dtype=torch.float32, **read).base_model
        encoder = super()._load_encoder(task_net, name, read)
        return WindowedEncoder.around(encoder, config) if isinstance(config, WindowedConfig) else encoder

    @classmethod
    def from_task_net(
        cls, task_net: PreTrainedModel, *, hierarchy: Hierarchy | None = None, **options: Any
    ) -> SealForMultiLabel:
        """As [`SealModel.from_task_net`], which takes these `options`.

        Args:
            hierarchy: hierarchy of the labels, such as `data.hierarchy`; the config keeps it for decisions.
        """
        seal = super().from_task_net(task_net, **options)
        if hierarchy is not None:
            store_hierarchy(seal.config, hierarchy)
        return seal

    @classmethod
    def for_data(
        cls,
        data: MultiLabelData | Any,
        model_name_or_path: str | None = None,
        *,
        loss_net_encoder: str | None = None,
        adapter: Any = None,
        energy: str | None = None,
        energy_options: dict[str, Any] | None = None,
        global_size: int | None = None,
        hidden_size: int | None = None,
        num_layers: int | None = None,
        dropout: float | None = None,
        label_bias: bool | None = None,
        pooling: str | None = None,
        long_texts: str | None = None,
        window_size: int | None = None,
        **kwargs: Any,
    ) -> SealForMultiLabel:
        """Both nets for a data set of [`load_multilabel`].

        Args:
            data: a data set, or an argument of [`load_multilabel`], which is then loaded. A data set has `kind` and
                `label_names`; of features also `num_features` and `scaling`; `label_rates` if the output layer has a
                bias; and optionally `hierarchy`, which the config keeps for decisions.
            model_name_or_path: for texts a Hugging Face encoder or classifier; for features a saved MLP, which keeps
                its sizes and normalisation; for images a Hugging Face encoder or image classifier, default: a small
                convolutional net.
            loss_net_encoder, adapter: see [`from_pretrained`]; features, and the convolutional net, take `separate` or
                `shared`, and no adapter.
            energy, energy_options, global_size: of the loss-net, see `ENERGIES`.
            pooling: what the classifier of texts reads: the `first` token, by transformers' own classifier; the `last`
                one, as decoders do; or the `mean` of all. Default: what the folder of a sentence encoder declares
                (`1_Pooling/config.json`), or else transformers' own classifier. A saved task-net stays as it is.
            long_texts: `cut` (default): the tokenizer cuts texts; `windows`: whole texts are read in windows, see
                `nets/text_pooling.py`, and what is read of a window is its mean by default.
            window_size: tokens per window; default and maximum: the encoder's limit.
            hidden_size: width of the MLPs, for feature data, default 400; of the convolutional net, default 128.
            num_layers: layers of the MLPs; default 2.
            dropout: of the MLPs, default 0.5; of the convolutional net, default 0.2.
            label_bias: True if the MLP task-net has a bias, which starts at the labels' log-odds; default: True from
                `SPARSE_FROM` labels on, where samples must hold few labels.

        Raises:
            ValueError: texts without `model_name_or_path`, or a net that reads another kind of data; adapters or
                `kwargs` for a fresh MLP or convolutional net.
        """
        data = loaded(data, load_multilabel)
        names = list(data.label_names)
        labels: dict[str, Any] = label_maps(names)
        loss_net: dict[str, Any] = {"energy": energy, "energy_options": energy_options, "global_size": global_size}
        if model_name_or_path is not None:
            name = place_of(model_name_or_path)
            own = {"hidden_size": hidden_size, "num_layers": num_layers, "label_bias": label_bias}
            options = {"loss_net_encoder": loss_net_encoder, "adapter": adapter, **loss_net, **labels}
            if data.kind != "text":
                of_texts = {"pooling": pooling, "long_texts": long_texts}
                check_owner(of_texts, "texts", f"{data.name!r} is {NOUNS[data.kind]}")
            _check_reads(data, name, kwargs)
            if data.kind != "features":
                check_owner({**own, "dropout": dropout}, OWNERS[data.kind], f"{data.name!r} is {NOUNS[data.kind]}")
            if data.kind == "text":
                options |= {"pooling": pooling, "long_texts": long_texts, "window_size": window_size}
            options |= {"num_labels": len(names), "label_rates": data.label_rates}
            options |= for_other_labels(name, labels["id2label"], kwargs) | kwargs
            seal = cls.from_pretrained(name, **options)
            store_hierarchy(seal.config, getattr(data, "hierarchy", None))
            if data.kind == "features":
                _as_asked(seal, dropout, own)
            return seal
        if data.kind == "text":
            raise ValueError(
                f"`model_name_or_path` is missing: {data.name!r} is text and needs a Hugging Face encoder, "
                "for example 'distilbert-base-uncased' (--model_name_or_path distilbert-base-uncased)."
            )
        if adapter is not None or loss_net_encoder in LIBRARIES:
            net = "MLP" if data.kind == "features" else "convolutional net"
            raise ValueError(
                f"`adapter` is {adapter!r} and `loss_net_encoder` {loss_net_encoder!r}, but {data.name!r} is "
                f"{NOUNS[data.kind]}: its {net} has no pretrained base to adapt. Use loss_net_encoder='separate' or "
                "'shared'."
            )
        check_unread(kwargs, "an MLP" if data.kind == "features" else "a convolutional net")
        if data.kind == "images":
            check_owner({"num_layers": num_layers, "label_bias": label_bias}, "an MLP", f"{data.name!r} is images")
            cnn = fresh_cnn(labels, hidden_size, dropout)
            store_hierarchy(cnn.config, getattr(data, "hierarchy", None))
            set_bias(cnn.classifier.bias, data.label_rates)
            return cls(cnn, cls._fresh_loss_net(cnn, None, loss_net_encoder, **loss_net))
        config = MLPConfig(
            input_size=data.num_features,
            **_sizes("features", hidden_size=hidden_size, num_layers=num_layers, dropout=dropout),
            label_bias=len(names) >= SPARSE_FROM if label_bias is None else label_bias,
            problem_type=MultiLabelSpace.problem_type,
            **labels,
        )
        store_hierarchy(config, getattr(data, "hierarchy", None))
        task_net = MLPForMultiLabel(config)
        if config.label_bias:
            set_bias(task_net.classifier.bias, data.label_rates)
        seal = cls(task_net, cls._fresh_loss_net(task_net, None, loss_net_encoder, **loss_net))
        if data.scaling is not None:
            for encoder in (task_net.encoder, seal.loss_net.encoder):
                if isinstance(encoder, MLPEncoder):
                    encoder.set_scaling(data.scaling)
        return seal


def _as_asked(seal: SealForMultiLabel, dropout: float | None, options: dict[str, Any]) -> None:
    """Give saved MLPs another dropout, if one is requested; warn about other options that differ from theirs."""
    for encoder in (seal.task_net.encoder, seal.loss_net.encoder) if dropout is not None else ():
        if isinstance(encoder, MLPEncoder) and dropout is not None:
            encoder.dropout.p = encoder.config.dropout = dropout
    if dropout is not None and seal.loss_net.config.encoder_config is not None:
        seal.loss_net.config.encoder_config = {**seal.loss_net.config.encoder_config, "dropout": dropout}
    for name, asked in options.items():
        found = getattr(seal.config, name)
        if asked not in (None, found):
            logger.warning(f"The saved task-net keeps its {name} {found}; {asked} is ignored.")


def _check_reads(data: MultiLabelData, name: str, kwargs: dict[str, Any]) -> None:
    """Raises ValueError for a pretrained model that reads another kind of data."""
    config = _saved_config(name, kwargs)
    said = f"`model_name_or_path` is {name!r}"
    if data.kind == "features":
        _check_reads_features(data, name, kwargs)
    elif config.get("model_type") == MLPConfig.model_type:
        raise ValueError(
            f"{said}, an MLP that reads {config['input_size']} features, but {data.name!r} is {NOUNS[data.kind]}. Give "
            f"a Hugging Face encoder{' of images' if data.kind == 'images' else ''}."
        )
    elif is_of_images(name, hub_options(kwargs)) != (data.kind == "images"):
        found = config.get("model_type") or "an adapter"
        reads, example = ("texts", "facebook/dinov2-small") if data.kind == "images" else ("images", "a BERT")
        raise ValueError(
            f"{said}, a model of type {found!r} that reads {reads}, but {data.name!r} is {NOUNS[data.kind]}. Give a "
            f"model that reads {'images' if reads == 'texts' else 'texts'}, such as {example}."
        )


def _saved_config(model_name_or_path: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        return config_of(model_name_or_path, hub_options(kwargs))
    except OSError:  # an adapter's folder; or none, which the loader reports
        return {}


def _check_reads_features(data: MultiLabelData, name: str, kwargs: dict[str, Any]) -> None:
    """Raises ValueError for a pretrained model whose config lacks `input_size`, such as one for texts, and for one with
    another number of features."""
    config = config_of(name, kwargs)
    if "input_size" not in config:
        raise ValueError(
            f"`model_name_or_path` is {name!r}, a model of type {config.get('model_type')!r}, but "
            f"{data.name!r} is feature data, which it does not read. If you meant texts, load them (--dataset); "
            "otherwise leave it out, and the task-net is an MLP."
        )
    if config["input_size"] != data.num_features:
        raise ValueError(
            f"`model_name_or_path` is {name!r}, which reads {config['input_size']} features, but "
            f"{data.name!r} has {data.num_features}. Use the data that it was trained on, or leave it out."
        )


DECLARED = "1_Pooling/config.json"  # of a sentence encoder, as the library sentence-transformers saves it
MODE = "pooling_mode"  # its key there; older files have one key per mode, such as `pooling_mode_mean_tokens`
MODES = {"cls": FIRST, "cls_token": FIRST, "mean": MEAN, "mean_tokens": MEAN, "lasttoken": LAST}  # others: None
SWITCH = "classifier_pooling"  # ModernBERT's kin have classifiers of either kind in transformers
SWITCHED = {FIRST: "cls", MEAN: "mean"}
LONG_TEXTS = CUT, WINDOWS = ("cut", "windows")
OURS = (PooledConfig.model_type, WindowedConfig.model_type)


def declared_pooling(name: str, hub: Mapping[str, Any]) -> str | None:
    """Which vector stands for a text, as a sentence encoder declares it: one of `POOLINGS`. None if it declares
    nothing, or something else.

    Raises:
        ValueError: the file is damaged, or has values of a wrong type.
    """
    said = values_beside(name, DECLARED, hub) or {}
    for key, value in said.items():
        if key.startswith(f"{MODE}_") and not isinstance(value, bool | None):
            raise ValueError(f"{name}: {DECLARED}: `{key}` is {reprlib.repr(value)}; expected true or false.")
    newer = said.get(MODE)
    modes = [newer] if isinstance(newer, str) else newer
    if modes is not None and not (isinstance(modes, list) and all(isinstance(mode, str) for mode in modes)):
        raise ValueError(f"{name}: {DECLARED}: `{MODE}` is {reprlib.repr(newer)}; expected a name such as 'mean'.")
    if modes is None:
        modes = [key.removeprefix(f"{MODE}_") for key, value in said.items() if key.startswith(f"{MODE}_") and value]
    return MODES.get(modes[0]) if len(modes) == 1 else None


def load_pooled(
    name: str,
    kwargs: Mapping[str, Any],
    hub: dict[str, Any],
    pooling: str,
    windows: bool = False,
    window_size: int | None = None,
) -> tuple[PooledForSequenceClassification, dict[str, Any]]:
    """A fresh classifier that reads the tokens of a saved encoder as `pooling` says, and transformers' loading info.

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
    """The task-net of texts in a folder or repo, and transformers' loading info.

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
        _warn_of_kept(name, found[0], pooling, long_texts)
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


def _warn_of_kept(name: str, task_net: PreTrainedModel, pooling: str | None, long_texts: str | None) -> None:
    """Warn if a saved task-net reads texts in another way than was asked for."""
    if long_texts == CUT and reads_whole(task_net.config):
        logger.warning(f"The task-net in {name} keeps reading texts in windows; 'cut' is ignored.")
    if pooling is not None and pooling != (reads := classifier_reads(task_net)):
        logger.warning(f"The classifier in {name} keeps reading {IN_WORDS[reads]}; {pooling!r} is ignored.")


HEAD = "ForImageClassification"


def is_of_images(name: str, hub: dict[str, Any]) -> bool:
    """True if a folder or repo holds an image classifier, an encoder of images, or an adapter on one of them. False
    also if it cannot be read, which the loader reports."""
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
        hidden_size: width of its features; default, as of `dropout`: that of `FROM_SCRATCH`.
    """
    sizes = _sizes("images", hidden_size=hidden_size, dropout=dropout)
    return CNNForImageClassification(CNNConfig(problem_type=MultiLabelSpace.problem_type, **sizes, **labels))


def _sizes(kind: str, **given: Any) -> dict[str, Any]:
    """The sizes of a net from scratch for a kind of data: those given, else those of `FROM_SCRATCH`."""
    return FROM_SCRATCH[kind] | {name: value for name, value in given.items() if value is not None}
