"""A saved task-net: what its configuration says, without its weights, such as the kind of output that it predicts; and
the net from a folder or repo: plain, as an adapter on its base, or on a quantised base.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from logging import LogRecord, getLogger
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import transformers
from huggingface_hub import hf_hub_download, snapshot_download
from huggingface_hub.errors import EntryNotFoundError, HFValidationError, LocalEntryNotFoundError
from transformers import AutoModel, PreTrainedModel
from transformers.utils import find_adapter_config_file, logging

from ..core.decisions import SAVED, checked
from ..core.task import TASKS, Task
from ..nets.adapters import LIBRARIES, not_installed
from ..nets.adapters.base import LoadBase
from ..nets.adapters.peft import from_json, quantized
from ..nets.text_pooling import read_by
from ..utils.files import in_line, json_object, loading
from ..utils.gate import check_links, check_origin, config_of, load_net, no_questions, values_beside
from ..utils.messages import few
from .export import ADAPTER_FILES, DECISIONS_FILE, QUANTIZATION, READING, SAID_BESIDE, read_decisions

if TYPE_CHECKING:
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

logger = logging.get_logger(__name__)


CONFIG, ADAPTER_CONFIG = "config.json", "adapter_config.json"
LOSS_NET_CONFIG = "_loss_net/config.json"
LABELS = ("num_labels", "id2label", "label2id", "problem_type")  # options of a classifier, not of its encoder
TASK_TYPES = {"SEQ_CLS": "AdapterForSequenceClassification", "TOKEN_CLS": "AdapterForTokenClassification"}  # PEFT's


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_numbered(value: Any) -> bool:
    whole = isinstance(value, dict) and value.keys() == {str(i) for i in range(len(value))}
    return whole and _are_names([*value.values()]) and len({*value.values()}) == len(value)


def _is_size(value: Any) -> bool:
    return type(value) is int and value >= 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


Check = tuple[Callable[[Any], bool], str]  # of a value, and what is expected


def _is_column(value: Any) -> bool:
    return _is_text(value) or type(value) is int


INPUTS: dict[str, Check] = {  # how a net read its inputs in training; null counts as missing
    "max_length": (_is_size, "a whole number of at least 1"),
    "pairs": (lambda value: isinstance(value, bool), "true or false"),
    "predicate_marker": (_is_text, "the name of a marker"),
    "text_column": (lambda value: _is_text(value) or _are_names(value), "the name of a column"),
    "image_column": (_is_text, "the name of a column"),
    "label_column": (_is_text, "the name of a column"),
    "word_column": (_is_column, "the name or the number of a column"),
    "tag_column": (_is_column, "the name or the number of a column"),
    "label_separator": (_is_text, "a mark between labels"),
    "feature_columns": (_are_names, "names of columns"),
    "first_index": (lambda value: type(value) is int and value in (0, 1), "0 or 1"),
    "sample_weight": (_is_text, "the name of a column"),
    "image_size": (lambda value: isinstance(value, list) and all(map(_is_size, value)), "height and width in pixels"),
}
FIELDS: dict[str, Check] = {  # of these files
    "architectures": (_are_names, 'class names, such as ["BertForTokenClassification"]'),
    "id2label": (_is_numbered, 'the labels by number from 0 on, no two alike, such as {"0": "a", "1": "b"}'),
    "inputs": (lambda value: isinstance(value, dict), 'a mapping, such as {"max_length": 128}'),
    "input_size": (lambda value: type(value) is int and value > 0, "the number of features"),
    "crop_size": (_is_size, "a number of pixels"),
    "predicate_size": (lambda value: type(value) is int and value >= 0, "a width, or 0"),
    "auto_mapping": (lambda value: isinstance(value, dict), "a mapping"),
    "model_class": (lambda value: isinstance(value, str), "the name of a class"),
    "task_type": (lambda value: isinstance(value, str), f"one of {', '.join(TASK_TYPES)}"),
}
REMEDY = "Was it saved completely?"
WANTED = "which predicts neither label sets nor tags nor masks. Give a task-net that was saved by this package."


def task_of_model(name: str, hub: dict[str, Any]) -> tuple[Task, str]:
    """The task of a saved task-net, and the saved name of its space, such as `multi_label`.

    Args:
        name: folder or Hub id.
        hub: `revision`, `token`, ..., as `from_pretrained` takes them.

    Raises:
        OSError: no such folder or repo.
        ValueError: it holds another kind of model.
    """
    saved, adapter = _read(name, CONFIG, hub), dict[str, Any]()
    if saved is None:
        saved, adapter = saved_config(name, hub), _read(name, ADAPTER_CONFIG, hub) or {}
    if adapter:  # of the `adapters` library, or of PEFT
        by_peft = (adapter.get("auto_mapping") or {}).get("base_model_class")  # of an adapter without a task type
        by_task = TASK_TYPES.get(adapter.get("task_type") or "", by_peft)
        architecture = adapter.get("model_class") or by_task or "an adapter"
    else:
        architecture = _architecture(saved)
    why = ""
    for task in TASKS.values():
        try:
            space = task.space_of_saved(architecture, saved, bool(adapter))
        except ValueError as error:
            why = f" {error}"
            continue
        if space is not None:
            return task, space
    raise ValueError(f"{name} holds another kind of model, {architecture}{why}, {WANTED}")


def _architecture(config: dict[str, Any]) -> str:
    """The class of a task-net, by its `config.json`."""
    return next(iter(config.get("architectures") or ()), f"a model of type {config.get('model_type')!r}")


def holds_image_classifier(config: dict[str, Any]) -> bool:
    """True if the task-net with this [`saved_config`] reads images and predicts label sets."""
    inputs = config.get("inputs") or {}  # all that is known of an adapter
    return _architecture(config).endswith("ForImageClassification") or "image_size" in inputs


def saved_config(name: str, hub: dict[str, Any]) -> dict[str, Any]:
    """The saved part of a task-net's configuration: `config.json`, or the file beside an adapter.

    Raises:
        OSError: no such folder or repo, or no model in it.
    """
    for file in (CONFIG, DECISIONS_FILE, ADAPTER_CONFIG):
        found = _read(name, file, hub)
        if found is not None:
            return {} if file == ADAPTER_CONFIG else found
    raise OSError(f"{name} holds no model: it has neither {CONFIG} nor {ADAPTER_CONFIG}.")


def has_loss_net(name: str, hub: dict[str, Any]) -> bool:
    """True if a loss-net is saved beside the task-net."""
    return _read(name, LOSS_NET_CONFIG, hub) is not None


def _read(name: str, file: str, hub: dict[str, Any]) -> dict[str, Any] | None:
    """A JSON file of a folder or repo; None if it is missing."""
    path = Path(name)
    if path.is_dir():
        check_links(path)
        path = path / file
        if not path.is_file():
            return None
    elif path.exists():
        raise OSError(f"{name} is a file. Give the folder of a saved task-net, or a Hub id.")
    elif path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise OSError(f"{name}: no such folder.")
    else:
        try:
            path = Path(hf_hub_download(name, file, **hub))
        except LocalEntryNotFoundError as error:  # the Hub cannot be reached, and the file is not in the cache
            raise OSError(f"{name}: no such folder here or in the Hub's cache, and the Hub is offline.") from error
        except EntryNotFoundError:
            return None
        except (OSError, HFValidationError) as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise OSError(f"{name}: no such folder here, and it cannot be read from the Hub: {reason}") from error
    found = json_object(path, REMEDY)
    _check_fields(found, FIELDS, f"{path}: ")
    _check_fields(found.get("inputs") or {}, INPUTS, f"{path}: in `inputs`, ")
    try:
        checked(found.get("decisions") or {}, *SAVED)
    except ValueError as error:
        raise ValueError(f"{path}: {error} {REMEDY}") from error
    return found


def check_inputs(inputs: Any) -> dict[str, Any]:
    """A task-net's `config.inputs`.

    Raises:
        ValueError: it is not a mapping, or a value is of a wrong kind; configurations may come from anyone.
    """
    if not isinstance(inputs, Mapping):
        said = reprlib.repr(inputs)
        raise ValueError(f"`config.inputs` is {said}; expected a mapping such as {{'max_length': 128}}.")
    _check_fields(inputs, INPUTS, "in `config.inputs`, ")
    return dict(inputs)


def _check_fields(found: Mapping[str, Any], fields: Mapping[str, Check], where: str) -> None:
    for key, (fits, expected) in fields.items():
        value = found.get(key)
        if value is not None and not fits(value):
            raise ValueError(f"{where}`{key}` is {reprlib.repr(value)}; expected {expected}. {REMEDY}")


# --- the labels of a saved classifier, and what happens if the data has others ----------------------------------------


def label_maps(names: Sequence[str]) -> dict[str, dict]:
    """`id2label` and `label2id` for a config."""
    return {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}


def hub_options(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The options of `from_pretrained` for access to the Hub, such as `revision` and `token`."""
    return {key: kwargs[key] for key in ("revision", "token", "cache_dir", "local_files_only") if key in kwargs}


