"""Tag sequences, as a comparison sees them: parts of speech, entities, citation fields, semantic roles."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...cli.train import srl, tagging
from ...cli.train.taggers import has_bilstm
from ...data import TagSequenceData
from ...metrics.tags import Tags, span_counts, tag_metrics, token_counts
from ...reports.tags import gold_tags, predict_tags
from ...structures.tag_schemes import core_roles, scheme_of
from ..methods.base import TASK_NET
from ..methods.tags import CORE_ROLES, SCHEME, methods
from ..rows import Rows
from .base import Figures, Kind, Scored

SPANS, TOKENS = ("f1", "accuracy"), ("accuracy",)  # metrics, the default first
FIGURES = Figures(
    columns={
        "f1": "F1 of spans",
        "accuracy": "accuracy",
        "exact_match": "exact match",
        "malformed": "malformed",
        "core_role_violations": "repeated roles",
    },
    tested={},
    legend="Test figures in percent, mean ± deviation over seeds, each method with its own decoder. *Exact match* is "
    "the share of sentences with the gold tag at every word.",
    notes={
        "malformed": "*Malformed* is the share of predicted sequences that break the tags' scheme.",
        "core_role_violations": "*Repeated roles* is the share of propositions with a core role twice.",
    },
)


class TagSequences(Kind):
    """See [`Kind`]."""

    def pretrained(self, data: TagSequenceData, settings: Mapping[str, Any]) -> bool:
        return not has_bilstm(Namespace(model_name_or_path=settings.get("model_name_or_path")))

    def metrics(self, data: TagSequenceData) -> Sequence[str]:
        return TOKENS if data.kind == "plain" else SPANS

    def has(self, data: TagSequenceData) -> set[str]:
        if scheme_of(data.label_names) == "plain":
            return set()
        return {SCHEME, CORE_ROLES} if core_roles(data.label_names) else {SCHEME}

    def score(self, trainer: Any, splits: Mapping[str, Any], data: TagSequenceData) -> Scored:
        decoder = trainer.args.decoder or trainer.space.decoder
        rows = {split: splits[split][0] for split in ("eval", "test")}
        predicted = {split: predict_tags(trainer, found, [decoder])[decoder] for split, found in rows.items()}
        return self.scored(data, predicted)

    def constant(self, data: TagSequenceData) -> Scored:
        train, gold = gold_tags(data.train, data.label_names), self.gold(data)
        ((most, _),) = Counter(tag for tags in train for tag in tags).most_common(1)
        return self.scored(data, {split: [[most] * len(row) for row in rows] for split, rows in gold.items()})

    @staticmethod
    def gold(data: TagSequenceData) -> dict[str, Tags]:
        """The gold tags of validation and test, which comes last."""
        assert data.test is not None, "as `is_labelled` says"
        splits = {"eval": data.validation, "test": data.test}
        return {split: gold_tags(rows, data.label_names) for split, rows in splits.items()}

    def scored(self, data: TagSequenceData, decided: Mapping[str, Tags]) -> Scored:
        metrics: dict[str, float] = {}
        for split, gold in self.gold(data).items():
            figures, tokens = tag_metrics(decided[split], gold, data.kind), token_counts(decided[split], gold)
            figures["exact_match"] = float(np.mean(tokens[:, 0] == tokens[:, 1]))
            metrics |= {f"{split}_{key}": value for key, value in figures.items()}
        rows = {"accuracy": Rows(*tokens.T)}  # those of the test split, which comes last
        if data.kind != "plain":
            right, found, there = span_counts(decided["test"], gold, data.kind).T
            rows["f1"] = Rows(2 * right, found + there)
        return Scored(metrics, rows)


TAGGING = TagSequences(
    word="tagging",
    programs={TASK_NET: tagging.PROGRAM},
    methods=methods(energy="chain"),
    usual=("constant", "ce", "constrained", "crf", "infnet_plus", "nce"),
    figures=FIGURES,
    known_metrics=SPANS,
    identity={"kind": "tagging"},
)
SRL = TagSequences(
    word="srl",
    programs={TASK_NET: srl.PROGRAM},
    methods=methods(energy="tag_attention"),
    usual=("ce", "constrained", "crf", "crf_unique_roles", "unique_roles", "nce"),
    figures=FIGURES,
    known_metrics=SPANS,
    identity={"kind": "srl"},
)
