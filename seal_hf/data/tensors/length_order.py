"""Evaluation in batches of rows with similar lengths, with results in the rows' own order.

A batch is padded to its longest row. With rows in their own order, most of the work is padding; sorted by length,
hardly any is. Predictions, labels and the input of `compute_metrics` are put back into the rows' own order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch.utils.data import DataLoader
from transformers import EvalPrediction

from .collators import TensorRows


class LongestFirst(list):
    """Indices of rows in a loader's order; its sampler."""


def order_of(loader: DataLoader) -> LongestFirst | None:
    """The order of a loader with the longest rows first, also a wrapped one; None for any other."""
    sampler = getattr(loader, "batch_sampler", None)
    while sampler is not None and not isinstance(sampler, LongestFirst):
        sampler = getattr(sampler, "batch_sampler", getattr(sampler, "sampler", None))
    return sampler


def longest_first(dataset: object) -> LongestFirst | None:
    """Indices of [`TensorRows`], longest row first; None if all are equally long, and for other data sets."""
    if not isinstance(dataset, TensorRows):
        return None
    lengths = [offsets.diff() for name, (_, offsets) in dataset.ragged.items() if name not in dataset.multi_hot]
    if not lengths or len(dataset) == 0:
        return None
    longest = np.max([length.numpy() for length in lengths], axis=0)
    return None if np.ptp(longest) == 0 else LongestFirst(np.argsort(-longest, kind="stable").tolist())


def put_back(values: Any, order: Sequence[int]) -> Any:
    """Results from this order in the rows' own order: an array, or arrays in tuples, lists and dicts."""
    if isinstance(values, (tuple, list)):
        return type(values)(put_back(value, order) for value in values)
    if isinstance(values, dict):
        return {key: put_back(value, order) for key, value in values.items()}
    if values is None:
        return None
    restored = np.empty_like(values)
    restored[np.asarray(order)] = values
    return restored


def in_own_order(compute_metrics: Callable[[EvalPrediction], dict], order: Sequence[int]) -> Callable:
    """A `compute_metrics` that gets rows in their own order."""

    def computed(found: EvalPrediction) -> dict:
        parts = {name: getattr(found, name, None) for name in ("predictions", "label_ids", "inputs", "losses")}
        given = {name: put_back(value, order) for name, value in parts.items() if value is not None}
        return compute_metrics(EvalPrediction(**{"label_ids": None} | given))

    return computed
