"""The methods of label sets: those of the papers' multi-label tables, their ablations, ours, and the baselines.

There is no `static_infnet`: in InfNet the task-net looks for structures of high cost, from which the loss-net learns.
With a loss-net that no longer learns, only the pull towards a high cost would remain.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...cli.search import DROPOUT_RANGE, ENERGY_RATES, Choice, LogUniform
from ...data import MultiLabelData
from ...lab.compare.kinds import (
    ABLATION,
    BASELINE,
    CONSTANT,
    ENERGY,
    ENERGY_NETWORK,
    FROZEN,
    LINEAR,
    LOSS_NET_RATE,
    NET,
    SEAL,
    SHARE,
    TASK_NET,
    WEIGHT,
    Figures,
    Kind,
    Method,
    OwnRanges,
    Scored,
)
from ...lab.compare.statistics import Rows
from ...trainer import SealTrainer
from ...training.base import StructuredTrainer
from . import program as mlc
from .decisions.of_trainer import seen_sets
from .evaluation import predict_multilabel, score_decoders
from .linear import fit_baseline

READABLE = "features or texts"  # what an energy network on its own reads
BESIDE = {**NET, "energy_weight": WEIGHT, "loss_net_learning_rate": LOSS_NET_RATE}
STATIC = {**NET, "energy_weight": WEIGHT}
PERTURBED = {"perturbation_std": LogUniform(0.05, 5.0)}
CHEAP: dict[str, Any] = {"num_samples": 5, "global_size": 50, "loss_net_every": 2}


def baseline(about: str, **settings: Any) -> Method:
    return Method(BASELINE, about, {"energy_loss": "ce", **settings}, NET)


def dynamic(
    about: str,
    loss: str,
    space: Mapping | None = None,
    group: str = SEAL,
    first: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Method:
    first = {"energy_weight": 0.3, "loss_net_learning_rate": 1e-3, **(first or {})}
    return Method(group, about, {"energy_loss": loss, **settings}, {**BESIDE, **(space or {})}, first)


def balanced(about: str, group: str = SEAL, **settings: Any) -> Method:
    """NCE with λ1 as the energy's share of the task loss's gradient."""
    settings["energy_weight_balance"] = True
    return dynamic(about, "nce", {"energy_weight": SHARE}, group, {"energy_weight": 0.5}, **settings)


def static(about: str, loss: str, network: str) -> Method:
    """SEAL-static: a trained and frozen energy network serves as a loss."""
    settings = {"energy_loss": loss, "loss_net_steps": 0, "loss_net_encoder": "separate"}
    return Method(
        SEAL, about, settings, STATIC, {"energy_weight": 0.1}, takes={"loss_net_path": network}, needs=READABLE
    )


def network(about: str, method: str, step: float, space: Mapping | None = None, **takes: str) -> Method:
    """An energy network that predicts by gradient-based inference. `step` is the first step size. `takes` may name the
    method whose task-net gives the encoder; without it, the dropout is searched."""
    settings = {"energy_method": method, "num_samples": 100}  # samples cost little beside inference
    space = {**ENERGY_RATES, **({} if takes else {"dropout": DROPOUT_RANGE}), **(space or {})}
    first = {"learning_rate": 3e-4, "inference_learning_rate": step}
    return Method(ENERGY, about, settings, space, first, program=ENERGY_NETWORK, takes=takes, needs=READABLE)


METHODS: dict[str, Method] = {
    "constant": Method(BASELINE, "the labels' frequencies, for every row", program=CONSTANT),
    "linear": Method(
        BASELINE,
        "a logistic regression on frozen features, C and class weights by cross-validation",
        {"energy_loss": "ce"},
        program=LINEAR,
        needs=READABLE,
    ),
    "ce": baseline("cross-entropy"),
    "ce_balanced": baseline("cross-entropy, present labels weighed by their rarity", pos_weight="balanced"),
    "focal": baseline("focal loss", task_loss="focal"),
    "asymmetric": baseline("asymmetric loss", task_loss="asymmetric"),
    "zlpr": baseline("log-sum-exp pairwise loss", task_loss="zlpr"),
    "soft_f1": Method(
        BASELINE,
        "cross-entropy and one minus the soft F1",
        {"energy_loss": "ce", "task_loss": "soft_f1"},
        {**NET, "soft_f1_weight": LogUniform(0.3, 30.0)},
        {"soft_f1_weight": 3.0},
    ),
    "mutual": dynamic(
        "mutual learning: a second net with cross-entropy in place of the loss-net",
        "mutual",
        group=BASELINE,
        first={"energy_weight": 1.0},  # the weight of what each net learns of the other
        global_size=0,
    ),
    "gbi_spen": network("SPEN: margin, loss-augmented inference", "spen", 0.01, task_net_path="ce"),
    "gbi_dvn": network("DVN: regression, adversarial and gold points", "dvn", 0.1),
    "gbi_nce": network("NCE with frozen cross-entropy noise", "nce", 0.03, task_net_path="ce"),
    "gbi_ranking": network("ranking on samples of frozen cross-entropy", "ranking", 0.03, task_net_path="ce"),
    "gbi_regression_s": network(
        "regression on outputs around cross-entropy's", "regression_s", 0.1, PERTURBED, task_net_path="ce"
    ),
    "static_margin": static("SEAL-static on SPEN", "margin", "gbi_spen"),
    "static_regression": static("SEAL-static on DVN", "regression", "gbi_dvn"),
    "static_nce": static("SEAL-static on NCE", "nce", "gbi_nce"),
    "static_ranking": static("SEAL-static on ranking", "ranking", "gbi_ranking"),
    "static_regression_s": static("SEAL-static on regression-s", "regression_s", "gbi_regression_s"),
    "static_beside": Method(
        SEAL,
        "SEAL-static on the loss-net of nce_separate",
        {"energy_loss": "nce", "loss_net_steps": 0, "loss_net_encoder": "separate"},
        STATIC,
        {"energy_weight": 0.1},
        takes={"loss_net_path": "nce_separate"},
    ),
    "margin": dynamic("SEAL-dynamic, margin", "margin", {"margin_cost": Choice(("f1", "l1", "l1_mean"))}),
    "infnet": dynamic(
        "InfNet: the task-net looks for the cost too",
        "infnet",
        {"margin_cost": Choice(("f1", "l1_mean")), "task_weight": LogUniform(0.3, 10.0)},
    ),
    "regression": dynamic("SEAL-dynamic, regression", "regression", first={"energy_weight": 3.0}),
    "regression_s": dynamic(
        "SEAL-dynamic, regression on perturbed outputs",
        "regression_s",
        PERTURBED,
        first={"energy_weight": 3.0, "perturbation_std": 1.0},
    ),
    "contrastive_divergence": dynamic("contrastive divergence: samples, each with its cost", "contrastive_divergence"),
    "implicit": dynamic(
        "contrastive divergence with implicit gradients",
        "contrastive_divergence",
        hypergradient="cg",
        hypergradient_damping=1.0,
    ),
    "default": Method(SEAL, "the default: NCE, λ1 by the rule", {"energy_loss": "nce", "energy_weight": None}, NET),
    "nce": dynamic("SEAL-dynamic, NCE", "nce"),
    "ranking": dynamic("NCE without the noise term", "ranking"),
    "nce_shared": dynamic("NCE on the task-net's features", "nce", loss_net_encoder="shared"),
    "nce_separate": dynamic("NCE, an encoder each", "nce", loss_net_encoder="separate"),
    "nce_cost": dynamic(
        "NCE, cost of a sample in its logit", "nce", {"cost_weight": LogUniform(0.1, 10.0)}, first={"cost_weight": 1.0}
    ),
    "nce_distinct": dynamic("NCE, distinct samples", "nce", distinct_samples=True),
    "nce_gold": dynamic(
        "NCE, gold mixed into samples", "nce", {"gold_mix": Choice((0.1, 0.3, 0.5))}, first={"gold_mix": 0.3}
    ),
    "nce_rise": dynamic("NCE, λ1 rising from 0 to the planned last step", "nce", energy_weight_schedule="rise"),
    "nce_fall": dynamic("NCE, λ1 falling to 0 at the planned last step", "nce", energy_weight_schedule="fall"),
    "nce_cheap": dynamic("NCE, few samples, small global term, loss-net at every other step", "nce", **CHEAP),
    "nce_balanced": balanced("NCE, λ1 by gradient norms"),
    "nce_balanced_separate": balanced("NCE, λ1 by gradient norms, an encoder each", loss_net_encoder="separate"),
    "nce_balanced_cheap": balanced("NCE, λ1 by gradient norms, as cheap as nce_cheap", **CHEAP),
    "nce_balanced_local": balanced(
        "NCE, λ1 by gradient norms, without dependencies between labels", group=ABLATION, global_size=0
    ),
    "nce_asymmetric": dynamic("NCE beside the asymmetric loss", "nce", task_loss="asymmetric"),
    "nce_zlpr": dynamic("NCE beside the pairwise loss", "nce", task_loss="zlpr"),
    "nce_pairwise": dynamic("NCE, an energy of pairs of labels", "nce", energy="pairwise"),
    "nce_local": dynamic("NCE, an energy without dependencies between labels", "nce", group=ABLATION, global_size=0),
    "nce_alone": dynamic(
        "NCE without cross-entropy", "nce", group=ABLATION, task_weight=0.0, first={"energy_weight": 1.0}
    ),
    "ranking_on_task": Method(
        ABLATION, "ranking loss on the task-net itself", {"energy_loss": "ce", "task_loss": "ranking"}, NET
    ),
    "regression_s_discrete": dynamic(
        "regression on samples",
        "regression_s",
        group=ABLATION,
        first={"energy_weight": 3.0},
        regression_samples="discrete",
    ),
}


# Label sets, as a comparison sees them.

Predicted = tuple[np.ndarray, np.ndarray | None]  # probabilities and labels, (N, L) each

METRIC = "f1_example_tuned"  # on validation, it chooses epochs and trials by default
METRICS = (METRIC, "f1_example", "f1_micro", "f1_macro", "map")  # all choices
DECODERS = {
    "f1_example": "at 0.5",
    "f1_example_tuned": "tuned",
    "f1_example_per_label": "per label",
    "f1_example_expected": "expected F1",
    "f1_example_calibrated": "calibrated",
    "f1_example_seen": "seen sets",
    "f1_example_seen_expected": "seen sets, expected F1",
    "f1_example_closed": "closed sets",  # only for labels with a hierarchy
    "f1_example_closed_calibrated": "closed sets, calibrated",
}
COMPARED = {
    METRIC: "one tuned threshold",
    "f1_example_calibrated": "calibrated expected F1",
}  # decoders that are tested
FIGURES = Figures(
    columns={key: f"F1 {name}" for key, name in DECODERS.items()},
    tested={key: f"example F1, {name}" for key, name in COMPARED.items()},
    legend="Test example F1 in percent, mean ± deviation over seeds, under five decoders: 0.5, one threshold and one "
    "per label tuned on validation, the highest expected F1, and the same with calibrated probabilities.",
    notes={
        "f1_example_seen": "Seen sets weigh each label set by how often it occurs in training: the most probable one, "
        "and that of the highest expected F1.",
        "f1_example_closed": "Closed sets are those of highest expected F1 that hold all ancestors of their labels.",
    },
)


class LabelSetKind(Kind):
    """Label sets, see [`Kind`]."""

    def recipe(self, given: Mapping[str, Any]) -> str:
        columns = ("text_column", "image_column", "label_column", "label_columns", "sample_weight")
        named = {key: given.get(key) for key in ("dataset", "data_dir", *columns)}
        named["model_name_or_path"] = given.get("model_name_or_path")
        return mlc.recipe(Namespace(**named, freeze_encoder=is_frozen(given)))

    def pretrained(self, data: MultiLabelData, settings: Mapping[str, Any]) -> bool:
        return data.kind == "text" or (data.kind == "images" and settings.get("model_name_or_path") is not None)

    def own_ranges(self, data: MultiLabelData, settings: Mapping[str, Any]) -> OwnRanges:
        return FROZEN if is_frozen(settings) else super().own_ranges(data, settings)

    def caches(self, settings: Mapping[str, Any], folder: Path) -> dict[str, str]:
        return {"loss_net_feature_cache": str(folder)} if is_frozen(settings) else {}

    def check_method(self, name: str, method: Method, settings: Mapping[str, Any]) -> None:
        if is_frozen(settings) and method.program == ENERGY_NETWORK:
            raise ValueError(
                f"`freeze_encoder` is set, but method {name!r} trains a whole encoder. Leave out one of them, and the "
                "methods that take its net."
            )

    def has(self, data: MultiLabelData) -> set[str]:
        return set() if data.kind == "images" else {READABLE}

    def metrics(self, data: MultiLabelData) -> Sequence[str]:
        return METRICS

    def score(self, trainer: StructuredTrainer, splits: Mapping[str, Any], data: MultiLabelData) -> Scored:
        predicted = predict_multilabel(trainer, *(trainer.kept_rows(splits[name]) for name in ("eval", "test")))
        return self._scored(data, predicted["eval"], predicted["test"])

    def constant(self, data: MultiLabelData) -> Callable[[Any], np.ndarray]:
        rates = data.label_rates
        return lambda split: np.tile(rates, (len(split), 1))

    def linear(self, trainer: StructuredTrainer, splits: Mapping[str, Any], data: MultiLabelData) -> Scored:
        return self.scored(data, fit_baseline(cast(SealTrainer, trainer), splits).probabilities)

    def scored(self, data: MultiLabelData, decided: Mapping[str, Any]) -> Scored:
        assert data.test is not None, "as `is_labelled` says"
        gold = [rows.with_format("numpy")["labels"][:] for rows in (data.validation, data.test)]
        given = [np.asarray(decided[split], dtype=np.float32) for split in ("eval", "test")]
        return self._scored(data, *zip(given, gold, strict=True))

    def is_labelled(self, split: Any) -> bool:
        return split is not None and "labels" in split.column_names

    def unsaid(self, data: MultiLabelData) -> dict[str, str]:
        return {"normalize": "auto"} if data.kind == "features" else {}

    def _scored(self, data: MultiLabelData, validation: Predicted, test: Predicted) -> Scored:
        probabilities, labels = validation
        assert labels is not None, "as predict_multilabel says"
        seen = seen_sets(data.train, probabilities.shape[1])
        metrics, rows = score_decoders(probabilities, labels, *test, hierarchy=data.hierarchy, seen=seen)
        return Scored(metrics, {key: Rows.of_mean(values) for key, values in rows.items()})


def is_frozen(settings: Mapping[str, Any]) -> bool:
    """True if flags or a recipe freeze the encoder."""
    return str(settings.get("freeze_encoder")).lower() in ("true", "yes", "t", "y", "1")  # as the flags of programs


LABEL_SETS = LabelSetKind(
    word="mlc",
    programs={
        TASK_NET: mlc.PROGRAM,
        ENERGY_NETWORK: mlc.ENERGY_PROGRAM,
        LINEAR: mlc.PROGRAM,  # for its net and rows
    },
    methods=METHODS,
    usual=("constant", "linear", "ce", "soft_f1", "asymmetric", "zlpr", "nce"),
    figures=FIGURES,
    known_metrics=METRICS,
)
KINDS = (LABEL_SETS,)
