"""Files of tag sequences: the files that a path means, their readers, and missing splits.

References with inline tags are read here, one after each `<NEWREFERENCE>`, as in the Cora citation data:

    <NEWREFERENCE>
    <author> A. Cau, R. Kuiper. </author> <title> Formalising Dijkstra's strategy. </title> <date> 1992. </date>

A file of lines with such tags has a reference in each, and the XML of AnyStyle one in each `<sequence>`. White space
separates words; punctuation stays with its word. Each field is a span; text outside fields is `O`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..utils.files import visible
from .columns import Rows, line_origins, lines_of, read_columns, take
from .common import SPLITS, DataError, find_data, groups_of, random_split
from .name_files import LABEL_LIST, is_name_file, names_beside
from .row_tables import LineTable
from .srl import read_srl
from .stratified import complete_splits
from .table_sources import ALL, SPLIT_WORDS, Tables, is_stored, split_of, tables_of
from .tag_tables import JSON, PREDICATE, is_long, read_tables, tag_table

# --- references -------------------------------------------------------------------------------------------------------

MARK = "<NEWREFERENCE>"
SEQUENCE = "<sequence>"  # of AnyStyle
AROUND = re.compile(r"</sequence>|</?dataset[^<>]*>|<\?xml[^<>]*\?>")
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)>")
_LINE = re.compile(r"\s*(<([A-Za-z][\w-]*)>[^<>]*</\2>[^<>]*)+")  # a reference on a line


def is_references(path: Path) -> bool:
    """True if the file's first 4 KiB contain the mark of a reference, or its first line is one with inline tags."""
    with open(path, "rb") as file:
        head = file.read(4096)
    if MARK.encode() in head or SEQUENCE.encode() in head:
        return True
    first = next((line for line in head.decode("utf-8", "ignore").split("\n") if line.strip()), "")
    return _LINE.fullmatch(first) is not None


def read_references(path: Path, bio: bool = True) -> tuple[Rows, list[str]]:
    """Read a file of tagged references.

    Args:
        bio: tags are `B-author`, `I-author`; else `author`.

    Returns:
        Columns `words` and `tags`, with `ORIGINS`; notes, with counts.

    Raises:
        DataError: a field is not closed, is closed by another, or is inside another; names file and line.
    """
    rows: Rows = {"words": [], "tags": []}
    lines: list[int] = []  # of the first word of each reference
    field, begins, outside = "", False, 0
    with open(path, "rb") as file:
        head = file.read(4096).decode("utf-8", "ignore")
    mark = next((mark for mark in (MARK, SEQUENCE) if mark in head), "")
    opened = 0  # line where the open field begins
    for number, line in enumerate(lines_of(path), start=1):
        parts = re.split(r"(<[^<>\s]+>)", AROUND.sub(" ", line) if mark == SEQUENCE else line)
        for part in [mark, *parts] if not mark and line.strip() else parts:
            tag = _TAG.fullmatch(part)
            if part == mark and (mark or not rows["words"] or lines[-1] != number):
                if field:
                    raise _unbalanced(path, opened, f"<{field}> is not closed before the next reference")
                rows["words"].append([])
                rows["tags"].append([])
                lines.append(number)
            elif tag and tag[1]:
                if tag[2] != field:
                    raise _unbalanced(path, number, f"{part} closes {f'<{field}>' if field else 'no open field'}")
                field = ""
            elif tag:
                if field:
                    raise _unbalanced(path, number, f"{part} begins inside <{field}>")
                field, begins, opened = tag[2], True, number
            else:
                words = unescape(part).split() if mark == SEQUENCE else part.split()
                if words and not rows["words"]:
                    raise DataError(f"{path}, line {number}: text before the first {mark}. Begin references with it.")
                if words:
                    if not rows["words"][-1]:
                        lines[-1] = number
                    tags = [(f"I-{field}" if bio else field) if field else "O"] * len(words)
                    if bio and field and begins:
                        tags[0], begins = f"B-{field}", False
                    outside += 0 if field else len(words)
                    rows["words"][-1] += words
                    rows["tags"][-1] += tags
    if field:
        raise _unbalanced(path, opened, f"<{field}> is not closed")
    kept = [i for i, words in enumerate(rows["words"]) if words]
    empty = len(rows["words"]) - len(kept)
    notes = [f"{path.name}: {empty} empty references dropped."] if empty else []
    notes += [f"{path.name}: {outside} words outside all fields, tagged O."] if outside else []
    return take(rows | line_origins(path, lines), kept), notes


def _unbalanced(path: Path, number: int, what: str) -> DataError:
    return DataError(f"{path}, line {number}: {what}; expected <field> words </field>, fields one after another.")


# --- files ------------------------------------------------------------------------------------------------------------

COLUMN_SUFFIXES = (
    ".conll",
    ".bio",
    ".iob",
    ".iob2",
    ".srl",
)  # such a file without a split in its name is a further test set
REFERENCE_PARTS = (0.6, 0.2, 0.2)  # for a single file of references, at random as in the papers


class Reading(NamedTuple):
    """How files are read, see [`load_tags`]. `plain`: references as bare fields; `roles`: roles of predicates."""

    word_column: int | str = 0
    tag_column: int | str = -1
    plain: bool = False
    roles: bool = False


Reader = Callable[[Path], tuple[Rows, list[str]]]


