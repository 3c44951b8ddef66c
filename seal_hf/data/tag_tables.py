"""Tag sequences from tables in memory, on disk or on the Hub, and from .json and .jsonl files. A row is a sentence: two
lists."""

from __future__ import annotations

import glob
import re
import tempfile
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from datasets import Dataset

from ..utils.messages import did_you_mean
from .columns import ORIGINS, Rows, lines_of
from .common import SPLITS, DataError, Origins, id_column
from .line_files import json_row
from .table_sources import Tables, class_names

JSON = (".json", ".jsonl")
STRINGS = ("string", "large_string")
USUAL = {"word_column": ("words", "tokens"), "tag_column": ("tags", "ner_tags", "pos_tags", "labels")}
PREDICATE = "predicate"


def json_tables(name: str, files: dict[str, Path]) -> Tables:
    """Local files, with the key `all` for a single one, loaded by `datasets.load_dataset`.

    Raises:
        DataError: a file cannot be loaded.
    """
    for file in files.values():
        if not file.stat().st_size:
            raise DataError(f"{file} is empty.")
    names = {split: "train" if split == "all" else re.sub(r"\W", "_", split) for split in files}
    paths = {names[split]: glob.escape(str(file)) for split, file in files.items()}  # else `datasets` reads a pattern
    try:
        for file in files.values():  # `datasets` reads other encodings, and fails when a text is looked at
            deque(lines_of(file), maxlen=0)
        with tempfile.TemporaryDirectory() as cache:  # the library's cache identifies files only by time stamps
            loaded = datasets.load_dataset("json", data_files=paths, cache_dir=cache, keep_in_memory=True)
    except DataError:
        raise
    except Exception as error:  # the library raises a dozen kinds; the user needs the name and the reason
        _find_mistake(files.values())
        reason = next((str(e) for e in (error.__cause__, error) if e is not None and str(e)), type(error).__name__)
        raise DataError(f"Data set {name!r} could not be loaded: {reason}") from error
    splits = {split: loaded[names[split]] for split in files if split in ("all", *SPLITS)}
    return Tables(name, name, splits, {split: _origins(table, files[split]) for split, table in splits.items()})


def _find_mistake(files: Iterable[Path]) -> None:
    """Raises DataError for the first line that is no object, or other text than UTF-8."""
    for file in (file for file in files if file.suffix.lower() == ".jsonl"):
        for number, line in enumerate(lines_of(file), start=1):
            if line.strip():
                json_row(line, f"{file}, line {number}")


def read_tables(
    tables: Tables, word_column: int | str, tag_column: int | str, notes: list[str], predicate: bool = False
) -> dict[str, Rows]:
    """The rows of tables, by split.

    Args:
        word_column, tag_column: names; the defaults 0 and -1 look for the names in `USUAL`. Tags are names, or ids with
            a `ClassLabel`.
        notes: notes on what was chosen and left out are added.
        predicate: read a column `predicate`, the index of a word in its sentence.

    Raises:
        DataError: a missing column; the first row whose lists differ in length, or with a word that is not text, a
            missing tag, or a predicate that is not the index of a word.
    """
    splits = {}
    notes += tables.notes
    for split, table in tables.splits.items():
        place = tables.origins[split].source
        words = _column_name(table, "word_column", word_column, 0, place)
        tags = _column_name(table, "tag_column", tag_column, -1, place)
        origins = tables.origins[split]
        splits[split] = _rows(table, words, tags, origins)
        splits[split] |= {PREDICATE: _predicates(table, splits[split]["words"], origins)} if predicate else {}
        splits[split][ORIGINS] = origins
    if (words, tags) != ("words", "tags") and {word_column, tag_column} & {0, -1}:
        notes.append(f"words: column {words!r}; tags: column {tags!r}.")
    whole = set.intersection(*(set(rows) for rows in splits.values()))
    partly = sorted({name for rows in splits.values() for name in rows} - whole)
    if partly:
        notes.append(f"left out, since not every split has a value for each word: {', '.join(partly)}.")
        splits = {split: {name: rows[name] for name in rows if name in whole} for split, rows in splits.items()}
    return splits


