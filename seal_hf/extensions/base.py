"""The interface of an extension: more candidates for the loss-net, and a further term in either loss."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor
from transformers import PreTrainedModel

from ..energy_losses import EnergyLoss
from ..second_net.learner import Learner
from ..second_net.loss_net import LossNet
from ..spaces import OutputSpace


@dataclass
class MicroBatch:
    """What a step knows of one micro-batch.

    Attributes:
        inputs: what an encoder takes.
        labels: as the data have them.
        space: the output space, with what it needs to know of this micro-batch.
        logits: the task-net's, (B, ...): detached in the loss-net's phase, with their graph in the task-net's.
        features: the loss-net's, (B, H) or of tokens (B, T, H), where it does not compute them itself.
        noise: update -> the generator of its random numbers, in the same state at every call.
        augmented: logits of the cost-augmented network, of the shape of `logits`.
        function: φ -> logits, for implicit gradients.
    """

    inputs: dict[str, Tensor]
    labels: Tensor
    space: OutputSpace
    logits: Tensor
    features: Any
    noise: Callable[[int], torch.Generator]
    augmented: Tensor | None = None
    function: Any = None


@dataclass
class Run:
    """The parts of a run, when it begins, from which an extension is made.

    Attributes:
        args: [`SealTrainingArguments`].
        task_net, loss_net: the raw nets.
        meters: takes what the log is to say, see `Meters.add`.
        forward_context: returns a function that gives the context of a forward of the task-net outside of the Trainer's
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
    forward_context: Callable[[], Any]


class Extension:
    """Base class. It adds nothing to a step; a subclass overrides what it changes.

    Attributes:
        reads_hidden_states: True if the task-net must return its hidden states.
        differentiates_twice: True if it takes second derivatives of the energy.
    """

    reads_hidden_states = False
    differentiates_twice = False

    @classmethod
    def is_wanted(cls, args: Any, energy_loss: EnergyLoss | type[EnergyLoss], space: OutputSpace) -> bool:
        """True if a run of these arguments has the extension. Of the energy loss it reads attributes of the class."""
        return False

    @classmethod
    def of_run(cls, run: Run) -> Extension:
        """The extension of a run that begins."""
        return cls()

    # --- the loss-net's phase ----------------------------------------------------------------------------------------

    def watching(self) -> contextlib.AbstractContextManager:
        """Context of every forward of the task-net by the trainer, evaluation included."""
        return contextlib.nullcontext()

    def prepare(self, batch: MicroBatch, outputs: Any) -> MicroBatch:
        """The micro-batch with what the extension adds to it, once a step, after the task-net's forward that gave
        `outputs`."""
        return batch

    def begin_update(self, window: list[MicroBatch], update: int, energy_weight: float) -> list[MicroBatch]:
        """The window as update number `update` of the loss-net sees it. `energy_weight` is λ1 of this step."""
        return window

    def columns(self, batch: MicroBatch) -> list[Any]:
        """More candidates for the loss-net, (B, n, ...) each."""
        return []

    def loss_net_term(self, batch: MicroBatch, energies: Tensor, loss: Tensor) -> Tensor | float:
        """What joins the energy loss `loss`, from the energies (B, N) of the extension's own columns: scalar."""
        return 0.0

    def end_phase(self) -> None:
        """Forget what only this phase of the loss-net needed."""

    # --- the task-net's phase ----------------------------------------------------------------------------------------

    def task_net_term(
        self,
        batch: MicroBatch,
        outputs: Any,
        energies_of: Callable[[Any, Tensor | None], Tensor],
        num_batches: int,
        is_last: bool,
    ) -> Tensor | float:
        """What joins the task-net's loss on one micro-batch: scalar.

        Args:
            batch: with the graph of its logits.
            outputs: the task-net's.
            energies_of: candidates (B, S, ...) and mask -> energies (B, S) of the frozen loss-net.
            num_batches: micro-batches of this update.
            is_last: True if the task-net is updated after this one.
        """
        return 0.0

    # --- a run -------------------------------------------------------------------------------------------------------

    def read_log(self, facts: dict[str, float]) -> None:
        """Look at what was metered since the last log."""

    def closing_facts(self) -> dict[str, float]:
        """What the log at the end of a run says."""
        return {}

    @classmethod
    def check_resumable(cls, args: Any, folder: str | Path) -> None:
        """Raise ValueError where a run of these arguments cannot go on from a checkpoint, before anything is loaded."""

    def save(self, folder: str | Path) -> None:
        """Write to a checkpoint what a run needs to go on."""

    def load(self, folder: str | Path) -> None:
        """Read what `save` wrote."""
