"""Tag sequences and masks of which some rows have gold and the others a reward.

A row without gold has the label `UNLABELLED` (-1) at each position of a tag sequence that counts, or `UNLABELLED_PIXEL`
(254) at each pixel that counts. The batch also holds codes (`REWARD_CODES`), what the reward must know about each row.
For a row without gold

* the task loss is 0;
* the score s(y) is the reward; for rows with gold it stays the agreement with the gold.

So `regression` teaches the loss-net both, and its energy teaches the task-net on all rows. For losses that contrast
candidates with the gold, such as `contrastive_divergence` (Shankar & Piratla's), the sample with the highest reward
replaces the missing gold y*, and the cost of another candidate is Δ(y, y*) = [reward(y*) - reward(y)]_+. Losses without
samples (`margin`, `infnet`) lack such a y* and are refused. In the log, `energy_gold` of rows without gold is the
energy of that sample, or of no tags and no classes at all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..structures.masks import IGNORE
from ..structures.sequences import IGNORED, at_least_float32
from .base import LossTraits, OutputSpace
from .masks import MaskSpace
from .pixels import counted
from .tags import TagSequenceSpace

UNLABELLED = -1  # the label of a position that counts but lacks a gold tag
UNLABELLED_PIXEL = IGNORE - 1  # the label of a pixel that counts but lacks a gold class
REWARD_CODES = "reward_codes"  # the column with what the reward must know
Reward = Callable[[Tensor, Tensor, Tensor], Tensor]


class Rewarded(OutputSpace):
    """What spaces with a reward in place of missing gold share; it comes before the space without one in their bases.

    Args:
        reward: a function of codes (B, ...), candidates (B, S, ...) and mask: (B, S) in [0, 1]. Positions of rows with
            gold are masked: the value of such a row is not read.
        args, options: as for the space without a reward.

    Attributes:
        unlabelled: the label of a position that counts but lacks gold.
        uncounted_label: the label of a position that does not count.
        codes: of one batch, see `of`.
        without: which rows of that batch lack gold, (B,).
    """

    has_all_gold = False
    unlabelled: int
    uncounted_label: int

    def __init__(self, reward: Reward, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self.reward = reward
        self.codes: Tensor | None = None
        self.without: Tensor | None = None

    def of(self, batch: dict[str, Tensor]) -> Any:
        """The space with the codes of this batch, if it has them."""
        given = super().of(batch)
        if REWARD_CODES not in batch:
            return given
        space: Any = copy(given)
        space.codes, space.without = batch[REWARD_CODES], self._without(batch["labels"])
        return space

    def check_loss(self, loss: LossTraits, num_labels: int) -> None:
        super().check_loss(loss, num_labels)
        if loss.needs_gold:
            raise ValueError(
                f"energy_loss={loss.name!r} contrasts the output with the gold, but rows with a reward lack gold. Use "
                "regression, or a loss with samples, such as contrastive_divergence."
            )

    def gold(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """As without a reward, and also zero where gold is missing; mask of what counts."""
        return self._plain.gold(labels)[0], labels != self.uncounted_label

    def best(self, gold: Tensor, samples: Tensor | None, mask: Tensor | None = None) -> Tensor:
        """The gold, or for rows without gold the sample with the highest reward: (B, ...)."""
        if samples is None:
            return gold
        _, without = self._rewarded()
        place = self.rewards(samples, mask).argmax(1)  # (B,)
        found = self.of_counted(samples[torch.arange(len(samples), device=samples.device), place], mask)
        return torch.where(_wide(without, gold), found, gold)

    @abstractmethod
    def of_counted(self, y: Tensor, mask: Tensor | None) -> Tensor:
        """One structure per row, (B, ...), 0 where it does not count."""

    def mix(self, logits: Tensor, gold: Tensor, share: float) -> Tensor:
        """As without a reward; rows without gold stay as they are. Raises ValueError as `rewards` does."""
        _, without = self._rewarded()
        mixed = self._plain.mix(logits, gold, share)
        return torch.where(_wide(without, mixed), self.log_probabilities(logits, gold), mixed)

    @abstractmethod
    def log_probabilities(self, logits: Tensor, gold: Tensor) -> Tensor:
        """Logits -> log-probabilities, in the shape of the gold."""

    def rewards(self, y: Tensor, mask: Tensor | None) -> Tensor:
        """(B, S, ...) -> (B, S). For rows with gold all positions are masked, and the value is meaningless.

        Raises:
            ValueError: the batch lacks codes for the reward.
        """
        codes, without = self._rewarded()
        assert mask is not None, "these structures have one"
        return self.reward(codes, y, mask & _wide(without, mask)).to(y.dtype)

    def _rewarded(self) -> tuple[Tensor, Tensor]:
        """What `of` found in the batch: the codes, and which rows lack gold (B,)."""
        if self.codes is None or self.without is None:
            raise ValueError(
                f"The batch has no column `{REWARD_CODES}`, which the reward reads. Make the training rows with "
                "`reward_rows`, or for masks with `MaskRows(..., reward_codes=...)`."
            )
        return self.codes, self.without

    @property
    def _plain(self) -> Any:
        """This space without its reward."""
        return super()

    def _without(self, labels: Tensor) -> Tensor:
        return (labels == self.unlabelled).flatten(1).any(1)

    def score(self, y_hat: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """The score against the gold `y` (B, ...), or for rows without gold the reward: (B, S)."""
        _, without = self._rewarded()
        return torch.where(without.unsqueeze(1), self.rewards(y_hat, mask), self._plain.score(y_hat, y, mask))

    def cost(self, y_hat: Tensor, y: Tensor, kind: str = "f1", mask: Tensor | None = None) -> Tensor:
        """Δ to the gold, or for rows without gold how much more reward `y` has: (B, S)."""
        more = (self.rewards(y.unsqueeze(1), mask) - self.rewards(y_hat, mask)).clamp_min(0)
        _, without = self._rewarded()
        return torch.where(without.unsqueeze(1), more, self._plain.cost(y_hat, y, kind, mask))

    def task_loss(self, logits: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The mean over all rows; rows without gold add 0. So it does not depend on how a batch is divided among
        micro-batches and processes."""
        without = _wide(self._without(labels), labels)
        return self._plain.task_loss(logits, labels.masked_fill(without, self.uncounted_label), generator)


