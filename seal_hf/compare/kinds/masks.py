"""Binary masks, as a comparison sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...cli.train import mask_energy, segmentation
from ...data import SegmentationData
from ...metrics.masks import mask_iou
from ...reports.masks import constant_mask, evaluate_masks, mask_figures
from ..methods.base import ENERGY_NETWORK, TASK_NET
from ..methods.masks import METHODS
from ..rows import Rows
from .base import Figures, Kind, Scored

METRICS = ("mean_iou",)
FIGURES = Figures(
    columns={"mean_iou": "IoU at 0.5", "mean_iou_tuned": "IoU tuned"},
    tested={"mean_iou": "mean IoU at 0.5", "mean_iou_tuned": "mean IoU at the tuned threshold"},
    legend="Test IoU, the mean over images, in percent, mean ± deviation over seeds, at 0.5 and at the threshold tuned "
    "on validation.",
)


class Masks(Kind):
    """See [`Kind`]."""

    def pretrained(self, data: SegmentationData, settings: Mapping[str, Any]) -> bool:
        return settings.get("model_name_or_path") is not None

    def metrics(self, data: SegmentationData) -> Sequence[str]:
        return METRICS

    def score(self, trainer: Any, splits: Mapping[str, Any], data: SegmentationData) -> Scored:
        metrics, probabilities = evaluate_masks(trainer, splits)
        return self._scored(metrics, probabilities["test"], data)

    def constant(self, data: SegmentationData) -> Scored:
        assert data.test is not None, "as `is_labelled` says"
        gold, mask = {"eval": data.validation.masks, "test": data.test.masks}, constant_mask(data.train)
        same = {split: np.broadcast_to(mask, masks.shape).astype(float) for split, masks in gold.items()}
        return self._scored(mask_figures(same, gold, 0.5), same["test"], data)

    def _scored(self, metrics: dict[str, float], probabilities: np.ndarray, data: SegmentationData) -> Scored:
        cuts = {"mean_iou": 0.5, "mean_iou_tuned": metrics["threshold"]}
        assert data.test is not None, "as `is_labelled` says"
        masks = data.test.masks
        return Scored(metrics, {key: Rows.of_mean(mask_iou(probabilities, masks, cut)) for key, cut in cuts.items()})


MASKS = Masks(
    word="segmentation",
    programs={TASK_NET: segmentation.PROGRAM, ENERGY_NETWORK: mask_energy.PROGRAM},
    methods=METHODS,
    usual=("constant", "ce", "soft_iou", "regression", "ranking_field"),
    figures=FIGURES,
    known_metrics=METRICS,
    identity={"kind": "segmentation"},
)
