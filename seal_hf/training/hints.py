"""Hints that name the argument to change: before a run begins, each logged once, and after its end. The verdict on a
run has its score, what the loss-net taught, and these hints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerState, TrainingArguments
from transformers.utils import logging

from ..loss_net.energy_weight import BLIND_SHARE, EnergyWeight
from ..reports.common import MOST, NEXT, Score, Verdict, task_loss_in_words

logger = logging.get_logger(__name__)
STILL_RISING = 0.02  # gain of the last evaluation, as a share of its figure
TUNED = "tuning.json"  # in the output folder of a run whose settings were searched


def hint_at(args: TrainingArguments, num_training_steps: int, weight: EnergyWeight | None = None) -> None:
    """Warn of a warm-up as long as the run, of a run that logs no step, and of a λ1 that no evaluation changes.

    Args:
        args: the run's.
        num_training_steps: updates of the whole run; 0 for an evaluation, which gets no hint.
        weight: λ1, with an energy loss.
    """
    if args.process_index != 0 or num_training_steps == 0:
        return
    for hint in hints(args, num_training_steps, weight):
        logger.warning_once(hint)


def hints(args: Any, num_training_steps: int, weight: EnergyWeight | None = None) -> list[str]:
    """The hints, one sentence or two each."""
    found, steps = [], num_training_steps
    if (warmup := args.get_warmup_steps(steps)) >= steps:
        found.append(
            f"The warm-up takes {warmup} step{'s' * (warmup != 1)} and the run has {steps}: the learning rate never "
            f"reaches {args.learning_rate:g}. Give fewer `warmup_steps` (--warmup_steps), or more epochs."
        )
    every = args.logging_steps if args.logging_steps >= 1 else args.logging_steps * steps
    if args.logging_strategy == "steps" and every > steps and not args.logging_first_step:
        found.append(
            f"No step is logged: `logging_steps` is {args.logging_steps:g} and the run has {steps}. Give "
            f"{_set(logging_steps=max(1, steps // 10))}."
        )
    if weight is None or not weight.is_ruled:
        return found
    if args.eval_strategy == "no":
        found.append(
            f"λ1 stays at {BLIND_SHARE:g} of the task loss's pull: without evaluations during training, nothing tells "
            f"if the energy helps. Give {_set(eval_strategy='epoch')} and validation rows, or a weight: "
            "`energy_weight` (--energy_weight)."
        )
    needed = 2 if weight.has_all_gold else 1  # with rewards, the first evaluation gives λ1 a value
    if args.eval_strategy != "no" and (evaluations := _evaluations_within(args, steps)) < needed:
        found.append(
            f"The energy teaches nothing: the run has {evaluations} evaluation{'s' * (evaluations != 1)} before its "
            f"end, but only the {('first', 'second')[needed - 1]} one can give it a weight. Give "
            f"{_set(eval_strategy='steps', eval_steps=0.1)}, more epochs, or a weight: `energy_weight` "
            "(--energy_weight)."
        )
    return found


def hint_of_norm(logs: Mapping[str, float], scaled: bool) -> None:
    """Warn, once, of a gradient norm that is infinite in a log of training.

    Args:
        scaled: whether losses are scaled, for fp16: then such a step is left out, and the scale is halved.
    """
    for net, name in (("task-net", "grad_norm"), ("loss-net", "loss_net_grad_norm")):
        if not scaled and math.isinf(logs.get(name, 0.0)):
            logger.warning_once(
                f"The norm of the {net}'s gradient is infinite, so the net learns nothing. Look for huge values in the "
                "inputs, such as 1e30 for a missing one, and leave them out or scale them."
            )


def hint_after(args: TrainingArguments, state: TrainerState) -> str | None:
    """The hint for a run that was too short: its last evaluation is by far the best. None for others, for a run that
    ended early, and for one that keeps no best epoch."""
    if not args.load_best_model_at_end or args.metric_for_best_model is None or state.global_step < state.max_steps:
        return None
    name, better = args.metric_for_best_model.removeprefix("eval_"), max if args.greater_is_better else min
    trained = [line for line in state.log_history if line.get("step") != 0]  # an evaluation may precede all steps
    *before, last = [line[f"eval_{name}"] for line in trained if f"eval_{name}" in line] or [0.0]
    is_perfect = args.greater_is_better and last == 1  # of an accuracy or F1
    rises = before and better(*before, last) == last and abs(last - better(before)) > STILL_RISING * abs(last)
    if is_perfect or not rises:
        return None
    longer = _set(num_train_epochs=2 * math.ceil(state.epoch or args.num_train_epochs))
    if args.max_steps > 0:
        longer = _set(max_steps=2 * args.max_steps)
    return (
        f"`{name}` of the validation rows still improved at the end, from {better(before):.4g} to {last:.4g}: the run "
        f"was too short. Give a higher `learning_rate` (--learning_rate) than {args.learning_rate:g}, or a longer run: "
        f"{longer}."
    )


def learned_nothing(found: str, args: TrainingArguments) -> str:
    """The hint for a net whose outputs do not depend on its inputs, as `found` says."""
    return (
        f"{found}: the net learned nothing from what it reads. Give a lower `learning_rate` (--learning_rate) than "
        f"{args.learning_rate:g}, or a longer run if it had few steps."
    )


def _set(**values: Any) -> str:
    """Arguments with their values, as in Python and as on the command line."""
    given = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return f"{given} ({' '.join(f'--{name} {value}' for name, value in values.items())})"


def _evaluations_within(args: Any, steps: int) -> int:
    """The number of evaluations in a run before its last step."""
    at_start = int(args.eval_on_start)
    if args.eval_strategy == "steps":
        every = args.eval_steps if args.eval_steps >= 1 else max(1, math.ceil(args.eval_steps * steps))
        return at_start + int((steps - 1) // every)
    if args.max_steps > 0:  # epochs are unknown
        return steps
    return at_start + math.ceil(args.num_train_epochs) - 1


# The verdict on a run.


def verdict_of(trainer: Any, score: Score | None = None, hints: Iterable[str | None] = ()) -> Verdict:
    """The verdict on a trainer's run.

    Args:
        trainer: a [`SealTrainer`], or the trainer of an energy network, whose verdict says nothing of a loss-net.
        score: of the saved decisions, if it was measured.
        hints: of [`seal_hf.training.hints`] on the run's outputs, the most important first; None is left out.
    """
    loss, state = getattr(trainer.args, "energy_loss", None), trainer.state
    lessons = getattr(trainer, "lessons", None)
    said = [] if score is None else [score.in_words()]
    remedies = [hint for hint in (*hints, hint_after(trainer.args, state)) if hint is not None]
    taught = lessons is not None and lessons.since is not None
    if getattr(trainer, "linear_head", None) is not None:
        said.append("The classifier is a logistic regression on frozen features. Nothing else was trained.")
        remedies.append("the same command without --linear true trains a net.")
    if loss is not None and state.global_step > 0:
        alone = task_loss_in_words(trainer.task_loss_name)
        if lessons is None:
            said.append(f"The model was trained by {alone} alone.")
        else:
            said.append(lessons.in_words(alone))
            of_rules = "seal-hf compare rewards shows what the rules gained."
            remedies.append(lessons.remedy(loss) if trainer.space.has_all_gold else of_rules)
    if not remedies and score is not None and not Path(trainer.args.output_dir, TUNED).is_file():
        remedies.append("--tune 12 searches better settings.")
    return Verdict(taught, (*said, *(f"{NEXT}{remedy}" for remedy in remedies[:MOST])))
