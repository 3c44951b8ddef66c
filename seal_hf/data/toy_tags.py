"""The embedded tagging task: synthetic sentences whose tags depend on each other more than on their words. Nothing is
downloaded.

Spans of three types (X, Y, Z; BIO tags) lie between outside words. The tags are not a first-order chain. The type of a
span mostly follows that of the previous span in the circle X, Y, Z. A span of X mostly has two words, of Y one to
three, of Z three or four. A word (`w0` .. `w39`) comes in 60 % of cases from the ten words of its type (or of the
outside), else from all forty. So a word tells little, and its neighbours tell much.
"""

from __future__ import annotations

import numpy as np

from .columns import ORIGINS, Rows
from .common import Origins

TYPES = "XYZ"
WORDS = 40
OWN = 0.6  # share of words drawn from those of the type
SIZES = {"train": 400, "validation": 150, "test": 300}
LENGTHS = {0: (0.0, 0.9, 0.1, 0.0), 1: (0.4, 0.3, 0.3, 0.0), 2: (0.0, 0.1, 0.5, 0.4)}  # of a span: P(1 .. 4 words)
NEXT = 0.8  # probability that the next span is of the next type in the circle; the two others share the rest


def toy_rows(seed: int = 0) -> dict[str, Rows]:
    """400 / 150 / 300 sentences of 8 to 15 words: columns `words` and `tags` (names), by split."""
    rng = np.random.default_rng(seed)
    return {
        split: _sample(size, rng) | {ORIGINS: Origins(f"toy_tags, {split} split", rows=np.arange(size))}
        for split, size in SIZES.items()
    }


def _sample(size: int, rng: np.random.Generator) -> Rows:
    rows: Rows = {"words": [], "tags": []}
    for _ in range(size):
        length = int(rng.integers(8, 16))
        kinds: list[int] = []  # type of each word; 3 = outside
        tags: list[str] = []
        kind = int(rng.integers(3))
        while len(tags) < length:
            gap = int(rng.integers(0, 3))
            kind = (kind + int(rng.choice(3, p=[NEXT, (1 - NEXT) / 2, (1 - NEXT) / 2])) + 1) % 3
            span = 1 + int(rng.choice(4, p=LENGTHS[kind]))
            kinds += [3] * gap + [kind] * span
            tags += ["O"] * gap + [f"B-{TYPES[kind]}"] + [f"I-{TYPES[kind]}"] * (span - 1)
        own = np.asarray(kinds[:length]) * 10 + rng.integers(0, 10, length)
        words = np.where(rng.uniform(size=length) < OWN, own, rng.integers(0, WORDS, length))
        rows["words"].append([f"w{word}" for word in words])
        rows["tags"].append(tags[:length])
    return rows
