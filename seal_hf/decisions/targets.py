"""The figures of label sets by which a decoder is chosen. Each gives the rows (N,) scores whose mean is the figure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..metrics.multilabel import decided_and_gold, example_f1
from .base import ratio_scores


def _jaccard(decided: np.ndarray, gold: np.ndarray, empty_score: float) -> np.ndarray:
    either = (decided | gold).sum(1)
    return np.where(either > 0, (decided & gold).sum(1) / np.maximum(either, 1), empty_score)


def _exact_match(decided: np.ndarray, gold: np.ndarray, empty_score: float) -> np.ndarray:
    return (decided == gold).all(1).astype(np.float64)


def _micro_f1(decided: np.ndarray, gold: np.ndarray, empty_score: float) -> np.ndarray:
    return ratio_scores(2.0 * (decided & gold).sum(1), (decided.sum(1) + gold.sum(1)).astype(np.float64))


def _macro_f1(decided: np.ndarray, gold: np.ndarray, empty_score: float) -> np.ndarray:
    labels = zip((decided & gold).T, decided.T, gold.T, strict=True)
    scores = (ratio_scores(2.0 * hits, both * 1.0 + either) for hits, both, either in labels)
    return np.sum(np.fromiter(scores, dtype=(np.float64, len(gold))), axis=0) / gold.shape[1]


F1_EXAMPLE, F1_MACRO, EXACT_MATCH, JACCARD = "f1_example", "f1_macro", "exact_match", "jaccard"
# name of a figure -> (decided, gold: (N, L) bool, score of an empty set where none is gold) -> (N,)
TARGETS: dict[str, Callable[[np.ndarray, np.ndarray, float], np.ndarray]] = {
    F1_EXAMPLE: example_f1,
    JACCARD: _jaccard,
    EXACT_MATCH: _exact_match,
    "f1_micro": _micro_f1,
    F1_MACRO: _macro_f1,
}


def target_scores(target: str, decided: np.ndarray, labels: np.ndarray, empty_score: float) -> np.ndarray:
    """(N,) the score of each row by one of `TARGETS`. Those of F1 over all rows, or by label, are linear in the row:
    their mean is the figure, their deviation its own to first order.

    Args:
        decided, labels: (N, L), 0 or 1; labels -1 or NaN are unknown.
    """
    if target == F1_EXAMPLE:
        return example_f1(decided, labels, empty_score)
    sets, gold, _ = decided_and_gold(decided, labels)
    return TARGETS[target](sets, gold, empty_score)
