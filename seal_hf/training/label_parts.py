"""The labels of a data set, read in parts: what a run must know about them before it begins."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from torch.utils.data import Subset

from ..core.space import SAMPLE_WEIGHT, OutputSpace
from ..data.tensors.collators import TensorRows

AT_ONCE = 1000  # rows


def see_labels(space: OutputSpace, dataset: Any) -> None:
    """Show a space the labels of a data set, or of each data set of a dictionary. None stands for labels that are made
    row by row."""
    if type(space).see is OutputSpace.see:  # it ignores them
        return
    while isinstance(dataset, Subset):  # its labels are among the whole's
        dataset = dataset.dataset
    if isinstance(dataset, dict):
        for part in dataset.values():
            see_labels(space, part)
    elif isinstance(dataset, TensorRows):
        space.see(dataset.dense.get("labels", torch.zeros(0)))  # lists of ids hold known labels only
    elif isinstance(dataset, Dataset) and dataset.format["type"] != "custom" and "labels" in dataset.column_names:
        for chunk in dataset.select_columns("labels").with_format("arrow")[:]["labels"].chunks:
            while hasattr(chunk, "flatten") and hasattr(chunk.type, "value_type"):
                chunk = chunk.flatten()
            numbers = chunk.null_count == 0 and str(chunk.type) not in ("string", "large_string")
            space.see(torch.from_numpy(np.array(chunk.to_numpy(zero_copy_only=False))) if numbers else None)
    elif dataset is not None and "labels" in (getattr(dataset, "column_names", None) or ["labels"]):
        space.see(None)


def check_all_known(space: OutputSpace, **datasets: Any) -> None:
    """Raises ValueError for unknown labels, which a trainer without a task-net cannot draw."""
    for name, dataset in datasets.items():
        looked = copy(space)
        looked.unknown_labels = None
        for part in dataset.values() if isinstance(dataset, dict) else [dataset]:
            if isinstance(part, (TensorRows, Dataset)):
                see_labels(looked, part)
        if looked.unknown_labels:
            raise ValueError(
                f"`{name}` has unknown labels (-1), but an energy network on its own has no task-net to draw them. "
                "Train it beside a task-net (SealTrainer), or leave these rows out."
            )


def check_no_weights(dataset: Any) -> None:
    """Raises ValueError for row weights, which a trainer without a task loss cannot use."""
    if SAMPLE_WEIGHT in (getattr(dataset, "column_names", None) or ()):
        raise ValueError(
            f"`train_dataset` has a column `{SAMPLE_WEIGHT}`, which weighs rows in a task loss, but an energy network "
            "on its own has no task loss. Leave it out."
        )


def label_parts(dataset: Any) -> Iterator[Tensor]:
    """All labels of a data set, in parts: label sets (n, L), the tags (m,) of a part's rows, or whole masks (n, H, W).

    Raises:
        ValueError: rows of the data set cannot be read by index.
    """
    if not isinstance(dataset, (TensorRows, Dataset)):
        raise ValueError(
            f"'balanced' and 'sqrt' count the labels of the training rows, but `train_dataset` is a "
            f"{type(dataset).__name__}. Give a `datasets.Dataset` or TensorRows, or a file of weights."
        )
    for start in range(0, len(dataset), AT_ONCE):
        rows = range(start, min(start + AT_ONCE, len(dataset)))
        if isinstance(dataset, TensorRows) and "labels" in dataset.dense:
            yield dataset.dense["labels"][start : rows.stop]
        elif isinstance(dataset, TensorRows):
            yield dataset.batch(rows)["labels"]
        else:
            labels = [np.asarray(row) for row in dataset.select(rows).with_format(None)["labels"][:]]
            same = len({len(row) for row in labels}) == 1
            yield torch.from_numpy(np.stack(labels) if same else np.concatenate(labels))
