"""Labels that are probabilities: the cells, and their matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..utils.messages import few
from .common import DataError
from .label_cells import parsed


def soft_matrix(
    cells: Mapping[str, Sequence[Any]], names: Sequence[str] | None, place: Callable[[str, int], str]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Cells by split with a probability for each label -> (N, L) float32 by split, -1 for unknown, and the L names.

    Args:
        cells: mappings of names to numbers, a name that is left out has 0; or lists of L numbers; both also as JSON.
            An empty cell or value is unknown.
        names: the labels of lists; default: numbers from 0 on.
        place: describes a row of a split in messages.

    Raises:
        DataError: something else, an unknown name, or a number outside of 0 to 1; names the row.
    """
    read = {
        split: [_probabilities(value, place(split, i)) for i, value in enumerate(rows)] for split, rows in cells.items()
    }
    every = [cell for rows in read.values() for cell in rows if cell is not None]
    if not names:
        found = {name for cell in every for name in cell}
        names = sorted(found) if any(isinstance(name, str) for name in found) else [str(i) for i in range(len(found))]
    index: dict[Any, int] = {name: i for i, name in enumerate(names)} | {i: i for i in range(len(names))}
    length = len(next(iter(every), ()))
    matrices = {}
    for split, rows in read.items():
        matrix = matrices[split] = np.full((len(rows), len(names)), -1, dtype=np.float32)
        for i, cell in enumerate(rows):
            if cell is None:
                continue
            wrong = next((name for name in cell if name not in index), None)
            if wrong is not None or (0 in cell and len(cell) != length):
                said = f"label {wrong!r} is not one of" if isinstance(wrong, str) else f"{len(cell)} probabilities for"
                raise DataError(f"{place(split, i)}: {said} the {len(names)} labels {few(names, 5)}.")
            matrix[i] = 0
            matrix[i, [index[name] for name in cell]] = [*cell.values()]
    return matrices, [*names]


def _probabilities(value: Any, place: str) -> dict[Any, float] | None:
    """Name, or position in a list -> probability; None for an empty cell."""
    if isinstance(value, str):
        value = parsed(value.strip(), place)
    if isinstance(value, (list, tuple, np.ndarray)):
        value = dict(enumerate(value))
    if value is None or value == "":
        return None
    if not isinstance(value, dict) or not value:
        raise DataError(f"{place}: {str(value)[:60]!r} are no probabilities; expected a mapping of names, or a list.")
    return {name: _probability(number, name, place) for name, number in value.items()}


def _probability(value: Any, name: Any, place: str) -> float:
    """A number from 0 to 1, or -1 for an empty cell. DataError for anything else."""
    if value is None or value == "" or value != value:
        return -1.0
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= 1:
        raise DataError(f"{place}: the probability of {name!r} is {str(value)[:60]!r}; expected a number from 0 to 1.")
    return number
