"""Tables with named columns, whose rows are read one at a time: csv, tsv, jsonl, parquet, folders of `save_to_disk`
and data sets of the Hub."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import datasets
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from ..column_choice import check_header, find_text_column, need_column, text_cell, text_columns
from ..column_labels import column_labels
from ..common import DataError
from ..label_cells import is_number, label_cell
from ..label_tables import read_label_list, table_files
from ..line_files import SUFFIXES, read_lines
from ..table_sources import SPLIT_WORDS, is_stored, stored
from .base import Chunk

FILES = (*SUFFIXES, ".parquet")
ALL = "all"  # the only split of a data set that has none
AT_ONCE = 16  # rows of a parquet file, each of which may be long
FIRST = 100  # rows read to tell what the columns hold
Row = tuple[int, dict[str, Any]]  # (number, see `Table.place`; column -> value)
T = TypeVar("T")


class Table(ABC):
    """Rows that are read one at a time, anew in each iteration.

    Attributes:
        source: file, or Hub id and split.
        columns: their names.
        types: the columns' Arrow types; None if unknown before the rows are read.
        note: tells what was chosen for the user, or is empty.
        folder: the place of files that the table names.
    """

    source: str
    columns: list[str]
    types: pa.Schema | None = None
    note = ""
    folder = Path()
    known_total: int | None = None

    @abstractmethod
    def __iter__(self) -> Iterator[Row]:
        """Raises DataError for a damaged row, when it is reached."""

    @property
    def total(self) -> int | None:
        """The number of rows; None if unknown. A file of lines is read to its end, which finds a damaged row."""
        return self.known_total

    def place(self, number: int) -> str:
        """A row's place, for messages."""
        return f"{self.source}, row {number} (counting from 0)"

    def label_names(self, column: str) -> list[str] | None:
        """The labels for ids in a column, if the data name them."""
        if self.types is None:
            return None
        feature = datasets.Features.from_arrow_schema(self.types).get(column)
        return getattr(getattr(feature, "feature", feature), "names", None)


class LineTable(Table):
    """A csv, tsv or jsonl file; a `labels.txt` may be beside it, see [`load_text`]."""

    def __init__(self, path: Path, label_column: str):
        self.path, self.source, self._labels = path, str(path), path.with_name("labels.txt")
        self.folder = path.parent
        self._without_header = ("text", label_column, "id") if self._labels.is_file() else ()
        self.columns, _ = read_lines(path, self._without_header)

    def __iter__(self) -> Iterator[Row]:
        columns, rows = read_lines(self.path, self._without_header)
        return ((number, dict(zip(columns, values, strict=True))) for number, values in rows)

    @cached_property
    def total(self) -> int:
        return sum(1 for _ in read_lines(self.path, self._without_header)[1])

    def place(self, number: int) -> str:
        return f"{self.source}, line {number}"

    def label_names(self, column: str) -> list[str] | None:
        return read_label_list(self._labels) if self._without_header else None


class ParquetTable(Table):
    """A parquet file."""

    def __init__(self, path: Path):
        self.path, self.source, self.folder = path, str(path), path.parent
        with self._opened() as file:
            self.types, self.known_total = file.schema_arrow, file.metadata.num_rows
        self.columns = self.types.names

    def __iter__(self) -> Iterator[Row]:
        with self._opened() as file:
            rows = (row for batch in file.iter_batches(AT_ONCE) for row in batch.to_pylist())
            yield from enumerate(rows)

    @contextmanager
    def _opened(self) -> Iterator[parquet.ParquetFile]:
        try:
            with parquet.ParquetFile(self.path) as file:
                yield file
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self.path}: not readable as parquet: {error}. The file may end early.") from error


class DataTable(Table):
    """A split that `datasets` reads, in `data`."""

    data: Any

    def keep_stored(self, column: str) -> None:
        """From now on, give the images of a column as they are stored, as bytes and path."""
        if isinstance((self.data.features or {}).get(column), datasets.Image):
            self.data = self.data.cast_column(column, datasets.Image(decode=False))


class HubTable(DataTable):
    """A split of a data set on the Hub, by `owner/name` or `owner/name:configuration`. No code of the repo runs, and
    only the requested rows are fetched."""

    def __init__(self, name: str, split: str | None, usual: str = "test"):
        repo, _, configuration = name.partition(":")
        try:
            loaded = datasets.load_dataset(repo, configuration or None, streaming=True)
        except Exception as error:  # the library raises a dozen kinds; the user needs the name and the reason
            raise DataError(
                f"Hub data set {name!r} could not be loaded, and there is no such file or folder here: {error}"
            ) from error
        word = chosen_split(list(loaded), split, f"Hub data set {name!r}", usual)
        self.source, self.data = f"{name}, {word} split", loaded[word]
        self.note = f"{name}: the rows of its {word} split."
        features = self.data.features
        self.types = None if features is None else features.arrow_schema
        self.columns = list(features or next(self._rows(), {}))
        known = (self.data.info.splits or {}).get(word)
        self.known_total = getattr(known, "num_examples", None) or None

    def __iter__(self) -> Iterator[Row]:
        return enumerate(self._rows())

    def _rows(self) -> Iterator[dict[str, Any]]:
        try:
            yield from self.data
        except Exception as error:
            raise DataError(f"{self.source}: its rows could not be read: {error}") from error


