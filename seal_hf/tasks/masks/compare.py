"""Masks, as a comparison sees them: those of two classes, and those of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...cli.search import ENERGY_RATES, RATE, LogUniform, Range
from ...data import SegmentationData
from ...lab.compare.kinds import (
    BASELINE,
    CONSTANT,
    ENERGY,
    ENERGY_NETWORK,
    LOSS_NET_RATE,
    SEAL,
    SHARE,
    TASK_NET,
    Figures,
    Kind,
    Method,
    Scored,
)
from ...lab.compare.statistics import Rows
from ...training.base import StructuredTrainer
from . import program as segmentation
from .evaluation import constant_class_mask, constant_mask, evaluate_class_masks, evaluate_masks, mask_figures
from .metrics import MaskCounts, boundary_counts, class_overlaps, further_components, mask_iou

# The methods of masks. λ1 is a share of the task loss's pull, since its useful values differ by a factor of a thousand
# between losses here.

BY_RATE: dict[str, Range] = {"learning_rate": RATE}
STATIC = {**BY_RATE, "energy_weight": SHARE}
BESIDE = {**STATIC, "loss_net_learning_rate": LOSS_NET_RATE}
FEW_SAMPLES = {"num_samples": 4}  # each is an image for the energy's convolutions
TWO_CLASSES = "masks of two classes"  # an energy network alone predicts no others


def dynamic(about: str, loss: str, first: Mapping[str, Any] | None = None, **settings: Any) -> Method:
    begins = {"energy_weight": 0.3, "loss_net_learning_rate": 1e-3, **(first or {})}
    return Method(SEAL, about, {"energy_loss": loss, "energy_weight_balance": True, **settings}, BESIDE, begins)


METHODS: dict[str, Method] = {
    "constant": Method(BASELINE, "one mask for every image, by the frequencies of each pixel", program=CONSTANT),
    "ce": Method(BASELINE, "cross-entropy", {"energy_loss": "ce"}, BY_RATE),
    "soft_iou": Method(
        BASELINE,
        "cross-entropy and soft IoU",
        {"energy_loss": "ce", "task_loss": "soft_iou"},
        {**BY_RATE, "soft_iou_weight": LogUniform(0.1, 10.0)},
        {"soft_iou_weight": 1.0},
    ),
    "dice": Method(
        BASELINE,
        "cross-entropy and Dice",
        {"energy_loss": "ce", "task_loss": "dice"},
        {**BY_RATE, "dice_weight": LogUniform(0.1, 10.0)},
        {"dice_weight": 1.0},
    ),
    "lovasz": Method(
        BASELINE,
        "cross-entropy and the Lovász extension of IoU",
        {"energy_loss": "ce", "task_loss": "lovasz"},
        {**BY_RATE, "lovasz_weight": LogUniform(0.1, 10.0)},
        {"lovasz_weight": 1.0},
    ),
    "gbi_dvn": Method(
        ENERGY,
        "DVN, by gradient-based inference",
        {"energy_method": "dvn", "inference_steps": 8, "inference_steps_eval": 15},
        ENERGY_RATES,
        {"learning_rate": 1e-3, "inference_learning_rate": 0.4},
        program=ENERGY_NETWORK,
        needs=TWO_CLASSES,
    ),
    "static_regression": Method(
        SEAL,
        "SEAL-static on DVN",
        {"energy_loss": "regression", "energy_weight_balance": True, "loss_net_steps": 0},
        STATIC,
        {"energy_weight": 0.3},
        takes={"loss_net_path": "gbi_dvn"},
        needs=TWO_CLASSES,
    ),
    "margin": dynamic("margin", "margin"),
    "infnet": dynamic("InfNet", "infnet"),
    "regression": dynamic("regression on soft IoU", "regression"),
    "regression_s": dynamic("regression on perturbed outputs", "regression_s", FEW_SAMPLES),
    "nce": dynamic("NCE, independent pixels", "nce", FEW_SAMPLES),
    "ranking": dynamic("ranking, independent pixels", "ranking", FEW_SAMPLES),
    "ranking_field": dynamic("ranking, smooth samples", "ranking", FEW_SAMPLES, sample_coherence="field"),
    "ranking_inputs": dynamic(
        "ranking, masks of noisy copies of the image", "ranking", FEW_SAMPLES, sample_coherence="inputs"
    ),
    "contrastive_divergence": dynamic("contrastive divergence", "contrastive_divergence", FEW_SAMPLES),
}


METRICS = ("mean_iou",)
BOUNDARY, PIECES = "boundary_iou", "further_components"
NOTES = {
    BOUNDARY: "*Boundary IoU* is that of the pixels near an outline (Cheng et al. 2021), 2 % of the diagonal at most.",
    PIECES: "*Pieces / 100* is the number of connected components beyond those of the truth, of 100 images: less is "
    "better.",
}
FIGURES = Figures(
    columns={
        "mean_iou": "IoU at 0.5",
        "mean_iou_tuned": "IoU tuned",
        BOUNDARY: "boundary IoU",
        PIECES: "pieces / 100",
    },
    tested={
        "mean_iou": "mean IoU at 0.5",
        "mean_iou_tuned": "mean IoU at the tuned threshold",
        BOUNDARY: "boundary IoU at 0.5",
    },
    legend="Test IoU, the mean over images, in percent, mean ± deviation over seeds, at 0.5 and at the threshold tuned "
    "on validation.",
    notes=NOTES,
)
CLASS_FIGURES = Figures(
    columns={"mean_iou": "IoU", "pixel_accuracy": "pixel accuracy", BOUNDARY: "boundary IoU", PIECES: "pieces / 100"},
    tested={"mean_iou": "mean IoU over classes", BOUNDARY: "boundary IoU, mean over classes"},
    legend="Test IoU, of each class over all images, the mean over classes, in percent, mean ± deviation over seeds.",
    notes=NOTES,
)


class Masks(Kind):
    """Masks of two classes, see [`Kind`]."""

    def of(self, data: SegmentationData) -> Kind:
        return self if self.has(data) else ClassMasks(**{**vars(self), "figures": CLASS_FIGURES})

    def has(self, data: SegmentationData) -> set[str]:
        return {TWO_CLASSES} if len(data.label_names) <= 2 else set()

    def pretrained(self, data: SegmentationData, settings: Mapping[str, Any]) -> bool:
        return settings.get("model_name_or_path") is not None

    def metrics(self, data: SegmentationData) -> Sequence[str]:
        return METRICS

    def score(self, trainer: StructuredTrainer, splits: Mapping[str, Any], data: SegmentationData) -> Scored:
        return self._scored(*evaluate_masks(trainer, splits), data)

    def constant(self, data: SegmentationData) -> Callable[[Any], np.ndarray]:
        mask = constant_mask(data.train)
        return lambda split: np.broadcast_to(mask, split.masks.shape)

    def scored(self, data: SegmentationData, decided: Mapping[str, np.ndarray]) -> Scored:
        given = {split: masks.astype(float) for split, masks in decided.items()}
        return self._scored(mask_figures(given, _gold(data), 0.5), given, data)

    def _scored(
        self, metrics: Mapping[str, float], probabilities: Mapping[str, np.ndarray], data: SegmentationData
    ) -> Scored:
        """Boundaries and pieces are those of the foreground at 0.5."""
        found, rows, gold = dict(metrics), {}, _gold(data)
        for split, masks in gold.items():
            decided = (probabilities[split].astype(np.float64) >= 0.5).astype(np.uint8)
            both, either = (pixels[:, 1] for pixels in boundary_counts(decided, masks, 2))
            rows[BOUNDARY] = Rows.of_mean(np.where(either > 0, both / np.maximum(either, 1), 1.0))
            found[f"{split}_{BOUNDARY}"] = rows[BOUNDARY].figure
            found[f"{split}_{PIECES}"] = float(further_components(decided, masks, 2)[:, 1].mean())
        for key, cut in {"mean_iou": 0.5, "mean_iou_tuned": metrics["threshold"]}.items():
            rows[key] = Rows.of_mean(mask_iou(probabilities["test"], gold["test"], cut))
        return Scored(found, rows)


class ClassMasks(Masks):
    """Masks of several classes. Each figure of classes is a mean of ratios of pixels over all images."""

    def score(self, trainer: StructuredTrainer, splits: Mapping[str, Any], data: SegmentationData) -> Scored:
        return self._scored(*evaluate_class_masks(trainer, splits, data.label_names), data)

    def constant(self, data: SegmentationData) -> Callable[[Any], np.ndarray]:
        mask = constant_class_mask(data.train, len(data.label_names))
        return lambda split: np.broadcast_to(mask, split.masks.shape)

    def scored(self, data: SegmentationData, decided: Mapping[str, np.ndarray]) -> Scored:
        classes, metrics = len(data.label_names), dict[str, float]()
        for split, masks in _gold(data).items():
            counts = MaskCounts(classes)
            counts.add(decided[split], masks)
            metrics |= {f"{split}_{key}": value for key, value in counts.figures().items()}
        return self._scored(metrics, decided, data)

    def _scored(
        self, metrics: Mapping[str, float], decided: Mapping[str, np.ndarray], data: SegmentationData
    ) -> Scored:
        found, rows, classes = dict(metrics), {}, len(data.label_names)
        for split, masks in _gold(data).items():
            rows["mean_iou"] = Rows(*class_overlaps(decided[split], masks, classes))
            rows[BOUNDARY] = Rows(*boundary_counts(decided[split], masks, classes))
            found[f"{split}_{BOUNDARY}"] = rows[BOUNDARY].figure
            found[f"{split}_{PIECES}"] = float(further_components(decided[split], masks, classes).sum(1).mean())
        return Scored(found, rows)


def _gold(data: SegmentationData) -> dict[str, np.ndarray]:
    """The gold masks by split; the test split comes last."""
    assert data.test is not None, "as `is_labelled` says"
    return {"eval": data.validation.masks, "test": data.test.masks}


MASKS = Masks(
    word="segmentation",
    programs={TASK_NET: segmentation.PROGRAM, ENERGY_NETWORK: segmentation.ENERGY_PROGRAM},
    methods=METHODS,
    usual=("constant", "ce", "soft_iou", "regression", "ranking_field"),
    figures=FIGURES,
    known_metrics=METRICS,
    identity={"kind": "segmentation"},
)
KINDS = (MASKS,)
