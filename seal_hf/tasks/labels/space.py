"""Label sets over L labels: `logits` and `labels` (B, L); candidates `y` (B, S, L).

From `sparse_from` labels on, candidates are sparse ([`LabelSets`]): no tensor of size B x S x L is made, and the host
reads the widths of the sets.

A label of a row may be unknown: -1 or NaN in `labels`. Let U be the unknown labels of a row. At U every candidate y of
that row, including the gold and the relaxed output, holds the same draw of the task-net, without gradient:

    y_j = d_j for j in U,     d_j ~ Bernoulli(σ(z_j)) once per row and step

Candidates of a row, and so their energies, then differ only through known labels; the data's values at U are never
used. log P, cost, score and task loss are sums over the labels j not in U. The next step draws again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from ...core import label_sets
from ...core.label_sets import SPARSE_FROM, LabelSets, dot, total
from ...core.space import LossTraits, OutputSpace, all_counted, drawable, mixed_odds, repeated_bits
from .task_losses import CrossEntropy, TaskLoss

UNKNOWN = -1  # in the data: the label may be present or absent
ABSENT = -1e4  # a logit with probability 0 in float32; half precision can hold it


class MultiLabelSpace(OutputSpace):
    """Label sets: y in {0, 1}^L, independent Bernoulli outputs.

    Args:
        sparse_from: from this number of labels on, candidates are [`LabelSets`]: sets as lists of labels, exact samples
            whose cost grows with their size, and the relaxed output cut to its largest entries.
        relaxed_mass: share of Σ_j ŷ_j that a cut output keeps, in (0, 1]; 1 always keeps `relaxed_width` entries.
        relaxed_width: the maximum number of entries of a cut output.
        loss: the task-net's own loss, one of `TASK_LOSSES`; default: cross-entropy.

    Raises:
        ValueError: `relaxed_mass` is outside (0, 1].
    """

    name = "multi_label"
    model_name = "SealForMultiLabel"
    fills_box = True
    problem_type = "multi_label_classification"
    structure_dims = 1
    weights = ("pos_weight", "label_weight")

    def __init__(
        self,
        sparse_from: int = SPARSE_FROM,
        relaxed_mass: float = 0.99,
        relaxed_width: int = 256,
        loss: TaskLoss | None = None,
    ):
        if not 0 < relaxed_mass <= 1:
            raise ValueError(f"`relaxed_mass` is {relaxed_mass}; it must be above 0 and at most 1.")
        self.sparse_from, self.relaxed_mass, self.relaxed_width = sparse_from, relaxed_mass, relaxed_width
        self.loss: Any = loss or CrossEntropy()
        self.known: Tensor | None = None  # (B, L) bool, and log-odds ±inf of the draws, for one batch; see `holding`
        self.drawn: Tensor | None = None

    @classmethod
    def from_arguments(cls, args: Any, task_net: PreTrainedModel) -> MultiLabelSpace:
        return cls(args.sparse_labels_from, args.relaxed_mass, args.relaxed_width, TaskLoss.from_arguments(args))

    def is_sparse(self, num_labels: int) -> bool:
        return num_labels >= self.sparse_from

    def check_loss(self, loss: LossTraits, num_labels: int) -> None:
        """Raises ValueError for sparse label sets with noise on the logits, which would make every entry distinct, with
        a cost-augmented net, whose cost needs labels that the cut output may lack, or with a second classifier, which
        gives all labels."""
        if loss.reads_single_labels and self.is_sparse(num_labels):
            raise ValueError(
                f"energy_loss={loss.name!r} learns the probabilities of all {num_labels} labels, but label sets are "
                f"sparse from {self.sparse_from} labels on. Choose nce, or set `sparse_labels_from` above the number "
                "of labels."
            )
        if loss.reads_gold and self.is_sparse(num_labels):
            raise ValueError(
                f"energy_loss={loss.name!r} needs the cost of all {num_labels} labels of the output, but label "
                f"sets are sparse from {self.sparse_from} labels on. Choose margin, or set `sparse_labels_from` above "
                "the number of labels."
            )
        if loss.perturbs:
            self._refuse_perturbed(num_labels)

    def _refuse_perturbed(self, num_labels: int) -> None:
        if self.is_sparse(num_labels):
            raise ValueError(
                f"energy_loss='regression_s' perturbs every one of the {num_labels} logits, but label sets are sparse "
                f"from {self.sparse_from} labels on. Choose regression_samples='discrete', or nce, ranking, margin or "
                "regression, or set `sparse_labels_from` above the number of labels."
            )

    def check(self, logits: Tensor, labels: Tensor) -> None:
        """Logits and labels must both be (B, L).

        Raises:
            ValueError: the message names both shapes.
        """
        if logits.dim() != 2 or logits.shape != labels.shape:
            raise ValueError(
                f"The task-net's logits have shape {tuple(logits.shape)} and `labels` have shape "
                f"{tuple(labels.shape)}; a "
                "multi-label task-net gives one logit per label and takes a multi-hot vector per row: both must be "
                "(batch, num_labels). Check the model's `num_labels` and that `labels` is multi-hot."
            )

    def check_shape(self, shape: tuple[int, ...], num_labels: int, where: str) -> None:
        """Raise ValueError unless the labels of a row are a vector of L numbers."""
        if shape == (num_labels,):
            return
        found = {0: "one number", 1: f"{math.prod(shape)} values"}.get(len(shape), f"values of shape {shape}")
        hint = " For one class or one target per row, use the Trainer of transformers." if not shape else ""
        raise ValueError(
            f"A row of `labels` of `{where}` has {found}; expected {num_labels}, one 0 or 1 for each label "
            f"(config.num_labels). Ids of labels must be written as such a vector.{hint}"
        )

    def check_values(self, labels: Tensor, where: str) -> None:
        """Labels must be 0 or 1, or -1 or NaN for unknown. In a whole data set, (N, L), at least one must be known.

        Raises:
            ValueError: the message names the wrong value.
        """
        wrong = labels[(labels != 0) & (labels != 1) & (labels != UNKNOWN) & ~labels.isnan()]
        if len(wrong):
            raise ValueError(
                f"`labels` of `{where}` holds {wrong[0].item():g}; expected 0 or 1 for each label, or {UNKNOWN} "
                "for an unknown label. Write ids of labels as such a vector, as load_multilabel does, and leave rows "
                "with other values out."
            )
        if labels.dim() == 2 and not (labels >= 0).any():
            raise ValueError(f"All labels of the {len(labels)} rows of `{where}` are unknown. Give rows with labels.")

    def see(self, labels: Tensor | None) -> None:
        """Note whether labels are unknown, in this data set or an earlier one."""
        self.unknown_labels = bool(self.unknown_labels or labels is None or not (labels >= 0).all())

    def holding(self, logits: Tensor, labels: Tensor, noise: Callable[[], torch.Generator]) -> MultiLabelSpace:
        known = self._known(labels)
        if known is None:
            return self
        space = copy(self)
        with torch.no_grad():
            p = drawable(torch.sigmoid(logits.float()))
            ones = torch.rand(p.shape, device=p.device, generator=noise()) < p
            space.known, space.drawn = known, torch.where(ones, torch.inf, -torch.inf)
        return space

    def _known(self, labels: Tensor) -> Tensor | None:
        """Which labels are known, (B, L) bool; None if all are."""
        if self.unknown_labels is False:
            return None
        known = labels >= 0  # NaN is not
        return None if self.unknown_labels is None and bool(known.all()) else known

    def _held(self, logits: Tensor) -> Tensor:
        """Logits (B, L) with ±inf at unknown labels, for the values that all candidates hold there."""
        if self.known is None or self.drawn is None:
            return logits
        return torch.where(self.known, logits, self.drawn)

    def _absent(self, logits: Tensor) -> Tensor:
        """Logits (B, L) with -inf at unknown labels, so that sparse sets hold none of them."""
        return logits if self.known is None else logits.masked_fill(~self.known, -torch.inf)

    def _with_drawn(self, sets: LabelSets) -> LabelSets:
        """Adds the draws at unknown labels to such sets (one block)."""
        if self.known is None or self.drawn is None:
            return sets
        ((index, value),) = sets.blocks
        drawn = (self.drawn > 0) & ~self.known
        ((more, ones),) = label_sets.from_dense(drawn.to(value.dtype).unsqueeze(1)).blocks
        more, ones = (part.expand(-1, index.shape[1], -1) for part in (more, ones))
        block = torch.cat([index, more], dim=-1), torch.cat([value, ones], dim=-1)
        return LabelSets((block,), sets.num_labels, sets.dropped)

    def balance(self, labels: Iterable[Tensor]) -> Tensor:
        """Weights for `pos_weight`, (L,): the number of rows that lack a label, divided by the number that have it,
        among rows where it is known. The weight is 1 if no row has the label, or every row has it."""
        counts: Any = sum(torch.stack([(part == value).sum(0) for value in (0, 1)]) for part in labels)  # (2, L)
        return torch.where(counts.amin(0) > 0, counts[0] / counts[1].clamp_min(1), torch.ones(()))

    def shape(self, features: Tensor, num_labels: int) -> tuple[int, ...]:
        return (features.shape[0], num_labels)

    def gold(self, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        """Turn labels (B, L) of 0 and 1, in any dtype, into float32 (B, L), with the draw at unknown labels, or 0
        outside a step. It also returns the known labels, (B, L) bool, or None if all are known."""
        known = self._known(labels) if self.known is None else self.known
        if known is None:
            return labels.float(), None
        drawn: Any = 0.0 if self.drawn is None else (self.drawn > 0).float()
        return torch.where(known, labels.float(), drawn), known

    def relax(self, logits: Tensor) -> Tensor:
        """ŷ = sigmoid(logits), in float32."""
        return torch.sigmoid(self._held(logits.float()))

    def output(self, logits: Tensor) -> Tensor | LabelSets:
        """ŷ as a candidate, (B, 1, L). If it is sparse, it has only its largest entries, see [`truncate`], and all
        drawn labels."""
        if not self.is_sparse(logits.shape[-1]):
            return super().output(logits)
        return self._with_drawn(label_sets.truncate(self._absent(logits), self.relaxed_mass, self.relaxed_width))

    def candidate(self, y: Tensor) -> Tensor | LabelSets:
        y = y.unsqueeze(1)
        return label_sets.from_dense(y) if self.is_sparse(y.shape[-1]) else y

    def join(self, parts: list[Any]) -> Tensor | LabelSets:
        return label_sets.concatenate(parts) if isinstance(parts[0], LabelSets) else super().join(parts)

    def facts(self, output: Tensor | LabelSets) -> dict[str, Tensor]:
        """For sparse sets, the mass Σ ŷ_j that the cut left out of each row, in labels."""
        if not isinstance(output, LabelSets):
            return {}
        assert output.dropped is not None
        return {"dropped_mass": output.dropped}

    @torch.no_grad()
    def sample(self, logits: Tensor, num_samples: int, generator: torch.Generator) -> Tensor | LabelSets:
        """y_k ~ Bernoulli(sigmoid(logits)), k = 1..K, all at once; a sample may equal the gold. Float32 (B, K, L)."""
        if self.is_sparse(logits.shape[-1]):
            return self._with_drawn(label_sets.sample_bernoulli(self._absent(logits), num_samples, generator))
        return self._sets(self._held(logits), num_samples, generator)

    @torch.no_grad()
    def _sets(self, logits: Tensor, num_samples: int, generator: torch.Generator) -> Tensor | LabelSets:
        if self.is_sparse(logits.shape[-1]):
            return label_sets.sample_bernoulli(logits, num_samples, generator)
        p = drawable(torch.sigmoid(logits.float())).unsqueeze(1)  # (B, 1, L)
        noise = torch.rand(p.shape[0], num_samples, p.shape[2], device=p.device, generator=generator)
        return (noise < p).float()

    @torch.no_grad()
    def perturb(self, logits: Tensor, num_samples: int, std: float, generator: torch.Generator) -> Tensor:
        """sigmoid(logits + N(0, std²)): float32 (B, K, L).

        Raises:
            ValueError: for sparse label sets, since noise makes every entry distinct.
        """
        self._refuse_perturbed(logits.shape[-1])
        logits = self._held(logits.float()).unsqueeze(1)
        shape = (logits.shape[0], num_samples, logits.shape[2])
        return torch.sigmoid(logits + std * torch.randn(shape, device=logits.device, generator=generator))

    def mix(self, logits: Tensor, gold: Tensor, share: float) -> Tensor:
        """The logits of (1 - m) σ(z) + m y*, m = `share` in (0, 1): (B, L)."""
        return mixed_odds(self._held(logits.float()), gold, share)

    def repeated(self, y: Tensor | LabelSets, mask: Tensor | None = None) -> Tensor:
        """As in the base class. Dense sets are compared by their distance, sparse sets by a sum of hashes."""
        if not isinstance(y, LabelSets):
            return repeated_bits(y)
        key = label_sets.hashes(y)
        return (key.unsqueeze(2) == key.unsqueeze(1)).tril(-1).any(-1)

    def log_prob(self, logits: Tensor, y: Tensor | LabelSets, mask: Tensor | None = None) -> Tensor:
        """Σ_j y_j log p_j + (1 - y_j) log(1 - p_j) = Σ_j y_j logit_j - softplus(logit_j): (B, S) for `y` (B, S, L).

        Written in logits, so that no (B, S, L) tensor is made and nothing is clamped.
        """
        logits = _counted(logits.float(), mask)
        return dot(y, logits) - _counted(F.softplus(logits), mask).sum(-1, keepdim=True)

    def log_noise(
        self, logits: Tensor, y: Tensor | LabelSets, mask: Tensor | None = None, *, normalized: bool = False
    ) -> Tensor:
        """As in the base class. For sparse sets, unless `normalized`, it is only Σ_j y_j logit_j, since the constant
        would cost a pass over all labels."""
        if isinstance(y, LabelSets) and not normalized:
            return dot(y, _counted(logits.float(), mask))
        return self.log_prob(logits, y, mask)

    def sums(self, y_hat: Tensor | LabelSets, y: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        y = _counted(y, mask)
        size = total(y_hat) if mask is None else dot(y_hat, mask.to(torch.float32))
        return dot(y_hat, y), size + y.sum(-1, keepdim=True)

    def num_counted(self, y: Tensor, mask: Tensor | None) -> Tensor:
        return all_counted(y, y.shape[1]) if mask is None else mask.sum(1, keepdim=True).float()

    def task_loss(self, logits: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The chosen task loss. A loss on samples draws them here, from `generator`; without a generator, as in
        evaluation, it is cross-entropy. An unknown label becomes an absent label of probability 0, which has no
        gradient in any of these losses, and adds 0 to their value. (A row without any known label adds log(K + 1) in
        `ranking`: gold and samples are the same there.)"""
        known = self._known(labels)
        if self.soft_labels is not None:
            if not getattr(self.loss, "reads_probabilities", False):
                raise ValueError(
                    "The training rows have probabilities of labels (label_format='probabilities'), which only the "
                    "task loss cross_entropy reads: give task_loss='cross_entropy' (--task_loss cross_entropy)."
                )
            labels = self.soft_labels
        if known is not None:
            logits, labels = logits.masked_fill(~known, ABSENT), labels.masked_fill(~known, 0)
        samples = None
        if self.loss.draws and generator is not None:
            loss: Any = self.loss  # a loss that draws has `num_samples`
            samples = self._sets(logits, loss.num_samples, generator)
        weight = {} if self.sample_weight is None else {"weight": self.sample_weight}
        return self.loss(logits, labels, samples, **weight)

    def decode(self, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        """1 where the probability is at least 0.5, else 0: int64 (B, L)."""
        return (self.relax(logits) >= 0.5).long()


def _counted(values: Tensor, mask: Tensor | None) -> Tensor:
    """`values` (B, L) with 0 where `mask` is False."""
    return values if mask is None else values.masked_fill(~mask, 0)
