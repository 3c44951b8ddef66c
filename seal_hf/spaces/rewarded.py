"""Tag sequences of which some rows have gold tags and the others a reward.

A row without gold has the label -1 (`UNLABELLED`) at each position that counts. The batch also holds the codes of its
words (`REWARD_CODES`, (B, T)), which the reward reads. For such a row

* the task loss is 0;
* the score s(y) is the reward; for rows with gold it stays the agreement with the gold tags.

So `regression` teaches the loss-net both, and its energy teaches the task-net on all rows. For losses that contrast
candidates with the gold, such as `contrastive_divergence` (Shankar & Piratla's), the sample with the highest reward
replaces the missing gold y*, and the cost of another candidate is Δ(y, y*) = [reward(y*) - reward(y)]_+. Losses without
samples (`margin`, `infnet`) lack such a y* and are refused. In the log, `energy_gold` of rows without gold is the
energy of that sample, or of no tags at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from ..structures.sequences import IGNORED, at_least_float32
from .base import LossTraits
from .tags import TagSequenceSpace

UNLABELLED = -1  # the label of a position that counts but lacks a gold tag
REWARD_CODES = "reward_codes"  # the column with the words' codes


class RewardSpace(TagSequenceSpace):
    """Tag sequences with a reward in place of missing gold tags.

    Args:
        reward: a function of codes (B, T), candidates (B, S, T, C) and mask (B, T): (B, S) in [0, 1], such as a
            [`RuleReward`].
        label_names, options: as for [`TagSequenceSpace`].
    """

    uncounted = (IGNORED, UNLABELLED)
    has_all_gold = False

    def __init__(self, reward: Callable[[Tensor, Tensor, Tensor], Tensor], label_names: Sequence[str], **options: Any):
        super().__init__(label_names, **options)
        self.reward = reward
        self.codes: Tensor | None = None  # (B, T), and the rows without gold, (B, 1), of one batch; see `of`
        self.without: Tensor | None = None

    @classmethod
    def from_arguments(  # type: ignore[override]  # the caller also passes a reward
        cls, args: Any, task_net: PreTrainedModel, reward: Callable[[Tensor, Tensor, Tensor], Tensor]
    ) -> RewardSpace:
        """As for tag sequences, with this reward."""
        plain = TagSequenceSpace.from_arguments(args, task_net)
        options = {"loss": plain.loss, "score": args.tag_score, "constrained": args.constrained_decoding}
        return cls(reward, plain.label_names, **options)

    def of(self, batch: dict[str, Tensor]) -> Any:
        """The space with the codes of this batch, if it has them."""
        given = super().of(batch)
        if REWARD_CODES not in batch:
            return given
        space: Any = copy(given)
        space.codes = batch[REWARD_CODES]  # (B, T)
        space.without = (batch["labels"] == UNLABELLED).any(1, keepdim=True)  # (B, 1): rows without gold
        return space

    def check_loss(self, loss: LossTraits, num_labels: int) -> None:
        super().check_loss(loss, num_labels)
        if loss.needs_gold:
            raise ValueError(
                f"energy_loss={loss.name!r} contrasts the output with the gold, but rows with a reward lack gold. Use "
                "regression, or a loss with samples, such as contrastive_divergence."
            )

    def gold(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """As for tag sequences, and also zero where a gold tag is missing: (B, T, C); mask (B, T)."""
        return super().gold(labels)[0], labels != IGNORED

    def best(self, gold: Tensor, samples: Tensor | None, mask: Tensor | None = None) -> Tensor:
        """The gold, or for rows without gold the sample with the highest reward: (B, T, C)."""
        if samples is None:
            return gold
        _, without = self._rewarded()
        assert mask is not None, "tag sequences have one"
        place = self.rewards(samples, mask).argmax(1)  # (B,)
        found = samples[torch.arange(len(samples), device=samples.device), place] * mask.unsqueeze(-1)
        return torch.where(without.unsqueeze(2), found, gold)

    def mix(self, logits: Tensor, gold: Tensor, share: float) -> Tensor:
        """As for tag sequences; rows without gold stay as they are. Raises ValueError as `rewards` does."""
        _, without = self._rewarded()
        own = F.log_softmax(at_least_float32(logits), dim=-1)
        return torch.where(without.unsqueeze(2), own, super().mix(logits, gold, share))

    def rewards(self, y: Tensor, mask: Tensor | None) -> Tensor:
        """(B, S, T, C) -> (B, S). For rows with gold all positions are masked, and the value is meaningless.

        Raises:
            ValueError: the batch lacks codes for the reward.
        """
        codes, without = self._rewarded()
        assert mask is not None, "tag sequences have one"
        return self.reward(codes, y, mask & without).to(y.dtype)

    def _rewarded(self) -> tuple[Tensor, Tensor]:
        """What `of` found in the batch: the codes (B, T), and which rows lack gold (B, 1)."""
        if self.codes is None or self.without is None:
            raise ValueError(
                f"The batch has no column `{REWARD_CODES}`, which the reward reads. Make the training rows with "
                "`reward_rows`."
            )
        return self.codes, self.without

    def score(self, y_hat: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """The score against the gold `y` (B, T, C), or for rows without gold the reward: (B, S)."""
        _, without = self._rewarded()
        return torch.where(without, self.rewards(y_hat, mask), self.agreement(y_hat, y, mask))

    def cost(self, y_hat: Tensor, y: Tensor, kind: str = "f1", mask: Tensor | None = None) -> Tensor:
        """Δ to the gold, or for rows without gold how much more reward `y` has: (B, S)."""
        more = (self.rewards(y.unsqueeze(1), mask) - self.rewards(y_hat, mask)).clamp_min(0)
        _, without = self._rewarded()
        return torch.where(without, more, super().cost(y_hat, y, kind, mask))

    def task_loss(self, logits: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The mean over all rows; rows without gold add 0. So it does not depend on how a batch is divided among
        micro-batches and processes. `reward_rows` says how to weigh it."""
        without = (labels == UNLABELLED).any(1)  # (B,)
        return super().task_loss(logits, labels.masked_fill(without.unsqueeze(1), IGNORED), generator)
