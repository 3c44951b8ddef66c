"""Peak memory and time of one evaluation of many rows and labels: all logits kept, and figures by batch.

    python benchmarks/cost/eval_memory.py --rows 20000 --labels 10000 --json benchmarks/cost/eval_memory.json

A small MLP reads 8 random features; each row has 5 labels. Each way is a process of its own, whose peak is read from
/proc, so on Linux. `nothing` evaluates the loss alone: what data, net and libraries take. The figures that both ways
have must agree.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import numpy as np
import torch
from datasets import Dataset
from timing import machine, peak_bytes, write_json

from seal_hf import SealForMultiLabel, SealTrainer, SealTrainingArguments, TensorRows
from seal_hf.metrics import multilabel_compute_metrics

FEATURES, LABELS_PER_ROW = 8, 5
WAYS = ("nothing", "by batch", "all logits")


def rows_of(options) -> TensorRows:
    """Random features, and ids of labels, which a batch gets multi-hot."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(options.rows, FEATURES)).astype(np.float32)
    labels = np.sort(generator.integers(options.labels, size=(options.rows, LABELS_PER_ROW)), axis=1)
    ids = [np.unique(row).tolist() for row in labels]
    return TensorRows(Dataset.from_dict({"features": features, "labels": ids}), multi_hot={"labels": options.labels})


def evaluate(options) -> dict[str, float]:
    """Figures of one evaluation in this process, its seconds and the process's peak in MB."""
    names = [f"label {i}" for i in range(options.labels)]
    rates = np.full(options.labels, LABELS_PER_ROW / options.labels)
    data = SimpleNamespace(kind="features", name="random", label_names=names, num_features=FEATURES, scaling=None)
    data.label_rates = rates
    torch.manual_seed(0)
    model = SealForMultiLabel.for_data(data, hidden_size=8, num_layers=1)
    quiet = {"report_to": "none", "disable_tqdm": True, "use_cpu": True}
    with tempfile.TemporaryDirectory() as folder:
        args = SealTrainingArguments(
            folder,
            energy_loss="ce",
            per_device_eval_batch_size=options.batch,
            batch_eval_metrics=options.way == "by batch",
            **quiet,
        )
        compute = {
            "by batch": multilabel_compute_metrics,
            "all logits": lambda found: multilabel_compute_metrics(found),
        }
        trainer = SealTrainer(model, args, eval_dataset=rows_of(options), compute_metrics=compute.get(options.way))
        found = trainer.evaluate()
    seconds = found["eval_runtime"]
    figures = {name: found[f"eval_{name}"] for name in multilabel_compute_metrics.figures if f"eval_{name}" in found}
    return {"peak MB": peak_bytes() / 2**20, "seconds": seconds, "figures": figures}


def measure(way: str, options) -> dict:
    """As `evaluate`, in a process of its own."""
    command = [sys.executable, __file__, "--way", way, "--batch", str(options.batch)]
    command += ["--rows", str(options.rows), "--labels", str(options.labels)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(printed.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--labels", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--json", help="write the figures here too")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way is not None:
        print(json.dumps(evaluate(options)))
        return
    found = {"setting": {name: getattr(options, name) for name in ("rows", "labels", "batch")} | machine()}
    for way in WAYS:
        found[way] = measure(way, options)
        print(f"{way:12s} {found[way]['peak MB']:8.0f} MB {found[way]['seconds']:8.1f} s", flush=True)
    whole = found["all logits"]["figures"]
    for name, value in found["by batch"]["figures"].items():
        assert abs(value - whole[name]) <= 1e-9, name
    write_json(options.json, found)


if __name__ == "__main__":
    main()
