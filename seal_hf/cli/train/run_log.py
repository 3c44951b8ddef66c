"""What a program prints of its nets and while it trains: a sentence on what begins anew, in place of transformers'
report, and a line for each evaluation, in place of the Trainer's dictionaries."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tqdm.auto import tqdm
from transformers import PreTrainedModel, TrainerCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from ...core.task import task_of
from ...loss_net.loss_net import LOSS_NET_FOLDER
from ...saving.model import SealModel
from ...utils.messages import few, printable

ENDLESS = 10**6  # epochs; a stream without a length has no number of them
# what is told by `what_begins_anew` instead: of transformers 4.57 and 5, and of ours
REPORTS = ("Some weights of ", " LOAD REPORT", f"No {LOSS_NET_FOLDER}/ in ")


@contextmanager
def without_reports() -> Iterator[None]:
    """Inside, no report says which weights a model lacks; see [`what_begins_anew`]."""
    loggers = [logging.getLogger(kind.__module__) for kind in (PreTrainedModel, SealModel)]
    for logger in loggers:
        logger.addFilter(_is_no_report)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_is_no_report)


def _is_no_report(record: logging.LogRecord) -> bool:
    return not any(words in record.getMessage() for words in REPORTS)


def what_begins_anew(trainer: Any, name: str | None) -> str | None:
    """A sentence on the weights that a pretrained model lacks, which the run learns; None if it lacks none.

    Args:
        name: the model, a folder or Hub id; None for nets from scratch.
    """
    loss_net = getattr(trainer, "loss_net", None)
    fresh, second = sorted(getattr(trainer, "fresh", ())), loss_net is not None and not loss_net.name_or_path
    if name is None or not (fresh or second):
        return None
    if not fresh:
        return f"{name}: its weights were loaded; the loss-net begins anew and is learned in this run."
    parts = [few(fresh, 4), *["the loss-net"] * second]
    return f"{name}: its weights were loaded, except that {' and '.join(parts)} begin anew and are learned in this run."


def log_in_lines(trainer: Any, dicts: bool = False) -> None:
    """Let a trainer print a line for each evaluation while it trains; without evaluations, for each logged step.

    Args:
        dicts: also print the dictionaries of all figures, as the Trainer does. They are in `trainer_state.json` anyway.
    """
    if not dicts:
        trainer.remove_callback(PrinterCallback)
        if trainer.pop_callback(ProgressCallback) is not None:
            trainer.add_callback(QuietBar)
    trainer.add_callback(RunLines(trainer))


class QuietBar(ProgressCallback):
    """The Trainer's progress bar, without the dictionaries."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        return


class RunLines(TrainerCallback):
    """Prints the lines, in the main process.

    Args:
        trainer: whose run it is.
    """

    def __init__(self, trainer: Any):
        self.trainer = trainer
        self.begun: tuple[float, int] | None = None  # time and step at which the training began or was resumed
        self.seen = 0  # entries of the log that earlier lines have told

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.begun, self.seen = (time.perf_counter(), state.global_step), len(state.log_history)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.begun = None

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if str(getattr(args.eval_strategy, "value", args.eval_strategy)) == "no" and "loss" in (logs or {}):
            self._print(state, {})

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        self._print(state, metrics or {})

    def _print(self, state: Any, metrics: Mapping[str, float]) -> None:
        if self.begun is None or not state.is_world_process_zero:
            return
        parts = [*self._losses(state, metrics), *self._figure(state, metrics), *self._share(state), *self._left(state)]
        tqdm.write(printable(f"{_place(state)}: {', '.join(parts)}"))  # above the bar, if there is one
        if sys.stdout is not None:  # it may be closed
            sys.stdout.flush()

    def _losses(self, state: Any, metrics: Mapping[str, float]) -> list[str]:
        """The task loss of training since the last line, and that of validation."""
        new, self.seen = state.log_history[self.seen :], len(state.log_history)
        losses = [entry.get("task_loss", entry["loss"]) for entry in new if "loss" in entry]
        found = [f"training loss {_short(sum(losses) / len(losses))}"] if losses else []
        return found + [f"validation loss {_short(value)}" for key, value in metrics.items() if key == "eval_loss"]

    def _figure(self, state: Any, metrics: Mapping[str, float]) -> list[str]:
        """The figure that chooses the best epoch."""
        args = self.trainer.args
        name = (args.metric_for_best_model or "").removeprefix("eval_")
        key = f"eval_{name}"
        if name == "loss" or key not in metrics:
            return []
        before = [entry[key] for entry in state.log_history if key in entry and entry["step"] < state.global_step]
        better = max if args.greater_is_better else min
        best = " (best so far)" if before and better(*before, metrics[key]) not in before else ""
        task = task_of(self.trainer.space)
        shown = task.figures(self.trainer.space).get(name, name) if task else name
        return [f"{shown} {metrics[key]:.4f}{best}"]

    def _share(self, state: Any) -> list[str]:
        """λ1 of the steps before this line."""
        trains_loss_net = getattr(self.trainer, "learner", None) is not None
        return [self.trainer.energy_weight.in_words(state)] if trains_loss_net else []

    def _left(self, state: Any) -> list[str]:
        """The time that the rest of the run takes if it goes on as since its start."""
        assert self.begun is not None, "as `_print` checks"
        start, first = self.begun
        done, rest = state.global_step - first, state.max_steps - state.global_step
        if done <= 0 or rest <= 0:
            return []
        return [f"{duration(rest * (time.perf_counter() - start) / done)} left"]


def duration(seconds: float) -> str:
    """A time in words, to one or two units: `40 s`, `3 min`, `2 h 5 min`."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def _place(state: Any) -> str:
    """How far the run is."""
    if state.num_train_epochs > ENDLESS:
        return f"step {state.global_step:,} of {state.max_steps:,}"
    return f"epoch {state.epoch or 0:.3g} of {state.num_train_epochs:g}"


def _short(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.4g}"
