"""Decisions of tag sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ..tasks.tags.metrics import Tags, span_counts, token_counts
from ..tasks.trees.metrics import bracket_counts
from .base import Decisions, checked, ratio_scores, usual_or_better


@dataclass
class TagDecisions(Decisions):
    """Decisions of tag sequences. Only the decoder is chosen; no numbers are fitted.

    Decoders: `independent` takes the likeliest tag of each position, `constrained` the likeliest sequence that the
    tags' scheme allows. With a CRF, `viterbi` takes its best sequence, `constrained_viterbi` its best allowed one. For
    semantic roles, `unique_roles` takes the best allowed one that repeats no core role.

    Attributes:
        offered: the decoders of a task-net, see `TagSequenceSpace.decoders`; the first is the default.
    """

    output: ClassVar[str] = "tag_sequence"
    decoder: str = "independent"
    offered: tuple[str, ...] = field(default=("independent",))

    @property
    def names(self) -> tuple[str, ...]:
        return self.offered

    def numbers(self) -> dict[str, Any]:
        return {}

    @classmethod
    def of_saved(cls, saved: Mapping[str, Any]) -> TagDecisions:
        decoder = checked(saved, "decoder").get("decoder", "independent")
        return cls(decoder=decoder, offered=(decoder,))

    @classmethod
    def fit(
        cls,
        predicted: Mapping[str, Tags],
        gold: Tags,
        kind: str,
        *,
        decoder: str | None = None,
        pos: Sequence[Sequence[str]] | None = None,
    ) -> TagDecisions:
        """Choose a decoder by the F1 of spans, of the brackets of trees, or the accuracy of plain tags, on validation
        rows.

        Args:
            predicted: N tag sequences by each decoder, the usual one first.
            gold: N tag sequences.
            kind: as in `tag_metrics`.
            decoder: used instead of the choice.
            pos: parts of speech, if the tags are those of trees.

        Raises:
            ValueError: as `tag_metrics`, and if the decoder is unknown.
        """
        numbers = cls(decoder=next(iter(predicted)), offered=tuple(predicted))
        if decoder is None:
            scores = {name: _scores(tags, gold, kind, pos) for name, tags in predicted.items()}
            decoder = usual_or_better(scores, numbers.decoder)
        return replace(numbers, decoder=numbers.named(decoder))


def _scores(predicted: Tags, gold: Tags, kind: str, pos: Sequence[Sequence[str]] | None) -> np.ndarray:
    if pos is not None:
        right, found, there = bracket_counts(predicted, gold, pos).T
        return ratio_scores(2 * right, found + there)
    if kind == "plain":
        return ratio_scores(*token_counts(predicted, gold).T)
    right, found, there = span_counts(predicted, gold, kind).T
    return ratio_scores(2 * right, found + there)
