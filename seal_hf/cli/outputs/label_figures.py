"""Figures of label sets for `seal-hf evaluate`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

import numpy as np

from ...decisions import LabelDecisions, as_threshold
from ...reports.common import results_table
from ...tasks.labels.hierarchical_metrics import F1_HIERARCHICAL
from ...tasks.labels.metrics import ranking_metrics
from ...tasks.labels.report import PRINTED_LABELS
from ...tasks.labels.report_by_batch import DecidedCounts
from .base import Evaluation, origin_of

SHOWN = ("f1_example", "f1_micro", "f1_macro", "jaccard", "exact_match", "hamming_loss")  # for every decoder


def label_figures(
    probabilities: np.ndarray, gold: np.ndarray, labels: Sequence[str], stored: LabelDecisions, options: Namespace
) -> Evaluation:
    """Figures under the stored decoder, under every available one, and by label.

    Args:
        probabilities: (N, L) in [0, 1], float32: only blocks of rows are copied.
        gold: (N, L) of 0 and 1, or -1 for unknown; int8.
        labels: L names.
        stored: the task-net's decisions.
        options: `decoder` names another decoder; `refit` fits all numbers anew on these rows.

    Raises:
        ValueError: an unknown decoder.
    """
    decisions = stored
    if options.refit:
        decisions = LabelDecisions.fit(
            probabilities,
            gold,
            never_empty=bool((gold.max(1) > 0).all()),
            decoder=options.decoder,
            hierarchy=stored.hierarchy,
            seen=stored.seen,
            target=stored.target,
        )
    chosen = decisions.decoder if options.refit or options.decoder is None else options.decoder
    if as_threshold(chosen) is None:
        chosen = decisions.named(chosen)
    names = dict.fromkeys([*decisions.names, chosen])  # a given threshold is not among the names
    counts = DecidedCounts.of(decisions, names, probabilities, gold)
    by_decoder = {name: counts.figures(name) for name in names}
    figures = {**counts.sets[chosen].figures(), **ranking_metrics(probabilities, gold), **by_decoder[chosen]}
    by_label = counts.sets[chosen].report(labels)
    fitted = origin_of(options)
    results = {
        "model": options.model,
        "input": options.input,
        "rows": len(gold),
        "decoder": chosen,
        "decisions": {"origin": fitted, **decisions.as_json()},
        "figures": figures,
        "decoders": by_decoder,
        "labels": by_label,
    }
    shown = SHOWN if stored.hierarchy is None else (*SHOWN, F1_HIERARCHICAL)
    rows = [
        {"decoder": f"{name} *" if name == chosen else name, **{key: found[key] for key in shown}}
        for name, found in by_decoder.items()
    ]
    tables = [results_table([{"figure": name, "value": value} for name, value in figures.items()]), results_table(rows)]
    if len(labels) <= PRINTED_LABELS:
        tables.append(results_table([{"label": name, **of_label} for name, of_label in by_label.items()]))
    elif options.output is None:
        tables.append(f"Precision, recall, F1 and support of the {len(labels)} labels: --output FILE.json.")
    said = f"{len(gold)} rows, decoder {chosen} (*), {fitted}"
    return Evaluation(results, "\n\n".join([said, *tables]))
