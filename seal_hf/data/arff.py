"""ARFF: feature data of Mulan folders (with a label XML, perhaps `folds.json`), of MEKA, and of Clus with its class
hierarchy, which liac-arff cannot read. Files are dense or sparse."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import arff
import numpy as np

from ..utils.messages import did_you_mean, few
from .column_choice import is_index
from .common import SPLITS, DataError, MultiLabelData, Origins, check_finite, feature_data, id_column, place_of
from .hierarchy import path_hierarchy
from .label_rows import TextReader
from .row_tables import Row, Table
from .splits import stratified_split
from .table_sources import chosen_split
from .weights import read_weights, with_mean_1

DAMAGED = (arff.ArffException, csv.Error, ValueError)  # errors from a damaged file
TRUE, FALSE = {"yes", "true", "y", "t", "1"}, {"no", "false", "n", "f", "0"}
IDENTIFIER_SHARE = 0.9  # an attribute with this share of distinct values is a name, not a feature
QUOTED = r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
ATTRIBUTE = re.compile(rf"(?im)^[ \t]*@attribute\s+({QUOTED}|\S+)")
HIERARCHICAL = re.compile(rf"(?im)^([ \t]*@attribute\s+({QUOTED}|\S+))\s+hierarchical\s+(.*)$")


@dataclass
class Matrix:
    """Columns of one ARFF file as a matrix; nominal attributes are already numbers.

    Attributes:
        values: (N, columns) float32; missing values are NaN.
        names: column names; a one-hot column is `attribute=value`.
        paths: per row, the cell of Clus' `class hierarchical` attribute; None for other files.
        identifiers: names of the attributes that were dropped, or kept as an index, as identifiers.
        ids: (N,) values of the first identifier; None without identifiers.
        file: the file, with what its header says.
    """

    values: np.ndarray
    names: list[str]
    paths: list[str] | None
    identifiers: list[str]
    ids: np.ndarray | None
    file: ArffFile


class ArffFile(Table):
    """An ARFF file, a table whose columns are its attributes. Values that a sparse row leaves out are 0, or the first
    value of a nominal (the ARFF definition); a missing value is None.

    Args:
        path: the file.
        only: numbers of the rows to read, counted from 0; None: all.

    Attributes:
        kinds: for each attribute, `NUMERIC`, `REAL`, `INTEGER`, `STRING`, or the list of a nominal's values.
        class_index: index of Clus' `class hierarchical` attribute, whose kind is `STRING`; None in other files.
        hierarchy: all class paths that the header of a Clus file declares.
        meka_labels: the number of labels that MEKA's `-C` in the relation gives: of the first attributes, or, below 0,
            of the last ones; None without it.
        repeated: names that several attributes share; in `columns`, all but the first end in a number.

    Raises:
        DataError: the file ends early or is not ARFF; names the line.
    """

    def __init__(self, path: Path, only: Collection[int] | None = None):
        self.path, self.source, self.only = path, str(path), only
        lines = self._header()
        self._first_line = len(lines) + 2  # first line of the data
        header = re.sub(r"(?im)^[ \t]*(@\w+)[ \t]+", r"\1 ", "".join(lines))  # liac-arff rejects a tab there
        header, self.repeated = _numbered(header)
        self.columns = [unescape(match.group(1)) for match in ATTRIBUTE.finditer(header)]
        clus = HIERARCHICAL.search(header)
        self.hierarchy = [node.strip() for node in clus.group(3).split(",")] if clus else []
        self.class_index = self.columns.index(unescape(clus.group(2))) if clus else None
        self._plain_header = [*HIERARCHICAL.sub(r"\1 string", header).split("\n"), "@data"]
        parsed = self._parsed((), sparse=False)
        self.kinds = [kind for _, kind in parsed["attributes"]]
        found = re.search(r"-C\s+(-?[0-9]+)", parsed["relation"])
        self.meka_labels = int(found[1]) if found else None

    def __iter__(self) -> Iterator[Row]:
        for i, (line, values) in enumerate(self.rows()):
            if self.only is None or i in self.only:
                yield line, dict(zip(self.columns, values, strict=True))

    @cached_property
    def total(self) -> int:
        return sum(1 for _ in self.data_lines()) if self.only is None else len(self.only)

    def rows(self, sparse: bool = False) -> Iterator[tuple[int, Any]]:
        """The line of each row, and its values; with `sparse`, for a file of sparse rows, a row is a mapping: index of
        attribute -> value."""
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
        quoted, expected = re.compile(QUOTED), len(self.columns)
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


def read_arff(path: Path, keep_id: bool = False, identifiers: Sequence[str] | None = None) -> Matrix:
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
    names, kinds = list(file.columns), list(file.kinds)
    columns = _sparse_columns(rows, kinds) if sparse else list(zip(*rows, strict=True))
    paths = None
    if file.class_index is not None:  # the class attribute is not a feature
        paths = list(columns.pop(file.class_index))
        del names[file.class_index], kinds[file.class_index]
    join_binary = file.class_index is None
    values, out_names, found = numbers(path, len(rows), names, kinds, columns, keep_id, identifiers, join_binary)
    ids = id_column(columns[names.index(found[0])]) if found else None
    return Matrix(values, out_names, paths, found, ids, file)


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


def _is_identifier(column: Sequence | np.ndarray) -> bool:
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


# --- folders ----------------------------------------------------------------------------------------------------------

CLUS_SPLITS = {"train": "train", "validation": "valid", "test": "test"}
ROOT = "root"  # Clus' name for the root of a class hierarchy
TRAIN_FOLDS, VALIDATION_FOLDS = 6, 8  # folds 1-6 train, 7-8 validation, 9-10 test (SEAL appendix B)


def load_arff_folder(
    path: Path,
    *,
    normalize: str = "none",
    keep_id: bool = False,
    keep_root: bool = False,
    max_train_rows: int | None = None,
    seed: int = 0,
    sample_weight: str | None = None,
) -> MultiLabelData:
    """A folder with ARFF files, or one ARFF file.

    Args:
        path: `<name>.arff` + `<name>.xml` (+ `folds.json`), or `<name>-train.arff` / `<name>-test.arff` + XML (Mulan);
            or `*.train.arff`, `*.valid.arff`, `*.test.arff` with a hierarchical class attribute (Clus).
        normalize: `none`, `minmax`, `standard`, `auto`, fitted on train.
        keep_id: keep an identifier attribute as an integer feature instead of dropping it.
        keep_root: keep the root of a class hierarchy as the first label, which every row has, as the papers do.
        max_train_rows: keep only this many first rows of the train split.
        seed: for a split that the folder does not fix.
        sample_weight: a numeric attribute, which is not a feature but the weights of training rows.

    Raises:
        DataError: a missing or damaged file; `keep_root` without a class hierarchy.
    """
    folder = path if path.is_dir() else path.parent
    files = sorted(folder.glob("*.arff")) if path.is_dir() else [path]
    files = _with_folds(folder, files) or files
    tables: dict[Path, Matrix] = {}
    for file in sorted(files, key=lambda file: "train" not in file.name.lower()):  # train decides what is an identifier
        known = next(iter(tables.values())).identifiers if tables else None
        tables[file] = read_arff(file, keep_id, known)
    is_clus = any(table.file.hierarchy for table in tables.values())
    if is_clus:
        name, splits, origins, features, labels, notes = _clus(folder, tables, keep_root)
    elif keep_root:
        raise DataError(f"{folder}: `keep_root` is set, but there is no `class hierarchical` attribute. Leave it out.")
    else:
        name, splits, origins, features, labels, notes = _mulan(folder, tables, seed)
    first = next(iter(tables.values()))
    identifiers = first.identifiers
    if identifiers:
        action = "kept as an integer" if keep_id else "dropped"
        notes.append(f"identifier attribute {', '.join(identifiers)} {action}.")
    numbered = [
        name
        for name in features
        if is_index(name, ()) and name not in identifiers and _is_identifier(first.values[:, first.names.index(name)])
    ]
    if numbered:
        notes.append(
            f"numbers that differ in each row are features: {few(numbered)}. If they number the rows, declare them as "
            "string: such attributes are left out."
        )
    repeated = sorted({name for table in tables.values() for name in table.file.repeated})
    if repeated:
        notes.append(f"{len(repeated)} attribute names repeat; all but the first are numbered: {few(repeated)}.")
    weights = None
    if sample_weight is not None:
        splits, features, weights, note = _take_weights(splits, features, sample_weight, str(path), max_train_rows)
        notes.append(note)
    data = feature_data(name, splits, origins, features, labels, normalize, str(path), notes, max_train_rows, weights)
    if is_clus:
        data.hierarchy = path_hierarchy(labels, ROOT if keep_root else None)
    return data


def _with_folds(folder: Path, files: Sequence[Path]) -> list[Path]:
    """The one file whose rows `folds.json` numbers; empty without both."""
    whole = [file for file in files if not file.stem.lower().endswith(("-train", "-test"))]
    return whole if (folder / "folds.json").is_file() and len(whole) == 1 else []


def _called(files: Iterable[Path], word: str) -> list[Path]:
    """The files whose names end in the word of a split, as `x.train.arff` and `x-train.arff`."""
    return [file for file in files if f".{word}" in file.name.lower() or f"-{word}" in file.name.lower()]


def _take_weights(splits: Any, names: list[str], column: str, source: str, num_rows: int | None) -> tuple[Any, ...]:
    """Splits and names without the attribute of weights, and the weights of the first training rows."""
    if column not in names:
        raise DataError(
            f"{source} has no numeric attribute {column!r}, apart from labels, for `sample_weight`."
            f"{did_you_mean(column, names)} Name the right one."
        )
    place = names.index(column)
    raw = read_weights(splits["train"][0][:num_rows, place].tolist(), column, partial(place_of, source, "train"))
    splits = {split: (np.delete(x, place, axis=1), y) for split, (x, y) in splits.items()}
    return splits, [name for name in names if name != column], *with_mean_1(raw, column, source)


def _mulan(folder: Path, tables: dict[Path, Matrix], seed: int) -> tuple[Any, ...]:
    """Splits by `folds.json`, by file name, or 60/20/20."""
    notes: list[str] = []
    parts = {part: f for f in tables for part in ("train", "test") if f.stem.lower().endswith(f"-{part}")}
    if "train" in parts and "test" in parts:
        name = parts["train"].stem[: -len("-train")]
        train, test = tables[parts["train"]], tables[parts["test"]]
        names = _label_names(folder, name, train)
        x, y, features = _features_and_labels(train, names, parts["train"])
        if test.names != train.names:
            raise DataError(f"{folder}: {parts['test'].name} has other attributes than {parts['train'].name}.")
        test_x, test_y, _ = _features_and_labels(test, names, parts["test"])
        fit, validation = stratified_split(y, (0.8, 0.2), seed)
        notes.append(
            f"validation: {len(validation)} rows from {parts['train'].name}, stratified by label (seed {seed})."
        )
        splits = {"train": (x[fit], y[fit]), "validation": (x[validation], y[validation]), "test": (test_x, test_y)}
        whole = _origins(parts["train"], train)
        origins = {"train": whole.take(fit), "validation": whole.take(validation)}
        return name, splits, origins | {"test": _origins(parts["test"], test)}, features, names, notes
    if len(tables) != 1:
        found = ", ".join(file.name for file in tables)
        raise DataError(
            f"{folder}: expected one .arff file, or <name>-train.arff and <name>-test.arff; found {found or 'none'}."
        )
    ((file, table),) = tables.items()
    names = _label_names(folder, file.stem, table)
    x, y, features = _features_and_labels(table, names, file)
    folds = folder / "folds.json"
    if folds.is_file():
        rows = read_folds(folds, len(x), file)
    else:
        rows = stratified_split(y, (0.6, 0.2, 0.2), seed)
        notes.append(f"no folds.json: rows split 60/20/20, stratified by label (seed {seed}).")
    whole = _origins(file, table)
    splits = {split: (x[ids], y[ids]) for split, ids in zip(SPLITS, rows, strict=True)}
    origins = {split: whole.take(ids) for split, ids in zip(SPLITS, rows, strict=True)}
    return file.stem, splits, origins, features, names, notes


def _origins(file: Path, table: Matrix) -> Origins:
    return Origins(str(file), rows=np.arange(len(table.values)), ids=table.ids)


def _label_names(folder: Path, name: str, table: Matrix) -> list[str]:
    path = folder / f"{name}.xml"
    if not path.is_file() and len(found := sorted(folder.glob("*.xml"))) == 1:  # name-train.arff alone, or renamed
        path = found[0]
    if not path.is_file() and (count := table.file.meka_labels):
        names = table.file.columns[:count] if count > 0 else table.file.columns[count:]
        return _checked_names(folder, name, table, names, f"{name}.arff, -C {count} in its relation")
    if not path.is_file():
        raise DataError(
            f"{path} is missing: the XML file lists the attributes of {name}.arff that are labels. Without it, write "
            "how "
            "many of the first attributes are, as MEKA does: @relation 'name: -C 5', or -C -5 for the last ones."
        )
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise DataError(f"{path}: not readable as XML: {error}") from error
    labels = [element.get("name") or "" for element in root.iter() if element.tag.split("}")[-1] == "label"]
    columns = set(table.names)
    return _checked_names(
        folder, name, table, [label if label in columns else unescape(label) for label in labels], str(path)
    )


def _checked_names(folder: Path, name: str, table: Matrix, names: list[str], source: str) -> list[str]:
    columns = set(table.names)
    missing = [label for label in names if label not in columns]
    if missing or not names:
        first = f"; the first: {missing[0]!r}.{did_you_mean(missing[0], table.names)}" if missing else ""
        if missing and missing[0] in table.file.columns:
            first = (
                f"; the first: {missing[0]!r}. Declare it as {{0,1}}, and write 0 and 1 (? for unknown) in its rows."
            )
        raise DataError(
            f"{source}: {len(missing)} of {len(names)} labels are no attributes of {name}.arff with the values 0 and "
            f"1, or no and yes{first}"
        )
    twice = next((label for label in names if label in table.file.repeated), None)
    if twice is not None:  # the others would be features that reveal the label
        raise DataError(f"{folder}: label {twice!r} of {name}.arff names several attributes. Rename the others.")
    if len(set(names)) != len(names):
        raise DataError(f"{source}: label {max(names, key=names.count)!r} is listed twice.")
    return names


def _features_and_labels(table: Matrix, labels: list[str], file: Path) -> tuple[np.ndarray, np.ndarray, list[str]]:
    index = {name: i for i, name in enumerate(table.names)}
    columns = [index[name] for name in labels]
    inputs = np.setdiff1d(np.arange(len(table.names)), columns)
    x, y = table.values[:, inputs], table.values[:, columns]
    features = [table.names[i] for i in inputs]
    check_finite(x, features, str(file))  # here, rows still have their numbers in the file
    y = np.where(np.isnan(y), np.float32(-1), y)  # `?`: unknown
    bad = np.argwhere((y != 0) & (y != 1) & (y != -1))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"{file}: label {labels[column]!r} is {y[row, column]} in row {row} (counting from 0), expected 0 or 1, or "
            "? for unknown."
        )
    return x, y, features


def read_folds(path: Path, num_rows: int, file: Path) -> list[np.ndarray]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        folds = [np.asarray(fold, dtype=np.int64).reshape(-1) for fold in content["folds"]]
        expected = content.get("rows", num_rows)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: expected {{'rows': N, 'folds': [ten lists of row numbers]}}: {error}") from error
    if expected != num_rows:
        raise DataError(
            f"{file} has {num_rows} rows, but {path.name} expects {expected}; it ends early or is the wrong file."
        )
    every = np.sort(np.concatenate(folds)) if folds else np.empty(0)
    if len(folds) != 10 or not np.array_equal(every, np.arange(num_rows)):
        raise DataError(
            f"{path}: expected ten folds that contain every row 0..{num_rows - 1} once; found {len(folds)} folds, "
            f"{len(every)} rows."
        )
    parts = folds[:TRAIN_FOLDS], folds[TRAIN_FOLDS:VALIDATION_FOLDS], folds[VALIDATION_FOLDS:]
    return [np.concatenate(part) for part in parts]


def _clus(folder: Path, tables: dict[Path, Matrix], keep_root: bool) -> tuple[Any, ...]:
    """Clus' own train, valid and test files. Label paths are closed under ancestors; missing numbers become the train
    mean."""
    splits, by_split, origins = {}, {}, {}
    for split, word in CLUS_SPLITS.items():
        matches = _called(tables, word)
        if len(matches) != 1:
            raise DataError(
                f"{folder}: expected one file *.{word}.arff for the {split} split, found {len(matches)} among "
                f"{', '.join(file.name for file in tables)}. Give the folder with all three files."
            )
        by_split[split] = tables[matches[0]]
        origins[split] = _origins(matches[0], by_split[split])
        if not by_split[split].file.hierarchy:
            raise DataError(f"{matches[0]}: lacks the `class hierarchical` attribute, which the files beside it have.")
    train = by_split["train"]
    nodes = sorted({ancestor for path in train.file.hierarchy for ancestor in ancestors(path)})
    missing = sum(int(np.isnan(table.values).sum()) for table in by_split.values())
    means = column_means(train.values)
    for split, table in by_split.items():
        if table.names != train.names:
            raise DataError(f"{folder}: the {split} file has other attributes than the train file.")
        splits[split] = (
            np.where(np.isnan(table.values), means, table.values),
            path_labels(table.paths or [], nodes, split),
        )
    notes = [f"{len(nodes)} classes, closed under ancestors; the root, always on, is left out."]
    if keep_root:
        nodes = [ROOT, *nodes]
        splits = {split: (x, np.insert(y, 0, 1, axis=1)) for split, (x, y) in splits.items()}
        notes = [f"{len(nodes)} classes, closed under ancestors; the first is the root, always on."]
    if missing:
        notes.append(f"{missing} missing numeric values became the mean of their column in train.")
    return folder.name, splits, origins, train.names, nodes, notes


def column_means(values: np.ndarray) -> np.ndarray:
    """(F,) column means of (N, F) values without missing ones; 0 for columns without values."""
    counts = (~np.isnan(values)).sum(0)
    return np.where(counts > 0, np.nansum(values, axis=0) / np.maximum(counts, 1), 0).astype(np.float32)


def ancestors(path: str) -> list[str]:
    """`a/b/c` -> `a`, `a/b`, `a/b/c`."""
    parts = path.split("/")
    return ["/".join(parts[:i]) for i in range(1, len(parts) + 1)]


def path_labels(cells: list[str], nodes: list[str], split: str) -> np.ndarray:
    """Label cells such as `12/01@42/01` -> (N, classes) of 0/1, ancestors included.

    Raises:
        DataError: a row has no class, or one that the train file's header does not declare.
    """
    index = {node: i for i, node in enumerate(nodes)}
    labels = np.zeros((len(cells), len(nodes)), dtype=np.float32)
    for row, cell in enumerate(cells):
        if not isinstance(cell, str) or not cell.strip():
            raise DataError(f"row {row} (counting from 0) of the {split} file has no class.")
        for path in cell.strip().split("@"):
            for node in ancestors(path):
                if node not in index:
                    raise DataError(
                        f"class {path!r} in row {row} (counting from 0) of the {split} file is not declared in the "
                        f"header of the train file; the {split} file ends early or is the wrong file."
                    )
                labels[row, index[node]] = 1
    return labels


# --- rows in parts ----------------------------------------------------------------------------------------------------

MANY = 10  # a nominal attribute with so many values may be an identifier


class ArffSource(NamedTuple):
    """An ARFF file to read.

    Attributes:
        path: the file.
        rows: numbers of the rows to read, counted from 0; None: all.
        train: the train split beside a Clus file, if any; its means replace missing values, as in training.
        note: tells the user how the file was chosen.
    """

    path: Path
    rows: Collection[int] | None = None
    train: Path | None = None
    note: str = ""


class ArffReader(TextReader):
    """Features of an ARFF file: its attributes except labels, in order.

    Args:
        source: the file.
        labels: the names of the model's labels; attributes with these names are not features.
        input_size: the number of the model's features. It tells whether training dropped attributes that identify
            rows, kept them as numbers, or took them for features.
        gold: read gold labels, from the attributes with these names, or from Clus' class attribute.
        unread: names of attributes that are not features, such as row weights.
        implied: labels that need no attribute, since others imply them: those above others in a hierarchy.

    Raises:
        DataError: features or, with `gold`, labels differ from the model's; a damaged row, when it is reached.
    """

    _marks = False  # `?` is an unknown label

    def __init__(
        self,
        source: ArffSource,
        labels: Sequence[str],
        input_size: int,
        gold: bool = False,
        unread: Collection[str] = (),
        implied: Collection[str] = (),
    ):
        path, only, self.train, note = source
        self.file = ArffFile(path, only)
        self.file.note = note
        names, classes = self.file.columns, self.file.class_index
        own = [name for name in labels if name in names]
        missing = [name for name in labels if name not in names and name not in implied]
        if gold and classes is None and missing:
            raise DataError(
                f"{path}: {len(missing)} of the model's {len(labels)} labels, such as {missing[0]!r}, are missing "
                "among the attributes: there is no gold to evaluate on. Predict instead, or give the labelled file."
            )
        of_labels = {"label_column": names[classes]} if classes is not None else {"labels": own}
        super().__init__(self.file, "", **(of_labels if gold else {}))
        self._root = [ROOT] if ROOT in labels else []
        others = {*own, *unread}
        self._features = [i for i, name in enumerate(names) if name not in others and i != classes]
        self._identifiers, self._keep_id = self._read_as(input_size)

    def _read_as(self, input_size: int) -> tuple[list[str], bool]:
        """The identifiers among the attributes, and whether they are features, so that there are `input_size`."""
        kinds = {self.file.columns[i]: self.file.kinds[i] for i in self._features}
        joins = self.file.class_index is None
        widths = {name: len(kind) if _is_nominal(kind, joins) else 1 for name, kind in kinds.items()}
        strings = [name for name, kind in kinds.items() if kind == "STRING"]
        many = [name for name, kind in kinds.items() if widths[name] > MANY]
        for identifiers in (strings, [*strings, *many]):
            own = sum(width for name, width in widths.items() if name not in identifiers)
            for keep_id in (False, True):
                if own + keep_id * len(identifiers) == input_size:
                    return identifiers, keep_id
        raise DataError(
            f"{self.file.path} has {sum(widths.values())} features (attributes except the model's labels), but the "
            f"model reads {input_size}. Give the attributes that it was trained on, in their order."
        )

    def inputs(self, part: Sequence[Row]) -> np.ndarray:
        kinds = {self.file.columns[i]: self.file.kinds[i] for i in self._features}
        columns, joins = [[row[name] for _, row in part] for name in kinds], self.file.class_index is None
        about = (self.file.path, len(part), [*kinds], [*kinds.values()], columns)
        found, names, _ = numbers(*about, self._keep_id, self._identifiers, joins)
        if self.train is not None and np.isnan(found).any():
            found = np.where(np.isnan(found), self._train_means, found)
        wrong = np.argwhere(~np.isfinite(found))
        if len(wrong):
            row, column = wrong[0]
            raise DataError(
                f"{self.table.place(part[row][0])}: {names[column]!r} is missing or infinite. Fill in the value, or "
                "remove the row."
            )
        return found

    @cached_property
    def _train_means(self) -> np.ndarray:
        assert self.train is not None
        return column_means(read_arff(self.train, self._keep_id, self._identifiers).values)

    def _gold(self, part: Sequence[Row]) -> list[list] | np.ndarray | None:
        if self.label_column is None:
            return super()._gold(part)
        cells = ((row[self.label_column] or "").strip() for _, row in part)  # of paths
        return [self._root + [node for path in cell.split("@") for node in ancestors(path) if path] for cell in cells]


def is_arff(name: str | Path) -> bool:
    """True if a file, or a folder of files, is ARFF."""
    path = Path(name)
    return path.suffix.lower() == ".arff" or (path.is_dir() and any(path.glob("*.arff")))


def find_arff(name: str, split: str | None, usual: str = "test") -> ArffSource:
    """A file, or the file of a split (default: `usual`) in a folder that [`load_arff_folder`] reads.

    Raises:
        DataError: the file or the split does not exist.
    """
    path = Path(name)
    if not path.is_dir():
        if not path.is_file():
            raise DataError(f"{name}: no such file.")
        if split is not None:
            raise DataError(f"`split` is {split!r}, but {name} is one file. Leave it out: all rows are read.")
        return ArffSource(path)
    files = sorted(path.glob("*.arff"))
    if whole := _with_folds(path, files):
        count = sum(1 for _ in ArffFile(whole[0]).data_lines())
        folds = dict(zip(CLUS_SPLITS, read_folds(path / "folds.json", count, whole[0]), strict=True))
        chosen = chosen_split(list(folds), split, name, usual)
        rows = frozenset(folds[chosen].tolist())
        return ArffSource(whole[0], rows, note=f"{name} is a folder: the rows of its {chosen} folds.")
    if len(files) == 1 and split is None:
        return ArffSource(files[0], note=f"{name} is a folder without fixed splits: all rows of {files[0].name}.")
    by_split = {split: file for split, word in CLUS_SPLITS.items() for file in _called(files, word)}
    chosen = chosen_split(list(by_split), split, name, usual)
    note = f"{name} is a folder: the rows of {by_split[chosen].name}, its {chosen} split."
    return ArffSource(by_split[chosen], train=by_split.get("train"), note=note)


def _is_nominal(kind: Any, joins: bool) -> bool:
    """True if an attribute becomes a column per value."""
    return isinstance(kind, list) and not (joins and binary(kind) is not None)
