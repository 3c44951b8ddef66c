"""The page of a run, `report.html`, from the JSON files of its folder."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from ..core.task import Registry
from ..saving.checkpoints import last_complete_checkpoint, read_record, step_of
from ..utils.files import json_object, whole_file
from .common import NEXT, PAGE, REPORT, Verdict, called_by, figure_rows, results_of
from .page import SHOWN, Card, Number, Page, Plot, Section, Table, render
from .plots import lines

# Key of `facts` in _report.json -> (those facts, the folder) -> sections.
SECTIONS: Registry[Callable[[Mapping[str, Any], Path], list[Section]]] = Registry(lambda task: task.sections)
NEEDED: dict[str, type] = {"ended": str, "step": int, "steps": int, "log": list}  # of _report.json: entry -> its type
REMEDY = "Remove it, and train again to write it anew."
EXPECTED = "Expected the output folder of a run, with _report.json or a checkpoint."


def write_page(folder: str | Path, beside: str | Path | None = None) -> Path:
    """Write `report.html` into the output folder of a run, whether it is finished, interrupted or still running.

    Args:
        beside: the output folder of another run on the same data, usually cross-entropy's, whose figures are shown
            beside.

    Returns:
        the page.

    Raises:
        ValueError: a folder holds no run, or matplotlib is missing.
    """
    folder = Path(folder)
    text = render(run_page(folder, None if beside is None else Path(beside)))
    with whole_file(folder / PAGE) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return folder / PAGE


def run_page(folder: Path, beside: Path | None = None) -> Page:
    """The page of a run. Arguments and errors are those of [`write_page`]."""
    try:
        return _page_of(read_report(folder), folder, beside)
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(
            f"{folder / REPORT}, or a file beside it, is not as this version of seal_hf writes it ({error!r}). "
            "Use the version that trained the run, or train again."
        ) from error


def _page_of(report: Mapping[str, Any], folder: Path, beside: Path | None) -> Page:
    facts = report.get("facts", {})
    figures = figures_section(facts.get("figures"), folder, beside)
    if report.get("tuned"):
        figures.parts += tuning_parts(folder)
    loss, verdict = report.get("loss"), Verdict.saved_in(facts)
    training = training_section(report["log"], report.get("best_step"), energy_alone=loss is None)
    called = called_by(loss, verdict is None or verdict.taught)
    sections = [run_section(report, called), figures, training]
    for name, make in SECTIONS.items():
        sections += make(facts[name], folder) if name in facts else []
    title = f"{report.get('dataset') or folder.resolve().name}: {called or 'energy network'}"
    if model := _model_of(report.get("settings") or {}):
        title += f" on {model}"
    sections.insert(0, Section("Verdict", [] if verdict is None else cards(verdict.sentences)))
    return Page(title, sections, ended(report), "Written by seal_hf from the JSON files beside it.")


def _model_of(settings: Mapping[str, Any]) -> str:
    """The pretrained model of a run, or the kind of its own net; empty if unknown."""
    named = settings.get("model_name_or_path")
    if isinstance(named, str):
        return Path(named).name
    return str(settings.get("model") or "").partition(",")[0].partition("For")[0]


def cards(sentences: Sequence[str]) -> list[Any]:
    """Three cards with the verdict: the score, what the loss-net did, and what to try next."""
    following = [said.removeprefix(NEXT) for said in sentences if said.startswith(NEXT)]
    others = [said for said in sentences if not said.startswith(NEXT)]
    score = next((said for said in others if re.search(r": \d\.\d{4} on ", said)), None)
    number = "" if score is None else re.search(r": (\d\.\d{4}) on ", score)[1]  # type: ignore[index]
    found = [
        Card("The score and the saved rule", [] if score is None else [score], number),
        Card("What the loss-net did", [said for said in others if said != score]),
        Card("What to try next", [said[:1].upper() + said[1:] for said in following]),
    ]
    return [card for card in found if card.sentences]


def read_report(folder: Path) -> dict[str, Any]:
    """The facts of a run: `_report.json`, or those of its last checkpoint if that is newer.

    Raises:
        ValueError: the folder has neither.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder. {EXPECTED}")
    last = last_complete_checkpoint(folder)
    file = folder / REPORT
    report = json_object(file, REMEDY) if file.is_file() else {}
    missing = [name for name, kind in NEEDED.items() if report and not isinstance(report.get(name), kind)]
    if missing:
        names = ", ".join(sorted(missing))
        raise ValueError(f"{file} lacks {names}, or holds something else there, unlike a report of a run. {REMEDY}")
    if last is not None and (not report or report["step"] < step_of(last)):
        state = json_object(last / "trainer_state.json", REMEDY)
        settings = read_record(last) or {}
        report = {"ended": "", "settings": settings, "step": state["global_step"], "steps": state["max_steps"]}
        report |= {"log": state["log_history"], "best_step": state.get("best_global_step")}
        report |= {"dataset": settings.get("dataset"), "loss": settings.get("energy_loss")}
    if not report:
        raise ValueError(f"{folder} holds no run. {EXPECTED}")
    return report


