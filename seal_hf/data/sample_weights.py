"""Weights of training rows, from a column of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .common import DataError


def read_weights(cells: Sequence[Any], column: str, place: Callable[[int], str]) -> np.ndarray:
    """Cells of a column as weights, (N,) float32.

    Args:
        place: describes a row in messages.

    Raises:
        DataError: a cell is not a finite number >= 0.
    """
    weights = np.empty(len(cells), dtype=np.float32)
    for row, cell in enumerate(cells):
        try:
            weights[row] = float(cell)
        except (TypeError, ValueError):
            weights[row] = np.nan
        if not (np.isfinite(weights[row]) and weights[row] >= 0):
            raise DataError(
                f"{place(row)}: `sample_weight` column {column!r} is {cell!r}, expected a finite number of at least 0."
            )
    return weights


def with_mean_1(weights: np.ndarray, column: str, source: str) -> tuple[np.ndarray, str]:
    """Weights of the training rows divided by their mean, so that rates and λ1 keep their meaning; and a note.

    Raises:
        DataError: all of them are 0.
    """
    mean = float(weights.mean(dtype=np.float64))
    if mean == 0:
        raise DataError(f"{source}: `sample_weight` column {column!r} is 0 in every training row. Name another column.")
    spread = f"from {weights.min() / mean:.3g} to {weights.max() / mean:.3g}"
    return weights / np.float32(mean), f"training rows are weighted by {column!r} / its mean {mean:.3g}: {spread}."
