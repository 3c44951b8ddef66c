"""Features for predicting label sets: ARFF files, and tables with a column `features` of lists of numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .arff import ArffFile, binary, numbers, read_arff
from .chunks import Chunk, parts
from .column_choice import FEATURES
from .common import DataError
from .feature_tables import feature_lists, number_columns
from .label_rows import TextReader
from .line_files import SPARSE
from .mulan import CLUS_SPLITS, ROOT, ancestors, column_means, read_folds
from .row_tables import Row, Table
from .table_sources import chosen_split

MANY = 10  # a nominal attribute with so many values may be an identifier
Values = Sequence[list[Any]]


class FeatureTable(TextReader):
    """Features of a table: the column `features` with lists of `input_size` numbers, in a csv as JSON, or `columns` of
    numbers, as in training."""

    def __init__(
        self,
        table: Table,
        input_size: int,
        label_column: str | None = None,
        labels: Sequence[str] = (),
        separator: str | None = None,
        columns: Sequence[str] | None = None,
    ):
        missing = [name for name in columns or (FEATURES,) if name not in table.columns]
        if missing and columns:
            raise DataError(
                f"{table.source} lacks {len(missing)} of the {len(columns)} columns of numbers that this model reads, "
                f"such as {missing[0]!r}; its columns are {', '.join(table.columns)}. Give all of them."
            )
        if missing:
            raise DataError(
                f"{table.source} has no column {FEATURES!r}, where this model reads {input_size} numbers; its "
                f"columns are {', '.join(table.columns)}. Give such a column, or an ARFF file."
            )
        super().__init__(table, FEATURES, label_column, labels, separator)
        self.input_size, self.feature_columns = input_size, columns

    def inputs(self, part: Sequence[Row]) -> np.ndarray:
        def place(i: int) -> str:
            return self.table.place(part[i][0])

        if self.feature_columns:
            return number_columns({name: [row[name] for _, row in part] for name in self.feature_columns}, place)
        lists = [row[FEATURES] for _, row in part]
        if Path(self.table.source).suffix.lower() in SPARSE:  # without the last features, which are 0 in all rows
            lists = [[*values, *[0.0] * (self.input_size - len(values))] for values in lists]
        return feature_lists(lists, self.input_size, place)


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


class ArffReader:
    """Features of an ARFF file: its attributes except labels, in order.

    Args:
        source: the file.
        labels: the names of the model's labels; attributes with these names are not features.
        input_size: the number of the model's features. It tells whether training dropped attributes that identify
            rows, kept them as numbers, or took them for features.
        gold: read gold labels, from the attributes with these names, or from Clus' class attribute.
        unread: names of attributes that are not features, such as row weights.
        implied: labels that need no attribute, since others imply them: those above others in a hierarchy.

    Attributes:
        unknown: indices of unknown labels, `?`, for each row whose gold labels were read.
        known: the labels that the file has.

    Raises:
        DataError: features or, with `gold`, labels differ from the model's; a damaged row, when it is reached.
    """

    label_names = None  # gold labels are names
    types = None
    unknown: list[list[int]] = []

    def __init__(
        self,
        source: ArffSource,
        labels: Sequence[str],
        input_size: int,
        gold: bool = False,
        unread: Collection[str] = (),
        implied: Collection[str] = (),
    ):
        path, self.only, self.train, note = source
        self.file, self.labels, self.gold = ArffFile(path), list(labels), gold
        self.notes = [note] if note else []
        place = {name: i for i, name in enumerate(self.file.names)}
        self.columns: Sequence[str] = self.file.names
        self._labels = [place[name] for name in labels if name in place]
        skipped = {*self._labels, self.file.class_index, *(place[name] for name in unread if name in place)}
        self._features = [i for i in range(len(place)) if i not in skipped]
        self.known = [name for name in labels if name in place or self.file.class_index is not None]
        missing = [name for name in labels if name not in place and name not in implied]
        if gold and self.file.class_index is None and missing:
            raise DataError(
                f"{path}: {len(missing)} of the model's {len(self.labels)} labels, such as {missing[0]!r}, are missing "
                "among the attributes: there is no gold to evaluate on. Predict instead, or give the labelled file."
            )
        self._identifiers, self._keep_id = self._read_as(input_size)

    @cached_property
    def total(self) -> int:
        count = sum(1 for _ in self.file.data_lines())
        return count if self.only is None else len(self.only)

    def chunks(self, size: int) -> Iterator[Chunk]:
        self.unknown = []
        for part in parts(self._rows(), size):
            lines, values = [number for number, _ in part], [row for _, row in part]
            rows = [dict(zip(self.columns, row, strict=True)) for row in values]
            gold = self._gold(lines, values) if self.gold else None
            yield Chunk(rows, self._inputs(lines, values), gold)

    def _rows(self) -> Iterator[tuple[int, list[Any]]]:
        if self.only is None:
            return iter(self.file)
        return (row for i, row in enumerate(self.file) if i in self.only)

    def _read_as(self, input_size: int) -> tuple[list[str], bool]:
        """The identifiers among the attributes, and whether they are features, so that there are `input_size`."""
        kinds = {self.file.names[i]: self.file.kinds[i] for i in self._features}
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

    def _inputs(self, lines: Sequence[int], rows: Values) -> np.ndarray:
        found, names = self._numbers(rows, self._features, self._identifiers, self._keep_id)
        if self.train is not None and np.isnan(found).any():
            found = np.where(np.isnan(found), self._train_means, found)
        wrong = np.argwhere(~np.isfinite(found))
        if len(wrong):
            row, column = wrong[0]
            raise DataError(
                f"{self.file.path}, line {lines[row]}: {names[column]!r} is missing or infinite. Fill in the value, or "
                "remove the row."
            )
        return found

    @cached_property
    def _train_means(self) -> np.ndarray:
        assert self.train is not None
        return column_means(read_arff(self.train, self._keep_id, self._identifiers).values)

    def _gold(self, lines: Sequence[int], rows: Values) -> list[list[str]]:
        if self.file.class_index is not None:
            cells = [row[self.file.class_index] or "" for row in rows]
            root = [ROOT] if ROOT in self.labels else []
            return [root + [node for path in _paths(cell) for node in ancestors(path)] for cell in cells]
        found, names = self._numbers(rows, self._labels, [], False)
        wrong = np.argwhere((found != 0) & (found != 1) & ~np.isnan(found))
        if len(wrong) or names != [self.file.names[i] for i in self._labels]:
            line = f", line {lines[wrong[0][0]]}" if len(wrong) else ""
            raise DataError(f"{self.file.path}{line}: labels must be 0 or 1 (no or yes); found other values.")
        self.unknown += [np.flatnonzero(np.isnan(row)).tolist() for row in found]
        return [[names[i] for i in np.flatnonzero(row == 1).tolist()] for row in found]

    def _numbers(
        self, rows: Values, places: Sequence[int], identifiers: Collection[str], keep_id: bool
    ) -> tuple[np.ndarray, list[str]]:
        names, kinds = [self.file.names[i] for i in places], [self.file.kinds[i] for i in places]
        columns = [[row[i] for row in rows] for i in places]
        joins = self.file.class_index is None
        return numbers(self.file.path, len(rows), names, kinds, columns, keep_id, identifiers, joins)[:2]


def is_arff(name: str | Path) -> bool:
    """True if a file, or a folder of files, is ARFF."""
    path = Path(name)
    return path.suffix.lower() == ".arff" or (path.is_dir() and any(path.glob("*.arff")))


def find_arff(name: str, split: str | None, usual: str = "test") -> ArffSource:
    """A file, or the file of a split (default: `usual`) in a folder that `mulan.py` reads.

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
    whole = [file for file in files if not file.stem.lower().endswith(("-train", "-test"))]
    if (path / "folds.json").is_file() and len(whole) == 1:
        count = sum(1 for _ in ArffFile(whole[0]).data_lines())
        folds = dict(zip(CLUS_SPLITS, read_folds(path / "folds.json", count, whole[0]), strict=True))
        chosen = chosen_split(list(folds), split, name, usual)
        rows = frozenset(folds[chosen].tolist())
        return ArffSource(whole[0], rows, note=f"{name} is a folder: the rows of its {chosen} folds.")
    if len(files) == 1 and split is None:
        return ArffSource(files[0], note=f"{name} is a folder without fixed splits: all rows of {files[0].name}.")
    by_split = {
        known: file
        for known, word in CLUS_SPLITS.items()
        for file in files
        if f".{word}" in file.name.lower() or f"-{word}" in file.name.lower()
    }
    chosen = chosen_split(list(by_split), split, name, usual)
    note = f"{name} is a folder: the rows of {by_split[chosen].name}, its {chosen} split."
    return ArffSource(by_split[chosen], train=by_split.get("train"), note=note)


def _is_nominal(kind: Any, joins: bool) -> bool:
    """True if an attribute becomes a column per value."""
    return isinstance(kind, list) and not (joins and binary(kind) is not None)


def _paths(cell: str) -> list[str]:
    return cell.strip().split("@") if cell.strip() else []
