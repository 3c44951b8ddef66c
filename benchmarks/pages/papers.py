"""The papers' tables: published figures beside runs with the papers' own nets, schedules and decisions."""

from __future__ import annotations

import json
from statistics import mean

from results_store import ROOT
from run_recipes import cell

from . import runs
from .markdown import archived, bash, page, prose, section, table
from .published import FIGURES
from .runs import CALIBRATED

FIGURES_OF_RUNS = {"at 0.5": runs.AT_HALF, "calibrated": CALIBRATED}
METHODS = {  # as a run's suffix and a published row call it -> as the papers do
    "ce": "cross-entropy",
    "gbi_spen": "SPEN alone",
    "gbi_dvn": "DVN alone",
    "gbi_nce": "NCE alone",
    "static_margin": "SEAL-static, margin",
    "static_regression": "SEAL-static, regression",
    "static_nce": "SEAL-static, NCE",
    "infnet": "margin (InfNet+)",
    "regression": "regression",
    "regression_s": "regression-s",
    "ranking": "ranking",
    "nce": "NCE",
}
SEARCHED = {  # data -> the comparison whose cross-entropy was searched
    "cal500": "cal500_held",
    "genbase_id": "genbase_id",
    "bibtex": "bibtex_held",
    "spo_fun_root": "spo_fun_root",
    "delicious": "delicious_held",
}
ARCHIVED = {data: data.removesuffix("_id").removesuffix("_root") for data in SEARCHED}
SCHEDULES = {"cal500": ((1, 1), (9, 1), (1, 10), (9, 10)), "bibtex": ((1, 1), (12, 1), (1, 5), (12, 5))}  # n_E and n_F
STARTS = {  # of inference -> in the file, with the number of steps
    "task-net's output, 20 steps": ("task_net", "20"),
    "random, 20 steps": ("random", "20"),
    "random, 100 steps": ("random", "100"),
}
DIFFERS = {
    "cal500": "Inputs are scaled by the extremes of the training rows alone.",
    "genbase_id": """
        The identifier of a protein is an input, as in the papers. Their reader makes 0 of YES, ours 0 of NO, so the
        inputs are not the same.""",
    "bibtex": "",
    "spo_fun_root": "The root of the classes, which every row has, is a label, as in the papers.",
    "delicious": "",
}


def all_pages() -> dict[str, str]:
    return {"papers": papers()}


def papers() -> str:
    return page(
        "The papers' tables",
        prose("""
            Lee et al. 2022 visit each batch n_F times. A visit has n_E updates of the loss-net and one of the task-net.
            They choose the epoch and decide at 0.5. These runs do the same, with the settings of their files and
            nets of the same numbers of parameters (Table 17), on other folds. The
            last row of a table is the cross-entropy that was searched here."""),
        prose("""
            Figures are test example F1 in percent, mean ± standard deviation over seeds. *Calibrated* decides the same
            nets by the calibrated expected F1."""),
        prose(f"**In short.** {_in_short()} {_searched_leads()}"),
        *(section(data, prose(DIFFERS[data]), _table(data)) for data in SEARCHED if _found(data)),
        section(
            "What the schedule does",
            prose(f"""
                NCE by n_E and n_F. An epoch has n_E × n_F times as many updates of the loss-net. They raise F1 at 0.5.
                Calibrated, the best of them changes the F1 of 1 × 1 {", ".join(map(_best_against_one, SCHEDULES))}.
                So n_E (`--loss_net_steps`) may be worth a try, n_F not."""),
            table(["data", "n_E", "n_F", "seeds", *FIGURES_OF_RUNS], _schedules()),
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
            "Rows without runs",
            prose("""
                - expr_fun: its training file is not available.
                - Eurlex-ev, and the texts BGC, NYT, RCV1 and AAPD, are not among our data sets.
                - [Roles](roles.md) and [masks](masks.md): their runs have one update of each net.

                Tables of Tu, Pang & Gimpel 2020 are beside [tag sequences](tags.md#objectives-of-infnet)."""),
        ),
        section(
            "Run them again",
            bash(
                "DATA=PATH RUNS=FOLDER bash benchmarks/papers.txt",
                "python benchmarks/inference_starts.py FOLDER --data_dir PATH",
            ),
        ),
        archived(*dict.fromkeys(ARCHIVED[data] for data in SEARCHED if _found(data))),
    )


