"""Hints before a run begins, each logged once, and after its end: they name the argument to change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from transformers import TrainerState, TrainingArguments
from transformers.utils import logging

from ..loss_net.energy_weight import BLIND_SHARE
from ..tasks.labels.decisions.targets import F1_MACRO, F1_MICRO
from ..tasks.labels.metrics import decided_and_gold
from ..tasks.labels.task_losses import TASK_LOSSES
from ..utils.messages import few

logger = logging.get_logger(__name__)
STILL_RISING = 0.02  # gain of the last evaluation, as a share of its figure
ENOUGH_GOLD = 5  # rows with a label: if none of them is decided so, that is hardly chance
SHOWN_LABELS = 5  # the most that a hint names
ALIKE = 0.01  # of the mean probability of a label: within it a net says the same of all rows


def hint_at(args: TrainingArguments, num_training_steps: int, ruled: bool = False, has_all_gold: bool = True) -> None:
    """Warn of a warm-up as long as the run, of a run that logs no step, and of a λ1 that no evaluation changes.

    Args:
        args: the run's.
        num_training_steps: updates of the whole run; 0 for an evaluation, which gets no hint.
        ruled: True if evaluations choose λ1.
        has_all_gold: False if rows lack gold: the first evaluation gives λ1 a value, otherwise the second.
    """
    if args.process_index != 0 or num_training_steps == 0:
        return
    for hint in hints(args, num_training_steps, ruled, has_all_gold):
        logger.warning_once(hint)


def hints(args: Any, num_training_steps: int, ruled: bool = False, has_all_gold: bool = True) -> list[str]:
    """The hints, one sentence or two each."""
    found, steps = [], num_training_steps
    if (warmup := args.get_warmup_steps(steps)) >= steps:
        found.append(
            f"The warm-up takes {warmup} step{'s' * (warmup != 1)} and the run has {steps}: the learning rate never "
            f"reaches {args.learning_rate:g}. Give fewer --warmup_steps, or more epochs."
        )
    every = args.logging_steps if args.logging_steps >= 1 else args.logging_steps * steps
    if args.logging_strategy == "steps" and every > steps and not args.logging_first_step:
        found.append(
            f"No step is logged: `logging_steps` is {args.logging_steps:g} and the run has {steps}. Give "
            f"--logging_steps {max(1, steps // 10)}."
        )
    if ruled and args.eval_strategy == "no":
        found.append(
            f"λ1 stays at {BLIND_SHARE:g} of the task loss's pull: without evaluations during training, nothing tells "
            "if the energy helps. Give --eval_strategy epoch and validation rows, or a weight: --energy_weight."
        )
    needed = 2 if has_all_gold else 1
    if ruled and args.eval_strategy != "no" and (evaluations := _evaluations_within(args, steps)) < needed:
        found.append(
            f"The energy teaches nothing: the run has {evaluations} evaluation{'s' * (evaluations != 1)} before its "
            f"end, but only the {('first', 'second')[needed - 1]} one can give it a weight. Give --eval_strategy steps "
            "--eval_steps 0.1, more epochs, or a weight: --energy_weight."
        )
    return found


def hint_after(args: TrainingArguments, state: TrainerState) -> str | None:
    """The hint for a run that was too short: its last evaluation is by far the best. None for others, for a run that
    ended early, and for one that keeps no best epoch."""
    if not args.load_best_model_at_end or args.metric_for_best_model is None or state.global_step < state.max_steps:
        return None
    name, better = args.metric_for_best_model.removeprefix("eval_"), max if args.greater_is_better else min
    trained = [line for line in state.log_history if line.get("step") != 0]  # an evaluation may precede all steps
    *before, last = [line[f"eval_{name}"] for line in trained if f"eval_{name}" in line] or [0.0]
    if not before or better(*before, last) != last or not abs(last - better(before)) > STILL_RISING * abs(last):
        return None
    longer = f"--num_train_epochs {2 * math.ceil(state.epoch or args.num_train_epochs)}"
    if args.max_steps > 0:
        longer = f"--max_steps {2 * args.max_steps}"
    return (
        f"`{name}` of the validation rows still improved at the end, from {better(before):.4g} to {last:.4g}: the run "
        f"was too short. Give a higher --learning_rate than {args.learning_rate:g}, or a longer run: {longer}."
    )


def hint_of_collapse(probabilities: np.ndarray, args: TrainingArguments) -> str | None:
    """The hint for a net that gives all validation rows nearly the same `probabilities` (N, L); None for others, for
    NaN, and for a single row."""
    if len(probabilities) < 2:
        return None
    spread, size = np.ptp(probabilities, axis=0), probabilities.mean(0)
    if not (spread <= np.maximum(ALIKE * size, np.finfo(np.float32).eps)).all():
        return None
    return _learned_nothing(
        f"All {len(probabilities)} validation rows have the same probabilities, to {ALIKE:.0%}", args
    )


def missed_labels(decided: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> dict[str, int]:
    """Labels that no gold row gets, the most frequent first: name -> number of its gold rows. A label that is decided,
    though only wrongly, counts if it has `ENOUGH_GOLD` gold rows.

    Args:
        decided, labels: (N, L), 0 or 1; labels -1 or NaN are unknown.
        names: L names.
    """
    sets, gold, _ = decided_and_gold(decided, labels)
    count = gold.sum(0)
    missed = ~(sets & gold).any(0) & ((count >= ENOUGH_GOLD) | ((count > 0) & ~sets.any(0)))
    places = np.flatnonzero(missed)
    return {names[i]: int(count[i]) for i in places[np.argsort(-count[places], kind="stable")].tolist()}


def hint_of_missed_labels(missed: Mapping[str, int], num_labels: int, split: str, args: Any) -> str | None:
    """The hint for [`missed_labels`] on the rows of a split; None without any. It names the flags that the run has and
    that were not given."""
    if not missed:
        return None
    flags, decoder = [], getattr(args, "decoder", None)
    if getattr(args, "target", F1_MACRO) != F1_MACRO or decoder is not None:
        named = "--decoder thresholds " if decoder is not None else ""
        flags.append(f"{named}--target f1_macro, which cuts each label at a threshold of its own")
    weighs = "pos_weight" in getattr(TASK_LOSSES.get(getattr(args, "task_loss", "")), "also_reads", ())
    if weighs and args.pos_weight is None:
        flags.append("--pos_weight sqrt, which gives rare labels more weight in training")
    rows = [f"{name} ({count:,} row{'s' * (count != 1)})" for name, count in missed.items()]
    found = f"{len(missed)} of {num_labels} labels {'has' if len(missed) == 1 else 'have'} an F1 of 0 on {split}"
    return f"{found}: {few(rows, SHOWN_LABELS)}. {'Give ' + ', or '.join(flags) + '.' if flags else ''}".rstrip()


def hint_of_empty_sets(decided: np.ndarray, labels: np.ndarray, rows: str, args: Any) -> str | None:
    """The hint for rows most of which have no gold label, which count as right if nothing is decided; None for others.

    Args:
        decided, labels: (N, L), 0 or 1; labels -1 or NaN are unknown.
        rows: the rows in words.
    """
    sets, gold, _ = decided_and_gold(decided, labels)
    held = np.asarray(gold.any(1))
    if not held.any() or 2 * held.sum() > len(held):
        return None
    flag = "" if getattr(args, "target", F1_MICRO) == F1_MICRO else " --target f1_micro decides for rows with labels."
    said = f"{len(held) - held.sum():,} of {len(held):,} {rows} have no label, and count 1 where none is decided"
    if not sets.any():
        return f"The saved decisions give no label to any row: {said}, so example F1 says nothing.{flag}"
    sizes = (sets.sum(1) + gold.sum(1))[held]
    score = (2 * (sets & gold).sum(1)[held] / sizes).mean()
    return f"{said}; on the {held.sum():,} others example F1 is {score:.4f}.{flag}"


def hint_of_baseline(score: float, baseline: float, reads: str) -> str | None:
    """The hint for a net whose `score` on validation rows is below that of a linear `baseline`; None for others.

    Args:
        reads: what the baseline reads, such as `on the same features`.
    """
    if score >= baseline:
        return None
    return (
        f"A logistic regression ({reads}) is better on validation rows: {baseline:.4f}, and {score:.4f} by the net. "
        "--linear true fits and saves it."
    )


def hint_of_one_tag(tags: Sequence[Sequence[Any]], args: TrainingArguments) -> str | None:
    """The hint for a net that gives every word of the validation sentences the same one of its `tags`; None for others,
    and for a single sentence."""
    found = {tag for sentence in tags for tag in sentence}
    if len(found) != 1 or len(tags) < 2:
        return None
    return _learned_nothing(f"All words of {len(tags)} validation sentences get the tag {found.pop()!r}", args)


def hint_of_one_mask(mean_iou: float, constant: float, args: TrainingArguments) -> str | None:
    """The hint for a segmentation net whose mean IoU on validation images is not above `constant`, that of one mask for
    all images; None for others."""
    if mean_iou > constant:
        return None
    found = f"The mean IoU {mean_iou:.4f} of validation images is not above {constant:.4f}, that of one mask for all"
    return _learned_nothing(found, args)


def _learned_nothing(found: str, args: TrainingArguments) -> str:
    return (
        f"{found}: the net learned nothing from what it reads. Give a lower --learning_rate than "
        f"{args.learning_rate:g}, or a longer run if it had few steps."
    )


def _evaluations_within(args: Any, steps: int) -> int:
    """The number of evaluations in a run before its last step."""
    at_start = int(args.eval_on_start)
    if args.eval_strategy == "steps":
        every = args.eval_steps if args.eval_steps >= 1 else max(1, math.ceil(args.eval_steps * steps))
        return at_start + int((steps - 1) // every)
    if args.max_steps > 0:  # epochs are unknown
        return steps
    return at_start + math.ceil(args.num_train_epochs) - 1
