"""The record of a run: arguments, rows and nets that change what it learns, for `saving/run_record.py`."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from transformers import TrainingArguments

from ..data.tensors.collators import TensorRows
from ..nets.feature_cache import FEATURES
from ..nets.frozen_encoder import OUTPUTS
from ..nets.text_pooling import PooledConfig
from ..nets.text_windows import reading_in_words
from ..saving.run_record import plain
from ..utils.compat import with_later_names
from ..utils.options import default_of

OF_THE_TRAINER = (  # arguments of the Trainer that change what a run learns, or which of its epochs is kept
    "seed data_seed learning_rate lr_scheduler_type lr_scheduler_kwargs warmup_steps num_train_epochs max_steps "
    "per_device_train_batch_size gradient_accumulation_steps dataloader_drop_last train_sampling_strategy optim "
    "optim_args optim_target_modules weight_decay adam_beta1 adam_beta2 adam_epsilon max_grad_norm bf16 fp16 "
    "neftune_noise_alpha eval_strategy eval_steps eval_delay load_best_model_at_end metric_for_best_model "
    "greater_is_better"
).split()
AFTERWARDS = (  # arguments of ours that change nothing of what is learned
    "overwrite_output_dir resume_changed decoder target fold_decision license adapter_export "
    "loss_net_gradient_checkpointing loss_net_torch_compile"
).split()
FRESH = "fresh_head"  # key of a record: names of the task-net's parameters that did not come with its encoder
LOOKED_AT = 1000  # rows read of a `datasets.Dataset`


def record_of(trainer: Any) -> dict[str, Any]:
    """The record of a trainer's run with its current arguments."""
    args = trainer.args
    ours = {name: getattr(args, name) for name in own_defaults(args)}
    if ours.get("loss_net_feature_cache") is not None:  # the folder's name is not a setting
        ours["loss_net_feature_cache"] = "given"
    facts = {
        **{f"{name}_data": trainer.contents_of(f"{name}_dataset") for name in ("train", "eval")},
        **{"model": net_in_words(trainer.model), "loss_net": net_in_words(getattr(trainer, "loss_net", None))},
        "processes": args.world_size,
        FRESH: getattr(trainer, "fresh", set()),
    }
    theirs = with_later_names(args)
    return plain({**facts, **{name: theirs[name] for name in OF_THE_TRAINER}, **ours, **trainer.run_settings})


def own_defaults(args: TrainingArguments) -> dict[str, Any]:
    """Our arguments that belong in a record, with their defaults."""
    of_the_trainer = {field.name for field in fields(TrainingArguments)}
    own = [field for field in fields(args) if field.name not in of_the_trainer and field.name not in AFTERWARDS]
    return {field.name: default_of(field) for field in own}


def net_in_words(net: Any) -> str | None:
    """The class and size of a net, and what a classifier of ours reads of a text; None without a net."""
    if net is None:
        return None
    reads = f", reads {reading_in_words(net)}" if isinstance(getattr(net, "config", None), PooledConfig) else ""
    return f"{type(net).__name__}, {sum(parameter.numel() for parameter in net.parameters())} parameters{reads}"


def contents(dataset: Any) -> Any:
    """The number of rows of a data set and 16 digits of a hash, by which a resume notices other rows.

    The hash covers all of [`TensorRows`]; of features only a rounded mean and spread, since last digits differ between
    machines. It covers the first `LOOKED_AT` rows of a `datasets.Dataset`. Other data sets have no hash.
    """
    if dataset is None or isinstance(dataset, dict):
        return None if dataset is None else {name: contents(each) for name, each in dataset.items()}
    if not hasattr(dataset, "__len__"):
        return type(dataset).__name__
    digest = hashlib.sha256()
    if isinstance(dataset, TensorRows):
        columns = {**dataset.dense, **{name: flat for name, (flat, _) in dataset.ragged.items()}}
        for name in sorted(columns.keys() - {FEATURES, OUTPUTS}):
            digest.update(name.encode() + _content(columns[name], exact=name == "labels"))
    elif isinstance(dataset, Dataset):
        digest.update(repr(dataset.with_format("arrow")[:LOOKED_AT].to_pylist()).encode())
    else:
        return f"{len(dataset)} rows"
    return f"{len(dataset)} rows, {digest.hexdigest()[:16]}"


def _content(column: Tensor, exact: bool) -> bytes:
    if column.is_floating_point() and not exact:
        return f"{column.shape} {column.mean():.3g} {column.std():.3g}".encode() if column.numel() > 1 else b""
    return column.contiguous().view(torch.uint8).numpy().tobytes() if column.numel() else b""
