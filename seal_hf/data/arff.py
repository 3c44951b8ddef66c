"""ARFF into matrices: dense and sparse (liac-arff), and the hierarchical class attribute of Clus, which liac-arff does
not know."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .common import DataError

TRUE, FALSE = {"yes", "true", "y", "t", "1"}, {"no", "false", "n", "f", "0"}
IDENTIFIER_SHARE = 0.9  # an attribute with that many different values per row is a name, not a feature
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
    """

    values: np.ndarray
    names: list[str]
    paths: list[str] | None
    hierarchy: list[str]
    identifiers: list[str]


def read_arff(path: Path, keep_id: bool = False, identifiers: Sequence[str] | None = None) -> Table:
    """Read one file.

    Two-valued nominals such as {YES, NO} or {0, 1} become 1/0; other nominals, and in a Clus file all, one column per
    value, zeros where it is missing. A nominal or string attribute whose values are (nearly) all different is an
    identifier and is dropped, or with `keep_id` kept as its integer index.

    Args:
        path: an ARFF file.
        keep_id: keep identifiers.
        identifiers: which attributes these are; default: found in this file. The files of one data set share them.

    Raises:
        DataError: a file that ends early or is not ARFF, naming the line.
    """
    import arff

    text = path.read_text(encoding="utf-8-sig", errors="replace")
    for number, line in enumerate(text.split("\n"), start=1) if "\ufffd" in text else ():
        if "\ufffd" in line and not line.lstrip().startswith("%"):  # in a comment it does no harm
            raise DataError(f"{path}, line {number}: not UTF-8 text. Save the file as UTF-8.")
    header, marker, body = _split(text, path)
    header = re.sub(r"(?im)^[ \t]*(@\w+)[ \t]+", r"\1 ", header)  # liac-arff takes no tab there
    names = [unescape(match.group(1)) for match in ATTRIBUTE.finditer(header)]
    clus = HIERARCHICAL.search(header)
    hierarchy = [node.strip() for node in clus.group(3).split(",")] if clus else []
    _check_rows(len(names), body, path, first_line=header.count("\n") + 2)
    sparse = body.lstrip().startswith("{")
    try:
        plain = HIERARCHICAL.sub(r"\1 string", header)
        parsed = arff.loads(plain + marker + body, return_type=arff.LOD if sparse else arff.DENSE)
    except (arff.ArffException, ValueError) as error:
        raise DataError(f"{path}: not readable as ARFF: {error}") from error
    rows, kinds = parsed["data"], [kind for _, kind in parsed["attributes"]]
    if not rows:
        raise DataError(f"{path}: no rows after @data. The file ends early.")
    columns = _sparse_columns(rows, kinds) if sparse else list(zip(*rows, strict=True))
    paths = None
    if clus:  # the class attribute is no feature
        position = names.index(unescape(clus.group(2)))
        paths = list(columns.pop(position))
        del names[position], kinds[position]
    values, names, found = _numbers(path, len(rows), names, kinds, columns, keep_id, identifiers, not clus)
    return Table(values, names, paths, hierarchy, found)


def unescape(name: str) -> str:
    """A name as it is meant: without its quotes, and without the backslashes before quotes inside it."""
    if len(name) > 1 and name[0] == name[-1] and name[0] in "'\"":
        name = name[1:-1]
    return re.sub(r"\\(.)", r"\1", name)


def _split(text: str, path: Path) -> tuple[str, str, str]:
    match = re.search(r"(?im)^[ \t]*@data[^\n]*(\n|$)", text)
    if match is None:
        raise DataError(f"{path}: no @data line in {text.count(chr(10))} lines. The file ends early or is not ARFF.")
    return text[: match.start()], match.group(0), text[match.end() :]


def _check_rows(columns: int, body: str, path: Path, first_line: int) -> None:
    """A row cut in two is what a broken download leaves: find it, with its line, before the parser guesses."""
    quoted = re.compile(QUOTED)
    for number, line in enumerate(body.split("\n"), start=first_line):
        line = line.strip()
        if not line or line.startswith("%"):
            continue
        if line.startswith("{"):
            if not line.endswith("}"):
                raise DataError(f"{path}, line {number}: a sparse row without its closing brace; the file ends early.")
            continue
        if "'" in line or '"' in line:
            line = quoted.sub("_", line)
        found = line.count(",") + (not line.endswith(","))  # nothing after the last comma is no value
        if found != columns:
            raise DataError(
                f"{path}, line {number}: {found} values, expected {columns}, one per attribute. The file ends "
                f"early or is damaged."
            )


def _numbers(
    path: Path,
    num_rows: int,
    names: Sequence[str],
    kinds: Sequence[Any],
    columns: Sequence[Any],
    keep_id: bool,
    identifiers: Collection[str] | None,
    join_binary: bool,
) -> tuple[np.ndarray, list[str], list[str]]:
    """Columns as a float32 matrix, the names of its columns, and the attributes that are identifiers."""
    out_names, found, blocks = [], [], [np.empty((num_rows, 0), dtype=np.float32)]
    for name, kind, column in zip(names, kinds, columns, strict=True):
        nominal = isinstance(kind, list)
        codes = _binary(kind) if nominal and join_binary else None  # value -> number
        if kind == "STRING" or (nominal and codes is None):
            if name in identifiers if identifiers is not None else _is_identifier(column):
                found.append(name)
                if not keep_id:
                    continue
                if not nominal and identifiers is not None:
                    raise DataError(
                        f"{path}: the identifier {name!r} is a string, which `keep_id` numbers in each file anew: one "
                        "number would stand for two values. Declare its values as {a,b,...}, or leave `keep_id` out."
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
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused by name later
            blocks.append(np.array([np.nan if v is None else v for v in numbers]).astype(np.float32)[:, None])
    return np.concatenate(blocks, axis=1), out_names, found


def _is_identifier(column: Sequence) -> bool:
    return len(column) > 10 and len(set(column)) > IDENTIFIER_SHARE * len(column)


def _sparse_columns(rows: Sequence[dict], kinds: Sequence) -> list[list]:
    """Columns of sparse rows: what is absent is 0, or the first value of a nominal (the ARFF definition)."""
    columns = [[kind[0] if isinstance(kind, list) else 0.0] * len(rows) for kind in kinds]
    for i, row in enumerate(rows):
        for j, value in row.items():
            columns[j][i] = value
    return columns


def _binary(values: Sequence[str]) -> dict[str, float] | None:
    """{YES, NO} and its kin in any order -> {value: 1 or 0}; None for other nominals. A lone `0` or `1` counts too."""
    lowered = {value: value.strip().lower() for value in values}
    if not all(v in TRUE | FALSE for v in lowered.values()) or len({v in TRUE for v in lowered.values()}) != len(
        values
    ):
        return None
    return {value: float(v in TRUE) for value, v in lowered.items()}
