"""Label sets in the cells of a column, or in a column for each label, and their matrix."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..utils.messages import did_you_mean, few
from .column_choice import MOSTLY, PROBABILITIES, is_number, valid_text, zero_one
from .common import DataError
from .hygiene import SEPARATORS

FORMATS = ("auto", "ids", "names", "multi_hot")
NONE = "none"  # as a separator: each cell is one name
_PRINTED = r"(?:-?[0-9]+\.?|True|False)"
PRINTED = rf"{_PRINTED}(\s+{_PRINTED})+"  # separated by blanks, as NumPy prints them
TEXTS = r"""('[^']*'|"[^"]*")(\s+('[^']*'|"[^"]*"))+"""
JOINED = re.compile(r"""(?<![\[\s])(['"])\s+(['"])""")  # the end of a text and the begin of the next one
SCORES = ("score", "probability", "confidence")
SETS = ("set(", "frozenset(")  # how Python writes sets for which braces do not do
MULTI_HOT = ("0", "1", "-1", "0.0", "1.0", "-1.0")
NEGATIVE = (-1, "-1", "-1.0")  # unknown labels, also beside marks
MAX_IDS = 100_000  # a larger id without a list of names is a year, a date or a key


def place_of(source: str, split: str, row: int | None = None) -> str:
    """The place of a mistake: `source, train split, row 3`; a single file has no splits yet."""
    place = source if split == "all" else f"{source}, {split} split"
    return place if row is None else f"{place}, row {row} (counting from 0)"


def label_cell(value: Any, place: str, separator: str | None = None) -> list:
    """A label cell as a list. It may be a list, a JSON or Python list, an array as NumPy prints it, a mapping of names
    to 0 and 1, a number, or values separated by one of `SEPARATORS`, the first that occurs, or by blanks if all are
    numbers. Empty values and NaN are no labels: among others, as in multi-hot lists, they become None.

    Args:
        separator: the only mark that separates values; `none`: the cell is one name.
    """
    if value is None:
        return []
    if isinstance(value, str):
        value = value.strip()
        value = _literal(value) if value.startswith(("(", "{", *SETS)) else value
    if isinstance(value, str) and value.startswith("{") and "}" not in value:
        raise DataError(
            f"{place}: label cell {value[:60]!r} begins like a mapping but is not one. The file may end early."
        )
    if isinstance(value, str):
        if not value.startswith("[") or separator not in (None, NONE):
            return _separated(value, place, separator)
        value = list_in_text(value, place)
    if isinstance(value, dict):
        value = _of_mapping(value, place)
    values = value if isinstance(value, (list, tuple, set, np.ndarray)) else [value]
    found = [_value(v, place) for v in values]
    return found if len(found) > 1 else [v for v in found if v is not None]


def _value(value: Any, place: str) -> Any:
    """A value in a label cell; None for an empty one."""
    if isinstance(value, dict):  # such as {"id": 28, "name": "Action"}; those with a score are no labels
        names = [value[key] for key in ("name", "label") if isinstance(value.get(key), (str, int))]
        value = names[0] if len(names) == 1 and not any(score in value for score in SCORES) else value
    if isinstance(value, str):
        return valid_text(value.strip(), place) or None
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if value is not None and not isinstance(value, (int, float, np.number)):
        raise DataError(
            f"{place}: label {str(value)[:60]} is neither a name nor a number. Give a list of names, or of objects "
            "with the name in `name` or `label`."
        )
    return None if value != value else value  # NaN


def _separated(value: str, place: str, separator: str | None) -> list:
    """The values of a text."""
    if separator == NONE:
        return [valid_text(value, place)] if value else []
    if separator is None and not value.isalnum():
        if " " in value and re.fullmatch(PRINTED, value):
            return value.split()
        separator = next((mark for mark in SEPARATORS if mark in value), None)
    parts = value.split(separator) if separator else [value]
    found = [valid_text(part.strip(), place) or None for part in parts]
    found = found if found[-1] else found[:-1]  # a separator at the end adds no value
    return found if len(found) > 1 else [part for part in found if part]


