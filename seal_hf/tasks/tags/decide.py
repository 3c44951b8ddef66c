"""`seal-hf decide --task tags`: tags from the scores of any model, by word and tag.

A file has a row for each sentence, with `scores`: for each word the probability of each tag, by name. Or an `.npz` has
the array `probabilities` (words of all sentences, tags), `tags`, their names, and `lengths`, the numbers of words. With
`--logits true` the values are logits. A CRF has logits, and in the `.npz` the scores `transitions` (C, C) from a tag
(its row) to the next one, and perhaps `start` and `end` (C,). Gold tags stand in a column `tags`, a list for each
sentence.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...cli.decide import Fitted, Measured, tell
from ...core.tag_schemes import allowed_transitions, scheme_of_model
from ...data.common import DataError
from ...data.score_files import (
    id_column_of,
    id_of,
    ids_of_arrays,
    matched,
    parsed,
    probabilities,
    scores_by_name,
    shared_ids,
)
from ...data.sentences import Needs
from ...data.stored_arrays import arrays_of
from ...data.table_sources import open_table
from ...data.tag_files import SentenceFile
from ...data.writers import table_writer
from ...utils.messages import few, results_table
from .decisions import CONSTRAINED, CONSTRAINED_VITERBI, INDEPENDENT, VITERBI, TagDecisions, likeliest_tags
from .metrics import Tags, tag_metrics

WRITTEN, REPORTED = (".csv", ".tsv", ".jsonl", ".parquet"), (".json",)
TAGS, SCORES = ("tags", "ner_tags", "labels"), ("scores", "probabilities", "logits")
SUM = 1e-3  # a word's probabilities sum to 1 within this


class WordScores(NamedTuple):
    """Scores of N sentences of any number of words.

    Attributes:
        source: the file.
        names: C tags.
        values: (words, C) log-probabilities or logits, the sentences one after the other.
        lengths: (N,) words of each sentence.
        ids: N ids, or None.
        chain: scores of a CRF: (C, C) from a tag to the next, (C,) of the first tag, (C,) of the last; or None.
    """

    source: str
    names: list[str]
    values: np.ndarray
    lengths: np.ndarray
    ids: list[str] | None
    chain: tuple[np.ndarray, ...] | None = None

    @property
    def decoders(self) -> tuple[str, ...]:
        """Those that can decide, the usual one first."""
        both = (INDEPENDENT, CONSTRAINED) if self.chain is None else (VITERBI, CONSTRAINED_VITERBI)
        return both[:1] if scheme_of_model(self.names) == "plain" else both


def fit(options: Namespace) -> Fitted:
    """Choose between the likeliest tags, by word or by a CRF, and the likeliest that the tags' scheme allows."""
    scores, gold = _read_both(options)
    kind = scheme_of_model(scores.names)
    predicted = {name: decided(scores, name) for name in scores.decoders}
    decisions = TagDecisions.fit(predicted, gold, kind, decoder=options.decoder)
    figures = {name: tag_metrics(tags, gold, kind) for name, tags in predicted.items()}
    return Fitted(decisions, f"{len(gold):,} sentences, {len(scores.names)} tags", figures)


def apply(options: Namespace, output: Path | None) -> list[str]:
    """Write the tags of each sentence; what to tell."""
    scores = read(options)
    tags: list[Any] = [*decided(scores, _decoder(options, scores))]
    if output is not None and output.suffix.lower() in (".csv", ".tsv"):
        tags = [json.dumps(each, ensure_ascii=False) for each in tags]
    key, ids = ("row", range(len(tags))) if scores.ids is None else ("id", scores.ids)
    with table_writer(output, None, options.escape_formulas) as writer:
        writer.write([{key: one, "tags": each} for one, each in zip(ids, tags, strict=True)])
    return [f"{len(tags)} rows in {output}."] if output is not None else []


def report(options: Namespace) -> Measured:
    """Figures of the decided tags."""
    scores, gold = _read_both(options)
    decoder = _decoder(options, scores)
    figures = tag_metrics(decided(scores, decoder), gold, scheme_of_model(scores.names))
    table = results_table([{"figure": name, "value": value} for name, value in figures.items()])
    results = {"rows": len(gold), "decoder": decoder, "figures": figures}
    return Measured(results, [f"{len(gold)} sentences, decoder {decoder}", table])


