"""Reports on a trained segmentation net of two classes: figures, a table, a picture. `class_masks.py` has those of
several."""

from __future__ import annotations

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
from ..spaces import MaskSpace
from ..structures.masks import IGNORE
from ..training.decisions import store
from .class_masks import close_class_masks
from .common import chosen_line, close_run, results_table, row_origin
from .pictures import draw_layers

FIGURES = {
    "mean_iou": "mean IoU at 0.5",
    "mean_iou_tuned": "mean IoU at the tuned threshold",
    "pixel_accuracy": "pixel accuracy at 0.5",
    "pixel_accuracy_tuned": "pixel accuracy at the tuned threshold",
    "mean_mask_iou": "mean IoU of the mean training mask, for every image",
}
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
    """The mean mask of a split, cut at the threshold with the best mean IoU on this split: (H, W) of 0 and 1. A net
    that learned only where objects are, and nothing about images, would predict it: a baseline to beat."""
    counted = (split.masks != IGNORE).sum(0)
    mean = (split.masks == 1).sum(0) / np.maximum(counted, 1)  # 0 if all masks ignore the pixel
    threshold, _ = tune_mask_threshold(np.broadcast_to(mean, split.masks.shape), split.masks)
    return (mean >= threshold).astype(np.uint8)


def mask_table(metrics: Mapping[str, float], decisions: MaskDecisions | None = None, folded: bool = False) -> str:
    """The closing table: a line per figure, validation and test side by side, and the threshold. With `decisions`, the
    saved decoder is marked, `folded` into the bias or not."""
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
    """Close a segmentation run: evaluate, save, write results, the card and the files of [`write_masks`], print the
    table, push if the arguments ask for it. For several classes, see `class_masks.py`.

    Args:
        splits, data: as for [`evaluate_masks`] and [`write_masks`].
        card_facts: entries of [`SealTrainer.card_facts`] beside the figures; None: an energy network, without a card.
        picture: number of test images to draw.

    Returns:
        the figures of [`evaluate_masks`] or [`evaluate_class_masks`].
    """
    if isinstance(trainer.space, MaskSpace):
        return close_class_masks(trainer, splits, data, card_facts, picture=picture)
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
    """Write `_predictions_SPLIT.npz` for each split: `probabilities` (N, H, W) in half precision, `masks` (N, H, W) of
    0 and 1, and `origins` (N,), the source of each image as JSON. If `picture` > 0, also draw so many images of the
    last split in `picture.png`.

    Args:
        data: from [`load_masks`].
        probabilities: of `eval` and perhaps `test`, from [`evaluate_masks`].
        threshold: of the masks.

    Raises:
        ValueError: a picture is asked for, but matplotlib is missing.
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


def save_picture(
    path: str | Path, split: SegmentationSplit, predictions: Mapping[str, np.ndarray], count: int = 8
) -> None:
    """A column for each of the first `count` images of a split; rows: image, truth, and each prediction (N, H, W).

    Raises:
        ValueError: matplotlib is missing.
    """
    layers = {"image": split.images, "truth": split.masks == 1, **predictions}
    draw_layers(path, {name: layer[:count] for name, layer in layers.items()})
