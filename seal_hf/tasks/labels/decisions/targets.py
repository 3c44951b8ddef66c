"""The figures of label sets by which a decoder is chosen. Each gives the rows (N,) scores whose mean is the figure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....core.decisions import ratio_scores
from ..metrics import decided_and_gold, example_f1


def _f1(decided: np.ndarray, gold: np.ndarray, known: np.ndarray, empty_score: float) -> np.ndarray:
    return example_f1(decided, np.where(known, gold, -1), empty_score)


def _jaccard(decided: np.ndarray, gold: np.ndarray, known: np.ndarray, empty_score: float) -> np.ndarray:
    either = (decided | gold).sum(1)
    return np.where(either > 0, (decided & gold).sum(1) / np.maximum(either, 1), empty_score)


def _exact_match(decided: np.ndarray, gold: np.ndarray, known: np.ndarray, empty_score: float) -> np.ndarray:
    return (decided == gold).all(1).astype(np.float64)


def _micro_f1(decided: np.ndarray, gold: np.ndarray, known: np.ndarray, empty_score: float) -> np.ndarray:
    return ratio_scores(2.0 * (decided & gold).sum(1), (decided.sum(1) + gold.sum(1)).astype(np.float64))


def _macro_f1(decided: np.ndarray, gold: np.ndarray, known: np.ndarray, empty_score: float) -> np.ndarray:
    labels = zip((decided & gold).T, decided.T, gold.T, strict=True)
    scores = (ratio_scores(2.0 * hits, both * 1.0 + either) for hits, both, either in labels)
    return np.sum(np.fromiter(scores, dtype=(np.float64, len(gold))), axis=0) / gold.shape[1]


def _hamming(decided: np.ndarray, gold: np.ndarray, known: np.ndarray, empty_score: float) -> np.ndarray:
    """Of 1 minus the Hamming loss: the share of right decisions on known labels."""
    right = ((decided == gold) & known).sum(1)
    return ratio_scores(right.astype(np.float64), known.sum(1).astype(np.float64))


F1_EXAMPLE, F1_MICRO, F1_MACRO = "f1_example", "f1_micro", "f1_macro"
JACCARD, EXACT_MATCH, HAMMING = "jaccard", "exact_match", "hamming"
COST = "cost"  # the only target that needs more than its name
# name of a figure -> (decided, gold, known: (N, L) bool, score of an empty set where none is gold) -> (N,)
TARGETS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray, float], np.ndarray]] = {
    F1_EXAMPLE: _f1,
    JACCARD: _jaccard,
    EXACT_MATCH: _exact_match,
    F1_MICRO: _micro_f1,
    F1_MACRO: _macro_f1,
    HAMMING: _hamming,
}
OF_RUNS = tuple(name for name in TARGETS if name != HAMMING)  # a run reports the Hamming loss, where less is better


def target_scores(
    target: str, decided: np.ndarray, labels: np.ndarray, empty_score: float, costs: np.ndarray | None = None
) -> np.ndarray:
    """(N,) the score of each row by one of `TARGETS`, or by `COST`; higher is better. Those of F1 over all rows, or by
    label, are linear in the row: their mean is the figure, their deviation its own to first order.

    Args:
        decided, labels: (N, L), 0 or 1; labels -1 or NaN are unknown.
        costs: (2, L) for `COST`, of deciding each label where it is not gold, and of missing it where it is. A row's
            score is minus the sum of its costs.
    """
    if target == F1_EXAMPLE:  # without a copy of the labels
        return example_f1(decided, labels, empty_score)
    sets, gold, known = decided_and_gold(decided, labels)
    if target == COST:
        assert costs is not None, "`fit` asks for them"
        return -((sets & ~gold & known) @ costs[0] + (gold & ~sets) @ costs[1])
    return TARGETS[target](sets, gold, known, empty_score)
