"""Values of label cells -> a matrix of label sets: they are ids, names or multi-hot."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..utils.messages import did_you_mean, few
from .column_choice import MOSTLY, PROBABILITIES, is_number
from .common import DataError, place_of
from .label_cells import PLAIN, label_cell, layout_of
from .separators import split_joined

FORMATS = ("auto", "ids", "names", "multi_hot")
MULTI_HOT = ("0", "1", "-1", "0.0", "1.0", "-1.0")
MAX_IDS = 100_000  # a larger id without a list of names is a year, a date or a key
WHOLE = re.compile(r"(-?[0-9]+)(\.0+)?")


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
    None are unknown labels, -1 in the matrix; elsewhere None is not a label.

    Args:
        place: describes a row of a split in messages.
        file: where the `names` are from.

    Raises:
        DataError: an unknown name, an id outside the range, a ragged or non-binary multi-hot row, no label at all.
    """
    place = place or partial(place_of, source)
    if label_format not in FORMATS:
        expected = f"{', '.join(FORMATS)}, or, to train, {PROBABILITIES}"
        raise DataError(f"`label_format` is {label_format!r}; it must be one of {expected}.")
    every = [cell for rows in cells.values() for cell in rows]
    guessed = label_format == "auto"
    if guessed:
        label_format = guess_format(every, len(names) if names else None)
    remedy = ""
    if names and file:
        remedy = (
            f" {file} has {len(names)} name{'s' * (len(names) != 1)}: add the missing ones to it, or correct the label."
        )
    if label_format == "multi_hot":
        return _multi_hot(cells, names, source, place, dtype, remedy)
    values = {value for cell in every for value in cell} - {None}
    if label_format == "names":
        spelt = set(names or map(str, values))
        if not names and all(map(WHOLE.fullmatch, spelt)):
            spelt = set()
        known = names or sorted({_name(value, spelt) for value in values})
        places = {name: i for i, name in enumerate(known)}
        index = {value: places.get(_name(value, spelt), -1) for value in values}
    else:
        index = {value: _as_id(value) for value in values}
        largest = max(index.values(), default=-1)
        if not names and largest >= MAX_IDS:
            raise DataError(
                f"{source}: label id {largest} would need {largest + 1} labels. Is the label column the right one "
                f"(`label_column`, --label_column)? If these are names, give label_format='names' "
                "(--label_format names)."
            )
        known = names or [str(i) for i in range(largest + 1)]
    if not known:
        found = next((f"; the first value found is {v!r}" for cell in every for v in cell if v is not None), "")
        raise DataError(
            f"{source}: no row has a label (read as {label_format}{found}). Is the label column the right one "
            f"(`label_column`, --label_column)?"
        )
    matrices: dict[str, np.ndarray] = {}
    for split, rows in cells.items():
        given = [[value for value in cell if value is not None] for cell in rows]
        if guessed and label_format == "ids":
            _check_repeats(given, partial(place, split))
        flat = [value for cell in given for value in cell]
        row_of = np.repeat(np.arange(len(given)), [*map(len, given)])
        columns = np.array([index[value] for value in flat], dtype=np.int64)
        if (wrong := np.flatnonzero((columns < 0) | (columns >= len(known)))).size:
            what = f"{place(split, int(row_of[wrong[0]]))}: label {flat[wrong[0]]!r} is not"
            if label_format == "ids":
                raise DataError(f"{what} an id in the range 0..{len(known) - 1} of {len(known)} labels.{remedy}")
            hint = did_you_mean(str(flat[wrong[0]]), known)
            raise DataError(f"{what} one of the {len(known)} known labels.{hint}{remedy}")
        matrices[split] = np.zeros((len(given), len(known)), dtype=dtype)
        matrices[split][row_of, columns] = 1
    return matrices, list(known)


def _check_repeats(cells: Sequence[Sequence[Any]], place: Callable[[int], str]) -> None:
    row = next((row for row, cell in enumerate(cells) if len(set(cell)) < len(cell)), None)
    if row is not None:
        raise DataError(
            f"{place(row)}: {cells[row][:20]} repeats an id, but is not a multi-hot list of 0 and 1. Correct it, or "
            "name its format by `label_format` (--label_format)."
        )


