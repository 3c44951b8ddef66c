"""Files for predictions: csv, tsv, jsonl and parquet, by the suffix of their name."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
from pyarrow import parquet

from ..utils.files import whole_file
from ..utils.messages import for_eyes
from .common import DataError
from .line_files import unquoted

Rows = Sequence[Mapping[str, Any]]
COPIED = 1 << 20  # bytes at once
# Where spreadsheets see a formula: at the start of a cell, or behind what some of them take for its end. A number is
# none.
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
FORMULA = re.compile(
    rf"\A(?!{NUMBER}\Z)(?:[\s\x00-\x1f\ufeff]*[=+\-@＝＋－＠]|[\t\r\n])"
    rf"|(?<=[;\t\r\n])(?!{NUMBER}(?:[;\t\r\n]|\Z))(?=[ \xa0]*[=+\-@＝＋－＠][\w(])"
)


class Writer(ABC):
    """An output for rows with the same columns.

    Attributes:
        header: write the names of the columns before the first rows, in a format that has them.
        formulas: how many cells a spreadsheet would run.
        notes: what a user should know of what was written.
    """

    header = True
    formulas = 0
    notes: Sequence[str] = ()

    @abstractmethod
    def write(self, rows: Rows) -> None:
        """Add rows.

        Raises:
            DataError: the format cannot hold a value; names its column.
        """

    @abstractmethod
    def add(self, part: Path) -> None:
        """Add all rows of a file that another writer of this kind has written; of parts, the first has a header."""


@contextmanager
def table_writer(path: Path | None, types: pa.Schema | None = None, escape_formulas: bool = False) -> Iterator[Writer]:
    """A writer, by the suffix of `path`; None: lines of JSON to the standard output.

    Args:
        path: will hold all rows; an interrupted block leaves it unchanged.
        types: types of parquet columns; other types come from the first rows.
        escape_formulas: write `'` before what a spreadsheet would run, in csv and tsv.
    """
    if path is None:
        yield JsonLines(for_eyes(sys.stdout))
        return
    with whole_file(path) as unfinished:
        if path.suffix.lower() == ".parquet":
            with closing(Parquet(unfinished, types)) as writer:
                yield writer
            return
        # JSON may contain half of a surrogate pair, and escapes it in this way
        with open(unfinished, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            yield LINES[path.suffix.lower()](file, escape_formulas)


class JsonLines(Writer):
    """Lines of JSON, in which no spreadsheet sees formulas."""

    def __init__(self, file: TextIO, escape_formulas: bool = False):
        self.file, self.escape_formulas = file, escape_formulas

    def write(self, rows: Rows) -> None:
        self.file.writelines(json_text(row) + "\n" for row in rows)

    def add(self, part: Path) -> None:
        add_text(self.file, part)


class Cells(JsonLines):
    """Lines of cells, which hold texts, numbers, or JSON for anything else."""

    @property
    def notes(self) -> Sequence[str]:  # type: ignore[override]
        """How many cells a spreadsheet would run."""
        if not self.formulas:
            return ()
        cells = f"{self.formulas} {'cell' if self.formulas == 1 else 'cells'}"
        if self.escape_formulas:
            return (f"{cells} with =, +, - or @ in front: ' stands before it, so that no spreadsheet runs it.",)
        return (f"{cells} with =, +, - or @ in front, which a spreadsheet may run. Safe: --escape_formulas true.",)

    def cell(self, value: Any) -> str:
        """The text of a cell."""
        text = _cell(value)
        if isinstance(value, (int, float)) or not FORMULA.search(text):
            return text
        self.formulas += 1
        return FORMULA.sub(r"'\g<0>", text) if self.escape_formulas else text


class Csv(Cells):
    """A csv with a header."""

    def __init__(self, file: TextIO, escape_formulas: bool = False):
        super().__init__(file, escape_formulas)
        self.writer = csv.writer(_Lines(file))  # its \r\n makes it quote both characters

    def write(self, rows: Rows) -> None:
        if self.header and rows:
            self.writer.writerow(map(self.cell, rows[0]))
            self.header = False
        self.writer.writerows(map(self.cell, row.values()) for row in rows)


class Tsv(Cells):
    """A tsv with a header, without quotes: cells cannot contain tabs or line breaks."""

    def write(self, rows: Rows) -> None:
        if self.header and rows:
            self._line(dict(zip(rows[0], rows[0], strict=True)))
            self.header = False
        for row in rows:
            self._line(row)

    def _line(self, row: Mapping[str, Any]) -> None:
        cells = [self.cell(value) for value in row.values()]
        for name, cell in zip(row, cells, strict=True):
            if "\t" in cell or "\n" in cell or "\r" in cell:
                raise DataError(
                    f"A .tsv cell cannot contain tabs or line breaks, but {cell[:60]!r} in column {name!r} does. Name "
                    "an output of type .csv, .jsonl or .parquet."
                )
        # a cell that looks like a csv string is written as one, to preserve its quotes
        quoted = ('"' + cell.replace('"', '""') + '"' if unquoted(cell) != cell else cell for cell in cells)
        self.file.write("\t".join(quoted) + "\n")


class Parquet(Writer):
    """A parquet file; each `write` is a group of rows."""

    def __init__(self, path: Path, types: pa.Schema | None = None):
        self.path, self.types = path, types
        self.writer: parquet.ParquetWriter | None = None

    def write(self, rows: Rows) -> None:
        if self.writer is None:
            self.writer = parquet.ParquetWriter(self.path, schema_of(rows, self.types))
        columns = []
        for field in self.writer.schema:
            try:
                columns.append(pa.array([row[field.name] for row in rows], type=field.type))
            except (pa.ArrowException, UnicodeEncodeError, TypeError, ValueError) as error:
                raise DataError(
                    f"The column {field.name!r} cannot be written as parquet: its first values are of type "
                    f"{field.type}, but: {error}. Name an output of type .jsonl or .csv."
                ) from error
        self.writer.write_table(pa.Table.from_arrays(columns, schema=self.writer.schema))

    def add(self, part: Path) -> None:
        with parquet.ParquetFile(part) as file:
            if self.writer is None:
                self.writer = parquet.ParquetWriter(self.path, file.schema_arrow)
            for group in range(file.num_row_groups):
                self.writer.write_table(file.read_row_group(group))

    def close(self) -> None:
        """After the last row."""
        if self.writer is not None:
            self.writer.close()


def schema_of(rows: Rows, types: pa.Schema | None = None) -> pa.Schema:
    """The types of parquet columns: those in `types`, and others from the rows.

    Raises:
        DataError: the values of a column have no type.
    """
    fields = []
    for name in rows[0]:
        place = -1 if types is None else types.get_field_index(name)
        if types is not None and place >= 0:
            fields.append(types.field(place))
            continue
        try:
            kind = pa.infer_type([row[name] for row in rows])
        except pa.ArrowException as error:
            raise DataError(
                f"The column {name!r} cannot be written as parquet: {error}. Name an output of type .jsonl or .csv."
            ) from error
        fields.append(pa.field(name, pa.string() if pa.types.is_null(kind) else kind))
    return pa.schema(fields)


def add_text(file: TextIO, part: Path) -> None:
    """Copy a part into an open file, byte for byte."""
    file.flush()
    with open(part, "rb") as source:
        shutil.copyfileobj(source, file.buffer, COPIED)


LINES: dict[str, type[JsonLines]] = {".csv": Csv, ".tsv": Tsv, ".jsonl": JsonLines}


class _Lines:
    """A file whose lines end in \\n."""

    def __init__(self, file: TextIO):
        self.file = file

    def write(self, line: str) -> None:
        self.file.write(line.removesuffix("\r\n") + "\n")


def json_text(value: Any) -> str:
    """JSON, with dates and the like as text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return json_text(value) if isinstance(value, (bool, list, dict)) else str(value)
