"""λ1, the weight of the energy in the task-net's loss: its schedule, and its balance against the task loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# share of λ1 that counts when the share t in [0, 1] of the run is done
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda t: 1.0,
    "rise": lambda t: t,
    "fall": lambda t: 1.0 - t,
}

DEAD = 1e-6  # of the task loss's gradient norm


def balanced(
    term: Tensor, task_loss: Tensor, logits: Tensor, reduce: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """The energy term, scaled to pull at the logits as hard as the task loss does, after gradient normalisation in
    multi-task learning (Chen et al. 2018):

        r · term,     r = ‖∂ task loss / ∂ logits‖ / ‖∂ term / ∂ logits‖,    r a constant for the backward

    A term whose pull has died (a millionth of the task loss's, as where σ(-E) is saturated) is left out, not revived.

    The two gradients at the logits cost a backward through the loss-net, which is not run again: what is returned has
    the value of r · term and its gradient in `logits`.

    Args:
        term: scalar, depends on the task-net through `logits` alone.
        task_loss: scalar.
        logits: (B, ...) of the task-net, with gradient.
        reduce: sums a tensor over the processes; the norms are those of the micro-batch on all of them.

    Returns:
        the scaled term and r, both scalars; r is 0 where the term hardly depends on the logits.
    """
    (of_task,) = torch.autograd.grad(task_loss, logits, retain_graph=True)
    (of_term,) = torch.autograd.grad(term, logits)
    task, pull = reduce(torch.stack([g.double().square().sum() for g in (of_task, of_term)])).sqrt()
    ratio = torch.where(pull > DEAD * task, task / pull, torch.zeros_like(task)).float()
    linear = ((logits - logits.detach()) * of_term).sum()  # 0, with the gradient of the term
    return ratio * (term.detach() + linear), ratio


class EnergyWeight:
    """λ1 over a run.

    Args:
        args: has `energy_weight`, `energy_weight_schedule` and `energy_weight_balance`, which are read in every step.
        reduce: sums a tensor over the processes.
    """

    def __init__(self, args: Any, reduce: Callable[[Tensor], Tensor]):
        self.args, self.reduce = args, reduce

    def at(self, done: float) -> float:
        """λ1 when the share `done` in [0, 1] of the run is done."""
        return self.args.energy_weight * SCHEDULES[self.args.energy_weight_schedule](done)

    def weigh(self, weight: float, term: Tensor, task_loss: Tensor, logits: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """`weight`, which is λ1 of this step, times the energy term; and what the log says of it."""
        if not self.args.energy_weight_balance:
            return weight * term, {}
        term, ratio = balanced(term, task_loss, logits, self.reduce)
        return weight * term, {"energy_weight": weight * ratio}
