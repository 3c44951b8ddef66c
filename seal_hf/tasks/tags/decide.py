"""`seal-hf decide --task tags`: tags from the scores of any model, by word and tag. No torch is imported.

A file has a row for each sentence, with `scores`: for each word the probability of each tag, by name. Or an `.npz` has
the array `probabilities` (words of all sentences, tags), `tags`, their names, and `lengths`, the numbers of words.
Gold tags stand in a column `tags`, a list for each sentence.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.tag_schemes import allowed_transitions, scheme_of_model
from ...data.common import DataError
from ...data.score_files import arrays_of, id_column_of, id_of
from ...data.table_sources import open_table
from ...data.writers import table_writer
from ...utils.files import whole_file
from ...utils.messages import few, results_table
from .decisions import TagDecisions, likeliest_tags
from .metrics import Tags, tag_metrics

TAGS, SCORES = ("tags", "ner_tags", "labels"), ("scores", "probabilities")
SUM = 1e-3  # a word's probabilities sum to 1 within this
INDEPENDENT, CONSTRAINED = "independent", "constrained"


class WordScores(NamedTuple):
    """Probabilities of N sentences: `names` of C tags, `values` (words, C), `lengths` (N,), and `ids`, or None."""

    source: str
    names: list[str]
    values: np.ndarray
    lengths: np.ndarray
    ids: list[str] | None


def fit(options: Namespace, output: Path) -> str:
    """Choose between the likeliest tag of each word and the likeliest sequence that the tags' scheme allows."""
    scores = read(options)
    gold, kind = read_gold(options, scores), scheme_of_model(scores.names)
    names = (INDEPENDENT,) if kind == "plain" else (INDEPENDENT, CONSTRAINED)
    predicted = {name: decided(scores, name) for name in names}
    decisions = TagDecisions.fit(predicted, gold, kind, decoder=options.decoder)
    decisions.save(output)
    rows = [
        {"decoder": f"{name} *" if name == decisions.decoder else name, **tag_metrics(tags, gold, kind)}
        for name, tags in predicted.items()
    ]
    return (
        f"{len(gold):,} sentences, {len(scores.names)} tags: {decisions.decoder}, in {output}\n\n{results_table(rows)}"
    )


def apply(options: Namespace, output: Path | None) -> int:
    """Write the tags of each sentence; the number of sentences."""
    scores, decoder = read(options), _decoder(options)
    tags: list[Any] = [*decided(scores, decoder)]
    if output is not None and output.suffix.lower() in (".csv", ".tsv"):
        tags = [json.dumps(each, ensure_ascii=False) for each in tags]
    ids = range(len(tags)) if scores.ids is None else scores.ids
    key = "row" if scores.ids is None else "id"
    with table_writer(output, None, options.escape_formulas) as writer:
        writer.write([{key: one, "tags": each} for one, each in zip(ids, tags, strict=True)])
    return len(tags)


def report(options: Namespace, output: Path | None) -> str:
    """Figures of the decided tags, also as JSON."""
    scores, decoder = read(options), _decoder(options)
    gold = read_gold(options, scores)
    figures = tag_metrics(decided(scores, decoder), gold, scheme_of_model(scores.names))
    if output is not None:
        results = {"rows": len(gold), "decoder": decoder, "figures": figures}
        with whole_file(output) as unfinished:
            unfinished.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    rows = [{"figure": name, "value": value} for name, value in figures.items()]
    return f"{len(gold)} sentences, decoder {decoder}\n\n{results_table(rows)}"


def _decoder(options: Namespace) -> str:
    stored = TagDecisions.load(options.decisions).decoder
    return TagDecisions(decoder=stored, offered=(INDEPENDENT, CONSTRAINED)).named(options.decoder)


def decided(scores: WordScores, decoder: str) -> Tags:
    """The tags of each sentence."""
    if decoder == CONSTRAINED:
        best = likeliest_tags(scores.values, scores.lengths, allowed_transitions(scores.names))
    else:
        best = scores.values.argmax(1)
    named = np.array(scores.names, dtype=object)[best]
    return [part.tolist() for part in np.split(named, np.cumsum(scores.lengths)[:-1])]


def read(options: Namespace) -> WordScores:
    """The scores of a file.

    Raises:
        ValueError: names the file, and the sentence and word of a score that is none, or of a wrong sum.
    """
    name = options.probabilities
    found, place = _of_arrays(name) if Path(name).suffix.lower() == ".npz" else _of_table(name, options.id_column)
    wrong = ((found.values < 0) | (found.values > 1) | np.isnan(found.values)).sum(1) > 0
    sums = found.values.sum(1)
    if (wrong | ~(np.abs(sums - 1) <= SUM)).any():
        row = int(np.flatnonzero(wrong | ~(np.abs(sums - 1) <= SUM))[0])
        sentence = int(np.searchsorted(np.cumsum(found.lengths), row, side="right"))
        word = row - int(found.lengths[:sentence].sum())
        what = (
            "a score is not from 0 to 1" if wrong[row] else f"the scores of its tags sum to {sums[row]:.4g}, not to 1"
        )
        raise DataError(f"{place(sentence)}: word {word} (counting from 0): {what}. Give probabilities: a softmax.")
    return found


