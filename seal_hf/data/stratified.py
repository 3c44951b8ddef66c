"""Splits that keep the share of each label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .common import SPLITS

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
) -> dict[str, tuple[str, np.ndarray]]:
    """The rows of each split: its own, or a share of a table without splits, or of train for a missing validation.

    Args:
        labels: split -> (N, L), with the key `all` for a table without splits.
        seed: for splits made here.
        notes: notes on what was done are added.
        groups: as in [`stratified_split`], for the rows that are split here.

    Returns:
        split -> the key of `labels` with its rows, and their ids.
    """
    chosen = {split: (split, np.arange(len(rows))) for split, rows in labels.items()}
    if "all" in labels:
        ids = stratified_split(labels["all"], PARTS, seed, groups)
        sizes = " / ".join(str(len(part)) for part in ids)
        notes.append(f"no splits: {sizes} rows for train, validation and test, stratified by label (seed {seed}).")
        return {split: ("all", part) for split, part in zip(SPLITS, ids, strict=True)}
    if "train" in labels and "validation" not in labels:
        train, validation = stratified_split(labels["train"], VALIDATION, seed, groups)
        notes.append(f"no validation split: {len(validation)} rows from train, stratified by label (seed {seed}).")
        chosen = {"train": ("train", train), "validation": ("train", validation)} | {
            split: rows for split, rows in chosen.items() if split != "train"
        }
    return chosen
