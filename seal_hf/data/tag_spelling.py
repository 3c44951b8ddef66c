"""How tags are written. Other spellings of the schemes, and types without prefixes, are read as BIO or BIOES:

| written | read |
|---|---|
| `B_PER`, `B:PER`, `b-per` | `B-PER` |
| `PER-B`, `PER_B` | `B-PER` |
| `BPER` beside `IPER` | `B-PER` |
| `M-PER` beside `B-`, `E-`, `S-` (BMES) | `I-PER` |
| `W-PER` beside `B-` (BMEOW, BILOW) | `S-PER` |
| `B`, `I`, `O` without types | `B-span`, `I-span` |
| `PER`, `PER`, `O` where most words are `O` (IO) | `B-PER`, `I-PER` |
| `_`, `o`, `0` or `-` beside `B-PER` | `O` |
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from ..core.tag_schemes import scheme_of
from ..utils.messages import few

LETTERS = "BIESLUMW"
OUTSIDE = ("O", "o", "0", "_", "-", "*")  # spellings of O beside B-X
SPAN = "span"  # type of B, I and O without types
PREFIX_FIRST = re.compile(rf"(?i)([{LETTERS}])([-_:/.|–—])(\S.*)")
TYPE_FIRST = re.compile(rf"(\S.*)([-_:/.|–—])([{LETTERS}])")
SAME = {"M": "I", "W": "S"}
HAS_SPANS = re.compile(rf"(?i)(?:[{LETTERS}][-_:/.|–—]\S.*|\S.*[-_:/.|–—][{LETTERS}]|[{LETTERS}])")


def usual_spelling(tags: Collection[str]) -> tuple[dict[str, str], str]:
    """Tag -> how it is written usually, for tags of spans in another spelling, and a note; empty for all others.

    Args:
        tags: all tags.
    """
    outside = [tag for tag in OUTSIDE if tag in tags]
    names = sorted(tag for tag in tags if tag not in outside)
    if not names:
        return {}, ""
    for pattern, prefix, mark, kind in ((PREFIX_FIRST, 1, 2, 3), (TYPE_FIRST, 3, 2, 1)):
        found = {tag: pattern.fullmatch(tag) for tag in names}
        if all(found.values()) and len({match[mark] for match in found.values() if match}) == 1:
            parts = {tag: (match[prefix].upper(), match[kind]) for tag, match in found.items() if match}
            cases = {match[prefix].isupper() for match in found.values() if match}  # both: a typo
            if len(cases) == 1 and "B" in {letter for letter, _ in parts.values()}:
                return _respelled({tag: f"{SAME.get(a, a)}-{b}" for tag, (a, b) in parts.items()}, outside)
    glued = {tag: (tag[0], tag[1:]) for tag in names if tag[0] in "BI" and tag[1:2].isalnum()}
    inside = {kind for letter, kind in glued.values() if letter == "I"}
    if len(glued) == len(names) and inside and inside <= {kind for letter, kind in glued.values() if letter == "B"}:
        return _respelled({tag: "-".join(parts) for tag, parts in glued.items()}, outside)
    if {"B", "I"} <= set(names) <= set("BI") or {"B", "E"} < set(names) <= set(LETTERS):
        return _respelled({tag: f"{SAME.get(tag, tag)}-{SPAN}" for tag in names}, outside)
    return {}, ""


def _respelled(new: dict[str, str], outside: Sequence[str]) -> tuple[dict[str, str], str]:
    changed = {tag: name for tag, name in new.items() if tag != name}
    changed |= {tag: "O" for tag in outside if tag != "O"} if scheme_of(new.values()) != "plain" else {}
    if not changed or scheme_of(new.values()) == "plain":
        return {}, ""
    shown = few([f"{tag} as {name}" for tag, name in sorted(changed.items())], 4)
    return changed, f"tags are read in their usual spelling: {shown}."


def are_types(counts: Mapping[str, int]) -> bool:
    """True for types of spans without prefixes: names beside an O that most words have."""
    others = [tag for tag in counts if tag != "O"]
    most = counts.get("O", 0) > max((counts[tag] for tag in others), default=0)
    return bool(others) and most and not any(HAS_SPANS.fullmatch(tag) for tag in others)


def joined_types(tags: Iterable[str]) -> list[str]:
    """Types of words as BIO tags: neighbours of one type are one span."""
    before, found = "O", []
    for tag in tags:
        found.append("O" if tag == "O" else f"{'I' if tag == before else 'B'}-{tag}")
        before = tag
    return found


def counted(rows: Iterable[Sequence[str]]) -> Counter[str]:
    """Tag -> number of words."""
    return Counter(tag for row in rows for tag in row)
