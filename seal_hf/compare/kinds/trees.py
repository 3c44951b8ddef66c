"""Constituency trees, as a comparison sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...cli.train import parsing
from ...data import TagSequenceData
from ...metrics.tags import Tags, token_counts
from ...metrics.trees import bracket_counts, tree_metrics
from ...reports.tags import gold_tags, predict_tags
from ..methods.base import TASK_NET
from ..methods.tags import methods
from ..rows import Rows
from .base import Figures, Kind, Scored

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


class Trees(Kind):
    """See [`Kind`]."""

    def pretrained(self, data: TagSequenceData, settings: Mapping[str, Any]) -> bool:
        return self.net(settings) == "encoder"

    def metrics(self, data: TagSequenceData) -> Sequence[str]:
        return METRICS

    def score(self, trainer: Any, splits: Mapping[str, Any], data: TagSequenceData) -> Scored:
        decoder = trainer.args.decoder or trainer.space.decoder
        rows = {split: splits[split][0] for split in ("eval", "test")}
        predicted = {split: predict_tags(trainer, found, [decoder])[decoder] for split, found in rows.items()}
        return self.scored(data, predicted)

    def constant(self, data: TagSequenceData) -> Scored:
        train, splits = gold_tags(data.train, data.label_names), self._splits(data)
        ((most, _),) = Counter(tag for tags in train for tag in tags).most_common(1)
        decided = {split: [[most] * len(row) for row in rows["words"]] for split, rows in splits.items()}
        return self.scored(data, decided)

    @staticmethod
    def _splits(data: TagSequenceData) -> dict[str, Any]:
        assert data.test is not None, "as `is_labelled` says"
        return {"eval": data.validation, "test": data.test}

    def scored(self, data: TagSequenceData, decided: Mapping[str, Tags]) -> Scored:
        metrics: dict[str, float] = {}
        for split, dataset in self._splits(data).items():
            gold, pos = gold_tags(dataset, data.label_names), dataset["pos"][:]
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