def _scheduled(data: str) -> dict[tuple[int, int], runs.Runs]:
    """The runs of NCE by n_E and n_F; the most updates are those of the paper."""
    ends = {pair: "_{}_{}".format(*pair) for pair in SCHEDULES[data]} | {SCHEDULES[data][-1]: ""}
    found = {pair: runs.of_recipe(f"{data}_paper_nce{end}") for pair, end in ends.items()}
    return {pair: each for pair, each in found.items() if each}


def _schedules() -> list[list[str]]:
    return [[data, *map(str, pair), *_cells(each)] for data in SCHEDULES for pair, each in _scheduled(data).items()]


def _best_against_one(data: str) -> str:
    """What the best schedule of more updates changes of the calibrated figure of 1 × 1."""
    found = _scheduled(data)
    one = found.pop((1, 1))
    gains = {pair: runs.gain(each, one, CALIBRATED) for pair, each in found.items()}
    n_e, n_f = max(gains, key=lambda pair: gains[pair])
    return f"on {data} by {gains[n_e, n_f]} ({n_e} × {n_f})"


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


def _found(data: str) -> dict[str, runs.Runs]:
    """The runs of each method with the papers' settings."""
    found = {method: runs.of_recipe(_recipe(data, method)) for method in METHODS}
    return {method: each for method, each in found.items() if each}


def _recipe(data: str, method: str) -> str:
    """With its suffix. Those of energy networks alone are in a folder of their own."""
    alone = method.removeprefix("gbi_")
    return f"{data}_energy_paper_{alone}" if alone != method else f"{data}_paper_{method}"


def _in_short() -> str:
    """How far the best of the losses with three seeds is ahead of cross-entropy, by data and decoder."""
    said = []
    for data in SEARCHED:
        found = _found(data)
        taught = [each for method, each in found.items() if _teaches(method)]
        gains = [
            [gain for each in taught if (gain := runs.gain(each, found["ce"], key)) and gain.seeds >= 3]
            for key in FIGURES_OF_RUNS.values()
        ]
        if all(gains):
            half, calibrated = map(max, gains)
            said.append(f"on {data} by {half} and {calibrated}")
    return f"The best loss-net is ahead of cross-entropy, at 0.5 and if calibrated, {', '.join(said)}."


def _searched_leads() -> str:
    """Where the searched cross-entropy is ahead of every row, if calibrated."""

    def score(found: runs.Runs) -> float:
        return mean(run[CALIBRATED] for run in found.values())

    best = {data: max(map(score, found.values())) for data in SEARCHED if (found := _found(data))}
    ahead = [data for data, row in best.items() if score(runs.of_method(SEARCHED[data], "ce")) > row]
    return f"Calibrated, the searched cross-entropy is ahead of every row on {' and '.join(ahead)}."


def _teaches(method: str) -> bool:
    """Whether its loss-net teaches a task-net."""
    return method != "ce" and not method.startswith("gbi_")


def _table(data: str) -> str:
    rows = [[METHODS[method], FIGURES[method][data], *_cells(found)] for method, found in _found(data).items()]
    rows.append(["cross-entropy, searched", "-", *_cells(runs.of_method(SEARCHED[data], "ce"))])
    return table(["method", "published at 0.5", "seeds", *FIGURES_OF_RUNS], rows)


def _cells(found: runs.Runs) -> list[str]:
    return [str(len(found)), *(runs.figure(found, key).removesuffix(" (1 seed)") for key in FIGURES_OF_RUNS.values())]
