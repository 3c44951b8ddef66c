"""Feature data on disk: Mulan folders (ARFF + label XML, perhaps `folds.json`) and Clus hierarchical ARFF."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ..utils.messages import did_you_mean, few
from .arff import Table, read_arff, unescape
from .common import SPLITS, DataError, MultiLabelData, Origins, check_finite, feature_data
from .hierarchy import path_hierarchy
from .label_cells import place_of
from .sample_weights import read_weights, with_mean_1
from .stratified import stratified_split

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
    whole = [file for file in files if not file.stem.lower().endswith(("-train", "-test"))]
    if (folder / "folds.json").is_file() and len(whole) == 1:  # it numbers the rows of the whole file
        files = whole
    tables: dict[Path, Table] = {}
    for file in sorted(files, key=lambda file: "train" not in file.name.lower()):  # train decides what is an identifier
        known = next(iter(tables.values())).identifiers if tables else None
        tables[file] = read_arff(file, keep_id, known)
    is_clus = any(table.hierarchy for table in tables.values())
    if is_clus:
        name, splits, origins, features, labels, notes = _clus(folder, tables, keep_root)
    elif keep_root:
        raise DataError(f"{folder}: `keep_root` is set, but there is no `class hierarchical` attribute. Leave it out.")
    else:
        name, splits, origins, features, labels, notes = _mulan(folder, tables, seed)
    identifiers = next(iter(tables.values())).identifiers
    if identifiers:
        action = "kept as an integer" if keep_id else "dropped"
        notes.append(f"identifier attribute {', '.join(identifiers)} {action}.")
    repeated = sorted({name for table in tables.values() for name in table.repeated})
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


def _mulan(folder: Path, tables: dict[Path, Table], seed: int) -> tuple[Any, ...]:
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


def _origins(file: Path, table: Table) -> Origins:
    return Origins(str(file), rows=np.arange(len(table.values)), ids=table.ids)


def _label_names(folder: Path, name: str, table: Table) -> list[str]:
    path = folder / f"{name}.xml"
    if not path.is_file() and len(found := sorted(folder.glob("*.xml"))) == 1:  # name-train.arff alone, or renamed
        path = found[0]
    if not path.is_file() and table.meka_labels:
        count = table.meka_labels
        names = list(table.attributes[:count] if count > 0 else table.attributes[count:])
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


def _checked_names(folder: Path, name: str, table: Table, names: list[str], source: str) -> list[str]:
    columns = set(table.names)
    missing = [label for label in names if label not in columns]
    if missing or not names:
        first = f"; the first: {missing[0]!r}.{did_you_mean(missing[0], table.names)}" if missing else ""
        raise DataError(
            f"{source}: {len(missing)} of {len(names)} labels are not numeric or two-valued attributes of "
            f"{name}.arff{first}"
        )
    twice = next((label for label in names if label in table.repeated), None)
    if twice is not None:  # the others would be features that reveal the label
        raise DataError(f"{folder}: label {twice!r} of {name}.arff names several attributes. Rename the others.")
    if len(set(names)) != len(names):
        raise DataError(f"{source}: label {max(names, key=names.count)!r} is listed twice.")
    return names


def _features_and_labels(table: Table, labels: list[str], file: Path) -> tuple[np.ndarray, np.ndarray, list[str]]:
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


def _clus(folder: Path, tables: dict[Path, Table], keep_root: bool) -> tuple[Any, ...]:
    """Clus' own train, valid and test files. Label paths are closed under ancestors; missing numbers become the train
    mean."""
    splits, by_split, origins = {}, {}, {}
    for split, word in CLUS_SPLITS.items():
        matches = [file for file in tables if f".{word}" in file.name.lower() or f"-{word}" in file.name.lower()]
        if len(matches) != 1:
            raise DataError(
                f"{folder}: expected one file *.{word}.arff for the {split} split, found {len(matches)} among "
                f"{', '.join(file.name for file in tables)}. Give the folder with all three files."
            )
        by_split[split] = tables[matches[0]]
        origins[split] = _origins(matches[0], by_split[split])
        if not by_split[split].hierarchy:
            raise DataError(f"{matches[0]}: lacks the `class hierarchical` attribute, which the files beside it have.")
    train = by_split["train"]
    nodes = sorted({ancestor for path in train.hierarchy for ancestor in ancestors(path)})
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
