"""Shared parts of reports: the Trainer's result files, a table for the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import Trainer

from ..nets.adapters import library_of
from ..nets.text_pooling import PooledConfig
from ..nets.text_windows import reading_in_words
from ..saving.earlier_run import RESULTS
from ..saving.export import saves_merged
from ..training.verdict import VERDICT, Score, store_verdict, verdict_of
from ..utils.files import json_object
from ..utils.messages import printable
from ..utils.recorded import command_line
from ..utils.tables import results_table as results_table
from .page.page import SHOWN as SHOWN

UNASKED = "trainer_output"  # the Trainer's default output folder
LABEL_REPORT = "label_report.json"  # label sets: figures of each label on the test split, by the decisions
REPORT, PAGE = "_report.json", "report.html"  # facts of a run, and its page


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


def results_of(folder: Path) -> dict[str, float]:
    """The figures in `all_results.json` of a run's output folder; empty without the file."""
    file = folder / RESULTS
    return json_object(file, "Evaluate the run again.") if file.is_file() else {}


def close_run(
    trainer: Any,
    metrics: Mapping[str, float],
    report: Callable[[Path], str],
    card_facts: Mapping[str, Any] | None = None,
    splits: Iterable[str] = ("eval", "test"),
    files: tuple[str, str] | None = None,
    *,
    score: Score | None = None,
    hints: Sequence[str | None] = (),
) -> dict[str, float]:
    """Close an evaluated run, as every program does: save the nets, write results and the card, print the report, the
    verdict and the command to predict, push if the arguments ask for it. The card that a save pushes has the figures
    too. An energy network (`card_facts` None) gets no card.

    Args:
        trainer: a [`SealTrainer`], or the trainer of an energy network.
        metrics: the figures, `{split}_{figure}`.
        report: writes predictions into the output folder and returns the table to print; called in the main process.
        card_facts: entries of [`SealTrainer.card_facts`] beside the figures.
        splits: the splits of the figures.
        files: input and output in the printed command to predict; None: no command is printed.
        score, hints: as for [`verdict_of`].

    Returns:
        `metrics`.
    """
    folder, verdict = Path(trainer.args.output_dir), verdict_of(trainer, score, hints)
    trainer.report_facts[VERDICT] = verdict.as_json()
    if card_facts is not None:
        store_verdict(trainer, verdict)
        trainer.card_facts = {"metrics": metrics, "verdict": verdict, **card_facts}
    trainer.save_model()
    write_results(trainer, metrics, splits)
    if card_facts is not None:
        trainer.create_model_card()
    if trainer.is_world_process_zero():
        print(printable("\n\n".join([report(folder), "\n".join(verdict.sentences)]).rstrip()))
        unasked = " (--output_dir names another folder)" if str(folder) == UNASKED else ""
        predicts = f"; to predict: {predict_command(folder, *files)}" if files else ""
        loads = "" if (loaded := how_to_load(trainer)) is None else f"\n{loaded}"
        print(printable(f"{loads}\nsaved in {folder}{unasked}{predicts}"))
    if trainer.args.push_to_hub:
        trainer.push_to_hub()
    return dict(metrics)


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


def predict_command(model: str | Path, read: str, written: str) -> str:
    """The command that predicts with a saved task-net."""
    return command_line(["seal-hf", "predict", "--model", str(model), "--input", read, "--output", written])


def score_of(metrics: Mapping[str, float], figure: str, name: str, decoder: str | None = None) -> Score | None:
    """The score of the saved decisions on validation and test rows; None if it was not measured.

    Args:
        metrics: `{split}_{figure}`.
        name: of the figure, for readers.
        decoder: as in [`Score`].
    """
    values = {SHOWN.get(split, split): metrics.get(f"{split}_{figure}") for split in ("eval", "test")}
    known = {split: value for split, value in values.items() if value is not None}
    return Score(name, known, decoder) if known else None


def chosen_line(decoder: str, folded: bool = False) -> str:
    """The meaning of the mark in a closing table. The bias of a folded export holds only this decision."""
    if folded:
        return f"* the decision in the bias of the saved classifier: {decoder}"
    return f"* the decisions saved with the model: {decoder} (--decoder selects others)"


def row_origin(data: Any, split: str, row: int) -> dict[str, Any]:
    """Where a row of a data set came from, if its loader tells; else its number."""
    origins = getattr(data, "origins", {}).get(split)
    return {"row": row} if origins is None else origins.of(row)


def place(origin: Mapping[str, Any]) -> str:
    """Where a row came from, in words, such as `test.csv, line 12`."""
    return ", ".join(str(value) if name == "source" else f"{name} {value}" for name, value in origin.items())


def figure_rows(
    metrics: Mapping[str, float], names: Mapping[str, str], chosen: str | None = None
) -> list[dict[str, Any]]:
    """The rows of a closing table: for each figure that `metrics` have, its name for readers and a value per split.

    Args:
        metrics: `{split}_{figure}`.
        names: figure -> its name for readers, in order.
        chosen: the figure of the stored decisions; its name is marked by `*`.
    """
    ends = [(key, f"_{figure}") for key in metrics for figure in names]
    splits = dict.fromkeys(key.removesuffix(end) for key, end in ends if key.endswith(end))  # may contain `_`
    return [
        {"figure": f"{name} *" if figure == chosen else name}
        | {SHOWN.get(split, split): metrics.get(f"{split}_{figure}") for split in splits}
        for figure, name in names.items()
        if any(f"{split}_{figure}" in metrics for split in splits)
    ]
