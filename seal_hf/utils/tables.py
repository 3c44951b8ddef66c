"""Tables of plain text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .messages import printable

PRINTED_LABELS = 40  # most labels of which a table is printed


def results_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """An aligned plain-text table for the terminal: a column per key, in order of first appearance. Numbers are aligned
    right, floats have 4 decimals, missing values and NaN are `-`, control characters are written as `\\x1b`. Without
    rows, the string is empty."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    heads = [*map(_cell, columns)]
    widths = [max(len(line[i]) for line in [heads, *cells]) for i in range(len(heads))]
    right = [all(isinstance(row.get(column), (int, float, type(None))) for row in rows) for column in columns]

    def line(texts: Sequence[str]) -> str:
        aligned = (t.rjust(w) if r else t.ljust(w) for t, w, r in zip(texts, widths, right, strict=True))
        return "  ".join(aligned).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(heads), rule, *map(line, cells)]) if columns else ""


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else printable(value).replace("\n", "\\n")
