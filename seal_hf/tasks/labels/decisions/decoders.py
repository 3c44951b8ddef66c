"""Decoders: label sets from probabilities, on numpy arrays.

Different losses give different probabilities for the same ranking of labels, so a fixed 0.5 judges calibration as much
as the net. Fair comparisons give every method the same decoders: 0.5, one threshold (`metrics.tune_threshold`), a
threshold per label, and the label set with the highest expected F1, from raw and from calibrated probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ....core.arrays import logit, sigmoid
from ..metrics import BLOCK, checked_blocks

_FIRST = 64  # of a row's most probable labels, whose sizes are looked at first
_AT_ONCE, _NEAR = 1 << 17, 1 << 15  # numbers per block of integrals, and of what is computed together in it
_UNLIKELY = 1 / 32  # labels that are at most so probable count by their power sums


def rescaled(probabilities: np.ndarray, scale: float, shift: float) -> np.ndarray:
    """σ(scale · logit(p) + shift), any shape: applies the result of `platt_scaling`."""
    return sigmoid(scale * clipped_logit(np.asarray(probabilities, dtype=np.float64)) + shift)


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
    return by_blocks(probabilities, lambda p: _most_probable(p, partial(_best_sizes, empty_score=empty_score)))


def by_blocks(probabilities: np.ndarray, decide: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The decisions (N, L) of blocks of rows, float64, together. ValueError as `multilabel_metrics`."""
    found, all_known = [], np.broadcast_to(np.int8(0), np.shape(probabilities))
    for p, _ in checked_blocks(probabilities, all_known):
        found.append(decide(p))
    return np.concatenate(found)


def decode_expected_jaccard(probabilities: np.ndarray, *, empty_score: float = 1.0) -> np.ndarray:
    """The label set with the highest expected Jaccard index for each row, if its labels are independent given the
    input.

    For a set S of size k, the labels in S and those outside are independent, and the union has k + Z labels, where Z
    counts the gold labels outside of S. The index is therefore the higher, the more probable the labels of S are: the
    best set of size k is the k most probable labels. Its expected index is

        E_k = Σ_{i<=k} p_i · E[1 / (k + Z)] = Σ_{i<=k} p_i · ∫_0^1 t^(k-1) Π_{j>k} (1 - p_j + p_j t) dt.

    Args, returns and errors as for [`decode_expected_f1`].
    """
    return by_blocks(probabilities, lambda p: _most_probable(p, partial(_best_jaccard_sizes, empty_score=empty_score)))


def _best_jaccard_sizes(p: np.ndarray, empty_score: float) -> np.ndarray:
    """(n,) the size of the set with the highest expected Jaccard index, for rows p (n, L), most probable first.

    By Jensen's inequality E_k >= Σ_{i<=k} p_i / (k + E[Z]). As E_k <= Σ_{i<=k} p_i / k, which falls with k, the sizes
    from some k on are not worth trying.
    """
    num_labels = p.shape[1]
    sums, k, empty = p.cumsum(1), np.arange(1, num_labels + 1), empty_f1(p, empty_score)
    mean = sums[:, -1]
    reached = np.maximum((sums / (k + mean[:, None] - sums)).max(1), empty)
    largest = np.maximum((sums / k >= reached[:, None] - 1e-9).sum(1), 1)
    powers = largest_power(largest, mean, num_labels)
    best = np.empty(len(p), dtype=np.int64)
    for rows in blocks_by_cost(num_nodes(powers, num_labels) * num_labels):
        nodes = quadrature(powers[rows].max(), num_labels)
        best[rows] = expected_jaccard(p[rows], int(largest[rows].max()), nodes, empty[rows]).argmax(1)
    return best


