"""Sentences to tag, and sentences with gold tags for evaluation, read one at a time.

Six kinds of files:
* `.jsonl` and `.json`, an object per line or an array of them: a list of strings in `words` or `tokens`, or a string
  in `text`, which is split as in `spans.py`; perhaps `predicate`, the place of a word, lists of features, and gold
  tags; rows without words are left out;
* `.parquet` and folders of `save_to_disk`, whose columns are the same fields;
* `.csv`, with a string in `text` or in the column that is named; or, as `.tsv`, with a word in each row and the name of
  its sentence;
* `.txt`, a text per line, split likewise; empty lines are left out;
* bracket columns of semantic roles (`srl.py`) for a model that reads predicates, with or without the roles;
* else columns (`columns.py`), which are also read from a `.txt` where the column of the words is named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple

from ..core.tag_schemes import convert, scheme_of, scheme_of_model
from ..utils.messages import did_you_mean, few
from .column_values import LOOKED_AT
from .columns import ColumnFile, bracket_tags, in_brackets, lines_of
from .common import DataError
from .exports import plain_rows
from .line_files import JSON, json_objects
from .name_files import LABEL_LIST, names_beside
from .row_tables import Chunk, LineTable
from .spans import SPAN_COLUMNS, are_alike, find_words, split_words, tags_of_spans
from .srl import WORD, role_sentences
from .table_sources import FILES, chosen_split, is_stored, open_table, table_files
from .tag_files import MARK, has_rows, is_references, split_files
from .tag_tables import USUAL, are_spans, is_long, sentence_rows

OTHERS = (".npz",)
TABLES = (".parquet", ".csv")


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


@dataclass
class Sentence:
    """T words.

    Attributes:
        words: T strings.
        text: the raw text, or the words joined by blanks.
        places: T pairs (start, end): `text[start:end]` is the word.
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
    places: list[tuple[int, int]]
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
        ends = list(accumulate(len(word) + 1 for word in words))
        places = [(end - 1 - len(word), end - 1) for end, word in zip(ends, words, strict=True)]
        return cls(words, " ".join(words), places, where, kept, lines, **more)


