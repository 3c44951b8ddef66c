"""Output spaces: everything the method must know about one kind of structured output.

A space turns logits into relaxed structures, and draws and scores candidates, so that the algorithm, the energies and
the energy losses need not know about label sets, tag sequences or masks. All methods are vectorised over the batch B
and the candidates S. Nothing loops over examples. In training three things wait for the device: the sizes of sparse
label sets, the pieces of masks for the rule `connected`, and rewards that are Python functions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from .label_sets import LabelSets
from .masks import IGNORE

UNLABELLED = -1  # the label of a position that counts but lacks a gold tag
UNLABELLED_SET = -2  # the label of a set without gold; -1 is an unknown label
UNLABELLED_PIXEL = IGNORE - 1  # the label of a pixel that counts but lacks a gold class
REWARD_CODES = "reward_codes"  # the column with what the reward must know
SAMPLE_WEIGHT = "sample_weight"  # the column with each row's weight in the task loss
SOFT_LABELS = "soft_labels"  # the column with probabilities of labels, which the task loss reads in place of the labels


class LossTraits(Protocol):
    """What a space needs to know about an energy loss before a run, see `EnergyLoss`."""

    name: str
    gold_mix: float
    needs_gold: bool
    reads_noise: bool
    reads_gold: bool
    reads_output: bool
    has_partner: bool
    reads_single_labels: bool

    @property
    def perturbs(self) -> bool: ...


def ratio(part: Tensor, whole: Tensor) -> Tensor:
    """part / whole, elementwise, and 1 where both are 0."""
    return torch.where(whole > 0, part / whole.clamp_min(torch.finfo(whole.dtype).tiny), torch.ones_like(whole))


def drawable(p: Tensor) -> Tensor:
    """Probabilities for `torch.rand(...) < p`, in which those below 2⁻²⁴ are 0.

    In float32 `rand` gives multiples of 2⁻²⁴, including 0, so such entries would be drawn at the rate 2⁻²⁴, but their
    log-probability would use their own p.
    """
    return F.threshold(p, 2**-24, 0.0)


def mixed_odds(odds: Tensor, gold: Tensor, share: float) -> Tensor:
    """The log-odds of (1 - m) σ(z) + m y*, m = `share` in (0, 1). Gold y* in {0, 1} has the shape of the odds z."""
    sign = 2 * gold - 1
    other = math.log1p(-share) + F.logsigmoid(-sign * odds)  # log-probability of what the gold is not
    return sign * (torch.log(-torch.expm1(other)) - other)


def mixed_logs(logs: Tensor, gold: Tensor, share: float) -> Tensor:
    """The log-probabilities of (1 - m) p + m y*, m = `share` in (0, 1). Gold y* in {0, 1} has the shape of log p."""
    own = logs + math.log1p(-share)
    return torch.where(gold > 0, torch.logaddexp(own, torch.full_like(own, math.log(share))), own)


def all_counted(y: Tensor, size: int) -> Tensor:
    """`size` for each row of y, as a float32 tensor (B, 1)."""
    return torch.full((len(y), 1), float(size), device=y.device)


def balanced_weights(counts: Tensor) -> Tensor:
    """N / (C n_c) for n_c of N entries of class c, as in scikit-learn; 1 for a class without entries: (C,)."""
    return torch.where(counts > 0, counts.sum() / (len(counts) * counts.clamp_min(1)), torch.ones(()))


def repeated_bits(y: Tensor) -> Tensor:
    """Which rows of y (B, S, n) in {0, 1} equal an earlier one of the same input: (B, S) bool.

    Uses |a| + |b| - 2 a·b, which is 0 if two sets are equal: memory is B x S², without a B x S x S x n tensor.
    """
    size = y.sum(-1)
    equal = size.unsqueeze(2) + size.unsqueeze(1) == 2 * y @ y.transpose(1, 2)
    return equal.tril(-1).any(-1)


class OutputSpace(ABC):
    """Base class of output spaces. `mask` (B, ...) marks the positions that count; `None` means that all count.

    Shapes, for B inputs, S candidates and K samples; `...` are the dimensions of one structure:

    | output | labels | logits of the task-net | structure |
    |---|---|---|---|
    | label set | (B, L) | (B, L) | (L,) |
    | tag sequence | (B, T) | (B, T, C) | (T, C) |
    | mask of two classes | (B, H, W) | (B, 1 or 2, h, w), or log-odds (B, H, W) | (H, W) |
    | mask of C classes | (B, H, W) | (B, C, h, w) | (C, H, W) |

    Attributes:
        name: Key in `SPACES`; stored in the loss-net's config.
        problem_type: The `config.problem_type` of a task-net of this space; None if its head has none.
        model_name: Name of the [`SealModel`] that builds both nets, for messages.
        energy_program: The program that trains an energy network on its own.
        structure_dims: Number of dimensions of one structure, without the batch: 1 for a label set, 2 for a tag
            sequence.
        label_dim: The dimension of a batch of logits and structures that runs over the labels. Structures of masks of
            two classes have none.
        fills_box: True if every point of [0, 1]^n is a relaxed structure, so that gradient-based inference can move
            each entry independently.
        costs: The kinds of Δ that `cost` supports. `f1`, the default, and `l1`, which `differs` reads, are among them.
        weights: The arguments with class weights that its task losses may take.
        has_all_gold: True if every row of the data must have a gold structure.
        dvn_gold_starts: Share of the rows of a deep value network whose adversarial inference starts from the gold, as
            in the code of SEAL's authors.
        unknown_labels: True if labels of a row may be unknown; None: not known yet, so that each call looks at the
            values. `see` avoids that.
        loss: The task-net's own loss, if it is an object: one of the task's `task_losses`, or a user's own. A trainer
            sets it to the function that it is given as `task_loss`, so `task_loss` should call it.
        sample_weight: (B,), the weights of one batch's rows in the task loss, see `of`.
        soft_labels: (B, L), probabilities of one batch's labels, which the task loss reads in their place, see `of`.
    """

    name: str
    problem_type: str | None
    model_name = "SealModel"
    energy_program = "seal-hf train energy"
    structure_dims: int
    label_dim = -1
    fills_box = False
    costs: tuple[str, ...] = ("f1", "l1", "l1_mean")
    weights: tuple[str, ...] = ()
    has_all_gold = True
    dvn_gold_starts = 0.0
    propose: Callable[[int, torch.Generator], Tensor] | None = None
    loss: Any = None
    unknown_labels: bool | None = None
    sample_weight: Tensor | None = None
    soft_labels: Tensor | None = None

    @property
    def parameters(self) -> list[Tensor]:
        """The trainable parameters of the task-net that `relax` reads beside the logits, such as a CRF's."""
        return []

    @property
    def samples_from_inputs(self) -> bool:
        """True if `sample` needs the task-net's outputs at perturbed inputs, see `proposing`."""
        return False

    @classmethod
    def for_model(cls, task_net: PreTrainedModel) -> OutputSpace:
        """The space of this task-net's outputs, with default options."""
        return cls()

    @classmethod
    def from_arguments(cls, args: Any, task_net: PreTrainedModel) -> OutputSpace:
        """The space of this task-net's outputs, with its options from [`SealTrainingArguments`]."""
        return cls.for_model(task_net)

    def decided_by(self, decoder: str | None) -> OutputSpace:
        """The space with another decoder. A space that does not decode returns itself: its outputs are decided
        elsewhere."""
        return self

    def decoding_options(self) -> dict[str, Any]:
        """How evaluation decodes, as saved in a task-net's config. `for_model` reads it, so that predictions of the
        saved net are decoded the same way."""
        return {}

    @abstractmethod
    def check(self, logits: Tensor, labels: Tensor) -> None:
        """Raise ValueError if the task-net's output cannot belong to this space. It looks at shapes only."""

    def check_shape(self, shape: tuple[int, ...], num_labels: int, where: str) -> None:  # noqa: B027
        """Raise ValueError if the labels of a row cannot have this shape. The message calls the data set `where`."""

    def check_values(self, labels: Tensor, where: str) -> None:  # noqa: B027
        """Raise ValueError if labels are invalid in this space. The message calls the data set `where`. The check reads
        values, so call it at the start of a run."""

    def see(self, labels: Tensor | None) -> None:  # noqa: B027
        """Look at all labels of a data set before a run or an evaluation, so that no step has to. If `labels` is None,
        they cannot be read and any may occur."""

    def check_weights(self, names: Iterable[str]) -> None:
        """Raise ValueError for a weights argument that these outputs do not support."""
        for name in names:
            if name not in self.weights:
                raise ValueError(f"`{name}` is set, but {self.name} outputs do not support it. Leave it out.")

    def weigh(self, weights: dict[str, Tensor]) -> None:
        """Set the class weights of the task loss, given as argument -> weights. `pos_weight` and `label_weight` are
        (L,), `class_weight` is (C,).

        Raises:
            ValueError: the task loss takes no class weights.
        """
        self.loss.weigh(weights)

    def balance(self, labels: Iterable[Tensor]) -> Tensor:
        """The `balanced` weight of each class, from the labels of the training rows, which come in parts. It is for
        spaces with `weights`."""
        raise NotImplementedError

    def of(self, batch: dict[str, Tensor]) -> OutputSpace:
        """The space for this batch, with what it needs besides the labels. It returns itself if it needs nothing."""
        if SAMPLE_WEIGHT not in batch and SOFT_LABELS not in batch:
            return self
        space = copy(self)
        space.sample_weight, space.soft_labels = batch.get(SAMPLE_WEIGHT), batch.get(SOFT_LABELS)
        return space

    def in_window(self, labels: Sequence[Tensor]) -> OutputSpace:
        """The space for a micro-batch of an accumulation window. It returns itself if its task loss is a mean over
        rows, which needs no window.

        Args:
            labels: of the micro-batches of the window; empty for a batch that is a window by itself.
        """
        return self

    def holding(self, logits: Tensor, labels: Tensor, noise: Callable[[], torch.Generator]) -> OutputSpace:
        """The space of one batch in which all candidates of a row hold the same draw of the task-net at unknown labels.
        It returns itself if no label is unknown. `noise` gives a generator that is used for nothing else."""
        return self

    def proposing(self, propose: Callable[[int, torch.Generator], Tensor]) -> OutputSpace:
        """The space whose samples are decisions on other outputs of the task-net. It is for a space that
        `samples_from_inputs`.

        Args:
            propose: (K, generator) -> logits at K perturbed copies of each input, (B, K, ...), without gradient.
        """
        space = copy(self)
        space.propose = propose
        return space

    def best(self, gold: Tensor, samples: Tensor | None, mask: Tensor | None = None) -> Tensor:
        """The gold (B, ...). For rows without gold, it is the best of the samples."""
        return gold

    def is_sparse(self, num_labels: int) -> bool:
        """True if candidates over `num_labels` labels are sparse."""
        return False

    def check_loss(self, loss: LossTraits, num_labels: int) -> None:
        """Raise ValueError if this space does not support the energy loss."""
        if loss.reads_single_labels:
            raise ValueError(f"energy_loss={loss.name!r} is for label sets, not for {self.name} outputs. Use nce.")

    def check_cost(self, kind: str) -> None:
        """Raise ValueError if this space does not support this Δ."""
        if kind not in self.costs:
            raise ValueError(
                f"`margin_cost` is {kind!r}; for {self.name} outputs it must be one of {', '.join(self.costs)}."
            )

    def shape(self, features: Tensor, num_labels: int) -> tuple[int, ...]:
        """The shape (B, ...) of a batch of structures, from what the loss-net's `encode` returns. It is for spaces that
        fill a box."""
        raise TypeError(f"{self.name} structures do not fill a box: no inference can move their entries one by one.")

    def has_gold(self, labels: Tensor) -> Tensor:
        """Which rows have gold: (B,) bool."""
        return labels.new_ones(len(labels), dtype=torch.bool)

    @abstractmethod
    def gold(self, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        """Turn labels, as in the data, into the gold as floats (B, ...), and the mask of what counts, or None if all
        counts."""

    def fit(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Resize the task-net's logits to the labels if their sizes may differ, as for masks. It is differentiable."""
        return logits

    @abstractmethod
    def relax(self, logits: Tensor) -> Tensor:
        """Turn logits into a relaxed structure ŷ (B, ...): each entry is in [0, 1], at least float32,
        differentiable."""

    def logits(self, y: Tensor) -> Tensor:
        """The inverse of `relax`, for code that reads logits (metrics, `decode`): log(y / (1 - y)), with y clipped to
        [1e-6, 1 - 1e-6], in float32, so within ±13.8."""
        return torch.logit(y.float(), eps=1e-6)

    def output(self, logits: Tensor) -> Tensor | LabelSets:
        """The relaxed output as a candidate, differentiable: (B, 1, ...)."""
        return self.relax(logits).unsqueeze(1)

    def candidate(self, y: Tensor) -> Tensor | LabelSets:
        """One structure per input, (B, ...), as a candidate, (B, 1, ...)."""
        return y.unsqueeze(1)

    def join(self, parts: list[Any]) -> Tensor | LabelSets:
        """All candidates side by side: (B, S, ...)."""
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def facts(self, output: Any) -> dict[str, Tensor]:
        """Facts about a relaxed output to log: name -> tensor, whose mean is logged."""
        return {}

    @abstractmethod
    def sample(self, logits: Tensor, num_samples: int, generator: torch.Generator) -> Tensor | LabelSets:
        """K independent structures drawn from the task-net's distribution: (B, K, ...), without gradient."""

    @abstractmethod
    def perturb(self, logits: Tensor, num_samples: int, std: float, generator: torch.Generator) -> Tensor:
        """K relaxed structures from logits with Gaussian noise of standard deviation `std`: (B, K, ...)."""

    @torch.no_grad()
    def flip(self, gold: Tensor, generator: torch.Generator) -> Tensor:
        """The gold with entries flipped, at a rate that is drawn uniformly from [0, 1/2] for each input: (B, 1, ...).
        It is for spaces that fill a box."""
        flips = torch.rand(gold.shape, device=gold.device, generator=generator) < self._flip_rate(gold, generator)
        return (gold - flips.float()).abs().unsqueeze(1)

    @staticmethod
    def _flip_rate(gold: Tensor, generator: torch.Generator) -> Tensor:
        return torch.rand(len(gold), *[1] * (gold.dim() - 1), device=gold.device, generator=generator) / 2

    def mix(self, logits: Tensor, gold: Tensor, share: float) -> Tensor:
        """Logits of a mixture: each entry is the gold's with probability `share`, and the task-net's otherwise.

        Raises:
            ValueError: no logits give such a distribution.
        """
        raise ValueError(f"`gold_mix` is {share}, but {self.name} outputs have no mixture with the gold. Leave it out.")

    def repeated(self, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Which hard candidates (B, S, ...) equal an earlier one of the same input: (B, S) bool. By default all entries
        count."""
        return repeated_bits(y.flatten(2))

    @abstractmethod
    def log_prob(self, logits: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """log P(y | logits) under the task-net's own distribution, exact: (B, S), at most 0; -inf if it excludes y."""

    def log_noise(self, logits: Tensor, y: Tensor, mask: Tensor | None = None, *, normalized: bool = False) -> Tensor:
        """log P(y | logits) of the distribution that `sample` draws from: (B, S), finite. Unless `normalized`, it lacks
        a constant per input, which losses that compare candidates of one input do not need."""
        return self.log_prob(logits, y, mask)

    def score(self, y_hat: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Quality s(ŷ, y) of candidates `y_hat` (B, S, ...) against gold `y` (B, ...): (B, S), in [0, 1], 1 is best.
        It is the agreement; a reward may take its place."""
        return self.agreement(y_hat, y, "f1", mask)

    def agreement(self, y_hat: Tensor, y: Tensor, kind: str, mask: Tensor | None = None) -> Tensor:
        """Soft F1 = 2 Σ min(ŷ, y) / (Σ ŷ + Σ y), the agreement of the kind `f1` (Gygli et al. 2017; SEAL, footnote 2):
        (B, S), 1 for two empty structures. For y in {0, 1}, min(ŷ, y) = ŷ y."""
        overlap, total = self.sums(y_hat, y, mask)
        return ratio(2 * overlap, total)

    def cost(self, y_hat: Tensor, y: Tensor, kind: str, mask: Tensor | None = None) -> Tensor:
        """Cost Δ(ŷ, y) >= 0, differentiable in `y_hat`: (B, S). `kind` is one of `costs`: `l1` = Σ |ŷ - y| (InfNet+),
        `l1_mean` = `l1` per label, tag or pixel that counts, any other = 1 - agreement of that kind (SPEN)."""
        self.check_cost(kind)
        if kind not in ("l1", "l1_mean"):
            return 1 - self.agreement(y_hat, y, kind, mask)
        overlap, total = self.sums(y_hat, y, mask)
        distance = total - 2 * overlap  # |ŷ - y| = ŷ + y - 2 ŷ y for y in {0, 1}
        distance = distance.sum(2) if distance.dim() > 2 else distance
        return distance if kind == "l1" else distance / self.num_counted(y, mask).clamp_min(1)

    def sums(self, y_hat: Tensor, y: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The overlap ŷ·y and the total Σ ŷ + Σ y over what counts: (B, S) each, or (B, S, C) for masks of several
        classes. By default all entries count."""
        y_hat, y = y_hat.flatten(2), y.flatten(1).unsqueeze(1)
        return (y_hat * y).sum(2), y_hat.sum(2) + y.sum(2)

    def num_counted(self, y: Tensor, mask: Tensor | None) -> Tensor:
        """How many labels, tags or pixels of y (B, ...) count: (B, 1). By default all entries do."""
        return all_counted(y, y[0].numel())

    def differs(self, y: Tensor, gold: Tensor, mask: Tensor | None = None) -> Tensor:
        """Which structures of (B, S, ...) are not the gold (B, ...): (B, S) bool."""
        return self.cost(y, gold, "l1", mask) > 0

    @abstractmethod
    def task_loss(self, logits: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The task-net's own loss, a scalar: summed over the structure, averaged over the batch. λ1 is meaningful only
        with these sums and means. A training step passes the generator of its noise; an evaluation passes none."""

    def positions(self, task_net: PreTrainedModel, inputs: dict[str, Tensor]) -> Tensor | None:
        """The positions (B, ...) to decode when there are no labels; None for all. `inputs` are those of the
        task-net."""
        return None

    @abstractmethod
    def decode(self, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        """Hard decisions from logits, int64: 0 and 1 for label sets and masks (B, ...), which are 1 where the
        probability is at least 0.5; ids for tags (B, T) and masks of several classes. `mask` (what counts) matters if
        entries are decided together."""
