"""How the numbers of [`LabelDecisions`] are fitted to validation rows: thresholds, a calibration, and what is known of
the label sets that occur. On all rows, or, to compare decoders, on those outside each fold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ....core.arrays import logit, sigmoid
from ....core.decisions import folds
from ....core.hierarchy import Hierarchy
from ....utils.options import check_value
from ..metrics import (
    DEFAULT_GRID,
    best_threshold,
    checked_blocks,
    f1_of_counts,
    mask_unknown,
    places_in,
    row_blocks,
    threshold_f1,
    with_known_labels,
)
from .decoders import clipped_logit, rescaled
from .seen_sets import SeenSets
from .targets import COST, EXACT_MATCH, F1_EXAMPLE, F1_MACRO, F1_MICRO, HAMMING, NAMES

OF_ENTRIES = (F1_MICRO, HAMMING, EXACT_MATCH)  # targets for which the one threshold is tuned over all entries
MAX_PASSES = 20  # over all labels; a few suffice
MAX_STEPS = 100  # of Newton's method; a few suffice
BINS, EDGE = 1 << 14, 27.64  # scores that a calibration counts together: between -EDGE and EDGE, logit(1e-12) = -27.63


class ValidationRows:
    """Validation rows to which numbers of [`LabelDecisions`] are fitted. The one threshold and the calibration follow
    from sums over rows, which are computed once for each fold.

    Args:
        probabilities, labels, empty_score, hierarchy, seen, target, costs: as in `LabelDecisions.fit`.
        never_empty: True if decoders that never decide an empty set are compared too.

    Attributes:
        folds: pairs of rows to fit on and rows to decide; a single row is fitted on itself.

    Raises:
        ValueError: as `LabelDecisions.fit`.
    """

    def __init__(
        self,
        probabilities: np.ndarray,
        labels: np.ndarray,
        *,
        never_empty: bool = False,
        empty_score: float = 1.0,
        hierarchy: Hierarchy | None = None,
        seen: SeenSets | None = None,
        target: str = F1_EXAMPLE,
        costs: ArrayLike | None = None,
    ):
        check_value("target", target, NAMES)
        self.costs = _checked_costs(target, costs, np.shape(labels))
        if np.size(labels) and not (np.asarray(labels) >= 0).any():
            raise ValueError(f"all labels of these {len(labels)} rows are unknown: decisions cannot be fitted on them.")
        self.probabilities, self.labels = with_known_labels(probabilities, labels)
        self.never_empty, self.empty_score = never_empty, empty_score
        self.hierarchy, self.seen, self.target = hierarchy, seen, target
        self.folds = list(folds(len(self.labels)))

    def numbers(self, needed: Collection[str], fold: int | None = None) -> dict[str, Any]:
        """The arguments of [`LabelDecisions`]: the numbers of some decoders, and always the one threshold.

        Args:
            needed: the decoders, without endings.
            fold: fitted on the rows outside this fold; default: on all.
        """
        rows = slice(None) if fold is None else self.folds[fold][0]
        labels = self.labels[rows]
        threshold = self._threshold(fold)
        of_sets = self.seen is not None and any(name.startswith("seen") for name in needed)
        plugs_in = "thresholds" in needed and self.target in (F1_MACRO, COST)
        calibration = None
        if of_sets or plugs_in or any(name.startswith("calibrated") for name in needed):
            calibration = calibrated(self._outside(self._scores, fold))
        cut = (1.0, 0.0) if calibration is None or calibration[0] <= 0 else calibration  # in their place, as they are
        thresholds = None
        if plugs_in and self.costs is not None:
            thresholds = before_calibration(self.costs[0] / self.costs.sum(0), *cut)
        elif plugs_in:
            thresholds = thresholds_of_label_f1(self.probabilities[rows], *cut)
        elif "thresholds" in needed:
            counted = None if fold is None else np.isin(np.arange(len(self.labels)), self.folds[fold][0])
            about = self._columns, self._sizes, threshold, DEFAULT_GRID, self.empty_score
            thresholds = coordinate_ascent(*about, counted)[0]
        found: dict[str, Any] = {"threshold": threshold, "calibration": calibration}
        if of_sets and self.seen is not None and calibration is not None:
            if (whole := (labels >= 0).all(1)).any():
                scaled = rescaled(self.probabilities[rows][whole], *calibration)
                numbers = self.seen.likeliest_numbers(scaled, labels[whole] > 0)
                found["seen_power"], found["seen_share"] = numbers
        return found | {
            "thresholds": None if thresholds is None else thresholds.tolist(),
            "never_empty": self.never_empty,
            "empty_score": 0.0 if self._sizes[rows].all() else self.empty_score,
            "hierarchy": self.hierarchy,
            "seen": self.seen,
            "target": self.target,
            "costs": None if self.costs is None else self.costs.tolist(),
        }

    def _threshold(self, fold: int | None) -> float:
        sums = self._outside(self._curves, fold)
        if self.target not in OF_ENTRIES:
            return best_threshold(sums[0] / sums[1])[0]
        decided, hits, gold = sums
        return best_threshold(
            f1_of_counts(hits, decided, gold, 0.0) if self.target == F1_MICRO else 2 * hits - decided
        )[0]

    def _outside(self, of_folds: np.ndarray, fold: int | None) -> np.ndarray:
        """The sum of what belongs to each fold, without one of them."""
        return (of_folds if fold is None or len(of_folds) == 1 else np.delete(of_folds, fold, 0)).sum(0)

    @cached_property
    def _curves(self) -> np.ndarray:
        """Of each fold, by candidate of the grid: the sum of the rows' F1, and their number (F, 2, G); or for some
        targets the number of decided entries, of hits and of gold entries (F, 3, G). Unknown entries do not count."""
        sums = np.zeros((len(self.folds), 3 if self.target in OF_ENTRIES else 2, len(DEFAULT_GRID)))
        for of_fold, (_, rows) in zip(sums, self.folds, strict=True):
            for p, gold in checked_blocks(self.probabilities[rows], self.labels[rows]):
                if self.target in OF_ENTRIES:
                    places, size = places_in(DEFAULT_GRID, p), len(DEFAULT_GRID) + 1
                    counts = np.stack([np.bincount(each.ravel(), minlength=size) for each in (places, places[gold])])
                    of_fold[:2] += counts[:, ::-1].cumsum(1)[:, -2::-1]
                    of_fold[2] += gold.sum()
                else:
                    of_fold += (
                        threshold_f1(p, gold, self.empty_score).sum(0),
                        np.full_like(DEFAULT_GRID, len(p)),
                    )
        return sums

    @cached_property
    def _columns(self) -> list[LabelColumn]:
        return label_columns(self.probabilities, self.labels, DEFAULT_GRID)

    @cached_property
    def _sizes(self) -> np.ndarray:
        """(N,) the number of gold labels of each row."""
        return (self.labels > 0).sum(1)

    @cached_property
    def _scores(self) -> np.ndarray:
        """[`score_counts`] of each fold."""
        return np.stack([score_counts(self.probabilities[rows], self.labels[rows]) for _, rows in self.folds])


def _checked_costs(target: str, costs: ArrayLike | None, shape: tuple[int, ...]) -> np.ndarray | None:
    """The costs (2, L) of a target.

    Raises:
        ValueError: they are missing, superfluous, or of a wrong shape or value.
    """
    if (costs is not None) != (target == COST):
        said = "missing, but the" if costs is None else "given, but the"
        raise ValueError(f"`costs` are {said} target is {target!r}: costs belong to the target {COST!r}.")
    if costs is None:
        return None
    found = np.asarray(costs, dtype=np.float64)
    if found.shape != (2, *shape[1:]):
        raise ValueError(f"`costs` have the shape {found.shape}; expected (2, {', '.join(map(str, shape[1:]))}).")
    wrong = ~(np.isfinite(found) & (found >= 0)).all(0) | ~found.any(0)
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"`costs` of label {place} are {found[0, place]:g} and {found[1, place]:g}; expected two numbers that are "
            "at least 0, not both 0."
        )
    return found


class LabelColumn(NamedTuple):
    """A label in the rows in which a candidate of the grid can decide it, (n,) each.

    Attributes:
        rows: their places; all rows if these are most, which is faster.
        bins: how many candidates decide it.
        gold: whether it is gold.
    """

    rows: Any
    bins: np.ndarray
    gold: np.ndarray


def label_columns(probabilities: np.ndarray, labels: np.ndarray, grid: np.ndarray) -> list[LabelColumn]:
    """The labels of rows (N, L). ValueError as `multilabel_metrics`."""
    for _ in checked_blocks(probabilities, labels):
        pass
    found = []
    for block in row_blocks(probabilities.T):
        for p, gold in zip(*mask_unknown(probabilities.T[block], labels.T[block]), strict=True):
            rows: Any = np.flatnonzero(p >= grid[0]).astype(np.int32)
            if 2 * len(rows) > len(p):
                rows = slice(None)
            bins = places_in(grid, p[rows].astype(np.float64))  # p >= grid[g]: bin > g
            found.append(LabelColumn(rows, bins.astype(np.min_scalar_type(len(grid))), gold[rows]))
    return found


def coordinate_ascent(
    columns: Sequence[LabelColumn],
    gold: np.ndarray,
    start: float,
    grid: np.ndarray,
    empty: float,
    counted: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A threshold for each label that maximises example F1, by coordinate ascent from one global threshold.

    Each label's threshold in turn moves to the candidate with the best example F1, given all other thresholds, but only
    if F1 improves; among ties, to the one nearest `start`. Passes over all labels repeat until none improves. On these
    rows the result is never worse than `start`; it is the optimum of each threshold, not of all jointly.

    These are L numbers fitted to the validation rows, where many labels have few gold rows: on small validation sets
    they overfit, and on test they often lose to the global threshold.

    Args:
        columns: from [`label_columns`], of all L labels.
        gold: (N,) the number of gold labels of each row.
        start: the global threshold, a candidate of the grid.
        grid: (G,) candidates for every label, ascending.
        empty: the F1 of an empty set if no label is gold.
        counted: (N,) bool, the rows that count; default: all.

    Returns:
        (L,) thresholds; and the number of hits and of decided labels in each row, (N,), (N,).
    """
    if counted is not None:
        columns = [each._replace(bins=each.bins * counted[each.rows]) for each in columns]  # nothing decides bin 0
    place = int(np.searchsorted(grid, start))
    thresholds, chosen = np.full(len(columns), float(start)), [each.bins > place for each in columns]
    gains = _gains(int(gold.max()), len(columns), empty)
    of_hit, of_gold = gains.strides[1] // gains.itemsize, gains.strides[0] // gains.itemsize
    places = gold.astype(np.int32)  # of each row, by its hits, and its decided and gold labels
    offsets = []  # of each label: from there to the place without the label, by whether it is gold
    for (rows, _, y), decided in zip(columns, chosen, strict=True):
        without = decided * (1 + of_hit * y)
        places[rows] += without
        offsets.append((of_gold * y - without).astype(np.int32))
    for _ in range(MAX_PASSES):
        moved = False
        for label, (rows, bins, y) in enumerate(columns):
            gain = gains.take(places[rows] + offsets[label])
            sums = np.bincount(bins, gain, minlength=len(grid) + 1)
            totals = sums[::-1].cumsum()[-2::-1]  # (G,): a candidate decides rows in the bins above it
            best = totals.max()
            if best > gain[chosen[label]].sum() + 1e-9:
                moved = True
                equal = np.flatnonzero(totals >= best - 1e-9)
                candidate = equal[np.argmin(np.abs(grid[equal] - start))]
                thresholds[label], chosen[label] = grid[candidate], bins > candidate
                offset = (of_gold * y - chosen[label] * (1 + of_hit * y)).astype(np.int32)
                places[rows] += offsets[label] - offset
                offsets[label] = offset
        if not moved:
            break
    hits, sizes = np.divmod(places, of_hit)
    return thresholds, hits, sizes - gold


