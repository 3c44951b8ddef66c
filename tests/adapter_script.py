"""A run with two adapters on one base, alike in one process and in two: `test_adapters.py` runs it both ways."""

import gc
import os
import sys

import torch
from accelerate import PartialState
from tiny_models import tiny_arguments, tiny_texts, tiny_tokenizer

from seal_hf import SealForMultiLabel, SealTrainer, tokenize


def train(base, mode, folder, world):
    """The parameters that were trained, by name."""
    torch.manual_seed(0)
    seal = SealForMultiLabel.from_pretrained(base, loss_net_encoder=mode, num_labels=4)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in [*seal.task_net.parameters(), *seal.loss_net.parameters()]:
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    args = tiny_arguments(
        folder,
        loss_net_encoder=mode,
        energy_loss="regression",  # draws nothing: ranks would draw differently
        per_device_train_batch_size=8 // world // 2,
        gradient_accumulation_steps=2,
        gradient_checkpointing=world == 2,  # which changes nothing either
        learning_rate=1e-2,
        loss_net_learning_rate=1e-2,
    )
    rows = tokenize(tiny_texts(32), tiny_tokenizer(), max_length=8)
    trainer = SealTrainer(seal, args, train_dataset=rows)
    trainer.train()
    assert trainer.args.world_size == world
    task = {name: p.detach().clone() for name, p in seal.task_net.named_parameters() if p.requires_grad}
    return {**task, **{f"loss-net {name}": p.detach().clone() for name, p in seal.loss_net.named_parameters()}}


if __name__ == "__main__":
    gc.freeze()  # a training ends with a collection of garbage, which need not look through what was imported
    base, mode, folder = sys.argv[1:]
    torch.save(train(base, mode, folder, 2), f"{folder}/rank{os.environ['RANK']}.pt")
    PartialState().destroy_process_group()  # left open, its threads now and then abort a process that ends
