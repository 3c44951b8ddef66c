"""Compare losses honestly: the methods with their search spaces, the search, the runs on disk, the table.

Every method gets the same number of trials on validation, the same seeds, the same decoders, and is tested against the
best baseline on the same test rows. What differs between kinds of output is in `kinds/`, and their methods are in
`methods/`. `program.py` is the command `seal-hf compare`.
"""

from ..cli.train.program import Program
from ..cli.tuning import Choice, LogUniform, Uniform, search
from .identity import EVERY_RUN
from .kinds import KINDS, Figures, Kind, Scored
from .methods import Method
from .rows import Rows
from .runner import Comparison
from .runs import Runs
from .table import comparison, markdown, plot

__all__ = [
    "EVERY_RUN",
    "KINDS",
    "Choice",
    "Comparison",
    "Figures",
    "Kind",
    "LogUniform",
    "Method",
    "Program",
    "Rows",
    "Runs",
    "Scored",
    "Uniform",
    "comparison",
    "markdown",
    "plot",
    "search",
]
