"""A figure of a test set row by row: a ratio of sums over its rows, or a mean of such ratios; and as a short text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Rows(NamedTuple):
    """What N rows add to a figure, Σ part / Σ whole: the part and the whole of each row.

    A mean over rows has wholes of 1. Accuracy of tags has right tags and tags; F1 of spans over all sentences has twice
    the right spans, and predicted and gold spans together. The figure may also be the mean of such ratios over C
    classes: mean IoU has the pixels of each class's intersection and union.

    Attributes:
        part, whole: (N,), or of classes (N, C), at least 0; a part is at most its whole.
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
        """As [`ratio`] of the sums."""
        part, whole = (np.atleast_1d(values.sum(0)) for values in self)
        return float(ratio(part, whole))

    def as_text(self) -> str:
        """A word per row: `part/whole` of counts, of classes with commas, or the figure of a mean in thousandths."""
        if self.part.dtype.kind == "f":
            return " ".join(str(round(1000 * value)) for value in self.part)
        part, whole = (values.reshape(len(values), -1).tolist() for values in self)
        words = [[f"{a}/{b}" for a, b in zip(*row, strict=True)] for row in zip(part, whole, strict=True)]
        return " ".join(map(",".join, words))

    @classmethod
    def of_text(cls, text: str) -> Rows:
        """The inverse of `as_text`, up to half a thousandth."""
        words = text.split()
        if "/" not in text:
            return cls.of_mean(np.array(words, dtype=np.float64) / 1000)
        counts = np.array(
            [[pair.split("/") for pair in word.split(",")] for word in words], dtype=np.int64
        )  # (N, C, 2)
        part, whole = counts.transpose(2, 0, 1)
        return cls(part, whole) if "," in text else cls(part[:, 0], whole[:, 0])


def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Part / whole (..., C), the mean over the classes with a whole above 0; 0 without such classes."""
    known = whole > 0
    ratios = np.divide(part, whole, out=np.zeros(part.shape), where=known)
    return ratios.sum(-1) / np.maximum(known.sum(-1), 1)
