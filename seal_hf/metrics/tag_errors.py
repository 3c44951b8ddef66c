"""Errors of tag sequences: what became of each gold span or tag, and where a scheme is broken."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..structures.tag_schemes import PREDICATE, allowed_transitions, spans_of_ids, split_tag
from .tags import Tags


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
