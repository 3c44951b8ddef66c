"""Measure whether the energy pulls unseen rows to their gold labels or away from them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

ALIGNMENT, PULL = "energy_alignment", "energy_pull"  # as an evaluation reports them
SCALES = tuple(2 ** (k / 4) for k in range(-8, 5))  # of the logits, 1 / temperature: 0.25 to 2
AT_ONCE = 2**20  # logits in one call of the task loss


def row_pulls(logits: Tensor, energy_term: Callable[[Tensor], Tensor], task_loss: Callable[[Tensor], Tensor]) -> Tensor:
    """The terms of each row that [`Alignment`] sums.

    Args:
        logits: (B, ...) of the task-net.
        energy_term, task_loss: logits -> scalar, means over rows: the two terms of the task-net's loss, without λ1 and
            λ2. `task_loss` gets the rows several times, one copy after another: (n B, ...).

    Returns:
        (B, 1 + 3 S) for S scales: ‖e‖², then ⟨t_a, s⟩, ⟨t_a, e⟩ and ‖t_a‖² for each scale a. Here s are the logits of
        the row, e is the gradient of its energy term at s, and t_a the gradient of its task loss at a s.
    """
    logits = logits.detach().float()
    at_once = max(1, AT_ONCE // max(logits.numel(), 1))
    with torch.enable_grad():
        e = _gradient(energy_term, logits)
        columns = [(e * e).flatten(1).sum(1)]
        for i in range(0, len(SCALES), at_once):
            scaled = torch.stack([a * logits for a in SCALES[i : i + at_once]])  # (n, B, ...)
            t = _gradient(task_loss, scaled.flatten(0, 1)).view_as(scaled)
            products = [(t * other).flatten(2).sum(2) for other in (logits, e, t)]  # (n, B) each
            columns += torch.stack(products, dim=1).flatten(0, 1).unbind()
    return torch.stack(columns, dim=1)


def _gradient(mean: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
    """The gradient of each row's own part of the mean."""
    logits = logits.clone().requires_grad_()
    return torch.autograd.grad(mean(logits) * len(logits), logits)[0]


class Alignment:
    """The cosine of e and t_a over all entries of all rows, in [-1, 1], at the scale a of the logits that fits the gold
    labels best. There the mean of ⟨t_a, s⟩, the derivative of the task loss in a, is 0.

    At a = 1, the cosine would count the energy's effect on over-confident probabilities, which a decoder mends anyway.
    The ratio ‖t_a‖ / ‖e‖ says by which weight the energy would pull these rows as hard as the task loss.
    """

    def __init__(self) -> None:
        self.sums: Tensor | None = None

    def add(self, rows: Tensor) -> None:
        """Add rows of [`row_pulls`] from all processes."""
        total = rows.sum(0)
        self.sums = total if self.sums is None else self.sums + total

    def drain(self, with_pull: bool = False) -> dict[str, float]:
        """Return {name in an evaluation: cosine}, `with_pull` also the ratio; empty without rows. Start anew."""
        if self.sums is None:
            return {}
        of_energy, sums = self.sums[0].item(), self.sums[1:].view(-1, 3).tolist()
        self.sums = None
        _, along, of_task = min(sums, key=lambda at_scale: abs(at_scale[0]))
        squares = of_energy * of_task
        pull = {PULL: (of_task / of_energy) ** 0.5 if of_energy > 0 else 0.0} if with_pull else {}
        return {ALIGNMENT: along / squares**0.5 if squares > 0 else 0.0, **pull}
