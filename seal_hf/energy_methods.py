"""How an energy network is trained on its own: which structures it learns from, and by which loss.

A method finds, for a batch, the row of candidates [ŷ, y*, ...] with the energies as they stand, by gradient-based
inference or from a task-net's samples; an energy loss of `energy_losses.py` maps the energies of that row to a scalar.
At prediction all of them minimise E(x, y) over the relaxed y.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .energy_losses import NCE, Candidates, DeepValue, EnergyLoss, Margin, Ranking, RegressionS
from .inference import GradientBasedInference
from .spaces import OutputSpace


@dataclass
class Problem:
    """One batch, as a method sees it.

    Attributes:
        space: the output space.
        energy: candidates (B, S, ...) -> energies (B, S), differentiable in the candidates; x is encoded already.
        labels: as the data gives them.
        starts: (B, S, ...) where inference starts.
        logits: of the frozen task-net, or None.
        noise: the generator of samples.
    """

    space: OutputSpace
    energy: Callable[[Tensor], Tensor]
    labels: Tensor
    starts: Tensor
    logits: Tensor | None
    noise: torch.Generator


class EnergyMethod(ABC):
    """Base class.

    Args:
        inference: of the training steps.
        num_samples: K, see the method.
        margin_cost: Δ, see the method.

    Attributes:
        loss: the energy loss.
        needs_task_net: whether the method is defined with a task-net only.
        extra: what the log calls the mean energy of the row after ŷ and y*; None where the row ends there.
    """

    needs_task_net = False
    extra: str | None = None
    loss: EnergyLoss

    def __init__(self, inference: GradientBasedInference, num_samples: int, margin_cost: str):
        self.inference = inference
        self.loss = self.make_loss(num_samples, margin_cost)

    @staticmethod
    @abstractmethod
    def make_loss(num_samples: int, margin_cost: str) -> EnergyLoss:
        """The energy loss, with the options that it reads."""

    @classmethod
    def default_start(cls, has_task_net: bool) -> str:
        """Where inference starts if the user does not say."""
        return "task_net" if has_task_net else "uniform"

    @abstractmethod
    def candidates(self, problem: Problem) -> Candidates:
        """The row of candidates that the loss reads, without gradient."""

    def _row(self, problem: Problem, *objectives: Callable[[Tensor], Tensor]) -> Candidates:
        """[ŷ, y*, further minima]: one inference per objective, the first gives ŷ."""
        gold, mask = problem.space.gold(problem.labels)
        found = [self.inference(objective, problem.starts)[0] for objective in objectives]
        row = problem.space.join([found[0], problem.space.candidate(gold), *found[1:]])
        candidates = Candidates(row, mask)
        self.loss.annotate(problem.space, None, gold, candidates)
        return candidates


class SPEN(EnergyMethod):
    """Structured prediction energy network (Belanger & McCallum 2016, §4): structured SVM with loss-augmented
    inference.

        ŷ = argmin_y E(x, y) - Δ(y, y*),     L = [ Δ(ŷ, y*) - E(x, ŷ) + E(x, y*) ]_+

    `margin_cost` is Δ. The authors of SEAL take 1 - soft F1, and start from a task-net trained by cross-entropy.
    """

    @staticmethod
    def make_loss(num_samples: int, margin_cost: str) -> EnergyLoss:
        return Margin(margin_cost=margin_cost)

    def candidates(self, problem: Problem) -> Candidates:
        gold, mask = problem.space.gold(problem.labels)
        return self._row(
            problem, lambda y: problem.energy(y) - problem.space.cost(y, gold, self.loss.margin_cost, mask)
        )


class DVN(EnergyMethod):
    """Deep value network (Gygli et al. 2017): σ(-E(x, y)) learns the score s(y, y*), at three points per input.

        ŷ     = argmin_y E(x, y)                                   the prediction
        y_adv = argmax_y BCE( σ(-E(x, y)), s(y, y*) )              where it is most wrong
        L     = Σ_{y in {ŷ, y_adv, y*}} BCE( σ(-E(x, y)), s(y, y*) )

    All three in each step, both inferences from the same starts (zeros), as the authors of SEAL do.
    """

    extra = "energy_adversarial"

    @staticmethod
    def make_loss(num_samples: int, margin_cost: str) -> EnergyLoss:
        return DeepValue()

    @classmethod
    def default_start(cls, has_task_net: bool) -> str:
        return "zeros"

    def candidates(self, problem: Problem) -> Candidates:
        gold, mask = problem.space.gold(problem.labels)
        wrong = lambda y: self.loss.pointwise(problem.energy(y), problem.space.score(y, gold, mask))  # noqa: E731
        return self._row(problem, problem.energy, lambda y: -wrong(y))


class FromTaskNet(EnergyMethod):
    """An energy loss on the samples of a frozen task-net, as SEAL-dynamic has them of a moving one: `nce`, `ranking`,
    `regression_s`. Inference serves prediction alone. (The authors of SEAL predict `nce` from three random starts.)

    With enough samples, exp(-E(x, y)) of `nce` becomes the conditional distribution p(y | x), up to a constant per x
    (Ma & Collins 2018; SEAL Eq. 8-9).
    """

    needs_task_net = True
    extra = "energy_samples"
    loss_class: type[EnergyLoss] = NCE

    @classmethod
    def make_loss(cls, num_samples: int, margin_cost: str) -> EnergyLoss:
        return cls.loss_class(num_samples=num_samples)

    def candidates(self, problem: Problem) -> Candidates:
        return self.loss.candidates(problem.space, problem.logits, problem.labels, problem.noise)


class FromTaskNetRanking(FromTaskNet):
    loss_class = Ranking


class FromTaskNetRegression(FromTaskNet):
    loss_class = RegressionS


ENERGY_METHODS: dict[str, type[EnergyMethod]] = {
    "spen": SPEN,
    "dvn": DVN,
    "nce": FromTaskNet,
    "ranking": FromTaskNetRanking,
    "regression_s": FromTaskNetRegression,
}
