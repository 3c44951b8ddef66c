"""The structured hinge, `margin`; and inference networks, which search for the structure that most violates it:
`infnet` and `infnet_plus`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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


@dataclass
class InfNet(Margin):
    """Inference network (Tu & Gimpel 2018, Eq. 5; SEAL §3): L_E is that of `margin`, and the task-net searches for the
    most violating structure, the inner maximisation of that hinge:

        task term = - v(ŷ),     or -[ v(ŷ) ]_+ with `inference_truncation`

    With truncation a task-net whose output violates no margin learns nothing, even if it is still poor early in
    training (InfNet+ §4.1). The gold's energy gives the task-net no gradient; for a `rescaled` v, E(x, ŷ) - Δ remains.
    """

    inference_truncation: bool = False

    name = "infnet"
    reads_gold = True

    def sought(self, energies: Tensor, cost: Tensor) -> Tensor:
        """What an inference network maximises: energies (B, 2) of its output and of the gold, cost (B, 1) -> scalar."""
        violation = self.violation(energies[:, OUTPUT], energies[:, GOLD], cost[:, 0])
        return (F.relu(violation) if self.inference_truncation else violation).mean()

    def task_term(self, energy: Tensor, cost: Any = None) -> Tensor:
        return -self.sought(energy, cost)


@dataclass
class InfNetPlus(InfNet):
    """Compound objective of two inference networks (InfNet+ Eq. 6). The task-net A searches for the structure of lowest
    energy, as at test time; a second network F (`extensions/cost_augmented.py`) searches for one of low energy and high
    cost:

        L_E = [ v(F(x)) ]_+ + λ [ E(x, y*) - E(x, A(x)) ]_+
        A minimises λ E(x, A(x)),     F minimises - v(F(x))

    With `inference_truncation` both maximise their hinge. λ is `perceptron_weight`.
    """

    perceptron_weight: float = option(1.0, least=0)  # λ

    name = "infnet_plus"
    also_reads = ("cost_augmented_network", "cost_augmented_task_weight")
    has_partner = True
    margin_column = 2  # of the row [A(x), y*, F(x)]

    def __call__(self, energies: Tensor, candidates: Candidates) -> Tensor:
        terms = self.terms(energies, candidates)
        return terms["margin_loss"] + self.perceptron_weight * terms["perceptron_loss"]

    def terms(self, energies: Tensor, candidates: Candidates) -> dict[str, Tensor]:
        output, gold, found = energies.unbind(1)
        margin = F.relu(self.violation(found, gold, candidates.cost[:, 0]))
        return {"margin_loss": margin.mean(), "perceptron_loss": F.relu(gold - output).mean()}

    def task_term(self, energy: Tensor, cost: Tensor | None = None) -> Tensor:
        found = energy[:, GOLD] - energy[:, OUTPUT]
        return -self.perceptron_weight * (F.relu(found) if self.inference_truncation else found).mean()
