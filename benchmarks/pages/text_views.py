"""What two nets read of a text: is a second net's gain that of its better features?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import text_screen

from . import runs
from .markdown import table
from .text_screens import VIEWS, there

METHODS = ("ce", "mutual", "nce", "nce_balanced", "default")
TUNED = runs.TUNED


def _figures(data: str, view: str) -> dict[str, runs.Runs]:
    found = runs.stored(f"{data}_{view}").all()
    return {method: {run["seed"]: run for run in found.get(method, ())} for method in METHODS}


def _over_sets(view: str, names: Sequence[str]) -> list[str]:
    """The mean over data sets of what each method adds to cross-entropy, with a 95 % interval."""
    found, cells = [_figures(data, view) for data in names], []
    for method in METHODS[1:]:
        gains = [
            [100 * (each[method][seed][TUNED] - run[TUNED]) for seed, run in each["ce"].items()]
            for each in found
            if each[method].keys() >= each["ce"].keys()
        ]
        interval = text_screen.interval([np.array(values) for values in gains]) if len(gains) == len(found) else None
        cells.append(f"{interval.mean:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]" if interval else "-")
    return cells


def in_short() -> str:
    """A row for each view of a frozen encoder: cross-entropy on each data set, and what a second net adds on the mean
    of them."""
    sets = there("frozen_first")
    rows = []
    for view, (task_net, loss_net, _) in VIEWS.items():
        plain = [runs.figure(_figures(data, view)["ce"], TUNED) for data in sets]
        gains = dict(zip(METHODS[1:], _over_sets(view, sets), strict=True))
        rows.append([task_net, loss_net, *plain, gains["mutual"], gains["nce"]])
    first, *others = sets
    gained = [f"`{method}`, mean of the {len(sets)}" for method in ("mutual", "nce")]
    return table(["task-net reads", "loss-net reads", f"`ce`, {first}", *others, *gained], rows)
