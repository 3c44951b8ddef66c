"""What a program prints and writes: lines while it trains, and all that it leaves at its end.

While it trains, it prints a sentence on what begins anew, in place of transformers' report, and a line for each
evaluation, in place of the Trainer's dictionaries. At the end of a run, the nets are saved, results, card and page are
written, and all is pushed. The output folder gets, in this order, the nets (`trainer.save_model`), `*_results.json`,
`README.md`, what the task's report writes (`_predictions*`, `label_report.json`), `_report.json` with the facts of the
page, and the page.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm
from transformers import PreTrainedModel, Trainer, TrainerCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from ...core.task import task_of
from ...loss_net.loss_net import LOSS_NET_FOLDER
from ...nets.adapters import library_of
from ...nets.text_pooling import PooledConfig, reading_in_words
from ...reports.common import LABEL_REPORT, PAGE, REPORT, UNASKED, VERDICT, Ending, predict_command
from ...reports.plots import has_matplotlib
from ...reports.run_page import write_page
from ...saving.checkpoints import plain
from ...saving.export import saves_merged
from ...saving.model import SealModel
from ...training.base import StructuredTrainer
from ...training.card import versions
from ...training.checkpoints import record_of
from ...training.hints import verdict_of
from ...utils.files import whole_file
from ...utils.messages import few, printable
from ...utils.recorded import command_line, recorded

ENDLESS = 10**6  # epochs; a stream without a length has no number of them
# what is told by `what_begins_anew` instead: of transformers 4.57 and 5, and of ours
REPORTS = ("Some weights of ", " LOAD REPORT", f"No {LOSS_NET_FOLDER}/ in ")


@contextmanager
def without_reports() -> Iterator[None]:
    """Silence, while the block runs, the reports on weights that a model lacks; see [`what_begins_anew`]."""
    loggers = [logging.getLogger(kind.__module__) for kind in (PreTrainedModel, SealModel)]
    for logger in loggers:
        logger.addFilter(_is_no_report)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_is_no_report)


def _is_no_report(record: logging.LogRecord) -> bool:
    return not any(words in record.getMessage() for words in REPORTS)


def what_begins_anew(trainer: StructuredTrainer, name: str | None) -> str | None:
    """A sentence on the weights that a pretrained model lacks, which the run learns; None if it lacks none.

    Args:
        name: the model, a folder or Hub id; None for nets from scratch.
    """
    loss_net = getattr(trainer, "loss_net", None)
    fresh, second = sorted(getattr(trainer, "fresh", ())), loss_net is not None and not loss_net.name_or_path
    if name is None or not (fresh or second):
        return None
    if not fresh:
        return f"{name}: its weights were loaded; the loss-net begins anew and is learned in this run."
    parts = [few(fresh, 4), *["the loss-net"] * second]
    return f"{name}: its weights were loaded, except that {' and '.join(parts)} begin anew and are learned in this run."


def log_in_lines(trainer: StructuredTrainer, dicts: bool = False) -> None:
    """Let a trainer print a line for each evaluation while it trains; without evaluations, for each logged step.

    Args:
        dicts: also print the dictionaries of all figures, as the Trainer does. They are in `trainer_state.json` anyway.
    """
    if not dicts:
        trainer.remove_callback(PrinterCallback)
        if trainer.pop_callback(ProgressCallback) is not None:
            trainer.add_callback(QuietBar)
    trainer.add_callback(RunLines(trainer))


class QuietBar(ProgressCallback):
    """The Trainer's progress bar, without the dictionaries."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        return


