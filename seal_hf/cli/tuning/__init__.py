"""Search for the settings of a run: for the programs' `--tune`, and for each method of a comparison."""

from .ranges import Choice, Group, LogUniform, Space, Uniform
from .search import Goal, check_optuna, search

__all__ = ["Choice", "Goal", "Group", "LogUniform", "Space", "Uniform", "check_optuna", "search"]
