"""CoNLL-style columns: a word per line, its tags beside it, an empty line between sentences.

Columns are separated by tabs if the first line has one, else by any white space. `-DOCSTART-` lines are skipped. `#`
and `#hashtag` are also words of tweets. A comment is therefore a line that begins with `#` before the first word of a
sentence and is not a row: in a file with tabs, it has no tab; with white space, it begins with `# ` and has another
number of columns, or a tag (without tags, a value of the last column) that no other line has. Of CoNLL-U, with ten
columns and tabs, lines that are numbered `2-3` or `4.1` are no words.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .common import DataError, Origins

Rows = dict[str, Any]  # column -> a value per sentence: lists of strings, `predicate` an int; and `Origins`
ORIGINS = "@origins"  # the key of `Origins`: no column has this name
FEATURE_NAMES = {1: ["pos"], 2: ["pos", "chunk"]}  # CoNLL-2000, CoNLL-2003
DOCUMENT = "-DOCSTART-"  # first cell of a line that begins a document
CONLLU = 10  # columns of CoNLL-U, whose first one numbers the words
NO_WORD = re.compile("[0-9]+[-.][0-9]+")  # there: the number of several words together, or of an empty node


def take(rows: Rows, ids: Iterable[int]) -> Rows:
    """The rows with these ids, in this order."""
    ids = list(ids)
    columns = {name: [values[i] for i in ids] for name, values in rows.items() if name != ORIGINS}
    return columns | {ORIGINS: rows[ORIGINS].take(ids)}


def line_origins(path: Path, lines: list[int]) -> Rows:
    """The origins that a reader adds to its columns: `lines`, counted from 1, are the first lines of sentences."""
    return {ORIGINS: Origins(str(path), lines=np.array(lines, dtype=np.int64))}


class Line(NamedTuple):
    number: int  # in the file, from 1
    text: str
    cells: list[str]


def lines_of(path: Path) -> Iterator[str]:
    """Lines of a UTF-8 file. Only line feeds end them: words may contain Unicode's other separators.

    Raises:
        DataError: the file is not UTF-8.
    """
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        try:
            for line in file:
                yield line.removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not UTF-8 text ({error}). Save the file as UTF-8.") from error


def separator_of(path: Path) -> str:
    """The separator of columns: a tab, or empty for white space."""
    first = next((line for line in lines_of(path) if line.strip("\ufeff \t") and not line.startswith("#")), "")
    return "\t" if "\t" in first else ""


def blocks_of(path: Path) -> Iterator[list[Line]]:
    """Blocks of lines between empty ones, split into cells."""
    separator = separator_of(path)
    block: list[Line] = []
    for number, text in enumerate(lines_of(path), start=1):
        if not text.strip("\ufeff \t"):  # joined files leave byte-order marks in the middle
            if block:
                yield block
            block = []
        else:
            cells = text.split("\t") if separator else re.split("[ \t]+", text.strip(" \t"))  # others are in words
            block.append(Line(number, text, cells))
    if block:
        yield block


class ColumnSentence(NamedTuple):
    """A sentence of a file of columns.

    Attributes:
        before: comments and `-DOCSTART-` lines between the previous sentence and this one's words, with empty lines
            between blocks of them.
        lines: one per word.
    """

    before: list[str]
    lines: list[Line]


class ColumnFile:
    """A file of columns, read a sentence at a time.

    Args:
        word_column, tag_column: numbers of the columns, from 0; negative ones count from the last. `tag_column` None:
            no column holds tags.

    Attributes:
        separator: a tab, or empty for white space.
        columns: name -> number of the column: `words`, `tags`, and for further columns `pos` (if one), `pos` and
            `chunk` (if two), else `column_<number>`.

    Raises:
        DataError: an empty file, too few columns, a line with another number of columns, an empty word or tag; names
            the line.
    """

    def __init__(self, path: Path, word_column: int = 0, tag_column: int | None = -1):
        self.path, self.separator = path, separator_of(path)
        certain = (line for block in blocks_of(path) for line in block if _is_certain(line))
        first = next(certain, None)
        if first is None:
            raise DataError(
                f"{path}: no sentence; expected a word and its tag per line, and empty lines between sentences."
            )
        self._first, self._width = first.number, len(first.cells)
        word, *tag = self._chosen({"word_column": word_column, "tag_column": tag_column})
        self._is_conllu = bool(self.separator) and self._width == CONLLU
        if self._is_conllu and word == 0 and re.fullmatch("1([-.][0-9]+)?", first.cells[0]):
            raise DataError(
                f"{path}, line {self._first}: ten columns, the first of them numbers, as in CoNLL-U, but `word_column` "
                "is 0. Words are in column 1 and parts of speech in column 3: --word_column 1 --tag_column 3."
            )
        others = [column for column in range(self._width) if column not in (word, *tag)]
        names = FEATURE_NAMES.get(len(others), [f"column_{column}" for column in others])
        names = [*["words", "tags"][: 1 + len(tag)], *names]
        self.columns = dict(zip(names, [word, *tag, *others], strict=True))
        self._last = tag[0] if tag else self._width - 1
        self._known: set[str] | None = None  # tags, or values of the last column, to tell a comment from a word
        if self._width > 1 and not self.separator:
            cells = (line.cells for line in itertools.chain([first], certain))
            self._known = {row[self._last] for row in cells if len(row) == self._width}
        self._counts: Counter[str] = Counter()

    def _chosen(self, given: dict[str, int | None]) -> list[int]:
        """The columns of words and tags, counted from 0."""
        chosen = {option: column for option, column in given.items() if column is not None}
        needed = "a word and a tag" if len(chosen) > 1 else "a word"
        for option, column in chosen.items():
            if not -self._width <= column < self._width or self._width < len(chosen):
                raise DataError(
                    f"{self.path}, line {self._first}: {self._width} columns, but `{option}` is {column}: expected "
                    f"at least {needed}, separated by {'tabs' if self.separator else 'white space'}. "
                    "Is it the right file?"
                )
        columns = [column % self._width for column in chosen.values()]
        if len(set(columns)) < len(columns):
            raise DataError(
                f"{self.path}: `word_column` and `tag_column` are both column {columns[0]} of {self._width}, counting "
                "from 0. Name the column of the words and that of the tags."
            )
        return columns

    def __iter__(self) -> Iterator[ColumnSentence]:
        self._counts.clear()
        before: list[str] = []
        for block in blocks_of(self.path):
            lines = [line for line in block if line.cells[0] != DOCUMENT]
            if self._is_conllu:
                counted = [line for line in lines if not NO_WORD.fullmatch(line.cells[0])]
                self._counts["lines of several words, or of none, skipped"] += len(lines) - len(counted)
                lines = counted
            words = list(itertools.dropwhile(self._is_comment, lines))
            self._counts["comment lines skipped"] += len(lines) - len(words)
            first = words[0].number if words else math.inf
            before += [line.text for line in block if line.number < first or line.cells[0] == DOCUMENT]
            if not words:
                documents = sum(line.cells[0] == DOCUMENT for line in block)
                self._counts[f"{DOCUMENT} lines skipped" if documents else "empty sentences dropped"] += documents or 1
                before.append("")
                continue
            for line in words:
                self._check(line)
            yield ColumnSentence(before, words)
            before = []

    def values(self, sentence: ColumnSentence) -> dict[str, list[str]]:
        """The columns of a sentence, a value per word."""
        return {name: [line.cells[i].strip(" ") for line in sentence.lines] for name, i in self.columns.items()}

    @property
    def notes(self) -> list[str]:
        """What the last pass over the file left out, with counts."""
        return [f"{self.path.name}: {count} {what}." for what, count in self._counts.items() if count]

    def _is_comment(self, line: Line) -> bool:
        """True if a line before the first word of a sentence is a comment."""
        if self.separator:
            return line.text.startswith("#") and len(line.cells) == 1
        if line.cells[0] != "#" or len(line.cells) != self._width:
            return line.cells[0] == "#"
        return self._known is not None and line.cells[self._last] not in self._known

    def _check(self, line: Line) -> None:
        tag = self.columns.get("tags")
        if len(line.cells) == self._width and not line.cells[self.columns["words"]].strip(" "):
            raise DataError(
                f"{self.path}, line {line.number}: {line.text[:60]!r} has no word in column {self.columns['words']}. "
                "Remove the line, or write a word."
            )
        if len(line.cells) != self._width or (tag is not None and not line.cells[tag].strip(" ")):
            separator = "a tab" if self.separator else "white space"
            trees = " Bracketed trees are for `load_trees` and `seal-hf train parsing`."
            raise DataError(
                f"{self.path}, line {line.number}: {line.text[:60]!r} has {len(line.cells)} columns, expected "
                f"{self._width} as in line {self._first}{f', and a tag in column {tag}' if tag is not None else ''}. "
                f"Words must not contain the separator ({separator}).{trees if line.text.count('(') > 1 else ''}"
            )


def _is_certain(line: Line) -> bool:
    """True if a line certainly holds a word."""
    return line.cells[0] != DOCUMENT and not line.text.startswith("#")


def read_columns(path: Path, word_column: int = 0, tag_column: int = -1) -> tuple[Rows, list[str]]:
    """Read a file of columns.

    Args:
        word_column, tag_column: numbers of the columns, from 0; negative ones count from the last.

    Returns:
        the columns of [`ColumnFile`], a list per sentence, with `ORIGINS`; and notes, with counts.

    Raises:
        DataError: as [`ColumnFile`].
    """
    file = ColumnFile(path, word_column, tag_column)
    rows: Rows = {name: [] for name in file.columns}
    begins: list[int] = []
    for sentence in file:
        for name, values in file.values(sentence).items():
            rows[name].append(values)
        begins.append(sentence.lines[0].number)
    return rows | line_origins(path, begins), file.notes
