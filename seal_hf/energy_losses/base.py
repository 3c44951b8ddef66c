"""What every energy loss is: a row of candidates per input, and a map from their energies to a scalar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..spaces import OutputSpace
from ..structures.label_sets import LabelSets
from ..utils.options import Checked, fields_from

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
        raise TypeError(f"{type(self).__name__} is abstract: a loss of its own maps energies to a scalar.")

    def terms(self, energies: Tensor, candidates: Candidates) -> dict[str, Tensor]:
        """What the log says beside the loss: the parts of a compound one."""
        return {}

    def task_term(self, energy: Tensor, cost: Tensor | None = None) -> Tensor:
        """E(x, ŷ) (B, 1) -> the scalar that λ1 weighs in the task-net's loss; the mean energy unless a loss says
        otherwise. Of a loss that `reads_gold`: `energy` is E(x, ŷ) and E(x, y*), (B, 2), `cost` Δ(ŷ, y*), (B, 1)."""
        return energy.mean()