def read_splits(
    dataset: Any, data_dir: str | None, reading: Reading, seed: int, notes: list[str]
) -> tuple[str, str, dict[str, Rows]]:
    """The name of a data set, its description for messages, and its splits."""
    dataset = fspath(dataset) if isinstance(dataset, PathLike) else dataset
    path = find_data(dataset, data_dir, (), () if reading.roles else ("toy_tags",))
    if path is None or is_stored(path):
        tables = tables_of(dataset, path)
    else:
        files = _with_train(split_files(path, notes), path) if path.is_dir() else {ALL: path}
        if not all(map(has_rows, files.values())):
            return path.stem, dataset, _read_files(files, reading, seed, notes)
        of_splits = {split: file for split, file in files.items() if split in (ALL, *SPLITS)}
        tables = Tables(path.stem, str(path), {split: LineTable(file, "tags") for split, file in of_splits.items()})
    found = {split: tag_table(table) for split, table in tables.splits.items()}
    notes += [*tables.notes, *(note for table in tables.splits.values() for note in table.notes)]
    named = None if path is None else names_beside(path, (LABEL_LIST,))
    splits = read_tables(found, reading.word_column, reading.tag_column, notes, reading.roles, named)
    return tables.name, tables.source, _complete(splits, seed, notes)


def has_rows(file: Path) -> bool:
    """True for JSON and csv, and for a tsv whose header names the sentence of each word."""
    if file.suffix.lower() in (*JSON, ".csv"):
        return True
    with open(file, "rb") as opened:
        first = opened.readline(10_000).decode("utf-8-sig", "replace").rstrip("\r\n")
    return file.suffix.lower() == ".tsv" and is_long(first.split("\t"))


def _read_files(files: dict[str, Path], reading: Reading, seed: int, notes: list[str]) -> dict[str, Rows]:
    """Splits from files of lines; further test sets have the file's name."""
    splits = {}
    for split, file in files.items():
        splits[split], found = _reader_of(file, reading)(file)
        notes += found
        notes += [note for note in _name_ids(splits[split], file) if note not in notes]
    if "all" not in splits or reading.roles or not is_references(files["all"]):
        return _complete(splits, seed, notes)
    parts = random_split(len(splits["all"]["words"]), REFERENCE_PARTS, seed)
    sizes = " / ".join(str(len(part)) for part in parts)
    notes.append(f"one file: {sizes} rows for train, validation and test, at random (seed {seed}).")
    return {split: take(splits["all"], ids) for split, ids in zip(SPLITS, parts, strict=True)}


def _name_ids(rows: Rows, file: Path) -> list[str]:
    """Names for tags that are ids, from a file beside the data, in place; and a note."""
    tags = {tag for row in rows["tags"] for tag in row}
    named = names_beside(file, (LABEL_LIST,)) if tags and all(map(str.isdigit, tags)) else None
    if named is not None and all(int(tag) < len(named[0]) for tag in tags):
        rows["tags"] = [[named[0][int(tag)] for tag in row] for row in rows["tags"]]
        return [f"names of tags from {named[1]}."]
    return []


def _complete(splits: dict[str, Rows], seed: int, notes: list[str]) -> dict[str, Rows]:
    """Add missing splits, stratified by the tags in sentences. A sentence's propositions stay together: else training
    would contain test sentences."""
    whole = splits["train"] if "train" in splits else next(iter(splits.values()))  # what is split
    groups = groups_of(map(tuple, whole["words"])) if PREDICATE in whole else None
    ids = groups_of(tag for rows in splits.values() for tags in rows["tags"] for tag in tags)
    tags, start = {}, 0
    for split, rows in splits.items():
        lengths = [len(sentence) for sentence in rows["tags"]]
        tags[split] = np.zeros((len(lengths), ids.max(initial=-1) + 1), dtype=bool)
        tags[split][np.repeat(np.arange(len(lengths)), lengths), ids[start : start + sum(lengths)]] = True
        start += sum(lengths)
    parts = complete_splits(tags, seed, notes, groups=groups)
    return {
        split: splits[key] if len(rows) == len(splits[key]["words"]) else take(splits[key], rows)
        for split, (key, rows) in parts.items()
    }


def _reader_of(file: Path, reading: Reading) -> Reader:
    if reading.roles or file.suffix.lower() == ".srl":
        return read_srl
    if is_references(file):
        return lambda path: read_references(path, bio=not reading.plain)
    word, tag = reading.word_column, reading.tag_column
    return lambda path: read_columns(path, word, tag)


def split_files(folder: Path, notes: list[str]) -> dict[str, Path]:
    """Split -> file of a folder; further test sets by name; `all` for a single file.

    Raises:
        DataError: two files of a split.
    """
    files = [
        file
        for file in visible(folder)
        if file.is_file() and not file.name.startswith("README") and not is_name_file(file)
    ]
    if len(files) == 1:
        return {"all": files[0]}
    found: dict[str, Path] = {}
    for file in files:
        split = split_of(file.name) or (file.name if file.suffix.lower() in COLUMN_SUFFIXES else None)
        if split in found:
            raise DataError(f"{folder}: two files for the {split} split: {found[split].name}, {file.name}. Keep one.")
        if split:
            found[split] = file
        else:
            notes.append(f"{file.name} is not read: its name contains no split.")
    return found


def _with_train(found: dict[str, Path], folder: Path) -> dict[str, Path]:
    if not found.keys() & {"train", "all"}:
        names = ", ".join(file.name for file in visible(folder)) or "nothing"
        raise DataError(
            f"{folder}: no file for the train split, expected {' or '.join(SPLIT_WORDS['train'])} in its name; "
            f"found {names}. A single file, given by its path, is split at random."
        )
    return found
