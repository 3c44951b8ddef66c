"""Energy losses L_E: what the loss-net minimises, each equation once, beside its source.

Every loss sees the same row of candidates for each input,

    y = [ŷ, y*, y_1 .. y_K]:  the task-net's relaxed output, the gold, and K samples    (B, 2 + K, ...)

and the energies E(x, y) of that row, (B, 2 + K), lower = better. Losses differ in their samples: some have none (K is
0 below), `regression_s` has one less than `num_samples`, and of `infnet_plus` the only one is the output of the
cost-augmented network.

A loss is a class with up to four methods: `draw` gives its samples, `annotate` fills in what it reads of the row beside
the energies (scores, costs, log-probabilities), `__call__` maps energies to a scalar, the mean over the batch (SEAL,
Eq. 4), and `task_term` is what the task-net minimises in turn. `options` names the fields that all this reads.
Sources: SEAL = Lee et al. 2022, https://arxiv.org/abs/2212.01939; InfNet+ = Tu, Pang & Gimpel 2020,
https://arxiv.org/abs/1911.02891 (equation numbers as printed there).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from .label_sets import LabelSets
from .options import Checked, fields_from
from .spaces import OutputSpace

OUTPUT, GOLD, SAMPLES = 0, 1, slice(2, None)  # columns of a candidate row
CONTRAST = slice(1, None)  # gold first, then the samples
MARGINS = ("rescaled", "slack", "contrastive", "perceptron")
REGRESSION_SAMPLES = ("continuous", "discrete")


@dataclass
class Candidates:
    """A row of candidates per input, without gradient unless asked for.

    Attributes:
        y: (B, 2 + K, ...) relaxed output, gold, samples; of large label spaces sparse, as [`LabelSets`].
        mask: positions that count, or None.
        log_noise: log P_N of gold and samples, up to a constant per input, (B, 1 + K), or of distinct samples the
            logarithm of their inclusion probability; only for losses that use it.
        repeated: which of gold and samples equals an earlier one, (B, 1 + K) bool; only where they are to be distinct.
        score: s(y, y*) of every candidate, (B, 2 + K), in [0, 1]; only for losses that use it.
        cost: Δ(y, y*), (B, 1) of the output that a margin is for, (B, 1 + K) of gold and samples for `nce` and
            `ranking`, of all for `contrastive_divergence`; only for losses that use it.
    """

    y: Tensor | LabelSets
    mask: Tensor | None = None
    log_noise: Tensor | None = None
    repeated: Tensor | None = None
    score: Tensor | None = None
    cost: Tensor | None = None


@dataclass
class EnergyLoss(Checked):
    """Base class; the fields are the options of all losses, named as in [`SealTrainingArguments`], each loss reads its
    own, its `options`.

    Attributes:
        num_samples: K, the samples per input.
        margin_cost: which Δ, see the space's `cost`.
        cost_weight: α, how much of its cost is added to the logit of a sample.
        distinct_samples: whether a candidate that equals an earlier one is left out.
        gold_mix: m, the share of the gold in the distribution that samples come from, in [0, 1).
        margin_type: one of `MARGINS`.
        inference_truncation: whether inference networks maximise the hinge, or what it cuts at 0.
        perceptron_weight: λ of `infnet_plus`.
        regression_samples: `continuous` or `discrete` structures.
        perturbation_std: standard deviation of the logit noise.
    """

    num_samples: int = 20
    margin_cost: str = "f1"
    cost_weight: float = 0.0
    distinct_samples: bool = False
    gold_mix: float = 0.0
    margin_type: str = "rescaled"
    inference_truncation: bool = False
    perceptron_weight: float = 1.0
    regression_samples: str = "continuous"
    perturbation_std: float = 1.0

    name: ClassVar[str]  # of `--loss`
    options: ClassVar[tuple[str, ...] | None] = None  # the fields that it reads; None: any of them
    idle: ClassVar[Mapping[str, tuple[str, Any]]] = {}  # of them -> another, under whose value it is not read
    needs_gold = False  # whether rows without gold cannot have it, as no sample could stand in for it
    reads_noise = False  # whether it reads log P_N of its samples
    reads_gold = False  # whether `task_term` reads the cost of the task-net's output and the energy of the gold
    has_partner = False  # whether a cost-augmented network is trained beside the task-net
    reads_output = True  # whether L_E depends on ŷ, and so on the task-net's parameters: implicit gradients need that

    def __post_init__(self):
        """Raise ValueError for values that cannot be."""
        self._check_choice("margin_type", MARGINS)
        self._check_choice("regression_samples", REGRESSION_SAMPLES)
        for name, least in {"num_samples": 1, "cost_weight": 0, "gold_mix": 0, "perturbation_std": 0}.items():
            self._check_range(name, least)
        if self.gold_mix >= 1:
            raise ValueError(f"`gold_mix` is {self.gold_mix}; it is a share below 1: at 1 every sample is the gold.")

    @property
    def perturbs(self) -> bool:
        """Whether its samples are relaxed structures, from logits with noise."""
        return False

    @classmethod
    def draws(cls) -> bool:
        """Whether it has samples."""
        return cls.draw is not EnergyLoss.draw

    @classmethod
    def from_arguments(cls, args) -> EnergyLoss:
        """The loss with the options that [`SealTrainingArguments`] or [`EnergyTrainingArguments`] have for it."""
        return cls(**fields_from(cls, args))

    def draw(self, space: OutputSpace, logits: Tensor, gold: Tensor, generator: torch.Generator) -> Tensor | None:
        """The K samples, (B, K, ...), or None for a loss that needs none."""
        return None

    def candidates(
        self,
        space: OutputSpace,
        logits: Tensor,
        labels: Tensor,
        generator: torch.Generator,
        augmented: Tensor | None = None,
        *,
        differentiable: bool = False,
    ) -> Candidates:
        """Candidates around the task-net's current output.

        Args:
            space: of this batch.
            logits: the task-net's, (B, ...) as the space has them: (B, L), (B, T, C), (B, 1 or 2, H, W). Detached here,
                unless `differentiable`.
            labels: as the data give them, (B, L), (B, T) or (B, H, W).
            generator: the only source of the samples' random numbers.
            augmented: logits of the cost-augmented network, of the shape of `logits`, if there is one.
            differentiable: ŷ, its cost and its score keep their graph, which implicit gradients follow; samples have
                none.
        """
        with torch.set_grad_enabled(differentiable):
            gold, mask = space.gold(labels)
            samples = self.draw(space, logits, gold, generator) if augmented is None else space.output(augmented)
            gold = space.best(gold, samples, mask)
            row = [space.output(logits), space.candidate(gold)]
            if samples is not None:
                row.append(samples)
            candidates = Candidates(space.join(row), mask)
            self.annotate(space, logits, gold, candidates)
        return candidates

    def annotate(self, space: OutputSpace, logits: Tensor, gold: Tensor, candidates: Candidates) -> None:
        """Fill in the fields of `candidates` that this loss reads."""

    def __call__(self, energies: Tensor, candidates: Candidates) -> Tensor:
        """Energies (B, 2 + K) -> scalar loss, mean over the batch."""
        raise TypeError(f"{type(self).__name__} is abstract; use one of {sorted(ENERGY_LOSSES)}.")

    def terms(self, energies: Tensor, candidates: Candidates) -> dict[str, Tensor]:
        """What the log says beside the loss: the parts of a compound one."""
        return {}

    def task_term(self, energy: Tensor, cost: Tensor | None = None) -> Tensor:
        """E(x, ŷ) (B, 1) -> the scalar that λ1 weighs in the task-net's loss; the mean energy unless a loss says
        otherwise. Of a loss that `reads_gold`: `energy` is E(x, ŷ) and E(x, y*), (B, 2), `cost` Δ(ŷ, y*), (B, 1)."""
        return energy.mean()


class Ranking(EnergyLoss):
    """Tell the gold from K samples by the energy alone (SEAL appendix, Table 19 "ranking"):

        s(y) = -E(x, y) + α Δ(y, y*),     L_E = -log [ exp s(y*) / Σ_{k=0..K} exp s(y_k) ],   y_0 = y*

    α = 0 is the paper's; with α > 0 worse samples must have a higher energy by more (softmax-margin, Gimpel & Smith
    2010; Shankar & Piratla's contrastive divergence). Samples are independent draws from the task-net, Π_j P(y_j | x);
    with `gold_mix` m each entry is instead the gold's with probability m: samples then lie between the two. That is a
    heuristic: noise that depends on the gold moves the optimum of `nce` from p(y | x) towards the gold.
    """

    name = "ranking"
    options = ("num_samples", "gold_mix", "distinct_samples", "cost_weight", "margin_cost")
    idle = {"margin_cost": ("cost_weight", 0.0)}
    reads_output = False

    def noise(self, space: OutputSpace, logits: Tensor, gold: Tensor) -> Tensor:
        """Logits of P_N, the distribution that samples come from."""
        return space.mix(logits, gold, self.gold_mix) if self.gold_mix else logits

    def draw(self, space: OutputSpace, logits: Tensor, gold: Tensor, generator: torch.Generator) -> Tensor:
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

        s(y) = -E(x, y) - log P_N(y | x) + α Δ(y, y*),     L_E as of `ranking`

    The gold is in the denominator: it is one of the K + 1 candidates among which it must be recognised.

    With `distinct_samples` a structure stands in the row once, however often it was drawn: in place of P_N comes the
    probability 1 - (1 - P_N)^K that it is among K draws (the inclusion probability of Horvitz & Thompson 1952; to a
    good approximation, as the other candidates of a row are not independent of it).
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
    """log(1 - (1 - P)^K), that a structure is among K independent draws, from log P; of rare ones log K P."""
    missed = torch.log1p(-log_p.clamp(-15, -1e-7).exp())
    return torch.where(log_p < -15, log_p + math.log(num_draws), torch.log(-torch.expm1(num_draws * missed)))


class ContrastiveDivergence(EnergyLoss):
    """Contrastive divergence with the cost added to each candidate (Shankar & Piratla, "Primary Loss Design"):

        s(y) = -E(x, y) + Δ(y, y*),     L_E = -log [ exp s(y*) / Σ_{y in row} exp s(y) ],   row = [ŷ, y*, y_1 .. y_K]

    The gold is in the denominator, with Δ = 0 (the printed log lacks its minus sign). The K samples are drawn from the
    task-net's output, and do not move with its parameters. Beside them the relaxed output ŷ is a candidate, as in the
    paper's remark on this loss as a soft hinge: through it this loss has an implicit gradient. The paper does not say
    how it differentiates its samples.
    """

    name = "contrastive_divergence"
    options = ("num_samples", "margin_cost")

    def draw(self, space: OutputSpace, logits: Tensor, gold: Tensor, generator: torch.Generator) -> Tensor:
        return space.sample(logits, self.num_samples, generator)

    def annotate(self, space: OutputSpace, logits: Tensor, gold: Tensor, candidates: Candidates) -> None:
        candidates.cost = space.cost(candidates.y, gold, self.margin_cost, candidates.mask)

    def __call__(self, energies: Tensor, candidates: Candidates) -> Tensor:
        return -F.log_softmax(candidates.cost - energies, dim=1)[:, GOLD].mean()


class Margin(EnergyLoss):
    """Structured hinge on the task-net's output (SEAL Eq. 6; SPEN, Belanger & McCallum 2016):

        L_E = [ v(ŷ) ]_+,     v(y) = Δ(y, y*) - E(x, y) + E(x, y*)

    or by `margin_type` (Tu & Gimpel 2018, Eq. 6-9), with Δ = Δ(y, y*):

        rescaled  Δ - E(x, y) + E(x, y*)          slack        Δ (1 - E(x, y) + E(x, y*))
        contrastive  1 - E(x, y) + E(x, y*)       perceptron   - E(x, y) + E(x, y*)
    """

    name = "margin"
    options = ("margin_type", "margin_cost")
    idle = {"margin_cost": ("margin_type", "perceptron")}
    needs_gold = True
    augmented = OUTPUT  # the column that the margin is for

    def annotate(self, space: OutputSpace, logits: Tensor, gold: Tensor, candidates: Candidates) -> None:
        y = candidates.y[:, self.augmented : self.augmented + 1]
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


class InfNet(Margin):
    """Inference network (Tu & Gimpel 2018, Eq. 5; SEAL §3): L_E as of `margin`, and the task-net looks for the most
    violating structure, as the inner maximisation of that hinge does:

        task term = - v(ŷ),     or -[ v(ŷ) ]_+ with `inference_truncation`

    Truncated, a task-net whose output violates no margin learns nothing, which early in training it need not deserve
    (InfNet+ §4.1). The gold's energy gives the task-net no gradient; of a `rescaled` v what is left is E(x, ŷ) - Δ.
    """

    name = "infnet"
    options = (*Margin.options, "inference_truncation")
    reads_gold = True

    def sought(self, energies: Tensor, cost: Tensor) -> Tensor:
        """What an inference network maximises: energies (B, 2) of its output and of the gold, cost (B, 1) -> scalar."""
        violation = self.violation(energies[:, OUTPUT], energies[:, GOLD], cost[:, 0])
        return (F.relu(violation) if self.inference_truncation else violation).mean()

    def task_term(self, energy: Tensor, cost: Tensor | None = None) -> Tensor:
        return -self.sought(energy, cost)


class InfNetPlus(InfNet):
    """Compound objective of two inference networks (InfNet+ Eq. 6): the task-net A looks for the structure of lowest
    energy, as at test time, and a second network F for that of low energy and high cost (`infnet.py`):

        L_E = [ v(F(x)) ]_+ + λ [ E(x, y*) - E(x, A(x)) ]_+
        A minimises λ E(x, A(x)),     F minimises - v(F(x))

    With `inference_truncation` both maximise their hinge. λ is `perceptron_weight`.
    """

    name = "infnet_plus"
    options = (*InfNet.options, "perceptron_weight")
    has_partner = True
    augmented = 2  # [A(x), y*, F(x)]

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


class Regression(EnergyLoss):
    """Regression on the score of the task-net's output (SEAL Eq. 7; deep value network, Gygli et al. 2017):

        L_E = - s(ŷ, y*) log σ(-E(x, ŷ)) - (1 - s(ŷ, y*)) log(1 - σ(-E(x, ŷ)))

    (the printed `log(1 + σ(-E))` is a slip). Since σ(-E) estimates the score, the task-net minimises -σ(-E(x, ŷ)), not
    E.
    """

    name = "regression"
    options = ()

    def annotate(self, space: OutputSpace, logits: Tensor, gold: Tensor, candidates: Candidates) -> None:
        candidates.score = space.score(candidates.y, gold, candidates.mask)

    @staticmethod
    def pointwise(energies: Tensor, score: Tensor) -> Tensor:
        """The loss of each candidate, of both arguments' shape; differentiable in both."""
        return F.binary_cross_entropy_with_logits(-energies, score, reduction="none")

    def __call__(self, energies: Tensor, candidates: Candidates) -> Tensor:
        return self.pointwise(energies[:, OUTPUT], candidates.score[:, OUTPUT]).mean()

    def task_term(self, energy: Tensor, cost: Tensor | None = None) -> Tensor:
        return -torch.sigmoid(-energy).mean()


