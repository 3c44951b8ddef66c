"""Decisions of label sets: decoders, their choice on validation rows, and guarantees."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ....core.arrays import logit
from ....core.decisions import FIXED, THRESHOLD, Decisions, as_threshold, checked, usual_or_better
from ....core.hierarchy import CONFIG_KEY, Hierarchy, hierarchy_of, store_hierarchy
from ....utils.messages import few
from ....utils.options import check_value
from ..metrics import ThresholdScores, at_thresholds, best_threshold, cross_fitted_thresholds, row_blocks
from .decoders import decode_expected_f1, decode_expected_jaccard, rescaled
from .fitting import ValidationRows
from .guarantees import (
    CONFIDENCE,
    COVERED,
    GUARANTEES,
    MISSED,
    OF_LABELS,
    PRECISION,
    threshold_of_risk,
    thresholds_of_precision,
    thresholds_of_recall,
)
from .review import expected_losses
from .seen_sets import SeenSets
from .targets import (
    COST,
    EXACT_MATCH,
    F1_EXAMPLE,
    F1_MACRO,
    HAMMING,
    JACCARD,
    NAMES,
    names_in,
    options_of,
    target_of,
    target_scores,
)

CLOSED, CALIBRATED_CLOSED = "closed_f1", "calibrated_closed_f1"  # for labels with a hierarchy
SEEN, SEEN_F1 = "seen", "seen_f1"  # from the label sets of the training rows
CALIBRATED_JACCARD = "calibrated_jaccard"  # for the target `JACCARD`
NEVER_EMPTY = "+never_empty"  # suffix of a decoder's name: an empty set becomes the likeliest label
# target -> its usual decoders, of which the first that can be chosen counts; `F1_EXAMPLE` for other targets
USUAL = {
    F1_EXAMPLE: (CALIBRATED_CLOSED, "calibrated_f1", THRESHOLD),
    F1_MACRO: ("thresholds",),
    EXACT_MATCH: (SEEN, THRESHOLD),
    JACCARD: (CLOSED, CALIBRATED_JACCARD, THRESHOLD),
    HAMMING: (THRESHOLD,),
    COST: ("thresholds", THRESHOLD),
}
FITTED = ("thresholds", "calibrated_f1", SEEN)  # decoders whose numbers `fit` fits, beside the one threshold
MAY_BE_EMPTY = (HAMMING, COST)  # targets that a label in place of an empty set lowers if it is unlikely
ERRORS = 2.0  # standard errors by which another decoder must be better; benchmarks/decision_rule.py


def usual_decoder(names: Collection[str], target: str, all_have_gold: bool) -> str:
    """The decoder that is taken for a target unless another one is clearly better, see [`usual_or_better`].

    Args:
        names: those that can be chosen.
        target: one of `TARGETS`.
        all_have_gold: True if each validation row has a label: the usual decoder then never decides an empty set, if
            `names` has such a form of it.
    """
    plain = next((name for name in USUAL.get(target, USUAL[F1_EXAMPLE]) if name in names), FIXED)
    never = all_have_gold and target not in MAY_BE_EMPTY
    return plain + NEVER_EMPTY if never and plain + NEVER_EMPTY in names else plain


@dataclass
class LabelDecisions(Decisions):
    """Decisions of label sets.

    Decoders: `fixed` cuts at 0.5, `threshold` at one tuned threshold, `thresholds` at one for each label.
    `expected_f1` takes the set with the highest expected example F1, `calibrated_f1` the same with calibrated
    probabilities. For labels with a hierarchy, `closed_f1` and `calibrated_closed_f1` add all ancestors of the labels
    in these sets. `seen` takes the most probable label set and `seen_f1` that of the highest
    expected F1, both by calibrated probabilities and the label sets that occur in training, see [`SeenSets`]; with a
    hierarchy, whose sets are closed, both take one of these. For the target `JACCARD`, `calibrated_jaccard` takes the
    set with the highest expected Jaccard index. Each name may end with [`NEVER_EMPTY`].

    Attributes:
        threshold: in [0, 1].
        thresholds: L thresholds in [0, 1], or None.
        calibration: (scale, shift) from [`platt_scaling`], or None.
        never_empty: True if decoders that never decide an empty set are available: every training row has a label.
        empty_score: the F1 that expected-F1 decoding gives an empty set if no label is gold.
        hierarchy: the labels' hierarchy, `config.label_hierarchy`, or None.
        seen: the label sets of the training rows, or None.
        seen_power, seen_share: γ and ρ of [`SeenSets`].
        target: one of `TARGETS`, or `COST`, by which the decoder was chosen; `seen_f1` has the highest expected Jaccard
            index if that is the target.
        costs: (2, L) of the target `COST`: of deciding each label where it is not gold, and of missing it.
        guarantee: what `fit_guarantee` was asked for: `name`, `value` and `confidence`; or None.
        refused: the numbers of labels that cannot hold a guarantee of each label. `thresholds` never decides them.
        labels: L different names, such as those of a pandas frame's columns, or None. Files have them; a task-net's
            config has them elsewhere.
        crossed: decoder -> its cross-fitted figure, if `fit` has just chosen among them; not stored.
    """

    output: ClassVar[str] = "multi_label"

    threshold: float | None = None
    thresholds: Sequence[float] | None = None
    calibration: tuple[float, float] | None = None
    never_empty: bool = False
    empty_score: float = 1.0
    hierarchy: Hierarchy | None = None
    seen: SeenSets | None = None
    seen_power: float = 1.0
    seen_share: float = 0.0
    target: str = F1_EXAMPLE
    costs: Sequence[Sequence[float]] | None = None
    guarantee: Mapping[str, Any] | None = None
    refused: Sequence[int] = ()
    labels: Sequence[str] | None = None
    crossed: Mapping[str, float] | None = field(default=None, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        given: dict[str, Any] = {
            THRESHOLD: self.threshold,
            "thresholds": self.thresholds,
            "calibrated_f1": self.calibration,
        }
        given |= {CLOSED: self.hierarchy, CALIBRATED_CLOSED: self.hierarchy and self.calibration}
        given |= dict.fromkeys((SEEN, SEEN_F1), self.seen and self.calibration)
        given[CALIBRATED_JACCARD] = self.calibration if self.target == JACCARD else None
        fitted = (CALIBRATED_CLOSED, "calibrated_f1", CALIBRATED_JACCARD, SEEN, SEEN_F1, "thresholds")
        plain = (FIXED,) if self.folded else (FIXED, THRESHOLD, CLOSED, "expected_f1", *fitted)
        found = []
        for name in (name for name in plain if given.get(name, ()) is not None):
            found += [name, name + NEVER_EMPTY] if self.never_empty and not self._never_decides_none(name) else [name]
        return tuple(found)

    def numbers(self) -> dict[str, Any]:
        found: dict[str, Any] = {"threshold": self.threshold, "thresholds": self.thresholds}
        if self.calibration is not None:
            found["calibration"] = dict(zip(("scale", "shift"), self.calibration, strict=True))
        if self.seen is not None:
            found |= {"seen": self.seen.as_json(), "seen_power": self.seen_power, "seen_share": self.seen_share}
        found |= {"target": self.target} if self.target != F1_EXAMPLE else {}
        found |= {"costs": self.costs, "guarantee": self.guarantee, "refused": [*self.refused] or None}
        found["labels"] = None if self.labels is None else [*self.labels]
        found = {name: value for name, value in found.items() if value is not None}
        return found | {"never_empty": self.never_empty, "empty_score": self.empty_score}

    @classmethod
    def of_saved(cls, saved: Mapping[str, Any]) -> LabelDecisions:
        scalars = ("decoder", "folded", "threshold", "never_empty", "empty_score", "seen_power", "seen_share", "target")
        others = ("thresholds", "calibration", "costs", "guarantee", "refused", "labels")
        found = checked(saved, *scalars, *others)
        if saved.get("seen") is not None:
            found["seen"] = SeenSets.of_saved(saved["seen"])
        if (scaling := found.get("calibration")) is not None:
            found["calibration"] = float(scaling["scale"]), float(scaling["shift"])
        if (parents := saved.get(CONFIG_KEY)) is not None:
            found["hierarchy"] = Hierarchy.of_saved(parents)
        decisions = cls(**found)
        decisions._check_saved()
        return decisions

    def _check_saved(self) -> None:
        """Raises ValueError for an unknown target, or numbers of different labels."""
        check_value("target", self.target, NAMES)
        sizes = {name: len(values) for name in ("labels", "thresholds") if (values := getattr(self, name)) is not None}
        sizes |= {} if self.costs is None else {"costs": len(self.costs[0])}
        sizes |= {} if self.seen is None else {"seen": self.seen.sets.shape[1]}
        least = min(sizes.values(), default=0)
        if (self.target == COST) != (self.costs is not None):
            what = f"the target {self.target!r} with{'' if self.costs else 'out'} costs"
        elif len({*sizes.values()}) > 1:
            what = f"numbers of different labels: {', '.join(f'{size} {name}' for name, size in sizes.items())}"
        elif sizes and max(self.refused, default=0) >= max(least, 1):
            what = f"refused {max(self.refused)}, but {least} labels"
        else:
            return
        raise ValueError(f"`config.decisions` has {what}. Fit the decisions again.")

    @classmethod
    def saved_in(cls, config: Any) -> Mapping[str, Any]:
        """Adds the hierarchy, which is stored beside `config.decisions`."""
        saved, hierarchy = super().saved_in(config), hierarchy_of(config)
        if hierarchy is None or not isinstance(saved, Mapping):
            return saved
        return {**saved, CONFIG_KEY: hierarchy.as_json()}

    def as_file(self) -> dict[str, Any]:
        """Adds the hierarchy, too."""
        return super().as_file() | ({} if self.hierarchy is None else {CONFIG_KEY: self.hierarchy.as_json()})

    def store(self, config: Any) -> None:
        super().store(config)
        if self.hierarchy is not None:
            store_hierarchy(config, self.hierarchy)

    @classmethod
    def check_name(cls, decoder: str | None, config: Any = None, target: str | None = None) -> None:
        numbers: dict[str, Any] = {"threshold": 0.5, "thresholds": (), "calibration": (1.0, 0.0), "never_empty": True}
        numbers |= {"seen": SeenSets.of_rows([np.array([0])] * 2, 1), "target": target or F1_EXAMPLE}
        cls(**numbers, hierarchy=hierarchy_of(config)).named(decoder)

    @classmethod
    def check_arguments(cls, args: Any, config: Any) -> None:
        options_of(getattr(args, "target", F1_EXAMPLE), names_in(config))
        cls.check_name(args.decoder, config, target_of(args))

    def named(self, decoder: str | None = None) -> str:
        """As [`Decisions.named`]; drops the ending [`NEVER_EMPTY`] from a decoder that never decides an empty set."""
        name = self.decoder if decoder is None else decoder
        plain = name.removesuffix(NEVER_EMPTY)
        if plain in (CLOSED, CALIBRATED_CLOSED) and self.hierarchy is None:
            raise ValueError(
                f"`decoder` is {name!r}, but the labels lack a hierarchy: give one by `hierarchy` (--hierarchy FILE)."
            )
        return super().named(plain if self._never_decides_none(plain) else name)

    def _never_decides_none(self, plain: str) -> bool:
        if plain == SEEN and self.seen is not None:  # the likeliest set outside the list may be empty
            return bool(self.seen.sets.any(1).all()) and (self.seen_share == 0 or self.hierarchy is not None)
        return plain.endswith(("_f1", "_jaccard")) and self.empty_score == 0

    def decide(self, probabilities: np.ndarray, decoder: str | float | None = None) -> np.ndarray:
        """Label sets.

        Args:
            probabilities: (N, L) in [0, 1].
            decoder: one of `names`, or a threshold; default: the stored one.

        Returns:
            (N, L) bool.

        Raises:
            ValueError: the decoder is unknown, or the probabilities are of another number of labels.
        """
        asked = self.named() if decoder is None else decoder
        return self.decide_by(probabilities, [asked])[asked]

    def decide_by(self, probabilities: np.ndarray, names: Iterable[str | float]) -> dict[Any, np.ndarray]:
        """Label sets by several decoders, as from `decide`: decoder -> (N, L) bool. Work that decoders share is done
        once."""
        self._check_matrix(probabilities)
        found: dict[Any, np.ndarray] = {name: np.empty(np.shape(probabilities), dtype=bool) for name in names}
        for rows in row_blocks(probabilities):
            p = np.asarray(probabilities[rows], dtype=np.float64)  # the thresholds were tuned in float64
            for name, decided in self._decided(p, found).items():
                found[name][rows] = decided
        return found

    def _check_matrix(self, probabilities: Any) -> None:
        """Raises ValueError for probabilities that are not of the decisions' labels."""
        shape = np.shape(probabilities)
        known: Any = self.hierarchy and self.hierarchy.parents
        for each in (self.labels, self.thresholds, self.seen and self.seen.sets[0]):
            known = known if each is None else each
        size = "L" if known is None else len(known)
        if len(shape) != 2 or (known is not None and shape[1] != size):
            hint = "" if known is None else f" These decisions are for {size} labels: fit them again for others."
            raise ValueError(f"`probabilities` have the shape {shape}; expected (N, {size}).{hint}")
        columns = _column_names(probabilities)
        if None not in (columns, self.labels) and columns != list(self.labels or ()):
            raise ValueError(
                f"`probabilities` have the columns {few([*map(repr, columns or ())], 3)}, and the decisions are for "
                f"{few([*map(repr, self.labels or ())], 3)}. Give probabilities[decisions.labels], or, if they "
                "correspond as they are, to_numpy()."
            )

    def _decided(self, p: np.ndarray, names: Iterable[str | float]) -> dict[Any, np.ndarray]:
        """As `decide_by`, for a block of rows."""
        shared: dict[str, np.ndarray] = {}
        found: dict[Any, np.ndarray] = {}
        for asked in names:
            if (threshold := as_threshold(asked)) is not None:
                found[asked] = p >= threshold
                continue
            name = self.named(asked)  # type: ignore[arg-type]  # not a number
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
            decided = p >= np.asarray(self.thresholds)
            decided[:, list(self.refused)] = False
            return decided
        is_calibrated = plain.startswith("calibrated") or plain in (SEEN, SEEN_F1)
        scaled = rescaled(p, *self.calibration) if is_calibrated and self.calibration else p
        if plain in (SEEN, SEEN_F1):
            return self._seen_sets(scaled, plain)
        if plain == CALIBRATED_JACCARD:
            return decode_expected_jaccard(scaled, empty_score=self.empty_score)
        decided = decode_expected_f1(scaled, empty_score=self.empty_score)
        closes = self._closed_under(plain)
        return decided if closes is None else closes.raised(decided)

    def _seen_sets(self, p: np.ndarray, plain: str) -> np.ndarray:
        assert self.seen is not None, "as `names` says"
        share = 0.0 if self.hierarchy is not None else self.seen_share
        if plain == SEEN:
            return self.seen.most_probable(p, self.seen_power, share)
        if self.target == JACCARD or self.hierarchy is not None:
            agreement = self.seen.agreement(self.target == JACCARD, self.empty_score)
            return self.seen.best_of_list(p, self.seen_power, agreement)
        return self.seen.best_f1(p, self.seen_power, share, self.empty_score)

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
        seen: SeenSets | None = None,
        target: str = F1_EXAMPLE,
        costs: ArrayLike | None = None,
    ) -> LabelDecisions:
        """Fit all numbers on these rows, and choose the decoder by cross-fitting.

        Args:
            probabilities: (N, L) in [0, 1], of the validation rows.
            labels: (N, L), 0 or 1, or -1 or NaN for unknown; rows without a known label are left out.
            never_empty: True if every training row has a label.
            empty_score: as in `multilabel_metrics`. If each of these rows has a label, expected-F1 decoding uses 0.
            decoder: used instead of the choice by cross-fitting; its name may end with [`NEVER_EMPTY`].
            among: the decoders to choose from; default: all of `names`.
            hierarchy: the labels' hierarchy, if they have one.
            seen: the label sets of the training rows; without them there are no `seen` and `seen_f1`.
            target: the figure, one of `TARGETS` or `COST`, by which the decoder is chosen, and by which thresholds are
                fitted. `threshold` has the highest F1 over all entries (row, label) for `f1_micro`, the fewest wrong
                ones for `hamming` and `exact_match`. `thresholds` have each label's highest expected F1 for `f1_macro`,
                see [`thresholds_of_label_f1`], and the lowest expected cost for `cost`. Else both have the highest
                example F1.
            costs: (2, L) at least 0, for `cost` alone: of deciding each label where it is not gold, and of missing it
                where it is. The costs of a label are not both 0.

        Raises:
            ValueError: as `multilabel_metrics`, and if the decoder or target is unknown, the costs are invalid, or
                pandas frames differ in their columns or rows.
        """
        columns = _column_names(probabilities)
        probabilities, labels = _checked_pair(probabilities, labels)
        asked = decoder is not None and decoder.endswith(NEVER_EMPTY)
        options: dict[str, Any] = {"hierarchy": hierarchy, "seen": seen, "target": target, "costs": costs}
        rows = ValidationRows(
            probabilities, labels, never_empty=never_empty or asked, empty_score=empty_score, **options
        )
        numbers, scores = cls(**rows.numbers(FITTED), labels=columns), {}
        if decoder is None:
            sets = cls.cross_fitted(rows, [name for name in numbers.names if among is None or name in among])
            scores = {
                name: target_scores(target, of, rows.labels, empty_score, rows.costs) for name, of in sets.items()
            }
        return numbers._with_decoder(decoder, scores)

    @classmethod
    def cross_fitted(cls, rows: ValidationRows, names: Sequence[str]) -> dict[str, np.ndarray]:
        """(N, L) bool decisions by each decoder, with numbers fitted on the other folds; a single row is fitted on
        itself."""
        needed = {name.removesuffix(NEVER_EMPTY) for name in names}
        sets = {name: np.zeros(rows.probabilities.shape, dtype=bool) for name in names}
        for fold, (_, decided) in enumerate(rows.folds):
            fitted = cls(**rows.numbers(needed, fold))
            for name, of_fold in fitted.decide_by(rows.probabilities[decided], names).items():
                sets[name][decided] = of_fold
        return sets

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
        endings = ("", NEVER_EMPTY) if never_empty and not foldable else ("",)
        tables = {ending: scores.f1(bool(ending)) for ending in endings}  # (N, G) each
        f1 = tables[""]
        numbers = cls(threshold=best_threshold(f1.mean(0))[0], never_empty=never_empty, hierarchy=hierarchy)
        numbers.empty_score = 0.0 if scores.all_have_gold else 1.0
        cuts_of = {FIXED: np.full(len(f1), 0.5), THRESHOLD: cross_fitted_thresholds(f1)}
        crossed = {
            plain + ending: at_thresholds(table, cuts)
            for plain, cuts in cuts_of.items()
            for ending, table in tables.items()
        }
        return numbers._with_decoder(decoder, crossed)

    def _with_decoder(self, decoder: str | None, scores: Mapping[str, np.ndarray]) -> LabelDecisions:
        """These numbers with a decoder: the one that is asked for, or chosen by the cross-fitted scores of rows."""
        if decoder is None:
            decoder = usual_or_better(scores, usual_decoder(scores, self.target, self.empty_score == 0), ERRORS)
            crossed = {name: float(of_rows.mean()) for name, of_rows in scores.items()}
            return replace(self, decoder=self.named(decoder), crossed=crossed)
        return replace(self, decoder=self.named(decoder))

    @classmethod
    def fit_guarantee(
        cls,
        probabilities: np.ndarray,
        labels: np.ndarray,
        name: str,
        value: float,
        confidence: float = CONFIDENCE,
        target: str = F1_EXAMPLE,
        costs: ArrayLike | None = None,
    ) -> LabelDecisions:
        """Thresholds with a guarantee for new rows that are drawn as these were, whatever the probabilities are worth.

        Args:
            probabilities: (N, L) in [0, 1], of validation rows on which nothing else was fitted.
            labels: (N, L), 0 or 1, or -1 or NaN for unknown.
            name: one of `GUARANTEES`. `precision` and `recall` of each label are at least `value`, with `confidence`;
                labels that cannot reach it are `refused`. On average at most the share `value` of a row's gold labels
                is `missed`. All gold labels are `covered` in at least the share `value` of rows.
            value: above 0 and below 1.
            confidence: above 0 and below 1, for `precision` and `recall`: for each label by itself.
            target, costs: as in `fit`, for `expected_losses`.

        Raises:
            ValueError: as `fit`; `name`, `value` or `confidence` is invalid; too few rows for it.
        """
        check_value("guarantee", name, GUARANTEES)
        for argument, number in (("value", value), ("confidence", confidence)):
            check_value(argument, number, above=0.0, below=1.0)
        columns = _column_names(probabilities)
        rows = ValidationRows(*_checked_pair(probabilities, labels), target=target, costs=costs)
        numbers = cls(**rows.numbers(("calibrated_f1",)), labels=columns)
        probabilities, labels = rows.probabilities, rows.labels
        asked = {"name": name, "value": float(value), "confidence": float(confidence) if name in OF_LABELS else 1.0}
        if name in OF_LABELS:
            fit = thresholds_of_precision if name == PRECISION else thresholds_of_recall
            found = fit(probabilities, labels, value, confidence)
            refused = np.flatnonzero(np.isnan(found)).tolist()
            thresholds = np.nan_to_num(found, nan=1.0).tolist()
            return replace(numbers, decoder="thresholds", thresholds=thresholds, refused=refused, guarantee=asked)
        most = value if name == MISSED else 1 - value
        threshold = threshold_of_risk(probabilities, labels, most, all_gold=name == COVERED)
        return replace(numbers, decoder=THRESHOLD, threshold=threshold, guarantee=asked)

    def expected_losses(self, probabilities: np.ndarray, decided: np.ndarray | None = None) -> np.ndarray:
        """The expected loss of each row's decision by the target, (N,), on calibrated probabilities, see
        [`expected_losses`]. The rows where it is largest are those that a person should see first.

        Args:
            probabilities: (N, L) in [0, 1].
            decided: (N, L) bool; default: by the stored decoder.
        """
        sets = self.decide(probabilities) if decided is None else decided
        scaled = rescaled(probabilities, *self.calibration) if self.calibration else np.asarray(probabilities)
        costs = None if self.costs is None else np.asarray(self.costs)
        return expected_losses(scaled, sets, self.target, empty_score=self.empty_score, costs=costs)

    def in_order(self, labels: Sequence[str]) -> LabelDecisions:
        """These decisions for the same labels in another order.

        Raises:
            ValueError: other labels.
        """
        own = list(self.labels or ())
        if own == list(labels):
            return self
        if others := sorted(set(own) ^ set(labels)):
            raise ValueError(
                f"the decisions are for {len(own)} labels, but there are {len(labels)}; {few([*map(repr, others)], 5)} "
                "in one of them alone. Fit the decisions on these labels."
            )
        places = [own.index(name) for name in labels]
        seen = self.seen and SeenSets(self.seen.sets[:, places], self.seen.counts, self.seen.num_rows)
        return replace(
            self,
            labels=list(labels),
            thresholds=None if self.thresholds is None else [self.thresholds[i] for i in places],
            costs=None if self.costs is None else [[row[i] for i in places] for row in self.costs],
            refused=[places.index(i) for i in self.refused],
            seen=seen,
            hierarchy=self.hierarchy and self.hierarchy.reordered(places),
        )

    def offsets(self) -> np.ndarray | float:
        """The amount logit(t), a number or (L,), to subtract from a bias so that 0.5 decides as the threshold did."""
        t = {FIXED: 0.5, THRESHOLD: self.threshold, "thresholds": self.thresholds}[self.named()]
        return logit(np.asarray(t, dtype=np.float64))

    def after_folding(self) -> LabelDecisions:
        """The decisions saved with a classifier whose bias holds the threshold. The other numbers are dropped, since
        they are for the scores before folding."""
        return LabelDecisions(folded=self.decoder, threshold=0.5)


