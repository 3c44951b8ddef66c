"""ARFF into matrices: dense and sparse (by liac-arff), and the hierarchical class attribute of Clus, which liac-arff
cannot read."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import arff
import numpy as np

from .common import DataError, id_column

DAMAGED = (arff.ArffException, csv.Error, ValueError)  # errors from a damaged file
TRUE, FALSE = {"yes", "true", "y", "t", "1"}, {"no", "false", "n", "f", "0"}
IDENTIFIER_SHARE = 0.9  # an attribute with this share of distinct values is a name, not a feature
QUOTED = r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
ATTRIBUTE = re.compile(rf"(?im)^[ \t]*@attribute\s+({QUOTED}|\S+)")
HIERARCHICAL = re.compile(rf"(?im)^([ \t]*@attribute\s+({QUOTED}|\S+))\s+hierarchical\s+(.*)$")


@dataclass
class Table:
    """Columns of one ARFF file as a matrix; nominal attributes are already numbers.

    Attributes:
        values: (N, columns) float32; missing values are NaN.
        names: column names; a one-hot column is `attribute=value`.
        paths: per row, the cell of Clus' `class hierarchical` attribute; None for other files.
        hierarchy: all class paths that the header of a Clus file declares.
        identifiers: names of the attributes that were dropped, or kept as an index, as identifiers.
        ids: (N,) values of the first identifier; None without identifiers.
        repeated, meka_labels: as in [`ArffFile`].
        attributes: the names of all attributes.
    """

    values: np.ndarray
    names: list[str]
    paths: list[str] | None
    hierarchy: list[str]
    identifiers: list[str]
    ids: np.ndarray | None
    repeated: list[str]
    meka_labels: int | None = None
    attributes: Sequence[str] = ()


class ArffFile:
    """An ARFF file whose rows are read one at a time, as often as needed.

    Attributes:
        path: the file.
        names: of its attributes, in order.
        kinds: for each attribute, `NUMERIC`, `REAL`, `INTEGER`, `STRING`, or the list of a nominal's values.
        class_index: index of Clus' `class hierarchical` attribute, whose kind is `STRING`; None in other files.
        hierarchy: all class paths that the header of a Clus file declares.
        meka_labels: the number of labels that MEKA's `-C` in the relation gives: of the first attributes, or, below 0,
            of the last ones; None without it.
        repeated: names that several attributes share; in `names`, all but the first end in a number.

    Raises:
        DataError: the file ends early or is not ARFF; names the line.
    """

    def __init__(self, path: Path):
        self.path = path
        lines = self._header()
        self._first_line = len(lines) + 2  # first line of the data
        header = re.sub(r"(?im)^[ \t]*(@\w+)[ \t]+", r"\1 ", "".join(lines))  # liac-arff rejects a tab there
        header, self.repeated = _numbered(header)
        self.names = [unescape(match.group(1)) for match in ATTRIBUTE.finditer(header)]
        clus = HIERARCHICAL.search(header)
        self.hierarchy = [node.strip() for node in clus.group(3).split(",")] if clus else []
        self.class_index = self.names.index(unescape(clus.group(2))) if clus else None
        self._plain_header = [*HIERARCHICAL.sub(r"\1 string", header).split("\n"), "@data"]
        parsed = self._parsed((), sparse=False)
        self.kinds = [kind for _, kind in parsed["attributes"]]
        found = re.search(r"-C\s+(-?[0-9]+)", parsed["relation"])
        self.meka_labels = int(found[1]) if found else None

    def __iter__(self) -> Iterator[tuple[int, list[Any]]]:
        """The line of each row, counted from 1, and its values, None for a missing one. Values that a sparse row leaves
        out are 0, or the first value of a nominal (the ARFF definition)."""
        return self.rows()

    def rows(self, sparse: bool = False) -> Iterator[tuple[int, Any]]:
        """As `__iter__`; with `sparse`, for a file of sparse rows, a row is a mapping: index of attribute -> value."""
        taken: list[int] = []  # number of the last line that the parser has read

        def lines() -> Iterator[str]:
            for number, line in self.data_lines():
                taken[:] = [number]
                yield line

        try:
            for row in self._parsed(lines(), sparse)["data"]:
                yield taken[0], row
        except DAMAGED as error:
            raise self._unreadable(error, *taken) from error
        if not taken:
            raise DataError(f"{self.path}: no rows after @data. The file ends early.")

    def data_lines(self) -> Iterator[tuple[int, str]]:
        """The lines of rows. A broken download cuts a row in two: find it, with its line, before the parser guesses."""
        quoted, expected = re.compile(QUOTED), len(self.names)
        for number, line in self._lines():
            line = line.strip()
            if number < self._first_line or not line or line.startswith("%"):
                continue
            if line.startswith("{"):
                if not line.endswith("}"):
                    raise DataError(
                        f"{self.path}, line {number}: a sparse row lacks its closing brace; the file ends early."
                    )
            elif (found := _count_values(quoted.sub("_", line))) != expected:
                raise DataError(
                    f"{self.path}, line {number}: {found} values, expected {expected}, one per attribute. The file "
                    f"ends early or is damaged."
                )
            yield number, line

    def _lines(self) -> Iterator[tuple[int, str]]:
        with open(self.path, encoding="utf-8-sig", errors="replace") as file:
            for number, line in enumerate(file, start=1):
                if "\ufffd" in line and not line.lstrip().startswith("%"):  # harmless in a comment
                    raise DataError(f"{self.path}, line {number}: not UTF-8 text. Save the file as UTF-8.")
                yield number, line

    def _header(self) -> list[str]:
        found: list[str] = []
        for _, line in self._lines():
            if re.match(r"(?i)[ \t]*@data", line):
                return found
            found.append(line)
        raise DataError(f"{self.path}: no @data line in {len(found)} lines. The file ends early or is not ARFF.")

    def _parsed(self, lines: Iterable[str], sparse: bool) -> dict[str, Any]:
        """The header and these lines, parsed by liac-arff; it returns rows one at a time."""
        kind = arff.LOD_GEN if sparse else arff.DENSE_GEN
        try:
            return arff.ArffDecoder().decode(chain(self._plain_header, lines), return_type=kind)
        except DAMAGED as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception, number: int | None = None) -> Exception:
        if isinstance(error, DataError):
            return error
        if number is not None:
            error.line = number  # type: ignore[attr-defined]  # of liac-arff's errors
        return DataError(f"{self.path}: not readable as ARFF: {error}")


def read_arff(path: Path, keep_id: bool = False, identifiers: Sequence[str] | None = None) -> Table:
    """Read one file.

    Two-valued nominals such as {YES, NO} or {0, 1} become 1/0. Other nominals, and all in a Clus file, become a column
    per value, all zeros for a missing value. A nominal or string attribute whose values (nearly) all differ is an
    identifier: it is dropped, or with `keep_id` kept as its integer index.

    Args:
        path: an ARFF file.
        keep_id: keep identifiers.
        identifiers: their names; default: found in this file. The files of one data set share them.

    Raises:
        DataError: the file ends early or is not ARFF; names the line.
    """
    file = ArffFile(path)
    sparse = next((line.startswith("{") for _, line in file.data_lines()), False)
    rows = [row for _, row in file.rows(sparse)]
    names, kinds = list(file.names), list(file.kinds)
    columns = _sparse_columns(rows, kinds) if sparse else list(zip(*rows, strict=True))
    paths = None
    if file.class_index is not None:  # the class attribute is not a feature
        paths = list(columns.pop(file.class_index))
        del names[file.class_index], kinds[file.class_index]
    join_binary = file.class_index is None
    values, out_names, found = numbers(path, len(rows), names, kinds, columns, keep_id, identifiers, join_binary)
    ids = id_column(columns[names.index(found[0])]) if found else None
    return Table(values, out_names, paths, file.hierarchy, found, ids, file.repeated, file.meka_labels, file.names)


def unescape(name: str) -> str:
    """A name without its quotes, and without backslashes before quotes inside it."""
    if len(name) > 1 and name[0] == name[-1] and name[0] in "'\"":
        name = name[1:-1]
    return re.sub(r"\\(.)", r"\1", name)


def _numbered(header: str) -> tuple[str, list[str]]:
    """A header with distinct names, `x`, `x_2`, `x_3`, for attributes of one name; and these names."""
    taken = {unescape(match[1]) for match in ATTRIBUTE.finditer(header)}
    seen: set[str] = set()
    repeated: list[str] = []

    def renamed(match: re.Match) -> str:
        name = unescape(match[1])
        if name not in seen:
            seen.add(name)
            return match[0]
        repeated.append(name)
        new = next(new for number in count(2) if (new := f"{name}_{number}") not in taken)
        taken.add(new)
        escaped = re.sub(r"([\\'])", r"\\\1", new)
        return f"{match[0].removesuffix(match[1])}'{escaped}'"

    return ATTRIBUTE.sub(renamed, header), list(dict.fromkeys(repeated))


def _count_values(line: str) -> int:
    return line.count(",") + (not line.endswith(","))  # a comma at the end adds no value


def numbers(
    path: Path,
    num_rows: int,
    names: Sequence[str],
    kinds: Sequence[Any],
    columns: Sequence[Any],
    keep_id: bool,
    identifiers: Collection[str] | None,
    join_binary: bool,
) -> tuple[np.ndarray, list[str], list[str]]:
    """Columns as a float32 matrix, the names of its columns, and the names of identifiers."""
    out_names, found, blocks = [], [], [np.empty((num_rows, 0), dtype=np.float32)]
    for name, kind, column in zip(names, kinds, columns, strict=True):
        nominal = isinstance(kind, list)
        codes = binary(kind) if nominal and join_binary else None  # value -> number
        if kind == "STRING" or (nominal and codes is None):
            if name in identifiers if identifiers is not None else _is_identifier(column):
                found.append(name)
                if not keep_id:
                    continue
                if not nominal and identifiers is not None:
                    raise DataError(
                        f"{path}: the identifier {name!r} is a string, but `keep_id` would number strings anew in each "
                        "file: one number for two values. Declare its values as {a,b,...}, or leave `keep_id` out."
                    )
                codes = {value: i for i, value in enumerate(kind if nominal else dict.fromkeys(column))}
            elif not nominal:
                raise DataError(
                    f"{path}: attribute {name!r} is a string, expected numeric or nominal. Remove it, or declare its "
                    f"values as {{a,b,...}}."
                )
        if nominal and codes is None:  # a missing nominal is a row of zeros
            out_names += [f"{name}={value}" for value in kind]
            blocks.append(np.array([[v == value for value in kind] for v in column], dtype=np.float32))
            continue
        numbers = column if codes is None else [None if v is None else codes[v] for v in column]
        out_names.append(name)
        with np.errstate(over="ignore"):  # values too large for float32 become infinite, an error later
            blocks.append(np.array([np.nan if v is None else v for v in numbers]).astype(np.float32)[:, None])
    return np.concatenate(blocks, axis=1), out_names, found


def _is_identifier(column: Sequence) -> bool:
    return len(column) > 10 and len(set(column)) > IDENTIFIER_SHARE * len(column)


def _sparse_columns(rows: Sequence[dict], kinds: Sequence) -> list[list]:
    """Columns of sparse rows: absent values are 0, or the first value of a nominal (the ARFF definition)."""
    columns = [[kind[0] if isinstance(kind, list) else 0.0] * len(rows) for kind in kinds]
    for i, row in enumerate(rows):
        for j, value in row.items():
            columns[j][i] = value
    return columns


def binary(values: Sequence[str]) -> dict[str, float] | None:
    """{YES, NO} and such, in any order -> {value: 1 or 0}; None for other nominals. A lone `0` or `1` counts too."""
    lowered = {value: value.strip().lower() for value in values}
    if not all(v in TRUE | FALSE for v in lowered.values()) or len({v in TRUE for v in lowered.values()}) != len(
        values
    ):
        return None
    return {value: float(v in TRUE) for value, v in lowered.items()}
