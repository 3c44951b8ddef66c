"""Semantic roles in columns: index, word, POS, parse bit, frame, sense, and one bracket column per predicate.

    0   Al       NNP  (NP*   -     -        (ARG0*
    1   Zaman    NNP  *)     -     -        *)
    2   killed   VBD  (VP*   kill  kill.01  (V*)

CoNLL-2012, which has document and part before them, CoNLL-2009 and Universal PropBank, whose roles are those of single
words, and the files that the scripts of CoNLL-2005 write, with word, POS, parse bit, entity, sense, lemma and roles,
are known by their columns. There is one example per proposition, or column of roles: its words, BIO tags of its roles,
and `predicate`, the index of the first word of its `V`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .columns import NO_WORD, Line, blocks_of, is_conll_2012
from .common import DataError
from .sentences import Rows, Sentence, collected

WORD, POS, FRAME, FIRST_ROLE = 1, 2, 4, 6
OWN = "roles that a predicate has in its own proposition are read as V"
COUNTED = ("sentences", "without a proposition", "without V")  # sentences, those, and propositions


def read_srl(path: Path) -> tuple[Rows, list[str]]:
    """Read a file of bracket columns.

    Returns:
        Columns `words`, `tags`, `pos`, `predicate` (int), one row per proposition; and notes, with counts. Sentences
        without a proposition, and propositions without `V`, whose predicate is unknown, are dropped and counted.

    Raises:
        DataError: as [`propositions`]; or there is no proposition.
    """
    counts: Counter[str] = Counter()
    rows = collected(propositions(path, True, counts), path)
    sentences, without, no_verb = (counts[name] for name in COUNTED)
    if not rows["words"]:
        raise DataError(
            f"{path}: no proposition in {sentences} sentences; expected columns index, word, POS, parse bit, frame, "
            f"sense, and a bracket column per predicate."
        )
    notes = [f"{path.name}: {len(rows['words'])} propositions of {sentences} sentences."]
    notes += [f"{path.name}: {without} sentences without a proposition dropped."] if without else []
    notes += [f"{path.name}: {no_verb} propositions without V dropped: their predicate is unknown."] if no_verb else []
    notes += [f"{path.name}: {counts[OWN]} {OWN}."] if counts[OWN] else []
    return rows, notes


class Layout(NamedTuple):
    """The columns of a format: word, part of speech, frame, the first of the roles, and how many follow the roles;
    `single`: a role is that of a word, not a bracket; `empty`: how a cell without a frame or role is written."""

    word: int = WORD
    pos: int = POS
    frame: int = FRAME
    roles: int = FIRST_ROLE
    after: int = 0
    single: bool = False
    empty: str = "-"


PLAIN, CONLL_2005, CONLL_2012 = Layout(), Layout(0, 1, 5), Layout(3, 4, 7, 11, 1)
CONLL_2009 = Layout(1, 4, 12, 14, single=True, empty="_")
UNIVERSAL = Layout(1, 3, 10, 11, single=True, empty="_")  # Universal PropBank: CoNLL-U, frame and roles


def layout_of(block: list[Line]) -> Layout:
    """The format of a sentence."""
    cells = block[0].cells
    if is_conll_2012(cells):
        return CONLL_2012
    if len(cells) >= CONLL_2009.roles and all(line.cells[12:13] in (["_"], ["Y"]) for line in block):
        return CONLL_2009
    if len(cells) >= UNIVERSAL.roles and cells[6].isdigit():  # the head of a word
        return UNIVERSAL
    if all("*" in "".join(line.cells[2:3]) for line in block):  # the parse, where the others have the part of speech
        return CONLL_2005
    return PLAIN


def propositions(path: Path, gold: bool, counts: Counter[str]) -> Iterator[Sentence]:
    """The sentence of each proposition of a file, with `pos` and the index of its predicate: the first word of its `V`,
    or, without gold, of its frame. Its lines have the columns before the roles, and a frame for that predicate alone.

    Args:
        gold: if False, the file may lack all bracket columns.
        counts: what was read and left out is counted here, by the names in `COUNTED`.

    Raises:
        DataError: a line has another number of columns than its sentence, a sentence has unequal numbers of bracket
            columns and frames, or a bracket is not closed, not opened, or inside another; names file and line.
    """
    for block in blocks_of(path):
        block = [line for line in block if not (line.text.startswith("#") and len(line.cells) < FIRST_ROLE)]
        if not block:
            continue
        single = [line for line in block if not NO_WORD.fullmatch(line.cells[0])]  # not `2-3` of CoNLL-U
        layout, number = layout_of(single or block), block[0].number
        block = single if layout == UNIVERSAL else block
        columns = _columns(block, path, layout)
        words, pos = columns[layout.word], columns[layout.pos]
        found = _roles(block, columns, path, layout, gold, counts)
        counts[COUNTED[0]] += 1
        counts[COUNTED[1]] += not found
        for place, tags in found:
            if place is None:
                counts[COUNTED[2]] += 1
                continue
            empty = [layout.empty] * (layout.roles - layout.frame)
            cells = [[*line.cells[: layout.frame], *empty] for line in block]
            cells[place][layout.frame :] = block[place].cells[layout.frame : layout.roles]
            lines, where = ["\t".join(row) for row in cells], f"{path}, line {number}"
            more = {"features": {"pos": pos}, "predicate": place, "gold": tags}
            yield Sentence.of_words(words, where, {"line": number}, lines, **more)


def _roles(
    block: list[Line], columns: list[list[str]], path: Path, layout: Layout, gold: bool, counts: Counter[str]
) -> list[tuple[int | None, list[str] | None]]:
    """The predicate of each frame of a sentence, None without a `V`, and the BIO tags of its roles, None without
    gold."""
    frames = [i for i, frame in enumerate(columns[layout.frame]) if frame != layout.empty]
    role_columns = columns[layout.roles : len(columns) - layout.after]
    if not role_columns and not gold:
        return [(place, None) for place in frames]
    if len(frames) != len(role_columns):
        raise DataError(
            f"{path}, line {block[0].number}: {len(frames)} words of the sentence have a frame, but there are "
            f"{len(role_columns)} bracket columns; expected one per frame. Read are columns index, word, POS, "
            "parse bit, frame, sense and roles, and those of CoNLL-2005, CoNLL-2009, CoNLL-2012 and Universal PropBank."
        )
    if layout.single:
        pairs = [*zip(role_columns, frames, strict=True)]
        counts[OWN] += sum(cells[place] not in (layout.empty, "V") for cells, place in pairs)
        roles = [_single(cells, place) for cells, place in pairs]
    else:
        roles = [_bio(cells, block, path, number) for number, cells in enumerate(role_columns)]
    return [(tags.index("B-V") if "B-V" in tags else None, tags if gold else None) for tags in roles]


def _columns(block: list[Line], path: Path, layout: Layout) -> list[list[str]]:
    """The columns of a sentence; all its lines must have the same number."""
    width = len(block[0].cells)
    for line in block:
        if len(line.cells) != width or width < layout.roles:
            raise DataError(
                f"{path}, line {line.number}: {len(line.cells)} columns, expected {max(width, layout.roles)}: index, "
                f"word, POS, parse bit, frame, sense, and a bracket column per predicate, the same number in all "
                f"lines of a sentence."
            )
        if layout == PLAIN and not line.cells[0].isdigit():
            raise DataError(
                f"{path}, line {line.number}: {line.cells[0]!r} is no index of a word; expected columns index, word, "
                "POS, parse bit, frame, sense and roles, or those of CoNLL-2005, CoNLL-2009, CoNLL-2012 or Universal "
                "PropBank."
            )
    return [list(column) for column in zip(*(line.cells for line in block), strict=True)]


def _single(cells: list[str], predicate: int) -> list[str]:
    """Roles of single words as BIO tags; the predicate is `B-V`."""
    tags = ["O" if cell == CONLL_2009.empty else f"B-{cell}" for cell in cells]
    tags[predicate] = "B-V"
    return tags


def _bio(cells: list[str], block: list[Line], path: Path, number: int) -> list[str]:
    """A bracket column as BIO tags: `(ARG0*`, `*`, `*)` -> `B-ARG0`, `I-ARG0`, `I-ARG0`."""
    tags, role = [], ""  # role: of the open bracket
    for i, cell in enumerate(cells):
        head, star, tail = cell.partition("*")
        bad = not star or (head and (role or head[0] != "(" or len(head) == 1 or "(" in head[1:] or ")" in head))
        if bad or tail not in ("", ")") or (tail and not (head or role)):
            raise DataError(
                f"{path}, line {block[i].number}: {cell!r} in bracket column {number + 1}"
                f"{f' with ({role} open' if role else ''}; expected *, (ROLE*, (ROLE*) or *), one role at a time, "
                f"each bracket opened and closed once."
            )
        if head:
            role = head[1:]
        tags.append(f"{'B' if head else 'I'}-{role}" if role else "O")
        if tail:
            role = ""
    if role:
        raise DataError(
            f"{path}, line {block[-1].number}: ({role} in bracket column {number + 1} is not closed "
            f"when the sentence ends."
        )
    return tags
