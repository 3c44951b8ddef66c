"""Early stopping that a resumed run continues, also one that had stopped already."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from transformers import EarlyStoppingCallback
from transformers.utils import logging

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
