"""Tag sequences of which some rows have gold tags and the others a reward.

A row without gold has label -1 where a position counts (`UNLABELLED`), and in the batch, beside the labels, the codes
of its words (`REWARD_CODES`, (B, T)) that the reward reads. Of such a row

* the task loss is none: cross-entropy is the mean over the rows with gold;
* the score s(y) is the reward, of rows with gold it stays the agreement with the gold tags.

So `regression` teaches the loss-net both, and its energy teaches the task-net on all rows. Energy losses that contrast
candidates with the gold (`nce`, `margin`, ...) have nothing to contrast with on a row without gold, and are refused.
In the log, `energy_gold` of such rows is the energy of no tags at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import torch
from torch import Tensor

from ..chain import IGNORED
from .tags import TagSequenceSpace

UNLABELLED = -1  # the label of a position that counts and has no gold tag
REWARD_CODES = "reward_codes"  # the column of the words' codes
WITHOUT_GOLD = ("ce", "regression", "regression_s")  # energy losses that need no gold


class RewardSpace(TagSequenceSpace):
    """Tag sequences with a reward in the place of missing gold tags.

    Args:
        reward: a function of codes (B, T), candidates (B, S, T, C) and mask (B, T): (B, S) in [0, 1], such as a
            [`RuleReward`].
        label_names, options: as of [`TagSequenceSpace`].
    """

    def __init__(self, reward, label_names: Sequence[str], **options):
        super().__init__(label_names, **options)
        self.reward, self.codes = reward, None

    def of(self, batch: dict[str, Tensor]) -> RewardSpace:
        """The space with the codes of this batch; the space itself where there are none."""
        if REWARD_CODES not in batch:
            return self
        space = copy(self)
        space.codes = batch[REWARD_CODES]
        return space

    def check_loss(self, args, num_labels: int) -> None:
        super().check_loss(args, num_labels)
        if args.energy_loss not in WITHOUT_GOLD:
            raise ValueError(
                f"energy_loss={args.energy_loss!r} contrasts candidates with the gold, which rows with a reward have "
                f"not. Use one of {', '.join(WITHOUT_GOLD[1:])}."
            )

    def gold(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """As of tag sequences; zero too where there is no gold tag: (B, T, C); mask (B, T)."""
        return super().gold(labels)[0], labels != IGNORED

    def score(self, y_hat: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """The score against the gold `y` (B, T, C), or the reward of rows whose `y` is zero: (B, S).

        Raises:
            ValueError: the batch has no codes for the reward.
        """
        if self.codes is None:
            raise ValueError(
                f"The batch has no column `{REWARD_CODES}`, which the reward reads. Make the training rows with "
                "`reward_rows`."
            )
        without = (y == 0).flatten(1).all(1, keepdim=True)  # (B, 1)
        reward = self.reward(self.codes, y_hat, mask).to(y_hat.dtype)
        return torch.where(without, reward, super().score(y_hat, y, mask))

    def task_loss(self, logits: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The mean over the rows with gold; 0 where there is none."""
        without = (labels == UNLABELLED).any(1)  # (B,)
        loss = super().task_loss(logits, labels.masked_fill(without.unsqueeze(1), IGNORED), generator)
        return loss * (len(labels) / (~without).sum().clamp_min(1))
