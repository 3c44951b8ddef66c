"""Figures of label sets for `seal-hf evaluate`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

import numpy as np

from ...inference.decisions import LabelDecisions, as_threshold
from ...metrics.multilabel import label_report, multilabel_metrics, set_metrics
from ...reports.common import results_table
from ...reports.multilabel import PRINTED_LABELS
from .base import Evaluation, origin_of

SHOWN = ("f1_example", "f1_micro", "f1_macro", "jaccard", "exact_match", "hamming_loss")  # of every decoder


def label_figures(
    probabilities: np.ndarray, gold: np.ndarray, labels: Sequence[str], stored: LabelDecisions, options: Namespace
) -> Evaluation:
    """Figures under the stored decoder, under every one that there is, and by label.

    Args:
        probabilities: (N, L) in [0, 1].
        gold: (N, L), 0 or 1, or -1, unknown.
        labels: L names.
        stored: the decisions of the task-net.
        options: `decoder` names another one; `refit` fits all numbers anew on these rows.

    Raises:
        ValueError: an unknown decoder.
    """
    decisions = stored
    if options.refit:
        decisions = LabelDecisions.fit(
            probabilities, gold, never_empty=bool((gold > 0).any(1).all()), decoder=options.decoder
        )
    chosen = decisions.decoder if options.refit or options.decoder is None else options.decoder
    sets = decisions.decide_by(probabilities, decisions.names)
    by_decoder = {name: set_metrics(decided, gold) for name, decided in sets.items()}
    if as_threshold(chosen) is None:
        chosen = decisions.named(chosen)
    decided = sets[chosen] if chosen in sets else decisions.decide(probabilities, chosen)
    by_decoder.setdefault(chosen, set_metrics(decided, gold))  # a threshold that was given
    figures = multilabel_metrics(probabilities, gold) | set_metrics(decided, gold)
    by_label = label_report(decided, gold, labels)
    fitted = origin_of(options.refit)
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
    rows = [
        {"decoder": f"{name} *" if name == chosen else name, **{key: of_sets[key] for key in SHOWN}}
        for name, of_sets in by_decoder.items()
    ]
    tables = [results_table([{"figure": name, "value": value} for name, value in figures.items()]), results_table(rows)]
    if len(labels) <= PRINTED_LABELS:
        tables.append(results_table([{"label": name, **of_label} for name, of_label in by_label.items()]))
    elif options.output is None:
        tables.append(f"Precision, recall, F1 and support of the {len(labels)} labels: --output FILE.json.")
    said = f"{len(gold)} rows, decoder {chosen} (*), {fitted}"
    return Evaluation(results, "\n\n".join([said, *tables]))
