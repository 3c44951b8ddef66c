"""Figures of label sets under several decoders, from counts of blocks of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..tasks.labels.hierarchical_metrics import HierarchicalCounts
from ..tasks.labels.metrics import SetCounts, check_entries, row_blocks
from .labels import LabelDecisions


class DecidedCounts:
    """Counts of the label sets that several decoders decide, and their figures.

    Args:
        decisions: fitted on validation.
        names: the decoders; a threshold is one too.

    Attributes:
        sets: decoder -> counts of its sets.
    """

    def __init__(self, decisions: LabelDecisions, names: Iterable[str | float]):
        self.decisions = decisions
        self.sets: dict[Any, SetCounts] = {name: SetCounts() for name in names}
        hierarchy = decisions.hierarchy
        self._closed = {} if hierarchy is None else {name: HierarchicalCounts(hierarchy) for name in self.sets}

    @classmethod
    def of(
        cls, decisions: LabelDecisions, names: Iterable[str | float], probabilities: np.ndarray, labels: np.ndarray
    ) -> DecidedCounts:
        """The counts of whole arrays (N, L), as for `multilabel_metrics`, copied by blocks of rows only."""
        counts = cls(decisions, names)
        for rows in row_blocks(probabilities):
            p, gold = np.asarray(probabilities[rows], dtype=np.float64), labels[rows]
            counts.add(p, gold > 0, check_entries(p, gold, rows.start))
        return counts

    def add(self, p: np.ndarray, gold: np.ndarray, known: np.ndarray) -> None:
        """Count a block: probabilities, gold sets, and where a label is known, (n, L) each."""
        decided = self.decisions.decide_by(p, self.sets)
        SetCounts.add_all(self.sets.values(), decided.values(), gold, known)
        for name, counts in self._closed.items():
            counts.add(decided[name], gold, known)

    def figures(self, name: str | float, empty_score: float = 1.0) -> dict[str, float]:
        """The figures of a decoder; with a hierarchy, hierarchical figures too."""
        return {**self.sets[name].figures(empty_score), **self.hierarchical(name)}

    def hierarchical(self, name: str | float) -> dict[str, float]:
        """The hierarchical figures of a decoder; empty without a hierarchy."""
        return self._closed[name].figures() if name in self._closed else {}
