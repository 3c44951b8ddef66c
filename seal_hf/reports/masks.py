"""What a trained segmentation net did, for the examples: figures, a table, a picture."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from transformers import Trainer

from ..data.masks import SegmentationData, SegmentationSplit
from ..inference.decisions import FIXED, THRESHOLD, MaskDecisions
from ..metrics.masks import mask_metrics, mask_probabilities, tune_mask_threshold
from ..metrics.multilabel import first_output
from ..structures.masks import IGNORE
from ..training.decisions import store
from .common import chosen_line, close_run, results_table, row_origin

FIGURES = {
    "mean_iou": "mean IoU at 0.5",
    "mean_iou_tuned": "mean IoU at the tuned threshold",
    "pixel_accuracy": "pixel accuracy at 0.5",
    "pixel_accuracy_tuned": "pixel accuracy at the tuned threshold",
    "mean_mask_iou": "mean IoU of the mean training mask, for every image",
}
BASELINES = ("mean_mask_iou",)  # of no model


def evaluate_masks(
    trainer: Trainer, splits: Mapping[str, Any], train: SegmentationSplit | None = None
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Predict each split, fit the decisions on `eval`, score all at 0.5 and at the tuned threshold.

    The decisions are also stored in the task-net's config.

    Args:
        trainer: a [`SealTrainer`] of masks, or a [`MaskEnergyTrainer`].
        splits: rows by name; `eval` is among them.
        train: the [`SegmentationSplit`] trained on, for a baseline that reads no image, [`constant_mask`].

    Returns:
        metrics: `{split}_mean_iou`, `{split}_pixel_accuracy`, both also with `_tuned`, in [0, 1], and `threshold`;
            with `train`, `{split}_mean_mask_iou`, that of its mean mask.
        probabilities: (N, H, W) of each split.
    """
    probabilities, labels = {}, {}
    for split, rows in splits.items():
        output = trainer.predict(rows, metric_key_prefix=split)
        probabilities[split] = mask_probabilities(first_output(output.predictions))
        labels[split] = first_output(output.label_ids)
    decisions = MaskDecisions.fit(probabilities["eval"], labels["eval"], decoder=getattr(trainer.args, "decoder", None))
    assert decisions.threshold is not None, "as `fit` says"
    metrics: dict[str, float] = {}
    for split, values in probabilities.items():
        figures = mask_metrics(values, labels[split])
        tuned = mask_metrics(values, labels[split], decisions.threshold)
        figures |= {f"{key}_tuned": value for key, value in tuned.items()}
        if train is not None:
            constant = np.broadcast_to(constant_mask(train), labels[split].shape)
            figures["mean_mask_iou"] = mask_metrics(constant, labels[split])["mean_iou"]
        metrics |= {f"{split}_{key}": value for key, value in figures.items()}
    store(trainer, decisions)
    return metrics | {"threshold": decisions.threshold}, probabilities


def constant_mask(split: SegmentationSplit) -> np.ndarray:
    """The mean mask of a split, thresholded where its own mean IoU with these masks is best: (H, W) of 0 and 1. What a
    net predicts that has learned where things are and nothing of the images: a figure to be above."""
    counted = (split.masks != IGNORE).sum(0)
    mean = (split.masks == 1).sum(0) / np.maximum(counted, 1)  # 0 where no pixel counts
    threshold, _ = tune_mask_threshold(np.broadcast_to(mean, split.masks.shape), split.masks)
    return (mean >= threshold).astype(np.uint8)


def mask_table(metrics: Mapping[str, float], decisions: MaskDecisions | None = None, folded: bool = False) -> str:
    """The table an example ends with: a line per figure, validation and test side by side, and the threshold; with
    `decisions`, the decoder that is saved is marked, perhaps `folded` into the bias."""
    chosen = None if decisions is None else {FIXED: "mean_iou", THRESHOLD: "mean_iou_tuned"}[decisions.decoder]
    rows = [
        {
            "figure": f"{name} *" if key == chosen else name,
            "validation": metrics.get(f"eval_{key}"),
            "test": metrics.get(f"test_{key}"),
        }
        for key, name in FIGURES.items()
        if f"eval_{key}" in metrics
    ]
    mark = "" if decisions is None else f"\n\n{chosen_line(decisions.decoder, folded)}"
    return f"{results_table(rows)}{mark}\n\nthreshold tuned on validation: {metrics['threshold']:g}"


