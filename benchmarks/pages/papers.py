"""The papers' tables: published figures beside runs with the papers' own nets, schedules and decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from statistics import mean

from . import runs
from .markdown import archived, bash, page, prose, section, table
from .published import FIGURES
from .runs import CALIBRATED, DECIDED

# as a run's suffix and a published row call it -> as the papers do
METHODS = {
    "ce": "cross-entropy",
    "infnet": "margin (InfNet+)",
    "regression": "regression",
    "regression_s": "regression-s",
    "ranking": "ranking",
    "nce": "NCE",
}
STATIC = {
    "ce": "cross-entropy",
    "gbi_spen": "SPEN alone",
    "gbi_dvn": "DVN alone",
    "gbi_nce": "NCE alone",
    "static_margin": "SEAL-static, margin",
    "static_regression": "SEAL-static, regression",
    "static_nce": "SEAL-static, NCE",
}
SEARCHED = {  # data -> the comparison whose cross-entropy was searched
    "cal500": "cal500_held",
    "genbase_id": "genbase_id",
    "bibtex": "bibtex_held",
    "spo_fun_root": "spo_fun_root",
    "delicious": "delicious_held",
}
ARCHIVED = {data: data.removesuffix("_id").removesuffix("_root") for data in SEARCHED}
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
            Lee et al. 2022 visit each batch n_F times. A visit has n_E updates of the loss-net and one of the task-net
            ([what that does](schedule.md)). They choose the epoch and decide at 0.5. These runs do the same, with the
            settings of their files and nets of the same numbers of parameters (Table 17), on other folds. The last row
            of a table is the cross-entropy that was searched here. [Energy networks alone](energy-networks.md), and
            SEAL-static, have tables of their own."""),
        prose("""
            Figures are test example F1 in percent, mean ± standard deviation over seeds. *Calibrated* decides the same
            nets by the calibrated expected F1."""),
        prose(f"**In short.** {_in_short()} {_searched_leads()}"),
        *(section(data, prose(DIFFERS[data]), _with_searched(data)) for data in SEARCHED if _found(data)),
        section(
            "Without cross-entropy",
            prose("""
                The draft of 2021 also trains task-nets by the energy alone (`--task_weight 0`; Fig. 2a, bars without
                figures). *Change* is that of the rows above if cross-entropy is left out."""),
            table(["data", "method", "seeds", *DECIDED, *(f"change {name}" for name in DECIDED)], _without()),
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
            bash("DATA=PATH RUNS=FOLDER bash benchmarks/papers.txt"),
        ),
        archived(*dict.fromkeys(ARCHIVED[data] for data in SEARCHED if _found(data))),
    )


def _found(data: str, names: Iterable[str] = METHODS) -> dict[str, runs.Runs]:
    """The runs of each method with the papers' settings."""
    found = {method: runs.of_recipe(_recipe(data, method)) for method in names}
    return {method: each for method, each in found.items() if each}


def _recipe(data: str, method: str) -> str:
    """With its suffix. Those of energy networks alone are in a folder of their own."""
    alone = method.removeprefix("gbi_")
    return f"{data}_energy_paper_{alone}" if alone != method else f"{data}_paper_{method}"


def _in_short() -> str:
    """How far the loss-net that validation chooses is ahead of cross-entropy, by data and decoder."""
    said = [
        f"on {data} by {' and '.join(map(str, gains))}"
        for data in SEARCHED
        if _taught(data) and all(gains := [_gain_of_chosen(data, key) for key in DECIDED.values()])
    ]
    return f"The loss-net that validation chooses is ahead of cross-entropy, at 0.5 and calibrated, {', '.join(said)}."


def _gain_of_chosen(data: str, key: str) -> runs.Gain | None:
    def on_validation(found: runs.Runs) -> float:
        return mean(run[key.replace("test_", "eval_")] for run in found.values())

    return runs.gain(max(_taught(data), key=on_validation), runs.of_recipe(_recipe(data, "ce")), key)


def _taught(data: str) -> list[runs.Runs]:
    """The runs of each loss-net with three seeds that teaches a task-net."""
    return [found for method, found in _found(data).items() if method != "ce" and len(found) >= 3]


def _searched_leads() -> str:
    """Where the searched cross-entropy is ahead of every row, if calibrated."""

    def score(found: runs.Runs) -> float:
        return mean(run[CALIBRATED] for run in found.values())

    best = {data: max(map(score, found.values())) for data in SEARCHED if (found := _found(data))}
    ahead = [data for data, row in best.items() if score(runs.of_method(SEARCHED[data], "ce")) > row]
    return f"Calibrated, the searched cross-entropy is ahead of every row on {', '.join(ahead[:-1])} and {ahead[-1]}."


def _without() -> list[list[str]]:
    """A row per data set and method that was also trained by its energy alone."""
    rows = []
    for data, method in product(SEARCHED, METHODS):
        if alone := runs.of_recipe(f"{_recipe(data, method)}_no_ce"):
            beside = runs.of_recipe(_recipe(data, method))
            changes = [str(runs.gain(alone, beside, key)) for key in DECIDED.values()]
            rows.append([data, METHODS[method], *runs.decided(alone), *changes])
    return rows


def _with_searched(data: str) -> str:
    searched = ["cross-entropy, searched", "-", *runs.decided(runs.of_method(SEARCHED[data], "ce"))]
    return f"{methods(data, METHODS)}\n| {' | '.join(searched)} |"


def methods(data: str, names: Mapping[str, str]) -> str:
    """The table of some methods on a data set. `names` are those of its rows."""
    found = _found(data, names)
    rows = [[names[method], FIGURES[method][data], *runs.decided(each)] for method, each in found.items()]
    return table(["method", "published at 0.5", "seeds", *DECIDED], rows)
