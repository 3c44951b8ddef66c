"""Adapters on a frozen base, for the task-net alone or one for each net."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import PreTrainedModel
from transformers.utils import logging

from ...utils.messages import check_owner
from .base import LOSS_ADAPTER, AdapterLibrary, LossAdapter
from .bottleneck import Adapters
from .peft import QUANTIZATIONS, Peft, check_quantised

logger = logging.get_logger(__name__)

LIBRARIES: dict[str, AdapterLibrary] = {library.mode: library for library in (Peft(), Adapters())}
METHODS: dict[str, str] = {method: mode for mode, library in LIBRARIES.items() for method in library.methods()}

__all__ = [
    "LIBRARIES",
    "LOSS_ADAPTER",
    "METHODS",
    "QUANTIZATIONS",
    "AdapterLibrary",
    "LossAdapter",
    "check_adapters",
    "library_of",
    "not_installed",
    "with_adapter",
]


def library_of(model: nn.Module) -> AdapterLibrary | None:
    """The library whose adapter this task-net trains; None for full fine-tuning."""
    return next((library for library in LIBRARIES.values() if library.owns(model)), None)


def check_adapters(model: nn.Module) -> None:
    """Raises ValueError for adapters that would not be restored as they were saved: those of transformers' own PEFT
    integration, those that their library saves under another name, and several active ones of which it saves one; and
    for quantised weights without adapters of PEFT."""
    if getattr(model, "_hf_peft_config_loaded", False):
        raise ValueError(
            "The task-net has an adapter from transformers' own integration (add_adapter, or from_pretrained of an "
            "adapter), whose weights are not part of a plain model. Wrap the plain model with peft.get_peft_model, or "
            "load it with SealForMultiLabel.from_pretrained(..., adapter='lora') or the like."
        )
    library = library_of(model)
    if library is not None:
        library.check(model)
    check_quantised(model, library is LIBRARIES["peft"])


def with_adapter(
    model: PreTrainedModel,
    loss_net_encoder: str | None,
    adapter: Any = None,
    rank: int | None = None,
    targets: str | list[str] | None = None,
    revision: str | None = None,
) -> PreTrainedModel:
    """The task-net, with a fresh adapter if one is requested by name or needed by the loss-net's adapter.

    Args:
        adapter: one of `METHODS`, or a configuration of PEFT; None: LoRA or Pfeiffer's, as `loss_net_encoder` says.
        revision: of the base on the Hub, from which the saved adapter loads it again.

    Raises:
        ValueError: the method is unknown, is not of the library that `loss_net_encoder` names, or its library is not
            installed; `rank` or `targets` without an adapter.
    """
    if library_of(model) is not None:
        asked = {"adapter": adapter, "adapter_rank": rank, "adapter_targets": targets}
        for name in (name for name, value in asked.items() if value is not None):
            logger.warning(f"The task-net keeps the adapter it has; `{name}`, {asked[name]!r}, is for a fresh one.")
        return model
    if adapter is None:
        if loss_net_encoder not in LIBRARIES:
            check_owner({"adapter_rank": rank, "adapter_targets": targets}, "an adapter", "`adapter` is None")
            return model
        adapter = LIBRARIES[loss_net_encoder].methods()[0]
    mode = METHODS.get(adapter) if isinstance(adapter, str) else "peft"
    if not getattr(model, "takes_adapters", True):
        raise ValueError(
            f"`adapter` is {adapter!r}, but the task-net, {type(model).__name__}, reads texts in windows and cannot "
            "have an adapter. Leave it out, or cut the texts: long_texts='cut'."
        )
    if mode is None:
        raise ValueError(f"`adapter` is {adapter!r}; it must be one of {', '.join(METHODS)}, or a PEFT configuration.")
    if loss_net_encoder in LIBRARIES and loss_net_encoder != mode:
        raise ValueError(
            f"`adapter` is {adapter!r}, of the library {mode!r}, but `loss_net_encoder` is {loss_net_encoder!r}: both "
            f"adapters share one base. Use one of {', '.join(LIBRARIES[loss_net_encoder].methods())}, or "
            f"loss_net_encoder={mode!r}."
        )
    try:
        wrapped = LIBRARIES[mode].wrap(model, adapter, rank, targets)
    except ImportError as error:
        raise ValueError(f"`adapter` is {adapter!r}, of the library {mode!r}, {not_installed(mode)}") from error
    if revision is not None:
        LIBRARIES[mode].pin(wrapped, revision)
    return wrapped


def not_installed(mode: str) -> str:
    """The end of a message about a library of `LIBRARIES` that is not installed: it says how to install it."""
    hint = "; it needs transformers 4.57: constraints-adapters.txt" if mode == "adapters" else ""
    return f"which is not installed: pip install {mode}{hint}."
