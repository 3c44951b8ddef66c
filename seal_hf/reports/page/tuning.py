"""What a search by `--tune` found: the best trial, and the best one without an energy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...utils.files import json_object
from .page import Number, Table

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
