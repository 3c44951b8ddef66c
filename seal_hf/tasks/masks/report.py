"""The end of a segmentation run: its files, its tables and its hint."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from transformers import TrainingArguments

from ...data.masks import SegmentationData
from ...reports.common import Ending, chosen_line, figure_rows, row_origin, score_of
from ...reports.page import SHOWN
from ...training.base import StructuredTrainer
from ...training.hints import learned_nothing
from ...utils.messages import results_table
from .decisions import MaskDecisions
from .evaluation import (
    CLASS_FIGURES,
    DECODER_FIGURES,
    FIGURES,
    class_ious,
    evaluate_class_masks,
    evaluate_masks,
)
from .page import class_mask_facts, mask_facts, threshold_facts
from .space import MaskSpace


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


def class_tables(metrics: Mapping[str, float], label_names: Sequence[str]) -> str:
    """The closing tables: a line per figure, and one per class, validation and test side by side."""
    by_class = {
        SHOWN.get(split, split): class_ious(metrics, split, label_names)
        for split in ("eval", "test")
        if f"{split}_mean_iou" in metrics
    }
    return f"{results_table(figure_rows(metrics, CLASS_FIGURES))}\n\n{iou_table(label_names, by_class)}"


def iou_table(label_names: Sequence[str], columns: Mapping[str, Sequence[float]]) -> str:
    """A line for each class, with the IoUs (C,) of each column."""
    by_class = zip(*columns.values(), strict=True)
    rows = [
        {"IoU of class": name, **dict(zip(columns, map(float, values), strict=True))}
        for name, values in zip(label_names, by_class, strict=True)
    ]
    return results_table(rows)


def mask_table(metrics: Mapping[str, float], decisions: MaskDecisions, folded: bool = False) -> str:
    """The closing table: a line per figure, validation and test side by side, and the threshold. The saved decoder is
    marked, `folded` into the bias or not."""
    table = results_table(figure_rows(metrics, FIGURES, DECODER_FIGURES[decisions.decoder]))
    threshold = f"threshold tuned on validation: {metrics['threshold']:g}"
    return f"{table}\n\n{chosen_line(decisions.decoder, folded)}\n\n{threshold}"
