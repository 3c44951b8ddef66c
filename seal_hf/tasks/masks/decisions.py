"""Decisions of masks, and how a trainer fits them. Nothing imports torch before a trainer does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...core.arrays import first_output, logit
from ...core.decisions import FIXED, THRESHOLD, Decisions, as_threshold, checked, usual_or_better
from ..labels.metrics import at_thresholds, best_threshold, cross_fitted_thresholds
from .metrics import mask_ious, mask_probabilities

if TYPE_CHECKING:
    from torch import Tensor

    from ...training.base import StructuredTrainer


@dataclass
class MaskDecisions(Decisions):
    """Decisions of masks of two classes: `fixed` cuts at 0.5, `threshold` at a threshold tuned for the mean IoU.

    Attributes:
        threshold: in [0, 1], or None.
    """

    output: ClassVar[str] = "binary_mask"
    threshold: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (FIXED,) if self.threshold is None or self.folded else (FIXED, THRESHOLD)

    def numbers(self) -> dict[str, Any]:
        return {} if self.threshold is None else {"threshold": self.threshold}

    @classmethod
    def of_saved(cls, saved: Mapping[str, Any]) -> MaskDecisions:
        return cls(**checked(saved, "decoder", "folded", "threshold"))

    @classmethod
    def check_name(cls, decoder: str | None) -> None:
        cls(threshold=0.5).named(decoder)

    def cut(self, decoder: str | float | None = None) -> float:
        """The threshold of a decoder, which may itself be a number; default: that of the stored decoder.

        Raises:
            ValueError: an unknown decoder.
        """
        if (given := as_threshold(decoder)) is not None:
            return given
        stored = self.named(decoder) == THRESHOLD  # type: ignore[arg-type]
        return self.threshold if stored and self.threshold is not None else 0.5

    def decider(self, decoder: str | float | None = None) -> Callable[[Tensor], Tensor]:
        """A function from foreground probabilities to masks of the same shape, int64: 1 where the probability is at
        least `cut`.

        Raises:
            ValueError: an unknown decoder.
        """
        cut = self.cut(decoder)
        return lambda probabilities: (probabilities.double() >= cut).long()  # the threshold was tuned in float64

    @classmethod
    def fit(cls, probabilities: np.ndarray, labels: np.ndarray, *, decoder: str | None = None) -> MaskDecisions:
        """Fit the threshold with the best mean IoU, and choose by cross-fitting whether to use it.

        Args:
            probabilities: (N, H, W) in [0, 1], of the validation images.
            labels: (N, H, W) of 0, 1 and 255.
            decoder: used instead of the choice by cross-fitting.

        Raises:
            ValueError: as `mask_metrics`, and if the decoder is unknown.
        """
        return cls.of_ious(mask_ious(probabilities, labels), decoder=decoder)

    @classmethod
    def of_ious(cls, ious: np.ndarray, *, decoder: str | None = None) -> MaskDecisions:
        """The same as `fit`, for images of several sizes or too many for memory. `ious` (G, N) is the IoU of N images
        at each threshold of `DEFAULT_GRID`."""
        numbers = cls(threshold=best_threshold(ious.mean(1))[0])
        if decoder is None:
            of_images = ious.T  # (N, G)
            cuts_of = {FIXED: np.full(len(of_images), 0.5), THRESHOLD: cross_fitted_thresholds(of_images)}
            scores = {name: at_thresholds(of_images, cuts) for name, cuts in cuts_of.items()}
            decoder = usual_or_better(scores, FIXED)
        numbers.decoder = numbers.named(decoder)
        return numbers

    def offsets(self) -> float:
        """The amount logit(t) to subtract from the foreground's bias so that 0.5 decides as the threshold did."""
        return float(logit(self.cut()))

    def after_folding(self) -> MaskDecisions:
        """The decisions saved with a classifier whose bias holds the threshold."""
        return MaskDecisions(folded=self.decoder, threshold=0.5)


class ClassMaskDecisions(Decisions):
    """Decisions of masks of several classes: `fixed`, the likeliest class of each pixel. Nothing is fitted."""

    output: ClassVar[str] = "masks"

    @property
    def names(self) -> tuple[str, ...]:
        return (FIXED,)

    def numbers(self) -> dict[str, Any]:
        return {}

    @classmethod
    def of_saved(cls, saved: Mapping[str, Any]) -> ClassMaskDecisions:
        return cls(**checked(saved, "decoder"))

    @classmethod
    def check_has_threshold(cls) -> None:
        raise ValueError(
            "`fold_decision` is True, but masks of several classes are decided by the likeliest class, without a "
            "threshold. Leave it out."
        )

    def decider(self, decoder: str | float | None = None) -> Callable[[Tensor], Tensor]:
        """A function from probabilities (..., C, H, W) to the likeliest classes, int64 (..., H, W).

        Raises:
            ValueError: another decoder than `fixed`.
        """
        self.named(None if decoder is None else str(decoder))
        return lambda probabilities: probabilities.argmax(-3)


def fit_decisions(trainer: StructuredTrainer, dataset: Any, decoder: str | None) -> Decisions:
    """The decisions of masks, fitted on validation rows; see `training/evaluation.py`. Those of several classes have no
    numbers to fit."""
    from ...training.evaluation import predicted

    if trainer.space.name == ClassMaskDecisions.output:
        decisions = ClassMaskDecisions()
        decisions.named(decoder)
        return decisions
    output = predicted(trainer, dataset)
    logits, labels = first_output(output.predictions), first_output(output.label_ids)
    return MaskDecisions.fit(mask_probabilities(logits, labels.shape[1:]), labels, decoder=decoder)