def expected_jaccard(
    p: np.ndarray, largest: int, quadrature: tuple[np.ndarray, np.ndarray], empty: np.ndarray
) -> np.ndarray:
    """The expected Jaccard index of no label and of the first 1, 2, ..., `largest` labels of rows p (n, L), in any
    order: (n, 1 + largest). `quadrature` and `empty` as for [`expected_f1`]."""
    nodes, weights = quadrature
    factors = 1 - p[:, :, None] * (1 - nodes)  # (n, L, Q)
    factors[:, :largest] = factors[:, :largest][:, ::-1].cumprod(1)[:, ::-1]  # of this label and those after it
    after = factors[:, largest:].prod(1, keepdims=True)
    outside = np.concatenate([factors[:, 1:largest] * after, after], axis=1)  # (n, largest, Q)
    powers = nodes ** np.arange(largest)[:, None]  # (largest, Q)
    values = p[:, :largest].cumsum(1) * np.einsum("nkq,kq->nk", outside, powers * weights)
    return np.concatenate([empty[:, None], values], axis=1)


def _best_sizes(p: np.ndarray, empty_score: float) -> np.ndarray:
    """(n,) the size of the set with the highest expected F1, for rows p (n, L), most probable first."""
    num_labels, first = p.shape[1], _FIRST
    mean, empty = p.sum(1), empty_f1(p, empty_score)
    variance = mean - np.einsum("ij,ij->i", p, p)
    while True:
        likely = p[:, :first]
        reached = np.maximum(reached_f1(likely, mean), empty)
        if first >= num_labels or _are_enough(likely, mean, variance, reached):
            break
        first *= 4
    smallest, largest = bounds_of_size(likely, mean, variance, reached)
    widths = np.minimum(_log_precision(num_labels) / (smallest + mean - p[:, 0]), 1)
    costs = largest * num_nodes(largest_power(largest, mean, num_labels, widths), num_labels)
    best = np.empty(len(p), dtype=np.int64)
    for rows in blocks_by_cost(np.maximum(costs, num_labels)):
        sizes, width = (int(smallest[rows].min()), int(largest[rows].max())), widths[rows].max()
        power = float(largest_power(sizes[1], mean[rows].max(), num_labels, width))
        place = expected_f1(p[rows], sizes, quadrature(power, num_labels, width), empty[rows]).argmax(1)
        best[rows] = np.where(place == 0, 0, sizes[0] - 1 + place)
    return best


