"""The page of decisions on the probabilities of any model: the sections of a run without the run, reviews, guarantees.
No torch is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...reports.page.page import Number, Page, Plot, Section, Table, render
from ...reports.page.plots import lines
from .decisions.guarantees import COVERED, GUARANTEES, MISSED, OF_LABELS, PRECISION
from .decisions.label_decisions import LabelDecisions
from .decisions.review import entropies, review_curve
from .decisions.targets import COST, F1_EXAMPLE, target_scores
from .metrics import threshold_curve, with_known_labels
from .page import (
    Judged,
    decision_facts,
    error_rows,
    errors_section,
    labels_section,
    most_confident,
    reliability_plot,
    thresholds_plot,
)

ROWS = "these rows"
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
    """The page as HTML.

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
    judged = Judged(ROWS, probabilities, gold, decided)
    facts = decision_facts(decisions, threshold_curve(probabilities, gold), judged, labels)
    rows, scores = most_confident(judged)
    wrong = error_rows(judged, labels, rows, scores, ({"row": names[row]} for row in rows))
    sections = [
        _figures(decisions, results),
        Section("Decisions", [thresholds_plot(facts, {}, ROWS), reliability_plot(facts)]),
        _review(decisions, judged, labels, names),
        labels_section(results["labels"], facts["pairs"], ROWS),
        errors_section({"wrong": len(judged.wrong), "rows": wrong}, ROWS),
    ]
    if decisions.guarantee is not None:
        sections.insert(1, _guarantee(decisions, judged, labels, results))
    lead = (
        f"{len(gold):,} rows of {results['probabilities']}, {len(labels):,} labels, decided by {results['decoder']}. "
        "Nothing was fitted on these rows, unless the decisions were."
    )
    return render(Page("Decisions", sections, lead))


def _figures(decisions: LabelDecisions, results: Mapping[str, Any]) -> Section:
    shown = ("f1_example", "f1_micro", "f1_macro", "jaccard", "exact_match", "hamming_loss")
    rows = [{"decoder": name, **{key: of[key] for key in shown}} for name, of in results["decoders"].items()]
    marked = [i for i, row in enumerate(rows) if row["decoder"] == results["decoder"]]
    caption = (
        f"Figures of each decoder on {ROWS}; the one that decides is marked. It was chosen for {decisions.target}."
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
        f"The loss ({name}) of {ROWS} that is left if a person has corrected a share of them, those of the largest "
        f"expected loss first. Without a review it is {losses.mean():.4f}; after a tenth it is {at_tenth}."
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
        return Section("Guarantee", [said, Table(rows, f"The {key} of each label on {ROWS}.")])
    gold = judged.labels > 0
    missed = (gold & ~judged.decided).sum(1) / np.maximum(gold.sum(1), 1)
    share = float(missed.mean()) if asked["name"] == MISSED else float((missed == 0).mean())
    what = "are missed on average" if asked["name"] == MISSED else "of rows have all their gold labels"
    assert asked["name"] in (MISSED, COVERED), "the others are of labels"
    return Section("Guarantee", [f"Promised for new rows: {words}. On {ROWS}, {100 * share:.2f} % {what}."])