def ended(report: Mapping[str, Any]) -> str:
    """How far a run came, in a sentence."""
    steps = f"{report['step']:,} of {report['steps']:,} steps"
    if report["ended"] == "complete":
        return f"The run is complete: {report['step']:,} steps."
    if report["ended"]:
        return f"The run was {report['ended']}. It made {steps}."
    return f"The run is not finished: its last checkpoint is that of {steps}."


def run_section(report: Mapping[str, Any], called: str | None) -> Section:
    """What was run; `called` is the loss by which the model is called."""
    rows, own = report.get("rows") or {}, report.get("settings", {})
    loss = report.get("loss")
    instead = f"; its loss-net never taught, so the model is called {called}" if called != loss else ""
    facts = {
        "data": report.get("dataset"),
        "loss": f"{loss}{instead}" if loss else own.get("energy_method"),
        "task loss": own.get("task_loss"),
        "rows": ", ".join(f"{name} {count:,}" for name, count in rows.items()),
        "labels": report.get("num_labels"),
        "versions": ", ".join(f"{name} {found}" for name, found in (report.get("versions") or {}).items()),
    }
    parts: list[Any] = [Table([{"fact": name, "value": str(value)} for name, value in facts.items() if value])]
    if command := report.get("command"):
        parts = [*parts, "The command that repeats it:", Markup("<pre>{}</pre>").format(command)]
    settings = [{"setting": name, "value": json.dumps(value)} for name, value in own.items()]
    return Section("What was run", [*parts, Table(settings, "All settings", folded=True)])


def figures_section(figures: Mapping[str, Any] | None, folder: Path, beside: Path | None) -> Section:
    """The figures in the run's `all_results.json`, and those of another run beside.

    Args:
        figures: `names`, figure -> its name for readers, and `chosen`, the figure of the stored decisions, or None.
    """
    if figures is None:
        return Section("Figures")
    results = results_of(folder)
    rows = figure_rows(results, figures["names"])
    chosen = figures["names"].get(figures["chosen"])
    marked = [number for number, row in enumerate(rows) if row["figure"] == chosen]
    caption = "The marked row is the decision that is saved with the model. " if marked else ""
    caption += "Decisions were fitted and chosen on validation rows, so that column is too good."
    if beside is not None:
        caption += _add_beside(rows, figures["names"], folder, beside)
    elif grid := _grid(figures.get("grid") or {}, results):
        return Section("Figures", [grid, Table(rows, f"All figures. {caption}", marked, folded=True)])
    return Section("Figures", [Table(rows, caption, marked)])


