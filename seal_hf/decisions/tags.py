"""Decisions of tag sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ..core.tag_schemes import Transitions
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


def likeliest_tags(probabilities: np.ndarray, lengths: np.ndarray, allowed: Transitions) -> np.ndarray:
    """The likeliest sequence of each sentence that the tags' scheme allows, by Viterbi's algorithm, if its words are
    independent: (words,) the numbers of the tags.

    Args:
        probabilities: (words, C) in [0, 1], the sentences one after the other.
        lengths: (N,) words of each sentence, at least 1.
        allowed: from `allowed_transitions`.
    """
    between, start, end = (np.where(each, 0.0, -np.inf) for each in allowed)
    with np.errstate(divide="ignore"):
        scores = np.maximum(np.log(probabilities), -1e4)  # an allowed sequence is there even if all are impossible
    begins = np.cumsum(lengths) - lengths
    best = np.empty(len(scores), dtype=np.int64)
    before = np.empty(scores.shape, dtype=np.int64)
    totals = np.empty(scores.shape)
    totals[begins] = scores[begins] + start
    for word in range(1, int(lengths.max(initial=0))):
        here = begins[lengths > word] + word
        ways = totals[here - 1][:, :, None] + between  # (n, C, C)
        before[here] = ways.argmax(1)
        totals[here] = ways.max(1) + scores[here]
    last = begins + lengths - 1
    best[last] = (totals[last] + end).argmax(1)
    for word in range(int(lengths.max(initial=0)) - 1, 0, -1):
        here = begins[lengths > word] + word
        best[here - 1] = before[here, best[here]]
    return best
