"""The runs that one process and two must do alike: `test_distributed.py` calls `run_all` itself, and launches this file
as a program that writes what each rank ends with: FOLDER, then the cases to run."""

import gc
import os
import sys

import tiny_energy
import tiny_images
import tiny_masks
import tiny_run
import tiny_tags
import torch
from accelerate import PartialState

from seal_hf import (
    CNNConfig,
    CNNForImageClassification,
    FlipAndCrop,
    ImageRows,
    MaskRows,
    NonFiniteLossError,
    SealForMultiLabel,
    TensorRows,
)

ROWS, ROWS_PER_UPDATE = 48, 16
CASES = {
    "one micro-batch": dict(loss="regression"),
    "accumulation": dict(loss="regression", encoder="shared", accumulation=2, loss_net_steps=3),
    "balanced": dict(loss="regression", energy_weight_balance=True, energy_weight_schedule="rise"),
    "ruled": dict(loss="regression", energy_weight=None, eval_strategy="steps", eval_steps=2, accumulation=2),
    "cross-entropy": dict(loss="ce", accumulation=2),
    "stacked": dict(loss="infnet_plus", accumulation=2),
    "cost-augmented, shared": dict(loss="infnet_plus", cost_augmented_network="shared", loss_net_every=2),
    "separated": dict(loss="infnet_plus", cost_augmented_network="separated", cost_augmented_task_weight=1.0),
    "sparse labels": dict(loss="margin", accumulation=2, loss_net_steps=2, sparse_labels_from=1, relaxed_mass=1.0),
    "repeats": dict(loss="regression", accumulation=2, batch_repeats=2),
    "repeats, uneven": dict(loss="regression", batch_repeats=2, num_rows=42),
    "a short window, uneven": dict(loss="regression", accumulation=2, num_rows=40),  # of one micro-batch, not two
    "implicit, head": dict(loss="regression", accumulation=2, loss_net_steps=2, hypergradient="cg"),
    "implicit, all": dict(loss="regression", hypergradient="neumann", hypergradient_parameters="all"),
    "weights, unknown labels": dict(loss="ce", task_loss="soft_f1", accumulation=2, pos_weight="sqrt", weighed=True),
    "bf16": dict(loss="regression", bf16=True),
}


def numbered(num_rows=ROWS, weighed=False):
    """The tiny data with the number of each row in a column that the nets ignore. `weighed`: rows have weights, and
    some labels are unknown."""
    rows = TensorRows(tiny_run.table().select(range(num_rows)).add_column("row", range(num_rows)))
    if weighed:
        rows.dense["sample_weight"] = torch.linspace(0, 2, num_rows)
        rows.dense["labels"][::3, 1] = -1
    return rows


def record_rows(net):
    """A list that takes the row numbers of every forward with gradient, one list per micro-batch."""
    seen = []

    def before_forward(module, args, inputs):
        if module.training and torch.is_grad_enabled():
            seen.append(inputs["row"].tolist())

    net.register_forward_pre_hook(before_forward, with_kwargs=True)
    return seen


def record_samples(net):
    """A list that takes the samples among the candidates of every loss-net update: (B, K, L) each."""
    seen = []

    def before_forward(module, args, inputs):
        if args[0].shape[1] > 2:
            seen.append(args[0][:, 2:])

    net.register_forward_pre_hook(before_forward, with_kwargs=True)
    return seen


def train(folder, world, num_rows=ROWS, accumulation=1, weighed=False, **options):
    torch.manual_seed(0)
    batch = ROWS_PER_UPDATE // accumulation // world
    options = dict(batch=batch, accumulation=accumulation, num_train_epochs=2, remove_unused_columns=False) | options
    trainer, nets = tiny_run.make(folder, rows=numbered(num_rows, weighed), **options)
    # not where nets are compiled: they would be compiled anew for every row number
    rows = record_rows(nets.task_net) if "torch_compile" not in options else None
    trainer.train()
    for name in ("ACCELERATE_MIXED_PRECISION", "ACCELERATE_DYNAMO_BACKEND"):
        os.environ.pop(name, None)  # 4.57 leaves them there, for every later run of the process
    assert trainer.args.world_size == trainer.accelerator.num_processes == world
    metrics = trainer.evaluate()
    energies = {name: metrics[name] for name in metrics if "energy" in name and not name.endswith("_auc")}  # it draws
    logged = [
        {name: log[name] for name in log if "energy" in name or "loss" in name} for log in trainer.state.log_history
    ]
    return {
        "parameters": tiny_run.parameters(nets),
        "rows": rows,
        "steps": trainer.state.global_step,
        "metrics": {"eval_loss": metrics["eval_loss"], **energies},
        "log": logged[0],
    }


TAGGERS = {
    "tagger": dict(
        energy_loss="infnet_plus",
        cost_augmented_network="shared",
        cost_augmented_task_weight=1.0,
        constrained_decoding=True,
        energy_weight_balance=True,
    ),
    "tagger, implicit": dict(energy_loss="margin", hypergradient="neumann", hypergradient_damping=1.0, max_steps=4),
}


