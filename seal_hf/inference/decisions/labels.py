"""Decisions of label sets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit

from ...metrics.by_batch import ThresholdScores
from ...metrics.multilabel import DEFAULT_GRID, best_threshold, example_f1, tune_threshold, with_known_labels
from ...structures.hierarchy import CONFIG_KEY, Hierarchy, hierarchy_of, store_hierarchy
from ...utils.options import check_value
from ..closed_sets import decode_closed_f1
from ..decoders import decode_expected_f1, platt_scaling, rescaled, tune_thresholds_per_label
from .base import FIXED, THRESHOLD, Decisions, as_threshold, checked, folds, simplest_of_the_best

CLOSED, CALIBRATED_CLOSED = "closed_f1", "calibrated_closed_f1"  # for labels with a hierarchy
NEVER_EMPTY = "+never_empty"  # suffix of a decoder's name: an empty set becomes the likeliest label


@dataclass
class LabelDecisions(Decisions):
    """Decisions of label sets.

    Decoders: `fixed` cuts at 0.5, `threshold` at one tuned threshold, `thresholds` at one for each label.
    `expected_f1` takes the set with the highest expected example F1, `calibrated_f1` the same with calibrated
    probabilities. For labels with a hierarchy, `closed_f1` and `calibrated_closed_f1` take the best set that is closed
    under it, see [`decode_closed_f1`]. Each name may end with [`NEVER_EMPTY`].

    Attributes:
        threshold: in [0, 1].
        thresholds: L thresholds in [0, 1], or None.
        calibration: (scale, shift) from [`platt_scaling`], or None.
        never_empty: True if decoders that never decide an empty set are available: every training row has a label.
        empty_score: the F1 that expected-F1 decoding gives an empty set if no label is gold.
        hierarchy: the labels' hierarchy, `config.label_hierarchy`, or None.
    """

    threshold: float | None = None
    thresholds: Sequence[float] | None = None
    calibration: tuple[float, float] | None = None
    never_empty: bool = False
    empty_score: float = 1.0
    hierarchy: Hierarchy | None = None

    @property
    def names(self) -> tuple[str, ...]:
        given: dict[str, Any] = {
            THRESHOLD: self.threshold,
            "thresholds": self.thresholds,
            "calibrated_f1": self.calibration,
        }
        given |= {CLOSED: self.hierarchy, CALIBRATED_CLOSED: self.hierarchy and self.calibration}
        fitted = (CALIBRATED_CLOSED, "calibrated_f1", "thresholds")
        plain = (FIXED,) if self.folded else (FIXED, THRESHOLD, CLOSED, "expected_f1", *fitted)
        found = []
        for name in (name for name in plain if given.get(name, ()) is not None):
            found += [name, name + NEVER_EMPTY] if self.never_empty and not self._never_decides_none(name) else [name]
        return tuple(found)

    def numbers(self) -> dict[str, Any]:
        found: dict[str, Any] = {"threshold": self.threshold, "thresholds": self.thresholds}
        if self.calibration is not None:
            found["calibration"] = dict(zip(("scale", "shift"), self.calibration, strict=True))
        found = {name: value for name, value in found.items() if value is not None}
        return found | {"never_empty": self.never_empty, "empty_score": self.empty_score}

    @classmethod
    def of_saved(cls, saved: Mapping[str, Any]) -> LabelDecisions:
        scalars = ("decoder", "folded", "threshold", "never_empty", "empty_score")
        found = checked(saved, *scalars, "thresholds", "calibration")
        if (scaling := found.get("calibration")) is not None:
            found["calibration"] = float(scaling["scale"]), float(scaling["shift"])
        parents = saved.get(CONFIG_KEY)
        return cls(**found, hierarchy=None if parents is None else Hierarchy.of_saved(parents))

    @classmethod
    def saved_in(cls, config: Any) -> Mapping[str, Any]:
        """Adds the hierarchy, which is stored beside `config.decisions`."""
        saved, hierarchy = super().saved_in(config), hierarchy_of(config)
        if hierarchy is None or not isinstance(saved, Mapping):
            return saved
        return {**saved, CONFIG_KEY: hierarchy.as_json()}

    def store(self, config: Any) -> None:
        super().store(config)
        if self.hierarchy is not None:
            store_hierarchy(config, self.hierarchy)

    @classmethod
    def check_name(cls, decoder: str | None, config: Any = None) -> None:
        numbers: dict[str, Any] = {"threshold": 0.5, "thresholds": (), "calibration": (1.0, 0.0), "never_empty": True}
        cls(**numbers, hierarchy=hierarchy_of(config)).named(decoder)

    def named(self, decoder: str | None = None) -> str:
        """As [`Decisions.named`]; drops the ending [`NEVER_EMPTY`] from a decoder that never decides an empty set."""
        name = self.decoder if decoder is None else decoder
        plain = name.removesuffix(NEVER_EMPTY)
        if plain in (CLOSED, CALIBRATED_CLOSED) and self.hierarchy is None:
            raise ValueError(f"`decoder` is {name!r}, but the labels lack a hierarchy: give one by --hierarchy FILE.")
        return super().named(plain if self._never_decides_none(plain) else name)

    def _never_decides_none(self, plain: str) -> bool:
        return plain.endswith("_f1") and self.empty_score == 0

    def decide(self, probabilities: np.ndarray, decoder: str | float | None = None) -> np.ndarray:
        """Label sets.

        Args:
            probabilities: (N, L) in [0, 1].
            decoder: one of `names`, or a threshold; default: the stored one.

        Returns:
            (N, L) bool.

        Raises:
            ValueError: the decoder is unknown, or the numbers of labels and thresholds differ.
        """
        if (threshold := as_threshold(decoder)) is not None:
            return np.asarray(probabilities, dtype=np.float64) >= threshold
        name = self.named(decoder)  # type: ignore[arg-type]  # not a number
        return self.decide_by(probabilities, [name])[name]

    def decide_by(self, probabilities: np.ndarray, names: Iterable[str]) -> dict[str, np.ndarray]:
        """Label sets by several decoders, as from `decide`: decoder -> (N, L) bool. Work that decoders share is done
        once."""
        p = np.asarray(probabilities, dtype=np.float64)  # the thresholds were tuned in float64
        shared: dict[str, np.ndarray] = {}
        found: dict[str, np.ndarray] = {}
        for asked in names:
            name = self.named(asked)
            plain = name.removesuffix(NEVER_EMPTY)
            if plain not in shared:
                shared[plain] = self._sets(p, plain)
            found[asked] = shared[plain] if name == plain else self._without_empty(shared[plain], p, plain)
        return found

    def _sets(self, p: np.ndarray, plain: str) -> np.ndarray:
        """Label sets, possibly empty, by a decoder whose name has no ending."""
        if plain == FIXED or not len(p):  # without rows all decoders agree
            return p >= 0.5
        if plain == THRESHOLD:
            return p >= np.asarray(self.threshold)
        if plain == "thresholds":
            if len(self.thresholds or ()) != p.shape[1]:
                raise ValueError(
                    f"`config.decisions` has {len(self.thresholds or ())} thresholds, but there are {p.shape[1]} "
                    "labels. Fit the decisions again, or choose another `decoder`."
                )
            return p >= np.asarray(self.thresholds)
        scaled = rescaled(p, *self.calibration) if plain.startswith("calibrated") and self.calibration else p
        if (closes := self._closed_under(plain)) is not None:
            return decode_closed_f1(scaled, closes, empty_score=self.empty_score)
        return decode_expected_f1(scaled, empty_score=self.empty_score)

    def _without_empty(self, decided: np.ndarray, p: np.ndarray, plain: str) -> np.ndarray:
        """These sets, with an empty one replaced by the likeliest label; for `thresholds` by the label nearest to its
        threshold, for closed sets by the likeliest label and its ancestors."""
        margin = p - np.asarray(self.thresholds) if plain == "thresholds" else p
        empty, decided = np.flatnonzero(~decided.any(1)), decided.copy()
        decided[empty, margin[empty].argmax(1)] = True
        closes = self._closed_under(plain)
        return decided if closes is None else closes.raised(decided)

    def _closed_under(self, plain: str) -> Hierarchy | None:
        """The hierarchy under which a decoder's sets are closed."""
        return self.hierarchy if plain in (CLOSED, CALIBRATED_CLOSED) else None

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
        hierarchy: Hierarchy | None = None,
    ) -> LabelDecisions:
        """Fit all numbers on these rows, and choose the decoder by cross-fitting for example F1.

        Args:
            probabilities: (N, L) in [0, 1], of the validation rows.
            labels: (N, L), 0 or 1, or -1 or NaN for unknown; rows without a known label are left out.
            never_empty: True if every training row has a label.
            empty_score: as in `multilabel_metrics`. If each of these rows has a label, expected-F1 decoding uses 0.
            decoder: used instead of the choice by cross-fitting; its name may end with [`NEVER_EMPTY`].
            among: the decoders to choose from; default: all of `names`.
            hierarchy: the labels' hierarchy, if they have one.

        Raises:
            ValueError: as `multilabel_metrics`, and if the decoder is unknown.
        """
        if np.size(labels) and not (np.asarray(labels) >= 0).any():
            raise ValueError(f"all labels of these {len(labels)} rows are unknown: decisions cannot be fitted on them.")
        probabilities, labels = with_known_labels(probabilities, labels)
        asked = decoder is not None and decoder.endswith(NEVER_EMPTY)
        numbers = cls._fitted(probabilities, labels, never_empty or asked, empty_score, hierarchy=hierarchy)
        if decoder is None:
            names = [name for name in numbers.names if among is None or name in among]
            options: dict[str, Any] = {"never_empty": never_empty, "empty_score": empty_score, "hierarchy": hierarchy}
            scores = cls.cross_fitted(probabilities, labels, names, **options)
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
        hierarchy: Hierarchy | None = None,
    ) -> dict[str, np.ndarray]:
        """(N,) example F1 of each row under each decoder, with numbers fitted on the other folds; a single row is
        fitted on itself."""
        probabilities, labels = np.asarray(probabilities), np.asarray(labels)
        needed = {name.removesuffix(NEVER_EMPTY) for name in names}
        scores = {name: np.zeros(len(labels)) for name in names}
        for others, rows in folds(len(labels)):
            others = others if len(others) else rows
            fitted = cls._fitted(probabilities[others], labels[others], never_empty, empty_score, needed, hierarchy)
            for name, decided in fitted.decide_by(probabilities[rows], names).items():
                scores[name][rows] = example_f1(decided, labels[rows], empty_score)
        return scores

    @classmethod
    def fit_threshold(
        cls,
        scores: ThresholdScores,
        *,
        never_empty: bool = False,
        decoder: str | None = None,
        foldable: bool = False,
        hierarchy: Hierarchy | None = None,
    ) -> LabelDecisions:
        """As `fit`, but only with `fixed` and `threshold`, which need only the rows' scores. For rows whose
        probabilities are too many to keep.

        Args:
            never_empty, decoder: as in `fit`; `decoder` is one of these two, possibly with [`NEVER_EMPTY`].
            foldable: True to choose only among decoders without that ending.
            hierarchy: the labels' hierarchy, if they have one.

        Raises:
            ValueError: another decoder.
        """
        check_value("decoder", (decoder or FIXED).removesuffix(NEVER_EMPTY), (FIXED, THRESHOLD))
        never_empty = never_empty or (decoder or "").endswith(NEVER_EMPTY)
        tables = {"": scores.f1(False), **({NEVER_EMPTY: scores.f1(True)} if never_empty and not foldable else {})}
        f1 = tables[""]
        numbers = cls(threshold=best_threshold(f1.mean(0))[0], never_empty=never_empty, hierarchy=hierarchy)
        numbers.empty_score = 0.0 if scores.all_have_gold else 1.0
        if decoder is None:
            crossed = {f"{plain}{ending}": np.zeros(len(f1)) for plain in (FIXED, THRESHOLD) for ending in tables}
            for others, rows in folds(len(f1)):
                tuned = best_threshold(f1[others if len(others) else rows].mean(0))[0]
                for plain, cut in ((FIXED, 0.5), (THRESHOLD, tuned)):
                    for ending, table in tables.items():
                        crossed[f"{plain}{ending}"][rows] = table[rows, np.searchsorted(DEFAULT_GRID, cut)]
            decoder = simplest_of_the_best(crossed)
        numbers.decoder = numbers.named(decoder)
        return numbers

    @classmethod
    def _fitted(
        cls,
        probabilities: np.ndarray,
        labels: np.ndarray,
        never_empty: bool,
        empty_score: float,
        needed: Collection[str] = ("thresholds", "calibrated_f1", CALIBRATED_CLOSED),
        hierarchy: Hierarchy | None = None,
    ) -> LabelDecisions:
        """The numbers of these decoders, and always the one threshold, which is cheap."""
        threshold, _ = tune_threshold(probabilities, labels, empty_score=empty_score)
        calibrates = any(name.startswith("calibrated") for name in needed)
        thresholds = None
        if "thresholds" in needed:
            per_label, _ = tune_thresholds_per_label(probabilities, labels, threshold, empty_score=empty_score)
            thresholds = per_label.tolist()
        return cls(
            threshold=threshold,
            thresholds=thresholds,
            calibration=platt_scaling(probabilities, labels) if calibrates else None,
            never_empty=never_empty,
            empty_score=0.0 if (np.asarray(labels) > 0).any(1).all() else empty_score,
            hierarchy=hierarchy,
        )

    def offsets(self) -> np.ndarray | float:
        """The amount logit(t), a number or (L,), to subtract from a bias so that 0.5 decides as the threshold did."""
        t = {FIXED: 0.5, THRESHOLD: self.threshold, "thresholds": self.thresholds}[self.named()]
        return logit(np.asarray(t, dtype=np.float64))

    def after_folding(self) -> LabelDecisions:
        """The decisions saved with a classifier whose bias holds the threshold. The other numbers are dropped, since
        they are for the scores before folding."""
        return LabelDecisions(folded=self.decoder, threshold=0.5)
