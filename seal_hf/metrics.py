"""Metrics of outputs, on arrays: nothing here reads a network or a file.

There are functions, and thin `evaluate.Metric` subclasses for the same metrics, such as `ExampleF1`, `SpanF1` and
`MeanIoU` (`tasks/metric_classes.py`).
"""

from typing import Any

from .core.arrays import first_output, sigmoid
from .tasks.labels.metrics import (
    example_f1,
    label_report,
    multilabel_compute_metrics,
    multilabel_metrics,
    tune_threshold,
)
from .tasks.labels.metrics_by_batch import HierarchicalComputeMetrics, MultiLabelByBatch, hierarchical_metrics
from .tasks.masks.metrics import (
    MaskCounts,
    band_width,
    boundary_counts,
    class_iou,
    class_mask_metrics,
    class_masks,
    class_overlaps,
    further_components,
    mask_compute_metrics,
    mask_iou,
    mask_metrics,
    mask_probabilities,
    tune_mask_threshold,
)
from .tasks.metric_classes import CLASSES, metric_class
from .tasks.tags.metrics import core_role_violations, span_counts, tag_metrics, tag_report, tagging_compute_metrics
from .tasks.trees.metrics import bracket_counts, tree_compute_metrics, tree_metrics

__all__ = [
    "HierarchicalComputeMetrics",
    "MaskCounts",
    "MultiLabelByBatch",
    "band_width",
    "boundary_counts",
    "bracket_counts",
    "class_iou",
    "class_mask_metrics",
    "class_masks",
    "class_overlaps",
    "core_role_violations",
    "example_f1",
    "first_output",
    "further_components",
    "hierarchical_metrics",
    "label_report",
    "mask_compute_metrics",
    "mask_iou",
    "mask_metrics",
    "mask_probabilities",
    "multilabel_compute_metrics",
    "multilabel_metrics",
    "sigmoid",
    "span_counts",
    "tag_metrics",
    "tag_report",
    "tagging_compute_metrics",
    "tree_compute_metrics",
    "tree_metrics",
    "tune_mask_threshold",
    "tune_threshold",
]


def __getattr__(name: str) -> Any:
    """The `evaluate.Metric` classes; `evaluate` is imported when one is first used."""
    if name in CLASSES:
        return metric_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
