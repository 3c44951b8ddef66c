"""Agreement of label sets under a hierarchy of labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..structures.hierarchy import Hierarchy
from .multilabel import first_output, multilabel_compute_metrics, sigmoid

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
    decided, gold = (hierarchy.raised(np.asarray(sets) > 0) for sets in (decisions, labels))
    decided &= gold | (np.asarray(labels) >= 0)
    if hierarchy.root is not None:
        decided[:, hierarchy.root] = gold[:, hierarchy.root] = False
    hits, ours, theirs = (int(np.count_nonzero(sets)) for sets in (decided & gold, decided, gold))
    return {
        F1_HIERARCHICAL: 2 * hits / max(ours + theirs, 1),
        "precision_hierarchical": hits / max(ours, 1),
        "recall_hierarchical": hits / max(theirs, 1),
    }


class HierarchicalComputeMetrics:
    """`Trainer(compute_metrics=HierarchicalComputeMetrics(hierarchy))`: the metrics of [`multilabel_compute_metrics`],
    and `f1_hierarchical` at 0.5 and (as `f1_hierarchical_tuned`) at `threshold`."""

    figures = (*multilabel_compute_metrics.figures, F1_HIERARCHICAL, f"{F1_HIERARCHICAL}_tuned")  # type: ignore[attr-defined]

    def __init__(self, hierarchy: Hierarchy):
        self.hierarchy = hierarchy

    def __call__(self, eval_prediction: Any) -> dict[str, float]:
        figures = multilabel_compute_metrics(eval_prediction)
        probabilities = sigmoid(first_output(eval_prediction.predictions))
        labels = first_output(eval_prediction.label_ids)
        for ending, threshold in (("", 0.5), ("_tuned", figures["threshold"])):
            found = hierarchical_metrics(probabilities >= threshold, labels, self.hierarchy)
            figures[F1_HIERARCHICAL + ending] = found[F1_HIERARCHICAL]
        return figures
