"""Decoders: label sets from probabilities, on numpy arrays.

Different losses give different probabilities for the same ranking of labels, so a fixed 0.5 judges calibration as much
as the net. Fair comparisons give every method the same decoders: 0.5, one threshold (`metrics.tune_threshold`), a
threshold per label, and the label set with the highest expected F1, from raw and from calibrated probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import expit, logit

from ..metrics.multilabel import BLOCK, DEFAULT_GRID, checked, f1_of_counts

MAX_PASSES = 20  # over all labels; a few suffice
MAX_STEPS = 100  # of Newton's method; a few suffice
_CACHED = 1 << 15  # numbers per block: temporaries of this size stay in a processor's cache


def constant_probabilities(label_rates: np.ndarray, num_rows: int) -> np.ndarray:
    """The predictor that reads no input: every row gets the labels' rates on the training rows.

    A method must beat it under the same decoder; on data with frequent labels it scores high with a tuned threshold.

    Args:
        label_rates: (L,) in [0, 1], as `MultiLabelData.label_rates`, (count + 1/2) / (rows + 1).
        num_rows: N.

    Returns:
        (N, L) float64.
    """
    return np.tile(np.asarray(label_rates, dtype=np.float64), (num_rows, 1))


def tune_thresholds_per_label(
    probabilities: np.ndarray,
    labels: np.ndarray,
    start: float,
    *,
    grid: np.ndarray = DEFAULT_GRID,
    empty_score: float = 1.0,
) -> tuple[np.ndarray, float]:
    """A threshold for each label that maximises example F1, by coordinate ascent from one global threshold.

    Each label's threshold in turn moves to the candidate with the best example F1, given all other thresholds, but only
    if F1 improves; among ties, to the one nearest `start`. Passes over all labels repeat until none improves. On these
    rows the result is never worse than `start`; it is the optimum of each threshold, not of all jointly.

    These are L numbers fitted to the validation rows, where many labels have few gold rows: on small validation sets
    they overfit, and on test they often lose to the global threshold. They are reported nevertheless: their gain, which
    needs no loss-net, is calibration of single labels, which a loss-net may also learn. It has nothing to do with
    dependencies between labels.

    Args:
        probabilities: (N, L) in [0, 1], of the validation rows.
        labels: (N, L), 0 or 1, or -1 or NaN for unknown.
        start: the global threshold, from `tune_threshold`.
        grid: (G,) candidates for every label, ascending.
        empty_score: as in `multilabel_metrics`.

    Returns:
        (thresholds, f1): (L,) thresholds for `probabilities >= thresholds`, and their example F1 on these rows.

    Raises:
        ValueError: as `multilabel_metrics`.
    """
    probabilities, gold = checked(probabilities, labels)
    thresholds = np.full(probabilities.shape[1], float(start))
    decided = probabilities >= start
    hits, both = (decided & gold).sum(1, dtype=np.float64), decided.sum(1) + gold.sum(1, dtype=np.float64)
    columns = [_column(p, y, min(start, grid[0])) for p, y in zip(probabilities.T, gold.T, strict=True)]
    chosen = [p >= start for _, p, _ in columns]
    columns = [(rows, np.searchsorted(grid, p, side="right"), y) for rows, p, y in columns]  # p >= grid[g]: bin > g
    for _ in range(MAX_PASSES):
        moved = False
        for label, (rows, bins, y) in enumerate(columns):
            now = chosen[label]
            others, other_hits = both[rows] - now, hits[rows] - (now & y)
            gain = _gain(other_hits, others, y, empty_score)
            sums = np.bincount(bins, gain, minlength=len(grid) + 1)
            totals = sums[::-1].cumsum()[-2::-1]  # (G,): a candidate decides rows in the bins above it
            best = totals.max()
            if best > gain[now].sum() + 1e-9:
                moved = True
                equal = np.flatnonzero(totals >= best - 1e-9)
                candidate = equal[np.argmin(np.abs(grid[equal] - start))]
                thresholds[label], chosen[label] = grid[candidate], bins > candidate
                both[rows], hits[rows] = others + chosen[label], other_hits + (chosen[label] & y)
        if not moved:
            break
    gold_count = gold.sum(1)
    return thresholds, float(f1_of_counts(hits, both - gold_count, gold_count, empty_score).mean())


def _column(p: np.ndarray, y: np.ndarray, lowest: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows in which a threshold >= `lowest` can decide a label, with their p and y: (n,) each."""
    rows = np.flatnonzero(p >= lowest)
    return rows, p[rows], y[rows]


def _gain(hits: np.ndarray, both: np.ndarray, y: np.ndarray, empty: float) -> np.ndarray:
    """The gain in each row's F1 = 2 hits / both if one more label is decided, which is gold where `y`: (n,)."""
    before = 2.0 * hits / np.maximum(both, 1.0)
    before[both == 0] = empty
    return 2.0 * (hits + y) / (both + 1.0) - before


