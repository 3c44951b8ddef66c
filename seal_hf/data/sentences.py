"""Sentences: words with their places in a text, perhaps tags. They come from texts, which are split into words; from
spans of a text by characters, as annotation tools write them, which become BIO tags; and from rows with fields.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ..utils.messages import closest, did_you_mean
from .common import DataError, Origins
from .label_cells import parsed

USUAL = {
    "word_column": ("words", "tokens", "tokenized_text"),
    "tag_column": ("tags", "ner_tags", "pos_tags", "labels", "ner", "word_labels"),
}
TEXTS = ("text", "sentence")  # fields that may hold a text in place of words
SPAN_COLUMNS = ("entities", "spans", "label", "labels", "annotations", "ner")  # usual names of fields of spans
MORE = {  # what is said of a field that is missing
    "tag_column": " Spans by characters in entities, label or spans, as [[start, end, type]], are read, too.",
    "predicate": " It is the index of a word in its sentence, from 0.",
}
NAMES = ("label", "type", "entity", "entity_group", "tag")  # of the type, in a mapping


@dataclass
class Sentence:
    """T words.

    Attributes:
        words: T strings.
        text: the raw text, or the words joined by blanks.
        own_places: T pairs (start, end): `text[start:end]` is the word; None for words joined by blanks.
        where: file and line, for messages.
        kept: what an output repeats of the input: the fields of a JSON object; for other rows `line`, the number of
            the first line.
        lines: T lines of columns, from the input or the words; an output adds the tags.
        before: lines of columns before these without words, such as comments.
        separator: between columns.
        features: name -> T strings.
        predicate: the index of the predicate among the words.
        gold: T names of gold tags.
    """

    words: list[str]
    text: str
    own_places: list[tuple[int, int]] | None
    where: str
    kept: dict[str, Any]
    lines: list[str]
    before: list[str] = field(default_factory=list)
    separator: str = "\t"
    features: dict[str, list[str]] = field(default_factory=dict)
    predicate: int | None = None
    gold: list[str] | None = None

    @classmethod
    def of_words(cls, words: list[str], where: str, kept: dict[str, Any], lines: list[str], **more: Any) -> Sentence:
        """A sentence of words joined by blanks."""
        return cls(words, " ".join(words), None, where, kept, lines, **more)

    @property
    def places(self) -> list[tuple[int, int]]:
        """T pairs (start, end): `text[start:end]` is the word."""
        if self.own_places is not None:
            return self.own_places
        ends = accumulate(len(word) + 1 for word in self.words)
        return [(end - 1 - len(word), end - 1) for end, word in zip(ends, self.words, strict=True)]


# --- a split ----------------------------------------------------------------------------------------------------------

Rows = dict[str, Any]  # column -> a value per sentence: lists of strings, `predicate` an int; and `Origins`
ORIGINS = "@origins"  # the key of `Origins`: no column has this name
PREDICATE = "predicate"


def collected(sentences: Iterable[Sentence], source: Any) -> Rows:
    """The sentences of a file by column: `words`, `tags`, the features, and `predicate` if there is one; with the lines
    where they begin."""
    rows: Rows = {"words": [], "tags": []}
    lines: list[int] = []
    for one in sentences:
        of_role = {} if one.predicate is None else {PREDICATE: one.predicate}
        for name, value in {"words": one.words, "tags": one.gold, **one.features, **of_role}.items():
            rows.setdefault(name, []).append(value)
        lines.append(one.kept["line"])
    return rows | {ORIGINS: Origins(str(source), lines=np.array(lines, dtype=np.int64))}


def take(rows: Rows, ids: Iterable[int]) -> Rows:
    """The rows with these ids, in this order."""
    ids = list(ids)
    columns = {name: [values[i] for i in ids] for name, values in rows.items() if name != ORIGINS}
    return columns | {ORIGINS: rows[ORIGINS].take(ids)}


def taken(splits: Mapping[str, Rows], parts: Mapping[str, tuple[str, np.ndarray]]) -> dict[str, Rows]:
    """The splits that [`complete_splits`] makes of the splits that were read."""
    whole = {split: len(rows["words"]) for split, rows in splits.items()}
    return {
        split: splits[key] if len(ids) == whole[key] else take(splits[key], ids) for split, (key, ids) in parts.items()
    }


# --- words of texts ---------------------------------------------------------------------------------------------------


def sentence_of_text(text: str, where: str, kept: dict[str, Any]) -> Sentence:
    """The sentence of a raw text; `where` and `kept` as in [`Sentence`]."""
    places = split_words(text)
    words = [text[start:end] for start, end in places]
    return Sentence(words, text, places, where, kept, words)


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


# --- spans by characters ----------------------------------------------------------------------------------------------


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
    read = [_span(span, place) for span in spans]
    if of_utf16 := _of_utf16(text, places, read):
        read = of_utf16
        counts["rows count characters as UTF-16 does, an emoji as two: their spans are read so"] += 1
    for span, (start, end, _) in zip(spans, read, strict=True):
        own = next((span[name] for name in ("text", "word") if isinstance(span, dict) and span.get(name)), None)
        if isinstance(own, str) and own.strip() != text[start:end].strip():
            counts["spans have another text than that of their characters"] += 1
    for start, end, kind in sorted(read, key=lambda span: (span[0], -span[1])):
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


def _of_utf16(
    text: str, places: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int, str]]
) -> list[tuple[int, int, str]] | None:
    """The spans of a tool that counts characters as JavaScript does, in our count; None if more of them are those of
    words as they are."""
    if text.isascii() or max(text) <= "\uffff":
        return None
    place_of = {end: i for i, end in enumerate(accumulate((1 + (char > "\uffff") for char in text), initial=0))}
    found = [(place_of.get(start, -1), place_of.get(end, -1), kind) for start, end, kind in spans]
    of_words, of_utf16 = ([_are_at([span[:2]], places) for span in some] for some in (spans, found))
    return found if sum(of_utf16) > sum(of_words) and all(min(span[:2]) >= 0 for span in found) else None


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


# --- rows with fields -------------------------------------------------------------------------------------------------


class Needs(NamedTuple):
    """What a task-net reads beside the words of a sentence.

    Attributes:
        features: columns with a string per word.
        predicate: True if it tags the roles of a given predicate.
        tags: the names of its tags if gold tags are read; else empty.
    """

    features: Sequence[str] = ()
    predicate: bool = False
    tags: Sequence[str] = ()


class SentenceRows:
    """Makes sentences of rows with fields, of tables and of JSON: to train, to evaluate and to predict.

    A row has a list of strings in `words` or `tokens`, or a string in `text`, which is split; perhaps `predicate`, the
    place of a word; lists of features; and gold tags: a list of names or ids, or spans of the text by characters. Spans
    beside tags that say something else are read in their place, as in corrected predictions.

    Args:
        needs: what is read beside the words.
        head: gives the first rows, which tell whether a field holds spans.
        word_column, tag_column: names of fields; None: the usual ones.
        trained: `word_column` and `tag_column` of training, which are read if they are not given and the row has them.
        classes: field -> names of its ids.

    Attributes:
        counts: what is said of the rows that were read -> how often.
        found: the fields of words and tags that were read.
    """

    def __init__(
        self,
        needs: Needs,
        head: Callable[[], Iterable[Mapping[str, Any]]],
        word_column: int | str | None = None,
        tag_column: int | str | None = None,
        trained: Mapping[str, Any] | None = None,
        classes: Mapping[str, Sequence[str]] | None = None,
    ):
        self.needs, self.word_column, self.tag_column = needs, word_column, tag_column
        self._head, self._trained, self._classes = head, trained or {}, classes or {}
        self.counts: Counter[str] = Counter()
        self.found: dict[str, str] = {}

    def sentence(self, row: dict[str, Any], where: str) -> Sentence | None:
        """The sentence of a row at this place; None without words.

        Raises:
            DataError: a field is missing, or does not fit the words.
        """
        name = self._field(row, "word_column", self.word_column, (*USUAL["word_column"], *TEXTS), where)
        value, text = row[name] if name in TEXTS else listed(row[name], where), row.get("text")
        spans = self._spans if self.needs.tags else None
        if isinstance(value, str) and self.needs.tags and spans is None:
            value = self._split(row, value, where)
        if isinstance(value, str):
            if self.needs.features or self.needs.predicate or (self.needs.tags and spans is None):
                raise DataError(
                    f"{where}: `{name}` is a string, but other fields have a value per word. Split it, or give spans "
                    "by characters in entities, label or spans: [[start, end, type]]."
                )
            sentence = sentence_of_text(value, where, row)
        else:
            words = _strings(value, name, where)
            sentence = Sentence.of_words(words, where, row, words)
            if text not in (None, sentence.text):
                places = find_words(text, words) if isinstance(text, str) else None
                if places is None:
                    raise DataError(f"{where}: `text` lacks the words of `{name}` in their order. Remove or rename it.")
                sentence.text, sentence.own_places = text, places
        size = len(sentence.words)
        if not size:
            return None
        for feature in self.needs.features:
            self._field(row, feature, feature, (), where)
            sentence.features[feature] = _strings(listed(row[feature], where), feature, where, size)
        if self.needs.predicate:
            place = row[self._field(row, "predicate", "predicate", (), where)]
            whole = re.fullmatch(r"\s*[0-9]+(\.0+)?\s*", str(place)) is not None  # pandas writes 2.0, and csv texts
            if not whole or int(float(place)) >= size:
                raise DataError(
                    f"{where}: `predicate` is {place!r}; it must be the place of one of {size} words, counted from 0. "
                    "Leave out rows without a predicate, and give a row for each of several."
                )
            sentence.predicate = int(float(place))
        if self.needs.tags:
            sentence.gold = self._gold(sentence, row, spans, isinstance(value, str))
        return sentence

    def _gold(self, sentence: Sentence, row: dict[str, Any], spans: str | None, split: bool) -> list[str]:
        """The tags of a row: its own, or those of its spans."""
        where = sentence.where
        tags = None if split else self._tags(row, spans is None, where)
        if tags is None:
            self.found["spans"] = str(spans)
            return self._of_spans(sentence, row.get(str(spans)) or (), None if split else self.in_words, self.counts)
        values = _tags_in(row[tags], where)
        for word, tag in zip(sentence.words, values if isinstance(values, list) else (), strict=False):
            if tag is None or (isinstance(tag, int) and tag < 0):
                raise DataError(
                    f"{where}: the tag of {word!r} is {tag!r}; expected a name, or an id of a class from 0 on. Give "
                    "whole words, before a tokenizer cuts them, and leave out words and splits without tags."
                )
        given = _strings(values, tags, where, len(sentence.words))
        if names := self._classes.get(tags):
            last = len(names) - 1
            wrong = [i for i in values if not isinstance(i, int) or not 0 <= i <= last]
            if wrong:
                raise DataError(f"{where}: `{tags}` holds {wrong[0]!r}; its classes are 0 to {last}.")
            given = [names[i] for i in values]
        if spans is None or self.tag_column is not None or not isinstance(row.get("text"), str):
            return given
        of_spans = self._of_spans(sentence, row.get(spans) or (), self.in_words, Counter())
        if are_alike(of_spans, given):
            return given
        self.counts[f"rows whose {spans} differ from their tags: the {spans} are read"] += 1
        return of_spans

    def _split(self, row: dict[str, Any], text: str, where: str) -> str | list[str]:
        """The words of a text that has its tags in a text, too, such as `B-PER O` or `B-PER,O`; else the text."""
        name = self._tags(row, False, where)
        tags = None if name is None else _tags_in(row[name], where)
        if not isinstance(tags, list):
            return text
        if len(words := text.split()) != len(tags):
            raise DataError(
                f"{where}: {len(words)} words with blanks between them, but {len(tags)} tags in `{name}`. Give lists "
                "of words and tags, in .jsonl or .parquet."
            )
        return words

    def _of_spans(self, sentence: Sentence, spans: Sequence[Any], last: int | None, counts: Counter[str]) -> list[str]:
        """The tags of spans by characters; by words, if `last` is not None, see [`SentenceRows.in_words`]."""
        if last is None:
            return tags_of_spans(sentence.text, sentence.places, spans, sentence.where, counts)
        size = len(sentence.words)
        counts[f"rows have spans by words, whose end is {'the last word' if last else 'after the last word'}"] += 1
        found = [(start, end + last, kind) for start, end, kind in (_span(span, sentence.where) for span in spans)]
        return tags_of_spans("-" * size, [(i, i + 1) for i in range(size)], found, sentence.where, counts)

    @cached_property
    def in_words(self) -> int | None:
        """What to add to the ends of spans that count words; None for those that count characters: some end beyond the
        number of words, or all begin and end with words of their texts."""
        rows = [row for row in self._head() if row.get(self._spans or "")]
        words: list[Any] = [row.get(self.found["word_column"]) for row in rows]
        if not rows or not all(isinstance(each, list) for each in words):
            return None
        spans = [[_span(span, "")[:2] for span in row[str(self._spans)]] for row in rows]
        if any(end > len(each) for each, some in zip(words, spans, strict=True) for _, end in some):
            return None
        texts = (row["text"] if isinstance(row.get("text"), str) else "" for row in rows)
        places = map(find_words, texts, words)
        if all(map(_are_at, spans, places)):
            return None
        return int(any(start == end for some in spans for start, end in some))

    def _tags(self, row: dict[str, Any], needed: bool, where: str) -> str | None:
        """The field of tags; None without one that is `needed`."""
        known = (self._trained.get("tag_column"), *USUAL["tag_column"])
        if not needed and not any(name in row for name in known) and self.tag_column is None:
            return None
        name = self._field(row, "tag_column", self.tag_column, USUAL["tag_column"], where)
        return None if name == self._spans else name

    @cached_property
    def _spans(self) -> str | None:
        """The field of spans by characters; None without one."""
        known = (str(self._trained.get("tag_column")), *SPAN_COLUMNS)
        names = (self.tag_column,) if isinstance(self.tag_column, str) else known
        rows = [*self._head()]
        empty = (name for name in names if rows and all(row.get(name) == [] for row in rows))
        return next((name for name in names if are_spans([row.get(name) for row in rows])), next(empty, None))

    def _field(
        self, row: dict[str, Any], option: str, given: int | str | None, usual: Sequence[str], where: str
    ) -> str:
        """The name of the field in a row."""
        if isinstance(given, int):
            raise DataError(f"{where}: `{option}` is {given}; the fields have names: {', '.join(row)}.")
        trained = self._trained.get(option) if given is None else None
        wanted = (given,) if given is not None else (trained, *usual) if isinstance(trained, str) else usual
        name = next((name for name in wanted if name in row), None)
        if name not in (None, trained) and isinstance(trained, str):
            self.counts[f"rows lack the field {trained!r} of training: {name!r} is read"] += 1
        if name is None:
            known = f"`{option}` is {given!r}, but " if given is not None and usual else ""
            close = closest(wanted[0], row)
            if usual and given is None:
                hint = f" Name the right one by `{option}` (--{option})."
            elif given == option:  # no column was asked for: the field has this name
                hint = f" Rename {close!r} to {given!r}." if close else ""
            else:
                hint = did_you_mean(wanted[0], row)
            hint += MORE.get(option, "")
            raise DataError(
                f"{where}: {known}the row has the fields {', '.join(row) or 'none'}; expected {' or '.join(wanted)}."
                f"{hint}"
            )
        self.found[option] = name
        return name


def _are_at(spans: Sequence[tuple[int, int]], places: Sequence[tuple[int, int]] | None) -> bool:
    """True if spans of characters begin and end with words at these places."""
    begins, ends = zip(*places or [(-1, -1)], strict=True)
    return all(start in begins and end in ends for start, end in spans)


def listed(value: Any, where: str) -> Any:
    """A list that is written as a text, as pandas does in a csv; other values unchanged."""
    is_list = isinstance(value, str) and value.strip().startswith("[") and value.strip().endswith("]")
    return parsed(value.strip(), where) if is_list else value


def _tags_in(value: Any, where: str) -> Any:
    """Tags as a list, also of a text with blanks or commas between them."""
    value = listed(value, where)
    return re.split(r"[\s,]+", value.strip()) if isinstance(value, str) else value


def _strings(value: Any, name: str, where: str, size: int | None = None) -> list[str]:
    """A list of `size` strings; numbers, such as ids of tags, become strings."""
    odd = [item for item in value if not isinstance(item, (str, int))] if isinstance(value, list) else [value]
    if odd:
        raise DataError(
            f"{where}: `{name}` {'holds' if isinstance(value, list) else 'is'} {str(odd[0])[:40]!r}; expected a list "
            "of strings. Leave out such words with their tags."
        )
    if size is not None and len(value) != size:
        raise DataError(f"{where}: {size} words, but {len(value)} values in `{name}`; it must have one per word.")
    return [str(item) for item in value]
