"""A rule of a reward, and the YAML files of rules. Nothing in such a file is executed.

A file is a list under the key `rules`. Each rule has one key that says its kind, those that belong to the kind, and
perhaps a `weight`, a positive number, by default 1. The kinds stand in `tag_rules.py`, `label_rules.py`
and `mask_rules.py`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...utils.messages import brief, did_you_mean, few
from ...utils.yaml_files import read_yaml

LARGEST = sys.float_info.max  # larger whole numbers are no floats


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        kind: the key that says its kind.
        fields: the fields, labels or classes that it names, in order.
        pattern: a regular expression, or the name of a shape or of a gazetteer's file.
        weight: positive.
        values: its numbers.
        phrases: of a gazetteer.
        line: in its file, counted from 1.
    """

    kind: str
    fields: tuple[str, ...] = ()
    pattern: str | None = None
    weight: float = 1.0
    values: tuple[float, ...] = ()
    phrases: tuple[str, ...] = field(default=(), repr=False)
    line: int | None = field(default=None, compare=False)


class Item:
    """A rule as its file has it.

    Args:
        values: its keys and values.
        kind: the key that says its kind.
        where: file and line, for messages.
        line: the line.
        folder: of the file.
    """

    def __init__(self, values: Mapping[str, Any], kind: str, where: str, line: int | None, folder: Path):
        self.values, self.kind, self.where, self.line, self.folder = values, kind, where, line, folder

    def error(self, message: str) -> ValueError:
        """An error that names the file and the line."""
        return ValueError(f"{self.where}: {message}")

    def only(self, *keys: str) -> None:
        """Raises ValueError for a key that is not one of these, the kind or `weight`."""
        unknown = sorted(map(str, set(self.values) - {self.kind, "weight", *keys}))
        if unknown:
            raise self.error(f"unknown key {unknown[0]!r} in a rule of the kind {self.kind!r}.")

    def names(self, key: str, least: int = 1, distinct: bool = False) -> tuple[str, ...]:
        """One name or a list of at least so many names, `distinct` or not."""
        found = self.values.get(key)
        names = [found] if isinstance(found, str) else found
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            said = found if isinstance(found, list) else [found]
            hint = " YAML reads yes, no, on and off as true or false: quote them." * (True in said or False in said)
            raise self.error(f"`{key}` is {brief(found)}; it must be a name, or a list of names.{hint}")
        if not all(name.strip() for name in names):
            raise self.error(f"`{key}` is {brief(found)}, with an empty name. Remove it.")
        if distinct and len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise self.error(f"`{key}` names {twice!r} twice. Remove one.")
        if len(names) < least:
            raise self.error(f"`{key}` has {len(names)} name; expected at least {least}.")
        return tuple(names)

    def pattern(self, key: str) -> str:
        """A regular expression that does not match the empty text."""
        pattern = self.values[key]
        try:
            empty = re.search(pattern, "") is not None
        except (re.error, TypeError, OverflowError, RecursionError) as error:
            raise self.error(f"{brief(pattern)} is not a regular expression: {error}") from error
        if empty:
            raise self.error(f"{brief(pattern)} matches the empty text, so it selects nothing. Change it.")
        return pattern

    def number(self, key: str, low: float = 0, whole: bool = False) -> float:
        """A number of at least `low`."""
        return self._number(self.values[key], key, low, float("inf"), whole)

    def numbers(self, key: str, count: int, low: float, high: float) -> tuple[float, ...]:
        """A list of so many numbers from `low` to `high`."""
        found = self.values[key]
        if not isinstance(found, list) or len(found) != count:
            raise self.error(
                f"`{key}` is {brief(found)}; it must be a list of {count} numbers from {low:g} to {high:g}."
            )
        return tuple(self._number(value, key, low, high) for value in found)

    def interval(self, value: Any, what: str) -> tuple[float, float]:
        """A share, or a list of the lowest and the highest one."""
        pair = value if isinstance(value, list) else [value, value]
        if len(pair) != 2:
            raise self.error(
                f"`{what}` is {brief(value)}; it must be a share, or a list of the lowest and the highest."
            )
        low, high = (self._number(share, what, 0, 1) for share in pair)
        if low > high:
            raise self.error(f"`{what}` is {brief(value)}: the lowest share, {low:g}, is above the highest, {high:g}.")
        return low, high

    def _number(self, value: Any, key: str, low: float, high: float, whole: bool = False) -> float:
        kinds = (int,) if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= min(high, LARGEST):
            limits = f"from {low:g} to {high:g}" if high < float("inf") else f"of at least {low:g}"
            raise self.error(f"`{key}` is {brief(value)}; it must be a {'whole ' if whole else ''}number {limits}.")
        return float(value)

    def rule(self, fields: Sequence[str] = (), pattern: str | None = None, **more: Any) -> Rule:
        """The rule, with its weight."""
        weight = self.values.get("weight", 1)
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 < weight <= LARGEST:
            raise self.error(f"`weight` is {brief(weight)}; it must be a positive number.")
        return Rule(more.pop("kind", self.kind), tuple(fields), pattern, float(weight), line=self.line, **more)


Kinds = Mapping[str, Callable[[Item], list[Rule]]]  # key of a kind -> what reads such a rule


def load_items(file: str | Path) -> list[tuple[Any, int]]:
    """The items under `rules` of a file, each with its line.

    Raises:
        ValueError: there is no such file, it is not YAML, or it is not a list under the key `rules`.
    """
    try:
        found, root = read_yaml(file)
    except FileNotFoundError:
        raise ValueError(f"{file}: no such file. Give a YAML file of rules.") from None
    except OSError as error:
        raise ValueError(f"{file} is not readable: {error}. Give a YAML file of rules.") from error
    if not isinstance(found, dict) or list(found) != ["rules"] or not isinstance(found["rules"], list):
        raise ValueError(f"{file}: expected a list of rules under the key `rules`, and no other key.")
    nodes: Any = root
    lines = [node.start_mark.line + 1 for node in nodes.value[0][1].value]
    return list(zip(found["rules"], lines, strict=True))


def parse_rules(file: str | Path, kinds: Kinds, others: Mapping[str, Kinds] | None = None) -> list[Rule]:
    """The rules of a YAML file.

    Args:
        kinds: those of the outputs at hand.
        others: output in words -> its kinds, for the message about a rule for other outputs.

    Raises:
        ValueError: the file is wrong; the message names file and line.
    """
    rules = []
    for item, line in load_items(file):
        where = f"{file}, line {line}"
        own = [key for key in item if key in kinds] if isinstance(item, dict) else []
        if len(own) != 1:
            of = [word for word, known in (others or {}).items() if isinstance(item, dict) and set(item) & set(known)]
            hint = f" Its keys belong to rules for {of[0]}." if of and not own else ""
            if not of and not own and isinstance(item, dict):
                every = [key for known in (kinds, *(others or {}).values()) for key in known]
                hint = next((said for key in item if (said := did_you_mean(str(key), every))), "")
            raise ValueError(
                f"{where}: {brief(item)} has {len(own)} of the keys {', '.join(kinds)}; expected exactly one.{hint}"
            )
        rules += kinds[own[0]](Item(item, own[0], where, line, Path(file).parent))
    return rules


# Rules in words, for readers.

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
