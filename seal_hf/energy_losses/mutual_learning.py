"""Mutual learning: the second net is a classifier, and each net learns the other's probabilities too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.space import OutputSpace
from .base import GOLD, OUTPUT, SAMPLES, Candidates, EnergyLoss


@dataclass
class MutualLearning(EnergyLoss):
    """Deep mutual learning (Zhang et al. 2018, Eq. 4 to 7) of label sets, with p_j of the task-net, q_j = σ(t_j) of the
    second net, and λ1 for both:

        the second net minimises  Σ_j H(y*_j, q_j) + λ1 KL(p_j || q_j),   the task-net its loss + λ1 Σ_j KL(q_j || p_j)

    H is cross-entropy. The first argument of each KL is a constant, so its entropy, which has no gradient, is left out.
    In a step the second net learns first. Its logits are differences of energies, t_j = E(x, ∅) - E(x, {j}), so the
    samples of a row are the empty set and the L sets of one label. The global term of an energy is a bias of each label
    there; with `global_size` 0, t is linear in the features. Dependencies between labels play no part, so this loss is
    a control: it shows what any second net gives.
    """

    weight: float = 1.0  # λ1

    name = "mutual"
    needs_gold = True
    reads_output = False
    reads_single_labels = True
    reads_weight = True

    def draw(self, space: OutputSpace, logits: Tensor, gold: Tensor, generator: torch.Generator) -> Tensor:
        return _single_labels(gold)

    def __call__(self, energies: Tensor, candidates: Candidates) -> Tensor:
        logits = _log_odds(energies[:, SAMPLES])
        targets = [candidates.y[:, GOLD], candidates.y[:, OUTPUT].detach()]
        of_gold, of_output = (F.binary_cross_entropy_with_logits(logits, y, reduction="none") for y in targets)
        return _total(of_gold + self.weight * of_output, candidates.mask)

    def task_row(
        self, space: OutputSpace, logits: Tensor, output: Any, gold: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Any]:
        """The sets of one label; and log p and log(1 - p), (B, 2, L), with 0 at labels that do not count."""
        log_p = F.logsigmoid(torch.stack([logits, -logits], dim=1).float())
        return _single_labels(gold), log_p if mask is None else log_p.masked_fill(~mask.unsqueeze(1), 0)

    def task_term(self, energy: Tensor, cost: Any = None) -> Tensor:
        q = torch.sigmoid(_log_odds(energy)).detach()
        log_p, log_rest = cost.unbind(1)
        return _total(-(q * log_p + (1 - q) * log_rest))


def _single_labels(gold: Tensor) -> Tensor:
    """The empty set and the sets of one label, for each row of (B, L): (B, 1 + L, L)."""
    size = gold.shape[1]
    sets = torch.cat([gold.new_zeros(1, size), torch.eye(size, dtype=gold.dtype, device=gold.device)])
    return sets.expand(len(gold), -1, -1)


def _log_odds(energies: Tensor) -> Tensor:
    """The logits t_j, from the energies of these sets: (B, L)."""
    return energies[:, :1] - energies[:, 1:]


def _total(losses: Tensor, mask: Tensor | None = None) -> Tensor:
    """The sum over the labels that count, and the mean over rows."""
    return (losses if mask is None else losses.masked_fill(~mask, 0)).sum(1).mean()
