"""`seal-hf evaluate`: measure the decisions of a saved task-net on all rows of a labelled input, without tuning."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..utils.files import whole_file
from ..utils.messages import printable
from .flags import Flags, add_common, add_evaluate, open_kind
from .predict import check_format, check_new
from .programs import Processes

if TYPE_CHECKING:
    from ..data.row_tables import Reader
    from .output_kind import OutputKind

DESCRIPTION = "Measure the decisions of a saved task-net on all rows of a labelled input. Nothing is tuned on them."


def main(argv: Sequence[str] | None = None) -> None:
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
    flags = Flags("seal-hf evaluate", DESCRIPTION)
    add_common(flags)
    add_evaluate(flags)
    return flags
