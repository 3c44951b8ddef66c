"""Where the energy pulls rows that it is not trained on: to their gold labels, or away from them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

ALIGNMENT = "energy_alignment"  # as an evaluation reports it
SCALES = tuple(2 ** (k / 4) for k in range(-8, 5))  # of the logits, 1 / temperature: 0.25 to 2


def row_pulls(logits: Tensor, energy: Callable[[Tensor], Tensor], task_loss: Callable[[Tensor], Tensor]) -> Tensor:
    """What [`Alignment`] sums of each row.

    Args:
        logits: (B, ...) of the task-net.
        energy: logits -> E(x, ŷ), (B, 1).
        task_loss: logits -> scalar, the mean over rows.

    Returns:
        (B, 1 + 3 S) for S scales: ‖e‖², then for each scale a ⟨t_a, s⟩, ⟨t_a, e⟩ and ‖t_a‖², where s are the logits,
        e = ∂ E / ∂ s, and t_a the gradient of the task loss at the logits a s.
    """
    logits = logits.detach().float()
    with torch.enable_grad():
        s = logits.clone().requires_grad_()
        (e,) = torch.autograd.grad(energy(s).sum(), s)
        columns = [_dot(e, e)]
        for a in SCALES:
            scaled = (a * logits).requires_grad_()
            (t,) = torch.autograd.grad(task_loss(scaled) * len(logits), scaled)
            columns += [_dot(t, logits), _dot(t, e), _dot(t, t)]
    return torch.stack(columns, dim=1)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).flatten(1).sum(1)


class Alignment:
    """The cosine of e and t_a over all entries of all rows, in [-1, 1], at the scale a of the logits that fits their
    gold labels best: there the mean of ⟨t_a, s⟩, the derivative of the task loss in a, is 0.

    Without a, an energy that only mends or worsens over-confident probabilities would count, which a decoder mends as
    well.
    """

    def __init__(self) -> None:
        self.sums: Tensor | None = None

    def add(self, rows: Tensor) -> None:
        """Rows of [`row_pulls`], of all processes."""
        total = rows.sum(0)
        self.sums = total if self.sums is None else self.sums + total

    def drain(self) -> dict[str, float]:
        """The cosine, by its name in an evaluation, then start anew; nothing without rows."""
        if self.sums is None:
            return {}
        of_energy, sums = self.sums[0].item(), self.sums[1:].view(-1, 3).tolist()
        self.sums = None
        _, along, of_task = min(sums, key=lambda at_scale: abs(at_scale[0]))
        squares = of_energy * of_task
        return {ALIGNMENT: along / squares**0.5 if squares > 0 else 0.0}
