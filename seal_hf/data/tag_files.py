"""Files of tag sequences: the files that a path means, their readers, and missing splits; and their sentences one at
a time, to tag or to evaluate.

References with inline tags are read here, one after each `<NEWREFERENCE>`, as in the Cora citation data:

    <NEWREFERENCE>
    <author> A. Cau, R. Kuiper. </author> <title> Formalising Dijkstra's strategy. </title> <date> 1992. </date>

A file of lines with such tags has a reference in each, and the XML of AnyStyle one in each `<sequence>`. White space
separates words; punctuation stays with its word. Each field is a span; text outside fields is `O`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from html import unescape
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.tag_schemes import convert, scheme_of, scheme_of_model, split_tag
from ..utils.files import visible
from ..utils.messages import did_you_mean, few
from .column_choice import LOOKED_AT
from .columns import AS_SPANS, ColumnFile, bracket_tags, in_brackets, lines_of, read_columns
from .common import SPLITS, DataError, Origins, find_data
from .exports import STATUS, plain_rows, rejected
from .line_files import JSON, json_objects
from .name_files import LABEL_LIST, is_name_file, names_beside
from .row_tables import Chunk, LineTable, parts
from .sentences import ORIGINS, PREDICATE, Needs, Rows, Sentence, SentenceRows, sentence_of_text, take, taken
from .splits import complete_splits, groups_of
from .srl import COUNTED, WORD, propositions, read_srl
from .table_sources import (
    ALL,
    FILES,
    SPLIT_WORDS,
    Tables,
    by_split,
    chosen_split,
    is_stored,
    open_table,
    table_files,
    tables_of,
)
from .tag_spelling import joined_types, usual_spelling
from .tag_tables import LEFT_OUT, field_of, names_sentences, of_sentences, read_tables

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
    return take(rows | {ORIGINS: Origins(str(path), lines=np.array(lines, dtype=np.int64))}, kept), notes


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


BRAT = f"brat's .ann are not read. {AS_SPANS}"
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
        if any(file.suffix == ".ann" for file in (visible(path) if path.is_dir() else (path,))):
            raise DataError(f"{path}: {BRAT}")
        files = _with_train(split_files(path, notes), path) if path.is_dir() else {ALL: path}
        if not all(has_rows(file, reading.word_column) for file in files.values()):
            return path.stem, dataset, _read_files(files, reading, seed, notes)
        of_splits = {split: file for split, file in files.items() if split in (ALL, *SPLITS)}
        tables = Tables(path.stem, str(path), {split: LineTable(file, "tags") for split, file in of_splits.items()})
    notes += tables.notes
    splits = read_tables(tables.splits, reading.word_column, reading.tag_column, notes, reading.roles)
    if path is not None:
        for rows in splits.values():
            notes += [note for note in _name_ids(rows, path) if note not in notes]
    return tables.name, tables.source, _complete(splits, seed, notes)


def has_rows(file: Path, word_column: Any = None) -> bool:
    """True for JSON and csv, and for a tsv whose header names the sentence of each word."""
    if file.suffix.lower() in (*JSON, ".csv"):
        return True
    with open(file, "rb") as opened:
        first = opened.readline(10_000).decode("utf-8-sig", "replace").rstrip("\r\n")
    return file.suffix.lower() == ".tsv" and names_sentences(first.split("\t"), word_column)


def _read_files(files: dict[str, Path], reading: Reading, seed: int, notes: list[str]) -> dict[str, Rows]:
    """Splits from files of lines; further test sets have the file's name."""
    splits = {}
    for split, file in files.items():
        splits[split], found = _reader_of(file, reading)(file)
        notes += found
        notes += [note for note in _name_ids(splits[split], file) if note not in notes]
    if "all" not in splits or reading.roles or not is_references(files["all"]):
        return _complete(splits, seed, notes)
    without = {"all": np.empty((len(splits["all"]["words"]), 0))}  # no labels to split by
    return taken(splits, complete_splits(without, seed, notes, parts=REFERENCE_PARTS))