def _of_arrays(name: str) -> tuple[WordScores, Callable[[int], str]]:
    arrays = arrays_of(name)
    if missing := [key for key in ("probabilities", "tags", "lengths") if key not in arrays]:
        raise DataError(f"{name} has no array {missing[0]!r}; expected probabilities (words, tags), tags, lengths.")
    values, tags, lengths = (arrays[key] for key in ("probabilities", "tags", "lengths"))
    if values.ndim != 2 or tags.shape != values.shape[1:] or lengths.ndim != 1 or lengths.sum() != len(values):
        raise DataError(
            f"{name}: probabilities {values.shape}, tags {tags.shape} and {lengths.sum()} words by lengths do not fit."
        )
    ids = [*map(id_of, arrays["ids"].tolist())] if "ids" in arrays else None
    scores = WordScores(name, [*map(str, tags.tolist())], values.astype(np.float64), lengths.astype(int), ids)
    return scores, lambda row: f"{name}, sentence {row} (counting from 0)"


def _of_table(name: str, id_column: str | None) -> tuple[WordScores, Callable[[int], str]]:
    table = open_table(name)
    rows = list(table)
    column = next((each for each in SCORES if each in table.columns), None)
    if column is None:
        raise DataError(f"{table.source} has no column {' or '.join(SCORES)}; its columns are {few(table.columns)}.")
    cells = []
    for number, row in rows:
        try:
            words = json.loads(row[column]) if isinstance(row[column], str) else row[column]
            cells.append([{str(tag): float(s) for tag, s in dict(word).items() if s is not None} for word in words])
            if not words:
                raise ValueError
        except (TypeError, ValueError):
            raise DataError(
                f"{table.place(number)}: {str(row[column])[:60]!r}; expected the scores of each word by tag, such as "
                '[{"O": 0.9, "B-PER": 0.1}].'
            ) from None
    names = list(dict.fromkeys(tag for cell in cells for word in cell for tag in word))
    values = np.array([[word.get(tag, 0.0) for tag in names] for cell in cells for word in cell])
    column_of_ids = id_column_of(table.columns, id_column, table.source)
    ids = None if column_of_ids is None else [id_of(row[column_of_ids]) for _, row in rows]
    return WordScores(table.source, names, values, np.array([*map(len, cells)]), ids), lambda i: table.place(rows[i][0])


def read_gold(options: Namespace, scores: WordScores) -> list[list[str]]:
    """The gold tags of the sentences, by their ids if both have ids, else in their order.

    Raises:
        ValueError: sentences, words or tags that do not match.
    """
    table = open_table(options.gold)
    rows = list(table)
    column = options.label_column or next((each for each in TAGS if each in table.columns), "tags")
    if column not in table.columns:
        raise DataError(f"{table.source} has no column {column!r}; its columns are {few(table.columns)}.")
    found, known = [], set(scores.names)
    for number, row in rows:
        cell = row[column]
        tags = json.loads(cell) if isinstance(cell, str) and cell.startswith("[") else cell
        tags = tags.split() if isinstance(tags, str) else tags
        if not isinstance(tags, list) or not set(map(str, tags)) <= known:
            other = [tag for tag in tags if str(tag) not in known] if isinstance(tags, list) else [tags]
            raise DataError(f"{table.place(number)}: {few([*map(repr, other)], 5)}, which has no scores.")
        found.append([*map(str, tags)])
    ids = id_column_of(table.columns, options.id_column, table.source)
    if ids is not None and scores.ids is not None:
        by_id = {id_of(row[ids]): tags for (_, row), tags in zip(rows, found, strict=True)}
        if missing := [one for one in scores.ids if one not in by_id]:
            raise DataError(f"{table.source} has no gold tags of {few([*map(repr, missing)], 5)}.")
        found = [by_id[one] for one in scores.ids]
    if [*map(len, found)] != scores.lengths.tolist():
        if len(found) != len(scores.lengths):
            raise DataError(
                f"{table.source} has {len(found)} sentences, but {scores.source} has {len(scores.lengths)}."
            )
        differs = next(i for i, tags in enumerate(found) if len(tags) != scores.lengths[i])
        raise DataError(
            f"{table.source}: sentence {differs} (counting from 0) has {len(found[differs])} tags, but {scores.source} "
            f"has scores of {scores.lengths[differs]} words."
        )
    return found
