"""Files whose rows are read one at a time: csv, tsv, jsonl, json with an array of objects, LIBSVM and fastText.

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
from collections.abc import Generator, Iterable, Iterator, Sequence
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from .common import DataError
from .exports import plain_rows

SPARSE = (".svm", ".libsvm", ".svmlight")
SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", *SPARSE)
LINES = ".txt"  # of fastText or of LIBSVM, by its first line
FASTTEXT = "__label__"  # before each label of a line
MARKS = ",;\t|"  # between the cells of a table; the first that its header has
MOST_VALUES = 10**8  # of sparse rows, which are read as lists of all features
PAIR = re.compile(r"([0-9]+):([-+0-9.eE]+)")
HEADER = re.compile(r"([0-9]+) +([0-9]+) +([0-9]+)")  # of the extreme classification repository
JSON = (".jsonl", ".json")
WHITE = re.compile(r"[\s,]*")
# of fastText: a label, and the white space and the comma after it
LABELLED = re.compile(r"(?<![^ \t\v\f\r])__label__([^ \t\v\f\r]*)[ \t\v\f\r]*(?:,[ \t\v\f\r]+)?")
OF_ROWS = {"text": str, "words": list, "tokens": list, "content": str, "data": dict}  # fields of rows, which hold these
BLOCK = 1 << 20  # characters of a JSON array that are decoded at once
Row = tuple[int, list[Any]]  # its first line, counted from 1, and its values
csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # cells may hold long texts


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


class Indices(NamedTuple):
    """How LIBSVM's features are numbered.

    Attributes:
        first: the index of the first feature, 0 or 1.
        size: the number of features.
    """

    first: int
    size: int


def read_lines(path: Path, without_header: Sequence[str] = (), indices: Indices | None = None) -> Lines:
    """A file and its rows.

    Args:
        path: csv and tsv name the columns in their first row; in JSON they are the fields of the first object. A
            `.json` is an array of objects, or has one in each line. Of exports of annotation tools, see [`plain_rows`].
        without_header: column names for a tsv without a header, known by ids in the second cell.
        indices: of LIBSVM's features; default: those of this file alone, see [`indices_of`].

    Raises:
        DataError: names the file and the line, when that is reached.
    """
    left_out: Counter[str] = Counter()
    if (suffix := path.suffix.lower()) in JSON:
        rows = _objects(path, left_out)
    elif suffix == LINES and _first_line(path).startswith(FASTTEXT):
        rows = _fasttext(path)
    else:
        rows = _sparse(path, indices) if is_sparse(path) else _table(path, without_header)
    rows = _checked(path, rows)
    return Lines(next(rows)[1], rows, left_out)


def is_sparse(path: Path) -> bool:
    """True for rows of LIBSVM.

    Raises:
        DataError: a `.txt` without them, or an empty one.
    """
    if path.suffix.lower() != LINES:
        return path.suffix.lower() in SPARSE
    if not (first := _first_line(path)):
        raise DataError(f"{path} is empty.")
    if not first.startswith(FASTTEXT) and not HEADER.fullmatch(first) and not PAIR.fullmatch([*first.split(), ""][1]):
        raise DataError(
            f"{path}: a .txt is read if its lines begin with {FASTTEXT}, as fastText's, or are `labels index:value` of "
            "LIBSVM. Save a table as .csv or .tsv, and texts without labels as a .tsv whose first line is `text`."
        )
    return not first.startswith(FASTTEXT)


def _first_line(path: Path) -> str:
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        return next((line.strip() for line in file if line.strip()), "")


def not_utf8(path: Path, error: UnicodeDecodeError) -> DataError:
    return DataError(f"{path}: not UTF-8 text ({error}). Save the file as UTF-8, in Excel as `CSV UTF-8`.")


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
    with open(path, encoding="utf-8-sig", newline="") as file:
        line = next((line for line in file if line.strip()), "")
        is_tsv = is_tsv and ("\t" in line or not set(line) & set(MARKS))
        mark = "\t" if is_tsv else next((mark for mark in MARKS if mark in line), ",")
        quoting: Any = csv.QUOTE_NONE if is_tsv else csv.QUOTE_MINIMAL  # tsv texts contain stray quotes
        file.seek(0)
        reader = csv.reader(file, delimiter=mark, quoting=quoting, strict=True)
        rows = _numbered(reader, path)
        first = next(rows, None)
        if first is None:
            raise DataError(f"{path} is empty.")
        if re.fullmatch("(?i)sep=.?", line.strip()):  # Excel's
            raise DataError(f"{path}: its first line, {line.strip()!r}, is no header. Remove it.")
        cells = [cell.strip() for cell in first[1]]
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
                hint = " Line 1 is no header: remove it." if len(header) == 1 or header[0].startswith("#") else ""
                if is_tsv and any(cell.count('"') % 2 for cell in cells):
                    hint = " A line break within quotes is read in a .csv, not in a .tsv."
                raise DataError(
                    f"{path}, line {number}: {len(cells)} values, expected {len(header)} ({', '.join(header)}). Quote "
                    f"values that contain the separator ({mark!r}); the file may end early.{hint}"
                )
            values = [*map(unquoted, cells)] if unquote else cells
            if values == header:
                raise DataError(f"{path}, line {number}: the header again. Remove it; were two files joined?")
            yield number, values
            first = next(rows, None)


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


def indices_of(paths: Iterable[Path]) -> Indices:
    """The features in the LIBSVM files of one data set. They are counted from 1, unless a 0 occurs in one of the files,
    or one has the header of the extreme classification repository."""
    found = [_scanned(path) for path in paths]
    first = 0 if any(each.declared for each in found) else min(1, *(each.lowest for each in found))
    return Indices(first, max(max([each.highest + 1, *each.declared[1:2]]) for each in found) - first)


def _sparse(path: Path, indices: Indices | None) -> Iterator[Row]:
    """LIBSVM's lines, `labels index:value ...` with ids of labels separated by commas, as lists of features and of
    labels. The first line of the extreme classification repository has the numbers of rows, features and labels."""
    yield 1, ["features", "labels"]
    count, lines, declared, *_ = _scanned(path)
    first, size = indices or indices_of([path])
    if not count:
        raise DataError(f"{path} is empty.")
    if declared and not count <= declared[0] <= lines:
        raise DataError(
            f"{path}: line 1 declares {declared[0]} rows, but there are {count}. The file may end early, or two were "
            "joined."
        )
    known = declared[2] if declared else None
    if count * size > MOST_VALUES:
        raise DataError(
            f"{path}: {count} rows of {size} features are {count * size:,} numbers, more than {MOST_VALUES:,} that "
            "are read. "
            "Reduce the features, such as by TruncatedSVD of scikit-learn, and give a .parquet with lists of numbers."
        )
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            text = line.partition("#")[0].strip()
            if not text or (declared and number == 1):
                continue
            labels, *pairs = ["", *text.split()] if ":" in text.split()[0] or line[0].isspace() else text.split()
            features, seen = [0.0] * size, set()
            for pair in pairs:
                found = PAIR.fullmatch(pair)
                if found is None:
                    raise DataError(f"{path}, line {number}: {pair[:40]!r} is no feature; expected index:value.")
                place = int(found[1]) - first
                if not 0 <= place < size:
                    raise DataError(
                        f"{path}, line {number}: the feature {pair[:40]!r} is not among the {size} that are read, "
                        f"counted from {first}. Number the features as in training."
                    )
                if place in seen:
                    raise DataError(f"{path}, line {number}: the feature {found[1]} occurs twice. Keep one value.")
                seen.add(place)
                features[place] = float(found[2])
            ids = [label for label in labels.split(",") if label]
            if not all(re.fullmatch(r"[0-9]+(\.0+)?", label) for label in ids):
                raise DataError(f"{path}, line {number}: the labels are {labels[:40]!r}; expected ids with commas.")
            sets = [int(float(label)) for label in ids]
            if known is not None and max(sets, default=-1) >= known:
                raise DataError(
                    f"{path}, line {number}: the label {max(sets)} is not below {known}, the number of labels in line "
                    "1. Ids count from 0. Correct one of them."
                )
            yield number, [features, sets]


def _fasttext(path: Path) -> Iterator[Row]:
    """fastText's lines, `__label__a __label__b text`, as texts and lists of labels."""
    yield 1, ["text", "labels"]
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                labels = [label.rstrip(",") for label in LABELLED.findall(line.strip())]
                yield number, [LABELLED.sub("", line.strip()), labels]


