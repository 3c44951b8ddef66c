"""Cells of a column of label sets: a table of the layouts that a column may have, what a cell of the others says by
itself, and how sets are written."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..utils.messages import few
from .column_choice import MOSTLY, valid_text
from .common import DataError
from .separators import SEPARATORS

NONE = "none"  # as a separator: each cell is one name

# --- a column ---------------------------------------------------------------------------------------------------------

EMPTY = ("", "[]", "()", "{}")
BITS = re.compile(r"""['"\[]*([01]{2,})['"\]]*""")
_MARK = rf"[\s{SEPARATORS}'\"()\[\]{{}}]"
TRUTHS = rf"(?i:{_MARK}*(?:true|false)(?:{_MARK}+(?:true|false))+{_MARK}*)"
VECTORS = (
    "cells such as {cell!r:.80} are vectors of 0 and 1. If they are names, give label_format='names' (--label_format "
    "names)."
)
MARKS = (
    "labels are read without the marks around them, {cell!r:.80} as {values}. If the marks belong to names, give "
    "label_separator='none' (--label_separator none)."
)


class Layout(NamedTuple):
    """A way to write the label sets of a column.

    Attributes:
        example: a cell.
        fits: True for a column that is written so, by its texts that are not empty, with their counts.
        read: a cell -> its values, or a text with separators: [`label_cell`] reads them in place of the cell.
        note: what is read from such cells, and what to do if they are something else.
        vectors: True if the values are 0 and 1, for each label.
    """

    example: str
    fits: Callable[[Counter[str]], bool]
    read: Callable[[Any], Any]
    note: str = ""
    vectors: bool = False


def _text(cell: Any) -> str:
    """A cell as a text, also a list of one value, or one of texts, which get commas; a comma for anything else."""
    if isinstance(cell, (list, tuple, np.ndarray)) and len(cell) == 1:
        cell = cell[0]
    elif isinstance(cell, (list, tuple)) and all(isinstance(value, str) for value in cell):
        cell = ",".join(cell)
    if isinstance(cell, Collection) and not isinstance(cell, str):
        return ","
    return "" if cell is None or cell != cell else str(cell).strip()


def is_filled(cell: Any) -> bool:
    """True for a cell that is not empty, nor an empty list."""
    return _text(cell) not in EMPTY


def _every(pattern: str) -> Callable[[Counter[str]], bool]:
    return lambda texts: all(map(re.compile(pattern).fullmatch, texts))


def _around(example: str, name: str) -> Layout:
    """Marks around each name, or before it, with or without separators between them."""
    return Layout(example, _every(rf"(?:{name}[\s,;|]*)+"), lambda cell: re.findall(name, _text(cell)), MARKS)


def _within(example: str) -> Layout:
    """Brackets around all names of a cell, which are no list of numbers, or of texts in quotes, and no mapping."""
    begin, end = example[0], example[-1]
    pattern = rf"\{begin}(?=.*[^\W\d])([^\{begin}\{end}\"'{':' * (begin == '{')}]+)\{end}"
    return Layout(example, _every(pattern), lambda cell: "".join(re.findall(pattern, _text(cell))), MARKS)


def _are_bits(texts: Counter[str]) -> bool:
    """True if most texts are bit strings of one length. The others are mistakes, which are named later."""
    bits = {text: found[1] for text in texts if (found := BITS.fullmatch(text))}
    if not bits or any(map(re.compile(f"[{SEPARATORS}]").search, texts)):
        return False
    lengths: Counter[int] = Counter()
    for text in bits:
        lengths[len(bits[text])] += texts[text]
    length, count = lengths.most_common(1)[0]
    zeros = length > 2 or any(found[0] == "0" for found in bits.values())  # 10 and 11 alone are ids
    return zeros and count >= MOSTLY * texts.total()


def _bits(cell: Any) -> Any:
    found = BITS.fullmatch(_text(cell))
    return [*found[1]] if found else cell


def _truths(cell: Any) -> list[int]:
    return [int(word.lower() == "true") for word in re.findall("(?i)true|false", _text(cell))]


