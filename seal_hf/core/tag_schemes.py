"""Tag schemes: spans of a tag sequence, conversion between schemes, and which tag may follow which.

There are three schemes. `plain`: every tag stands for itself (parts of speech). `bio` (IOB2): `B-X` begins a span of
type X, `I-X` continues it, `O` is outside. `bioes`: in addition, `E-X` ends a span of several words and `S-X` is a span
of one word.

A span is `(type, start, end)`; its words are `start .. end - 1`. Tag sequences have two readings:

* *strict*, as seqeval's `mode="strict"`: a span counts only if it is well-formed; stray tags are outside.
* *lenient*, as CoNLL's `conlleval` and seqeval without a scheme: a span also begins at a tag that cannot continue the
  one before it. This reading defines IOB1, in which `B-X` stands only between two touching spans of one type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

SCHEMES = ("plain", "bio", "bioes")
CORE_ROLE = re.compile(r"(?:ARG|A)[0-5A]")  # PropBank: ARG0 .. ARG5 and ARGA; CoNLL-2005: A0 .. A5 and AA
PREDICATE = "V"  # in semantic roles the predicate is given, not predicted, so that its spans do not count
BEGINS = ("B", "S", "U")  # prefixes of a span's first word
_BILOU = {"L": "E", "U": "S"}  # BILOU is BIOES in other letters


class Span(NamedTuple):
    """A span: the words `start .. end - 1`, counted from 0, have the type `type`."""

    type: str
    start: int
    end: int


class Transitions(NamedTuple):
    """Which sequences of C tags are well-formed. True means allowed.

    Attributes:
        between: (C, C) bool, `between[i, j]`: tag j may follow tag i.
        start: (C,) bool, the tag may come first.
        end: (C,) bool, the tag may come last.
    """

    between: np.ndarray
    start: np.ndarray
    end: np.ndarray


def split_tag(tag: str) -> tuple[str, str]:
    """Split a tag into its prefix and its type: `B-C-ARG1` -> (`B`, `C-ARG1`), `O` -> (`O`, ``)."""
    prefix, _, kind = tag.partition("-")
    return prefix, kind


def scheme_of(tag_names: Iterable[str]) -> str:
    """The scheme of tags: `bio` or `bioes` if all names are `O` or a prefix and a type, and at least one is the latter;
    otherwise `plain`.

    Give the names of a whole label list, not of one sentence: `B-X I-X` alone is BIO, but also a part of BIOES.
    BILOU counts as `bioes`, IOB1 as `bio`: [`convert`] reads both.
    """
    names = set(tag_names) - {"O"}
    if not names or not all(re.fullmatch(r"[BIESLU]-.+", name) for name in names):
        return "plain"
    return "bio" if {name[0] for name in names} <= {"B", "I"} else "bioes"


def scheme_of_model(tag_names: Iterable[str]) -> str:
    """The scheme of a task-net's C tags, as [`scheme_of`] finds it, with one exception. A net that knows an `I-X`
    without the `B-X` that begins such a span was trained on IOB1 tags as they are written, each by itself: `plain`."""
    names = set(tag_names)
    found = scheme_of(names)
    inside = {split_tag(name)[1] for name in names if name.startswith("I-")}
    return "plain" if found == "bio" and any(f"B-{kind}" not in names for kind in inside) else found


def given_types(tag_names: Iterable[str]) -> set[str]:
    """The types of spans that are given, not predicted: `V` if the tags also have core roles."""
    kinds = {split_tag(name)[1] for name in tag_names}
    return {PREDICATE} & kinds if any(map(CORE_ROLE.fullmatch, kinds)) else set()


def core_roles(tag_names: Sequence[str]) -> dict[str, list[int]]:
    """Maps each core role to the numbers of the tags that begin its spans: `B-X`, and `S-X` or `U-X` if there is
    one."""
    found: dict[str, list[int]] = {}
    for number, tag in enumerate(tag_names):
        prefix, role = split_tag(tag)
        if prefix in BEGINS and CORE_ROLE.fullmatch(role):
            found.setdefault(role, []).append(number)
    return found


def spans(tags: Sequence[str], scheme: str, *, strict: bool = True) -> list[Span]:
    """Spans of a tag sequence, from left to right.

    Args:
        tags: T names.
        scheme: `bio` or `bioes`; BILOU counts as `bioes`.
        strict: True for the strict reading, False for the lenient one, which is the same for both schemes. See the
            module's docstring.

    Raises:
        ValueError: an unknown scheme, or `plain`, which has no spans.
    """
    if scheme not in ("bio", "bioes"):
        raise ValueError(f"spans are defined for the schemes bio and bioes; found {scheme!r}")
    found: list[Span] = []
    begin, inside, previous = -1, "", "O"  # begin = -1: no span is open; inside: type of the open span
    for i, tag in enumerate([*tags, "O"]):
        prefix, kind = split_tag(tag)
        prefix = _BILOU.get(prefix, prefix)
        goes_on = begin >= 0 and kind == inside and prefix in ("I", "E") and previous in ("B", "I")
        if begin >= 0 and not goes_on:
            if not strict or scheme == "bio" or previous in ("E", "S"):
                found.append(Span(inside, begin, i))
            begin = -1
        if begin < 0 and (prefix in ("B", "S") or (not strict and prefix in ("I", "E"))):
            begin, inside = i, kind
        previous = prefix
    return found


def spans_of_ids(ids: np.ndarray, tag_names: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The strict spans of long sequences at once, as [`spans`] finds them in each.

    Args:
        ids: (M,) int64, the tags of sequences one after the other, as indices of `tag_names`, with -1 between two
            sequences.
        tag_names: C names in `bio` or `bioes`.

    Returns:
        three (S,) int64, in order: the id of the tag that begins each span, the index of its first word in `ids`, and
        the index after its last word.
    """
    prefixes, kinds = (np.array([*parts, ""]) for parts in zip(*map(split_tag, tag_names), strict=True))  # -1: the last
    prefixes = np.array([_BILOU.get(prefix, prefix) for prefix in prefixes])
    types = np.unique(kinds, return_inverse=True)[1]
    may_follow, may_precede = np.isin(prefixes, ["I", "E"])[ids], np.isin(prefixes, ["B", "I"])[ids]
    goes_on = np.zeros(len(ids), dtype=bool)
    goes_on[1:] = may_follow[1:] & may_precede[:-1] & (types[ids[1:]] == types[ids[:-1]])
    begin = np.flatnonzero(~goes_on)
    end = np.append(begin[1:], len(ids))[: len(begin)]
    last = prefixes[ids[end - 1]]
    whole = np.isin(prefixes[ids[begin]], ["B", "S"])
    if scheme_of(tag_names) == "bioes":
        whole &= np.isin(last, ["E", "S"])
    return ids[begin[whole]], begin[whole], end[whole]


