"""Tag sequences from tables in memory, on disk or on the Hub, and from json, jsonl and csv files.

A row is a sentence, see [`SentenceRows`], or a word with its tag if a column names its sentence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from .column_choice import LOOKED_AT
from .columns import TAG_NAMES, WORD_NAMES
from .common import DataError, Origins
from .exports import rejected
from .line_files import JSON
from .row_tables import LineTable, Row, Table
from .sentences import ORIGINS, PREDICATE, SPAN_COLUMNS, Needs, Rows, SentenceRows

LEFT_OUT = "{source}: {count} rows left out: {column!r} says that they were rejected or not annotated."
SENTENCE_NAME = re.compile(r"(?i)(?:sentences?|sents?)(?:[ _.-]?(?:#|id|idx|nr|no|num|number|index))?|sid")


def names_sentences(columns: Sequence[str], word_column: Any = None) -> bool:
    """True if a column names the sentence of each word."""
    return any(map(SENTENCE_NAME.fullmatch, columns)) and _words_of(columns, word_column) is not None


def _words_of(columns: Sequence[str], word_column: Any) -> str | None:
    """The column of words: the one that is named, or one with a usual name."""
    if word_column in columns:
        return word_column
    return next((name for name in columns if name.lower() in WORD_NAMES), None)


def of_sentences(table: Table, word_column: Any = None) -> Table:
    """The table, or for one with a word in each row that of its sentences."""
    return LongTable(table, word_column) if is_long(table, word_column) else table


def is_long(table: Table, word_column: Any = None) -> bool:
    """True for a table with a word in each row, but not JSON: a column names the sentence of each word."""
    if not names_sentences(table.columns, word_column) or is_json(table):
        return False
    words = table.head()[str(_words_of(table.columns, word_column))]
    single = [isinstance(word, str) and word[:1] != "[" and len(word.split()) < 2 for word in words]
    return 2 * sum(single) > len(single)


def field_of(table: Table, column: Any) -> Any:
    """What a column is called in the rows of a table: in those of sentences, words and tags have other names."""
    return table.fields.get(column, column) if isinstance(table, LongTable) else column


def is_json(table: Table) -> bool:
    """True for a file of JSON, whose rows are sentences."""
    return isinstance(table, LineTable) and table.path.suffix.lower() in JSON


class LongTable(Table):
    """The sentences of a table with a word in each row. A row has the place of the first word, lists in `words`, `tags`
    and other columns, and the name of the sentence. An empty name repeats the one above it. Ids of classes become their
    names. `fields` maps the table's columns to those of its sentences."""

    def __init__(self, table: Table, word_column: Any = None):
        self.source, self.note = table.source, table.note
        self._table = table
        self._name = next(name for name in table.columns if SENTENCE_NAME.fullmatch(name))
        words = str(_words_of(table.columns, word_column))
        others = [other for other in table.columns if other not in (self._name, words)]
        tags = next((other for usual in TAG_NAMES for other in others if other.lower() == usual), None)
        renamed = {words: "words"} | ({} if tags is None else {tags: "tags"})
        self.fields = {other: renamed.get(other, other) for other in (words, *others)}
        self.columns = [self._name, *self.fields.values()]

    def place(self, number: int) -> str:
        return self._table.place(number)

    def __iter__(self) -> Iterator[Row]:
        name, repeats, empty = self._name, "", ""  # rows that repeat the name of their sentence, and that leave it out
        names = {column: dict(enumerate(classes)) for column, classes in self._table.classes.items()}
        words = next(column for column, new in self.fields.items() if new == "words")
        line, sentence = 0, dict[str, Any]()
        for number, row in self._table:
            if "\n" in str(row[words]).strip():
                raise DataError(
                    f"{self.place(number)}: the word {str(row[words])[:20]!r} goes on in the next line, since a "
                    'quotation mark opens a cell. Write the word " as """".'
                )
            is_empty = row[name] is None or not str(row[name]).strip()
            key = sentence.get(name, row[name]) if is_empty else row[name]
            if sentence and key == sentence[name]:
                if row[name] == key:
                    repeats = repeats or str(number)
                else:
                    empty = empty or str(number)
                if repeats and empty:
                    place, other = self.place(int(empty)), self.place(int(repeats)).rpartition(", ")[2]
                    raise DataError(
                        f"{place}: no value in {name!r}, but {other} repeats that of its sentence. Write it in each "
                        "row, or at the first word of each sentence alone."
                    )
            else:
                if sentence:
                    yield line, sentence
                line, sentence = number, {name: key, **{new: [] for new in self.fields.values()}}
            for other, new in self.fields.items():
                sentence[new].append(names[other].get(row[other], row[other]) if other in names else row[other])
        if sentence:
            yield line, sentence

    def read(self, without: Collection[str] = ()) -> tuple[dict[str, list[Any]], Origins]:
        """All sentences, whose words must stand together."""
        columns, origins = super().read()
        if not isinstance(self._table, LineTable):
            origins = Origins(self.source, rows=origins.lines)
        seen = set[Any]()
        for i, name in enumerate(columns[self._name]):
            if name in seen:
                raise DataError(
                    f"{origins.place(i)}: the sentence {name!r} occurs before, apart from these words. Sort the rows "
                    f"by {self._name!r}, or give each sentence its own value."
                )
            seen.add(name)
        return columns, origins