def place_of(model_name_or_path: Any) -> str:
    """The folder or Hub id.

    Raises:
        TypeError: it is neither, such as a configuration.
        OSError: it is a path that is not a folder and cannot be an id on the Hub.
    """
    if not isinstance(model_name_or_path, str | PathLike):
        raise TypeError(
            f"`model_name_or_path` is of type {type(model_name_or_path).__name__}; expected a folder or a Hub id, such "
            "as 'distilbert-base-uncased'. Give a net itself to `from_task_net`."
        )
    name = str(model_name_or_path)
    path = Path(name)
    if not path.exists() and (path.is_absolute() or name.startswith(".") or name.count("/") > 1):
        raise OSError(f"{name}: no such folder.")
    return name


def check_kind(name: str, kind: Any, hub: dict[str, Any], fresh_loss_net: bool) -> None:
    """Check that a folder or repo of this package, which has decisions, `config.inputs` or a loss-net, holds outputs of
    this [`SealModel`] class. Other nets are a start for any class.

    Raises:
        ValueError: it holds other outputs: the net would decide by numbers and labels that are not its own.
    """
    saved = values_beside(name, CONFIG, hub) or values_beside(name, DECISIONS_FILE, hub) or {}
    is_ours = saved.get("decisions") or saved.get("inputs")
    if not is_ours and (fresh_loss_net or not values_beside(name, LOSS_NET_CONFIG, hub)):
        return
    try:
        task, _ = task_of_model(name, hub)
    except (OSError, ValueError):  # of an unknown kind, or damaged or out of reach, which the loader reports
        return
    if task.model is not None and task.model.auto_class is not kind.auto_class:
        raise ValueError(
            f"{name} holds a net for {task.outputs_name}, which a {kind.__name__} does not predict. Load it with "
            f"{task.model.__name__}, or start from the encoder that it was trained from."
        )