def _grid(wanted: Mapping[str, Any], results: Mapping[str, float]) -> Table | None:
    """A row for each decision and a column for each kind of figure, on test rows if they have labels; None without.

    Args:
        wanted: `decisions`, name -> end of the figures' keys; `kinds`, name -> their start; `chosen`, the end of the
            saved decision's keys.
    """
    split = next((s for s in ("test", "eval") for key in results if key.startswith(f"{s}_")), None)
    if split is None or not wanted:
        return None
    rows: list[dict[str, Any]] = []
    marked, left_out = list[int](), list[str]()
    for name, end in wanted["decisions"].items():
        row = {kind: results.get(f"{split}_{start}{end}") for kind, start in wanted["kinds"].items()}
        known = any(value is not None for value in row.values())
        if end == wanted["chosen"]:
            marked.append(len(rows))
        elif known and any(row.items() <= other.items() for other in rows):
            left_out.append(name.split(":")[0])
            continue
        elif not known:
            continue
        rows.append({"decision": name, **row})
    caption = f"Figures of {SHOWN.get(split, split)} rows under each decision. The marked one is saved with the model."
    if left_out:
        caption += f" Left out, since their figures are those of a row here: {', '.join(left_out)}."
    return Table(rows, caption, marked)


def _add_beside(rows: list[dict[str, Any]], names: Mapping[str, str], folder: Path, beside: Path) -> str:
    """Add columns with the figures of another run; return what the caption says of them."""
    others = {row["figure"]: row for row in figure_rows(results_of(beside), names)}
    if not others:
        raise ValueError(f"{beside} has no all_results.json with such figures. Give the folder of a finished run.")
    name = beside.resolve().name
    for row in rows:
        other = others.get(row["figure"], {})
        row |= {f"{split}, {name}": value for split, value in other.items() if split != "figure"}
    known = {_validation_rows(folder), _validation_rows(beside)} - {None}
    warning = " That run has other validation rows, so the figures do not compare." if len(known) > 1 else ""
    return f" Columns with {name} are those of the run in {beside}.{warning}"


def _validation_rows(folder: Path) -> Any:
    """What identifies the validation rows of a run: their number and a hash; None if its report does not say."""
    file = folder / REPORT
    return json_object(file, REMEDY).get("settings", {}).get("eval_data") if file.is_file() else None


TUNING = "tuning.json"


def tuning_parts(folder: Path) -> list[Table]:
    """Two tables from `tuning.json` of an output folder: the best trial beside the best one with λ1 = 0, which is plain
    cross-entropy; and all trials, folded. None without the file."""
    file = folder / TUNING
    if not file.is_file():
        return []
    found = json_object(file, "Remove it, or search again.")
    metric, trials = found["metric"], found["trials"]
    rows = [{"trial": number, metric: one["value"], **_shown(one["settings"])} for number, one in enumerate(trials, 1)]
    best = found["best"] - 1
    everything = Table(rows, f"All {len(rows)} trials of the search", [best], folded=True)
    plain = [number for number, one in enumerate(trials) if one["settings"].get("energy_weight", 1) == 0]
    values = {number: trials[number]["value"] for number in plain if trials[number]["value"] is not None}
    if not values:
        return [everything]
    if best in plain:
        caption = "The search chose λ1 = 0 (energy_weight), cross-entropy alone: no energy was better on validation."
        return [Table([{"": "the best trial", **rows[best]}], caption), everything]
    larger = all(trials[best]["value"] >= one["value"] for one in trials if one["value"] is not None)
    beside = (max if larger else min)(values, key=lambda number: values[number])
    names = {best: "the best trial", beside: "the best with λ1 = 0, cross-entropy alone"}
    caption = (
        f"The search chose by {metric} on validation, with one seed. The difference between the rows is what the "
        f"energy adds there. It is too good, since the best of {len(rows)} trials was chosen."
    )
    return [Table([{"": name, **rows[number]} for number, name in names.items()], caption), everything]


def _shown(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as cells: numbers to three digits; for λ1, None is the rule."""

    def cell(value: Any) -> Any:
        if value is None:
            return Number(None, "rule")
        return Number(value, f"{value:.3g}") if isinstance(value, float) else value

    return {name: cell(value) for name, value in settings.items()}


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
        "The task loss should fall and then stay. If it rises on validation rows while the score rises too, the "
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
        parts.append(f"Not drawn, because they never changed: {'; '.join(flat)}.")
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
