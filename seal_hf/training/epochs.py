"""How many epochs a run has; rows and samplers that differ by epoch learn which one has begun."""

from __future__ import annotations

import math
from typing import Any

from torch.utils.data import IterableDataset
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import IntervalStrategy, has_length


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
