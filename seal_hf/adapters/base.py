"""What any adapter library must be able to do here, and the loss-net's view of a base that it does not own."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

if TYPE_CHECKING:
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

LOSS_ADAPTER = "loss"


class LossAdapter(ABC):
    """The loss-net's adapter in the task-net's frozen base; it stands where a loss-net has its encoder.

    Made after the task-net's own adapter. The base is not a submodule: it belongs to the task-net. Outside of `active`
    the base runs with the task-net's adapter and this one takes no gradient, so that neither the Trainer's optimizer
    nor its DDP wrapper sees it.

    Args:
        model: the task-net, with its adapter.
        config: of the loss adapter, as in [`LossNetConfig`]; default: as the task-net's.
    """

    def __init__(self, model: PreTrainedModel, config: dict[str, Any] | None = None):
        self.model = model
        before = {name for name, _ in model.named_parameters()}
        self.config = self._add(config)
        added = {name: parameter for name, parameter in model.named_parameters() if name not in before}
        self.named_parameters = {name: p for name, p in added.items() if ".pooler." not in name}  # we pool by means
        for parameter in added.values():
            parameter.requires_grad_(False)
        self._active = self._training = False

    @abstractmethod
    def _add(self, config: dict[str, Any] | None) -> dict[str, Any]:
        """Put the adapter into the base; its configuration, fit for JSON."""

    @abstractmethod
    def _switched(self) -> contextlib.AbstractContextManager:
        """Inside, a forward of the base runs through the loss adapter."""

    @property
    @abstractmethod
    def encoder(self) -> PreTrainedModel:
        """The base without its head."""

    def parameters(self) -> Iterator[nn.Parameter]:
        return iter(self.named_parameters.values())

    @contextlib.contextmanager
    def active(self, training: bool = False) -> Iterator[None]:
        """Inside, the base is the loss-net's encoder: no other parameter takes a gradient; its own do if `training`.

        Gradients are to be computed inside too: autograd drops those of parameters that are frozen by then, and
        gradient checkpointing runs the base again with the adapter of that moment.
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
        """The base's outputs, among them `last_hidden_state` (B, T, H); a graph only in the loss-net's phase, even
        where gradient checkpointing has made the embeddings ask for one."""
        with self.active(), torch.set_grad_enabled(self._training):
            return self.encoder(**inputs)


class AdapterLibrary(ABC):
    """One library of adapters. Each is imported when it is first used: they are extras."""

    mode: str  # the `loss_net_encoder` that puts a second adapter of this library into the base
    loss_adapter: type[LossAdapter]

    @abstractmethod
    def methods(self) -> tuple[str, ...]:
        """Names that `wrap` takes."""

    @abstractmethod
    def owns(self, model: nn.Module) -> bool:
        """Whether the model trains an adapter of this library."""

    @abstractmethod
    def check(self, model: nn.Module) -> None:
        """Raises ValueError where the adapters in use would not come back as they are saved."""

    @abstractmethod
    def wrap(
        self, model: PreTrainedModel, method: Any, rank: int | None, targets: str | list[str] | None
    ) -> PreTrainedModel:
        """The task-net with a fresh adapter on a frozen base; its classifier stays trainable."""

    @abstractmethod
    def mergeable(self, model: nn.Module) -> bool:
        """Whether the adapter can become part of plain weights."""

    @abstractmethod
    def merged(self, model: nn.Module, loss_adapter: bool = False) -> PreTrainedModel:
        """A plain copy, with the task-net's adapter (or the loss-net's) merged into its weights; `model` stays."""

    @abstractmethod
    def save(self, model: nn.Module, folder: str | Path) -> None:
        """The task-net's adapter and classifier alone, as the library's own users load it; safetensors."""

    @abstractmethod
    def load(self, model: nn.Module, folder: str | Path) -> None:
        """What `save` wrote, into `model`, in place."""

    @abstractmethod
    def from_folder(
        self, folder: str | Path, auto_class: type[_BaseAutoModelClass], **kwargs: Any
    ) -> PreTrainedModel | None:
        """The task-net that `save` wrote, on its base, which `auto_class` loads; None where the folder is not of this
        library."""
