"""What are texts without labels worth, and which teacher labels them best?

    python benchmarks/unlabelled.py --data_dir PATH --encoder PATH/minilm --sets netflix_genres --seeds 1 2 3 4 5
    python benchmarks/unlabelled.py --table                                        # what is on file

Of the training rows, shuffled by the seed, `--rows` have labels, and the next 1,000 have none. Two nets (`ce`, `ce2`,
two seeds) are trained by cross-entropy on the labelled rows. A teacher makes probabilities of the means of theirs, and
a student learns from these (`--label_format probabilities`) and from the labelled rows, twice:

    self    the means themselves: self-training
    seen    the marginals of p(S | x) ∝ Π_j p(y_j | x) freq(S)^½ over the label sets S of the labelled rows

Two more nets learn from the labelled rows alone, beside a loss-net whose energy pulls a tenth as hard as the task loss
(`TAUGHT`): `nce`, and `nce_rows`, whose noise is the label sets of other rows (`row_noise.py`).

Validation has as many rows as are labelled, test the first 1,000. A run on file is not repeated.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from results_store import ALL, ROOT, Store

from seal_hf.lab.compare.runner import origin
from seal_hf.lab.compare.statistics import mean_std

STORE = Store()
KIND = "unlabelled"
UNLABELLED, TEST, REPEATED, POWER = 1000, 1000, 2, 0.5
BASES, TEACHERS, LOSSES = ("ce", "ce2"), ("self", "seen"), ("nce", "nce_rows")
WAYS = (*BASES, *TEACHERS, *LOSSES)
FIGURES = {
    "calibrated": "test_f1_example_calibrated",
    "macro F1": "test_f1_macro_decided",
    "mAP over labels": "test_map_macro",
}
TRAIN = "train mlc --linear false --label_format probabilities --bf16 true --use_cpu true"
TAUGHT = "--energy_weight 0.1 --energy_weight_balance true"  # the default's rule would leave λ1 at 0
PROGRAM = "benchmarks/row_noise.py"  # seal-hf, with one more energy loss
Rows = list[tuple[str, set[str]]]


def read(file: Path) -> Rows:
    """The texts and labels of one of the data sets' files."""
    lines = (line.rsplit("\t", 1) for line in file.read_text(encoding="utf-8").splitlines()[1:])
    return [(text.replace("\t", " "), set(filter(None, labels.split(",")))) for text, labels in lines]


def seen_marginals(p: np.ndarray, label_sets: np.ndarray) -> np.ndarray:
    """The probabilities of labels under that of the label sets which occur.

    Args:
        p: (N, L), of independent labels.
        label_sets: (M, L) of 0 and 1, of labelled rows.
    """
    sets, counts = np.unique(label_sets, axis=0, return_counts=True)
    p = np.clip(p, 1e-6, 1 - 1e-6)
    score = np.log(p) @ sets.T + np.log1p(-p) @ (1 - sets).T + POWER * np.log(counts)
    weight = np.exp(score - score.max(1, keepdims=True))
    return weight / weight.sum(1, keepdims=True) @ sets


def seal_hf(words: list[str]) -> None:
    done = subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{' '.join(words[:2])}: {done.stderr[-2000:]}")


def write(file: Path, texts: list[str], labels: np.ndarray, names: list[str]) -> None:
    rows = zip(texts, labels.round(4).tolist(), strict=True)
    file.write_text(
        "".join(json.dumps({"text": t, "labels": dict(zip(names, p, strict=True))}) + "\n" for t, p in rows)
    )


def train(folder: Path, seed: int, encoder: str, loss: str = "ce") -> dict[str, Any]:
    """The figures of a run on a folder of splits, and what made it. The run is in `folder/run`."""
    words = [*TRAIN.split(), "--loss", loss, "--seed", str(seed), "--disable_tqdm", "true", "--report_to", "none"]
    words += TAUGHT.split() if loss in LOSSES else []
    given = ["--dataset", str(folder), "--model_name_or_path", encoder, "--output_dir", str(folder / "run")]
    seal_hf([*words, *given, "--overwrite_output_dir", "true"])
    found = json.loads((folder / "run" / "all_results.json").read_text(encoding="utf-8"))
    figures = {key: value for key, value in found.items() if isinstance(value, (int, float))}
    return figures | {"seed": seed} | origin(PROGRAM, words)