def _gains(most_gold: int, num_labels: int, empty: float) -> np.ndarray:
    """By how much a row's F1 = 2 hits / (decided + gold) grows if one more label is decided: (2, 1 + most_gold, 1 +
    most_gold + L), by whether the label is gold, the number of hits, and of decided and gold labels before."""
    gold, hits, sizes = np.ogrid[:2, : most_gold + 1, : num_labels + most_gold + 1]
    before = np.where(sizes > 0, 2.0 * hits / np.maximum(sizes, 1.0), empty)
    return 2.0 * (hits + gold) / (sizes + 1.0) - before


def thresholds_of_label_f1(probabilities: np.ndarray, scale: float = 1.0, shift: float = 0.0) -> np.ndarray:
    """A threshold for each label that maximises the label's expected F1, and so the expected macro F1.

    With calibrated probabilities q of N rows, those of one label in descending order, deciding the first k has about
    the expected F1 2 Σ_{i<=k} q_i / (k + Σ_i q_i). The best threshold is half of the highest one (Lipton, Elkan &
    Narayanaswamy 2014), so it is lower for a rarer or harder label. A label that the net knows nothing about would be
    decided in every row. Therefore no threshold is below half of the shared one, that of the highest expected F1 over
    all entries. No gold label is read, so rare labels do not overfit.

    Args:
        probabilities: (N, L) in [0, 1], of the validation rows.
        scale, shift: from `platt_scaling`. A scale that is not positive counts as no calibration.

    Returns:
        (L,) thresholds for `probabilities >= thresholds`.
    """
    if scale <= 0:
        scale, shift = 1.0, 0.0
    columns = np.transpose(probabilities)
    halves = [_half_of_highest_f1(rescaled(columns[labels], scale, shift)) for labels in row_blocks(columns)]
    shared = _half_of_highest_f1(rescaled(np.reshape(probabilities, (1, -1)), scale, shift))
    return before_calibration(np.maximum(np.concatenate(halves), shared / 2), scale, shift)


