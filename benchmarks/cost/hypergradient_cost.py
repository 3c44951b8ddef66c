"""What implicit gradients cost: time of a step and peak memory, against the first-order step of the same energy loss.

    python benchmarks/cost/hypergradient_cost.py --dataset go_emotions --data_dir PATH --model_name_or_path FOLDER
    python benchmarks/cost/hypergradient_cost.py --dataset bibtex --data_dir PATH

Every measurement is a process of its own: memory is its peak, less what it held before the nets were built; time is the
median step after a warm-up. Variants take turns over several rounds; each figure is the median of the rounds' ratios,
with the smallest and largest. What has a LoRA in the task-net is measured against the first-order step with one. On one
thread the clock is the processor's.
"""

from __future__ import annotations

import argparse
import json

from timing import QUIET, WARM_UP, StepClock, cost_table, in_processes, peak_bytes, step_costs, write_json

FIRST_ORDER, ADAPTED = "first order", "adapters, first order"  # what others are measured against
VARIANTS = {  # name: method, terms, parameters
    FIRST_ORDER: ("none", 1, "head"),
    "head, neumann 1": ("neumann", 1, "head"),
    "head, neumann 5": ("neumann", 5, "head"),
    "head, neumann 20": ("neumann", 20, "head"),
    "head, cg 5": ("cg", 5, "head"),
    "all, neumann 2": ("neumann", 2, "all"),
    "all, neumann 5": ("neumann", 5, "all"),
    ADAPTED: ("none", 1, "adapters"),  # a LoRA in the task-net's frozen encoder
    "adapters, neumann 2": ("neumann", 2, "adapters"),
    "adapters, neumann 5": ("neumann", 5, "adapters"),
}


def measure(options: argparse.Namespace) -> dict[str, float]:
    """One variant in this process: seconds per step and bytes of peak memory."""
    import torch
    from transformers import AutoTokenizer
    from transformers.utils import logging

    from seal_hf import SealForMultiLabel, SealTrainer, SealTrainingArguments, TensorRows, load_multilabel, tokenize

    logging.set_verbosity_error()
    method, terms, parameters = VARIANTS[options.variant]
    data = load_multilabel(options.dataset, data_dir=options.data_dir, max_train_rows=options.batch * 200)
    if options.model_name_or_path:
        tokenizer = AutoTokenizer.from_pretrained(options.model_name_or_path, trust_remote_code=False)
        rows = tokenize(data.train, tokenizer, max_length=64)
    else:
        rows = TensorRows(data.train)
    before = peak_bytes()
    torch.manual_seed(0)
    nets = dict(loss_net_encoder=options.loss_net_encoder, adapter="lora" if parameters == "adapters" else None)
    model = SealForMultiLabel.for_data(data, options.model_name_or_path, **nets)
    args = SealTrainingArguments(
        **QUIET,
        energy_loss="margin",
        loss_net_encoder=options.loss_net_encoder,
        hypergradient=method,
        hypergradient_terms=terms,
        hypergradient_scale=100.0,  # fixed: a term of the series costs a product, but for the first
        hypergradient_parameters=parameters,
        max_steps=WARM_UP + options.steps,
        per_device_train_batch_size=options.batch,
        dataloader_pin_memory=False,
    )
    steps = StepClock()
    SealTrainer(model, args, train_dataset=rows, callbacks=[steps]).train()
    return step_costs(steps, before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", default="go_emotions", help="a data set of load_multilabel")
    parser.add_argument("--data_dir", help="folder of named data sets")
    parser.add_argument("--model_name_or_path", help="folder of the encoder, for text")
    parser.add_argument("--loss_net_encoder", default="separate", choices=("separate", "shared"))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=10, help="steps per measurement")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each variant, taking turns")
    parser.add_argument("--only", nargs="*", default=list(VARIANTS), help="some of the variants")
    parser.add_argument("--json", help="also write the figures here")
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(measure(options)))
        return
    if not options.model_name_or_path:  # an MLP has no adapters
        options.only = [name for name in options.only if not name.startswith("adapters")]
    first = {name: ADAPTED if name.startswith("adapters") else FIRST_ORDER for name in options.only}
    names = list(dict.fromkeys([*first.values(), *options.only]))
    measured = in_processes(names, options.rounds)
    ratios = cost_table(measured, lambda name: first.get(name, name), "first order")
    write_json(options.json, {"ratios to first order": ratios, "measured": measured})


if __name__ == "__main__":
    main()
