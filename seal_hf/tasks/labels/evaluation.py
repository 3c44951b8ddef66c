"""The figures of label sets: their names, their values under all decoders, and the evaluation of a trained net."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from transformers import Trainer

from ...core.arrays import first_output, sigmoid
from ...core.decisions import FIXED, THRESHOLD
from ...core.hierarchy import Hierarchy
from ...training.base import StructuredTrainer
from ...training.evaluation import changed, store
from .decisions.label_decisions import (
    CALIBRATED_CLOSED,
    CALIBRATED_JACCARD,
    CLOSED,
    NEVER_EMPTY,
    SEEN,
    SEEN_F1,
    LabelDecisions,
)
from .decisions.of_trainer import fit_labels, fit_threshold, is_fitted_by_batch
from .decisions.seen_sets import SeenSets
from .metrics import MultiLabelByBatch, ranking_metrics, scored_rows, threshold_curve
from .page import DecidedCounts

# --- the names of figures ---------------------------------------------------------------------------------------------

NAMED = {  # decoder -> key of its example F1 in the result files, without `eval_` or `test_`, and its name for readers
    FIXED: ("f1_example", "at 0.5"),
    THRESHOLD: ("f1_example_tuned", "at the tuned threshold"),
    "thresholds": ("f1_example_per_label", "at tuned thresholds, one per label"),
    "expected_f1": ("f1_example_expected", "of the sets of highest expected F1"),
    "calibrated_f1": ("f1_example_calibrated", "of the sets of highest expected F1, calibrated"),
    CALIBRATED_JACCARD: ("f1_example_calibrated_jaccard", "of the sets of highest expected Jaccard index, calibrated"),
    CLOSED: ("f1_example_closed", "of closed sets, highest expected F1"),
    CALIBRATED_CLOSED: ("f1_example_closed_calibrated", "of closed sets, highest expected F1, calibrated"),
    SEEN: ("f1_example_seen", "of the most probable sets, by those of training"),
    SEEN_F1: ("f1_example_seen_expected", "of the sets of highest expected F1, by those of training"),
}
DECODER_FIGURES = {
    f"{name}{end}": f"{key}{end and '_never_empty'}" for end in ("", NEVER_EMPTY) for name, (key, _) in NAMED.items()
}
# end of a key -> a model that is judged beside the saved one
BESIDE = {
    "linear_encoder": "a logistic regression on the same encoder, frozen",
    "linear_features": "a logistic regression on the same features",
    "net_alone": "the net without this logistic regression",
}
BESIDE_FIGURES = {
    f"{figure}_{end}": f"{name} of {model}"
    for figure, name in {
        "f1_example": "example F1",
        "jaccard": "Jaccard index",
        "exact_match": "exact match",
        "f1_micro": "micro F1",
        "f1_macro": "macro F1",
        "hamming_loss": "Hamming loss",
        "cost": "cost of a row",
    }.items()
    for end, model in BESIDE.items()
}
# key in the result files, without `eval_` or `test_` -> its name for readers
FIGURES = {
    "f1_example_decided": "example F1 of the decisions",
    "f1_micro_decided": "micro F1 of the decisions",
    "f1_macro_decided": "macro F1 of the decisions",
    "f1_hierarchical_decided": "hierarchical F1 of the decisions",
    "precision_example_decided": "example precision of the decisions",
    "recall_example_decided": "example recall of the decisions",
    "jaccard_decided": "Jaccard index of the decisions",
    "exact_match_decided": "exact match of the decisions",
    "hamming_loss_decided": "Hamming loss of the decisions",
    "cost_decided": "cost of a row's decisions",
    **BESIDE_FIGURES,
    **{
        f"{key}{end}": f"example F1 {words}{', never empty' if end else ''}"
        for key, words in NAMED.values()
        for end in ("", "_never_empty")
    },
    "f1_micro": "micro F1 at 0.5",
    "f1_micro_tuned": "micro F1 at the tuned threshold",
    "f1_macro": "macro F1 at 0.5",
    "f1_macro_tuned": "macro F1 at the tuned threshold",
    "f1_hierarchical": "hierarchical F1 at 0.5",
    "f1_hierarchical_tuned": "hierarchical F1 at the tuned threshold",
    "map": "mean average precision over examples",
    "map_macro": "mean average precision over labels",
}
# The grid of figures on the page of a run: its columns, and its rows by the ends of their keys.
GRID_KINDS = {
    "example F1": "f1_example",
    "micro F1": "f1_micro",
    "macro F1": "f1_macro",
    "Jaccard": "jaccard",
    "exact match": "exact_match",
}
GRID_DECISIONS = {
    f"{name}: {FIGURES[key].removeprefix('example F1 ')}": key.removeprefix("f1_example")
    for name, key in DECODER_FIGURES.items()
}
GRID_DECISIONS |= {model.removeprefix("a ").removeprefix("the "): f"_{end}" for end, model in BESIDE.items()}


# --- figures under all decoders ---------------------------------------------------------------------------------------


def score_decoders(
    validation_probabilities: np.ndarray,
    validation_labels: np.ndarray,
    test_probabilities: np.ndarray | None = None,
    test_labels: np.ndarray | None = None,
    *,
    empty_score: float = 1.0,
    decisions: LabelDecisions | None = None,
    hierarchy: Hierarchy | None = None,
    seen: SeenSets | None = None,
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Figures under all decoders of [`LabelDecisions`], fitted on validation.

    Args:
        validation_probabilities, validation_labels: (N, L), as for `multilabel_metrics`.
        test_probabilities, test_labels: (M, L), or None without a test split or without its labels.
        empty_score: as in `multilabel_metrics`.
        decisions: fitted on these validation rows; default: fitted here, without a chosen decoder.
        hierarchy: of the labels; default: that of `decisions`, if they have one.
        seen: the label sets of the training rows, as for `LabelDecisions.fit`; default: those of `decisions`.

    Returns:
        metrics: with the prefix `eval_` and, with test labels, `test_`: the figures of `multilabel_metrics` at 0.5;
            with `_tuned`, those that depend on a threshold, at the tuned one; example F1 of each decoder, by the keys
            `DECODER_FIGURES`; with `decisions`, the figures of their decoder, with `_decided`; with a hierarchy, the
            figures of `hierarchical_metrics` for the same three. All are in [0, 1]. `threshold` is the tuned one.
            Figures of fitted decoders are optimistic on validation.
        per_example: (M,) F1 of each test row under each decoder, with the keys of `metrics` without `test_`, for
            `compare.statistics.paired_bootstrap`; empty without test labels.

    Raises:
        ValueError: as `multilabel_metrics`.
    """
    options: dict[str, Any] = {"empty_score": empty_score, "decoder": THRESHOLD, "hierarchy": hierarchy}
    options["seen"] = seen
    fitted = decisions or LabelDecisions.fit(validation_probabilities, validation_labels, **options)
    hierarchy = fitted.hierarchy
    assert fitted.threshold is not None, "as `fit` says"
    splits = {"eval": (validation_probabilities, validation_labels), "test": (test_probabilities, test_labels)}
    metrics: dict[str, float] = {}
    per_example: dict[str, np.ndarray] = {}
    for split, (probabilities, labels) in splits.items():
        if probabilities is None or labels is None:
            continue
        counts = DecidedCounts.of(fitted, [n for n in DECODER_FIGURES if n in fitted.names], probabilities, labels)
        per_example = {DECODER_FIGURES[name]: found.example_f1(empty_score) for name, found in counts.sets.items()}
        at_half = {**counts.sets[FIXED].figures(empty_score), **ranking_metrics(probabilities, labels)}
        figures = figures_of_decoders(counts, at_half, decisions is not None, empty_score)
        for name in counts.sets if decisions else ():  # for the grid of the page
            ending, of_name = DECODER_FIGURES[name].removeprefix("f1_example"), counts.figures(name, empty_score)
            figures |= {f"{key}{ending}": of_name[key] for key in GRID_KINDS.values()}
        metrics.update({f"{split}_{key}": value for key, value in figures.items()})
    metrics["threshold"] = fitted.threshold
    return metrics, per_example if "test_f1_example" in metrics else {}