class StoredTable(DataTable):
    """A split of a folder that `save_to_disk` wrote, or of one whose parquet files say their splits."""

    def __init__(self, folder: Path, split: str | None, usual: str = "test"):
        splits = stored(folder).splits
        word = chosen_split([*splits], split, str(folder), usual)
        self.source, self.data = f"{folder}, {word} split", splits[word]
        if word == ALL:
            self.source = str(folder)
        else:
            self.note = f"{folder} is a folder: the rows of its {word} split."
        self.types, self.columns, self.known_total = (
            self.data.features.arrow_schema,
            self.data.column_names,
            len(self.data),
        )

    def __iter__(self) -> Iterator[Row]:
        return enumerate(self.data)


class TextReader:
    """Texts of a table.

    Args:
        table: has the texts in `text_column`.
        text_column: a column, or two with a comma between them, whose texts are read as pairs.
        label_column: of gold labels, which become lists as [`label_cell`] has them; None: there are none.
        labels: columns of 0 and 1, one per label, in place of `label_column`: gold sets are (N, L) int8, in this order.
    """

    def __init__(self, table: Table, text_column: str, label_column: str | None = None, labels: Sequence[str] = ()):
        self.table, self.label_column, self.labels = table, label_column, labels
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
        for part in parts(self.table, size):
            yield Chunk([row for _, row in part], self.inputs(part), self._gold(part))

    def inputs(self, part: Sequence[Row]) -> Any:
        place = self.table.place
        texts = [[text_cell(row[name], place(number)) for number, row in part] for name in self.text_columns]
        return texts[0] if len(texts) == 1 else [*zip(*texts, strict=True)]

    def _gold(self, part: Sequence[Row]) -> list[list] | np.ndarray | None:
        if self.labels:
            columns = {label: [row[label] for _, row in part] for label in self.labels}
            return column_labels(columns, lambda i: self.table.place(part[i][0])).astype(np.int8)
        if self.label_column is None:
            return None
        return [label_cell(row[self.label_column], self.table.place(number), keep_empty=True) for number, row in part]


def open_table(name: str, split: str | None = None, label_column: str = "labels", usual: str = "test") -> Table:
    """A file, the file of a split in a folder, or a split on the Hub.

    Args:
        name: file, folder or Hub id.
        split: of a folder or Hub id; default: `usual`, or the only one.
        label_column: name for the second column of a tsv without header.

    Raises:
        DataError: the file, folder, data set or split does not exist, or the file's type is not supported.
    """
    path = Path(name)
    if not path.exists():
        if name.count("/") == 1 and not name.startswith((".", "/", "~")) and path.suffix.lower() not in FILES:
            return HubTable(name, split, usual)
        raise DataError(f"{name}: no such file or folder, and not a Hub id (owner/name).")
    note = ""
    if path.is_dir():
        found = table_files(path, FILES)
        if not found and is_stored(path):
            return StoredTable(path, split, usual)
        chosen = chosen_split(list(found), split, str(path), usual)
        path = found[chosen]
        which = "" if chosen == ALL else f", its {chosen} split"
        note = f"{name} is a folder: the rows of {path.name}{which}."
    elif split is not None:
        raise DataError(f"`split` is {split!r}, but {name} is one file. Leave it out: all rows are read.")
    if path.suffix.lower() not in FILES:
        raise DataError(f"{name}: files of type {path.suffix!r} are not supported; expected {', '.join(FILES)}.")
    table = ParquetTable(path) if path.suffix.lower() == ".parquet" else LineTable(path, label_column)
    table.note = note
    return table


def chosen_split(known: Sequence[str], asked: str | None, source: str, usual: str = "test") -> str:
    """The split `asked` for; default: the `usual` one, or the only one.

    Raises:
        DataError: the split does not exist.
    """
    wanted = asked or usual
    synonyms = (word for split, words in SPLIT_WORDS.items() if wanted in (split, *words) for word in (split, *words))
    found = next((word for word in (wanted, *synonyms) if word in known), None)
    if found is None and asked is None and len(known) == 1:
        found = known[0]
    if found is None:
        raise DataError(
            f"{source} has no {wanted} split; it has {', '.join(known)}. Name one with --split, or give a file."
            if known
            else f"{source} contains no file named after a split, such as {wanted}. Give a file."
        )
    return found


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
    first = list(islice(table, FIRST))
    columns = {name: [row[name] for _, row in first] for name in table.columns}
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
        _check_texts(columns[column], column, table.source)
    return name


def _check_texts(cells: Sequence[Any], name: str, source: str) -> None:
    """Raises DataError for a column of numbers."""
    values = [value for value in cells if value not in (None, "")]
    if values and all(isinstance(value, (int, float)) or is_number(str(value)) for value in values):
        shown = ", ".join(map(str, values[:3]))
        raise DataError(
            f"{source}: the column {name!r} holds numbers ({shown}, ...), which are rather ids than texts. Name the "
            "column of texts with --text_column."
        )


def parts(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` rows; the last may be shorter."""
    iterator = iter(rows)
    while part := list(islice(iterator, size)):
        yield part
