"""Texts, features or images with label sets, from csv, tsv and jsonl files, folders of these, and tables in memory, on
disk or on the Hub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from ..utils.files import visible
from ..utils.messages import few
from .column_choice import FEATURES, LABELS, Chosen, Columns, Rows, choose, need_column, text_cell, text_columns
from .column_labels import column_labels
from .common import DataError, MultiLabelData, Origins, feature_data, id_column, label_data
from .feature_tables import feature_names, feature_rows, has_features
from .hygiene import name_notes, separator_notes, single_label_notes
from .image_tables import LOOKED_AT, image_column, is_image, named_images, stored_images
from .label_cells import guess_format, label_cell, label_matrix, place_of
from .line_files import SUFFIXES, not_utf8, read_lines
from .sample_weights import read_weights, with_mean_1
from .stratified import complete_splits
from .table_sources import SPLIT_WORDS, Tables, class_names

BARE = ("", " If there are no labels, leave this split out: seal-hf predict reads it.")  # if it is the test split


@dataclass
class Reading:
    """What was read.

    Attributes:
        name: short name, for logs and the model card.
        source: file, folder or table, for messages.
        splits: split -> column -> values; the split is `all` if the data is not split.
        origins: the places of the rows, by split.
        names: label names that stand beside the table, for ids in a column of labels; None if there are none.
        classes: column -> class names, if the column itself has them.
        notes: what the loader did.
        normalize: normalisation of the column `features`; None if the inputs are not features.
        images: split -> the images of its rows, if the inputs are images.
    """

    name: str
    source: str
    splits: dict[str, Rows]
    origins: dict[str, Origins]
    names: list[str] | None = None
    classes: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    normalize: str | None = None
    images: dict[str, Dataset] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The kind of inputs, in words."""
        return "images" if self.images else "features" if self.normalize else "texts"

    def place(self, split: str, row: int | None = None) -> str:
        """The place of a mistake: a file and a line, or a table, a split and a row."""
        origins = self.origins.get(split)
        if origins is None or origins.lines is None:
            return place_of(self.source, split, row)
        return origins.source if row is None else f"{origins.source}, line {origins.lines[row]}"


def load_text(path: Path, columns: Columns, max_train_rows: int | None = None, seed: int = 0) -> MultiLabelData:
    """Load a file, which is split 80/10/10 with `seed`, or a folder of train, dev (validation) and test files; without
    dev, a tenth of train is the validation split. Label names may stand in a `labels.txt` beside them. Rows are texts,
    or images by the names of their files, see [`image_column`].

    Args:
        path: csv, tsv or jsonl; the first row names the columns. A tsv beside a `labels.txt` has no header; its columns
            are text, ids, id. A folder of images may hold a single such file, or one in a folder for each split.
        columns: the columns to read. A cell with a label set is a list, a JSON list, or values separated by comma,
            semicolon or bar.

    Raises:
        DataError: the message names the file, the column or the row.
    """
    files = files_of(path)
    label_list = (path if path.is_dir() else path.parent) / "labels.txt"
    names = read_label_list(label_list) if label_list.is_file() else None
    found = Reading(path.stem, str(path), {}, {}, names)
    if names and not path.is_dir():
        found.notes.append(f"label names from {label_list.name}.")
    if path.is_dir():
        read = set(files.values())
        others = (file.name for file in visible(path) if file.suffix.lower() in SUFFIXES and file not in read)
        found.notes += [f"{name} is not read: its name is not that of a split." for name in others]
    for split, file in files.items():
        found.splits[split], lines = _read(file, names is not None, columns.label_column or LABELS[0])
        ids = id_column(found.splits[split].get("id"))
        found.origins[split] = Origins(str(file), lines=np.array(lines), ids=ids)
    images = image_column({}, next(iter(found.splits.values())), columns.image_column, columns.text_column)
    if images is None:
        return _build(found, columns, max_train_rows, seed)
    for split, file in files.items():
        need_column(images, found.splits[split], "image_column", found.place(split))
        names = found.splits[split][images]
        found.images[split] = named_images(names, file.parent, partial(found.place, split))
        found.origins[split] = replace(found.origins[split], files=np.array(names, dtype=object))
    return _build(found, columns._replace(text_column=images), max_train_rows, seed)


