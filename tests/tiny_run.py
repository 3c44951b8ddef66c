"""A tiny training run, for tests of the trainer; also a program that two processes run."""

import os
import sys

import torch
from datasets import Dataset
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback

from seal_hf import SealForMultiLabel, SealTrainer, SealTrainingArguments, TensorRows

ROWS, FEATURES, LABELS = 96, 20, 6


class Names:
    """What `SealForMultiLabel.for_data` reads of a data set."""

    name, kind, num_features, label_names = "tiny", "features", FEATURES, list("abcdef")


class StopAt(TrainerCallback):
    """Stops the run after a step, as a user's interrupt would, but reproducibly."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step >= self.step


def table(rows=ROWS):
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(rows, FEATURES, generator=generator)
    labels = (features @ torch.randn(FEATURES, LABELS, generator=generator) > 0.5).float()
    return Dataset.from_dict({"features": features.numpy(), "labels": labels.numpy()})


def model(encoder="separate", dropout=0.0):
    """Both nets, with parameters that do not depend on how a transformers line draws them."""
    nets = SealForMultiLabel.for_data(Names, hidden_size=16, dropout=dropout, loss_net_encoder=encoder)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in nets.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return nets


def arguments(folder, loss="nce", encoder="separate", batch=16, accumulation=1, **options):
    defaults = dict(num_train_epochs=3, learning_rate=1e-2, loss_net_learning_rate=1e-2, logging_steps=2)
    return SealTrainingArguments(
        output_dir=str(folder),
        energy_loss=loss,
        loss_net_encoder=encoder,
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=accumulation,
        **{**defaults, **dict(save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True), **options},
    )


def make(folder, loss="nce", encoder="separate", dropout=0.0, rows=None, callbacks=None, nets=None, **options):
    nets = nets or model(encoder, dropout)
    args = arguments(folder, loss, encoder, **options)
    rows = rows if rows is not None else TensorRows(table())
    trainer = SealTrainer(nets, args, train_dataset=rows, eval_dataset=rows, callbacks=callbacks)
    trainer.remove_callback(PrinterCallback)
    return trainer, nets


def run(folder, resume=None, stop=None, **options):
    """Train; all parameters of both nets, task-net first, and the trainer."""
    torch.manual_seed(0)
    trainer, nets = make(folder, callbacks=[StopAt(stop)] if stop else None, **options)
    trainer.train(resume_from_checkpoint=resume)
    return parameters(nets), trainer


def parameters(nets):
    nets = (nets.task_net, nets.loss_net)
    return torch.cat([p.detach().flatten() for net in nets for p in net.parameters()])


# accumulation, batch repeats: what one process and two processes must do alike; 16 rows per task-net update
LAUNCHED = [(1, 1), (2, 1), (2, 2)]


def main(folder):
    """Run by each process of a launch: trains each combination, writes the parameters it ends with."""
    world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    for encoder in ("separate", "shared"):  # with a smooth loss: a hinge at its kink turns rounding into differences
        for accumulation, repeats in LAUNCHED:
            batch = 16 // accumulation // world
            options = dict(
                loss="regression", encoder=encoder, batch=batch, accumulation=accumulation, batch_repeats=repeats
            )
            values, trainer = run(folder, **options)
            assert trainer.args.world_size == world
            torch.save(values, f"{folder}/{encoder}-{accumulation}-{repeats}-of{world}-rank{rank}.pt")
    uneven, _ = run(folder, loss="nce", rows=TensorRows(table(37)), batch=4, num_train_epochs=1)
    assert uneven.isfinite().all()
    torch.save(uneven, f"{folder}/uneven-of{world}-rank{rank}.pt")
    full, _ = run(folder, dropout=0.3, batch=8, num_train_epochs=1)
    run(folder, dropout=0.3, batch=8, num_train_epochs=1, save_strategy="steps", save_steps=3, stop=3)
    if "--resume" in sys.argv:
        resumed, _ = run(folder, dropout=0.3, batch=8, num_train_epochs=1, resume=f"{folder}/checkpoint-3")
        assert torch.equal(full, resumed), (full - resumed).abs().max()


if __name__ == "__main__":
    main(sys.argv[1])
