"""Regression on the score of a structure: `regression`, `regression_s`, and `DeepValue` for energy networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.space import OutputSpace
from ..utils.options import option
from .base import OUTPUT, SAMPLES, Candidates, EnergyLoss

REGRESSION_SAMPLES = ("continuous", "discrete")


class Regression(EnergyLoss):
    """Regression on the score of the task-net's output (SEAL Eq. 7; deep value network, Gygli et al. 2017):

        L_E = - s(ŷ, y*) log σ(-E(x, ŷ)) - (1 - s(ŷ, y*)) log(1 - σ(-E(x, ŷ)))

    (the printed `log(1 + σ(-E))` is a slip). Since σ(-E) estimates the score, the task-net minimises -σ(-E(x, ŷ)), not
    E.
    """

    name = "regression"

    def annotate(self, space: OutputSpace, logits: Tensor, gold: Tensor, candidates: Candidates) -> None:
        candidates.score = space.score(candidates.y, gold, candidates.mask)

    @staticmethod
    def pointwise(energies: Tensor, score: Tensor) -> Tensor:
        """The loss of each candidate, in the arguments' shape; differentiable in both."""
        return F.binary_cross_entropy_with_logits(-energies, score, reduction="none")

    def __call__(self, energies: Tensor, candidates: Candidates) -> Tensor:
        return self.pointwise(energies[:, OUTPUT], candidates.score[:, OUTPUT]).mean()

    def task_term(self, energy: Tensor, cost: Tensor | None = None) -> Tensor:
        return -torch.sigmoid(-energy).mean()


@dataclass
class RegressionS(Regression):
    """Regression summed over ŷ and K - 1 structures around it (SEAL §2.3, "regression-s"): Gaussian perturbations of
    its logits, or with `discrete` samples from its distribution. K = 1 means ŷ alone."""

    num_samples: int = option(20, least=1)  # K
    regression_samples: str = option("continuous", choices=REGRESSION_SAMPLES)
    perturbation_std: float = option(1.0, least=0, idle=("regression_samples", "discrete"))

    name = "regression_s"

    @property
    def perturbs(self) -> bool:
        return self.regression_samples == "continuous" and self.num_samples > 1

    def draw(self, space: OutputSpace, logits: Tensor, gold: Tensor, generator: torch.Generator) -> Any:
        if self.num_samples == 1:
            return None
        if self.regression_samples == "discrete":
            return space.sample(logits, self.num_samples - 1, generator)
        return space.perturb(logits, self.num_samples - 1, self.perturbation_std, generator)

    def __call__(self, energies: Tensor, candidates: Candidates) -> Tensor:
        loss = self.pointwise(energies, candidates.score)  # (B, 1 + K)
        return (loss[:, OUTPUT] + loss[:, SAMPLES].sum(1)).mean()


class DeepValue(Regression):
    """Regression summed over all points of the row, including the gold (deep value network, Gygli et al. 2017, §3):

        L_E = Σ_{y in row} BCE( σ(-E(x, y)), s(y, y*) ),     row = [ŷ, y*, adversarial points ..]

    For an energy network without a task-net, whose row comes from inference: see `training/energy_trainer.py`.
    """

    name = "dvn"

    def __call__(self, energies: Tensor, candidates: Candidates) -> Tensor:
        return self.pointwise(energies, candidates.score).sum(1).mean()
