"""How far is the cost-augmented network F of InfNet+ from the task-net A? (Tu, Pang & Gimpel 2020, Table 3)

    python benchmarks/cost_augmented.py --data_dir PATH --seeds 1 2 3

Each run is that of `papers.txt` on Twitter POS with one parameterization of F. After each epoch both nets tag the
validation sentences; F also reads their gold tags if it is stacked. The accuracies of both, at the best epoch of A, go
to cost_augmented.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, set_seed

from seal_hf.extensions.cost_augmented import PARAMETERIZATIONS
from seal_hf.lab.compare.runner import write_json
from seal_hf.tasks.tags.program import PROGRAM
from seal_hf.utils.modules import in_evaluation

ROOT = Path(__file__).resolve().parents[1]
FIGURES = Path(__file__).with_suffix(".json")
RECIPE = ROOT / "recipes" / "tagging" / "twitter_pos_paper.yaml"
FLAGS = ["--recipe", str(RECIPE), "--loss", "infnet_plus", "--cost_augmented_task_weight", "1"]


class BothNets(TrainerCallback):
    """Keeps what A and F tag after each evaluation.

    Attributes:
        found: step -> tag ids of A, of F and gold, (N,) each, over all words of the validation rows.
    """

    def __init__(self, trainer: Any):
        self.trainer, self.found = trainer, {}

    @torch.no_grad()
    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self.trainer.is_in_train:
            return
        (extension,), words = self.trainer.extensions, []
        with in_evaluation(self.trainer.model), in_evaluation(extension.net), torch.random.fork_rng([]):
            for inputs in self.trainer.get_eval_dataloader():
                batch = self.trainer._detached(0, None, self.trainer._prepare_inputs(inputs))
                known = batch.labels != -100
                words.append(
                    [each[known] for each in (batch.logits.argmax(-1), batch.augmented.argmax(-1), batch.labels)]
                )
        self.found[state.global_step] = [torch.cat(each) for each in zip(*words, strict=True)]


def figures(kind: str, seed: int, data_dir: str) -> dict[str, float]:
    """Accuracies of A and of F on validation words, in [0, 1]."""
    with tempfile.TemporaryDirectory() as folder:
        words = [*FLAGS, "--cost_augmented_network", kind, "--data_dir", data_dir, "--output_dir", folder]
        arguments = PROGRAM.parse([*words, "--seed", str(seed), "--disable_tqdm", "true"])
        set_seed(seed)
        data = PROGRAM.load(arguments)
        set_seed(seed)
        trainer = PROGRAM.make_trainer(data, arguments).trainer
        both = BothNets(trainer)
        trainer.add_callback(both)
        trainer.train()
    task_net, augmented, gold = both.found[trainer.state.best_global_step]
    return {
        "task_net": (task_net == gold).float().mean().item(),
        "cost_augmented": (augmented == gold).float().mean().item(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    options = parser.parse_args()
    all_found = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    for seed in options.seeds:
        for kind in PARAMETERIZATIONS:
            name = f"{kind} {seed}"
            if name not in all_found:
                all_found[name] = figures(kind, seed, options.data_dir)
                write_json(FIGURES, all_found)
            print(name, all_found[name], flush=True)


if __name__ == "__main__":
    main()
