"""The task-net sharded by FSDP2 or DeepSpeed ZeRO-2, the loss-net under DDP: what `test_sharded.py` launches, and runs
itself for the oracle. accelerate shards over GPUs only; here it is told that two gloo processes are some."""

import gc
import os
import sys

import tiny_run
import torch
from accelerate.state import PartialState
from accelerate.utils import DistributedType
from tiny_models import tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModelForSequenceClassification, training_args

from seal_hf import SealForMultiLabel, TensorRows

FSDP = os.environ.get("ACCELERATE_USE_FSDP") == "true"
DEEPSPEED = os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"
CASES = {
    "one micro-batch": dict(loss="regression"),
    "accumulation, shared": dict(loss="regression", encoder="shared", accumulation=2, loss_net_steps=3),
    "ruled": dict(loss="regression", accumulation=2, energy_weight=None, eval_strategy="steps", eval_steps=2),
    "cross-entropy": dict(loss="ce", accumulation=2),
    "bf16": dict(loss="regression", encoder="shared", bf16=True),
    "text": dict(loss="regression", text=True, learning_rate=1e-3, loss_net_learning_rate=1e-3),
}


def let_accelerate_shard_here() -> dict:
    """Returns the arguments that go with it."""
    os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    if FSDP:
        PartialState._prepare_backend = lambda *_: ("gloo", DistributedType.MULTI_GPU)
    if FSDP or DEEPSPEED:
        training_args.is_torch_bf16_gpu_available = lambda: True
        return dict(use_cpu=False, dataloader_pin_memory=False, ddp_backend="gloo" if DEEPSPEED else None)
    return {}


def text_nets(folder):
    """Both nets from one tiny BERT, whose layers and embeddings are sharded each by itself."""
    config = tiny_config("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    torch.manual_seed(5)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)  # writes on one rank
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
    torch.manual_seed(5)
    return SealForMultiLabel.from_pretrained(folder)


def text_rows():
    table, tokenizer = tiny_texts(96), tiny_tokenizer()
    tokenize = dict(batched=True, remove_columns="text")
    return TensorRows(table.map(lambda part: tokenizer(part["text"], padding="max_length", max_length=12), **tokenize))


def make(folder, world, num_rows=tiny_run.ROWS, batch=16, accumulation=1, text=False, **options):
    torch.manual_seed(0)
    rows = text_rows() if text else TensorRows(tiny_run.table().select(range(num_rows)))
    nets = text_nets(f"{folder}/start") if text else None
    os.environ["FSDP_AUTO_WRAP_POLICY"] = "TRANSFORMER_BASED_WRAP" if text else "NO_WRAP"
    os.environ["FSDP_TRANSFORMER_CLS_TO_WRAP"] = "BertLayer"
    options = dict(num_train_epochs=1, **let_accelerate_shard_here()) | options
    batch = batch // accumulation // world
    return tiny_run.make(folder, rows=rows, nets=nets, batch=batch, accumulation=accumulation, **options)[0]


def train(folder, world, resume=None, **options):
    trainer = make(folder, world, **options)
    trainer.train(resume_from_checkpoint=resume)
    kind = "FSDP" if FSDP else "DEEPSPEED" if DEEPSPEED else "NO"
    assert (trainer.accelerator.num_processes, trainer.accelerator.distributed_type.value) == (world, kind)
    os.environ.pop("ACCELERATE_MIXED_PRECISION", None)  # 4.57 leaves it there, for every later run of the process
    log, metrics = trainer.state.log_history[0], trainer.evaluate()
    trainer.save_model(f"{folder}/saved")
    trainer.accelerator.wait_for_everyone()
    nets = SealForMultiLabel.from_pretrained(f"{folder}/saved")  # a plain folder, and the loss-net beside it
    task_net = sum(p.numel() for p in nets.task_net.parameters())
    return {
        "parameters": tiny_run.parameters(nets)[: task_net if trainer.loss_net is None else None],
        "log": {name: value for name, value in log.items() if "loss" in name or "norm" in name or "energy" in name},
        "metrics": {name: value for name, value in metrics.items() if name.endswith(("loss", "_gold", "_output"))},
    }


def error(folder, world, resume=None, **options):
    try:
        make(folder, world, **options).train(resume_from_checkpoint=resume)
    except ValueError as caught:
        return str(caught)
    return "no error"


def run_all(folder, world):
    run = {name: options for name, options in CASES.items() if not (DEEPSPEED and name == "ruled")}
    return {name: train(f"{folder}/{i}", world, **options) for i, (name, options) in enumerate(run.items())}


if __name__ == "__main__":
    gc.freeze()  # a training ends with a collection of garbage, which need not look through what was imported
    world, rank, folder = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]), sys.argv[1]
    results = run_all(folder, world)
    options = dict(dropout=0.3, num_rows=42, accumulation=2, num_train_epochs=3, save_strategy="steps", save_steps=4)
    if FSDP:
        results["whole"] = train(f"{folder}/whole", world, **options)
        results["resumed"] = train(f"{folder}/resumed", world, resume=f"{folder}/whole/checkpoint-4", **options)
        options |= dict(eval_strategy="steps", eval_steps=4, load_best_model_at_end=True, learning_rate=0.1)
        results["best"] = train(f"{folder}/best", world, **options)
    else:
        results["resume"] = error(f"{folder}/whole", world, resume="anywhere")
        results["ruled"] = error(f"{folder}/ruled", world, **CASES["ruled"])
    torch.save(results, f"{folder}/rank{rank}.pt")
    PartialState().destroy_process_group()  # left open, its threads now and then abort a process that ends