LAYOUTS = (  # the first that fits
    Layout("true,false", _every(TRUTHS), _truths, VECTORS, vectors=True),
    Layout("0110", _are_bits, _bits, VECTORS, vectors=True),
    _around("<a><b>", r"<([^<>]+)>"),
    _around("__label__a __label__b", r"__label__([^\s,;|]+)"),
    _around("#a #b", r"#([^\s#,;|]+)"),
    _around('"a", "b"', r'"([^"]+)"'),
    _around("'a', 'b'", r"'([^']+)'"),
    _within("[a, b]"),
    _within("(a, b)"),
    _within("{a, b}"),
)
PLAIN = Layout("a|b", lambda texts: True, lambda cell: cell)  # each cell says by itself how it is read


def layout_of(cells: Iterable[Any], label_format: str, separator: str | None = None) -> Layout:
    """The layout of a column: the first of `LAYOUTS` that fits, else `PLAIN`. Its note shows the first cell.

    Args:
        cells: of all splits. If some are lists, no marks are around names.
        label_format: as in [`label_matrix`]. Ids and names are no vectors.
        separator: as in [`label_cell`]. If it is given, no marks are around names.
    """
    cells = [*cells]
    texts = Counter(text for text in map(_text, cells) if text not in EMPTY)
    vectors = label_format in ("auto", "multi_hot")
    marks = separator is None and not any(isinstance(cell, (list, tuple, np.ndarray)) for cell in cells)
    for layout in LAYOUTS:
        if texts and (vectors if layout.vectors else marks) and layout.fits(texts):
            example = next(iter(texts))
            values = layout.read(example)
            shown = few([*map(str, values)]) if isinstance(values, list) else values
            return layout._replace(note=layout.note.format(cell=example, values=shown))
    return PLAIN


# --- a cell -----------------------------------------------------------------------------------------------------------

_PRINTED = r"(?:-?[0-9]+\.?|True|False)"
PRINTED = rf"{_PRINTED}(\s+{_PRINTED})+"  # separated by blanks, as NumPy prints them
TEXTS = r"""('[^']*'|"[^"]*")(\s+('[^']*'|"[^"]*"))+"""
JOINED = re.compile(r"""(?<![\[\s])(['"])\s+(['"])""")  # the end of a text and the begin of the next one
SCORES = ("score", "probability", "confidence")
# Python's and NumPy's notation of sets and arrays
CALL = re.compile(r"(?:frozen)?set\(\)|\w+\(([\[{(].*[\]})])(?:,\s*dtype=[\w.<>']+)?\)", re.DOTALL)


def label_cell(value: Any, place: str, separator: str | None = None) -> list:
    """A label cell as a list. It may be a list, a JSON or Python list, an array as NumPy prints it, a mapping of names
    to 0 and 1, a number, or values separated by one of `SEPARATORS`, the first that occurs, or by blanks if all are
    numbers. Empty values and NaN are no labels: among others, as in multi-hot lists, they become None.

    Args:
        separator: the only mark that separates values; `none`: the cell is one name.
    """
    if isinstance(value, str):
        value = value.strip()
        if separator in (None, NONE) or not value.startswith("["):
            value = parsed(value, place)
    if isinstance(value, str):
        value = _separated(value, separator)
    elif isinstance(value, dict):
        value = _of_mapping(value, place)
    values = value if isinstance(value, (list, tuple, set, np.ndarray)) else [value]
    found = [_value(v, place) for v in values]
    return found if len(found) > 1 else [v for v in found if v is not None]


def _value(value: Any, place: str) -> Any:
    """A value in a label cell; None for an empty one."""
    if isinstance(value, str):
        return valid_text(value.strip(), place) or None
    if isinstance(value, dict):  # such as {"id": 28, "name": "Action"}; those with a score are no labels
        names = [value[key] for key in ("name", "label") if isinstance(value.get(key), (str, int))]
        if len(names) == 1 and not any(score in value for score in SCORES):
            return _value(names[0], place)
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if value is not None and not isinstance(value, (int, float, np.number)):
        raise DataError(
            f"{place}: label {str(value)[:60]} is neither a name nor a number. Give a list of names, or of objects "
            "with the name in `name` or `label`."
        )
    return None if value != value else value  # NaN


def _separated(value: str, separator: str | None) -> list[str]:
    """The values of a text. A separator at its end adds none."""
    if separator == NONE:
        return [value]
    if separator is None and not value.isalnum():
        if " " in value and re.fullmatch(PRINTED, value):
            return value.split()
        separator = next((mark for mark in SEPARATORS if mark in value), None)
    parts = value.split(separator) if separator else [value]
    return parts if parts[-1].strip() else parts[:-1]