def holds_images(path: Path, asked: str | None = None, text_column: str | None = None) -> bool:
    """True if [`load_text`] reads images, judged by the first rows; False for what it cannot read.

    Args:
        path: file or folder.
        asked, text_column: the columns that the user names.
    """
    label_list = (path if path.is_dir() else path.parent) / "labels.txt"
    try:
        file = next(iter(files_of(path).values()))
        names, rows = read_lines(file, ("text", LABELS[0], "id") if label_list.is_file() else ())
        head = zip(*(values for _, values in islice(rows, LOOKED_AT)), strict=True)
        return image_column({}, dict(zip(names, head, strict=False)), asked, text_column) is not None
    except DataError:
        return False


def load_tables(
    tables: Tables,
    columns: Columns,
    normalize: str | None = None,
    images: str | None = None,
    max_train_rows: int | None = None,
    seed: int = 0,
) -> MultiLabelData:
    """Load tables of label sets with texts; if `normalize` is given, with features; or with images, in the column
    `images`. A column of classes names its labels.

    Raises:
        DataError: the message names the table, the column or the row.
    """
    found = Reading(tables.name, tables.source, {}, tables.origins, notes=tables.notes, normalize=normalize)
    size = None
    for split, table in tables.splits.items():
        known = {name: names for name in table.column_names if (names := class_names(table, name))}
        for column in known.keys() & found.classes.keys():
            if known[column] != found.classes[column]:
                raise DataError(
                    f"{place_of(tables.source, split)}: the classes of {column!r} are {few(known[column], 5)}, but "
                    f"those of the split before are {few(found.classes[column], 5)}. Cast both to one ClassLabel."
                )
        found.classes = {**known, **found.classes}
        own = FEATURES if normalize else images  # read below
        readable = [name for name, kind in table.features.items() if name == own or not _is_decoded(kind)]
        rows = {name: [] if name == own else table[name][:] for name in readable}
        if normalize:
            rows[FEATURES] = feature_rows(table, tables.source, split, size)
            size = rows[FEATURES].shape[1] or size
        if images is not None:
            place = partial(place_of, tables.source, split)
            found.images[split] = stored_images(table, images, tables.folder, place_of(tables.source, split), place)
        found.splits[split] = rows
    if normalize or images is not None:
        columns = columns._replace(text_column=own)
    elif columns.text_column is None and has_features(next(iter(tables.splits.values())).features.arrow_schema):
        found.notes.append(f"the texts are read, not the column {FEATURES!r}: remove the texts to train on it.")
    return _build(found, columns, max_train_rows, seed)


def _is_decoded(feature: Any) -> bool:
    """True for a column of images, sounds or the like."""
    return hasattr(feature, "decode_example") or is_image(feature)


def files_of(path: Path) -> dict[str, Path]:
    """Split -> its file; the split of a single file is `all`.

    Raises:
        DataError: a folder lacks a file for the train split.
    """
    return _split_files(path) if path.is_dir() else {"all": path}


def _split_files(folder: Path) -> dict[str, Path]:
    files, entries = table_files(folder), visible(folder)
    if not files and len(tables := [file for file in entries if file.suffix.lower() in SUFFIXES]) == 1:
        return {"all": tables[0]}
    if not files.keys() & {"all", "train"}:
        found = ", ".join(file.name for file in entries) or "nothing"
        raise DataError(
            f"{folder}: no file for the train split, expected {' or '.join(SPLIT_WORDS['train'])} with "
            f"{', '.join((*SUFFIXES, '.parquet'))}; found {found}. "
            "A single file is split at random."
        )
    return files


def table_files(folder: Path, suffixes: Sequence[str] = SUFFIXES) -> dict[str, Path]:
    """Split -> its table in a folder, or in a folder of the split with its images. The only table of a folder of images
    is `all`."""
    files = {}
    for split, words in SPLIT_WORDS.items():
        below = next((each for each in _called(folder, words) if each.is_dir()), None)
        if file := split_file(folder, split, words, suffixes) or (below and _only_table(below)):
            files[split] = file
    only = None if files else _only_table(folder)
    return files if only is None else {"all": only}


