"""What the values of a column are: numbers, yes and no, dates, ids, names of files, or texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Any

LOOKED_AT = 1000  # rows that tell what a column holds
MOSTLY = 0.8  # share of values by which a column is one of numbers
FEW_ROWS = 10  # fewer rows tell nothing about repeated values
ONES = ("1", "1.0", "true", "yes", "y", "t", "x", "✓", "✔", "☑", "+", "ja", "oui", "si", "sí")
ZEROS = ("0", "0.0", "false", "no", "n", "f", "-", "☐", "nein", "non")
MARKS = ("x", "✓", "✔", "☑")  # beside these, an empty cell means no
DIGITS = ("0", "1", "0.0", "1.0")
UNKNOWN = (-1, "-1", "-1.0", "", "nan", None)  # cells of unknown labels

_DAY = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{1,2} \w{3,9}\.? \d{4})"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?(?:Z|[+-]\d{2}:?\d{2})?"
_KINDS = (  # the first that all values match
    ("dates", re.compile(rf"(?:{_DAY}(?:[T ]{_TIME})?|{_TIME})")),
    ("web addresses", re.compile(r"https?://\S+")),
    ("names of files", re.compile(r"\S.*\.(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{2,4}(?:\.gz)?")),
    ("numbers with marks", re.compile(r"[-+(]?[$€£¥]? ?\d[\d.,  ]*\)? ?(?:[%$€£¥°]|[A-Za-z]{1,3}\b)?")),
)
_ID = re.compile(r"[A-Za-z0-9_.:/#-]*[0-9][A-Za-z0-9_.:/#-]*")  # a single word with a digit
_ID_NAME = re.compile(r"(?i)(?:.*[_ .-])?(?:id|ids|idx|index|uuid|guid)")


def is_number(value: str) -> bool:
    """True for a text that is a number."""
    try:
        float(value)
        return True
    except ValueError:
        return False


def shown_values(values: Iterable[Any]) -> list[Any]:
    """The first values of a column that are not empty."""
    found: list[Any] = []
    for value in values:
        if value is not None and value == value and not (isinstance(value, str) and not value.strip()):
            found.append(value)
            if len(found) == LOOKED_AT:
                break
    return found


def are_numbers(values: Sequence[Any]) -> bool:
    """True if most values of a column are numbers, also as texts; the others are mistakes. Empty cells do not "
    "matter."""
    shown = shown_values(values)
    numbers = sum(isinstance(value, (int, float)) or (isinstance(value, str) and is_number(value)) for value in shown)
    return bool(shown) and MOSTLY * len(shown) <= numbers


def are_texts(values: Sequence[Any]) -> bool:
    """True if a column of strings may hold texts: its values are of no kind in [`kind_of_strings`]."""
    shown = shown_values(values)
    return any(isinstance(value, str) for value in shown) and not kind_of_strings(shown)


def kind_of_strings(values: Sequence[Any]) -> str:
    """What strings are in place of texts: `numbers`, `dates`, `web addresses`, `names of files`, `numbers with marks`
    (`1,5`, `12 %`, `$1,000`), `ids` (single words with a digit, hardly one twice), `repeated words` (values of a word
    or two, few of them different); empty for texts."""
    shown = [value.strip() for value in shown_values(values) if isinstance(value, str)]
    if not shown:
        return ""
    if sum(map(is_number, shown)) >= MOSTLY * len(shown):
        return "numbers"
    for kind, pattern in _KINDS:
        if all(pattern.fullmatch(value) for value in shown):
            return kind
    distinct = len(set(shown))
    if all(map(_ID.fullmatch, shown)) and 10 * distinct >= 9 * len(shown) and distinct > 1:
        return "ids"
    if len(shown) >= FEW_ROWS and 4 * distinct <= len(shown) and all(len(value.split()) <= 2 for value in shown):
        return "repeated words"
    return ""


def are_sets(values: Sequence[Any]) -> bool:
    """True if a column holds lists of names, also as texts such as `['a', 'b']`, or objects with choices."""
    shown = [value for value in shown_values(values)[:LOOKED_AT] if value not in ([], "[]")]
    return bool(shown) and all(map(_is_set, shown))


def _is_set(value: Any) -> bool:
    if isinstance(value, dict):
        return value.keys() == {"choices"}
    if isinstance(value, str):
        return re.fullmatch(r"""\[\s*['"].*['"]\s*\]""", value.strip(), re.DOTALL) is not None
    return isinstance(value, (list, tuple)) and all(isinstance(name, (str, dict)) for name in value)


def is_index(name: str, values: Sequence[Any]) -> bool:
    """True for a column of numbers that names rows: it is called so, or counts them."""
    if _ID_NAME.fullmatch(name):
        return True
    try:
        numbers = [float(value) for value in values[:LOOKED_AT]]
    except (TypeError, ValueError):
        return False
    return len(numbers) >= FEW_ROWS and all(after == before + 1 for before, after in pairwise(numbers))


def suffixes(values: Sequence[Any]) -> list[str]:
    """The suffixes of names of files, sorted."""
    return sorted({PurePath(value.replace("\\", "/")).suffix.lower() for value in values if isinstance(value, str)})


def zero_one(value: Any) -> float | None:
    """0 or 1, also in words, or -1 for unknown; None for anything else."""
    if isinstance(value, str):
        value = value.strip().lower()
    if value in UNKNOWN or value != value:
        return -1.0
    if isinstance(value, str):
        return 1.0 if value in ONES else 0.0 if value in ZEROS else None
    return float(value) if isinstance(value, (int, float)) and value in (0, 1) else None


def is_zero_one(values: Sequence[Any]) -> bool:
    """True if a column holds only 0 and 1, as numbers or in words such as yes and no, and unknown labels."""
    try:
        distinct = set(values)
    except TypeError:  # lists
        return False
    numbers = {zero_one(value) for value in distinct}
    return bool(numbers & {0.0, 1.0}) and None not in numbers


def is_yes_no(values: Iterable[Any]) -> bool:
    """True if a column holds 0 and 1 in words alone, such as yes and no, or x and nothing; not as numbers."""
    words = {value.strip().lower() for value in values if isinstance(value, str)} - {""}
    return bool(words) and words <= {*ONES, *ZEROS} and not words & {*DIGITS, *UNKNOWN}


def has_marks(columns: Iterable[Iterable[Any]]) -> bool:
    """True if columns of labels hold marks such as x, beside which an empty cell means no."""
    return any(
        isinstance(value, str) and value.strip().lower() in MARKS for values in columns for value in distinct(values)
    )


def distinct(values: Iterable[Any]) -> Iterable[Any]:
    """The values of a column, each once; all of them if it holds lists."""
    values = list(values)
    try:
        return set(values)
    except TypeError:
        return values
