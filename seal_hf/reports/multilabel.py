"""What a trained model did, for the examples: figures under five decoders, predictions, files, a table."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import Trainer

from ..inference.decoders import decode_expected_f1, platt_scaling, rescaled, tune_thresholds_per_label
from ..metrics.multilabel import (
    example_f1,
    first_output,
    label_report,
    multilabel_metrics,
    sigmoid,
    tune_threshold,
)
from ..utils.files import whole_file
from .common import close_run, results_table

# key in the result files, without its `eval_` or `test_` -> what a reader calls it
FIGURES = {
    "f1_example": "example F1 at 0.5",
    "f1_example_tuned": "example F1 at the tuned threshold",
    "f1_example_per_label": "example F1 at tuned thresholds, one per label",
    "f1_example_expected": "example F1 of the sets of highest expected F1",
    "f1_example_calibrated": "the same, probabilities calibrated",
    "f1_micro": "micro F1 at 0.5",
    "f1_micro_tuned": "micro F1 at the tuned threshold",
    "f1_macro": "macro F1 at 0.5",
    "f1_macro_tuned": "macro F1 at the tuned threshold",
    "precision_example_tuned": "example precision at the tuned threshold",
    "recall_example_tuned": "example recall at the tuned threshold",
    "jaccard_tuned": "Jaccard index at the tuned threshold",
    "exact_match_tuned": "exact match at the tuned threshold",
    "map": "mean average precision over examples",
    "map_macro": "mean average precision over labels",
}
FREE_OF_THRESHOLD = ("map", "map_macro")
LABEL_REPORT = "label_report.json"  # of the test split, at the tuned threshold
PRINTED_LABELS = 40  # the most for which the report is printed


def score_decoders(
    validation_probabilities: np.ndarray,
    validation_labels: np.ndarray,
    test_probabilities: np.ndarray | None = None,
    test_labels: np.ndarray | None = None,
    *,
    empty_score: float = 1.0,
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Figures under all decoders: 0.5; one threshold and a threshold per label, both tuned on validation for example
    F1; the label set of the highest expected example F1, for the probabilities as they are, and for those after Platt
    scaling on validation, which the scores of some task losses need (`seal_hf.metrics`).

    Where every validation row has a label, the expected F1 is taken given that there is one.

    Args:
        validation_probabilities, validation_labels: (N, L), as `multilabel_metrics` takes them.
        test_probabilities, test_labels: (M, L), or None where there is no test split, or none with labels.
        empty_score: as in `multilabel_metrics`.

    Returns:
        metrics: for `eval_` and, with test labels, `test_` each: the figures of `multilabel_metrics` at 0.5; those that
            depend on the threshold with `_tuned`, at the one tuned threshold; `f1_example_per_label`,
            `f1_example_expected` and `f1_example_calibrated`. All in [0, 1]. And `threshold`, the tuned one. What is
            tuned on validation is optimistic there.
        per_example: (M,) F1 of each test row under each decoder, keyed as in `metrics` without `test_`, for
            `compare.statistics.paired_bootstrap`; empty without test labels.

    Raises:
        ValueError: as `multilabel_metrics`.
    """
    threshold, _ = tune_threshold(validation_probabilities, validation_labels, empty_score=empty_score)
    per_label, _ = tune_thresholds_per_label(
        validation_probabilities, validation_labels, threshold, empty_score=empty_score
    )
    calibration = platt_scaling(validation_probabilities, validation_labels)
    empty_value = 0.0 if np.asarray(validation_labels).any(1).all() else empty_score
    splits = {"eval": (validation_probabilities, validation_labels), "test": (test_probabilities, test_labels)}
    metrics: dict[str, float] = {}
    per_example: dict[str, np.ndarray] = {}
    for split, (probabilities, labels) in splits.items():
        if probabilities is None or labels is None:
            continue
        probabilities = np.asarray(probabilities, dtype=np.float64)  # as the thresholds were tuned
        fixed, tuned = (multilabel_metrics(probabilities, labels, t, empty_score=empty_score) for t in (0.5, threshold))
        decisions = {
            "f1_example": probabilities >= 0.5,
            "f1_example_tuned": probabilities >= threshold,
            "f1_example_per_label": probabilities >= per_label,
            "f1_example_expected": decode_expected_f1(probabilities, empty_score=empty_value),
            "f1_example_calibrated": decode_expected_f1(rescaled(probabilities, *calibration), empty_score=empty_value),
        }
        per_example = {key: example_f1(decided, labels, empty_score) for key, decided in decisions.items()}
        figures = fixed | {f"{key}_tuned": value for key, value in tuned.items() if key not in FREE_OF_THRESHOLD}
        figures |= {key: float(values.mean()) for key, values in per_example.items()}
        metrics.update({f"{split}_{key}": value for key, value in figures.items()})
    metrics["threshold"] = threshold
    return metrics, per_example if "test_f1_example" in metrics else {}


