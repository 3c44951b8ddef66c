"""Text with label sets: csv, tsv and jsonl files, folders of them, and Hub data sets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np

from ..utils.messages import did_you_mean
from .common import (
    DataError,
    MultiLabelData,
    Origins,
    check_splits,
    id_column,
    label_notes,
    make_dataset,
    random_split,
)
from .label_cells import is_number, label_cell, label_matrix, place_of, valid_text
from .line_files import SUFFIXES, not_utf8, read_lines

SPLIT_NAMES = {"train": ("train", "training"), "validation": ("validation", "valid", "val", "dev"), "test": ("test",)}
Rows = dict[str, list[Any]]


def load_text(
    path: Path,
    *,
    text_column: str | None = None,
    label_column: str = "labels",
    label_format: str = "auto",
    max_train_rows: int | None = None,
    seed: int = 0,
) -> MultiLabelData:
    """A file, split 80/10/10 with `seed`; or a folder with train, dev (validation) and test files, and perhaps
    `labels.txt`.

    Args:
        path: csv, tsv or jsonl; columns are named in the first row. A tsv without header is read as text, ids, id
            where its folder has a `labels.txt`.
        text_column: default: `text`, or the only column of strings beside the labels. Two names with a comma between
            them are pairs of texts, in columns `text` and `text_pair` of the data.
        label_column: a list, a JSON list, or values separated by comma, semicolon or bar.
        label_format: `ids` (numbers into `labels.txt`, or 0-based), `names`, `multi_hot`; `auto`: see [`label_matrix`].

    Raises:
        DataError: naming the file, the column or the row.
    """
    files = _split_files(path) if path.is_dir() else {"all": path}
    label_list = (path if path.is_dir() else path.parent) / "labels.txt"
    names = read_label_list(label_list) if label_list.is_file() else None
    notes = [f"label names from {label_list.name}."] if names and not path.is_dir() else []
    splits: dict[str, Rows] = {}
    origins: dict[str, Origins] = {}
    for split, file in files.items():
        splits[split], lines = _read(file, names is not None, label_column)
        origins[split] = Origins(str(file), lines=np.array(lines), ids=id_column(splits[split].get("id")))
    columns = (text_column, label_column, label_format)
    return _build(path.stem, splits, origins, str(path), *columns, names, max_train_rows, seed, notes)


def load_hub(
    name: str,
    *,
    text_column: str | None = None,
    label_column: str = "labels",
    label_format: str = "auto",
    max_train_rows: int | None = None,
    seed: int = 0,
) -> MultiLabelData:
    """A Hub data set by `owner/name`, or `owner/name:configuration`, through `datasets.load_dataset`; no code of the
    repo is run."""
    repo, _, configuration = name.partition(":")
    try:
        loaded = datasets.load_dataset(repo, configuration or None)
    except Exception as error:  # the library raises a dozen kinds; the user needs the name and the reason
        raise DataError(
            f"Hub data set {name!r} could not be loaded, and there is no such file or folder here: {error}"
        ) from error
    splits: dict[str, Rows] = {}
    origins: dict[str, Origins] = {}
    names = None
    for split, words in SPLIT_NAMES.items():
        word = next((word for word in words if word in loaded), None)
        if word is not None:
            found = loaded[word]
            splits[split] = {column: found[column][:] for column in found.column_names}
            ids = id_column(splits[split].get("id"))
            origins[split] = Origins(f"{name}, {word} split", rows=np.arange(len(found)), ids=ids)
            feature = found.features.get(label_column)
            names = names or getattr(getattr(feature, "feature", feature), "names", None)
    if not splits:
        raise DataError(f"Hub data set {name!r} has the splits {', '.join(loaded)}, expected train, validation, test.")
    if set(splits) == {"train"}:
        splits, origins = {"all": splits["train"]}, {"all": origins["train"]}
    notes: list[str] = []
    if "validation" not in splits and "train" in splits:
        size = len(next(iter(splits["train"].values())))
        fit, validation = random_split(size, (0.9, 0.1), seed)
        whole = splits["train"]
        splits["train"] = {column: [values[i] for i in fit] for column, values in whole.items()}
        splits["validation"] = {column: [values[i] for i in validation] for column, values in whole.items()}
        origins |= {"train": origins["train"].take(fit), "validation": origins["train"].take(validation)}
        notes.append(f"no validation split: {len(validation)} rows out of train (seed {seed}).")
    columns = (text_column, label_column, label_format)
    return _build(repo.split("/")[-1], splits, origins, name, *columns, names, max_train_rows, seed, notes)


def _split_files(folder: Path) -> dict[str, Path]:
    files = {}
    for split, words in SPLIT_NAMES.items():
        if file := split_file(folder, split, words, SUFFIXES):
            files[split] = file
    for split in ("train", "validation"):
        if split not in files:
            found = ", ".join(sorted(file.name for file in folder.iterdir())) or "nothing"
            raise DataError(
                f"{folder}: no file for the {split} split, expected {' or '.join(SPLIT_NAMES[split])} with "
                f"{', '.join(SUFFIXES)}; found {found}."
            )
    return files


def split_file(folder: Path, split: str, words: Sequence[str], suffixes: Sequence[str]) -> Path | None:
    """The file of a split, which is called by one of these words; None where there is none."""
    matches = [file for word in words for suffix in suffixes if (file := folder / f"{word}{suffix}").is_file()]
    if len(matches) > 1:
        raise DataError(
            f"{folder}: two files for the {split} split: {', '.join(file.name for file in matches)}. Keep one."
        )
    return matches[0] if matches else None


def read_label_list(path: Path) -> list[str]:
    try:
        names = [name.strip() for name in path.read_text(encoding="utf-8-sig").strip().split("\n")]
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from error
    wrong = [name for name in names if not name or names.count(name) > 1]
    if wrong:  # ids are line numbers: skipping a line would shift all labels behind it
        raise DataError(f"{path}: expected one label per line, each once; found {wrong[0]!r} among {len(names)} lines.")
    return names


def _read(path: Path, has_label_list: bool, label_column: str) -> tuple[Rows, list[int]]:
    """Columns of a file, and the line in which each row begins, counted from 1."""
    names, rows = read_lines(path, ("text", label_column, "id") if has_label_list else ())
    lines: list[int] = []
    columns: list[list[Any]] = [[] for _ in names]
    for number, values in rows:
        lines.append(number)
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    return dict(zip(names, columns, strict=True)), lines


def _build(
    name: str,
    splits: dict[str, Rows],
    origins: dict[str, Origins],
    source: str,
    text_column: str | None,
    label_column: str,
    label_format: str,
    names: list[str] | None,
    max_train_rows: int | None,
    seed: int,
    notes: list[str],
) -> MultiLabelData:
    for split, rows in splits.items():
        need_column(label_column, rows, "label_column", place_of(source, split))
    first = next(iter(splits.values()))
    text_column = text_column or find_text_column(first, label_column, source)
    texts, text_notes = _texts(splits, text_columns(text_column, first), source)
    cells = {}
    for split, rows in splits.items():
        cells[split] = [label_cell(v, place_of(source, split, row)) for row, v in enumerate(rows[label_column])]
    notes += text_notes
    labels, label_names = label_matrix(cells, names, label_format, source)
    if "all" in splits:
        parts = random_split(len(texts["all"]), (0.8, 0.1, 0.1), seed)
        notes.append(
            f"one file: {' / '.join(str(len(part)) for part in parts)} rows for train, validation and test (seed "
            f"{seed})."
        )
        chosen = dict(zip(SPLIT_NAMES, parts, strict=True))
        texts, labels = (
            {split: [texts["all"][i] for i in ids] for split, ids in chosen.items()},
            {split: labels["all"][ids] for split, ids in chosen.items()},
        )
        origins = {split: origins["all"].take(ids) for split, ids in chosen.items()}
    if max_train_rows is not None:
        texts["train"], labels["train"] = texts["train"][:max_train_rows], labels["train"][:max_train_rows]
        origins["train"] = origins["train"].take(slice(max_train_rows))
    check_splits({split: len(y) for split, y in labels.items()}, source)
    tables = {split: make_dataset(labels[split], texts=texts[split]) for split in labels if len(labels[split])}
    notes += label_notes(labels, label_names)
    return MultiLabelData(
        name,
        "text",
        tables["train"],
        tables["validation"],
        tables.get("test"),
        label_names,
        notes=notes,
        origins={split: origins[split] for split in tables},
    )


def _texts(splits: dict[str, Rows], columns: Sequence[str], source: str) -> tuple[dict[str, list], list[str]]:
    """The texts of each split, from one column or as pairs from two, and what is to be said of them."""
    parts, notes = [], []
    for column in columns:
        texts = {}
        for split, rows in splits.items():
            need_column(column, rows, "text_column", place_of(source, split))
            texts[split] = [text_cell(v, place_of(source, split, row)) for row, v in enumerate(rows[column])]
        notes += _empty_texts_note(texts, column, source)
        parts.append(texts)
    if len(parts) == 1:
        return parts[0], notes
    notes.append(f"pairs of texts: {' and '.join(map(repr, columns))}.")
    return {split: [*zip(*(texts[split] for texts in parts), strict=True)] for split in splits}, notes


def _empty_texts_note(texts: dict[str, list[str]], column: str, source: str) -> list[str]:
    """Rows with a label and no word are kept, and counted.

    Raises:
        DataError: a split has no others.
    """
    empty = {split: sum(not text.strip() for text in rows) for split, rows in texts.items()}
    for split, rows in texts.items():
        if rows and empty[split] == len(rows):
            raise DataError(
                f"{place_of(source, split)}: all {len(rows)} texts are empty or null, in column {column!r}. Name the "
                "column with the text by --text_column, or fill it in."
            )
    total = sum(map(len, texts.values()))
    return [f"{sum(empty.values())} of {total} texts are empty (kept)."] if any(empty.values()) else []


def need_column(name: str, rows: Rows, argument: str, source: str) -> None:
    if name not in rows:
        raise DataError(
            f"{source} has no column {name!r}; its columns are {', '.join(rows)}.{did_you_mean(name, rows)} Name the "
            f"right one with --{argument}."
        )


def text_columns(name: str, known: Collection[str]) -> list[str]:
    """The columns that a name means: that column, or two with a comma between them, whose texts are read as pairs.

    Raises:
        DataError: more than two columns.
    """
    names = [name] if name in known else [part.strip() for part in name.split(",")]
    if len(names) > 2:
        raise DataError(
            f"`text_column` names {len(names)} columns, {', '.join(names)}. Name one, or two whose texts are read as "
            "a pair: --text_column premise,hypothesis."
        )
    return names


def find_text_column(rows: Rows, label_column: str, source: str) -> str:
    if "text" in rows:
        return "text"
    strings = [
        name
        for name, values in rows.items()
        if name != label_column and any(isinstance(v, str) and not is_number(v) for v in values[:100])
    ]
    if len(strings) == 1:
        return strings[0]
    found = (
        f"{len(strings)} columns of text: {', '.join(strings)}"
        if strings
        else f"no column of text among {', '.join(rows)}"
    )
    raise DataError(f"{source} has {found}. Name the one to classify with --text_column.")


def text_cell(value: Any, place: str) -> str:
    """A cell as a text: a missing one is empty."""
    if not isinstance(value, (str, int, float, type(None))):
        raise DataError(f"{place}: the text is {str(value)[:60]!r}, a {type(value).__name__}; expected a string.")
    return "" if value is None else valid_text(str(value), place)