def list_in_text(value: str, place: str) -> Any:
    """A text that begins like a list: JSON, Python's notation, or an array as NumPy prints it."""
    try:
        return json.loads(value)
    except ValueError:
        inner = value.removeprefix("[").removesuffix("]").strip()
        if re.fullmatch(PRINTED, inner):
            return [number.removesuffix(".") for number in inner.split()]
        if re.fullmatch(TEXTS, inner):  # Python would join them
            value = re.sub(JOINED, r"\1, \2", value)
        try:
            return ast.literal_eval(value)  # pandas writes these; literals only
        except (ValueError, SyntaxError, TypeError) as error:
            cut = " NumPy left out the middle of a long array: write lists, df[column].map(list)." * ("..." in value)
            raise DataError(f"{place}: the cell {value[:60]!r} begins like a list but is not one.{cut}") from error


def _of_mapping(value: Mapping[str, Any], place: str) -> list[str]:
    """The names of a mapping to 0 and 1, as spaCy's `cats`, or the list in Label Studio's `{"choices": [...]}`."""
    if value.keys() == {"choices"} and isinstance(value["choices"], list):
        return value["choices"]
    wrong = next((name for name, number in value.items() if number not in (0, 1)), None)  # True is 1
    if wrong is not None and all(isinstance(name, str) for name in value.values()):
        raise DataError(
            f"{place}: the label cell {str(value)[:60]} maps names to texts; expected 0 or 1 for each name. "
            "If the texts are the labels, give them as a list."
        )
    if wrong is not None:
        raise DataError(
            f"{place}: the label cell {str(value)[:60]} is a mapping with {value[wrong]!r} for {wrong!r}; expected 0 "
            "or 1 for each name. Cut probabilities at a threshold, such as 0.5, or train on them with --label_format "
            "probabilities; or give a list of names."
        )
    return [str(name) for name, number in value.items() if number]


# --- layouts of a column ----------------------------------------------------------------------------------------------

EMPTY = ("", "[]", "()", "{}")
BITS = re.compile(r"""['"\[]*[01]{2,}['"\]]*""")
_MARK = rf"[\s{SEPARATORS}'\"()\[\]{{}}]"
TRUTHS = rf"(?i:{_MARK}*(?:true|false)(?:{_MARK}+(?:true|false))+{_MARK}*)"
VECTORS = "cells such as {cell!r} are vectors of 0 and 1. If they are names, give --label_format names."
MARKS = (
    "labels are read without the marks around them, {cell!r} as {values}. If the marks belong to names, give "
    "--label_separator none."
)


class Layout(NamedTuple):
    """A way to write the label sets of a column.

    Attributes:
        example: a cell.
        fits: True for a column that is written so, by its texts that are not empty, with their counts.
        plain: a cell -> what [`label_cell`] reads in its place.
        note: what is read from such cells, and what to do if they are something else.
        vectors: True if the values are 0 and 1, for each label.
    """

    example: str
    fits: Callable[[Counter[str]], bool]
    plain: Callable[[Any], Any]
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
    if any(map(re.compile(f"[{SEPARATORS}]").search, texts)):
        return False
    lengths: Counter[int] = Counter()
    for text, count in texts.items():
        lengths[len(_bits(text)) if BITS.fullmatch(text) else 0] += count
    length, count = lengths.most_common(1)[0]
    zeros = length > 2 or any(_bits(text)[:1] == ["0"] for text in texts)  # 10 and 11 alone are ids
    return length > 0 and zeros and count >= MOSTLY * texts.total()


def _bits(cell: Any) -> Any:
    return re.findall("[01]", _text(cell)) if BITS.fullmatch(_text(cell)) else cell


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
    """The layout of a column: the first of `LAYOUTS` that fits, else `PLAIN`. Its note has the first cell as example.

    Args:
        cells: of all splits. Names in lists have no marks around them.
        label_format: as in [`label_matrix`]; ids and names are no vectors.
        separator: as in [`label_cell`]; names beside one that is given have no marks around them.
    """
    cells = [*filter(is_filled, cells)]
    texts = Counter(map(_text, cells))
    vectors = label_format in ("auto", "multi_hot")
    marks = separator is None and not any(isinstance(cell, (list, tuple, np.ndarray)) for cell in cells)
    for layout in LAYOUTS:
        if texts and (vectors if layout.vectors else marks) and layout.fits(texts):
            example = next(iter(texts))
            plain = layout.plain(example)
            values = few([*map(str, plain)]) if isinstance(plain, list) else plain
            return layout._replace(note=layout.note.format(cell=example, values=values))
    return PLAIN


