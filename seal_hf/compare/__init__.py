"""Compare losses honestly: the methods with their search spaces, the search, the runs on disk, the table.

Every method gets the same number of trials on validation, the same seeds, the same decoders, and is tested against the
best baseline on the same test rows. `program.py` is the command `seal-hf compare`.
"""

from ..cli.train.program import Program
from ..cli.tuning import Choice, LogUniform, Uniform, search
from .identity import EVERY_RUN
from .methods import METHODS, Method
from .runner import Comparison
from .runs import COMPARED, METRIC, METRICS, Runs
from .table import comparison, markdown, plot, tested

__all__ = [
    "COMPARED",
    "EVERY_RUN",
    "METHODS",
    "METRIC",
    "METRICS",
    "Choice",
    "Comparison",
    "LogUniform",
    "Method",
    "Program",
    "Runs",
    "Uniform",
    "comparison",
    "markdown",
    "plot",
    "search",
    "tested",
]
