"""Decisions of label sets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...metrics.multilabel import example_f1, tune_threshold
from ..decoders import decode_expected_f1, platt_scaling, rescaled, tune_thresholds_per_label
from .base import FIXED, THRESHOLD, Decisions, as_threshold, folds, log_odds, simplest_of_the_best

NEVER_EMPTY = "+never_empty"  # behind the name of a decoder: where no label is decided, the likeliest one is


@dataclass
class LabelDecisions(Decisions):
    """Decisions of label sets.

    Decoders: `fixed` cuts at 0.5, `threshold` at one tuned threshold, `thresholds` at one for each label.
    `expected_f1` takes the set of the highest expected example F1, `calibrated_f1` the same on calibrated
    probabilities. Each may have [`NEVER_EMPTY`] behind its name.

    Attributes:
        threshold: in [0, 1].
        thresholds: L of them, or None.
        calibration: (scale, shift) of [`platt_scaling`], or None.
        never_empty: whether decoders that never decide an empty set are offered: every training row has a label.
        empty_score: the F1 that expected-F1 decoding gives to an empty set where no label is gold.
    """

    threshold: float | None = None
    thresholds: Sequence[float] | None = None
    calibration: tuple[float, float] | None = None
    never_empty: bool = False
    empty_score: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        given = {THRESHOLD: self.threshold, "thresholds": self.thresholds, "calibrated_f1": self.calibration}
        plain = (FIXED,) if self.folded else (FIXED, THRESHOLD, "expected_f1", "calibrated_f1", "thresholds")
        found = []
        for name in (name for name in plain if given.get(name, ()) is not None):
            never = self.never_empty and not (name.endswith("_f1") and self.empty_score == 0)  # it never does anyway
            found += [name, name + NEVER_EMPTY] if never else [name]
        return tuple(found)

    def numbers(self) -> dict[str, Any]:
        found: dict[str, Any] = {"threshold": self.threshold, "thresholds": self.thresholds}
        if self.calibration is not None:
            found["calibration"] = dict(zip(("scale", "shift"), self.calibration, strict=True))
        found = {name: value for name, value in found.items() if value is not None}
        return found | {"never_empty": self.never_empty, "empty_score": self.empty_score}

    @classmethod
    def of_saved(cls, saved: Mapping[str, Any]) -> LabelDecisions:
        scaling = saved.get("calibration")
        calibration = None if scaling is None else (float(scaling["scale"]), float(scaling["shift"]))
        names = ("decoder", "folded", "threshold", "thresholds", "never_empty", "empty_score")
        return cls(calibration=calibration, **{name: saved[name] for name in names if name in saved})

    def decide(self, probabilities: np.ndarray, decoder: str | float | None = None) -> np.ndarray:
        """Label sets.

        Args:
            probabilities: (N, L) in [0, 1].
            decoder: one of `names`, or a threshold; default: the stored one.

        Returns:
            (N, L) bool.

        Raises:
            ValueError: an unknown decoder, or another number of labels than thresholds.
        """
        p = np.asarray(probabilities, dtype=np.float64)  # as the thresholds were tuned
        if (threshold := as_threshold(decoder)) is not None:
            return p >= threshold
        name = self.named(decoder)  # type: ignore[arg-type]  # it is no number
        plain = name.removesuffix(NEVER_EMPTY)
        if plain == FIXED:
            decided = p >= 0.5
        elif plain == THRESHOLD:
            decided = p >= np.asarray(self.threshold)
        elif plain == "thresholds":
            if len(self.thresholds or ()) != p.shape[1]:
                raise ValueError(f"there are {len(self.thresholds or ())} thresholds, but {p.shape[1]} labels")
            decided = p >= np.asarray(self.thresholds)
        else:
            scaled = rescaled(p, *self.calibration) if plain == "calibrated_f1" and self.calibration else p
            decided = decode_expected_f1(scaled, empty_score=self.empty_score)
        if name != plain:
            margin = p - np.asarray(self.thresholds) if plain == "thresholds" else p
            empty = np.flatnonzero(~decided.any(1))
            decided[empty, margin[empty].argmax(1)] = True
        return decided

    @classmethod
    def fit(
        cls,
        probabilities: np.ndarray,
        labels: np.ndarray,
        *,
        never_empty: bool = False,
        empty_score: float = 1.0,
        decoder: str | None = None,
        among: Collection[str] | None = None,
    ) -> LabelDecisions:
        """Fit all numbers on these rows, and choose the decoder by cross-fitting for example F1.

        Args:
            probabilities: (N, L) in [0, 1], of the validation rows.
            labels: (N, L), 0 or 1.
            never_empty: True where every training row has a label.
            empty_score: as in `multilabel_metrics`. Where each of these rows has a label, expected-F1 decoding takes 0.
            decoder: taken in place of what cross-fitting would choose; one that never decides an empty set, too.
            among: the decoders to choose from; default: all of `names`.

        Raises:
            ValueError: as `multilabel_metrics`; or an unknown decoder.
        """
        asked = decoder is not None and decoder.endswith(NEVER_EMPTY)
        numbers = cls._fitted(probabilities, labels, never_empty or asked, empty_score)
        if decoder is None:
            names = [name for name in numbers.names if among is None or name in among]
            scores = cls.cross_fitted(probabilities, labels, names, never_empty=never_empty, empty_score=empty_score)
            decoder = simplest_of_the_best(scores)
        numbers.decoder = numbers.named(decoder)
        return numbers

    @classmethod
    def cross_fitted(
        cls,
        probabilities: np.ndarray,
        labels: np.ndarray,
        names: Sequence[str],
        *,
        never_empty: bool = False,
        empty_score: float = 1.0,
    ) -> dict[str, np.ndarray]:
        """(N,) example F1 of each row under each decoder, by numbers that were fitted on the other folds. Of a single
        row, which has no others, by the row itself."""
        probabilities, labels = np.asarray(probabilities), np.asarray(labels)
        scores = {name: np.zeros(len(labels)) for name in names}
        for others, rows in folds(len(labels)):
            others = others if len(others) else rows
            fitted = cls._fitted(probabilities[others], labels[others], never_empty, empty_score)
            for name in names:
                known = name if name in fitted.names else name.removesuffix(NEVER_EMPTY)
                decided = fitted.decide(probabilities[rows], known)
                scores[name][rows] = example_f1(decided, labels[rows], empty_score)
        return scores

    @classmethod
    def _fitted(
        cls, probabilities: np.ndarray, labels: np.ndarray, never_empty: bool, empty_score: float
    ) -> LabelDecisions:
        threshold, _ = tune_threshold(probabilities, labels, empty_score=empty_score)
        per_label, _ = tune_thresholds_per_label(probabilities, labels, threshold, empty_score=empty_score)
        return cls(
            threshold=threshold,
            thresholds=per_label.tolist(),
            calibration=platt_scaling(probabilities, labels),
            never_empty=never_empty,
            empty_score=0.0 if np.asarray(labels).any(1).all() else empty_score,
        )

    def offsets(self, decoder: str | None = None) -> np.ndarray | float:
        """What a bias is lowered by, so that 0.5 decides as a threshold did: logit(t), a number or (L,)."""
        t = {FIXED: 0.5, THRESHOLD: self.threshold, "thresholds": self.thresholds}[self.named(decoder)]
        return log_odds(np.asarray(t, dtype=np.float64))

    def after_folding(self) -> LabelDecisions:
        """What is saved beside a classifier whose bias holds the decision. The other numbers are of scores as they
        were before."""
        return LabelDecisions(folded=self.decoder, threshold=0.5)