def close_masks(
    trainer: Trainer,
    splits: Mapping[str, Any],
    data: Any,
    card_facts: Mapping[str, Any] | None = None,
    *,
    picture: int = 0,
) -> dict[str, float]:
    """What every segmentation program does after training: evaluate, save, write results, the card and the files of
    [`write_masks`], print the table, push where the arguments say so.

    Args:
        splits, data: as of [`evaluate_masks`] and [`write_masks`].
        card_facts: of [`SealTrainer.card_facts`], beside the figures; None: an energy network's, which has no card.
        picture: so many test images are drawn.

    Returns:
        the figures of [`evaluate_masks`].
    """
    metrics, probabilities = evaluate_masks(trainer, splits, data.train)
    decisions = MaskDecisions.from_config(trainer.accelerator.unwrap_model(trainer.model).config)

    def report(folder: Path) -> str:
        write_masks(folder, data, probabilities, picture, decisions.cut())
        return mask_table(metrics, decisions, getattr(trainer.args, "fold_decision", False))

    if card_facts is None:
        return close_run(trainer, metrics, report)
    facts = {"rows": {split: len(rows) for split, rows in splits.items()}, **card_facts}
    return close_run(trainer, metrics, report, facts, files=("images", "masks"))


def write_masks(
    folder: str | Path,
    data: SegmentationData,
    probabilities: Mapping[str, np.ndarray],
    picture: int = 0,
    threshold: float = 0.5,
) -> None:
    """`_predictions_SPLIT.npz`, of each split: `probabilities` (N, H, W) in half precision, `masks` (N, H, W) of 0 and
    1, and `origins` (N,), JSON that says where each image is from. With `picture`, also `picture.png` of so many images
    of the last split.

    Args:
        data: what [`load_masks`] gives.
        probabilities: of `eval` and perhaps `test`, as [`evaluate_masks`] gives them.
        threshold: of the masks.

    Raises:
        ValueError: a picture, but matplotlib is missing.
    """
    for split, values in probabilities.items():
        loaded = "validation" if split == "eval" else split
        arrays: dict[str, Any] = {
            "probabilities": values.astype(np.float16),
            "masks": (values.astype(np.float64) >= threshold).astype(np.uint8),
            "origins": np.array([json.dumps(row_origin(data, loaded, row)) for row in range(len(values))]),
        }
        np.savez_compressed(Path(folder) / f"_predictions_{split}.npz", **arrays)
    if picture:
        shown, last = (data.test, "test") if "test" in probabilities else (data.validation, "eval")
        assert shown is not None, "it has predictions"
        save_picture(Path(folder) / "picture.png", shown, {"prediction": probabilities[last]}, picture)


def check_picture(count: int) -> None:
    """Raises ValueError where pictures are asked for, but matplotlib is missing."""
    if count and importlib.util.find_spec("matplotlib") is None:
        raise ValueError("`picture` needs matplotlib: pip install 'seal_hf[plot]'.")


def save_picture(
    path: str | Path, split: SegmentationSplit, predictions: Mapping[str, np.ndarray], count: int = 8
) -> None:
    """A column for each of the first `count` images of a split; rows: image, truth, and each prediction (N, H, W).

    Raises:
        ValueError: matplotlib is missing.
    """
    check_picture(count)
    from matplotlib.figure import Figure

    count = min(count, len(split.images))
    layers = {"image": split.images, "truth": split.masks == 1, **predictions}
    figure = Figure(figsize=(1.2 * count + 1, 1.2 * len(layers)), layout="constrained")
    axes = figure.subplots(len(layers), count, squeeze=False)
    for row, (name, layer) in zip(axes, layers.items(), strict=True):
        row[0].set_ylabel(name)
        for axis, picture in zip(row, layer[:count], strict=True):
            axis.imshow(picture, cmap="gray", vmin=0, vmax=1 if picture.ndim == 2 else None)
            axis.set_xticks([])
            axis.set_yticks([])
    figure.savefig(path, dpi=150)
