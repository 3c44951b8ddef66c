"""`seal-hf decide fit`, `apply` and `report`: decisions on the probabilities of any model. No torch is imported."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...cli.outputs.flags import Flags
from ...cli.predict import CELLS, check_format, check_new
from ...utils.messages import check_owner, few, printable

if TYPE_CHECKING:
    import numpy as np

    from ...data.score_files import Scores
    from .decisions.label_decisions import LabelDecisions

TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
FIT = "Fit decisions on probabilities of validation rows and their gold labels, and write them to a file."
APPLY = "Decide on probabilities of new rows by decisions that `decide fit`, or `LabelDecisions.save`, wrote."
REPORT = "Measure decisions on probabilities of labelled rows, and write a page. Nothing is fitted on them."


def fit(argv: Sequence[str] | None = None) -> None:
    """Fit decisions, write them, and print how well each decoder does.

    Args:
        argv: the command line without the program's name; default `sys.argv[1:]`.

    Raises:
        ValueError, OSError: one line tells what is wrong and what to do.
    """
    flags = fit_flags()
    options = flags.parsed(argv)
    output = Path(options.output)
    check_new(output, options.overwrite, options.probabilities)
    check_format(output, (".json",))
    if (task := _task(options)) is not None:
        print(printable(task.fit(options, output)))
        return
    from .decisions.guarantees import CONFIDENCE
    from .decisions.label_decisions import LabelDecisions

    target, costs_file = _target(options.target)
    guarantee = _guarantee(options.guarantee)
    if options.confidence is not None and guarantee is None:
        raise ValueError("`confidence` is for a --guarantee. Leave it out.")
    if guarantee is not None and options.decoder is not None:
        raise ValueError("`decoder` is given, but a --guarantee has its own thresholds. Leave one of the two out.")
    scores, gold = _scores_and_gold(flags, options)
    if guarantee is not None:
        name, value = guarantee
        confidence = CONFIDENCE if options.confidence is None else options.confidence
        decisions = LabelDecisions.fit_guarantee(scores.values, gold, name, value, confidence, target=target)
    else:
        costs = None if costs_file is None else _costs(costs_file, scores.labels)
        decisions = LabelDecisions.fit(
            scores.values,
            gold,
            never_empty=bool((gold.max(1) > 0).all()),
            decoder=options.decoder,
            target=target,
            costs=costs,
        )
    decisions.labels = scores.labels
    decisions.save(output)
    print(printable("\n".join(_fitted(decisions, scores, output))))


def apply(argv: Sequence[str] | None = None) -> None:
    """Write the decided labels of each row. Arguments and errors as for `fit`."""
    flags = apply_flags()
    options = flags.parsed(argv)
    output = None if options.output is None else Path(options.output)
    check_new(output, options.overwrite, options.probabilities)
    check_format(output, (".npz",) if options.task == MASKS else TABLES)
    if options.escape_formulas and (output is None or output.suffix.lower() not in CELLS):
        raise ValueError("`escape_formulas` is for an output of type .csv or .tsv. Leave it out.")
    if (task := _task(options)) is not None:
        count = task.apply(options, output)
        if output is not None:
            _note(flags, f"{count} rows in {output}.")
        return
    import numpy as np
    import pyarrow as pa

    from ...data.label_cells import DIGITS, label_cells, probability_cells
    from ...data.writers import table_writer
    from ...utils.faults import writing
    from .decisions.review import rows_to_review

    decisions = _decisions(options)
    if options.review is not None:
        rows_to_review(np.zeros(0), options.review)  # a mistake is found before the rows are read
    scores = _scores(flags, options, decisions)
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
    for note in writer.notes:
        _note(flags, note)
    if options.review is not None:
        _note(flags, f"{sum(columns['review'])} of {len(rows)} rows to review.")
    if output is not None:
        _note(flags, f"{len(rows)} rows in {output}.")


def report(argv: Sequence[str] | None = None) -> None:
    """Print figures of decisions on labelled rows, and write them as JSON or as a page. Arguments as for `fit`."""
    flags = report_flags()
    options = flags.parsed(argv)
    output = None if options.output is None else Path(options.output)
    check_new(output, options.overwrite, options.probabilities)
    if output is not None:
        check_format(output, (".json", ".html") if options.task == LABELS else (".json",))
    if (task := _task(options)) is not None:
        print(printable(task.report(options, output)))
        return
    if output is not None and output.suffix.lower() == ".html":
        from ...reports.page.plots import has_matplotlib

        if not has_matplotlib():
            raise ValueError("the page needs matplotlib: pip install 'seal_hf[plot]'.")
    from .page import label_figures

    decisions = _decisions(options)
    scores, gold = _scores_and_gold(flags, options, decisions)
    origin = f"of {options.decisions}"
    results, tables = label_figures(scores.values, gold, scores.labels, decisions, options.decoder, origin)
    results = {"probabilities": options.probabilities, "gold": options.gold, **results}
    if output is not None:
        from ...utils.files import whole_file

        if output.suffix.lower() == ".html":
            from .page import decided_page

            text = decided_page(decisions, scores.values, gold, scores.labels, results, scores.ids)
        else:
            text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
        with whole_file(output) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    print(printable("\n\n".join(tables)))


LABELS, TAGS, MASKS = "labels", "tags", "masks"
OF_LABELS = ("target", "guarantee", "confidence", "logits", "review", "label_format")


def _task(options: Namespace) -> Any:
    """The module that decides tags or masks; None for label sets. Raises ValueError for a flag of label sets."""
    if options.task == LABELS:
        return None
    usual = {"target": ["f1_example"], "logits": False, "label_format": "auto"}
    given = {name: getattr(options, name, None) for name in OF_LABELS}
    check_owner(
        {name: value for name, value in given.items() if value != usual.get(name)},
        "label sets",
        f"`task` is {options.task}",
    )
    return import_module(f"seal_hf.tasks.{options.task}.decide")


# --- flags ------------------------------------------------------------------------------------------------------------


def fit_flags() -> Flags:
    """The flags of `decide fit`."""
    flags = Flags("seal-hf decide fit", FIT)
    _add_scores(flags)
    _add_gold(flags)
    flags.flag("output", required=True, metavar="FILE.json", help="The decisions go to this file.")
    flags.flag(
        "target",
        nargs="+",
        default=["f1_example"],
        metavar="NAME",
        help="The decoder is chosen for this figure: f1_example (the default), f1_micro, f1_macro, jaccard, "
        "exact_match, hamming; or cost FILE, a table with the columns label, false_positive and false_negative.",
    )
    flags.flag(
        "guarantee",
        nargs=2,
        metavar=("NAME", "VALUE"),
        help="Thresholds hold this for new rows: precision 0.9 or recall 0.8 of each label at least; missed 0.1, the "
        "share of a row's gold labels that are not decided, on average at most; covered 0.9, the share of rows of "
        "which all gold labels are decided, at least.",
    )
    flags.flag(
        "confidence", type=float, help="A guarantee of precision or recall holds with this confidence (default 0.95)."
    )
    flags.flag("decoder", help="This decoder is stored, in place of the choice by cross-fitting.")
    _add_overwrite(flags)
    return flags


def apply_flags() -> Flags:
    """The flags of `decide apply`."""
    flags = Flags("seal-hf decide apply", APPLY)
    _add_decisions(flags)
    _add_scores(flags)
    flags.flag(
        "output",
        metavar="FILE",
        help="The decided labels go to this .csv, .tsv, .jsonl or .parquet; default: the terminal.",
    )
    flags.flag(
        "review",
        metavar="SHARE_OR_COST",
        help="Rows that a person should see first are marked: 10%% of them, or those whose expected loss is above a "
        "number such as 0.2.",
    )
    flags.flag(
        "escape_formulas", type=bool, help="A ' is written before cells of a csv or tsv that a spreadsheet would run."
    )
    _add_overwrite(flags)
    return flags


def report_flags() -> Flags:
    """The flags of `decide report`."""
    flags = Flags("seal-hf decide report", REPORT)
    _add_decisions(flags)
    _add_scores(flags)
    _add_gold(flags)
    flags.flag("output", metavar="FILE", help="The figures go to this .json, or a page to this .html.")
    _add_overwrite(flags)
    return flags


def _add_scores(flags: Flags) -> None:
    flags.flag(
        "probabilities",
        required=True,
        metavar="FILE",
        help="The probabilities are read from this csv, tsv, jsonl, parquet or npz: a column for each label, the "
        "scores of a row by name, or a line for each row and label.",
    )
    flags.flag(
        "task",
        choices=(LABELS, TAGS, MASKS),
        default=LABELS,
        help="What is decided: labels (the default), tags of words, or masks of two classes.",
    )
    flags.flag("logits", type=bool, help="The scores are logits: a sigmoid makes probabilities of them.")
    flags.flag("id_column", metavar="NAME", help="This column tells rows apart; default: id, ids, idx or row_id.")


def _add_gold(flags: Flags) -> None:
    flags.flag("gold", required=True, metavar="FILE", help="The gold labels of the same rows are read from this file.")
    flags.flag("label_column", metavar="NAME", help="This column has the gold labels; default: labels or label.")
    flags.flag(
        "label_format",
        choices=("auto", "ids", "names", "multi_hot"),
        default="auto",
        help="The gold labels are written in this form (default auto).",
    )


def _add_decisions(flags: Flags) -> None:
    flags.flag("decisions", required=True, metavar="FILE.json", help="These decisions are used.")
    flags.flag("decoder", help="This decoder of theirs decides, or a threshold; default: the stored one.")


def _add_overwrite(flags: Flags) -> None:
    flags.flag("overwrite", type=bool, help="An existing output is replaced.")


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


def _scores(flags: Flags, options: Namespace, decisions: LabelDecisions | None = None) -> Scores:
    from ...data.score_files import read_scores

    labels = None if decisions is None else decisions.labels
    scores = read_scores(options.probabilities, logits=options.logits, id_column=options.id_column, labels=labels)
    for note in scores.notes:
        _note(flags, note)
    return scores


def _scores_and_gold(
    flags: Flags, options: Namespace, decisions: LabelDecisions | None = None
) -> tuple[Scores, np.ndarray]:
    from ...data.score_files import read_gold

    scores = _scores(flags, options, decisions)
    gold, notes = read_gold(
        options.gold,
        scores,
        id_column=options.id_column,
        label_column=options.label_column,
        label_format=options.label_format,
    )
    for note in notes:
        _note(flags, note)
    return scores, gold


def _note(flags: Flags, note: str) -> None:
    print(printable(f"{flags.prog}: {note}"), file=sys.stderr)


def _target(words: Sequence[str]) -> tuple[str, str | None]:
    """The target, and the file of costs.

    Raises:
        ValueError: an unknown target, or a file that is missing or that nothing reads.
    """
    from ...utils.options import check_value
    from .decisions.targets import COST, TARGETS

    check_value("target", words[0], (*TARGETS, COST))
    if len(words) != (2 if words[0] == COST else 1):
        expected = "a file of costs after it: --target cost FILE" if words[0] == COST else "nothing after it"
        raise ValueError(f"`target` is {' '.join(words)!r}; expected {expected}.")
    return words[0], words[1] if len(words) == 2 else None


def _guarantee(words: Sequence[str] | None) -> tuple[str, float] | None:
    from ...utils.options import check_value
    from .decisions.guarantees import GUARANTEES

    if words is None:
        return None
    check_value("guarantee", words[0], GUARANTEES)
    try:
        return words[0], float(words[1])
    except ValueError:
        raise ValueError(
            f"`guarantee` is {' '.join(words)!r}; expected a number after {words[0]}, such as 0.9."
        ) from None


def _costs(file: str, labels: Sequence[str]) -> list[list[float]]:
    """The costs (2, L) of deciding each label wrongly and of missing it; a line for `*` is that of other labels.

    Raises:
        ValueError: names the file, and the line or the label.
    """
    from ...data.table_sources import open_table

    table, columns = open_table(file), ("label", "false_positive", "false_negative")
    if missing := [column for column in columns if column not in table.columns]:
        raise ValueError(f"{file} has no column {missing[0]!r}; expected {', '.join(columns)}.")
    found: dict[str, list[float]] = {}
    for number, row in table:
        try:
            found[str(row["label"])] = [float(row[column]) for column in columns[1:]]
        except (TypeError, ValueError):
            values = ", ".join(str(row[column]) for column in columns[1:])
            raise ValueError(f"{table.place(number)}: the costs are {values}; expected two numbers.") from None
    usual = found.pop("*", None)
    if other := [label for label in found if label not in labels]:
        raise ValueError(f"{file} has costs of {few([*map(repr, other)], 5)}, which have no probabilities.")
    if usual is None and (left := [label for label in labels if label not in found]):
        raise ValueError(f"{file} has no costs of {few([*map(repr, left)], 5)}. Add them, or a line for the label *.")
    costs = [found.get(label, usual) for label in labels]
    return [[cost[i] for cost in costs if cost is not None] for i in range(2)]


def _fitted(decisions: LabelDecisions, scores: Scores, output: Path) -> list[str]:
    """What was fitted, in words and a table."""
    from ...utils.messages import results_table
    from .decisions.guarantees import GUARANTEES, OF_LABELS

    rows, labels = scores.values.shape
    said = [f"{rows:,} rows, {labels:,} labels: {decisions.decoder}, in {output}"]
    if (asked := decisions.guarantee) is not None:
        words = GUARANTEES[asked["name"]].format(100 * asked["value"])
        sure = f", with a confidence of {100 * asked['confidence']:g} % each" if asked["name"] in OF_LABELS else ""
        said.append(f"For rows drawn as these were: {words}{sure}.")
        if decisions.refused:
            names = few([repr(scores.labels[i]) for i in decisions.refused], 20)
            said.append(f"Refused, {len(decisions.refused)} labels that these rows cannot show to reach it: {names}.")
        return said
    if decisions.crossed:
        table: list[Mapping[str, Any]] = [
            {"decoder": f"{name} *" if name == decisions.decoder else name, decisions.target: value}
            for name, value in decisions.crossed.items()
        ]
        said += ["", results_table(table), "", "Cross-fitted: each fifth is decided with numbers of the other four."]
    return said
