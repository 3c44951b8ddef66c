"""Names and values in the columns of rows that train from rewards, without gold."""

from __future__ import annotations

from .masks import IGNORE

UNLABELLED = -1  # the label of a position that counts but lacks a gold tag
UNLABELLED_SET = -2  # the label of a set without gold; -1 is an unknown label
UNLABELLED_PIXEL = IGNORE - 1  # the label of a pixel that counts but lacks a gold class
REWARD_CODES = "reward_codes"  # the column with what the reward must know
