"""Evaluations that gather decoded structures in place of logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor


class PredictionDecoder:
    """A `preprocess_logits_for_metrics` that decodes by a trainer's space: tag ids (B, T), not logits.

    Args:
        trainer: its space and model are read at each call.
        decoders: names of decoders; each gives an array. Default: the space's own, which gives a single array.
    """

    def __init__(self, trainer: Any, decoders: Sequence[str] | None = None):
        self.trainer = trainer
        self.decoders = decoders
        self._positions: Tensor | None = None

    def see(self, inputs: dict[str, Tensor]) -> None:
        """Called before a batch is evaluated. If it lacks labels, its inputs tell which positions are decoded."""
        if "labels" not in inputs:
            trainer = self.trainer
            self._positions = trainer.space.positions(trainer.model, trainer._prepare_inputs(inputs))

    def __call__(self, logits: Tensor | tuple[Tensor, ...], labels: Tensor | None) -> Any:
        logits = logits[0] if isinstance(logits, tuple) else logits
        mask = self._positions if labels is None else self.trainer.space.gold(labels)[1]
        if mask is not None and labels is None:  # unlike labels, it is not padded to the width of other processes
            mask = F.pad(mask, (0, logits.shape[1] - mask.shape[1]))
        space = self.trainer.space
        if self.decoders is None:
            return space.decode(logits, mask=mask)
        return tuple(space.decided_by(name).decode(logits, mask=mask) for name in self.decoders)


def check_undecoded(preprocess_logits_for_metrics: Callable | None) -> None:
    """Raises ValueError if the user's `preprocess_logits_for_metrics` also wants the logits."""
    if preprocess_logits_for_metrics is not None:
        raise ValueError(
            "`decode_predictions` is True, but `preprocess_logits_for_metrics` is given: both process the logits of an "
            "evaluation. Leave one of them out."
        )
