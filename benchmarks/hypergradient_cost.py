"""What implicit gradients cost: time of a step and peak memory, against the first-order step of the same energy loss.

    python benchmarks/hypergradient_cost.py --dataset go_emotions --data_dir PATH --model_name_or_path FOLDER
    python benchmarks/hypergradient_cost.py --dataset bibtex --data_dir PATH

Every measurement is a process of its own: memory is its peak, less what it held before the nets were built; time is the
median step after a warm-up. Variants take turns over several rounds; each figure is the median of the rounds' ratios,
with the smallest and largest. What has a LoRA in the task-net is measured against the first-order step with one. On one
thread the clock is the processor's.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time

FIRST_ORDER, ADAPTED = "first order", "adapters, first order"  # what others are measured against
VARIANTS = {  # name: method, terms, product, parameters
    FIRST_ORDER: ("none", 1, "double_backward", "head"),
    "head, neumann 1": ("neumann", 1, "double_backward", "head"),
    "head, neumann 5": ("neumann", 5, "double_backward", "head"),
    "head, neumann 20": ("neumann", 20, "double_backward", "head"),
    "head, cg 5": ("cg", 5, "double_backward", "head"),
    "head, unrolled 5": ("unrolled", 5, "double_backward", "head"),
    "head, neumann 5, finite differences": ("neumann", 5, "finite_differences", "head"),
    "all, neumann 2": ("neumann", 2, "double_backward", "all"),
    "all, neumann 5": ("neumann", 5, "double_backward", "all"),
    "all, neumann 5, finite differences": ("neumann", 5, "finite_differences", "all"),
    ADAPTED: ("none", 1, "double_backward", "adapters"),  # a LoRA in the task-net's frozen encoder
    "adapters, neumann 2": ("neumann", 2, "double_backward", "adapters"),
    "adapters, neumann 5": ("neumann", 5, "double_backward", "adapters"),
    "adapters, neumann 5, finite differences": ("neumann", 5, "finite_differences", "adapters"),
}
WARM_UP = 3


def measure(options: argparse.Namespace) -> dict[str, float]:
    """One variant in this process: seconds per step and bytes of peak memory."""
    import torch
    from transformers import AutoTokenizer, TrainerCallback
    from transformers.utils import logging

    from seal_hf import SealForMultiLabel, SealTrainer, SealTrainingArguments, TensorRows, load_multilabel, tokenize

    logging.set_verbosity_error()
    method, terms, product, parameters = VARIANTS[options.variant]
    data = load_multilabel(options.dataset, data_dir=options.data_dir, max_train_rows=options.batch * 200)
    if options.model_name_or_path:
        rows = tokenize(data.train, AutoTokenizer.from_pretrained(options.model_name_or_path), max_length=64)
    else:
        rows = TensorRows(data.train)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    torch.manual_seed(0)
    nets = dict(loss_net_encoder=options.loss_net_encoder, adapter="lora" if parameters == "adapters" else None)
    model = SealForMultiLabel.for_data(data, options.model_name_or_path, **nets)
    args = SealTrainingArguments(
        output_dir=tempfile.gettempdir(),
        energy_loss="margin",
        loss_net_encoder=options.loss_net_encoder,
        hypergradient=method,
        hypergradient_terms=terms,
        hypergradient_scale=100.0,  # fixed: a term of the series costs a product, but for the first
        hypergradient_product=product,
        hypergradient_parameters=parameters,
        max_steps=WARM_UP + options.steps,
        per_device_train_batch_size=options.batch,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    on_one_thread = torch.get_num_threads() == 1 and not torch.cuda.is_available()

    class Clock(TrainerCallback):
        times: list[float] = []

        def on_step_begin(self, *_, **__):
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.times.append(time.process_time() if on_one_thread else time.perf_counter())

        on_step_end = on_step_begin

    SealTrainer(model, args, train_dataset=rows, callbacks=[Clock()]).train()
    steps = [end - start for start, end in zip(Clock.times[::2], Clock.times[1::2], strict=True)]
    peak = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if torch.cuda.is_available():
        peak = torch.cuda.max_memory_allocated()
    return {"seconds": statistics.median(steps[WARM_UP:]), "bytes": peak}


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
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for round_number in range(options.rounds):
        for name in names:
            done = subprocess.run([sys.executable, *sys.argv, "--variant", name], capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{name}: {done.stderr[-2000:]}")
            measured[name].append(json.loads(done.stdout.splitlines()[-1]))
            print(f"round {round_number + 1}, {name}: {measured[name][-1]}", file=sys.stderr)
    print("| variant | time / first order | memory / first order | seconds of a step | MiB |")
    print("|---|---|---|---|---|")
    ratios = {}
    for name in names:
        cells = []
        for key in ("seconds", "bytes"):
            pairs = list(zip(measured[name], measured[first.get(name, name)], strict=True))
            if not all(b[key] for _, b in pairs):  # small nets: less than what the loading of the data had taken
                cells.append("-")
                continue
            values = [a[key] / b[key] for a, b in pairs]
            ratios[f"{name}, {key}"] = [statistics.median(values), min(values), max(values)]
            cells.append("{:.2f} ({:.2f} .. {:.2f})".format(*ratios[f"{name}, {key}"]))
        seconds, size = (statistics.median(m[key] for m in measured[name]) for key in ("seconds", "bytes"))
        print(f"| {name} | {cells[0]} | {cells[1]} | {seconds:.3f} | {size / 2**20:.0f} |")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"ratios to first order": ratios, "measured": measured}, file, indent=1)


if __name__ == "__main__":
    main()