def predict_multilabel(
    trainer: Trainer, eval_dataset: Any, test_dataset: Any
) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """Probabilities and labels, (N, L) each, of `eval` and, where there is one, `test`, whose labels may be None.

    Raises:
        ValueError: an empty split, or a validation split without labels.
    """
    for name, dataset in (("validation", eval_dataset), ("test", test_dataset)):
        if dataset is not None and len(dataset) == 0:
            raise ValueError(f"the {name} split is empty: the threshold is tuned on validation and judged on test")
    splits = {"eval": eval_dataset} if test_dataset is None else {"eval": eval_dataset, "test": test_dataset}
    predicted = {}
    for split, dataset in splits.items():
        output = trainer.predict(dataset, metric_key_prefix=split)
        labels = None if output.label_ids is None else first_output(output.label_ids)
        predicted[split] = sigmoid(first_output(output.predictions)), labels
    if predicted["eval"][1] is None:
        raise ValueError("the validation split has no labels, so no threshold can be tuned on it")
    return predicted


def evaluate_multilabel(
    trainer: Trainer, eval_dataset: Any, test_dataset: Any
) -> tuple[dict[str, float], np.ndarray | None, np.ndarray | None]:
    """Predict validation and test, tune thresholds on validation, score both under every decoder.

    The one threshold is also stored in the task-net's config (`model.config.threshold`): call `trainer.save_model()`
    afterwards to have it on disk. Every process gets the same answer.

    Args:
        trainer: its model's first output is logits (N, L).
        eval_dataset: the validation split, with labels (N, L).
        test_dataset: the test split; without labels it is predicted and not scored; None where there is none.

    Returns:
        metrics: as `score_decoders` gives them.
        probabilities: (N, L) of the test split, or None.
        labels: (N, L) of the test split, or None.

    Raises:
        ValueError: an empty split, a validation split without labels, or outputs that `multilabel_metrics` refuses.
    """
    predicted = predict_multilabel(trainer, eval_dataset, test_dataset)
    test = predicted.get("test", (None, None))
    probabilities, labels = predicted["eval"]
    assert labels is not None, "as predict_multilabel says"
    metrics, _ = score_decoders(probabilities, labels, *test)
    trainer.accelerator.unwrap_model(trainer.model).config.threshold = metrics["threshold"]
    return metrics, *test


