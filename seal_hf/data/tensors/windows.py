"""Overlapping windows of sentences that are too long for an encoder.

A window holds whole words. If two windows overlap, the outputs for the first half of the shared words come from the
earlier window, the others from the later one: each word is read with its neighbours on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

OVERLAP = 0.25  # largest share of a window for words of the window before


class Window(NamedTuple):
    """Words `start .. end - 1` of a sentence; it gives the outputs for words `first .. last - 1`."""

    start: int
    end: int
    first: int
    last: int


def windows_of(sizes: Sequence[int] | np.ndarray, room: int) -> list[Window]:
    """Windows of a sentence, from left to right; a single one if the sentence fits.

    Args:
        sizes: number of sub-words of each word, at least 1.
        room: most sub-words in a window.

    Raises:
        ValueError: a word has more than `room` sub-words.
    """
    if max(sizes) > room:
        word = int(np.argmax(sizes))
        raise ValueError(f"word {word} has {sizes[word]} sub-words, but the encoder reads at most {room} at once")
    ends = np.concatenate([[0], np.cumsum(sizes)])  # sub-words before each word, and in all
    bounds = [(0, _furthest(ends, 0, room))]
    while bounds[-1][1] < len(sizes):
        before, end = bounds[-1]
        start = int(np.searchsorted(ends, ends[end] - OVERLAP * room))
        while _furthest(ends, start, room) == end:  # the next word is too long for all of these
            start += 1
        bounds.append((start, _furthest(ends, start, room)))
    cuts = [0, *((later[0] + earlier[1]) // 2 for earlier, later in pairwise(bounds)), len(sizes)]
    return [Window(*bound, *cut) for bound, cut in zip(bounds, pairwise(cuts), strict=True)]


def _furthest(ends: np.ndarray, start: int, room: int) -> int:
    """The end of the longest window that begins at a word."""
    return int(np.searchsorted(ends, ends[start] + room, side="right")) - 1


def subword_counts(sentences: list[list[str]], tokenizer: PreTrainedTokenizerBase) -> list[np.ndarray]:
    """Numbers of sub-words of each word of N sentences; 1 for a word that becomes the unknown token."""
    encoded = tokenizer(sentences, is_split_into_words=True, add_special_tokens=False, verbose=False)
    counts = []
    for i, words in enumerate(sentences):
        found = np.array(encoded.word_ids(i), dtype=np.int64)
        counts.append(np.bincount(found, minlength=len(words)).clip(min=1))
    return counts
