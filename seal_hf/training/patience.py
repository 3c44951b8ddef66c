"""Early stopping that a resumed run continues, also one that had stopped already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from transformers import EarlyStoppingCallback
from transformers.utils import logging

logger = logging.get_logger(__name__)


class Patience(EarlyStoppingCallback):
    """Stops after so many evaluations without gain. Those before a checkpoint count, so a resumed run stops where the
    uninterrupted one does; the counter of transformers begins anew.

    Args:
        early_stopping_patience: number of evaluations, at least 1.
    """

    stopped_at: int | None = None  # the step at which the resumed run had already stopped

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        key = f"eval_{args.metric_for_best_model.removeprefix('eval_')}"
        values = (entry[key] for entry in state.log_history if key in entry)
        self.early_stopping_patience_counter = without_gain(values, args.greater_is_better)
        self.stopped_at = None
        if self.early_stopping_patience_counter >= self.early_stopping_patience:
            control.should_training_stop = True  # [`StructuredTrainer`] then trains no step
            self.stopped_at = state.global_step
            logger.warning(f"The run had already stopped early, at step {state.global_step}: no step is trained.")

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.stopped_at:  # nothing is new since its checkpoint
            control.should_log = control.should_evaluate = control.should_save = False


def without_gain(values: Iterable[float], greater_is_better: bool) -> int:
    """The number of evaluations since the best one."""
    best, count = None, 0
    for value in values:
        if best is None or (value > best if greater_is_better else value < best):
            best, count = value, 0
        else:
            count += 1
    return count
