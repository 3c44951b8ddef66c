"""What all kinds of results share: the Trainer's result files, a table for the terminal."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import Trainer

UNASKED = "trainer_output"  # the folder of a Trainer that is given none


def remove_results(trainer: Trainer) -> None:
    """Deletes the results, predictions and report that an earlier run left in the output folder, on which others would
    be merged; those of this run's training stay."""
    if not trainer.is_world_process_zero():
        return
    folder = Path(str(trainer.args.output_dir))
    for file in (*folder.glob("*_results.json"), *folder.glob("_predictions*"), folder / "label_report.json"):
        if file.name != "train_results.json" and file.is_file():
            file.unlink()
    train = folder / "train_results.json"
    if train.is_file():
        trainer.save_metrics("train", json.loads(train.read_text(encoding="utf-8")))


def write_results(trainer: Trainer, metrics: Mapping[str, float], splits: Iterable[str] = ("eval", "test")) -> None:
    """Write `eval_results.json` and so on, each with the figures of its split, `{split}_{figure}`, and the threshold,
    if there is one, and merge them into `all_results.json`: the Trainer's own files, in its output folder, written by
    the main process only."""
    remove_results(trainer)
    splits = sorted(splits, key=len)  # of `test` and `test_b`, a key of `test_b` is of the longer one
    of = {key: split for split in splits for key in metrics if key.startswith(f"{split}_")}
    shared = {"threshold": metrics["threshold"]} if "threshold" in metrics else {}
    for split in dict.fromkeys(of.values()):
        trainer.save_metrics(split, {key: metrics[key] for key in of if of[key] == split} | shared)


def close_run(
    trainer: Any,
    metrics: Mapping[str, float],
    report: Callable[[Path], str],
    card_facts: Mapping[str, Any] | None = None,
    splits: Iterable[str] = ("eval", "test"),
    files: tuple[str, str] | None = None,
) -> dict[str, float]:
    """What every program does with a run that is evaluated: save the nets, write results and the card, report, say how
    to predict, push where the arguments say so. The figures are known to the card that a save pushes, too. An energy
    network (`card_facts` None) gets no card.

    Args:
        trainer: a [`SealTrainer`], or one of an energy network.
        metrics: the figures, `{split}_{figure}`.
        report: writes predictions into the output folder and gives the table that is printed; for the main process.
        card_facts: of [`SealTrainer.card_facts`], beside the figures.
        splits: that the figures are of.
        files: input and output of the command that predicts with what was saved; None: nothing is said of it.

    Returns:
        `metrics`.
    """
    folder = Path(trainer.args.output_dir)
    if card_facts is not None:
        trainer.card_facts = {"metrics": metrics, **card_facts}
    trainer.save_model()
    write_results(trainer, metrics, splits)
    if card_facts is not None:
        trainer.create_model_card()
    if trainer.is_world_process_zero():
        print(report(folder))
        unasked = " (--output_dir names another folder)" if str(folder) == UNASKED else ""
        print(f"\nsaved in {folder}{unasked}" + (f"; to predict: {predict_command(folder, *files)}" if files else ""))
    if trainer.args.push_to_hub:
        trainer.push_to_hub()
    return dict(metrics)


def predict_command(model: str | Path, read: str, written: str) -> str:
    """The command that predicts with a saved task-net."""
    return shlex.join(["seal-hf", "predict", "--model", str(model), "--input", read, "--output", written])


def chosen_line(decoder: str, folded: bool = False) -> str:
    """What the mark in a closing table means; of a folded export, its bias holds that decision alone."""
    if folded:
        return f"* the decision that the bias of the saved classifier holds: {decoder}"
    return f"* the decisions that are saved with the model: {decoder} (--decoder names others)"


def row_origin(data: Any, split: str, row: int) -> dict[str, Any]:
    """Where a row of a data set is from, as its loader says; else its number."""
    origins = getattr(data, "origins", {}).get(split)
    return {"row": row} if origins is None else origins.of(row)


def results_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """An aligned plain-text table for the terminal: a column per key, in order of first appearance; numbers to the
    right, floats to 4 decimals, what is missing (or NaN) as `-`. No rows give an empty string."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in [columns, *cells]) for i in range(len(columns))]
    right = [all(isinstance(row.get(column), (int, float, type(None))) for row in rows) for column in columns]

    def line(texts: Sequence[str]) -> str:
        aligned = (t.rjust(w) if r else t.ljust(w) for t, w, r in zip(texts, widths, right, strict=True))
        return "  ".join(aligned).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(columns), rule, *map(line, cells)]) if columns else ""


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
