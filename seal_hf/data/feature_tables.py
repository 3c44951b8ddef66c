"""Features of tables: a column `features` with a list of numbers in each row, all of the same length, or columns of
numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .column_choice import FEATURES
from .common import DataError, check_finite, place_of
from .row_tables import Table

LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
NUMBERS = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean)


def has_features(table: Table) -> bool:
    """True if a column `features` of a table whose types are known holds lists."""
    types = table.types
    return types is not None and FEATURES in types.names and any(kind(types.field(FEATURES).type) for kind in LISTS)


def are_lists(values: Sequence[Any]) -> bool:
    """True if the values of a file of rows are lists of numbers, also as JSON or as NumPy prints
    them."""
    shown = [value for value in values if value not in (None, "")][:10]
    return bool(shown) and all(_numbers(value).size for value in shown)


def feature_lists(cells: Sequence[Any], size: int | None, place: Callable[[int], str]) -> np.ndarray:
    """Lists of numbers, also as texts, (N, F) float32.

    Args:
        size: F if it is known; default: the length of the first list.
        place: describes a row in messages.

    Raises:
        DataError: the list of a row is missing, has another length, or holds values that are not finite numbers.
    """
    found: np.ndarray | None = None
    for i, value in enumerate(cells):
        values = _numbers(value)
        size = values.size if size is None else size
        if values.shape != (size,) or not size or not np.isfinite(values).all():
            raise DataError(
                f"{place(i)}: {FEATURES!r} is {str(value)[:60]!r}; expected a list of {size or 'some'} finite numbers."
            )
        found = np.empty((len(cells), size), dtype=np.float32) if found is None else found
        found[i] = values
    return np.empty((0, size or 0), dtype=np.float32) if found is None else found


def _numbers(value: Any) -> np.ndarray:
    """(F,) float32; empty for anything else. In a text, commas or blanks separate the numbers."""
    try:
        if isinstance(value, str):
            value = value.strip().removeprefix("[").removesuffix("]").replace(",", " ").split()
        values = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError):
        return np.empty(0, dtype=np.float32)
    return values if values.ndim == 1 else np.empty(0, dtype=np.float32)


def number_columns(columns: Mapping[str, Sequence[Any]], place: Callable[[int], str]) -> np.ndarray:
    """Columns of N numbers, also as texts, (N, F) float32.

    Raises:
        DataError: another value, or a missing one; names its column and row.
    """
    found = np.empty((len(next(iter(columns.values()))), len(columns)), dtype=np.float32)
    for i, (name, values) in enumerate(columns.items()):
        try:
            found[:, i] = np.asarray(values, dtype=np.float64)
            wrong = np.flatnonzero(~np.isfinite(found[:, i]))
        except (TypeError, ValueError):
            wrong = np.array([row for row, value in enumerate(values) if not _is_finite(value)][:1])
        if len(wrong):
            value = values[int(wrong[0])]
            said = "is empty" if value in (None, "") or value != value else f"is {str(value)[:60]!r}"
            raise DataError(
                f"{place(int(wrong[0]))}: the feature {name!r} {said}; expected a finite number. Fill it in, or remove "
                "the row or the column."
            )
    return found


def _is_finite(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError):
        return False


def feature_names(size: int) -> list[str]:
    """Names of the features of a list."""
    return [f"{FEATURES}[{i}]" for i in range(size)]


def feature_rows(table: Table, source: str, split: str, size: int | None = None) -> np.ndarray:
    """The column `features` of N rows, (N, F) float32, without a Python loop.

    Args:
        source, split: place of the table, for messages.
        size: F if it is known; default: the length of the first row.

    Raises:
        DataError: the column is missing, or the list of a row is missing, has another length, or holds values that are
            not finite numbers; the message names the first such row.
    """
    if not has_features(table):
        raise DataError(f"{place_of(source, split)}: no column {FEATURES!r} of lists of numbers as in another split.")
    cells = table.data.select_columns([FEATURES]).with_format("arrow")[:][FEATURES].combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(cells), 0).to_numpy(zero_copy_only=False)
    if not len(lengths):
        return np.empty((0, size or 0), dtype=np.float32)
    size = int(lengths[0]) if size is None else size
    bad = np.flatnonzero((lengths != size) | (lengths == 0))
    if len(bad):
        expected = f"{size} as the first row has" if size else "a list"
        raise DataError(
            f"{place_of(source, split, int(bad[0]))}: column {FEATURES!r} holds {lengths[bad[0]] or 'no'} numbers, "
            f"expected {expected}. Give all rows lists of one length."
        )
    if not any(is_number(cells.type.value_type) for is_number in NUMBERS):
        raise DataError(
            f"{place_of(source, split, 0)}: column {FEATURES!r} holds {str(cells[0].as_py())[:60]}, expected a list of "
            "numbers. Convert it, or give the column another name."
        )
    values = pc.list_flatten(cells).cast(pa.float32(), safe=False)  # a missing number becomes NaN
    features = values.to_numpy(zero_copy_only=False).reshape(-1, size)
    check_finite(features, feature_names(size), place_of(source, split))
    return features
