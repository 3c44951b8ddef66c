"""The interface of an adapter library, and the loss-net's view of a base that it does not own."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from ...utils.gate import check_trust

LoadBase = Callable[..., PreTrainedModel]  # a task-net without adapter, from (name, options of `from_pretrained`)

LOSS_ADAPTER = "loss"


class LossAdapter(ABC):
    """The loss-net's adapter in the task-net's frozen base; it replaces a loss-net's encoder.

    Make it after the task-net's own adapter. The base is not a submodule: it belongs to the task-net. Outside `active`
    the base runs with the task-net's adapter, and this adapter requires no gradient, so that neither the Trainer's
    optimizer nor its DDP wrapper sees it.

    Args:
        model: the task-net, with its adapter.
        config: of the loss adapter, as in [`LossNetConfig`]; default: like the task-net's.
    """

    def __init__(self, model: PreTrainedModel, config: dict[str, Any] | None = None):
        self.model = model
        before = {name for name, _ in model.named_parameters()}
        self.config = self._add(config)
        added = {name: parameter for name, parameter in model.named_parameters() if name not in before}
        self.named_parameters = {name: p for name, p in added.items() if ".pooler." not in name}  # features are means
        for parameter in added.values():
            parameter.requires_grad_(False)
        self._active = self._training = False

    @abstractmethod
    def _add(self, config: dict[str, Any] | None) -> dict[str, Any]:
        """Add the adapter to the base; returns its configuration, ready for JSON."""

    @abstractmethod
    def _switched(self) -> contextlib.AbstractContextManager:
        """Run forwards of the base through the loss adapter while the block runs."""

    @property
    @abstractmethod
    def encoder(self) -> PreTrainedModel:
        """The base without its head."""

    def parameters(self) -> Iterator[nn.Parameter]:
        return iter(self.named_parameters.values())

    @contextlib.contextmanager
    def active(self, training: bool = False) -> Iterator[None]:
        """Make the base the loss-net's encoder while the block runs.

        If `training`, only the loss adapter's parameters get gradients.

        Run the backward inside too: autograd drops gradients of parameters that are frozen by then, and gradient
        checkpointing runs the base again with the adapter that is active at that moment.
        """
        if self._active:
            yield
            return
        flags = [(p, p.requires_grad) for p in self.model.parameters()]
        self._active, self._training = True, training
        try:
            with self._switched():
                for parameter, _ in flags:
                    parameter.requires_grad_(False)
                for parameter in self.parameters():
                    parameter.requires_grad_(training)
                yield
        finally:
            self._active = self._training = False
            for parameter, flag in flags:
                parameter.requires_grad_(flag)

    def __call__(self, **inputs: Tensor) -> BaseModelOutput:
        """The base's outputs, including `last_hidden_state` (B, T, H). They have a graph only in the loss-net's phase,
        even if gradient checkpointing made the embeddings' output require a gradient."""
        with self.active(), torch.set_grad_enabled(self._training):
            return self.encoder(**inputs)


def base_of(name: str, load: LoadBase, kwargs: dict[str, Any]) -> PreTrainedModel:
    """The base of a saved adapter; its own code needs a revision of its own. Raises OSError for a folder that is not
    here, and ValueError as [`check_origin`]."""
    if Path(name).is_absolute() and not Path(name).is_dir():
        raise OSError(f"{name}: no such folder.")
    kwargs = {key: value for key, value in kwargs.items() if key != "code_revision"}  # of the adapter's repo
    kwargs |= check_trust(name, kwargs.get("trust_remote_code", False), kwargs.get("revision"))
    return load(name, **kwargs)


class AdapterLibrary(ABC):
    """One library of adapters. The libraries are extras, so each is imported when it is first used."""

    mode: str  # the `loss_net_encoder` that adds a second adapter of this library to the base
    loss_adapter: type[LossAdapter]

    @abstractmethod
    def methods(self) -> tuple[str, ...]:
        """Names that `wrap` takes."""

    @abstractmethod
    def owns(self, model: nn.Module) -> bool:
        """True if the model trains an adapter of this library."""

    @abstractmethod
    def check(self, model: nn.Module) -> None:
        """Raises ValueError if the active adapters would not be restored as they are saved."""

    @abstractmethod
    def wrap(
        self, model: PreTrainedModel, method: Any, rank: int | None, targets: str | list[str] | None
    ) -> PreTrainedModel:
        """The task-net with a fresh adapter on a frozen base; its classifier stays trainable."""

    def pin(self, model: nn.Module, revision: str) -> None:  # noqa: B027  # a library may have no place for it
        """Record the base's revision, with which `from_folder` loads it."""

    @abstractmethod
    def mergeable(self, model: nn.Module) -> bool:
        """True if the adapter can be merged into plain weights."""

    @abstractmethod
    def merged(self, model: nn.Module, loss_adapter: bool = False) -> PreTrainedModel:
        """A plain copy, with the task-net's adapter (or the loss-net's) merged into its weights; `model` stays."""

    @abstractmethod
    def save(self, model: nn.Module, folder: str | Path) -> None:
        """Save only the task-net's adapter and classifier, in the library's own format; safetensors."""

    @abstractmethod
    def load(self, model: nn.Module, folder: str | Path) -> None:
        """Load what `save` wrote into `model`, in place."""

    @abstractmethod
    def from_folder(self, folder: str | Path, load: LoadBase, **kwargs: Any) -> PreTrainedModel | None:
        """The task-net that `save` wrote, on its base, which `load` gives; None if the folder is not of this
        library."""
