"""Tiny runs of an energy network, for tests of its trainer; and those that one process and two must do alike, which are
among the runs of `train_script.py`."""

import tiny_run
import torch
from transformers.trainer_callback import PrinterCallback

from seal_hf import EnergyTrainer, EnergyTrainingArguments, SealForMultiLabel, TensorRows

CASES = {
    "spen": dict(energy_method="spen", per_device_train_batch_size=16),
    "dvn, accumulation": dict(energy_method="dvn", per_device_train_batch_size=8, gradient_accumulation_steps=2),
}


def network(dropout=0.0):
    """An energy network with parameters that do not depend on how a transformers line draws them."""
    net = SealForMultiLabel.for_data(tiny_run.Names, hidden_size=16, dropout=dropout).loss_net
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    return net


def make(folder, net, rows, callbacks=None, **options):
    """A short, silent run on the CPU."""
    given = {name: options.pop(name) for name in ("task_net", "space", "compute_metrics") if name in options}
    defaults = dict(num_train_epochs=3, learning_rate=1e-2, logging_steps=2, per_device_train_batch_size=16)
    quiet = dict(save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True)
    args = EnergyTrainingArguments(output_dir=str(folder), **{**defaults, **quiet, **options})
    trainer = EnergyTrainer(net, args, train_dataset=rows, eval_dataset=rows, callbacks=callbacks, **given)
    trainer.remove_callback(PrinterCallback)
    return trainer


def run_all(folder, world):
    """Parameters, and energies and loss of an evaluation of 42 rows, each counted once, by case."""
    results = {}
    for name, options in CASES.items():
        options = {**options, "per_device_train_batch_size": options["per_device_train_batch_size"] // world}
        steps = dict(
            num_train_epochs=1,
            inference_steps=3,
            inference_steps_eval=3,
            inference_start="zeros",
            max_grad_norm=1.0,
            optim="sgd",
        )
        net = network()
        trainer = make(folder, net, TensorRows(tiny_run.table()), **steps, **options, per_device_eval_batch_size=4)
        trainer.train()
        assert trainer.args.world_size == trainer.accelerator.num_processes == world
        metrics = trainer.evaluate(TensorRows(tiny_run.table(42)))
        parameters = torch.cat([p.detach().flatten() for p in net.parameters()])
        energies = {key: value for key, value in metrics.items() if "energy" in key or key == "eval_loss"}
        results[name] = {"parameters": parameters, "energies": energies}
    return results
