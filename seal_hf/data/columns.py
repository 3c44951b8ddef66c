"""CoNLL-style columns: a word per line, its tags beside it, an empty line between sentences.

Columns are separated by tabs where the first line has one, else by any white space. `-DOCSTART-` lines are skipped. `#`
and `#hashtag` are words of tweets too, so a comment is a line that begins with `#` before the first word of a sentence,
and is no row: with tabs, it has none; with white space, it begins with `# ` and has another number of columns, or in
the place of the tag what no other line has there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .common import DataError

Rows = dict[str, list]  # column -> a value per sentence: lists of strings, `predicate` an int
FEATURE_NAMES = {1: ["pos"], 2: ["pos", "chunk"]}  # CoNLL-2000, CoNLL-2003


def take(rows: Rows, ids: Iterable[int]) -> Rows:
    """The rows of these ids, in their order."""
    ids = list(ids)
    return {name: [values[i] for i in ids] for name, values in rows.items()}


class Line(NamedTuple):
    number: int  # in the file, from 1
    text: str
    cells: list[str]


def read_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 file, ended by line feeds alone: words may hold the other separators of Unicode.

    Raises:
        DataError: the file is not UTF-8.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text ({error}). Save the file as UTF-8.") from error
    return text.replace("\r\n", "\n").split("\n")


def sentences_of(path: Path) -> tuple[list[list[Line]], str]:
    """Blocks of lines between empty ones, split into cells, and the separator: tab, or empty for white space."""
    lines = read_lines(path)
    first = next((line for line in lines if line.strip("\ufeff \t") and not line.startswith("#")), "")
    separator = "\t" if "\t" in first else ""
    blocks: list[list[Line]] = [[]]
    for number, text in enumerate(lines, start=1):
        if not text.strip("\ufeff \t"):  # joined files leave byte-order marks in the middle
            if blocks[-1]:
                blocks.append([])
        else:
            cells = text.split("\t") if separator else re.split("[ \t]+", text.strip(" \t"))  # others are words
            blocks[-1].append(Line(number, text, cells))
    return [block for block in blocks if block], separator


def read_columns(path: Path, word_column: int = 0, tag_column: int = -1) -> tuple[Rows, list[str]]:
    """A file of columns.

    Args:
        word_column, tag_column: numbers of the columns, from 0; negative ones count from the last.

    Returns:
        Columns `words`, `tags` and, of further columns, `pos` (one), `pos` and `chunk` (two), else `column_<number>`;
        and notes, with counts.

    Raises:
        DataError: an empty file, too few columns, a line with another number of columns, an empty tag: with its line.
    """
    blocks, separator = sentences_of(path)
    blocks = [[line for line in block if line.cells[0] != "-DOCSTART-"] for block in blocks]
    certain = [line for block in blocks for line in block if not line.text.startswith("#")]
    if not certain:
        raise DataError(
            f"{path}: no sentence; expected a word and its tag per line, and empty lines between sentences."
        )
    width = len(certain[0].cells)
    for option, column in (("word_column", word_column), ("tag_column", tag_column)):
        if not -width <= column < width or width < 2:
            raise DataError(
                f"{path}, line {certain[0].number}: {width} columns, and `{option}` is {column}: expected at least a "
                f"word and a tag, separated by {'tabs' if separator else 'white space'}. Is it the right file?"
            )
    word_column, tag_column = word_column % width, tag_column % width
    if word_column == tag_column:
        raise DataError(
            f"{path}: `word_column` and `tag_column` are both column {word_column} of {width}, counting from 0. Name "
            "the column of the words and that of the tags."
        )
    known = {line.cells[tag_column] for line in certain if len(line.cells) == width}
    others = [column for column in range(width) if column not in (word_column, tag_column)]
    names = FEATURE_NAMES.get(len(others), [f"column_{column}" for column in others])
    chosen = {"words": word_column, "tags": tag_column, **dict(zip(names, others, strict=True))}
    rows: Rows = {name: [] for name in chosen}
    counts: Counter[str] = Counter()
    for block in blocks:
        start = 0
        while start < len(block) and _is_comment(block[start], separator, width, tag_column, known):
            start += 1
        counts["comment lines skipped"] += start
        if start == len(block):
            counts["empty sentences dropped"] += 1
            continue
        for line in block[start:]:
            if len(line.cells) != width or not line.cells[tag_column].strip(" "):
                raise DataError(
                    f"{path}, line {line.number}: {line.text[:60]!r} has {len(line.cells)} columns, expected {width} "
                    f"as in line {certain[0].number}, and a tag in column {tag_column}. Words must not hold the "
                    f"separator ({'a tab' if separator else 'white space'})."
                )
        for name, column in chosen.items():
            rows[name].append([line.cells[column].strip(" ") for line in block[start:]])
    return rows, [f"{path.name}: {count} {what}." for what, count in counts.items() if count]


def _is_comment(line: Line, separator: str, width: int, tag_column: int, known: set[str]) -> bool:
    if separator:
        return line.text.startswith("#") and len(line.cells) == 1
    return line.cells[0] == "#" and (len(line.cells) != width or line.cells[tag_column] not in known)
