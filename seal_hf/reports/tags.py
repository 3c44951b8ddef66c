"""What a trained tagger did, for the examples: figures, predictions, a table by tag."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import Trainer

from ..data.tensors.words import WordRows
from ..metrics.tags import Tags, tag_metrics, tag_report
from ..structures.sequences import IGNORED
from ..utils.files import whole_file
from .common import close_run, results_table

# key in the result files, without its `eval_` or `test_` -> what a reader calls it
FIGURES = {
    "accuracy": "accuracy of tags",
    "precision": "precision of spans",
    "recall": "recall of spans",
    "f1": "F1 of spans",
    "malformed": "sequences that break the scheme",
    "core_role_violations": "propositions that repeat a core role",
}

SHOWN = {"eval": "validation"}  # key of a split in the result files -> what a reader calls it


def predict_tags(trainer: Trainer, rows: WordRows, label_names: Sequence[str]) -> list[list[str]]:
    """A tag for every word of every row; a word that was cut off has the first tag.

    Args:
        trainer: a [`SealTrainer`] with `decode_predictions`.
        rows: of [`encode_words`] or [`tokenize_words`].
        label_names: C names.
    """
    output = trainer.predict(rows)
    found, counts = np.asarray(output.predictions), np.asarray(output.label_ids) != IGNORED
    names = np.asarray(label_names, dtype=object)
    tags = [names[row[counted]].tolist() for row, counted in zip(found, counts, strict=True)]
    return [row + [label_names[0]] * (int(size) - len(row)) for row, size in zip(tags, rows.num_words, strict=True)]


def evaluate_tags(
    trainer: Trainer, splits: Mapping[str, tuple[WordRows, Dataset]], label_names: Sequence[str], kind: str
) -> tuple[dict[str, float], dict[str, list[list[str]]]]:
    """Figures of [`tag_metrics`] over all words, those that were cut off too.

    Args:
        splits: by name, `eval` and `test` for example: the rows that the task-net reads, and the data they came from.
        label_names, kind: of the data.

    Returns:
        metrics: `{split}_{figure}`, all in [0, 1].
        predicted: by split, a tag for every word of every row.
    """
    metrics: dict[str, float] = {}
    predicted: dict[str, list[list[str]]] = {}
    for split, (rows, dataset) in splits.items():
        predicted[split] = predict_tags(trainer, rows, label_names)
        figures = tag_metrics(predicted[split], gold_tags(dataset, label_names), kind)
        metrics |= {f"{split}_{key}": value for key, value in figures.items()}
    return metrics, predicted


def print_notes(name: str, train_rows: WordRows, splits: Mapping[str, tuple[WordRows, Dataset]]) -> None:
    """What tokenisation lost of each split, if anything."""
    for split, rows in {"train": train_rows, **{split: rows for split, (rows, _) in splits.items()}}.items():
        for note in rows.notes:
            print(f"{name}, {SHOWN.get(split, split)}: {note}")


def close_tags(
    trainer: Trainer,
    splits: Mapping[str, tuple[WordRows, Dataset]],
    label_names: Sequence[str],
    kind: str,
    card_facts: Mapping[str, Any],
) -> dict[str, float]:
    """What every tagging program does after training: evaluate, save both nets, write results, the card and
    `_predictions_SPLIT.jsonl`, print the tables of the last of `eval` and `test`, push where the arguments say so.

    Args:
        splits, label_names, kind: as of [`evaluate_tags`].
        card_facts: of [`SealTrainer.card_facts`], beside the figures.

    Returns:
        the figures of [`evaluate_tags`].
    """
    metrics, predicted = evaluate_tags(trainer, splits, label_names, kind)

    def report(folder: Path) -> str:
        for split, tags in predicted.items():
            write_tag_predictions(folder / f"_predictions_{split}.jsonl", splits[split][1], tags, label_names)
        last = "test" if "test" in splits else "eval"
        return tag_tables(metrics, predicted[last], gold_tags(splits[last][1], label_names), kind)

    return close_run(trainer, metrics, report, card_facts, splits)


def gold_tags(dataset: Dataset, label_names: Sequence[str]) -> list[list[str]]:
    """The names of a data set's tags."""
    return [[label_names[tag] for tag in tags] for tags in dataset["tags"][:]]


def _splits_of(metrics: Mapping[str, float]) -> list[str]:
    """The splits in keys `{split}_{figure}`, in order; the name of one, `daily_547.conll` say, may hold `_` itself."""
    ends = [(key, f"_{figure}") for key in metrics for figure in FIGURES]
    return list(dict.fromkeys(key.removesuffix(end) for key, end in ends if key.endswith(end)))


def write_tag_predictions(
    path: str | os.PathLike[str], dataset: Dataset, predicted: Tags, label_names: Sequence[str]
) -> None:
    """One JSON object per row: `words`, `predicted`, `gold`, and of roles `predicate`; written whole or not at all."""
    gold = gold_tags(dataset, label_names)
    places = dataset["predicate"][:] if "predicate" in dataset.column_names else None
    with whole_file(path) as unfinished, open(unfinished, "w", encoding="utf-8") as file:
        for i, words in enumerate(dataset["words"][:]):
            line: dict[str, Any] = {"row": i, "words": words, "predicted": predicted[i], "gold": gold[i]}
            if places is not None:
                line["predicate"] = places[i]
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def tag_tables(
    metrics: Mapping[str, float], predicted: Tags | None = None, gold: Tags | None = None, kind: str = "plain"
) -> str:
    """The tables an example ends with: a line per figure, and, with predictions, one per span type or tag."""
    splits = _splits_of(metrics)
    rows = [
        {"figure": figure} | {SHOWN.get(split, split): metrics.get(f"{split}_{figure}") for split in splits}
        for figure in FIGURES
        if any(f"{split}_{figure}" in metrics for split in splits)
    ]
    table = results_table(rows)
    if predicted is None or gold is None:
        return table
    by_tag = tag_report(predicted, gold, kind)
    return f"{table}\n\n{results_table([{'tag': tag, **figures} for tag, figures in by_tag.items()])}"
