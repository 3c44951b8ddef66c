"""Tagging: words per second against the plain Trainer, by energy; and how an energy's cost grows with T, C and S.

    OMP_NUM_THREADS=1 python benchmarks/cost/tag_speed.py --json benchmarks/cost/tag_speed.json

Synthetic sentences of the size of tweets, the recipes' BiLSTM. Processor time; variants take turns over the rounds;
ratios to the plain Trainer on the same net, as median (least .. most). The growth is that of forward and backward of
one energy, over its own time at T = 16, C = 16, S = 8.
"""

from __future__ import annotations

import argparse
import statistics
from functools import partial
from types import SimpleNamespace

import torch
from datasets import Dataset
from timing import QUIET, in_turns, ratios, seconds_of, spread, write_json
from transformers import Trainer, TrainingArguments
from transformers.utils import logging

from seal_hf import SealForTokenClassification, SealTrainer, SealTrainingArguments, Vocabulary, encode_words
from seal_hf.core.energy import energies_of
from seal_hf.data.tensors.collators import collate_rows

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
    options = {**QUIET, "use_cpu": True}
    options |= {"max_steps": steps, "per_device_train_batch_size": BATCH, "learning_rate": 1e-3}
    nets = SealForTokenClassification.for_data(data, vocabulary=vocabulary, energy=energy, global_size=64)
    if loss is None:
        trainer = Trainer(nets.task_net, TrainingArguments(**options), collate_rows, train_dataset=rows)
    else:
        args = SealTrainingArguments(**options, energy_loss=loss, num_samples=SAMPLES)
        trainer = SealTrainer(nets, args, train_dataset=rows)
    return seconds_of(trainer.train) / steps


def energy_seconds(name: str, length: int, num_labels: int, candidates: int, repeats: int = 5) -> float:
    """Processor seconds of an energy's forward and backward, batch 8, the median of some."""
    torch.manual_seed(0)
    energy = energies_of("tag_sequence")[name](num_labels, 64, 64)
    features = torch.randn(8, length, 64)
    y = torch.softmax(torch.randn(8, candidates, length, num_labels), -1).requires_grad_()
    return statistics.median(seconds_of(lambda: energy(features, y).sum().backward()) for _ in range(repeats))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="also write the figures here")
    options = parser.parse_args()
    logging.set_verbosity_error()
    data = sentences()
    vocabulary = Vocabulary.from_data(data.train)
    rows = encode_words(data.train, vocabulary)
    variants = {"ce": ("ce", "chain"), "infnet_plus, chain": ("infnet_plus", "chain")}
    variants |= {f"nce, {name}": ("nce", name) for name in energies_of("tag_sequence")}
    train = partial(training_seconds, data, vocabulary, rows, options.steps)
    runs = {"plain Trainer": partial(train, None)} | {name: partial(train, *of) for name, of in variants.items()}
    times = in_turns(runs, options.rounds)
    results: dict[str, dict] = {"words_per_second_over_plain_trainer": {}, "growth": {}}
    for name in variants:
        found = ratios(times["plain Trainer"], times[name])
        results["words_per_second_over_plain_trainer"][name] = found
        print(f"{name}: {spread(found)}", flush=True)
    for name in energies_of("tag_sequence"):
        base = energy_seconds(name, BASE["T"], BASE["C"], BASE["S"])
        results["growth"][name] = {}
        for axis, sizes in GROWTH.items():
            grown = [energy_seconds(name, *(BASE | {axis: size}).values()) / base for size in sizes]
            results["growth"][name][axis] = dict(zip(map(str, sizes), grown, strict=True))
            print(f"{name}, {axis} = {sizes}: {', '.join(f'{g:.1f}' for g in grown)}", flush=True)
    write_json(options.json, results)


if __name__ == "__main__":
    main()
