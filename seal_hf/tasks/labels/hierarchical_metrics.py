"""Agreement of label sets under a hierarchy of labels."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core.arrays import first_output, sigmoid
from ...core.hierarchy import Hierarchy
from .metrics import multilabel_compute_metrics
from .metrics_by_batch import MultiLabelByBatch

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
