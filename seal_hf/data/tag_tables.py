"""Tag sequences from tables in memory, on disk or on the Hub, and from json, jsonl and csv files.

A row is a sentence: two lists, of words and of tags; or a text and the spans in it, by characters (`spans.py`). A row
of a csv is a word with its tag, and a column names the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..utils.messages import did_you_mean
from .columns import ORIGINS, TAG_NAMES, WORD_NAMES, Rows, TagTable
from .common import DataError, Origins
from .row_tables import LineTable, Row, Table
from .spans import SPAN_COLUMNS, differ, words_and_tags

JSON = (".json", ".jsonl")
USUAL = {"word_column": ("words", "tokens"), "tag_column": ("tags", "ner_tags", "pos_tags", "labels")}
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
    return TagTable(columns, Origins(table.source, lines=np.array(lines, dtype=np.int64)))


def has_words(table: Table) -> bool:
    """True for a csv or tsv with a word in each row.

    Raises:
        DataError: no column names the sentence of each word, nor holds texts.
    """
    if not isinstance(table, LineTable) or table.path.suffix.lower() in JSON:
        return False
    if not is_long(table.columns):
        raise DataError(
            f"{table.source}: the columns are {', '.join(table.columns)}. Tags are read from a table with a word in "
            "each row if a column sentence_id names its sentence, beside word and tag. Else give columns without a "
            "header (.conll, .tsv), or .jsonl or .parquet with lists of words and tags."
        )
    return True


def is_long(columns: Sequence[str]) -> bool:
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
    seen: set[Any] = set()
    line, sentence = 0, dict[str, Any]()
    for number, row in table:
        key = row[name] if str(row[name]).strip() else sentence.get(name, row[name])
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
            sentence[renamed.get(other, other)].append(row[other])
    if sentence:
        yield line, sentence


def read_tables(
    splits: Mapping[str, TagTable],
    word_column: int | str,
    tag_column: int | str,
    notes: list[str],
    predicate: bool = False,
    named: tuple[list[str], str] | None = None,
) -> dict[str, Rows]:
    """The rows of tables, by split.

    Args:
        word_column, tag_column: names; the defaults 0 and -1 look for the names in `USUAL`. Tags are names, or ids with
            a `ClassLabel`.
        notes: notes on what was chosen and left out are added.
        predicate: read a column `predicate`, the index of a word in its sentence.
        named: the names of tags that are ids, and the file beside the data that has them.

    Raises:
        DataError: a missing column; the first row whose lists differ in length, or with a word that is not text, a
            missing tag, or a predicate that is not the index of a word.
    """
    found = {}
    for split, table in splits.items():
        place = table.origins.source
        if (spans := _span_column(table, word_column, tag_column)) is not None:
            table = words_and_tags(table, *spans, notes)
            words, tags = "words", "tags"
        else:
            words = _column_name(table, "word_column", word_column, 0, place)
            tags = _column_name(table, "tag_column", tag_column, -1, place)
        if named is not None and tags not in table.classes and _are_ids(table.columns[tags], len(named[0])):
            table.classes[tags] = named[0]
            notes += [note for note in (f"names of tags from {named[1]}.",) if note not in notes]
            table.columns[tags] = [[int(tag) for tag in row] for row in table.columns[tags]]
        origins = table.origins
        found[split] = _rows(table, words, tags, origins)
        found[split] |= {PREDICATE: _predicates(table, found[split]["words"], origins)} if predicate else {}
        found[split][ORIGINS] = origins
    if predicate:
        _check_verbs(found, notes)
    if (words, tags) != ("words", "tags") and {word_column, tag_column} & {0, -1}:
        notes.append(f"words: column {words!r}; tags: column {tags!r}.")
    whole = set.intersection(*(set(rows) for rows in found.values()))
    partly = sorted({name for rows in found.values() for name in rows} - whole)
    if partly:
        notes.append(f"left out, since not every split has a value for each word: {', '.join(partly)}.")
        found = {split: {name: rows[name] for name in rows if name in whole} for split, rows in found.items()}
    return found


def _span_column(table: TagTable, word_column: int | str, tag_column: int | str) -> tuple[str, str] | None:
    """The column of texts and that of spans in them by characters, if the tags are given so."""
    columns = table.columns
    text = word_column if isinstance(word_column, str) else "text"
    if text not in columns or not any(isinstance(value, str) for value in columns[text]):
        return None
    wanted = (tag_column,) if isinstance(tag_column, str) else SPAN_COLUMNS
    spans = next((name for name in wanted if name in columns and are_spans(columns[name])), None)
    if spans is None:
        return None
    tags = next((name for name in USUAL["tag_column"] if name in columns and name != spans), None)
    words = next((name for name in USUAL["word_column"] if name in columns), None)
    if tag_column == -1 and tags is not None and words is not None and not differ(table, text, words, tags, spans):
        return None
    return str(text), spans


def are_spans(values: Sequence[Any]) -> bool:
    """True if a column holds lists of spans: mappings, or lists of two numbers and a type."""
    shown = [span for value in values if isinstance(value, (list, tuple)) for span in value][:100]
    return (
        all(isinstance(value, (list, tuple, type(None))) for value in values)
        and all(map(_is_span, shown))
        and bool(shown)
    )


def _is_span(value: Any) -> bool:
    if isinstance(value, dict):
        return bool({"start", "start_offset"} & value.keys())
    return isinstance(value, (list, tuple)) and len(value) >= 3 and all(str(number).isdigit() for number in value[:2])


def _are_ids(rows: Sequence[Any], count: int) -> bool:
    """True if all tags are numbers below `count`."""
    tags = {tag for row in rows if isinstance(row, list) for tag in row}
    return bool(tags) and all(str(tag).isdigit() and int(tag) < count for tag in tags)


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


def _rows(table: TagTable, words_name: str, tags_name: str, origins: Origins) -> Rows:
    names = table.classes.get(tags_name)
    rows: Rows = {"words": table.columns[words_name], "tags": []}
    for row, (words, tags) in enumerate(zip(rows["words"], table.columns[tags_name], strict=True)):
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


def _predicates(table: TagTable, words: list[list[str]], origins: Origins) -> list[int]:
    if PREDICATE not in table.columns:
        raise DataError(
            f"{origins.source} has no column {PREDICATE!r}, the index of a word in its sentence, from 0; its columns "
            f"are {', '.join(table.columns)}."
        )
    places: list[Any] = table.columns[PREDICATE]
    for row, (number, sentence) in enumerate(zip(places, words, strict=True)):
        if not isinstance(number, int) or not 0 <= number < len(sentence):
            raise DataError(
                f"{origins.place(row)}: the predicate is {number!r}; expected the index of one of {len(sentence)} "
                "words, from 0."
            )
    return places


def _features(table: TagTable, taken: tuple[str, str], lengths: list[int]) -> Rows:
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


def _column_name(table: TagTable, option: str, column: int | str, default: int, place: str) -> str:
    known = [*table.columns]
    if isinstance(column, int) and column != default:
        raise DataError(f"{place}: `{option}` is {column}; columns of tables have names: {', '.join(known)}.")
    wanted = (column,) if isinstance(column, str) else USUAL[option]
    name = next((name for name in wanted if name in known), None)
    if name is None:
        raise DataError(
            f"{place} has no column {' or '.join(wanted)}; its columns are {', '.join(known)}."
            f"{did_you_mean(wanted[0], known)} Name the right one with --{option}. A column text with spans by "
            "characters beside it, in entities, label or spans as [[start, end, type]], is read, too."
        )
    return name
