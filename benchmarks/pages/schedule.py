"""What the papers' schedule does: n_E and n_F, and where the inference of an energy network alone begins."""

from __future__ import annotations

import json
from statistics import mean

from results_store import ROOT
from run_recipes import cell

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
            table(["data", *COLUMNS, "seeds", *DECIDED], _schedules()),
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
    rows = []
    for data, ends in SCHEDULES.items():
        for found in filter(None, (runs.of_recipe(f"{data}_paper_nce{end}") for end in ends)):
            given = next(iter(found.values()))["extra"]
            flags = dict(zip(given[::2], given[1::2], strict=True))
            rows.append([data, *(flags[flag] for flag in COLUMNS.values()), *runs.decided(found)])
    return rows


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
