"""A figure of a test set row by row: a ratio of two sums over its rows, and as text of a few bytes per row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Rows(NamedTuple):
    """What N rows add to a figure, Σ part / Σ whole: the part and the whole of each row.

    A mean over rows has wholes of 1. Accuracy of tags has right tags and tags; F1 of spans over all sentences has twice
    the right spans, and predicted and gold spans together.

    Attributes:
        part, whole: (N,), at least 0; a part is at most its whole.
    """

    part: np.ndarray
    whole: np.ndarray

    @classmethod
    def of_mean(cls, values: np.ndarray) -> Rows:
        """(N,) figures in [0, 1], of which the mean counts."""
        values = np.asarray(values, dtype=np.float64)
        return cls(values, np.ones_like(values))

    @property
    def figure(self) -> float:
        """In [0, 1]; 0 if all wholes are 0."""
        whole = self.whole.sum()
        return float(self.part.sum() / whole) if whole else 0.0

    def as_text(self) -> str:
        """A word per row: `part/whole` of counts, or the figure of a mean in thousandths."""
        if self.part.dtype.kind == "f":
            return " ".join(str(round(1000 * value)) for value in self.part)
        return " ".join(f"{part}/{whole}" for part, whole in zip(self.part, self.whole, strict=True))

    @classmethod
    def of_text(cls, text: str) -> Rows:
        """The inverse of `as_text`, up to half a thousandth."""
        words = text.split()
        if "/" not in text:
            return cls.of_mean(np.array(words, dtype=np.float64) / 1000)
        part, whole = np.array([word.split("/") for word in words], dtype=np.int64).T
        return cls(part, whole)
