"""Writes recipes/RESULTS.md from the runs of compare_losses.py under recipes/results/compare/; runs nothing.

python benchmarks/results_page.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import mean

from run_recipes import KINDS, RESULTS, cell, runs_of, table

from seal_hf.compare import COMPARED, METHODS, METRIC, Runs, comparison, markdown
from seal_hf.compare.methods import BASELINE, ENERGY, SEAL
from seal_hf.statistics import paired_test

ROOT = Path(__file__).resolve().parents[1]
COMPARE = ROOT / "recipes" / "results" / "compare"
DATA = ("bibtex", "delicious", "genbase", "genbase_id", "cal500", "spo_fun", "seq_fun")
FILE = json.loads((ROOT / "recipes" / "published.json").read_text(encoding="utf-8"))
PUBLISHED, BESIDE = FILE["figures"], FILE["beside"]
TITLES = {
    "tagging": "Tagging",
    "srl": "Semantic roles",
    "segmentation": "Segmentation",
    "mask_energy": "Segmentation by gradient-based inference",
    "rewards": "Citation fields with few tags",
}
JUDGED = {"mlc": "F1 tuned", "tagging": "span F1", "segmentation": "IoU at 0.5", "rewards": "accuracy"}
INTRODUCTION = """# Results

What each method reaches on feature data, with equal means: {budget} trials of search on validation, the same seeds,
the same five decoders. Written by `python benchmarks/results_page.py` from the raw runs under `results/compare/`. Each
table is one command, which adds seeds and methods to what is there:

```bash
OMP_NUM_THREADS=1 python examples/compare_losses.py --dataset NAME --data_dir PATH --recipe recipes/mlc/NAME_ce.yaml \\
    --output_dir recipes/results/compare/NAME --losses all --budget {budget} --seeds {seeds}
```

Trials and epochs are chosen by example F1 on validation at the threshold tuned there. *Published* are the figures of
Lee et al. 2022 at 0.5, on their own folds (genbase: with the identifier as a feature), so they stand beside ours, not
under them. The column *seeds* says how many runs a row has; data sets and methods that are not here were not run yet.
"""


RECIPES = """Test figures in percent, mean ± deviation over seeds, of
`python benchmarks/run_recipes.py recipes/{kind}/NAME.yaml --data_dir PATH`; the settings stand in the recipes. A name
with more behind it is `--suffix` and what follows `--extra`; `model` is the folder of MiniLM's weights."""


IMPLICIT = """The same runs without and with the hypergradient (recipes `*_contrastive_divergence` and `*_implicit`), in
percent; p by a paired t-test over the seeds."""


DEPENDENCIES = """NCE with an energy that knows no dependencies between labels, its local term alone (`--suffix _local
--extra --global_size 0`), beside the recipes' runs: test example F1 at the threshold tuned on validation, in percent;
p by a paired t-test over the seeds that both NCE rows have. Where `local` gains as much as `nce`, the gain is not what
the energy has learned of label sets."""


def best_of(compared: dict, group: str) -> tuple[str, dict] | None:
    """The method of a group with the highest mean on validation, under the same decoder."""
    rows = [(name, row) for name, row in compared["methods"].items() if name in METHODS]
    rows = [(name, row) for name, row in rows if METHODS[name].group == group]
    return max(rows, key=lambda item: item[1]["validation"], default=None)


def summary(tables: dict[str, dict[str, dict]]) -> list[str]:
    """The best of each group by data set and decoder, chosen on validation."""
    lines = []
    for decoder, meaning in COMPARED.items():
        lines += [
            f"**{meaning}**",
            "",
            "| data | best baseline | best energy network | best SEAL | difference |",
            "|---|---|---|---|---|",
        ]
        gains = []
        for name, by_decoder in tables.items():
            cells = [name]
            for group in (BASELINE, ENERGY, SEAL):
                found = best_of(by_decoder[decoder], group)
                cells.append(f"{100 * found[1][decoder][0]:.2f} `{found[0]}`" if found else "-")
            found = best_of(by_decoder[decoder], SEAL)
            if found and "difference" in found[1]:
                row = found[1]
                gains.append(row["difference"])
                low, high = row["interval"]
                cells.append(f"{100 * row['difference']:+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]")
            else:
                cells.append("-")
            lines.append(f"| {' | '.join(cells)} |")
        if gains:
            lines.append(f"| mean | | | | {100 * mean(gains):+.2f} |")
        lines.append("")
    return lines


