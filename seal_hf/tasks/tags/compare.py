"""Tag sequences, as a comparison sees them: parts of speech, entities, citation fields, semantic roles; and trees."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...cli.search import RATE, LogUniform, Range
from ...core.energy import energies_of
from ...core.tag_schemes import core_roles, scheme_of
from ...data import TagSequenceData
from ...lab.compare.kinds import (
    BASELINE,
    CONSTANT,
    LOSS_NET_RATE,
    SEAL,
    TASK_NET,
    WEIGHT,
    Figures,
    Kind,
    Method,
    Scored,
)
from ...lab.compare.statistics import Rows
from ...training.base import StructuredTrainer
from ..trees.metrics import bracket_counts, tree_metrics
from . import program as tagging
from .metrics import Tags, span_counts, tag_metrics, token_counts
from .program import has_bilstm
from .report import gold_tags, predict_tags

# The methods of tag sequences: baselines that decide each tag by itself, within a scheme, or by a CRF; and every loss
# with every energy.

SCHEME, CORE_ROLES = "tags with a scheme", "tags with core roles"  # what data may have
BY_RATE: dict[str, Range] = {"learning_rate": RATE}
BESIDE = {**BY_RATE, "energy_weight": WEIGHT, "loss_net_learning_rate": LOSS_NET_RATE}
FIRST = {"energy_weight": 0.3, "loss_net_learning_rate": 1e-3}
CRF = {"task_loss": "crf", "crf_learning_rate": 1e-2}  # its transitions begin at 0

BASELINES: dict[str, Method] = {
    "constant": Method(BASELINE, "the most frequent tag, for every word", program=CONSTANT),
    "ce": Method(BASELINE, "cross-entropy", {"energy_loss": "ce"}, BY_RATE),
    "constrained": Method(
        BASELINE,
        "cross-entropy, decoded within the scheme",
        {"energy_loss": "ce", "constrained_decoding": True},
        BY_RATE,
        needs=SCHEME,
    ),
    "crf": Method(BASELINE, "a CRF", {"energy_loss": "ce", **CRF}, BY_RATE),
    "crf_unique_roles": Method(
        BASELINE,
        "a CRF, core roles unique at decoding",
        {"energy_loss": "ce", **CRF, "constrained_decoding": True, "decoder": "unique_roles"},
        BY_RATE,
        needs=CORE_ROLES,
    ),
    "unique_roles": Method(
        BASELINE,
        "cross-entropy, core roles unique by a term of the loss",
        {"energy_loss": "ce", "task_loss": "unique_roles"},
        {**BY_RATE, "unique_roles_weight": LogUniform(0.1, 10.0)},
        {"unique_roles_weight": 1.0},
        needs=CORE_ROLES,
    ),
}
L1 = {"margin_cost": "l1"}  # the papers' cost of tags
LOSSES: dict[str, tuple[str, dict[str, Any]]] = {  # name -> in words, settings
    "nce": ("NCE", {"energy_loss": "nce"}),
    "ranking": ("NCE without the noise term", {"energy_loss": "ranking"}),
    "margin": ("margin", {"energy_loss": "margin", **L1}),
    "infnet": ("InfNet", {"energy_loss": "infnet", **L1}),
    "infnet_plus": ("InfNet+, stacked", {"energy_loss": "infnet_plus", "cost_augmented_network": "stacked", **L1}),
    "infnet_plus_shared": ("InfNet+, shared", {"energy_loss": "infnet_plus", "cost_augmented_network": "shared", **L1}),
    "infnet_plus_separated": (
        "InfNet+, separated",
        {"energy_loss": "infnet_plus", "cost_augmented_network": "separated", **L1},
    ),
    "regression": ("regression", {"energy_loss": "regression"}),
    "crf_nce": ("NCE beside a CRF", {"energy_loss": "nce", **CRF}),
}


def methods(energy: str) -> dict[str, Method]:
    """All methods by name: the baselines, each loss with the program's own energy `energy`, and each loss with every
    other energy for tags."""
    found = dict(BASELINES)
    found |= {name: Method(SEAL, about, settings, BESIDE, FIRST) for name, (about, settings) in LOSSES.items()}
    for other in (other for other in energies_of("tag_sequence") if other != energy):
        for name, (about, settings) in LOSSES.items():
            own = {**settings, "energy": other}
            found[f"{name}_{other}"] = Method(SEAL, f"{about}, energy {other}", own, BESIDE, FIRST)
    return found


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

    def score(self, trainer: StructuredTrainer, splits: Mapping[str, Any], data: TagSequenceData) -> Scored:
        space: Any = trainer.space
        decoder = trainer.args.decoder or space.decoder
        predicted = {split: predict_tags(trainer, splits[split], [decoder])[decoder] for split in ("eval", "test")}
        return self.scored(data, predicted)

    def constant(self, data: TagSequenceData) -> Callable[[Any], Tags]:
        train = gold_tags(data.train, data.label_names)
        ((most, _),) = Counter(tag for tags in train for tag in tags).most_common(1)
        return lambda split: [[most] * len(tags) for tags in split["tags"]]

    def scored(self, data: TagSequenceData, decided: Mapping[str, Tags]) -> Scored:
        assert data.test is not None, "as `is_labelled` says"
        metrics: dict[str, float] = {}
        for split, dataset in {"eval": data.validation, "test": data.test}.items():
            figures, rows = self.judged(data, split, decided[split], gold_tags(dataset, data.label_names))
            metrics |= {f"{split}_{key}": value for key, value in figures.items()}
        return Scored(metrics, rows)  # those of the test split, which comes last

    def judged(
        self, data: TagSequenceData, split: str, decided: Tags, gold: Tags
    ) -> tuple[dict[str, float], dict[str, Rows]]:
        """The figures of a split, and the rows of those that are tested."""
        figures, tokens = tag_metrics(decided, gold, data.kind), token_counts(decided, gold)
        figures["exact_match"] = float(np.mean(tokens[:, 0] == tokens[:, 1]))
        rows = {"accuracy": Rows(*tokens.T)}
        if data.kind != "plain":
            right, found, there = span_counts(decided, gold, data.kind).T
            rows["f1"] = Rows(2 * right, found + there)
        return figures, rows


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
    programs={TASK_NET: tagging.ROLE_PROGRAM},
    methods=methods(energy="tag_attention"),
    usual=("ce", "constrained", "crf", "crf_unique_roles", "unique_roles", "nce"),
    figures=FIGURES,
    known_metrics=SPANS,
    identity={"kind": "srl"},
)


BRACKETS = ("f1", "exact_match", "accuracy")
TREE_FIGURES = Figures(
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
        return BRACKETS

    def judged(
        self, data: TagSequenceData, split: str, decided: Tags, gold: Tags
    ) -> tuple[dict[str, float], dict[str, Rows]]:
        dataset = data.test if split == "test" else data.validation
        assert dataset is not None, "as `is_labelled` says"
        counts = bracket_counts(decided, gold, dataset["pos"][:])
        right, found, there = counts.T
        exact = (counts == counts[:, :1]).all(1).astype(np.float64)
        rows = {"f1": Rows(2 * right, found + there), "exact_match": Rows.of_mean(exact)}
        rows["accuracy"] = Rows(*token_counts(decided, gold).T)
        return tree_metrics(decided, gold, dataset["pos"][:]), rows


PARSING = Trees(
    word="parsing",
    programs={TASK_NET: tagging.TREE_PROGRAM},
    methods={name: method for name, method in methods(energy="chain").items() if not method.needs},
    usual=("constant", "ce", "crf", "nce", "infnet_plus_chain_ge_b"),
    figures=TREE_FIGURES,
    known_metrics=BRACKETS,
    identity={"kind": "parsing"},
)
KINDS = (TAGGING, SRL)
TREE_KINDS = (PARSING,)
