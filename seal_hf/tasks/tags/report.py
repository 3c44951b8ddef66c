"""Reports on a trained tagger: figures, predictions, a table by tag."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import TrainingArguments

from ...data.tensors.words import WordRows
from ...reports.common import SHOWN, Ending, chosen_line, figure_rows, results_table, row_origin, score_of
from ...training.decisions import store
from ...training.hints import learned_nothing
from ...utils.files import whole_file
from .decisions import CONSTRAINED, CONSTRAINED_VITERBI, INDEPENDENT, UNIQUE_ROLES, VITERBI, fit_tags, predicted_tags
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


def predict_tags(trainer: Any, rows: WordRows, decoders: Sequence[str]) -> dict[str, list[list[str]]]:
    """For each decoder, a tag for every word of every row. Words that were cut off get the first tag.

    Args:
        trainer: a [`SealTrainer`].
        rows: from [`encode_words`] or [`tokenize_words`].
        decoders: names from `trainer.space.decoders`.
    """
    predicted, _ = predicted_tags(trainer, rows, decoders)
    first = trainer.space.label_names[0]
    return {
        decoder: [[*row, *[first] * (int(size) - len(row))] for row, size in zip(tags, rows.num_words, strict=True)]
        for decoder, tags in predicted.items()
    }


def evaluate_tags(
    trainer: Any, splits: Mapping[str, tuple[WordRows, Dataset]], label_names: Sequence[str], kind: str
) -> tuple[dict[str, float], dict[str, list[list[str]]]]:
    """Figures of [`tag_metrics`] over all words, also those that were cut off, under the decoder that is chosen on
    `eval` and stored in the task-net's config; with several decoders, also F1 or accuracy under each, and of roles the
    repeated ones.

    Args:
        trainer: a [`SealTrainer`].
        splits: name (such as `eval`, `test`) -> the rows that the task-net reads, and the data they came from.
        label_names, kind: the data's.

    Returns:
        metrics: `{split}_{figure}`, all in [0, 1].
        predicted: split -> a tag for every word of every row.
    """
    space = trainer.space
    metrics: dict[str, float] = {}
    found = {split: predict_tags(trainer, rows, space.decoders) for split, (rows, _) in splits.items()}
    gold = {split: gold_tags(dataset, label_names) for split, (_, dataset) in splits.items()}
    decisions = fit_tags(found["eval"], gold["eval"], kind, trainer.args)
    store(trainer, decisions)
    main = "accuracy" if kind == "plain" else "f1"
    for split, by_decoder in found.items():
        for decoder, tags in by_decoder.items():
            figures = tag_metrics(tags, gold[split], kind)
            if decoder == decisions.decoder:
                metrics |= {f"{split}_{key}": value for key, value in figures.items()}
            if len(by_decoder) > 1:
                compared = (main, REPEATED) if REPEATED in figures else (main,)
                metrics |= {f"{split}_{key}_{decoder}": figures[key] for key in compared}
    return metrics, {split: tags[decisions.decoder] for split, tags in found.items()}


def print_notes(
    name: str,
    train_rows: WordRows,
    splits: Mapping[str, tuple[WordRows, Dataset]],
    say: Callable[[str], None] = print,
) -> None:
    """Print what tokenisation lost of each split, if anything; by `say`."""
    for split, rows in {"train": train_rows, **{split: rows for split, (rows, _) in splits.items()}}.items():
        for note in rows.notes:
            say(f"{name}, {SHOWN.get(split, split)}: {note}")


def tag_ending(
    trainer: Any, splits: Mapping[str, tuple[WordRows, Dataset]], data: Any, card: Mapping[str, Any]
) -> Ending:
    """Evaluate a tagging run. Its report writes `_predictions_SPLIT.jsonl`; its tables are those of `test`, or else of
    `eval`.

    Args:
        splits: as for [`evaluate_tags`].
        data: from [`load_tags`] or [`load_srl`].
        card: entries of [`SealTrainer.card_facts`] beside the figures.
    """
    label_names, kind, origins = data.label_names, data.kind, getattr(data, "origins", {})
    metrics, predicted = evaluate_tags(trainer, splits, label_names, kind)
    decoder = trainer.space.decoder

    def report(folder: Path) -> tuple[str, dict[str, Any]]:
        for split, tags in predicted.items():
            path, dataset = folder / f"_predictions_{split}.jsonl", splits[split][1]
            write_tag_predictions(path, dataset, tags, label_names, origins.get(SHOWN.get(split, split)))
        last = "test" if "test" in splits else "eval"
        gold = gold_tags(splits[last][1], label_names)
        rows, dataset = splits[last]
        origin = partial(row_origin, data, SHOWN.get(last, last))
        energies = partial(tag_energies, trainer, rows, predicted[last])
        found = tag_facts(predicted[last], gold, dataset, kind, label_names, origin, energies)
        table = tag_tables(metrics, predicted[last], gold, kind, decoder)
        return table, {"tags": {"split": SHOWN.get(last, last), **found}}

    figure = "accuracy" if kind == "plain" else "f1"
    return Ending(
        metrics,
        FIGURES,
        decoder_figure(kind, decoder),
        report,
        rows={split: len(dataset) for split, (_, dataset) in splits.items()},
        files=("new.srl" if kind == "srl" else "new.txt", "predictions.jsonl"),
        score=score_of(metrics, figure, FIGURES[figure], decoder),
        hints=[hint_of_one_tag(predicted["eval"], trainer.args)] if "eval" in predicted else [],
        card=card,
    )


def gold_tags(dataset: Dataset, label_names: Sequence[str]) -> list[list[str]]:
    """The names of a data set's tags."""
    return [[label_names[tag] for tag in tags] for tags in dataset["tags"][:]]


