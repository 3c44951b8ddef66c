"""Writes what a frozen encoder says of texts, the mean over their tokens, as a data set of features.

    python benchmarks/text_features.py xed_en --data_dir PATH --encoder FOLDER --output_dir runs/features/xed_en
    seal-hf train mlc --dataset runs/features/xed_en

Nets on it are MLPs, and train in seconds. The folder has a parquet file per split, with a list of numbers and the
labels' names in each row.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from datasets import Dataset
from transformers import AutoModel, AutoTokenizer

from seal_hf import load_multilabel, tokenize
from seal_hf.nets.frozen_encoder import cached_features


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--data_dir")
    parser.add_argument("--encoder", required=True, help="folder or Hub id")
    parser.add_argument("--output_dir", type=Path, required=True)
    parser.add_argument("--max_train_rows", type=int, default=2000)
    options = parser.parse_args(argv)
    data = load_multilabel(options.dataset, data_dir=options.data_dir)
    tokenizer = AutoTokenizer.from_pretrained(options.encoder, trust_remote_code=False)
    encoder = AutoModel.from_pretrained(options.encoder, trust_remote_code=False)
    train = data.train.select(range(min(options.max_train_rows, len(data.train))))
    options.output_dir.mkdir(parents=True, exist_ok=True)
    for name, rows in {"train": train, "validation": data.validation, "test": data.test}.items():
        with TemporaryDirectory() as folder:
            features = cached_features(encoder, tokenize(rows, tokenizer, max_length=128), folder)
        gold = np.asarray(rows.with_format("numpy")["labels"][:])
        labels = [[data.label_names[j] for j in np.flatnonzero(row > 0)] for row in gold]
        table = {"features": features.tolist(), "labels": labels}
        Dataset.from_dict(table).to_parquet(options.output_dir / f"{name}.parquet")


if __name__ == "__main__":
    main()