class _Scanned(NamedTuple):
    """What a LIBSVM file has: the numbers of `rows` and of lines for them, empty ones too; the numbers of rows,
    features and labels that its header `declared`, empty without one; and the lowest and the highest index, 1 and 0 if
    none occurs."""

    rows: int
    lines: int
    declared: tuple[int, ...]
    lowest: int
    highest: int


def _scanned(path: Path) -> _Scanned:
    declared: tuple[int, ...] = ()
    rows, lines, lowest, highest = 0, 0, 1, 0
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if number == 1 and (numbers := HEADER.fullmatch(line.strip())):
                declared = tuple(map(int, numbers.groups()))
                continue
            found = [int(index) for index, _ in PAIR.findall(line.partition("#")[0])]
            lines += 1
            rows += bool(line.partition("#")[0].strip())
            lowest, highest = min([lowest, *found]), max([highest, *found])
    return _Scanned(rows, lines, declared, lowest, highest)


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
        lines = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
        head = [*islice(lines, 2)]
        if path.suffix.lower() == ".json" and head and not _are_rows([line for _, line in head]):
            yield from _only_array(path)
            return
        for number, line in chain(head, lines):
            yield number, json_row(line, f"{path}, line {number}")


def _are_rows(lines: Sequence[str]) -> bool:
    """True if the first lines of a file have a row each, and are not one object with all rows."""
    try:
        row = json.loads(lines[0])
    except (ValueError, RecursionError):
        return False
    if len(lines) > 1 or not isinstance(row, dict):
        return True
    values = [*row.values()]
    own = any(isinstance(row.get(name), kind) for name, kind in OF_ROWS.items())
    in_objects = not own and any(map(_has_objects, values))
    in_dicts = len(values) > 1 and all(isinstance(value, dict) for value in values)
    firsts = [value[0] if isinstance(value, list) and value else None for value in values]
    in_lists = None not in firsts and any(isinstance(first, list) for first in firsts)
    return not (in_objects or in_dicts or in_lists)


