"""Searching the settings of a run: of the programs' `--tune`, and of each method of a comparison."""

from .ranges import Choice, Group, LogUniform, Space, Uniform
from .search import Goal, check_optuna, search

__all__ = ["Choice", "Goal", "Group", "LogUniform", "Space", "Uniform", "check_optuna", "search"]
