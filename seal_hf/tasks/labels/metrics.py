"""Figures of label sets, from numpy arrays: agreement of decided and gold sets, one tuned threshold, the same for a
Trainer and under a hierarchy of labels, rankings, pairs of labels, and the reliability of probabilities.

The metrics equal scikit-learn's up to rounding, without its per-example Python loops. Labels are 0 or 1, or -1 or NaN
for unknown. An unknown entry counts in no metric, nor does a row or a label with only unknown entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import first_output, sigmoid
from ...core.decisions import folds
from ...core.hierarchy import Hierarchy

FIGURES = (
    *(f"{figure}_{average}" for figure in ("f1", "precision", "recall") for average in ("example", "macro", "micro")),
    *("jaccard", "exact_match", "hamming_loss", "map", "map_macro"),
)
DEFAULT_GRID = np.arange(1, 100) / 100  # candidate thresholds 0.01 .. 0.99
BLOCK = 1 << 18  # entries (row, label) of a block of rows: temporaries stay small and near the processor
MOST_LABELS = 500  # labels whose pairs are counted: K² counts, and N K² steps
NUM_BINS = 10
F1_HIERARCHICAL = "f1_hierarchical"


# --- decided and gold label sets --------------------------------------------------------------------------------------


def multilabel_metrics(
    probabilities: np.ndarray, labels: np.ndarray, threshold: float = 0.5, *, empty_score: float = 1.0
) -> dict[str, float]:
    """Agreement of decided and gold label sets at one threshold, and mean average precision.

    Args:
        probabilities: (N, L) in [0, 1].
        labels: (N, L), 0 or 1, or -1 or NaN for unknown.
        threshold: a label is decided if its probability is >= threshold.
        empty_score: F1, Jaccard index, precision and recall of an example with neither gold nor decided labels. 1.0
            counts it as right; the SEAL papers' code gives 0 (F1 is 0/0 there). It matters only on data with rows
            without labels.

    Returns:
        `f1_example`: F1 of each example's label set, averaged over examples (the papers' metric at threshold 0.5).
        `f1_micro`: F1 of the pooled decisions.
        `f1_macro`: F1 of each label, averaged over labels; a label that is neither gold nor decided counts 0, as in
        scikit-learn.
        `precision_example`, `recall_example`, `precision_micro`, `recall_micro`, `precision_macro`, `recall_macro`:
        with the same three averages. 0/0 counts 0, except for an example where both sets are empty.
        `jaccard`: |decided and gold| / |decided or gold| of each example, averaged over examples.
        `exact_match`: share of examples whose whole label set is right.
        `hamming_loss`: share of the decisions on known labels that are wrong; lower is better.
        `map`: average precision of each example's ranking of labels, averaged over the examples that have labels (the
        papers' MAP); independent of the threshold, NaN if no example has a label.
        `map_macro`: average precision of each label's ranking of examples, averaged over the labels that some example
        has; independent of the threshold, NaN if no example has a label.
        All are in [0, 1].

    Raises:
        ValueError: the arrays are empty, not (N, L), differ in shape, are not finite, or are outside their range; or no
            label is known.
    """
    counts = SetCounts()
    for p, gold in checked_blocks(probabilities, labels):
        counts.add(p >= threshold, gold, p >= 0)
    return {**counts.figures(empty_score), **ranking_metrics(probabilities, labels)}


def set_metrics(decisions: np.ndarray, labels: np.ndarray, *, empty_score: float = 1.0) -> dict[str, float]:
    """The metrics of [`multilabel_metrics`] that need no probabilities, for decided label sets (N, L)."""
    return SetCounts.of(decisions, labels).figures(empty_score)


def label_report(decisions: np.ndarray, labels: np.ndarray, label_names: Sequence[str]) -> dict[str, dict[str, float]]:
    """The `precision`, `recall` and `f1` of each label, in [0, 1], and its `support`, the number of rows that have it
    in gold.

    Args:
        decisions, labels: (N, L), 0 or 1; labels -1 or NaN are unknown and count in no metric.
        label_names: L different names.

    Returns:
        label name -> the four values; 0/0 is 0.

    Raises:
        ValueError: the shapes differ, or there is another number of names.
    """
    decided, labels = np.asarray(decisions), np.asarray(labels)
    if decided.shape != labels.shape or decided.ndim != 2 or len(set(label_names)) != decided.shape[1]:
        raise ValueError(
            f"decisions and labels must both be (examples, labels), with a name for each label; found {decided.shape}, "
            f"{labels.shape} and {len(set(label_names))} different names"
        )
    return SetCounts.of(decided, labels).report(label_names)


def example_f1(decisions: np.ndarray, labels: np.ndarray, empty_score: float = 1.0) -> np.ndarray:
    """F1 of each example's label set, (N,), for a paired bootstrap; its mean is `f1_example`. Decisions and labels are
    (N, L), 0 or 1; `empty_score` as in `multilabel_metrics`. A row without a known label has NaN: leave it out, see
    [`with_known_labels`]."""
    decisions, labels = np.asarray(decisions), np.asarray(labels)
    scores = np.full(len(decisions), np.nan)
    for rows in row_blocks(decisions):
        decided, gold, known = decided_and_gold(decisions[rows], labels[rows])
        counted = np.flatnonzero(known.any(1)) + rows.start
        counts = SetCounts()
        counts.add(decided, gold, known)
        scores[counted] = counts.example_f1(empty_score)
    return scores


class SetCounts:
    """Counts of decided and gold label sets over blocks of rows, and the metrics that follow from them.

    Attributes:
        of_labels: (4, L) the numbers of hits, decided, gold and known labels, for each label. The same four are kept
            for each row with a known label.
    """

    def __init__(self) -> None:
        self._of_examples: list[np.ndarray] = []  # (4, n) each
        self.of_labels: Any = 0

    @classmethod
    def of(cls, decisions: np.ndarray, labels: np.ndarray) -> SetCounts:
        """The counts of whole arrays (N, L). Labels that are -1 or NaN are unknown."""
        counts, decisions, labels = cls(), np.asarray(decisions), np.asarray(labels)
        for rows in row_blocks(decisions):
            counts.add(*decided_and_gold(decisions[rows], labels[rows]))
        return counts

    def add(self, decided: np.ndarray, gold: np.ndarray, known: np.ndarray) -> None:
        """Count a block. All arguments are (B, L) bool; gold sets are empty at labels that are not known."""
        self.add_all([self], [decided], gold, known)

    @staticmethod
    def add_all(
        counts: Iterable[SetCounts], decisions: Iterable[np.ndarray], gold: np.ndarray, known: np.ndarray
    ) -> None:
        """Count the same block under several decisions, each in its own counts."""
        of_gold, whole = _sizes(gold), known.all()
        of_known = (
            (np.full(len(known), known.shape[1]), np.full(known.shape[1], len(known))) if whole else _sizes(known)
        )
        for found, decided in zip(counts, decisions, strict=True):
            decided = decided if whole else decided & known
            by_example, by_label = zip(_sizes(decided & gold), _sizes(decided), of_gold, of_known, strict=True)
            of_examples = np.stack(by_example, dtype=np.int32, casting="same_kind")
            found._of_examples.append(of_examples[:, of_examples[3] > 0])
            found.of_labels = found.of_labels + np.stack(by_label)

    def figures(self, empty_score: float = 1.0) -> dict[str, float]:
        """The metrics of [`set_metrics`] over all blocks."""
        return figures_of_counts(self._by_example(), self.of_labels, empty_score=empty_score)

    def example_f1(self, empty_score: float = 1.0) -> np.ndarray:
        """F1 of each example that has a known label, (n,)."""
        hits, decided, gold, _ = self._by_example()
        return f1_of_counts(hits, decided, gold, empty_score)

    def report(self, label_names: Sequence[str]) -> dict[str, dict[str, float]]:
        """The same as [`label_report`], from these counts."""
        hits, decided, gold, _ = self.of_labels
        columns = (_ratio(hits, decided), _ratio(hits, gold), f1_of_counts(hits, decided, gold, 0.0), gold)
        return {
            name: {"precision": p, "recall": r, "f1": f1, "support": support}
            for name, p, r, f1, support in zip(label_names, *(column.tolist() for column in columns), strict=True)
        }

    def _by_example(self) -> np.ndarray:
        return np.concatenate(self._of_examples, 1)


def _sizes(sets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of members of each row (n,) and of each column (L,) of sets (n, L) bool."""
    members = sets.astype(np.float32)  # products with ones are faster than sums, and exact up to 2^24
    of_rows, of_columns = members @ np.ones(sets.shape[1], np.float32), np.ones(len(sets), np.float32) @ members
    return of_rows.astype(np.int64), of_columns.astype(np.int64)


