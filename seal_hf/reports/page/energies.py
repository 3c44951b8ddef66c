"""Energies of the few rows that a page shows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...loss_net.loss_net import LossNet
from ...nets.feature_cache import FEATURES
from ...nets.frozen_encoder import OUTPUTS
from ...saving.model import kind_of
from ...training.base import encoder_inputs
from ...training.launchers import SHARDED
from ...utils.modules import in_evaluation


def has_energies(trainer: Any) -> bool:
    """True if the main process alone can compute energies: there is a loss-net, and the task-net is not sharded."""
    there = getattr(trainer, "loss_net", None) is not None or _is_alone(trainer)
    return there and trainer.accelerator.distributed_type not in SHARDED


@torch.no_grad()
def energies(trainer: Any, batch: dict[str, Tensor], y: Tensor, mask: Tensor | None = None) -> list[list[float]] | None:
    """The energies of candidates, B rows of S numbers; None if a cache has replaced the inputs of the rows.

    Args:
        trainer: of which [`has_energies`] is True.
        batch: rows as the nets read them.
        y: candidates (B, S, ...).
        mask: (B, ...) positions that count; None: all count.
    """
    if OUTPUTS in batch or FEATURES in batch:
        return None
    model, loss_net = trainer.accelerator.unwrap_model(trainer.model), getattr(trainer, "loss_net", None)
    inputs = {name: column.to(trainer.args.device) for name, column in encoder_inputs(batch).items()}
    given = y.to(trainer.args.device), None if mask is None else mask.to(trainer.args.device)
    kind: Any = kind_of(model, trainer.space)
    with in_evaluation(model), in_evaluation(loss_net or model), trainer.accelerator.autocast():
        found = model(*given, inputs) if _is_alone(trainer) else kind(model, loss_net).energy(*given, **inputs)
    return found.double().tolist()


def _is_alone(trainer: Any) -> bool:
    """True for the trainer of an energy network."""
    return isinstance(trainer.accelerator.unwrap_model(trainer.model), LossNet)
