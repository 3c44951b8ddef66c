"""Decoding of label sets that are closed under a hierarchy: a set holds all ancestors of each of its labels."""

from __future__ import annotations

import numpy as np

from ....core.hierarchy import Hierarchy
from .decoders import (
    blocks_by_cost,
    bounds_of_size,
    by_blocks,
    empty_f1,
    expected_f1,
    largest_power,
    num_nodes,
    quadrature,
    reached_f1,
)

BLOCK = 1 << 21  # numbers in a table of the knapsack
_ENOUGH = 1e-12  # a set must be better by this much to replace another


def decode_closed_f1(probabilities: np.ndarray, hierarchy: Hierarchy, *, empty_score: float = 1.0) -> np.ndarray:
    """The closed label set with the highest expected example F1 for each row, if its labels are independent given the
    input.

    A set S of size k has the expected F1 Σ_{i in S} f_i, see [`decode_expected_f1`], with

        f_i = 2 E[Y_i / (k + X)] = 2 ∫_0^1 t^k G(t) p_i / (1 - p_i + p_i t) dt.

    In a forest, a tree knapsack therefore finds the best closed set of each size. With the labels in preorder, each
    before its descendants, B_i(j) is the highest sum that j of the labels i, i + 1, ... can have:

        B_i(j) = max(f_i + B_{i+1}(j - 1), B_{end of i's subtree}(j)).

    A size is skipped if an upper bound of its sums does not exceed the value of a closed set of another size. On 2,000
    synthetic rows with the 499 labels of seq_fun this takes 2 to 5 s on one processor; decoding without a hierarchy
    takes 0.3 s (`benchmarks/cost/closed_sets.py`; seed 0, `--lift` 1.5 and 3, `--noise` 0.7 and 2).

    If a label has several parents, no such recursion is exact. Then, and as a start in forests, two families of closed
    sets are searched: {i : i or a descendant has p >= t} and {i : i and all ancestors have p >= t}. The set with the
    highest expected F1 over all t is taken.

    Args:
        probabilities: (N, L) in [0, 1].
        hierarchy: the hierarchy of the L labels.
        empty_score: as in `decode_expected_f1`.

    Returns:
        (N, L) bool decisions: the best closed sets if `hierarchy.is_forest`, else the best of both families.

    Raises:
        ValueError: as `multilabel_metrics`, and if the hierarchy has another number of labels.
    """
    if (num_labels := len(hierarchy.parents)) != np.shape(probabilities)[1]:
        raise ValueError(f"the hierarchy has {num_labels} labels, but the rows have {np.shape(probabilities)[1]}")
    ends = _subtree_ends(hierarchy) if hierarchy.is_forest else None
    return by_blocks(probabilities, lambda p: _decoded(p, hierarchy, ends, empty_score))


def _decoded(
    probabilities: np.ndarray, hierarchy: Hierarchy, ends: np.ndarray | None, empty_score: float
) -> np.ndarray:
    """As [`decode_closed_f1`], for a block of rows; `ends` from [`_subtree_ends`] in a forest."""
    order = hierarchy.order  # ancestors first, so that a stable sort keeps them first among equal values
    closures = hierarchy.raised(probabilities), hierarchy.lowered(probabilities)
    families = [np.argsort(-closed[:, order], axis=1, kind="stable") for closed in closures]
    p = probabilities[:, order]
    num_labels = p.shape[1]
    sorted_p = [np.take_along_axis(p, family, 1) for family in families]
    best_first = -np.sort(-p, axis=1)
    mean, empty = p.sum(1), empty_f1(p, empty_score)
    variance = mean - np.einsum("ij,ij->i", p, p)
    reached = np.max([empty, *(reached_f1(values, mean) for values in sorted_p)], axis=0)
    _, largest = bounds_of_size(best_first, mean, variance, reached)
    powers = largest_power(largest, mean, num_labels)
    found = np.zeros(p.shape, dtype=bool)
    for rows in blocks_by_cost(num_nodes(powers, num_labels) * num_labels):
        sizes, nodes = (1, int(largest[rows].max())), quadrature(powers[rows].max(), num_labels)
        values = np.stack([expected_f1(v[rows], sizes, nodes, empty[rows]) for v in sorted_p])  # (2, n, 1 + largest)
        best = values.max(2)
        for family, ranks in enumerate(families):
            here = best.argmax(0) == family
            _write_prefixes(found, rows[here], ranks[rows[here]], values[family, here].argmax(1))
        if ends is not None:
            possible = expected_f1(best_first[rows], sizes, nodes, empty[rows])  # bounds closed sets of that size
            _improve(found, rows, p[rows], ends, best.max(0), possible, nodes)
    decisions = np.empty_like(found)
    decisions[:, order] = found
    return decisions