def check_label_order(name: str, asked: dict[int, str] | None, hub: dict) -> None:
    """Check the requested labels against those of a saved classifier, whose rows are in its own order. Other labels
    give a warning, and training starts from these rows.

    Raises:
        ValueError: the requested labels are the same in another order.
    """
    if not asked or not (config := _saved_classifier(name, hub)):
        return
    saved = [label for _, label in sorted((config.get("id2label") or {}).items(), key=lambda item: int(item[0]))]
    labels = [asked[i] for i in sorted(asked)]
    if saved == labels or len(saved) != len(labels) or all(x == f"LABEL_{i}" for i, x in enumerate(saved)):
        return
    shown = few(saved, 5)
    if sorted(saved) == sorted(labels):
        raise ValueError(
            f"The classifier in {name} has the data's labels in another order: {shown}. Give the data's labels in "
            "this order (by `label_columns`, --label_columns, a labels.txt beside the file, or a ClassLabel), or start "
            "from an encoder without a classifier."
        )
    logger.warning(f"The classifier in {name} was trained for other labels ({shown}): training starts from its rows.")


def for_other_labels(name: str, asked: dict[int, str], kwargs: dict[str, Any]) -> dict[str, bool]:
    """Options of `from_pretrained` for a saved classifier whose number of labels differs from the data's. Classifier
    and loss-net then start from fresh weights, with a warning.

    Raises:
        ValueError: the data's labels are only some of the classifier's, which would be lost needlessly, unless
            `ignore_mismatched_sizes` is set; or the classifier is saved with an adapter and cannot be replaced.
    """
    config = _saved_classifier(name, hub_options(kwargs))
    saved = list((config.get("id2label") or {}).values())
    if not saved or len(saved) == len(asked):
        return {}
    wanted = set(asked.values())
    missing = [label for label in saved if label not in wanted]
    if len(missing) == len(saved) - len(asked) and "ignore_mismatched_sizes" not in kwargs:
        raise ValueError(
            f"The classifier in {name} has {len(saved)} labels, but the data lacks {', '.join(missing[:5])}. Name "
            f"all {len(saved)} in the data, in the classifier's order, or start from an encoder without a classifier."
        )
    if "architectures" not in config:  # an adapter's
        raise ValueError(
            f"The classifier in {name} has {len(saved)} labels, the data {len(asked)}, but it is saved with an "
            "adapter and cannot be replaced. Start from the model that the adapter is for."
        )
    logger.warning(f"The classifier in {name} has {len(saved)} labels, the data {len(asked)}: it gets fresh weights.")
    return {"ignore_mismatched_sizes": True, "fresh_loss_net": True}