def platt_scaling(probabilities: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Calibration by two numbers shared by all labels: those with which σ(scale · logit(p) + shift) fits the labels
    best (Platt 1999, with its smoothed targets, so that both are finite even if no row is wrong).

    Several task losses give scores that rank labels well but are not probabilities: `asymmetric` leaves those of
    negatives near its margin or above it. `decode_expected_f1` needs probabilities.

    Args:
        probabilities: (N, L) in [0, 1], of the validation rows; clipped to [1e-12, 1 - 1e-12].
        labels: (N, L), 0 or 1, or -1 or NaN for unknown.

    Returns:
        (scale, shift), for `rescaled`.

    Raises:
        ValueError: as `multilabel_metrics`.
    """
    probabilities, gold = checked(probabilities, labels)
    probabilities, gold = probabilities.ravel(), gold.ravel()
    if not (known := probabilities >= 0).all():
        probabilities, gold = probabilities[known], gold[known]
    count = np.count_nonzero(gold)
    targets = (count + 1) / (count + 2), 1 / (gold.size - count + 2)  # of gold entries, and of others
    scores = clipped_logit(probabilities)
    at = np.array([1.0, 0.0])
    loss, gradient, hessian = _platt_loss(at, scores, gold, targets)
    for _ in range(MAX_STEPS):
        if np.abs(gradient).max() <= 1e-10:
            break
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-12)[0]  # the smallest step if all scores are equal
        found = _platt_loss(at - step, scores, gold, targets)
        while found[0] > loss and np.abs(step).max() > 1e-12:
            step = step / 2
            found = _platt_loss(at - step, scores, gold, targets)
        if found[0] > loss:
            break
        at, (loss, gradient, hessian) = at - step, found
    return float(at[0]), float(at[1])


def _platt_loss(
    at: np.ndarray, scores: np.ndarray, gold: np.ndarray, targets: tuple[float, float]
) -> tuple[float, np.ndarray, np.ndarray]:
    """Mean cross-entropy of σ(scale · score + shift), its gradient (2,) and Hessian (2, 2) at (scale, shift)."""
    loss, gradient, hessian = 0.0, np.zeros(2), np.zeros((2, 2))
    for start in range(0, len(scores), _CACHED):
        x, t = scores[start : start + _CACHED], np.where(gold[start : start + _CACHED], *targets)
        z = at[0] * x + at[1]
        small = np.exp(-np.abs(z))  # σ(-|z|) = small / (1 + small)
        p = np.where(z >= 0, 1.0, small) / (1 + small)
        loss += float(np.maximum(z, 0).sum() + np.log1p(small).sum() - t @ z)
        error, curvature = p - t, small / (1 + small) ** 2
        gradient += error @ x, error.sum()
        weighted = curvature * x
        hessian += [[weighted @ x, weighted.sum()], [weighted.sum(), curvature.sum()]]
    return loss / len(scores), gradient / len(scores), hessian / len(scores)


def rescaled(probabilities: np.ndarray, scale: float, shift: float) -> np.ndarray:
    """σ(scale · logit(p) + shift), any shape: applies the result of `platt_scaling`."""
    return expit(scale * clipped_logit(np.asarray(probabilities, dtype=np.float64)) + shift)


def clipped_logit(probabilities: np.ndarray) -> np.ndarray:
    """logit(p), with p clipped to [1e-12, 1 - 1e-12]."""
    return logit(probabilities.clip(1e-12, 1 - 1e-12))


def decode_expected_f1(probabilities: np.ndarray, *, empty_score: float = 1.0) -> np.ndarray:
    """The label set with the highest expected example F1 for each row, if its labels are independent given the input.

    The best set of size k is then the k most probable labels (Lewis 1995), and with X = Σ_j Y_j its expected F1 is

        E_k = E[2 Σ_{i<=k} Y_i / (k + X)] = 2 ∫_0^1 t^k G(t) Σ_{i<=k} p_i / (1 - p_i + p_i t) dt,
        G(t) = E[t^X] = Π_j (1 - p_j + p_j t),    E_0 = G(0) · empty_score,

    since E[1 / (k + 1 + X)] = ∫ t^k E[t^X] dt, used for the labels other than i where Y_i = 1. Gauss-Legendre nodes
    integrate these polynomials to an error below 1e-9, see `bounds_of_size`. It trusts the probabilities, and needs
    neither validation data nor a threshold.

    Args:
        probabilities: (N, L) in [0, 1].
        empty_score: as in `multilabel_metrics`: the F1 of an empty decision if no label is gold. Use 0 on data in which
            every row has a label, where independent labels are all absent far too often: 0 is exactly decoding under
            P(Y | Y is not empty), as an empty Y adds nothing to E_1, E_2, ...

    Returns:
        (N, L) bool decisions. Ties give the smallest size, and among equal probabilities the first labels.

    Raises:
        ValueError: as `multilabel_metrics`.
    """
    probabilities = checked(probabilities, np.zeros(np.shape(probabilities)))[0]
    order = np.argsort(-probabilities, axis=1, kind="stable")
    p = np.take_along_axis(probabilities, order, 1)
    sizes, degrees = bounds_of_size(p, reached_f1(p, empty_score))
    best = np.empty(len(p), dtype=np.int64)
    for rows in blocks_by_cost(degrees, p.shape[1]):
        best[rows] = expected_f1(p[rows], sizes[rows].max(), degrees[rows].max(), empty_score).argmax(1)
    decisions = np.zeros(p.shape, dtype=bool)
    np.put_along_axis(decisions, order, np.arange(p.shape[1]) < best[:, None], 1)
    return decisions


def blocks_by_cost(degrees: np.ndarray, num_labels: int) -> Iterator[np.ndarray]:
    """Rows whose integrals are computed together: those of similar cost share their nodes."""
    by_cost = np.argsort(degrees, kind="stable")
    start = 0
    while start < len(degrees):
        nodes, _ = quadrature(degrees[by_cost[start]], num_labels)
        rows = by_cost[start : start + max(1, BLOCK // (num_labels * len(nodes)))]
        start += len(rows)
        yield rows


def expected_f1(p: np.ndarray, largest: int, degree: float, empty_score: float) -> np.ndarray:
    """E_0 .. E_largest of the first 0 .. `largest` labels of rows p (n, L), in any order: (n, 1 + largest)."""
    nodes, weights = quadrature(degree, p.shape[1])
    values = np.zeros((len(p), largest + 1))
    values[:, 0] = np.prod(1 - p, axis=1) * empty_score
    sizes = np.arange(1, largest + 1)
    at_once = max(1, BLOCK // p.size)  # nodes: one row with very many labels is a block by itself
    for start in range(0, len(nodes), at_once):
        t = nodes[start : start + at_once, None]  # (Q, 1)
        factors = 1 - p[:, None] * (1 - t)  # (n, Q, L), in (0, 1]: underflow in their product is harmless
        terms = (p[:, None, :largest] / factors[..., :largest]).cumsum(2) * t**sizes
        weighted = weights[start : start + at_once] * factors.prod(2)  # (n, Q)
        values[:, 1:] += 2 * (weighted[:, None] @ terms)[:, 0]
    return values


def reached_f1(p: np.ndarray, empty_score: float) -> np.ndarray:
    """(n,) a lower bound of the best value that the first 0, 1, 2, ... labels of rows p (n, L), in any order, reach.

    E_k >= 2 Σ_{i<=k} p_i / (k + 1 + μ - p_i), with μ = E[X], by Jensen's inequality.
    """
    k, mu = np.arange(1, p.shape[1] + 1), p.sum(1, keepdims=True)
    # leaving out - p_i in the denominator lowers the bound
    return np.maximum((2 * p.cumsum(1) / (k + 1 + mu)).max(1), np.prod(1 - p, axis=1) * empty_score)


def bounds_of_size(p: np.ndarray, reached: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For rows p (n, L), most probable first: the largest size worth trying, and the largest power of t that matters in
    the integrals, both (n,).

    Sizes: E_k <= 2 Σ_{i<=k} p_i / (k + 1), as X >= 0. A size is not the best if this bound is below the value that
    another size has `reached` (n,).

    Powers: t^k E[t^X] is a mean of powers, and those above k + μ + √(2μx) + x/3 have a weight below e^-x (Bernstein).
    """
    num_labels = p.shape[1]
    k = np.arange(1, num_labels + 1)
    upper = 2 * p.cumsum(1) / (k + 1)
    sizes = np.maximum((k * (upper >= reached[:, None] - 1e-9)).max(1), 1)
    return sizes, largest_power(sizes, p.sum(1), num_labels)


def largest_power(sizes: np.ndarray | int, mu: np.ndarray, num_labels: int) -> np.ndarray:
    """The largest power of t that matters for sets of these sizes and E[X] = `mu` (n,), see `bounds_of_size`: (n,)."""
    x = _log_precision(num_labels)
    return np.minimum(sizes + num_labels - 1, sizes + mu + np.sqrt(2 * mu * x) + x / 3)


def quadrature(degree: float, num_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on [0, 1] for powers of t up to `degree`: (Q,), (Q,).

    Q nodes are exact up to power 2Q - 1. Far fewer suffice: a polynomial of degree n is within 2 exp(-(n + 1)² / d) of
    t^d (Chebyshev's expansion, which has binomial coefficients), so the integral is within 4 exp(-(2Q)² / d).
    """
    exact, close = (degree + 1) / 2, math.sqrt(degree * _log_precision(num_labels)) / 2
    nodes, weights = np.polynomial.legendre.leggauss(math.ceil(min(exact, close)))
    return (nodes + 1) / 2, weights / 2


def _log_precision(num_labels: int) -> float:
    """x such that errors of a few e^-x per label sum to less than 1e-9 over all labels."""
    return math.log(1e11 * num_labels)
