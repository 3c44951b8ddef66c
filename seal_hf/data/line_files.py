"""Files whose rows are read one at a time: csv, tsv, jsonl, json with an array of objects, and LIBSVM.

The standard library reads them, not `datasets`. There, a short row silently gets empty cells, rows that are all too
long lose their last cells, a JSON text such as 2024-01-01 becomes a date, errors count rows instead of lines, and a
path is a pattern.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from .common import DataError
from .exports import plain_rows

SPARSE = (".svm", ".libsvm", ".svmlight")
SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", *SPARSE)
MOST_VALUES = 10**8  # of sparse rows, which are read as lists of all features
PAIR = re.compile(r"([0-9]+):([-+0-9.eE]+)")
JSON = (".jsonl", ".json")
WHITE = re.compile(r"[\s,]*")
BLOCK = 1 << 20  # characters of a JSON array that are decoded at once
Row = tuple[int, list[Any]]  # its first line, counted from 1, and its values


class Lines(NamedTuple):
    """A file.

    Attributes:
        columns: their names.
        rows: values in the order of the columns; they can be read once.
        left_out: what was left out of an export, with counts, after its rows have been read.
    """

    columns: list[str]
    rows: Iterator[Row]
    left_out: Counter[str]


def read_lines(path: Path, without_header: Sequence[str] = ()) -> Lines:
    """A file and its rows.

    Args:
        path: csv and tsv name the columns in their first row; in JSON they are the fields of the first object. A
            `.json` is an array of objects, or has one in each line. Of exports of annotation tools, see [`plain_rows`].
        without_header: column names for a tsv without a header, known by ids in the second cell.

    Raises:
        DataError: names the file and the line, when that is reached.
    """
    left_out: Counter[str] = Counter()
    suffix = path.suffix.lower()
    if suffix in SPARSE:
        rows = _checked(path, _sparse(path))
    else:
        rows = _checked(path, _objects(path, left_out) if suffix in JSON else _table(path, without_header))
    return Lines(next(rows)[1], rows, left_out)


def not_utf8(path: Path, error: UnicodeDecodeError) -> DataError:
    return DataError(f"{path}: not UTF-8 text ({error}). Save the file as UTF-8.")


def unquoted(cell: str) -> str:
    """The text of a tsv cell that is a csv string, such as `"a ""b"" c"`; other quotes belong to the text."""
    return cell[1:-1].replace('""', '"') if re.fullmatch(r'"(?:[^"]|"")*"', cell) else cell


def _checked(path: Path, rows: Iterator[Row]) -> Iterator[Row]:
    try:
        yield from rows
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from error


def _table(path: Path, without_header: Sequence[str]) -> Iterator[Row]:
    """The header, and the rows."""
    is_tsv = path.suffix.lower() == ".tsv"
    quoting: Any = csv.QUOTE_NONE if is_tsv else csv.QUOTE_MINIMAL  # tsv texts contain stray quotes
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    with open(path, encoding="utf-8-sig", newline="") as file:
        line = next((line for line in file if line.strip()), "")
        if not is_tsv and ";" in line and "," not in line:  # each cell may be quoted
            raise _separated(line.strip(), ";", is_tsv, path)
        file.seek(0)
        reader = csv.reader(file, delimiter="\t" if is_tsv else ",", quoting=quoting, strict=True)
        rows = _numbered(reader, path)
        first = next(rows, None)
        if first is None:
            raise DataError(f"{path} is empty.")
        cells = [cell.strip() for cell in first[1]]
        mark = next((mark for mark in (",;" if is_tsv else "\t|") if len(cells) == 1 and mark in cells[0]), None)
        if mark is not None:
            raise _separated(cells[0], mark, is_tsv, path)
        headerless = without_header and is_tsv and len(cells) >= 2 and re.fullmatch(r"[\d,]*", cells[1])
        unquote = is_tsv and not headerless  # pandas and spreadsheets quote tsv like csv, [""joy""]
        header = list(without_header[: len(cells)]) if headerless else [*map(unquoted, cells)] if unquote else cells
        if len(set(header)) != len(header):
            raise DataError(
                f"{path}: two columns have the same name: {', '.join(header)}. If this is a row of data, the file "
                "lacks a header: put the column names above it."
            )
        yield 1, header
        if not headerless and (first := next(rows, None)) is None:
            raise DataError(f"{path} is empty: a header ({', '.join(header)}) and no rows.")
        while first is not None:
            number, cells = first
            if len(cells) != len(header):
                raise DataError(
                    f"{path}, line {number}: {len(cells)} values, expected {len(header)} ({', '.join(header)}). Quote "
                    f"values that contain the separator; the file may end early."
                )
            values = [*map(unquoted, cells)] if unquote else cells
            if values == header:
                raise DataError(f"{path}, line {number}: the header again. Remove it; were two files joined?")
            yield number, values
            first = next(rows, None)


def _separated(header: str, mark: str, is_tsv: bool, path: Path) -> DataError:
    names = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
    wanted = "tabs" if is_tsv else "commas"
    how = f", as pandas.read_csv(FILE, sep={mark!r}).to_csv(FILE, index=False) does" if not is_tsv else ""
    return DataError(f"{path}: its header, {header!r}, is separated by {names[mark]}. Save it with {wanted}{how}.")


def _numbered(reader: Any, path: Path) -> Generator[Row]:
    """The non-empty rows of a csv reader, each with its first line, since cells may contain line breaks."""
    begins = 1
    try:
        for row in reader:
            if row:
                yield begins, row
            begins = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}. A quote is open, or the file ends early.") from error


def json_row(line: str, where: str) -> dict[str, Any]:
    """The object in a line of jsonl.

    Raises:
        DataError: the line is not an object, or one without fields or with a field twice.
    """
    try:
        row = json.loads(line, object_pairs_hook=_fields)
        if not isinstance(row, dict) or not row:
            raise ValueError("not an object with fields")
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not a JSON object: {error}. The file may end early.") from error
    return row


def _objects(path: Path, left_out: Counter[str]) -> Iterator[Row]:
    """The fields, then the values of each object."""
    columns: list[str] = []
    for number, row in plain_rows(json_objects(path), str(path), left_out):
        if not columns:
            columns = list(row)
            yield number, columns
        if row.keys() != set(columns):
            raise DataError(
                f"{path}, line {number}: fields {sorted(row)}, expected {sorted(columns)} as in the rows before. "
                "Give every row all fields; [] is an empty list of labels."
            )
        yield number, [row[name] for name in columns]
    if not columns:
        raise DataError(f"{path} is empty." if not left_out else f"{path}: no row has an annotation.")


def _sparse(path: Path) -> Iterator[Row]:
    """LIBSVM's lines, `labels index:value ...` with ids of labels separated by commas, as lists of features and of
    labels. The first line of the extreme classification repository has the numbers of rows, features and labels."""
    yield 1, ["features", "labels"]
    size, header, count, lowest = _size_of_sparse(path)
    if not count:
        raise DataError(f"{path} is empty.")
    if count * size > MOST_VALUES:
        raise DataError(
            f"{path}: {count} rows of {size} features are {count * size:,} numbers, more than {MOST_VALUES:,} that "
            "are read. "
            "Reduce the features, such as by TruncatedSVD of scikit-learn, and give a .parquet with lists of numbers."
        )
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            text = line.partition("#")[0].strip()
            if not text or (header and number == 1):
                continue
            labels, _, rest = ("", "", text) if ":" in text.split()[0] or line[0].isspace() else text.partition(" ")
            features = [0.0] * size
            for pair in rest.split():
                found = PAIR.fullmatch(pair)
                if found is None:
                    raise DataError(f"{path}, line {number}: {pair[:40]!r} is no feature; expected index:value.")
                features[int(found[1]) - lowest] = float(found[2])
            ids = [label for label in labels.split(",") if label]
            if not all(re.fullmatch(r"[0-9]+(\.0+)?", label) for label in ids):
                raise DataError(f"{path}, line {number}: the labels are {labels[:40]!r}; expected ids with commas.")
            yield number, [features, [int(float(label)) for label in ids]]


def _size_of_sparse(path: Path) -> tuple[int, bool, int, int]:
    """The number of features, whether the first line is a header, the number of rows, and the lowest index."""
    largest, smallest, count, header = -1, 1, 0, None
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if number == 1 and (numbers := re.fullmatch(r"\s*([0-9]+) +([0-9]+) +([0-9]+)\s*", line)):
                header = int(numbers[2])
                continue
            indices = [int(index) for index, _ in PAIR.findall(line.partition("#")[0])]
            count += bool(line.partition("#")[0].strip())
            largest, smallest = max([largest, *indices]), min([smallest, *indices])
    lowest = 0 if header is not None else smallest  # LIBSVM counts from 1, unless a 0 occurs
    return (max(largest + 1, header or 0) - lowest, header is not None, count, lowest)


def json_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The line and the fields of each object in lines of JSON, or in an array.

    Raises:
        DataError: something else, with its line; or no UTF-8.
    """
    try:
        yield from _json_objects(path)
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from error