def _saved_classifier(name: str, hub: dict) -> dict:
    """The configuration with the labels of a saved classifier's rows; empty if there is none."""
    try:
        config = config_of(name, hub)
    except OSError:  # transformers 4 on an adapter's folder; or it is missing, which the loader reports
        config = {}
    if not config:  # an adapter's folder
        return read_decisions(name, hub)
    return config if any("For" in architecture for architecture in config.get("architectures") or ()) else {}


# --- the net, loaded --------------------------------------------------------------------------------------------------


@contextmanager
def held_report() -> Iterator[list[LogRecord]]:
    """Hold what transformers logs about the keys of a file while the block runs; then log what the list still has."""
    logger, held = getLogger(PreTrainedModel.__module__), list[LogRecord]()

    def hold(record: LogRecord) -> bool:
        held.append(record)
        return False

    logger.addFilter(hold)
    try:
        yield held
    finally:
        logger.removeFilter(hold)
        for record in held:
            logger.handle(record)


def _is_of_crf(found: Mapping[str, Any]) -> bool:
    """True if a report is only about the weights of a CRF. They are read after the others, so transformers calls them
    unexpected."""
    unexpected = found["unexpected_keys"]
    others = found["missing_keys"] or found["mismatched_keys"] or found.get("error_msgs")
    return bool(unexpected) and not others and all(key.startswith("crf.") for key in unexpected)


def check_same_net(name: str, net: PreTrainedModel, found: Mapping[str, Any]) -> None:
    """Raises ValueError if a saved classifier was of a class that is not known here, and its further weights were left
    out: the net would answer otherwise than the saved one.

    Args:
        name: folder or Hub id.
        found: transformers' loading info.
    """
    saved = next(iter(getattr(net.config, "architectures", None) or ()), type(net).__name__)
    left = sorted(key for key in found.get("unexpected_keys", ()) if not str(key).startswith("crf."))
    if saved == type(net).__name__ or hasattr(transformers, saved) or not left or found.get("missing_keys"):
        return
    raise ValueError(
        f"{name} was saved by the class {saved}, which is not of transformers, and {type(net).__name__} lacks its "
        "weights "
        f"{few(left, 3)}: it would be another net. Load it by its class, and give it: SealForMultiLabel({saved}."
        "from_pretrained(...)), or as fits its output."
    )


@contextmanager
def said_plainly(name: str, kind: str, kwargs: Mapping[str, Any], hub: dict[str, Any]) -> Iterator[None]:
    """Translates the errors of transformers about a folder or repo that cannot be the task-net of a `kind`."""
    try:
        with loading(name, f"the task-net of a {kind}"), no_questions(name, hub):
            yield
    except OSError as error:
        if Path(name).exists():
            raise
        raise OSError(f"{name}: no such folder here, and it cannot be read from the Hub: {in_line(error)}") from error
    except ValueError as error:
        unknown = "does not recognize this architecture" in str(error)
        if not unknown and "Unrecognized configuration class" not in str(error):
            raise
        found = config_of(name, hub).get("model_type")
        if unknown:
            raise ValueError(
                f"{name} holds a model of type {found!r}, which the installed versions of transformers and seal_hf do "
                "not know. Was it saved by newer ones?"
            ) from error
        raise ValueError(
            f"{name} holds a model of type {found!r}, which cannot be the task-net of a {kind}. Load it with the class "
            "or program that trained it; an energy network alone with `load_energy_network`."
        ) from error
    except RuntimeError as error:
        if "mismatch" not in str(error):
            raise
        raise ValueError(
            f"The weights in {name} do not have the requested shapes (num_labels="
            f"{kwargs.get('num_labels', 'as saved')}). For another label set than the saved classifier's, pass "
            f"ignore_mismatched_sizes=True: the classifier then starts from fresh weights. {in_line(error)}"
        ) from error