def train_tagger(folder, world, **options):
    """A BiLSTM with a CRF, which the task loss reads outside of any forward, and an F that shares its features."""
    both, rows = tiny_tags.nets("bilstm", None, energy="chain_ge_a", crf=True)
    options |= dict(task_loss="crf", gradient_accumulation_steps=2, per_device_train_batch_size=8 // world)
    trainer = tiny_tags.trainer(folder, both, rows, **options)
    trainer.train()
    further = [p.detach().flatten() for e in trainer.extensions if hasattr(e, "net") for p in e.net.parameters()]
    return {"parameters": torch.cat([tiny_tags.parameters(both), *further])}


def train_masks(folder, world):
    """On crops, which every epoch draws anew: the task-net, and energies."""
    nets, rows = tiny_masks.model(dropout=0.0), MaskRows(tiny_masks.squares(), tiny_masks.CROP)
    options = dict(loss="regression", task_loss="soft_iou", pixel_loss="sum")
    options |= dict(accumulation=2, batch=4 // world, optim="sgd")
    trainer, _ = tiny_masks.make(folder, nets, rows, learning_rate=1e-3, **options)
    trainer.train()
    batch = rows.batch(range(4))
    with torch.no_grad():
        energies = nets.energy(batch["labels"].float(), batch["labels"] < 2, pixel_values=batch["pixel_values"])
    return {"parameters": torch.cat([p.flatten() for p in nets.task_net.parameters()]).detach(), "energies": energies}


def train_images(folder, world):
    """On flips and crops, which every epoch draws anew: both nets."""
    torch.manual_seed(0)
    rows = ImageRows(tiny_images.table(40), tiny_images.processor(), FlipAndCrop())
    task_net = CNNForImageClassification(CNNConfig(hidden_sizes=(4, 8), hidden_size=8, **tiny_images.LABELLED))
    nets = SealForMultiLabel.from_task_net(task_net, loss_net_encoder="shared")
    options = dict(loss="regression", encoder="shared", accumulation=2, batch=4 // world, num_train_epochs=2)
    trainer, _ = tiny_run.make(folder, nets=nets, rows=rows, optim="sgd", **options)
    trainer.train()
    return {"parameters": tiny_run.parameters(nets)}


def samples_of_equal_outputs(folder):
    """The task-net says 1/2 for every label of every row, and stays so: its samples are the noise itself."""
    nets = tiny_run.model()
    torch.nn.init.zeros_(nets.task_net.classifier.weight)
    options = dict(learning_rate=0.0, loss_net_steps=2, accumulation=2, batch=4, max_steps=2)
    trainer, _ = tiny_run.make(folder, nets=nets, **options)
    samples = record_samples(nets.loss_net)
    trainer.train()
    return torch.stack(samples)  # (steps x updates x micro-batches, B, K, L)


def error_of_a_nan(folder, world):
    """One row, so one rank, has a NaN feature: its error message."""
    rows = numbered()
    rows.dense["features"][41, 3] = float("nan")
    trainer, _ = tiny_run.make(folder, rows=rows, batch=16 // world, remove_unused_columns=False)
    try:
        trainer.train()
    except NonFiniteLossError as error:
        return str(error)
    return "no error"


def run_all(folder, world, resume):
    results = {name: train(folder, world, **options) for name, options in CASES.items()}
    results["samples"] = samples_of_equal_outputs(folder)
    results |= {name: train_tagger(folder, world, **options) for name, options in TAGGERS.items()}
    results["masks"] = train_masks(folder, world)
    results["images"] = train_images(folder, world)
    results |= tiny_energy.run_all(folder, world)
    results["nan"] = error_of_a_nan(folder, world)
    # dropout, samples, a last batch that is not whole, and the best checkpoint of three; ranks must stay equal
    options = dict(dropout=0.3, num_rows=37, num_train_epochs=3)
    best = dict(eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True)
    results["best"] = train(folder, world, learning_rate=0.1, **best, **options)
    if world > 1:
        compiled = dict(torch_compile=True, torch_compile_backend="eager")
        results["compiled"] = train(folder, world, **CASES["accumulation"], **compiled)
    results["filled up"] = train(folder, world, loss="regression", num_rows=42)
    if resume:
        options |= dict(save_strategy="steps", save_steps=4)
        for name, more in RESUMED.items():
            results[name] = resumed(f"{folder}/{name}", world, **options, **more)
    return results


RESUMED = {  # in the middle of the second epoch, of 3 and of 6 updates
    "resumed": dict(step=4, accumulation=2),
    "resumed, repeats": dict(step=8, batch_repeats=2),
}


def resumed(folder, world, num_rows, step, accumulation=1, **options):
    """A run as it is, and from one of its checkpoints on: parameters and steps of both."""
    whole = train(f"{folder}/whole", world, num_rows, accumulation, **options)
    torch.manual_seed(1)  # nothing but the checkpoint may bring the noise back
    batch = dict(batch=ROWS_PER_UPDATE // accumulation // world, accumulation=accumulation, remove_unused_columns=False)
    trainer, nets = tiny_run.make(f"{folder}/part", rows=numbered(num_rows), **batch, **options)
    trainer.train(resume_from_checkpoint=f"{folder}/whole/checkpoint-{step}")
    parameters = {"whole": whole["parameters"], "parameters": tiny_run.parameters(nets)}
    return {**parameters, "steps": [whole["steps"], trainer.state.global_step]}


def write(folder, world, rank, cases=(), resume=False):
    """The results of a rank, in a file."""
    if cases:
        results = {name: train(folder, world, **CASES[name]) for name in cases}
    else:
        results = run_all(str(folder), world, resume)
    torch.save(results, f"{folder}/rank{rank}.pt")


if __name__ == "__main__":
    gc.freeze()  # a training ends with a collection of garbage, which need not look through what was imported
    write(sys.argv[1], int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0")), sys.argv[2:])
    PartialState().destroy_process_group()  # left open, its threads now and then abort a process that ends
