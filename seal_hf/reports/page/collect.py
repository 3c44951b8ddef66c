"""The facts of a run that its page shows and no other file holds: `_report.json` in the output folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ...saving.run_record import plain
from ...training.run_record import record_of
from ...utils.files import whole_file
from ...utils.messages import printable
from ...utils.recorded import command_line, recorded
from ..card_facts import versions
from ..common import PAGE, REPORT
from .plots import has_matplotlib
from .run import write_page

COMPLETE = "complete"
NO_PLOTS = "report.html is not written: it needs matplotlib. pip install 'seal_hf[plot]', then: {}"


@contextmanager
def reported(trainer: Any, facts: Mapping[str, Any], page: bool = True) -> Iterator[None]:
    """Inside, a program trains and closes its run. At the end, also that of an interrupted run, the main process writes
    `_report.json` and the page. Those of an earlier run stay until the training begins.

    Args:
        trainer: [`SealTrainer`], or the trainer of an energy network. Its `report_facts`, if any, are what the closing
            of the run found: kind of section -> facts, as `SECTIONS` of `run.py` reads them.
        facts: of the run, beside those of the trainer: `command`, `dataset`, `rows`.
        page: False for no page.
    """
    begun = _RemoveEarlier()
    trainer.add_callback(begun)
    try:
        yield
    except BaseException as error:
        if begun.has_begun:
            with suppress(Exception):  # what interrupted the run is what its user must read
                _write(trainer, facts, page, f"interrupted: {type(error).__name__}")
        raise
    _write(trainer, facts, page, COMPLETE)


class _RemoveEarlier(TrainerCallback):
    """Removes report and page of an earlier run in the folder when the training begins: they are not of this run, and
    an earlier page, which shows rows of the data, must not be pushed to the Hub."""

    has_begun = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.has_begun = True
        for name in (REPORT, PAGE) if state.is_world_process_zero else ():
            Path(args.output_dir, name).unlink(missing_ok=True)


def _write(trainer: Any, facts: Mapping[str, Any], page: bool, ended: str) -> None:
    if not trainer.is_world_process_zero():
        return
    model, state, folder = trainer.accelerator.unwrap_model(trainer.model), trainer.state, Path(trainer.args.output_dir)
    report = {
        **facts,
        "ended": ended,
        "step": state.global_step,
        "steps": state.max_steps,
        "loss": getattr(trainer.args, "energy_loss", None),
        "num_labels": model.config.num_labels,
        "settings": record_of(trainer),
        "versions": versions(model),
        "best_step": state.best_global_step if trainer.args.load_best_model_at_end else None,
        "log": state.log_history,
        "facts": getattr(trainer, "report_facts", {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / REPORT) as unfinished:
        unfinished.write_text(json.dumps(recorded(finite(report)), ensure_ascii=False) + "\n", encoding="utf-8")
    if not page:
        return
    if not has_matplotlib():
        print(printable(NO_PLOTS.format(command_line(["seal-hf", "report", str(folder)]))))
        return
    print(printable(f"to look at the run: {write_page(folder)}"))


def command_of(words: Sequence[str], processes: int = 1) -> str:
    """The command line that repeats a run of this program.

    Args:
        words: the command line without the program's name. Its secrets are hidden: the page is shown to others.
    """
    name = sys.argv[0]
    is_script = name.endswith(".py")
    launched = [name] if is_script else ["-m", "seal_hf", *name.split()[1:]]
    if processes > 1:
        return command_line(["accelerate", "launch", "--num_processes", str(processes), *launched, *words])
    return command_line([*(["python", name] if is_script else name.split()), *words])


def finite(value: Any) -> Any:
    """A value as JSON that any reader takes: NaN and infinities become null."""
    if isinstance(value, Mapping):
        return {str(key): finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value if isinstance(value, (str, int, bool, type(None))) else plain(value)