def encode(found: Iterable[Span], length: int, scheme: str) -> list[str]:
    """Write non-overlapping spans as `length` tags in `bio` or `bioes`. It is the inverse of [`spans`]."""
    tags = ["O"] * length
    for kind, start, end in found:
        tags[start:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - start - 1)
        if scheme == "bioes":
            tags[end - 1] = f"E-{kind}" if end - start > 1 else f"S-{kind}"
    return tags


def convert(tags: Sequence[str], scheme: str) -> list[str]:
    """Convert IOB1, BIO, BIOES or BILOU tags to well-formed `bio` or `bioes`, by the lenient reading.

    A well-formed sequence keeps its spans exactly. In any other, every tagged word stays in a span of its type.
    """
    return encode(spans(tags, "bioes", strict=False), len(tags), scheme)


def allowed_transitions(tag_names: Sequence[str]) -> Transitions:
    """Which sequences over a label list are well-formed, for constrained decoding.

    BIO: `I-X` needs `B-X` or `I-X` before it. BIOES: in addition, a span that `B-X` begins must continue to its `E-X`.
    Plain: everything is allowed. A sequence is allowed if and only if encoding its strict spans gives it back.
    """
    scheme, number = scheme_of(tag_names), len(tag_names)
    if scheme == "plain":
        return Transitions(np.ones((number, number), bool), np.ones(number, bool), np.ones(number, bool))
    prefixes, kinds = (np.array(parts) for parts in zip(*map(split_tag, tag_names), strict=True))
    goes_on = np.isin(prefixes, ["I", "E", "L"])  # continues the span of the tag before it
    may_go_on = np.isin(prefixes, ["B", "I"])
    must_go_on = may_go_on & (scheme == "bioes")
    same = kinds[:, None] == kinds[None, :]
    between = np.where(goes_on[None, :], may_go_on[:, None] & same, ~must_go_on[:, None])
    return Transitions(between, ~goes_on, ~must_go_on)


def is_well_formed(tags: Sequence[str], scheme: str) -> bool:
    """True if the strict reading loses nothing; always True for `plain`."""
    if scheme == "plain":
        return True
    letters = [_BILOU.get(tag[0], tag[0]) + tag[1:] if tag[1:2] == "-" else tag for tag in tags]
    return encode(spans(tags, scheme), len(tags), scheme) == letters
