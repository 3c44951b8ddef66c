"""Implicit gradients in a run: the nets as the functions that `extensions/hypergradient.py` differentiates.

For a window of micro-batches, `ImplicitGradients.solve` finds the direction of the hypergradient at the present
loss-net. The direction then adds a column to the row of candidates in the loss-net's own forward: the task-net's output
at the point of a [`Line`]. The slope of its energy is added to the energy loss. So the loss-net still runs once
per micro-batch, without changes to its wrapper, accumulation and loss scaling.

Everything is float32, whatever the run uses. It is also without dropout, except in the loss-net's encoder in its own
forward, which uses one mask for a whole row. Batch normalisation uses the statistics of the batch, as in the task-net's
own update.

Memory: both nets' graphs of the inner losses of the whole window are held until the direction is found. These are the
activations of a forward and its backward, for the energy and the part of the task-net from φ on (its head; for
`adapters` and `all` nearly the whole net). In the update itself the task-net's column keeps such a graph.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from accelerate.utils import DistributedType
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import logging

from ..core.space import OutputSpace
from ..energy_losses import EnergyLoss
from ..utils.modules import evaluating, frozen
from .base import Extension, MicroBatch, Run
from .hypergradient import (
    FUSED_ATTENTION,
    Adjoint,
    Hypergradient,
    Line,
    Parameters,
    TaskFunction,
    compare,
    select_parameters,
)

logger = logging.get_logger(__name__)

REPORTED = tuple(f"hypergradient_{name}" for name in ("residual", "curvature", "cosine"))  # at the end of a run
NORMS = ("hypergradient_implicit_norm", "hypergradient_direct_norm")
IDLE = 1e-3  # below this share of the direct term, Adam's steps are those without the implicit one


class ImplicitGradients(Extension):
    """Implicit gradients of a run's task-net and loss-net; the run's energy loss is the outer loss."""

    differentiates_twice = True

    def __init__(self, run: Run):
        super().__init__(run)
        self.config = Hypergradient.from_arguments(run.args)
        self.task_function = TaskFunction(run.task_net, run.args.hypergradient_parameters)
        self.loss_net, self.space, self.energy_loss = run.loss_net, run.space, run.energy_loss
        self.adjoint: Any = None  # of an update
        self._line: Any = None  # of a micro-batch
        self._warned = False

    @classmethod
    def is_wanted(cls, args: Any, energy_loss: EnergyLoss | type[EnergyLoss], space: OutputSpace) -> bool:
        return args.hypergradient != "none"

    # --- the losses --------------------------------------------------------------------------------------------------

    def inner(self, batch: MicroBatch, update: int, weight: float) -> Callable[[Parameters], Tensor]:
        """L_in = λ2 task loss + λ1 task term of E(x, ŷ), a function of φ."""

        def loss(phi: Parameters) -> Tensor:
            logits = batch.logits_of(phi)
            _, mask = batch.space.gold(batch.labels)
            energy = self.loss_net.energies(batch.features, batch.space.output(logits), mask)
            task_loss = batch.space.task_loss(logits, batch.labels, batch.noise(update))
            return self.run.args.task_weight * task_loss + weight * self.energy_loss.task_term(energy)

        return loss

    def outer(self, batch: MicroBatch, update: int) -> Callable[[Parameters], Tensor]:
        """L_out, the energy loss, as a function of φ through the task-net's relaxed output."""

        def loss(phi: Parameters) -> Tensor:
            candidates = self.energy_loss.candidates(
                batch.space, batch.logits_of(phi), batch.labels, batch.noise(update), differentiable=True
            )
            return self.energy_loss(self.loss_net.energies(batch.features, candidates.y, candidates.mask), candidates)

        return loss

    def solve(
        self,
        batches: list[MicroBatch],
        update: int,
        weight: float,
        reduce: Callable[[Tensor], Tensor],
    ) -> Adjoint:
        """The direction for an update of the loss-net, which must be frozen here.

        Args:
            batches: the window; their features are T_E(x), the result of `LossNet.encode`.
            weight: λ1.
            reduce: mean of a vector over the processes.
        """
        inners = [self.inner(batch, update, weight) for batch in batches]
        outers = [self.outer(batch, update) for batch in batches]
        return self.config.adjoint(inners, outers, self.task_function.parameters(), reduce)

    # --- a step ------------------------------------------------------------------------------------------------------

    def watching(self) -> contextlib.AbstractContextManager:
        return self.task_function.watch()

    def prepare(self, batch: MicroBatch, outputs: Any) -> MicroBatch:
        """Adds the logits as a function of φ."""
        raw = self.task_function.on(batch.inputs)
        return replace(batch, logits_of=lambda phi: self.space.fit(raw(phi), batch.labels))

    def begin_update(self, window: list[MicroBatch], update: int, weight: float | None) -> list[MicroBatch]:
        """Find the direction."""
        assert weight is not None, "λ1 is no share with implicit gradients, see `check_hypergradient`"
        accelerator, encoded = self.run.accelerator, []
        with frozen(self.loss_net), evaluating(self.loss_net):
            for batch in window:
                with torch.no_grad(), self.loss_net.active(), accelerator.autocast():
                    features = self.loss_net.encode(batch.inputs, batch.features).float()
                encoded.append(replace(batch, features=features))
            mean = lambda vector: accelerator.reduce(vector, reduction="mean")  # noqa: E731
            self.adjoint = self.solve(encoded, update, weight, mean)
        self.weight = weight
        found = {f"hypergradient_{name}": value for name, value in self.adjoint.diagnostics.items()}
        self.run.meters.add(**found)
        return window

    def columns(self, batch: MicroBatch) -> list[Any]:
        """The task-net's output along the direction."""
        self._line = Line(self.adjoint.parameters, self.adjoint.direction)
        with torch.enable_grad(), frozen(self.task_function.model):
            return [batch.space.output(batch.logits_of(self._line.point))]

    def loss_net_term(self, batch: MicroBatch, energies: Tensor, loss: Tensor) -> Tensor:
        """Minus the slope of λ1 · task term along the direction. Its gradient in the loss-net is the implicit term of
        the hypergradient, since the task loss does not depend on the loss-net."""
        term = -self._line.slope(self.weight * self.energy_loss.task_term(energies))
        self._compare(loss, term)
        return term

    def end_phase(self) -> None:
        self.adjoint = self._line = None

    def _compare(self, loss: Tensor, term: Tensor) -> None:
        """Meter norms and cosine of the direct and the full gradient, for one micro-batch per log on this process: each
        takes a backward."""
        if "hypergradient_cosine" in self.run.meters:
            return
        theta = self.run.learner.parameters
        direct, implicit = (
            torch.autograd.grad(value, theta, retain_graph=True, materialize_grads=True) for value in (loss, term)
        )
        self.run.meters.add(**{f"hypergradient_{name}": v for name, v in compare(direct, implicit).items()})

    # --- a run -------------------------------------------------------------------------------------------------------

    def read_log(self, facts: dict[str, float]) -> None:
        """Warn once with advice if an inverse failed since the last log."""
        residual, curvature = (facts.get(f"hypergradient_{name}") for name in ("residual", "curvature"))
        advice = None if residual is None or curvature is None else self.config.advice(residual, curvature)
        if advice is not None and not self._warned:
            self._warned = True
            logger.warning(advice)

    def closing_facts(self, logged: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """The last value of each diagnostic. Warns if the implicit term was too small to change the run."""
        last = {name: value for facts in logged for name, value in facts.items() if name in REPORTED}
        norms = [[facts[name] for name in NORMS] for facts in logged if facts.get(NORMS[1])]
        share = statistics.median(implicit / direct for implicit, direct in norms) if norms else IDLE
        if share < IDLE:
            logger.warning(
                f"implicit / direct {share:.0e}: the implicit term hardly changed the loss-net's gradient, so this run "
                f"trained as without `hypergradient`. Either λ1 is small, or {self.energy_loss.name} hardly depends on "
                "the task-net's output here. Leave `hypergradient` out, or try a larger `energy_weight`, or the losses "
                "margin and regression."
            )
        return {f"train_{name}": value for name, value in last.items()}


def check_hypergradient(
    args: Any,
    model: PreTrainedModel,
    space: OutputSpace,
    distributed_type: DistributedType,
) -> None:
    """Raises ValueError if the task-net's Hessian cannot be computed: for sparse label sets, for sharded parameters,
    for parameters that the task-net lacks, or through a kernel of attention without the derivative."""
    if args.hypergradient == "none":
        return
    what = f"`hypergradient` is {args.hypergradient!r}, but"
    num_labels: Any = model.config.num_labels
    if space.is_sparse(num_labels):
        raise ValueError(
            f"{what} label sets are sparse at {num_labels} labels, which cuts the output to its largest entries. Set "
            "`sparse_labels_from` above the number of labels."
        )
    if distributed_type not in (DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU):
        raise ValueError(f"{what} {distributed_type.value} shards the task-net. Launch it with DDP.")
    kernel = getattr(model.config, "_attn_implementation", None)
    if kernel in FUSED_ATTENTION and args.hypergradient_parameters != "head":
        raise ValueError(
            f"{what} the task-net's attention, {kernel}, has no second derivative. Use "
            "hypergradient_parameters='head', or load the task-net with attn_implementation='sdpa'."
        )
    select_parameters(model, args.hypergradient_parameters)
