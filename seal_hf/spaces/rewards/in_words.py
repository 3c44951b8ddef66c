"""Rules in words, for readers."""

from __future__ import annotations

from collections.abc import Callable

from ...utils.messages import few
from .rule import Rule

SHOWN = 12  # names
LONGEST = 60  # characters of a pattern


def in_words(rule: Rule) -> str:
    """A rule for readers."""
    return WORDS[rule.kind](rule)


def _names(rule: Rule, otherwise: str = "") -> str:
    return few(rule.fields, SHOWN) if rule.fields else otherwise


def _pattern(rule: Rule) -> str:
    text = rule.pattern or ""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _percent(low: float, high: float) -> str:
    return f"{100 * low:g} %" if low == high else f"{100 * low:g} to {100 * high:g} %"


def _rates(rule: Rule) -> str:
    limits = zip(rule.fields, rule.values[::2], rule.values[1::2], strict=True)
    return "of all rows, " + ", ".join(f"{_percent(low, high)} have {name}" for name, low, high in limits)


def _pairs(rule: Rule) -> str:
    if not rule.fields:
        return "a label comes with its parents"
    pairs = zip(rule.fields[::2], rule.fields[1::2], strict=True)
    return "; ".join(f"{child} comes with {parent}" for child, parent in pairs)


def _region(rule: Rule) -> str:
    return _names(rule, "the foreground")


WORDS: dict[str, Callable[[Rule], str]] = {
    # tags
    "words": lambda rule: f"{_pattern(rule)} is in {_names(rule)}",
    "gazetteer": lambda rule: f"phrases of {_pattern(rule)} are in {_names(rule)}",
    "shape": lambda rule: f"words of the shape {_pattern(rule)} are in {_names(rule)}",
    "changes_after": lambda rule: f"the field changes only after {_pattern(rule)}",
    "first": lambda rule: f"the first word is in {_names(rule)}",
    "last": lambda rule: f"the last word is in {_names(rule)}",
    "once": lambda rule: f"{_names(rule)} is in one piece",
    "order": lambda rule: f"{_names(rule)}, in this order",
    "present": lambda rule: f"there is {_names(rule)}",
    "never_follows": lambda rule: f"{rule.fields[0]} never stands directly after {rule.fields[1]}",
    "spans_at_most": lambda rule: f"at most {rule.values[0]:g} spans of {_names(rule, 'all fields')}",
    # label sets
    "keywords": lambda rule: f"texts with {_pattern(rule)} have {_names(rule)}",
    "keywords_against": lambda rule: f"texts with {_pattern(rule)} do not have {_names(rule)}",
    "implies": lambda rule: f"{rule.fields[0]} comes with {rule.fields[1]}",
    "excludes": lambda rule: f"at most one of {_names(rule)}",
    "needs_any": lambda rule: f"at least one of {_names(rule)}",
    "at_least": lambda rule: f"at least {rule.values[0]:g} of {_names(rule, 'all labels')}",
    "at_most": lambda rule: f"at most {rule.values[1]:g} of {_names(rule, 'all labels')}",
    "exactly": lambda rule: f"exactly {rule.values[0]:g} of {_names(rule, 'all labels')}",
    "hierarchy": _pairs,
    "rates": _rates,
    # masks
    "area": lambda rule: f"{_region(rule)} is {_percent(*rule.values)} of the image",
    "connected": lambda rule: f"{_region(rule)} is in at most {rule.values[0]:g} piece{'s' * (rule.values[0] > 1)}",
    "touches_border": lambda rule: f"{_region(rule)} {'touches' if rule.values[0] else 'does not touch'} the border",
    "inside": lambda rule: (
        f"{_region(rule)} is inside {', '.join(f'{value:g}' for value in rule.values)} (left, top, right, bottom)"
    ),
    "smooth": lambda rule: f"{_region(rule)} is smooth over {rule.values[0]:g} pixels",
}
