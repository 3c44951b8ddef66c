"""The papers' tables: published figures beside runs with the papers' own nets, schedules and decisions."""

from __future__ import annotations

import json

from results_store import ROOT
from run_recipes import cell

from . import runs
from .markdown import archived, bash, page, prose, section, table
from .published import FIGURES
from .runs import CALIBRATED

FIGURES_OF_RUNS = {"at 0.5": runs.AT_HALF, "calibrated": CALIBRATED}
METHODS = {  # as a run's suffix and a published row call it -> as the papers do
    "ce": "cross-entropy",
    "gbi_spen": "energy network alone, SPEN",
    "gbi_dvn": "energy network alone, DVN",
    "gbi_nce": "energy network alone, NCE",
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
SCHEDULES = {(1, 1): "_1_1", (9, 1): "_9_1", (1, 10): "_1_10", (9, 10): ""}  # n_E and n_F -> end of a name
STARTS = {  # of inference -> in the file, with the number of steps
    "task-net's output, 20 steps": ("task_net", "20"),
    "random, 20 steps": ("random", "20"),
    "random, 100 steps": ("random", "100"),
}
DIFFERS = {
    "cal500": "Our folds are others, and inputs are scaled by the extremes of the training rows alone.",
    "genbase_id": """
        Our folds are others. The identifier of a protein is one of the inputs, as in the papers. Their reader makes 0
        of YES and 1 of NO, ours the reverse, so their rows and ours are not of the same inputs.""",
    "bibtex": "Our folds are others.",
    "spo_fun_root": "Our folds are others. The root of the classes, which every row has, is a label, as in the papers.",
    "delicious": "Our folds are others.",
}


def all_pages() -> dict[str, str]:
    return {"papers": papers()}


def papers() -> str:
    return page(
        "The papers' tables",
        prose("""
            Lee et al. 2022 visit each batch n_F times. A visit has n_E updates of the loss-net and one of the task-net.
            They choose the epoch and decide at 0.5. These runs do the same, with the settings of the authors' files and
            nets of the same numbers of parameters (Table 17, whose columns for cal500 are swapped). The last row of a
            table is the cross-entropy that was searched here."""),
        prose("""
            Figures are test example F1 in percent, mean ± standard deviation over seeds. *Calibrated* decides the same
            nets by the calibrated expected F1."""),
        prose("**In short.** " + " ".join(filter(None, (_in_short(data) for data in SEARCHED if _found(data))))),
        *(section(data, prose(DIFFERS[data]), _table(data)) for data in SEARCHED if _found(data)),
        section(
            "What the schedule does",
            prose("""
                NCE on cal500 with the settings above, by n_E and n_F. An epoch takes n_E × n_F times as many updates of
                the loss-net. More updates raise F1 at 0.5 alone, so neither n_E nor n_F is searched."""),
            table(["n_E", "n_F", "seeds", *FIGURES_OF_RUNS], _schedules()),
        ),
        section(
            "Where inference begins",
            prose("""
                An energy network alone predicts by gradient steps. Test example F1 at 0.5, by where they begin: at the
                task-net's output, or at random, where the lowest energy of three counts. After 100 steps the start is
                forgotten. The published rows begin at the task-net's output (SPEN), zeros (DVN) or random (NCE)."""),
            table(["data", "network", *STARTS], _starts()),
            bash("python benchmarks/inference_starts.py $RUNS --data_dir PATH"),
        ),
        section(
            "Rows without runs",
            prose("""
                - expr_fun: its training file is not available.
                - Eurlex-ev, and the texts BGC, NYT, RCV1 and AAPD, are not among our data sets.
                - [Roles](roles.md) and [masks](masks.md): their runs have one update of each net.

                Tables 1 and 2 of Tu, Pang & Gimpel 2020 are beside [tag sequences](tags.md#objectives-of-infnet)."""),
        ),
        section(
            "Run them again",
            bash("DATA=PATH RUNS=FOLDER bash benchmarks/papers.txt"),
        ),
        archived(*dict.fromkeys(ARCHIVED[data] for data in SEARCHED if _found(data))),
    )


def _schedules() -> list[list[str]]:
    found = {pair: runs.of_recipe(f"cal500_paper_nce{suffix}") for pair, suffix in SCHEDULES.items()}
    return [[*map(str, pair), *_cells(each)] for pair, each in found.items() if each]


def _starts() -> list[list[str]]:
    """Mean figures over seeds, of each network and start."""
    found: dict[tuple[str, str], list[dict]] = {}
    file = ROOT / "benchmarks" / "inference_starts.json"
    for name, figures in json.loads(file.read_text(encoding="utf-8")).items():
        data, network, _ = name.split()
        found.setdefault((data, network), []).append(figures)
    return [
        [
            data,
            METHODS[f"gbi_{network}"].rpartition(" ")[2],
            *(cell([{"f1": each[start][steps]} for each in seeds], "f1") for start, steps in STARTS.values()),
        ]
        for (data, network), seeds in found.items()
    ]


def _found(data: str) -> dict[str, runs.Runs]:
    """The runs of each method with the papers' settings."""
    found = {method: runs.of_recipe(_recipe(data, method)) for method in METHODS}
    return {method: each for method, each in found.items() if each}


def _recipe(data: str, method: str) -> str:
    """With its suffix. Those of energy networks alone are in a folder of their own."""
    alone = method.removeprefix("gbi_")
    return f"{data}_energy_paper_{alone}" if alone != method else f"{data}_paper_{method}"


def _in_short(data: str) -> str | None:
    """How far the best of the losses is ahead of cross-entropy, by decoder; None without one of three seeds."""
    found = _found(data)
    taught = [found[method] for method in found if _teaches(method)]
    gains = [
        [gain for each in taught if (gain := runs.gain(each, found["ce"], key)) and gain.seeds >= 3]
        for key in FIGURES_OF_RUNS.values()
    ]
    if not all(gains):
        return None
    half, calibrated = map(max, gains)
    return f"On {data} the best loss-net is ahead of cross-entropy by {half} at 0.5, and by {calibrated} if calibrated."


def _teaches(method: str) -> bool:
    """Whether its loss-net teaches a task-net."""
    return method != "ce" and not method.startswith("gbi_")


def _table(data: str) -> str:
    rows = [[METHODS[method], FIGURES[method][data], *_cells(found)] for method, found in _found(data).items()]
    rows.append(["cross-entropy, searched", "-", *_cells(runs.of_method(SEARCHED[data], "ce"))])
    return table(["method", "published at 0.5", "seeds", *FIGURES_OF_RUNS], rows)


def _cells(found: runs.Runs) -> list[str]:
    return [str(len(found)), *(runs.figure(found, key).removesuffix(" (1 seed)") for key in FIGURES_OF_RUNS.values())]
