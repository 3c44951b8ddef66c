"""What a loss-net costs on text, by the way it encodes: time of a step and peak memory, against cross-entropy.

    python benchmarks/encoder_modes.py --dataset go_emotions --data_dir PATH --model_name_or_path FOLDER

Every measurement is a process of its own: memory is its peak, less what it held before the nets were built; time is the
median step after a warm-up. Variants take turns over several rounds, so that a drift of the machine's speed hits all
alike; each figure is the median of the rounds' ratios, with the smallest and largest. On one thread the clock is the
processor's, which other programs disturb less than the wall's. Accumulation 1, one update of the loss-net per step.
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
from importlib.util import find_spec

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
WARM_UP = 3


def measure(options: argparse.Namespace) -> dict[str, float]:
    """One variant in this process: seconds per step and bytes of peak memory."""
    import torch
    from transformers import AutoTokenizer, TrainerCallback
    from transformers.utils import logging

    from seal_hf import SealForMultiLabel, SealTrainer, SealTrainingArguments, load_multilabel, tokenize

    logging.set_verbosity_error()
    loss, encoder, adapter = VARIANTS[options.variant]
    data = load_multilabel(options.dataset, data_dir=options.data_dir, max_train_rows=options.batch * 200)
    rows = tokenize(data.train, AutoTokenizer.from_pretrained(options.model_name_or_path), max_length=64)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    torch.manual_seed(0)
    model = SealForMultiLabel.for_data(
        data, options.model_name_or_path, loss_net_encoder=encoder, adapter=adapter, adapter_rank=options.rank
    )
    args = SealTrainingArguments(
        output_dir=tempfile.gettempdir(),
        energy_loss=loss,
        loss_net_encoder=encoder,
        num_samples=100,
        max_steps=WARM_UP + options.steps,
        per_device_train_batch_size=options.batch,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        loss_net_feature_cache=options.cache if "cached" in options.variant else None,
    )

    on_one_thread = torch.get_num_threads() == 1 and not torch.cuda.is_available()

    class Clock(TrainerCallback):
        times: list[float] = []

        def on_step_begin(self, *_, **__):
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.times.append(time.process_time() if on_one_thread else time.perf_counter())

        on_step_end = on_step_begin

    if loss == "ce":
        model = model.task_net  # cross-entropy holds no loss-net
    SealTrainer(model, args, train_dataset=rows, callbacks=[Clock()]).train()
    steps = [end - start for start, end in zip(Clock.times[::2], Clock.times[1::2], strict=True)]
    peak = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if torch.cuda.is_available():
        peak = torch.cuda.max_memory_allocated()
    return {"seconds": statistics.median(steps[WARM_UP:]), "bytes": peak}


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
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    cache = tempfile.mkdtemp()
    for round_number in range(options.rounds):
        for name in names:
            command = [sys.executable, *sys.argv, "--variant", name, "--cache", cache]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{name}: {done.stderr[-2000:]}")
            measured[name].append(json.loads(done.stdout.splitlines()[-1]))
            print(f"round {round_number + 1}, {name}: {measured[name][-1]}", file=sys.stderr)
    print("| variant | seconds / those of ce | peak memory / that of ce | seconds of a step | MiB |")
    print("|---|---|---|---|---|")
    ratios = {}
    for name in names:
        cells = []
        for key in ("seconds", "bytes"):
            values = [a[key] / b[key] for a, b in zip(measured[name], measured["ce"], strict=True)]
            ratios[f"{name}, {key}"] = [statistics.median(values), min(values), max(values)]
            cells.append("{:.2f} ({:.2f} .. {:.2f})".format(*ratios[f"{name}, {key}"]))
        seconds, size = (statistics.median(m[key] for m in measured[name]) for key in ("seconds", "bytes"))
        print(f"| {name} | {cells[0]} | {cells[1]} | {seconds:.3f} | {size / 2**20:.0f} |")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"ratios to ce": ratios, "measured": measured}, file, indent=1)


if __name__ == "__main__":
    main()