class RunLines(TrainerCallback):
    """Prints the lines, in the main process.

    Args:
        trainer: whose run it is.
    """

    def __init__(self, trainer: StructuredTrainer):
        self.trainer = trainer
        self.begun: tuple[float, int] | None = None  # time and step at which the training began or was resumed
        self.seen = 0  # entries of the log that earlier lines have told

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.begun, self.seen = (time.perf_counter(), state.global_step), len(state.log_history)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.begun = None

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if str(getattr(args.eval_strategy, "value", args.eval_strategy)) == "no" and "loss" in (logs or {}):
            self._print(state, {})

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        self._print(state, metrics or {})

    def _print(self, state: Any, metrics: Mapping[str, float]) -> None:
        if self.begun is None or not state.is_world_process_zero:
            return
        parts = [*self._losses(state, metrics), *self._figure(state, metrics), *self._share(state), *self._left(state)]
        tqdm.write(printable(f"{_place(state)}: {', '.join(parts)}"))  # above the bar, if there is one
        if sys.stdout is not None:  # it may be closed
            sys.stdout.flush()

    def _losses(self, state: Any, metrics: Mapping[str, float]) -> list[str]:
        """The task loss of training since the last line, and that of validation."""
        new, self.seen = state.log_history[self.seen :], len(state.log_history)
        losses = [entry.get("task_loss", entry["loss"]) for entry in new if "loss" in entry]
        found = [f"training loss {_short(sum(losses) / len(losses))}"] if losses else []
        return found + [f"validation loss {_short(value)}" for key, value in metrics.items() if key == "eval_loss"]

    def _figure(self, state: Any, metrics: Mapping[str, float]) -> list[str]:
        """The figure that chooses the best epoch."""
        args = self.trainer.args
        name = (args.metric_for_best_model or "").removeprefix("eval_")
        key = f"eval_{name}"
        if name == "loss" or key not in metrics:
            return []
        before = [entry[key] for entry in state.log_history if key in entry and entry["step"] < state.global_step]
        better = max if args.greater_is_better else min
        best = " (best so far)" if before and better(*before, metrics[key]) not in before else ""
        task = task_of(self.trainer.space)
        shown = task.figures(self.trainer.space).get(name, name) if task else name
        return [f"{shown} {metrics[key]:.4f}{best}"]

    def _share(self, state: Any) -> list[str]:
        """λ1 of the steps before this line."""
        weight, trains_loss_net = self.trainer.energy_weight, getattr(self.trainer, "learner", None) is not None
        return [weight.in_words(state)] if weight is not None and trains_loss_net else []

    def _left(self, state: Any) -> list[str]:
        """The time that the rest of the run takes if it goes on as since its start."""
        assert self.begun is not None, "as `_print` checks"
        start, first = self.begun
        done, rest = state.global_step - first, state.max_steps - state.global_step
        if done <= 0 or rest <= 0:
            return []
        return [f"{duration(rest * (time.perf_counter() - start) / done)} left"]


def duration(seconds: float) -> str:
    """A time in words, to one or two units: `40 s`, `3 min`, `2 h 5 min`."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def _place(state: Any) -> str:
    """How far the run is."""
    if state.num_train_epochs > ENDLESS:
        return f"step {state.global_step:,} of {state.max_steps:,}"
    return f"epoch {state.epoch or 0:.3g} of {state.num_train_epochs:g}"


def _short(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.4g}"


# The end of a run.

COMPLETE = "complete"  # how a run ended, in `_report.json`
NO_PLOTS = "report.html is not written: it needs matplotlib. pip install 'seal_hf[plot]', then: {}"


def remove_results(trainer: Trainer) -> None:
    """Delete the results, predictions and report of an earlier run in the output folder, else new results would be
    merged into them. The results of this run's training stay."""
    if not trainer.is_world_process_zero():
        return
    folder = Path(str(trainer.args.output_dir))
    others = [folder / name for name in (LABEL_REPORT, REPORT, PAGE, f"_{PAGE}")]
    for file in (*folder.glob("*_results.json"), *folder.glob("_predictions*"), *others):
        if file.name != "train_results.json" and file.is_file():
            file.unlink()
    train = folder / "train_results.json"
    if train.is_file():
        trainer.save_metrics("train", json.loads(train.read_text(encoding="utf-8")))


def write_results(trainer: Trainer, metrics: Mapping[str, float], splits: Iterable[str] = ("eval", "test")) -> None:
    """Write `eval_results.json` and so on, each with the figures of its split, `{split}_{figure}`, and a threshold, if
    any, and merge them into `all_results.json`. These are the Trainer's own files in its output folder; only the main
    process writes them."""
    remove_results(trainer)
    splits = sorted(splits, key=len)  # a key `test_b_f1` belongs to `test_b`, not `test`
    of = {key: split for split in splits for key in metrics if key.startswith(f"{split}_")}
    shared = {"threshold": metrics["threshold"]} if "threshold" in metrics else {}
    for split in dict.fromkeys(of.values()):
        trainer.save_metrics(split, {key: metrics[key] for key in of if of[key] == split} | shared)


