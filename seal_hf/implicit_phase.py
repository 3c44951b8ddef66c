"""The loss-net's phase with implicit gradients: the nets as the functions that `implicit.py` differentiates.

Of a window of micro-batches, `Implicit.solve` finds the directions of the hypergradient, with the loss-net as it is.
Each direction then becomes columns in the row of candidates of the loss-net's own forward: ŷ(φ), or with finite
differences ŷ(φ ± εu), and `Pulled.term` of their energies is what is added to the energy loss. So the loss-net still
runs once per micro-batch, and its wrapper, accumulation and loss scaling know nothing of all this.

All of it is float32 without dropout, whatever the run has: a difference of half-precision gradients has no digits.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers.utils import logging

from .energy_losses import EnergyLoss
from .implicit import (
    Hypergradient,
    Parameters,
    Pulls,
    Reduce,
    compare,
    detached,
    finite_step,
    moved,
    select_parameters,
    unflatten,
)
from .learner import evaluating
from .loss_net import LossNet
from .spaces import OutputSpace

logger = logging.get_logger(__name__)

FINITE_DIFFERENCES = "finite_differences"
FUSED_ATTENTION = ("flash_attention_2", "flash_attention_3", "flex_attention")  # kernels without a second derivative


class TaskFunction:
    """A task-net as a function φ -> logits of some of its parameters.

    Args:
        model: the raw task-net.
        subset: which parameters, see [`select_parameters`]. Where they all lie in the module that gives the logits, as
            `head` does in most architectures, the function starts from what that module was given in the run's own
            forward, and the encoder is not run again.
    """

    def __init__(self, model: nn.Module, subset: str):
        names = list(select_parameters(model, subset))
        shared = os.path.commonprefix([name.split(".")[:-1] for name in names])  # the module that holds all of them
        self.model, self.names = model, names
        self.prefix = ".".join(shared)
        self.head = model.get_submodule(self.prefix) if shared else None
        self._seen, self._last = None, None

    def parameters(self) -> Parameters:
        """φ as it is now: copies, in float32, by name."""
        own = dict(self.model.named_parameters())
        return detached({name: own[name] for name in self.names})

    @contextlib.contextmanager
    def watch(self):
        """Inside, a forward of the model leaves the head's input to the next call of `on`."""
        if self.head is None:
            yield
            return

        def keep(module, args, kwargs, output):
            self._seen = _detach(args), _detach(kwargs), output.detach() if torch.is_tensor(output) else None

        handle = self.head.register_forward_hook(keep, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()

    def on(self, inputs: dict[str, Tensor], logits: Tensor) -> Callable[[Parameters], Tensor]:
        """φ -> logits of this micro-batch. `inputs` and `logits` are those of the last forward that was watched."""
        seen, self._seen = self._seen, None
        if seen is None or not self._is_last(seen[2], logits):
            whole = _OwnForward(self.model)
            rest = {f"net.{name}": p.detach() for name, p in self.model.named_parameters()}
            return lambda phi: self._call(whole, rest | {f"net.{k}": p for k, p in phi.items()}, (), inputs).logits
        args, kwargs, _ = seen
        cut = len(self.prefix) + 1
        return lambda phi: self._call(self.head, {name[cut:]: p for name, p in phi.items()}, args, kwargs)

    def _is_last(self, output: Tensor | None, logits: Tensor) -> bool:
        """Whether the head gives the logits. Looked at once: no wrapper or precision changes that, though they copy."""
        if self._last is None:
            same = output is not None and output.shape == logits.shape
            self._last = same and torch.allclose(output.float(), logits.detach().float(), rtol=1e-2, atol=1e-6)
        return self._last

    def _call(self, module: nn.Module, phi: Parameters, args, kwargs):
        device = next(iter(phi.values())).device.type
        with evaluating(module), torch.autocast(device, enabled=False), sdpa_kernel(SDPBackend.MATH):
            return functional_call(module, phi, args, kwargs)


class _OwnForward(nn.Module):
    """The forward of a net's class: in half precision accelerate puts one with autocast in its place."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def forward(self, **inputs: Tensor):
        return type(self.net).forward(self.net, **inputs)


def _detach(values):
    """Tensors without gradient, floating ones in float32, in the tuple or dict they are in."""
    if isinstance(values, dict):
        return {name: _detach(value) for name, value in values.items()}
    if isinstance(values, (tuple, list)):
        return type(values)(_detach(value) for value in values)
    if not torch.is_tensor(values):
        return values
    return values.detach().float() if values.is_floating_point() else values


@dataclass
class MicroBatch:
    """What the losses read of one micro-batch.

    Attributes:
        function: φ -> logits, see `TaskFunction.on`.
        labels: as the data has them.
        features: T_E(x) of the loss-net, (B, H), detached.
        noise: a generator in the same state at every call.
        space: the run's, with what it knows of this micro-batch.
    """

    function: Callable[[Parameters], Tensor]
    labels: Tensor
    features: Tensor
    noise: Callable[[], torch.Generator]
    space: OutputSpace


@dataclass
class Pulled:
    """The directions of one update of the loss-net, as columns of candidates; without any, nothing is added."""

    implicit: Implicit | None = None
    batches: list[MicroBatch] = field(default_factory=list)
    pulls: Pulls = field(default_factory=lambda: Pulls({}))
    energy_weight: float = 0.0

    def logits(self, i: int, logits: Tensor) -> Tensor:
        """Logits of micro-batch `i` at which the outer loss is taken: those of the run, unless steps were unrolled."""
        if self.implicit is None or self.implicit.config.method != "unrolled":
            return logits
        with torch.no_grad():
            return self.batches[i].function(self.pulls.outer_point)

    def row(self, i: int, y: Tensor) -> Tensor:
        """The candidates of micro-batch `i`, (B, S, ...), and after them the columns of the directions."""
        if self.implicit is None:
            return y
        space, function = self.implicit.space, self.batches[i].function
        if self.implicit.config.product != FINITE_DIFFERENCES:
            points = self.pulls.points
        else:
            moves = zip(self.pulls.points, self.pulls.directions, strict=True)
            points = [moved(p, u, sign * finite_step(p, u)) for p, u in moves for sign in (1, -1)]
        with torch.set_grad_enabled(self.implicit.config.product != FINITE_DIFFERENCES):
            return space.join([y, *(space.output(function(point)) for point in points)])

    def split(self, energies: Tensor) -> tuple[Tensor, Tensor | float]:
        """Energies of such a row -> those of the candidates, and the `term` of the rest."""
        if self.implicit is None:
            return energies, 0.0
        columns = len(self.pulls.points) * (2 if self.implicit.config.product == FINITE_DIFFERENCES else 1)
        return energies[:, :-columns], self.term(energies[:, -columns:])

    def term(self, energies: Tensor) -> Tensor:
        """From the energies of these columns: minus the derivatives of λ1 · task term along the directions, whose
        gradient in the loss-net is the implicit term."""
        total = energies.new_zeros(())
        if self.implicit.config.product == FINITE_DIFFERENCES:
            pairs = energies.unsqueeze(2).unbind(1)
            for point, direction, ahead, behind in zip(
                self.pulls.points, self.pulls.directions, pairs[::2], pairs[1::2], strict=True
            ):
                slope = (self._inner(ahead) - self._inner(behind)) / (2 * finite_step(point, direction))
                total = total - slope
            return total
        for i, (point, direction) in enumerate(zip(self.pulls.points, self.pulls.directions, strict=True)):
            grads = torch.autograd.grad(
                self._inner(energies[:, i : i + 1]), list(point.values()), create_graph=True, materialize_grads=True
            )
            parts = unflatten(direction, point).values()
            total = total - sum((g * part).sum() for g, part in zip(grads, parts, strict=True))
        return total

    def _inner(self, energy: Tensor) -> Tensor:
        """The part of the inner loss that the loss-net shapes."""
        return self.energy_weight * self.implicit.energy_loss.task_term(energy)


class Implicit:
    """Implicit gradients of a task-net and a loss-net.

    Args:
        config: the method and its options.
        model: the raw task-net.
        subset: the parameters that the Hessian runs over, see [`select_parameters`].
        loss_net: the raw loss-net.
        space, energy_loss: as in the run; `energy_loss` is the outer loss.
        task_weight: λ2.
    """

    def __init__(
        self,
        config: Hypergradient,
        model: nn.Module,
        subset: str,
        loss_net: LossNet,
        space: OutputSpace,
        energy_loss: EnergyLoss,
        task_weight: float = 1.0,
    ):
        self.config, self.task_function = config, TaskFunction(model, subset)
        self.loss_net, self.space, self.energy_loss, self.task_weight = loss_net, space, energy_loss, task_weight
        self._warned = False

    def inner(self, batch: MicroBatch, energy_weight: float) -> Callable[[Parameters], Tensor]:
        """L_in = λ2 task loss + λ1 task term of E(x, ŷ), a function of φ."""

        def loss(phi: Parameters) -> Tensor:
            logits = batch.function(phi)
            _, mask = self.space.gold(batch.labels)
            energy = self.loss_net.energies(batch.features, self.space.output(logits), mask)
            task_loss = self.space.task_loss(logits, batch.labels, batch.noise())
            return self.task_weight * task_loss + energy_weight * self.energy_loss.task_term(energy)

        return loss

    def outer(self, batch: MicroBatch) -> Callable[[Parameters], Tensor]:
        """L_out, the energy loss, as a function of φ through the task-net's relaxed output."""

        def loss(phi: Parameters) -> Tensor:
            candidates = self.energy_loss.candidates(
                batch.space, batch.function(phi), batch.labels, batch.noise(), differentiable=True
            )
            return self.energy_loss(self.loss_net.energies(batch.features, candidates.y, candidates.mask), candidates)

        return loss

    def solve(self, batches: list[MicroBatch], energy_weight: float, reduce: Reduce) -> Pulled:
        """The directions for the next update of the loss-net, which must be frozen here.

        Args:
            batches: the window.
            energy_weight: λ1.
            reduce: mean of a vector over the processes.
        """
        inners = [self.inner(batch, energy_weight) for batch in batches]
        outers = [self.outer(batch) for batch in batches]
        pulls = self.config.pulls(inners, outers, self.task_function.parameters(), reduce)
        return Pulled(self, batches, pulls, energy_weight)

    def warn(self, logs: dict[str, float]) -> None:
        """Say, once, what to do about an inverse that failed since the last log."""
        residual, curvature = (logs.get(f"hypergradient_{name}") for name in ("residual", "curvature"))
        advice = None if residual is None else self.config.advice(residual, curvature)
        if advice is not None and not self._warned:
            self._warned = True
            logger.warning(advice)

    @staticmethod
    def compare(loss: Tensor, term: Tensor, theta: list[Tensor]) -> dict[str, Tensor]:
        """Norms and cosine of the direct and the full gradient, of one micro-batch on this process; a backward of
        each."""
        direct, implicit = (
            torch.autograd.grad(value, theta, retain_graph=True, materialize_grads=True) for value in (loss, term)
        )
        return compare(direct, implicit)
