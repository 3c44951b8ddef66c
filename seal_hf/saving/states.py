"""What a checkpoint holds of a run, checked and read: the states of optimizers, schedules, gradient scalers, random
numbers and the run; and weights under the names of a net.

States are read with `weights_only=True`: nothing is unpickled. A file that is damaged, or holds the state of something
else, is refused by its name. Tensors are mapped into memory, so that a check does not read them.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor
from transformers import PreTrainedModel
from transformers.trainer import safe_globals
from transformers.trainer_callback import ExportableState, TrainerState
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from ..utils.files import json_object
from ..utils.gate import check_origin

REMEDY = "Put a whole copy back, take another checkpoint, or start a new run."
OF_PARAMETERS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg")  # in a parameter's shape
GENERATORS = ("python", "numpy", "cpu")  # of each process


def read_state(file: str | Path) -> dict[str, Any]:
    """The content of a file that `torch.save` wrote: a dict of tensors and plain values.

    Raises:
        ValueError: the file holds anything else.
        OSError: it cannot be opened.
    """
    with open(file, "rb"):  # where that fails, the error says why
        pass
    try:
        with safe_globals():  # NumPy's arrays
            state = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except MemoryError:
        raise
    except Exception as error:  # of many types: whatever the bytes are taken for
        raise ValueError(
            f"{file} is damaged, or holds more than tensors and plain values ({type(error).__name__}). It is not "
            f"unpickled. {REMEDY}"
        ) from error
    if not isinstance(state, dict):
        raise _misfit(file, f"it holds a {type(state).__name__}, expected a dict")
    return state


def check_optimizer(file: Path, state: Any, parameters: Iterable[Tensor]) -> None:
    """Raises ValueError unless `state`, of `file`, can be that of an optimizer of these parameters, in any order."""
    shapes = [tuple(parameter.shape) for parameter in parameters]
    groups, of_each = _optimizer_parts(file, state)
    number = sum(len(group["params"]) for group in groups)
    if number != len(shapes):
        raise _misfit(file, f"it is of {number} parameters, this run trains {len(shapes)}")
    for name in OF_PARAMETERS:
        saved = [tuple(each[name].shape) for each in of_each.values() if isinstance(each.get(name), Tensor)]
        if others := Counter(saved) - Counter(shapes):
            raise _misfit(file, f"`{name}` of a parameter has shape {next(iter(others))}, as none of this run has")


def check_optimizer_fits(file: Path, state: Any, optimizer: Any) -> None:
    """Raises ValueError unless `state`, of `file`, fits an optimizer that exists, parameter by parameter."""
    groups, of_each = _optimizer_parts(file, state)
    expected = optimizer.param_groups
    sizes, ours = ([len(group["params"]) for group in found] for found in (groups, expected))
    if sizes != ours:
        raise _misfit(file, f"its groups have {sizes} parameters, those of this run {ours}")
    for group, own in zip(groups, expected, strict=True):
        options = {name: value for name, value in own.items() if name != "params"}
        check_like(file, {name: group[name] for name in options if name in group}, options, "param_groups", some=True)
    numbers = [number for group in groups for number in group["params"]]
    parameters = [parameter for group in expected for parameter in group["params"]]
    if unknown := of_each.keys() - set(numbers):
        raise _misfit(file, f"it has a state of parameter {next(iter(unknown))!r}, which is in no group")
    for number, parameter in zip(numbers, parameters, strict=True):
        shape = tuple(parameter.shape)
        for name, value in of_each.get(number, {}).items():
            found = tuple(value.shape) if isinstance(value, Tensor) else None
            if name in OF_PARAMETERS and value is not None and found != shape:
                raise _misfit(file, f"`{name}` of parameter {number} has shape {found}, expected {shape}")
            if name == "step" and found not in ((), (1,), shape[:1]) and not _is_number(value):
                raise _misfit(file, f"`step` of parameter {number} is a {type(value).__name__}, expected a number")


def _optimizer_parts(file: Path, state: Any) -> tuple[list[dict[str, Any]], dict[Any, dict[str, Any]]]:
    """The groups of an optimizer's state, and the states of the parameters by their number."""
    groups = state.get("param_groups") if isinstance(state, dict) else None
    of_each = state.get("state") if isinstance(state, dict) else None
    of_groups = isinstance(groups, list) and all(
        isinstance(group, dict)
        and isinstance(group.get("params"), list)
        and all(type(number) is int for number in group["params"])
        for group in groups
    )
    if not of_groups or not isinstance(of_each, dict) or not all(isinstance(each, dict) for each in of_each.values()):
        raise _misfit(file, "it is not the state of an optimizer, with `param_groups` and `state`")
    return groups, of_each  # type: ignore[return-value]  # checked


