"""Measurements during training, kept on the device: running means for the log, and a watch for non-finite losses; and
the figures that go through a checkpoint.

Only `drain` and `check`, at logging and before each save, synchronise with the device.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback, TrainingArguments

from ..utils.files import json_object

if TYPE_CHECKING:
    from transformers import Trainer

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
        """Continue from the sums and counts, by name, that were kept with a checkpoint."""
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


# Figures that go through a checkpoint: the sum of all losses, what is metered and not logged yet, and the seconds. A
# resumed run goes on with them. So it logs what the uninterrupted run logs, and its `train_loss` covers all steps.


FIGURES = "_figures.json"  # in a checkpoint; older ones lack it
REMEDY = "Take another checkpoint."


class CarriedFigures:
    """The figures of one run, which also count what came before a resume.

    Args:
        checkpoint: the folder from which the run resumes, if any.

    Raises:
        ValueError: its file of figures is damaged.
    """

    def __init__(self, checkpoint: str | None = None):
        file = None if checkpoint is None else Path(checkpoint, FIGURES)
        self.earlier = _read(file) if file is not None and file.is_file() else None
        self.begun = time.time()
        self.loss: Tensor | None = None  # the Trainer's sum since its last log, of this process, after the first step

    def metered(self, args: Any) -> dict[str, tuple[float, int]]:
        """Name -> sum and count of what this process metered before the checkpoint."""
        found = self.earlier["metered"].items() if self.earlier is not None else ()
        return {name: (_own(values, args), count) for name, (values, count) in found}

    def see_loss(self, loss: Tensor, args: Any) -> tuple[float, int] | None:
        """Take the loss after each step, before its log. The first call adds the losses before the checkpoint.

        Args:
            loss: the Trainer's sum since the last log, a scalar, which is changed in place.

        Returns:
            the first time in a resumed run, the sum of all logged losses before the checkpoint and the step of the last
            log; else None.
        """
        earlier, self.loss = self.earlier if self.loss is None else None, loss
        if earlier is None:
            return None
        loss += _own(earlier["loss"], args)
        return earlier["total_loss"], earlier["logged_step"]

    def write(self, trainer: Any, folder: Path) -> None:
        """Write all figures to a checkpoint; called in every process."""
        loss, sums = (
            torch.zeros((), device=trainer.args.device) if self.loss is None else self.loss,
            trainer.meters.sums,
        )
        values = torch.stack([value.float() for value in (loss, *sums.values())])
        losses, *metered = trainer.accelerator.gather(values.unsqueeze(0)).T.tolist()  # of each, (processes,)
        if not trainer.args.should_save:
            return
        figures = {
            "logged_step": trainer._globalstep_last_logged,
            "total_loss": trainer._total_loss_scalar,
            "loss": losses,
            "metered": {n: (v, trainer.meters.counts[n]) for n, v in zip(sums, metered, strict=True)},
            "seconds": self.seconds,
        }
        Path(folder, FIGURES).write_text(json.dumps(figures) + "\n", encoding="utf-8")

    @property
    def seconds(self) -> float:
        """The seconds that the run has taken, without those that were lost when it was killed."""
        return time.time() - self.begun + (self.earlier["seconds"] if self.earlier is not None else 0.0)

    def closing(self, trainer: Trainer, logs: dict[str, float]) -> dict[str, float]:
        """The figures of the Trainer's closing log that cover all of a resumed run."""
        if self.earlier is None:
            return {}
        steps, args, loader = trainer.state.global_step, trainer.args, trainer.callback_handler.train_dataloader
        rows: float = steps * trainer.get_total_train_batch_size(args)
        if args.max_steps <= 0:
            rows = trainer.num_examples(loader) * args.num_train_epochs * steps / trainer.state.max_steps
        seconds = logs["train_runtime"] + self.earlier["seconds"]
        return {
            "train_loss": trainer._total_loss_scalar / steps,
            "train_runtime": round(seconds, 4),
            "train_samples_per_second": round(rows / seconds, 3),
            "train_steps_per_second": round(steps / seconds, 3),
        }


def _read(file: Path) -> dict[str, Any]:
    found = json_object(file, REMEDY)
    try:
        metered = {str(n): ([float(v) for v in values], int(count)) for n, (values, count) in found["metered"].items()}
        numbers = {name: float(found[name]) for name in ("total_loss", "seconds")}
        loss = [float(value) for value in found["loss"]]
        if not all([loss, *(values for values, _ in metered.values())]):
            raise ValueError("a figure has no values")
        return {"metered": metered, "loss": loss, "logged_step": int(found["logged_step"]), **numbers}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"{file} does not hold the figures of a run: {error!r}. {REMEDY}") from error


def _own(values: list[float], args: Any) -> float:
    """The value of this process; if there were more or fewer processes, the mean of them."""
    return values[args.process_index] if len(values) == args.world_size else statistics.fmean(values)
