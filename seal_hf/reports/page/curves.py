"""The section on training: curves by step, from the Trainer's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .page import Plot, Section, Table
from .plots import lines


class Curves(NamedTuple):
    """One plot of the log.

    Attributes:
        y_label: of the axis.
        series: key of the log -> name for readers.
        caption: what to see.
        logarithmic: True for a logarithmic axis.
    """

    y_label: str
    series: Mapping[str, str]
    caption: str
    logarithmic: bool = False


CURVES = (
    Curves(
        "task loss",
        {"task_loss": "training", "loss": "training, in all", "eval_loss": "validation"},
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
        "The share of the task loss's pull that the rule gives to the energy. 0 to the end: the energy taught nothing.",
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


def training_section(log: Sequence[Mapping[str, Any]], best_step: int | None) -> Section:
    """The curves of a run.

    Args:
        log: `log_history` of the Trainer's state.
        best_step: the step whose weights are kept, if the best evaluation decides.
    """
    parts: list[Any] = []
    for curves in CURVES:
        found = {name: _points(log, key) for key, name in curves.series.items()}
        if "task_loss" in curves.series and found["training"][0]:
            del found["training, in all"]  # it is the task loss, if there is no other
        found = {name: xy for name, xy in found.items() if xy[0]}
        if not found or (curves.y_label == "score" and max(len(x) for x, _ in found.values()) < 2):
            continue
        positive = all(value > 0 for _, y in found.values() for value in y)
        marked = (float(best_step), "kept") if best_step and curves.y_label == "score" else None
        drawn = lines(found, "step", curves.y_label, marked=marked, logarithmic=curves.logarithmic and positive)
        parts.append(Plot(drawn, curves.caption, _table(found)))
    if parts and not any("loss" in entry for entry in log):
        parts.insert(
            0, "No step was logged, so there are only the evaluations. --logging_steps 10 logs every 10 steps."
        )
    return Section("Training", parts)


def _points(log: Sequence[Mapping[str, Any]], key: str) -> tuple[list[float], list[float]]:
    """Steps and values of a key. Of two entries for one step, as after a resume, the last counts."""
    found = {entry["step"]: entry[key] for entry in log if entry.get(key) is not None and "step" in entry}
    return list(found), list(found.values())


def _table(found: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Table:
    steps = sorted({step for x, _ in found.values() for step in x})
    by_step = {name: dict(zip(*xy, strict=True)) for name, xy in found.items()}
    return Table([{"step": step} | {name: of.get(step) for name, of in by_step.items()} for step in steps])
