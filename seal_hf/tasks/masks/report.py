"""Reports on a trained segmentation net: figures, tables and files for several classes, for two, and for both; then the
model cards of masks, with names for the Hub, code snippets, and how decoders decide, in words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from transformers import Trainer, TrainingArguments

from ...core.arrays import first_output
from ...core.decisions import FIXED, THRESHOLD
from ...core.masks import IGNORE, palette
from ...core.space import OutputSpace
from ...data.masks import SegmentationData, SegmentationSplit
from ...reports.card_kinds import CardKind, cut_in_words
from ...reports.common import SHOWN, Ending, chosen_line, figure_rows, results_table, row_origin, score_of
from ...training.base import StructuredTrainer
from ...training.evaluation import store
from ...training.hints import learned_nothing
from .decisions import ClassMaskDecisions, MaskDecisions
from .fcn import FCNConfig
from .metrics import MaskCounts, class_masks, mask_metrics, mask_probabilities, tune_mask_threshold
from .page import class_mask_facts, mask_facts, threshold_facts
from .space import MaskSpace

# Reports on a trained segmentation net of several classes: figures and tables.

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
    by_class = {
        SHOWN.get(split, split): class_ious(metrics, split, label_names)
        for split in ("eval", "test")
        if f"{split}_mean_iou" in metrics
    }
    return f"{results_table(figure_rows(metrics, CLASS_FIGURES))}\n\n{iou_table(label_names, by_class)}"


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


# Those of two classes.

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


def mask_table(metrics: Mapping[str, float], decisions: MaskDecisions, folded: bool = False) -> str:
    """The closing table: a line per figure, validation and test side by side, and the threshold. The saved decoder is
    marked, `folded` into the bias or not."""
    table = results_table(figure_rows(metrics, FIGURES, DECODER_FIGURES[decisions.decoder]))
    threshold = f"threshold tuned on validation: {metrics['threshold']:g}"
    return f"{table}\n\n{chosen_line(decisions.decoder, folded)}\n\n{threshold}"


# Both.


def mask_ending(
    trainer: StructuredTrainer, splits: Mapping[str, Any], data: SegmentationData, card: Mapping[str, Any] | None = None
) -> Ending:
    """Evaluate a segmentation run. Its report writes `_predictions_SPLIT.npz` for each split: `masks` (N, H, W), uint8
    class ids; for two classes also `probabilities` (N, H, W) of foreground, in half precision; and `origins` (N,), the
    source of each image as JSON.

    Args:
        splits: rows by name, with `eval`.
        data: from [`load_masks`].
        card: entries of [`SealTrainer.card_facts`] beside the figures; None: an energy network, without a card.
    """
    of_classes = isinstance(trainer.space, MaskSpace)
    if of_classes:
        metrics, decided = evaluate_class_masks(trainer, splits, data.label_names, data.train)
        names, figure, decoder = CLASS_FIGURES, "mean_iou", None
        arrays = {split: {"masks": masks} for split, masks in decided.items()}
    else:
        metrics, probabilities = evaluate_masks(trainer, splits, data.train)
        decisions = MaskDecisions.from_config(trainer.accelerator.unwrap_model(trainer.model).config)
        names, figure, decoder = FIGURES, DECODER_FIGURES[decisions.decoder], decisions.folded or decisions.decoder
        arrays = {
            split: {
                "probabilities": p.astype(np.float16),
                "masks": (p.astype(np.float64) >= decisions.cut()).astype(np.uint8),
            }
            for split, p in probabilities.items()
        }

    def report(folder: Path) -> tuple[str, dict[str, Any]]:
        write_arrays(folder, data, arrays)
        last = "test" if "test" in arrays else "eval"
        shown: Any = data.test if last == "test" else data.validation
        origin = partial(row_origin, data, SHOWN.get(last, last))
        found: dict[str, Any] = {"split": SHOWN.get(last, last)}
        if of_classes:
            found |= class_mask_facts(decided[last], shown, data.label_names, origin)
            return class_tables(metrics, data.label_names), {"class_masks": found}
        found |= mask_facts(probabilities[last], shown, decisions.cut(), origin)
        found["curve"] = threshold_facts(probabilities["eval"], data.validation.masks)
        return mask_table(metrics, decisions, getattr(trainer.args, "fold_decision", False)), {"masks": found}

    return Ending(
        metrics,
        names,
        figure,
        report,
        rows={split: len(rows) for split, rows in splits.items()},
        files=None if card is None else ("images", "masks"),
        score=score_of(metrics, figure, names[figure], decoder),
        hints=[hint_of_one_mask(metrics[f"eval_{figure}"], metrics["eval_mean_mask_iou"], trainer.args)],
        card=card,
    )


def write_arrays(folder: str | Path, data: SegmentationData, arrays: Mapping[str, Mapping[str, Any]]) -> None:
    """Write `_predictions_SPLIT.npz` for each split: its arrays (N, ...), and `origins` (N,), the source of each image
    as JSON."""
    for split, named in arrays.items():
        loaded, count = SHOWN.get(split, split), len(next(iter(named.values())))
        origins = np.array([json.dumps(row_origin(data, loaded, row)) for row in range(count)])
        np.savez_compressed(Path(folder) / f"_predictions_{split}.npz", **named, origins=origins)


def hint_of_one_mask(mean_iou: float, constant: float, args: TrainingArguments) -> str | None:
    """The hint for a segmentation net whose mean IoU on validation images is not above `constant`, that of one mask for
    all images; None for others."""
    if mean_iou > constant:
        return None
    found = f"The mean IoU {mean_iou:.4f} of validation images is not above {constant:.4f}, that of one mask for all"
    return learned_nothing(found, args)


IMAGES = """\
from transformers import pipeline

