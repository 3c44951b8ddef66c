"""What a loss-net costs on text, by the way it encodes: time of a step and peak memory, against cross-entropy.

    python benchmarks/cost/encoder_modes.py --dataset go_emotions --data_dir PATH --model_name_or_path FOLDER
    python benchmarks/cost/encoder_modes.py --layers 4

With `--layers`, the encoder is a BERT of base width with so many layers and random weights, and texts are random
tokens: bases of 4 and 8 bits are measured too, and the peak is that of the training alone, without the loading.

Every measurement is a process of its own: memory is its peak, less what it held before the nets were built; time is the
median step after a warm-up. Variants take turns over several rounds, so that a drift of the machine's speed hits all
alike; each figure is the median of the rounds' ratios, with the smallest and largest. On one thread the clock is the
processor's, which other programs disturb less than the wall's. Accumulation 1, one update of the loss-net per step.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
from importlib.util import find_spec
from typing import Any

from timing import QUIET, WARM_UP, StepClock, cost_table, held_bytes, in_processes, peak_bytes, step_costs, write_json

VARIANTS = {  # name: loss, loss_net_encoder, adapter of the task-net, quantisation of its base
    "ce": ("ce", "separate", None, None),
    "separate": ("nce", "separate", None, None),
    "separate, frozen and cached": ("nce", "separate", None, None),
    "shared": ("nce", "shared", None, None),
    "ce, LoRA": ("ce", "separate", "lora", None),
    "peft": ("nce", "peft", "lora", None),
    "ce, LoRA on 8 bits": ("ce", "separate", "lora", "8bit"),
    "peft, 8 bits": ("nce", "peft", "lora", "8bit"),
    "ce, LoRA on 4 bits": ("ce", "separate", "lora", "4bit"),
    "peft, 4 bits": ("nce", "peft", "lora", "4bit"),
    "ce, bottlenecks": ("ce", "separate", "pfeiffer", None),
    "adapters": ("nce", "adapters", "pfeiffer", None),
}
TOKENS, LABELS = 64, 28  # of GoEmotions


def save_random(folder: str, layers: int) -> None:
    """A BERT of base width with random weights."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    BertModel(BertConfig(num_hidden_layers=layers)).save_pretrained(folder)


def random_rows(number: int) -> Any:
    """Rows of random tokens and labels."""
    import torch
    from datasets import Dataset

    from seal_hf import TensorRows

    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, 30000, (number, TOKENS), generator=draw)
    labels = (torch.rand(number, LABELS, generator=draw) < 0.1).float()
    columns = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    return TensorRows(Dataset.from_dict({name: values.tolist() for name, values in columns.items()}))


def measure(options: argparse.Namespace) -> dict[str, float]:
    """One variant in this process: seconds per step and bytes of peak memory."""
    import torch
    from transformers import AutoTokenizer
    from transformers.utils import logging

    from seal_hf import SealForMultiLabel, SealTrainer, SealTrainingArguments, load_multilabel, tokenize

    logging.set_verbosity_error()
    loss, encoder, adapter, quantization = VARIANTS[options.variant]
    nets = {"loss_net_encoder": encoder, "adapter": adapter, "adapter_rank": options.rank, "quantization": quantization}
    number = options.batch * 200
    if options.layers:
        rows, before = random_rows(number), peak_bytes()
        torch.manual_seed(0)
        model = SealForMultiLabel.from_pretrained(options.model_name_or_path, num_labels=LABELS, **nets)
    else:
        data = load_multilabel(options.dataset, data_dir=options.data_dir, max_train_rows=number)
        tokenizer = AutoTokenizer.from_pretrained(options.model_name_or_path, trust_remote_code=False)
        rows = tokenize(data.train, tokenizer, max_length=TOKENS)
        before = peak_bytes()
        torch.manual_seed(0)
        model = SealForMultiLabel.for_data(data, options.model_name_or_path, **nets)
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
    if options.layers:
        gc.collect()
        held_bytes()
    steps = StepClock()
    SealTrainer(model, args, train_dataset=rows, callbacks=[steps]).train()
    return step_costs(steps, before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", default="go_emotions", help="a text data set of load_multilabel")
    parser.add_argument("--data_dir", help="folder of named data sets")
    parser.add_argument("--model_name_or_path", help="folder of the encoder; not with --layers")
    parser.add_argument("--layers", type=int, help="random weights of so many layers, and random texts")
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
    missing = [library for library in ("adapters", "bitsandbytes") if not find_spec(library)]
    needs = {"pfeiffer": "adapters", "4bit": "bitsandbytes", "8bit": "bitsandbytes"}
    names = [name for name, own in VARIANTS.items() if not {needs.get(str(value)) for value in own} & {*missing}]
    with tempfile.TemporaryDirectory() as folder:
        further = ["--cache", f"{folder}/cache"]
        if options.layers:
            save_random(f"{folder}/encoder", options.layers)
            further += ["--model_name_or_path", f"{folder}/encoder"]
        else:
            names = [name for name in names if VARIANTS[name][-1] is None]
        measured = in_processes(names, options.rounds, *further)
    ratios = cost_table(measured, lambda name: "ce", "ce")
    write_json(options.json, {"ratios to ce": ratios, "measured": measured})


if __name__ == "__main__":
    main()
