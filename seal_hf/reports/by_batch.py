"""Figures of label sets under several decoders, for splits with too many probabilities to keep."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..inference.decisions import FIXED, NEVER_EMPTY, THRESHOLD, LabelDecisions
from ..metrics.by_batch import MultiLabelByBatch, SetCounts, scored_rows
from ..metrics.hierarchical import HierarchicalCounts
from ..training.decisions import fit_threshold, store
from ..training.evaluation import give_by_batch


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
        self.decisions, self.keys = decisions, keys
        self.at_half = MultiLabelByBatch()
        self._sets = {
            name: SetCounts() for name in decisions.names if name.removesuffix(NEVER_EMPTY) in (FIXED, THRESHOLD)
        }
        hierarchy = decisions.hierarchy
        self._closed = {} if hierarchy is None else {name: HierarchicalCounts(hierarchy) for name in self._sets}
        self.figures: dict[str, float] = {}

    def __call__(self, eval_prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Add a batch, as [`MultiLabelByBatch`] does; after the last one, `figures` cover all batches. They stay
        empty if no label is known."""
        p, gold = scored_rows(eval_prediction)
        self.at_half.add(p, gold)
        for name, decided in self.decisions.decide_by(p, self._sets).items():
            for counts in (self._sets, self._closed):
                if name in counts:
                    counts[name].add(decided, gold, p >= 0)
        if compute_result and self.at_half.num_rows:
            self.figures = self._result()
        return {}

    def _result(self) -> dict[str, float]:
        figures = self.at_half.result()
        del figures["threshold"], figures["f1_example_tuned"]  # tuned on these very rows
        found = {name: counts.figures() for name, counts in self._sets.items()}
        closed = {name: counts.figures() for name, counts in self._closed.items()}
        figures |= closed.get(FIXED, {})
        for ending, name in (("tuned", THRESHOLD), ("decided", self.decisions.decoder)):
            of_sets = {**found[name], **closed.get(name, {})}
            figures |= {f"{key}_{ending}": value for key, value in of_sets.items()}
        return figures | {self.keys[name]: of_sets["f1_example"] for name, of_sets in found.items()}


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
