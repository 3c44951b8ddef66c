"""Reports on a trained segmentation net of two classes: figures, a table, a picture. `class_masks.py` has those of
several."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from transformers import Trainer

from ..data.mask_reader import SegmentationSplit
from ..data.masks import SegmentationData
from ..decisions import FIXED, THRESHOLD, MaskDecisions
from ..metrics.masks import mask_metrics, mask_probabilities, tune_mask_threshold
from ..metrics.multilabel import first_output
from ..spaces import MaskSpace
from ..structures.masks import IGNORE
from ..training.decisions import store
from ..training.hints import hint_of_one_mask
from .class_masks import close_class_masks, last_split
from .common import SHOWN, chosen_line, close_run, figure_rows, results_table, row_origin, score_of
from .page.masks import mask_facts, threshold_facts
from .pictures import draw_layers

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
    """`{split}_{figure}` of [`mask_metrics`] at 0.5 and, with `_tuned`, at a threshold; and `threshold`.

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


def mask_table(metrics: Mapping[str, float], decisions: MaskDecisions | None = None, folded: bool = False) -> str:
    """The closing table: a line per figure, validation and test side by side, and the threshold. With `decisions`, the
    saved decoder is marked, `folded` into the bias or not."""
    chosen = None if decisions is None else DECODER_FIGURES[decisions.decoder]
    rows = figure_rows(metrics, FIGURES, chosen)
    mark = "" if decisions is None else f"\n\n{chosen_line(decisions.decoder, folded)}"
    return f"{results_table(rows)}{mark}\n\nthreshold tuned on validation: {metrics['threshold']:g}"


def close_masks(
    trainer: Any,
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

    trainer.report_facts = {"figures": {"names": FIGURES, "chosen": DECODER_FIGURES[decisions.decoder]}}

    def report(folder: Path) -> str:
        write_masks(folder, data, probabilities, picture, decisions.cut())
        trainer.report_facts["masks"] = page_facts(data, probabilities, decisions.cut())
        return mask_table(metrics, decisions, getattr(trainer.args, "fold_decision", False))

    figure = DECODER_FIGURES[decisions.decoder]
    score = score_of(metrics, figure, FIGURES[figure], decisions.folded or decisions.decoder)
    hints = [hint_of_one_mask(metrics[f"eval_{figure}"], metrics["eval_mean_mask_iou"], trainer.args)]
    if card_facts is None:
        return close_run(trainer, metrics, report, score=score, hints=hints)
    facts = {"rows": {split: len(rows) for split, rows in splits.items()}, **card_facts}
    return close_run(trainer, metrics, report, facts, files=("images", "masks"), score=score, hints=hints)


def page_facts(data: SegmentationData, probabilities: Mapping[str, np.ndarray], threshold: float) -> dict[str, Any]:
    """What the page of a run shows: the decisions on `test`, or else on validation, and the curve of validation.

    Args:
        data, probabilities, threshold: as for [`write_masks`].
    """
    shown, last, split = last_split(data, probabilities)
    found = mask_facts(probabilities[last], shown, threshold, partial(row_origin, data, split))
    curve = threshold_facts(probabilities["eval"], data.validation.masks)
    return {"split": split, **found, "curve": curve}


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
        loaded = SHOWN.get(split, split)
        arrays: dict[str, Any] = {
            "probabilities": values.astype(np.float16),
            "masks": (values.astype(np.float64) >= threshold).astype(np.uint8),
            "origins": np.array([json.dumps(row_origin(data, loaded, row)) for row in range(len(values))]),
        }
        np.savez_compressed(Path(folder) / f"_predictions_{split}.npz", **arrays)
    if picture:
        shown, last, _ = last_split(data, probabilities)
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
