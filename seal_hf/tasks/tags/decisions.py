"""Decisions of tag sequences and trees, and how a trainer chooses them. Nothing imports torch before a trainer does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...core.arrays import first_output
from ...core.decisions import Decisions, checked, ratio_scores, usual_or_better
from ...core.tag_schemes import given_types, scheme_of
from ...core.trees import has_trees
from ..trees.metrics import bracket_counts
from .metrics import Tags, span_counts, token_counts

if TYPE_CHECKING:
    from ...training.base import StructuredTrainer

INDEPENDENT, CONSTRAINED = "independent", "constrained"
VITERBI, CONSTRAINED_VITERBI = "viterbi", "constrained_viterbi"  # with a CRF
UNIQUE_ROLES = "unique_roles"  # for semantic roles
WITHIN_SCHEME = (CONSTRAINED, CONSTRAINED_VITERBI, UNIQUE_ROLES)


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


def likeliest_tags(
    scores: np.ndarray, lengths: np.ndarray, between: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """The sequence of each sentence with the highest sum of scores, by Viterbi's algorithm: (words,) the numbers of the
    tags.

    Args:
        scores: (words, C) finite numbers, such as log-probabilities, the sentences one after the other.
        lengths: (N,) words of each sentence, at least 1.
        between: (C, C) the score of tag j after tag i; -inf forbids it.
        start, end: (C,) the scores of the first and of the last tag.
    """
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


def fit_decisions(trainer: StructuredTrainer, dataset: Any, decoder: str | None) -> TagDecisions:
    """The decisions of tags or trees, chosen on validation rows; see `training/evaluation.py`."""
    space: Any = trainer.space
    by_decoder, gold = predicted_tags(trainer, dataset, space.decoders)
    kind = "srl" if given_types(space.label_names) else scheme_of(space.label_names)
    trees = has_trees(space.label_names)
    pos = [[""] * len(tags) for tags in gold] if trees else None  # unknown here: all words of a tree count
    return fit_tags(by_decoder, gold, kind, trainer.args, decoder, pos)


def fit_tags(
    predicted: Mapping[str, Tags],
    gold: Tags,
    kind: str,
    args: Any,
    decoder: str | None = None,
    pos: Sequence[Sequence[str]] | None = None,
) -> TagDecisions:
    """Fit decisions of tag sequences. With `constrained_decoding`, only decoders that follow the scheme are compared.

    Args:
        predicted: the predictions of each decoder.
        kind: as in `tag_metrics`.
        decoder: default: `args.decoder`.
        pos: as for `TagDecisions.fit`.
    """
    decoder = args.decoder if decoder is None else decoder
    if decoder is None and args.constrained_decoding:
        predicted = {name: tags for name, tags in predicted.items() if name in WITHIN_SCHEME}
    return TagDecisions.fit(predicted, gold, kind, decoder=decoder, pos=pos)


def predicted_tags(trainer: StructuredTrainer, dataset: Any, decoders: Sequence[str]) -> tuple[dict[str, Tags], Tags]:
    """Tag names at labelled positions: those of each decoder, from one pass over the rows, and gold."""
    from ...core.tensors import IGNORED
    from ...training.evaluation import predicted

    output: Any = predicted(trainer, dataset, decoders)
    space: Any = trainer.space
    names, labels = np.asarray(space.label_names, dtype=object), first_output(output.label_ids)
    arrays = output.predictions if isinstance(output.predictions, tuple) else (output.predictions,)

    def named(ids: np.ndarray) -> Tags:
        return [names[row[counts]].tolist() for row, counts in zip(ids, labels != IGNORED, strict=True)]

    return {name: named(np.asarray(ids)) for name, ids in zip(decoders, arrays, strict=True)}, named(labels)
