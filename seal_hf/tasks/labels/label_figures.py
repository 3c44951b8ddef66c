"""Figures of label sets for `seal-hf evaluate` and `seal-hf decide report`, and their cells in a table of predictions.
Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.decisions import as_threshold
from ...data.label_cells import cell_writer
from ...utils.messages import PRINTED_LABELS, results_table
from .decisions.label_decisions import DecidedCounts, LabelDecisions
from .metrics import ranking_metrics
from .metrics_by_batch import F1_HIERARCHICAL

SHOWN = ("f1_example", "f1_micro", "f1_macro", "jaccard", "exact_match", "hamming_loss")  # for every decoder
DIGITS = 6  # decimals of probabilities, energies and expected losses


def label_figures(
    probabilities: np.ndarray,
    gold: np.ndarray,
    labels: Sequence[str],
    decisions: LabelDecisions,
    decoder: str | None,
    origin: str,
) -> tuple[dict[str, Any], list[str]]:
    """Figures under one decoder, under every available one, and by label.

    Args:
        probabilities: (N, L) in [0, 1], float32 or float64: only blocks of rows are copied.
        gold: (N, L) of 0 and 1, or -1 for unknown; int8.
        labels: L names.
        decoder: default: the stored one.
        origin: of the decisions, in words.

    Returns:
        The figures as JSON, and tables for the terminal; the last one is of labels, if there are at most 40.

    Raises:
        ValueError: an unknown decoder.
    """
    chosen = decisions.decoder if decoder is None else decoder
    if as_threshold(chosen) is None:
        chosen = decisions.named(chosen)
    names = dict.fromkeys([*decisions.names, chosen])  # a given threshold is not among the names
    counts = DecidedCounts.of(decisions, names, probabilities, gold)
    by_decoder = {name: counts.figures(name) for name in names}
    figures = {**counts.sets[chosen].figures(), **ranking_metrics(probabilities, gold), **by_decoder[chosen]}
    by_label = counts.sets[chosen].report(labels)
    results = {
        "rows": len(gold),
        "decoder": chosen,
        "decisions": {"origin": origin, **decisions.as_json()},
        "figures": figures,
        "decoders": by_decoder,
        "labels": by_label,
    }
    shown = SHOWN if decisions.hierarchy is None else (*SHOWN, F1_HIERARCHICAL)
    rows = [
        {"decoder": f"{name} *" if name == chosen else name, **{key: found[key] for key in shown}}
        for name, found in by_decoder.items()
    ]
    tables = [f"{len(gold)} rows, decoder {chosen} (*), {origin}"]
    tables.append(results_table([{"figure": name, "value": value} for name, value in figures.items()]))
    tables.append(results_table(rows))
    if len(labels) <= PRINTED_LABELS:
        tables.append(results_table([{"label": name, **of_label} for name, of_label in by_label.items()]))
    return results, tables


def label_cells(decided: np.ndarray, labels: Sequence[str], suffix: str) -> list[Any]:
    """The decided labels of each row, in a file with this suffix: a text in csv and tsv, else a list."""
    chosen = [[labels[i] for i in np.flatnonzero(row).tolist()] for row in decided]
    return [*map(cell_writer(labels), chosen)] if suffix in (".csv", ".tsv") else chosen


def probability_cells(
    probabilities: np.ndarray, decided: np.ndarray, labels: Sequence[str], of_all: bool = False
) -> list[dict[str, float]]:
    """Label -> probability of each row: of the decided labels and the likeliest one, or of all."""
    shown = decided.copy()
    shown[np.arange(len(shown)), probabilities.argmax(1)] = True
    shown |= of_all
    places = [np.flatnonzero(row).tolist() for row in shown]
    return [{labels[i]: float(p[i]) for i in row} for p, row in zip(probabilities, places, strict=True)]
