"""Tables with named columns: files of lines, parquet files, and what `datasets` reads. Rows are read one at a time, in
parts, so that the memory of a prediction does not grow with their number, or all at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from .common import DataError, Origins, id_column
from .image_tables import is_image
from .late import datasets, pa, parquet
from .line_files import Indices, Lines, read_lines
from .name_files import LABEL_LIST, names_beside, names_of_file

if TYPE_CHECKING:
    from datasets import Dataset, Features

# --- what predictions read --------------------------------------------------------------------------------------------

T = TypeVar("T")


@dataclass
class Chunk:
    """Some rows of an input, in its order.

    Attributes:
        rows: N rows as read, column -> value; they are written back beside the predictions.
        inputs: N inputs, the first argument of the model's `predict`; for label sets from features, a float32 array
            (N, F).
        gold: N gold structures; None if not asked for.
    """

    rows: list[dict[str, Any]]
    inputs: Any
    gold: Any = None


class Reader(Protocol):
    """An input for predictions.

    Attributes:
        columns: the names of its columns, which our columns must not take.
        total: the number of its rows; None if unknown. Counting reads a file of lines once, which finds a damaged row
            before a model is loaded.
        notes: what was chosen or left out, complete after all rows are read.
    """

    notes: list[str]

    @property
    def columns(self) -> Sequence[str]: ...

    @property
    def total(self) -> int | None: ...

    def chunks(self, size: int) -> Iterator[Chunk]:
        """All rows in chunks of `size`; the last chunk may be smaller.

        Raises:
            DataError: names the file, the column or the line.
        """
        ...


def parts(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` rows; the last may be shorter."""
    iterator = iter(rows)
    while part := list(islice(iterator, size)):
        yield part


# --- tables -----------------------------------------------------------------------------------------------------------

FIRST = 100  # rows that tell what the columns hold
AT_ONCE = 16  # rows of a parquet file, each of which may be long
Row = tuple[int, dict[str, Any]]  # (line, or number of the row; column -> value)


class Table(ABC):
    """Rows that are read one at a time, anew in each iteration.

    Attributes:
        source: a file, or a folder or Hub id and a split.
        columns: their names.
        types: the columns' Arrow types; None if unknown before the rows are read.
        note: tells what was chosen for the user, or is empty.
        notes: what was left out, complete after all rows are read.
        folder: the place of files that the table names.
        data: the table as a `datasets.Dataset`; None for a file of lines. Rows of the Hub may be streamed.
    """

    source: str
    columns: list[str]
    types: pa.Schema | None = None
    note = ""
    notes: Sequence[str] = ()
    folder = Path()
    known_total: int | None = None
    data: Any = None

    @abstractmethod
    def __iter__(self) -> Iterator[Row]:
        """Raises DataError for a damaged row, when it is reached."""

    def read(self, without: Collection[str] = ()) -> tuple[dict[str, list[Any]], Origins]:
        """All rows, by column, and their places. Columns of images and the like are left out, and those `without` which
        the rows are read are empty."""
        rows = [*self]
        columns = {name: [row[name] for _, row in rows] for name in self.columns}
        return columns, Origins(self.source, lines=np.array([line for line, _ in rows], dtype=np.int64))

    @property
    def total(self) -> int | None:
        """The number of rows; None if unknown. A file of lines is read to its end, which finds a damaged row."""
        return self.known_total

    @cached_property
    def features(self) -> Features:
        """The columns as `datasets` has them, without those whose types are unknown."""
        try:
            return datasets.Features() if self.types is None else datasets.Features.from_arrow_schema(self.types)
        except ValueError:  # a column is of a type that `datasets` does not know
            return datasets.Features()

    def head(self, count: int = FIRST) -> dict[str, list[Any]]:
        """The first rows, by column."""
        rows = [row for _, row in islice(self, count)]
        return {name: [row[name] for row in rows] for name in self.columns}

    def place(self, number: int) -> str:
        """A row's place, for messages."""
        return f"{self.source}, line {number}"

    def label_names(self, column: str) -> list[str] | None:
        """The labels for ids in a column, if the column or a file beside the table names them."""
        return self.classes.get(column)

    @property
    def classes(self) -> dict[str, list[str]]:
        """Column -> names of its ids, of columns that are a `ClassLabel` or lists of them."""
        named = {name: getattr(getattr(each, "feature", each), "names", None) for name, each in self.features.items()}
        return {name: names for name, names in named.items() if names}


