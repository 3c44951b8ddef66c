"""Metrics of outputs, on arrays: nothing here reads a network or a file.

There are functions, and thin `evaluate.Metric` subclasses for the same metrics, such as `ExampleF1`, `SpanF1` and
`MeanIoU`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from .core.arrays import first_output, sigmoid
from .core.tag_schemes import scheme_of
from .tasks.labels.metrics import (
    HierarchicalComputeMetrics,
    MultiLabelByBatch,
    example_f1,
    hierarchical_metrics,
    label_report,
    multilabel_compute_metrics,
    multilabel_metrics,
    tune_threshold,
)
from .tasks.masks.metrics import (
    class_mask_metrics,
    mask_compute_metrics,
    mask_iou,
    mask_metrics,
    mask_probabilities,
    tune_mask_threshold,
)
from .tasks.tags.metrics import core_role_violations, span_counts, tag_metrics, tag_report, tagging_compute_metrics
from .tasks.trees.metrics import tree_compute_metrics, tree_metrics

__all__ = [
    "HierarchicalComputeMetrics",
    "MultiLabelByBatch",
    "class_mask_metrics",
    "core_role_violations",
    "example_f1",
    "first_output",
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


class Figure(NamedTuple):
    """The metric that a class computes.

    Attributes:
        name: the metric's name in the result of `compute`.
        compute: (predictions, references, threshold or nothing) -> metrics by name.
        value: the type of a value, as `datasets` calls it.
        depth: 1 if a row is a list of values, 2 if it is a list of lists.
        rows: a description of predictions and references.
    """

    name: str
    compute: Callable[..., dict[str, float]]
    value: str
    depth: int
    rows: str


def _on_arrays(
    metrics: Callable[..., dict[str, float]], predictions: Iterable, references: Iterable, threshold: float = 0.5
) -> dict[str, float]:
    return metrics(*(np.array(list(rows), dtype=np.float64) for rows in (predictions, references)), threshold)


def _on_tags(kind: str | None, predictions: Iterable[list[str]], references: Iterable[list[str]]) -> dict[str, float]:
    """Span metrics. With `kind` None the scheme is that of the references, which must have spans."""
    predicted, gold = list(predictions), list(references)
    found = kind or scheme_of(tag for tags in gold for tag in tags)
    if kind is None and found == "plain":
        raise ValueError("SpanF1 needs references in BIO or BIOES; found plain tags")
    return tag_metrics(predicted, gold, found)


def _label_sets(name: str) -> Figure:
    compute = partial(_on_arrays, multilabel_metrics)
    return Figure(name, compute, "float64", 1, "predictions: probabilities (N, L); references: 0 or 1 (N, L)")


def _masks(name: str) -> Figure:
    compute = partial(_on_arrays, mask_metrics)
    return Figure(name, compute, "float64", 2, "predictions: probabilities (N, H, W); references: 0, 1 or 255")


def _tags(name: str, kind: str | None) -> Figure:
    compute = partial(_on_tags, kind)
    return Figure(name, compute, "string", 1, "predictions and references: lists of tag names, a list per sentence")


CLASSES = {
    "ExampleF1": _label_sets("f1_example"),
    "MicroF1": _label_sets("f1_micro"),
    "MacroF1": _label_sets("f1_macro"),
    "ExamplePrecision": _label_sets("precision_example"),
    "MicroPrecision": _label_sets("precision_micro"),
    "MacroPrecision": _label_sets("precision_macro"),
    "ExampleRecall": _label_sets("recall_example"),
    "MicroRecall": _label_sets("recall_micro"),
    "MacroRecall": _label_sets("recall_macro"),
    "JaccardIndex": _label_sets("jaccard"),
    "ExactMatch": _label_sets("exact_match"),
    "HammingLoss": _label_sets("hamming_loss"),
    "MeanAveragePrecision": _label_sets("map"),
    "MacroAveragePrecision": _label_sets("map_macro"),
    "TokenAccuracy": _tags("accuracy", "plain"),
    "SpanF1": _tags("f1", None),
    "RoleF1": _tags("f1", "srl"),
    "CoreRoleViolations": _tags("core_role_violations", "srl"),
    "MeanIoU": _masks("mean_iou"),
    "PixelAccuracy": _masks("pixel_accuracy"),
}


@cache
def metric_class(name: str) -> type:
    """The class with this name in `CLASSES`.

    Raises:
        ImportError: `evaluate` is not installed.
    """
    import datasets

    try:
        import evaluate
    except ModuleNotFoundError as error:
        raise ImportError(f"`{name}` needs evaluate ({error}): pip install 'seal_hf[evaluate]'.") from error

    figure = CLASSES[name]

    class FigureMetric(evaluate.Metric):
        def _info(self) -> evaluate.MetricInfo:
            row = datasets.Value(figure.value)
            for _ in range(figure.depth):
                row = datasets.Sequence(row)
            return evaluate.MetricInfo(
                description=f"{name}: {figure.name} of `seal_hf.metrics`",
                citation="",
                inputs_description=figure.rows,
                features=datasets.Features({"predictions": row, "references": row}),
            )

        def _compute(self, predictions: Any, references: Any, **options: float) -> dict[str, float]:
            return {figure.name: figure.compute(predictions, references, **options)[figure.name]}

    return type(name, (FigureMetric,), {"__doc__": figure.rows, "__module__": "seal_hf.metrics"})


def __getattr__(name: str) -> Any:
    """The `evaluate.Metric` classes; `evaluate` is imported when one is first used."""
    if name in CLASSES:
        return metric_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