def _rows(table: Dataset, words_name: str, tags_name: str, origins: Origins) -> Rows:
    names = class_names(table, tags_name)
    rows: Rows = {"words": table[words_name][:], "tags": []}
    for row, (words, tags) in enumerate(zip(rows["words"], table[tags_name][:], strict=True)):
        if not isinstance(words, list) or not isinstance(tags, list) or len(words) != len(tags):
            sizes = " and ".join(str(len(x)) if isinstance(x, list) else repr(x)[:40] for x in (words, tags))
            raise DataError(f"{origins.place(row)}: words and tags must be lists of the same length; found {sizes}.")
        for word, tag in zip(words, tags, strict=True):
            if not isinstance(word, str) or not word.strip():
                raise DataError(
                    f"{origins.place(row)}: the word is {word!r}, with the tag {tag!r}; expected text. Leave out such "
                    "words with their tags."
                )
            if tag is None or (isinstance(tag, int) and not 0 <= tag < (len(names) if names else tag + 1)):
                raise DataError(
                    f"{origins.place(row)}: the tag of {word!r} is {tag!r}; expected a name, or an id of a class from "
                    "0 on. Give whole words, before a tokenizer cuts them, and leave out words and splits without tags."
                )
        rows["tags"].append([names[tag] if names else str(tag).strip() for tag in tags])
    return rows | _features(table, (words_name, tags_name), [len(words) for words in rows["words"]])


def _predicates(table: Dataset, words: list[list[str]], origins: Origins) -> list[int]:
    if PREDICATE not in table.column_names:
        raise DataError(
            f"{origins.source} has no column {PREDICATE!r}, the index of a word in its sentence, from 0; its columns "
            f"are {', '.join(table.column_names)}."
        )
    places: list[Any] = table[PREDICATE][:]
    for row, (number, sentence) in enumerate(zip(places, words, strict=True)):
        if not isinstance(number, int) or not 0 <= number < len(sentence):
            raise DataError(
                f"{origins.place(row)}: the predicate is {number!r}; expected the index of one of {len(sentence)} "
                "words, from 0."
            )
    return places


def _features(table: Dataset, taken: tuple[str, str], lengths: list[int]) -> Rows:
    """The other columns that hold a name for each word."""
    found: Rows = {}
    for name in table.column_names:
        kind = getattr(table.features[name], "feature", None)
        names = getattr(kind, "names", None)
        if name in (*taken, "words", "tags", PREDICATE) or not (names or getattr(kind, "dtype", None) in STRINGS):
            continue
        values = table[name][:]
        whole = (  # -1 is an unknown class
            row is not None and len(row) == number and not {None, -1} & set(row)
            for row, number in zip(values, lengths, strict=True)
        )
        if all(whole):
            found[name] = [[names[value] for value in row] for row in values] if names else values
    return found


def _origins(table: Dataset, file: Path) -> Origins:
    """Origins by line if each row has its own."""
    ids = id_column(table["id"][:]) if "id" in table.column_names else None
    if file.suffix.lower() == ".jsonl":
        with open(file, "rb") as opened:
            lines = np.flatnonzero([bool(line.strip()) for line in opened]) + 1
        if len(lines) == len(table):
            return Origins(str(file), lines=lines, ids=ids)
    return Origins(str(file), rows=np.arange(len(table)), ids=ids)


def _column_name(table: Dataset, option: str, column: int | str, default: int, place: str) -> str:
    known = table.column_names
    if isinstance(column, int) and column != default:
        raise DataError(f"{place}: `{option}` is {column}; columns of tables have names: {', '.join(known)}.")
    wanted = (column,) if isinstance(column, str) else USUAL[option]
    name = next((name for name in wanted if name in known), None)
    if name is None:
        raise DataError(
            f"{place} has no column {' or '.join(wanted)}; its columns are {', '.join(known)}."
            f"{did_you_mean(wanted[0], known)} Name the right one with --{option}."
        )
    return name
