"""Figures of label sets under several decoders, from counts of blocks of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...decisions import FIXED, NEVER_EMPTY, THRESHOLD, LabelDecisions
from ...training.decisions import fit_threshold, store
from ...training.evaluation import give_by_batch
from .hierarchical_metrics import HierarchicalCounts
from .metrics import SetCounts, check_entries, row_blocks
from .metrics_by_batch import MultiLabelByBatch, scored_rows


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
        """The counts of whole arrays (N, L), as for `multilabel_metrics`, of which only blocks of rows are copied."""
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


class DecoderFigures:
    """The figures of [`score_decoders`] for one split, a batch at a time, with the decoders `fixed` and `threshold`.

    Args:
        decisions: fitted on validation.
        keys: decoder -> key of its example F1.

    Attributes:
        at_half: the figures at 0.5, and the example F1 at each threshold.
        figures: those of all decoders, after the last batch.
    """

    def __init__(self, decisions: LabelDecisions, keys: dict[str, str]):
        self.keys = keys
        self.at_half = MultiLabelByBatch()
        names = [name for name in decisions.names if name.removesuffix(NEVER_EMPTY) in (FIXED, THRESHOLD)]
        self._counts = DecidedCounts(decisions, names)
        self.figures: dict[str, float] = {}

    def __call__(self, eval_prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Add a batch, as [`MultiLabelByBatch`] does; after the last one, `figures` cover all batches. They stay
        empty if no label is known."""
        p, gold = scored_rows(eval_prediction)
        self.at_half.add(p, gold)
        self._counts.add(p, gold, p >= 0)
        if compute_result and self.at_half.num_rows:
            self.figures = self._result()
        return {}

    def _result(self) -> dict[str, float]:
        figures = self.at_half.result()
        del figures["threshold"], figures["f1_example_tuned"]  # tuned on these very rows
        counts = self._counts
        figures |= counts.hierarchical(FIXED)
        for ending, name in (("tuned", THRESHOLD), ("decided", counts.decisions.decoder)):
            figures |= {f"{key}_{ending}": value for key, value in counts.figures(name).items()}
        return figures | {self.keys[name]: counts.figures(name)["f1_example"] for name in counts.sets}


def evaluate_by_batch(
    trainer: Any, splits: dict[str, Any], keys: dict[str, str]
) -> tuple[dict[str, float], np.ndarray]:
    """As [`evaluate_multilabel`]: fit the decisions on the split `eval`, store them, and score all splits with labels.

    Args:
        splits: data sets by name, `eval` first.
        keys: as for [`DecoderFigures`].

    Returns:
        the figures, and the example F1 of `eval` at each threshold of `DEFAULT_GRID`, (G,).
    """
    decisions = fit_threshold(trainer, splits["eval"], getattr(trainer.args, "decoder", None))
    store(trainer, decisions)
    metrics: dict[str, float] = {}
    scorers = {split: DecoderFigures(decisions, keys) for split in splits}
    for split, scorer in scorers.items():
        give_by_batch(trainer, splits[split], scorer)
        metrics |= {f"{split}_{name}": value for name, value in scorer.figures.items()}
    assert decisions.threshold is not None
    return metrics | {"threshold": decisions.threshold}, scorers["eval"].at_half.threshold_curve()
