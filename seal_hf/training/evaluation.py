"""Scoring of an evaluation: all rows at once in their own order, or batch by batch if they are too many. Energies of a
few rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import TrainingArguments
from transformers.utils import logging

from ..data.tensors.length_order import in_own_order
from ..loss_net.loss_net import LossNet
from ..nets.feature_cache import FEATURES
from ..nets.frozen_encoder import OUTPUTS, encoder_inputs
from ..saving.model import kind_of
from ..utils.modules import in_evaluation
from .launchers import SHARDED

logger = logging.get_logger(__name__)

LARGEST_WHOLE = 2 * 10**8  # logits that an evaluation keeps: 0.8 GB, as much for labels, and then copies of both


def scored_by(args: TrainingArguments, compute_metrics: Callable | None) -> Callable | None:
    """The `compute_metrics` for the Trainer: with `batch_eval_metrics`, the by-batch form of one of ours."""
    by_batch = getattr(compute_metrics, "by_batch", None)
    return by_batch() if args.batch_eval_metrics and by_batch is not None else compute_metrics


@contextmanager
def changed(owner: Any, **values: Any) -> Iterator[None]:
    """Inside, attributes of `owner` have these values."""
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


def scorer(
    trainer: Any, dataloader: DataLoader, whole: bool, order: Sequence[int] | None
) -> tuple[bool, Callable | None]:
    """How a trainer scores an evaluation: whether by batch, and its `compute_metrics`. That gets all rows in their own
    order. If it has a by-batch form, it gets a batch at a time with `batch_eval_metrics`, or if an evaluation has too
    many logits to keep.

    Args:
        whole: True if the logits are kept, however many they are.
        order: in which `dataloader` gives the rows; None for their own.
    """
    compute_metrics, by_batch = trainer.compute_metrics, trainer.args.batch_eval_metrics
    make = getattr(compute_metrics, "by_batch", None)
    if make is not None and not by_batch and not whole:
        by_batch = _gives_up_logits(trainer, dataloader, make)
    if make is not None and by_batch:
        return by_batch, make()
    if order is not None and compute_metrics is not None:
        compute_metrics = in_own_order(compute_metrics, order)
    return by_batch, compute_metrics


def give_by_batch(trainer: Any, dataset: Any, take: Callable) -> None:
    """Predict a data set, and pass each batch of logits and labels to `take`, as the Trainer's `batch_eval_metrics`
    does; no batch is kept. Without labels, `take` is not called."""
    with trainer.predicting(), changed(trainer, compute_metrics=take), changed(trainer.args, batch_eval_metrics=True):
        trainer.evaluation_loop(trainer.get_test_dataloader(dataset), "Evaluation")


def counted_rows(accelerator: Accelerator, size: int) -> int:
    """The number of rows of an evaluation's batch that count, from the first on. With several processes, accelerate
    fills the last batches up with rows that it has given before.

    Args:
        size: rows of this process's batch. It stays if none of them counts, for a mean over them is not read.
    """
    state = accelerator.gradient_state
    if not state.end_of_dataloader or state.remainder <= 0:
        return size
    return min(max(state.remainder - accelerator.process_index * size, 0), size) or size


def are_too_many(trainer: Any, num_rows: int) -> bool:
    """True if the logits of `num_rows` rows are too many to keep."""
    return num_rows * trainer.model.config.num_labels > LARGEST_WHOLE


def _gives_up_logits(trainer: Any, dataloader: DataLoader, make: Any) -> bool:
    """True if the logits of an evaluation are not kept; a warning then lists the figures that it lacks."""
    rows, num_labels = trainer.num_examples(dataloader), trainer.model.config.num_labels
    kept = make().figures
    left_out = [name for name in trainer.compute_metrics.figures if name not in kept]
    wanted = (trainer.args.metric_for_best_model or "").removeprefix("eval_")
    if not are_too_many(trainer, rows) or wanted in left_out:
        return False
    logger.warning_once(
        f"The logits of {rows:,} rows and {num_labels:,} labels are not kept: figures are computed by batch, without "
        f"{', '.join(left_out)}."
    )
    return True


# Energies of the few rows that a page shows.


def has_energies(trainer: Any) -> bool:
    """True if the main process alone can compute energies: there is a loss-net, and the task-net is not sharded."""
    there = getattr(trainer, "loss_net", None) is not None or _is_alone(trainer)
    return there and trainer.accelerator.distributed_type not in SHARDED


@torch.no_grad()
def energies(trainer: Any, batch: dict[str, Tensor], y: Tensor, mask: Tensor | None = None) -> list[list[float]] | None:
    """The energies of candidates, B rows of S numbers; None if a cache has replaced the inputs of the rows.

    Args:
        trainer: of which [`has_energies`] is True.
        batch: rows as the nets read them.
        y: candidates (B, S, ...).
        mask: (B, ...) positions that count; None: all count.
    """
    if OUTPUTS in batch or FEATURES in batch:
        return None
    model, loss_net = trainer.accelerator.unwrap_model(trainer.model), getattr(trainer, "loss_net", None)
    inputs = {name: column.to(trainer.args.device) for name, column in encoder_inputs(batch).items()}
    given = y.to(trainer.args.device), None if mask is None else mask.to(trainer.args.device)
    kind: Any = kind_of(model, trainer.space)
    with in_evaluation(model), in_evaluation(loss_net or model), trainer.accelerator.autocast():
        found = model(*given, inputs) if _is_alone(trainer) else kind(model, loss_net).energy(*given, **inputs)
    return found.double().tolist()


def _is_alone(trainer: Any) -> bool:
    """True for the trainer of an energy network."""
    return isinstance(trainer.accelerator.unwrap_model(trainer.model), LossNet)
