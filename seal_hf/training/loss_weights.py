"""Weights of labels, tags and classes of pixels in the task loss, and their arguments."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from torch.utils.data import Subset
from transformers import PreTrainedModel

from ..core.space import SAMPLE_WEIGHT, OutputSpace
from ..data.tensors.collators import TensorRows, is_table
from ..data.weights import weights_of

RULES = ("balanced", "sqrt")


@dataclass
class LossWeightArguments:
    """Weights in the task loss. Each is a JSON or csv file of name and weight, such a mapping, or a list in the labels'
    order; `balanced` and `sqrt` count the training rows.

    The evaluation loss has them too, since the rule of `energy_weight` asks whether the trained loss still falls. A
    column `sample_weight` of the training rows weighs whole rows, only in training: Σ_i w_i ℓ_i / B.

    Parameters that control weights in the task loss:
        pos_weight (`str`, `dict` or `list`, optional): w⁺ of present labels in `cross_entropy`, `focal` and
            `asymmetric`, as `pos_weight` of torch's `BCEWithLogitsLoss`. `balanced`: the number of training rows
            without the label, divided by the number with it; `sqrt`: its square root.
        label_weight (`str`, `dict` or `list`, optional): w of labels, present or not, as `weight` there.
        class_weight (`str`, `dict` or `list`, optional): weights of tags in `cross_entropy` and `unique_roles`, or of
            the classes of pixels in the cross-entropy of masks, as `weight` of torch's `CrossEntropyLoss`. `balanced`:
            N / (C n_c) for a class with n_c of N tags or pixels, as in scikit-learn; `sqrt`: its square root.
    """

    pos_weight: dict[str, float] | str | None = None
    label_weight: dict[str, float] | str | None = None
    class_weight: dict[str, float] | str | None = None


WEIGHTS = ("pos_weight", "label_weight", "class_weight")


def weigh_classes(space: OutputSpace, args: Any, task_net: PreTrainedModel, train_dataset: Any) -> None:
    """Give a space's task loss the weights that the arguments ask for.

    Args:
        args: [`SealTrainingArguments`].
        task_net: its config names the labels.
        train_dataset: `balanced` and `sqrt` count its labels; None, in a trainer that only evaluates: weights of 1.

    Raises:
        ValueError: weights that the outputs or the task loss do not support; a file in another format.
    """
    given = {name: value for name in WEIGHTS if (value := getattr(args, name)) is not None}
    if not given:
        return
    config: Any = task_net.config
    names = [config.id2label[i] for i in range(config.num_labels)]
    space.check_weights(given)
    space.weigh({name: _weights(name, value, names, space, train_dataset) for name, value in given.items()})


def _weights(argument: str, given: Any, names: list[str], space: OutputSpace, train_dataset: Any) -> Tensor:
    """(L,) float32."""
    if given not in RULES or argument == "label_weight":
        return torch.tensor(weights_of(given, names, argument), dtype=torch.float32)
    if train_dataset is None:
        return torch.ones(len(names))
    balanced = space.balance(label_parts(train_dataset)).float()
    return balanced.sqrt() if given == "sqrt" else balanced


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
    elif is_table(dataset) and "labels" in dataset.column_names:
        for chunk in dataset.select_columns("labels").with_format("arrow")[:]["labels"].chunks:
            while hasattr(chunk, "flatten") and hasattr(chunk.type, "value_type"):
                chunk = chunk.flatten()
            numbers = chunk.null_count == 0 and str(chunk.type) not in ("string", "large_string")
            space.see(torch.from_numpy(np.array(chunk.to_numpy(zero_copy_only=False))) if numbers else None)
    elif dataset is None or (is_table(dataset) and "labels" not in dataset.column_names):
        return
    elif isinstance(dataset, Dataset) or "labels" in (getattr(dataset, "column_names", None) or ["labels"]):
        space.see(None)


def check_all_known(space: OutputSpace, **datasets: Any) -> None:
    """Raises ValueError for unknown labels, which a trainer without a task-net cannot draw."""
    for name, dataset in datasets.items():
        looked = copy(space)
        looked.unknown_labels = None
        for part in dataset.values() if isinstance(dataset, dict) else [dataset]:
            if isinstance(part, TensorRows) or is_table(part):
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
    if not isinstance(dataset, TensorRows) and not is_table(dataset):
        transform = " with a transform" if isinstance(dataset, Dataset) else ""
        raise ValueError(
            f"'balanced' and 'sqrt' count the labels of the training rows, but `train_dataset` is a "
            f"{type(dataset).__name__}{transform}. Give a `datasets.Dataset` or TensorRows, or a file of weights."
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