def dependencies() -> list[str]:
    """Cross-entropy, NCE, and NCE of the local term alone, by data set."""
    key = KINDS["mlc"][1]["F1 tuned"]
    lines = ["| data | seeds | ce | nce | local | p, nce and local |", "|---" * 6 + "|"]
    for folder in sorted(RESULTS.glob("*_nce_local")):
        name = folder.name.removesuffix("_nce_local")
        runs = [runs_of(f"{name}_{loss}") for loss in ("ce", "nce", "nce_local")]
        of_seed = [{run["seed"]: run[key] for run in found} for found in runs[1:]]
        seeds = sorted(of_seed[0].keys() & of_seed[1].keys())
        p = paired_test(*([values[seed] for seed in seeds] for values in of_seed)) if len(seeds) > 1 else None
        cells = [cell(found, key) for found in runs]
        lines.append(f"| {name} | {len(seeds)} | {' | '.join(cells)} | {'-' if p is None else f'{p:.2g}'} |")
    return lines


def implicit() -> list[str]:
    """Contrastive divergence with the hypergradient against the same without it, seed by seed."""
    lines = ["| runs | figure | seeds | without | with | difference | p |", "|---" * 7 + "|"]
    for kind, judged in JUDGED.items():
        figures = KINDS[kind][1]
        recipes = [recipe.stem for recipe in (ROOT / "recipes" / kind).glob("*_implicit.yaml")]
        for folder in sorted(folder.name for folder in RESULTS.iterdir() if folder.name.startswith(tuple(recipes))):
            other = folder.replace("_implicit", "_contrastive_divergence")
            if not (RESULTS / other).is_dir():  # a suffix of the hypergradient's settings
                other = re.match(".*_contrastive_divergence", other)[0]
            found = {run["seed"]: run for run in runs_of(other)}
            pairs = [(found[run["seed"]], run) for run in runs_of(folder) if run["seed"] in found]
            name = judged if pairs and figures[judged] in pairs[0][0] else "accuracy"  # tags without spans
            if len(pairs) < 2:
                continue
            key = figures[name]
            without, with_it = ([run[key] for run in runs] for runs in zip(*pairs, strict=True))
            cells = [cell(list(runs), key) for runs in zip(*pairs, strict=True)]
            gain = 100 * (mean(with_it) - mean(without))
            p = paired_test(with_it, without)
            lines.append(f"| {folder} | {name} | {len(pairs)} | {' | '.join(cells)} | {gain:+.2f} | {p:.2g} |")
    return lines


def main() -> None:
    tables, budgets, seeds = {}, set(), set()
    for name in DATA:
        runs = Runs(COMPARE / name).all() if (COMPARE / name).is_dir() else {}
        if runs:
            tables[name] = {decoder: comparison(runs, METHODS, decoder) for decoder in COMPARED}
            seeds |= {run["seed"] for results in runs.values() for run in results}
            found = [Runs(COMPARE / name).settings(method) for method in runs]
            budgets |= {settings["trials"] for settings in found if settings}
    budget = " or ".join(map(str, sorted(budgets)))
    seeds = " ".join(map(str, sorted(seeds)))
    lines = [INTRODUCTION.format(budget=budget, seeds=seeds), "## Summary", ""]
    lines += [
        "The best method of each group is the one that is best on validation under the same decoder. The difference is "
        "that of the SEAL method to the baseline that is best on test, which may be another than the one shown.",
        "",
    ]
    lines += summary(tables)
    for i, (name, by_decoder) in enumerate(tables.items()):
        published = {method: row[name] for method, row in PUBLISHED.items() if name in row}
        lines += [f"## {name}", "", markdown(by_decoder[METRIC], beside=published, legend=i == 0)]
    if any(RESULTS.glob("*_nce_local")):
        lines += ["## What of a gain are dependencies", "", DEPENDENCIES, "", *dependencies(), ""]
    for kind, title in TITLES.items():
        if len(rows := table(kind).split("\n")) > 2:
            lines += [f"## {title}", "", RECIPES.format(kind=kind), "", *rows, "", f"Published: {BESIDE[kind]}", ""]
    lines += ["## Implicit gradients", "", IMPLICIT, "", *implicit(), "", f"Published: {BESIDE['implicit']}", ""]
    (ROOT / "recipes" / "RESULTS.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