def _has_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and (isinstance(value[0], dict) or _is_pair(value[0]))


def _is_pair(row: Any) -> bool:
    """True for spaCy's `[text, {"entities" or "cats": ...}]`."""
    return isinstance(row, list) and [*map(type, row)] == [str, dict]


def _only_array(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of the only list of objects in a file that holds one object.

    Raises:
        DataError: there are none, or several.
    """
    text = path.read_text(encoding="utf-8-sig")
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_rows(path) from error
    lists = [key for key, value in whole.items() if _has_objects(value)] if isinstance(whole, dict) else []
    found = re.search(rf"{re.escape(json.dumps(lists[0]))}\s*:\s*\[", text) if len(lists) == 1 else None
    if found is None:
        raise _no_rows(path)
    before = text[: found.end() - 1]
    yield from _array(path, StringIO(text[len(before) :]), before.count("\n"))


def _no_rows(path: Path) -> DataError:
    return DataError(
        f"{path}: expected an array of objects, [{{...}}, {{...}}], or an object per line. pandas writes one by "
        'frame.to_json(file, orient="records").'
    )


def _array(path: Path, file: TextIO, before: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of an array, which begins after this number of lines, a block of text at a time."""
    decoder, text = json.JSONDecoder(object_pairs_hook=_fields), file.read(BLOCK)
    at = text.index("[") + 1
    line = 1 + before + text.count("\n", 0, at)
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
        if _is_pair(row):
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