def close_multilabel(trainer: Any, data: Any, card_facts: Mapping[str, Any] | None = None) -> dict[str, float]:
    """What every multi-label program does after training: evaluate under all decoders, save, write results, the card,
    and `_predictions.jsonl` and `label_report.json` of the test split, print the tables, push where the arguments say
    so.

    Args:
        trainer: has `eval_dataset` and, as the programs set it, `test_dataset`, which may be None.
        data: has `label_names`.
        card_facts: of [`SealTrainer.card_facts`], beside the figures; None: an energy network's, which has no card.

    Returns:
        the figures of [`evaluate_multilabel`].
    """
    metrics, probabilities, labels = evaluate_multilabel(trainer, trainer.eval_dataset, trainer.test_dataset)

    def report(folder: Path) -> str:
        if probabilities is not None:
            path = folder / "_predictions.jsonl"
            write_predictions(path, probabilities, labels, data.label_names, metrics["threshold"])
        if probabilities is None or labels is None:
            return closing_table(metrics)
        by_label = label_report(probabilities >= metrics["threshold"], labels, data.label_names)
        with whole_file(folder / LABEL_REPORT) as unfinished:
            unfinished.write_text(json.dumps(by_label, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return f"{closing_table(metrics)}\n\n{label_table(by_label, folder / LABEL_REPORT)}"

    return close_run(trainer, metrics, report, card_facts)


def write_predictions(
    path: str | os.PathLike[str],
    probabilities: np.ndarray,
    labels: np.ndarray | None,
    label_names: Sequence[str],
    threshold: float,
    ids: Sequence[Any] | None = None,
    *,
    main_process: bool = True,
) -> None:
    """One JSON object per row: `row`, `id` (with `ids`), `labels_at_0.5`, `labels` (at the tuned threshold), `gold`
    (with labels), and `probabilities` of the labels decided at either threshold, to 4 decimals.

    Args:
        path: the file, usually `_predictions.jsonl`; replaced only when the new one is whole.
        probabilities: (N, L) in [0, 1].
        labels: (N, L), 0 or 1, or None.
        label_names: L different names.
        threshold: the tuned one.
        ids: N values that JSON can hold.
        main_process: pass `trainer.is_world_process_zero()`; where False nothing is written.

    Raises:
        ValueError: lengths that do not fit, or label names that are not unique.
    """
    if not main_process:
        return
    probabilities = np.asarray(probabilities, dtype=np.float64)  # as `multilabel_metrics` compares them
    num_rows, num_labels = probabilities.shape
    if len(label_names) != num_labels or len(set(label_names)) != num_labels:
        raise ValueError(f"expected {num_labels} different label names, found {len(set(label_names))} in label_names")
    if labels is not None and np.shape(labels) != probabilities.shape:
        raise ValueError(f"labels are {np.shape(labels)}, the probabilities {probabilities.shape}")
    if ids is not None and len(ids) != num_rows:
        raise ValueError(f"expected {num_rows} ids, found {len(ids)}")

    def names(chosen: np.ndarray) -> list[str]:
        return [label_names[i] for i in np.flatnonzero(chosen).tolist()]

    with whole_file(path) as unfinished, open(unfinished, "w", encoding="utf-8") as file:
        for row, p in enumerate(probabilities):
            line: dict[str, Any] = {"row": row}
            if ids is not None:
                line["id"] = ids[row].item() if isinstance(ids[row], np.generic) else ids[row]
            line["labels_at_0.5"] = names(p >= 0.5)
            line["labels"] = names(p >= threshold)
            if labels is not None:
                line["gold"] = names(np.asarray(labels[row]) > 0)
            shown = np.flatnonzero(p >= min(0.5, threshold)).tolist()
            line["probabilities"] = {label_names[i]: round(float(p[i]), 4) for i in shown}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def label_table(by_label: Mapping[str, Mapping[str, float]], file: Path) -> str:
    """The table of a [`label_report`], of up to 40 labels; of more, a line that names the file."""
    if len(by_label) > PRINTED_LABELS:
        return f"precision, recall, F1 and support of each of the {len(by_label)} labels: {file}"
    return results_table([{"label, test": name, **figures} for name, figures in by_label.items()])


def closing_table(metrics: Mapping[str, float]) -> str:
    """The table an example ends with: one line per figure of `evaluate_multilabel` that `metrics` has, validation and
    test side by side, and the threshold."""
    rows: list[dict[str, Any]] = []
    for key, name in FIGURES.items():
        found = {"validation": metrics.get(f"eval_{key}"), "test": metrics.get(f"test_{key}")}
        if any(value is not None for value in found.values()):
            rows.append({"figure": name, **found})
    table = results_table(rows)
    if "threshold" in metrics:
        table += f"\n\nthreshold tuned on validation: {metrics['threshold']:g}"
    return table.lstrip("\n")