def _half_of_highest_f1(q: np.ndarray) -> np.ndarray:
    """(n,) half of the highest expected F1 of each row of probabilities q (n, m), if its highest k are decided."""
    sums = -np.sort(-q, axis=1)
    np.cumsum(sums, axis=1, out=sums)
    return (sums / (np.arange(1, q.shape[1] + 1) + sums[:, -1:])).max(1)


def before_calibration(cuts: np.ndarray, scale: float, shift: float) -> np.ndarray:
    """The thresholds of probabilities that decide as `cuts` do after [`rescaled`] with a positive scale. An entry at
    the cut is decided."""
    return sigmoid((logit(cuts) - shift) / scale) * (1 - 1e-9)


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

    return calibrated(score_counts(probabilities, labels))


def score_counts(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(2, 2 · BINS) how many entries have a score logit(p) in each narrow bin, and the sums of their scores: first of
    entries that are not gold, then of gold ones."""
    found = np.zeros((2, 2 * BINS))
    for p, gold in checked_blocks(probabilities, labels):
        known = p >= 0
        p, gold = (p.ravel(), gold.ravel()) if known.all() else (p[known], gold[known])
        x = clipped_logit(p)
        bins = ((x + EDGE) * (BINS / (2 * EDGE))).astype(np.intp) + BINS * gold
        found += np.bincount(bins, minlength=2 * BINS), np.bincount(bins, x, minlength=2 * BINS)
    return found


def calibrated(counts: np.ndarray) -> tuple[float, float]:
    """(scale, shift) of [`platt_scaling`], from [`score_counts`]: the entries of a bin count with their mean score."""
    counts, sums = counts
    others, gold = counts.reshape(2, BINS).sum(1)
    targets = np.repeat([1 / (others + 2), (gold + 1) / (gold + 2)], BINS)
    there = counts > 0
    counts, x, t = counts[there] / counts.sum(), sums[there] / counts[there], targets[there]

    def loss_and_slopes(at: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The mean cross-entropy at (scale, shift), its gradient (2,) and its Hessian (2, 2)."""
        z = at[0] * x + at[1]
        p = sigmoid(z)
        error, curvature = counts * (p - t), counts * p * sigmoid(-z)
        cross = curvature @ x
        hessian = np.array([[curvature @ (x * x), cross], [cross, curvature.sum()]])
        return float(counts @ (np.logaddexp(0, z) - t * z)), np.array([error @ x, error.sum()]), hessian

    at = np.array([1.0, 0.0])
    loss, gradient, hessian = loss_and_slopes(at)
    for _ in range(MAX_STEPS):
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-12)[0]  # the smallest step if all scores are equal
        found = loss_and_slopes(at - step)
        while found[0] > loss and np.abs(step).max() > 1e-12:
            step = step / 2
            found = loss_and_slopes(at - step)
        if found[0] > loss:
            break
        at, (loss, gradient, hessian) = at - step, found
        if np.abs(gradient).max() <= 1e-10:
            break
    return float(at[0]), float(at[1])
