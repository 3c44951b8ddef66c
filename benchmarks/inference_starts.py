"""Where does gradient-based inference have to begin? Energy networks of the papers' tables, by start and steps.

    python benchmarks/inference_starts.py RUNS --data_dir PATH

RUNS is the folder in which `papers.txt` keeps its nets. Each network predicts the test rows from zeros, from 1/2, from
three random starts of which the lowest energy counts, and from the output of the task-net that cross-entropy trained.
The rate of inference is the network's own. The figures, test example F1 at 0.5, go to inference_starts.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from transformers import PrinterCallback

from seal_hf import (
    EnergyTrainer,
    EnergyTrainingArguments,
    LossNet,
    MultiLabelSpace,
    SealForMultiLabel,
    TensorRows,
    load_multilabel,
)
from seal_hf.lab.compare.runner import write_json
from seal_hf.metrics import multilabel_compute_metrics

FIGURES = Path(__file__).with_suffix(".json")
DATA = {  # name in papers.txt -> how it is loaded
    "cal500": {"dataset": "cal500", "normalize": "minmax"},
    "genbase_id": {"dataset": "genbase", "keep_id": True, "normalize": "none"},
}
NETWORKS = ("spen", "dvn", "nce")
STARTS = {"zeros": 1, "uniform": 1, "random": 3, "task_net": 1}  # -> how many
STEPS = (0, 5, 20, 100)


def figures(data: str, network: str, seed: int, runs: Path, data_dir: str) -> dict[str, dict[int, float]]:
    """Test example F1 at 0.5, in [0, 1], by start and number of steps."""
    loaded = load_multilabel(data_dir=data_dir, **DATA[data])
    task_net = SealForMultiLabel.from_pretrained(runs / f"{data}_paper_ce_{seed}").task_net
    run = runs / f"{data}_energy_paper_{network}_{seed}"
    net, settings = LossNet.from_pretrained(run), json.loads((run / "_report.json").read_text())["settings"]
    rows = TensorRows(loaded.test)
    found: dict[str, dict[int, float]] = {}
    for start, count in STARTS.items():
        for steps in STEPS:
            with tempfile.TemporaryDirectory() as folder:
                args = EnergyTrainingArguments(
                    folder,
                    energy_method=network,
                    inference_start=start,
                    inference_num_starts=count,
                    inference_steps_eval=steps,
                    inference_learning_rate=settings["inference_learning_rate"],
                    per_device_eval_batch_size=512,
                    report_to="none",
                    disable_tqdm=True,
                )
                space = MultiLabelSpace(sparse_from=len(loaded.label_names) + 1)  # inference moves every entry
                trainer = EnergyTrainer(
                    net, args, task_net=task_net, space=space, compute_metrics=multilabel_compute_metrics
                )
                trainer.remove_callback(PrinterCallback)
                found.setdefault(start, {})[steps] = trainer.evaluate(rows)["eval_f1_example"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    options = parser.parse_args()
    all_found = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    for seed in options.seeds:
        for data in DATA:
            for network in NETWORKS:
                name = f"{data} {network} {seed}"
                if name not in all_found:
                    all_found[name] = figures(data, network, seed, options.runs, options.data_dir)
                    write_json(FIGURES, all_found)
                print(name, all_found[name], flush=True)


if __name__ == "__main__":
    main()
