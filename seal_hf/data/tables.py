"""Tag sequences from tables: Hub data sets, and .parquet, .json and .jsonl files; a sentence per row, in two lists."""

from __future__ import annotations

import glob
import re
import tempfile
from pathlib import Path

import datasets
import numpy as np
from datasets import Dataset

from ..utils.messages import did_you_mean
from .columns import ORIGINS, Rows, take
from .common import SPLITS, DataError, Origins, id_column, random_split

SPLIT_WORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev", "testa"),  # testa and testb: CoNLL-2003
    "test": ("test", "testb"),
}
TABLES = (".parquet", ".json", ".jsonl")
STRINGS = ("string", "large_string")
USUAL = {"word_column": ("words", "tokens"), "tag_column": ("tags", "ner_tags", "pos_tags", "labels")}


def read_tables(
    name: str,
    files: dict[str, Path] | None,
    word_column: int | str,
    tag_column: int | str,
    seed: int,
    notes: list[str],
) -> dict[str, Rows]:
    """Splits of the Hub data set `name`, or of local files, through `datasets.load_dataset`; no code of a repo is run.

    Args:
        name: `owner/name` or `owner/name:configuration`, or the folder, for messages.
        files: by split, `all` for a single one.
        word_column, tag_column: names; 0 and -1, the defaults, look for the names in `USUAL`. Tags are names, or ids
            with a `ClassLabel`.
        seed: of splits that are missing.
        notes: gets what was done.

    Raises:
        DataError: what cannot be loaded; a column that is not there; the first row that is not two lists of one length,
            or has a word that is no text, or a tag that is missing.
    """
    repo, _, configuration = name.partition(":")
    if files is not None and "all" in files:
        files = {"train": files["all"]}
    for file in (files or {}).values():
        if not file.stat().st_size:
            raise DataError(f"{file} is empty.")
    try:
        if files is None:
            loaded = datasets.load_dataset(repo, configuration or None)
        else:
            kind = "parquet" if next(iter(files.values())).suffix == ".parquet" else "json"
            # the library reads a path as a pattern
            paths = {re.sub(r"\W", "_", split): glob.escape(str(file)) for split, file in files.items()}
            with tempfile.TemporaryDirectory() as cache:  # the library's own cache knows a file by its time stamp alone
                loaded = datasets.load_dataset(kind, data_files=paths, cache_dir=cache, keep_in_memory=True)
    except Exception as error:  # the library raises a dozen kinds; the user needs the name and the reason
        reason = next((str(e) for e in (error.__cause__, error) if e is not None and str(e)), type(error).__name__)
        raise DataError(f"Data set {name!r} could not be loaded: {reason}") from error
    splits = {}
    for split, words in SPLIT_WORDS.items():
        word = next((word for word in words if word in loaded), None)
        if word is not None:
            splits[split] = _rows(loaded[word], word_column, tag_column, f"{name}, {split} split")
            splits[split][ORIGINS] = _origins(loaded[word], f"{name}, {word} split" if files is None else files[split])
    whole = set.intersection(*(set(rows) for rows in splits.values())) if splits else set()
    partly = sorted({name for rows in splits.values() for name in rows} - whole)
    if partly:
        notes.append(f"left out, as not every split has a value for each word: {', '.join(partly)}.")
        splits = {split: {name: rows[name] for name in rows if name in whole} for split, rows in splits.items()}
    if "train" not in splits:
        raise DataError(f"Data set {name!r} has the splits {', '.join(loaded)}, expected train, validation, test.")
    if "validation" not in splits:
        names, parts = (SPLITS, (0.8, 0.1, 0.1)) if "test" not in splits else (SPLITS[:2], (0.9, 0.1))
        ids = random_split(len(splits["train"]["words"]), parts, seed)
        sizes = ", ".join(f"{len(part)} {split}" for split, part in zip(names, ids, strict=True))
        notes.append(f"no validation split: train is split at random: {sizes} (seed {seed}).")
        splits |= {split: take(splits["train"], part) for split, part in zip(names, ids, strict=True)}
    return splits


def _rows(table: Dataset, word_column: int | str, tag_column: int | str, place: str) -> Rows:
    words_name = _column_name(table, "word_column", word_column, 0, place)
    tags_name = _column_name(table, "tag_column", tag_column, -1, place)
    names = getattr(getattr(table.features[tags_name], "feature", None), "names", None)
    rows: Rows = {"words": table[words_name][:], "tags": []}
    for row, (words, tags) in enumerate(zip(rows["words"], table[tags_name][:], strict=True)):
        where = f"{place}, row {row} (counting from 0)"
        if not isinstance(words, list) or not isinstance(tags, list) or len(words) != len(tags):
            sizes = " and ".join(str(len(x)) if isinstance(x, list) else repr(x)[:40] for x in (words, tags))
            raise DataError(f"{where}: words and tags must be lists of one length; found {sizes}.")
        for word, tag in zip(words, tags, strict=True):
            if not isinstance(word, str) or tag is None or (names and not 0 <= tag < len(names)):
                raise DataError(
                    f"{where}: word {word!r} with tag {tag!r}; expected text and a tag. Leave out splits without tags."
                )
        rows["tags"].append([names[tag] if names else str(tag) for tag in tags])
    return rows | _features(table, (words_name, tags_name), [len(words) for words in rows["words"]])


def _features(table: Dataset, taken: tuple[str, str], lengths: list[int]) -> Rows:
    """The other columns of names, one for each word."""
    found: Rows = {}
    for name in table.column_names:
        kind = getattr(table.features[name], "feature", None)
        names = getattr(kind, "names", None)
        if name in (*taken, "words", "tags", "predicate") or not (names or getattr(kind, "dtype", None) in STRINGS):
            continue
        values = table[name][:]
        whole = (  # -1 is a class that is not said
            row is not None and len(row) == number and not {None, -1} & set(row)
            for row, number in zip(values, lengths, strict=True)
        )
        if all(whole):
            found[name] = [[names[value] for value in row] for row in values] if names else values
    return found


def _origins(table: Dataset, source: Path | str) -> Origins:
    """Of a file, by line where each row has one, or of a split on the Hub."""
    ids = id_column(table["id"][:]) if "id" in table.column_names else None
    if isinstance(source, Path) and source.suffix == ".jsonl":
        with open(source, "rb") as file:
            lines = np.flatnonzero([bool(line.strip()) for line in file]) + 1
        if len(lines) == len(table):
            return Origins(str(source), lines=lines, ids=ids)
    return Origins(str(source), rows=np.arange(len(table)), ids=ids)


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
