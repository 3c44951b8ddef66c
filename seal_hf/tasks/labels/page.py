"""The sections on label sets: decisions and calibration, labels and their pairs, errors.

`label_facts` collects what they show at the end of a run. `label_sections` makes them of these facts and of
`label_report.json`, whenever the page is written. What needs a run is imported late: the page of `seal-hf decide
report` is written without torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from ...core.arrays import logit
from ...core.decisions import FIXED, THRESHOLD, as_threshold
from ...data.common import PAIR
from ...reports.page import MAX_ROWS, SHOWN, Number, Page, Plot, Section, Table, render
from ...reports.plots import lines, points
from ...utils.files import json_object
from ...utils.messages import PRINTED_LABELS, results_table
from .decisions.decoders import rescaled
from .decisions.guarantees import COVERED, GUARANTEES, MISSED, OF_LABELS, PRECISION
from .decisions.label_decisions import LabelDecisions
from .decisions.review import entropies, review_curve
from .decisions.targets import COST, F1_EXAMPLE, target_scores
from .metrics import (
    DEFAULT_GRID,
    F1_HIERARCHICAL,
    NUM_BINS,
    HierarchicalCounts,
    Reliability,
    SetCounts,
    check_entries,
    label_report,
    pair_counts,
    ranking_metrics,
    reliability,
    row_blocks,
    threshold_curve,
    with_known_labels,
)

if TYPE_CHECKING:
    from ...training.base import StructuredTrainer

OF_DECODERS = ("f1_example", "f1_micro", "f1_macro", "jaccard", "exact_match", "hamming_loss")  # for every decoder


def label_figures(
    probabilities: np.ndarray,
    gold: np.ndarray,
    labels: Sequence[str],
    decisions: LabelDecisions,
    decoder: str | None,
    origin: str,
) -> tuple[dict[str, Any], list[str]]:
    """Figures of label sets under one decoder, under every available one, and by label.

    Args:
        probabilities: (N, L) in [0, 1], float32 or float64: only blocks of rows are copied.
        gold: (N, L) of 0 and 1, or -1 for unknown; int8.
        labels: L names.
        decoder: the name of a decoder; default: the stored one.
        origin: where the decisions come from, in words.

    Returns:
        The figures as JSON, and tables for the terminal; the last one is of labels, if there are at most 40.

    Raises:
        ValueError: an unknown decoder.
    """
    chosen = decisions.decoder if decoder is None else decoder
    if as_threshold(chosen) is None:
        chosen = decisions.named(chosen)
    names = dict.fromkeys([*decisions.names, chosen])  # a given threshold is not among the names
    counts = DecidedCounts.of(decisions, names, probabilities, gold)
    by_decoder = {name: counts.figures(name) for name in names}
    figures = {**counts.sets[chosen].figures(), **ranking_metrics(probabilities, gold), **by_decoder[chosen]}
    by_label = counts.sets[chosen].report(labels)
    results = {
        "rows": len(gold),
        "decoder": chosen,
        "decisions": {"origin": origin, **decisions.as_json()},
        "figures": figures,
        "decoders": by_decoder,
        "labels": by_label,
    }
    shown = [*OF_DECODERS, *(key for key in (F1_HIERARCHICAL, COST) if key in by_decoder[chosen])]
    rows = [
        {"decoder": f"{name} *" if name == chosen else name, **{key: found[key] for key in shown}}
        for name, found in by_decoder.items()
    ]
    tables = [f"{len(gold)} rows, decoder {chosen} (*), {origin}"]
    if unknown := sum(int((gold[block] < 0).sum()) for block in row_blocks(gold)):
        tables.append(f"{unknown} of {gold.size} labels of rows are unknown (-1): they count in no figure.")
    tables.append(results_table([{"figure": name, "value": value} for name, value in figures.items()]))
    tables.append(results_table(rows))
    if len(labels) <= PRINTED_LABELS:
        tables.append(results_table([{"label": name, **of_label} for name, of_label in by_label.items()]))
    return results, tables


class DecidedCounts:
    """Counts of the label sets that several decoders decide, and their figures.

    Args:
        decisions: fitted on validation.
        names: the decoders; a threshold is one too.

    Attributes:
        sets: decoder -> counts of its sets.
    """

    def __init__(self, decisions: LabelDecisions, names: Iterable[str | float]):
        self.decisions = decisions
        self.sets: dict[Any, SetCounts] = {name: SetCounts() for name in names}
        hierarchy, self._rows = decisions.hierarchy, 0
        self._closed = {} if hierarchy is None else {name: HierarchicalCounts(hierarchy) for name in self.sets}

    @classmethod
    def of(
        cls, decisions: LabelDecisions, names: Iterable[str | float], probabilities: np.ndarray, labels: np.ndarray
    ) -> DecidedCounts:
        """The counts of whole arrays (N, L), as for `multilabel_metrics`, copied by blocks of rows only."""
        counts = cls(decisions, names)
        for rows in row_blocks(probabilities):
            p, gold = np.asarray(probabilities[rows], dtype=np.float64), labels[rows]
            counts.add(p, gold > 0, check_entries(p, gold, rows.start))
        return counts

    def add(self, p: np.ndarray, gold: np.ndarray, known: np.ndarray) -> None:
        """Count a block: probabilities, gold sets, and where a label is known, (n, L) each."""
        decided = self.decisions.decide_by(p, self.sets)
        SetCounts.add_all(self.sets.values(), decided.values(), gold, known)
        self._rows += int(known.any(1).sum())
        for name, counts in self._closed.items():
            counts.add(decided[name], gold, known)

    def figures(self, name: str | float, empty_score: float = 1.0) -> dict[str, float]:
        """The figures of a decoder; with a hierarchy hierarchical ones too, with costs the mean `cost` of a row."""
        found = {**self.sets[name].figures(empty_score), **self.hierarchical(name)}
        if self.decisions.costs is not None:
            hits, decided, gold, _ = self.sets[name].of_labels
            too_many, missing = np.asarray(self.decisions.costs)
            found[COST] = float((decided - hits) @ too_many + (gold - hits) @ missing) / self._rows
        return found

    def hierarchical(self, name: str | float) -> dict[str, float]:
        """The hierarchical figures of a decoder; empty without a hierarchy."""
        return self._closed[name].figures() if name in self._closed else {}


# The section on errors of label sets: the wrong rows about which the net was most confident, with their energies.

MOST_ERRORS = 20
TEXT = 300  # characters of a row's text
NAMES = 40  # labels of a set that the page lists
LEAST = 1e-12  # probabilities are cut to [LEAST, 1 - LEAST] before their log-odds
BLOCK = 1 << 21  # entries (row, label) at once, so that temporaries stay small


@dataclass(frozen=True)
class Judged:
    """The rows on which the page judges decisions: those of `test`, or of `eval` if `test` has no labels.

    Attributes:
        split: `test` or `eval`.
        probabilities: (N, L) in [0, 1].
        labels: (N, L), 0 or 1, or -1 or NaN for unknown.
        decided: (N, L) bool.
    """

    split: str
    probabilities: np.ndarray
    labels: np.ndarray
    decided: np.ndarray

    @cached_property
    def wrong(self) -> np.ndarray:
        """The rows with a wrong decision on a known label, ascending."""
        return np.flatnonzero((self.differences(slice(None)) != 0).any(1))

    def differences(self, rows: Any) -> np.ndarray:
        """(n, L) int8: 1 at labels that are decided and not gold, -1 at those that are gold and not decided; 0 if an
        entry is right or unknown."""
        labels = self.labels[rows]
        return np.where(labels >= 0, self.decided[rows].astype(np.int8) - (labels > 0), 0)


def row_facts(data: Any, split: str, rows: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Where each of these rows came from, and its texts, if it has any."""
    from ...reports.common import row_origin

    dataset, name = (data.test, "test") if split == "test" else (data.validation, "validation")
    texts = {column: dataset[column] for column in PAIR if column in dataset.column_names}
    for row in rows:
        yield {**row_origin(data, name, row), **{column: found[row] for column, found in texts.items()}}