def _name_ids(rows: Rows, file: Path) -> list[str]:
    """Names for tags that are ids, from a file beside the data, in place; and a note.

    Raises:
        DataError: the file has too few names.
    """
    tags = {tag for row in rows["tags"] for tag in row}
    named = names_beside(file, (LABEL_LIST,)) if tags and all(map(str.isdigit, tags)) else None
    if named is None:
        return []
    names, of_names = named
    largest = max(map(int, tags))
    if largest < len(names):
        rows["tags"] = [[names[int(tag)] for tag in row] for row in rows["tags"]]
        return [f"names of tags from {of_names}."]
    if tags <= set(names):  # numbers that are names
        return []
    raise DataError(
        f"{file}: {of_names} has {len(names)} names, but id {largest} occurs; ids count from 0. Add the missing names "
        "to it, or correct the tags."
    )


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
    return taken(splits, complete_splits(tags, seed, notes, groups=groups))


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
    found, others = by_split(files, folder, lambda file: file.name)
    for file in others:
        if file.suffix.lower() in COLUMN_SUFFIXES:
            found[file.name] = file
        else:
            notes.append(f"{file.name} is not read: its name contains no split.")
    return found


def _with_train(found: dict[str, Path], folder: Path) -> dict[str, Path]:
    if not found.keys() & {"train", "all"}:
        if any(folder.rglob("*.ann")):
            raise DataError(f"{folder}: {BRAT}")
        names = ", ".join(file.name for file in visible(folder)) or "nothing"
        below = next((file.name for file in visible(folder) if file.is_dir()), None)
        hint = "" if below is None else f" Folders in it, such as {below}/, are not read: join the files of each split."
        raise DataError(
            f"{folder}: no file for the train split, expected {' or '.join(SPLIT_WORDS['train'])} in its name; "
            f"found {names}. A single file, given by its path, is split at random.{hint}"
        )
    return found


# --- sentences one at a time ------------------------------------------------------------------------------------------
# Six kinds of files:
# * `.jsonl` and `.json`, an object per line or an array of them: a list of strings in `words` or `tokens`, or a string
#   in `text`, see [`SentenceRows`]; rows without words are left out;
# * `.parquet` and folders of `save_to_disk`, whose columns are the same fields;
# * `.csv`, with a string in `text` or in the column that is named; or a `.csv`, `.tsv` or one of these tables with a
#   word in each row and the name of its sentence;
# * `.txt`, a text per line, split likewise; empty lines are left out;
# * bracket columns of semantic roles (`srl.py`) for a model that reads predicates, with or without the roles;
# * else columns (`columns.py`), which are also read from a `.txt` where the column of the words is named.

