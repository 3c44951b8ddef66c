"""Text with label sets: csv, tsv and jsonl files, folders of them, and Hub data sets."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import datasets

from ..utils.messages import did_you_mean
from .common import DataError, MultiLabelData, check_splits, label_notes, make_dataset, random_split
from .label_cells import is_number, label_cell, label_matrix, place_of, valid_text

SUFFIXES = (".csv", ".tsv", ".jsonl")
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
        text_column: default: `text`, or the only column of strings beside the labels.
        label_column: a list, a JSON list, or values separated by comma, semicolon or bar.
        label_format: `ids` (numbers into `labels.txt`, or 0-based), `names`, `multi_hot`; `auto`: see [`label_matrix`].

    Raises:
        DataError: naming the file, the column or the row.
    """
    files = _split_files(path) if path.is_dir() else {"all": path}
    label_list = (path if path.is_dir() else path.parent) / "labels.txt"
    names = _read_label_list(label_list) if label_list.is_file() else None
    notes = [f"label names from {label_list.name}."] if names and not path.is_dir() else []
    splits = {split: _read(file, names is not None, label_column) for split, file in files.items()}
    return _build(
        path.stem, splits, str(path), text_column, label_column, label_format, names, max_train_rows, seed, notes
    )


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
    names = None
    for split, words in SPLIT_NAMES.items():
        found = next((loaded[word] for word in words if word in loaded), None)
        if found is not None:
            splits[split] = {column: found[column][:] for column in found.column_names}
            feature = found.features.get(label_column)
            names = names or getattr(getattr(feature, "feature", feature), "names", None)
    if not splits:
        raise DataError(f"Hub data set {name!r} has the splits {', '.join(loaded)}, expected train, validation, test.")
    if set(splits) == {"train"}:
        splits = {"all": splits["train"]}
    notes: list[str] = []
    if "validation" not in splits and "train" in splits:
        size = len(next(iter(splits["train"].values())))
        fit, validation = random_split(size, (0.9, 0.1), seed)
        whole = splits["train"]
        splits["train"] = {column: [values[i] for i in fit] for column, values in whole.items()}
        splits["validation"] = {column: [values[i] for i in validation] for column, values in whole.items()}
        notes.append(f"no validation split: {len(validation)} rows out of train (seed {seed}).")
    short = repo.split("/")[-1]
    return _build(short, splits, name, text_column, label_column, label_format, names, max_train_rows, seed, notes)


def _split_files(folder: Path) -> dict[str, Path]:
    files = {}
    for split, words in SPLIT_NAMES.items():
        matches = [folder / f"{word}{suffix}" for word in words for suffix in SUFFIXES]
        matches = [file for file in matches if file.is_file()]
        if len(matches) > 1:
            raise DataError(
                f"{folder}: two files for the {split} split: {', '.join(file.name for file in matches)}. Keep one."
            )
        if matches:
            files[split] = matches[0]
    for split in ("train", "validation"):
        if split not in files:
            found = ", ".join(sorted(file.name for file in folder.iterdir())) or "nothing"
            raise DataError(
                f"{folder}: no file for the {split} split, expected {' or '.join(SPLIT_NAMES[split])} with "
                f"{', '.join(SUFFIXES)}; found {found}."
            )
    return files


def _read_label_list(path: Path) -> list[str]:
    try:
        names = [name.strip() for name in path.read_text(encoding="utf-8-sig").strip().split("\n")]
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from error
    wrong = [name for name in names if not name or names.count(name) > 1]
    if wrong:  # ids are line numbers: skipping a line would shift all labels behind it
        raise DataError(f"{path}: expected one label per line, each once; found {wrong[0]!r} among {len(names)} lines.")
    return names


def _read(path: Path, has_label_list: bool, label_column: str) -> Rows:
    """Columns of a file."""
    try:
        if path.suffix == ".jsonl":
            return _read_jsonl(path)
        return _read_table(path, has_label_list, label_column)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from error


def _not_utf8(path: Path, error: UnicodeDecodeError) -> DataError:
    return DataError(f"{path}: not UTF-8 text ({error}). Save the file as UTF-8.")


# The standard library reads the files, not `datasets`: there, a row that is too short gets empty cells in silence, rows
# that are all too long lose their last cells, a JSON text such as 2024-01-01 becomes a date, an error counts rows in
# place of lines, and a path is a pattern.


