"""Training trajectories of inference networks, as Figures 2 and 3 of InfNet+ (Tu, Pang & Gimpel 2020), drawn from runs.

    OMP_NUM_THREADS=1 python benchmarks/infnet_trajectories.py --data_dir path/to/data --seeds 1

First panel: validation accuracy by epoch with and without zero truncation of the inference networks' objectives, and
with and without the local cross-entropy. The others, for k = 1, 5, 10, 50 task-net updates per energy update:
validation accuracy; means over each epoch, after the task-net's updates, of both terms of the energy's loss (Eq. 6)
and of its gradient's norm; and the norm of the test-time network's whole gradient, cross-entropy too, at the epoch's
end. A run whose file exists under benchmarks/infnet_trajectories/ is not repeated. Needs matplotlib, the extra `plot`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "infnet_trajectories"
RECIPE = ROOT / "recipes" / "tagging" / "twitter_pos_infnet_plus.yaml"
TRUNCATION = {
    f"{'' if cut else 'no '}truncation, {'' if weight else 'no '}CE": [
        *("--inference_truncation", str(cut), "--task_weight", str(weight), "--cost_augmented_task_weight", str(weight))
    ]
    for cut in (True, False)
    for weight in (0.0, 1.0)
}
PANELS = {  # key in the log -> what it is
    "eval_accuracy": "validation accuracy",
    "margin_loss": "margin-rescaled hinge",
    "perceptron_loss": "perceptron loss",
    "loss_net_grad_norm": "gradient norm of the energy",
    "grad_norm": "gradient norm of the test-time network",
}
STEPS = {f"k = {k}": ["--loss_net_every", str(k)] for k in (1, 5, 10, 50)}


def run(name: str, flags: list[str], seed: int, options) -> list[dict]:
    """The log of one run: a dict per epoch or log line."""
    file = RESULTS / f"{name.replace(',', '').replace('=', '').replace(' ', '_')}_seed{seed}.json"
    if file.is_file():
        return json.loads(file.read_text())
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "examples" / "run_tagging.py"), "--recipe", str(RECIPE), *flags]
        command += ["--data_dir", options.data_dir, "--output_dir", folder, "--seed", str(seed), "--patience", "0"]
        command += ["--num_train_epochs", str(options.epochs), "--logging_strategy", "epoch", "--disable_tqdm", "true"]
        command += ["--load_best_model_at_end", "false", "--save_total_limit", "2"]  # the last one has the whole log
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name}, seed {seed}: {done.stderr[-2000:]}")
        (state,) = sorted(Path(folder).glob("checkpoint-*/trainer_state.json"), key=lambda p: p.stat().st_mtime)[-1:]
        log = json.loads(state.read_text())["log_history"]
    RESULTS.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(log) + "\n")
    last = [line["eval_accuracy"] for line in log if "eval_accuracy" in line][-1]
    print(f"{name}, seed {seed}: {100 * last:.2f} after {options.epochs} epochs", flush=True)
    return log


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data_dir", required=True, help="folder of the named data sets")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--epochs", type=int, default=15)
    options = parser.parse_args()
    from matplotlib.figure import Figure

    logs = {  # by setting, those of every seed
        name: [run(name, flags, seed, options) for seed in options.seeds]
        for name, flags in (TRUNCATION | STEPS).items()
    }
    figure = Figure(figsize=(13, 7), layout="constrained")
    panels = [(TRUNCATION, "eval_accuracy"), *((STEPS, key) for key in PANELS)]
    for axis, (settings, key) in zip(figure.subplots(2, 3).flat, panels, strict=True):
        for i, name in enumerate(settings):
            for j, log in enumerate(logs[name]):
                values = [line[key] for line in log if key in line]
                axis.plot(range(1, 1 + len(values)), values, color=f"C{i}", label=None if j else name)
        axis.set(xlabel="epoch", ylabel=PANELS[key], yscale="log" if "norm" in key else "linear")
        axis.legend()
    figure.savefig(ROOT / "benchmarks" / "infnet_trajectories.png", dpi=150)


if __name__ == "__main__":
    main()
