"""Shared parts of reports: what a run came to, in words, the Trainer's result files, and a table for the terminal.

The verdict on a run has its score, whether its loss-net taught, and what to try next. `training/hints.py` forms the
sentences from the state of a run; the closing output, the card, the page and the demo show them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..energy_losses import CROSS_ENTROPY
from ..saving.checkpoints import RESULTS
from ..utils.files import json_object
from ..utils.messages import printable
from ..utils.recorded import command_line
from .page import SHOWN

VERDICT = "verdict"  # entry of the task-net's config
MOST = 2  # things to try next
NEXT = "Next: "  # the start of such a sentence
LONGEST = 2000  # characters of a stored sentence that are shown
IN_WORDS = {
    "cross_entropy": "cross-entropy",
    "crf": "a CRF",
    "soft_iou": "cross-entropy and soft IoU",
    "soft_f1": "cross-entropy and soft F1",
}


def task_loss_in_words(name: str) -> str:
    """What trains a model: a task loss, by its name among the arguments."""
    return IN_WORDS.get(name, f"the {name} task loss")


class Score(NamedTuple):
    """The figure of the saved decisions.

    Attributes:
        figure: its name for readers.
        values: split, in words -> its value; the last one counts most.
        decoder: the name of the decision rule; None if there is only one way to decide.
    """

    figure: str
    values: Mapping[str, float]
    decoder: str | None = None

    def in_words(self) -> str:
        *before, (split, value) = self.values.items()
        rest = "".join(f", {other:.4f} on {name} rows" for name, other in before)
        rule = "" if self.decoder is None else f"; the decision rule is {self.decoder}"
        return f"{self.figure[0].upper()}{self.figure[1:]}: {value:.4f} on {split} rows{rest}{rule}."


class Verdict(NamedTuple):
    """What a run came to.

    Attributes:
        taught: False if the loss-net never taught the task-net whose weights are kept, or if the run has no loss-net.
        sentences: on the score, on the loss-net, and on what to try next.
    """

    taught: bool
    sentences: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {"taught": self.taught, "sentences": list(self.sentences)}

    @classmethod
    def saved_in(cls, found: Mapping[str, Any]) -> Verdict | None:
        """The verdict in a saved configuration, as a mapping; None without one, or if it holds something else. Anyone
        may have written it: its sentences are made printable, and long ones are cut."""
        saved = found.get(VERDICT)
        if not isinstance(saved, Mapping):
            return None
        said = saved.get("sentences")
        if not isinstance(said, list) or not all(isinstance(each, str) for each in said):
            return None
        return cls(saved.get("taught") is not False, tuple(printable(each)[:LONGEST] for each in said[: 2 * MOST + 1]))


def called_by(loss: str | None, taught: bool) -> str | None:
    """The loss by which a model is called: `ce` if no loss-net taught it. The None of an energy network stays None."""
    return loss if taught or loss is None else CROSS_ENTROPY


UNASKED = "trainer_output"  # the Trainer's default output folder
LABEL_REPORT = "label_report.json"  # label sets: figures of each label on the test split, by the decisions
REPORT, PAGE = "_report.json", "report.html"  # facts of a run, and its page


@dataclass
class Ending:
    """What a program found at the end of a run, and how it is reported.

    Attributes:
        metrics: the figures, `{split}_{figure}`.
        names: figure -> its name for readers.
        chosen: the figure of the stored decisions; None if only one way to decide was measured.
        report: writes predictions into the output folder; called in the main process. It returns the table to print,
            and facts of the page: kind of section -> facts.
        rows: split -> number of rows; its splits are those of the figures.
        files: input and output in the printed command to predict; None: no command is printed.
        score: of the saved decisions.
        hints: on the outputs, the most important first; None is left out.
        card: entries of [`SealTrainer.card_facts`] beside the figures; None: an energy network, which gets no card.
        grid: what the page shows as a grid of figures, see `reports/run_page.py`; None for a list.
        afterwards: further facts of the page; called in all processes, when the run is saved.
    """

    metrics: dict[str, float]
    names: Mapping[str, str]
    chosen: str | None
    report: Callable[[Path], tuple[str, dict[str, Any]]]
    rows: Mapping[str, int]
    files: tuple[str, str] | None = None
    score: Score | None = None
    hints: Sequence[str | None] = ()
    card: Mapping[str, Any] | None = None
    grid: Mapping[str, Any] | None = None
    afterwards: Callable[[], dict[str, Any]] = dict


def results_of(folder: Path) -> dict[str, float]:
    """The figures in `all_results.json` of a run's output folder; empty without the file."""
    file = folder / RESULTS
    return json_object(file, "Evaluate the run again.") if file.is_file() else {}


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