def figures_of_counts(by_example: np.ndarray, by_label: np.ndarray, *, empty_score: float = 1.0) -> dict[str, float]:
    """The metrics of [`set_metrics`] from the numbers of hits, decided, gold and known labels, for each example (4, N)
    and for each label (4, L). Each example must have a known label."""
    pooled = by_label.sum(1)
    by_label = by_label[:, by_label[3] > 0]
    empty = (by_example[1] + by_example[2]) == 0  # (N,): neither gold nor decided
    found: dict[str, float] = {}
    for name, counts in (("example", by_example), ("micro", pooled), ("macro", by_label)):
        both_empty = empty_score if name == "example" else 0.0
        precision, recall = _ratio(counts[0], counts[1]), _ratio(counts[0], counts[2])
        if name == "example":
            precision, recall = (np.where(empty, empty_score, values) for values in (precision, recall))
        found[f"f1_{name}"] = float(f1_of_counts(counts[0], counts[1], counts[2], both_empty).mean())
        found[f"precision_{name}"], found[f"recall_{name}"] = float(precision.mean()), float(recall.mean())
    union = by_example[1] + by_example[2] - by_example[0]
    return {
        **{key: found[key] for key in sorted(found)},
        "jaccard": float(np.where(empty, empty_score, _ratio(by_example[0], union)).mean()),
        "exact_match": float((union == by_example[0]).mean()),
        "hamming_loss": float((pooled[1] + pooled[2] - 2 * pooled[0]) / pooled[3]),
    }


