"""Scoring of an evaluation: all rows at once in their own order, or batch by batch if they are too many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import TrainingArguments
from transformers.utils import logging

from ..data.tensors.length_order import in_own_order

logger = logging.get_logger(__name__)

LARGEST_WHOLE = 2 * 10**8  # logits that an evaluation keeps: 0.8 GB, as much for labels, and then copies of both


def scored_by(args: TrainingArguments, compute_metrics: Callable | None) -> Callable | None:
    """The `compute_metrics` for the Trainer: with `batch_eval_metrics`, the by-batch form of one of ours."""
    by_batch = getattr(compute_metrics, "by_batch", None)
    return by_batch() if args.batch_eval_metrics and by_batch is not None else compute_metrics


@contextmanager
def scoring(trainer: Any, dataloader: DataLoader, description: str, order: Sequence[int] | None) -> Iterator[None]:
    """Inside, `compute_metrics` gets all rows in their own order. If it has a by-batch form, it gets a batch at a time
    with `batch_eval_metrics`, or if an evaluation has too many logits to keep."""
    before = trainer.compute_metrics, trainer.args.batch_eval_metrics
    compute_metrics, by_batch = before
    make = getattr(compute_metrics, "by_batch", None)
    if make is not None and not by_batch and description != "Prediction":  # `predict` returns the logits
        by_batch = _gives_up_logits(trainer, dataloader, make)
    if make is not None and by_batch:
        compute_metrics = make()
    elif order is not None and compute_metrics is not None:
        compute_metrics = in_own_order(compute_metrics, order)
    trainer.compute_metrics, trainer.args.batch_eval_metrics = compute_metrics, by_batch
    try:
        yield
    finally:
        trainer.compute_metrics, trainer.args.batch_eval_metrics = before


def give_by_batch(trainer: Any, dataset: Any, take: Callable) -> None:
    """Predict a data set, and pass each batch of logits and labels to `take`, as the Trainer's `batch_eval_metrics`
    does; no batch is kept. Without labels, `take` is not called."""
    args, by_batch = trainer.args, trainer.args.batch_eval_metrics
    with predicting(trainer):
        trainer.compute_metrics, args.batch_eval_metrics = take, True
        try:
            trainer.evaluation_loop(trainer.get_test_dataloader(dataset), "Evaluation")
        finally:
            args.batch_eval_metrics = by_batch


@contextmanager
def predicting(trainer: Any, preprocess: Callable | None = None) -> Iterator[None]:
    """Inside, the trainer predicts logits, or what `preprocess` makes of them, and nothing else: metrics, energies, the
    user's `preprocess_logits_for_metrics` and `prediction_loss_only` are off."""
    wanted = {"preprocess_logits_for_metrics": preprocess, "compute_metrics": None, "meters_energies": False}
    before, loss_only = {name: getattr(trainer, name) for name in wanted}, trainer.args.prediction_loss_only
    vars(trainer).update(wanted)
    trainer.args.prediction_loss_only = False
    try:
        yield
    finally:
        vars(trainer).update(before)
        trainer.args.prediction_loss_only = loss_only


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


@contextmanager
def putting_back(trainer: Any) -> Iterator[None]:
    """Inside, loaders may sort rows by length: results return in the rows' own order."""
    before, trainer.puts_back = trainer.puts_back, True
    try:
        yield
    finally:
        trainer.puts_back = before


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
