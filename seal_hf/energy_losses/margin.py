"""The structured hinge: `margin`."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from ..core.space import OutputSpace
from ..core.task import COSTS
from ..utils.options import option
from .base import GOLD, OUTPUT, Candidates, EnergyLoss

MARGINS = ("rescaled", "slack", "contrastive", "perceptron")


@dataclass
class Margin(EnergyLoss):
    """Structured hinge on the task-net's output (SEAL Eq. 6; SPEN, Belanger & McCallum 2016):

        L_E = [ v(ŷ) ]_+,     v(y) = Δ(y, y*) - E(x, y) + E(x, y*)

    v depends on `margin_type` (Tu & Gimpel 2018, Eq. 6-9), with Δ = Δ(y, y*):

        rescaled  Δ - E(x, y) + E(x, y*)          slack        Δ (1 - E(x, y) + E(x, y*))
        contrastive  1 - E(x, y) + E(x, y*)       perceptron   - E(x, y) + E(x, y*)
    """

    margin_type: str = option("rescaled", choices=MARGINS)
    margin_cost: str = option("f1", choices=COSTS, idle=("margin_type", "perceptron"))  # Δ

    name = "margin"
    needs_gold = True
    margin_column = OUTPUT  # the candidate that the margin is for

    def annotate(self, space: OutputSpace, logits: Tensor, gold: Tensor, candidates: Candidates) -> None:
        y = candidates.y[:, self.margin_column : self.margin_column + 1]
        candidates.cost = space.cost(y, gold, self.margin_cost, candidates.mask)

    def violation(self, energy: Tensor, gold: Tensor, cost: Tensor) -> Tensor:
        """v from E(x, y), E(x, y*) and Δ(y, y*), (B,) each: (B,)."""
        difference = gold - energy
        if self.margin_type == "rescaled":
            return cost + difference
        if self.margin_type == "slack":
            return cost * (1 + difference)
        return difference + 1 if self.margin_type == "contrastive" else difference

    def __call__(self, energies: Tensor, candidates: Candidates) -> Tensor:
        return F.relu(self.violation(energies[:, OUTPUT], energies[:, GOLD], candidates.cost[:, 0])).mean()
