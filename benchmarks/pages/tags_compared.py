"""Tables of the page of tags: every loss with every energy, their times, and an energy beside a CRF."""

from __future__ import annotations

from typing import Any

import numpy as np
import text_screen

from seal_hf.core.energy import energies_of
from seal_hf.lab.compare.kinds import CONSTANT
from seal_hf.lab.compare.table import p_value, percent
from seal_hf.tasks.tags.compare import BASELINES, LOSSES

from . import runs
from .comparisons import Compared
from .markdown import table

SCREEN, TIMES, ACCURACY = "twitter_pos_screen", "twitter_pos_times", "test_accuracy"
NETS = {
    "BiLSTM": ("twitter_pos_finals", "wnut17_finals", "conll2000_finals"),
    "MiniLM": ("twitter_pos_minilm", "wnut17_minilm", "conll2000_minilm"),
}


def every_pair() -> str:
    """Test and validation accuracy of each pair of loss and energy, and of the baselines."""
    found, energies = Compared(SCREEN, "tagging").table()["methods"], list(energies_of("tag_sequence"))
    names = {energies[0]: "{}", **{energy: f"{{}}_{energy}" for energy in energies[1:]}}  # the first is the default
    rows = [[f"`{loss}`", *(_cell(found.get(name.format(loss))) for name in names.values())] for loss in LOSSES]
    plain = [[f"`{name}`", _cell(found[name])] for name in BASELINES if name in found and name != CONSTANT]
    return "\n\n".join(
        [table(["loss", *(f"`{energy}`" for energy in energies)], rows), table(["baseline", "accuracy"], plain)]
    )


def times() -> str:
    """The time of an epoch of each loss with the first energy, and of each other energy with NCE."""
    found = Compared(TIMES, "tagging").table()["methods"]
    others = [f"nce_{energy}" for energy in list(energies_of("tag_sequence"))[1:]]
    names = [name for name in (*BASELINES, *LOSSES, *others) if name in found]
    return table(["method", "time"], [[f"`{name}`", f"{found[name]['seconds']:.2f}"] for name in names])


def _cell(row: Any) -> str:
    return "-" if row is None else f"{percent(row['accuracy'][0])} ({percent(row['validation'])})"


def beside_a_crf() -> str:
    """What NCE adds to a CRF on each data set, and on the mean of those with the same task-net."""
    rows = [row for net, names in NETS.items() for row in _gains(net, runs.there(names))]
    return table(["task-net", "data", "figure", "seeds", "CRF", "with NCE", "difference"], rows)


def _gains(net: str, names: list[str]) -> list[list[str]]:
    """A row per comparison, and one for the mean of several."""
    rows, gains = [], []
    for name in names:
        crf, ours = (runs.of_method(name, method) for method in ("crf", "crf_nce"))
        seeds, main = sorted(crf.keys() & ours.keys()), "test_f1" if "test_f1" in next(iter(crf.values())) else ACCURACY
        gains.append(100 * np.array([ours[seed][main] - crf[seed][main] for seed in seeds]))
        figures = [runs.figure({seed: each[seed] for seed in seeds}, main) for each in (crf, ours)]
        what = "F1 of spans" if main != ACCURACY else "accuracy"
        gain = str(runs.of_differences(gains[-1].tolist()))
        rows.append([net, name.rpartition("_")[0], what, str(len(seeds)), *figures, gain])
    if len(rows) > 1:
        mean = text_screen.interval(gains)
        over = f"{mean.mean:+.2f} [{mean.low:+.2f}, {mean.high:+.2f}], p = {p_value(mean.p)}"
        rows.append([net, f"mean of the {len(rows)}", "", "", "", "", over])
    return rows