OTHERS = (".npz",)
TABLES = (".parquet", ".csv")


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
        named = column_of(word_column) if word_column is not None else (trained or {}).get("word_column")
        is_table = path.is_dir() or self._suffix in TABLES or (self._suffix == ".tsv" and has_rows(path, named))
        is_table = is_table or split is not None
        self.table = of_sentences(open_table(str(path), split, usual=usual), named) if is_table else None
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
        self.word_column, self.tag_column = self._field(word_column), self._field(tag_column)
        self._trained = {name: self._field(column) for name, column in (trained or {}).items()}
        self._scheme = scheme_of_model(needs.tags)
        self._unknown: Counter[str] = Counter()  # gold tags that the task-net lacks
        self._known = 0  # other gold tags than O

    def _field(self, column: Any) -> Any:
        """A column as the rows of the file have it."""
        column = column_of(column)
        return column if self.table is None else field_of(self.table, column)

    @property
    def _has_fields(self) -> bool:
        """True if a row has fields by name."""
        return self.table is not None or self._suffix in JSON

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
        for part in parts(self, size):
            gold = [sentence.gold for sentence in part] if self.needs.tags else None
            yield Chunk([sentence.kept for sentence in part], part, gold)

    def __iter__(self) -> Iterator[Sentence]:
        found = False
        self._unknown.clear()
        self._known, first = 0, ""
        for sentence in self._sentences():
            found = True
            features = sentence.features
            sentence.features = {name: features[name] for name in self.needs.features if name in features}
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

    def _sentences(self) -> Iterator[Sentence]:
        """The sentences as the file has them."""
        if self._has_fields:
            return self._objects()
        is_text = self._suffix == ".txt" and self.word_column is None and not self.needs.tags
        return self._roles() if self.needs.predicate else self._texts() if is_text else self._columns()

    @cached_property
    def _spelling(self) -> Callable[[list[str]], list[str]]:
        """Rewrites the tags of a sentence as [`load_tags`] does, where the file has another spelling than the
        task-net."""
        names = {tag for sentence in self._sentences() for tag in self._named(sentence.gold or ())}
        changed, note = usual_spelling(names)
        if changed:
            self.notes.append(f"{self.path.name}: {note}")
            return lambda tags: [changed.get(tag, tag) for tag in tags]
        types = {split_tag(tag)[1] for tag in self.needs.tags}
        return joined_types if names - {"O"} and names - {"O"} <= types else list

    def _named(self, gold: Sequence[str]) -> list[str]:
        """Tags that are ids by their names."""
        if self._names and all(tag.isdigit() and int(tag) < len(self._names) for tag in gold):
            return [self._names[int(tag)] for tag in gold]
        return list(gold)

    def _counted(self, sentence: Sentence) -> list[str]:
        """The gold tags in the task-net's scheme."""
        gold = self._named(sentence.gold or ())
        if self._scheme != "plain" and not {*gold} <= {*self.needs.tags}:
            gold = self._spelling(gold)
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
        if self.needs.features:
            raise DataError(
                f"{self.path}: the model reads {' and '.join(f'the column `{name}`' for name in self.needs.features)} "
                "beside the words, and lines of text have none. Give columns, or .jsonl with such a field."
            )
        empty, inner, count, lengths = 0, 0, 0, set[int]()
        for number, text in enumerate(lines_of(self.path), start=1):
            if not text.strip():
                empty += 1
                continue
            count, inner = count + 1, empty
            lengths |= {len(text.split())} - {0} if not text.startswith("#") else set()
            yield sentence_of_text(text, f"{self.path}, line {number}", {"line": number})
        self._left_out = [f"{self.path.name}: {empty} empty line{'s' * (empty != 1)} left out."] if empty else []
        if inner and count > 2 and len(lengths) == 1 and lengths != {1}:  # empty lines between others
            said = f"each line was read as a sentence, but all have {lengths.pop()} words, as lines of columns have"
            self._left_out.append(f"{self.path.name}: {said}. If they are, name the column of words: --word_column 0.")

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
            if not gold:
                sentence.gold = None
            elif in_brackets(sentence.gold or ()):
                sentence.gold = bracket_tags(sentence.gold or ())
            yield sentence

    def _column_file(self, gold: bool) -> ColumnFile:
        """The file by the columns that are named; else by those of training, if it has them."""
        word, tag = self.word_column, self.tag_column
        usual = 0 if word is None else word, -1 if tag is None and gold else tag
        trained = self._trained.get("word_column"), self._trained.get("tag_column") if gold else None
        if (word, tag) != (None, None) or trained == (None, None):
            return ColumnFile(self.path, *usual)
        chosen = [own if own is not None else other for own, other in zip(trained, usual, strict=True)]
        try:
            return ColumnFile(self.path, *chosen)
        except DataError as error:
            file = ColumnFile(self.path, *usual)
            columns = " and ".join(f"{name} {column!r}" for name, column in self._trained.items())
            file.notes_on_columns.append(f"{self.path.name}: not the columns of training ({columns}) are read: {error}")
            return file

    def _roles(self) -> Iterator[Sentence]:
        found = Counter[str]()
        yield from propositions(self.path, bool(self.needs.tags), found)
        sentences, without, no_verb = (found[name] for name in COUNTED)
        counts = (without, f"of {sentences} sentences without a predicate"), (no_verb, "propositions without V")
        self._left_out = [f"{self.path.name}: {count} {what} left out." for count, what in counts if count]

    # --- rows with fields --------------------------------------------------------------------------------------------

    def _objects(self) -> Iterator[Sentence]:
        empty = 0
        classes = {} if self.table is None else self.table.classes

        def head() -> Iterator[dict[str, Any]]:
            return (row for row, _ in islice(self._rows(), LOOKED_AT))

        rows = SentenceRows(self.needs, head, self.word_column, self.tag_column, self._trained, classes)
        first = [*head()] if self.needs.tags else []
        column, words = rejected({name: [row.get(name) for row in first] for name in STATUS}) or ("", ())
        left = 0
        for row, where in self._rows():
            if column and str(row.get(column)).lower() in words:
                left += 1
                continue
            sentence = rows.sentence(row, where)
            if sentence is None:
                empty += 1
            else:
                yield sentence
        self._left_out = [f"{self.path.name}: {empty} row{'s' * (empty != 1)} without words left out."] if empty else []
        self._left_out += [LEFT_OUT.format(source=self.path.name, count=left, column=column)] if left else []
        self._left_out += [f"{self.path.name}: {count} {what}." for what, count in rows.counts.items()]

    def _rows(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Rows with fields, and their places for messages."""
        if self.table is not None:
            for number, row in self.table:
                yield row, self.table.place(number)
            return
        for number, row in plain_rows(json_objects(self.path), str(self.path), Counter()):
            yield row, f"{self.path}, line {number}"


def column_of(given: Any) -> Any:
    """A flag's text as a column: `-1` is a number, `tokens` a name."""
    return int(given) if re.fullmatch(r"-?\d+", str(given)) else given
