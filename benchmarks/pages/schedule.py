"""What the papers' schedule does: n_E and n_F, and where the inference of an energy network alone begins."""

from __future__ import annotations

import json
from statistics import mean

from results_store import ROOT
from run_recipes import cell

from . import runs
from .markdown import archived, bash, page, prose, section, table
from .runs import CALIBRATED, DECIDED

SCHEDULES = {  # of NCE: data -> n_E, n_F and the loss-net's rate -> suffix of the runs
    "cal500": {
        (1, 1, "7.79e-3"): "_1_1",
        (9, 1, "7.79e-3"): "_9_1",
        (1, 10, "7.79e-3"): "_1_10",
        (9, 10, "7.79e-3"): "",
    },
    "bibtex": {
        (1, 1, "4.51e-5"): "_1_1",
        (12, 1, "4.51e-5"): "_12_1",
        (1, 5, "4.51e-5"): "_1_5",
        (12, 5, "4.51e-5"): "",
        (1, 1, "5.4e-4"): "_1_1_faster",
    },
}
SEARCHED = {  # data -> its recipe of one update, with the settings that were searched here; n_E of many; suffix of those
    "bibtex": ("bibtex_nce", 12, "_steps12"),
    "delicious": ("delicious_nce_light", 6, "_steps6"),
}
STARTS = {  # of inference -> in the file, with the number of steps
    "task-net's output, 20 steps": ("task_net", "20"),
    "random, 20 steps": ("random", "20"),
    "random, 100 steps": ("random", "100"),
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
            table(["data", "n_E", "n_F", "loss-net's rate", "seeds", *DECIDED], _schedules()),
            table(["data", "n_E", "seeds", *DECIDED, "difference, calibrated", "seeds ahead"], _searched()),
        ),
        section(
            "Where inference begins",
            prose(f"""
                *Alone*, an energy network predicts by gradient steps, from the task-net's output or from random starts,
                of which the lowest energy of three counts. The F1 of SPEN at 0.5, below, depends on the start; that of
                DVN and NCE differs by {_start_matters_less()} at most. The published rows begin at the task-net's
                output (SPEN), zeros (DVN) or random (NCE)."""),
            table(["data", *STARTS], _starts()),
        ),
        section(
            "Run them again",
            bash(
                "DATA=PATH RUNS=FOLDER bash benchmarks/papers.txt",
                "python benchmarks/inference_starts.py FOLDER --data_dir PATH",
            ),
        ),
        archived("bibtex", "cal500", "delicious", "genbase"),
    )


def _schedules() -> list[list[str]]:
    found = {(data, setting): _of(data, end) for data, of in SCHEDULES.items() for setting, end in of.items()}
    return [[data, *map(str, setting), *runs.decided(each)] for (data, setting), each in found.items() if each]


def _of(data: str, end: str) -> runs.Runs:
    return runs.of_recipe(f"{data}_paper_nce{end}")


def _searched() -> list[list[str]]:
    rows = []
    for data, (recipe, steps, end) in SEARCHED.items():
        one, many = runs.of_recipe(recipe), runs.of_recipe(recipe + end)
        rows.append([data, "1", *runs.decided({seed: one[seed] for seed in many}), "-", "-"])
        rows.append([data, str(steps), *runs.decided(many), *runs.gain_cells(runs.gain(many, one, CALIBRATED))])
    return rows


def _inference(network: str) -> dict[str, list[dict]]:
    """Data -> the figures of each seed, by start and number of steps."""
    found: dict[str, list[dict]] = {}
    file = ROOT / "benchmarks" / "inference_starts.json"
    for name, figures in json.loads(file.read_text(encoding="utf-8")).items():
        data, of, _ = name.split()
        if of == network:
            found.setdefault(data, []).append({title: figures[start][k] for title, (start, k) in STARTS.items()})
    return found


def _starts() -> list[list[str]]:
    return [[data, *(cell(seeds, start) for start in STARTS)] for data, seeds in _inference("spen").items()]


def _start_matters_less() -> str:
    """The largest difference of mean figures between two starts, of the networks other than SPEN."""
    seeds = [each for network in ("dvn", "nce") for each in _inference(network).values()]
    means = [[100 * mean(figures[start] for figures in each) for start in STARTS] for each in seeds]
    return f"{max(max(each) - min(each) for each in means):.2f}"
