"""Run recipes over seeds through the example program, keep each run's figures as JSON, and print the table.

    python benchmarks/run_recipes.py recipes/mlc/bibtex_*.yaml --data_dir path/to/data --seeds 1 2 3

A run whose file exists under recipes/results/ is not repeated, so a later day adds seeds. With no recipe named, only
the table of what is there is printed.
"""

from __future__ import annotations

import argparse
import json
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


def table() -> str:
    """Markdown: mean ± standard deviation over the seeds, in percent."""
    runs: dict[str, list[dict]] = {}
    for file in sorted(RESULTS.glob("*/*.json")):
        runs.setdefault(file.parent.name, []).append(json.loads(file.read_text()))
    lines = ["| recipe | seeds | " + " | ".join(FIGURES) + " |", "|---" * (2 + len(FIGURES)) + "|"]
    for name, group in runs.items():
        cells = []
        for key in FIGURES.values():
            values = [100 * r[key] for r in group]
            spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.2f}{spread}")
        lines.append(f"| {name} | {len(group)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


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
    print(table())


if __name__ == "__main__":
    main()
