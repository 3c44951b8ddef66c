"""Which decisions a person should look at first: those with the largest expected loss, by calibrated probabilities of
independent labels."""

from __future__ import annotations

import re

import numpy as np

from ..metrics import row_blocks
from .decoders import empty_f1, expected_f1, expected_jaccard, largest_power, quadrature
from .targets import COST, EXACT_MATCH, F1_EXAMPLE, JACCARD


def expected_losses(
    probabilities: np.ndarray,
    decided: np.ndarray,
    target: str = F1_EXAMPLE,
    *,
    empty_score: float = 1.0,
    costs: np.ndarray | None = None,
) -> np.ndarray:
    """The expected loss of each decided set, (N,), if the labels are independent given the input: 1 minus the expected
    figure of the row, or its expected cost. Figures over all rows have no loss of a row: for them it is the expected
    share of wrong labels.

    Args:
        probabilities: (N, L) in [0, 1], calibrated.
        decided: (N, L) bool.
        target: one of `TARGETS`, or `COST`.
        empty_score: score of an empty set where no label is gold.
        costs: (2, L) for `COST`, as in `LabelDecisions.fit`.
    """
    found = np.empty(len(decided))
    for rows in row_blocks(decided):
        p, sets = np.asarray(probabilities[rows], dtype=np.float64), np.asarray(decided[rows], dtype=bool)
        if target in (F1_EXAMPLE, JACCARD):
            found[rows] = 1 - _expected_scores(p, sets, target == JACCARD, empty_score)
        elif target == EXACT_MATCH:
            found[rows] = 1 - np.where(sets, p, 1 - p).prod(1)
        elif target == COST:
            assert costs is not None, "`fit` asks for them"
            found[rows] = (sets * (1 - p)) @ costs[0] + (~sets * p) @ costs[1]
        else:
            found[rows] = np.where(sets, 1 - p, p).mean(1)
    return found


def _expected_scores(p: np.ndarray, sets: np.ndarray, jaccard: bool, empty_score: float) -> np.ndarray:
    """(n,) the expected F1, or Jaccard index, of sets (n, L) under p (n, L)."""
    ordered = np.take_along_axis(p, np.argsort(~sets, axis=1, kind="stable"), 1)  # the labels of the set first
    sizes, mean, found = sets.sum(1), p.sum(1), empty_f1(p, empty_score)
    for size in np.unique(sizes[sizes > 0]).tolist():
        of_size = np.flatnonzero(sizes == size)
        nodes = quadrature(float(largest_power(size, mean[of_size].max(), p.shape[1])), p.shape[1])
        for part in np.array_split(of_size, -(-len(of_size) * p.shape[1] * len(nodes[0]) // (1 << 22))):
            nothing = np.zeros(len(part))
            if jaccard:
                found[part] = expected_jaccard(ordered[part], size, nodes, nothing)[:, -1]
            else:
                found[part] = expected_f1(ordered[part], (size, size), nodes, nothing)[:, -1]
    return found


def rows_to_review(losses: np.ndarray, review: str | float) -> np.ndarray:
    """The rows that a person should see, (N,) bool.

    Args:
        losses: (N,) from [`expected_losses`].
        review: a share such as `"10%"`: the rows with the largest losses, rounded to a whole number. Or the cost of
            looking at a row, in units of the loss: the rows whose expected loss is higher.

    Raises:
        ValueError: `review` is neither.
    """
    said = str(review).strip()
    share = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", said)
    try:
        value = float(share[1]) / 100 if share else float(said)
    except ValueError:
        value = -1.0
    if not (0 <= value <= 1 if share else 0 <= value < np.inf):
        raise ValueError(
            f"`review` is {said!r}; expected a share of the rows, such as 10%, or the cost of looking at a row, such "
            "as 0.2."
        )
    if not share:
        return losses > value
    first = np.zeros(len(losses), dtype=bool)
    first[np.argsort(-losses, kind="stable")[: round(value * len(losses))]] = True
    return first


def review_curve(priorities: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """The mean loss that is left after the first 0, 1, ..., N rows have been reviewed, if a review leaves none:
    (N + 1,).

    Args:
        priorities: (N,), the highest is seen first. Equal ones are seen in their order.
        losses: (N,) what each row really loses.
    """
    left = losses[np.argsort(-priorities, kind="stable")]
    return np.concatenate([left[::-1].cumsum()[::-1], [0.0]]) / max(len(losses), 1)


def entropies(probabilities: np.ndarray) -> np.ndarray:
    """(N,) the entropy of independent labels with these probabilities (N, L), in nats."""
    p = np.asarray(probabilities, dtype=np.float64).clip(1e-12, 1 - 1e-12)
    return -(p * np.log(p) + (1 - p) * np.log1p(-p)).sum(1)
