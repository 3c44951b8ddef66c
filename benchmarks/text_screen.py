"""What does a loss-net add to a pretrained text encoder? One comparison per data set, and their summary.

    python benchmarks/text_screen.py frozen --data_dir PATH --encoder PATH --budget 8 --seeds 1 2 3 4 5 \
        --losses constant ce asymmetric mutual nce nce_balanced --freeze_encoder true
    python benchmarks/text_screen.py frozen                      # the summary of what is on file

The first word is a name of yours; other flags are those of `seal-hf compare mlc`. A comparison of a data set is called
SET_NAME. It runs in runs/compare/SET_NAME and is packed into recipes/results/ (see results_store.py). A command that
was stopped goes on, and a later one adds seeds and methods. Training rows are the first 2,000, unless a flag says
otherwise. The 116 validation rows of brighter_eng are too few to choose by: its training rows are split 80 / 20 anew.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from results_store import ROOT, Store, pack, unpack

from seal_hf.lab.compare.kinds import BASELINE, SEAL
from seal_hf.lab.compare.runner import LOST
from seal_hf.lab.compare.statistics import paired_test
from seal_hf.lab.compare.table import p_value
from seal_hf.tasks.labels.compare import METHODS, METRIC
from seal_hf.utils.files import whole_file

CONTROLS = ("valueeval23", "nlupp_banking", "hoc")  # gold labels tell hardly more about each other than the text does
SETS = ("semeval2018_ec", "xed_en", "brighter_eng", "go_emotions", *CONTROLS)
SPLIT_ANEW = "brighter_eng"
MAX_ROWS = ["--max_train_rows", "2000"]
RUNS = ROOT / "runs" / "compare"
RESAMPLES = 10_000

GROUPS = {group: [name for name, method in METHODS.items() if method.group == group] for group in (BASELINE, SEAL)}
Figures = Mapping[str, Mapping[int, tuple[float, float]]]  # method -> seed -> its figure on validation and on test


class Interval(NamedTuple):
    """A mean over data sets in points, its 95 % interval, the two-sided p of no difference (NaN for one seed of one
    set), and the number of sets."""

    mean: float
    low: float
    high: float
    p: float
    sets: int

    def __str__(self) -> str:
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}] | {p_value(self.p)} | {self.sets}"


def split_anew(source: Path, folder: Path, share: float = 0.2, seed: int = 0) -> None:
    """A data set whose validation rows are a share of the training rows, drawn by the seed; test rows stay."""
    head, *lines = (source / "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    random.Random(seed).shuffle(lines)
    size = round(share * len(lines))
    test = (source / "test.tsv").read_text(encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"train": [head, *lines[size:]], "validation": [head, *lines[:size]], "test": [test]}
    for name, part in parts.items():
        with whole_file(folder / f"{name}.tsv") as unfinished:
            unfinished.write_text("".join(part), encoding="utf-8")


def compare(data: str, name: str, options: argparse.Namespace, flags: Sequence[str], store: Store) -> None:
    """Do what is missing of a data set's comparison, and take it into the results."""
    folder, source = RUNS / f"{data}_{name}", ["--dataset", data, "--data_dir", options.data_dir]
    if folder.name in store.comparisons():
        unpack(store, folder.name, folder, conflict="keep")
    if data == SPLIT_ANEW:
        anew = RUNS.parent / "text_screen" / data
        split_anew(next(Path(options.data_dir).rglob(data)), anew)
        source = ["--dataset", str(anew)]
    rows = [] if "--max_train_rows" in flags else MAX_ROWS
    words = ["mlc", *source, "--model_name_or_path", options.encoder, *rows, *flags, "--output_dir", str(folder)]
    if subprocess.run([sys.executable, "-m", "seal_hf", "compare", *words], cwd=ROOT).returncode:
        sys.exit(f"{folder.name} failed. The same command goes on.")
    pack(store, folder)


def figures(store: Store, comparison: str, figure: str) -> Figures:
    """A figure of all finished runs, in percent."""
    found = {}
    for method, runs in store.comparison(comparison).all().items():
        runs = [run for run in runs if LOST not in run]
        found[method] = {run["seed"]: (100 * run[f"eval_{figure}"], 100 * run[f"test_{figure}"]) for run in runs}
    return {method: runs for method, runs in found.items() if runs}


def differences(ours: Mapping[int, tuple[float, float]], theirs: Mapping[int, tuple[float, float]]) -> np.ndarray:
    """On test, by common seed."""
    return np.array([ours[seed][1] - theirs[seed][1] for seed in sorted(ours.keys() & theirs.keys())])


