"""Figures of outputs, on arrays: nothing here reads a network or a file.

Functions, and thin `evaluate.Metric` subclasses of the same figures, as `labels.ExampleF1`, in the modules.
"""

from .decoding import decode_expected_f1, platt_scaling, rescaled, tune_thresholds_per_label
from .labels import example_f1, multilabel_compute_metrics, multilabel_metrics, tune_threshold
from .masks import mask_compute_metrics, mask_iou, mask_metrics, tune_mask_threshold
from .tags import core_role_violations, span_counts, tag_metrics, tag_report, tagging_compute_metrics

__all__ = [
    "core_role_violations",
    "decode_expected_f1",
    "example_f1",
    "mask_compute_metrics",
    "mask_iou",
    "mask_metrics",
    "multilabel_compute_metrics",
    "multilabel_metrics",
    "platt_scaling",
    "rescaled",
    "span_counts",
    "tag_metrics",
    "tag_report",
    "tagging_compute_metrics",
    "tune_mask_threshold",
    "tune_threshold",
    "tune_thresholds_per_label",
]