def close_run(trainer: StructuredTrainer, ending: Ending, shown: dict[str, Any]) -> dict[str, float]:
    """Close an evaluated run, as every program does: save the nets, write results and the card, print the report, the
    verdict and the command to predict, push if the arguments ask for it. The card that a save pushes has the figures
    too.

    Args:
        trainer: a [`SealTrainer`], or the trainer of an energy network.
        shown: gets the facts of the page.

    Returns:
        the figures.
    """
    folder, verdict = Path(trainer.args.output_dir), verdict_of(trainer, ending.score, ending.hints)
    figures = {"names": dict(ending.names), "chosen": ending.chosen, "grid": ending.grid}
    shown |= {"figures": figures, VERDICT: verdict.as_json()}
    if ending.card is not None:
        seal: Any = trainer  # a [`SealTrainer`]: an energy network gets no card
        seal.conclude(verdict, metrics=ending.metrics, rows=ending.rows, **ending.card)
    trainer.save_model()
    write_results(trainer, ending.metrics, ending.rows)
    if ending.card is not None:
        trainer.create_model_card()
    if trainer.is_world_process_zero():
        table, facts = ending.report(folder)
        shown |= facts
        print(printable("\n\n".join([table, "\n".join(verdict.sentences)]).rstrip()))
        unasked = " (--output_dir names another folder)" if str(folder) == UNASKED else ""
        predicts = f"; to predict: {predict_command(folder, *ending.files)}" if ending.files else ""
        loads = "" if (loaded := how_to_load(trainer)) is None else f"\n{loaded}"
        print(printable(f"{loads}\nsaved in {folder}{unasked}{predicts}"))
    if trainer.args.push_to_hub:
        trainer.push_to_hub()
    shown |= ending.afterwards()
    return ending.metrics


def how_to_load(trainer: StructuredTrainer) -> str | None:
    """How other code loads a classifier of texts that is no class of transformers; None for other nets."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    if not isinstance(model.config, PooledConfig):
        return None
    said = f"The classifier reads {reading_in_words(model)}."
    library = library_of(model)
    if library is not None and not saves_merged(model, trainer.args.adapter_export):
        return f"{said} Load it by SealForMultiLabel.from_pretrained: {library.mode} alone would not read this."
    return f"{said} `import seal_hf` comes before AutoModelForSequenceClassification.from_pretrained or a pipeline."


# The facts of a run that its page shows and no other file holds: `_report.json`.


@contextmanager
def reported(trainer: StructuredTrainer, facts: Mapping[str, Any], page: bool = True) -> Iterator[dict[str, Any]]:
    """Write the report of a run that a program trains and closes in the block.

    The program fills the yielded dictionary, kind of section -> facts. When the run ends or is interrupted, the main
    process writes `_report.json` and the page. Those of an earlier run stay until the training begins.

    Args:
        trainer: [`SealTrainer`], or the trainer of an energy network.
        facts: of the run, beside those of the trainer: `command`, `dataset`, `rows`.
        page: False for no page.
    """
    begun, shown = _RemoveEarlier(), dict[str, Any]()
    trainer.add_callback(begun)
    try:
        yield shown
    except BaseException as error:
        if begun.has_begun:
            with suppress(Exception):  # what interrupted the run is what its user must read
                _write(trainer, facts, shown, page, f"interrupted: {type(error).__name__}")
        raise
    _write(trainer, facts, shown, page, COMPLETE)


class _RemoveEarlier(TrainerCallback):
    """Removes report and page of an earlier run in the folder when the training begins: they are not of this run, and
    an earlier page, which shows rows of the data, must not be pushed to the Hub."""

    has_begun = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.has_begun = True
        for name in (REPORT, PAGE) if state.is_world_process_zero else ():
            Path(args.output_dir, name).unlink(missing_ok=True)


def _write(
    trainer: StructuredTrainer, facts: Mapping[str, Any], shown: Mapping[str, Any], page: bool, ended: str
) -> None:
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
        "facts": shown,
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
