"""Tables of recipes' runs, each for one question, for `results_page.py`: seed by seed, with a paired t-test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import mean

from results_store import ROOT
from run_recipes import KINDS, cell, names, runs_of

from seal_hf.compare.statistics import paired_test

RECIPES = ROOT / "recipes"
JUDGED = {"mlc": "F1 tuned", "tagging": "span F1", "segmentation": "IoU at 0.5", "rewards": "accuracy"}


def _of_same_seeds(name: str, losses: Sequence[str]) -> tuple[list[int], list[list[dict]]]:
    """A data set's runs by each of these, of the seeds that all have which have any."""
    runs = [runs_of(f"{name}_{loss}") for loss in losses]
    seeds = set.intersection(*({run["seed"] for run in found} for found in runs if found))
    return sorted(seeds), [[run for run in found if run["seed"] in seeds] for found in runs]


def dependencies() -> list[str]:
    """Cross-entropy, NCE, and NCE with the local term of the energy alone or with pairs, by recipe."""
    key = KINDS["mlc"][1]["F1 tuned"]
    lines = ["| recipe | seeds | ce | whole energy | other energy | its figure | difference | p |", "|---" * 8 + "|"]
    for each in sorted([*names("*_nce*_local"), *names("*_nce*_pairwise")]):
        recipe, _, energy = each.rpartition("_")
        name, loss = recipe[: recipe.index("_nce")], recipe[recipe.index("nce") :]
        seeds, runs = _of_same_seeds(name, ("ce", loss, f"{loss}_{energy}"))
        plain, whole, part = (cell(found, key) for found in runs)
        ours, theirs = ([run[key] for run in found] for found in runs[1:])
        p = f"{paired_test(ours, theirs):.2g}" if len(seeds) > 1 else "-"
        difference = f"{100 * (mean(ours) - mean(theirs)):+.2f}"
        lines.append(f"| {recipe} | {len(seeds)} | {plain} | {whole} | {energy} | {part} | {difference} | {p} |")
    return lines


def variant(suffix: str, title: str) -> list[str]:
    """Cross-entropy, NCE, and NCE with what the suffix stands for, by data set."""
    key = KINDS["mlc"][1]["F1 tuned"]
    lines = [f"| data | seeds | ce | nce | {title} | difference to ce | p |", "|---" * 7 + "|"]
    for each in names(f"*_nce_{suffix}"):
        name = each.removesuffix(f"_nce_{suffix}")
        seeds, runs = _of_same_seeds(name, ("ce", "nce", f"nce_{suffix}"))
        theirs, _, ours = ([run[key] for run in found] for found in runs)
        cells = [name, str(len(seeds)), *(cell(found, key) for found in runs)]
        cells += [f"{100 * (mean(ours) - mean(theirs)):+.2f}", f"{paired_test(ours, theirs):.2g}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def implicit() -> list[str]:
    """Contrastive divergence with the hypergradient against the same without it, seed by seed."""
    lines = ["| runs | figure | seeds | without | with | difference | p |", "|---" * 7 + "|"]
    for kind, judged in JUDGED.items():
        figures = KINDS[kind][1]
        recipes = [recipe.stem for recipe in (RECIPES / kind).glob("*_implicit.yaml")]
        for each in (each for each in names() if each.startswith(tuple(recipes))):
            other = each.replace("_implicit", "_contrastive_divergence")
            if other not in names():  # a suffix of the hypergradient's settings
                other = re.match(".*_contrastive_divergence", other)[0]
            found = {run["seed"]: run for run in runs_of(other)}
            pairs = [(found[run["seed"]], run) for run in runs_of(each) if run["seed"] in found]
            name = judged if pairs and figures[judged] in pairs[0][0] else "accuracy"  # tags without spans
            if len(pairs) < 2:
                continue
            key = figures[name]
            without, with_it = ([run[key] for run in runs] for runs in zip(*pairs, strict=True))
            cells = [cell(list(runs), key) for runs in zip(*pairs, strict=True)]
            gain = 100 * (mean(with_it) - mean(without))
            p = paired_test(with_it, without)
            lines.append(f"| {each} | {name} | {len(pairs)} | {' | '.join(cells)} | {gain:+.2f} | {p:.2g} |")
    return lines


def masks() -> list[str]:
    """Segmentation runs in half precision against the two baselines without a loss-net, seed by seed."""
    key, baselines = KINDS["segmentation"][1][JUDGED["segmentation"]], ("weizmann_ce_bf16", "weizmann_soft_iou_bf16")
    lines = ["| runs | seeds | to cross-entropy | p | to soft IoU | p |", "|---" * 6 + "|"]
    found = {name: {run["seed"]: run[key] for run in runs_of(name)} for name in baselines}
    for each in names("weizmann_*_bf16"):
        ours, cells = {run["seed"]: run[key] for run in runs_of(each)}, []
        for baseline in found.values():
            seeds = sorted(ours.keys() & baseline.keys())
            gains = [100 * (ours[seed] - baseline[seed]) for seed in seeds]
            if len(seeds) < 2 or not any(gains):
                cells += ["-", "-"]
                continue
            p = paired_test([ours[seed] for seed in seeds], [baseline[seed] for seed in seeds])
            cells += [f"{mean(gains):+.2f}", f"{p:.2g}"]
        if cells != ["-"] * 4:
            lines.append(f"| {each} | {len(ours)} | {' | '.join(cells)} |")
    return lines
