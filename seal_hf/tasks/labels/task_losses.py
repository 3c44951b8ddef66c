"""Task losses for label sets: the task-net's own losses, each with its equation and source.

Notation: logits s_j, probabilities p_j = σ(s_j), labels y_j in {0, 1}, for one input over L labels. A loss maps logits
(B, L) and labels (B, L) to a scalar, the mean over the batch of a sum over labels. ZLPR and the ranking loss have one
term per input instead; search λ1 again with them. All losses are computed from float32 logits, never from
probabilities, and stay finite for any logit. A label that is certainly right has loss 0 and gradient 0; spaces use that
for unknown labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ...core.label_sets import LabelSets, dot
from ...core.space import ratio
from ...core.task_losses import loss_named, mean, refuse
from ...utils.options import Options, option


@dataclass
class TaskLoss(Options):
    """Base class of the task losses of label sets. The fields of a loss are its options.

    Attributes:
        draws: True if it trains on samples of the task-net's distribution.
        reads_probabilities: True if it also takes probabilities from 0 to 1 as labels.
    """

    draws = False
    reads_probabilities = False

    @classmethod
    def from_arguments(cls, args: Any) -> TaskLoss:
        """The loss that [`SealTrainingArguments`] name, with its options.

        Raises:
            ValueError: `task_loss` is unknown for label sets.
        """
        kind = loss_named(args, TASK_LOSSES, "label sets")
        return kind(**kind.values_from(args))

    def __call__(
        self,
        logits: Tensor,
        labels: Tensor,
        samples: Tensor | LabelSets | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        """Logits and 0/1 labels (B, L) -> scalar.

        Args:
            samples: (B, K, L), without gradient; for a loss that `draws`.
            weight: (B,), the row weights w_i in the mean Σ_i w_i ℓ_i / B; default: 1.
        """
        return mean(self.per_example(logits.float(), labels.float()), weight)

    def weigh(self, weights: dict[str, Tensor]) -> None:
        """Set weights of the labels, see [`LabelwiseLoss`].

        Raises:
            ValueError: the loss is not a sum over labels.
        """
        refuse(weights, type(self).__name__)

    def per_example(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of each row, (B,), summed over labels, from float32 logits and labels, (B, L) each."""
        raise TypeError(f"{type(self).__name__} lacks `per_example`, which gives the loss of each row, (B,).")