def check_like(file: Path, found: Any, expected: Any, where: str, some: bool = False, owner: Any = None) -> None:
    """Raises ValueError unless `found`, at `where` in `file`, has the types, keys and lengths of `expected`.

    Args:
        some: keys may be missing.
        owner: the object whose attributes the keys become; None for a dict. Keys of other versions may be added.
    """
    if isinstance(expected, Mapping):
        if not isinstance(found, Mapping):
            raise _misfit(file, f"{where} is a {type(found).__name__}, expected a dict")
        needed = [name for name in expected if not str(name).startswith("_")]  # others differ between versions
        if missing := [name for name in needed if name not in found and not some]:
            raise _misfit(file, f"{where} lacks {missing[0]!r}")
        if methods := [name for name in found if name not in expected and hasattr(type(owner), str(name))]:
            raise _misfit(file, f"{where} has {methods[0]!r}, which is no state")
        for name, value in expected.items():
            if name in found:
                check_like(file, found[name], value, f"{where}: {name}")
    elif isinstance(expected, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(expected):
            raise _misfit(file, f"{where} is {_shown(found)}, expected {len(expected)} values")
        for i, (value, own) in enumerate(zip(found, expected, strict=True)):
            check_like(file, value, own, f"{where} {i}")
    elif isinstance(expected, Tensor) and isinstance(found, Tensor):
        if found.shape != expected.shape:
            raise _misfit(file, f"{where} has shape {tuple(found.shape)}, expected {tuple(expected.shape)}")
    elif isinstance(expected, str) or isinstance(found, (str, Mapping, list, tuple)):
        if not (isinstance(expected, str) and isinstance(found, str)):
            raise _misfit(file, f"{where} is {_shown(found)}, expected {_shown(expected)}")
    elif found is None and _is_number(expected):
        raise _misfit(file, f"{where} is None, expected a number")
    elif not isinstance(found, (int, float, Tensor, type(None))):
        raise _misfit(file, f"{where} is {_shown(found)}, expected {_shown(expected)}")


def check_random_state(file: Path) -> None:
    """Raises ValueError unless `file` holds states of the generators of Python, NumPy and PyTorch."""
    state = read_state(file)
    for name in GENERATORS:
        if name not in state:
            raise _misfit(file, f"it has no state of {name!r}")
        try:  # generators of their own: those of the process stay as they are
            if name == "python":
                random.Random().setstate(state[name])
            elif name == "numpy":
                np.random.RandomState().set_state(state[name])
            else:
                torch.Generator().set_state(state[name])
        except Exception as error:
            raise _misfit(file, f"{name!r} is no state of a generator of random numbers") from error
    for name in state.keys() - set(GENERATORS):
        values = state[name] if isinstance(state[name], (list, tuple)) else [state[name]]
        if not all(isinstance(value, Tensor) and value.dtype == torch.uint8 for value in values):
            raise _misfit(file, f"{name!r} is no state of a generator of random numbers")


def check_run_state(file: Path, callbacks: Sequence[Any]) -> dict[str, Any]:
    """The content of `trainer_state.json`.

    Args:
        callbacks: those of the run, and its control; some of them have states in the file.

    Raises:
        ValueError: it is not JSON, or a value is not of its field's type.
    """
    state = json_object(file, REMEDY)
    hints = get_type_hints(TrainerState)
    for name, value in state.items():
        if name not in hints:
            raise _misfit(file, f"it has a field {name!r}, which no run has")
        kinds = get_args(hints[name]) or (hints[name],)
        may_be_none = name not in ("global_step", "epoch")
        plain = [kind for kind in kinds if kind in (int, float, bool, str)]
        if not plain or (value is None and may_be_none):
            continue
        if not (isinstance(value, plain[0]) or (plain[0] in (int, float) and _is_number(value))):
            raise _misfit(file, f"`{name}` is {_shown(value)}, expected {plain[0].__name__}")
    for name, kind in (("global_step", int), ("max_steps", int), ("epoch", float)):
        value = state.get(name)
        if not _is_number(value, kind) or not 0 <= value < math.inf:  # type: ignore[operator]  # a number
            raise _misfit(file, f"`{name}` is {_shown(value)}, expected a number of at least 0")
    log = state.get("log_history")
    if not isinstance(log, list) or not all(isinstance(entry, dict) and _is_number(entry.get("step")) for entry in log):
        raise _misfit(file, "`log_history` is not a list of logs, each with its `step`")
    stored = state.get("stateful_callbacks") or {}
    if not isinstance(stored, dict):
        raise _misfit(file, f"`stateful_callbacks` is a {type(stored).__name__}, expected an object")
    for callback in callbacks:
        name = type(callback).__name__
        each = stored.get(name, [])
        for found in each if isinstance(each, list) else [each]:
            check_like(file, found, callback.state() if isinstance(callback, ExportableState) else {}, name)
    return state


def _misfit(file: Path | str, what: str) -> ValueError:
    return ValueError(f"{file} does not fit this run: {what}. {REMEDY}")


def _is_number(value: Any, kind: type = float) -> bool:
    return isinstance(value, (int, kind)) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, (int, float, str, type(None))) else f"a {type(value).__name__}"
    return text if len(text) <= 40 else f"{text[:37]}..."