segment = pipeline("image-segmentation", $name)
masks = {part["label"]: part["mask"] for part in segment("image.png")}  # PIL images: 255 for pixels with the label
"""
IMAGES_FCN = "import seal_hf  # registers the FCN with the Auto classes\n" + IMAGES
SEAL_IMAGES = """\
from seal_hf import SealForSegmentation

model = SealForSegmentation.from_pretrained($name, with_loss_net=False)
probabilities, masks = model.predict(["image.png"])
mask = masks[0]  # (height, width): 1 for pixels with label 1 of the table below
"""


def _decided_figures(decoder: str) -> list[str]:
    tuned = [key for key in FIGURES if key.endswith("_tuned")]
    return tuned if decoder == THRESHOLD else [key.removesuffix("_tuned") for key in tuned]


OF_MASKS: dict[str, Any] = {
    "seal": SEAL_IMAGES,
    "plainly": "A `transformers` pipeline gives each pixel its likelier class: a threshold of 0.5.",
    "pipeline_tag": "image-segmentation",
    "task": "binary image segmentation",
    "figures": FIGURES,
    "decided": _decided_figures,
    "baselines": BASELINES,
    "decisions": MaskDecisions,
    "in_words": lambda name, decisions: cut_in_words("A pixel is foreground", name, decisions),
    "unit": "image",
    "files": ("images", "masks"),
}
OF_CLASS_MASKS: dict[str, Any] = OF_MASKS | {
    "plainly": "",
    "task": "semantic segmentation",
    "figures": CLASS_FIGURES,
    "decided": lambda decoder: ["mean_iou", "pixel_accuracy"],
    "decisions": ClassMaskDecisions,
    "in_words": lambda name, decisions: "A pixel gets its likeliest class.",
}

CARDS = {
    "images": CardKind({FIXED: IMAGES}, **OF_MASKS),
    "images_fcn": CardKind({FIXED: IMAGES_FCN}, is_ours=True, **OF_MASKS),
    "class_images": CardKind({FIXED: IMAGES}, **OF_CLASS_MASKS),
    "class_images_fcn": CardKind({FIXED: IMAGES_FCN}, is_ours=True, **OF_CLASS_MASKS),
}


def card_of(model: Any, space: OutputSpace, library: str | None) -> str:
    """The key in `CARDS` for a task-net, see `Task.card_of`."""
    of_classes = "class_" if isinstance(space, MaskSpace) else ""
    return of_classes + ("images_fcn" if model.config.model_type == FCNConfig.model_type else "images")


def label_columns(space: OutputSpace, metrics: Mapping[str, float], names: Sequence[str]) -> dict[str, list[str]]:
    """For masks of several classes, the colour of each class and its IoU."""
    if not isinstance(space, MaskSpace):
        return {}
    colours = ["#" + bytes(colour).hex() for colour in palette()[: len(names)]]
    columns = {"colour": [f'<span style="color:{colour}">&#9632;</span> `{colour}`' for colour in colours]}
    for title, split in (("IoU, validation", "eval"), ("IoU, test", "test")):
        ious = class_ious(metrics, split, names)
        if not all(map(math.isnan, ious)):
            columns[title] = ["-" if math.isnan(value) else f"{value:.4f}" for value in ious]
    return columns
