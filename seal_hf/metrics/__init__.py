"""Metrics of outputs, on arrays: nothing here reads a network or a file.

There are functions, and thin `evaluate.Metric` subclasses for the same metrics (classes.py): `ExampleF1`, `SpanF1`,
`MeanIoU` and more.
"""

from typing import Any

from .by_batch import MultiLabelByBatch
from .class_masks import MaskCounts, class_iou, class_mask_metrics, class_masks, class_overlaps
from .classes import CLASSES, metric_class
from .hierarchical import HierarchicalComputeMetrics, hierarchical_metrics
from .mask_shapes import band_width, boundary_counts, further_components
from .masks import mask_compute_metrics, mask_iou, mask_metrics, mask_probabilities, tune_mask_threshold
from .multilabel import (
    example_f1,
    first_output,
    label_report,
    multilabel_compute_metrics,
    multilabel_metrics,
    sigmoid,
    tune_threshold,
)
from .tags import core_role_violations, span_counts, tag_metrics, tag_report, tagging_compute_metrics
from .trees import bracket_counts, tree_compute_metrics, tree_metrics

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
