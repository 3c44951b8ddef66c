"""The loss-net's phase with implicit gradients: the nets as the functions that `hypergradient.py` differentiates.

Of a window of micro-batches, `Implicit.solve` finds the directions of the hypergradient, with the loss-net as it is.
Each direction then becomes columns in the row of candidates of the loss-net's own forward: the task-net's output at the
points of a [`Line`], whose slope in their energies is what is added to the energy loss. So the loss-net still runs once
per micro-batch, and its wrapper, accumulation and loss scaling know nothing of all this.

All of it is float32, whatever the run has: a difference of half-precision gradients has no digits. It is without
dropout too, but for that of the loss-net's encoder in its own forward: one mask for a whole row. Batch normalisation is
by the statistics of the batch, as in the task-net's own update.

Memory: double backward holds both nets' graphs of the inner losses of the whole window until the directions are found,
that is, the activations of the energy and of the part of the task-net from φ on (its head; for `adapters` and `all`,
nearly the whole net), of a forward and of the backward through it; the other products hold one forward's of one
micro-batch at a time. In the update itself the task-net's columns keep such a graph for every direction (`unrolled` has
one per step), but for finite differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers.utils import logging

from ..energy_losses import EnergyLoss
from ..second_net.loss_net import LossNet
from ..spaces import OutputSpace
from .hypergradient import FINITE_DIFFERENCES, Adjoints, Hypergradient, Line, Parameters, Reduce, compare
from .task_function import TaskFunction

logger = logging.get_logger(__name__)

REPORTED = tuple(f"hypergradient_{name}" for name in ("residual", "curvature", "cosine"))  # at the end of a run


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


class ImplicitTerm:
    """What implicit gradients add to an update of the loss-net; here, where there are none: nothing."""

    def logits(self, i: int, logits: Tensor) -> Tensor:
        """Logits of micro-batch `i` at which the outer loss is taken: those of the run, unless steps were unrolled."""
        return logits

    def row(self, i: int, y: Tensor) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, Tensor | float]]]:
        """Of micro-batch `i` and its candidates (B, S, ...): the row that the loss-net takes, and what makes of its
        energies those of the candidates, (B, S), and the term that joins the energy loss."""
        return y, lambda energies: (energies, 0.0)


@dataclass
class AlongAdjoints(ImplicitTerm):
    """The directions of one update of the loss-net, as columns of candidates."""

    implicit: Implicit
    batches: list[MicroBatch]
    adjoints: Adjoints
    energy_weight: float

    def logits(self, i: int, logits: Tensor) -> Tensor:
        if self.implicit.config.method != "unrolled":
            return logits
        with torch.no_grad():
            return self.batches[i].function(self.adjoints.outer_point)

    def row(self, i: int, y: Tensor) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, Tensor]]]:
        """The term is minus the slopes of λ1 · task term along the directions; its gradient in the loss-net is the
        implicit term of the hypergradient, the task loss being no function of the loss-net."""
        product, space, function = self.implicit.config.product, self.implicit.space, self.batches[i].function
        lines = [Line(p, u, product) for p, u in zip(self.adjoints.points, self.adjoints.directions, strict=True)]
        with torch.set_grad_enabled(product != FINITE_DIFFERENCES):
            columns = [space.output(function(point)) for line in lines for point in line.points]

        def split(energies: Tensor) -> tuple[Tensor, Tensor]:
            energies, *along = energies.split([y.shape[1], *(1 for _ in columns)], dim=1)
            values = iter(self.energy_weight * self.implicit.energy_loss.task_term(energy) for energy in along)
            return energies, -sum(line.slope([next(values) for _ in line.points]) for line in lines)

        return space.join([y, *columns]), split


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
        self.last: dict[str, float] = {}  # diagnostics that were logged
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

    def solve(self, batches: list[MicroBatch], energy_weight: float, reduce: Reduce) -> AlongAdjoints:
        """The directions for the next update of the loss-net, which must be frozen here.

        Args:
            batches: the window.
            energy_weight: λ1.
            reduce: mean of a vector over the processes.
        """
        inners = [self.inner(batch, energy_weight) for batch in batches]
        outers = [self.outer(batch) for batch in batches]
        adjoints = self.config.adjoints(inners, outers, self.task_function.parameters(), reduce)
        return AlongAdjoints(self, batches, adjoints, energy_weight)

    def read(self, logs: dict[str, float]) -> None:
        """Keep the diagnostics, and say, once, what to do about an inverse that failed since the last log."""
        self.last |= {name: value for name, value in logs.items() if name in REPORTED}
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