def f1_of_counts(hits: np.ndarray, decided: np.ndarray, gold: np.ndarray, empty: float) -> np.ndarray:
    """2 hits / (decided + gold), elementwise; `empty` where both counts are 0."""
    both = np.asarray(decided + gold, dtype=np.float64)
    return np.where(both > 0, 2.0 * hits / np.maximum(both, 1.0), empty)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole elementwise, 0 where `whole` is 0."""
    return np.asarray(part / np.maximum(whole, 1), dtype=np.float64)


# --- one threshold for all labels -------------------------------------------------------------------------------------


def tune_threshold(probabilities: np.ndarray, labels: np.ndarray, *, empty_score: float = 1.0) -> tuple[float, float]:
    """The one global threshold of `DEFAULT_GRID` that maximises example F1. Tune on validation, apply on test.

    Args:
        probabilities: (N, L) in [0, 1].
        labels: (N, L), 0 or 1, or -1 or NaN for unknown.
        empty_score: as in `multilabel_metrics`.

    Returns:
        (threshold, f1): the best candidate and its example F1. Among ties, the candidate nearest 0.5.

    Raises:
        ValueError: as `multilabel_metrics`.
    """
    return best_threshold(threshold_curve(probabilities, labels, empty_score))


def threshold_curve(probabilities: np.ndarray, labels: np.ndarray, empty_score: float = 1.0) -> np.ndarray:
    """Mean example F1 at each threshold of `DEFAULT_GRID`, (G,); arguments and errors as for [`tune_threshold`]."""
    total, num_rows = np.zeros(DEFAULT_GRID.size), 0
    for p, gold in checked_blocks(probabilities, labels):
        total += threshold_f1(p, gold, empty_score).sum(0)
        num_rows += len(gold)
    return total / num_rows


def threshold_f1(p: np.ndarray, y: np.ndarray, empty_score: float = 1.0) -> np.ndarray:
    """Example F1 of each row at each threshold of `DEFAULT_GRID`, (n, G), for a block of probabilities and gold sets
    (n, L)."""
    # bin g: the label is decided at exactly the first g candidates; a reversed running sum then counts the decisions
    # (and the hits) of each example for all candidates at once
    shape = (len(p), DEFAULT_GRID.size + 1)
    bins = places_in(DEFAULT_GRID, p) + np.arange(len(p))[:, None] * shape[1]  # (n, L)
    decided = np.bincount(bins.ravel(), minlength=shape[0] * shape[1]).reshape(shape)
    hits = np.bincount(bins[y], minlength=shape[0] * shape[1]).reshape(shape)
    decided, hits = (count[:, ::-1].cumsum(1)[:, -2::-1] for count in (decided, hits))  # (n, G)
    return f1_of_counts(hits, decided, y.sum(1)[:, None], empty_score)


def places_in(grid: np.ndarray, p: np.ndarray) -> np.ndarray:
    """How many candidates of a grid each value reaches, in the shape of `p`: the first so many decide it."""
    if grid is not DEFAULT_GRID:
        return np.searchsorted(grid, p, side="right")
    found = (p * 100).clip(0, 99).astype(np.uint8)  # without a search; a product that is rounded is off by one
    found += p >= np.append(DEFAULT_GRID, np.inf)[found]
    return found - (p < np.insert(DEFAULT_GRID, 0, -np.inf)[found])


def best_threshold(f1: np.ndarray, grid: np.ndarray = DEFAULT_GRID) -> tuple[float, float]:
    """The candidate with the best mean F1, and that F1. `f1` has the mean F1 of each candidate, (G,). Among ties, it is
    the candidate nearest 0.5."""
    best = np.flatnonzero(f1 >= f1.max() - 1e-12)
    chosen = best[np.argmin(np.abs(grid[best] - 0.5))]
    return float(grid[chosen]), float(f1[chosen])


def cross_fitted_thresholds(scores: np.ndarray) -> np.ndarray:
    """The best threshold for each row, chosen by the rows outside its fold, (N,). `scores` (N, G) has the score of each
    row at each threshold of `DEFAULT_GRID`."""
    chosen = np.empty(len(scores))
    for others, rows in folds(len(scores)):
        chosen[rows] = best_threshold(scores[others].mean(0))[0]
    return chosen


def at_thresholds(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """The score (N,) of each row at its own threshold, which is one of `DEFAULT_GRID`; `scores` is (N, G)."""
    return scores[np.arange(len(scores)), np.searchsorted(DEFAULT_GRID, thresholds)]


# --- for a Trainer: of all rows, and batch by batch -------------------------------------------------------------------


def multilabel_compute_metrics(eval_prediction: Any) -> dict[str, float]:
    """The metrics of label sets for a Trainer: `Trainer(compute_metrics=multilabel_compute_metrics)`.

    Args:
        eval_prediction: has `.predictions`, logits (N, L) or a tuple that starts with them, and `.label_ids` (N, L).

    Returns:
        The metrics of `multilabel_metrics` at 0.5, and `f1_example_tuned` at `threshold`, which is tuned on these same
        examples: right for model selection on validation, optimistic otherwise (see `reports.evaluate_multilabel`).

    Raises:
        ValueError: as `multilabel_metrics`.
    """
    probabilities = sigmoid(first_output(eval_prediction.predictions))
    labels = first_output(eval_prediction.label_ids)
    figures = multilabel_metrics(probabilities, labels)
    threshold, tuned = tune_threshold(probabilities, labels)
    return {**figures, "f1_example_tuned": tuned, "threshold": threshold}


# the names of its metrics, for code that needs them before an evaluation
multilabel_compute_metrics.figures = (*FIGURES, "f1_example_tuned", "threshold")  # type: ignore[attr-defined]


class MultiLabelByBatch:
    """[`multilabel_compute_metrics`] batch by batch, for the Trainer's `batch_eval_metrics`.

    It lacks `map_macro`, which ranks all rows by each label. For N rows and L labels it keeps 4 (N + L) counts, the
    average precision of each row, and one sum per threshold.

    Metrics of decided sets are identical if the rows come in their own order; `map` and `f1_example_tuned` are equal up
    to rounding.

    Args:
        hierarchy: of the labels; with it, there is `f1_hierarchical` at 0.5 too.

    Attributes:
        figures: the names of its metrics.
        by_batch: makes a fresh instance.
        num_rows: the number of rows with a known label so far.
    """

    figures = tuple(name for name in multilabel_compute_metrics.figures if name != "map_macro")  # type: ignore[attr-defined]

    def __init__(self, hierarchy: Hierarchy | None = None) -> None:
        self.by_batch: Callable[[], MultiLabelByBatch] = partial(type(self), hierarchy)
        self._hierarchical = None if hierarchy is None else HierarchicalCounts(hierarchy)
        if hierarchy is not None:
            self.figures = (*self.figures, F1_HIERARCHICAL)
        self._counts = SetCounts()
        self._f1: Any = 0.0  # (G,) sums over rows
        self._precisions: list[np.ndarray] = [np.zeros(0)]
        self.num_rows = 0

    def __call__(self, eval_prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Add a batch.

        Args:
            eval_prediction: has `.predictions`, logits (B, L) or a tuple that starts with them, and `.label_ids`
                (B, L); tensors on any device or arrays.
            compute_result: True for the last batch.

        Returns:
            After the last batch the metrics over all batches, else an empty dict.

        Raises:
            ValueError: as `multilabel_metrics`.
        """
        self.add(*scored_rows(eval_prediction))
        return self.result() if compute_result else {}

    def add(self, probabilities: np.ndarray, gold: np.ndarray) -> None:
        """Add a batch, as [`scored_rows`] returns it."""
        self._counts.add(probabilities >= 0.5, gold, probabilities >= 0)
        if self._hierarchical is not None:
            self._hierarchical.add(probabilities >= 0.5, gold, probabilities >= 0)
        self.num_rows += len(gold)
        for rows in row_blocks(probabilities):
            p, y = probabilities[rows], gold[rows]
            self._f1 = self._f1 + threshold_f1(p, y).sum(0)
            self._precisions.append(average_precisions(p, y))

    def result(self) -> dict[str, float]:
        """The metrics over all batches so far. ValueError if no label is known."""
        if self.num_rows == 0:
            raise ValueError("all labels of these examples are unknown, so there is nothing to score")
        threshold, tuned = best_threshold(self.threshold_curve())
        figures = {
            **self._counts.figures(),
            "map": mean_or_nan(np.concatenate(self._precisions)),
            "f1_example_tuned": tuned,
            "threshold": threshold,
        }
        if self._hierarchical is not None:
            figures[F1_HIERARCHICAL] = self._hierarchical.figures()[F1_HIERARCHICAL]
        return figures

    def threshold_curve(self) -> np.ndarray:
        """Mean example F1 at each threshold of `DEFAULT_GRID` over the rows so far: (G,). There must be a row."""
        return self._f1 / self.num_rows


