"""References with inline tags, one after each `<NEWREFERENCE>`, as in the Cora citation data:

    <NEWREFERENCE>
    <author> A. Cau, R. Kuiper. </author> <title> Formalising Dijkstra's strategy. </title> <date> 1992. </date>

White space separates words; punctuation stays with its word. Each field is a span; text outside fields is `O`.
"""

from __future__ import annotations

import re
from pathlib import Path

from .columns import Rows, line_origins, lines_of, take
from .common import DataError

MARK = "<NEWREFERENCE>"
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)>")


def is_references(path: Path) -> bool:
    """True if the file's first 4 KiB contain the mark of a reference."""
    with open(path, "rb") as file:
        return MARK.encode() in file.read(4096)


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
    opened = 0  # line where the open field begins
    for number, line in enumerate(lines_of(path), start=1):
        for part in re.split(r"(<[^<>\s]+>)", line):
            tag = _TAG.fullmatch(part)
            if part == MARK:
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
                words = part.split()
                if words and not rows["words"]:
                    raise DataError(f"{path}, line {number}: text before the first {MARK}. Begin references with it.")
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