def check_columns(table: Table) -> None:
    """Raises DataError for a table of words that no column assigns to sentences."""
    if isinstance(table, LongTable) or is_json(table):
        return
    cells = [str(value).strip() for values in table.head().values() for value in values[:3]]
    if not any(len(cell.split()) > 1 or cell.startswith("[") for cell in cells):
        raise DataError(
            f"{table.source}: the columns are {', '.join(table.columns)}. Tags are read from a table with a word in "
            "each row if a column sentence_id names its sentence, beside word and tag. Else give columns without a "
            "header (.conll, .tsv), or .jsonl or .parquet with lists of words and tags."
        )


def read_tables(
    splits: Mapping[str, Table],
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
        table = of_sentences(table, word)
        check_columns(table)
        columns, origins = _without_rejected(*table.read(), notes)
        needs = Needs(predicate=predicate, tags=("",))
        names = field_of(table, word), field_of(table, tag)
        reader = SentenceRows(needs, partial(_rows_of, columns, LOOKED_AT), *names, classes=table.classes)
        found[split] = _columns_of(columns, origins, reader, predicate)
        found[split] |= _features(columns, found[split], [*reader.found.values()], table.classes)
        notes += [*table.notes, *(f"{origins.source}: {count} {what}." for what, count in reader.counts.items())]
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


def _without_rejected(
    columns: dict[str, list[Any]], origins: Origins, notes: list[str]
) -> tuple[dict[str, list[Any]], Origins]:
    """The rows but those that annotators rejected or did not answer."""
    column = rejected(columns)
    if column is None:
        return columns, origins
    name, words = column
    kept = [i for i, value in enumerate(columns[name]) if value.lower() not in words]
    notes.append(LEFT_OUT.format(source=origins.source, count=len(columns[name]) - len(kept), column=name))
    return {name: [cells[i] for i in kept] for name, cells in columns.items()}, origins.take(kept)


def _rows_of(columns: Mapping[str, list[Any]], count: int | None = None) -> Iterator[dict[str, Any]]:
    """The first rows, or all, one at a time: lists of dicts of many rows cost more time than reading them."""
    return (dict(zip(columns, row, strict=True)) for row in islice(zip(*columns.values(), strict=True), count))


def _columns_of(columns: Mapping[str, list[Any]], origins: Origins, reader: SentenceRows, predicate: bool) -> Rows:
    """The sentences of rows by column: words, tags and the predicate."""
    found: Rows = {"words": [], "tags": [], PREDICATE: [], ORIGINS: origins}
    for number, row in enumerate(_rows_of(columns)):
        one = reader.sentence(row, origins.place(number))
        words, tags = ([], []) if one is None else (one.words, [*map(str.strip, one.gold or ())])
        if not all(tags) or not all(map(str.strip, words)):
            word, tag = next(pair for pair in zip(words, tags, strict=True) if not pair[0].strip() or not pair[1])
            raise DataError(
                f"{origins.place(number)}: the word is {word!r}, with the tag {tag!r}; expected text. Leave out "
                "such words with their tags."
            )
        found["words"].append(words)
        found["tags"].append(tags)
        found[PREDICATE].append(0 if one is None else one.predicate)
    if not predicate:
        del found[PREDICATE]
    return found


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


def _features(
    columns: Mapping[str, list[Any]], rows: Rows, taken: Collection[str], classes: Mapping[str, Sequence[str]]
) -> Rows:
    """The other columns that hold a name for each word."""
    found: Rows = {}
    for name, values in columns.items():
        if name in (*taken, "words", "tags", PREDICATE) or name in SPAN_COLUMNS:
            continue
        names = classes.get(name)
        kind = int if names else str
        whole = (  # -1 is an unknown class
            isinstance(row, list) and len(row) == len(words) and all(isinstance(v, kind) and v != -1 for v in row)
            for row, words in zip(values, rows["words"], strict=True)
        )
        if all(whole):
            found[name] = [[names[value] for value in row] for row in values] if names else values
    return found