def write_tag_predictions(
    path: str | os.PathLike[str],
    dataset: Dataset,
    predicted: Tags,
    label_names: Sequence[str],
    origins: Any = None,
) -> None:
    """Write one JSON object per row: its source (`origins.of(row)`, else its number), `words`, `predicted`, `gold`, and
    for roles `predicate`. The file is written completely or not at all."""
    gold = gold_tags(dataset, label_names)
    places = dataset["predicate"][:] if "predicate" in dataset.column_names else None
    with whole_file(path) as unfinished, open(unfinished, "w", encoding="utf-8") as file:
        for i, words in enumerate(dataset["words"][:]):
            line: dict[str, Any] = {"row": i} if origins is None else dict(origins.of(i))
            line |= {"words": words, "predicted": predicted[i], "gold": gold[i]}
            if places is not None:
                line["predicate"] = places[i]
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def decoder_figure(kind: str, decoder: str | None) -> str:
    """The key of the main figure under a decoder; the results have it if several decoders were compared."""
    return f"{'accuracy' if kind == 'plain' else 'f1'}_{decoder}"


def tag_tables(
    metrics: Mapping[str, float],
    predicted: Tags | None = None,
    gold: Tags | None = None,
    kind: str = "plain",
    decoder: str | None = None,
) -> str:
    """The closing tables: a line per figure, and, with predictions, a line per span type or tag. If several decoders
    are compared, the figure of `decoder` is marked."""
    marked = decoder_figure(kind, decoder)
    table = results_table(figure_rows(metrics, FIGURES, marked))
    if any(key.endswith(f"_{marked}") for key in metrics):
        table += f"\n\n{chosen_line(str(decoder))}"
    if predicted is None or gold is None:
        return table
    by_tag = tag_report(predicted, gold, kind)
    return f"{table}\n\n{results_table([{'tag': tag, **figures} for tag, figures in by_tag.items()])}"


def hint_of_one_tag(tags: Sequence[Sequence[Any]], args: TrainingArguments) -> str | None:
    """The hint for a net that gives every word of the validation sentences the same one of its `tags`; None for others,
    and for a single sentence."""
    found = {tag for sentence in tags for tag in sentence}
    if len(found) != 1 or len(tags) < 2:
        return None
    return learned_nothing(f"All words of {len(tags)} validation sentences get the tag {found.pop()!r}", args)