def _read_both(options: Namespace) -> tuple[WordScores, list[list[str]]]:
    options.id_column, notes = shared_ids(
        options.probabilities, options.gold, options.id_column, (*TAGS, options.label_column)
    )
    tell(notes)
    scores = read(options)
    return scores, read_gold(options, scores)


def _decoder(options: Namespace, scores: WordScores) -> str:
    stored = TagDecisions.load(options.decisions).decoder
    return TagDecisions(decoder=stored, offered=scores.decoders).named(options.decoder)


def decided(scores: WordScores, decoder: str) -> Tags:
    """The tags of each sentence."""
    if decoder == INDEPENDENT:
        best = scores.values.argmax(1)
    else:
        size = len(scores.names)
        chain: Any = scores.chain or (np.zeros((size, size)), np.zeros(size), np.zeros(size))
        if decoder != VITERBI:
            allowed = allowed_transitions(scores.names)
            chain = tuple(np.where(may, each, -np.inf) for may, each in zip(allowed, chain, strict=True))
        best = likeliest_tags(scores.values, scores.lengths, *chain)
    named = np.array(scores.names, dtype=object)[best]
    return [part.tolist() for part in np.split(named, np.cumsum(scores.lengths)[:-1])]


def read(options: Namespace) -> WordScores:
    """The scores of a file.

    Raises:
        ValueError: names the file, and the sentence and word of a score that is none, or of a wrong sum.
    """
    name = options.probabilities
    found, place = _of_arrays(name) if Path(name).suffix.lower() == ".npz" else _of_table(name, options)
    p = found.values if options.logits else probabilities(found.values)
    if options.logits:
        wrong, sums = ~np.isfinite(p).all(1), np.ones(len(p))
    else:
        wrong, sums = ~((p >= 0) & (p <= 1)).all(1), p.sum(1)
    if (faulty := np.flatnonzero(wrong | ~(np.abs(sums - 1) <= SUM))).size:
        row = int(faulty[0])
        sentence = int(np.searchsorted(np.cumsum(found.lengths), row, side="right"))
        word = row - int(found.lengths[:sentence].sum())
        what = f"the scores of its tags sum to {sums[row]:.4g}, not to 1"
        if wrong[row]:
            what = (
                "a logit is not a number"
                if options.logits
                else f"its scores are {few([f'{x:.7g}' for x in p[row]], 5)}, not from 0 to 1"
            )
        hint = "" if options.logits else " Give probabilities, as of a softmax, or logits with --logits true."
        raise DataError(f"{place(sentence)}: word {word} (counting from 0): {what}.{hint}")
    if found.chain is not None and not options.logits:
        raise DataError(f"{name} has transitions of a CRF, which belong to logits. Give --logits true.")
    with np.errstate(divide="ignore"):  # a sequence is allowed even if all its tags are impossible
        return found if options.logits else found._replace(values=np.maximum(np.log(p), -1e4))


def _of_arrays(name: str) -> tuple[WordScores, Callable[[int], str]]:
    arrays = arrays_of(name)
    values = next((arrays[key] for key in ("probabilities", "logits", "scores") if key in arrays), None)
    if values is None or (missing := [key for key in ("tags", "lengths") if key not in arrays]):
        what = "probabilities" if values is None else missing[0]
        raise DataError(f"{name} has no array {what!r}; expected probabilities (words, tags), tags, lengths.")
    tags, lengths, size = arrays["tags"], arrays["lengths"], values.shape[-1:]
    fits = values.ndim == 2 and tags.shape == size and lengths.ndim == 1 and lengths.sum() == len(values)
    if not fits or not len(values) or (lengths < 1).any():
        raise DataError(
            f"{name}: probabilities {values.shape}, tags {tags.shape} and {lengths.sum()} words by lengths do not fit."
        )
    chain = None
    if "transitions" in arrays:
        none = np.zeros(size)
        chain = tuple(arrays.get(key, none).astype(np.float64) for key in ("transitions", "start", "end"))
        if [each.shape for each in chain] != [size * 2, size, size] or any(np.isnan(each).any() for each in chain):
            said = ", ".join(str(each.shape) for each in chain)
            raise DataError(f"{name}: transitions, start and end are {said}; expected numbers of the {size[0]} tags.")
    ids = ids_of_arrays(name, arrays, len(lengths))
    names = [*map(str, tags.tolist())]
    scores = WordScores(name, names, values.astype(np.float64), lengths.astype(int), ids, chain)
    return scores, lambda row: f"{name}, sentence {row} (counting from 0)"