class RewardSpace(Rewarded, TagSequenceSpace):
    """Tag sequences with a reward in place of missing gold tags; `reward_rows` makes such rows, and says how to weigh
    the task loss.

    Args:
        reward: a function of codes (B, T), candidates (B, S, T, C) and mask (B, T): (B, S) in [0, 1], such as a
            [`RuleReward`].
        label_names, options: as for [`TagSequenceSpace`].
    """

    uncounted = (IGNORED, UNLABELLED)
    unlabelled, uncounted_label = UNLABELLED, IGNORED

    def __init__(self, reward: Reward, label_names: Sequence[str], **options: Any):
        super().__init__(reward, label_names, **options)

    @classmethod
    def from_arguments(  # type: ignore[override]  # the caller also passes a reward
        cls, args: Any, task_net: PreTrainedModel, reward: Reward
    ) -> RewardSpace:
        """As for tag sequences, with this reward."""
        plain = TagSequenceSpace.from_arguments(args, task_net)
        options = {"loss": plain.loss, "score": args.tag_score, "constrained": args.constrained_decoding}
        return cls(reward, plain.label_names, **options)

    def of_counted(self, y: Tensor, mask: Tensor | None) -> Tensor:
        return self._counted(y, mask)

    def log_probabilities(self, logits: Tensor, gold: Tensor) -> Tensor:
        return at_least_float32(logits).log_softmax(-1)


class RewardMaskSpace(Rewarded, MaskSpace):
    """Masks of several classes with a reward in place of missing gold masks; `MaskRows(..., reward_codes=...)` makes
    such rows.

    Args:
        reward: a function of codes (B, ...), such as the classes that an image is known to have, candidates (B, S, C,
            H, W) and mask (B, H, W): (B, S) in [0, 1].
        num_classes: C, at most 254.
        options: as for [`MaskSpace`].
    """

    unlabelled, uncounted_label = UNLABELLED_PIXEL, IGNORE

    def __init__(self, reward: Reward, num_classes: int, **options: Any):
        super().__init__(reward, num_classes, **options)

    @classmethod
    def from_arguments(  # type: ignore[override]  # the caller also passes a reward
        cls, args: Any, task_net: PreTrainedModel, reward: Reward
    ) -> RewardMaskSpace:
        """As for masks, with this reward."""
        config: Any = task_net.config
        return cls(reward, config.num_labels, **cls.options_from(args))

    def check_values(self, labels: Tensor, where: str) -> None:
        super().check_values(labels.masked_fill(labels == UNLABELLED_PIXEL, IGNORE), where)

    def of_counted(self, y: Tensor, mask: Tensor | None) -> Tensor:
        return counted(y, mask)

    def log_probabilities(self, logits: Tensor, gold: Tensor) -> Tensor:
        return self.fit(logits, gold).log_softmax(1)


def _wide(rows: Tensor, values: Tensor) -> Tensor:
    """(B,) -> (B, 1, ...), to go with values (B, ...)."""
    return rows.view(-1, *[1] * (values.dim() - 1))
