"""How the decisions of masks are fitted to what a trainer predicts.

`seal_hf/decisions/masks.py` has the decoders.
"""

from __future__ import annotations

from typing import Any

from ...core.arrays import first_output
from ...decisions import ClassMaskDecisions, Decisions, MaskDecisions
from ...training.decisions import predicted
from .metrics import mask_probabilities
from .space import MaskSpace


def fit_decisions(trainer: Any, dataset: Any, decoder: str | None) -> Decisions:
    """The decisions of masks, fitted on validation rows; see `training/decisions.py`. Those of several classes have no
    numbers to fit."""
    if isinstance(trainer.space, MaskSpace):
        decisions = ClassMaskDecisions()
        decisions.named(decoder)
        return decisions
    output = predicted(trainer, dataset)
    logits, labels = first_output(output.predictions), first_output(output.label_ids)
    return MaskDecisions.fit(mask_probabilities(logits, labels.shape[1:]), labels, decoder=decoder)
