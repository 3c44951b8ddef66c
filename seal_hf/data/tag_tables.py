"""Tag sequences from tables in memory, on disk or on the Hub, and from json, jsonl and csv files.

A row is a sentence, see [`SentenceRows`], or a word with its tag if a column names its sentence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from .column_choice import LOOKED_AT
from .columns import ORIGINS, TAG_NAMES, WORD_NAMES, Rows, TagTable
from .common import DataError, Origins
from .row_tables import LineTable, Row, Table
from .sentences import SPAN_COLUMNS, Needs, SentenceRows

JSON = (".json", ".jsonl")
PREDICATE = "predicate"
SENTENCE_NAME = re.compile(r"(?i)(?:sentences?|sents?)(?:[ _.-]?(?:#|id|idx|nr|no|num|number|index))?|sid")


def tag_table(table: Table) -> TagTable:
    """All rows of a table, one per sentence."""
    if not has_words(table):
        columns, origins = table.read()
        return TagTable(columns, origins, table.classes)
    found, lines = list[dict[str, Any]](), list[int]()
    for line, row in sentence_rows(table, apart=True):
        lines.append(line)
        found.append(row)
    columns = {name: [row[name] for row in found] for name in found[0]}
    places = np.array(lines, dtype=np.int64)
    of_file = isinstance(table, LineTable)
    return TagTable(columns, Origins(table.source, places) if of_file else Origins(table.source, rows=places))


def has_words(table: Table) -> bool:
    """As [`is_long`], for the gold of training.

    Raises:
        DataError: no column names the sentence of each word, nor holds texts or lists.
    """
    if is_long(table) or (isinstance(table, LineTable) and table.path.suffix.lower() in JSON):
        return is_long(table)
    cells = [str(value).strip() for values in table.head().values() for value in values[:3]]
    if not any(len(cell.split()) > 1 or cell.startswith("[") for cell in cells):
        raise DataError(
            f"{table.source}: the columns are {', '.join(table.columns)}. Tags are read from a table with a word in "
            "each row if a column sentence_id names its sentence, beside word and tag. Else give columns without a "
            "header (.conll, .tsv), or .jsonl or .parquet with lists of words and tags."
        )
    return False


def is_long(table: Table) -> bool:
    """True for a table with a word in each row, but not JSON: a column names the sentence of each word."""
    if not names_sentences(table.columns) or (isinstance(table, LineTable) and table.path.suffix.lower() in JSON):
        return False
    words = next(values for name, values in table.head().items() if name.lower() in WORD_NAMES)
    single = [isinstance(word, str) and word[:1] != "[" and len(word.split()) < 2 for word in words]
    return 2 * sum(single) > len(single)


def names_sentences(columns: Sequence[str]) -> bool:
    """True if a column names the sentence of each word."""
    return any(map(SENTENCE_NAME.fullmatch, columns)) and any(name.lower() in WORD_NAMES for name in columns)


def sentence_rows(table: Table, apart: bool = False) -> Iterator[Row]:
    """Rows of words as rows of sentences, with the line of the first word: lists in `words`, `tags` and other columns,
    and the name of the sentence. An empty name repeats the one above it.

    Args:
        apart: check that the words of a sentence stand together.

    Raises:
        DataError: they do not.
    """
    name = next(name for name in table.columns if SENTENCE_NAME.fullmatch(name))
    words = next(name for name in table.columns if name.lower() in WORD_NAMES)
    others = [other for other in table.columns if other not in (name, words)]
    tags = next((other for usual in TAG_NAMES for other in others if other.lower() == usual), None)
    renamed = {words: "words"} | ({} if tags is None else {tags: "tags"})
    classes = {column: dict(enumerate(names)) for column, names in table.classes.items()}
    seen: set[Any] = set()
    repeats = empty = ""  # rows that repeat the name of their sentence, and that leave it out
    line, sentence = 0, dict[str, Any]()
    for number, row in table:
        is_empty = row[name] is None or not str(row[name]).strip()
        key = sentence.get(name, row[name]) if is_empty else row[name]
        if sentence and key == sentence[name]:
            repeats, empty = (repeats or str(number), empty) if row[name] == key else (repeats, empty or str(number))
            if repeats and empty:
                raise DataError(
                    f"{table.place(int(empty))}: no value in {name!r}, but line {repeats} repeats that of its "
                    "sentence. Write it in each row, or at the first word of each sentence alone."
                )
        if not sentence or key != sentence[name]:
            if sentence:
                yield line, sentence
            if key in seen:
                raise DataError(
                    f"{table.place(number)}: the sentence {key!r} occurs before, apart from these words. Sort the rows "
                    f"by {name!r}, or give each sentence its own value."
                )
            seen |= {key} if apart else set()
            line, sentence = number, {name: key, **{renamed.get(other, other): [] for other in (words, *others)}}
        for other in (words, *others):
            sentence[renamed.get(other, other)].append(classes.get(other, {}).get(row[other], row[other]))
    if sentence:
        yield line, sentence


def read_tables(
    splits: Mapping[str, TagTable],
    word_column: int | str,
    tag_column: int | str,
    notes: list[str],
    predicate: bool = False,
) -> dict[str, Rows]:
    """The rows of tables, by split.

    Args:
        word_column, tag_column: names; the defaults 0 and -1 look for the names in `USUAL`. Tags are names, or ids with
            a `ClassLabel`.
        notes: notes on what was chosen and left out are added.
        predicate: read a column `predicate`, the index of a word in its sentence.

    Raises:
        DataError: as [`SentenceRows`]; or a word is empty.
    """
    found = {}
    word, tag = None if word_column == 0 else word_column, None if tag_column == -1 else tag_column
    for split, table in splits.items():
        needs = Needs(predicate=predicate, tags=("",))
        reader = SentenceRows(needs, partial(_rows_of, table, LOOKED_AT), word, tag, classes=table.classes)
        found[split] = _columns_of(table, reader, predicate)
        notes += [f"{table.origins.source}: {count} {what}." for what, count in reader.counts.items()]
    if predicate:
        _check_verbs(found, notes)
    words, tags, spans = (reader.found.get(name) for name in ("word_column", "tag_column", "spans"))
    if spans is not None:
        unit = "characters" if reader.in_words is None else "words"
        notes.append(f"texts: column {words!r}; spans by {unit}: column {spans!r}.")
    elif (words, tags) != ("words", "tags") and None in (word, tag):
        notes.append(f"words: column {words!r}; tags: column {tags!r}.")
    whole = set.intersection(*(set(rows) for rows in found.values()))
    partly = sorted({name for rows in found.values() for name in rows} - whole)
    if partly:
        notes.append(f"left out, since not every split has a value for each word: {', '.join(partly)}.")
        found = {split: {name: rows[name] for name in rows if name in whole} for split, rows in found.items()}
    return found


def _rows_of(table: TagTable, count: int | None = None) -> Iterator[dict[str, Any]]:
    """The first rows, or all, one at a time: lists of dicts of many rows cost more time than reading them."""
    return (
        dict(zip(table.columns, row, strict=True)) for row in islice(zip(*table.columns.values(), strict=True), count)
    )


def _columns_of(table: TagTable, reader: SentenceRows, predicate: bool) -> Rows:
    """The sentences of rows by column: words, tags, the predicate, and others with a name for each word."""
    found: Rows = {"words": [], "tags": [], PREDICATE: []}
    for number, row in enumerate(_rows_of(table)):
        one = reader.sentence(row, table.origins.place(number))
        words, tags = ([], []) if one is None else (one.words, [*map(str.strip, one.gold or ())])
        if not all(tags) or not all(map(str.strip, words)):
            word, tag = next(pair for pair in zip(words, tags, strict=True) if not pair[0].strip() or not pair[1])
            raise DataError(
                f"{table.origins.place(number)}: the word is {word!r}, with the tag {tag!r}; expected text. Leave out "
                "such words with their tags."
            )
        found["words"].append(words)
        found["tags"].append(tags)
        found[PREDICATE].append(0 if one is None else one.predicate)
    if not predicate:
        del found[PREDICATE]
    found[ORIGINS] = table.origins
    return found | _features(table, [*reader.found.values()], [len(words) for words in found["words"]])


def _check_verbs(splits: Mapping[str, Rows], notes: list[str]) -> None:
    """Compare predicates with the spans V, where the tags have them.

    Raises:
        DataError: no predicate is in its span.
    """
    wrong, total, first = 0, 0, ""
    for rows in splits.values():
        for row, (tags, place) in enumerate(zip(rows["tags"], rows[PREDICATE], strict=True)):
            verbs = [i for i, tag in enumerate(tags) if tag in ("B-V", "S-V", "I-V", "V")]
            if verbs:
                total += 1
                if place not in verbs:
                    wrong += 1
                    where = rows[ORIGINS].place(row)
                    first = first or f"{where}, where `{PREDICATE}` is {place} and V is at {verbs[0]}"
    if not wrong:
        return
    said = f"`{PREDICATE}` is not at the span V in {wrong} of {total} rows, the first at {first}"
    if wrong == total:
        raise DataError(f"{said}. Indices count from 0. Correct them.")
    notes.append(f"{said}.")


def _features(table: TagTable, taken: Collection[str], lengths: list[int]) -> Rows:
    """The other columns that hold a name for each word."""
    found: Rows = {}
    for name, values in table.columns.items():
        if name in (*taken, "words", "tags", PREDICATE) or name in SPAN_COLUMNS:
            continue
        names = table.classes.get(name)
        kind = int if names else str
        whole = (  # -1 is an unknown class
            isinstance(row, list) and len(row) == number and all(isinstance(v, kind) and v != -1 for v in row)
            for row, number in zip(values, lengths, strict=True)
        )
        if all(whole):
            found[name] = [[names[value] for value in row] for row in values] if names else values
    return found
