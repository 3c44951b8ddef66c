"""`seal-hf decide`: label sets from the probabilities of any model. Modules that need a library are imported late, so
that mistakes in flags are reported at once."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...cli.decide import Fitted, Measured, tell
from ...utils.messages import few

if TYPE_CHECKING:
    import numpy as np

    from ...data.score_files import Scores
    from .decisions.label_decisions import LabelDecisions

WRITTEN, REPORTED = (".csv", ".tsv", ".jsonl", ".parquet"), (".json", ".html")


def fit(options: Namespace) -> Fitted:
    """Fit decisions."""
    from .decisions.guarantees import CONFIDENCE
    from .decisions.label_decisions import LabelDecisions
    from .decisions.targets import COST, LOWER_IS_BETTER, options_of, reported

    guarantee = _guarantee(options.guarantee)
    if options.confidence is not None and guarantee is None:
        raise ValueError("`confidence` is for a --guarantee. Leave it out.")
    for name in ("decoder", "hierarchy"):
        if guarantee is not None and getattr(options, name) is not None:
            raise ValueError(f"`{name}` is given, but a --guarantee has its own thresholds. Leave one of the two out.")
    if options.target[0] != COST:
        options_of(options.target, ())  # a mistake is found before the rows are read
    scores, gold = _scores_and_gold(options)
    about = options_of(options.target, scores.labels)
    if guarantee is not None:
        name, value = guarantee
        confidence = CONFIDENCE if options.confidence is None else options.confidence
        decisions = LabelDecisions.fit_guarantee(scores.values, gold, name, value, confidence, **about)
    else:
        if options.hierarchy is not None:
            from ...data.hierarchy import hierarchy_of_labels

            about["hierarchy"] = hierarchy_of_labels(options.hierarchy, scores.labels)
            gold = about["hierarchy"].closed(gold)
        about |= {"decoder": options.decoder, "never_empty": bool((gold.max(1) > 0).all())}
        decisions = LabelDecisions.fit(scores.values, gold, **about)
    decisions.labels = scores.labels
    rows = f"{len(gold):,} rows, {len(scores.labels):,} labels"
    figure = LOWER_IS_BETTER.get(decisions.target, decisions.target)
    crossed = (decisions.crossed or {}).items()
    figures = {name: {figure: reported(decisions.target, value)} for name, value in crossed}
    notes = ["", "Cross-fitted: each fifth is decided with numbers of the other four."] if figures else []
    return Fitted(decisions, rows, figures, [*notes, *_promised(decisions)])


def apply(options: Namespace, output: Path | None) -> list[str]:
    """Write the decided labels of each row; what to tell."""
    import numpy as np
    import pyarrow as pa

    from ...data.label_cells import DIGITS, label_cells, probability_cells
    from ...data.writers import table_writer
    from ...utils.faults import writing
    from .decisions.review import rows_to_review

    decisions = _decisions(options)
    if options.review is not None:
        rows_to_review(np.zeros(0), options.review)  # a mistake is found before the rows are read
    scores = _scores(options, decisions)
    decided = decisions.decide(scores.values, options.decoder)
    suffix = ".jsonl" if output is None else output.suffix.lower()
    columns: dict[str, Any] = {"row": [*range(len(decided))]} if scores.ids is None else {"id": scores.ids}
    columns["labels"] = label_cells(decided, scores.labels, suffix)
    columns["probabilities"] = probability_cells(scores.values.round(DIGITS), decided, scores.labels)
    losses = decisions.expected_losses(scores.values, decided)
    columns["expected_loss"] = losses.round(DIGITS).tolist()
    if options.review is not None:
        columns["review"] = rows_to_review(losses, options.review).tolist()
    types = pa.schema(
        [("labels", pa.list_(pa.string())), ("probabilities", pa.map_(pa.string(), pa.float64()))]
        + ([] if options.review is None else [("review", pa.bool_())])
    )
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    with writing(output or "the standard output"), table_writer(output, types, options.escape_formulas) as writer:
        writer.write(rows)
    notes = [*writer.notes]
    if options.review is not None:
        notes.append(f"{sum(columns['review'])} of {len(rows)} rows to review.")
    return notes if output is None else [*notes, f"{len(rows)} rows in {output}."]


def report(options: Namespace) -> Measured:
    """Figures of decisions on labelled rows."""
    from .page import decided_page, label_figures

    decisions = _decisions(options)
    scores, gold = _scores_and_gold(options, decisions)
    if decisions.hierarchy is not None:
        gold = decisions.hierarchy.closed(gold)
    origin = f"of {options.decisions}"
    results, tables = label_figures(scores.values, gold, scores.labels, decisions, options.decoder, origin)
    results = {"probabilities": options.probabilities, "gold": options.gold, **results}
    page = partial(decided_page, decisions, scores.values, gold, scores.labels, results, scores.ids)
    return Measured(results, tables, page)


# --- files ------------------------------------------------------------------------------------------------------------


def _decisions(options: Namespace) -> LabelDecisions:
    from ...core.decisions import as_threshold
    from .decisions.label_decisions import LabelDecisions

    decisions = LabelDecisions.load(options.decisions)
    if decisions.labels is None:
        raise ValueError(f"{options.decisions} names no labels. Write it by `seal-hf decide fit`.")
    if options.decoder is not None and as_threshold(options.decoder) is None:
        decisions.named(options.decoder)
    return decisions


def _scores(options: Namespace, decisions: LabelDecisions | None = None) -> Scores:
    from ...data.score_files import read_scores

    labels = None if decisions is None else decisions.labels
    scores = read_scores(options.probabilities, logits=options.logits, id_column=options.id_column, labels=labels)
    tell(scores.notes)
    return scores


def _scores_and_gold(options: Namespace, decisions: LabelDecisions | None = None) -> tuple[Scores, np.ndarray]:
    from ...data.score_files import read_gold, shared_ids

    options.id_column, notes = shared_ids(
        options.probabilities, options.gold, options.id_column, (options.label_column,)
    )
    tell(notes)
    scores = _scores(options, decisions)
    columns = {name: getattr(options, name) for name in ("id_column", "label_column", "label_format")}
    gold, notes = read_gold(options.gold, scores, **columns)
    tell(notes)
    return scores, gold


def _guarantee(words: Sequence[str] | None) -> tuple[str, float] | None:
    from ...utils.options import check_value
    from .decisions.guarantees import GUARANTEES

    if words is None:
        return None
    check_value("guarantee", words[0], GUARANTEES)
    with suppress(ValueError):
        if 0 < (value := float(words[1])) < 1:
            return words[0], value
    raise ValueError(
        f"`guarantee` is {' '.join(words)!r}; expected a number above 0 and below 1 after {words[0]}, such as 0.9."
    )


def _promised(decisions: LabelDecisions) -> list[str]:
    """A guarantee in words, and the labels that are refused; empty without one."""
    from .decisions.guarantees import GUARANTEES, OF_LABELS

    if (asked := decisions.guarantee) is None:
        return []
    words = GUARANTEES[asked["name"]].format(100 * asked["value"])
    sure = f", with a confidence of {100 * asked['confidence']:g} % each" if asked["name"] in OF_LABELS else ""
    said = [f"For rows drawn as these were: {words}{sure}."]
    if decisions.refused and decisions.labels is not None:
        names = few([repr(decisions.labels[i]) for i in decisions.refused], 20)
        said.append(f"Refused, {len(decisions.refused)} labels that these rows cannot show to reach it: {names}.")
    return said
