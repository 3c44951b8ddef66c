"""Figures of label sets under several decoders, from counts of blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.decisions import FIXED, THRESHOLD
from ...training.decisions import store
from ...training.evaluation import give_by_batch
from .decisions.fit import fit_threshold
from .decisions.label_decisions import NEVER_EMPTY, DecidedCounts, LabelDecisions
from .metrics_by_batch import MultiLabelByBatch, scored_rows


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
