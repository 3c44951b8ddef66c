"""Thresholds with guarantees that hold whatever the probabilities are worth, if new rows are drawn as the validation
rows were. Better probabilities give larger or smaller sets, not other guarantees.

For each label, a lower confidence bound on its precision or recall; for label sets, conformal risk control
(Angelopoulos, Bates, Fisch, Lei & Schuster 2024), a bound on the expected loss of a new row.
"""

from __future__ import annotations

import math

import numpy as np

from ..metrics import checked_blocks, mask_unknown

PRECISION, RECALL = "precision", "recall"  # of each label
MISSED, COVERED = "missed", "covered"  # of label sets
OF_LABELS = (PRECISION, RECALL)
GUARANTEES = {  # name -> what it says of a new row, with the value in percent
    PRECISION: "of the rows in which a label is decided, at least {:g} % have it",
    RECALL: "of the rows that have a label, it is decided in at least {:g} %",
    MISSED: "on average at most {:g} % of a row's gold labels are not decided",
    COVERED: "all gold labels are decided in at least {:g} % of rows",
}
CONFIDENCE = 0.95


def thresholds_of_precision(
    probabilities: np.ndarray, labels: np.ndarray, least: float, confidence: float = CONFIDENCE
) -> np.ndarray:
    """For each label the lowest threshold whose precision is at least `least`, with this confidence.

    The rows with the k highest probabilities of a label are draws from all rows above the next one, so their hits are
    binomial, and Clopper-Pearson's bound holds. A few k are tried, each with its part of 1 - `confidence`: the smallest
    that could reach the bound without a miss, its double, and so on. Those that pass give the largest k.

    Args:
        probabilities: (N, L) in [0, 1], of the validation rows.
        labels: (N, L), 0 or 1, or -1 or NaN for unknown.
        least, confidence: above 0 and below 1. The confidence is that of each label, not of all labels together.

    Returns:
        (L,) thresholds for `probabilities >= thresholds`; NaN for a label that cannot reach it.
    """
    found = np.full(np.shape(probabilities)[1], np.nan)
    for label, (p, gold) in enumerate(_columns(probabilities, labels)):
        sizes = _sizes_to_try(len(p), least, 1 - confidence)
        if not sizes:
            continue
        order = np.argsort(-p, kind="stable")
        p, hits = p[order], np.concatenate([[0], gold[order].cumsum()])
        for size in sizes:
            if size < len(p):  # equal probabilities are decided together
                size = int(np.searchsorted(-p, -p[size]))
            if size and _lower_bound(int(hits[size]), size, (1 - confidence) / len(sizes)) >= least:
                found[label] = np.nextafter(p[size], 1) if size < len(p) else 0.0
    return found


def _sizes_to_try(num_rows: int, least: float, error: float) -> list[int]:
    """k, 2 k, 4 k, ... and all rows; k is the smallest size that passes without a miss if each has its part of the
    error. Empty if no size can pass."""
    parts = 1
    while (first := math.ceil(math.log(error / parts) / math.log(least) - 1e-9)) <= num_rows:
        sizes = [first << i for i in range(num_rows.bit_length()) if first << i < num_rows]
        if len(sizes) < parts:
            return [*sizes, num_rows]
        parts = len(sizes) + 1 if len(sizes) + 1 > parts else parts + 1
    return [] if parts == 1 else [num_rows]


def _lower_bound(hits: int, count: int, error: float) -> float:
    """Clopper-Pearson's lower bound of a share, from `hits` of `count` draws; it is wrong with this probability."""
    from scipy.special import betaincinv  # slow to import

    return 0.0 if hits == 0 else float(betaincinv(hits, count - hits + 1, error))


def thresholds_of_recall(
    probabilities: np.ndarray, labels: np.ndarray, least: float, confidence: float = CONFIDENCE
) -> np.ndarray:
    """For each label the highest threshold whose recall is at least `least`, with this confidence.

    Of n gold rows, the share of all gold rows at or above the m-th lowest probability is at least that of a draw from
    Beta(n - m + 1, m), whatever the distribution (Wilks 1941). So m is the largest number for which this share is large
    enough with this confidence.

    Args and returns as for [`thresholds_of_precision`]; a label with too few gold rows has NaN.
    """
    from scipy.special import betaincinv

    found = np.full(np.shape(probabilities)[1], np.nan)
    for label, (p, gold) in enumerate(_columns(probabilities, labels)):
        p = np.sort(p[gold])
        places = np.arange(1, len(p) + 1)
        enough = betaincinv(len(p) - places + 1, places, 1 - confidence) >= least
        if enough.any():
            found[label] = p[np.flatnonzero(enough)[-1]]
    return found


def threshold_of_risk(probabilities: np.ndarray, labels: np.ndarray, most: float, all_gold: bool = False) -> float:
    """The highest threshold under which the expected loss of a new row is at most `most`: conformal risk control.

    The loss of a row is the share of its gold labels that are not decided, or with `all_gold` 1 if any is not. It is 0
    without gold labels. It lies in [0, 1], falls when the threshold does, and is 0 at the threshold 0: the conditions
    of the theorem. With n rows, the threshold is the highest t with (Σ losses(t) + 1) / (n + 1) <= `most`. Then the
    expected loss of a row that is exchangeable with them is at most `most`.

    Args:
        probabilities: (N, L) in [0, 1], of the validation rows.
        labels: (N, L), 0 or 1, or -1 or NaN for unknown.
        most: above 0 and below 1.

    Returns:
        a threshold for `probabilities >= threshold`, in [0, 1].

    Raises:
        ValueError: there are too few rows for this bound: n + 1 must be at least 1 / `most`.
    """
    scores, weights, count = [], [], 0
    for p, gold in checked_blocks(probabilities, labels):
        count += len(gold)
        p, gold = p[gold.any(1)], gold[gold.any(1)]
        if all_gold:
            scores.append(np.where(gold, p, np.inf).min(1))
            weights.append(np.ones(len(p)))
        else:
            scores.append(p[gold])
            weights.append((gold / gold.sum(1, keepdims=True))[gold])
    p, weight = np.concatenate([np.zeros(0), *scores]), np.concatenate([np.zeros(0), *weights])
    allowed = most * (count + 1) - 1
    if allowed < -1e-9:
        raise ValueError(
            f"{count} rows are too few for a risk of at most {most:g}: at least {math.ceil(1 / most - 1e-9) - 1:,} are "
            "needed. Give more rows, or allow a higher risk."
        )
    order = np.argsort(p, kind="stable")
    p, lost = p[order], np.concatenate([[0.0], weight[order].cumsum()])
    first = np.searchsorted(p, p, side="left")  # what is lost at the threshold p[i]: the weight of lower scores
    within = np.flatnonzero(lost[first] <= allowed + 1e-9)
    return float(p[within[-1]]) if len(within) else 1.0


def _columns(probabilities: np.ndarray, labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Probabilities, float64, and gold, bool, of the known rows of each label."""
    for _ in checked_blocks(probabilities, labels):  # raises for values that are no probabilities
        pass
    columns = zip(*mask_unknown(np.transpose(probabilities), np.transpose(labels)), strict=True)
    return [(p[p >= 0].astype(np.float64), gold[p >= 0]) for p, gold in columns]
