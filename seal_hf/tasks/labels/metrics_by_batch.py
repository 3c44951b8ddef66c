"""Metrics batch by batch, as counts, for an evaluation with too many logits to keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays import first_output, sigmoid
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