class SentenceFile:
    """A [`Reader`] of the sentences of a file: `inputs` are [`Sentence`]s, `gold` their lists of tags.

    Args:
        path: see the module.
        needs: of the task-net.
        word_column, tag_column: numbers of columns, negative ones from the last, or names of JSON fields. Default for
            words: the first column, or the usual names. Default for tags: the last column, or the usual names, if gold
            tags are needed, else none.
        split: the one to read of a folder; default: `usual`, or the only one.
        trained: `word_column` and `tag_column` of training, which are read if they are not given and the file has them.

    Attributes:
        columns: the JSON fields of all rows, without the sentences' own `text` and `words`; empty for other files.
        total: the number of sentences. Both attributes read the file.
        notes: what is left out of the file, with counts, after these have been read.

    Raises:
        DataError: tells what is wrong, where, and what to do: the file does not exist, is empty or of another kind; a
            column or field is missing; no row has words; the task-net lacks most of the gold tags.
    """

    def __init__(
        self,
        path: Path,
        needs: Needs,
        word_column: int | str | None = None,
        tag_column: int | str | None = None,
        split: str | None = None,
        usual: str = "test",
        trained: Mapping[str, Any] | None = None,
    ):
        if not path.exists():
            raise DataError(f"{path}: no such file.")
        self.notes = []
        if path.is_dir() and not (table_files(path, FILES) or is_stored(path)):  # of columns
            files = split_files(path, [])
            file = files[chosen_split(list(files), split, str(path), usual)]
            self.notes = [f"{path} is a folder: the sentences of {file.name}."]
            path, split = file, None
        self._suffix = path.suffix.lower()
        is_table = path.is_dir() or self._suffix in TABLES or (self._suffix == ".tsv" and has_rows(path))
        self.table = open_table(str(path), split, usual=usual) if is_table or split is not None else None
        if self.table is None and (self._suffix in OTHERS or is_references(path)):
            found = f"references with {MARK}" if self._suffix not in OTHERS else f"files of type {self._suffix}"
            raise DataError(
                f"{path}: {found} are not read here. Give columns, .txt with a text per line, .jsonl, .csv or .parquet."
            )
        if self._suffix == ".srl" and not needs.predicate and word_column is None:
            raise DataError(
                f"{path}: a file of semantic roles, but the model does not read predicates. To tag its words, give "
                f"--word_column {WORD}."
            )
        self.path, self.needs, self._left_out = path, needs, list[str]()
        self.notes += [self.table.note] if self.table is not None and self.table.note else []
        self.word_column, self.tag_column = _column(word_column), _column(tag_column)
        self._trained = {name: _column(column) for name, column in (trained or {}).items()}
        self._scheme = scheme_of_model(needs.tags)
        self._unknown: Counter[str] = Counter()  # gold tags that the task-net lacks
        self._spans: Counter[str] = Counter()  # spans that are not those of whole words
        self._known = 0  # other gold tags than O

    @property
    def _span_fields(self) -> Sequence[str]:
        """The fields that may hold spans by characters."""
        return (self.tag_column,) if isinstance(self.tag_column, str) else SPAN_COLUMNS

    @property
    def _has_fields(self) -> bool:
        """True if a row has fields by name."""
        return self.table is not None or self._suffix in JSON

    @property
    def _is_long(self) -> bool:
        """True if a row of the table is a word."""
        return isinstance(self.table, LineTable) and self._suffix not in JSON and is_long(self.table.columns)

    @property
    def columns(self) -> Sequence[str]:
        return self._read[0]

    @property
    def total(self) -> int:
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[list[str], int]:
        fields: dict[str, None] = {}
        count = 0
        for sentence in self:
            count += 1
            own = {"text": sentence.text, "words": sentence.words}
            kept = sentence.kept if self._has_fields else {}
            fields.update((name, None) for name, value in kept.items() if own.get(name) != value)
        self.notes += self._left_out
        if self._unknown:
            self.notes.append(
                f"{self.path.name}: {self._unknown.total()} words count as wrong, since the model does not know their "
                f"tags: {few(sorted(self._unknown))}."
            )
        return list(fields), count

    def chunks(self, size: int) -> Iterator[Chunk]:
        """All sentences, `size` at a time."""
        sentences = iter(self)
        while part := list(islice(sentences, size)):
            gold = [sentence.gold for sentence in part] if self.needs.tags else None
            yield Chunk([sentence.kept for sentence in part], part, gold)

    def __iter__(self) -> Iterator[Sentence]:
        found, is_text = False, self._suffix == ".txt" and self.word_column is None and not self.needs.tags
        rows = self._texts if is_text else self._roles if self.needs.predicate else self._columns
        self._unknown.clear()
        self._known, first = 0, ""
        for sentence in self._objects() if self._has_fields else rows():
            found = True
            if sentence.gold is not None:
                sentence.gold = self._counted(sentence)
                first = first or (sentence.where if self._unknown else "")
            yield sentence
        if not found:
            raise DataError(f"{self.path}: no sentence. Give at least one.")
        if self._unknown.total() > self._known:
            tag = next(iter(self._unknown))
            raise DataError(
                f"{first}: the model does not know the tag {tag!r}; it has {few(self.needs.tags)}."
                f"{did_you_mean(tag, self.needs.tags)} So it is with most of the tags. Is it the right column "
                "(--tag_column), or the right model?"
            )

    def _counted(self, sentence: Sentence) -> list[str]:
        """The gold tags in the task-net's scheme."""
        gold = list(sentence.gold or ())
        if self._names and all(tag.isdigit() and int(tag) < len(self._names) for tag in gold):
            gold = [self._names[int(tag)] for tag in gold]
        if self._scheme != "plain" and scheme_of(gold) != "plain":
            gold = convert(gold, self._scheme)
        unknown = [tag for tag in gold if tag not in self.needs.tags]
        self._unknown.update(unknown)
        self._known += len(gold) - len(unknown) - gold.count("O")
        return gold

    @cached_property
    def _names(self) -> list[str]:
        """Names of gold tags that are ids, from a file beside the data; empty for a model whose tags are numbers."""
        found = None if any(map(str.isdigit, self.needs.tags)) else names_beside(self.path, (LABEL_LIST,))
        return [] if found is None else found[0]

    # --- raw text ----------------------------------------------------------------------------------------------------

    def _texts(self) -> Iterator[Sentence]:
        self._refuse_needs("lines of text have none. Give columns, or .jsonl with such a field")
        empty, inner, count, lengths = 0, 0, 0, set[int]()
        for number, text in enumerate(lines_of(self.path), start=1):
            if not text.strip():
                empty += 1
                continue
            count, inner = count + 1, empty
            lengths |= {len(text.split())} - {0} if not text.startswith("#") else set()
            yield sentence_of_text(text, f"{self.path}, line {number}", {"line": number})
        self._left_out = [f"{self.path.name}: {empty} empty lines left out."] if empty else []
        if inner and count > 2 and len(lengths) == 1 and lengths != {1}:  # empty lines between others
            said = f"each line was read as a sentence, but all have {lengths.pop()} words, as lines of columns have"
            self._left_out.append(f"{self.path.name}: {said}. If they are, name the column of words: --word_column 0.")

    def _refuse_needs(self, why: str) -> None:
        needed = ["`predicate`"] * self.needs.predicate + [f"the column `{name}`" for name in self.needs.features]
        if needed:
            raise DataError(f"{self.path}: the model reads {' and '.join(needed)} beside the words, and {why}.")

    # --- columns -----------------------------------------------------------------------------------------------------

    def _columns(self) -> Iterator[Sentence]:
        gold = bool(self.needs.tags)
        file = self._column_file(gold)
        for name in self.needs.features:
            if name not in file.columns:
                raise DataError(
                    f"{self.path}: the model reads the column `{name}`, but the file has {', '.join(file.columns)}. "
                    "Name its column of words (--word_column), and of tags (--tag_column), if any, counting from 0."
                )
        self._left_out = list(file.notes_on_columns)
        for sentence in file:
            values = file.values(sentence)
            number, lines = sentence.lines[0].number, [line.text for line in sentence.lines]
            features = {name: values[name] for name in self.needs.features}
            more = {"before": sentence.before, "separator": file.separator or " ", "features": features}
            if gold:
                more["gold"] = bracket_tags(values["tags"]) if in_brackets(values["tags"]) else values["tags"]
            yield Sentence.of_words(values["words"], f"{self.path}, line {number}", {"line": number}, lines, **more)

    def _column_file(self, gold: bool) -> ColumnFile:
        """The file by the columns that are named; else by those of training, if it has them."""
        word, tag = self.word_column, self.tag_column
        usual = 0 if word is None else word, -1 if tag is None and gold else tag
        trained = self._trained.get("word_column"), self._trained.get("tag_column") if gold else None
        if (word, tag) != (None, None) or trained == (None, None):
            return ColumnFile(self.path, *usual)
        chosen = [own if own is not None else other for own, other in zip(trained, usual, strict=True)]
        try:
            return ColumnFile(self.path, *chosen)  # type: ignore[arg-type]
        except DataError as error:
            file = ColumnFile(self.path, *usual)
            columns = " and ".join(f"{name} {column!r}" for name, column in self._trained.items())
            file.notes_on_columns.append(f"{self.path.name}: not the columns of training ({columns}) are read: {error}")
            return file

    def _roles(self) -> Iterator[Sentence]:
        gold, sentences, without, no_verb = bool(self.needs.tags), 0, 0, 0
        for sentence in role_sentences(self.path, gold):
            words, number = sentence.words, sentence.lines[0].number
            sentences, without = sentences + 1, without + (not sentence.propositions)
            for tags, place in sentence.propositions:
                if place is None:
                    no_verb += 1
                    continue
                frame, roles = sentence.layout.frame, sentence.layout.roles
                empty = [sentence.layout.empty] * (roles - frame)
                cells = [[*line.cells[:frame], *empty] for line in sentence.lines]
                cells[place][frame:] = sentence.lines[place].cells[frame:roles]
                yield Sentence.of_words(
                    words,
                    f"{self.path}, line {number}",
                    {"line": number},
                    ["\t".join(row) for row in cells],
                    features={name: sentence.pos for name in self.needs.features if name == "pos"},
                    predicate=place,
                    gold=tags if gold else None,
                )
        counts = (without, f"of {sentences} sentences without a predicate"), (no_verb, "propositions without V")
        self._left_out = [f"{self.path.name}: {count} {what} left out." for count, what in counts if count]

    # --- JSON --------------------------------------------------------------------------------------------------------

    def _objects(self) -> Iterator[Sentence]:
        empty = 0
        self._spans.clear()
        for row, where in self._rows():
            sentence = self._object(row, where)
            if sentence is None:
                empty += 1
            else:
                yield sentence
        self._left_out = [f"{self.path.name}: {empty} rows without words left out."] if empty else []
        self._left_out += [f"{self.path.name}: {count} {what}." for what, count in self._spans.items()]

    def _rows(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Rows with fields, and their places for messages."""
        if self.table is not None:
            for number, row in sentence_rows(self.table) if self._is_long else self.table:
                yield row, self.table.place(number)
            return
        for number, row in plain_rows(json_objects(self.path), str(self.path), Counter()):
            yield row, f"{self.path}, line {number}"

    def _object(self, row: dict[str, Any], where: str) -> Sentence | None:
        """None without words."""
        name = self._field(row, "word_column", self.word_column, (*USUAL["word_column"], "text"), where)
        value, text = row[name], row.get("text")
        if isinstance(value, str):
            if name in USUAL["word_column"] and value.lstrip().startswith("["):
                raise DataError(
                    f"{where}: `{name}` holds {value[:30]!r}, a list as text. Give lists in .jsonl or .parquet, or the "
                    "raw text in a column `text`."
                )
            spans = next((key for key in self._span_fields if are_spans([row.get(key)])), None)
            spans = spans or next((key for key in self._span_fields if row.get(key) == []), None)
            if self.needs.features or self.needs.predicate or (self.needs.tags and spans is None):
                raise DataError(
                    f"{where}: `{name}` is a string, but other fields have a value per word. Split it, or give spans "
                    "by "
                    "characters in entities, label or spans: [[start, end, type]]."
                )
            sentence = sentence_of_text(value, where, row)
            if self.needs.tags and spans is not None:
                sentence.gold = tags_of_spans(value, sentence.places, row[spans], where, self._spans)
        else:
            words = _strings(value, name, where)
            sentence = Sentence.of_words(words, where, row, words)
            if text not in (None, sentence.text):
                places = find_words(text, words) if isinstance(text, str) else None
                if places is None:
                    raise DataError(f"{where}: `text` lacks the words of `{name}` in their order. Remove or rename it.")
                sentence.text, sentence.places = text, places
        size = len(sentence.words)
        if not size:
            return None
        for feature in self.needs.features:
            self._field(row, feature, feature, (), where)
            sentence.features[feature] = _strings(row[feature], feature, where, size)
        if self.needs.predicate:
            place = row[self._field(row, "predicate", "predicate", (), where)]
            if not isinstance(place, int) or not 0 <= place < size:
                raise DataError(f"{where}: `predicate` is {place!r}; it must be the index of one of {size} words.")
            sentence.predicate = place
        if self.needs.tags and sentence.gold is None:
            tags = self._field(row, "tag_column", self.tag_column, USUAL["tag_column"], where)
            sentence.gold = _strings(row[tags], tags, where, size)
            if self.table is not None and (names := self.table.label_names(tags)):
                last = len(names) - 1
                wrong = [i for i in row[tags] if not isinstance(i, int) or not 0 <= i <= last]
                if wrong:
                    raise DataError(f"{where}: `{tags}` holds {wrong[0]!r}; its classes are 0 to {last}.")
                sentence.gold = [names[i] for i in row[tags]]
            self._correct(sentence, row)
        return sentence

    def _correct(self, sentence: Sentence, row: dict[str, Any]) -> None:
        """Take the gold tags of spans by characters that say something else than the tags beside them, as in corrected
        predictions."""
        spans = self._corrected
        if spans is None or not isinstance(row.get("text"), str):
            return
        of_spans = tags_of_spans(sentence.text, sentence.places, row.get(spans) or (), sentence.where, Counter())
        if not are_alike(of_spans, sentence.gold or ()):
            sentence.gold = of_spans
            self._spans[f"rows whose {spans} differ from their tags: the {spans} are read"] += 1

    @cached_property
    def _corrected(self) -> str | None:
        """The field of spans beside tags; None without one, and if the field of tags is named."""
        if self.tag_column is not None:
            return None
        rows = [row for row, _ in islice(self._rows(), LOOKED_AT)]
        return next((name for name in SPAN_COLUMNS if are_spans([row.get(name) for row in rows])), None)

    def _field(
        self, row: dict[str, Any], option: str, given: int | str | None, usual: Sequence[str], where: str
    ) -> str:
        """The name of the field in a row."""
        if isinstance(given, int):
            raise DataError(f"{self.path}: `{option}` is {given}; JSON fields have names.")
        trained = self._trained.get(option) if given is None else None
        wanted = (given,) if given is not None else (trained, *usual) if isinstance(trained, str) else usual
        name = next((name for name in wanted if name in row), None)
        if name not in (None, trained) and isinstance(trained, str):
            self._spans[f"rows lack the field {trained!r} of training: {name!r} is read"] += 1
        if name is None:
            known = f"`{option}` is {given!r}, but " if given is not None and usual else ""
            hint = f" Name the right one with --{option}." if usual and given is None else did_you_mean(wanted[0], row)
            raise DataError(
                f"{where}: {known}the row has the fields {', '.join(row) or 'none'}; expected {' or '.join(wanted)}."
                f"{hint}"
            )
        return name


def _column(given: int | str | None) -> int | str | None:
    """A flag's text as a column: `-1` is a number, `tokens` a name."""
    return int(given) if re.fullmatch(r"-?\d+", str(given)) else given  # type: ignore[arg-type]


def sentence_of_text(text: str, where: str, kept: dict[str, Any]) -> Sentence:
    """The sentence of a raw text; `where` and `kept` as in [`Sentence`]."""
    places = split_words(text)
    words = [text[start:end] for start, end in places]
    return Sentence(words, text, places, where, kept, words)


def _strings(value: Any, name: str, where: str, size: int | None = None) -> list[str]:
    """A list of `size` strings; numbers, such as ids of tags, become strings."""
    if not isinstance(value, list) or not all(isinstance(item, (str, int)) for item in value):
        raise DataError(f"{where}: `{name}` is {str(value)[:40]!r}; expected a list of strings.")
    if size is not None and len(value) != size:
        raise DataError(f"{where}: {size} words, but {len(value)} values in `{name}`; it must have one per word.")
    return [str(item) for item in value]
