"""What the papers' schedule does: n_E and n_F."""

from __future__ import annotations

import json
from collections.abc import Sequence

from results_store import ROOT

from . import runs
from .markdown import archived, bash, page, prose, section, table
from .runs import CALIBRATED, DECIDED

SCHEDULES = {  # of NCE: data -> suffixes of the runs
    "cal500": ("_1_1", "_9_1", "_1_10", ""),
    "bibtex": ("_1_1", "_1_1_faster", "_12_1", "_1_5", ""),
}
COLUMNS = {"n_E": "--loss_net_steps", "n_F": "--batch_repeats", "loss-net's rate": "--loss_net_learning_rate"}
# data -> its recipe of one update, with the settings that were searched here; n_E of its runs with more; their suffix
SEARCHED = {
    "bibtex": ("bibtex_nce", 12, "_steps12"),
    "delicious": ("delicious_nce_light", 6, "_steps6"),
}


def all_pages() -> dict[str, str]:
    return {"schedule": schedule()}


def schedule() -> str:
    return page(
        "What the papers' schedule does",
        prose("""
            Lee et al. 2022 visit each batch n_F times (`--batch_repeats`). A visit has n_E updates of the loss-net
            (`--loss_net_steps`) and one of the task-net. Both are 1 by default. Figures are test example F1 in percent,
            at 0.5 and by the calibrated expected F1."""),
        section(
            "n_E and n_F",
            prose(f"""
                NCE with the papers' settings. More updates raise F1 at 0.5. Calibrated, on cal500 the best of them
                changes the F1 of 1 × 1 by {_best_against_one("cal500", ("_9_1", "_1_10", ""))}. On bibtex 12 × 1 gains
                {_against_one("bibtex", "_12_1")}; but a rate of the loss-net 12 times as high gains
                {_against_one("bibtex", "_1_1_faster")}, at less cost: a visit with 12 updates takes {_cost():.1f} times
                as long as one with a single update ([measured](../concepts/method.md#what-training-costs))."""),
            table(["data", *COLUMNS, "seeds", *DECIDED], _schedules()),
            prose("""
                With settings that were searched here, the loss-net's rate among them, more updates gain nothing. So
                `seal-hf compare` searches that rate, and n_E and n_F stay 1."""),
            table(["data", "n_E", "seeds", *DECIDED, "difference, calibrated", "seeds ahead"], _searched()),
        ),
        section(
            "Run them again",
            bash("DATA=PATH RUNS=FOLDER bash benchmarks/papers.txt"),
        ),
        archived(
            *SCHEDULES,
            *(
                data
                for data, (recipe, _, end) in SEARCHED.items()
                if data not in SCHEDULES and runs.of_recipe(recipe + end)
            ),
        ),
    )


def _schedules() -> list[list[str]]:
    rows = []
    for data, ends in SCHEDULES.items():
        for found in filter(None, (runs.of_recipe(f"{data}_paper_nce{end}") for end in ends)):
            given = next(iter(found.values()))["extra"]
            flags = dict(zip(given[::2], given[1::2], strict=True))
            rows.append([data, *(flags[flag] for flag in COLUMNS.values()), *runs.decided(found)])
    return rows


def _against_one(data: str, end: str) -> runs.Gain:
    """What these runs are ahead of 1 × 1, calibrated."""
    one, ours = (runs.of_recipe(f"{data}_paper_nce{each}") for each in ("_1_1", end))
    gain = runs.gain(ours, one, CALIBRATED)
    assert gain is not None, "both are on file"
    return gain


def _cost() -> float:
    """The median time of a visit with 12 updates of the loss-net, over that of one with a single update."""
    measured = json.loads((ROOT / "benchmarks/cost/step_cost.json").read_text(encoding="utf-8"))
    return measured["ratios"]["nce, n_E=12 / n_E=1"][0]


def _best_against_one(data: str, ends: Sequence[str]) -> runs.Gain:
    return max((_against_one(data, end) for end in ends), key=lambda gain: gain.mean)


def _searched() -> list[list[str]]:
    rows = []
    for data, (recipe, steps, end) in SEARCHED.items():
        one, many = runs.of_recipe(recipe), runs.of_recipe(recipe + end)
        if not many:
            continue
        rows.append([data, "1", *runs.decided({seed: one[seed] for seed in many}), "-", "-"])
        rows.append([data, str(steps), *runs.decided(many), *runs.gain_cells(runs.gain(many, one, CALIBRATED))])
    return rows
