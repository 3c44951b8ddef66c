"""The end of a run of tags or trees: its figures, its predictions, and a table by tag or label."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset
from transformers import TrainingArguments

from ...data.tensors.words import WordRows
from ...reports.common import Ending, chosen_line, figure_rows, row_origin, score_of
from ...reports.page import SHOWN
from ...training.base import StructuredTrainer
from ...training.evaluation import store
from ...training.hints import learned_nothing
from ...utils.files import whole_file
from ...utils.messages import results_table
from .decisions import (
    CONSTRAINED,
    CONSTRAINED_VITERBI,
    INDEPENDENT,
    UNIQUE_ROLES,
    VITERBI,
    fit_tags,
    predicted_tags,
)
from .metrics import Tags, tag_metrics, tag_report
from .page import tag_energies, tag_facts

DECODED = {  # decoder -> how it decides
    INDEPENDENT: "each tag by itself",
    CONSTRAINED: "within the tags' scheme",
    VITERBI: "best sequence of the CRF",
    CONSTRAINED_VITERBI: "best sequence of the CRF within the tags' scheme",
    UNIQUE_ROLES: "best sequence within the scheme that repeats no core role",
}
REPEATED = "core_role_violations"
# key in the result files, without `eval_` or `test_` -> its name for readers
FIGURES = {
    "accuracy": "accuracy of tags",
    "precision": "precision of spans",
    "recall": "recall of spans",
    "f1": "F1 of spans",
    "malformed": "sequences that break the scheme",
    REPEATED: "propositions that repeat a core role",
    **{f"f1_{decoder}": f"F1 of spans, {how}" for decoder, how in DECODED.items()},
    **{f"accuracy_{decoder}": f"accuracy of tags, {how}" for decoder, how in DECODED.items()},
}


class Judged(NamedTuple):
    """How decided tags are compared with gold ones, and shown: as tags or as trees.

    Attributes:
        kind: as in [`tag_metrics`]; trees have plain tags.
        names: key of a figure in the result files, without its split -> its name for readers.
        compared: the figures that are given under each decoder; the first is the main one.
        figures: (decided, gold, parts of speech) -> the figures of all rows.
        report: the same -> the figures of each tag or label.
        page: (trainer, data, rows, decided, gold, origin of a row) -> what the page shows of them.
        files: input and output of the command to predict that a run prints.
        section: of the page.
        unit: what the report has a line for.
        rows: what the rows are.
        shown: (words, tags, parts of speech) -> the tags in the file of predictions; None: as they are.
    """

    kind: str
    names: Mapping[str, str]
    compared: Sequence[str]
    figures: Callable[[Tags, Tags, Any], dict[str, Any]]
    report: Callable[[Tags, Tags, Any], Mapping[str, Any]]
    page: Callable[..., dict[str, Any]]
    files: tuple[str, str]
    section: str = "tags"
    unit: str = "tag"
    rows: str = "rows"
    shown: Callable[[Sequence[str], Sequence[str], Any], Any] | None = None

    @property
    def reads_pos(self) -> bool:
        """True for trees, which have parts of speech."""
        return self.shown is not None

    def pos_of(self, dataset: Dataset) -> Any:
        """The parts of speech of a data set's words for trees, else None."""
        return dataset["pos"][:] if self.reads_pos else None

    def tables(
        self, metrics: Mapping[str, float], predicted: Tags, gold: Tags, pos: Any, decoder: str | None = None
    ) -> str:
        """The closing tables: a line per figure, and a line per span type, tag or label. If several decoders are
        compared, the main figure of `decoder` is marked."""
        marked = f"{self.compared[0]}_{decoder}"
        table = results_table(figure_rows(metrics, self.names, marked))
        if any(key.endswith(f"_{marked}") for key in metrics):
            table += f"\n\n{chosen_line(str(decoder))}"
        by_name = self.report(predicted, gold, pos)
        return f"{table}\n\n{results_table([{self.unit: name, **figures} for name, figures in by_name.items()])}"


def judged_tags(kind: str) -> Judged:
    """How tags of this kind are judged: by accuracy if they are plain, else by F1 of spans."""

    def page(
        trainer: StructuredTrainer, data: Any, rows: WordRows, predicted: Tags, gold: Tags, origin: Any
    ) -> dict[str, Any]:
        energies = partial(tag_energies, trainer, rows, predicted)
        return tag_facts(predicted, gold, rows.data, kind, data.label_names, origin, energies)

    return Judged(
        kind,
        FIGURES,
        ("accuracy" if kind == "plain" else "f1", REPEATED),
        figures=lambda predicted, gold, pos: tag_metrics(predicted, gold, kind),
        report=lambda predicted, gold, pos: tag_report(predicted, gold, kind),
        page=page,
        files=("new.srl" if kind == "srl" else "new.txt", "predictions.jsonl"),
    )


def predict_tags(trainer: StructuredTrainer, rows: WordRows, decoders: Sequence[str]) -> dict[str, list[list[str]]]:
    """For each decoder, a tag for every word of every row. Words that were cut off get the first tag.

    Args:
        trainer: a [`SealTrainer`].
        rows: from [`encode_words`] or [`tokenize_words`].
        decoders: names from `trainer.space.decoders`.
    """
    space: Any = trainer.space
    predicted, _ = predicted_tags(trainer, rows, decoders)
    first = space.label_names[0]
    return {
        decoder: [[*row, *[first] * (int(size) - len(row))] for row, size in zip(tags, rows.num_words, strict=True)]
        for decoder, tags in predicted.items()
    }


