"""Constituency trees, as a comparison sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...data import TagSequenceData
from ...lab.compare.kinds import TASK_NET, Figures, Scored
from ...lab.compare.statistics import Rows
from ..tags.compare import TagSequences, methods
from ..tags.metrics import Tags, token_counts
from . import program as parsing
from .metrics import bracket_counts, tree_metrics

METRICS = ("f1", "exact_match", "accuracy")
FIGURES = Figures(
    columns={
        "f1": "F1 of brackets",
        "precision": "precision",
        "recall": "recall",
        "exact_match": "exact match",
        "accuracy": "accuracy of tags",
    },
    tested={},
    legend="Test figures in percent, mean ± deviation over seeds, each method with its own decoder. Brackets are "
    "labelled, without punctuation and root, as evalb counts them; *exact match* is the share of trees with all right.",
)


class Trees(TagSequences):
    """See [`Kind`]."""

    def metrics(self, data: TagSequenceData) -> Sequence[str]:
        return METRICS

    def scored(self, data: TagSequenceData, decided: Mapping[str, Tags]) -> Scored:
        metrics: dict[str, float] = {}
        for split, gold in self.gold(data).items():
            dataset = data.test if split == "test" else data.validation
            assert dataset is not None, "as `is_labelled` says"
            pos = dataset["pos"][:]
            metrics |= {f"{split}_{key}": value for key, value in tree_metrics(decided[split], gold, pos).items()}
        counts = bracket_counts(decided["test"], gold, pos)  # of the test split, which comes last
        right, found, there = counts.T
        exact = (counts == counts[:, :1]).all(1).astype(np.float64)
        tokens = token_counts(decided["test"], gold)
        rows = {"f1": Rows(2 * right, found + there), "exact_match": Rows.of_mean(exact), "accuracy": Rows(*tokens.T)}
        return Scored(metrics, rows)


PARSING = Trees(
    word="parsing",
    programs={TASK_NET: parsing.PROGRAM},
    methods={name: method for name, method in methods(energy="chain").items() if not method.needs},
    usual=("constant", "ce", "crf", "nce", "infnet_plus_chain_ge_b"),
    figures=FIGURES,
    known_metrics=METRICS,
    identity={"kind": "parsing"},
)
KINDS = (PARSING,)