# Weights of a folder under the names of a net. transformers 5 renames tensors of many architectures (SegFormer, ESM,
# Nomic-BERT) when it loads them, and renames them back when it saves them. Code that reads such a file directly, as the
# Trainer does, finds most of the net missing and leaves it unchanged.


def are_renamed(net: PreTrainedModel, folder: str | Path) -> bool:
    """True if the safetensors of `folder` have tensor names that `net` lacks."""
    return not _files_by_name(folder).keys() <= net.state_dict().keys()


def read_renamed(net: PreTrainedModel, folder: str | Path) -> dict[str, Tensor]:
    """The tensors that `net.save_pretrained(folder)` wrote, under the names of `net.state_dict()`. Parts that the
    class itself lacks, such as a CRF, keep their names.

    Raises:
        ValueError: tensors are missing or superfluous, or have another shape.
    """
    check_origin(folder)
    try:
        loaded: Any = type(net).from_pretrained(
            folder, config=copy.deepcopy(net.config), dtype=net.dtype, use_safetensors=True, output_loading_info=True
        )
        saved, info = loaded  # because of `output_loading_info`
    except RuntimeError as error:  # shapes
        raise ValueError(f"The weights in {folder} do not fit this {type(net).__name__}: {error}") from error
    unknown = set(info["unexpected_keys"]) - net.state_dict().keys()
    for names, what in ((info["missing_keys"], "missing"), (unknown, "not part of it")):
        if names:
            raise ValueError(
                f"The weights in {folder} do not fit this {type(net).__name__}: {', '.join(sorted(names))} are {what}."
            )
    weights, files = saved.state_dict(), _files_by_name(folder)
    for name in net.state_dict().keys() - weights.keys():
        with safe_open(files[name], "pt") as tensors:
            weights[name] = tensors.get_tensor(name)
    return weights


def _files_by_name(folder: str | Path) -> dict[str, Path]:
    """The file of each tensor; empty if there are no safetensors."""
    folder = Path(folder)
    if (folder / SAFE_WEIGHTS_INDEX_NAME).is_file():
        index = json.loads((folder / SAFE_WEIGHTS_INDEX_NAME).read_text(encoding="utf-8"))["weight_map"]
        return {name: folder / file for name, file in index.items()}
    if not (folder / SAFE_WEIGHTS_NAME).is_file():
        return {}
    with safe_open(folder / SAFE_WEIGHTS_NAME, "pt") as tensors:
        return dict.fromkeys(tensors.keys(), folder / SAFE_WEIGHTS_NAME)
