"""ARFF into matrices: dense and sparse (liac-arff), and the hierarchical class attribute of Clus, which liac-arff does
not know."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import arff
import numpy as np

from .common import DataError

TRUE, FALSE = {"yes", "true", "y", "t", "1"}, {"no", "false", "n", "f", "0"}
IDENTIFIER_SHARE = 0.9  # a nominal attribute with that many different values per row is a name, not a feature


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


def read_arff(path: Path, keep_id: bool = False) -> Table:
    """Read one file.

    Two-valued nominals such as {YES, NO} or {0, 1} become 1/0, other nominals one column per value; a nominal whose
    values are (nearly) all
    different is an identifier and is dropped, or with `keep_id` kept as its integer index.

    Raises:
        DataError: a file that ends early or is not ARFF, naming the line.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    header, marker, body = _split(text, path)
    hierarchy: list[str] = []

    def plain(match: re.Match) -> str:
        hierarchy.extend(match.group(2).strip().split(","))
        return f"{match.group(1)} string"

    header = re.sub(r"(?im)^(@attribute\s+\S+)\s+hierarchical\s+(.*)$", plain, header)
    _check_rows(header, body, path, first_line=header.count("\n") + 2)
    sparse = body.lstrip().startswith("{")
    try:
        parsed = arff.loads(header + marker + body, return_type=arff.LOD if sparse else arff.DENSE)
    except arff.ArffException as error:
        raise DataError(f"{path}: not readable as ARFF: {error}") from error
    return _to_table(parsed, sparse, hierarchy, keep_id)


def _split(text: str, path: Path) -> tuple[str, str, str]:
    match = re.search(r"(?im)^@data[^\n]*\n", text)
    if match is None:
        raise DataError(f"{path}: no @data line in {text.count(chr(10))} lines. The file ends early or is not ARFF.")
    return text[: match.start()], match.group(0), text[match.end() :]


def _check_rows(header: str, body: str, path: Path, first_line: int) -> None:
    """A row cut in two is what a broken download leaves: find it, with its line, before the parser guesses."""
    columns = len(re.findall(r"(?im)^@attribute\b", header))
    quoted = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
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
        found = line.count(",") + 1
        if found != columns:
            raise DataError(
                f"{path}, line {number}: {found} values, expected {columns}, one per attribute. The file ends "
                f"early or is damaged."
            )


def _to_table(parsed: dict, sparse: bool, hierarchy: list[str], keep_id: bool) -> Table:
    rows, attributes = parsed["data"], parsed["attributes"]
    paths, names, blocks, identifiers = None, [], [], []
    columns = _sparse_columns(rows, attributes) if sparse else list(zip(*rows, strict=True))
    for (name, kind), column in zip(attributes, columns, strict=True):
        if hierarchy and kind == "STRING":
            paths = list(column)
        elif not isinstance(kind, list):
            names.append(name)
            blocks.append(np.array([np.nan if v is None else v for v in column], dtype=np.float32)[:, None])
        elif (binary := _binary(kind)) is not None:
            names.append(name)
            blocks.append(np.array([np.nan if v is None else binary[v] for v in column], dtype=np.float32)[:, None])
        elif len(set(column)) > IDENTIFIER_SHARE * len(rows) and len(rows) > 10:
            identifiers.append(name)
            if keep_id:
                index = {value: i for i, value in enumerate(kind)}
                names.append(name)
                blocks.append(np.array([index[v] for v in column], dtype=np.float32)[:, None])
        else:  # a missing nominal is a row of zeros
            names += [f"{name}={value}" for value in kind]
            blocks.append(np.array([[v == value for value in kind] for v in column], dtype=np.float32))
    return Table(np.concatenate(blocks, axis=1), names, paths, hierarchy, identifiers)


def _sparse_columns(rows: Sequence[dict], attributes: Sequence[tuple]) -> list[list]:
    """Columns of sparse rows: what is absent is 0, or the first value of a nominal (the ARFF definition)."""
    columns = [[kind[0] if isinstance(kind, list) else 0.0] * len(rows) for _, kind in attributes]
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
