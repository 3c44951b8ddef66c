"""The interface of an extension: more candidates for the loss-net, and a further term in each loss; and the smallest
one, samples from perturbed inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor
from transformers import PreTrainedModel

from ..core.space import OutputSpace
from ..core.tensors import perturbed
from ..energy_losses import EnergyLoss
from ..loss_net.energy_weight import EnergyWeight
from ..loss_net.learner import Learner
from ..loss_net.loss_net import LossNet
from ..utils.modules import keeping_statistics


@dataclass
class MicroBatch:
    """The data of one micro-batch in a step.

    Attributes:
        inputs: the inputs of an encoder.
        labels: as in the data.
        space: the output space, prepared for this micro-batch.
        logits: the task-net's, (B, ...): detached in the loss-net's phase, with their graph in the task-net's.
        features: the loss-net's, (B, H) or for tokens (B, T, H), if it does not compute them itself.
        noise: update -> the generator of its random numbers, in the same state at every call.
        augmented: logits of the cost-augmented network, in the shape of `logits`.
        logits_of: φ -> logits, for implicit gradients.
    """

    inputs: dict[str, Tensor]
    labels: Tensor
    space: OutputSpace
    logits: Tensor
    features: Any
    noise: Callable[[int], torch.Generator]
    augmented: Tensor | None = None
    logits_of: Any = None


@dataclass
class Run:
    """The parts of a starting run from which an extension is made.

    Attributes:
        args: [`SealTrainingArguments`].
        task_net, loss_net: the raw nets.
        meters: collects values for the log, see `Meters.add`.
        energy_weight: λ1.
        forward_context: returns a function that gives the context for a forward of the task-net outside the Trainer's
            own.
    """

    args: Any
    accelerator: Accelerator
    task_net: PreTrainedModel
    loss_net: LossNet
    learner: Learner
    space: OutputSpace
    energy_loss: Any
    meters: Any
    energy_weight: EnergyWeight
    forward_context: Callable[[], Any]


class Extension:
    """Base class. It adds nothing to a step; a subclass overrides what it changes.

    Args:
        run: the starting run.

    Attributes:
        reads_hidden_states: True if the task-net must return its hidden states.
        differentiates_twice: True if it takes second derivatives of the energy.
    """

    reads_hidden_states = False
    differentiates_twice = False

    def __init__(self, run: Run):
        self.run = run

    @classmethod
    def is_wanted(cls, args: Any, energy_loss: EnergyLoss | type[EnergyLoss], space: OutputSpace) -> bool:
        """True if a run with these arguments needs the extension. It reads only class attributes of the energy loss."""
        return False

    # --- the loss-net's phase ----------------------------------------------------------------------------------------

    def watching(self) -> contextlib.AbstractContextManager:
        """Context of every forward of the task-net by the trainer, including evaluation."""
        return contextlib.nullcontext()

    def prepare(self, batch: MicroBatch, outputs: Any) -> MicroBatch:
        """The micro-batch with the extension's additions; called once per step, after the task-net's forward that gave
        `outputs`."""
        return batch

    def begin_update(self, window: list[MicroBatch], update: int, weight: float | None) -> list[MicroBatch]:
        """Return the micro-batches for update number `update` of the loss-net.

        `weight` is λ1 of this step, or None if it is a share of the task loss's pull.
        """
        return window

    def columns(self, batch: MicroBatch) -> list[Any]:
        """More candidates for the loss-net, (B, n, ...) each."""
        return []

    def loss_net_term(self, batch: MicroBatch, energies: Tensor, loss: Tensor) -> Tensor | float:
        """A scalar to add to the energy loss `loss`, from the energies (B, N) of the extension's own columns."""
        return 0.0

    def end_phase(self) -> None:
        """Release everything that only this phase of the loss-net needed."""

    # --- the task-net's phase ----------------------------------------------------------------------------------------

    def task_net_term(
        self,
        batch: MicroBatch,
        outputs: Any,
        energies_of: Callable[[Any, Tensor | None], Tensor],
        num_batches: int,
        is_last: bool,
    ) -> Tensor | float:
        """A scalar to add to the task-net's loss on one micro-batch.

        Args:
            batch: with the graph of its logits.
            outputs: the task-net's.
            energies_of: candidates (B, S, ...) and mask -> energies (B, S) of the frozen loss-net.
            num_batches: micro-batches of this update.
            is_last: True if the task-net is updated after this micro-batch.
        """
        return 0.0

    # --- a run -------------------------------------------------------------------------------------------------------

    def read_log(self, facts: dict[str, float]) -> None:
        """Read the values metered since the last log."""

    def closing_facts(self, logged: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """Values to log at the end of a run.

        Args:
            logged: all that the run has logged, also before a resume.
        """
        return {}

    @classmethod
    def check_resumable(cls, args: Any, folder: str | Path) -> None:
        """Raise ValueError if a run with these arguments cannot resume from a checkpoint; nothing is loaded yet."""

    def save(self, folder: str | Path) -> None:
        """Write to a checkpoint everything that a resume needs."""

    def load(self, folder: str | Path) -> None:
        """Read what `save` wrote."""


class PerturbedInputs(Extension):
    """Samples from perturbed inputs: gives the task-net's own outputs at noisy copies of each input to a space that
    `samples_from_inputs`."""

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
