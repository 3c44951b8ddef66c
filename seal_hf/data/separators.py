"""Marks between the labels of a cell: those that separate, those that join names of labels, and notes on marks that may
separate too much or too little."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

SEPARATORS = "|;,｜；，、،؛"  # the first one in a cell separates it
OTHER_MARKS = (" ", "/", "+", "&", "\n")  # these do not separate


def joining_mark(names: Iterable[str], known: set[str]) -> tuple[str, list[str], int]:
    """The mark, several together, or the short word between blanks, that joins most of the `names` from parts that are
    among the `known` ones; these names, none without a mark; and the number of other names that contain the mark."""
    holding: dict[str, list[str]] = {}
    for name in names:
        several = re.findall(r"\\[nrt]|[^\w\s]{2,3}|(?<=\w) \w{1,3} (?=\w)", name)
        for mark in dict.fromkeys([*re.findall(r"[\W_]", name), *several]):
            holding.setdefault(mark, []).append(name)
    best: tuple[str, list[str], int] = ("", [], 0)
    for mark, those in holding.items():
        if mark in known:
            continue
        whole = [name for name in those if len(parts := _parts(name, mark)) > 1 and known.issuperset(parts)]
        # a blank beside another mark, as in "a, b", joins nothing that the mark does not
        if whole and (len(whole), not mark.isspace()) > (len(best[1]), not best[0].isspace()):
            best = mark, whole, len(those) - len(whole)
    return best


def _parts(name: str, mark: str) -> list[str]:
    return [part.strip() for part in name.split(mark) if part.strip()]


def split_joined(
    cells: dict[str, list[list]], known: Collection[str] | None, raw: Mapping[str, Sequence[Any]] | None = None
) -> tuple[dict[str, list[list]], list[str]]:
    """Cells by split, in which joined names are separated, and a note that says so or suspects it.

    Args:
        known: the labels, if they are known. Else a mark separates if it joins several names, and hardly any other name
            contains it.
        raw: the cells as they were written. Names in lists stay whole.
    """

    def names_in(split: str, row: int) -> list[str]:
        is_list = raw is not None and not _is_bare(raw[split][row])
        return [] if is_list else [value for value in cells[split][row] if isinstance(value, str)]

    names = {name for split, rows in cells.items() for row in range(len(rows)) for name in names_in(split, row)}
    mark, found, others = joining_mark(names.difference(known or ()), names if known is None else set(known))
    if not found:
        return cells, []
    if known is None and (len(found) == 1 or others * 4 > len(found)):
        holding = "1 label contains" if len(found) == 1 else f"{len(found)} labels contain"
        return cells, [
            f"{holding} {mark!r} between names that are labels too, such as {found[0]!r}. If the mark separates "
            f"labels, give it as `label_separator` (--label_separator {mark!r}); only one mark separates a cell."
        ]
    parts = {name: _parts(name, mark) for name in (names if known is None else found)}
    joined = {name for name in parts if len(parts[name]) > 1}
    split_up = {split: list(rows) for split, rows in cells.items()}
    count = 0
    for split, rows in split_up.items():
        for row, cell in enumerate(rows):
            if not joined.isdisjoint(names_in(split, row)):
                count += 1
                rows[row] = [part for value in cell for part in (parts[value] if value in joined else [value])]
    return split_up, [
        f"{mark!r} separates labels in {count} cells, such as {found[0]!r}, since the parts are labels elsewhere. If "
        "it belongs to names, give label_separator='none' (--label_separator none)."
    ]


def _is_bare(cell: Any) -> bool:
    """True for a cell that holds a text, not a list."""
    return isinstance(cell, str) and not cell.lstrip().startswith(("[", "(", "{"))


def _first_marks(texts: Iterable[str]) -> Counter[str]:
    """The marks that separate cells, each by its own first one, with the number of these cells."""
    found = Counter(next((mark for mark in SEPARATORS if mark in text), "") for text in texts)
    return Counter({mark: found[mark] for mark in SEPARATORS if found[mark]})


def separator_of(cells: Iterable[Any]) -> tuple[str | None, list[str]]:
    """The mark of a column whose cells hold several marks, if there are fewer labels with it alone than if each cell is
    separated by its own first mark, and a cell holds it beside another one; and a note. The other marks belong to
    names, as in `Aged, 80 and over; Humans`."""
    texts = [*filter(_is_bare, cells)]
    marks = _first_marks(texts)
    if len(marks) < 2:
        return None, []
    labels = {mark: {part for text in texts for part in _parts(text, mark)} for mark in marks}
    each = ((text, next((mark for mark in marks if mark in text), "\n")) for text in texts)
    of_cells = {part for text, mark in each for part in _parts(text, mark)}
    best = min(marks, key=lambda mark: len(labels[mark]))
    if len(labels[best]) >= len(of_cells) or all(name.isdigit() for name in of_cells):
        return None, []
    others = [mark for mark in marks if mark != best]
    shown = " or ".join(map(repr, others))
    if not any(best in text and any(mark in text for mark in others) for text in texts):
        return None, [
            f"{shown} separates labels in {marks.total() - marks[best]} cells, and {best!r} in {marks[best]} others. "
            f"If {shown} belongs to names, give label_separator={best!r} (--label_separator {best!r})."
        ]
    inner = next(name for name in sorted(labels[best]) if any(mark in name for mark in others))
    return best, [
        f"{best!r} alone separates labels, {len(labels[best])} in all, and {shown} belongs to names, such as "
        f"{inner[:60]!r}. If it separates labels, too, write {best!r} in its place."
    ]


def separator_notes(cells: Iterable[Any], names: Sequence[str]) -> list[str]:
    """Notes on separators that make more labels than there seem to be.

    Args:
        cells: raw label cells.
        names: the labels read from them.
    """
    texts = [*filter(_is_bare, cells)]
    marks = _first_marks(texts)
    distinct = set(texts)
    if {*marks} == {","} and len(distinct) < len(names) and 2 * len(distinct) <= len(texts):
        cell = next(text for text in texts if "," in text)
        return [
            f"commas separate {len(names)} labels in {len(distinct)} different cells, such as {cell[:60]!r}. If the "
            "comma belongs to a name, write the cells as JSON lists."
        ]
    for mark in OTHER_MARKS:
        parts = {part.strip() for name in names for part in name.split(mark)} - {""}
        if len(names) > 5 and 2 * len(parts) <= len(names):
            holding = sum(mark in name for name in names)
            return [
                f"{holding} of {len(names)} labels contain {mark!r}, which does not separate labels; if it did, there "
                f"would be {len(parts)}. If it should, give it as `label_separator` "
                f"(--label_separator {mark!r})."
            ]
    return []
