"""Label sets, as a comparison sees them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...cli.train import energy, mlc
from ...data import MultiLabelData
from ...decisions.decoders import constant_probabilities
from ...reports.multilabel import predict_multilabel, score_decoders
from ...training.decisions import seen_sets
from ...training.frozen import kept_rows
from ...training.linear import fit_baseline
from ..methods.base import ENERGY_NETWORK, FROZEN, LINEAR, TASK_NET, Method, OwnRanges
from ..methods.labels import METHODS, READABLE
from ..rows import Rows
from .base import Figures, Kind, Scored

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
    """See [`Kind`]."""

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

    def score(self, trainer: Any, splits: Mapping[str, Any], data: MultiLabelData) -> Scored:
        predicted = predict_multilabel(trainer, *(kept_rows(trainer, splits[name]) for name in ("eval", "test")))
        return self._scored(data, predicted["eval"], predicted["test"])

    def constant(self, data: MultiLabelData) -> Scored:
        assert data.test is not None, "as `is_labelled` says"
        splits = {"eval": data.validation, "test": data.test}
        rates = {split: constant_probabilities(data.label_rates, len(rows)) for split, rows in splits.items()}
        return self.scored(data, rates)

    def linear(self, trainer: Any, data: MultiLabelData) -> Scored:
        return self.scored(data, fit_baseline(trainer).probabilities)

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
        ENERGY_NETWORK: energy.PROGRAM,
        LINEAR: mlc.PROGRAM,  # for its net and rows
    },
    methods=METHODS,
    usual=("constant", "linear", "ce", "asymmetric", "zlpr", "nce"),
    figures=FIGURES,
    known_metrics=METRICS,
)
