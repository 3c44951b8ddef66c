"""What the methods cost and reach on a GPU: steps in bf16 and fp16, memory, FSDP2, the scaler, quantised bases, F1.

    python benchmarks/gpu.py --json benchmarks/gpu.json --data_dir PATH --model_name_or_path FOLDER

Each part is a process of its own that takes under five minutes. A part that is in the JSON file is not repeated, so a
stopped command goes on; a part that failed is. Steps are those of a BERT-base with random weights and 28 labels, on
batches of 16 x 128 random tokens: seconds of a step (median), and the most bytes that were allocated. The parts of F1
train MiniLM on 2,000 rows of semeval2018_ec in `--data_dir`. Without a CUDA device nothing is measured.
`--device cpu` runs the parts with tiny nets where a CPU can, which shows that they run; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from timing import QUIET, WARM_UP, StepClock, machine, peak_bytes, step_costs, write_json

ROOT = Path(__file__).resolve().parents[1]
MODES = {  # name: loss, loss_net_encoder, adapter of the task-net
    "ce": ("ce", "separate", None),
    "shared": ("nce", "shared", None),
    "separate": ("nce", "separate", None),
    "ce, LoRA": ("ce", "separate", "lora"),
    "peft": ("nce", "peft", "lora"),
}
HALVES = ("bf16", "fp16")
LIMIT = 300  # seconds of a part
LABELS, STEPS = 28, 20
FIGURES = ("test_f1_example", "test_f1_example_calibrated")  # at 0.5, and by the fitted decoder


class Part(NamedTuple):
    """One measurement.

    Attributes:
        kind: `step`, `fsdp2`, `scaler` or `f1`.
        mode: a name in `MODES`, or for `f1` a loss.
        precision: `bf16` or `fp16`.
        quantization: of the base, or "".
    """

    kind: str
    mode: str
    precision: str
    quantization: str = ""

    @property
    def name(self) -> str:
        return ", ".join(filter(None, self))


def parts() -> Iterator[Part]:
    """All of them, the quickest first."""
    yield from (Part("step", mode, half) for half in HALVES for mode in MODES)
    yield from (Part("step", mode, "bf16", bits) for bits in ("8bit", "4bit") for mode in ("ce, LoRA", "peft"))
    yield Part("scaler", "separate", "fp16")
    yield from (Part("fsdp2", mode, "bf16") for mode in ("ce", "shared", "separate"))
    yield from (Part("f1", loss, half) for half in HALVES for loss in ("ce", "default"))


def why_not(part: Part, options: argparse.Namespace) -> str:
    """Why a part cannot run here; "" if it can."""
    on_cpu = options.device == "cpu"
    if on_cpu and (part.precision == "fp16" or part.kind == "fsdp2"):
        return "a CPU has no fp16 and no FSDP2"
    if on_cpu and part.kind == "f1":
        return "on a CPU benchmarks/defaults.py measures it"
    if part.kind == "f1" and not (options.data_dir and options.model_name_or_path):
        return "no --data_dir and --model_name_or_path"
    return ""


def measure(part: Part, options: argparse.Namespace) -> dict[str, Any]:
    """A part of the kinds that train random weights, in this process."""
    from datasets import Dataset
    from transformers import AutoModelForSequenceClassification, BertConfig
    from transformers.utils import logging

    from seal_hf import SealForMultiLabel, SealTrainer, SealTrainingArguments, TensorRows

    logging.set_verbosity_error()
    on_cpu = options.device == "cpu"
    tiny = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    steps, tokens, batch = (2, 8, 4) if on_cpu else (STEPS, 128, 16)
    config = BertConfig(num_labels=LABELS, problem_type="multi_label_classification", **(tiny if on_cpu else {}))
    draw = torch.Generator().manual_seed(0)
    number = batch * (WARM_UP + steps)
    rows = {
        "input_ids": torch.randint(5, config.vocab_size, (number, tokens), generator=draw),
        "attention_mask": torch.ones(number, tokens, dtype=torch.long),
        "labels": (torch.rand(number, LABELS, generator=draw) < 0.1).float(),
    }
    data = TensorRows(Dataset.from_dict({name: value.tolist() for name, value in rows.items()}))
    loss, encoder, adapter = MODES[part.mode]
    before = peak_bytes()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
        quantization = part.quantization or None
        nets = SealForMultiLabel.from_pretrained(
            folder, loss_net_encoder=encoder, adapter=adapter, quantization=quantization
        )
    args = SealTrainingArguments(
        **QUIET,
        energy_loss=loss,
        loss_net_encoder=encoder,
        energy_weight=None if loss == "ce" else 0.1,
        max_steps=WARM_UP + steps,
        per_device_train_batch_size=batch,
        use_cpu=on_cpu,
        **{part.precision: True},
    )
    clock = StepClock()
    trainer = SealTrainer(nets.task_net if loss == "ce" else nets, args, train_dataset=data, callbacks=[clock])
    trainer.train()
    found: dict[str, Any] = step_costs(clock, before)
    if part.kind == "scaler":  # it starts at 2^16 and halves at each overflow, whose update it skips
        scaler = trainer.learner.scaler
        optimizer_steps = [float(state["step"].max()) for state in trainer.learner.optimizer.state.values()]
        finite = all(bool(p.isfinite().all()) for p in trainer.loss_net.parameters())
        found |= {"scale": scaler.get_scale(), "updates": max(optimizer_steps), "steps": args.max_steps}
        found["loss-net is finite"] = finite
    return found


def command(part: Part, options: argparse.Namespace, folder: str) -> list[str]:
    """The command of a part; its last line of output is JSON, or for F1 the run's `all_results.json` is read."""
    if part.kind == "f1":
        words = ["--dataset", "semeval2018_ec", "--data_dir", options.data_dir, "--output_dir", folder]
        words += ["--model_name_or_path", options.model_name_or_path, f"--{part.precision}", "true", "--seed", "1"]
        words += ["--max_train_rows", "2000", "--report_to", "none"] + (["--loss", "ce"] if part.mode == "ce" else [])
        return [sys.executable, "-m", "seal_hf", "train", "mlc", *words]
    own = [__file__, "--device", options.device, "--part", json.dumps(part)]
    if part.kind == "fsdp2":
        launch = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "1"]
        return [*launch, "--config_file", str(ROOT / "examples/accelerate/fsdp2.yaml"), *own]
    return [sys.executable, *own]


