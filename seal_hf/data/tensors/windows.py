"""Sentences that are longer than an encoder takes, in windows that overlap.

A window holds whole words. Where two windows overlap, the outputs of the first half of the shared words are taken from
the earlier window and the others from the later one: each word is read with its neighbours on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

OVERLAP = 0.25  # share of the room of a window that the words it shares with the one before may fill


class Window(NamedTuple):
    """Words `start .. end - 1` of a sentence, whose words `first .. last - 1` are taken from this window."""

    start: int
    end: int
    first: int
    last: int


def windows_of(sizes: Sequence[int] | np.ndarray, room: int) -> list[Window]:
    """Windows of a sentence, from left to right; a single one where it fits.

    Args:
        sizes: sub-words of each word, each at least 1.
        room: the most sub-words of a window.

    Raises:
        ValueError: a word has more sub-words than there is room.
    """
    if max(sizes) > room:
        word = int(np.argmax(sizes))
        raise ValueError(f"word {word} has {sizes[word]} sub-words, and the encoder takes {room} at once")
    ends = np.concatenate([[0], np.cumsum(sizes)])  # sub-words before each word, and in all
    bounds = [(0, _furthest(ends, 0, room))]
    while bounds[-1][1] < len(sizes):
        before, end = bounds[-1]
        start = int(np.searchsorted(ends, ends[end] - OVERLAP * room))
        while _furthest(ends, start, room) == end:  # the next word is so long that there is no room for all of these
            start += 1
        bounds.append((start, _furthest(ends, start, room)))
    cuts = [0, *((later[0] + earlier[1]) // 2 for earlier, later in pairwise(bounds)), len(sizes)]
    return [Window(*bound, *cut) for bound, cut in zip(bounds, pairwise(cuts), strict=True)]


def _furthest(ends: np.ndarray, start: int, room: int) -> int:
    """The end of the longest window that begins at a word."""
    return int(np.searchsorted(ends, ends[start] + room, side="right")) - 1


def subword_counts(sentences: list[list[str]], tokenizer: PreTrainedTokenizerBase) -> list[np.ndarray]:
    """Sub-words of each word of N sentences; 1 where the tokenizer gives none, as its unknown token stands there."""
    encoded = tokenizer(sentences, is_split_into_words=True, add_special_tokens=False, verbose=False)
    counts = []
    for i, words in enumerate(sentences):
        found = np.array(encoded.word_ids(i), dtype=np.int64)
        counts.append(np.bincount(found, minlength=len(words)).clip(min=1))
    return counts
