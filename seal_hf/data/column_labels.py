"""One column per label: choose these columns, and make their matrix."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..utils.messages import did_you_mean
from .column_values import zero_one
from .common import DataError

NEGATIVE = (-1, "-1", "-1.0")  # unknown labels, also beside marks
ALL_BUT = "all_but"


def is_all_but(words: Sequence[str]) -> bool:
    """True if `label_columns` names the columns without labels."""
    return bool(words) and words[0].split(" ")[0] == ALL_BUT


def asked_columns(words: Sequence[str], known: Sequence[str], never: Collection[str | None], source: str) -> list[str]:
    """The columns that `label_columns` asks for.

    Args:
        words: names of columns, or several separated by commas; after `all_but`, those without labels.
        known: the existing columns.
        never: columns that are never labels, for `all_but`.

    Raises:
        DataError: a column is missing or named twice, or none is left.
    """
    but = is_all_but(words)
    if but:
        words = [words[0].removeprefix(ALL_BUT).strip(), *words[1:]]
    parts = [[word] if word in known else word.split(",") for word in words]
    names = [name if name in known else name.strip() for part in parts for name in part if name.strip()]
    for name in names:
        if name not in known:
            raise DataError(
                f"{source} has no column {name!r}; its columns are {', '.join(known)}.{did_you_mean(name, known)} "
                f"Name the right ones with --label_columns a,b,c or --label_columns {ALL_BUT} text,id."
            )
    if len(set(names)) < len(names):
        raise DataError(f"`label_columns` names {max(names, key=names.count)!r} twice. Name each column once.")
    chosen = [name for name in known if name not in names and name not in never] if but else names
    if not chosen:
        raise DataError(f"{source}: `label_columns` leaves no column. Name those that hold 0 and 1, one per label.")
    return chosen


def column_labels(columns: Mapping[str, Sequence[Any]], place: Callable[[int], str], marks: bool) -> np.ndarray:
    """Columns of N values, one per label -> (N, L) float32 of 0 and 1, and -1 for an unknown label: -1, an empty cell,
    or NaN.

    Args:
        columns: label -> values: 0 and 1, or words such as yes and no.
        place: describes a row in messages.
        marks: True if the table marks labels, by an x or the like: an empty cell is 0 then.

    Raises:
        DataError: another value; names its column and row.
    """
    matrix = np.empty((len(next(iter(columns.values()))), len(columns)), dtype=np.float32)
    for i, (name, values) in enumerate(columns.items()):
        known = _known_numbers(values)
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


def _known_numbers(values: Sequence[Any]) -> dict[Any, float | None] | None:
    """The number for each value of a column; None if the column holds lists."""
    try:
        return {value: zero_one(value) for value in set(values)}
    except TypeError:
        return None
