"""Rows of texts, features and images for prediction and evaluation, with gold label sets, read in parts."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa

from ..utils.files import visible
from .column_choice import (
    FEATURES,
    LOOKED_AT,
    check_header,
    check_texts,
    find_text_column,
    need_column,
    text_cell,
    text_columns,
)
from .common import DataError
from .exports import STATUS, rejected
from .feature_tables import feature_lists, number_columns
from .image_files import IMAGE_SUFFIXES
from .image_tables import image_column, image_paths, is_image, names_images
from .label_cells import PLAIN, Layout, is_filled, label_cell, layout_of
from .label_columns import column_labels, has_marks
from .line_files import Indices, indices_of, is_sparse
from .row_tables import Chunk, DataTable, LineTable, Row, Table, parts
from .table_sources import is_stored, table_files

# --- texts ------------------------------------------------------------------------------------------------------------


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
        self._empty = 0  # texts of the rows read

    @property
    def total(self) -> int | None:
        return self.table.total

    @property
    def label_names(self) -> list[str] | None:
        """The labels for ids of gold labels, if the data name them."""
        return None if self.label_column is None else self.table.label_names(self.label_column)

    def chunks(self, size: int) -> Iterator[Chunk]:
        self._empty = count = 0
        for part in parts(self._rows(), size):
            count += len(part) * len(self.text_columns)
            yield Chunk([row for _, row in part], self.inputs(part), self._gold(part))
        empty = [f"{self._empty} of {count} texts are empty (kept)."] if self._empty else []
        self.notes += [note for note in [*self.table.notes, *empty] if note not in self.notes]

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
        self._empty += sum(not text.strip() for column in texts for text in column)
        return texts[0] if len(texts) == 1 else [*zip(*texts, strict=True)]

    def _gold(self, part: Sequence[Row]) -> list[list] | np.ndarray | None:
        if self.labels:
            columns = {label: [row[label] for _, row in part] for label in self.labels}
            table = self.table
            found = column_labels(columns, lambda i: table.place(part[i][0]), self._marks, table.classes)
            return found.astype(np.int8)
        if self.label_column is None:
            return None
        cells = ((self._layout.read(row[self.label_column]), self.table.place(number)) for number, row in part)
        return [label_cell(cell, place, self.separator) for cell, place in cells]

    @cached_property
    def _layout(self) -> Layout:
        """The layout of the column of label sets; vectors are found later, by their format. Most columns have none,
        as the first filled cell tells."""
        column, mark = str(self.label_column), self.separator
        first = islice((row[column] for _, row in self.table if is_filled(row[column])), 1)
        found = layout_of(first, "names", mark)
        return found if found is PLAIN else layout_of((row[column] for _, row in self.table), "names", mark)

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


# --- features ---------------------------------------------------------------------------------------------------------


class FeatureTable(TextReader):
    """Features of a table: the column `features` with lists of `input_size` numbers, in a csv as JSON, or columns of
    numbers. `trained`, that is `config.inputs`, says which columns training read and how it numbered those of LIBSVM.
    """

    def __init__(
        self,
        table: Table,
        input_size: int,
        label_column: str | None = None,
        labels: Sequence[str] = (),
        separator: str | None = None,
        trained: Mapping[str, Any] | None = None,
    ):
        columns, first = ((trained or {}).get(name) for name in ("feature_columns", "first_index"))
        missing = [name for name in columns or (FEATURES,) if name not in table.columns]
        if missing and columns:
            raise DataError(
                f"{table.source} lacks {len(missing)} of the {len(columns)} columns of numbers that this model reads, "
                f"such as {missing[0]!r}; its columns are {', '.join(table.columns)}. Give all of them."
            )
        if missing:
            raise DataError(
                f"{table.source} has no column {FEATURES!r}, where this model reads {input_size} numbers; its "
                f"columns are {', '.join(table.columns)}. Give such a column, or an ARFF file."
            )
        if isinstance(table, LineTable) and is_sparse(table.path):
            table.indices = Indices(indices_of([table.path]).first if first is None else first, input_size)
        super().__init__(table, FEATURES, label_column, labels, separator)
        self.input_size, self.feature_columns = input_size, columns

    def inputs(self, part: Sequence[Row]) -> np.ndarray:
        def place(i: int) -> str:
            return self.table.place(part[i][0])

        if self.feature_columns:
            return number_columns({name: [row[name] for _, row in part] for name in self.feature_columns}, place)
        return feature_lists([row[FEATURES] for _, row in part], self.input_size, place)


# --- images -----------------------------------------------------------------------------------------------------------

COLUMN = "file"  # of the output for image files


class ImageFiles:
    """A [`Reader`] of image files: `inputs` are their paths."""

    columns = (COLUMN,)
    types = pa.schema([pa.field(COLUMN, pa.string())])

    def __init__(self, files: Sequence[Path], notes: Sequence[str] = ()):
        self.files, self.notes = files, list(notes)

    @property
    def total(self) -> int:
        return len(self.files)

    def chunks(self, size: int) -> Iterator[Chunk]:
        for start in range(0, len(self.files), size):
            part = self.files[start : start + size]
            yield Chunk([{COLUMN: file.name} for file in part], [str(file) for file in part])


class ImageTable(TextReader):
    """Images of a table: `inputs` are paths, or the stored bytes. In the output, the path of an image stands in its
    place.

    Args:
        table: has the images, or names of their files, in `column`.
        column, label_column, labels, separator: as in [`TextReader`].
    """

    def __init__(
        self,
        table: Table,
        column: str,
        label_column: str | None = None,
        labels: Sequence[str] = (),
        separator: str | None = None,
    ):
        super().__init__(table, column, label_column, labels, separator)
        self.column = column
        if isinstance(table, DataTable):
            table.keep_stored(column)
        if self.types is not None:
            place = self.types.get_field_index(column)
            self.types = self.types.set(place, pa.field(column, pa.string())).remove_metadata()

    def chunks(self, size: int) -> Iterator[Chunk]:
        for chunk in super().chunks(size):
            chunk.rows = [{**row, self.column: _shown(row[self.column])} for row in chunk.rows]
            yield chunk

    def inputs(self, part: Sequence[Row]) -> list[Any]:
        cells = [row[self.column] for _, row in part]
        if all(isinstance(cell, str) for cell in cells):
            return image_paths(cells, self.table.folder, lambda i: self.table.place(part[i][0]))
        for (number, _), cell in zip(part, cells, strict=True):
            if isinstance(cell, str):
                continue  # another row lacks its image, which is named
            if not isinstance(cell, dict) or not (cell.get("bytes") or cell.get("path")):
                raise DataError(
                    f"{self.table.place(number)}: {self.column!r} is {str(cell)[:60]!r}, expected an image or the name "
                    "of an image file."
                )
            if cell.get("bytes") is None and not os.path.isfile(cell["path"]):
                raise DataError(
                    f"{self.table.place(number)}: no image file {cell['path']!r} on this machine. Store the bytes of "
                    "the images in the table, or the paths of existing files."
                )
        return cells


def _shown(cell: Any) -> str | None:
    return cell.get("path") if isinstance(cell, dict) else cell


def image_files(name: str) -> ImageFiles | None:
    """The images of a file or folder; None for a table, a folder with one, or a Hub id.

    Raises:
        DataError: the folder has no image.
    """
    path = Path(name)
    if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file():
        return ImageFiles([path])
    if not path.is_dir() or is_stored(path) or table_files(path):
        return None
    folder = path / "images" if (path / "images").is_dir() else path
    files = [file for file in visible(folder) if file.suffix.lower() in IMAGE_SUFFIXES]
    if not files:
        raise DataError(
            f"{folder}: no images, nor a table of their names. Give at least one image of type "
            f"{', '.join(IMAGE_SUFFIXES)}."
        )
    others = [file.name for file in visible(folder) if file not in files and _is_image(file)]
    note = f"{len(others)} images of other types are not read: {', '.join(others[:5])}. Convert them to .png."
    return ImageFiles(files, [note] if others else [])


def _is_image(file: Path) -> bool:
    return (mimetypes.guess_type(file.name)[0] or "").startswith("image/")


def image_column_of(table: Table, asked: str | None, trained: str | None) -> str:
    """The column of images, or of names of image files: the one that is asked for, the one in training, or the one
    found.

    Raises:
        DataError: there is none.
    """
    if asked is not None:
        need_column(asked, table.columns, "image_column", table.source)
        return asked
    if trained in table.columns:
        return str(trained)
    features = {} if table.types is None else datasets.Features.from_arrow_schema(table.types)
    stored = {name: feature for name, feature in features.items() if is_image(feature)}
    values = {} if stored else table.head()
    found = image_column(stored, {name: column for name, column in values.items() if names_images(column)}, None, None)
    if found is None:
        raise DataError(
            f"{table.source} has no column of images or of names of image files; its columns are "
            f"{', '.join(table.columns)}. Name one with --image_column."
        )
    return found
