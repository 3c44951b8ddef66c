"""`seal-hf predict` and `seal-hf evaluate`: the predictions of a saved task-net for the rows of a file, a folder or a
Hub id, and the figures of its decisions on labelled rows.

Label sets are read from csv, tsv, jsonl, parquet and ARFF files, folders of `save_to_disk` and data sets of the Hub,
tags from columns, lines of text, csv, jsonl, parquet and folders of `save_to_disk`, masks from images. The suffix of
the output gives its format.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..utils.faults import AGAIN, writing
from ..utils.files import check_writable, whole_file
from ..utils.messages import one_line, printable
from .flags import Flags, add_common, add_evaluate, add_predict, open_kind
from .programs import Processes, check_one_process, is_first_process

if TYPE_CHECKING:
    from ..data.row_tables import Reader
    from .output_kind import OutputKind

CELLS = (".csv", ".tsv")  # what a spreadsheet opens
TO_PREDICT = "Predict label sets, tags or masks with a saved task-net. The rows need no labels."
TO_EVALUATE = "Measure the decisions of a saved task-net on all rows of a labelled input. Nothing is tuned on them."


def main(argv: Sequence[str] | None = None) -> None:
    """Predict.

    Args:
        argv: the command line without the program's name; default `sys.argv[1:]`.

    Raises:
        ValueError, OSError: one line tells what is wrong and what to do. No incomplete output is left.
    """
    flags = predict_flags()
    options = flags.parsed(argv)
    output = None if options.output is None else Path(options.output)
    processes = Processes()
    kind, reader = processes.first_alone(lambda: _opened(flags, options, output))
    from .output_kind import parts_of, record_of, with_progress

    def tell(line: str) -> None:
        print(one_line(f"{flags.prog}: {line}"), file=sys.stderr)

    if output is None:
        with writing("the standard output"), kind.writer(None) as writer:
            for chunk in with_progress(reader, kind.rows_per_chunk):
                writer.write(kind.predict(chunk))
        notes = list(reader.notes)
    else:
        record, rows = record_of(options, kind.rows_per_chunk), 0
        with writing(output, AGAIN), parts_of(output, kind.writer, record, processes, tell) as parts:
            number = -1
            for number, chunk in enumerate(with_progress(reader, kind.rows_per_chunk)):
                kind.first_rows = kind.first_rows or chunk.rows
                rows += len(chunk.rows)
                if number % processes.count == processes.rank and number not in parts:
                    parts.write(number, kind.predict(chunk))
            processes.wait()
            if processes.rank:
                return
            notes = [*reader.notes, *parts.join(number + 1), f"{rows} {'row' if rows == 1 else 'rows'} in {output}."]
    for note in notes:
        tell(note)


def _opened(flags: Flags, options: Namespace, output: Path | None) -> tuple[OutputKind, Reader]:
    """The kind of output and the input, after all checks that need no weights; then the weights are loaded."""
    check_new(output, options.overwrite, options.input)
    if output is None:
        check_one_process("`seal-hf predict` without --output")
    kind = open_kind(flags, options)
    check_format(output, kind.formats)
    if options.escape_formulas and (output is None or output.suffix.lower() not in CELLS):
        raise ValueError("`escape_formulas` is for an output of type .csv or .tsv. Leave it out.")
    reader = kind.open_input(gold=False)
    _ = is_first_process() and reader.total  # for a file of lines: finds a damaged row before the weights are loaded
    _ = kind.model
    return kind, reader


def predict_flags() -> Flags:
    """The flags of this program."""
    flags = Flags("seal-hf predict", TO_PREDICT)
    add_common(flags)
    add_predict(flags)
    return flags


def evaluate(argv: Sequence[str] | None = None) -> None:
    """Evaluate, print the figures and write them.

    Args:
        argv: the command line without the program's name; default `sys.argv[1:]`.

    Raises:
        ValueError, OSError: one line tells what is wrong and what to do.
    """
    flags = evaluate_flags()
    options = flags.parsed(argv)
    output = None if options.output is None else Path(options.output)

    def opened() -> tuple[OutputKind, Reader]:
        check_new(output, options.overwrite, options.input)
        if output is not None:
            check_format(output, (".json",))
        kind = open_kind(flags, options)
        return kind, kind.open_input(gold=True)

    kind, reader = Processes().first_alone(opened)
    evaluation = kind.evaluate(reader)
    if output is not None:  # first: the reader of what is printed may go away
        with whole_file(output) as unfinished:
            text = json.dumps(evaluation.results, indent=1, ensure_ascii=False)
            unfinished.write_text(text + "\n", encoding="utf-8")
    for note in reader.notes:
        print(printable(f"{flags.prog}: {note}"), file=sys.stderr)
    print(printable(evaluation.text))


def evaluate_flags() -> Flags:
    """The flags of this program."""
    flags = Flags("seal-hf evaluate", TO_EVALUATE)
    add_common(flags)
    add_evaluate(flags)
    return flags


def check_new(output: Path | None, overwrite: bool, source: str | None = None) -> None:
    """Look whether an output can be written, before anything is loaded.

    Args:
        source: the input, which stays as it is.

    Raises:
        ValueError: the output exists and may not be replaced, it is the input, no file can be written there, or there
            is no output and the standard output is closed or `overwrite` is given.
    """
    if output is None:
        if overwrite:
            raise ValueError("`overwrite` is true, but no `output` is named that it could replace. Leave it out.")
        if sys.stdout is None:
            raise ValueError("`output` is missing, and the standard output is closed. Name a file.")
        return
    if output.exists() and not overwrite:
        raise ValueError(f"`output` is {str(output)!r}, which already exists. Give another name, or --overwrite.")
    if source is not None and output.is_file() and Path(source).exists() and output.samefile(source):
        raise ValueError(f"`output` is {str(output)!r}, which is the input. Give another name.")
    if output.exists() and not output.is_file() and (output.suffix or not output.is_dir()):
        what = "a folder" if output.is_dir() else "a device or a pipe"
        raise ValueError(f"`output` is {str(output)!r}, {what}. Give another name.")
    check_writable(output)


def check_format(output: Path | None, formats: Sequence[str]) -> None:
    """Raises ValueError if the suffix is not among these formats; an empty suffix means a folder."""
    known = [suffix or "a folder" for suffix in formats]
    if output is None:
        if ".jsonl" not in formats:
            raise ValueError(f"`output` is missing; expected {' or '.join(known)}.")
    elif output.suffix.lower() not in formats:
        raise ValueError(
            f"`output` is {str(output)!r}, but its suffix is not a format for these predictions; expected "
            f"{', '.join(known)}."
        )