def predicted(folder: Path, texts: list[str], names: list[str]) -> np.ndarray:
    """(N, L) probabilities of the net in `folder/run`."""
    given, out = folder / "unlabelled.jsonl", folder / "probabilities.jsonl"
    given.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    words = ["--model", str(folder / "run"), "--input", str(given), "--output", str(out), "--overwrite", "true"]
    seal_hf(["predict", *words, "--probabilities", "all"])
    rows = [json.loads(line)["probabilities"] for line in out.read_text(encoding="utf-8").splitlines()]
    return np.array([[row[name] for name in names] for row in rows])


def runs(name: str, rows: int, seed: int, options: argparse.Namespace) -> None:
    """Train the nets of a data set and seed, and file their figures."""
    there = {way for data, way, size, of in STORE.lines(ALL, KIND) if (data, size, of) == (name, rows, seed)}
    if there.issuperset((*TEACHERS, *LOSSES)):
        return
    splits = {s: read(Path(options.data_dir) / "text" / name / f"{s}.tsv") for s in ("train", "dev", "test")}
    random.Random(seed).shuffle(splits["train"])
    labelled, others = splits["train"][:rows], [text for text, _ in splits["train"][rows : rows + UNLABELLED]]
    names = sorted(set().union(*(labels for _, labels in labelled)))

    def multi_hot(part: Rows) -> np.ndarray:
        return np.array([[float(name in labels) for name in names] for _, labels in part])

    def file(way: str, found: dict[str, Any]) -> None:
        STORE.add({(ALL, KIND): [{**found, "name": name, "way": way, "rows": rows, "seed": seed}]}, conflict="keep")
        print(name, rows, way, seed, *(f"{title} {100 * found[key]:.2f}" for title, key in FIGURES.items()), flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        texts, gold = [text for text, _ in labelled], multi_hot(labelled)
        write(folder / "train.jsonl", texts, gold, names)
        for split, part in (("validation", splits["dev"][:rows]), ("test", splits["test"][:TEST])):
            write(folder / f"{split}.jsonl", [text for text, _ in part], multi_hot(part), names)
        for loss in LOSSES:
            if loss not in there:
                file(loss, train(folder, seed, options.encoder, loss))
        if there.issuperset(TEACHERS):
            return
        means = np.zeros((len(others), len(names)))
        for place, way in enumerate(BASES):
            file(way, train(folder, seed + 100 * place, options.encoder))
            means += predicted(folder, others, names) / len(BASES)
        for way, taught in zip(TEACHERS, (means, seen_marginals(means, gold)), strict=True):
            labels = np.concatenate([*[gold] * REPEATED, taught])
            write(folder / "train.jsonl", texts * REPEATED + others, labels, names)
            file(way, train(folder, seed, options.encoder))


def table() -> str:
    """Markdown: the ways of each data set and number of rows, on the seeds that all of them have, if they have any."""
    lines = ["| data | labelled | way | seeds | " + " | ".join(FIGURES) + " |", "|---" * (4 + len(FIGURES)) + "|"]
    found = STORE.lines(ALL, KIND)
    for name, rows in sorted({(name, rows) for name, _, rows, _ in found}):
        ways = {way: {key[3]: line for key, line in found.items() if key[:3] == (name, way, rows)} for way in WAYS}
        ways = {way: each for way, each in ways.items() if each}
        seeds = sorted(set.intersection(*(set(each) for each in ways.values())))
        for way, each in ways.items() if seeds else ():
            cells = [mean_std(np.array([100 * each[seed][key] for seed in seeds])) for key in FIGURES.values()]
            shown = (f"{mean:.2f} ± {std:.2f}" if len(seeds) > 1 else f"{mean:.2f}" for mean, std in cells)
            lines.append(f"| {name} | {rows} | `{way}` | {len(seeds)} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data_dir")
    parser.add_argument("--encoder")
    parser.add_argument("--sets", nargs="+", default=["tmdb_genres", "netflix_genres", "reuters"])
    parser.add_argument("--rows", nargs="+", type=int, default=[300])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--table", action="store_true", help="only show what is on file")
    options = parser.parse_args()
    if not options.table and None in (options.data_dir, options.encoder):
        parser.error("give --data_dir and --encoder, or --table")
    for seed in options.seeds if not options.table else ():
        for name in options.sets:
            for rows in options.rows:
                runs(name, rows, seed, options)
    print(table())


if __name__ == "__main__":
    main()
