"""How many epochs a run has: rows and samplers that differ by epoch learn which one has begun, and a run without gain
stops early, also after a resume."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch.utils.data import IterableDataset
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import IntervalStrategy, has_length
from transformers.utils import logging


class NewEpoch(TrainerCallback):
    """Tells rows or a sampler the current epoch. [`SealTrainer`] adds it by itself; a plain `Trainer` needs it, since
    not all of accelerate's loaders tell the rows with several processes, or in a resumed epoch.

    Args:
        told: has `set_epoch`: [`MaskRows`] with crops, [`ImageRows`] with an augmentation, or a sampler. Do not use
            persistent dataloader workers: they keep copies of the rows.
    """

    def __init__(self, told: Any):
        self.told = told

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.told.set_epoch(int(state.epoch or 0))


class SaveAfterEvaluation(TrainerCallback):
    """Moves the checkpoint of an epoch's last step behind the epoch's log and evaluation, which a resumed run would
    lack: the rule of λ1, [`Patience`] and the best figure read them."""

    held = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        ends = abs((state.epoch or 0) - round(state.epoch or 0)) < 1e-9
        self.held = (
            control.should_save and ends and IntervalStrategy.EPOCH in (args.eval_strategy, args.logging_strategy)
        )
        control.should_save = control.should_save and not self.held

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_save = control.should_save or self.held
        self.held = False


def check_workers(args: TrainingArguments, rows: Any) -> None:
    """Raises ValueError for rows that differ by epoch, and persistent workers, which keep those of their first one."""
    differ = getattr(rows, "is_random", _learns_epochs(rows))
    if args.dataloader_persistent_workers and differ:
        raise ValueError(
            f"`dataloader_persistent_workers` is True, but `train_dataset`, a {type(rows).__name__}, differs by epoch, "
            "and persistent workers keep the rows of their first epoch. Leave it out."
        )


def _learns_epochs(told: Any) -> bool:
    """True if `told` has `set_epoch`; the Trainer itself tells streams."""
    return not isinstance(told, IterableDataset) and callable(getattr(told, "set_epoch", None))


def tell_epochs(trainer: Trainer, told: Any) -> None:
    """Add the callback for training rows or a sampler, if it has `set_epoch`, in place of one for others of its
    type."""
    if not _learns_epochs(told):
        return
    for callback in trainer.callback_handler.callbacks[:]:
        if isinstance(callback, NewEpoch) and type(callback.told) is type(told):
            trainer.remove_callback(callback)
    trainer.add_callback(NewEpoch(told))


def take_steps(args: Any, rows: Any) -> None:
    """Raise `num_train_epochs` to the whole number that gives `min_steps` updates on these training rows."""
    if args.min_steps and args.max_steps < 0 and has_length(rows):
        batch = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        steps = max(1, math.ceil(len(rows) / batch))
        args.num_train_epochs = max(args.num_train_epochs, math.ceil(args.min_steps / steps))


logger = logging.get_logger(__name__)


class Patience(EarlyStoppingCallback):
    """Stops after so many evaluations without gain, and says so. Those before a checkpoint count, so a resumed run
    stops where the uninterrupted one does; the counter of transformers begins anew. Evaluations before the figure first
    changes do not count: F1 of rare spans is 0 at first.

    Args:
        early_stopping_patience: number of evaluations, at least 1.
        early_stopping_threshold: a smaller gain over the best figure counts as none; default 0.
    """

    stopped_at: int | None = None  # the step at which the resumed run had already stopped

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        self._count(args, state)
        self.stopped_at = None
        if self.early_stopping_patience_counter >= self.early_stopping_patience:
            control.should_training_stop = True  # [`StructuredTrainer`] then trains no step
            self.stopped_at = state.global_step
            if args.process_index == 0:
                logger.warning(f"The run had already stopped early, at step {state.global_step}: no step is trained.")

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.stopped_at:  # nothing is new since its checkpoint
            control.should_log = control.should_evaluate = control.should_save = False

    def check_metric_value(self, args: Any, state: Any, control: Any, metric_value: float) -> None:
        """Called after an evaluation, whose figure is the last one of the log."""
        self._count(args, state)
        if self.early_stopping_patience_counter >= self.early_stopping_patience and args.process_index == 0:
            name, count = args.metric_for_best_model.removeprefix("eval_"), self.early_stopping_patience_counter
            logger.warning(
                f"Stopped early, after {state.epoch:.3g} of {state.num_train_epochs} epochs: `{name}` of the "
                f"validation rows has not improved in {count} evaluations (--patience "
                f"{self.early_stopping_patience}; 0 never stops early)."
            )

    def _count(self, args: Any, state: Any) -> None:
        values = logged(args, state)
        threshold = self.early_stopping_threshold or 0.0
        self.early_stopping_patience_counter = without_gain(values, args.greater_is_better, threshold)


def logged(args: Any, state: Any) -> list[float]:
    """The figure that chooses the best checkpoint, at each evaluation so far."""
    key = f"eval_{(args.metric_for_best_model or '').removeprefix('eval_')}"
    return [entry[key] for entry in state.log_history if key in entry]


def unchanged(values: Sequence[float]) -> bool:
    """True for several values that are all equal."""
    return len(values) > 1 and all(value == values[0] for value in values)


def without_gain(values: Sequence[float], greater_is_better: bool, threshold: float = 0.0) -> int:
    """The number of evaluations since the last one that was more than `threshold` better than all before, without the
    equal ones at the beginning."""
    sign = 1 if greater_is_better else -1
    best, count, begun = -math.inf, 0, False
    for value in values:
        begun = begun or value != values[0]
        if sign * value > best + threshold:
            count = 0
        elif begun:
            count += 1
        best = max(best, sign * value)
    return count
