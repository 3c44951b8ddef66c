"""Splits that the data does not fix, which keep the share of each label; smaller ones; and training rows without gold:
that of `num_labelled` rows is kept, and a file, `unlabelled`, may have more."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset, concatenate_datasets

from .common import SPLITS, DataError

PARTS = (0.8, 0.1, 0.1)  # for a table without splits
VALIDATION = (0.9, 0.1)  # for a train split without a validation split


def stratified_split(
    labels: np.ndarray, fractions: Sequence[float], seed: int, groups: np.ndarray | None = None
) -> list[np.ndarray]:
    """Row ids of a seeded split in which each part has its share of each label.

    Iterative stratification (Sechidis, Tsoumakas and Vlahavas, "On the Stratification of Multi-Label Data", ECML PKDD
    2011, Algorithm 1): the label with the fewest rows left goes first. Each of its rows goes to the part that lacks
    most of that label; ties go to the part that lacks most rows. One change: a full part takes no more rows, so sizes
    are exact. Time grows with the number of rows and of present labels, not with their product.

    Args:
        labels: (N, L), above 0 if a row has a label.
        fractions: shares of the rows by part; the last part takes the rest.
        seed: for the order of rows, and for ties.
        groups: (N,) numbers from 0 on; rows of a group stay together, and sizes count groups.

    Returns:
        for each fraction, ascending row ids; each row is in one part.
    """
    if groups is not None:
        members = np.zeros((int(groups.max(initial=-1)) + 1, labels.shape[1]))
        np.add.at(members, groups, labels > 0)
        return [np.flatnonzero(np.isin(groups, part)) for part in stratified_split(members, fractions, seed)]
    rng = np.random.default_rng(seed)
    count, num_labels = labels.shape
    order = rng.permutation(count)
    bounds = np.cumsum([round(fraction * count) for fraction in fractions[:-1]])
    room = np.diff(bounds, prepend=0, append=count).tolist()
    part_of = np.full(count, -1)  # here and below, rows are numbered in `order`
    rows, columns = np.nonzero(labels > 0)
    rows = np.argsort(order)[rows]
    labels_of = _grouped(rows, columns, count)
    rows_of = [np.sort(some) for some in _grouped(columns, rows, num_labels)]
    left = np.bincount(columns, minlength=num_labels)  # number of rows of each label without a part
    lacks = left[:, None] * np.asarray(fractions, dtype=np.float64)  # (L, parts)
    ties = rng.random((count, len(room))).tolist()
    while left.any():
        label = int(np.where(left > 0, left, count + 1).argmin())
        for row in rows_of[label][part_of[rows_of[label]] < 0].tolist():
            wishes = zip(lacks[label].tolist(), room, ties[row], range(len(room)), strict=True)
            part = max(wish for wish in wishes if wish[1])[-1]
            part_of[row] = part
            room[part] -= 1
            lacks[labels_of[row], part] -= 1
            left[labels_of[row]] -= 1
    part_of[part_of < 0] = np.repeat(np.arange(len(room)), room)
    return [np.sort(order[part_of == part]) for part in range(len(room))]


def _grouped(keys: np.ndarray, values: np.ndarray, count: int) -> list[np.ndarray]:
    """The values of each key from 0 to `count` - 1."""
    order = np.argsort(keys, kind="stable")
    return np.split(values[order], np.searchsorted(keys[order], np.arange(1, count)))


def complete_splits(
    labels: Mapping[str, np.ndarray],
    seed: int,
    notes: list[str],
    groups: np.ndarray | None = None,
    parts: Sequence[float] = PARTS,
) -> dict[str, tuple[str, np.ndarray]]:
    """The rows of each split: its own, or a share of a table without splits, or of train for a missing validation.

    Args:
        labels: split -> (N, L), with the key `all` for a table without splits. With L = 0, splits are random.
        seed: for splits made here.
        notes: notes on what was done are added.
        groups: as in [`stratified_split`], for the rows that are split here.
        parts: the shares of a table without splits.

    Returns:
        split -> the key of `labels` with its rows, and their ids.
    """
    chosen = {split: (split, np.arange(len(rows))) for split, rows in labels.items()}
    how = "stratified by label" if any(rows.shape[1] for rows in labels.values()) else "at random"
    if "all" in labels:
        ids = stratified_split(labels["all"], parts, seed, groups)
        sizes = " / ".join(str(len(part)) for part in ids)
        notes.append(f"no splits: {sizes} rows for train, validation and test, {how} (seed {seed}).")
        return {split: ("all", part) for split, part in zip(SPLITS, ids, strict=True)}
    if "train" in labels and "validation" not in labels:
        train, validation = stratified_split(labels["train"], VALIDATION, seed, groups)
        notes.append(f"no validation split: {len(validation)} rows from train, {how} (seed {seed}).")
        chosen = {"train": ("train", train), "validation": ("train", validation)} | {
            split: rows for split, rows in chosen.items() if split != "train"
        }
    return chosen


def groups_of(values: Iterable[Hashable]) -> np.ndarray:
    """Group number of each value, counting from 0. Equal values form a group."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], dtype=np.int64)


def check_numbers(**numbers: int | None) -> None:
    """Raises DataError for a number of rows below 1."""
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise DataError(f"`{name}` is {value}; it must be at least 1.")


def limit_validation(data: Any, max_validation_rows: int | None, seed: int) -> None:
    """Keep so many rows of the validation split, drawn with the seed, in place; a smaller part is part of a larger one.

    Args:
        data: label sets, tag sequences or masks.
    """
    size = len(data.validation)
    if max_validation_rows is None or max_validation_rows >= size:
        return
    kept = np.sort(np.random.default_rng(seed).permutation(size)[:max_validation_rows])
    if isinstance(data.validation, Dataset):
        data.validation = rows_taken(data.validation, kept)
        if "validation" in data.origins:
            data.origins["validation"] = data.origins["validation"].take(kept)
    else:  # masks, which know their places
        data.validation = data.validation.take(kept)
    data.notes.append(f"validation: {max_validation_rows} of {size} rows (seed {seed}).")


def parted(size: int, num_labelled: int, seed: int, source: str, notes: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the training rows that keep their gold, and of the others. A smaller part is part of a larger one.

    Raises:
        DataError: there are not so many rows.
    """
    if num_labelled > size:
        raise DataError(f"`num_labelled` is {num_labelled}, but {source} has {size} training rows.")
    order = np.random.default_rng(seed).permutation(size)
    notes.append(f"train: {num_labelled} labelled rows, {size - num_labelled} unlabelled (seed {seed}).")
    return np.sort(order[:num_labelled]), np.sort(order[num_labelled:])


def add_unlabelled(data: Any, rows: Any, file: str, what: str) -> None:
    """Add rows without gold, which a file has, in place. Raises DataError if there are none."""
    if not len(rows):
        raise DataError(f"`unlabelled` is {file}, which has no rows. Give a file with rows, or leave it out.")
    data.notes.append(f"{len(rows)} {what} from {file}.")
    known = data.unlabelled
    if isinstance(rows, np.ndarray):
        data.unlabelled = rows if known is None else np.concatenate([known, rows])
    else:
        alike = rows if known is None else rows.select_columns(known.column_names).cast(known.features)
        data.unlabelled = alike if known is None else concatenate_datasets([known, alike])


def rows_taken(rows: Dataset, ids: np.ndarray) -> Dataset:
    """These rows, copied: without a map of indices, which `datasets` would resolve again and again."""
    whole = rows.flatten_indices() if rows._indices is not None else rows
    return Dataset(whole.data.table.take(pa.array(ids)), info=rows.info)