class LabelwiseLoss(TaskLoss):
    """A sum over labels with optional weights (like `pos_weight` and `weight` of torch's `BCEWithLogitsLoss`):

        Σ_j w_j (1 + (w⁺_j - 1) y_j) ℓ_j,     w, w⁺ >= 0, 1 by default

    Attributes:
        pos_weight: (L,) w⁺, of present labels.
        label_weight: (L,) w.
    """

    also_reads: ClassVar[tuple[str, ...]] = ("pos_weight", "label_weight")
    pos_weight = None
    label_weight = None

    def per_label(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss ℓ of each label, (B, L), from float32 logits and labels, (B, L) each."""
        raise TypeError(f"{type(self).__name__} lacks `per_label`, which gives the loss of each label, (B, L).")

    def per_example(self, logits: Tensor, labels: Tensor) -> Tensor:
        losses = self.per_label(logits, labels)
        if self.pos_weight is not None:
            self.pos_weight = self.pos_weight.to(logits.device)  # moved once
            losses = losses * torch.where(labels > 0.5, self.pos_weight, 1.0)
        if self.label_weight is not None:
            self.label_weight = self.label_weight.to(logits.device)
            losses = losses * self.label_weight
        return losses.sum(-1)

    def weigh(self, weights: dict[str, Tensor]) -> None:
        self.pos_weight, self.label_weight = weights.get("pos_weight"), weights.get("label_weight")


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy of each label, (B, L)."""
    return F.binary_cross_entropy_with_logits(logits, labels, reduction="none")


class CrossEntropy(LabelwiseLoss):
    """Binary cross-entropy, -Σ_j [ y_j log p_j + (1 - y_j) log(1 - p_j) ]. y_j may be a probability."""

    reads_probabilities = True

    def per_label(self, logits: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(logits, labels)


@dataclass
class Focal(LabelwiseLoss):
    """Focal loss (Lin et al. 2017, Eq. 4, without its class weight α): well-classified labels count little.

    -Σ_j (1 - q_j)^γ log q_j,     q_j = p_j where y_j = 1, else 1 - p_j
    """

    gamma: float = option(2.0, least=0)  # γ; 0 is cross-entropy

    def per_label(self, logits: Tensor, labels: Tensor) -> Tensor:
        z = logits * (2 * labels - 1)  # q = σ(z)
        return -((self.gamma * F.logsigmoid(-z)).exp() * F.logsigmoid(z))


@dataclass
class Asymmetric(LabelwiseLoss):
    """Asymmetric loss (Ridnik, Ben-Baruch et al. 2021): the many negatives are focused and shifted by m.

        -Σ_j [ y_j (1 - p_j)^γ+ log p_j + (1 - y_j) r_j^γ- log(1 - r_j) ],     r_j = max(p_j - m, 0)

    The gradient is that of this equation; the authors' code by default treats the focusing weights as constants. Its
    default is γ+ = 1, ours 0.
    """

    gamma_negative: float = option(4.0, least=0)  # γ-
    gamma_positive: float = option(0.0, least=0)  # γ+
    clip: float = option(0.05, least=0, below=1)  # m: negatives with probability at most m have loss 0

    def per_label(self, logits: Tensor, labels: Tensor) -> Tensor:
        log_p, log_q = F.logsigmoid(logits), F.logsigmoid(-logits)
        positive = (self.gamma_positive * log_q).exp() * log_p
        # log(1 - r) = log min(1 - p + m, 1)
        log_kept = (log_q.exp() + self.clip).clamp(max=1).log() if self.clip else log_q
        r = -torch.expm1(log_kept)
        # a power below 1 has no gradient at r = 0, where the other factor is 0 as well
        negative = r.clamp_min(torch.finfo(r.dtype).tiny) ** self.gamma_negative * log_kept
        return -torch.where(labels > 0.5, positive, negative)


class ZLPR(TaskLoss):
    """Log-sum-exp pairwise ranking with the threshold 0 as a further class (Su et al. 2022).

        log(1 + Σ_{j: y_j = 0} e^{s_j}) + log(1 + Σ_{i: y_i = 1} e^{-s_i})

    It is log(1 + Σ e^{s_b - s_a}) over all pairs in which a must rank above b: positives above 0, 0 above negatives. It
    has one term per input, where other losses have one per label.
    """

    def per_example(self, logits: Tensor, labels: Tensor) -> Tensor:
        positive, threshold = labels > 0.5, torch.zeros_like(logits[:, :1])
        above = logits.masked_fill(positive, float("-inf"))
        below = (-logits).masked_fill(~positive, float("-inf"))
        first, second = (torch.logsumexp(torch.cat([threshold, s], dim=1), dim=1) for s in (above, below))
        return first + second


@dataclass
class SoftF1(LabelwiseLoss):
    """Cross-entropy and one minus the soft F1 of the row, which counts probabilities in place of decisions:

        -Σ_j [ y_j log p_j + (1 - y_j) log(1 - p_j) ]  +  w (1 - 2 Σ_j p_j y_j / Σ_j (p_j + y_j))

    A row without labels has a soft F1 of 0, without gradient. A row without any known label has a loss of 0. Weights of
    labels are those of cross-entropy alone.
    """

    soft_f1_weight: float = option(3.0, least=0)  # w

    def per_label(self, logits: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(logits, labels)

    def per_example(self, logits: Tensor, labels: Tensor) -> Tensor:
        p = torch.sigmoid(logits)
        soft_f1 = ratio(2 * (p * labels).sum(-1), (p + labels).sum(-1))
        return super().per_example(logits, labels) + self.soft_f1_weight * (1 - soft_f1)


@dataclass
class Ranking(TaskLoss):
    """The NCE ranking loss directly on the task-net, without a loss-net (SEAL §5, the ablation).

        -log [ exp s(y*) / Σ_{k=0..K} exp s(y_k) ],   s(y) = Σ_j log P(y_j | x),   y_0 = y*,  y_1 .. y_K ~ P(· | x)

    As in the authors' code, it uses s alone, without the noise term of Eq. 8: s - log P would be 0 for every candidate.
    Gradients flow through s, not through the draw. It has one term per input. Without samples, as in evaluation, it is
    cross-entropy.
    """

    num_samples: int = option(20, least=1)  # K, the label sets per input

    draws = True

    def per_example(self, logits: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(logits, labels).sum(-1)

    def __call__(
        self,
        logits: Tensor,
        labels: Tensor,
        samples: Tensor | LabelSets | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        if samples is None:
            return super().__call__(logits, labels, weight=weight)
        logits, gold = logits.float(), labels.float().unsqueeze(1)
        s = torch.cat([dot(gold, logits), dot(samples, logits)], dim=1)  # less Σ_j log(1 - p_j), common to all
        return mean(-F.log_softmax(s, dim=1)[:, 0], weight)


TASK_LOSSES: dict[str, type[TaskLoss]] = {
    "cross_entropy": CrossEntropy,
    "focal": Focal,
    "asymmetric": Asymmetric,
    "zlpr": ZLPR,
    "soft_f1": SoftF1,
    "ranking": Ranking,
}
