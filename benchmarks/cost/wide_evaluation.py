"""Peak memory and processor time of `seal-hf evaluate` with many labels, against `seal-hf predict` of the same rows.

    OMP_NUM_THREADS=1 python benchmarks/cost/wide_evaluation.py --json benchmarks/cost/wide_evaluation.json

Random features, three labels a row, and an MLP that `seal-hf train` has trained for four steps, with all decoders
fitted. Each command is a process of its own, whose peak is read from /proc, so on Linux; the commands take turns.
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

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from timing import in_processes, machine, peak_bytes, ratios, spread, write_json

from seal_hf.__main__ import main as seal_hf

FEATURES, LABELS_PER_ROW, TRAIN_ROWS, VALIDATION_ROWS = 20, 3, 6000, 400
TRAINING = "--max_steps 4 --loss ce --hidden_size 32 --eval_strategy no --save_strategy no --report false"
TRAINING += " --load_best_model_at_end false --patience 0"
COMMANDS = {"predict": ("--output", "predictions.jsonl"), "evaluate": ("--output", "figures.json")}


def write_rows(path: Path, rows: int, labels: int, seed: int, with_all: bool = False) -> None:
    """A table of features and names of labels; `with_all`: the first row has every label, so that all are known."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, FEATURES)).astype(np.float32)
    chosen = [np.unique(row) for row in generator.integers(labels, size=(rows, LABELS_PER_ROW))]
    names = [[f"label{i}" for i in row] for row in ([np.arange(labels), *chosen[1:]] if with_all else chosen)]
    parquet.write_table(pa.table({"features": list(features), "labels": names}), path)


def prepare(folder: Path, options: argparse.Namespace) -> None:
    """The data and the trained net, by commands of their own."""
    (folder / "data").mkdir()
    write_rows(folder / "data/train.parquet", TRAIN_ROWS, options.labels, 1, with_all=True)
    write_rows(folder / "data/validation.parquet", VALIDATION_ROWS, options.labels, 2)
    write_rows(folder / "test.parquet", options.rows, options.labels, 3)
    command = [sys.executable, "-m", "seal_hf", "train", "mlc", "--dataset", str(folder / "data"), *TRAINING.split()]
    subprocess.run([*command, "--output_dir", str(folder / "net")], check=True, capture_output=True)


def measure(command: str, folder: Path) -> dict[str, float]:
    """The seconds that a command takes the processor, imports included, and its peak."""
    flag, name = COMMANDS[command]
    source = ["--model", str(folder / "net"), "--input", str(folder / "test.parquet")]
    sys.argv = ["seal-hf", command, *source, flag, str(folder / name), "--overwrite"]
    try:
        seal_hf()
    except SystemExit as end:
        if end.code:
            raise
    return {"seconds": time.process_time(), "bytes": peak_bytes()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--labels", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="write the figures here too")
    parser.add_argument("--variant", choices=COMMANDS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.variant is not None:
        print(json.dumps(measure(options.variant, options.folder)))
        return
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), options)
        measured = in_processes(COMMANDS, options.rounds, "--folder", folder)
    for name, runs in measured.items():
        seconds, size = (statistics.median(run[key] for run in runs) for key in ("seconds", "bytes"))
        print(f"{name:8s} {seconds:6.1f} s {size / 2**20:6.0f} MiB")
    ratio = ratios(*([run["seconds"] for run in measured[name]] for name in ("evaluate", "predict")))
    print(f"seconds, evaluate / predict: {spread(ratio)}")
    setting = {name: getattr(options, name) for name in ("rows", "labels", "rounds")} | machine()
    write_json(options.json, {"setting": setting, **measured, "evaluate / predict, seconds": ratio})


if __name__ == "__main__":
    main()
