"""Constituency trees as tag sequences: one tag per word, in relative levels (Gómez-Rodríguez & Vilares 2018).

A tree over n words is its list of constituents, [`Span`]s in preorder: an ancestor stands before its descendants. For
n > 1 the first one covers all words. Parts of speech are not constituents.

    (S (NP (DT the) (NN cat)) (VP (VBD slept)))  ->  +2(NP) -1(S) ()VP

The tag of a word is LEVEL(LABELS)CHAIN. d_i is the number of ancestors that words i and i + 1 have in common, where a
chain of constituents over the same words counts once. LEVEL is d_i - d_{i-1}, with a sign; d_0 = 0. LABELS are those of
the lowest common ancestor. CHAIN are the labels of the constituents over word i alone. The last word has neither LEVEL
nor LABELS. The labels of a chain are separated by `(`, outermost first. No label contains a parenthesis, so a tag has
one reading.

Every sequence of such tags is a tree, see [`tree_spans`].
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .tag_schemes import Span

ROOT = "ROOT"  # label of the whole sentence where nothing else covers it
_LABELS = r"(?:[^()\s]+(?:\([^()\s]+)*)?"
_TAG = re.compile(rf"([+-]\d+|)\(({_LABELS})\)({_LABELS})")


def is_tree_tag(name: str) -> bool:
    """True if a tag has the form LEVEL(LABELS)CHAIN."""
    return _TAG.fullmatch(name) is not None


def has_trees(tag_names: Iterable[str]) -> bool:
    """True if a list has tags and all of them are those of trees."""
    names = list(tag_names)
    return bool(names) and all(map(is_tree_tag, names))


def levels_of(tag_names: Sequence[str]) -> list[int]:
    """The number of each tag's level. Levels are numbered from 0 in the order of first appearance."""
    known: dict[str, int] = {}
    return [known.setdefault(_parts(name)[0], len(known)) for name in tag_names]


def tree_tags(spans: Iterable[Span], length: int) -> list[str]:
    """The tags of a tree.

    Args:
        spans: its constituents in preorder; see the module.
        length: n, at least 1.
    """
    begun: list[list[tuple[int, list[str]]]] = [[] for _ in range(length)]  # at each word: (end, labels) of a chain
    for label, start, end in spans:
        if begun[start] and begun[start][-1][0] == end:
            begun[start][-1][1].append(label)
        else:
            begun[start].append((end, [label]))
    tags: list[str] = []
    common: list[tuple[int, list[str]]] = []  # ancestors of this word and the next one
    depth = 0
    for i, chains in enumerate(begun):
        own = "(".join(chains.pop()[1]) if chains and chains[-1][0] == i + 1 else ""
        common += chains
        while common and common[-1][0] == i + 1:
            common.pop()
        if i == length - 1:
            tags.append(f"(){own}")
        else:
            tags.append(f"{len(common) - depth:+d}({'('.join(common[-1][1])}){own}")
            depth = len(common)
    return tags


def tree_spans(tags: Sequence[str]) -> list[Span]:
    """The tree of any sequence of n tags; the inverse of [`tree_tags`].

    Only the order of the levels matters: a constituent ends where a lower level follows. If the tags of one constituent
    name several labels, the first ones count. A constituent without labels is left out, but for the whole sentence,
    which is then called ROOT. Level and labels of the last tag have no effect.

    Raises:
        ValueError: a tag is not one of a tree, such as one of another encoding.
    """
    parts = [_parts(tag) for tag in tags]
    found: list[tuple[int, int, list[str]]] = []  # start, -end, labels
    opened: list[tuple[int, int, list[str]]] = []  # depth, start, labels; deeper and deeper
    depth = 0
    for i, (level, labels, own) in enumerate(parts):
        if own:
            found.append((i, -i - 1, own))
        last = i == len(parts) - 1
        depth += int(level or 0)
        start = i
        while opened and (last or opened[-1][0] > depth):
            _, start, names = opened.pop()
            found.append((start, -i - 1, names))
        if last:
            break
        if opened and opened[-1][0] == depth:
            opened[-1][2].extend(() if opened[-1][2] else labels)
        else:
            opened.append((depth, start, list(labels)))
    whole = (0, -len(parts))
    found = [(start, end, names or [ROOT] * ((start, end) == whole)) for start, end, names in found]
    return [Span(name, start, -end) for start, end, names in sorted(found) for name in names]


def _parts(tag: str) -> tuple[str, list[str], list[str]]:
    """Level, labels and chain of a tag."""
    match = _TAG.fullmatch(tag)
    if match is None:
        raise ValueError(
            f"the tag {tag!r} is not one of a tree in relative levels, such as '+2(NP)', '-1(S(VP)' or '()NP'. All "
            "tags of a sentence must have this encoding."
        )
    level, labels, own = match.groups()
    return level, labels.split("(") if labels else [], own.split("(") if own else []
