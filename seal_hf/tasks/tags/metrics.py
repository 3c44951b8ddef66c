"""Metrics of tag sequences, on lists of tag names: token accuracy, span F1, and repeated core roles of semantic roles.

Span metrics equal seqeval's with `mode="strict"` and the scheme IOB2 or IOBES, in a twentieth of its time. Only
well-formed spans of a prediction count: `I-X` without a beginning is not a span, nor is `B-X` of BIOES without its
`E-X`. `malformed` says how often that happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ...core.tag_schemes import (
    CORE_ROLE,
    PREDICATE,
    allowed_transitions,
    is_well_formed,
    scheme_of,
    spans,
    spans_of_ids,
    split_tag,
)
from ...utils.options import check_value

KINDS = ("plain", "bio", "bioes", "srl")
Tags = Sequence[Sequence[str]]


def tag_metrics(predicted: Tags, gold: Tags, kind: str, *, scheme: str | None = None) -> dict[str, float]:
    """Metrics of N predicted tag sequences.

    Args:
        predicted, gold: N sequences of tag names, of equal lengths.
        kind: `plain`; `bio` or `bioes`: spans; `srl`: spans of roles, one sequence per proposition.
        scheme: for `srl`: `bio` or `bioes`; default: that of the gold tags.

    Returns:
        `accuracy`: share of the tokens with the gold tag.
        For spans also `precision`, `recall`, `f1` over the spans of all sequences (micro; 0/0 is 0), and `malformed`,
        the share of the predicted sequences that break the scheme. `srl` leaves out the spans of `V`, and counts those
        of `C-X` separately, where CoNLL-2005's srl-eval joins them with their `X`.
        For `srl` also `core_role_violations`, see [`core_role_violations`].
        All are in [0, 1].

    Raises:
        ValueError: an unknown kind, no tokens, or differing lengths; the message names the first such sequence.
    """
    scheme = _checked(predicted, gold, kind, scheme)
    pairs = [pair for one, other in zip(predicted, gold, strict=True) for pair in zip(one, other, strict=True)]
    figures = {"accuracy": sum(one == other for one, other in pairs) / len(pairs)}
    if scheme == "plain":
        return figures
    figures |= figures_of(*_span_counts(predicted, gold, kind, scheme).sum(0).tolist())
    figures["malformed"] = float(np.mean([not is_well_formed(tags, scheme) for tags in predicted]))
    if kind == "srl":
        figures["core_role_violations"] = core_role_violations(predicted, scheme)
    return figures


def span_counts(predicted: Tags, gold: Tags, kind: str) -> np.ndarray:
    """Right, predicted and gold spans of each sequence: (N, 3) int64. Arguments as for [`tag_metrics`]; the scheme of
    `srl` is that of the gold tags.

    F1 is 2 right / (predicted + gold) of the sums; a paired bootstrap resamples the rows.
    """
    scheme = _checked(predicted, gold, kind)
    if scheme == "plain":
        raise ValueError("plain tags have no spans; `kind` must be bio, bioes or srl")
    return _span_counts(predicted, gold, kind, scheme)


def token_counts(predicted: Tags, gold: Tags) -> np.ndarray:
    """Right tags, and tags, of each sequence: (N, 2) int64. Accuracy is the ratio of their sums. A sequence is right as
    a whole if both are equal.

    Raises:
        ValueError: the message names the first sequence of another length than the gold.
    """
    _checked(predicted, gold, "plain")
    right = [sum(map(str.__eq__, ours, theirs)) for ours, theirs in zip(predicted, gold, strict=True)]
    return np.stack([np.array(right, dtype=np.int64), np.array([len(tags) for tags in gold], dtype=np.int64)], axis=1)


def core_role_violations(predicted: Tags, scheme: str = "bio") -> float:
    """The share, in [0, 1], of the propositions whose prediction has two spans of one core role: A0-A5, AA or
    ARG0-ARG5, ARGA (unique-core-role violation, UCR in the SEAL paper's Table 3). `C-X` and `R-X` do not repeat X."""
    return len(set().union(*repeated_core_roles(predicted, scheme).values())) / max(len(predicted), 1)


def repeated_core_roles(tags: Tags, scheme: str = "bio") -> dict[str, list[int]]:
    """Maps each core role to the propositions that have two spans of it, in order; see [`core_role_violations`]."""
    found: dict[str, list[int]] = {}
    for row, one in enumerate(tags):
        counts = Counter(span.type for span in spans(one, scheme) if CORE_ROLE.fullmatch(span.type))
        for role, count in counts.items():
            if count > 1:
                found.setdefault(role, []).append(row)
    return dict(sorted(found.items()))


def tag_report(predicted: Tags, gold: Tags, kind: str) -> dict[str, dict[str, float]]:
    """`precision`, `recall`, `f1` in [0, 1] and `support`, the number in gold, of each span type, or of each plain tag.

    Arguments and errors as for [`span_counts`]. Types are in alphabetical order and include those only predicted.
    """
    scheme = _checked(predicted, gold, kind)
    right: Counter[str] = Counter()
    found: Counter[str] = Counter()
    there: Counter[str] = Counter()
    for one, other in zip(predicted, gold, strict=True):
        if scheme == "plain":
            ours, theirs = ({(tag, i) for i, tag in enumerate(tags)} for tags in (one, other))
        else:
            ours, theirs = _span_set(one, kind, scheme), _span_set(other, kind, scheme)
        for counter, items in ((right, ours & theirs), (found, ours), (there, theirs)):
            counter.update(item[0] for item in items)
    return {
        name: {**figures_of(right[name], found[name], there[name]), "support": there[name]}
        for name in sorted(found | there)
    }


def tagging_compute_metrics(label_names: Sequence[str], kind: str) -> Callable[[Any], dict[str, float]]:
    """The metrics of tags for a Trainer: `Trainer(compute_metrics=tagging_compute_metrics(data.label_names,
    data.kind))`.

    The function takes `.predictions`, logits (N, T, C), or tag ids (N, T), or a tuple that starts with them, and
    `.label_ids` (N, T), -100 where a position does not count; it returns the metrics of [`tag_metrics`].

    Raises:
        ValueError: an unknown kind, or one that does not fit the label names. The function raises it for wrong shapes,
            label ids outside the label list, NaN logits, and as `tag_metrics` does.
    """
    scheme, names = scheme_of(label_names), np.asarray(label_names, dtype=object)
    if kind not in KINDS or (kind != "plain" and scheme != kind and (kind, scheme == "plain") != ("srl", False)):
        raise ValueError(f"`kind` is {kind!r}, expected one of {', '.join(KINDS)}; the {len(names)} tags are {scheme}")

    def compute_metrics(eval_prediction: Any) -> dict[str, float]:
        found, gold = named_tags(eval_prediction, names)
        return tag_metrics(found, gold, kind, scheme=scheme if kind == "srl" else None)

    figures = ("accuracy",) if kind == "plain" else ("accuracy", "precision", "recall", "f1", "malformed")
    own = ("core_role_violations",) if kind == "srl" else ()
    compute_metrics.figures = figures + own  # type: ignore[attr-defined]  # as for label sets
    return compute_metrics


def named_tags(eval_prediction: Any, names: np.ndarray) -> tuple[Tags, Tags]:
    """The predicted and the gold tags, from what a Trainer gives its `compute_metrics`.

    Args:
        eval_prediction: see [`tagging_compute_metrics`], also for the errors.
        names: (C,) objects, the tags.
    """
    predictions, labels = (
        np.asarray(array[0] if isinstance(array, (tuple, list)) else array)
        for array in (eval_prediction.predictions, eval_prediction.label_ids)
    )
    if labels.ndim != 2 or predictions.shape[:2] != labels.shape or predictions.shape[2:] not in ((), names.shape):
        raise ValueError(
            f"expected logits (N, T, {len(names)}) or ids (N, T), and labels (N, T); found {predictions.shape} and "
            f"{labels.shape}"
        )
    counts = labels != -100  # (N, T)
    chosen, labels = predictions[counts], labels[counts]  # (M, C) or (M,); (M,)
    if chosen.ndim == 2 and np.isnan(chosen).any():
        raise ValueError(f"{int(np.isnan(chosen).any(1).sum())} of {len(chosen)} tokens have a logit that is NaN")
    chosen = chosen.argmax(-1) if chosen.ndim == 2 else chosen
    for array in (chosen, labels):
        if array.size and not (0 <= array.min() and array.max() < len(names)):
            raise ValueError(f"tag ids {array.min()} .. {array.max()}, expected 0 .. {len(names) - 1}, or -100")
    ends = counts.sum(1).cumsum()[:-1]
    found, gold = ([row.tolist() for row in np.split(names[array], ends)] for array in (chosen, labels))
    return found, gold


def _checked(predicted: Tags, gold: Tags, kind: str, scheme: str | None = None) -> str:
    """The scheme of the spans; `plain` if there are none."""
    check_value("kind", kind, KINDS)
    if len(predicted) != len(gold):
        raise ValueError(f"there are {len(predicted)} predicted and {len(gold)} gold sequences; expected as many")
    for i, (one, other) in enumerate(zip(predicted, gold, strict=True)):
        if len(one) != len(other):
            raise ValueError(f"sequence {i} has {len(one)} predicted and {len(other)} gold tags; expected as many")
    if not any(map(len, gold)):
        raise ValueError(f"no tokens to score in {len(gold)} sequences")
    if kind != "srl":
        return kind
    found = scheme or scheme_of(tag for tags in gold for tag in tags)
    return "bio" if found == "plain" else found


def _span_set(tags: Sequence[str], kind: str, scheme: str) -> set:
    return {span for span in spans(tags, scheme) if kind != "srl" or span.type != PREDICATE}


def _span_counts(predicted: Tags, gold: Tags, kind: str, scheme: str) -> np.ndarray:
    sets = [[_span_set(tags, kind, scheme) for tags in pair] for pair in zip(predicted, gold, strict=True)]
    counts = [(len(ours & theirs), len(ours), len(theirs)) for ours, theirs in sets]
    return np.array(counts, dtype=np.int64).reshape(-1, 3)


def figures_of(right: int, found: int, there: int) -> dict[str, float]:
    """`precision`, `recall` and `f1` of these numbers of right, predicted and gold spans; 0/0 is 0."""
    precision, recall = right / max(found, 1), right / max(there, 1)
    return {"precision": precision, "recall": recall, "f1": 2 * right / max(found + there, 1)}


# Errors of tag sequences: what became of each gold span or tag, and where a scheme is broken.


class TagErrors(NamedTuple):
    """What became of each gold span or tag, and where each decided one came from.

    Attributes:
        names: the K types of spans, or plain tags, that occur, in alphabetical order.
        counts: int64. Plain tags: (K, K), gold tag by decided tag. Spans: (K + 2, K + 2), gold type by decided type
            among spans of the same words. A gold span without a decided one of its words stands in column K if it
            overlaps another, else in column K + 1: missed. A decided span without a gold one of its words stands in
            row K if it overlaps another, else in row K + 1: spurious.
        by_row: (N,) int64, the errors of each sequence: wrong tags, or the gold and the decided spans that are not
            also on the other side.
    """

    names: list[str]
    counts: np.ndarray
    by_row: np.ndarray


def tag_errors(predicted: Tags, gold: Tags, kind: str, label_names: Sequence[str]) -> TagErrors:
    """The errors of N predicted sequences, by the strict reading of spans, as [`tag_metrics`] counts them.

    Args:
        predicted, gold: N sequences of tag names, of equal lengths.
        kind: as for [`tag_metrics`]; `srl` leaves out the spans of `V`.
        label_names: all tags.
    """
    ours, theirs = (_path(tags, label_names) for tags in (predicted, gold))
    if kind == "plain":
        names, types = np.unique(np.asarray(label_names), return_inverse=True)
        words = np.flatnonzero(theirs >= 0)
        counts, wrong = _count_tags(types[ours[words]], types[theirs[words]], words, len(names))
    else:
        names, types = np.unique([split_tag(name)[1] for name in label_names], return_inverse=True)
        given = names == (PREDICATE if kind == "srl" else "")
        found = [_Spans.of(path, label_names, types, given) for path in (ours, theirs)]
        counts, wrong = _count_spans(found[0], found[1], len(names), len(theirs))
    size, row = len(names), (theirs < 0).cumsum() - 1  # of each place
    seen = counts[:size].any(1) | counts[:, :size].any(0)
    kept = np.append(np.flatnonzero(seen), np.arange(size, len(counts)))
    by_row = np.bincount(row[wrong], minlength=len(gold))
    return TagErrors(names[seen].tolist(), counts[np.ix_(kept, kept)], by_row)


def _path(tags: Tags, label_names: Sequence[str]) -> np.ndarray:
    """The ids of the tags of N sequences in one row, with -1 before, between and after sequences."""
    place = {name: i for i, name in enumerate(label_names)}
    ids = np.fromiter(map(place.__getitem__, chain.from_iterable(tags)), dtype=np.int64)
    return np.insert(ids, np.cumsum([0, *map(len, tags)]), -1)


def _count_tags(decided: np.ndarray, gold: np.ndarray, words: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The counts of plain tags, and the places of wrong ones among `words`."""
    counts = np.bincount(gold * size + decided, minlength=size**2).reshape(size, size)
    return counts, words[gold != decided]


class _Spans(NamedTuple):
    """Spans by place. `type`, `begin`, `end`: (S,) int64."""

    type: np.ndarray
    begin: np.ndarray
    end: np.ndarray

    @classmethod
    def of(cls, path: np.ndarray, label_names: Sequence[str], types: np.ndarray, given: np.ndarray) -> _Spans:
        """The spans in a path, but those of a given type."""
        first, begin, end = spans_of_ids(path, label_names)
        counted = ~given[types[first]]
        return cls(types[first][counted], begin[counted], end[counted])

    def without(self, which: np.ndarray) -> _Spans:
        """All spans but these."""
        return _Spans(*(np.delete(column, which) for column in self))

    def overlap(self, others: _Spans, length: int) -> np.ndarray:
        """1 for each span that shares a word with one of the others, else 0: (S,)."""
        steps = np.bincount(others.begin, minlength=length) - np.bincount(others.end, minlength=length)
        covered = np.append(0, steps.cumsum().cumsum())  # words before each place that the others cover
        return (covered[self.end] > covered[self.begin]).astype(np.int64)


def _count_spans(ours: _Spans, theirs: _Spans, size: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The counts of spans, and the place of each error; a pair of different types is two."""
    our_words, their_words = (found.begin * length + found.end for found in (ours, theirs))
    _, i, j = np.intersect1d(our_words, their_words, assume_unique=True, return_indices=True)
    counts = np.zeros((size + 2, size + 2), dtype=np.int64)
    spurious, missed = ours.without(i), theirs.without(j)
    np.add.at(counts, (theirs.type[j], ours.type[i]), 1)
    np.add.at(counts, (missed.type, size + 1 - missed.overlap(ours, length)), 1)
    np.add.at(counts, (size + 1 - spurious.overlap(theirs, length), spurious.type), 1)
    differ = theirs.begin[j][theirs.type[j] != ours.type[i]]
    return counts, np.concatenate([spurious.begin, missed.begin, differ, differ])


class BrokenStep(NamedTuple):
    """A step from one tag to the next that the scheme forbids.

    Attributes:
        before, after: the tags; None before the first word and after the last.
        times: how often it occurs.
        row, word: where it first occurs: the sequence, and the word of `after`.
    """

    before: str | None
    after: str | None
    times: int
    row: int
    word: int


def broken_steps(tags: Tags, label_names: Sequence[str]) -> tuple[list[BrokenStep], int]:
    """The forbidden steps in N sequences, the most frequent first, and the number of sequences with any."""
    allowed, size = allowed_transitions(label_names), len(label_names)
    table = np.ones((size + 1, size + 1), dtype=bool)  # the last: outside of a sequence, as -1 reads it
    table[:size, :size], table[size, :size], table[:size, size] = allowed.between, allowed.start, allowed.end
    path = _path(tags, label_names)
    edges = np.flatnonzero(path < 0)
    bad = np.flatnonzero(~table[path[:-1], path[1:]])
    row = np.searchsorted(edges, bad, "right") - 1
    steps, first, counts = np.unique(
        np.stack([path[bad], path[bad + 1]]), axis=1, return_index=True, return_counts=True
    )
    names: list[str | None] = [*label_names, None]
    found = [
        BrokenStep(names[before], names[after], int(count), int(row[i]), int(bad[i] - edges[row[i]]))
        for before, after, count, i in zip(*steps, counts, first, strict=True)
    ]
    return sorted(found, key=lambda step: -step.times), len(np.unique(row))
