"""benchmarks/text_features.py: the features are the encoder's mean, and the labels stay."""

import runpy
import sys
from pathlib import Path

import numpy as np
import torch
from tiny_models import tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModel

from seal_hf import load_multilabel

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "text_features.py"


def test_the_written_rows_are_the_means_of_the_texts_and_keep_their_labels(tmp_path, monkeypatch):
    torch.manual_seed(0)
    encoder = AutoModel.from_config(tiny_config("bert")).eval()
    encoder.save_pretrained(tmp_path / "net")
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(tmp_path / "net")
    (tmp_path / "data").mkdir()
    for seed, split in enumerate(("train", "validation", "test")):
        tiny_texts(6 + seed, seed).to_json(tmp_path / "data" / f"{split}.jsonl")
    words = [str(tmp_path / "data"), "--encoder", str(tmp_path / "net"), "--output_dir", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["text_features.py", *words, "--max_train_rows", "4"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    texts, found = (load_multilabel(str(tmp_path / name)) for name in ("data", "out"))
    assert (len(found.train), len(found.validation), len(found.test)) == (4, 7, 8)
    order = [found.label_names.index(name) for name in texts.label_names]
    for before, after in ((texts.validation, found.validation), (texts.test, found.test)):
        gold, kept = (np.asarray(rows.with_format("numpy")["labels"][:]) for rows in (before, after))
        np.testing.assert_array_equal(kept[:, order], gold)
        for text, row in zip(before["text"][:], after.with_format("torch")["features"][:], strict=True):
            with torch.no_grad():
                hidden = encoder(**tokenizer(text, return_tensors="pt")).last_hidden_state
            torch.testing.assert_close(row, hidden[0].mean(0), atol=1e-5, rtol=1e-4)
