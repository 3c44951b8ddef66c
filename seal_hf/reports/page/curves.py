"""The section on training: curves by step, from the Trainer's log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .page import Plot, Section, Table
from .plots import lines

MOST_POINTS = 300  # of a curve, so that the page of a long run stays small


class Curves(NamedTuple):
    """One plot of the log.

    Attributes:
        y_label: of the axis.
        series: key of the log -> name for readers.
        caption: what to see.
        logarithmic: True for a logarithmic axis, if the values differ by more than a factor of 10.
    """

    y_label: str
    series: Mapping[str, str]
    caption: str
    logarithmic: bool = False


ALONE = Curves(
    "loss",
    {"loss": "the energy network's", "eval_loss": "E(gold) - E(output), validation"},
    "Energies move while they are learned, so the level means little. On validation 0 is best: inference finds gold. "
    "Below 0 it stops at outputs of a higher energy than gold's; above 0 it finds lower ones.",
)
CURVES = (
    Curves(
        "task loss",
        {"task_loss": "training", "eval_loss": "validation"},
        "The task loss should fall and then stay. If that of validation rises while the score rises too, the "
        "probabilities become over-confident, which a decoder mends.",
    ),
    Curves(
        "score",
        {
            "eval_f1_example_tuned": "example F1 at the tuned threshold",
            "eval_f1_example": "example F1 at 0.5",
            "eval_f1": "F1 of spans",
            "eval_accuracy": "accuracy of tags",
            "eval_mean_iou": "mean IoU",
        },
        "The scores on validation rows. The dashed line is the evaluation whose weights are kept.",
    ),
    Curves(
        "share of the pull",
        {"energy_share": "λ1"},
        "The share of the task loss's pull that the energy has by default. 0 to the end: the energy taught nothing.",
    ),
    Curves(
        "factor",
        {"energy_weight": "λ1"},
        "The factor before the energy. If it grows by orders of magnitude, the energy's own pull is dying.",
        logarithmic=True,
    ),
    Curves(
        "mean energy",
        {
            "energy_gold": "gold",
            "energy_output": "the task-net's output",
            "energy_samples": "samples",
            "eval_energy_gold": "gold, validation",
            "eval_energy_output": "output, validation",
        },
        "Lower is better; the level means nothing. Gold should lie below the output, and samples above gold. An output "
        "far below gold exploits the energy.",
    ),
    Curves(
        "AUC",
        {"eval_energy_auc": "the energy", "eval_task_net_auc": "the task-net's own probability"},
        "How often gold is preferred to a fresh sample of the task-net, on validation rows. 0.5 is chance. If the "
        "energy lies above the task-net, it has something to teach.",
    ),
    Curves(
        "cosine",
        {"eval_energy_alignment": "energy and task loss"},
        "Whether the energy pulls to where the task loss pulls, on validation rows. Below 0 it pulls away from gold.",
    ),
    Curves(
        "learning rate",
        {"learning_rate": "task-net", "loss_net_learning_rate": "loss-net"},
        "The rates by their schedules.",
    ),
    Curves(
        "gradient norm",
        {"grad_norm": "task-net", "loss_net_grad_norm": "loss-net"},
        "Norms before clipping. A loss-net at 0 learns nothing.",
        logarithmic=True,
    ),
)


def training_section(log: Sequence[Mapping[str, Any]], best_step: int | None, energy_alone: bool = False) -> Section:
    """The curves of a run.

    Args:
        log: `log_history` of the Trainer's state.
        best_step: the step whose weights are kept, if the best evaluation decides.
        energy_alone: True for an energy network on its own, which has no task loss.
    """
    parts: list[Any] = []
    flat: list[str] = []
    for curves in (ALONE, *CURVES[1:]) if energy_alone else CURVES:
        found = {name: _points(log, key) for key, name in curves.series.items()}
        found = {name: xy for name, xy in found.items() if xy[0]}
        if not found or (curves.y_label == "score" and max(len(x) for x, _ in found.values()) < 2):
            continue
        values = [value for _, y in found.values() for value in y]
        if all(len(y) > 1 and min(y) == max(y) for _, y in found.values()):
            flat += [f"{curves.y_label}, {name}: {y[0]:.4g}" for name, (_, y) in found.items()]
            continue
        logarithmic = curves.logarithmic and min(values) > 0 and max(values) > 10 * min(values)
        marked = {"kept": float(best_step)} if best_step and curves.y_label == "score" else None
        drawn = lines(found, "step", curves.y_label, marked=marked, logarithmic=logarithmic)
        parts.append(Plot(drawn, curves.caption, _table(found)))
    if parts and not any("loss" in entry for entry in log):
        parts.insert(
            0, "No step was logged, so there are only the evaluations. --logging_steps 10 logs every 10 steps."
        )
    if flat:
        parts.append(f"Not drawn, as it never changed: {'; '.join(flat)}.")
    return Section("Training", parts)


def _points(log: Sequence[Mapping[str, Any]], key: str) -> tuple[list[float], list[float]]:
    """Steps and values of a key, at most `MOST_POINTS` of them, evenly spread. Of two entries for one step, as after a
    resume, the last counts."""
    found = {entry["step"]: entry[key] for entry in log if "step" in entry and _is_finite(entry.get(key))}
    every = math.ceil(len(found) / MOST_POINTS)
    kept = [step for number, step in enumerate(reversed(found)) if number % every == 0][::-1]  # with the last one
    return kept, [found[step] for step in kept]


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _table(found: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Table:
    steps = sorted({step for x, _ in found.values() for step in x})
    by_step = {name: dict(zip(*xy, strict=True)) for name, xy in found.items()}
    return Table([{"step": step} | {name: of.get(step) for name, of in by_step.items()} for step in steps])
