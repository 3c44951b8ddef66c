"""Outputs of high reward, found without a net: the rules as a predictor."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .base import Reward

MARGIN = 1e-6  # a smaller difference of rewards is none
MOST_SWEEPS = 50


@torch.no_grad()
def most_rewarded(
    reward: Reward, codes: Tensor, mask: Tensor, start: Tensor, num_values: int, is_set: bool = False
) -> tuple[Tensor, Tensor]:
    """Local maxima of a reward, by coordinate ascent from `start`. A sweep finds the positions whose change alone
    raises the reward. It changes all of them, or only the best one if that gives more. The ascent ends when no change
    helps.

    For a reward by rules, the change of a position raises the reward if the weighted vote of the rules is for it.

    Args:
        codes: of B inputs, as [`Reward.codes`] has them.
        mask: (B, n) bool, the positions that count: words, or labels.
        start: (n,) int64, or (B, n): the first value of each position.
        num_values: C, the values of a position: tags, or 2 for a label.
        is_set: True for label sets: candidates are (B, S, n) of 0 and 1, not one-hot (B, S, n, C).

    Returns:
        the values (B, n) int64, and where the reward has an opinion on them: (B, n) bool, True where another value
        alone would change the reward.
    """
    ids = start.expand(mask.shape).clone()
    size = ids.shape[1]
    values = torch.arange(num_values).repeat(size)  # of each change
    changed = torch.eye(size, dtype=torch.bool).repeat_interleave(num_values, 0)  # (n C, n)

    def rewards(y: Tensor) -> Tensor:
        return reward(codes, y.float() if is_set else F.one_hot(y, num_values).float(), mask)

    for sweep in range(MOST_SWEEPS + 1):
        found = rewards(torch.where(changed, values[:, None], ids[:, None])).view(*ids.shape, num_values)
        found = found.masked_fill(~mask.unsqueeze(2), 0)
        now = found.gather(2, ids.unsqueeze(2))  # (B, n, 1), without a change
        gain, best = (found - now).max(2)
        raises = gain > MARGIN
        if sweep == MOST_SWEEPS or not raises.any():
            break
        one = F.one_hot(gain.argmax(1), size).bool() & raises
        steps = torch.where(torch.stack([raises, one], 1), best[:, None], ids[:, None])  # (B, 2, n)
        ids = steps[torch.arange(len(ids)), rewards(steps).argmax(1)]
    return ids, (found - now).abs().amax(2) > MARGIN


@torch.no_grad()
def most_rewarded_of(reward: Reward, codes: Tensor, mask: Tensor, candidates: Tensor) -> Tensor:
    """The index of the candidate with the highest reward, (B,), the first of equal ones: for masks, whose pixels no
    rule speaks about one by one.

    Args:
        codes, mask: as for [`most_rewarded`].
        candidates: (S, ...), the same for all inputs, in the form that the reward reads.
    """
    return reward(codes, candidates.expand(len(codes), *candidates.shape), mask).argmax(1)
