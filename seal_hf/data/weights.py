"""Weights of training rows, from a column of the data, and of labels, from files with a number for each name."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .common import DataError

HEADERS = [(name, "weight") for name in ("name", "label", "tag", "class")]


def read_weights(cells: Sequence[Any], column: str, place: Callable[[int], str]) -> np.ndarray:
    """Cells of a column as weights, (N,) float32.

    Args:
        place: describes a row in messages.

    Raises:
        DataError: a cell is not a finite number >= 0.
    """
    weights = np.empty(len(cells), dtype=np.float32)
    for row, cell in enumerate(cells):
        try:
            weights[row] = float(cell)
        except (TypeError, ValueError):
            weights[row] = np.nan
        if not (np.isfinite(weights[row]) and weights[row] >= 0):
            raise DataError(
                f"{place(row)}: `sample_weight` column {column!r} is {cell!r}, expected a finite number of at least 0."
            )
    return weights


def with_mean_1(weights: np.ndarray, column: str, source: str) -> tuple[np.ndarray, str]:
    """Weights of the training rows divided by their mean, so that rates and λ1 keep their meaning; and a note.

    Raises:
        DataError: all of them are 0.
    """
    mean = float(weights.mean(dtype=np.float64))
    if mean == 0:
        raise DataError(f"{source}: `sample_weight` column {column!r} is 0 in every training row. Name another column.")
    spread = f"from {weights.min() / mean:.3g} to {weights.max() / mean:.3g}"
    return weights / np.float32(mean), f"training rows are weighted by {column!r} / its mean {mean:.3g}: {spread}."


def weights_of(given: Any, names: Sequence[str], argument: str) -> list[float]:
    """Weights in the order of label names.

    Args:
        given: a file, JSON `{name: weight}` or csv with a name and a weight per line; or such a mapping; or a list of
            weights in the order of `names`.
        names: L different label names.
        argument: what messages call it.

    Returns:
        L numbers, at least 0.

    Raises:
        DataError: the file does not exist or has another format; names are unknown, missing or repeated; a weight is
            not a finite number >= 0; or all weights are 0.
    """
    place = f"`{argument}`"
    if isinstance(given, str):
        given, place = _read(Path(given), argument), f"`{argument}` {given}"
    if isinstance(given, Mapping):
        _check_names([str(name) for name in given], names, place)
        by_name = {str(name): value for name, value in given.items()}
        given = [by_name[name] for name in names]
    if len(given) != len(names):
        raise DataError(f"{place} has {len(given)} weights, but there are {len(names)} labels. Give one for each.")
    weights = [_weight(value, f"{place}, label {name!r}") for name, value in zip(names, given, strict=True)]
    if not any(weights):
        raise DataError(f"{place}: all {len(weights)} weights are 0, so no label would count. Set one above 0.")
    return weights


def _check_names(found: Sequence[str], names: Sequence[str], place: str) -> None:
    given, known = set(found), set(names)
    for what, wrong in (
        ("unknown labels", [name for name in found if name not in known]),
        ("no weight for the labels", [name for name in names if name not in given]),
    ):
        if wrong:
            shown = ", ".join(wrong[:5]) + (f" and {len(wrong) - 5} more" if len(wrong) > 5 else "")
            raise DataError(f"{place} has {what} {shown}; the labels are {', '.join(names[:20])}. Correct the names.")


def _weight(value: Any, place: str) -> float:
    try:
        weight = float(value)
    except (TypeError, ValueError):
        weight = math.nan
    if not (math.isfinite(weight) and weight >= 0) or isinstance(value, bool):
        raise DataError(f"{place}: the weight is {value!r}, expected a finite number of at least 0.")
    return weight


def _read(path: Path, argument: str) -> dict[str, Any]:
    """Name -> raw weight in the file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"`{argument}` is {str(path)!r}, which is not a readable file. Give a JSON or csv file of label name and "
            "weight; `pos_weight` and `class_weight` may also be 'balanced' or 'sqrt'."
        ) from error
    if path.suffix.lower() == ".json":
        try:
            pairs = json.loads(text, object_pairs_hook=list)  # this keeps repeated names
        except ValueError as error:
            raise DataError(f"`{argument}` {path}: not readable as JSON: {error}") from error
        if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
            raise DataError(f'`{argument}` {path}: expected an object, {{"name": weight, ...}}.')
    else:
        pairs = [row for row in csv.reader(text.splitlines()) if row]
        wrong = next((row for row in pairs if len(row) != 2), None)
        if wrong is not None:
            raise DataError(f"`{argument}` {path}: expected a label name and a weight per line; found {wrong}.")
        pairs = [(name.strip(), value.strip()) for name, value in pairs]
        if pairs and pairs[0] in HEADERS:
            pairs = pairs[1:]
    names = [name for name, _ in pairs]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"`{argument}` {path}: label {twice!r} occurs twice. Keep one.")
    return dict(pairs)