def _of_table(name: str, options: Namespace) -> tuple[WordScores, Callable[[int], str]]:
    table = open_table(name)
    rows = list(table)
    column = next((each for each in SCORES if each in table.columns), None)
    if column is None:
        raise DataError(f"{table.source} has no column {' or '.join(SCORES)}; its columns are {few(table.columns)}.")
    cells = []
    for number, row in rows:
        words = parsed(row[column])
        if not isinstance(words, list) or not words or not all(isinstance(word, (dict, list)) for word in words):
            raise DataError(
                f"{table.place(number)}: {str(row[column])[:60]!r}; expected the scores of each word by tag, such as "
                '[{"O": 0.9, "B-PER": 0.1}].'
            )
        cells.append([scores_by_name(word, table.place(number)) for word in words])
    names = list(dict.fromkeys(tag for cell in cells for word in cell for tag in word))
    missing = np.nan if options.logits else 0.0
    values = np.array([[word.get(tag, missing) for tag in names] for cell in cells for word in cell])
    column_of_ids = id_column_of(table.columns, options.id_column, table.source)
    ids = None if column_of_ids is None else [id_of(row[column_of_ids]) for _, row in rows]
    return WordScores(table.source, names, values, np.array([*map(len, cells)]), ids), lambda i: table.place(rows[i][0])


def read_gold(options: Namespace, scores: WordScores) -> list[list[str]]:
    """The gold tags of the sentences, by their ids if both have ids, else in their order.

    Raises:
        ValueError: sentences, words or tags that do not match.
    """
    source, ids, found = _gold_rows(options, scores)
    places, notes = matched(source, ids, len(found), scores.source, scores.ids, len(scores.lengths))
    tell(notes)
    found = [found[place] for place in places]
    differs = next((i for i, tags in enumerate(found) if len(tags) != scores.lengths[i]), None)
    if differs is not None:
        raise DataError(
            f"{source}: sentence {differs} (counting from 0) has {len(found[differs])} tags, but {scores.source} has "
            f"scores of {scores.lengths[differs]} words. Give both for the same words."
        )
    return found


def _gold_rows(options: Namespace, scores: WordScores) -> tuple[str, list[str] | None, list[list[str]]]:
    """The file, the ids of its sentences, or None, and their tags."""
    if Path(options.gold).suffix.lower() not in (*WRITTEN, ".json"):
        sentences = SentenceFile(Path(options.gold), Needs(tags=scores.names), tag_column=options.label_column)
        return options.gold, None, [sentence.gold or [] for sentence in sentences]
    table = open_table(options.gold)
    rows = list(table)
    column = options.label_column or next((each for each in TAGS if each in table.columns), "tags")
    if column not in table.columns:
        raise DataError(f"{table.source} has no column {column!r}; its columns are {few(table.columns)}.")
    found, known = [], set(scores.names)
    for number, row in rows:
        tags = parsed(row[column])
        tags = tags.split() if isinstance(tags, str) else tags
        if not isinstance(tags, list):
            raise DataError(f"{table.place(number)}: the tags are {tags!r}; expected a list of their names.")
        if other := [repr(tag) for tag in tags if str(tag) not in known]:
            have = few([*map(repr, scores.names)], 5)
            raise DataError(f"{table.place(number)}: no scores of the tag {few(other, 5)}; the scores are of {have}.")
        found.append([*map(str, tags)])
    id_column = id_column_of(table.columns, options.id_column, table.source)
    return table.source, None if id_column is None else [id_of(row[id_column]) for _, row in rows], found
