"""Multi-label metrics on numpy arrays: agreement of label sets, mean average precision, and one tuned threshold.

The metrics equal scikit-learn's up to rounding, without its per-example Python loops. Labels are 0 or 1, or -1 or NaN
for unknown. An unknown entry counts in no metric, nor does a row or a label with only unknown entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

FIGURES = (
    *(f"{figure}_{average}" for figure in ("f1", "precision", "recall") for average in ("example", "macro", "micro")),
    *("jaccard", "exact_match", "hamming_loss", "map", "map_macro"),
)
DEFAULT_GRID = np.arange(1, 100) / 100  # candidate thresholds 0.01 .. 0.99
BLOCK = 1 << 21  # elements per block, where temporaries for the whole input would take several times its memory


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
    probabilities, gold = checked(probabilities, labels)
    return {
        **figures_of_counts(*set_counts(probabilities >= threshold, gold, probabilities >= 0), empty_score=empty_score),
        "map": mean_average_precision(probabilities, gold),
        "map_macro": mean_average_precision(probabilities.T, gold.T),
    }


def set_metrics(decisions: np.ndarray, labels: np.ndarray, *, empty_score: float = 1.0) -> dict[str, float]:
    """The metrics of [`multilabel_metrics`] that need no probabilities, for decided label sets (N, L)."""
    decided, gold, known = decided_and_gold(decisions, labels)
    rows = known.any(1)
    if not rows.all():
        decided, gold, known = decided[rows], gold[rows], known[rows]
    return figures_of_counts(*set_counts(decided, gold, known), empty_score=empty_score)


def set_counts(decided: np.ndarray, gold: np.ndarray, known: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The input of [`figures_of_counts`], from decided and gold label sets (N, L) bool, empty at labels not `known`:
    the numbers of hits, decided, gold and known labels, for each example, 4 x (N,), and for each label, 4 x (L,)."""
    hits = decided & gold
    by_example, by_label = ([a.sum(axis) for a in (hits, decided, gold, known)] for axis in (1, 0))
    return by_example, by_label


def figures_of_counts(
    by_example: list[np.ndarray], by_label: list[np.ndarray], *, empty_score: float = 1.0
) -> dict[str, float]:
    """The metrics of [`set_metrics`] from the counts of [`set_counts`]. To combine batches, concatenate the counts of
    examples and sum those of labels. Each example must have a known label."""
    pooled = [counts.sum() for counts in by_label]
    by_label = [counts[by_label[3] > 0] for counts in by_label]
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


def label_report(decisions: np.ndarray, labels: np.ndarray, label_names: Sequence[str]) -> dict[str, dict[str, float]]:
    """`precision`, `recall`, `f1` in [0, 1] and `support`, the number in gold, of each label, in their order.

    Args:
        decisions, labels: (N, L), 0 or 1; labels -1 or NaN are unknown and count in no metric.
        label_names: L different names.

    Returns:
        label name -> the four values; 0/0 is 0.

    Raises:
        ValueError: the shapes differ, or there is another number of names.
    """
    decided, gold, _ = decided_and_gold(decisions, labels)
    if decided.shape != gold.shape or decided.ndim != 2 or len(set(label_names)) != decided.shape[1]:
        raise ValueError(
            f"decisions and labels must both be (examples, labels), with a name for each label; found {decided.shape}, "
            f"{gold.shape} and {len(set(label_names))} different names"
        )
    counts = (decided & gold).sum(0), decided.sum(0), gold.sum(0)
    columns = (_ratio(counts[0], counts[1]), _ratio(counts[0], counts[2]), f1_of_counts(*counts, 0.0), counts[2])
    return {
        name: {"precision": p, "recall": r, "f1": f1, "support": support}
        for name, p, r, f1, support in zip(label_names, *(column.tolist() for column in columns), strict=True)
    }


def example_f1(decisions: np.ndarray, labels: np.ndarray, empty_score: float = 1.0) -> np.ndarray:
    """F1 of each example's label set, (N,), for a paired bootstrap; its mean is `f1_example`. Decisions and labels are
    (N, L), 0 or 1; `empty_score` as in `multilabel_metrics`. A row without a known label has NaN: leave it out, see
    [`with_known_labels`]."""
    decided, gold, known = decided_and_gold(decisions, labels)
    scores = f1_of_counts((decided & gold).sum(1), decided.sum(1), gold.sum(1), empty_score)
    return np.where(known.any(1), scores, np.nan)