def split_file(folder: Path, split: str, words: Sequence[str], suffixes: Sequence[str]) -> Path | None:
    """The file of a split, whose name is one of `words`, in any case, or None."""
    names = [f"{word}{suffix}" for word in words for suffix in suffixes]
    matches = [file for file in _called(folder, names) if file.is_file()]
    if len(matches) > 1:
        raise DataError(
            f"{folder}: two files for the {split} split: {', '.join(file.name for file in matches)}. Keep one."
        )
    return matches[0] if matches else None


def _called(folder: Path, names: Sequence[str]) -> list[Path]:
    """What a folder holds under one of these names, upper case or lower, in their order."""
    found = [each for each in visible(folder) if each.name.lower() in names]
    return sorted(found, key=lambda each: names.index(each.name.lower()))


def _only_table(folder: Path) -> Path | None:
    """The only csv, tsv or jsonl of a folder, if it names image files."""
    tables = [file for file in visible(folder) if file.suffix.lower() in SUFFIXES]
    return tables[0] if len(tables) == 1 and holds_images(tables[0]) else None


def read_label_list(path: Path) -> list[str]:
    try:
        names = [name.strip() for name in path.read_text(encoding="utf-8-sig").strip().split("\n")]
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from error
    counts = Counter(names)
    wrong = [name for name in names if not name or counts[name] > 1]
    if wrong:  # ids are line numbers: a skipped line would shift all later labels
        raise DataError(f"{path}: expected one label per line, each once; found {wrong[0]!r} among {len(names)} lines.")
    return names


def _read(path: Path, has_label_list: bool, label_column: str) -> tuple[Rows, list[int]]:
    """The columns of a file, and the line on which each row begins, counted from 1."""
    names, rows = read_lines(path, ("text", label_column, "id") if has_label_list else ())
    lines: list[int] = []
    columns: list[list[Any]] = [[] for _ in names]
    for number, values in rows:
        lines.append(number)
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    return dict(zip(names, columns, strict=True)), lines


def _build(found: Reading, columns: Columns, max_train_rows: int | None, seed: int) -> MultiLabelData:
    source, notes = found.source, found.notes
    first = next(iter(found.splits))
    chosen = choose(columns, found.splits[first], found.classes, found.place(first), found.kind)
    notes += [chosen.note] if chosen.note else []
    notes += _split_column_note(found.splits.get("all", {}))
    if chosen.text == FEATURES and found.kind == "texts" and columns.text_column is None:
        raise DataError(
            f"{source}: its column {FEATURES!r} would be read as texts. Features are read from .parquet, .arff and "
            "tables in memory; if these are texts, name the column by --text_column."
        )
    _leave_out_unlabelled(found, chosen)
    texts = _texts(found, text_columns(chosen.text, found.splits[first])) if found.kind == "texts" else {}
    if chosen.labels is None:
        labels, names = _label_columns(found, chosen.each), chosen.each
    else:
        labels, names = _label_sets(found, chosen.labels, columns.label_format)
    notes += name_notes(names, sum((matrix > 0).sum(0) for matrix in labels.values()).tolist())
    notes += single_label_notes(np.concatenate([(matrix > 0).sum(1) for matrix in labels.values()]), len(names))
    parts = complete_splits(labels, seed, notes)
    weights = _weights(found, columns.sample_weight, *parts["train"], max_train_rows)
    targets = {split: labels[key][ids] for split, (key, ids) in parts.items()}
    origins = {split: found.origins[key].take(ids) for split, (key, ids) in parts.items()}
    if not found.normalize:
        inputs: dict[str, Any] = {
            split: found.images[key].select(ids) if found.images else [texts[key][i] for i in ids]
            for split, (key, ids) in parts.items()
        }
        return label_data(found.name, source, inputs, targets, origins, names, notes, max_train_rows, weights)
    arrays = {split: (found.splits[key][FEATURES][ids], targets[split]) for split, (key, ids) in parts.items()}
    of_features = feature_names(arrays["train"][0].shape[1])
    normalize = found.normalize
    return feature_data(
        found.name, arrays, origins, of_features, names, normalize, source, notes, max_train_rows, weights
    )