def _write_prefixes(found: np.ndarray, rows: np.ndarray, ranks: np.ndarray, sizes: np.ndarray) -> None:
    """Decide the first labels of each row: `sizes` (n,) of `ranks` (n, L)."""
    chosen = np.zeros(ranks.shape, dtype=bool)
    np.put_along_axis(chosen, ranks, np.arange(ranks.shape[1]) < sizes[:, None], 1)
    found[rows] = chosen


def _subtree_ends(hierarchy: Hierarchy) -> np.ndarray:
    """(L,) for each place in preorder, the place after its last descendant."""
    place = np.empty(len(hierarchy.parents), dtype=np.int64)
    place[hierarchy.order] = np.arange(len(place))
    ends = np.arange(len(place)) + 1
    for i in range(len(place) - 1, -1, -1):
        for parent in hierarchy.parents[hierarchy.order[i]]:
            ends[place[parent]] = max(ends[place[parent]], ends[i])
    return ends


def _improve(
    found: np.ndarray,
    rows: np.ndarray,
    p: np.ndarray,
    ends: np.ndarray,
    best: np.ndarray,
    possible: np.ndarray,
    quadrature: tuple[np.ndarray, np.ndarray],
) -> None:
    """Write better closed sets, if there are any, into `found`.

    Args:
        found: (N, L), labels in preorder.
        rows: (n,) the rows of `found` to improve.
        p: (n, L) their probabilities.
        ends: (L,) from [`_subtree_ends`].
        best: (n,) the expected F1 of the sets in `found`.
        possible: (n, 1 + largest) an upper bound for closed sets of each size.
        quadrature: nodes and weights of the integrals.
    """
    nodes, weights = quadrature
    open_rows = np.flatnonzero((possible[:, 1:] > best[:, None] + _ENOUGH).any(1))
    at_once = max(1, BLOCK // (p.shape[1] * max(len(nodes), possible.shape[1])))
    for start in range(0, len(open_rows), at_once):
        chunk = open_rows[start : start + at_once]
        row, size = np.nonzero(possible[chunk] > best[chunk, None] + _ENOUGH)
        row, size = row[size > 0], size[size > 0]
        sizes = np.arange(possible.shape[1])
        scores = np.ascontiguousarray(label_scores(p[chunk], nodes, weights, sizes)[row, size].T)
        bounds = _upper_bounds(scores, ends, size, best[chunk[row]])
        highest = np.zeros(len(chunk))
        np.maximum.at(highest, row, bounds)
        first = bounds == highest[row]  # the most promising size: its value rules out others
        for turn in (first, ~first):
            pairs = np.flatnonzero(turn & (bounds > best[chunk[row]] + _ENOUGH))
            pairs = pairs[np.argsort(size[pairs], kind="stable")]  # tables of similar width
            while len(pairs):
                now, pairs = np.split(pairs, [max(1, BLOCK // (p.shape[1] * (size[pairs[0]] + 1)))])
                totals, sets = best_closed_sets(scores[:, now], ends, size[now])
                better = np.flatnonzero(totals > best[chunk[row[now]]] + _ENOUGH)
                better = better[np.argsort(totals[better], kind="stable")]  # the best set of a row is written last
                to = chunk[row[now[better]]]
                best[to], found[rows[to]] = totals[better], sets[better]


def _upper_bounds(scores: np.ndarray, ends: np.ndarray, sizes: np.ndarray, enough: np.ndarray) -> np.ndarray:
    """(n,) upper bound for closed sets of each size k: min over λ of λ k + max over closed S of Σ_{i in S} (f_i - λ).

    The size of the maximiser falls with λ. λ is the slope between a smaller and a larger closed set. Its maximiser
    replaces one of the two, until it has the requested size or no set lies above their line.

    Args:
        scores: (L, n), labels in preorder.
        sizes: (n,) from 1 to L.
        enough: (n,) a bound at or below this value need not be tightened.
    """
    bounds = np.full(len(sizes), np.inf)
    going = np.arange(len(sizes))
    small, large = np.zeros((2, len(sizes))), np.stack([np.full(len(sizes), float(len(ends))), scores.sum(0)])
    while len(going):
        slope = (large[1] - small[1]) / (large[0] - small[0])
        size, total = _best_closed_at(scores[:, going], ends, slope)
        bounds[going] = np.minimum(bounds[going], total - slope * size + slope * sizes[going])
        between, smaller = (small[0] < size) & (size < large[0]), size < sizes[going]  # else it is an end of the line
        small, large = np.where(smaller, (size, total), small), np.where(smaller, large, (size, total))
        keep = between & (size != sizes[going]) & (bounds[going] > enough[going])
        going, small, large = going[keep], small[:, keep], large[:, keep]
    return bounds


def _best_closed_at(scores: np.ndarray, ends: np.ndarray, price: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The closed set with the highest sum of scores (L, n) minus a price (n,) per label: its size and its sum of
    scores, (n,) each."""
    sizes, gains = np.zeros((len(ends) + 1, len(price))), np.zeros((len(ends) + 1, len(price)))
    for i in range(len(ends) - 1, -1, -1):  # of places i, i + 1, ...
        end = ends[i]
        gains[i] = scores[i] - price + gains[i + 1]
        sizes[i] = sizes[i + 1] + 1
        without = gains[end] >= gains[i]
        np.copyto(gains[i], gains[end], where=without)
        np.copyto(sizes[i], sizes[end], where=without)
    return sizes[0], gains[0] + price * sizes[0]


def label_scores(p: np.ndarray, nodes: np.ndarray, weights: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """f_i, each label's part of the expected F1 of a set of each of these sizes (K,): (n, K, L), for p (n, L)."""
    factors = 1 - p[:, None] * (1 - nodes[:, None])  # (n, Q, L)
    powers = nodes ** sizes[:, None]  # (K, Q)
    weighted = 2 * weights * factors.prod(2)  # (n, Q)
    return (powers * weighted[:, None]) @ (p[:, None] / factors)


def best_closed_sets(scores: np.ndarray, ends: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The closed set of a given size with the highest sum of scores, by a tree knapsack.

    Args:
        scores: (L, n), labels in preorder.
        ends: (L,) for each label, the place after its last descendant.
        sizes: (n,) from 1 to L.

    Returns:
        sums (n,) and sets (n, L) bool.
    """
    num_labels, n = scores.shape
    width = int(sizes.max()) + 1
    nothing = np.full((width, n), -np.inf)
    nothing[0] = 0
    best = [nothing] * (num_labels + 1)  # for places i, i + 1, ...: the highest sums of 0, 1, ... labels, (width, n)
    taken = np.zeros((num_labels, width, n), dtype=bool)
    for i in range(num_labels - 1, -1, -1):
        with_it, without = best[i + 1][:-1] + scores[i], best[ends[i]]
        best[i] = np.empty_like(nothing)
        best[i][0] = 0
        np.greater(with_it, without[1:], out=taken[i, 1:])
        np.maximum(with_it, without[1:], out=best[i][1:])
    problems = np.arange(n)
    sets, left, at = np.zeros((num_labels, n), dtype=bool), sizes.copy(), np.zeros(n, dtype=np.int64)
    for i in range(num_labels):
        here = at == i
        sets[i] = here & taken[i, left, problems]
        left -= sets[i]
        at = np.where(here, np.where(sets[i], i + 1, ends[i]), at)
    return best[0][sizes, problems], sets.T
