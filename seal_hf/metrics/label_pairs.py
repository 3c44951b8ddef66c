"""Which labels occur together, in gold and in decided label sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .multilabel import SetCounts, decided_and_gold, row_blocks

MOST_LABELS = 500  # labels whose pairs are counted: K² counts, and N K² steps


class PairCounts(NamedTuple):
    """Rows that have both labels of a pair.

    Attributes:
        labels: (K,) the labels that are counted, ascending.
        first, second: (P,) the two labels of each pair that occurs in gold or decided sets; first < second.
        gold, decided: (P,) number of rows that have both.
    """

    labels: np.ndarray
    first: np.ndarray
    second: np.ndarray
    gold: np.ndarray
    decided: np.ndarray


def pair_counts(decisions: np.ndarray, labels: np.ndarray, most_labels: int = MOST_LABELS) -> PairCounts:
    """Count the pairs of the labels that are most frequent in gold and decided sets taken together.

    Args:
        decisions: (N, L) bool.
        labels: (N, L), 0 or 1, or -1 or NaN for unknown; an unknown label counts in neither set.
        most_labels: maximum number of labels K.
    """
    frequency = SetCounts.of(decisions, labels).of_labels[1:3].sum(0)  # decided and gold
    counted = np.sort(np.argsort(-frequency, kind="stable")[:most_labels])
    together = np.zeros((2, len(counted), len(counted)))
    for rows in row_blocks(decisions):
        decided, gold, _ = decided_and_gold(decisions[rows], labels[rows])
        for total, sets in zip(together, (gold, decided), strict=True):
            block = sets[:, counted].astype(np.float32)  # exact up to 2^24 rows
            total += block.T @ block
    i, j = np.nonzero(np.triu(together.any(0), 1))
    counts = together[:, i, j].astype(np.int64)
    return PairCounts(counted, counted[i], counted[j], *counts)
