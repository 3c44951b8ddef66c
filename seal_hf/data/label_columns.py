"""Columns of 0 and 1, or yes and no, or marks and nothing: one for each label."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .common import DataError

ONES = ("1", "1.0", "true", "yes", "y", "t", "x", "✓", "✔", "☑", "+", "ja", "oui", "si", "sí")
ZEROS = ("0", "0.0", "false", "no", "n", "f", "-", "☐", "nein", "non")
MARKS = ("x", "✓", "✔", "☑")  # beside these, an empty cell means no
DIGITS = ("0", "1", "0.0", "1.0")
NEGATIVE = (-1, "-1", "-1.0")  # unknown labels, also beside marks
UNKNOWN = (*NEGATIVE, "", "nan", None)  # cells of unknown labels


def zero_one(value: Any) -> float | None:
    """0 or 1, also in words, or -1 for unknown; None for anything else."""
    if isinstance(value, str):
        value = value.strip().lower()
    if value in UNKNOWN or value != value:
        return -1.0
    if isinstance(value, str):
        return 1.0 if value in ONES else 0.0 if value in ZEROS else None
    return float(value) if isinstance(value, (int, float)) and value in (0, 1) else None


def _numbers(values: Sequence[Any]) -> dict[Any, float | None] | None:
    """The number for each value of a column; None if the column holds lists."""
    try:
        return {value: zero_one(value) for value in set(values)}
    except TypeError:
        return None


def is_zero_one(values: Sequence[Any]) -> bool:
    """True if a column holds only 0 and 1, as numbers or in words such as yes and no, and unknown labels."""
    numbers = {*(_numbers(values) or {}).values()}
    return bool(numbers & {0.0, 1.0}) and None not in numbers


def is_yes_no(values: Iterable[Any]) -> bool:
    """True if a column holds 0 and 1 in words alone, such as yes and no, or x and nothing; not as numbers."""
    words = {value.strip().lower() for value in values if isinstance(value, str)} - {""}
    return bool(words) and words <= {*ONES, *ZEROS} and not words & {*DIGITS, *UNKNOWN}


def has_marks(columns: Iterable[Iterable[Any]]) -> bool:
    """True if columns of labels hold marks such as x, beside which an empty cell means no."""
    words = {value for values in columns for value in values if isinstance(value, str)}
    return any(word.strip().lower() in MARKS for word in words)


def column_labels(
    columns: Mapping[str, Sequence[Any]],
    place: Callable[[int], str],
    marks: bool,
    classes: Mapping[str, Sequence[str]] | None = None,
) -> np.ndarray:
    """Columns of N values, one per label -> (N, L) float32 of 0 and 1, and -1 for an unknown label: -1, an empty cell,
    or NaN.

    Args:
        columns: label -> values: 0 and 1, or words such as yes and no.
        place: describes a row in messages.
        marks: True if the table marks labels, by an x or the like: an empty cell is 0 then.
        classes: column -> names of its numbers, which count if they are words such as yes and no.

    Raises:
        DataError: another value; names its column and row.
    """
    matrix = np.empty((len(next(iter(columns.values()))), len(columns)), dtype=np.float32)
    for i, (name, values) in enumerate(columns.items()):
        names = (classes or {}).get(name, ())
        if say_yes_or_no(names):
            values = [names[v] if isinstance(v, int) and v >= 0 else v for v in values]
        known = _numbers(values)
        if known is None or None in known.values():
            row = next(row for row, value in enumerate(values) if known is None or known[value] is None)
            raise DataError(
                f"{place(row)}: the label column {name!r} holds {str(values[row])[:60]!r}; expected 0 or 1, yes or no, "
                "or for an unknown label -1 or nothing. Correct it, or take the column out of the labels."
            )
        if marks:
            known = {value: 0.0 if known[value] == -1 and value not in NEGATIVE else known[value] for value in known}
        matrix[:, i] = [*map(known.__getitem__, values)]
    return matrix


def say_yes_or_no(names: Sequence[str]) -> bool:
    """True for names of two classes that are words for 0 and 1, in any order."""
    return len(names) == 2 and {zero_one(name) for name in names} == {0.0, 1.0}
