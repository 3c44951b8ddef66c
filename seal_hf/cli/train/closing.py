"""The end of a run of a program: the nets are saved, results, card and page are written, and all is pushed.

Written into the output folder, in this order: the nets (`trainer.save_model`), `*_results.json`, `README.md`, what the
task's report writes (`_predictions*`, `label_report.json`), `_report.json` with the facts of the page, and the page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback

from ...nets.adapters import library_of
from ...nets.text_pooling import PooledConfig
from ...nets.text_windows import reading_in_words
from ...reports.common import LABEL_REPORT, PAGE, REPORT, UNASKED, Ending, predict_command
from ...reports.page.plots import has_matplotlib
from ...reports.page.run import write_page
from ...reports.verdict import VERDICT
from ...saving.export import saves_merged
from ...saving.run_record import plain
from ...training.card import versions
from ...training.hints import store_verdict, verdict_of
from ...training.run_record import record_of
from ...utils.files import whole_file
from ...utils.messages import printable
from ...utils.recorded import command_line, recorded

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


def close_run(trainer: Any, ending: Ending, shown: dict[str, Any]) -> dict[str, float]:
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
        store_verdict(trainer, verdict)
        trainer.card_facts = {"metrics": ending.metrics, "verdict": verdict, "rows": ending.rows, **ending.card}
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


def how_to_load(trainer: Any) -> str | None:
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
def reported(trainer: Any, facts: Mapping[str, Any], page: bool = True) -> Iterator[dict[str, Any]]:
    """Inside, a program trains and closes its run, and fills the yielded dictionary with the facts of the page: kind of
    section -> facts. At the end, also that of an interrupted run, the main process writes `_report.json` and the page.
    Those of an earlier run stay until the training begins.

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


def _write(trainer: Any, facts: Mapping[str, Any], shown: Mapping[str, Any], page: bool, ended: str) -> None:
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
