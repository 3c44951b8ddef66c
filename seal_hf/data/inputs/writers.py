"""Files for predictions: csv, tsv, jsonl and parquet, by the suffix of their name."""

from __future__ import annotations

import csv
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
from pyarrow import parquet

from ...utils.files import whole_file
from ..common import DataError
from ..line_files import unquoted

Rows = Sequence[Mapping[str, Any]]


class Writer(ABC):
    """An output for rows with the same columns."""

    @abstractmethod
    def write(self, rows: Rows) -> None:
        """Add rows.

        Raises:
            DataError: the format cannot hold a value; names its column.
        """


@contextmanager
def table_writer(path: Path | None, types: pa.Schema | None = None) -> Iterator[Writer]:
    """A writer, by the suffix of `path`; None: lines of JSON to the standard output.

    Args:
        path: will hold all rows; an interrupted block leaves it unchanged.
        types: types of parquet columns; other types come from the first rows.
    """
    if path is None:
        yield JsonLines(sys.stdout)
        return
    with whole_file(path) as unfinished:
        if path.suffix.lower() == ".parquet":
            with closing(Parquet(unfinished, types)) as writer:
                yield writer
            return
        # JSON may contain half of a surrogate pair, and escapes it in this way
        with open(unfinished, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            yield LINES[path.suffix.lower()](file)


class JsonLines(Writer):
    """Lines of JSON."""

    def __init__(self, file: TextIO):
        self.file = file

    def write(self, rows: Rows) -> None:
        self.file.writelines(json_text(row) + "\n" for row in rows)


class Csv(JsonLines):
    """A csv with a header. Cells hold texts, numbers, or JSON for anything else."""

    def __init__(self, file: TextIO):
        super().__init__(file)
        self.writer: Any = None

    def write(self, rows: Rows) -> None:
        if self.writer is None and rows:
            self.writer = csv.writer(_Lines(self.file))  # its \r\n makes it quote both characters
            self.writer.writerow(rows[0])
        self.writer.writerows([_cell(value) for value in row.values()] for row in rows)


class Tsv(JsonLines):
    """A tsv with a header, without quotes: cells cannot contain tabs or line breaks."""

    def __init__(self, file: TextIO):
        super().__init__(file)
        self.empty = True

    def write(self, rows: Rows) -> None:
        if self.empty and rows:
            self._line(dict(zip(rows[0], rows[0], strict=True)))
            self.empty = False
        for row in rows:
            self._line(row)

    def _line(self, row: Mapping[str, Any]) -> None:
        cells = [_cell(value) for value in row.values()]
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
            self.writer = parquet.ParquetWriter(self.path, self._schema(rows))
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

    def close(self) -> None:
        """After the last row."""
        if self.writer is not None:
            self.writer.close()

    def _schema(self, rows: Rows) -> pa.Schema:
        fields = []
        for name in rows[0]:
            place = -1 if self.types is None else self.types.get_field_index(name)
            if self.types is not None and place >= 0:
                fields.append(self.types.field(place))
                continue
            try:
                kind = pa.infer_type([row[name] for row in rows])
            except pa.ArrowException as error:
                raise DataError(
                    f"The column {name!r} cannot be written as parquet: {error}. Name an output of type .jsonl or .csv."
                ) from error
            fields.append(pa.field(name, pa.string() if pa.types.is_null(kind) else kind))
        return pa.schema(fields)


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
