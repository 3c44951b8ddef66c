"""Metrics batch by batch, as counts, for an evaluation with too many logits to keep; and metrics under a hierarchy of
labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...core.arrays import first_output, sigmoid
from ...core.hierarchy import Hierarchy
from .metrics import (
    DEFAULT_GRID,
    SetCounts,
    average_precisions,
    best_threshold,
    checked,
    mean_or_nan,
    multilabel_compute_metrics,
    row_blocks,
    threshold_f1,
    with_known_labels,
)


class MultiLabelByBatch:
    """[`multilabel_compute_metrics`] batch by batch, for the Trainer's `batch_eval_metrics`.

    It lacks `map_macro`, which ranks all rows by each label. For N rows and L labels it keeps 4 (N + L) counts, the
    average precision of each row, and one sum per threshold.

    Metrics of decided sets are identical if the rows come in their own order; `map` and `f1_example_tuned` are equal up
    to rounding.

    Attributes:
        figures: the names of its metrics.
        by_batch: makes a fresh instance.
        num_rows: the number of rows with a known label so far.
    """

    figures = tuple(name for name in multilabel_compute_metrics.figures if name != "map_macro")  # type: ignore[attr-defined]

    def __init__(self) -> None:
        self.by_batch: Callable[[], MultiLabelByBatch] = type(self)
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
        return {
            **self._counts.figures(),
            "map": mean_or_nan(np.concatenate(self._precisions)),
            "f1_example_tuned": tuned,
            "threshold": threshold,
        }

    def threshold_curve(self) -> np.ndarray:
        """Mean example F1 at each threshold of `DEFAULT_GRID`, (G,), over the rows so far, of which there is one."""
        return self._f1 / self.num_rows


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
        """(N, G); with `never_empty`, a row without decided labels gets its likeliest label."""
        f1, alone, largest, _ = (np.concatenate(found) for found in zip(*self.batches, strict=True))
        return np.where(largest[:, None] >= DEFAULT_GRID, f1, alone[:, None]) if never_empty else f1

    @property
    def all_have_gold(self) -> bool:
        """True if each row has a gold label."""
        return all(batch[-1].all() for batch in self.batches)


multilabel_compute_metrics.by_batch = MultiLabelByBatch  # type: ignore[attr-defined]


def scored_rows(eval_prediction: Any) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, float64, and gold sets, bool, of a batch of logits and labels: (B, L) each. Unknown labels get the
    probability -1; rows without a known label are left out.

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


F1_HIERARCHICAL = "f1_hierarchical"


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
    """`Trainer(compute_metrics=HierarchicalComputeMetrics(hierarchy))`: the metrics of [`multilabel_compute_metrics`],
    and `f1_hierarchical` at 0.5 and (as `f1_hierarchical_tuned`) at `threshold`."""

    figures = (*multilabel_compute_metrics.figures, F1_HIERARCHICAL, f"{F1_HIERARCHICAL}_tuned")  # type: ignore[attr-defined]

    def __init__(self, hierarchy: Hierarchy):
        self.hierarchy = hierarchy
        self.by_batch = partial(HierarchicalByBatch, hierarchy)

    def __call__(self, eval_prediction: Any) -> dict[str, float]:
        figures = multilabel_compute_metrics(eval_prediction)
        probabilities = sigmoid(first_output(eval_prediction.predictions))
        labels = first_output(eval_prediction.label_ids)
        for ending, threshold in (("", 0.5), ("_tuned", figures["threshold"])):
            found = hierarchical_metrics(probabilities >= threshold, labels, self.hierarchy)
            figures[F1_HIERARCHICAL + ending] = found[F1_HIERARCHICAL]
        return figures


class HierarchicalByBatch(MultiLabelByBatch):
    """[`HierarchicalComputeMetrics`] batch by batch, without `map_macro` and `f1_hierarchical_tuned`."""

    figures = (*MultiLabelByBatch.figures, F1_HIERARCHICAL)

    def __init__(self, hierarchy: Hierarchy) -> None:
        super().__init__()
        self.by_batch = partial(type(self), hierarchy)
        self._hierarchical = HierarchicalCounts(hierarchy)

    def add(self, probabilities: np.ndarray, gold: np.ndarray) -> None:
        super().add(probabilities, gold)
        self._hierarchical.add(probabilities >= 0.5, gold, probabilities >= 0)

    def result(self) -> dict[str, float]:
        return {**super().result(), F1_HIERARCHICAL: self._hierarchical.figures()[F1_HIERARCHICAL]}