def figures_of_decoders(
    counts: DecidedCounts, at_half: dict[str, float], has_chosen: bool = True, empty_score: float = 1.0
) -> dict[str, float]:
    """The figures of one split: those at 0.5; with `_tuned`, at the tuned threshold; with `_decided`, by the chosen
    decoder; and example F1 of each decoder that is counted."""
    figures = at_half | counts.hierarchical(FIXED)
    for ending, name in {"tuned": THRESHOLD, **({"decided": counts.decisions.decoder} if has_chosen else {})}.items():
        figures |= {f"{key}_{ending}": value for key, value in counts.figures(name, empty_score).items()}
    example_f1 = {DECODER_FIGURES[name]: counts.figures(name, empty_score)["f1_example"] for name in counts.sets}
    return figures | example_f1


def evaluate_by_batch(trainer: StructuredTrainer, splits: dict[str, Any]) -> tuple[dict[str, float], np.ndarray]:
    """The same as [`evaluate_multilabel`], batch by batch: fit the decisions on the split `eval`, store them, and score
    all splits with labels.

    Args:
        splits: data sets by name, `eval` first.

    Returns:
        the figures, and the example F1 of `eval` at each threshold of `DEFAULT_GRID`, (G,).
    """
    decisions = fit_threshold(trainer, splits["eval"], getattr(trainer.args, "decoder", None))
    store(trainer, decisions)
    metrics: dict[str, float] = {}
    scorers = {split: DecoderFigures(decisions) for split in splits}
    for split, scorer in scorers.items():
        trainer.give_by_batch(splits[split], scorer)
        metrics |= {f"{split}_{name}": value for name, value in scorer.figures.items()}
    assert decisions.threshold is not None
    return metrics | {"threshold": decisions.threshold}, scorers["eval"].at_half.threshold_curve()