def with_known_labels(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays, (N, L), without the rows that have no known label."""
    probabilities, labels = np.asarray(probabilities), np.asarray(labels)
    rows = (labels >= 0).any(1)
    return (probabilities, labels) if rows.all() else (probabilities[rows], labels[rows])


def decided_and_gold(decisions: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Decided, gold and known labels, bool (N, L); an unknown label is neither decided nor gold."""
    decided, labels = np.asarray(decisions, dtype=bool), np.asarray(labels)
    known = labels >= 0
    return (decided if known.all() else decided & known), labels > 0, known


def tune_threshold(
    probabilities: np.ndarray, labels: np.ndarray, *, grid: np.ndarray = DEFAULT_GRID, empty_score: float = 1.0
) -> tuple[float, float]:
    """The one global threshold that maximises example F1. Tune on validation, apply on test.

    Args:
        probabilities: (N, L) in [0, 1].
        labels: (N, L), 0 or 1, or -1 or NaN for unknown.
        grid: (G,) candidate thresholds, ascending. Memory is the inputs plus N x G counts, never N x L x G.
        empty_score: as in `multilabel_metrics`.

    Returns:
        (threshold, f1): the best candidate and its example F1. Among ties, the candidate nearest 0.5.

    Raises:
        ValueError: as `multilabel_metrics`, and if the grid is empty or not ascending.
    """
    grid = np.asarray(grid, dtype=np.float64)
    if grid.ndim != 1 or grid.size == 0 or (np.diff(grid) <= 0).any():
        raise ValueError("grid must be a one-dimensional, strictly ascending array of candidate thresholds")
    return best_threshold(threshold_curve(probabilities, labels, grid, empty_score), grid)


def threshold_curve(
    probabilities: np.ndarray, labels: np.ndarray, grid: np.ndarray = DEFAULT_GRID, empty_score: float = 1.0
) -> np.ndarray:
    """Mean example F1 at each candidate threshold, (G,); arguments and errors as for [`tune_threshold`]."""
    probabilities, gold = checked(probabilities, labels)
    return threshold_sums(probabilities, gold, grid, empty_score) / len(gold)


def threshold_sums(
    probabilities: np.ndarray, gold: np.ndarray, grid: np.ndarray = DEFAULT_GRID, empty_score: float = 1.0
) -> np.ndarray:
    """Example F1 at each candidate threshold, (G,), summed over the rows of probabilities and gold sets (N, L)."""
    total = np.zeros(grid.size)
    step = max(1, BLOCK // probabilities.shape[1])
    for start in range(0, len(gold), step):
        rows = slice(start, start + step)
        total += threshold_f1(probabilities[rows], gold[rows], grid, empty_score).sum(0)
    return total


def threshold_f1(p: np.ndarray, y: np.ndarray, grid: np.ndarray = DEFAULT_GRID, empty_score: float = 1.0) -> np.ndarray:
    """Example F1 of each row at each candidate threshold, (n, G), for a block of probabilities and gold sets (n, L)."""
    # bin g: the label is decided at exactly the first g candidates; a reversed running sum then counts the decisions
    # (and the hits) of each example for all candidates at once
    bins = np.searchsorted(grid, p, side="right") + np.arange(len(p))[:, None] * (grid.size + 1)  # (n, L)
    shape = (len(p), grid.size + 1)
    decided = np.bincount(bins.ravel(), minlength=shape[0] * shape[1]).reshape(shape)
    hits = np.bincount(bins[y], minlength=shape[0] * shape[1]).reshape(shape)
    decided, hits = (count[:, ::-1].cumsum(1)[:, -2::-1] for count in (decided, hits))  # (n, G)
    return f1_of_counts(hits, decided, y.sum(1)[:, None], empty_score)


def best_threshold(f1: np.ndarray, grid: np.ndarray = DEFAULT_GRID) -> tuple[float, float]:
    """The candidate with the best mean F1, given as (G,), and that F1; among ties, the candidate nearest 0.5."""
    best = np.flatnonzero(f1 >= f1.max() - 1e-12)
    chosen = best[np.argmin(np.abs(grid[best] - 0.5))]
    return float(grid[chosen]), float(f1[chosen])


def multilabel_compute_metrics(eval_prediction: Any) -> dict[str, float]:
    """`Trainer(compute_metrics=multilabel_compute_metrics)`.

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


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Probabilities of logits of any shape, in float64, without overflow."""
    return expit(np.asarray(logits, dtype=np.float64))


def first_output(outputs: Any) -> np.ndarray:
    """The array that a Trainer returned, or the first of a tuple (from a model with further outputs).

    Raises:
        ValueError: `outputs` is a list, as a Trainer returns batches.
    """
    if isinstance(outputs, list):
        raise ValueError(
            "predictions came as a list of batches (`eval_do_concat_batches` is False), but the metrics need all rows "
            "together. Set it to True."
        )
    return np.asarray(outputs[0] if isinstance(outputs, tuple) else outputs)


def checked(probabilities: np.ndarray, labels: np.ndarray, may_be_empty: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(N, L) float64 probabilities and (N, L) bool gold, or ValueError with the first offending place. An unknown label
    gets the probability -1, which no threshold decides and every label outranks; rows without a known label are left
    out."""
    # float64 throughout: a threshold tuned in float64 and applied in float32 would decide ties differently
    probabilities, labels = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    if probabilities.ndim != 2 or probabilities.shape != labels.shape:
        raise ValueError(
            f"probabilities and labels must both be (examples, labels); found {probabilities.shape} and {labels.shape}"
        )
    if probabilities.size == 0 and not may_be_empty:
        raise ValueError(f"there are no examples or no labels to score: the arrays have shape {probabilities.shape}")
    known = (labels == 0) | (labels == 1)
    whole = known.all()
    for name, values, good, expected in (
        ("probabilities", probabilities, (probabilities >= 0) & (probabilities <= 1), "0 to 1: logits need a sigmoid"),
        ("labels", labels, known if whole else known | (labels == -1) | (labels != labels), "0 or 1, or -1: unknown"),
    ):
        if not good.all():
            row, column = np.argwhere(~good)[0]
            raise ValueError(f"{name}[{row}, {column}] is {values[row, column]}, expected {expected}")
    if whole:
        return probabilities, labels.astype(bool)
    rows = known.any(1)
    if not rows.any():
        raise ValueError(f"all labels of these {len(rows)} examples are unknown, so there is nothing to score")
    return np.where(known, probabilities, -1.0)[rows], (known & (labels == 1))[rows]


def f1_of_counts(hits: np.ndarray, decided: np.ndarray, gold: np.ndarray, empty: float) -> np.ndarray:
    """2 hits / (decided + gold), elementwise; `empty` where both counts are 0."""
    both = np.asarray(decided + gold, dtype=np.float64)
    return np.where(both > 0, 2.0 * hits / np.maximum(both, 1.0), empty)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole elementwise, 0 where `whole` is 0."""
    return np.asarray(part / np.maximum(whole, 1), dtype=np.float64)


def mean_average_precision(scores: np.ndarray, gold: np.ndarray) -> float:
    """Mean of scikit-learn's average precision over the rows that have a positive: (1/|y|) times the sum, over the
    positives, of the precision among all entries scored at least as high. Ties share one precision."""
    labelled = gold.any(1)
    if not labelled.any():
        return float("nan")
    scores, gold = scores[labelled], gold[labelled]
    num_rows, num_labels = scores.shape
    ranks = np.arange(1, num_labels + 1)
    total = 0.0
    step = max(1, BLOCK // num_labels)
    for start in range(0, num_rows, step):
        s, y = scores[start : start + step], gold[start : start + step]
        order = np.argsort(-s, axis=1, kind="stable")
        s, y = np.take_along_axis(s, order, 1), np.take_along_axis(y, order, 1)  # (n, L), best first
        ends_tie = np.ones(s.shape, dtype=bool)
        ends_tie[:, :-1] = s[:, :-1] != s[:, 1:]
        end = np.where(ends_tie, ranks - 1, num_labels)  # index of the tie's last member, at that member
        end = np.minimum.accumulate(end[:, ::-1], axis=1)[:, ::-1]  # ... and at every member
        precision = np.take_along_axis(y.cumsum(1) / ranks, end, 1)  # (n, L)
        total += float(((precision * y).sum(1) / y.sum(1)).sum())
    return total / num_rows
