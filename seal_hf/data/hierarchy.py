"""A hierarchy of labels from a file or from pairs, and data with label sets closed under it."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.hierarchy import Hierarchy, find_cycle
from ..utils.messages import few
from .common import SPLITS, DataError, MultiLabelData, fixed_size_column, label_notes
from .late import datasets, pa
from .line_files import not_utf8, unquoted

SUFFIXES = (".csv", ".tsv")
HEADER = ("child", "parent")
SHOWN = 5  # names in a note
Pair = tuple[str, str]  # child, parent
Pairs = Sequence[Pair]


def with_hierarchy(data: MultiLabelData, source: str | os.PathLike[str] | Pairs) -> MultiLabelData:
    """The data with this hierarchy and closed label sets: a row with a label has all its ancestors.

    Ancestors of labels that are not labels themselves are added after the others. Names that are neither are left out.
    `notes` tell what was done, with counts.

    Args:
        source: a .csv or .tsv file, child and parent per line, with or without a header of these two words; or such
            pairs.

    Raises:
        DataError: not two different names (names the file and line); a cycle (gives its path); no name is a label of
            the data; the data already has a hierarchy.
    """
    name = str(source) if isinstance(source, (str, os.PathLike)) else "`hierarchy`"
    if data.hierarchy is not None:
        raise DataError(f"`hierarchy` is {name}, but {data.name} has its own hierarchy. Leave it out.")
    if "soft_labels" in data.train.column_names:
        raise DataError("`hierarchy` is set, but labels are probabilities, which it cannot close. Leave one out.")
    parents = _parents(name, _of_file(Path(source)) if isinstance(source, (str, os.PathLike)) else _of_list(source))
    named = list(dict.fromkeys(label for child, above in parents.items() for label in (child, *above)))
    mentioned, own = set(named), set(data.label_names)
    known = [label for label in data.label_names if label in mentioned]
    if not known:
        raise DataError(
            f"{name}: no label of {data.name} occurs in it. Its first names are {', '.join(named[:SHOWN])}, the "
            f"first labels {', '.join(data.label_names[:SHOWN])}. Give the hierarchy of these labels."
        )
    above = _ancestors(known, parents)
    added = [label for label in named if label in above and label not in own]
    names = [*data.label_names, *added]
    ids = {label: i for i, label in enumerate(names)}
    edges = [(ids[child], ids[parent]) for child, found in parents.items() for parent in found if child in ids]
    hierarchy = Hierarchy.of_pairs(edges, len(names))
    notes = [f"hierarchy from {name}: {len(known)} of {len(data.label_names)} labels occur in it."]
    if added:
        notes.append(f"{len(added)} parents became labels: {few(added, SHOWN)}.")
    if unused := [label for label in named if label not in ids]:
        notes.append(
            f"{len(unused)} of its {len(named)} names are neither labels nor above labels (left out): "
            f"{few(unused, SHOWN)}."
        )
    return _closed(data, names, hierarchy, notes)


def hierarchy_of_labels(file: str, labels: Sequence[str]) -> Hierarchy:
    """The hierarchy of exactly these labels in a file, as for [`with_hierarchy`].

    Raises:
        DataError: as there, and if an ancestor of a label is not a label.
    """
    parents = _parents(file, _of_file(Path(file)))
    if missing := sorted(_ancestors(labels, parents) - set(labels)):
        raise DataError(f"{file}: {few([*map(repr, missing)], SHOWN)} are above labels, but have no scores. Add them.")
    places = {label: i for i, label in enumerate(labels)}
    pairs = [(places[child], places[above]) for child in labels for above in parents.get(child, ())]
    if not pairs:
        raise DataError(f"{file}: no label of the scores has a parent in it. The labels are {few(labels, SHOWN)}.")
    return Hierarchy.of_pairs(pairs, len(labels))


def _parents(name: str, pairs: Iterable[Pair]) -> dict[str, dict[str, None]]:
    """Child -> its parents. Raises DataError if there are no pairs, or a cycle."""
    parents: dict[str, dict[str, None]] = {}
    for child, parent in pairs:
        parents.setdefault(child, {})[parent] = None
    if not parents:
        raise DataError(f"{name} is empty; expected pairs of a child and its parent.")
    if cycle := find_cycle({child: list(above) for child, above in parents.items()}):
        raise DataError(f"{name}: a cycle, {' -> '.join(cycle)} (child -> parent). Remove one of these lines.")
    return parents


def path_hierarchy(names: Sequence[str], root: str | None = None) -> Hierarchy:
    """The hierarchy of paths such as `a`, `a/b`, which contain their ancestors; `root`, if a label, is above all."""
    ids = {name: i for i, name in enumerate(names)}
    pairs = [(ids[name], ids[name.rsplit("/", 1)[0]]) for name in names if "/" in name]
    if root is not None:
        pairs += [(ids[name], ids[root]) for name in names if "/" not in name and name != root]
    return Hierarchy.of_pairs(pairs, len(names))


def _of_file(path: Path) -> Iterable[Pair]:
    if path.suffix.lower() not in SUFFIXES:
        raise DataError(f"`hierarchy` is {path}; expected a {' or '.join(SUFFIXES)} file, child and parent per line.")
    if not path.is_file():
        raise DataError(f"`hierarchy` is {path}: no such file.")
    is_tsv = path.suffix.lower() == ".tsv"
    quoting: Any = csv.QUOTE_NONE if is_tsv else csv.QUOTE_MINIMAL
    order = (0, 1)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter="\t" if is_tsv else ",", quoting=quoting, strict=True)
            for number, cells in enumerate(reader):
                cells = [(unquoted(cell) if is_tsv else cell).strip() for cell in cells]
                words = [cell.lower() for cell in cells]
                if number == 0 and sorted(words) == sorted(HEADER):
                    order = (words.index(HEADER[0]), words.index(HEADER[1]))
                elif any(cells):
                    yield _pair(cells, order, f"{path}, line {reader.line_num}")
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from error
    except csv.Error as error:
        raise DataError(f"{path}: {error}. A quote is open, or the file ends early.") from error


def _of_list(source: Pairs) -> Iterable[Pair]:
    for i, cells in enumerate(source):
        is_list = isinstance(cells, (list, tuple)) and all(isinstance(cell, str) for cell in cells)
        yield _pair([cell.strip() for cell in cells] if is_list else [repr(cells)], (0, 1), f"`hierarchy`, pair {i}")


def _pair(cells: Sequence[str], order: tuple[int, int], place: str) -> Pair:
    if len(cells) != 2 or not all(cells):
        raise DataError(f"{place}: expected two names, child and parent; found {', '.join(cells)!r}.")
    child, parent = (cells[i] for i in order)
    if child == parent:
        raise DataError(f"{place}: child and parent are both {child!r}. Remove the line.")
    return child, parent


def _ancestors(labels: Iterable[str], parents: dict[str, dict[str, None]]) -> set[str]:
    found: set[str] = set()
    left = list(labels)
    while left:
        above = [parent for parent in parents.get(left.pop(), ()) if parent not in found]
        found.update(above)
        left += above
    return found


def _closed(data: MultiLabelData, names: list[str], hierarchy: Hierarchy, notes: list[str]) -> MultiLabelData:
    """The data with closed label sets over `names`, which begin with the data's labels."""
    before: dict[str, np.ndarray] = {}
    after: dict[str, np.ndarray] = {}
    splits: dict[str, Any] = {split: getattr(data, split) for split in SPLITS}
    for split, rows in splits.items():
        if rows is None or "labels" not in rows.column_names:
            continue
        flat = rows.flatten_indices() if rows._indices is not None else rows
        labels = np.asarray(rows.with_format("numpy")["labels"][:], dtype=np.float32)
        before[split] = labels
        added = range(labels.shape[1], len(names))
        labels = np.pad(labels, ((0, 0), (0, len(added))))
        after[split] = hierarchy.closed(labels, added)
        columns = {name: flat.data.column(name) for name in rows.column_names}
        closed = datasets.Dataset(pa.table({**columns, "labels": fixed_size_column(after[split])}))
        kinds = datasets.Features({**rows.features, "labels": closed.features["labels"]})  # also of images
        splits[split] = datasets.Dataset(closed.data.table, info=datasets.DatasetInfo(features=kinds))
    gained = [(after[split] > 0).sum(1) - (before[split] > 0).sum(1) for split in after]
    rows, total = sum(int((gain > 0).sum()) for gain in gained), sum(map(len, gained))
    notes = [*notes, f"{sum(int(gain.sum()) for gain in gained)} ancestors added to {rows} of {total} rows."]
    stale = label_notes(before, data.label_names)  # notes on the labels before, some no longer true
    kept = [note for note in data.notes if note not in stale]
    notes = [*kept, *notes, *label_notes(after, names)]
    return replace(data, **splits, label_names=names, hierarchy=hierarchy, notes=notes)
