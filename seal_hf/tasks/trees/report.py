"""Reports on a trained parser: figures, predicted trees, a table by label."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from datasets import Dataset

from ...data.brackets import tags_to_tree
from ...data.tensors.words import WordRows
from ...reports.common import SHOWN, Ending, chosen_line, figure_rows, results_table, row_origin, score_of
from ...training.decisions import store
from ...utils.files import whole_file
from ..tags.decisions import INDEPENDENT, VITERBI, fit_tags
from ..tags.metrics import Tags
from ..tags.report import gold_tags, hint_of_one_tag, predict_tags
from .metrics import label_report, tree_metrics
from .page import tree_facts

DECODED = {INDEPENDENT: "each tag by itself", VITERBI: "best sequence of the CRF"}
# key in the result files, without `eval_` or `test_` -> its name for readers
FIGURES = {
    "f1": "F1 of labelled brackets",
    "precision": "precision of labelled brackets",
    "recall": "recall of labelled brackets",
    "exact_match": "trees that match exactly",
    "accuracy": "accuracy of tags",
    **{f"f1_{decoder}": f"F1 of labelled brackets, {how}" for decoder, how in DECODED.items()},
}
Splits = Mapping[str, tuple[WordRows, Dataset]]


def evaluate_trees(
    trainer: Any, splits: Splits, label_names: Sequence[str]
) -> tuple[dict[str, float], dict[str, list[list[str]]]]:
    """Figures of [`tree_metrics`] under the decoder that is chosen on `eval` and stored in the task-net's config; with
    several decoders, also F1 under each. Words that were cut off have a tag that begins no constituent.

    Args:
        trainer: a [`SealTrainer`].
        splits: name -> the rows that the task-net reads, and the data of [`load_trees`] they came from.

    Returns:
        metrics: `{split}_{figure}`, all in [0, 1].
        predicted: split -> a tag for every word of every row.
    """
    metrics: dict[str, float] = {}
    found = {split: predict_tags(trainer, rows, trainer.space.decoders) for split, (rows, _) in splits.items()}
    gold = {split: gold_tags(dataset, label_names) for split, (_, dataset) in splits.items()}
    pos = {split: dataset["pos"][:] for split, (_, dataset) in splits.items()}
    decisions = fit_tags(found["eval"], gold["eval"], "plain", trainer.args, pos=pos["eval"])
    store(trainer, decisions)
    for split, by_decoder in found.items():
        for decoder, tags in by_decoder.items():
            figures = tree_metrics(tags, gold[split], pos[split])
            if decoder == decisions.decoder:
                metrics |= {f"{split}_{key}": value for key, value in figures.items()}
            if len(by_decoder) > 1:
                metrics[f"{split}_f1_{decoder}"] = figures["f1"]
    return metrics, {split: tags[decisions.decoder] for split, tags in found.items()}


def tree_ending(trainer: Any, splits: Splits, data: Any, card: Mapping[str, Any]) -> Ending:
    """Evaluate a parsing run, as [`tag_ending`] does one of tags: `_predictions_SPLIT.jsonl` holds trees in brackets.

    Args:
        splits: as for [`evaluate_trees`].
        data: from [`load_trees`].
        card: entries of [`SealTrainer.card_facts`] beside the figures.
    """
    names = data.label_names
    metrics, predicted = evaluate_trees(trainer, splits, names)
    decoder = trainer.space.decoder

    def report(folder: Path) -> tuple[str, dict[str, Any]]:
        for split, tags in predicted.items():
            origin = partial(row_origin, data, SHOWN.get(split, split))
            write_trees(folder / f"_predictions_{split}.jsonl", splits[split][1], tags, names, origin)
        last = "test" if "test" in splits else "eval"
        rows, dataset = splits[last]
        gold, pos = gold_tags(dataset, names), dataset["pos"][:]
        origin = partial(row_origin, data, SHOWN.get(last, last))
        found = tree_facts(predicted[last], gold, dataset, label_report(predicted[last], gold, pos), origin)
        notes = [note for note in data.notes if "split 80/10/10" in note]
        table = tree_tables(metrics, predicted[last], gold, pos, decoder)
        return table, {"trees": {"split": SHOWN.get(last, last), "notes": notes, **found}}

    return Ending(
        metrics,
        FIGURES,
        f"f1_{decoder}",
        report,
        rows={split: len(dataset) for split, (_, dataset) in splits.items()},
        files=("new.txt", "trees.mrg"),
        score=score_of(metrics, "f1", FIGURES["f1"], decoder),
        hints=[hint_of_one_tag(predicted["eval"], trainer.args)],
        card=card,
    )


def write_trees(path: Path, dataset: Dataset, predicted: Tags, label_names: Sequence[str], origin: Any) -> None:
    """Write one JSON object per row: where it came from, `words`, and the trees `predicted` and `gold` in brackets. The
    file is written completely or not at all."""
    gold = gold_tags(dataset, label_names)
    with whole_file(path) as unfinished, open(unfinished, "w", encoding="utf-8") as file:
        for i, (words, pos) in enumerate(zip(dataset["words"][:], dataset["pos"][:], strict=True)):
            trees = {"predicted": tags_to_tree(words, predicted[i], pos), "gold": tags_to_tree(words, gold[i], pos)}
            file.write(json.dumps({**origin(i), "words": words, **trees}, ensure_ascii=False) + "\n")


def tree_tables(
    metrics: Mapping[str, float],
    predicted: Tags,
    gold: Tags,
    pos: Sequence[Sequence[str]],
    decoder: str | None = None,
) -> str:
    """The closing tables: a line per figure, and a line per label. If several decoders are compared, the figure of
    `decoder` is marked."""
    marked = f"f1_{decoder}"
    table = results_table(figure_rows(metrics, FIGURES, marked))
    if any(key.endswith(f"_{marked}") for key in metrics):
        table += f"\n\n{chosen_line(str(decoder))}"
    by_label = label_report(predicted, gold, pos)
    return f"{table}\n\n{results_table([{'label': label, **figures} for label, figures in by_label.items()])}"
