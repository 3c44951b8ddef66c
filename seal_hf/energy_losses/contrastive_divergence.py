"""Contrastive divergence: `contrastive_divergence`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.space import OutputSpace
from ..core.task import COSTS
from ..utils.options import option
from .base import GOLD, Candidates, EnergyLoss


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
