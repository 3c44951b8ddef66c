"""Tagging: words per second against the plain Trainer, by energy; and how an energy's cost grows with T, C and S.

    OMP_NUM_THREADS=1 python benchmarks/tag_speed.py --json benchmarks/tag_speed.json

Synthetic sentences of the size of tweets, the recipes' BiLSTM. Processor time; variants take turns over the rounds;
ratios to the plain Trainer on the same net, as median (least .. most). The growth is that of forward and backward of
one energy, over its own time at T = 16, C = 16, S = 8.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import torch
from datasets import Dataset
from transformers import Trainer, TrainingArguments
from transformers.utils import logging

from seal_hf import SealForTokenClassification, SealTrainer, SealTrainingArguments, Vocabulary, encode_words
from seal_hf.data.tensors.collators import collate_rows
from seal_hf.energies import energies_of

WORDS, TAGS, LENGTH, ROWS, BATCH, SAMPLES = 2000, 25, 16, 320, 16, 20
BASE, GROWTH = {"T": 16, "C": 16, "S": 8}, {"T": (16, 32, 64, 128), "C": (16, 32, 64, 128), "S": (8, 16, 32, 64)}


def sentences() -> SimpleNamespace:
    """What `for_data` reads of a data set: random words, random tags."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(LENGTH // 2, 3 * LENGTH // 2, (ROWS,), generator=generator).tolist()
    draw = lambda high, size: torch.randint(high, (size,), generator=generator).tolist()  # noqa: E731
    rows = [{"words": [f"w{i}" for i in draw(WORDS, n)], "tags": draw(TAGS, n)} for n in lengths]
    return SimpleNamespace(name="random", label_names=[f"t{i}" for i in range(TAGS)], train=Dataset.from_list(rows))


def training_seconds(data, vocabulary, rows, steps: int, loss: str | None, energy: str = "chain") -> float:
    """Processor seconds of a step; `loss` None is the plain Trainer."""
    torch.manual_seed(0)
    options = {"max_steps": steps, "per_device_train_batch_size": BATCH, "learning_rate": 1e-3}
    options |= {"logging_strategy": "no", "save_strategy": "no", "report_to": "none", "disable_tqdm": True}
    options |= {"use_cpu": True, "output_dir": tempfile.gettempdir()}
    nets = SealForTokenClassification.for_data(data, vocabulary=vocabulary, energy=energy, global_size=64)
    if loss is None:
        trainer = Trainer(nets.task_net, TrainingArguments(**options), collate_rows, train_dataset=rows)
    else:
        args = SealTrainingArguments(**options, energy_loss=loss, num_samples=SAMPLES)
        trainer = SealTrainer(nets, args, train_dataset=rows)
    start = time.process_time()
    trainer.train()
    return (time.process_time() - start) / steps


def energy_seconds(name: str, length: int, num_labels: int, candidates: int, repeats: int = 5) -> float:
    """Processor seconds of an energy's forward and backward, batch 8, the median of some."""
    torch.manual_seed(0)
    energy = energies_of("tag_sequence")[name](num_labels, 64, 64)
    features, seconds = torch.randn(8, length, 64), []
    y = torch.softmax(torch.randn(8, candidates, length, num_labels), -1).requires_grad_()
    for _ in range(repeats):
        start = time.process_time()
        energy(features, y).sum().backward()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    logging.set_verbosity_error()
    data = sentences()
    vocabulary = Vocabulary.from_data(data.train)
    rows = encode_words(data.train, vocabulary)
    variants = {"ce": ("ce", "chain"), "infnet_plus, chain": ("infnet_plus", "chain")}
    variants |= {f"nce, {name}": ("nce", name) for name in energies_of("tag_sequence")}
    times: dict[str, list[float]] = {name: [] for name in ("plain Trainer", *variants)}
    for _ in range(options.rounds):
        times["plain Trainer"].append(training_seconds(data, vocabulary, rows, options.steps, None))
        for name, (loss, energy) in variants.items():
            times[name].append(training_seconds(data, vocabulary, rows, options.steps, loss, energy))
    results: dict[str, dict] = {"words_per_second_over_plain_trainer": {}, "growth": {}}
    for name in variants:
        ratios = [a / b for a, b in zip(times["plain Trainer"], times[name], strict=True)]
        results["words_per_second_over_plain_trainer"][name] = [statistics.median(ratios), min(ratios), max(ratios)]
        print(f"{name}: {statistics.median(ratios):.2f} ({min(ratios):.2f} .. {max(ratios):.2f})", flush=True)
    for name in energies_of("tag_sequence"):
        base = energy_seconds(name, BASE["T"], BASE["C"], BASE["S"])
        results["growth"][name] = {}
        for axis, sizes in GROWTH.items():
            grown = [energy_seconds(name, *(BASE | {axis: size}).values()) / base for size in sizes]
            results["growth"][name][axis] = dict(zip(map(str, sizes), grown, strict=True))
            print(f"{name}, {axis} = {sizes}: {', '.join(f'{g:.1f}' for g in grown)}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
