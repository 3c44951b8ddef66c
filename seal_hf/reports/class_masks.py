"""Reports on a trained segmentation net of several classes: figures, tables, a picture in colour."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from transformers import Trainer

from ..data.mask_reader import SegmentationSplit
from ..data.masks import SegmentationData
from ..decisions import ClassMaskDecisions
from ..metrics import MaskCounts, class_masks
from ..metrics.multilabel import first_output
from ..structures.masks import IGNORE, palette
from ..training.decisions import store
from ..training.hints import hint_of_one_mask
from .common import SHOWN, close_run, results_table, row_origin, score_of
from .page.class_masks import class_mask_facts
from .pictures import draw_layers

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


def class_tables(metrics: Mapping[str, float], label_names: Sequence[str]) -> str:
    """The closing tables: a line per figure, and one per class, validation and test side by side."""
    splits = {"validation": "eval", "test": "test"}
    rows = [
        {"figure": name, **{title: metrics.get(f"{split}_{key}") for title, split in splits.items()}}
        for key, name in CLASS_FIGURES.items()
        if f"eval_{key}" in metrics
    ]
    by_class = {title: class_ious(metrics, split, label_names) for title, split in splits.items()}
    return f"{results_table(rows)}\n\n{iou_table(label_names, by_class)}"


def class_ious(metrics: Mapping[str, float], split: str, label_names: Sequence[str]) -> list[float]:
    """The IoU of each class in a split, NaN for a class that does not occur there."""
    return [metrics.get(f"{split}_{IOU}{name}", float("nan")) for name in label_names]


def iou_table(label_names: Sequence[str], columns: Mapping[str, Sequence[float]]) -> str:
    """A line for each class, with the IoUs (C,) of each column."""
    by_class = zip(*columns.values(), strict=True)
    rows = [
        {"IoU of class": name, **dict(zip(columns, map(float, values), strict=True))}
        for name, values in zip(label_names, by_class, strict=True)
    ]
    return results_table(rows)


def close_class_masks(
    trainer: Any,
    splits: Mapping[str, Any],
    data: SegmentationData,
    card_facts: Mapping[str, Any] | None = None,
    *,
    picture: int = 0,
) -> dict[str, float]:
    """Close a run on several classes, as [`close_masks`] does."""
    metrics, masks = evaluate_class_masks(trainer, splits, data.label_names, data.train)

    trainer.report_facts = {"figures": {"names": CLASS_FIGURES, "chosen": "mean_iou"}}

    def report(folder: Path) -> str:
        trainer.report_facts["class_masks"] = class_page_facts(data, masks)
        write_class_masks(folder, data, masks, picture)
        return class_tables(metrics, data.label_names)

    facts = {"rows": {split: len(rows) for split, rows in splits.items()}, **(card_facts or {})}
    score = score_of(metrics, "mean_iou", CLASS_FIGURES["mean_iou"])
    hints = [hint_of_one_mask(metrics["eval_mean_iou"], metrics["eval_mean_mask_iou"], trainer.args)]
    return close_run(trainer, metrics, report, facts, files=("images", "masks"), score=score, hints=hints)


def class_page_facts(data: SegmentationData, masks: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What the page of a run shows: the decisions on `test`, or else on validation.

    Args:
        data, masks: as for [`write_class_masks`].
    """
    shown, last, split = last_split(data, masks)
    origin = partial(row_origin, data, split)
    return {"split": split, **class_mask_facts(masks[last], shown, data.label_names, origin)}


def last_split(data: SegmentationData, found: Mapping[str, Any]) -> tuple[SegmentationSplit, str, str]:
    """The split that a report shows, its name among the predictions, and its name in the data."""
    if "test" in found:
        assert data.test is not None, "it has predictions"
        return data.test, "test", "test"
    return data.validation, "eval", "validation"


def write_class_masks(
    folder: str | Path, data: SegmentationData, masks: Mapping[str, np.ndarray], picture: int = 0
) -> None:
    """Write `_predictions_SPLIT.npz` for each split: `masks` (N, H, W) uint8 of class ids, and `origins` (N,), the
    source of each image as JSON. If `picture` > 0, also draw so many images of the last split in `picture.png`.

    Raises:
        ValueError: a picture is asked for, but matplotlib is missing.
    """
    for split, values in masks.items():
        loaded = SHOWN.get(split, split)
        origins = [json.dumps(row_origin(data, loaded, row)) for row in range(len(values))]
        np.savez_compressed(Path(folder) / f"_predictions_{split}.npz", masks=values, origins=np.array(origins))
    if picture:
        shown, last, _ = last_split(data, masks)
        save_class_picture(Path(folder) / "picture.png", shown, {"prediction": masks[last]}, data.label_names, picture)


def save_class_picture(
    path: str | Path,
    split: SegmentationSplit,
    predictions: Mapping[str, np.ndarray],
    label_names: Sequence[str],
    count: int = 8,
) -> None:
    """A column for each of the first `count` images of a split; rows: image, truth, and each prediction (N, H, W), with
    the colours of [`palette`] and a legend of the classes that are shown.

    Raises:
        ValueError: matplotlib is missing.
    """
    colours, count = palette(), min(count, len(split.images))
    masks = {name: values[:count] for name, values in {"truth": split.masks, **predictions}.items()}
    layers = {"image": split.images[:count], **{name: colours[values] for name, values in masks.items()}}
    there = np.unique(np.concatenate([np.unique(values) for values in masks.values()])).tolist()
    names = {value: label_names[value] if value != IGNORE else "does not count" for value in there}
    draw_layers(path, layers, {name: colours[value] / 255 for value, name in names.items()})
