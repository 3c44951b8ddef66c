"""The figures of a trained segmentation net, of several classes and of two, beside those of a mask for all images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from transformers import Trainer

from ...core.arrays import first_output
from ...core.decisions import FIXED, THRESHOLD
from ...core.masks import IGNORE
from ...data.masks import SegmentationSplit
from ...training.evaluation import store
from .decisions import ClassMaskDecisions, MaskDecisions
from .metrics import MaskCounts, class_masks, mask_metrics, mask_probabilities, tune_mask_threshold

# --- several classes --------------------------------------------------------------------------------------------------

CLASS_FIGURES = {
    "mean_iou": "mean IoU over classes",
    "pixel_accuracy": "pixel accuracy",
    "mean_mask_iou": "mean IoU of the likeliest training class at each pixel, for every image",
}
IOU = "iou_"  # begins the key of a class's IoU


def evaluate_class_masks(
    trainer: Trainer, splits: Mapping[str, Any], label_names: Sequence[str], train: SegmentationSplit | None = None
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Predict each split by the likeliest class of each pixel, and score it.

    Args:
        trainer: a [`SealTrainer`] for masks; with `decode_predictions` it keeps class ids, not logits.
        splits: rows by name.
        label_names: of the C classes.
        train: the training split, for a baseline that reads no image, [`constant_class_mask`].

    Returns:
        metrics: `{split}_mean_iou`, `{split}_pixel_accuracy`, and `{split}_iou_{class}` of each class that occurs, in
            [0, 1]; with `train`, `{split}_mean_mask_iou` of its constant mask.
        masks: (N, H, W) uint8 of each split.
    """
    metrics: dict[str, float] = {}
    masks: dict[str, np.ndarray] = {}
    for split, rows in splits.items():
        output = trainer.predict(rows, metric_key_prefix=split)
        labels = first_output(output.label_ids)
        decided = class_masks(first_output(output.predictions), labels.shape[1:])
        counts = MaskCounts(len(label_names))
        counts.add(decided, labels)
        figures = counts.figures()
        if train is not None:
            constant = MaskCounts(len(label_names))
            mask = constant_class_mask(train, len(label_names))
            constant.add(np.broadcast_to(mask, labels.shape), labels)
            figures["mean_mask_iou"] = constant.figures()["mean_iou"]
        by_class = zip(label_names, counts.iou().tolist(), strict=True)
        figures |= {f"{IOU}{name}": value for name, value in by_class if not np.isnan(value)}
        metrics |= {f"{split}_{key}": value for key, value in figures.items()}
        masks[split] = decided.astype(np.uint8)
    store(trainer, ClassMaskDecisions())
    return metrics, masks


def constant_class_mask(split: SegmentationSplit, num_classes: int) -> np.ndarray:
    """The most frequent class at each pixel of a split's masks: (H, W). A net that learned only where classes are, and
    nothing about images, would predict it: a baseline to beat."""
    counts = np.stack([(split.masks == i).sum(0) for i in range(num_classes)])  # (C, H, W)
    return counts.argmax(0).astype(np.uint8)


def class_ious(metrics: Mapping[str, float], split: str, label_names: Sequence[str]) -> list[float]:
    """The IoU of each class in a split, NaN for a class that does not occur there."""
    return [metrics.get(f"{split}_{IOU}{name}", float("nan")) for name in label_names]


# --- two classes ------------------------------------------------------------------------------------------------------

FIGURES = {
    "mean_iou": "mean IoU at 0.5",
    "mean_iou_tuned": "mean IoU at the tuned threshold",
    "pixel_accuracy": "pixel accuracy at 0.5",
    "pixel_accuracy_tuned": "pixel accuracy at the tuned threshold",
    "mean_mask_iou": "mean IoU of the mean training mask, for every image",
}
DECODER_FIGURES = {FIXED: "mean_iou", THRESHOLD: "mean_iou_tuned"}  # decoder -> key of its mean IoU
BASELINES = ("mean_mask_iou",)  # figures that do not measure the model


def evaluate_masks(
    trainer: Trainer, splits: Mapping[str, Any], train: SegmentationSplit | None = None
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Predict each split, fit the decisions on `eval`, and score all splits at 0.5 and at the tuned threshold.

    The decisions are also stored in the task-net's config.

    Args:
        trainer: a [`SealTrainer`] for masks, or a [`MaskEnergyTrainer`].
        splits: rows by name, with `eval`.
        train: the training split, for a baseline that reads no image, [`constant_mask`].

    Returns:
        metrics: `{split}_mean_iou`, `{split}_pixel_accuracy`, both also with `_tuned`, in [0, 1], and `threshold`;
            with `train`, `{split}_mean_mask_iou` of its mean mask.
        probabilities: (N, H, W) of each split.
    """
    probabilities, labels = {}, {}
    for split, rows in splits.items():
        output = trainer.predict(rows, metric_key_prefix=split)
        probabilities[split] = mask_probabilities(first_output(output.predictions))
        labels[split] = first_output(output.label_ids)
    decisions = MaskDecisions.fit(probabilities["eval"], labels["eval"], decoder=getattr(trainer.args, "decoder", None))
    assert decisions.threshold is not None, "as `fit` says"
    metrics = mask_figures(probabilities, labels, decisions.threshold)
    if train is not None:
        constant = constant_mask(train)
        for split, masks in labels.items():
            same = np.broadcast_to(constant, masks.shape)
            metrics[f"{split}_mean_mask_iou"] = mask_metrics(same, masks)["mean_iou"]
    store(trainer, decisions)
    return metrics, probabilities


def mask_figures(
    probabilities: Mapping[str, np.ndarray], labels: Mapping[str, np.ndarray], threshold: float
) -> dict[str, float]:
    """The figures of [`mask_metrics`], `{split}_{figure}`, at 0.5 and, with the ending `_tuned`, at a threshold; and
    that `threshold`.

    Args:
        probabilities, labels: (N, H, W) of each split.
    """
    metrics: dict[str, float] = {}
    for split, values in probabilities.items():
        for ending, cut in (("", 0.5), ("_tuned", threshold)):
            figures = mask_metrics(values, labels[split], cut)
            metrics |= {f"{split}_{key}{ending}": value for key, value in figures.items()}
    return metrics | {"threshold": threshold}


def constant_mask(split: SegmentationSplit) -> np.ndarray:
    """The mean mask of a split, cut at the threshold with the best mean IoU on this split: (H, W) of 0 and 1. A net
    that learned only where objects are, and nothing about images, would predict it: a baseline to beat."""
    counted = (split.masks != IGNORE).sum(0)
    mean = (split.masks == 1).sum(0) / np.maximum(counted, 1)  # 0 if all masks ignore the pixel
    threshold, _ = tune_mask_threshold(np.broadcast_to(mean, split.masks.shape), split.masks)
    return (mean >= threshold).astype(np.uint8)
