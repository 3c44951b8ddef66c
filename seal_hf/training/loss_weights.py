"""Weights of labels, tags and classes of pixels in the task loss, and their arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..core.space import OutputSpace
from ..data.weight_files import weights_of
from .label_parts import label_parts

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

    pos_weight: dict[str, float] | str | None = field(
        default=None, metadata={"help": "Weights of present labels: balanced, sqrt, or a file of label and weight."}
    )
    label_weight: dict[str, float] | str | None = field(
        default=None, metadata={"help": "Weights of labels: a JSON or csv file of label and weight."}
    )
    class_weight: dict[str, float] | str | None = field(
        default=None,
        metadata={"help": "Weights of tags, or of pixels by class: balanced, sqrt, or a file of name and weight."},
    )


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