multilabel_compute_metrics.by_batch = MultiLabelByBatch  # type: ignore[attr-defined]


class ThresholdScores:
    """The example F1 of each of N rows at each candidate threshold, to fit one threshold for all labels or choose 0.5.
    It takes batches like [`MultiLabelByBatch`], and returns no metrics.

    Attributes:
        batches: for each batch, its rows' F1 at each candidate of the grid (B, G), their F1 with the likeliest label
            alone (B,), the probability of that label (B,), and whether the row has gold labels (B,).
    """

    def __init__(self) -> None:
        self.batches: list[tuple[Any, ...]] = []

    def __call__(self, eval_prediction: Any, compute_result: bool = True) -> dict[str, float]:
        p, gold = scored_rows(eval_prediction)
        if not len(p):
            return {}
        likeliest, rows = p.argmax(1), np.arange(len(p))
        alone = 2.0 * gold[rows, likeliest] / (1 + gold.sum(1))
        self.batches.append((threshold_f1(p, gold), alone, p[rows, likeliest], gold.any(1)))
        return {}

    def f1(self, never_empty: bool) -> np.ndarray:
        """The example F1 of each row at each threshold, (N, G). With `never_empty`, a row without decided labels gets
        its likeliest label."""
        f1, alone, largest, _ = (np.concatenate(found) for found in zip(*self.batches, strict=True))
        return np.where(largest[:, None] >= DEFAULT_GRID, f1, alone[:, None]) if never_empty else f1

    @property
    def all_have_gold(self) -> bool:
        """True if each row has a gold label."""
        return all(batch[-1].all() for batch in self.batches)