def _texts(found: Reading, columns: Sequence[str]) -> dict[str, list]:
    """The texts of each split, from one column or as pairs from two."""
    parts = []
    for column in columns:
        texts = {}
        for split, rows in found.splits.items():
            need_column(column, rows, "text_column", found.place(split))
            texts[split] = [text_cell(v, found.place(split, row)) for row, v in enumerate(rows[column])]
        found.notes += _empty_texts_note(texts, column, found.place)
        parts.append(texts)
    if len(parts) == 1:
        return parts[0]
    found.notes.append(f"pairs of texts: {' and '.join(map(repr, columns))}.")
    return {split: [*zip(*(texts[split] for texts in parts), strict=True)] for split in found.splits}


def _weights(
    found: Reading, column: str | None, split: str, ids: np.ndarray, max_train_rows: int | None
) -> np.ndarray | None:
    """Weights of the first training rows; `ids` says which rows of the split these are."""
    if column is None:
        return None
    need_column(column, found.splits[split], "sample_weight", found.place(split))
    weights = read_weights(found.splits[split][column], column, partial(found.place, split))[ids][:max_train_rows]
    weights, note = with_mean_1(weights, column, found.source)
    found.notes.append(note)
    return weights


def _label_columns(found: Reading, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Label sets, (N, L) by split, from one column per label."""
    matrices = {}
    for split, rows in found.splits.items():
        for name in names:
            need_column(name, rows, "label_columns", found.place(split), BARE[split == "test"])
        place = partial(found.place, split)
        matrices[split] = column_labels({name: rows[name] for name in names}, place)
    return matrices


def _label_sets(found: Reading, column: str, label_format: str) -> tuple[dict[str, np.ndarray], list[str]]:
    """Label sets, (N, L) by split, and label names, from one column of label sets."""
    cells, raw = {}, []
    for split, rows in found.splits.items():
        need_column(column, rows, "label_column", found.place(split), BARE[split == "test"])
        cells[split] = [label_cell(v, found.place(split, i), keep_empty=True) for i, v in enumerate(rows[column])]
        raw += rows[column]
    classes = found.classes.get(column)
    if (
        classes
        and label_format == "auto"
        and all(len(set(cell)) == len(cell) for rows in cells.values() for cell in rows)
    ):
        label_format = "ids"
    labels, names = label_matrix(cells, classes or found.names, label_format, found.source, found.place)
    if not (classes or found.names):
        found.notes += separator_notes(raw, names)
        values = [cell for rows in cells.values() for cell in rows]
        are_ids = (guess_format(values, None) if label_format == "auto" else label_format) == "ids"
        unused = int((sum((matrix != 0).sum(0) for matrix in labels.values()) == 0).sum())
        if unused and are_ids:
            found.notes.append(
                f"{unused} of {len(names)} labels occur in no row: numbers are ids, counted from 0. If they are names, "
                "give --label_format names."
            )
    return labels, names


def _split_column_note(rows: Rows) -> list[str]:
    """A note on a column of a table without splits that names a split for each row: it is not read."""
    words = {word for known in SPLIT_WORDS.values() for word in known}
    for name, values in rows.items():
        if all(isinstance(value, str) and value.lower() in words for value in values) and len(set(values)) > 1:
            return [
                f"the column {name!r} names splits, but is not read: give a table for each split, such as train.csv."
            ]
    return []


def _leave_out_unlabelled(found: Reading, chosen: Chosen) -> None:
    """Leave out a test split of the Hub with secret labels: all its classes are -1."""
    if chosen.labels in found.classes and set(map(str, found.splits.get("test", {}).get(chosen.labels, []))) == {"-1"}:
        found.notes.append(f"the test split is left out: all its labels in {chosen.labels!r} are -1, unknown.")
        del found.splits["test"]


def _empty_texts_note(texts: dict[str, list[str]], column: str, place: Callable[[str], str]) -> list[str]:
    """Count the empty texts, whose rows are kept.

    Raises:
        DataError: all texts of a split are empty.
    """
    empty = {split: sum(not text.strip() for text in rows) for split, rows in texts.items()}
    for split, rows in texts.items():
        if rows and empty[split] == len(rows):
            raise DataError(
                f"{place(split)}: all {len(rows)} texts are empty or null, in column {column!r}. Name the "
                "column with the text by --text_column, or fill it in."
            )
    total = sum(map(len, texts.values()))
    return [f"{sum(empty.values())} of {total} texts are empty (kept)."] if any(empty.values()) else []
