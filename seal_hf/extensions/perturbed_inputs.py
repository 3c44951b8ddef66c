"""Samples from perturbed inputs: the task-net's own structures at noisy copies of each input."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..core.space import OutputSpace
from ..energy_losses import EnergyLoss
from ..utils.modules import keeping_statistics
from ..utils.tensors import perturbed
from .base import Extension, MicroBatch


class PerturbedInputs(Extension):
    """Gives the task-net's outputs at perturbed inputs to a space that `samples_from_inputs`."""

    @classmethod
    def is_wanted(cls, args: Any, energy_loss: EnergyLoss | type[EnergyLoss], space: OutputSpace) -> bool:
        return space.samples_from_inputs

    def prepare(self, batch: MicroBatch, outputs: Any) -> MicroBatch:
        return replace(batch, space=batch.space.proposing(partial(self._logits, batch)))

    @torch.no_grad()
    def _logits(self, batch: MicroBatch, num_samples: int, noise: torch.Generator) -> Tensor:
        """The task-net's logits at K noisy copies of each input, in its current mode, by one forward: (B, K, ...)."""
        run = self.run
        inputs = perturbed(batch.inputs, num_samples, run.args.input_noise_std, noise)
        with keeping_statistics(run.task_net), run.forward_context()():
            logits = run.task_net(**inputs).logits
        logits = run.space.fit(logits, batch.labels.repeat_interleave(num_samples, 0))
        return logits.unflatten(0, (-1, num_samples))
