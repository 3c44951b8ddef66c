"""A tiny training run, for tests of the trainer."""

import torch
from datasets import Dataset
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback

from seal_hf import SealForMultiLabel, SealTrainer, SealTrainingArguments, TensorRows

ROWS, FEATURES, LABELS = 96, 20, 6


class Names:
    """What `SealForMultiLabel.for_data` reads of a data set."""

    name, kind, num_features, label_names, scaling = "tiny", "features", FEATURES, list("abcdef"), None


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
    """λ1 is 1; the rule chooses it with `energy_weight=None`."""
    defaults = dict(num_train_epochs=3, learning_rate=1e-2, loss_net_learning_rate=1e-2, logging_steps=2)
    defaults |= dict(energy_weight=1.0)
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


def extension(trainer):
    """The one that this trainer's run has."""
    (found,) = trainer.extensions
    return found
