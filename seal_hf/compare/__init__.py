"""Comparing losses honestly: the methods and what is searched of each, the search, the runs on disk, the table.

Every method gets the same number of trials on validation, the same seeds, the same decoders, and is tested against the
best baseline on the same test rows. `program.py` is the command `seal-hf compare`.
"""

from .identity import EVERY_RUN
from .methods import METHODS, Choice, LogUniform, Method, Uniform
from .runner import Comparison, Program
from .runs import COMPARED, METRIC, METRICS, Runs
from .search import search
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
