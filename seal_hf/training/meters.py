"""Measurements during training, kept on the device: running means for the log, and a watch for non-finite losses.

Only `drain` and `check`, at logging and before each save, synchronise with the device.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback, TrainingArguments

CONTRASTED = ("energy", "task_net")  # they tell gold from samples
REMEDIES = {
    "loss-net": "`loss_net_learning_rate`, or `learning_rate`, since the loss-net reads the task-net's outputs",
    "task-net": "`learning_rate` or `energy_weight`",
}


class NonFiniteLossError(RuntimeError):
    """A loss or a parameter became NaN or infinite; training stopped before anything was overwritten."""


class EpochClock(TrainerCallback):
    """Seconds of training per epoch, without evaluations and saves at its end, but with those within it. On a CPU, it
    is processor time: other work on the machine does not count."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_epoch_begin(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        self._clock = time.process_time if args.device.type == "cpu" else time.perf_counter
        self._start = self._clock()

    def on_epoch_end(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        self.seconds.append(self._clock() - self._start)

    @property
    def metrics(self) -> dict[str, float]:
        """The median over the epochs."""
        return {"train_seconds_per_epoch": statistics.median(self.seconds)} if self.seconds else {}


class Meters:
    """Running means of device scalars, averaged over the processes when drained."""

    def __init__(self, accelerator: Accelerator):
        self.accelerator = accelerator
        self.sums: dict[str, Tensor] = {}
        self.counts: dict[str, int] = {}
        self.first_bad: dict[str, Tensor] = {}  # phase -> first step with a non-finite loss, else infinity

    def add(self, **values: Tensor) -> None:
        """Add one observation of each named quantity, or a tensor of several."""
        for name, value in values.items():
            total = value.detach().float().sum()
            self.sums[name] = self.sums[name] + total if name in self.sums else total
            self.counts[name] = self.counts.get(name, 0) + value.numel()

    def restore(self, metered: Mapping[str, tuple[float, int]]) -> None:
        """Go on from sums and counts, by name, of before a checkpoint."""
        self.sums |= {name: torch.tensor(total, device=self.accelerator.device) for name, (total, _) in metered.items()}
        self.counts |= {name: count for name, (_, count) in metered.items()}

    def __contains__(self, name: str) -> bool:
        """True if the quantity was observed since the last `drain`."""
        return name in self.sums

    def watch(self, phase: str, loss: Tensor, step: int) -> None:
        """Remember, on the device, the first step at which this phase's loss was not finite."""
        loss = loss.detach().float()
        bad = torch.where(loss.isfinite(), torch.full_like(loss, float("inf")), torch.full_like(loss, float(step)))
        self.first_bad[phase] = torch.minimum(self.first_bad[phase], bad) if phase in self.first_bad else bad

    def drain(self) -> dict[str, float]:
        """Return the means since the last call, over all processes, and start anew."""
        if not self.sums:
            return {}
        names = sorted(self.sums)
        means = torch.stack([self.sums[name] / self.counts[name] for name in names])
        means = self.accelerator.reduce(means, reduction="mean").tolist()
        self.sums, self.counts = {}, {}
        return dict(zip(names, means, strict=True))

    def check(self, nets: Mapping[str, nn.Module | None] | None = None) -> None:
        """Stop if a loss was not finite, or if a trained parameter of the named nets is not.

        Raises:
            NonFiniteLossError: on every process; names the phase and the step.
        """
        phases = sorted(self.first_bad)
        if phases:
            bad = torch.stack([-self.first_bad[phase] for phase in phases]).unsqueeze(0)
            first = (-self.accelerator.gather(bad).max(0).values).tolist()
            step, phase = min(zip(first, phases, strict=True))  # in a step, the loss-net's phase comes first
            if step != float("inf"):
                remedy = REMEDIES.get(phase, "`learning_rate`")
                begun = " at the weights and settings that the run began with," if step == 0 else ""
                raise NonFiniteLossError(
                    f"The loss of the {phase} phase is NaN or infinite, first at step {int(step) + 1}. "
                    "Training stopped; checkpoints written before are untouched. Look at the data of that step,"
                    f"{begun} or lower {remedy}."
                )
        for name, net in (nets or {}).items():
            trained = [_own_part(p) for p in net.parameters() if p.requires_grad] if net is not None else []
            if not trained:
                continue
            finite = torch.stack([part.isfinite().all() for part in trained]).all()
            if self.accelerator.gather((~finite).float().unsqueeze(0)).sum().item() > 0:
                raise NonFiniteLossError(
                    f"A parameter of the {name} is NaN or infinite. Training stopped before saving; "
                    "checkpoints written before are untouched. Lower the learning rate or set a gradient norm."
                )


def contrasts(means: dict[str, float]) -> dict[str, float]:
    """The figures of an evaluation, with `energy_auc` and `task_net_auc` in place of counts of samples."""
    facts = dict(means)
    samples, orders = facts.pop("contrasted", 0.0), [facts.pop(f"{net}_order", 0.0) for net in CONTRASTED]
    if samples:
        facts |= {f"{net}_auc": order / samples for net, order in zip(CONTRASTED, orders, strict=True)}
    return facts


def _own_part(parameter: Tensor) -> Tensor:
    """This process's part of a parameter: its shard under FSDP2, else the whole."""
    return parameter.to_local() if isinstance(parameter, DTensor) else parameter