class RegressionS(Regression):
    """Regression summed over ŷ and K - 1 structures around it (SEAL §2.3, "regression-s"): Gaussian perturbations of
    its logits, or, `discrete`, samples of its distribution. With K = 1, ŷ alone."""

    name = "regression_s"
    options = ("num_samples", "regression_samples", "perturbation_std")
    idle = {"perturbation_std": ("regression_samples", "discrete")}

    @property
    def perturbs(self) -> bool:
        return self.regression_samples == "continuous" and self.num_samples > 1

    def draw(self, space: OutputSpace, logits: Tensor, gold: Tensor, generator: torch.Generator) -> Tensor | None:
        if self.num_samples == 1:
            return None
        if self.regression_samples == "discrete":
            return space.sample(logits, self.num_samples - 1, generator)
        return space.perturb(logits, self.num_samples - 1, self.perturbation_std, generator)

    def __call__(self, energies: Tensor, candidates: Candidates) -> Tensor:
        loss = self.pointwise(energies, candidates.score)  # (B, 1 + K)
        return (loss[:, OUTPUT] + loss[:, SAMPLES].sum(1)).mean()


class DeepValue(Regression):
    """Regression summed over all points of the row, gold too (deep value network, Gygli et al. 2017, §3):

        L_E = Σ_{y in row} BCE( σ(-E(x, y)), s(y, y*) ),     row = [ŷ, y*, adversarial points ..]

    For an energy network on its own, whose row comes from inference: see `energy_methods.py`.
    """

    name = "dvn"

    def __call__(self, energies: Tensor, candidates: Candidates) -> Tensor:
        return self.pointwise(energies, candidates.score).sum(1).mean()


ENERGY_LOSSES: dict[str, type[EnergyLoss]] = {
    loss.name: loss
    for loss in (NCE, Ranking, Margin, InfNet, InfNetPlus, Regression, RegressionS, ContrastiveDivergence)
}