def scored_rows(eval_prediction: Any) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, float64, and gold sets, bool, (B, L) each, of a batch of logits and labels. Unknown labels get the
    probability -1. Rows without a known label are left out.

    Raises:
        ValueError: as `multilabel_metrics`.
    """
    logits, labels = (_array(found) for found in (eval_prediction.predictions, eval_prediction.label_ids))
    return checked(*with_known_labels(sigmoid(logits), labels))


def _array(outputs: Any) -> np.ndarray:
    """The first output of a batch, as the Trainer would keep it."""
    first = outputs[0] if isinstance(outputs, tuple) else outputs
    if not isinstance(first, np.ndarray):
        from transformers.trainer_pt_utils import nested_numpify  # only tensors need it

        first = nested_numpify(first)
    return first_output(first)


# --- under a hierarchy of labels --------------------------------------------------------------------------------------


def hierarchical_metrics(decisions: np.ndarray, labels: np.ndarray, hierarchy: Hierarchy) -> dict[str, float]:
    """Hierarchical precision, recall and F1 (Kiritchenko et al. 2006). The ancestors of each label are added to both
    sets of a row, so that a wrong but close decision counts in part. With these closed sets Ĉ and C of each row,

        precision = Σ |Ĉ ∩ C| / Σ |Ĉ|,   recall = Σ |Ĉ ∩ C| / Σ |C|,   F1 = 2 Σ |Ĉ ∩ C| / (Σ |Ĉ| + Σ |C|).

    As in the paper, a root above all labels is left out, since it would be in every set. Unknown labels are left out.

    Args:
        decisions: (N, L), 0 or 1.
        labels: (N, L), 0 or 1, or -1 where unknown.
        hierarchy: the hierarchy of the L labels.

    Returns:
        `precision_hierarchical`, `recall_hierarchical`, `f1_hierarchical`, in [0, 1]; 0/0 is 0.
    """
    labels = np.asarray(labels)
    counts = HierarchicalCounts(hierarchy)
    counts.add(np.asarray(decisions) > 0, labels > 0, labels >= 0)
    return counts.figures()


class HierarchicalCounts:
    """Counts of closed label sets over batches, and [`hierarchical_metrics`] of them."""

    def __init__(self, hierarchy: Hierarchy):
        self.hierarchy = hierarchy
        self._hits = self._decided = self._gold = 0

    def add(self, decided: np.ndarray, gold: np.ndarray, known: np.ndarray) -> None:
        """Count a batch; all arguments are (B, L) bool. A decision at an unknown label adds no ancestors."""
        decided, gold = (self.hierarchy.raised(sets) for sets in (decided & known, gold))
        decided &= gold | known
        if self.hierarchy.root is not None:
            decided[:, self.hierarchy.root] = gold[:, self.hierarchy.root] = False
        self._hits += int(np.count_nonzero(decided & gold))
        self._decided += int(np.count_nonzero(decided))
        self._gold += int(np.count_nonzero(gold))

    def figures(self) -> dict[str, float]:
        """The metrics over all batches."""
        return {
            F1_HIERARCHICAL: 2 * self._hits / max(self._decided + self._gold, 1),
            "precision_hierarchical": self._hits / max(self._decided, 1),
            "recall_hierarchical": self._hits / max(self._gold, 1),
        }


class HierarchicalComputeMetrics:
    """The metrics of label sets with a hierarchy for a Trainer,
    `Trainer(compute_metrics=HierarchicalComputeMetrics(hierarchy))`: those of [`multilabel_compute_metrics`], and
    `f1_hierarchical` at 0.5 and (as `f1_hierarchical_tuned`) at `threshold`. [`MultiLabelByBatch`] lacks the latter."""

    figures = (*multilabel_compute_metrics.figures, F1_HIERARCHICAL, f"{F1_HIERARCHICAL}_tuned")  # type: ignore[attr-defined]

    def __init__(self, hierarchy: Hierarchy):
        self.hierarchy = hierarchy
        self.by_batch = partial(MultiLabelByBatch, hierarchy)

    def __call__(self, eval_prediction: Any) -> dict[str, float]:
        figures = multilabel_compute_metrics(eval_prediction)
        probabilities = sigmoid(first_output(eval_prediction.predictions))
        labels = first_output(eval_prediction.label_ids)
        for ending, threshold in (("", 0.5), ("_tuned", figures["threshold"])):
            found = hierarchical_metrics(probabilities >= threshold, labels, self.hierarchy)
            figures[F1_HIERARCHICAL + ending] = found[F1_HIERARCHICAL]
        return figures


# --- rankings of labels and of rows -----------------------------------------------------------------------------------


def ranking_metrics(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """`map` and `map_macro` of [`multilabel_metrics`], for the same arrays (N, L)."""
    probabilities, labels = np.asarray(probabilities), np.asarray(labels)
    return {
        "map": mean_average_precision(probabilities, labels),
        "map_macro": mean_average_precision(probabilities.T, labels.T),
    }


def mean_average_precision(scores: np.ndarray, labels: np.ndarray) -> float:
    """The mean of [`average_precisions`] over all rows (N, L) with a positive; NaN if there is none. Labels are 0 or 1,
    or -1 or NaN for unknown. For a mean over the columns, give both arrays transposed: only blocks are copied."""
    found = [np.zeros(0)]
    for rows in row_blocks(scores):
        found.append(average_precisions(*mask_unknown(scores[rows], labels[rows])))
    return mean_or_nan(np.concatenate(found))


def mean_or_nan(values: np.ndarray) -> float:
    """The mean of (n,) values; NaN if there are none."""
    return float(values.mean()) if len(values) else float("nan")


def average_precisions(scores: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """scikit-learn's average precision of each row that has a positive: (1/|y|) times the sum, over the positives, of
    the precision among all entries scored at least as high.

    Args:
        scores: (n, L).
        gold: (n, L) bool, the positives.

    Returns:
        (m,), for the m rows that have a positive, in their order.
    """
    counts = np.count_nonzero(gold, axis=1)
    if not (rows := counts > 0).all():
        scores, gold, counts = scores[rows], gold[rows], counts[rows]
    if not len(scores):
        return np.zeros(0)
    scores = np.ascontiguousarray(scores)
    ends = counts.cumsum()
    ordered = np.full((len(counts), counts.max()), np.inf, dtype=scores.dtype)
    filled = np.arange(counts.max()) < counts[:, None]
    ordered[filled] = scores.ravel()[np.flatnonzero(gold)]
    positives = np.sort(ordered, axis=1)[filled]  # of one row after the other, ascending
    at_least = _at_least(np.sort(scores, axis=1), positives, counts)
    place = np.arange(len(positives))
    starts = np.diff(positives, prepend=-np.inf) != 0  # a group of equal ones
    starts[ends[:-1]] = True
    gold_at_least = ends.repeat(counts) - np.maximum.accumulate(np.where(starts, place, 0))
    return np.add.reduceat(gold_at_least / at_least, ends - counts) / counts


def _at_least(ascending: np.ndarray, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """How many entries of its row are at least as high as each value, (P,), by binary search.

    Args:
        ascending: (n, L), each row in ascending order.
        values: (P,) the values of all rows, one row after the other.
        counts: (n,) the number of values of each row.
    """
    size = ascending.shape[1]
    end = (np.arange(1, len(counts) + 1) * size).repeat(counts)
    low = end - size  # all entries of the row before this place are lower
    for step in (1 << np.arange(size.bit_length()))[::-1].tolist():
        place = low + step
        low += step * ((place <= end) & (ascending.ravel()[np.minimum(place, end) - 1] < values))
    return end - low


# --- which labels occur together, in gold and in decided sets ---------------------------------------------------------


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


# --- whether probabilities are what they say: predicted against observed frequency, in bins ---------------------------


class Reliability(NamedTuple):
    """Entries (row, label), grouped by probability into B bins of equal width. Bin b holds the probabilities in [b / B,
    (b + 1) / B); the last bin also holds 1.

    Attributes:
        entries: (B,) number of entries in each bin.
        predicted: (B,) their mean probability; NaN in an empty bin.
        observed: (B,) share of them that are gold; NaN in an empty bin.
    """

    entries: np.ndarray
    predicted: np.ndarray
    observed: np.ndarray

    @property
    def error(self) -> float:
        """The expected calibration error (Naeini et al. 2015; Guo et al. 2017): |predicted - observed| of the bins,
        weighted by their entries. In [0, 1], 0 is best."""
        gaps = np.abs(np.nan_to_num(self.predicted - self.observed))
        return float((self.entries * gaps).sum() / self.entries.sum())


def reliability(probabilities: np.ndarray, labels: np.ndarray) -> Reliability:
    """The reliability of probabilities over all known entries.

    Args:
        probabilities: (N, L) in [0, 1].
        labels: (N, L), 0 or 1, or -1 or NaN for unknown.

    Raises:
        ValueError: as `multilabel_metrics`.
    """
    sums = np.zeros((3, NUM_BINS))  # entries, their probabilities, their gold labels
    for block, gold in checked_blocks(probabilities, labels):
        p, y = block.ravel(), gold.ravel()
        if not (known := p >= 0).all():
            p, y = p[known], y[known]
        bins = np.minimum((p * NUM_BINS).astype(np.intp), NUM_BINS - 1)
        for total, weights in zip(sums, (None, p, y), strict=True):
            total += np.bincount(bins, weights, minlength=NUM_BINS)
    entries = np.where(sums[0] > 0, sums[0], np.nan)
    return Reliability(sums[0].astype(np.int64), sums[1] / entries, sums[2] / entries)


# --- rows in blocks, and what they may hold ---------------------------------------------------------------------------


def row_blocks(array: np.ndarray) -> Iterator[slice]:
    """Yields the rows of an array (N, L) in blocks of about `BLOCK` entries. There is at least one block."""
    num_rows, num_labels = np.shape(array)
    step = max(1, BLOCK // max(num_labels, 1))
    for start in range(0, max(num_rows, 1), step):
        yield slice(start, start + step)


def with_known_labels(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays, (N, L), without the rows that have no known label."""
    probabilities, labels = np.asarray(probabilities), np.asarray(labels)
    rows = np.concatenate([(labels[block] >= 0).any(1) for block in row_blocks(labels)])
    return (probabilities, labels) if rows.all() else (probabilities[rows], labels[rows])


