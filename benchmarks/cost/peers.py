"""The same data through other tools, in one run: test F1 at a threshold tuned on validation, CPU seconds of training.

    OMP_NUM_THREADS=1 python benchmarks/cost/peers.py --dataset bibtex --data_dir PATH --seeds 1 2 3

- `Trainer, BCE`: the stock Trainer on our task-net's architecture with the stock loss, the mean over labels.
- `ce`, `nce`: our trainer without and with a loss-net.
- `LibMultiLabel, 1-vs-rest`: linear, by liblinear; where `libmultilabel` can be imported (an environment of its own: it
  brings numba and others).

The nets have the settings of the bibtex recipe, nothing is searched here; the linear model has its defaults, no seed.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from importlib.util import find_spec

import numpy as np
import scipy.sparse
import torch
from timing import seconds_of, write_json
from transformers import EarlyStoppingCallback, Trainer
from transformers.utils import logging

from seal_hf import SealForMultiLabel, SealTrainer, SealTrainingArguments, TensorRows, collate_rows, load_multilabel
from seal_hf.metrics import multilabel_compute_metrics, multilabel_metrics, sigmoid, tune_threshold


class PlainTrainer(Trainer):
    """The stock Trainer and the stock loss: binary cross-entropy, a mean over rows and labels."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(features=inputs["features"])
        loss = torch.nn.functional.binary_cross_entropy_with_logits(outputs.logits, inputs["labels"].float())
        return (loss, {"logits": outputs.logits}) if return_outputs else loss


def net(data, seed: int, kind: str, epochs: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Scores of validation and test, in [0, 1], and the seconds of training."""
    torch.manual_seed(seed)
    model = SealForMultiLabel.for_data(data, hidden_size=400, num_layers=2, dropout=0.6)
    with tempfile.TemporaryDirectory() as folder:
        args = SealTrainingArguments(
            folder,
            energy_loss="nce" if kind == "nce" else "ce",
            energy_weight=3.0,
            learning_rate=1e-3,
            lr_scheduler_type="constant",
            weight_decay=1e-5,
            max_grad_norm=10.0,
            per_device_train_batch_size=32,
            per_device_eval_batch_size=512,
            num_train_epochs=epochs,
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=1,
            save_only_model=True,
            load_best_model_at_end=True,
            metric_for_best_model="f1_example_tuned",
            seed=seed,
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        trainer_class = PlainTrainer if kind == "Trainer, BCE" else SealTrainer
        trainer = trainer_class(
            model.task_net if trainer_class is PlainTrainer else model,
            args,
            data_collator=collate_rows,
            train_dataset=TensorRows(data.train),
            eval_dataset=TensorRows(data.validation),
            compute_metrics=multilabel_compute_metrics,
            callbacks=[EarlyStoppingCallback(8)],
        )
        seconds = seconds_of(trainer.train)
        validation, test = (
            sigmoid(trainer.predict(TensorRows(rows)).predictions) for rows in (data.validation, data.test)
        )
    return validation, test, seconds


def linear(data) -> tuple[np.ndarray, np.ndarray, float]:
    """LibMultiLabel's one-vs-rest."""
    from libmultilabel.linear import predict_values, train_1vsrest

    def matrix(rows, name):
        return scipy.sparse.csr_matrix(np.asarray(rows.with_format("numpy")[name][:], dtype=np.float64))

    start = time.process_time()
    model = train_1vsrest(matrix(data.train, "labels"), matrix(data.train, "features"), verbose=False)
    seconds = time.process_time() - start
    validation, test = (sigmoid(predict_values(model, matrix(r, "features"))) for r in (data.validation, data.test))
    return validation, test, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", default="digits", help="a feature data set of load_multilabel")
    parser.add_argument("--data_dir", help="folder of named data sets")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--epochs", type=int, default=60, help="at most; training stops after 8 without gain")
    parser.add_argument("--json", help="also write the figures here")
    options = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    data = load_multilabel(
        options.dataset, data_dir=options.data_dir, normalize="none"
    )  # all read the numbers as they are
    runs = [(kind, seed) for seed in options.seeds for kind in ("Trainer, BCE", "ce", "nce")]
    if find_spec("libmultilabel"):
        runs.append(("LibMultiLabel, 1-vs-rest", None))
    figures: dict[str, list[dict[str, float]]] = {}
    gold = {name: np.asarray(getattr(data, name).with_format("numpy")["labels"][:]) for name in ("validation", "test")}
    for kind, seed in runs:
        validation, test, seconds = linear(data) if seed is None else net(data, seed, kind, options.epochs)
        threshold, _ = tune_threshold(validation, gold["validation"])
        f1 = multilabel_metrics(test, gold["test"], threshold)["f1_example"]
        figures.setdefault(kind, []).append({"seed": seed, "f1_example_tuned": f1, "train_cpu_seconds": seconds})
    print("| tool | test example F1, tuned | CPU seconds of training / those of `Trainer, BCE` |\n|---|---|---|")
    plain = statistics.mean(run["train_cpu_seconds"] for run in figures["Trainer, BCE"])
    for kind, results in figures.items():
        f1 = [100 * run["f1_example_tuned"] for run in results]
        spread = f" ± {statistics.stdev(f1):.2f}" if len(f1) > 1 else " (1 run)"
        seconds = statistics.mean(run["train_cpu_seconds"] for run in results)
        print(f"| {kind} | {statistics.mean(f1):.2f}{spread} | {seconds / plain:.2f} |")
    write_json(options.json, figures)


if __name__ == "__main__":
    main()
