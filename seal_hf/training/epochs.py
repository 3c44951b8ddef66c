"""Epochs: the order of their rows, who is told which one has begun, how many a run has, and when it stops early.

Samplers order rows for batch repeats, the paper's n_F task-net updates on one batch; for rows of which only some have
gold; and in place of samplers of the Trainer that draw the order from the global random state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import IterableDataset
from transformers import EarlyStoppingCallback, TrainerCallback, TrainingArguments
from transformers.trainer_utils import IntervalStrategy, has_length
from transformers.utils import logging

from ..data.tensors.collators import TensorRows

if TYPE_CHECKING:
    from transformers import Trainer

logger = logging.get_logger(__name__)


class WindowRepeatSampler(torch.utils.data.Sampler[int]):
    """A shuffled epoch in which every accumulation window comes `repeats` times in a row.

    A window holds the rows that all processes use for one task-net update: per-device batch x accumulation x processes.
    Repeating whole windows, not micro-batches, keeps every process on its own rows. The last window is filled from the
    start of the same permutation.

    Args:
        num_rows: rows of the data set, at least 1.
        window: rows per window.
        repeats: n_F.
        seed: the order of epoch e depends on `seed + e` alone.
        num_labelled: the first rows, which are labelled and are spread [`evenly`]; None: all rows are shuffled alike.
    """

    def __init__(self, num_rows: int, window: int, repeats: int, seed: int, num_labelled: int | None = None):
        self.num_rows, self.window, self.repeats, self.seed = num_rows, window, repeats, seed
        self.num_labelled, self.epoch = num_labelled, 0

    @classmethod
    def of_trainer(cls, trainer: Trainer, dataset: Any) -> WindowRepeatSampler:
        """Make the sampler for the rows, batch size, processes and seed of a trainer."""
        args: Any = trainer.args
        window = trainer._train_batch_size * args.gradient_accumulation_steps * args.world_size
        if args.batch_repeats == 1:
            window = 1  # no window has to be filled
        few = dataset.num_labelled if has_few_labels(dataset) else None
        return cls(len(dataset), window, args.batch_repeats, order_seed(args), few)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.num_rows // self.window) * self.window * self.repeats

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        if self.num_labelled is None:
            order = torch.randperm(self.num_rows, generator=generator)
        else:
            order = evenly(self.num_labelled, self.num_rows, generator)
        num_windows = -(-self.num_rows // self.window)
        order = order.repeat(-(-num_windows * self.window // self.num_rows))[: num_windows * self.window]
        repeated = order.view(num_windows, 1, self.window).expand(-1, self.repeats, -1)
        yield from repeated.reshape(-1).tolist()


class SeededByEpoch(torch.utils.data.Sampler[int]):
    """A sampler of the Trainer with a generator of its own in each epoch. Without one, it draws from the global random
    state, which a run that resumes within an epoch cannot bring back.

    Args:
        sampler: has an attribute `generator`.
        seed: the order of epoch e depends on `seed + e` alone.
    """

    def __init__(self, sampler: Any, seed: int):
        self.sampler, self.seed, self.epoch = sampler, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[int]:
        self.sampler.generator = torch.Generator().manual_seed(self.seed + self.epoch)
        return iter(self.sampler)


def order_seed(args: Any) -> int:
    """The seed of the order of rows."""
    return args.seed if args.data_seed is None else args.data_seed


def has_few_labels(rows: Any) -> bool:
    """Whether only the first of these rows have gold labels."""
    return isinstance(rows, TensorRows) and rows.num_labelled is not None


def evenly(num_labelled: int, num_rows: int, generator: torch.Generator) -> torch.Tensor:
    """A random order of N rows, (N,), in which the labelled ones, the first, are spread evenly: among any n consecutive
    rows, their number differs from n times their share by less than one."""
    steps = torch.arange(num_rows + 1) * num_labelled // num_rows
    is_labelled = steps.diff() > 0  # (N,)
    order = torch.empty(num_rows, dtype=torch.long)
    order[is_labelled] = torch.randperm(num_labelled, generator=generator)
    order[~is_labelled] = num_labelled + torch.randperm(num_rows - num_labelled, generator=generator)
    return order


# Rows and samplers that differ by epoch learn which one has begun, and a run without gain stops early, also after a
# resume.


class NewEpoch(TrainerCallback):
    """Tells rows or a sampler the current epoch. [`SealTrainer`] adds it by itself; a plain `Trainer` needs it, since
    not all of accelerate's loaders tell the rows with several processes, or in a resumed epoch.

    Args:
        told: an object with `set_epoch`: [`MaskRows`] with crops, [`ImageRows`] with an augmentation, or a sampler. Do
            not use persistent dataloader workers: they keep copies of the rows.
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
    differ = getattr(rows, "is_random", learns_epochs(rows))
    if args.dataloader_persistent_workers and differ:
        raise ValueError(
            f"`dataloader_persistent_workers` is True, but `train_dataset`, a {type(rows).__name__}, differs by epoch, "
            "and persistent workers keep the rows of their first epoch. Leave it out."
        )


def learns_epochs(told: Any) -> bool:
    """True if `told` has `set_epoch`; the Trainer itself tells streams."""
    return not isinstance(told, IterableDataset) and callable(getattr(told, "set_epoch", None))


def epochs_for(args: Any, rows: Any) -> float:
    """`num_train_epochs`, or more: the whole number that gives `min_steps` updates on these training rows."""
    if not args.min_steps or args.max_steps >= 0 or not has_length(rows):
        return args.num_train_epochs
    batch = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
    steps = max(1, math.ceil(len(rows) / batch))
    return max(args.num_train_epochs, math.ceil(args.min_steps / steps))


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
        """Compare the figure of the last evaluation in the log with the best one so far."""
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
