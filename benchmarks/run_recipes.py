"""Run recipes over seeds through the example program, keep each run's figures as JSON, and print the table.

    python benchmarks/run_recipes.py recipes/mlc/bibtex_*.yaml --data_dir path/to/data --seeds 1 2 3

A run whose file exists under recipes/results/ is not repeated, so a later day adds seeds. Then the figures at the head
of each recipe and README's table are written anew. With no recipe named, that is all it does.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "recipes" / "results"
FIGURES = {
    "F1 at 0.5": "test_f1_example",
    "F1 tuned": "test_f1_example_tuned",
    "micro tuned": "test_f1_micro_tuned",
    "macro tuned": "test_f1_macro_tuned",
    "mAP": "test_map",
}


def run(recipe: Path, seed: int, data_dir: str | None, extra: list[str]) -> dict:
    """One run of the example in its own process; its figures and its cost."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "examples" / "run_mlc.py"), "--recipe", str(recipe), "--seed", str(seed)]
        command += ["--output_dir", folder, "--disable_tqdm", "true"]
        command += ["--data_dir", data_dir] if data_dir else []
        start = time.perf_counter()
        done = subprocess.run(command + extra, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{recipe.name}, seed {seed}: {done.stderr[-2000:]}")
        results = json.loads((Path(folder) / "all_results.json").read_text())
    results = {key: value for key, value in results.items() if isinstance(value, (int, float))}
    extra = [Path(word).name if "/" in word else word for word in extra]  # no path of this machine in a result
    return {"recipe": recipe.stem, "seed": seed, "extra": extra, "wall_seconds": time.perf_counter() - start, **results}


def runs_of(name: str) -> list[dict]:
    """Figures of every run of a recipe, by seed."""
    runs = [json.loads(file.read_text()) for file in (RESULTS / name).glob("*.json")]
    return sorted(runs, key=lambda r: r["seed"])


def cell(runs: list[dict], key: str) -> str:
    """Mean ± standard deviation over the seeds, in percent."""
    values = [100 * r[key] for r in runs]
    if len(values) < 2:
        return f"{values[0]:.2f} (1 seed)" if values else "-"
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def table() -> str:
    """All figures of all recipes, as Markdown."""
    lines = ["| recipe | seeds | " + " | ".join(FIGURES) + " |", "|---" * (2 + len(FIGURES)) + "|"]
    for folder in sorted(RESULTS.iterdir()):
        runs = runs_of(folder.name)
        if not runs:  # of compare_losses.py
            continue
        cells = [folder.name, str(len(runs)), *(cell(runs, key) for key in FIGURES.values())]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_figures() -> None:
    """The figures in the second and third line of each recipe, and README's table of F1, cross-entropy beside NCE."""
    recipes = sorted((ROOT / "recipes" / "mlc").glob("*.yaml"))
    for recipe in recipes:
        runs, text = runs_of(recipe.stem), recipe.read_text(encoding="utf-8")
        title, rest = re.sub(r"^# (Test example F1|No figure).*\n(#   .*\n)?", "", text, flags=re.M).split("\n", 1)
        figures = "# No figure yet at these settings.\n"
        if runs:
            seeds = " ".join(str(r["seed"]) for r in runs)
            at_half, tuned = (cell(runs, FIGURES[name]) for name in ("F1 at 0.5", "F1 tuned"))
            figures = f"# Test example F1: {at_half} at 0.5, {tuned} at the threshold tuned on validation.\n"
            figures += f"#   python benchmarks/run_recipes.py recipes/mlc/{recipe.name} --seeds {seeds}\n"
        recipe.write_text(f"{title}\n{figures}{rest}", encoding="utf-8")
    lines = ["| data | ce at 0.5 | nce at 0.5 | ce tuned | nce tuned |", "|---|---|---|---|---|"]
    for name in sorted({recipe.stem.rsplit("_", 1)[0] for recipe in recipes}):
        cells = [
            cell(runs_of(f"{name}_{loss}"), FIGURES[key]) for key in ("F1 at 0.5", "F1 tuned") for loss in ("ce", "nce")
        ]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    readme, found = ROOT / "README.md", r"(<!-- results -->\n)(?:\|.*\n)*"
    text = readme.read_text(encoding="utf-8")
    readme.write_text(re.sub(found, lambda mark: mark[1] + "\n".join(lines) + "\n", text), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("recipes", nargs="*", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--data_dir", help="folder of the named data sets; default: $SEAL_HF_DATA")
    parser.add_argument("--extra", nargs=argparse.REMAINDER, default=[], help="further flags of the example, last")
    parser.add_argument("--suffix", default="", help="of the results' name, where --extra makes it another method")
    options = parser.parse_args()
    for recipe in options.recipes:
        for seed in options.seeds:
            file = RESULTS / (recipe.stem + options.suffix) / f"seed{seed}.json"
            if not file.is_file():
                result = run(recipe, seed, options.data_dir, options.extra)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(result, indent=1) + "\n")
                print(f"{recipe.stem} seed {seed}: {100 * result['test_f1_example_tuned']:.2f} tuned", flush=True)
    write_figures()
    print(table())


if __name__ == "__main__":
    main()
