"""Texts split into words, and spans of a text by characters, as annotation tools write them, as BIO tags of its words.

A word is
* two or more letters, each followed by a full stop: `U.K.`, `e.g.`;
* or a run of letters, digits and underscores, accents included, or several such runs joined by a single `.`, `-`, `'`
  or `’`, or by a script's joiner: `10.5`, `e-mail`, `don't`;
* or `'s` after a word, as in most English data: `John` and `'s`;
* or any other single character except white space: `,`, `%`, an emoji with its variation and the emoji joined to it.

Characters that are not seen, such as a zero-width space or a byte-order mark, belong to no word. Split text in a script
without blanks between words, such as Chinese, beforehand.

A span is `[start, end, type]`, or a mapping with `start` and `end` (`start_offset`, `end_offset`) and `label` (`type`,
`entity`, `labels`). Its words are those of the text, or of a column `tokens` with their characters.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from .columns import TagTable
from .common import DataError


def split_words(text: str) -> list[tuple[int, int]]:
    """Start and end of each word of a text, in characters: word i is `text[start:end]`."""
    return [match.span() for match in _pattern().finditer(text)]


def find_words(text: str, words: Sequence[str]) -> list[tuple[int, int]] | None:
    """Start and end of each of these words in a text that contains them in this order; None in another text."""
    places, end = [], 0
    for word in words:
        start = text.find(word, end)
        if start < 0:
            return None
        end = start + len(word)
        places.append((start, end))
    return places


@cache
def _pattern() -> re.Pattern[str]:
    # \w lacks combining characters: separate accents, vowel signs of Indic scripts
    categories = {char: unicodedata.category(char) for char in map(chr, range(sys.maxunicode + 1))}
    marks = "".join(char for char, kind in categories.items() if kind[0] == "M")
    unseen = "".join(char for char, kind in categories.items() if kind in ("Cf", "Cc"))
    run = rf"\w[\w{marks}]*(?:\u00ad[\w{marks}]+)*"  # a soft hyphen is inside a word
    joined = rf"(?!['’]s\b)[-.'’\u200c\u200d]{run}"
    other = rf"[^\s{unseen}][{marks}\U0001f3fb-\U0001f3ff]*"
    return re.compile(rf"(?:[^\W\d_]\.){{2,}}|{run}(?:{joined})*|(?<=[\w.])['’]s\b|{other}(?:\u200d{other})*")


SPAN_COLUMNS = ("entities", "spans", "label", "labels", "annotations")  # usual names of columns of spans
NAMES = ("label", "type", "entity", "entity_group", "tag")  # of the type, in a mapping


def words_and_tags(table: TagTable, text_column: str, span_column: str, notes: list[str]) -> TagTable:
    """A table whose columns `words` and `tags` are those of its texts and spans; other lists for words are left out."""
    counts: Counter[str] = Counter()
    words: list[list[str]] = []
    tags: list[list[str]] = []
    for row, (text, spans) in enumerate(zip(table.columns[text_column], table.columns[span_column], strict=True)):
        place = table.origins.place(row)
        if not isinstance(text, str):
            raise DataError(f"{place}: the text is {text!r}; expected a string.")
        places = split_words(text)
        words.append([text[start:end] for start, end in places])
        tags.append(tags_of_spans(text, places, spans or (), place, counts))
    notes.append(f"texts: column {text_column!r}; spans by characters: column {span_column!r}.")
    notes += [f"{table.origins.source}: {count} {what}." for what, count in counts.items()]
    columns = {name: values for name, values in table.columns.items() if name not in (text_column, span_column)}
    return replace(table, columns={**columns, "words": words, "tags": tags})


def tags_of_spans(
    text: str, places: Sequence[tuple[int, int]], spans: Sequence[Any], place: str, counts: Counter[str]
) -> list[str]:
    """BIO tags of words by the spans of their text.

    Args:
        places: start and end of each word.
        place: of the row, for messages.
        counts: spans that are not those of whole words are counted here.

    Raises:
        DataError: a span outside of the text, or of another form.
    """
    tags = ["O"] * len(places)
    for start, end, kind in sorted((_span(span, place) for span in spans), key=lambda span: (span[0], -span[1])):
        if not 0 <= start < end <= len(text):
            raise DataError(
                f"{place}: the span {start} to {end} of type {kind!r} is not in the text, which has {len(text)} "
                "characters. Count characters from 0; `end` is the one after the last."
            )
        inside = [i for i, (first, last) in enumerate(places) if first < end and last > start]
        if not inside:
            counts["spans without a word left out"] += 1
        elif any(tags[i] != "O" for i in inside):
            counts["spans that overlap others left out: a word has one tag"] += 1
        else:
            begin, stop = start + _blanks(text[start:end]), start + len(text[start:end].rstrip())
            if (places[inside[0]][0], places[inside[-1]][1]) != (begin, stop):
                counts["spans begin or end inside a word: they are read as spans of whole words"] += 1
            for i in inside:
                tags[i] = f"{'B' if i == inside[0] else 'I'}-{kind}"
    return tags


def differ(table: TagTable, text: str, words: str, tags: str, spans: str) -> bool:
    """True if spans by characters say something else than the tags beside them, as in corrected predictions."""
    columns = table.columns
    names = table.classes.get(tags)
    for row, (of_row, given, tagged, found) in enumerate(
        zip(columns[text], columns[words], columns[tags], columns[spans], strict=True)
    ):
        if not isinstance(of_row, str) or not isinstance(given, list) or not isinstance(tagged, list):
            return False
        places = find_words(of_row, [*map(str, given)])
        if places is None:
            return False
        of_spans = tags_of_spans(of_row, places, found or (), table.origins.place(row), Counter())
        if not are_alike(of_spans, [names[tag] if names else str(tag) for tag in tagged]):
            return True
    return False


def are_alike(tags: Sequence[str], others: Sequence[str]) -> bool:
    """True if tags give each word the same type, and begin spans at the same words, in any scheme."""
    return _kinds(tags) == _kinds(others)


def _kinds(tags: Sequence[str]) -> list[tuple[str, bool]]:
    """Type of each word, and whether a span begins there, in any scheme."""
    return [(tag.partition("-")[2], tag[:2] in ("B-", "S-", "U-")) for tag in tags]


def _blanks(text: str) -> int:
    return len(text) - len(text.lstrip())


def _span(span: Any, place: str) -> tuple[int, int, str]:
    """Start, end and type."""
    try:
        if isinstance(span, dict):
            start = span["start_offset"] if "start_offset" in span else span["start"]
            end = span["end_offset"] if "end_offset" in span else span["end"]
            kind = next((span[name] for name in NAMES if span.get(name) is not None), None)
            kind = span["labels"][0] if kind is None else kind
        else:
            start, end, kind = span[:3]
        return int(start), int(end), str(kind)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError(
            f"{place}: {str(span)[:60]!r} is no span; expected [start, end, type], or a mapping with start, end and "
            "label."
        ) from error
