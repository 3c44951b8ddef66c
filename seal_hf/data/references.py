"""References with inline tags, one after each `<NEWREFERENCE>`, as in the Cora citation data:

    <NEWREFERENCE>
    <author> A. Cau, R. Kuiper. </author> <title> Formalising Dijkstra's strategy. </title> <date> 1992. </date>

A file of lines with such tags has a reference in each, and the XML of AnyStyle one in each `<sequence>`.

White space separates words; punctuation stays with its word. Each field is a span; text outside fields is `O`.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from .columns import Rows, line_origins, lines_of, take
from .common import DataError

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
    return take(rows | line_origins(path, lines), kept), notes


def _unbalanced(path: Path, number: int, what: str) -> DataError:
    return DataError(f"{path}, line {number}: {what}; expected <field> words </field>, fields one after another.")
