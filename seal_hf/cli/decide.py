"""`seal-hf decide fit`, `apply` and `report`: decisions on the scores of any model. The task reads the scores and
decides, see `decide` of [`Task`]. Torch is not imported."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..core.task import TASKS
from ..utils.messages import printable
from .flags import LABELS, Flags
from .predict import CELLS, check_format, check_new

FIT = "Fit decisions on probabilities of validation rows and their gold labels, and write them to a file."
APPLY = "Decide on probabilities of new rows by decisions that `decide fit`, or `LabelDecisions.save`, wrote."
REPORT = "Measure decisions on probabilities of labelled rows, and write a page. Nothing is fitted on them."


class Fitted(NamedTuple):
    """What a task has fitted: [`Decisions`], on which rows, the figures of each decoder, and what to add."""

    decisions: Any
    rows: str
    figures: Mapping[str, Mapping[str, float]] = {}
    notes: Sequence[str] = ()


class Measured(NamedTuple):
    """What a task has measured: results, as JSON; tables for the terminal; a function that makes a page."""

    results: Mapping[str, Any]
    tables: Sequence[str]
    page: Callable[[], str] | None = None


def fit(argv: Sequence[str] | None = None) -> None:
    """Fit decisions, write them, and print how well each decoder does.

    Args:
        argv: the command line without the program's name; default `sys.argv[1:]`.

    Raises:
        ValueError, OSError: one line tells what is wrong and what to do.
    """
    options, task, output = _started(fit_flags(), argv)
    check_format(output, (".json",))
    assert output is not None, "it is required"
    fitted: Fitted = task.fit(options)
    fitted.decisions.save(output)
    chosen = fitted.decisions.decoder
    said = [f"{fitted.rows}: {chosen}, in {output}"]
    if fitted.figures:
        from ..utils.messages import results_table

        rows = [{"decoder": f"{name} *" if name == chosen else name, **of} for name, of in fitted.figures.items()]
        said += ["", results_table(rows)]
    print(printable("\n".join([*said, *fitted.notes])))


def apply(argv: Sequence[str] | None = None) -> None:
    """Write the decisions on each row. Arguments and errors are those of `fit`."""
    options, task, output = _started(flags := apply_flags(), argv)
    check_format(output, task.WRITTEN)
    if options.escape_formulas and (output is None or output.suffix.lower() not in CELLS):
        raise ValueError("`escape_formulas` is for an output of type .csv or .tsv. Leave it out.")
    for note in task.apply(options, output):
        print(printable(f"{flags.prog}: {note}"), file=sys.stderr)


def report(argv: Sequence[str] | None = None) -> None:
    """Print figures of decisions on labelled rows, and write them as JSON or a page. Arguments are those of `fit`."""
    options, task, output = _started(report_flags(), argv)
    of_page = output is not None and output.suffix.lower() == ".html"
    if output is not None:
        check_format(output, task.REPORTED)
    if of_page:
        from ..reports.plots import has_matplotlib

        if not has_matplotlib():
            raise ValueError("the page needs matplotlib: pip install 'seal_hf[plot]'.")
    found: Measured = task.report(options)
    if output is not None:
        from ..utils.files import whole_file

        page = found.page() if of_page and found.page is not None else None
        with whole_file(output) as unfinished:
            text = json.dumps(found.results, indent=1, ensure_ascii=False) + "\n" if page is None else page
            unfinished.write_text(text, encoding="utf-8")
    print(printable("\n\n".join(found.tables)))


def tell(notes: Sequence[str]) -> None:
    """Print what was chosen or left out."""
    for note in notes:
        print(printable(f"seal-hf decide: {note}"), file=sys.stderr)


def _started(flags: Flags, argv: Sequence[str] | None) -> tuple[Namespace, Any, Path | None]:
    """The options, the module that decides, and the output, which can be written."""
    options = flags.parsed(argv)
    flags.check_task(options, options.task, f"`task` is {options.task}")
    output = None if options.output is None else Path(options.output)
    check_new(output, options.overwrite, options.probabilities)
    return options, TASKS[options.task].decide, output


# --- flags ------------------------------------------------------------------------------------------------------------


def fit_flags() -> Flags:
    """The flags of `decide fit`."""
    flags = Flags("seal-hf decide fit", FIT)
    _add_scores(flags)
    _add_gold(flags)
    flags.flag("output", required=True, metavar="FILE.json", help="The decisions go to this file.")
    flags.flag(
        "target",
        *LABELS,
        nargs="+",
        default=["f1_example"],
        metavar="NAME",
        help="The decoder is chosen for this figure: f1_example (the default), f1_micro, f1_macro, jaccard, "
        "exact_match, hamming; or cost FILE, a table with the columns label, false_positive and false_negative.",
    )
    flags.flag(
        "guarantee",
        *LABELS,
        nargs=2,
        metavar=("NAME", "VALUE"),
        help="Thresholds hold this for new rows: precision 0.9 or recall 0.8 of each label at least; missed 0.1, the "
        "share of a row's gold labels that are not decided, on average at most; covered 0.9, the share of rows of "
        "which all gold labels are decided, at least.",
    )
    flags.flag(
        "confidence",
        *LABELS,
        type=float,
        help="A guarantee of precision or recall holds with this confidence (default 0.95).",
    )
    flags.flag(
        "hierarchy",
        *LABELS,
        metavar="FILE",
        help="This csv or tsv has a label and its parent in each line; decided sets hold all parents of their labels.",
    )
    flags.flag("decoder", help="This decoder is stored, in place of the choice by cross-fitting.")
    return _with_overwrite(flags)


def apply_flags() -> Flags:
    """The flags of `decide apply`."""
    flags = Flags("seal-hf decide apply", APPLY)
    _add_decisions(flags)
    _add_scores(flags)
    flags.flag(
        "output",
        metavar="FILE",
        help="The decided labels go to this .csv, .tsv, .jsonl or .parquet (masks: .npz); default: the terminal.",
    )
    flags.flag(
        "review",
        *LABELS,
        metavar="SHARE_OR_COST",
        help="Rows that a person should see first are marked: 10%% of them, or those whose expected loss is above a "
        "number such as 0.2.",
    )
    flags.flag(
        "escape_formulas", type=bool, help="A ' is written before cells of a csv or tsv that a spreadsheet would run."
    )
    return _with_overwrite(flags)


def report_flags() -> Flags:
    """The flags of `decide report`."""
    flags = Flags("seal-hf decide report", REPORT)
    _add_decisions(flags)
    _add_scores(flags)
    _add_gold(flags)
    flags.flag("output", metavar="FILE", help="The figures go to this .json, or for label sets a page to this .html.")
    return _with_overwrite(flags)


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
        choices=("labels", "tags", "masks"),
        default="labels",
        help="What is decided: labels (the default), tags of words, or masks of two classes or several.",
    )
    flags.flag("logits", type=bool, help="The scores are logits: a sigmoid, or a softmax, makes probabilities of them.")
    flags.flag(
        "id_column",
        metavar="NAME",
        help="This column tells rows apart; default: id, ids, idx or row_id, "
        "else one with the same values in both files.",
    )


def _add_gold(flags: Flags) -> None:
    flags.flag("gold", required=True, metavar="FILE", help="The gold labels of the same rows are read from this file.")
    flags.flag(
        "label_column", metavar="NAME", help="This column has the gold labels; default: labels or label (tags: tags)."
    )
    flags.flag(
        "label_format",
        *LABELS,
        choices=("auto", "ids", "names", "multi_hot"),
        default="auto",
        help="The gold labels are written in this form (default auto).",
    )


def _add_decisions(flags: Flags) -> None:
    flags.flag("decisions", required=True, metavar="FILE.json", help="These decisions are used.")
    flags.flag("decoder", help="This decoder decides, or a threshold; default: the stored decoder.")


def _with_overwrite(flags: Flags) -> Flags:
    flags.flag("overwrite", type=bool, help="An existing output is replaced.")
    return flags