def mask_unknown(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and gold sets, (n, L) each; the sets are bool. An unknown label gets the probability -1, which no
    threshold decides and every label outranks."""
    known = labels >= 0
    return probabilities if known.all() else np.where(known, probabilities, -1.0), labels > 0


def decided_and_gold(decisions: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Decided, gold and known labels, bool (N, L); an unknown label is neither decided nor gold."""
    decided, labels = np.asarray(decisions, dtype=bool), np.asarray(labels)
    known = labels >= 0
    return (decided if known.all() else decided & known), labels > 0, known


def checked_blocks(probabilities: np.ndarray, labels: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields blocks of rows of probabilities and labels (N, L), each as [`checked`] returns it. Raises ValueError as
    that does, and if no label of any row is known."""
    probabilities, labels = np.asarray(probabilities), np.asarray(labels)
    check_shapes(probabilities, labels)
    if probabilities.size == 0:
        raise ValueError(f"there are no examples or no labels to score: the arrays have shape {probabilities.shape}")
    any_known = False
    for rows in row_blocks(probabilities):
        p, gold = checked(probabilities[rows], labels[rows], rows.start)
        if len(gold):
            any_known = True
            yield p, gold
    if not any_known:
        raise ValueError(f"all labels of these {len(labels)} examples are unknown, so there is nothing to score")


def check_shapes(probabilities: np.ndarray, labels: np.ndarray) -> None:
    """Raises ValueError unless both arrays are (N, L)."""
    if probabilities.ndim != 2 or probabilities.shape != labels.shape:
        raise ValueError(
            f"probabilities and labels must both be (examples, labels); found {probabilities.shape} and {labels.shape}"
        )


def checked(probabilities: np.ndarray, labels: np.ndarray, first_row: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (n, L), float64, and gold sets (n, L), bool, by [`mask_unknown`], without the rows that have no
    known label.

    Args:
        probabilities, labels: a block of rows (n, L).
        first_row: the number of its first row, for messages.

    Raises:
        ValueError: an entry is outside its range; the message gives its place.
    """
    # float64: a threshold tuned in float64 and applied in float32 would decide ties differently
    probabilities, labels = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    known = check_entries(probabilities, labels, first_row)
    rows = slice(None) if known.all() else known.any(1)
    return mask_unknown(probabilities[rows], labels[rows])


def check_entries(probabilities: np.ndarray, labels: np.ndarray, first_row: int = 0) -> np.ndarray:
    """Which labels are known, (n, L) bool. Arguments and errors are those of [`checked`]."""
    check_shapes(probabilities, labels)
    known = (labels == 0) | (labels == 1)
    valid = known if known.all() else known | (labels == -1) | (labels != labels)
    for name, values, good, expected in (
        ("probabilities", probabilities, (probabilities >= 0) & (probabilities <= 1), "0 to 1: logits need a sigmoid"),
        ("labels", labels, valid, "0 or 1, or -1: unknown"),
    ):
        if not good.all():
            row, column = np.argwhere(~good)[0]
            raise ValueError(f"{name}[{first_row + row}, {column}] is {values[row, column]}, expected {expected}")
    return known