def _name(value: Any, known: Collection[str]) -> str:
    """The name that a value is. If it is not known, it lacks the `.0` that pandas adds to whole numbers if one is
    missing."""
    text = str(value)
    whole = None if text in known else WHOLE.fullmatch(text)
    return text if whole is None else whole[1]


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
    own, texts = set(labels), {str(value) for cell in cells for value in cell if value is not None}
    layout = PLAIN if own & texts else layout_of(cells, label_format)
    if layout.vectors:
        cells, label_format = [label_cell(layout.read(cell), source) for cell in cells], "multi_hot"
    form = guess_format(cells, len(names or labels)) if label_format == "auto" else label_format
    is_range = [*labels] == [str(i) for i in range(len(labels))]  # names of a model in another order are no ids
    may_be_names = label_format == "auto" and not names and not is_range and texts <= own
    if may_be_names and (form == "ids" or not texts <= {*MULTI_HOT}):
        form = label_format = "names"
    if form == "names":
        cells = split_joined({"all": cells}, labels)[0]["all"]
        found = dict.fromkeys(_name(value, own) for cell in cells for value in cell if value is not None)
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


def guess_format(cells: list[list], num_labels: int | None) -> str:
    """`ids`, `names` or `multi_hot`, see [`label_matrix`]."""
    texts = {str(value) for cell in cells for value in cell if value is not None}
    found = {whole[1] if (whole := WHOLE.fullmatch(text)) else text for text in texts}
    if any(re.fullmatch("0[0-9]+", text) for text in found):  # codes, whose zeros matter
        return "names"
    if not all(map(WHOLE.fullmatch, found)):
        if _mostly_vectors(cells):  # the others are mistakes, which are named
            return "multi_hot"
        if not all(map(is_number, found)):
            return "names"
        sets = len({len(cell) for cell in cells if cell}) > 1
        return "names" if sets and any(abs(float(text)) > 1 for text in found) else "multi_hot"  # such as 401.9
    if not found <= {"0", "1", "-1"}:
        return "ids"
    lengths = {len(cell) for cell in cells}
    same = len(lengths) == 1 and min(lengths) > 1 and (num_labels is None or lengths == {num_labels})
    return "multi_hot" if same or any(len(cell) > len(set(map(str, cell))) for cell in cells) else "ids"


def _mostly_vectors(cells: Sequence[Sequence[Any]]) -> bool:
    """True if most cells are lists of 0 and 1 of one length, some of which have a value twice."""
    vectors = [cell for cell in cells if len(cell) > 1 and all(v is None or str(v) in MULTI_HOT for v in cell)]
    length = Counter(map(len, vectors)).most_common(1)[0] if vectors else (0, 0)
    some_twice = any(len(set(cell)) < len(cell) for cell in vectors)
    return some_twice and length[1] >= MOSTLY * sum(map(bool, cells))


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
    values = {value for rows in cells.values() for cell in rows for value in cell}
    numbers = {
        value: -1.0 if value is None else float(value) for value in values if value is None or str(value) in MULTI_HOT
    }
    matrices = {}
    for split, rows in cells.items():
        matrix: np.ndarray = np.zeros((len(rows), expected), dtype=dtype)
        for row, cell in enumerate(rows):
            if len(cell) != expected:
                raise DataError(
                    f"{place(split, row)}: the multi-hot labels have {len(cell)} entries, expected {expected}.{remedy}"
                )
            if not numbers.keys() >= set(cell):
                wrong = next(value for value in cell if value not in numbers)
                raise DataError(
                    f"{place(split, row)}: multi-hot labels must be 0 or 1, or -1 or empty if unknown; found {wrong!r}."
                    " Correct it. If numbers are names, give label_format='names' (--label_format names)."
                )
            matrix[row] = [numbers[value] for value in cell]
        matrices[split] = matrix
    return matrices, list(names) if names else [str(i) for i in range(expected)]
