"""Figures that go through a checkpoint: the sum of all losses, what is metered and not logged yet, and the seconds. A
resumed run goes on with them. So it logs what the uninterrupted run logs, and its `train_loss` covers all steps."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..utils.files import json_object

FIGURES = "_figures.json"  # in a checkpoint; older ones lack it
REMEDY = "Take another checkpoint."


class CarriedFigures:
    """The figures of one run.

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
        """Called after each step, before its log. The first time, add the losses before the checkpoint.

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
        """Of the run, without what a kill lost."""
        return time.time() - self.begun + (self.earlier["seconds"] if self.earlier is not None else 0.0)

    def closing(self, trainer: Any, logs: dict[str, float]) -> dict[str, float]:
        """The figures of the Trainer's closing log that cover all of a resumed run."""
        if self.earlier is None:
            return {}
        steps, args, loader = trainer.state.global_step, trainer.args, trainer.callback_handler.train_dataloader
        rows = steps * trainer.get_total_train_batch_size(args)
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
