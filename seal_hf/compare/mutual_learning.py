"""Mutual learning of two classifiers, the control of `seal-hf compare mlc`: what does any second net give?

It is `train mlc` with the loss-net as a classifier. Its energy has no global term (`--global_size 0`). So it is linear
in the labels, E(x, y) = - Σ_j y_j t_j(x), and the t_j are logits. Encoders, optimizers, frozen features are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..cli.train import mlc
from ..energy_losses import GOLD, OUTPUT, SAMPLES, Candidates, EnergyLoss
from ..spaces import OutputSpace
from ..trainer import SealTrainer


@dataclass
class MutualLearning(EnergyLoss):
    """Deep mutual learning (Zhang et al. 2018, Eq. 4 to 7) of label sets, with p_j of the task-net, q_j = σ(t_j) of the
    second net, and λ for both:

        the second net minimises  Σ_j H(y*_j, q_j) + λ KL(p_j || q_j),     the task-net its loss  + λ Σ_j KL(q_j || p_j)

    H is cross-entropy. The first argument of each KL is a constant, so its entropy, which has no gradient, is left out.
    In a step the second net learns first. The samples of a row are the empty set and the L sets of one label: the
    difference of their energies is t_j.
    """

    weight: float = 1.0  # λ

    name = "mutual_learning"
    needs_gold = True
    reads_output = False

    def draw(self, space: OutputSpace, logits: Tensor, gold: Tensor, generator: torch.Generator) -> Tensor:
        return _single_labels(gold)

    def __call__(self, energies: Tensor, candidates: Candidates) -> Tensor:
        logits = _log_odds(energies[:, SAMPLES])
        targets = [candidates.y[:, GOLD], candidates.y[:, OUTPUT].detach()]
        of_gold, of_output = (F.binary_cross_entropy_with_logits(logits, y, reduction="none") for y in targets)
        return _total(of_gold + self.weight * of_output, candidates.mask)

    def task_row(self, space: OutputSpace, output: Any, gold: Tensor, mask: Tensor | None) -> tuple[Tensor, Any]:
        """The sets of one label; and log p and log(1 - p), (B, 2, L), with 0 at labels that do not count."""
        odds = space.logits(output)
        log_p = F.logsigmoid(torch.cat([odds, -odds], dim=1))
        return _single_labels(gold), log_p if mask is None else log_p.masked_fill(~mask.unsqueeze(1), 0)

    def task_term(self, energy: Tensor, cost: Any = None) -> Tensor:
        q = torch.sigmoid(_log_odds(energy)).detach()
        log_p, log_rest = cost.unbind(1)
        return _total(-(q * log_p + (1 - q) * log_rest))


class MutualTrainer(SealTrainer):
    """A [`SealTrainer`] whose loss-net is a second classifier, see [`MutualLearning`]. λ is `energy_weight`."""

    def _take_arguments(self) -> None:
        super()._take_arguments()
        self.energy_loss = MutualLearning(self.args.fixed_energy_weight)


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


MUTUAL_LEARNING = replace(mlc.PROGRAM, make_trainer=partial(mlc.make_trainer, trainer_class=MutualTrainer))