def confidence(judged: Judged, rows: np.ndarray) -> np.ndarray:
    """log P(decided) - log P(gold) of these rows, (n,), by the net's probabilities p of independent labels: the sum of
    ln(p / (1 - p)) over labels that are decided and not gold, less that over labels that are gold and not decided. Each
    p is cut to [1e-12, 1 - 1e-12]. Unknown labels do not count."""
    parts = []
    for part in np.array_split(rows, 1 + len(rows) * judged.labels.shape[1] // BLOCK):
        p = np.asarray(judged.probabilities[part], dtype=np.float64).clip(LEAST, 1 - LEAST)
        parts.append((judged.differences(part) * logit(p)).sum(1))
    return np.concatenate(parts)


def error_facts(trainer: StructuredTrainer, splits: Mapping[str, Any], data: Any, judged: Judged) -> dict[str, Any]:
    """The wrong rows about which the net was most confident, as JSON. Called in the main process alone.

    Args:
        splits: name -> the rows of `data` as the task-net reads them.
        data: from [`load_multilabel`].
    """
    import torch

    from ...training.evaluation import energies, has_energies

    rows, scores = most_confident(judged)
    sets = np.stack(_sets(judged, rows), axis=1)  # (n, 2, L)
    found = error_rows(judged, data.label_names, rows, scores, row_facts(data, judged.split, rows))
    if rows and has_energies(trainer):
        pairs = energies(trainer, splits[judged.split].batch(rows), torch.from_numpy(sets).float())
        for error, (of_gold, of_decided) in zip(found, pairs or [], strict=pairs is not None):
            error |= {"energy_gold": of_gold, "energy_decided": of_decided}
    return {"wrong": len(judged.wrong), "rows": found}


def most_confident(judged: Judged) -> tuple[list[int], list[float]]:
    """The wrong rows about which the net was most confident, and how confident it was of each."""
    scores = confidence(judged, judged.wrong)
    places = np.argsort(-scores, kind="stable")[:MOST_ERRORS]
    return judged.wrong[places].tolist(), scores[places].tolist()


def _sets(judged: Judged, rows: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The gold and the decided sets of some rows, (n, L) bool each, without unknown labels."""
    known = judged.labels[rows] >= 0
    return judged.labels[rows] > 0, judged.decided[rows] & known


def error_rows(
    judged: Judged,
    names: Sequence[str],
    rows: Sequence[int],
    scores: Sequence[float],
    origins: Iterable[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Wrong rows as JSON: where each is from, its texts, its sets and the confidence of the net."""
    found: list[dict[str, Any]] = []
    for score, *pair, said in zip(scores, *_sets(judged, rows), origins, strict=True):
        texts = {name: _cut(said.pop(name)) for name in PAIR if name in said}
        gold, decided = ([names[i] for i in np.flatnonzero(one).tolist()] for one in pair)
        found.append({"from": said, **texts, "gold": gold, "decided": decided, "confidence": score})
    return found


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[:TEXT]}…"


def errors_section(errors: Mapping[str, Any], split: str) -> Section:
    """The section on wrong rows.

    Args:
        errors: from `error_facts`.
        split: its name for readers.
    """
    found = errors["rows"]
    if not found:
        return Section("Errors", [f"No row of {split} has a wrong label."])
    columns = {"confidence": "confidence", "energy_gold": "E(gold)", "energy_decided": "E(decided)"}
    rows = [
        {name: _place(value) for name, value in error["from"].items() if name != "source"}
        | {name: error[name] for name in PAIR if name in error}
        | {name: _names(error, name) for name in ("gold", "decided")}
        | {column: Number(error[name], f"{error[name]:.2f}") for name, column in columns.items() if name in error}
        for error in found
    ]
    sources = " and ".join(dict.fromkeys(str(error["from"]["source"]) for error in found if "source" in error["from"]))
    caption = (
        f"{errors['wrong']:,} rows of {split} have a wrong label. These are the {len(rows)} where the net was most "
        "confident. Some may be mislabelled. Confidence is log P(decided) - log P(gold), in nats, by the net's "
        "probabilities of independent labels. Labels in red are in one of the two sets only."
    )
    if "energy_gold" in found[0]:
        lower = sum(error["energy_gold"] < error["energy_decided"] for error in found)
        caption += (
            f" A lower energy E is better: of these rows, the energy prefers gold in {lower}, and the decision in "
            f"{len(found) - lower}."
        )
    if sources:
        caption += f" The rows are those of {sources}."
    return Section("Errors", [Table(rows, caption, saved_as="errors.csv")])


def _place(value: Any) -> Any:
    """The number of a line or row, or an id, as a cell: numbers without a comma."""
    return Number(value, str(value)) if isinstance(value, int) else str(value)


def _names(error: Mapping[str, Any], which: str) -> Markup:
    """The labels of a set, those first that the other set lacks, in red."""
    own, other = error[which], set(error["decided" if which == "gold" else "gold"])
    ordered = sorted(own, key=lambda name: name in other)
    shown = [escape(name) if name in other else Markup('<b class="bad">{}</b>').format(name) for name in ordered]
    more = [f"{len(shown) - NAMES:,} more"] if len(shown) > NAMES else []
    return Markup(", ").join([*shown[:NAMES], *more]) if shown else Markup("<i>none</i>")


MOST_PAIRS = 30  # in the table
MOST_NAMES = 6  # points with a name in a plot
MOST_POINTS = 2000  # in the plot of pairs
FEW_ENTRIES = 20  # a bin with fewer is not drawn


# --- what a run finds out ---------------------------------------------------------------------------------------------


def label_facts(
    trainer: StructuredTrainer,
    splits: Mapping[str, Any],
    data: Any,
    decisions: LabelDecisions,
    curve: np.ndarray,
    judged: Judged | None,
) -> dict[str, Any]:
    """The facts of these sections, as JSON. Called in the main process alone.

    Args:
        splits: name -> the rows of `data` as the task-net reads them.
        data: from [`load_multilabel`].
        decisions: fitted on validation.
        curve: (G,) example F1 of validation at each threshold of `DEFAULT_GRID`.
        judged: None if the probabilities are too many to keep: only the facts on thresholds are found.
    """
    found = decision_facts(decisions, curve, judged, data.label_names)
    if judged is not None:
        found["errors"] = error_facts(trainer, splits, data, judged)
    return found


def decision_facts(
    decisions: LabelDecisions, curve: np.ndarray, judged: Judged | None, names: Sequence[str]
) -> dict[str, Any]:
    """The part of [`label_facts`] that needs no run. `names` are those of the labels."""
    found: dict[str, Any] = {
        "decoder": decisions.decoder,
        "thresholds": {"grid": DEFAULT_GRID.tolist(), "f1": curve.tolist(), "tuned": decisions.threshold},
    }
    if judged is None:
        return found
    found |= {"split": judged.split, "rows": len(judged.labels)}
    found["reliability"] = {"before": _bins(reliability(judged.probabilities, judged.labels))}
    if decisions.calibration is not None:
        scaled = rescaled(judged.probabilities, *decisions.calibration)
        found["reliability"]["after"] = _bins(reliability(scaled, judged.labels))
        found["calibration"] = dict(zip(("scale", "shift"), decisions.calibration, strict=True))
    found["pairs"] = _pairs(judged, names)
    if judged.split != "test":  # else it is in LABEL_REPORT
        found["by_label"] = label_report(judged.decided, judged.labels, names)
    return found


def _bins(found: Reliability) -> dict[str, Any]:
    columns = {name: column.tolist() for name, column in found._asdict().items()}
    return columns | {"error": found.error}


def _pairs(judged: Judged, names: Sequence[str]) -> dict[str, Any]:
    """The pairs with the largest differences, and the points of the plot: pairs with equal counts are one point."""
    counts = pair_counts(judged.decided, judged.labels)
    differences = np.abs(counts.decided - counts.gold)
    distinct = np.unique(np.stack([counts.gold, counts.decided], axis=1), axis=0)
    largest = np.argsort(-distinct.max(1, initial=0), kind="stable")[:MOST_POINTS]
    most = [
        {
            "labels": [names[counts.first[i]], names[counts.second[i]]],
            "gold": int(counts.gold[i]),
            "decided": int(counts.decided[i]),
        }
        for i in np.argsort(-differences, kind="stable")[:MOST_PAIRS]
    ]
    return {
        **{"labels": len(counts.labels), "of": len(names), "pairs": len(counts.first)},
        **{"gold": int(counts.gold.sum()), "decided": int(counts.decided.sum())},
        **{"distinct": len(distinct), "points": distinct[np.sort(largest)].tolist(), "most": most},
    }


# --- what the page shows ----------------------------------------------------------------------------------------------


def label_sections(facts: Mapping[str, Any], folder: Path) -> list[Section]:
    """The sections of label sets on the page of a run.

    Args:
        facts: from `label_facts`.
        folder: of the run; its `label_report.json` has the figures of the labels. Without it they are left out.
    """
    from ...reports.common import LABEL_REPORT, results_of

    decisions = Section("Decisions", [thresholds_plot(facts, results_of(folder))])
    if "split" not in facts:
        said = "The probabilities of all rows were too many to keep: nothing is shown of labels, pairs and errors."
        decisions.parts.append(said)
        return [decisions]
    decisions.parts.append(reliability_plot(facts))
    split, by_label, file = SHOWN.get(facts["split"], facts["split"]), facts.get("by_label", {}), folder / LABEL_REPORT
    if not by_label and file.is_file():
        by_label = json_object(file, "Remove it, and train again to write it anew.")
    labels = labels_section(by_label, facts["pairs"], split)
    labels.parts[:0] = filter(None, [facts.get("missed")])
    return [decisions, labels, errors_section(facts["errors"], split)]


def thresholds_plot(facts: Mapping[str, Any], results: Mapping[str, float], rows: str = "validation rows") -> Plot:
    """A plot of the example F1 of these rows against the threshold."""
    grid, f1, tuned = (facts["thresholds"][name] for name in ("grid", "f1", "tuned"))
    at = dict(zip(grid, f1, strict=True))
    of_tuned = f"tuned threshold has {at[tuned]:.4f}" if tuned in at else f"threshold of the guarantee is {tuned:.4g}"
    marked = {f"tuned: {tuned:.4g}": tuned} | ({} if tuned == 0.5 else {"0.5": 0.5})
    chosen = {FIXED: 0.5, THRESHOLD: tuned}.get(facts["decoder"])
    series = {"one threshold": (grid, f1)}
    caption = (
        f"Example F1 of {rows} if every label whose probability reaches the threshold is decided. The "
        f"{of_tuned}, 0.5 has {at[0.5]:.4f}. A flat top means that the threshold hardly matters. A "
        "top far from 0.5 means that 0.5 judges the scale of the probabilities, not the net."
    )
    if chosen is not None:
        caption += f" The model saves the threshold {chosen:g}."
    else:
        caption += f" The model saves another decoder, {facts['decoder']}"
        decided = results.get("eval_f1_example_decided")
        if decided is not None:
            series["the saved decisions"] = (grid, [decided] * len(grid))
            caption += f", which has {decided:.4f} here"
        caption += "."
    drawn = lines(series, "threshold", "example F1", marked=marked)
    numbers = [{"threshold": threshold, "example F1": value} for threshold, value in at.items()]
    return Plot(drawn, caption, Table(numbers, marked=[n for n, t in enumerate(grid) if t in (tuned, 0.5)]))


def reliability_plot(facts: Mapping[str, Any]) -> Plot:
    """A plot of observed against predicted frequency, before and after calibration."""
    names = {"before": "as predicted", "after": "calibrated"}
    found = {names[when]: bins for when, bins in facts["reliability"].items()}
    series, rows = {}, []
    for name, bins in found.items():
        each = list(zip(bins["entries"], bins["predicted"], bins["observed"], strict=True))
        many = [(predicted, observed) for entries, predicted, observed in each if entries >= FEW_ENTRIES]
        series[name] = [predicted for predicted, _ in many], [observed for _, observed in many]
        for number, (entries, predicted, observed) in enumerate(each):
            row = {"bin": f"{number / NUM_BINS:.1f} to {(number + 1) / NUM_BINS:.1f}", "probabilities": name}
            rows.append(row | {"entries": entries, "mean probability": predicted, "gold": observed})
    split = SHOWN.get(facts["split"], facts["split"])
    errors = " and ".join(f"{bins['error']:.4f} {name}" for name, bins in found.items())
    caption = (
        f"How often a label is gold, against its probability: all entries (row, label) of {split}, in {NUM_BINS} bins "
        f"of equal width. Bins with fewer than {FEW_ENTRIES} entries are only in the numbers. On the dotted line "
        "probabilities are what they say; below it they are too high. The expected calibration error, the mean "
        f"distance from that line over entries, is {errors}."
    )
    if scaling := facts.get("calibration"):
        used = "uses" if facts["decoder"].startswith("calibrated") else "does not use"
        caption += (
            f" The calibration, fitted on validation, multiplies log-odds by {scaling['scale']:.3g} and adds "
            f"{scaling['shift']:.3g}. The saved decoder {used} it."
        )
    drawn = lines(series, "mean probability", "share that is gold", diagonal=True)
    return Plot(drawn, caption, Table(rows))


def labels_section(by_label: Mapping[str, Any], pairs: Mapping[str, Any], split: str) -> Section:
    """The section on labels: F1 against support, the pairs, and the tables of both."""
    columns = {"precision": "precision", "recall": "recall", "f1": "F1", "support": "rows"}
    rows = [
        {"label": name} | {column: figures[key] for key, column in columns.items()}
        for name, figures in sorted(by_label.items(), key=lambda item: -item[1]["support"])
    ]
    seen = [row for row in rows if row["rows"]]
    caption = (
        f"F1 of each label on {split} against its support, the rows that have it. Frequent labels with a low "
        "F1 cost the most. Those with few rows go up and down by chance. The numbers are in the table of labels."
    )
    if len(seen) < len(rows):
        caption += f" {len(rows) - len(seen):,} labels that no row has are left out."
    parts: list[Any] = []
    if seen:
        x, y = ([row[name] for row in seen] for name in ("rows", "F1"))
        costly = sorted(range(len(seen)), key=lambda i: -x[i] * (1 - y[i]))[
            :MOST_NAMES
        ]  # most rows without a right label
        names = {i: _short(seen[i]["label"]) for i in costly}
        drawn = points(x, y, "rows that have the label", "F1", logarithmic_x=max(x) > 10 * min(x), names=names)
        parts.append(Plot(drawn, f"{caption} Named are those that cost most.", None))
    if pairs["pairs"]:
        parts.append(_pairs_plot(pairs, split))
    if rows:
        first = f" The first {MAX_ROWS:,} of {len(rows):,} are shown." if len(rows) > MAX_ROWS else ""
        title = f"The labels on {split}, those with most rows first.{first} A click on a column's name sorts by it."
        parts.append(Table(rows, title))
    if pairs["pairs"]:
        listed = [
            {"label": one["labels"][0], "and": one["labels"][1]}
            | {name: one[name] for name in ("gold", "decided")}
            | {"difference": one["decided"] - one["gold"]}
            for one in pairs["most"]
        ]
        parts.append(
            Table(listed, f"The {len(listed)} pairs of labels whose counts differ most on {split}.", folded=True)
        )
    return Section("Labels", parts)


def _short(name: str) -> str:
    """A label's name in a plot."""
    return name if len(name) <= 24 else f"{name[:23]}…"


def _pairs_plot(pairs: Mapping[str, Any], split: str) -> Plot:
    """How often two labels are decided together, against how often they are gold together."""
    among = f" among the {pairs['labels']:,} most frequent of {pairs['of']:,} labels" * (pairs["labels"] < pairs["of"])
    caption = (
        f"Pairs of labels: the rows of {split} whose decided set has both, against those whose gold set has both, for "
        f"{pairs['pairs']:,} pairs{among} that occur in either. All pairs taken together are decided "
        f"{pairs['decided']:,} times and gold {pairs['gold']:,} times. Above the dotted line two labels are joined too "
        "often, below it too rarely."
    )
    if pairs["distinct"] > len(pairs["points"]):
        caption += f" The {len(pairs['points']):,} points with the largest counts are drawn."
    x, y = zip(*pairs["points"], strict=True)
    places = {pair: i for i, pair in enumerate(zip(x, y, strict=True))}
    named = [(places.get((one["gold"], one["decided"])), one["labels"]) for one in pairs["most"][:MOST_NAMES]]
    names = {i: " & ".join(map(_short, labels)) for i, labels in named if i is not None}
    drawn = points(x, y, "rows, gold", "rows, decided", counts=True, names=names)
    rows = [{"gold": gold, "decided": decided} for gold, decided in pairs["points"]]
    return Plot(drawn, caption, Table(rows, "Pairs with equal counts are one point."))


THESE_ROWS = "these rows"
POINTS = 101  # of the curve of reviews
MOST_REVIEWED = 20  # rows in the table
LOSSES = {F1_EXAMPLE: "1 - F1", "jaccard": "1 - Jaccard index", "exact_match": "share of wrong sets", COST: "cost"}


def decided_page(
    decisions: LabelDecisions,
    probabilities: np.ndarray,
    gold: np.ndarray,
    labels: Sequence[str],
    results: Mapping[str, Any],
    ids: Sequence[str] | None = None,
) -> str:
    """The page of decisions on the probabilities of any model, as HTML.

    Args:
        decisions: by which the rows are decided.
        probabilities: (N, L) in [0, 1].
        gold: (N, L) of 0 and 1, or -1 for unknown.
        labels: L names.
        results: from `label_figures`; its `decoder` decides.
        ids: N ids of the rows; default: their numbers.
    """
    names = np.array([*map(str, range(len(gold)))] if ids is None else ids, dtype=object)
    known = (gold >= 0).any(1)
    (probabilities, gold), names = with_known_labels(probabilities, gold), names[known]
    decided = decisions.decide(probabilities, results["decoder"])
    judged = Judged(THESE_ROWS, probabilities, gold, decided)
    facts = decision_facts(decisions, threshold_curve(probabilities, gold), judged, labels)
    rows, scores = most_confident(judged)
    wrong = error_rows(judged, labels, rows, scores, ({"row": names[row]} for row in rows))
    sections = [
        _decided_figures(decisions, results),
        Section("Decisions", [thresholds_plot(facts, {}, THESE_ROWS), reliability_plot(facts)]),
        _review(decisions, judged, labels, names),
        labels_section(results["labels"], facts["pairs"], THESE_ROWS),
        errors_section({"wrong": len(judged.wrong), "rows": wrong}, THESE_ROWS),
    ]
    if decisions.guarantee is not None:
        sections.insert(1, _guarantee(decisions, judged, labels, results))
    lead = (
        f"{len(gold):,} rows of {results['probabilities']}, {len(labels):,} labels, decided by {results['decoder']}. "
        "Nothing was fitted on these rows, unless the decisions were."
    )
    return render(Page("Decisions", sections, lead))


def _decided_figures(decisions: LabelDecisions, results: Mapping[str, Any]) -> Section:
    rows = [{"decoder": name, **{key: of[key] for key in OF_DECODERS}} for name, of in results["decoders"].items()]
    marked = [i for i, row in enumerate(rows) if row["decoder"] == results["decoder"]]
    caption = (
        f"Figures of each decoder on {THESE_ROWS}; the one that decides is marked. It was chosen for "
        f"{decisions.target}."
    )
    all_of_it = [{"figure": name, "value": value} for name, value in results["figures"].items()]
    return Section("Figures", [Table(rows, caption, marked), Table(all_of_it, "All figures of its sets.", folded=True)])


def _review(decisions: LabelDecisions, judged: Judged, labels: Sequence[str], names: np.ndarray) -> Section:
    """The loss that is left against the share of rows that a person has seen, and the first rows."""
    expected = decisions.expected_losses(judged.probabilities, judged.decided)
    costs = None if decisions.costs is None else np.asarray(decisions.costs)
    if decisions.target in LOSSES:
        scores = target_scores(decisions.target, judged.decided, judged.labels, decisions.empty_score, costs)
        losses = -scores if decisions.target == COST else 1 - scores
    else:
        losses = (judged.differences(slice(None)) != 0).mean(1)
    name = LOSSES.get(decisions.target, "share of wrong labels")
    places = np.linspace(0, len(losses), POINTS).round().astype(int)
    shares = (places / max(len(losses), 1)).tolist()
    orders = {"by expected loss": expected, "by entropy": entropies(judged.probabilities)}
    series = {order: (shares, review_curve(by, losses)[places].tolist()) for order, by in orders.items()}
    series["random rows"] = [0.0, 1.0], [float(losses.mean()), 0.0]
    tenth = int(np.searchsorted(shares, 0.1))
    at_tenth = ", ".join(f"{values[tenth]:.4f} {order}" for order, (_, values) in series.items() if len(values) > 2)
    caption = (
        f"The loss ({name}) of {THESE_ROWS} that is left if a person has corrected a share of them, those of the "
        f"largest expected loss first. Without a review it is {losses.mean():.4f}; after a tenth it is {at_tenth}."
    )
    columns = {order: values for order, (_, values) in series.items() if len(values) > 2}
    numbers = [
        {"share": share, **{order: values[i] for order, values in columns.items()}} for i, share in enumerate(shares)
    ]
    first = np.argsort(-expected, kind="stable")[:MOST_REVIEWED]
    rows = [
        {
            "row": str(names[row]),
            "decided": ", ".join(labels[i] for i in np.flatnonzero(judged.decided[row]).tolist()) or "none",
            "gold": ", ".join(labels[i] for i in np.flatnonzero(judged.labels[row] > 0).tolist()) or "none",
            "expected loss": Number(float(expected[row]), f"{expected[row]:.4f}"),
            "loss": Number(float(losses[row]), f"{losses[row]:.4f}"),
        }
        for row in first
    ]
    drawn = lines(series, "share of rows reviewed", f"mean {name} left")
    return Section("Review", [Plot(drawn, caption, Table(numbers)), Table(rows, f"The {len(rows)} rows to see first.")])


def _guarantee(decisions: LabelDecisions, judged: Judged, labels: Sequence[str], results: Mapping[str, Any]) -> Section:
    """What was promised, and what these rows have."""
    asked = decisions.guarantee
    assert asked is not None, "as the caller has seen"
    words = GUARANTEES[asked["name"]].format(100 * asked["value"])
    if asked["name"] in OF_LABELS:
        key = "precision" if asked["name"] == PRECISION else "recall"
        said = f"Promised for new rows: {words}, for each label with a confidence of {100 * asked['confidence']:g} %."
        refused = set(decisions.refused)
        rows = [
            {"label": name, key: None if i in refused else results["labels"][name][key], "refused": i in refused}
            for i, name in enumerate(labels)
        ]
        return Section("Guarantee", [said, Table(rows, f"The {key} of each label on {THESE_ROWS}.")])
    gold = judged.labels > 0
    missed = (gold & ~judged.decided).sum(1) / np.maximum(gold.sum(1), 1)
    share = float(missed.mean()) if asked["name"] == MISSED else float((missed == 0).mean())
    what = "are missed on average" if asked["name"] == MISSED else "of rows have all their gold labels"
    assert asked["name"] in (MISSED, COVERED), "the others are of labels"
    return Section("Guarantee", [f"Promised for new rows: {words}. On {THESE_ROWS}, {100 * share:.2f} % {what}."])
