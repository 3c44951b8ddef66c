"""Run recipes over seeds through their example program, keep each run's figures as JSON, and print the tables.

    python benchmarks/run_recipes.py recipes/mlc/bibtex_*.yaml --data_dir path/to/data --seeds 1 2 3
    python benchmarks/run_recipes.py recipes/tagging/wnut17_*.yaml --data_dir path/to/data

A run that is in recipes/results/ is not repeated, so a later day adds seeds (see results_store.py). Then the figures at
the head of each recipe are written anew; with no recipe named, that is all it does. `results_page.py` writes the pages.

With --keep FOLDER, the run of a seed stays in FOLDER/NAME_SEED, its nets too. A later recipe takes them by --extra,
where {seed} stands for the seed: --task_net_path FOLDER/cal500_paper_ce_{seed}.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from results_store import ALL, RESULTS, ROOT, Store, named

from seal_hf.lab.compare.runner import origin

STORE = Store()
MASKS = {"IoU at 0.5": "test_mean_iou", "IoU tuned": "test_mean_iou_tuned"}
TAGS = {"accuracy": "test_accuracy", "span F1": "test_f1"}
LABELS = {
    "F1 at 0.5": "test_f1_example",
    "F1 tuned": "test_f1_example_tuned",
    "micro tuned": "test_f1_micro_tuned",
    "macro tuned": "test_f1_macro_tuned",
    "mAP": "test_map",
}
KINDS = {  # folder of the recipes -> program, and the figures of its runs by the name that a reader sees
    "mlc": ("run_mlc.py", LABELS),
    "energy": ("run_energy.py", LABELS),
    "tagging": ("run_tagging.py", {**TAGS, "accuracy on daily547": "daily547.conll_accuracy"}),
    "srl": ("run_srl.py", {"F1 as decided": "test_f1", "F1 with no role twice": "test_f1_unique_roles"}),
    "parsing": (
        "run_parsing.py",
        {"bracket F1": "test_f1", "exact match": "test_exact_match", "tags": "test_accuracy"},
    ),
    "segmentation": ("run_segmentation.py", MASKS),
    "mask_energy": ("run_mask_energy.py", MASKS),
    "rewards": ("run_rewards.py", {"accuracy": "test_accuracy"}),
}
ALONE = {"mlc": ["--linear", "false"]}  # the figures of a recipe are those of its nets, without a logistic regression,
LINEAR = "_linear"  # but for those with this suffix
HALF = "_bf16"  # suffix of the same runs in half precision, which stand for the recipe where they are more


def run(recipe: Path, seed: int, data_dir: str | None, extra: list[str], suffix: str, kept: Path | None) -> dict:
    """One run of the recipe's program in its own process; its figures, its cost and what made it.

    Args:
        kept: a folder for the run, or None: then nothing of it stays but the figures.
    """
    program, _ = KINDS[recipe.parent.name]
    with nullcontext(kept) if kept else tempfile.TemporaryDirectory() as folder:
        words = ["--recipe", str(recipe), "--seed", str(seed), "--output_dir", str(folder), "--disable_tqdm", "true"]
        words += [] if suffix == LINEAR else ALONE.get(recipe.parent.name, [])
        source = ["--data_dir", data_dir] if data_dir else []
        made_by, start = origin(f"examples/{program}", [*words, *said([*source, *extra])]), time.perf_counter()
        command = [sys.executable, str(ROOT / "examples" / program), *words, *source]
        command += [word.replace("{seed}", str(seed)) for word in extra]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{recipe.name}, seed {seed}: {done.stderr[-2000:]}")
        results = json.loads((Path(folder) / "all_results.json").read_text())
    results = {key: value for key, value in results.items() if isinstance(value, (int, float))}
    seconds = time.perf_counter() - start
    return {"recipe": recipe.stem, "seed": seed, "extra": said(extra), "wall_seconds": seconds, **results, **made_by}


def said(extra: list[str]) -> list[str]:
    """`--extra` as a result keeps it: with no path of this machine."""
    return [Path(word).name if "/" in word else word for word in extra]


def flags(words: list[str]) -> list[str]:
    """`--extra` without order, and without where it reports."""
    given = " ".join(words).replace("=", " ").split("--")
    return sorted(flag.strip() for flag in given if flag.strip() and not flag.startswith("report_to "))


def check_extra(name: str, seeds: list[int], extra: list[str]) -> None:
    """Ends the program where a name has runs of another `--extra` than this one: a name is of one method."""
    missing = not {run["seed"] for run in runs_of(name)}.issuperset(seeds)
    others = [run for run in runs_of(name) if flags(run.get("extra", [])) != flags(said(extra))]
    if others and (extra or missing):
        sys.exit(
            f"{name} has runs with --extra {' '.join(others[0].get('extra', [])) or '(nothing)'}, not "
            f"{' '.join(said(extra)) or '(nothing)'}: give another --suffix, before --extra."
        )


def runs_of(name: str) -> list[dict]:
    """Figures of every run of a recipe, by seed."""
    return STORE.recipes().get(name, [])


def names(pattern: str = "*") -> list[str]:
    """The recipes that have runs, and those with a suffix."""
    return sorted(fnmatch.filter(STORE.recipes(), pattern))


def cell(runs: list[dict], key: str) -> str:
    """Mean ± standard deviation over the seeds, in percent."""
    values = [100 * r[key] for r in runs if key in r]
    if len(values) < 2:
        return f"{values[0]:.2f} (1 seed)" if values else "-"
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def table(kind: str) -> str:
    """All figures of the runs of a kind of recipe, as Markdown."""
    _, figures = KINDS[kind]
    recipes = sorted((recipe.stem for recipe in (ROOT / "recipes" / kind).glob("*.yaml")), key=len, reverse=True)
    lines = ["| recipe | seeds | " + " | ".join(figures) + " | `--extra` |", "|---" * (3 + len(figures)) + "|"]
    for name, runs in STORE.recipes().items():
        if any(name.startswith(recipe) for recipe in recipes):  # a suffix names another setting
            extra = " ".join(runs[0].get("extra", []))
            cells = [name, str(len(runs)), *(cell(runs, key) for key in figures.values())]
            cells.append(f"`{extra}`" if extra else "")
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_heads() -> None:
    """The figures in the second and third line of each recipe."""
    for kind, (_, figures) in KINDS.items():
        for recipe in sorted((ROOT / "recipes" / kind).glob("*.yaml")):
            suffix = max(("", HALF), key=lambda suffix: len(runs_of(recipe.stem + suffix)))
            runs, text = runs_of(recipe.stem + suffix), recipe.read_text(encoding="utf-8")
            # rules, and other files that are no recipe; recipes of several methods, which have a page
            if not text.startswith("#") or recipe.stem.endswith("_paper"):
                continue
            title, rest = re.sub(r"^# (Test |No figure|Not measured).*\n(#   .*\n)?", "", text, flags=re.M).split(
                "\n", 1
            )
            head = "# No figure yet at these settings.\n"
            if runs:
                seeds = " ".join(str(r["seed"]) for r in runs)
                cells = {name: cell(runs, key) for name, key in figures.items()}
                if kind == "mlc":
                    at_half, tuned = cells["F1 at 0.5"], cells["F1 tuned"]
                    said = f"example F1: {at_half} at 0.5, {tuned} at the threshold tuned on validation"
                else:
                    found = (f"{name} {value}" for name, value in cells.items() if value != "-")
                    said = f"set, in percent: {', '.join(found)}"
                head = f"# Test {said}.\n"
                command = f"python benchmarks/run_recipes.py recipes/{kind}/{recipe.name} --seeds {seeds}"
                extra = ["--extra", *runs[0]["extra"]] if runs[0].get("extra") else []
                head += " ".join(["#  ", command, *(["--suffix", suffix] if suffix else []), *extra]) + "\n"
            recipe.write_text(f"{title}\n{head}{rest}", encoding="utf-8")


def main() -> None:
    global STORE
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("recipes", nargs="*", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--data_dir", help="folder of the named data sets; default: $SEAL_HF_DATA")
    parser.add_argument("--extra", nargs=argparse.REMAINDER, default=[], help="further flags of the example, last")
    parser.add_argument("--suffix", default="", help="of the results' name; a new --extra needs one")
    parser.add_argument("--keep", type=Path, help="folder for the runs; default: only their figures stay")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results; default: recipes/results")
    options = parser.parse_args()
    published = options.results == RESULTS
    STORE = STORE if published else Store(options.results)
    for recipe in options.recipes:
        name = recipe.stem + options.suffix
        if published and options.extra and not options.suffix and not runs_of(name):
            parser.error("--extra makes it another method than the recipe's: name it by --suffix _NAME, before it.")
        check_extra(name, options.seeds, options.extra)
    for recipe in options.recipes:
        name = recipe.stem + options.suffix
        kept = {seed: options.keep / f"{name}_{seed}" if options.keep else None for seed in options.seeds}
        there = [run["seed"] for run in runs_of(name) if run["seed"] in options.seeds]
        there = [seed for seed in there if (folder := kept[seed]) is None or folder.exists()]  # others need the nets
        if there:
            seeds = " ".join(map(str, there))
            print(f"{name} has seeds {seeds}, which are not trained again; --results FOLDER trains all.", flush=True)
        for seed in (seed for seed in options.seeds if seed not in there):
            result = run(recipe, seed, options.data_dir, options.extra, options.suffix, kept[seed])
            STORE.add({(ALL, "recipes"): [named(result, name=name)]}, conflict="keep")
            _, figures = KINDS[recipe.parent.name]
            found = {name: f"{100 * result[key]:.2f}" for name, key in figures.items() if key in result}
            print(f"{recipe.stem} seed {seed}: {found}", flush=True)
    if published:
        write_heads()
    for kind in dict.fromkeys(recipe.parent.name for recipe in options.recipes) or KINDS:
        print(table(kind), end="\n\n")


if __name__ == "__main__":
    main()
