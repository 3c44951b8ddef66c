"""Task losses for tag sequences: a tagging task-net's own losses, each with its equation and source.

A loss maps logits (B, T, C) and labels (B, T) to a scalar. Labels are tag ids, -100 where a position does not count.
The loss is a sum over counted positions and a mean over the batch, so that λ1 means the same with each loss. All
computations are in float32, or in float64 if the logits are. Positions that do not count have no influence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...core.tag_schemes import core_roles
from ...core.task_losses import loss_named, mean, refuse
from ...core.tensors import IGNORED, at_least_float32
from ...utils.options import Options, option
from .chains import CRF

LEAST = 1e-6  # the authors' lower bound of 1 - B_X(j) before the log


@dataclass(eq=False)
class TagTaskLoss(Options):
    """Base class of the task losses of tags. The fields of a loss are its options, except these two, which come from
    the task-net.

    Attributes:
        tags: the C names of the tags, as in `config.id2label`.
        crf: the transitions that `crf` trains; a part of the task-net.
    """

    tags: Sequence[str] = ()
    crf: CRF | None = None

    @classmethod
    def from_arguments(cls, args: Any, tags: Sequence[str], crf: CRF | None = None) -> TagTaskLoss:
        """The loss that [`SealTrainingArguments`] name, with its options, for a task-net with these tags.

        Raises:
            ValueError: `task_loss` is unknown for tag sequences, or does not suit this task-net.
        """
        kind = loss_named(args, TAG_TASK_LOSSES, "tag sequences")
        if crf is not None and args.task_loss != "crf":
            raise ValueError(
                f"`task_loss` is {args.task_loss!r}, but the task-net has a CRF, which only 'crf' trains and decodes "
                "with. Set task_loss='crf', or load the task-net with crf=False."
            )
        return kind(tags, crf, **kind.values_from(args))

    def __call__(self, logits: Tensor, labels: Tensor, weight: Tensor | None = None) -> Tensor:
        """Logits (B, T, C) and labels (B, T) -> scalar, the mean over rows; with `weight` (B,), Σ_i w_i ℓ_i / B."""
        return mean(self.per_example(at_least_float32(logits), labels), weight)

    def weigh(self, weights: dict[str, Tensor]) -> None:
        """Set class weights of the tags.

        Raises:
            ValueError: the loss is not a sum over positions, or the weights are for labels.
        """
        refuse(weights, type(self).__name__)

    def per_example(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of each row, (B,), summed over the counted positions, from logits (B, T, C) and labels (B, T). It
        has the precision of the logits."""
        raise TypeError(f"{type(self).__name__} lacks `per_example`, which gives the loss of each row, (B,).")


class TagCrossEntropy(TagTaskLoss):
    """Cross-entropy, -Σ_t w(y_t) log p_t(y_t), like torch's with a `weight`.

    Attributes:
        class_weight: (C,) w >= 0; default: 1.
    """

    also_reads = ("class_weight",)
    class_weight = None

    def per_example(self, logits: Tensor, labels: Tensor) -> Tensor:
        logits = logits.masked_fill((labels == IGNORED).unsqueeze(2), 0)
        if self.class_weight is not None:
            self.class_weight = self.class_weight.to(logits)  # moved once
        options: Any = {"weight": self.class_weight, "ignore_index": IGNORED, "reduction": "none"}
        return F.cross_entropy(logits.transpose(1, 2), labels, **options).sum(1)

    def weigh(self, weights: dict[str, Tensor]) -> None:
        self.class_weight = weights["class_weight"]


class CRFLoss(TagTaskLoss):
    """The negative log-likelihood of a linear chain, -log P(y), see [`CRF`] (Lafferty et al. 2001).

    Raises:
        ValueError: the CRF is missing, or has another number of tags.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.crf is None:
            raise ValueError(
                "task_loss='crf' trains transitions between tags, but this task-net lacks a CRF. Use a task-net with "
                "one, or choose cross_entropy."
            )
        if self.tags and len(self.tags) != self.crf.num_tags:
            given, needed = self.crf.num_tags, len(self.tags)
            raise ValueError(f"The CRF has {given} tags and the task-net {needed}; make it `CRF({needed})`.")

    def per_example(self, logits: Tensor, labels: Tensor) -> Tensor:
        assert self.crf is not None
        return self.crf(logits, labels)


@dataclass(eq=False)
class UniqueRoles(TagCrossEntropy):
    """Cross-entropy with the unique core roles of structured tuning (Li, Jawale, Palmer, Srikumar, ACL 2020).

        -Σ_t log p_t(y_t) + w Σ_X Σ_i [ log B_X(i) - min_{j ≠ i} log(1 - B_X(j)) ]_+

    X are the core roles. B_X(i) is the probability that an argument of role X begins at i: p_i(B-X), or
    p_i(B-X) + p_i(S-X) if the scheme has S-X. The second term is the rule "if X begins at i, then at no other j" under
    the product t-norm's implication and Gödel's conjunction. As in the authors' code, 1 - B_X(j) is at least 1e-6,
    which keeps the term finite. One row is one predicate.

    Raises:
        ValueError: no tag begins a core role.
    """

    unique_roles_weight: float = option(1.0, least=0)  # w

    def __post_init__(self) -> None:
        super().__post_init__()
        found = core_roles(self.tags)
        if not found:
            raise ValueError(
                "task_loss='unique_roles' needs tags that begin a core role, such as B-ARG0 or B-A0; found only "
                f"{', '.join(self.tags) or 'no tags'}. Choose cross_entropy or crf."
            )
        width, nothing = max(map(len, found.values())), len(self.tags)
        self.begins = torch.tensor([tags + [nothing] * (width - len(tags)) for tags in found.values()])  # (X, 1 or 2)

    def per_example(self, logits: Tensor, labels: Tensor) -> Tensor:
        return super().per_example(logits, labels) + self.unique_roles_weight * self.violation(logits, labels)

    def violation(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The constraint's term alone, without its weight: (B,), at least 0."""
        masked = (labels == IGNORED).unsqueeze(2)  # (B, T, 1)
        if labels.shape[1] < 2:
            return logits.new_zeros(len(logits))
        if self.begins.device != logits.device:
            self.begins = self.begins.to(logits.device)
        log_p = F.pad(logits.masked_fill(masked, 0).log_softmax(-1), (0, 1), value=float("-inf"))
        log_b = log_p[:, :, self.begins].logsumexp(-1)  # (B, T, X)
        log_not = (-torch.expm1(log_b)).clamp_min(LEAST).log().masked_fill(masked, float("inf"))
        least, place = log_not.topk(2, dim=1, largest=False)  # (B, 2, X); no T x T tensor is made
        here = torch.arange(labels.shape[1], device=logits.device).view(1, -1, 1)
        others = torch.where(place[:, :1] == here, least[:, 1:], least[:, :1])  # min over j ≠ i
        return F.relu(log_b - others).masked_fill(masked, 0).sum((1, 2))


TAG_TASK_LOSSES: dict[str, type[TagTaskLoss]] = {
    "cross_entropy": TagCrossEntropy,
    "crf": CRFLoss,
    "unique_roles": UniqueRoles,
}
