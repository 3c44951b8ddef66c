"""The interface of every energy loss: a row of candidates per input, and a map from their energies to a scalar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..core.space import OutputSpace
from ..utils.options import Options

OUTPUT, GOLD, SAMPLES = 0, 1, slice(2, None)  # columns of a candidate row
CONTRAST = slice(1, None)  # gold first, then the samples


@dataclass
class Candidates:
    """A row of candidates per input, by default without gradient.

    Attributes:
        y: (B, 2 + K, ...) relaxed output, gold, samples; sparse [`LabelSets`] for large label spaces.
        mask: positions that count, or None.
        log_noise: log P_N of gold and samples, up to a constant per input, (B, 1 + K), or with distinct samples the
            logarithm of their inclusion probability; only for losses that use it.
        repeated: which of gold and samples equal an earlier one, (B, 1 + K) bool; only with distinct samples.
        score: s(y, y*) of every candidate, (B, 2 + K), in [0, 1]; only for losses that use it.
        cost: Δ(y, y*); only for losses that use it. (B, 1) of a margin's output, (B, 1 + K) of gold and samples for
            `nce` and `ranking`, of all candidates for `contrastive_divergence`.
    """

    y: Any
    mask: Tensor | None = None
    log_noise: Any = None
    repeated: Any = None
    score: Any = None
    cost: Any = None


@dataclass
class EnergyLoss(Options):
    """Base class. Its fields are its options, named as in [`SealTrainingArguments`]; its other properties are class
    attributes.

    Attributes:
        name: its name in `--loss`.
        margin_cost: Δ, if it reads one.
        gold_mix: the share of the gold in the distribution that its samples come from.
        needs_gold: True if every row must have gold, because no sample can replace it.
        reads_noise: True if it reads log P_N of its samples.
        reads_gold: True if `task_term` reads the cost of the task-net's output and the energy of the gold.
        has_partner: True if a cost-augmented network is trained beside the task-net.
        reads_output: True if L_E depends on ŷ, and so on the task-net's parameters, which implicit gradients need.
        reads_single_labels: True if it reads the energies of the sets of one label, so that it is for label sets alone.
        reads_weight: True if L_E reads λ1 too, as its `weight`, which the trainer sets. No rule then chooses λ1: it is
            constant, and 1 where none is given.
    """

    name: ClassVar[str]
    margin_cost = "f1"
    gold_mix = 0.0
    needs_gold = False
    reads_noise = False
    reads_gold = False
    has_partner = False
    reads_output = True
    reads_single_labels = False
    reads_weight = False

    @property
    def perturbs(self) -> bool:
        """True if its samples are relaxed structures, from logits with noise."""
        return False

    @classmethod
    def draws_samples(cls) -> bool:
        """True if its candidates are samples of structures."""
        return cls.draw is not EnergyLoss.draw and not cls.reads_single_labels

    @classmethod
    def from_arguments(cls, args: Any) -> EnergyLoss:
        """The loss with its options from [`SealTrainingArguments`] or [`EnergyTrainingArguments`]."""
        return cls(**cls.values_from(args))

    def draw(self, space: OutputSpace, logits: Tensor, gold: Tensor, generator: torch.Generator) -> Any:
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
            space: the space of this batch.
            logits: the task-net's, in the labels' size: (B, L), (B, T, C), log-odds (B, H, W) of masks of two classes,
                or (B, C, H, W) of more. Detached here unless `differentiable`.
            labels: as in the data, (B, L), (B, T) or (B, H, W).
            generator: the only source of the samples' random numbers.
            augmented: logits of the cost-augmented network, if there is one, in the shape of `logits`.
            differentiable: ŷ, its cost and its score keep their graph, for implicit gradients; samples never have one.
        """
        with torch.set_grad_enabled(differentiable):
            gold, mask = space.gold(labels)
            samples: Any = self.draw(space, logits, gold, generator) if augmented is None else space.output(augmented)
            gold = space.best(gold, samples, mask)
            row = [space.output(logits), space.candidate(gold)]
            if samples is not None:
                if len(samples.shape) != gold.dim() + 1:
                    raise ValueError(
                        f"`draw` gave {tuple(samples.shape)}; expected (B, K, ...), K structures for each row of the "
                        f"gold, {tuple(gold.shape)}."
                    )
                row.append(samples)
            candidates = Candidates(space.join(row), mask)
            self.annotate(space, logits, gold, candidates)
        return candidates

    def annotate(self, space: OutputSpace, logits: Tensor, gold: Tensor, candidates: Candidates) -> None:
        """Fill in the fields of `candidates` that this loss reads."""

    def __call__(self, energies: Tensor, candidates: Candidates) -> Tensor:
        """Energies (B, 2 + K) -> scalar loss, mean over the batch."""
        raise TypeError(f"{type(self).__name__} lacks `__call__`, which maps energies (B, 2 + K) to a scalar.")

    def terms(self, energies: Tensor, candidates: Candidates) -> dict[str, Tensor]:
        """Further values to log: the parts of a compound loss, by name."""
        return {}

    def task_row(
        self, space: OutputSpace, logits: Tensor, output: Any, gold: Tensor, mask: Tensor | None
    ) -> tuple[Any, Any]:
        """The candidates whose energies `task_term` reads: ŷ, and if the loss `reads_gold` also y*; and then the cost
        Δ(ŷ, y*).

        Args:
            logits: the task-net's, with their graph.
            output: their ŷ as a candidate, (B, 1, ...), with its graph.
            gold: y*, (B, ...).
        """
        if not self.reads_gold:
            return output, None
        return space.join([output, space.candidate(gold)]), space.cost(output, gold, self.margin_cost, mask)

    def task_term(self, energy: Tensor, cost: Tensor | None = None) -> Tensor:
        """E(x, ŷ) (B, 1) -> the scalar that λ1 weighs in the task-net's loss; by default the mean energy. If the loss
        `reads_gold`, `energy` is E(x, ŷ) and E(x, y*), (B, 2), and `cost` is Δ(ŷ, y*), (B, 1)."""
        return energy.mean()
