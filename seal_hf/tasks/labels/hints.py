"""Hints after a run on label sets: they name the argument to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from transformers import TrainingArguments

from ...training.hints import learned_nothing
from ...utils.messages import few
from .decisions.targets import F1_MACRO, F1_MICRO
from .metrics import decided_and_gold
from .task_losses import TASK_LOSSES

ENOUGH_GOLD = 5  # rows with a label: if none of them is decided so, that is hardly chance
SHOWN_LABELS = 5  # the most that a hint names
ALIKE = 0.01  # of the mean probability of a label: within it a net says the same of all rows


def hint_of_collapse(probabilities: np.ndarray, args: TrainingArguments) -> str | None:
    """The hint for a net that gives all validation rows nearly the same `probabilities` (N, L); None for others, for
    NaN, and for a single row."""
    if len(probabilities) < 2:
        return None
    spread, size = np.ptp(probabilities, axis=0), probabilities.mean(0)
    if not (spread <= np.maximum(ALIKE * size, np.finfo(np.float32).eps)).all():
        return None
    return learned_nothing(
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