class DecoderFigures:
    """The figures of [`score_decoders`] for one split, a batch at a time, with the decoders `fixed` and `threshold`.

    Args:
        decisions: fitted on validation.

    Attributes:
        at_half: the figures at 0.5, and the example F1 at each threshold.
        figures: those of all decoders, after the last batch.
    """

    def __init__(self, decisions: LabelDecisions):
        self.at_half = MultiLabelByBatch()
        names = [name for name in decisions.names if name.removesuffix(NEVER_EMPTY) in (FIXED, THRESHOLD)]
        self._counts = DecidedCounts(decisions, names)
        self.figures: dict[str, float] = {}

    def __call__(self, eval_prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Add a batch, as [`MultiLabelByBatch`] does; after the last one, `figures` cover all batches. They stay
        empty if no label is known."""
        p, gold = scored_rows(eval_prediction)
        self.at_half.add(p, gold)
        self._counts.add(p, gold, p >= 0)
        if compute_result and self.at_half.num_rows:
            at_half = self.at_half.result()
            del at_half["threshold"], at_half["f1_example_tuned"]  # tuned on these very rows
            self.figures = figures_of_decoders(self._counts, at_half)
        return {}


# --- the evaluation of a trained net ----------------------------------------------------------------------------------


class Evaluated(NamedTuple):
    """What an evaluation of label sets found.

    Attributes:
        metrics: as `score_decoders` returns.
        predicted: split, `eval` or `test` -> probabilities and labels, as `predict_multilabel` returns; empty if the
            probabilities are too many to keep.
        curve: (G,) example F1 of validation at each threshold of `DEFAULT_GRID`.
    """

    metrics: dict[str, float]
    predicted: dict[str, tuple[np.ndarray, np.ndarray | None]]
    curve: np.ndarray

    @property
    def test(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Probabilities and labels of the test split, (N, L) each, or None."""
        return self.predicted.get("test", (None, None))


def evaluate_multilabel(trainer: Trainer, eval_dataset: Any, test_dataset: Any) -> Evaluated:
    """Predict validation and test, fit the decisions on validation, and score both under every decoder. If a split has
    too many probabilities to keep, our trainers score batch by batch: the decoders are `fixed` and `threshold`, and no
    probabilities are returned.

    The decisions are also stored in the task-net's config; call `trainer.save_model()` afterwards to write them. Every
    process gets the same result.

    Args:
        trainer: its model's first output is logits (N, L). `args.decoder`, if set, names the decoder.
        eval_dataset: the validation split, with labels (N, L).
        test_dataset: the test split, or None; without labels it is predicted but not scored.

    Raises:
        ValueError: an empty split, a validation split without labels, or outputs that `multilabel_metrics` refuses.
    """
    splits = _splits(eval_dataset, test_dataset)
    decoder, num_rows = getattr(trainer.args, "decoder", None), max(map(len, splits.values()))
    if isinstance(trainer, StructuredTrainer) and is_fitted_by_batch(trainer, num_rows, decoder):
        metrics, curve = evaluate_by_batch(trainer, splits)
        return Evaluated(metrics, {}, curve)
    predicted = predict_multilabel(trainer, eval_dataset, test_dataset)
    probabilities, labels = predicted["eval"]
    assert labels is not None, "as predict_multilabel says"
    decisions = fit_labels(trainer, probabilities, labels, decoder)
    store(trainer, decisions)
    metrics, _ = score_decoders(probabilities, labels, *predicted.get("test", (None, None)), decisions=decisions)
    return Evaluated(metrics, predicted, threshold_curve(probabilities, labels))


def predict_multilabel(
    trainer: Trainer, eval_dataset: Any, test_dataset: Any
) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """Probabilities and labels, (N, L) each, of `eval` and, if given, of `test`. Labels are None for a test split
    without known labels.

    Raises:
        ValueError: an empty split, or a validation split without labels.
    """
    splits = _splits(eval_dataset, test_dataset)
    predicted = {}
    for split, dataset in splits.items():
        output = _predict(trainer, dataset, split)
        labels = None if output.label_ids is None else first_output(output.label_ids)
        labels = labels if labels is not None and (labels >= 0).any() else None
        predicted[split] = sigmoid(first_output(output.predictions)), labels
    if predicted["eval"][1] is None:
        raise ValueError("the validation split has no labels: no threshold can be tuned on it")
    return predicted


def _predict(trainer: Trainer, dataset: Any, split: str) -> Any:
    """The trainer's predictions, without its metrics, which need a known label."""
    with changed(trainer, compute_metrics=None):
        return trainer.predict(dataset, metric_key_prefix=split)


def _splits(eval_dataset: Any, test_dataset: Any) -> dict[str, Any]:
    """Data sets by name. ValueError for an empty one."""
    for name, dataset in (("validation", eval_dataset), ("test", test_dataset)):
        if dataset is not None and len(dataset) == 0:
            raise ValueError(f"the {name} split is empty: the threshold is tuned on validation and judged on test")
    return {"eval": eval_dataset} if test_dataset is None else {"eval": eval_dataset, "test": test_dataset}