class LineTable(Table):
    """A csv, tsv, jsonl or json file; a `labels.txt` may be beside it, see [`load_multilabel`].

    Attributes:
        indices: how the features of a LIBSVM file are numbered; None: as this file alone says.
    """

    indices: Indices | None = None

    def __init__(self, path: Path, label_column: str = "labels"):
        self.path, self.source, self._labels = path, str(path), path.with_name(LABEL_LIST)
        self.folder = path.parent
        self._without_header = ("text", label_column, "id") if self._labels.is_file() else ()
        self.columns = self._lines().columns

    def _lines(self) -> Lines:
        return read_lines(self.path, self._without_header, self.indices)

    def __iter__(self) -> Iterator[Row]:
        columns, rows, left_out = self._lines()
        yield from ((number, dict(zip(columns, values, strict=True))) for number, values in rows)
        self._tell(left_out)

    @cached_property
    def total(self) -> int:
        lines = self._lines()
        count = sum(1 for _ in lines.rows)
        self._tell(lines.left_out)
        return count

    def read(self, without: Collection[str] = ()) -> tuple[dict[str, list[Any]], Origins]:
        names, rows, left_out = self._lines()
        lines: list[int] = []
        columns: list[list[Any]] = [[] for _ in names]
        for number, values in rows:
            lines.append(number)
            for column, value in zip(columns, values, strict=True):
                column.append(value)
        self._tell(left_out)
        found = dict(zip(names, columns, strict=True))
        return found, Origins(self.source, lines=np.array(lines, dtype=np.int64), ids=id_column(found.get("id")))

    def _tell(self, left_out: Counter[str]) -> None:
        self.notes = [f"{self.path.name}: {count} {what}." for what, count in left_out.items() if count]

    def label_names(self, column: str) -> list[str] | None:
        if self._without_header:
            return names_of_file(self._labels)
        found = names_beside(self.path)
        return None if found is None else found[0]


class DataTable(Table):
    """A table that `datasets` reads; the rows of the Hub may be streamed."""

    def __init__(self, data: Any, source: str, folder: Path = Path(), split: str = ""):
        self.data, self.source, self.folder = data, source, folder
        self.types = None if data.features is None else data.features.arrow_schema
        self.columns = list(data.features or next(self._rows(), {}))
        known = (data.info.splits or {}).get(split)
        self.known_total = (
            len(data) if isinstance(data, datasets.Dataset) else getattr(known, "num_examples", None) or None
        )

    def __iter__(self) -> Iterator[Row]:
        return enumerate(self._rows())

    def place(self, number: int) -> str:
        return f"{self.source}, row {number} (counting from 0)"

    def _rows(self) -> Iterator[dict[str, Any]]:
        try:
            yield from self.data
        except Exception as error:
            raise DataError(f"{self.source}: its rows could not be read: {error}") from error

    def head(self, count: int = FIRST) -> dict[str, list[Any]]:
        if not isinstance(self.data, datasets.Dataset):
            return super().head(count)
        return self.data.select_columns(self._readable)[:count]

    def read(self, without: Collection[str] = ()) -> tuple[dict[str, list[Any]], Origins]:
        names = [name for name in self.columns if name in without or name in self._readable]
        return {name: [] if name in without else self.data[name][:] for name in names}, self.origins

    @cached_property
    def origins(self) -> Origins:
        """The places of the rows."""
        ids = id_column(self.data["id"][:]) if "id" in self.columns else None
        return Origins(self.source, rows=np.arange(len(self.data)), ids=ids)

    @property
    def _readable(self) -> list[str]:
        found = ((name, self.features.get(name)) for name in self.columns)
        return [name for name, kind in found if not hasattr(kind, "decode_example") and not is_image(kind)]

    def keep_stored(self, column: str) -> None:
        """From now on, give the images of a column as they are stored, as bytes and path."""
        if isinstance((self.data.features or {}).get(column), datasets.Image):
            self.data = self.data.cast_column(column, datasets.Image(decode=False))


class ParquetTable(DataTable):
    """Parquet files. Each has a part of the rows."""

    def __init__(self, files: Sequence[Path], source: str | None = None):
        self.files, self.source, self.folder = files, source or str(files[0]), files[0].parent
        self.known_total = 0
        for file in files:
            with _opened(file) as opened:
                self.types = self.types or opened.schema_arrow
                self.known_total += opened.metadata.num_rows
        assert self.types is not None, "there is a file"
        self.columns = self.types.names

    def _rows(self) -> Iterator[dict[str, Any]]:
        for file in self.files:
            with _opened(file) as opened:
                for batch in opened.iter_batches(AT_ONCE):
                    yield from batch.to_pylist()

    def head(self, count: int = FIRST) -> dict[str, list[Any]]:
        with _opened(self.files[0]) as opened:
            batch = next(opened.iter_batches(count, columns=self._readable), None)
            return {name: [] for name in self._readable} if batch is None else batch.to_pydict()

    @cached_property
    def data(self) -> Dataset:
        """All rows."""
        parts = [_whole(file) for file in self.files]
        try:
            return datasets.concatenate_datasets(parts)
        except ValueError as error:
            where = self.files[0].parent
            raise DataError(f"{where}: the files of one split differ in their columns: {error}.") from error

    def keep_stored(self, column: str) -> None:
        """They are."""


@contextmanager
def _opened(file: Path) -> Iterator[parquet.ParquetFile]:
    try:
        with parquet.ParquetFile(file) as opened:
            yield opened
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file}: not readable as parquet: {error}. The file may end early.") from error


def _whole(file: Path) -> Dataset:
    with _opened(file) as opened:
        table = opened.read()
    for column in table.schema:
        try:
            datasets.Features.from_arrow_schema(pa.schema([column]))
        except ValueError as error:
            raise DataError(
                f"{file}: the column {column.name!r} is not readable: {error} Remove it, or write lists."
            ) from error
    if len(set(table.column_names)) < len(table.column_names):
        raise DataError(f"{file}: two columns have the same name: {', '.join(table.column_names)}. Rename one.")
    return datasets.Dataset(table)
