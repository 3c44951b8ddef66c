"""What a loss-net costs on text, by the way it encodes: time of a step and peak memory, against cross-entropy.

    python benchmarks/cost/encoder_modes.py --dataset go_emotions --data_dir PATH --model_name_or_path FOLDER

Every measurement is a process of its own: memory is its peak, less what it held before the nets were built; time is the
median step after a warm-up. Variants take turns over several rounds, so that a drift of the machine's speed hits all
alike; each figure is the median of the rounds' ratios, with the smallest and largest. On one thread the clock is the
processor's, which other programs disturb less than the wall's. Accumulation 1, one update of the loss-net per step.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from importlib.util import find_spec

from timing import QUIET, WARM_UP, StepClock, cost_table, in_processes, peak_bytes, step_costs, write_json

VARIANTS = {  # name: loss, loss_net_encoder, adapter of the task-net
    "ce": ("ce", "separate", None),
    "separate": ("nce", "separate", None),
    "separate, frozen and cached": ("nce", "separate", None),
    "shared": ("nce", "shared", None),
    "ce, LoRA": ("ce", "separate", "lora"),
    "peft": ("nce", "peft", "lora"),
    "ce, bottlenecks": ("ce", "separate", "pfeiffer"),
    "adapters": ("nce", "adapters", "pfeiffer"),
}


def measure(options: argparse.Namespace) -> dict[str, float]:
    """One variant in this process: seconds per step and bytes of peak memory."""
    import torch
    from transformers import AutoTokenizer
    from transformers.utils import logging

    from seal_hf import SealForMultiLabel, SealTrainer, SealTrainingArguments, load_multilabel, tokenize

    logging.set_verbosity_error()
    loss, encoder, adapter = VARIANTS[options.variant]
    data = load_multilabel(options.dataset, data_dir=options.data_dir, max_train_rows=options.batch * 200)
    rows = tokenize(data.train, AutoTokenizer.from_pretrained(options.model_name_or_path), max_length=64)
    before = peak_bytes()
    torch.manual_seed(0)
    model = SealForMultiLabel.for_data(
        data, options.model_name_or_path, loss_net_encoder=encoder, adapter=adapter, adapter_rank=options.rank
    )
    args = SealTrainingArguments(
        **QUIET,
        energy_loss=loss,
        loss_net_encoder=encoder,
        num_samples=100,
        max_steps=WARM_UP + options.steps,
        per_device_train_batch_size=options.batch,
        dataloader_pin_memory=False,
        loss_net_feature_cache=options.cache if "cached" in options.variant else None,
    )

    if loss == "ce":
        model = model.task_net  # cross-entropy holds no loss-net
    steps = StepClock()
    SealTrainer(model, args, train_dataset=rows, callbacks=[steps]).train()
    return step_costs(steps, before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", default="go_emotions", help="a text data set of load_multilabel")
    parser.add_argument("--data_dir", help="folder of named data sets")
    parser.add_argument("--model_name_or_path", required=True, help="folder of the encoder")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rank", type=int, help="of a LoRA, or width of a bottleneck; default: the library's")
    parser.add_argument("--steps", type=int, default=20, help="steps per measurement")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each variant, taking turns")
    parser.add_argument("--cache", help=argparse.SUPPRESS)
    parser.add_argument("--json", help="also write the figures here")
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(measure(options)))
        return
    names = [name for name, (*_, adapter) in VARIANTS.items() if adapter != "pfeiffer" or find_spec("adapters")]
    measured = in_processes(names, options.rounds, "--cache", tempfile.mkdtemp())
    ratios = cost_table(measured, lambda name: "ce", "ce")
    write_json(options.json, {"ratios to ce": ratios, "measured": measured})


if __name__ == "__main__":
    main()
