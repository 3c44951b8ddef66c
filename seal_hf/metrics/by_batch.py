"""The figures of an evaluation whose logits are too many to keep: counts of one batch after another."""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers.trainer_pt_utils import nested_numpify

from .multilabel import (
    DEFAULT_GRID,
    _checked,
    _mean_average_precision,
    best_threshold,
    figures_of_counts,
    first_output,
    multilabel_compute_metrics,
    set_counts,
    sigmoid,
    threshold_f1,
    threshold_sums,
    with_known_labels,
)


class SetCounts:
    """Counts of decided and gold label sets, batch after batch, and [`set_metrics`] of them."""

    def __init__(self) -> None:
        self._of_examples: list[list[np.ndarray]] = []
        self._of_labels: Any = 0  # (4, L)

    def add(self, decided: np.ndarray, gold: np.ndarray, known: np.ndarray) -> None:
        """Count a batch, (B, L) bool each."""
        of_examples, of_labels = set_counts(decided, gold, known)
        self._of_examples.append(of_examples)
        self._of_labels = self._of_labels + np.stack(of_labels)

    def figures(self) -> dict[str, float]:
        """Those of all batches."""
        of_examples = [np.concatenate(counts) for counts in zip(*self._of_examples, strict=True)]
        return figures_of_counts(of_examples, list(self._of_labels))


class MultiLabelByBatch:
    """[`multilabel_compute_metrics`] by batch, as the Trainer's `batch_eval_metrics` asks for it, without `map_macro`,
    which ranks all rows by each label. Of N rows and L labels it keeps 4 (N + L) counts and a sum for each threshold.

    Figures of decided sets are the same to the last digit where rows come in their own order; `map` and
    `f1_example_tuned` to rounding.

    Attributes:
        figures: the names of its figures.
        by_batch: makes a fresh one.
    """

    figures = tuple(name for name in multilabel_compute_metrics.figures if name != "map_macro")  # type: ignore[attr-defined]

    def __init__(self) -> None:
        self.by_batch = type(self)
        self._counts = SetCounts()
        self._f1: Any = 0.0  # (G,) sums over rows
        self._precision, self._num_labelled, self._num_rows = 0.0, 0, 0

    def __call__(self, eval_prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Take a batch.

        Args:
            eval_prediction: has `.predictions`, logits (B, L) or a tuple that starts with them, and `.label_ids`
                (B, L); tensors on any device or arrays.
            compute_result: whether it is the last batch.

        Returns:
            The figures of all batches after the last one, else nothing.

        Raises:
            ValueError: as `multilabel_metrics`.
        """
        self.add(*scored_rows(eval_prediction))
        return self.result() if compute_result else {}

    def add(self, probabilities: np.ndarray, gold: np.ndarray) -> None:
        """Take what [`scored_rows`] makes of a batch."""
        self._counts.add(probabilities >= 0.5, gold, probabilities >= 0)
        self._num_rows += len(gold)
        self._f1 = self._f1 + threshold_sums(probabilities, gold)
        if labelled := int(gold.any(1).sum()):
            self._num_labelled += labelled
            self._precision += labelled * _mean_average_precision(probabilities, gold)

    def result(self) -> dict[str, float]:
        """The figures of all batches so far."""
        threshold, tuned = best_threshold(self._f1 / self._num_rows)
        return {
            **self._counts.figures(),
            "map": self._precision / self._num_labelled if self._num_labelled else float("nan"),
            "f1_example_tuned": tuned,
            "threshold": threshold,
        }


class ThresholdScores:
    """What fits one threshold for all labels, and chooses between it and 0.5: of each of N rows its example F1 at each
    candidate. It takes batches as [`MultiLabelByBatch`] does, and gives no figures.

    Attributes:
        batches: of each batch, the F1 of its rows at each candidate of the grid (B, G), that of the likeliest label
            alone (B,), the probability of that label (B,), and whether a row has gold labels (B,).
    """

    def __init__(self) -> None:
        self.batches: list[tuple[Any, ...]] = []

    def __call__(self, eval_prediction: Any, compute_result: bool = True) -> dict[str, float]:
        p, gold = scored_rows(eval_prediction)
        likeliest, rows = p.argmax(1), np.arange(len(p))
        alone = 2.0 * gold[rows, likeliest] / (1 + gold.sum(1))
        self.batches.append((threshold_f1(p, gold), alone, p[rows, likeliest], gold.any(1)))
        return {}

    def f1(self, never_empty: bool) -> np.ndarray:
        """(N, G); with `never_empty`, a row decides its likeliest label where it would decide none."""
        f1, alone, largest, _ = (np.concatenate(found) for found in zip(*self.batches, strict=True))
        return np.where(largest[:, None] >= DEFAULT_GRID, f1, alone[:, None]) if never_empty else f1

    @property
    def all_have_gold(self) -> bool:
        """Whether each row has a gold label."""
        return all(batch[-1].all() for batch in self.batches)


multilabel_compute_metrics.by_batch = MultiLabelByBatch  # type: ignore[attr-defined]


def scored_rows(eval_prediction: Any) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, float64, and gold sets, bool, of a batch of logits and labels: (B, L) each. Unknown labels have
    the probability -1, and rows of which no label is known are left out.

    Raises:
        ValueError: as `multilabel_metrics`.
    """
    logits, labels = (_array(found) for found in (eval_prediction.predictions, eval_prediction.label_ids))
    return _checked(*with_known_labels(sigmoid(logits), labels), may_be_empty=True)


def _array(outputs: Any) -> np.ndarray:
    """The first of a Trainer's outputs of a batch, as it would keep it."""
    first = outputs[0] if isinstance(outputs, tuple) else outputs
    return first_output(first if isinstance(first, np.ndarray) else nested_numpify(first))
