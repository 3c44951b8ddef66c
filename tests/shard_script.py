"""Task-net sharded by FSDP2 or DeepSpeed ZeRO-2, loss-net under DDP: what `test_sharded.py` launches, and runs itself for
the oracle. accelerate shards on GPUs only; two gloo processes stand in for them here."""

import os
import sys

import tiny_run
import torch
from accelerate.state import PartialState
from accelerate.utils import DistributedType, gather_object
from tiny_models import tiny_config, tiny_inputs
from transformers import AutoModelForSequenceClassification

from seal_hf import SealForMultiLabel

FSDP = os.environ.get("ACCELERATE_USE_FSDP") == "true"
DEEPSPEED = os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"
CASES = {
    "one micro-batch": dict(loss="regression"),
    "accumulation, shared": dict(loss="regression", encoder="shared", accumulation=2, loss_net_steps=3),
    "cross-entropy": dict(loss="ce", accumulation=2),
    "bf16": dict(loss="regression", bf16=True),
    "uneven, dropout, samples": dict(dropout=0.3, num_rows=42, accumulation=2),
}


def let_accelerate_shard_on_cpu():
    os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    if FSDP:
        PartialState._prepare_backend = lambda *_: ("gloo", DistributedType.MULTI_GPU)


def options_here(world, batch=16, accumulation=1, **options):
    if FSDP or DEEPSPEED:
        options |= dict(use_cpu=False, dataloader_pin_memory=False)
        options |= dict(ddp_backend="gloo") if DEEPSPEED else {}
    return dict(batch=batch // accumulation // world, accumulation=accumulation, num_train_epochs=2, **options)


def saved(trainer, folder):
    """What a plain `from_pretrained` of the saved folder gives: parameters of both nets."""
    trainer.save_model(folder)
    trainer.accelerator.wait_for_everyone()
    if trainer.loss_net is None:
        return tiny_run.parameters(SealForMultiLabel.from_pretrained(folder).task_net)
    return tiny_run.parameters(SealForMultiLabel.from_pretrained(folder))


def train(folder, world, resume=None, num_rows=96, **options):
    torch.manual_seed(0)
    rows = tiny_run.TensorRows(tiny_run.table(96).select(range(num_rows)))
    trainer, _ = tiny_run.make(folder, rows=rows, **options_here(world, **options))
    trainer.train(resume_from_checkpoint=resume)
    kinds = {FSDP: "FSDP", DEEPSPEED: "DEEPSPEED"}
    assert trainer.accelerator.num_processes == world
    assert trainer.accelerator.distributed_type.value == kinds.get(True, "NO")
    os.environ.pop("ACCELERATE_MIXED_PRECISION", None)
    metrics = trainer.evaluate()
    return {
        "parameters": saved(trainer, f"{folder}/saved"),
        "log": {name: value for name, value in trainer.state.log_history[0].items() if "loss" in name or "norm" in name},
        "eval_loss": metrics["eval_loss"],
    }


def run_all(folder, world):
    return {name: train(f"{folder}/{i}", world, **options) for i, (name, options) in enumerate(CASES.items())}
