"""`seal-hf report`: write the page of a run from the files of its folder."""

from __future__ import annotations

from collections.abc import Sequence

from ..reports.plots import has_matplotlib
from ..reports.run_page import write_page
from ..utils.messages import printable
from .flags import Flags

DESCRIPTION = "Write report.html into the output folder of a run: finished, interrupted, or still running."


def main(argv: Sequence[str] | None = None) -> None:
    """Write the page, and print where it is.

    Args:
        argv: the command line without the program's name; default `sys.argv[1:]`.

    Raises:
        ValueError: the folder holds no run, or matplotlib is missing.
    """
    flags = Flags("seal-hf report", DESCRIPTION)
    flags.add_argument("folder", help="This is the output folder of the run.")
    flags.flag("beside", metavar="FOLDER", help="The figures of this other run on the same data are shown too.")
    options = flags.parsed(argv)
    if not has_matplotlib():
        raise ValueError("the page needs matplotlib: pip install 'seal_hf[plot]'.")
    print(printable(write_page(options.folder, options.beside)))