def parsed(text: str, place: str) -> Any:
    """The list, tuple, set or mapping that a text is, in JSON, in Python's notation or as NumPy prints it. Other texts,
    such as a name in round brackets, stay unchanged. DataError for a list that is broken, or a mapping that is cut."""
    called = CALL.fullmatch(text)
    if not called and not text.startswith(("[", "{", "(")):
        return text
    try:
        return json.loads(text)
    except ValueError:
        literal = text
    if text.startswith("["):
        inner = text.removeprefix("[").removesuffix("]").strip()
        if re.fullmatch(rf"{PRINTED}|0[0-9]+", inner):  # neither JSON nor Python begins numbers with 0
            return [number.removesuffix(".") for number in inner.split()]
        if re.fullmatch(TEXTS, inner):  # Python would join them
            literal = re.sub(JOINED, r"\1, \2", text)
    elif called:
        literal = called[1] or "()"
    try:
        value = ast.literal_eval(literal)  # pandas writes these; literals only
    except (ValueError, SyntaxError, TypeError) as error:
        if text.startswith("["):
            cut = " NumPy left out the middle of a long array: write lists, df[column].map(list)." * ("..." in text)
            raise DataError(f"{place}: the cell {text[:60]!r} begins like a list but is not one.{cut}") from error
        if text.startswith("{") and "}" not in text:
            raise DataError(
                f"{place}: label cell {text[:60]!r} begins like a mapping but is not one. The file may end early."
            ) from error
        return text
    return value if isinstance(value, (list, tuple, set, dict)) else text


def _of_mapping(value: Mapping[str, Any], place: str) -> list[str]:
    """The names of a mapping to 0 and 1, as spaCy's `cats`, or the list in Label Studio's `{"choices": [...]}`."""
    if value.keys() == {"choices"} and isinstance(value["choices"], list):
        return value["choices"]
    wrong = next((name for name, number in value.items() if number not in (0, 1)), None)  # True is 1
    if wrong is not None and isinstance(value[wrong], (list, dict)):
        raise DataError(
            f"{place}: the label cell {str(value)[:60]} is an object with a field {wrong!r}; expected names, or 0 or 1 "
            f"for each name. If the labels are in {wrong!r}, write it as a field of the row."
        )
    if wrong is not None and all(isinstance(name, str) for name in value.values()):
        raise DataError(
            f"{place}: the label cell {str(value)[:60]} maps names to texts; expected 0 or 1 for each name. "
            "If the texts are the labels, give them as a list."
        )
    if wrong is not None:
        raise DataError(
            f"{place}: the label cell {str(value)[:60]} is a mapping with {value[wrong]!r} for {wrong!r}; expected 0 "
            "or 1 for each name. Cut probabilities at a threshold, such as 0.5, or train on them with "
            "label_format='probabilities' (--label_format probabilities); or give a list of names."
        )
    return [str(name) for name, number in value.items() if number]


# --- cells that are written -------------------------------------------------------------------------------------------

DIGITS = 6  # decimals of probabilities, energies and expected losses


def cell_writer(names: Sequence[str]) -> Callable[[Sequence[str]], str]:
    """A function that writes a set of these names as a text that [`label_cell`] reads back: joined by bars, or as a
    JSON list if a name would not survive that."""
    try:
        survive = all(label_cell(f"{name}|{name}", "") == [name] * 2 == label_cell(name, "") * 2 for name in names)
    except DataError:
        survive = False
    return "|".join if survive else lambda chosen: json.dumps(chosen, ensure_ascii=False)


def label_cells(decided: np.ndarray, labels: Sequence[str], suffix: str) -> list[Any]:
    """The decided labels of each row, in a file with this suffix: a text in csv and tsv, else a list."""
    chosen = [[labels[i] for i in np.flatnonzero(row).tolist()] for row in decided]
    return [*map(cell_writer(labels), chosen)] if suffix in (".csv", ".tsv") else chosen


def probability_cells(
    probabilities: np.ndarray, decided: np.ndarray, labels: Sequence[str], of_all: bool = False
) -> list[dict[str, float]]:
    """Label -> probability of each row: of the decided labels and the likeliest one, or of all."""
    shown = decided.copy()
    shown[np.arange(len(shown)), probabilities.argmax(1)] = True
    shown |= of_all
    places = [np.flatnonzero(row).tolist() for row in shown]
    return [{labels[i]: float(p[i]) for i in row} for p, row in zip(probabilities, places, strict=True)]
