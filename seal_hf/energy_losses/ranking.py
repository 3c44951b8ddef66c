"""Losses that rank the gold above samples of the task-net: `ranking`, `nce`, `contrastive_divergence`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.space import OutputSpace
from ..core.task import COSTS
from ..utils.options import option
from .base import CONTRAST, GOLD, Candidates, EnergyLoss


@dataclass
class Ranking(EnergyLoss):
    """Distinguish the gold from K samples by the energy alone (the plain ranking loss of SEAL's first draft, Eq. 10):

        s(y) = -E(x, y) + α Δ(y, y*),     L_E = -log [ exp s(y*) / Σ_{k=0..K} exp s(y_k) ],   y_0 = y*

    The paper uses α = 0; with α > 0 the energy margin must grow with a sample's cost (softmax-margin, Gimpel & Smith
    2010; Shankar & Piratla's contrastive divergence). Samples are independent draws from the task-net's distribution
    P(y | x): Π_j P(y_j | x), or the chain of a CRF. With `gold_mix` m each entry is instead the gold's with probability
    m (of a chain: in its emissions), so that samples lie nearer the gold. That is a heuristic: noise that depends on
    the gold moves the optimum of `nce` from p(y | x) towards the gold.
    """

    num_samples: int = option(20, least=1)  # K
    gold_mix: float = option(0.0, least=0, below=1)
    distinct_samples: bool = False
    cost_weight: float = option(0.0, least=0)  # α
    margin_cost: str = option("f1", choices=COSTS, idle=("cost_weight", 0.0))  # Δ

    name = "ranking"
    reads_output = False

    def noise(self, space: OutputSpace, logits: Tensor, gold: Tensor) -> Tensor:
        """Logits of P_N, the distribution that samples come from."""
        return space.mix(logits, gold, self.gold_mix) if self.gold_mix else logits

    def draw(self, space: OutputSpace, logits: Tensor, gold: Tensor, generator: torch.Generator) -> Any:
        return space.sample(self.noise(space, logits, gold), self.num_samples, generator)

    def annotate(self, space: OutputSpace, logits: Tensor, gold: Tensor, candidates: Candidates) -> None:
        y = candidates.y[:, CONTRAST]
        if self.cost_weight:
            candidates.cost = space.cost(y, gold, self.margin_cost, candidates.mask)
        if self.distinct_samples:
            candidates.repeated = space.repeated(y, candidates.mask)

    def __call__(self, energies: Tensor, candidates: Candidates) -> Tensor:
        s = -energies[:, CONTRAST]  # (B, 1 + K)
        if candidates.log_noise is not None:
            s = s - candidates.log_noise
        if candidates.cost is not None:
            s = s + self.cost_weight * candidates.cost
        if candidates.repeated is not None:
            s = s.masked_fill(candidates.repeated, float("-inf"))
        return -F.log_softmax(s, dim=1)[:, 0].mean()


class NCE(Ranking):
    """Noise-contrastive ranking (SEAL Eq. 8-9; Ma & Collins 2018), noise = the task-net's current distribution P:

        s(y) = -E(x, y) - log P_N(y | x) + α Δ(y, y*),     L_E as in `ranking`

    The gold is in the denominator: it is one of the K + 1 candidates among which it must be recognised. (The sum of the
    printed Eq. 8 begins at the first sample.)

    With `distinct_samples` a structure is in the row once, however often it was drawn. P_N is then replaced by the
    probability 1 - (1 - P_N)^K that it is among K draws (the inclusion probability of Horvitz & Thompson 1952; a good
    approximation, since the other candidates of a row are not independent of it).
    """

    name = "nce"
    reads_noise = True

    def annotate(self, space: OutputSpace, logits: Tensor, gold: Tensor, candidates: Candidates) -> None:
        super().annotate(space, logits, gold, candidates)
        noise, y = self.noise(space, logits, gold), candidates.y[:, CONTRAST]
        if self.distinct_samples:
            log_p = space.log_noise(noise, y, candidates.mask, normalized=True)
            candidates.log_noise = log_inclusion(log_p, self.num_samples)
        else:
            candidates.log_noise = space.log_noise(noise, y, candidates.mask)


def log_inclusion(log_p: Tensor, num_draws: int) -> Tensor:
    """log(1 - (1 - P)^K), the log-probability that a structure is among K independent draws, from log P; for rare ones
    log K P."""
    missed = torch.log1p(-log_p.clamp(-15, -1e-7).exp())
    return torch.where(log_p < -15, log_p + math.log(num_draws), torch.log(-torch.expm1(num_draws * missed)))


@dataclass
class ContrastiveDivergence(EnergyLoss):
    """Contrastive divergence with the cost added to each candidate (Shankar & Piratla, "Primary Loss Design"):

        s(y) = -E(x, y) + Δ(y, y*),     L_E = -log [ exp s(y*) / Σ_{y in row} exp s(y) ],   row = [ŷ, y*, y_1 .. y_K]

    The gold is in the denominator, with Δ = 0 (the printed log lacks its minus sign). The K samples are drawn from the
    task-net's output, without gradient. The relaxed output ŷ is also a candidate, as in the paper's remark on this loss
    as a soft hinge; through it this loss has an implicit gradient. The paper does not say how it differentiates its
    samples.
    """

    num_samples: int = option(20, least=1)  # K
    margin_cost: str = option("f1", choices=COSTS)  # Δ

    name = "contrastive_divergence"

    def draw(self, space: OutputSpace, logits: Tensor, gold: Tensor, generator: torch.Generator) -> Any:
        return space.sample(logits, self.num_samples, generator)

    def annotate(self, space: OutputSpace, logits: Tensor, gold: Tensor, candidates: Candidates) -> None:
        candidates.cost = space.cost(candidates.y, gold, self.margin_cost, candidates.mask)

    def __call__(self, energies: Tensor, candidates: Candidates) -> Tensor:
        return -F.log_softmax(candidates.cost - energies, dim=1)[:, GOLD].mean()