def cell_writer(names: Sequence[str]) -> Callable[[Sequence[str]], str]:
    """A function that writes a set of these names as a text that [`label_cell`] reads back: joined by bars, or as a
    JSON list if a name would not survive that."""
    if all(_survives(name) for name in names):
        return "|".join
    return lambda chosen: json.dumps(chosen, ensure_ascii=False)


def _survives(name: str) -> bool:
    try:
        return label_cell(name, "") == [name] and label_cell(f"{name}|{name}", "") == [name, name]
    except DataError:
        return False


def _literal(text: str) -> Any:
    """A mapping in JSON, or a tuple, set or mapping in Python's notation; other texts, such as a name in brackets, stay
    unchanged."""
    if text.startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            pass
    if text.startswith(SETS) and text.endswith(")"):
        text = text[text.index("(") + 1 : -1] or "()"
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return text
    return value if isinstance(value, (tuple, set, dict)) else text


def label_matrix(
    cells: dict[str, list[list]],
    names: list[str] | None,
    label_format: str,
    source: str,
    place: Callable[[str, int], str] | None = None,
    dtype: type = np.float32,
    file: str | None = None,
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Label cells by split -> multi-hot matrices (N, L) by split, and the L names.

    `auto` means `names` if some value is not a number. Else it means `multi_hot` if only 0 and 1 occur, and some row
    has a value twice (no list of ids has) or all rows have the same length >= 2 (as ids, they would all be equal). Else
    it means `ids`. Without `names`, ids count from 0 to the largest, and names are sorted. In multi-hot lists -1 and
    None are unknown labels, -1 in the matrix; elsewhere None is not a label. Messages name
    the `place` of a split's row, and the `file` that the `names` are from.

    Raises:
        DataError: an unknown name, an id outside the range, a ragged or non-binary multi-hot row, no label at all.
    """
    place = place or partial(place_of, source)
    if label_format not in FORMATS:
        expected = f"{', '.join(FORMATS)}, or, to train, {PROBABILITIES}"
        raise DataError(f"`label_format` is {label_format!r}; it must be one of {expected}.")
    values = [cell for rows in cells.values() for cell in rows]
    guessed = label_format == "auto"
    if guessed:
        label_format = guess_format(values, len(names) if names else None)
    remedy = ""
    if names and file:
        remedy = (
            f" {file} has {len(names)} name{'s' * (len(names) != 1)}: add the missing ones to it, or correct the label."
        )
    if label_format == "multi_hot":
        return _multi_hot(cells, names, source, place, dtype, remedy)
    cells = {split: [[v for v in cell if v is not None] for cell in rows] for split, rows in cells.items()}
    values = [cell for rows in cells.values() for cell in rows]
    if label_format == "names":
        cells = _whole_numbers(cells)
        values = [cell for rows in cells.values() for cell in rows]
        known = names or sorted({str(v) for cell in values for v in cell})
        index = {name: i for i, name in enumerate(known)}
    else:
        index = {v: _as_id(v) for v in {v for cell in values for v in cell}}
        largest = max(index.values(), default=-1)
        if not names and largest >= MAX_IDS:
            raise DataError(
                f"{source}: label id {largest} would need {largest + 1} labels. Is the label column the right one "
                f"(--label_column)? If these are names, set --label_format names."
            )
        known = names or [str(i) for i in range(largest + 1)]
    if not known:
        found = next((f"; the first value found is {cell[0]!r}" for cell in values if cell), "")
        raise DataError(
            f"{source}: no row has a label (read as {label_format}{found}). Is the label column the right one "
            f"(--label_column)?"
        )
    matrices = {}
    for split, rows in cells.items():
        matrix: np.ndarray = np.zeros((len(rows), len(known)), dtype=dtype)
        for row, cell in enumerate(rows):
            if guessed and label_format == "ids" and len(set(cell)) < len(cell):
                raise DataError(
                    f"{place(split, row)}: {cell[:20]} repeats an id, but is not a multi-hot list of 0 and "
                    "1. Correct it, or name its format with --label_format."
                )
            for value in cell:
                i = index.get(str(value), -1) if label_format == "names" else index[value]
                if not 0 <= i < len(known):
                    raise DataError(_unknown_label(value, known, label_format, place(split, row)) + remedy)
                matrix[row, i] = 1
        matrices[split] = matrix
    return matrices, list(known)


class Joined(NamedTuple):
    """A mark that may join labels.

    Attributes:
        mark: the mark.
        names: the names that it joins of parts which are labels elsewhere.
        others: the number of other names that contain it.
    """

    mark: str
    names: list[str]
    others: int

    @property
    def separates(self) -> bool:
        """True if it joins several names, and hardly any name contains it otherwise."""
        return len(self.names) > 1 and self.others * 4 <= len(self.names)

    def parts(self, name: str) -> list[str]:
        """The parts of a name."""
        return [part.strip() for part in name.split(self.mark) if part.strip()]


def joining_mark(names: Iterable[str], known: Collection[str]) -> Joined | None:
    """The mark, several together, or the short word between blanks, that joins most of the `names` from parts that are
    among the `known` ones; None without such a name."""
    holding: dict[str, list[str]] = {}
    for name in names:
        several = re.findall(r"\\[nrt]|[^\w\s]{2,3}|(?<=\w) \w{1,3} (?=\w)", name)
        for mark in dict.fromkeys([*re.findall(r"[\W_]", name), *several]):
            holding.setdefault(mark, []).append(name)
    best = None
    for mark, those in holding.items():
        found = Joined(mark, [], len(those))
        whole = [name for name in those if len(parts := found.parts(name)) > 1 and all(part in known for part in parts)]
        found = Joined(mark, whole, len(those) - len(whole))
        # a blank beside another mark, as in "a, b", joins nothing that the mark does not
        if whole and (best is None or (len(whole), not mark.isspace()) > (len(best.names), not best.mark.isspace())):
            best = found
    return best


def split_joined(
    cells: Mapping[str, list[list]], raw: Mapping[str, Sequence[Any]], names: Collection[str] | None
) -> tuple[dict[str, list[list]], str]:
    """Cells by split, in which joined names are separated, and a note that says so or suspects it.

    Args:
        raw: the cells as they were read. Names in lists stay whole.
        names: the labels, if they are known.
    """
    texts = {  # names in cells that are no lists
        value
        for split, rows in cells.items()
        for row, cell in enumerate(rows)
        if _is_written(raw[split][row])
        for value in cell
        if isinstance(value, str)
    }
    known = texts if names is None else set(names)
    found = joining_mark(texts if names is None else texts - known, known)
    if found is None:
        return dict(cells), ""
    example, remedy = found.names[0], "--label_separator"
    if not found.separates and names is None:
        holding = "1 label contains" if len(found.names) == 1 else f"{len(found.names)} labels contain"
        return dict(cells), (
            f"{holding} {found.mark!r} between names that are labels too, such as {example!r}. If the mark "
            f"separates labels, give {remedy} {found.mark!r}; only one mark separates a cell."
        )
    joined = set(found.names) if names is not None else {name for name in texts if len(found.parts(name)) > 1}
    count = 0
    split_up = {split: list(rows) for split, rows in cells.items()}
    for split, rows in split_up.items():
        for row, cell in enumerate(rows):
            if joined.intersection(value for value in cell if isinstance(value, str)) and _is_written(raw[split][row]):
                count += 1
                rows[row] = [part for value in cell for part in (found.parts(value) if value in joined else [value])]
    return split_up, (
        f"{found.mark!r} separates labels in {count} cells, such as {example!r}, since the parts are labels elsewhere. "
        f"If it belongs to names, give {remedy} none."
    )


def _is_written(cell: Any) -> bool:
    """True for a cell that holds a text, not a list."""
    return isinstance(cell, str) and not cell.lstrip().startswith(("[", "(", "{"))


def gold_labels(
    cells: list[list], labels: Sequence[str], names: Sequence[str] | None, label_format: str, source: str
) -> np.ndarray:
    """Label cells as a multi-hot matrix (N, L), int8, over the labels of a model.

    Args:
        labels: the model's, in its order.
        names: the labels for ids and for positions in multi-hot rows of the data; None: the model's labels.
        label_format: as in [`label_matrix`].

    Raises:
        DataError: as there; or a row has a label unknown to the model.
    """
    own = set(labels)
    known_here = any(str(value) in own for cell in cells for value in cell)
    layout = PLAIN if known_here else layout_of(cells, label_format)
    if layout.vectors:
        cells, label_format = [label_cell(layout.plain(cell), source) for cell in cells], "multi_hot"
    known = guess_format(cells, len(names or labels)) if label_format == "auto" else label_format
    may_be_names = known == "ids" or any(str(v) not in MULTI_HOT for cell in cells for v in cell if v is not None)
    if may_be_names and label_format == "auto" and not names and _are_names(cells, labels):
        known = label_format = "names"
    if known == "names":
        if not own & {str(value) for cell in cells for value in cell if str(value).endswith(".0")}:
            cells = _whole_numbers({"all": [[value for value in cell if value is not None] for cell in cells]})["all"]
        cells = _parts_of_known(cells, own)
        found = Counter(str(value) for cell in cells for value in cell if value is not None)
        _check_known([name for name in found if name not in own], labels, source)
        names = labels
    columns = list(names or labels)
    matrix = label_matrix({"all": cells}, columns, label_format, source, dtype=np.int8)[0]["all"]
    found_in = matrix.max(0, initial=0) > 0
    _check_known([columns[i] for i in np.flatnonzero(found_in) if columns[i] not in own], labels, source)
    return in_order(matrix, columns, labels)


def _parts_of_known(cells: list[list], labels: Collection[str]) -> list[list]:
    """Cells in which names that a mark joins of labels are separate."""
    unknown = {value for cell in cells for value in cell if isinstance(value, str)} - set(labels)
    found = joining_mark(unknown, labels) if unknown else None
    if found is None:
        return cells
    joined = set(found.names)
    return [
        [part for value in cell for part in (found.parts(value) if value in joined else [value])]
        if joined.intersection(value for value in cell if isinstance(value, str))
        else cell
        for cell in cells
    ]


def in_order(matrix: np.ndarray, columns: Sequence[str], labels: Sequence[str]) -> np.ndarray:
    """The columns of a matrix in the order of a model's labels, with zeros for a label that is not among the columns:
    (N, L), of the same type."""
    if [*columns] == [*labels]:
        return matrix
    place = {name: i for i, name in enumerate(columns)}
    there = [i for i, label in enumerate(labels) if label in place]
    found = np.zeros((len(matrix), len(labels)), dtype=matrix.dtype)
    found[:, there] = matrix[:, [place[labels[i]] for i in there]]
    return found


def _are_names(cells: list[list], labels: Sequence[str]) -> bool:
    """True if numbers in cells are names of labels, since a model has such names in another order than ids have."""
    names = set(labels)
    is_range = [*labels] == [str(i) for i in range(len(labels))]
    return not is_range and all(str(value) in names for cell in cells for value in cell if value is not None)


def _check_known(unknown: Sequence[str], labels: Sequence[str], source: str) -> None:
    if unknown:
        raise DataError(
            f"{source}: the model does not know {len(unknown)} of the labels ({few([*map(repr, unknown)], 5)}); it "
            f"knows {len(labels)}: {few([*map(repr, labels)], 5)}."
            f"{did_you_mean(unknown[0], labels)} Correct the labels, or name their column with --label_column. "
            "Names with a comma stand in JSON lists."
        )


def _as_id(value: Any) -> int:
    """The id, or -1 for anything else."""
    return int(float(value)) if re.fullmatch(r"[0-9]+(\.0+)?", str(value)) else -1


def guess_format(values: list[list], num_labels: int | None) -> str:
    distinct = {v for cell in values for v in cell if v is not None}
    # pandas turns whole numbers into 1.0 if one is missing
    found = {text[:-2] if text.endswith(".0") else re.sub(r"\.0+$", "", text) for text in map(str, distinct)}
    if any(re.fullmatch(r"0[0-9]+", v) for v in found):  # codes, whose zeros matter
        return "names"
    if not all(re.fullmatch(r"-?[0-9]+", v) for v in found):
        if _mostly_vectors(values):  # the others are mistakes, which are named
            return "multi_hot"
        return "names" if not all(is_number(v) for v in found) else "multi_hot"
    if not found <= {"0", "1", "-1"}:
        return "ids"
    lengths = {len(cell) for cell in values}
    same = len(lengths) == 1 and min(lengths) > 1 and (num_labels is None or lengths == {num_labels})
    repeats = any(len(cell) != len(set(map(str, cell))) for cell in values)
    return "multi_hot" if same or repeats else "ids"


def _mostly_vectors(values: Sequence[Sequence[Any]]) -> bool:
    """True if most cells are lists of 0 and 1 of one length, some of which have a value twice."""
    vectors = [cell for cell in values if len(cell) > 1 and all(v is None or str(v) in MULTI_HOT for v in cell)]
    length = Counter(map(len, vectors)).most_common(1)[0] if vectors else (0, 0)
    some_twice = any(len(set(cell)) < len(cell) for cell in vectors)
    return some_twice and length[1] >= MOSTLY * sum(map(bool, values))


def _whole_numbers(cells: Mapping[str, list[list]]) -> dict[str, list[list]]:
    """Values by split, without the `.0` that pandas adds to whole numbers if one is missing, if all values are such."""
    texts = {split: [[str(value) for value in cell] for cell in rows] for split, rows in cells.items()}
    flat = [value for rows in texts.values() for cell in rows for value in cell]
    if not any("." in value for value in flat) or not all(re.fullmatch(r"-?[0-9]+(\.0+)?", value) for value in flat):
        return dict(cells)
    return {split: [[value.partition(".")[0] for value in cell] for cell in rows] for split, rows in texts.items()}


def _multi_hot(
    cells: Mapping[str, Sequence[Any]],
    names: Sequence[str] | None,
    source: str,
    place: Callable[[str, int], str],
    dtype: type,
    remedy: str,
) -> tuple[dict[str, np.ndarray], list[str]]:
    counts = Counter(len(cell) for rows in cells.values() for cell in rows)
    expected = len(names) if names else counts.most_common(1)[0][0] if counts else 0
    if not expected:
        raise DataError(f"{source}: the multi-hot labels are empty.")
    matrices = {}
    for split, rows in cells.items():
        matrix: np.ndarray = np.zeros((len(rows), expected), dtype=dtype)
        for row, cell in enumerate(rows):
            where = place(split, row)
            if len(cell) != expected:
                raise DataError(f"{where}: the multi-hot labels have {len(cell)} entries, expected {expected}.{remedy}")
            wrong = [v for v in cell if v is not None and str(v) not in MULTI_HOT]
            if wrong:
                raise DataError(
                    f"{where}: multi-hot labels must be 0 or 1, or -1 or empty if unknown; found {wrong[0]!r}. Correct "
                    "it. If numbers are names, set --label_format names."
                )
            matrix[row] = [-1 if v is None else float(v) for v in cell]
        matrices[split] = matrix
    return matrices, list(names) if names else [str(i) for i in range(expected)]


def _unknown_label(value: Any, known: Sequence[str], label_format: str, place: str) -> str:
    if label_format == "ids":
        return f"{place}: label {value!r} is not an id in the range 0..{len(known) - 1} of {len(known)} labels."
    hint = did_you_mean(str(value), known)
    return f"{place}: label {value!r} is not one of the {len(known)} known labels.{hint}"


DIGITS = 6  # decimals of probabilities, energies and expected losses


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


# --- probabilities ----------------------------------------------------------------------------------------------------


def soft_matrix(
    cells: Mapping[str, Sequence[Any]], names: Sequence[str] | None, place: Callable[[str, int], str]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Cells by split with a probability for each label -> (N, L) float32 by split, -1 for unknown, and the L names.

    Args:
        cells: mappings of names to numbers, a name that is left out has 0; or lists of L numbers; both also as JSON.
            An empty cell or value is unknown.
        names: the labels of lists; default: numbers from 0 on.
        place: describes a row of a split in messages.

    Raises:
        DataError: something else, an unknown name, or a number outside of 0 to 1; names the row.
    """
    read = {
        split: [_probabilities(value, place(split, i)) for i, value in enumerate(rows)] for split, rows in cells.items()
    }
    every = [cell for rows in read.values() for cell in rows if cell is not None]
    if not names:
        found = {name for cell in every for name in cell}
        names = sorted(found) if any(isinstance(name, str) for name in found) else [str(i) for i in range(len(found))]
    index: dict[Any, int] = {name: i for i, name in enumerate(names)} | {i: i for i in range(len(names))}
    length = len(next(iter(every), ()))
    matrices = {}
    for split, rows in read.items():
        matrix = matrices[split] = np.full((len(rows), len(names)), -1, dtype=np.float32)
        for i, cell in enumerate(rows):
            if cell is None:
                continue
            wrong = next((name for name in cell if name not in index), None)
            if wrong is not None or (0 in cell and len(cell) != length):
                said = f"label {wrong!r} is not one of" if isinstance(wrong, str) else f"{len(cell)} probabilities for"
                raise DataError(f"{place(split, i)}: {said} the {len(names)} labels {few(names, 5)}.")
            matrix[i] = 0
            matrix[i, [index[name] for name in cell]] = [*cell.values()]
    return matrices, [*names]


def _probabilities(value: Any, place: str) -> dict[Any, float] | None:
    """Name, or position in a list -> probability; None for an empty cell."""
    if isinstance(value, str):
        value = list_in_text(value, place) if value.lstrip().startswith("[") else _literal(value.strip())
    if isinstance(value, (list, tuple, np.ndarray)):
        value = dict(enumerate(value))
    if value is None or value == "":
        return None
    if not isinstance(value, dict) or not value:
        raise DataError(f"{place}: {str(value)[:60]!r} are no probabilities; expected a mapping of names, or a list.")
    return {name: probability(number, name, place) for name, number in value.items()}


def probability(value: Any, name: Any, place: str) -> float:
    """A number from 0 to 1, or -1 for an empty cell. DataError for anything else."""
    if value is None or value == "" or value != value:
        return -1.0
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= 1:
        raise DataError(f"{place}: the probability of {name!r} is {str(value)[:60]!r}; expected a number from 0 to 1.")
    return number


# --- a column for each label ------------------------------------------------------------------------------------------


def column_labels(
    columns: Mapping[str, Sequence[Any]],
    place: Callable[[int], str],
    marks: bool,
    classes: Mapping[str, Sequence[str]] | None = None,
) -> np.ndarray:
    """Columns of N values, one per label -> (N, L) float32 of 0 and 1, and -1 for an unknown label: -1, an empty cell,
    or NaN.

    Args:
        columns: label -> values: 0 and 1, or words such as yes and no.
        place: describes a row in messages.
        marks: True if the table marks labels, by an x or the like: an empty cell is 0 then.
        classes: column -> names of its numbers, which count if they are words such as yes and no.

    Raises:
        DataError: another value; names its column and row.
    """
    matrix = np.empty((len(next(iter(columns.values()))), len(columns)), dtype=np.float32)
    for i, (name, values) in enumerate(columns.items()):
        names = (classes or {}).get(name, ())
        if say_yes_or_no(names):
            values = [names[v] if isinstance(v, int) and v >= 0 else v for v in values]
        known = _known_numbers(values)
        if known is None or None in known.values():
            row = next(row for row, value in enumerate(values) if known is None or known[value] is None)
            raise DataError(
                f"{place(row)}: the label column {name!r} holds {str(values[row])[:60]!r}; expected 0 or 1, yes or no, "
                "or for an unknown label -1 or nothing. Correct it, or take the column out of the labels."
            )
        if marks:
            known = {value: 0.0 if known[value] == -1 and value not in NEGATIVE else known[value] for value in known}
        matrix[:, i] = [*map(known.__getitem__, values)]
    return matrix


def say_yes_or_no(names: Sequence[str]) -> bool:
    """True for names of two classes that are words for 0 and 1, in any order."""
    return len(names) == 2 and {zero_one(name) for name in names} == {0.0, 1.0}


def _known_numbers(values: Sequence[Any]) -> dict[Any, float | None] | None:
    """The number for each value of a column; None if the column holds lists."""
    try:
        return {value: zero_one(value) for value in set(values)}
    except TypeError:
        return None
