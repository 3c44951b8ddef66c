"""Label sets in the cells of a column, and their matrix."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..utils.messages import did_you_mean, few
from .common import DataError

FORMATS = ("auto", "ids", "names", "multi_hot")
JOINED = re.compile(r"""(?<![,\[(\s])(['"])\s+(['"])""")  # the end of a text and the begin of the next one
SETS = ("set(", "frozenset(")  # how Python writes sets for which braces do not do
MULTI_HOT = ("0", "1", "-1", "0.0", "1.0", "-1.0")
MAX_IDS = 100_000  # a larger id without a list of names is a year, a date or a key


def place_of(source: str, split: str, row: int | None = None) -> str:
    """The place of a mistake: `source, train split, row 3`; a single file has no splits yet."""
    place = source if split == "all" else f"{source}, {split} split"
    return place if row is None else f"{place}, row {row} (counting from 0)"


def valid_text(text: str, place: str) -> str:
    """The text, if it can be written. JSON may contain half of a surrogate pair, as in a text cut by bytes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"{place}: {text[:60]!r} is not valid text ({error.reason}). Correct or remove it.") from error
    return text


def label_cell(value: Any, place: str, keep_empty: bool = False) -> list:
    """A label cell as a list. It may be a list, a JSON or Python list, a number, or values separated by , ; or |. Empty
    values and NaN are not labels; with `keep_empty` they become None among others, for unknown labels in a multi-hot
    list."""
    if value is None:
        return []
    if isinstance(value, str):
        value = value.strip()
        value = _literal(value, place) if value.startswith(("(", "{", *SETS)) else value
    if isinstance(value, str):
        if not value.startswith("["):
            if re.fullmatch(r"[0-9]+( +[0-9]+)+", value):
                raise DataError(
                    f"{place}: label cell {value[:60]!r} has spaces between numbers and would be read as one name. "
                    "Separate ids, or 0 and 1, by comma, semicolon or bar."
                )
            separator = next((mark for mark in "|;," if mark in value), None)
            parts = value.split(separator) if separator else [value]
            found = [valid_text(part.strip(), place) or None for part in parts]
            found = found if found[-1] else found[:-1]  # a separator at the end adds no value
            return found if keep_empty and len(found) > 1 else [part for part in found if part]
        try:
            value = json.loads(value)
        except ValueError:
            if JOINED.search(value):  # Python would join the two
                raise DataError(
                    f"{place}: label cell {value[:60]!r} has no commas, as a NumPy array in text. Write lists: "
                    "df[column].map(list)."
                ) from None
            try:
                value = ast.literal_eval(value)  # pandas writes these; literals only
            except (ValueError, SyntaxError, TypeError) as error:
                raise DataError(f"{place}: label cell {value[:60]!r} begins like a list but is not one.") from error
    values = list(value) if isinstance(value, (list, tuple, set, np.ndarray)) else [value]
    for v in values:
        if not isinstance(v, (str, int, float, np.number, np.bool_, type(None))):
            raise DataError(f"{place}: label {v!r} is neither a name nor a number.")
    values = [v.strip() if isinstance(v, str) else v for v in values]
    values = [None if v is None or v != v or v == "" else v for v in values]  # NaN: "none"
    values = [valid_text(v, place) if isinstance(v, str) else v for v in values if keep_empty or v is not None]
    return [int(v) if isinstance(v, (bool, np.bool_)) else v for v in values if len(values) > 1 or v is not None]


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


def _literal(text: str, place: str) -> Any:
    """A tuple or set in Python's notation; other texts, such as a name in brackets, stay unchanged."""
    if text.startswith(SETS) and text.endswith(")"):
        text = text[text.index("(") + 1 : -1] or "()"
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return text
    if isinstance(value, dict):
        raise DataError(f"{place}: label cell {text[:60]!r} is a mapping. Give a list, or a column per label.")
    return value if isinstance(value, (tuple, set)) else text


def label_matrix(
    cells: dict[str, list[list]],
    names: list[str] | None,
    label_format: str,
    source: str,
    place: Callable[[str, int], str] | None = None,
    dtype: type = np.float32,
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Label cells by split -> multi-hot matrices (N, L) by split, and the L names.

    `auto` means `names` if some value is not a number. Else it means `multi_hot` if only 0 and 1 occur, and some row
    has a value twice (no list of ids has) or all rows have the same length >= 2 (as ids, they would all be equal). Else
    it means `ids`. Without `names`, ids count from 0 to the largest, and names are sorted. In multi-hot lists -1 and
    None are unknown labels, -1 in the matrix; elsewhere None is not a label. Messages name
    the `place` of a split's row.

    Raises:
        DataError: an unknown name, an id outside the range, a ragged or non-binary multi-hot row, no label at all.
    """
    place = place or partial(place_of, source)
    if label_format not in FORMATS:
        raise DataError(f"`label_format` is {label_format!r}; it must be one of {', '.join(FORMATS)}.")
    values = [cell for rows in cells.values() for cell in rows]
    guessed = label_format == "auto"
    if guessed:
        label_format = guess_format(values, len(names) if names else None)
    if label_format == "multi_hot":
        return _multi_hot(cells, names, source, place, dtype)
    cells = {split: [[v for v in cell if v is not None] for cell in rows] for split, rows in cells.items()}
    values = [cell for rows in cells.values() for cell in rows]
    if label_format == "names":
        cells = _whole_numbers(cells)
        values = [cell for rows in cells.values() for cell in rows]
        known = names or sorted({str(v) for cell in values for v in cell})
        index = {name: i for i, name in enumerate(known)}
    else:
        largest = max((_as_id(v) for cell in values for v in cell), default=-1)
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
                i = index.get(str(value), -1) if label_format == "names" else _as_id(value)
                if not 0 <= i < len(known):
                    raise DataError(_unknown_label(value, known, label_format, place(split, row)))
                matrix[row, i] = 1
        matrices[split] = matrix
    return matrices, list(known)


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
    known = guess_format(cells, len(names or labels)) if label_format == "auto" else label_format
    if known == "ids" and label_format == "auto" and not names and _are_names(cells, labels):
        known = label_format = "names"
    if known == "names":
        if not own & {str(value) for cell in cells for value in cell if str(value).endswith(".0")}:
            cells = _whole_numbers({"all": [[value for value in cell if value is not None] for cell in cells]})["all"]
        found = Counter(str(value) for cell in cells for value in cell if value is not None)
        _check_known([name for name in found if name not in own], labels, source)
        names = labels
    columns = list(names or labels)
    matrix = label_matrix({"all": cells}, columns, label_format, source, dtype=np.int8)[0]["all"]
    found_in = matrix.max(0, initial=0) > 0
    _check_known([columns[i] for i in np.flatnonzero(found_in) if columns[i] not in own], labels, source)
    return in_order(matrix, columns, labels)


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
    # pandas turns whole numbers into 1.0 if one is missing
    flat = [re.sub(r"\.0+$", "", str(v)) for cell in values for v in cell if v is not None]
    if any(re.fullmatch(r"0[0-9]+", v) for v in flat):  # codes, whose zeros matter
        return "names"
    if not all(re.fullmatch(r"-?[0-9]+", v) for v in flat):
        return "names" if not all(is_number(v) for v in flat) else "multi_hot"
    if not set(flat) <= {"0", "1", "-1"}:
        return "ids"
    lengths = {len(cell) for cell in values}
    same = len(lengths) == 1 and min(lengths) > 1 and (num_labels is None or lengths == {num_labels})
    repeats = any(len(cell) != len(set(map(str, cell))) for cell in values)
    return "multi_hot" if same or repeats else "ids"


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
                raise DataError(f"{where}: the multi-hot labels have {len(cell)} entries, expected {expected}.")
            wrong = [v for v in cell if v is not None and str(v) not in MULTI_HOT]
            if wrong:
                raise DataError(
                    f"{where}: multi-hot labels must be 0 or 1, or -1 or empty if unknown; found {wrong[0]!r}."
                )
            matrix[row] = [-1 if v is None else float(v) for v in cell]
        matrices[split] = matrix
    return matrices, list(names) if names else [str(i) for i in range(expected)]


def _unknown_label(value: Any, known: Sequence[str], label_format: str, place: str) -> str:
    if label_format == "ids":
        return f"{place}: label {value!r} is not an id in the range 0..{len(known) - 1} of {len(known)} labels."
    hint = did_you_mean(str(value), known)
    return f"{place}: label {value!r} is not one of the {len(known)} known labels.{hint}"


def is_number(value: str) -> bool:
    try:
        float(value)
        return True
    except ValueError:
        return False