def _json_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with open(path, encoding="utf-8-sig") as file:
        first = next((char for char in iter(lambda: file.read(1), "") if not char.isspace()), "")
        file.seek(0)
        if path.suffix.lower() == ".json" and first == "[":
            yield from _array(path, file)
            return
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    row = json_row(line, f"{path}, line {number}")
                except DataError as error:
                    if path.suffix.lower() == ".json" and number == 1:
                        raise _no_rows(path) from error
                    raise
                if path.suffix.lower() == ".json" and number == 1 and _is_whole(row):
                    raise _no_rows(path)
                yield number, row


def _is_whole(row: dict[str, Any]) -> bool:
    """True if an object holds a table by columns, or a list of rows."""
    values = [*row.values()]
    by_columns = len(values) > 1 and all(isinstance(value, dict) for value in values)
    return by_columns or (len(values) == 1 and isinstance(values[0], list) and isinstance([*values[0], 0][0], dict))


def _no_rows(path: Path) -> DataError:
    return DataError(
        f"{path}: expected an array of objects, [{{...}}, {{...}}], or an object per line. pandas writes one by "
        'frame.to_json(file, orient="records").'
    )


def _array(path: Path, file: TextIO) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of an array, a block of text at a time."""
    decoder, text = json.JSONDecoder(object_pairs_hook=_fields), file.read(BLOCK)
    at = text.index("[") + 1
    line = 1 + text.count("\n", 0, at)
    while True:
        start = WHITE.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        line += text.count("\n", at, start)
        at = start
        try:
            if text[at : at + 1] == "]":
                return
            row, stop = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            more = file.read(max(BLOCK, len(text) - at))
            if not more:
                raise DataError(f"{path}, line {line}: not a JSON object: {error}. The file may end early.") from error
            text, at = text[at:] + more, 0
            continue
        if isinstance(row, list) and [*map(type, row)] == [str, dict]:  # spaCy's [text, {"entities" or "cats": ...}]
            row = {"text": row[0], **row[1]}
        if not isinstance(row, dict) or not row:
            raise DataError(f"{path}, line {line}: {str(row)[:60]!r} in the array; expected an object with fields.")
        yield line, row
        line += text.count("\n", at, stop)
        at = stop


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Raises ValueError for a field that occurs twice."""
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError(f"a field occurs twice among {', '.join(name for name, _ in pairs)}")
    return found
