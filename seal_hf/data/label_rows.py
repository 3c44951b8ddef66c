"""Texts of tables for prediction and evaluation, with gold labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from .chunks import Chunk, parts
from .column_choice import check_header, check_texts, find_text_column, need_column, text_cell, text_columns
from .column_labels import column_labels
from .column_values import LOOKED_AT, has_marks
from .common import DataError
from .exports import STATUS, rejected
from .label_cells import label_cell
from .row_tables import Row, Table


class TextReader:
    """Texts of a table.

    Args:
        table: has the texts in `text_column`.
        text_column: a column, or two with a comma between them, whose texts are read as pairs.
        label_column: of gold labels, which become lists as [`label_cell`] has them; None: there are none.
        labels: columns of 0 and 1, one per label, in place of `label_column`: gold sets are (N, L) int8, in this order.
        separator: as in [`label_cell`].
    """

    def __init__(
        self,
        table: Table,
        text_column: str,
        label_column: str | None = None,
        labels: Sequence[str] = (),
        separator: str | None = None,
    ):
        self.table, self.label_column, self.labels, self.separator = table, label_column, labels, separator
        self.text_columns = text_columns(text_column, table.columns)
        self.columns: Sequence[str] = table.columns
        self.types = table.types
        self.notes = [table.note] if table.note else []

    @property
    def total(self) -> int | None:
        return self.table.total

    @property
    def label_names(self) -> list[str] | None:
        """The labels for ids of gold labels, if the data name them."""
        return None if self.label_column is None else self.table.label_names(self.label_column)

    def chunks(self, size: int) -> Iterator[Chunk]:
        for part in parts(self._rows(), size):
            yield Chunk([row for _, row in part], self.inputs(part), self._gold(part))
        self.notes += [note for note in self.table.notes if note not in self.notes]

    def _rows(self) -> Iterator[Row]:
        """The rows; with gold labels, without those that annotators rejected or did not answer."""
        names = [name for name in STATUS if name in self.table.columns]
        asked = names and (self.labels or self.label_column is not None)
        first = [row for _, row in islice(self.table, LOOKED_AT)] if asked else []
        column = rejected({name: [row[name] for row in first] for name in names}) if first else None
        if column is None:
            yield from self.table
            return
        name, words = column
        left = 0
        for number, row in self.table:
            if str(row[name]).lower() in words:
                left += 1
            else:
                yield number, row
        note = f"{left} rows left out: {name!r} says that they were rejected or not annotated."
        self.notes += [note] if note not in self.notes else []

    def inputs(self, part: Sequence[Row]) -> Any:
        place = self.table.place
        texts = [[text_cell(row[name], place(number)) for number, row in part] for name in self.text_columns]
        return texts[0] if len(texts) == 1 else [*zip(*texts, strict=True)]

    def _gold(self, part: Sequence[Row]) -> list[list] | np.ndarray | None:
        if self.labels:
            columns = {label: [row[label] for _, row in part] for label in self.labels}
            return column_labels(columns, lambda i: self.table.place(part[i][0]), self._marks).astype(np.int8)
        if self.label_column is None:
            return None
        column, mark = self.label_column, self.separator
        return [label_cell(row[column], self.table.place(number), True, mark) for number, row in part]

    @cached_property
    def _marks(self) -> bool:
        """True if an x or the like marks labels anywhere in the table."""
        return any(has_marks([[row[label] for label in self.labels]]) for _, row in self.table)


def text_column_of(
    table: Table, asked: str | None, trained: str | None, label_column: str, pairs: bool | None = None
) -> str:
    """The column of texts: the one that is asked for, the one in training, `text`, or the only string column; for
    pairs, two separated by a comma.

    Args:
        pairs: True if the net reads pairs of texts; None if unknown.

    Raises:
        DataError: the column does not exist or holds numbers, or the net reads another number of texts.
    """
    columns = table.head()
    if asked is None and trained not in columns:
        check_header(columns, table.source, ", such as text, or name the column of texts with --text_column")
    if asked is not None or pairs or trained in columns:
        name = asked or trained or ""
    else:
        name = find_text_column(columns, (label_column,), table.source)
    names = text_columns(name, columns)
    if pairs is not None and len(names) != 1 + pairs:
        reads, wanted = (
            ("pairs of texts", "two, such as --text_column premise,hypothesis") if pairs else ("one text", "one")
        )
        raise DataError(
            f"`text_column` is {repr(name) if name else 'not given'}, but the model reads {reads}. Of the columns "
            f"{', '.join(columns)}, name {wanted}."
        )
    for column in names:
        need_column(column, columns, "text_column", table.source)
        check_texts(columns[column], column, table.source)
    return name