def evaluate_tags(
    trainer: StructuredTrainer,
    splits: Mapping[str, WordRows],
    label_names: Sequence[str],
    judged: Judged,
) -> tuple[dict[str, float], dict[str, list[list[str]]]]:
    """Figures over all words, also those that were cut off. The decoder is chosen on `eval` and stored in the
    task-net's config. If there are several decoders, the figures `judged.compared` are given under each.

    Args:
        trainer: a [`SealTrainer`].
        splits: name (such as `eval`, `test`) -> the rows that the task-net reads.
        label_names: the data's.

    Returns:
        metrics: `{split}_{figure}`, all in [0, 1].
        predicted: split -> a tag for every word of every row.
    """
    metrics: dict[str, float] = {}
    space: Any = trainer.space
    found = {split: predict_tags(trainer, rows, space.decoders) for split, rows in splits.items()}
    gold = {split: gold_tags(rows.data, label_names) for split, rows in splits.items()}
    pos = {split: judged.pos_of(rows.data) for split, rows in splits.items()}
    decisions = fit_tags(found["eval"], gold["eval"], judged.kind, trainer.args, pos=pos["eval"])
    store(trainer, decisions)
    for split, by_decoder in found.items():
        for decoder, tags in by_decoder.items():
            figures = judged.figures(tags, gold[split], pos[split])
            if decoder == decisions.decoder:
                metrics |= {f"{split}_{key}": value for key, value in figures.items()}
            if len(by_decoder) > 1:
                metrics |= {f"{split}_{key}_{decoder}": figures[key] for key in judged.compared if key in figures}
    return metrics, {split: tags[decisions.decoder] for split, tags in found.items()}


def print_notes(name: str, train_rows: WordRows, splits: Mapping[str, WordRows], say: Callable[[str], None]) -> None:
    """Say what tokenisation lost of each split, if anything."""
    for split, rows in {"train": train_rows, **splits}.items():
        for note in rows.notes:
            say(f"{name}, {SHOWN.get(split, split)}: {note}")


def tag_ending(
    trainer: StructuredTrainer,
    splits: Mapping[str, WordRows],
    data: Any,
    card: Mapping[str, Any],
    judged: Judged,
) -> Ending:
    """Evaluate a run on tags or trees. Its report writes `_predictions_SPLIT.jsonl`; its tables are those of `test`, or
    else of `eval`.

    Args:
        splits: as for [`evaluate_tags`].
        data: from [`load_tags`], [`load_srl`] or [`load_trees`].
        card: entries of [`SealTrainer.card_facts`] beside the figures.
    """
    metrics, predicted = evaluate_tags(trainer, splits, data.label_names, judged)
    space: Any = trainer.space
    decoder, main = space.decoder, judged.compared[0]

    def report(folder: Path) -> tuple[str, dict[str, Any]]:
        for split, tags in predicted.items():
            origin = partial(row_origin, data, SHOWN.get(split, split))
            file = folder / f"_predictions_{split}.jsonl"
            write_predictions(file, splits[split].data, tags, data.label_names, origin, judged)
        last = "test" if "test" in splits else "eval"
        rows = splits[last]
        gold, origin = gold_tags(rows.data, data.label_names), partial(row_origin, data, SHOWN.get(last, last))
        found = judged.page(trainer, data, rows, predicted[last], gold, origin)
        table = judged.tables(metrics, predicted[last], gold, judged.pos_of(rows.data), decoder)
        return table, {judged.section: {"split": SHOWN.get(last, last), **found}}

    return Ending(
        metrics,
        judged.names,
        f"{main}_{decoder}",
        report,
        rows={split: len(rows) for split, rows in splits.items()},
        files=judged.files,
        score=score_of(metrics, main, judged.names[main], decoder),
        hints=[hint_of_one_tag(predicted["eval"], trainer.args)] if "eval" in predicted else [],
        card=card,
    )


def gold_tags(dataset: Dataset, label_names: Sequence[str]) -> list[list[str]]:
    """The names of a data set's tags."""
    return [[label_names[tag] for tag in tags] for tags in dataset["tags"][:]]


def write_predictions(
    path: Path,
    dataset: Dataset,
    predicted: Tags,
    label_names: Sequence[str],
    origin: Callable[[int], Mapping[str, Any]],
    judged: Judged,
) -> None:
    """Write one JSON object per row: where it came from, `words`, `predicted` and `gold`, tags or trees in brackets,
    and for roles `predicate`. The file is written completely or not at all."""
    gold, pos = gold_tags(dataset, label_names), judged.pos_of(dataset)
    places = dataset["predicate"][:] if "predicate" in dataset.column_names else None
    with whole_file(path) as unfinished, open(unfinished, "w", encoding="utf-8") as file:
        for i, words in enumerate(dataset["words"][:]):
            both = {"predicted": predicted[i], "gold": gold[i]}
            if judged.shown is not None:
                both = {name: judged.shown(words, tags, pos[i]) for name, tags in both.items()}
            line = {**origin(i), "words": words, **both}
            if places is not None:
                line["predicate"] = places[i]
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def hint_of_one_tag(tags: Sequence[Sequence[Any]], args: TrainingArguments) -> str | None:
    """The hint for a net that gives all words of the validation sentences the same tag. None for other nets, and for a
    single sentence."""
    found = {tag for sentence in tags for tag in sentence}
    if len(found) != 1 or len(tags) < 2:
        return None
    return learned_nothing(f"All words of {len(tags)} validation sentences get the tag {found.pop()!r}", args)
