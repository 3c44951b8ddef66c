"""Energies of the few rows that a page shows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...models.kinds import kind_of
from ...nets.feature_cache import FEATURES
from ...nets.frozen_encoder import OUTPUTS
from ...training.base import encoder_inputs
from ...training.launchers import SHARDED


def has_energies(trainer: Any) -> bool:
    """True if the main process alone can compute energies: there is a loss-net, and the task-net is not sharded."""
    return trainer.loss_net is not None and trainer.accelerator.distributed_type not in SHARDED


@torch.no_grad()
def energies(trainer: Any, batch: dict[str, Tensor], y: Tensor, mask: Tensor | None = None) -> list[list[float]] | None:
    """The energies of candidates, B rows of S numbers; None if a cache has replaced the inputs of the rows.

    Args:
        trainer: a [`SealTrainer`] for which [`has_energies`] is True.
        batch: rows as the nets read them.
        y: candidates (B, S, ...).
        mask: (B, ...) positions that count.
    """
    if OUTPUTS in batch or FEATURES in batch:
        return None
    model, device = trainer.accelerator.unwrap_model(trainer.model), trainer.args.device
    kind: Any = kind_of(model, trainer.space)
    both = kind(model, trainer.loss_net)
    inputs = {name: column.to(device) for name, column in encoder_inputs(batch).items()}
    modes = {net: net.training for net in (model, trainer.loss_net)}
    both.eval()
    with trainer.accelerator.autocast():
        found = both.energy(y.to(device), None if mask is None else mask.to(device), **inputs)
    for net, was_training in modes.items():
        net.train(was_training)
    return found.double().tolist()
