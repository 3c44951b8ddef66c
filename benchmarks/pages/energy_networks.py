"""Energy networks alone, SEAL-static, and where the inference of an energy network begins."""

from __future__ import annotations

import json
from statistics import mean

from results_store import ROOT
from run_recipes import cell

from . import papers
from .markdown import archived, bash, page, prose, section, table

STARTS = {  # of inference -> in the file, with the number of steps
    "task-net's output, 20 steps": ("task_net", "20"),
    "random, 20 steps": ("random", "20"),
    "random, 100 steps": ("random", "100"),
}


def all_pages() -> dict[str, str]:
    return {"energy-networks": energy_networks()}


def energy_networks() -> str:
    return page(
        "Energy networks alone, and SEAL-static",
        prose("""
            An energy network can predict *alone*, by gradient steps on the output. SEAL-static takes a trained one as a
            fixed loss. Runs and figures are those of [the papers' tables](papers.md)."""),
        *(
            section(data, prose(papers.DIFFERS[data]), papers.methods(data, papers.STATIC))
            for data in ("cal500", "genbase_id")
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
        archived("cal500", "genbase"),
    )


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
