"""Tags at 512 sub-words and 60 tags: time and peak memory of each energy, and of what a CRF adds, over those of a step
of the task-net.

    OMP_NUM_THREADS=1 python benchmarks/cost/tag_energies.py --model_name_or_path FOLDER --json FILE

Batch 8 and K = 20, so rows of 22 candidates. Inputs are random and without padding, and every sub-word has a tag, which
is the most there can be. Each variant runs in a process of its own; processor time. Memory is the peak minus what nets
and inputs hold.

    task-net          forward, backward and AdamW of a token classifier with cross-entropy
    an energy's name  forward and backward on all candidates, as in the loss-net's phase
    candidates        ŷ, samples and log P of NCE, without gradient
    CRF, ŷ            forward and backward of the marginals, as in the task-net's phase
    CRF, loss         forward and backward of the task loss
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from timing import clock, cost_table, held_bytes, in_processes, machine, peak_bytes, write_json
from transformers import AutoModelForTokenClassification
from transformers.utils import logging

from seal_hf import ENERGY_LOSSES, TagSequenceSpace
from seal_hf.core.energy import energies_of
from seal_hf.tasks.tags.chains import CRF
from seal_hf.tasks.tags.task_losses import CRFLoss

LENGTH, TAGS, BATCH, SAMPLES = 512, 60, 8, 20
FEATURES, GLOBAL = 384, 128  # width of MiniLM, and of a tag energy's global term by default
TASK_NET, REPEATS = "task-net", 2
Work = Callable[[], object]


def task_net_step(name: str) -> Work:
    """A step with cross-entropy."""
    net = AutoModelForTokenClassification.from_pretrained(name, num_labels=TAGS, trust_remote_code=False).train()
    optimizer = torch.optim.AdamW(net.parameters())
    ids, labels = torch.randint(1000, 2000, (BATCH, LENGTH)), torch.randint(TAGS, (BATCH, LENGTH))

    def step() -> None:
        optimizer.zero_grad()
        net(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels).loss.backward()
        optimizer.step()

    return step


def energy_step(name: str) -> Work:
    """Forward and backward on all candidates; the gradient is that of the parameters."""
    energy = energies_of("tag_sequence")[name](TAGS, FEATURES, GLOBAL)
    features, mask = torch.randn(BATCH, LENGTH, FEATURES), torch.ones(BATCH, LENGTH, dtype=torch.bool)
    y = F.one_hot(torch.randint(TAGS, (BATCH, SAMPLES + 2, LENGTH)), TAGS).float()
    return lambda: energy(features, y, mask).sum().backward()


def chain_step(name: str) -> Work:
    """What a space does with logits, by a CRF or for independent tags."""
    kind, _, part = name.partition(", ")
    tags = [f"t{i}" for i in range(TAGS)]
    labels = torch.randint(TAGS, (BATCH, LENGTH))
    space = TagSequenceSpace(tags, CRFLoss(tags, CRF(TAGS)) if kind == "CRF" else None).of({"labels": labels})
    logits = torch.randn(BATCH, LENGTH, TAGS, requires_grad=part != "candidates")
    if part == "candidates":
        loss, generator = ENERGY_LOSSES["nce"](num_samples=SAMPLES), torch.Generator()
        return lambda: loss.candidates(space, logits, labels, generator.manual_seed(1))
    if part == "loss":
        return lambda: space.task_loss(logits, labels).backward()
    return lambda: space.relax(logits).square().sum().backward()


CHAINS = ["independent, candidates", "CRF, candidates", "CRF, ŷ", "CRF, loss"]
VARIANTS = [TASK_NET, *energies_of("tag_sequence"), *CHAINS]


def measured(variant: str, model: str) -> dict[str, float]:
    """`seconds`, the median of some after a first, and `bytes`."""
    torch.manual_seed(0)
    if variant == TASK_NET:
        work = task_net_step(model)
    else:
        work = chain_step(variant) if variant in CHAINS else energy_step(variant)
    before, times = held_bytes(), [clock()]
    for _ in range(1 + REPEATS):
        work()
        times.append(clock())
    seconds = [end - start for start, end in zip(times[1:], times[2:], strict=False)]
    return {"seconds": statistics.median(seconds), "bytes": peak_bytes() - before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model_name_or_path", required=True, help="the task-net's encoder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="also write the figures here")
    parser.add_argument("--variant", choices=VARIANTS, help="measure this one alone, and print one line of JSON")
    options = parser.parse_args()
    logging.set_verbosity_error()
    if options.variant is not None:
        print(json.dumps(measured(options.variant, options.model_name_or_path)))
        return
    found = in_processes(VARIANTS, options.rounds)
    ratios = cost_table(found, lambda _: TASK_NET, "task-net")
    write_json(options.json, {**machine(), "over the task-net": ratios, "measured": found})


if __name__ == "__main__":
    main()