def chosen(found: Figures, names: Iterable[str]) -> str | None:
    """The method with the highest mean on validation, over the seeds that all of them have."""
    names = [name for name in names if name in found]
    seeds = set.intersection(*(set(found[name]) for name in names)) if names else set()
    if not seeds:
        return None
    return max(names, key=lambda name: np.mean([found[name][seed][0] for seed in seeds]))


def choice(found: Figures) -> dict[str, str] | None:
    """The method of each group that validation chooses; None if a group has no runs."""
    best = {group: method for group, methods in GROUPS.items() if (method := chosen(found, methods))}
    return best if len(best) == len(GROUPS) else None


def interval(by_set: Sequence[np.ndarray], resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """The mean over data sets of the mean over seeds. The interval is a bootstrap over sets with seeds within. p is
    that of a t-test over the means of the sets or, of one set, over its seeds: with few a bootstrap looks too sure.

    Args:
        by_set: for each data set, the differences of its seeds.
    """
    rng, means = np.random.default_rng(seed), []
    for values in by_set:  # of each set, one draw of seeds for every place that a resample may give it
        drawn = rng.integers(len(values), size=(resamples, len(by_set), len(values)))
        means.append(values[drawn].mean(-1))
    sets = rng.integers(len(by_set), size=(resamples, len(by_set)))
    found = np.take_along_axis(np.stack(means, -1), sets[..., None], -1)[..., 0].mean(1)
    mean = float(np.mean([values.mean() for values in by_set]))
    each = np.array([values.mean() for values in by_set]) if len(by_set) > 1 else by_set[0]
    p = paired_test(each, np.zeros(len(each)))
    return Interval(mean, *map(float, np.quantile(found, [0.025, 0.975])), p, len(by_set))


def summary(store: Store, name: str, figure: str) -> str:
    """Markdown: what validation chooses of each group, by data set; and each method less cross-entropy."""
    known = [data for data in SETS if f"{data}_{name}" in store.comparisons()]
    if not known:
        return f"No comparison SET_{name} is on file; there are {', '.join(store.comparisons())}."
    found = {data: figures(store, f"{data}_{name}", figure) for data in known}
    lines = [f"`test_{figure}`, in percent.\n"]
    lines += ["| data | best baseline by validation | best SEAL method by validation | difference | methods |"]
    lines += ["|---|---|---|---|---|"]
    choices: dict[str, np.ndarray] = {}
    for data in known:
        best = choice(found[data])
        if best is None:
            continue
        runs = {group: found[data][method] for group, method in best.items()}
        choices[data] = differences(runs[SEAL], runs[BASELINE])
        said = [f"`{best[group]}` {np.mean([test for _, test in runs[group].values()]):.2f}" for group in GROUPS]
        sizes = " and ".join(str(sum(method in found[data] for method in methods)) for methods in GROUPS.values())
        lines.append(f"| {data} | {' | '.join(said)} | {choices[data].mean():+.2f} | {sizes} |")
    lines += ["\n| difference | sets | mean, 95 % interval | p | number |", "|---|---|---|---|---|"]
    kinds = {"no controls": [data for data in known if data not in CONTROLS], "controls": CONTROLS}
    for kind, names in kinds.items():
        if by_set := [choices[data] for data in names if data in choices]:
            lines.append(f"| SEAL to baseline, by validation | {kind} | {interval(by_set)} |")
    for method in METHODS:
        for kind, names in kinds.items():
            both = [found[data] for data in names if data in found and {method, "ce"} <= found[data].keys()]
            by_set = [values for each in both if len(values := differences(each[method], each["ce"]))]
            if by_set and method != "ce":
                lines.append(f"| `{method}` to `ce` | {kind} | {interval(by_set)} |")
    lines.append(
        "\nThe interval is from a bootstrap over data sets, with seeds within; of few sets it is too narrow. p is that "
        "of a t-test over the means of the sets, and of one set over its seeds. *Methods* are those to choose from."
    )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("name", help="of the comparisons: SET_NAME")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, metavar="SET", help=", ".join(SETS))
    parser.add_argument("--data_dir", help="folder of the data sets; without it, only the summary is printed")
    parser.add_argument("--encoder", help="folder or Hub id of the encoder")
    parser.add_argument("--figure", default=METRIC, help=f"of the summary, such as jaccard_tuned; default: {METRIC}")
    options, flags = parser.parse_known_args(argv)
    if (options.data_dir is None) != (options.encoder is None) or (flags and options.data_dir is None):
        sys.exit("To train, give both --data_dir and --encoder. Without them, only the summary is printed.")
    store = Store()
    for data in options.sets if options.data_dir else ():
        compare(data, options.name, options, flags, store)
    print(summary(store, options.name, options.figure))


if __name__ == "__main__":
    main()
