"""Tables with named columns, whose rows are read one at a time: csv, tsv, jsonl, json, parquet, folders of
`save_to_disk` and data sets of the Hub; and the files of a folder by split."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import datasets
import pyarrow as pa
from pyarrow import parquet

from ..utils.files import visible
from .common import DataError
from .image_tables import image_column
from .line_files import SUFFIXES, Lines, read_lines
from .name_files import LABEL_LIST, is_name_file, names_beside, names_of_file
from .table_sources import SPLIT_WORDS, is_stored, stored

FILES = (*SUFFIXES, ".parquet")
ALL = "all"  # the only split of a data set that has none
FIRST = 100  # rows that tell what the columns hold
AT_ONCE = 16  # rows of a parquet file, each of which may be long
Row = tuple[int, dict[str, Any]]  # (number, see `Table.place`; column -> value)
T = TypeVar("T")


class Table(ABC):
    """Rows that are read one at a time, anew in each iteration.

    Attributes:
        source: file, or Hub id and split.
        columns: their names.
        types: the columns' Arrow types; None if unknown before the rows are read.
        note: tells what was chosen for the user, or is empty.
        notes: what was left out, complete after all rows are read.
        folder: the place of files that the table names.
    """

    source: str
    columns: list[str]
    types: pa.Schema | None = None
    note = ""
    notes: Sequence[str] = ()
    folder = Path()
    known_total: int | None = None

    @abstractmethod
    def __iter__(self) -> Iterator[Row]:
        """Raises DataError for a damaged row, when it is reached."""

    @property
    def total(self) -> int | None:
        """The number of rows; None if unknown. A file of lines is read to its end, which finds a damaged row."""
        return self.known_total

    def head(self, count: int = FIRST) -> dict[str, list[Any]]:
        """The first rows, by column."""
        rows = [row for _, row in islice(self, count)]
        return {name: [row[name] for row in rows] for name in self.columns}

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
    """A csv, tsv, jsonl or json file; a `labels.txt` may be beside it, see [`load_multilabel`]."""

    def __init__(self, path: Path, label_column: str):
        self.path, self.source, self._labels = path, str(path), path.with_name(LABEL_LIST)
        self.folder = path.parent
        self._without_header = ("text", label_column, "id") if self._labels.is_file() else ()
        self.columns = self._lines().columns

    def _lines(self) -> Lines:
        return read_lines(self.path, self._without_header)

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

    def read(self) -> tuple[dict[str, list[Any]], list[int]]:
        """All rows by column, and the line on which each begins, counted from 1."""
        names, rows, left_out = self._lines()
        lines: list[int] = []
        columns: list[list[Any]] = [[] for _ in names]
        for number, values in rows:
            lines.append(number)
            for column, value in zip(columns, values, strict=True):
                column.append(value)
        self._tell(left_out)
        return dict(zip(names, columns, strict=True)), lines

    def _tell(self, left_out: Counter[str]) -> None:
        self.notes = [f"{self.path.name}: {count} {what}." for what, count in left_out.items() if count]

    def place(self, number: int) -> str:
        return f"{self.source}, line {number}"

    def label_names(self, column: str) -> list[str] | None:
        if self._without_header:
            return names_of_file(self._labels)
        found = names_beside(self.path)
        return None if found is None else found[0]


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


def files_of(path: Path) -> dict[str, Path]:
    """Split -> its file; the split of a single file is `all`.

    Raises:
        DataError: a folder lacks a file for the train split.
    """
    return _split_files(path) if path.is_dir() else {"all": path}


def _split_files(folder: Path) -> dict[str, Path]:
    files, entries = table_files(folder), visible(folder)
    if not files and len(tables := tables_in(folder)) == 1:
        return {"all": tables[0]}
    if not files.keys() & {"all", "train"}:
        found = ", ".join(file.name for file in entries) or "nothing"
        raise DataError(
            f"{folder}: no file for the train split, expected {' or '.join(SPLIT_WORDS['train'])} with "
            f"{', '.join((*SUFFIXES, '.parquet'))}; found {found}. "
            "A single file is split at random."
        )
    return files


def table_files(folder: Path, suffixes: Sequence[str] = SUFFIXES) -> dict[str, Path]:
    """Split -> its table in a folder, or in a folder of the split with its images. The only table of a folder of images
    is `all`."""
    files = {}
    for split, words in SPLIT_WORDS.items():
        below = next((each for each in _called(folder, words) if each.is_dir()), None)
        if file := split_file(folder, split, words, suffixes) or (below and _only_table(below)):
            files[split] = file
    only = None if files else _only_table(folder)
    return files if only is None else {"all": only}


def split_file(folder: Path, split: str, words: Sequence[str], suffixes: Sequence[str]) -> Path | None:
    """The file of a split, whose name is one of `words`, in any case, or None."""
    names = [f"{word}{suffix}" for word in words for suffix in suffixes]
    matches = [file for file in _called(folder, names) if file.is_file()]
    if len(matches) > 1:
        raise DataError(
            f"{folder}: two files for the {split} split: {', '.join(file.name for file in matches)}. Keep one."
        )
    return matches[0] if matches else None


def _called(folder: Path, names: Sequence[str]) -> list[Path]:
    """What a folder holds under one of these names, upper case or lower, in their order."""
    found = [each for each in visible(folder) if each.name.lower() in names]
    return sorted(found, key=lambda each: names.index(each.name.lower()))


def _only_table(folder: Path) -> Path | None:
    """The only csv, tsv or jsonl of a folder, if it names image files."""
    tables = tables_in(folder)
    return tables[0] if len(tables) == 1 and names_image_files(tables[0]) else None


def tables_in(folder: Path) -> list[Path]:
    """The files of rows in a folder, whatever their names; a list of class names is no file of rows."""
    return [file for file in visible(folder) if file.suffix.lower() in SUFFIXES and not is_name_file(file)]


def names_image_files(file: Path) -> bool:
    """True if a column of a file has the names of image files."""
    try:
        return image_column({}, LineTable(file, "labels").head(), None, None) is not None
    except DataError:
        return False


def parts(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` rows; the last may be shorter."""
    iterator = iter(rows)
    while part := list(islice(iterator, size)):
        yield part