def result(part: Part, options: argparse.Namespace) -> dict[str, Any]:
    """The figures of a part, or why it failed."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(command(part, options, folder), capture_output=True, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return {"failed": f"more than {LIMIT} s"}
        if done.returncode:
            return {"failed": next(iter(done.stderr.strip().splitlines()[-1:]), f"exit status {done.returncode}")}
        if part.kind != "f1":
            return json.loads(done.stdout.strip().splitlines()[-1])
        results = json.loads(Path(folder, "all_results.json").read_text(encoding="utf-8"))
    return {name: results[name] for name in FIGURES if name in results}


def table(measured: dict[str, dict[str, Any]]) -> str:
    """Markdown: a row for each part, its figures in the order in which they were measured."""
    lines = ["| part | figures |", "|---|---|"]
    for name, found in measured.items():
        shown = (f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in found.items())
        lines.append(f"| {name} | {'; '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", help="file of the figures; what is in it is not measured again")
    parser.add_argument("--data_dir", help="folder of named data sets, for F1")
    parser.add_argument("--model_name_or_path", help="folder of MiniLM, for F1")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: tiny nets, to try the parts")
    parser.add_argument("--only", nargs="+", choices=sorted({part.kind for part in parts()}), help="kinds of parts")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(measure(Part(*json.loads(options.part)), options)))
        return
    if options.device == "cuda" and not torch.cuda.is_available():
        print("There is no CUDA device here: nothing is measured. --device cpu tries the parts with tiny nets.")
        return
    file = Path(options.json) if options.json else None
    device = torch.cuda.get_device_name() if options.device == "cuda" else "a CPU and tiny nets: no figures"
    report: dict[str, Any] = {"device": device, **machine(), "measured": {}}
    if file is not None and file.is_file():
        report = json.loads(file.read_text(encoding="utf-8"))
        if report["device"] != device:
            sys.exit(f"{file} has figures of {report['device']}, this is {device}: give another file.")
    for part in parts():
        known = report["measured"].get(part.name, {"failed": ""})
        if "failed" not in known or part.kind not in (options.only or [part.kind]):
            continue
        if reason := why_not(part, options):
            print(f"{part.name}: left out, {reason}.", file=sys.stderr)
            continue
        report["measured"][part.name] = result(part, options)
        print(f"{part.name}: {report['measured'][part.name]}", file=sys.stderr)
        write_json(file, report)
    print(table(report["measured"]))


if __name__ == "__main__":
    main()
