"""Small trained nets of label sets in folders, their decisions fitted, and files of rows, for tests of `predict` and
`evaluate`. Files are written by other code than the package's."""

import csv
import json

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet
from tiny_models import LABELLED, LABELS, tiny_arguments, tiny_config, tiny_features, tiny_texts, tiny_tokenizer
from transformers import AutoModel

from seal_hf import MLPForMultiLabel, SealForMultiLabel, SealTrainer, TensorRows, tokenize

ROWS = 90
FAST = {
    "learning_rate": 5e-3,
    "max_steps": 60,
    "per_device_train_batch_size": 16,
    "energy_weight": 0.05,
    "logging_steps": 100,
}


def fitted(seal, folder, train, validation):
    """A trained net in a folder, its decisions fitted."""
    trainer = SealTrainer(seal, tiny_arguments(folder, **FAST), train_dataset=train, eval_dataset=validation)
    trainer.train()
    trainer.fit_decisions(validation)
    trainer.save_model()
    return trainer


def trained_on_texts(folder):
    """A trainer of texts, its folder, and the rows to predict."""
    torch.manual_seed(0)
    AutoModel.from_config(tiny_config("bert")).save_pretrained(folder / "encoder")
    seal = SealForMultiLabel.from_pretrained(folder / "encoder", **LABELLED)
    train, validation = (tokenize(tiny_texts(60, seed), tiny_tokenizer(), 7) for seed in (0, 1))
    trainer = fitted(seal, folder / "run", train, validation)
    tiny_tokenizer().save_pretrained(folder / "run")
    return trainer, folder / "run", tiny_texts(ROWS, seed=2)


def trained_on_features(folder):
    """The same of features."""
    torch.manual_seed(0)
    task_net = MLPForMultiLabel(tiny_config("mlp"))
    seal = SealForMultiLabel(task_net, SealForMultiLabel._fresh_loss_net(task_net, None, "separate"))
    train, validation = (TensorRows(tiny_features(60, seed)) for seed in (0, 1))
    return fitted(seal, folder / "run", train, validation), folder / "run", tiny_features(ROWS, seed=2)


def write(path, rows):
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            delimiter, quoting = ("\t", csv.QUOTE_NONE) if path.suffix == ".tsv" else (",", csv.QUOTE_MINIMAL)
            writer = csv.writer(file, delimiter=delimiter, quoting=quoting, quotechar=None if quoting else '"')
            writer.writerows([list(rows[0]), *(row.values() for row in rows)])
    return path


def arff(path, x, labels=None):
    names = [f"x{i} numeric" for i in range(x.shape[1])] + [
        f"{label} {{0,1}}" for label in LABELS if labels is not None
    ]
    values = x if labels is None else np.concatenate([x, labels], 1)
    rows = [",".join(f"{value:.9g}" for value in row) for row in values]
    path.write_text("\n".join(["@relation r", *(f"@attribute {name}" for name in names), "@data", *rows]) + "\n")
    return path