def _check_is_there(net: PreTrainedModel, info: Mapping[str, Any], name: str) -> None:
    """Raises ValueError if the weights hold nothing of a net beside its head: all of it would be random."""
    names = set(net.state_dict())
    body = {key for key in names if key.startswith(f"{net.base_model_prefix}.")} or names
    if body <= set(info["missing_keys"]):
        raise ValueError(
            f"{name}: the weights hold nothing of the net that config.json describes, of type "
            f"{net.config.model_type!r}. Are both files of the same model?"
        )


def _load_pooled(reading: Any, name: str, **kwargs: Any) -> PreTrainedModel:
    """The base of an adapter whose classifier pools the encoder's tokens."""
    if not isinstance(reading, dict):
        raise ValueError(f"`{READING}` beside the adapter is {reprlib.repr(reading)}; expected an object.")
    labels = {key: kwargs.pop(key) for key in LABELS if key in kwargs}
    return read_by(load_net(AutoModel, name, **kwargs), reading, name_or_path=name, **labels)


def load_task_net(
    auto_class: type[_BaseAutoModelClass], name: str, kwargs: dict[str, Any], hub: dict[str, Any]
) -> tuple[PreTrainedModel, dict]:
    """The task-net, and transformers' loading info.

    Args:
        kwargs: of `from_pretrained`, and perhaps `quantization`, `4bit` or `8bit`; a saved adapter's base is quantised
            as it was in training.

    Raises:
        ValueError: a library is missing.
        OSError: the folder or repo holds no task-net.
    """
    kwargs = dict(kwargs)
    quantization = kwargs.pop("quantization", None)
    if find_adapter_config_file(name, **hub) is None:
        if quantization is not None:
            code = {key: value for key, value in kwargs.items() if key in ("trust_remote_code", "code_revision")}
            check_origin(name, hub, variant=kwargs.get("variant"))
            kwargs["quantization_config"] = quantized(quantization, auto_class, name, kwargs["dtype"], **hub, **code)
        with held_report() as report:
            found = load_net(auto_class, name, **kwargs, output_loading_info=True)
            if _is_of_crf(found[1]):
                report.clear()
        _check_is_there(found[0], found[1], name)
        return found
    check_origin(name, hub, adapter=True)
    said = read_decisions(name, hub)
    if quantization is not None:
        raise ValueError(
            f"`quantization` is {quantization!r}, but {name} is an adapter, whose base is loaded as it was in "
            "training. Leave it out."
        )
    if QUANTIZATION in said:
        kwargs.setdefault(QUANTIZATION, from_json(said[QUANTIZATION], name))
    if names := said.get("id2label"):
        kwargs = {**label_maps([names[key] for key in sorted(names, key=int)]), **kwargs}
    decisions = {name: said[name] for name in SAID_BESIDE if name in said}
    load_base: LoadBase = partial(load_net, auto_class)
    if READING in said:
        load_base = partial(_load_pooled, said[READING])
    folder = Path(name)
    if not folder.is_dir():
        folder = Path(snapshot_download(name, allow_patterns=list(ADAPTER_FILES), **hub))
    options = {key: value for key, value in kwargs.items() if key != "revision"}  # of the adapter's repo
    for library in LIBRARIES.values():
        try:
            task_net = library.from_folder(folder, load_base, **options)
        except ModuleNotFoundError as error:
            raise ValueError(
                f"{name} holds an adapter of the library {library.mode!r}, {not_installed(library.mode)}"
            ) from error
        except OSError as error:
            raise OSError(f"{name} holds an adapter, but its base cannot be loaded: {in_line(error)}") from error
        if task_net is not None:
            names = kwargs.get("id2label") or task_net.config.id2label or {}  # `adapters` orders them otherwise
            task_net.config.update({**decisions, **label_maps([names[i] for i in sorted(names)])})
            return task_net, {"missing_keys": [], "mismatched_keys": []}
    raise OSError(f"{name} has an adapter_config.json, but lacks the adapter's weights as safetensors.")
