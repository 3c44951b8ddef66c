"""Images for predicting label sets: image files, folders of them, and tables with a column of images or of names of
image files."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa

from ..utils.files import visible
from .chunks import Chunk
from .column_choice import need_column
from .common import DataError
from .image_files import IMAGE_SUFFIXES
from .image_tables import image_column, image_paths, is_image, names_images
from .label_rows import TextReader
from .row_tables import DataTable, Row, Table
from .table_sources import is_stored, table_files

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
        need_column(asked, dict.fromkeys(table.columns), "image_column", table.source)
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
