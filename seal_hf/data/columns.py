"""CoNLL-style columns: a word per line, its tags beside it, an empty line between sentences.

Columns are separated by tabs if the first line has one, else by any white space. `-DOCSTART-`, `#begin document` and
`#end document` lines are skipped. `#` and `#hashtag` are also words of tweets. A comment is therefore a line that
begins with `#` before the first word of a sentence and is not a row: it begins with `# ` or `#` and a tab and has
another number of columns, or in place of a tag (without tags, in the last column) a value that no other line has and
that looks like no tag of this file; in a file with tabs, it may also have none. Of CoNLL-U, with ten columns and tabs,
lines that are numbered `2-3` or `4.1` are no words.

The columns have names if a line `# global.columns = ID FORM ...` (CoNLL-U Plus) or a first line such as `word pos tag`
gives them; then the words and tags are found by these names. A first column that numbers the words of sentences is not
taken for the words.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..core.tag_schemes import scheme_of
from .column_choice import MOSTLY
from .common import DataError
from .line_files import not_utf8
from .sentences import Rows, Sentence, collected

FEATURE_NAMES = {1: ["pos"], 2: ["pos", "chunk"]}  # CoNLL-2000, CoNLL-2003
DOCUMENT = "-DOCSTART-"  # first cell of a line that begins a document
CONLLU = 10  # columns of CoNLL-U, whose first one numbers the words
BEGIN_END = re.compile(r"#\s*(begin|end) document\b")
GLOBAL = re.compile(r"#\s*global\.columns\s*=\s*(.+)")  # of CoNLL-U Plus
WORD_NAMES = ("word", "words", "token", "tokens", "form")  # of columns, in a header
TAG_NAMES = ("ner", "ne", "tag", "tags", "entity", "entities", "label", "labels", "iob", "bio", "chunk", "pos", "upos")
MOST_WORDS = 10  # of the only sentence of a file to train on
LOOKED_AT = 50  # sentences that tell whether a column numbers the words
BRACKET = re.compile(r"(\([^()*\s]+)*\*?\)*")
OF_A_SCHEME = re.compile(r"[BIOESULM](?:[-_].+)?")
LIKE_A_TAG = re.compile(r"[^\W\d][\w.:+*$-]*|[^\w\s]{1,3}")  # a name, or punctuation: the tag of `#` is often `#`
OTHERS = {"PubTator": r"\d+\|[ta]\|", "WebAnno's TSV": "#FORMAT=WebAnno", "XML": r"<\?xml"}  # begin of a first line
AS_SPANS = 'Write an object for each text into a .jsonl: {"text": "Anna went.", "entities": [[0, 4, "PER"]]}.'
NO_WORD = re.compile("[0-9]+[-.][0-9]+")  # there: the number of several words together, or of an empty node


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
            raise not_utf8(path, error) from error


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


class ColumnFile:
    """A file of columns, read a sentence at a time. The columns beside words and tags are features; `before` are the
    comments and `-DOCSTART-` lines above the words, with empty lines between blocks of them.

    Args:
        word_column, tag_column: numbers of the columns, from 0; negative ones count from the last; or names, if the
            file has them. `tag_column` None: no column holds tags.

    Attributes:
        separator: a tab, or empty for white space.
        columns: name -> number of the column: `words`, `tags`, and for further columns `pos` (if one), `pos` and
            `chunk` (if two), else `column_<number>`.

    Raises:
        DataError: an empty file, too few columns, a line with another number of columns, an empty word or tag; names
            the line.
    """

    def __init__(self, path: Path, word_column: int | str = 0, tag_column: int | str | None = -1):
        self.path, self.separator = path, separator_of(path)
        begin = next(lines_of(path), "")
        if other := next((name for name, mark in OTHERS.items() if re.match(mark, begin)), None):
            raise DataError(f"{path}: {other} is not read. {AS_SPANS}")
        if "\r" in begin:
            raise DataError(
                f"{path}: its lines end in carriage returns alone, as one line. Save it with line feeds, as Unix and "
                "Windows have them."
            )
        self.notes_on_columns: list[str] = []
        names, self._header = self._names()
        certain = (
            line for block in blocks_of(path) for line in block if _is_certain(line) and line.number != self._header
        )
        first = next(certain, None)
        if first is None:
            raise DataError(
                f"{path}: no sentence; expected a word and its tag per line, and empty lines between sentences."
            )
        self._first, self._width = first.number, len(first.cells)
        mark = next((mark for mark in "/_|" if all(cell.rpartition(mark)[0] for cell in first.cells)), "")
        if self._width > 2 and mark and not OF_A_SCHEME.fullmatch(first.cells[-1]):
            raise DataError(
                f"{path}, line {first.number}: words are joined to their tags by {mark!r}, such as {first.cells[0]!r}. "
                "Write a word and its tag in each line, with a tab between them, and an empty line after each sentence."
            )
        if is_conll_2012(first.cells) and word_column == 0 and tag_column in (-1, None):
            word_column, tag_column = 3, None if tag_column is None else 10
            self.notes_on_columns.append(f"{path.name}: CoNLL-2012, words in column 3, named entities in column 10.")
        given = {"word_column": word_column, "tag_column": tag_column}
        if names and len(names) != self._width:
            raise DataError(
                f"{path}, line {self._first}: {self._width} columns, but {len(names)} names: {', '.join(names)}. "
                "Give each "
                "column one."
            )
        word, *tag = self._chosen(self._by_name(names, given))
        self._is_conllu = bool(self.separator) and self._width == CONLLU and not names
        if self._is_conllu and word == 0 and re.fullmatch("1([-.][0-9]+)?", first.cells[0]):
            raise DataError(
                f"{path}, line {self._first}: ten columns, the first of them numbers, as in CoNLL-U, but `word_column` "
                "is 0. Words are in column 1 and parts of speech in column 3: give these, as "
                "`word_column` and `tag_column` (--word_column 1 --tag_column 3)."
            )
        if self._width > 1 + len(tag) and self._numbers_words(word):
            if word or 1 in tag:
                raise DataError(
                    f"{path}, line {self._first}: column {word} numbers the words, so it is not the words. Name their "
                    "column, counting from 0, by `word_column` (--word_column)."
                )
            word = 1
            self.notes_on_columns.append(f"{path.name}: column 0 numbers the words, which are read from column 1.")
        others = [column for column in range(self._width) if column not in (word, *tag)]
        self._numbered = word == 1 and 0 in others and bool(self.notes_on_columns)
        others = [column for column in others if column or not self._numbered]
        features = FEATURE_NAMES.get(len(others), [f"column_{column}" for column in others])
        self.columns = dict(zip([*["words", "tags"][: 1 + len(tag)], *features], [word, *tag, *others], strict=True))
        self._last = tag[0] if tag else self._width - 1
        self._known: set[str] | None = None  # tags, or values of the last column, to tell a comment from a word
        if self._width > 1:
            cells = (line.cells for line in itertools.chain([first], certain))
            self._known = {row[self._last] for row in cells if len(row) == self._width}
        self._counts: Counter[str] = Counter()

    def _names(self) -> tuple[list[str], int]:
        """The names of the columns in lower case, and the line of a header; 0 for one that is a comment."""
        for block in blocks_of(self.path):
            for line in block:
                if found := GLOBAL.fullmatch(line.text.strip()):
                    return [name.rpartition(":")[2].lower() for name in found[1].split()], 0
                if line.text.startswith("#"):
                    continue
                names = [cell.strip().lower() for cell in line.cells]
                is_header = len(names) > 1 and set(names) & set(WORD_NAMES) and set(names) & set(TAG_NAMES)
                return (names, line.number) if is_header and len(set(names)) == len(names) else ([], 0)
        return [], 0

    def _by_name(self, names: Sequence[str], given: dict[str, int | str | None]) -> dict[str, int | None]:
        """The numbers of the columns that are given by name, or are found by their names."""
        chosen: dict[str, int | None] = {}
        for option, usual in (("word_column", WORD_NAMES), ("tag_column", TAG_NAMES)):
            value = given[option]
            if isinstance(value, str):
                if value.lower() not in names:
                    known = "columns of this format have numbers, from 0 on"
                    known = f"the columns are {', '.join(names)}" if names else known
                    raise DataError(f"{self.path}: `{option}` is {value!r}; {known}.")
                value = names.index(value.lower())
            elif names and value == {"word_column": 0, "tag_column": -1}[option]:
                found = next((name for name in usual if name in names), None)
                if found is None:
                    raise DataError(
                        f"{self.path}: the columns are {', '.join(names)}; none of them is called "
                        f"{', '.join(usual[:3])} or the like. Name one by `{option}` (--{option})."
                    )
                value = names.index(found)
                self.notes_on_columns.append(f"{self.path.name}: {option.removesuffix('_column')}s: column {found!r}.")
            chosen[option] = value
        return chosen

    def _numbers_words(self, column: int) -> bool:
        """True if a column counts the words of nearly every sentence."""
        counted = looked_at = 0
        for block in itertools.islice(blocks_of(self.path), LOOKED_AT):
            rows = [line for line in block if _is_certain(line) and line.number != self._header]
            cells = [line.cells[column] for line in rows if len(line.cells) == self._width]
            cells = [cell for cell in cells if not NO_WORD.fullmatch(cell)]
            numbers = [cell for cell in cells if cell.isdigit()]
            if len(cells) > 1:
                looked_at += 1
                begin = int(numbers[0]) if numbers else 0
                counting = numbers == [str(i + begin) for i in range(len(numbers))]
                counted += counting and len(numbers) >= MOSTLY * len(cells)
        return looked_at > 0 and 10 * counted >= 9 * looked_at

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

    def __iter__(self) -> Iterator[Sentence]:
        self._counts.clear()
        before: list[str] = []
        for block in blocks_of(self.path):
            block = [line for line in block if line.number != self._header]
            lines = [line for line in block if not _is_document(line)]
            if self._is_conllu:
                counted = [line for line in lines if not NO_WORD.fullmatch(line.cells[0])]
                self._counts["lines of several words, or of none, skipped"] += len(lines) - len(counted)
                lines = counted
            words = list(itertools.dropwhile(self._is_comment, lines))
            self._counts["comment lines skipped"] += len(lines) - len(words)
            first = words[0].number if words else math.inf
            before += [line.text for line in block if line.number < first or _is_document(line)]
            if not words:
                documents = sum(map(_is_document, block))
                if block:
                    kind = f"{DOCUMENT} lines skipped" if documents else "empty sentences dropped"
                    self._counts[kind] += documents or 1
                before.append("")
                continue
            for line in words:
                self._check(line)
            yield self._sentence(before, words)
            before = []

    def _sentence(self, before: list[str], lines: Sequence[Line]) -> Sentence:
        values = {name: [line.cells[i].strip(" ") for line in lines] for name, i in self.columns.items()}
        words, number, texts = values.pop("words"), lines[0].number, [line.text for line in lines]
        more = {"before": before, "separator": self.separator or " ", "gold": values.pop("tags", None)}
        return Sentence.of_words(words, f"{self.path}, line {number}", {"line": number}, texts, features=values, **more)

    @property
    def notes(self) -> list[str]:
        """What was chosen, and what the last pass over the file left out, with counts."""
        left = [f"{self.path.name}: {count} {what}." for what, count in self._counts.items() if count]
        return [*self.notes_on_columns, *left]

    def _is_comment(self, line: Line) -> bool:
        """True if a line before the first word of a sentence is a comment."""
        if not line.text.startswith("#"):
            return False
        if self.separator and len(line.cells) == 1 and self._width > 1:
            return True
        if self.separator and self._width == 1:
            return len(line.cells) == 1
        if line.cells[0] != "#" or len(line.cells) != self._width:
            return line.cells[0] == "#"
        value = line.cells[self._last]
        if self._known is None or value in self._known:
            return False
        in_scheme = all(map(OF_A_SCHEME.fullmatch, self._known))
        return not (OF_A_SCHEME if in_scheme else LIKE_A_TAG).fullmatch(value)

    def _check(self, line: Line) -> None:
        tag = self.columns.get("tags")
        where = f"{self.path}, line {line.number}"
        if len(line.cells) == self._width and not line.cells[self.columns["words"]].strip(" "):
            raise DataError(
                f"{where}: {line.text[:60]!r} has no word in column {self.columns['words']}. "
                "Remove the line, or write a word."
            )
        if len(line.cells) == self._width and tag is not None and not line.cells[tag].strip(" "):
            is_last = tag > 1 and not any(line.cells[tag:])
            other = f", or name another column by `tag_column` (--tag_column {tag - 1})" * is_last
            raise DataError(
                f"{where}: {line.text[:60]!r} has no tag in column {tag}. Write O for words outside of spans{other}."
            )
        if len(line.cells) != self._width:
            separator = "a tab" if self.separator else "white space"
            hint = " Bracketed trees are for `load_trees` and `seal-hf train parsing`." * (line.text.count("(") > 1)
            if line.text.startswith("#"):
                hint = " If it is a comment, remove it, or write it before its sentence, with a blank after its #."
            raise DataError(
                f"{where}: {line.text[:60]!r} has {len(line.cells)} columns, expected {self._width} as in line "
                f"{self._first}{f', and a tag in column {tag}' if tag is not None else ''}. Words must not contain the "
                f"separator ({separator}).{hint}"
            )


def _is_document(line: Line) -> bool:
    """True for a line that begins or ends a document."""
    return line.cells[0] == DOCUMENT or BEGIN_END.match(line.text) is not None


def _is_certain(line: Line) -> bool:
    """True if a line certainly holds a word."""
    return not _is_document(line) and not line.text.startswith("#")


def read_columns(path: Path, word_column: int | str = 0, tag_column: int | str = -1) -> tuple[Rows, list[str]]:
    """Read a file of columns.

    Args:
        word_column, tag_column: as for [`ColumnFile`].

    Returns:
        the columns, see [`collected`]; and notes, with counts.

    Raises:
        DataError: as [`ColumnFile`].
    """
    file = ColumnFile(path, word_column, tag_column)
    rows = collected(file, path)
    count = len(rows["words"])
    if count == 1 and len(rows["words"][0]) > MOST_WORDS:
        raise DataError(
            f"{path}: its {len(rows['words'][0])} lines are one sentence, since no line is empty. Put an empty line "
            "after each sentence. Texts with inline tags are read as <TYPE> words </TYPE>, one on a line."
        )
    notes = file.notes
    if tag_column == -1 and (other := _other_spans(rows, file)):
        notes.append(f"{path.name}: {other}")
    last = rows["tags"][-1][-1]
    if count > MOST_WORDS and sum(row.count(last) for row in rows["tags"]) == 1:
        notes.append(f"{path.name}: its last tag, {last!r}, occurs once: does the file end early?")
    if are_brackets(rows["tags"]):
        rows["tags"] = [bracket_tags(cells) for cells in rows["tags"]]
        notes.append(f"{path.name}: tags in brackets, such as (PER*) or (PER), are read as B-PER and I-PER.")
    return rows, notes


def _other_spans(rows: Rows, file: ColumnFile) -> str:
    """Tells of tags such as B-X in another column than the last.

    Raises:
        DataError: the last column has no other tag than one.
    """
    tags = {name: {tag for row in rows[name] for tag in row} for name in file.columns if name != "words"}
    other = next((name for name, known in tags.items() if name != "tags" and scheme_of(known) != "plain"), None)
    if other is None:
        return ""
    said = f"column {file.columns[other]} holds tags such as {next(tag for tag in sorted(tags[other]) if tag != 'O')}"
    if len(tags["tags"]) == 1:
        raise DataError(
            f"{file.path}: {said}, and the last column only {next(iter(tags['tags']))}. Name the one to read by "
            f"`tag_column` (--tag_column {file.columns[other]})."
        )
    return f"{said}, too. The last one is read; `tag_column` (--tag_column) names another."


def is_conll_2012(cells: Sequence[str]) -> bool:
    """True for a line of a word in CoNLL-2012: document, part, number, word, part of speech, parse, ..."""
    return len(cells) >= 12 and cells[1].isdigit() and cells[2].isdigit() and "*" in cells[5]


def are_brackets(rows: Sequence[Sequence[str]]) -> bool:
    """True for tags as CoNLL-2012 writes them: `(PER*`, `*`, `*)`, `(PER)`."""
    return in_brackets({cell for row in rows for cell in row})


def in_brackets(cells: Collection[str]) -> bool:
    """True if all tags of a sentence are brackets or stars."""
    return "*" in "".join(cells) and all(BRACKET.fullmatch(cell) for cell in cells)


def bracket_tags(cells: Sequence[str]) -> list[str]:
    """Tags in brackets as BIO tags; of a span inside another, the outer one."""
    tags, opened = [], list[str]()
    for cell in cells:
        begins = re.findall(r"\(([^()*\s]+)", cell)
        outer = opened[0] if opened else begins[0] if begins else ""
        tags.append(("O" if not outer else f"I-{outer}") if opened or not begins else f"B-{outer}")
        opened += begins
        for _ in range(cell.count(")")):
            opened = opened[:-1]
    return tags