def _column_names(values: Any) -> list[str] | None:
    """The names of the columns of a pandas frame, if all differ."""
    names = [name for name in getattr(values, "columns", ()) if isinstance(name, str)]
    return names if names and len({*names}) == np.shape(values)[1] else None


def _numbers(values: Any, name: str) -> np.ndarray:
    """An array of numbers, also of a sparse matrix. Raises ValueError for names, and for rows of different lengths."""
    try:
        array = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
        return array if array.dtype.kind in "biuf" else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` are no numbers (N, L), with a row for each input and a column for each label: {error}. Of lists "
            "of names, scikit-learn's MultiLabelBinarizer makes such rows of 0 and 1."
        ) from error


def _checked_pair(probabilities: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both as arrays of numbers. Raises ValueError for two that are not (N, L) each, or pandas frames of other columns
    or rows."""
    arrays = _numbers(probabilities, "probabilities"), _numbers(labels, "labels")
    shapes = arrays[0].shape, arrays[1].shape
    if not arrays[0].size:
        raise ValueError(f"`probabilities` have the shape {shapes[0]}: decisions are fitted on rows with labels.")
    if len(shapes[0]) != 2 or shapes[0] != shapes[1]:
        is_list = len(shapes[0]) == 3 and shapes[0][2] == 2
        hint = " Of scikit-learn's list take np.stack([p[:, 1] for p in probabilities], 1)." if is_list else ""
        raise ValueError(
            f"`probabilities` have the shape {shapes[0]} and `labels` {shapes[1]}; expected (N, L) for both.{hint}"
        )
    are_frames = hasattr(probabilities, "columns") and hasattr(labels, "columns")
    for name in ("columns", "index") if are_frames else ():  # of pandas frames, which are not aligned here
        ours, theirs = [*getattr(probabilities, name)], [*getattr(labels, name)]
        by_place = [*range(len(ours))] in (ours, theirs) and {*ours} != {*theirs}  # one of them has no names of its own
        if ours != theirs and not by_place:
            raise ValueError(
                f"`probabilities` have the {name} {few([*map(repr, ours)], 3)}, and `labels` "
                f"{few([*map(repr, theirs)], 3)}. Give labels.loc[probabilities.index, probabilities.columns], or, if "
                "rows and columns correspond as they are, to_numpy() of both."
            )
    return arrays