def _most_probable(p: np.ndarray, best_sizes: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The most probable labels of each row, (n, L) bool; among equal ones the first.

    Args:
        p: (n, L).
        best_sizes: from the rows, most probable labels first, to the number of labels of each, from 0 to L: (n,).
    """
    descending = -np.sort(-p, axis=1)
    sizes = best_sizes(descending)
    lowest = np.where(sizes > 0, descending[np.arange(len(p)), np.maximum(sizes, 1) - 1], np.inf)[:, None]
    decided = p >= lowest
    if len(tied := np.flatnonzero(np.count_nonzero(decided, axis=1) > sizes)):
        p, lowest, sizes = p[tied], lowest[tied], sizes[tied, None]
        equal, above = p == lowest, p > lowest
        decided[tied] = above | (equal & (equal.cumsum(1) <= sizes - above.sum(1, keepdims=True)))
    return decided


def blocks_by_cost(costs: np.ndarray) -> Iterator[np.ndarray]:
    """Rows whose integrals are computed together: those of similar cost, which share their nodes.

    Args:
        costs: (n,) the number of temporary values for each row.
    """
    by_cost = np.argsort(costs, kind="stable")
    start = 0
    while start < len(costs):
        rows = by_cost[start : start + max(1, _AT_ONCE // int(costs[by_cost[start]]))]
        start += len(rows)
        yield rows


def empty_f1(p: np.ndarray, empty_score: float) -> np.ndarray:
    """(n,) E_0 of rows p (n, L)."""
    return np.prod(1 - p, axis=1) * empty_score if empty_score else np.zeros(len(p))


def expected_f1(
    p: np.ndarray, sizes: tuple[int, int], quadrature: tuple[np.ndarray, np.ndarray], empty: np.ndarray
) -> np.ndarray:
    """E_0, and E_k of the first k labels of rows p, in any order, for each size k of a range.

    Args:
        p: (n, L) in [0, 1].
        sizes: the smallest and the largest k, from 1 to L.
        quadrature: nodes and weights, from [`quadrature`].
        empty: (n,) E_0, from [`empty_f1`].

    Returns:
        (n, 2 + largest - smallest).
    """
    smallest, largest = sizes
    values = np.zeros((2 + largest - smallest, len(p)))
    values[0] = empty
    likely = np.flatnonzero((p > _UNLIKELY).any(0))
    head = max(largest, 1 + int(likely.max(initial=-1)))
    columns = np.ascontiguousarray(p[:, :head].T)[:, None]  # (head, 1, n)
    nodes, weights = quadrature
    weights = weights[:, None] * _product_of_unlikely(p[:, head:], 1 - nodes)  # (Q, n)
    at_once = max(1, BLOCK // (largest * len(p)))  # nodes: one row with very many labels is a block by itself
    for start in range(0, len(nodes), at_once):
        t, weighted = nodes[start : start + at_once, None], weights[start : start + at_once]
        ratios = np.empty((largest, *weighted.shape))  # p_i / (1 - p_i + p_i t)
        step = max(1, _NEAR // weighted.size)  # labels: their factors stay near the processor
        factors = np.empty((step, *weighted.shape))
        for first in range(0, head, step):
            some = columns[first : first + step]
            of_some = np.multiply(some, t - 1, out=factors[: len(some)])
            of_some += 1  # in (0, 1]: underflow in their product is harmless
            weighted = weighted * of_some.prod(0)
            num = max(0, min(largest - first, len(some)))
            np.divide(some[:num], of_some[:num], out=ratios[first : first + num])
        weighted = weighted * t**smallest
        sums, product = ratios[:smallest].sum(0), factors[0]
        for k in range(smallest, largest + 1):
            if k > smallest:
                sums += ratios[k - 1]
                weighted *= t
            values[1 + k - smallest] += 2 * np.multiply(sums, weighted, out=product).sum(0)
    return values.T


def _product_of_unlikely(p: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Π_j (1 - p_j s) of unlikely labels p (n, L), for s (Q,) in [0, 1]: (Q, n). Its logarithm is -Σ_m s^m Σ_j p_j^m /
    m, in which powers of p vanish soon: a pass over the labels for each power, in place of one for each s."""
    largest = max(p.max(initial=0.0), 1e-300)
    m = np.arange(1, 2 + math.ceil(_log_precision(p.shape[1] + 1) / -math.log(largest)))
    sums, powers = np.empty((len(m), len(p))), p.copy()
    for each in sums:
        powers.sum(1, out=each)
        powers *= p
    return np.exp(-(s[:, None] ** m / m) @ sums)


def reached_f1(p: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """(n,) a lower bound of the best value that the first 1, 2, ... labels of rows reach.

    E_k >= 2 Σ_{i<=k} p_i / (A - p_i), with A = k + 1 + μ, by Jensen's inequality; and 1 / (A - p) >= 1 / A + p / A².

    Args:
        p: (n, K) of the first labels of each row, in any order.
        mean: (n,) μ = E[X], the sum over all labels.
    """
    a = mean[:, None] + np.arange(2, p.shape[1] + 2)
    return 2 * ((p.cumsum(1) + (p * p).cumsum(1) / a) / a).max(1)


def bounds_of_size(
    p: np.ndarray, mean: np.ndarray, variance: np.ndarray, reached: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest size worth trying of each row: (n,), (n,).

    A size is not the best if an upper bound of E_k is below the value that another size has reached. With A and μ as in
    [`reached_f1`], X' the sum of the labels other than i, and V the variance of X, which is at least that of X',

        E[1 / (k + 1 + X')] <= 1 / (A - p_i) + V / ((A - p_i)² (k + 1)),

    by the Taylor expansion of 1 / (k + 1 + X') at its mean. The bound uses p_i <= p_1 and 1 / (A - p) = 1 / A +
    p / (A (A - p)).

    Args:
        p: (n, K) of the K most probable labels of each row, the most probable one first.
        mean, variance: (n,) of X, the sum over all labels.
        reached: (n,) a value that some size reaches.
    """
    k, sums = np.arange(1, p.shape[1] + 1), p.cumsum(1)
    a = mean[:, None] + (k + 1)
    least = a - p[:, :1]
    upper = ((p * p).cumsum(1) / least + sums) / a + sums * (variance[:, None] / (least * least * (k + 1)))
    possible = 2 * upper >= reached[:, None] - 1e-9
    smallest, largest = possible.argmax(1) + 1, len(k) - possible[:, ::-1].argmax(1)
    return smallest, np.where(possible.any(1), largest, 1)


def _are_enough(p: np.ndarray, mean: np.ndarray, variance: np.ndarray, reached: np.ndarray) -> bool:
    """True if no size above K is worth trying in any row; arguments as for [`bounds_of_size`].

    With the bound there and B = A - p_1, E_k <= 2 Σ_{i<=k} p_i / B (1 + V / (B (k + 1))). From size K on, the sum grows
    by at most p_K and B by 1, so their ratio stays below the larger one of Σ_{i<=K} p_i / B and p_K.
    """
    size = p.shape[1]
    b = size + 1 + mean - p[:, 0]
    upper = 2 * np.maximum(p.sum(1) / b, p[:, -1]) * (1 + variance / (b * (size + 1)))
    return bool((upper < reached - 1e-9).all())


def largest_power(
    largest: np.ndarray | float, mean: np.ndarray | float, num_labels: int, width: np.ndarray | float = 1.0
) -> np.ndarray:
    """The largest power that matters in the integrals of [`expected_f1`], as an argument of [`quadrature`].

    t^k E[t^X] is a mean of powers of t, and those above k + μ + √(2μx) + x/3 have a weight below e^-x (Bernstein). With
    t = 1 - w (1 - u), each power of t is a mean of powers of u, whose mean is lower by the factor w.

    Args:
        largest, mean: the largest size k, and μ = E[X], of each row (n,) or of one row.
        width: w in (0, 1], the width of the interval.
    """
    x, part = _log_precision(num_labels), (largest + mean) * width
    power = np.minimum(largest + mean + np.sqrt(2 * mean * x), part + np.sqrt(2 * part * x)) + x / 3
    return np.minimum(largest + num_labels - 1, power)


def num_nodes(power: np.ndarray | float, num_labels: int) -> Any:
    """The number of nodes that [`quadrature`] needs for a power of t.

    Q nodes are exact up to power 2Q - 1. Far fewer suffice: a polynomial of degree n is within 2 exp(-(n + 1)² / d) of
    t^d (Chebyshev's expansion, which has binomial coefficients), so the integral is within 4 exp(-(2Q)² / d).
    """
    exact, close = (power + 1) / 2, np.sqrt(power * _log_precision(num_labels)) / 2
    return np.ceil(np.minimum(exact, close)).astype(np.int64)


def quadrature(power: float, num_labels: int, width: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on [1 - width, 1] for the powers up to [`largest_power`]: (Q,), (Q,).

    The rest of [0, 1] contributes less than e^-x if the width is x / (k + μ - p_1), since t^k E[t^X'] <=
    exp(-(k + μ - p_i) (1 - t)).
    """
    nodes, weights = _legendre(int(num_nodes(power, num_labels)))
    return 1 - width * (1 - nodes) / 2, width * weights / 2


@lru_cache(maxsize=256)
def _legendre(num: int) -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(num)


def _log_precision(num_labels: int) -> float:
    """x such that errors of a few e^-x per label sum to less than 1e-9 over all labels."""
    return math.log(1e11 * num_labels)
