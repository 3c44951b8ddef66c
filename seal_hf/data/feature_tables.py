"""Features of tables: a column `features` with a list of numbers in each row, all of the same length."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset

from .column_choice import FEATURES, TEXTS
from .common import DataError, check_finite
from .label_cells import place_of

LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
NUMBERS = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean)


def has_features(columns: pa.Schema) -> bool:
    """True if a column `features` holds lists."""
    return FEATURES in columns.names and any(is_list(columns.field(FEATURES).type) for is_list in LISTS)


def reads_features(columns: pa.Schema, text_column: str | None) -> bool:
    """True if a table is read as features, not as texts: it has a column of features, no text column is requested, and
    no column has a usual name of texts."""
    return text_column is None and has_features(columns) and not set(TEXTS) & set(columns.names)


def feature_names(size: int) -> list[str]:
    """Names of the features of a list."""
    return [f"{FEATURES}[{i}]" for i in range(size)]


def feature_rows(table: Dataset, source: str, split: str, size: int | None = None) -> np.ndarray:
    """The column `features` of N rows, (N, F) float32, without a Python loop.

    Args:
        source, split: place of the table, for messages.
        size: F if it is known; default: the length of the first row.

    Raises:
        DataError: the column is missing, or the list of a row is missing, has another length, or holds values that are
            not finite numbers; the message names the first such row.
    """
    if not has_features(table.features.arrow_schema):
        raise DataError(f"{place_of(source, split)}: no column {FEATURES!r} of lists of numbers as in another split.")
    cells = table.select_columns([FEATURES]).with_format("arrow")[:][FEATURES].combine_chunks()
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
