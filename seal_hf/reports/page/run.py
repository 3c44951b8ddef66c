"""The page of a run, `report.html`, from the JSON files of its folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ...core.task import Registry
from ...saving.checkpoints import last_complete_checkpoint, step_of
from ...saving.run_record import read_record
from ...utils.files import json_object, whole_file
from ..common import PAGE, REPORT, figure_rows, results_of
from ..verdict import NEXT, Verdict, called_by
from .curves import training_section
from .page import SHOWN, Card, Page, Section, Table, render
from .tuning import tuning_parts

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
    """The page of a run; arguments and errors as for [`write_page`]."""
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
    sections = [run_section(report), figures, training]
    for name, make in SECTIONS.items():
        sections += make(facts[name], folder) if name in facts else []
    called = called_by(loss, verdict is None or verdict.taught)
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
    """The verdict on three cards: the score, what the loss-net did, and what to try next."""
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


def run_section(report: Mapping[str, Any]) -> Section:
    """What was run."""
    rows, own = report.get("rows") or {}, report.get("settings", {})
    facts = {
        "data": report.get("dataset"),
        "loss": report.get("loss") or own.get("energy_method"),
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
    caption += "Validation rows have fitted and chosen, so their column flatters."
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
    marked: list[int] = []
    for name, end in wanted["decisions"].items():
        row = {kind: results.get(f"{split}_{start}{end}") for kind, start in wanted["kinds"].items()}
        known = any(value is not None for value in row.values())
        if end == wanted["chosen"]:
            marked.append(len(rows))
        elif not known or any(row.items() <= other.items() for other in rows):  # the same sets under another name
            continue
        rows.append({"decision": name, **row})
    caption = f"Figures of {SHOWN.get(split, split)} rows under each decision. The marked one is saved with the model."
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