def _read_table(path: Path, has_label_list: bool, label_column: str) -> Rows:
    delimiter = "\t" if path.suffix == ".tsv" else ","
    quoting: Any = csv.QUOTE_NONE if path.suffix == ".tsv" else csv.QUOTE_MINIMAL  # tsv texts hold stray quotes
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    with open(path, encoding="utf-8-sig", newline="") as file:
        line = file.readline()
        if delimiter == "," and ";" in line and "," not in line:
            raise DataError(f"{path}: its header, {line.strip()!r}, is separated by semicolons. Save it with commas.")
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter, quoting=quoting, strict=True)
        try:
            rows = [(reader.line_num, row) for row in reader if row]
        except csv.Error as error:
            raise DataError(
                f"{path}, line {reader.line_num}: {error}. A quote is not closed, or the file ends early."
            ) from error
    if not rows:
        raise DataError(f"{path} is empty.")
    first = rows[0][1]
    headerless = has_label_list and delimiter == "\t" and len(first) >= 2 and re.fullmatch(r"[\d,]*", first[1])
    header = ["text", label_column, "id"][: len(first)] if headerless else rows.pop(0)[1]
    if delimiter == "\t" and not headerless:  # pandas and spreadsheets quote in a tsv as in a csv, [""joy""]
        header, rows = _unquote(header), [(number, _unquote(row)) for number, row in rows]
    if len(set(header)) != len(header):
        raise DataError(f"{path}: two columns have the same name: {', '.join(header)}.")
    if not rows:
        raise DataError(f"{path} is empty: a header ({', '.join(header)}) and no rows.")
    for number, row in rows:
        if len(row) != len(header):
            raise DataError(
                f"{path}, line {number}: {len(row)} values, expected {len(header)} ({', '.join(header)}). Quote values "
                f"that hold the separator; the file may end early."
            )
    return {name: [row[i] for _, row in rows] for i, name in enumerate(header)}


def _unquote(row: list[str]) -> list[str]:
    """Cells that are one csv string, `"a ""b"" c"`, as what they mean; other quotes belong to the text."""
    return [v[1:-1].replace('""', '"') if re.fullmatch(r'"(?:[^"]|"")*"', v) else v for v in row]


def _read_jsonl(path: Path) -> Rows:
    columns: Rows = {}
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError("not an object")
            except ValueError as error:
                raise DataError(
                    f"{path}, line {number}: not a JSON object: {error}. The file may end early."
                ) from error
            if columns and set(row) != set(columns):
                raise DataError(
                    f"{path}, line {number}: fields {sorted(row)}, expected {sorted(columns)} as in the rows before."
                )
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
    if not columns:
        raise DataError(f"{path} is empty.")
    return columns


def _build(
    name: str,
    splits: dict[str, Rows],
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
        _need_column(label_column, rows, "label_column", place_of(source, split))
    text_column = text_column or _find_text_column(next(iter(splits.values())), label_column, source)
    cells, texts = {}, {}
    for split, rows in splits.items():
        _need_column(text_column, rows, "text_column", place_of(source, split))
        texts[split] = [_text(v, place_of(source, split, row)) for row, v in enumerate(rows[text_column])]
        cells[split] = [label_cell(v, place_of(source, split, row)) for row, v in enumerate(rows[label_column])]
    notes += _empty_texts_note(texts, text_column, source)
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
    if max_train_rows is not None:
        texts["train"], labels["train"] = texts["train"][:max_train_rows], labels["train"][:max_train_rows]
    check_splits({split: len(y) for split, y in labels.items()}, source)
    tables = {split: make_dataset(labels[split], texts=texts[split]) for split in labels if len(labels[split])}
    notes += label_notes(labels, label_names)
    return MultiLabelData(
        name, "text", tables["train"], tables["validation"], tables.get("test"), label_names, [], notes
    )


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


def _need_column(name: str, rows: Rows, argument: str, source: str) -> None:
    if name not in rows:
        raise DataError(
            f"{source} has no column {name!r}; its columns are {', '.join(rows)}.{did_you_mean(name, rows)} Name the "
            f"right one with --{argument}."
        )


def _find_text_column(rows: Rows, label_column: str, source: str) -> str:
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


def _text(value: Any, place: str) -> str:
    if not isinstance(value, (str, int, float, type(None))):
        raise DataError(f"{place}: the text is {str(value)[:60]!r}, a {type(value).__name__}; expected a string.")
    return "" if value is None else valid_text(str(value), place)
