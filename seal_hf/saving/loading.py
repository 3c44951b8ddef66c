"""A task-net from a folder or repo: plain, as an adapter on its base, or on a quantised base."""

from __future__ import annotations

import logging
import reprlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import transformers
from huggingface_hub import snapshot_download
from transformers import AutoModel, PreTrainedModel
from transformers.utils import find_adapter_config_file

from ..nets.adapters import LIBRARIES, not_installed
from ..nets.adapters.base import LoadBase
from ..nets.adapters.peft import from_json, quantized
from ..nets.text_pooling import read_by
from ..utils.files import in_line, loading
from ..utils.gate import check_origin, config_of, load_net, no_questions
from ..utils.messages import few
from .export import ADAPTER_FILES, QUANTIZATION, READING, SAID_BESIDE, read_decisions
from .kinds import label_maps

if TYPE_CHECKING:
    from transformers.models.auto.auto_factory import _BaseAutoModelClass


LABELS = ("num_labels", "id2label", "label2id", "problem_type")  # options of a classifier, not of its encoder


class _Report(logging.Filter):
    """Holds what transformers logs about the keys of a file. It calls the weights of a CRF unexpected, which are read
    after the others."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def filter(self, record: logging.LogRecord) -> bool:
        self.records.append(record)
        return False

    def judge(self, found: Mapping[str, Any]) -> None:
        """Forget what was logged if the weights of a CRF are all that it is about."""
        unexpected = found["unexpected_keys"]
        others = found["missing_keys"] or found["mismatched_keys"] or found.get("error_msgs")
        if unexpected and not others and all(key.startswith("crf.") for key in unexpected):
            self.records.clear()


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


@contextmanager
def _without_report_of_crf() -> Iterator[_Report]:
    logger, report = logging.getLogger(PreTrainedModel.__module__), _Report()
    logger.addFilter(report)
    try:
        yield report
    finally:
        logger.removeFilter(report)
        for record in report.records:
            logger.handle(record)


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
        with _without_report_of_crf() as report:
            found = load_net(auto_class, name, **kwargs, output_loading_info=True)
            report.judge(found[1])
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
