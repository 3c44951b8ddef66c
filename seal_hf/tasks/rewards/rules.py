"""A rule of a reward, and the YAML files of rules. Nothing in such a file is executed.

A file is a list under the key `rules`. Each rule has one key that says its kind, the keys that belong to this kind, and
perhaps a `weight`, a positive number, by default 1. This module reads each kind and says it in words. `tag_rules.py`,
`label_rules.py` and `mask_rules.py` say what the kinds mean.
"""

from __future__ import annotations

import itertools
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
    """One rule of a reward.

    Attributes:
        kind: the key that says its kind.
        fields: the fields, labels or classes that it names, in order.
        pattern: a regular expression, or the name of a shape or of a gazetteer's file.
        weight: positive.
        values: its numbers.
        phrases: the phrases of a gazetteer.
        line: its line in the file, counted from 1.
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
        kind: the key that says which kind of rule it is.
        where: its file and line, for messages.
        line: its line in the file.
        folder: the folder of the file.
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
        """The name under a key, or a list of at least `least` names. `distinct` names may not repeat."""
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
        """The regular expression under a key. It may not match the empty text."""
        pattern = self.values[key]
        try:
            empty = re.search(pattern, "") is not None
        except (re.error, TypeError, OverflowError, RecursionError) as error:
            raise self.error(f"{brief(pattern)} is not a regular expression: {error}") from error
        if empty:
            raise self.error(f"{brief(pattern)} matches the empty text, so it selects nothing. Change it.")
        return pattern

    def number(self, key: str, low: float = 0, whole: bool = False) -> float:
        """The number under a key, at least `low`."""
        return self._number(self.values[key], key, low, float("inf"), whole)

    def interval(self, value: Any, what: str) -> tuple[float, float]:
        """The lowest and the highest share, from a share or from a list of both."""
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
        """The [`Rule`] that this item states, with its weight."""
        weight = self.values.get("weight", 1)
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 < weight <= LARGEST:
            raise self.error(f"`weight` is {brief(weight)}; it must be a positive number.")
        return Rule(more.pop("kind", self.kind), tuple(fields), pattern, float(weight), line=self.line, **more)


Kinds = Mapping[str, Callable[[Item], list[Rule]]]  # key of a kind -> what reads such a rule


# --- rules for tags ---------------------------------------------------------------------------------------------------


SHAPES = {  # name -> what a whole word looks like, without punctuation at its ends
    "capital": r"[^\W\d_].*",  # and that letter is a capital
    "capitals": r"[^\W\d_]{2,}",  # all of them capitals
    "digits": r"\d+([.,:/-]\d+)*",
    "has_digit": r".*\d.*",
    "email": r"[\w.+-]+@[\w-]+(\.[\w-]+)+",
    "url": r"(https?://|www\.)\S+",
}


def _read_words(item: Item) -> list[Rule]:
    item.only("are")
    return [item.rule(item.names("are"), item.pattern(item.kind))]


def _read_gazetteer(item: Item) -> list[Rule]:
    item.only("are")
    name = item.values["gazetteer"]
    try:
        lines = (item.folder / name).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, TypeError, UnicodeDecodeError) as error:
        raise item.error(
            f"`gazetteer` is {name!r}, which is not readable as UTF-8 text beside the rules: {error}."
        ) from error
    phrases = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not phrases:
        raise item.error(f"`gazetteer` is {name!r}, which holds no phrase. Give one phrase per line.")
    return [item.rule(item.names("are"), name, phrases=phrases)]


def _read_shape(item: Item) -> list[Rule]:
    item.only("are")
    name = item.values["shape"]
    if not isinstance(name, str) or name not in SHAPES:
        raise item.error(f"`shape` is {name!r}; it must be one of {', '.join(SHAPES)}.")
    return [item.rule(item.names("are"), name)]


def _read_changes_after(item: Item) -> list[Rule]:
    item.only()
    return [item.rule((), item.pattern(item.kind))]


def _read_fields(item: Item) -> list[Rule]:
    item.only()
    return [item.rule(item.names(item.kind))]


def _read_each(item: Item) -> list[Rule]:
    item.only()
    return [item.rule((name,)) for name in item.names(item.kind)]


def _read_pair(item: Item) -> list[Rule]:
    item.only()
    fields = item.names(item.kind)
    if len(fields) != 2:
        raise item.error(f"`{item.kind}` has {len(fields)} fields; expected two: the first, the second.")
    return [item.rule(fields)]


TAG_KINDS = {
    "words": _read_words,
    "gazetteer": _read_gazetteer,
    "shape": _read_shape,
    "changes_after": _read_changes_after,
    "first": _read_fields,
    "last": _read_fields,
    "once": _read_each,
    "order": _read_pair,
    "present": _read_each,
    "never_follows": _read_pair,
}


# --- rules for label sets ---------------------------------------------------------------------------------------------


# scripts that write no blanks between words: Chinese and Japanese, Thai, Lao, Burmese, Khmer
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
AGAINST, CLOSED = "keywords_against", "closed"
MANY = 1e9  # more than any number of labels


def _whole_word(word: str) -> str:
    """The pattern of a word. At an end in a script without blanks, other letters may stand beside it."""
    before, after = (
        "" if re.match(f"[{UNSPACED}]", letter) else boundary
        for letter, boundary in ((word[:1], r"(?<!\w)"), (word[-1:], r"(?!\w)"))
    )
    return f"{before}{re.escape(word)}{after}"


def _read_keywords(item: Item) -> list[Rule]:
    item.only("for", "against")
    sides = [side for side in ("for", "against") if side in item.values]
    if not sides:
        raise item.error("a rule of the kind 'keywords' needs `for` or `against`, the labels that it speaks about.")
    if isinstance(item.values["keywords"], list):
        words = item.names("keywords")
        pattern = r"(?<!\w)(" + "|".join(map(re.escape, words)) + r")(?!\w)"
        if re.search(f"[{UNSPACED}]", "".join(words)):
            pattern = "|".join(map(_whole_word, words))
    else:
        pattern = item.pattern("keywords")
    return [item.rule(item.names(side), pattern, kind="keywords" if side == "for" else AGAINST) for side in sides]


def _read_implies(item: Item) -> list[Rule]:
    item.only()
    first, *others = item.names("implies", least=2, distinct=True)
    return [item.rule((first, other)) for other in others]


def _read_excludes(item: Item) -> list[Rule]:
    item.only()
    return [item.rule(item.names("excludes", least=2, distinct=True), values=(0, 1))]


def _read_count(item: Item) -> list[Rule]:
    item.only("of")
    number = item.number(item.kind, whole=True)
    low, high = {"at_least": (number, MANY), "at_most": (0, number)}.get(item.kind, (number, number))
    return [item.rule(item.names("of", distinct=True) if "of" in item.values else (), values=(low, high))]


def _read_hierarchy(item: Item) -> list[Rule]:
    item.only()
    pairs = item.values["hierarchy"]
    if pairs == CLOSED:
        return [item.rule(pattern=CLOSED)]
    is_list = isinstance(pairs, list) and pairs and all(isinstance(pair, list) and len(pair) == 2 for pair in pairs)
    if not is_list or not all(isinstance(name, str) for pair in pairs for name in pair):
        raise item.error(f"`hierarchy` is {pairs!r}; it must be {CLOSED}, or a list of pairs [child, parent].")
    return [item.rule([name for pair in pairs for name in pair])]


def _read_rates(item: Item) -> list[Rule]:
    item.only()
    rates = item.values["rates"]
    if not isinstance(rates, dict) or not rates or not all(isinstance(name, str) for name in rates):
        raise item.error(f"`rates` is {rates!r}; it must give each label a share, such as {{joy: 0.1}}.")
    limits = [item.interval(value, f"rates of {name}") for name, value in rates.items()]
    return [item.rule(list(rates), values=tuple(itertools.chain(*limits)))]


LABEL_KINDS = {
    "keywords": _read_keywords,
    "implies": _read_implies,
    "excludes": _read_excludes,
    "at_least": _read_count,
    "at_most": _read_count,
    "exactly": _read_count,
    "hierarchy": _read_hierarchy,
    "rates": _read_rates,
}


# --- rules for masks --------------------------------------------------------------------------------------------------


def _read_area(item: Item) -> list[Rule]:
    return _of_class(item, item.interval(item.values["area"], "area"))


def _read_connected(item: Item) -> list[Rule]:
    return _of_class(item, (item.number("connected", low=1, whole=True),))


def _read_smooth(item: Item) -> list[Rule]:
    size = item.number("smooth", low=3, whole=True)
    if size % 2 == 0:
        raise item.error(f"`smooth` is {size:g}; it must be an odd number of pixels.")
    return _of_class(item, (size,))


def _of_class(item: Item, values: tuple[float, ...]) -> list[Rule]:
    item.only("of")
    classes = item.names("of") if "of" in item.values else ()
    if len(classes) > 1:
        raise item.error(f"`of` names {len(classes)} classes; expected one. Write a rule for each.")
    return [item.rule(classes, values=values)]


MASK_KINDS = {
    "area": _read_area,
    "connected": _read_connected,
    "smooth": _read_smooth,
}


# --- files ------------------------------------------------------------------------------------------------------------


OF_OUTPUT: dict[str, Kinds] = {"label sets": LABEL_KINDS, "tags": TAG_KINDS, "masks": MASK_KINDS}


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


def parse_rules(file: str | Path, kinds: Kinds) -> list[Rule]:
    """The rules of a YAML file.

    Args:
        kinds: those of the outputs at hand.

    Raises:
        ValueError: the file is wrong; the message names file and line.
    """
    rules = []
    for item, line in load_items(file):
        where = f"{file}, line {line}"
        own = [key for key in item if key in kinds] if isinstance(item, dict) else []
        if len(own) != 1:
            of = [word for word, known in OF_OUTPUT.items() if isinstance(item, dict) and set(item) & set(known)]
            hint = f" Its keys belong to rules for {of[0]}." if of and not own else ""
            if not of and not own and isinstance(item, dict):
                every = [key for known in (kinds, *OF_OUTPUT.values()) for key in known]
                hint = next((said for key in item if (said := did_you_mean(str(key), every))), "")
            raise ValueError(
                f"{where}: {brief(item)} has {len(own)} of the keys {', '.join(kinds)}; expected exactly one.{hint}"
            )
        rules += kinds[own[0]](Item(item, own[0], where, line, Path(file).parent))
    return rules


def read_rules(file: str | Path) -> list[Rule]:
    """The rules of a YAML file, which are for one kind of output. Nothing in it is executed.

    Raises:
        ValueError: the file is wrong; the message names file and line.
    """
    return parse_rules(file, OF_OUTPUT[output_of_rules(file)])


def output_of_rules(file: str | Path) -> str:
    """Which outputs a file of rules is for: `label sets`, `tags` or `masks`. The first rule of a known kind tells it.

    Raises:
        ValueError: as [`read_rules`]; no rule's kind is known, or there is no rule.
    """
    for item, _ in load_items(file):
        keys: Sequence[Any] = list(item) if isinstance(item, dict) else []
        for output, kinds in OF_OUTPUT.items():
            if any(key in kinds for key in keys):
                return output
    every = {key: kind for kinds in OF_OUTPUT.values() for key, kind in kinds.items()}
    parse_rules(file, every)  # raises at the first rule
    raise ValueError(f"{file} has no rule. Write rules below `rules:`, see docs/reference/rules.md.")


# --- in words, for readers --------------------------------------------------------------------------------------------


SHOWN = 12  # names
LONGEST = 60  # characters of a pattern


def in_words(rule: Rule) -> str:
    """A rule in words, for readers."""
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
    # label sets
    "keywords": lambda rule: f"texts with {_pattern(rule)} have {_names(rule)}",
    "keywords_against": lambda rule: f"texts with {_pattern(rule)} do not have {_names(rule)}",
    "implies": lambda rule: f"{rule.fields[0]} comes with {rule.fields[1]}",
    "excludes": lambda rule: f"at most one of {_names(rule)}",
    "at_least": lambda rule: f"at least {rule.values[0]:g} of {_names(rule, 'all labels')}",
    "at_most": lambda rule: f"at most {rule.values[1]:g} of {_names(rule, 'all labels')}",
    "exactly": lambda rule: f"exactly {rule.values[0]:g} of {_names(rule, 'all labels')}",
    "hierarchy": _pairs,
    "rates": _rates,
    # masks
    "area": lambda rule: f"{_region(rule)} is {_percent(*rule.values)} of the image",
    "connected": lambda rule: f"{_region(rule)} is in at most {rule.values[0]:g} piece{'s' * (rule.values[0] > 1)}",
    "smooth": lambda rule: f"{_region(rule)} is smooth over {rule.values[0]:g} pixels",
}
