"""What every output space offers; see the package's docstring."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from copy import copy
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from ..structures.label_sets import LabelSets

SAMPLE_WEIGHT = "sample_weight"  # the column of the rows' weights in the task loss


class LossTraits(Protocol):
    """What a space asks of an energy loss before a run, see `EnergyLoss`."""

    name: str
    gold_mix: float
    needs_gold: bool
    reads_noise: bool
    reads_gold: bool
    has_partner: bool

    @property
    def perturbs(self) -> bool: ...


def ratio(part: Tensor, whole: Tensor) -> Tensor:
    """part / whole of tensors of one shape, 1 where both are 0."""
    return torch.where(whole > 0, part / whole.clamp_min(torch.finfo(whole.dtype).tiny), torch.ones_like(whole))


def drawable(p: Tensor) -> Tensor:
    """Probabilities for `torch.rand(...) < p`: what is below 2⁻²⁴ becomes 0. Numbers of `rand` in float32 are multiples
    of that, 0 among them, so that all of these would be drawn at its rate, and divided by their own."""
    return F.threshold(p, 2**-24, 0.0)


def mixed_odds(odds: Tensor, gold: Tensor, share: float) -> Tensor:
    """The log-odds of (1 - m) σ(z) + m y*, m = `share` in (0, 1), gold y* in {0, 1} of the shape of the odds z."""
    sign = 2 * gold - 1
    other = math.log1p(-share) + F.logsigmoid(-sign * odds)  # log of what the gold does not say
    return sign * (torch.log(-torch.expm1(other)) - other)


def repeated_bits(y: Tensor) -> Tensor:
    """Which rows of y (B, S, n) in {0, 1} equal an earlier one of the same input: (B, S) bool.

    By |a| + |b| - 2 a·b, which is 0 where two sets are equal: memory is B x S², and no B x S x S x n tensor is made.
    """
    size = y.sum(-1)
    equal = size.unsqueeze(2) + size.unsqueeze(1) == 2 * y @ y.transpose(1, 2)
    return equal.tril(-1).any(-1)


class OutputSpace(ABC):
    """What a structured output must offer. `mask` (B, ...) marks the positions that count; `None` means all of them.

    Shapes: B inputs, S candidates, K samples; `...` are the dimensions of one structure, such as (L,) of a label set,
    (T, C) of a tag sequence and (H, W) of a mask. Labels and logits are as the data and the task-net give them: (B, L)
    and (B, L); (B, T) and (B, T, C); (B, H, W) and (B, 1 or 2, h, w).

    Attributes:
        name: Key in `SPACES`; stored in the loss-net's config.
        problem_type: The `config.problem_type` a task-net of this space has; None where its head has none.
        model_name: Of the [`SealModel`] that builds both nets, as messages name it.
        head: How the class of a task-net of this space is called at its end; "": like none of the others.
        energy_program: Which program trains an energy network on its own.
        structure_dims: Dimensions of one structure, without the batch: 1 of a label set, 2 of a tag sequence.
        fills_box: Whether every point of [0, 1]^n is a relaxed structure: gradient-based inference moves every entry
            for itself.
        costs: The kinds of Δ that `cost` knows.
        weights: The arguments of weights of classes that its task losses may take.
        has_all_gold: Whether every row of the data has its gold structure.
        dvn_gold_starts: Share of the rows of a deep value network whose adversarial inference starts from the gold, as
            the authors of SEAL have it.
        unknown_labels: Whether labels of a row may be unknown; None: every call that asks looks at the values, which
            `see` spares.
        loss: The task-net's own loss, where it is an object: [`TaskLoss`], [`TagTaskLoss`] or a user's own.
        sample_weight: (B,) of one batch, see `of`: weights of its rows in the task loss.
    """

    name: str
    problem_type: str | None
    model_name = "SealModel"
    head = ""
    energy_program = "run_energy.py"
    structure_dims: int
    fills_box = False
    costs: tuple[str, ...] = ("f1", "l1", "l1_mean")
    weights: tuple[str, ...] = ()
    has_all_gold = True
    dvn_gold_starts = 0.0
    propose: Callable[[int, torch.Generator], Tensor] | None = None
    loss: Any = None
    unknown_labels: bool | None = None
    sample_weight: Tensor | None = None

    @property
    def samples_from_inputs(self) -> bool:
        """Whether `sample` needs the task-net's outputs at perturbed inputs, see `proposing`."""
        return False

    @classmethod
    def for_model(cls, task_net: PreTrainedModel) -> OutputSpace:
        """The space of this task-net's outputs, with default options."""
        return cls()

    @classmethod
    def from_arguments(cls, args: Any, task_net: PreTrainedModel) -> OutputSpace:
        """The space of this task-net's outputs, with the options that [`SealTrainingArguments`] has for it."""
        return cls.for_model(task_net)

    def decoding_options(self) -> dict[str, Any]:
        """What a task-net's config keeps of how evaluation decodes, for `for_model` to read: predictions of the saved
        net are decoded alike."""
        return {}

    @abstractmethod
    def check(self, logits: Tensor, labels: Tensor) -> None:
        """Raise ValueError where the task-net's output cannot belong to this space. Looks at shapes only."""

    def check_values(self, labels: Tensor, where: str) -> None:  # noqa: B027
        """Raise ValueError for labels of a data set, called `where`, that are none of this space. Looks at values, so
        it is for the start of a run."""

    def see(self, labels: Tensor | None) -> None:  # noqa: B027
        """Learn from all labels of a data set, before a run or an evaluation, what no step need look for; None: they
        could not be looked at, and any may occur."""

    def check_weights(self, names: Iterable[str]) -> None:
        """Raise ValueError for an argument of weights that these outputs do not have."""
        for name in names:
            if name not in self.weights:
                raise ValueError(f"`{name}` is set, which {self.name} outputs do not have. Leave it out.")

    def weigh(self, weights: dict[str, Tensor]) -> None:
        """Give the task loss weights of classes, by argument: `pos_weight` and `label_weight` (L,), `class_weight`
        (C,).

        Raises:
            ValueError: a task loss that takes none.
        """
        self.loss.weigh(weights)

    def balance(self, labels: Iterable[Tensor]) -> Tensor:
        """`balanced` weights, from the labels of the training rows, a part at a time: one for each class, of a space
        that has `weights`."""
        raise NotImplementedError

    def of(self, batch: dict[str, Tensor]) -> OutputSpace:
        """The space with what it needs to know of this batch beside the labels; itself, where that is nothing."""
        if SAMPLE_WEIGHT not in batch:
            return self
        space = copy(self)
        space.sample_weight = batch[SAMPLE_WEIGHT]
        return space

    def holding(self, logits: Tensor, labels: Tensor, noise: Callable[[], torch.Generator]) -> OutputSpace:
        """The space of one batch, whose candidates all hold the same draw of the task-net where labels are unknown;
        itself, where none is. `noise` gives a generator that serves no other purpose."""
        return self

    def proposing(self, propose: Callable[[int, torch.Generator], Tensor]) -> OutputSpace:
        """The space whose samples are decided from other outputs of the task-net; where it `samples_from_inputs`.

        Args:
            propose: (K, generator) -> logits at K perturbed copies of each input, (B, K, ...), without gradient.
        """
        space = copy(self)
        space.propose = propose
        return space

    def best(self, gold: Tensor, samples: Tensor | None, mask: Tensor | None = None) -> Tensor:
        """The gold, (B, ...); in a space where it may be missing, the best of the samples in its place."""
        return gold

    def is_sparse(self, num_labels: int) -> bool:
        """Whether candidates over so many labels are sparse."""
        return False

    def check_loss(self, loss: LossTraits, num_labels: int) -> None:  # noqa: B027
        """Raise ValueError where an energy loss cannot be had in this space."""

    def check_cost(self, kind: str) -> None:
        """Raise ValueError where this space has no such Δ."""
        if kind not in self.costs:
            raise ValueError(
                f"`margin_cost` is {kind!r}, which {self.name} outputs do not have; it must be one of "
                f"{', '.join(self.costs)}."
            )

    def shape(self, features: Tensor, num_labels: int) -> tuple[int, ...]:
        """Of a batch of structures, (B, ...), for what the loss-net's `encode` returns; where they fill a box."""
        raise TypeError(f"structures of {self.name} do not fill a box: no inference moves their entries one by one.")

    @abstractmethod
    def gold(self, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        """Labels as the data give them -> the gold as floats, (B, ...), and the mask of what counts, or None."""

    def fit(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The task-net's logits at the size of the labels, where that is not their own, such as of a mask; else as they
        are. Differentiable."""
        return logits

    @abstractmethod
    def relax(self, logits: Tensor) -> Tensor:
        """Logits -> relaxed structure ŷ (B, ...), each entry in [0, 1], float32 at least, differentiable."""

    def logits(self, y: Tensor) -> Tensor:
        """The inverse of `relax`, for what reads logits (metrics, `decode`): log(y / (1 - y)) of y clipped to
        [1e-6, 1 - 1e-6], in float32, so within ±13.8."""
        return torch.logit(y.float(), eps=1e-6)

    def output(self, logits: Tensor) -> Tensor | LabelSets:
        """The relaxed output as a candidate, differentiable: (B, 1, ...)."""
        return self.relax(logits).unsqueeze(1)

    def candidate(self, y: Tensor) -> Tensor | LabelSets:
        """One structure per input, (B, ...), as a candidate, (B, 1, ...)."""
        return y.unsqueeze(1)

    def join(self, parts: list[Any]) -> Tensor | LabelSets:
        """Candidates side by side, in one row: (B, S, ...)."""
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def facts(self, output: Any) -> dict[str, Tensor]:
        """What the log should say of a relaxed output, by name: tensors, whose mean is logged."""
        return {}

    @abstractmethod
    def sample(self, logits: Tensor, num_samples: int, generator: torch.Generator) -> Tensor | LabelSets:
        """K independent structures drawn from the task-net's distribution: (B, K, ...), without gradient."""

    @abstractmethod
    def perturb(self, logits: Tensor, num_samples: int, std: float, generator: torch.Generator) -> Tensor:
        """K relaxed structures from logits with Gaussian noise of standard deviation `std`: (B, K, ...)."""

    @torch.no_grad()
    def flip(self, gold: Tensor, generator: torch.Generator) -> Tensor:
        """The gold with entries flipped, at a rate that is uniform in [0, 1/2] for each input: (B, 1, ...). Where
        structures fill a box."""
        flips = torch.rand(gold.shape, device=gold.device, generator=generator) < self._flip_rate(gold, generator)
        return (gold - flips.float()).abs().unsqueeze(1)

    @staticmethod
    def _flip_rate(gold: Tensor, generator: torch.Generator) -> Tensor:
        return torch.rand(len(gold), *[1] * (gold.dim() - 1), device=gold.device, generator=generator) / 2

    @abstractmethod
    def mix(self, logits: Tensor, gold: Tensor, share: float) -> Tensor:
        """Logits of the distribution whose every entry is the gold's with probability `share`, else the task-net's."""

    @abstractmethod
    def repeated(self, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Which hard candidates (B, S, ...) equal an earlier one of the same input: (B, S) bool."""

    @abstractmethod
    def log_prob(self, logits: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """log P(y | logits) under the task-net's factorised distribution, closed form: (B, S), in (-inf, 0]."""

    def log_noise(self, logits: Tensor, y: Tensor, mask: Tensor | None = None, *, normalized: bool = False) -> Tensor:
        """log P(y | logits) of what `sample` draws from, for losses that compare candidates of one input: (B, S). Up to
        a constant per input, unless `normalized`."""
        return self.log_prob(logits, y, mask)

    @abstractmethod
    def score(self, y_hat: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Quality s(ŷ, y) of candidates `y_hat` (B, S, ...) against gold `y` (B, ...): (B, S), in [0, 1], 1 is best."""

    @abstractmethod
    def cost(self, y_hat: Tensor, y: Tensor, kind: str, mask: Tensor | None = None) -> Tensor:
        """Cost Δ(ŷ, y) >= 0, differentiable in `y_hat`, one of `costs`: (B, S)."""

    @abstractmethod
    def task_loss(self, logits: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The task-net's own loss: summed over the structure, averaged over the batch (λ1 has meaning only with that).
        A training step gives the generator of its noise, an evaluation none. Scalar."""

    def positions(self, task_net: PreTrainedModel, inputs: dict[str, Tensor]) -> Tensor | None:
        """Which positions are decoded where no labels say it, (B, ...), or None for all. `inputs`: of the task-net."""
        return None

    @abstractmethod
    def decode(self, logits: Tensor, threshold: float = 0.5, mask: Tensor | None = None) -> Tensor:
        """Hard decisions from logits, int64: 0 and 1 of label sets and masks (B, ...), tag ids (B, T). `threshold` is a
        probability, of what is decided entry by entry; `mask`: what counts, which matters where entries are decided
        together."""
