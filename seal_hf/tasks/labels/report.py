"""The reports on a run of label sets: the names of its figures, the figures under all decoders, the evaluation and the
end of a run with its files, table and hints, and the model cards.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from transformers import Trainer, TrainingArguments

from ...core.arrays import first_output, sigmoid
from ...core.decisions import FIXED, THRESHOLD
from ...core.hierarchy import Hierarchy
from ...core.space import OutputSpace
from ...nets.cnn import CNNConfig
from ...nets.heads import reads_images
from ...nets.text_pooling import PooledConfig, classifier_reads, reading_in_words
from ...reports.card_kinds import ADAPTERS_LIBRARY, OURS, PEFT_LIBRARY, CardKind, cut_in_words
from ...reports.common import LABEL_REPORT, SHOWN, Ending, chosen_line, figure_rows, results_table, score_of
from ...training.base import StructuredTrainer
from ...training.evaluation import changed, store
from ...training.hints import learned_nothing
from ...utils.files import whole_file
from ...utils.messages import PRINTED_LABELS, few
from ...utils.modules import without_wrapper
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
from .decisions.targets import F1_MACRO, F1_MICRO, JACCARD, LOWER_IS_BETTER, target_of
from .linear import ENCODER, FEATURES, LinearBaseline, figure_key, figures_of
from .metrics import MultiLabelByBatch, decided_and_gold, label_report, ranking_metrics, scored_rows, threshold_curve
from .page import DecidedCounts, Judged, label_facts, row_facts
from .task_losses import TASK_LOSSES

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
LINEAR = {ENCODER: "on the same encoder, frozen", FEATURES: "on the same features"}  # what a linear baseline reads
LINEAR_FIGURES = {
    figure_key(figure, on): f"{name} of a logistic regression {words}"
    for figure, name in {
        "f1_example": "example F1",
        "jaccard": "Jaccard index",
        "exact_match": "exact match",
        "f1_micro": "micro F1",
        "f1_macro": "macro F1",
        "hamming_loss": "Hamming loss",
        "cost": "cost of a row",
    }.items()
    for on, words in LINEAR.items()
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
    **LINEAR_FIGURES,
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
GRID_DECISIONS |= {f"logistic regression {words}": f"_linear_{on}" for on, words in LINEAR.items()}


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
        figures = {**counts.sets[FIXED].figures(empty_score), **ranking_metrics(probabilities, labels)}
        figures |= counts.hierarchical(FIXED)
        for ending, name in {"_tuned": THRESHOLD, **({"_decided": fitted.decoder} if decisions else {})}.items():
            figures |= {f"{key}{ending}": value for key, value in counts.figures(name, empty_score).items()}
        for name in counts.sets if decisions else ():  # for the grid of the page
            ending, of_name = DECODER_FIGURES[name].removeprefix("f1_example"), counts.figures(name, empty_score)
            figures |= {f"{key}{ending}": of_name[key] for key in GRID_KINDS.values()}
        figures |= {key: float(values.mean()) for key, values in per_example.items()}
        metrics.update({f"{split}_{key}": value for key, value in figures.items()})
    metrics["threshold"] = fitted.threshold
    return metrics, per_example if "test_f1_example" in metrics else {}


def evaluate_by_batch(
    trainer: StructuredTrainer, splits: dict[str, Any], keys: dict[str, str]
) -> tuple[dict[str, float], np.ndarray]:
    """The same as [`evaluate_multilabel`], batch by batch: fit the decisions on the split `eval`, store them, and score
    all splits with labels.

    Args:
        splits: data sets by name, `eval` first.
        keys: as for [`DecoderFigures`].

    Returns:
        the figures, and the example F1 of `eval` at each threshold of `DEFAULT_GRID`, (G,).
    """
    decisions = fit_threshold(trainer, splits["eval"], getattr(trainer.args, "decoder", None))
    store(trainer, decisions)
    metrics: dict[str, float] = {}
    scorers = {split: DecoderFigures(decisions, keys) for split in splits}
    for split, scorer in scorers.items():
        trainer.give_by_batch(splits[split], scorer)
        metrics |= {f"{split}_{name}": value for name, value in scorer.figures.items()}
    assert decisions.threshold is not None
    return metrics | {"threshold": decisions.threshold}, scorers["eval"].at_half.threshold_curve()


class DecoderFigures:
    """The figures of [`score_decoders`] for one split, a batch at a time, with the decoders `fixed` and `threshold`.

    Args:
        decisions: fitted on validation.
        keys: decoder -> key of its example F1.

    Attributes:
        at_half: the figures at 0.5, and the example F1 at each threshold.
        figures: those of all decoders, after the last batch.
    """

    def __init__(self, decisions: LabelDecisions, keys: dict[str, str]):
        self.keys = keys
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
            self.figures = self._result()
        return {}

    def _result(self) -> dict[str, float]:
        figures = self.at_half.result()
        del figures["threshold"], figures["f1_example_tuned"]  # tuned on these very rows
        counts = self._counts
        figures |= counts.hierarchical(FIXED)
        for ending, name in (("tuned", THRESHOLD), ("decided", counts.decisions.decoder)):
            figures |= {f"{key}_{ending}": value for key, value in counts.figures(name).items()}
        return figures | {self.keys[name]: counts.figures(name)["f1_example"] for name in counts.sets}


# --- the evaluation of a trained net ----------------------------------------------------------------------------------


def evaluate_multilabel(
    trainer: Trainer, eval_dataset: Any, test_dataset: Any
) -> tuple[dict[str, float], np.ndarray | None, np.ndarray | None]:
    """Predict validation and test, fit the decisions on validation, and score both under every decoder. If a split has
    too many probabilities to keep, the decoders are `fixed` and `threshold`, and no probabilities are returned.

    The decisions are also stored in the task-net's config; call `trainer.save_model()` afterwards to write them. Every
    process gets the same result.

    Args:
        trainer: its model's first output is logits (N, L). `args.decoder`, if set, names the decoder.
        eval_dataset: the validation split, with labels (N, L).
        test_dataset: the test split, or None; without labels it is predicted but not scored.

    Returns:
        metrics: as `score_decoders` returns.
        probabilities: (N, L) of the test split, or None.
        labels: (N, L) of the test split, or None.

    Raises:
        ValueError: an empty split, a validation split without labels, or outputs that `multilabel_metrics` refuses.
    """
    found = _evaluated(trainer, eval_dataset, test_dataset)
    return found.metrics, *found.predicted.get("test", (None, None))


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


def _evaluated(trainer: Any, eval_dataset: Any, test_dataset: Any) -> Evaluated:
    """As `evaluate_multilabel`."""
    splits = _splits(eval_dataset, test_dataset)
    if is_fitted_by_batch(trainer, max(map(len, splits.values())), getattr(trainer.args, "decoder", None)):
        metrics, curve = evaluate_by_batch(trainer, splits, DECODER_FIGURES)
        return Evaluated(metrics, {}, curve)
    predicted = predict_multilabel(trainer, eval_dataset, test_dataset)
    probabilities, labels = predicted["eval"]
    assert labels is not None, "as predict_multilabel says"
    decisions = fit_labels(trainer, probabilities, labels, getattr(trainer.args, "decoder", None))
    store(trainer, decisions)
    test = predicted.get("test", (None, None))
    metrics, _ = score_decoders(probabilities, labels, *test, decisions=decisions)
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


# --- the end of a run: its files, tables and hints --------------------------------------------------------------------

NOT_WRITTEN = (
    f"_predictions.jsonl and {LABEL_REPORT} are not written: the probabilities of all rows are too many to keep. "
    "seal-hf predict writes predictions of any number of rows."
)
ENOUGH_GOLD = 5  # rows with a label: if none of them is decided so, that is hardly chance
SHOWN_LABELS = 5  # the most that a hint names
ALIKE = 0.01  # of the mean probability of a label: within it a net says the same of all rows


def label_ending(
    trainer: StructuredTrainer,
    rows: Mapping[str, Any],
    data: Any,
    card: Mapping[str, Any] | None = None,
    baseline: LinearBaseline | None = None,
) -> Ending:
    """Evaluate a multi-label run under all decoders. Its report writes `_predictions.jsonl` and `label_report.json` of
    the test split.

    Args:
        rows: split, `eval` or `test` -> rows for the task-net.
        data: from [`load_multilabel`].
        card: entries of [`SealTrainer.card_facts`] beside the figures; None: an energy network, without a card.
        baseline: a logistic regression that was fitted beside the task-net.
    """
    found = _evaluated(trainer, rows["eval"], rows.get("test"))
    if baseline is not None:
        known = {split: labels for split, (_, labels) in found.predicted.items()}
        found.metrics.update(figures_of(trainer, baseline, known))
    metrics, (probabilities, labels) = found.metrics, found.predicted.get("test", (None, None))
    net = trainer.accelerator.unwrap_model(trainer.model)
    decisions = LabelDecisions.from_config(net.config)
    chosen = DECODER_FIGURES[decisions.decoder]

    @cache
    def decided_of(split: str) -> np.ndarray:
        return decisions.decide(found.predicted[split][0])

    judged = None
    if found.predicted:
        split = "eval" if labels is None else "test"
        p, gold = found.predicted[split]
        assert gold is not None, "as predict_multilabel says"
        judged = Judged(split, p, gold, decided_of(split))
    missed = {} if judged is None else missed_labels(judged.decided, judged.labels, data.label_names)
    rows_of = "" if judged is None else f"{SHOWN.get(judged.split, judged.split)} rows"
    of_missed = hint_of_missed_labels(missed, len(data.label_names), rows_of, trainer.args)

    def written(folder: Path) -> str:
        table = closing_table(metrics, decisions, getattr(trainer.args, "fold_decision", False))
        if probabilities is None:
            return table if "test" not in rows else f"{table}\n\n{NOT_WRITTEN}"
        decided, path = decided_of("test"), folder / "_predictions.jsonl"
        of_rows = row_facts(data, "test", range(len(data.test)))
        write_predictions(path, probabilities, labels, data.label_names, decided, of_rows)
        if labels is None:
            return table
        by_label = label_report(decided, labels, data.label_names)
        with whole_file(folder / LABEL_REPORT) as unfinished:
            unfinished.write_text(json.dumps(by_label, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return f"{table}\n\n{label_table(by_label, folder / LABEL_REPORT)}"

    def report(folder: Path) -> tuple[str, dict[str, Any]]:
        table = written(folder)
        facts = label_facts(trainer, rows, data, decisions, found.curve, judged)
        return table, {"labels": {**facts, "missed": of_missed}}

    target = target_of(trainer.args)
    figure = f"{LOWER_IS_BETTER.get(target, target)}_decided"
    score = score_of(metrics, figure, FIGURES[figure], decisions.folded or decisions.decoder)
    hints = [hint_of_collapse(found.predicted["eval"][0], trainer.args)] if found.predicted else []
    if judged is not None:
        hints.append(hint_of_empty_sets(judged.decided, judged.labels, rows_of, trainer.args))
    if baseline is not None:
        key = f"eval_{figure_key(figure.removesuffix('_decided'), baseline.on)}"
        scores = metrics[f"eval_{figure}"], metrics[key]
        hints.append(hint_of_baseline(*scores, LINEAR[baseline.on], lower_is_better=target in LOWER_IS_BETTER))
    return Ending(
        metrics,
        FIGURES,
        chosen,
        report,
        rows={split: len(each) for split, each in rows.items()},
        files=None if card is None else CARDS[card_of(without_wrapper(net), trainer.space, None)].files,
        score=score,
        hints=[*hints, of_missed],
        card=None if card is None else {**card, "missed_labels": missed},
        grid={"kinds": GRID_KINDS, "decisions": GRID_DECISIONS, "chosen": chosen.removeprefix("f1_example")},
    )


def write_predictions(
    path: str | os.PathLike[str],
    probabilities: np.ndarray,
    labels: np.ndarray | None,
    label_names: Sequence[str],
    decided: np.ndarray,
    rows: Iterable[Mapping[str, Any]] | None = None,
) -> None:
    """Write one JSON object per row: the entries of `rows`, such as its file, line and text; `labels`; `labels_at_0.5`;
    with labels, `gold`, and `unknown` if any are; and `probabilities` of the labels in either decision, to 4 decimals.

    Args:
        path: the file, usually `_predictions.jsonl`; replaced only when the new one is complete.
        probabilities: (N, L) in [0, 1].
        labels: (N, L) of 0 and 1, with -1 or NaN for unknown; or None.
        label_names: L different names.
        decided: (N, L) bool, by the task-net's decisions.
        rows: N mappings that JSON can hold; default: the number of the row.

    Raises:
        ValueError: lengths that do not fit, or label names that are not unique.
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)  # as `multilabel_metrics` compares them
    num_rows, num_labels = probabilities.shape
    if len(label_names) != num_labels or len(set(label_names)) != num_labels:
        raise ValueError(f"expected {num_labels} different label names, found {len(set(label_names))} in label_names")
    for name, values in (("labels", labels), ("decided", decided)):
        if values is not None and np.shape(values) != probabilities.shape:
            raise ValueError(f"{name} are {np.shape(values)}, the probabilities {probabilities.shape}")
    facts = ({"row": row} for row in range(num_rows)) if rows is None else rows

    def names(chosen: np.ndarray) -> list[str]:
        return [label_names[i] for i in np.flatnonzero(chosen).tolist()]

    with whole_file(path) as unfinished, open(unfinished, "w", encoding="utf-8") as file:
        for row, (p, said) in enumerate(zip(probabilities, facts, strict=True)):
            line: dict[str, Any] = {**said, "labels": names(decided[row]), "labels_at_0.5": names(p >= 0.5)}
            if labels is not None:
                line["gold"] = names(np.asarray(labels[row]) > 0)
                if unknown := names(~(np.asarray(labels[row]) >= 0)):
                    line["unknown"] = unknown
            shown = np.flatnonzero(decided[row] | (p >= 0.5)).tolist()
            line["probabilities"] = {label_names[i]: round(float(p[i]), 4) for i in shown}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def label_table(by_label: Mapping[str, Mapping[str, float]], file: Path) -> str:
    """The table of a [`label_report`] with at most 40 labels; for more labels, a line that names the file."""
    if len(by_label) > PRINTED_LABELS:
        return f"precision, recall, F1 and support of each of the {len(by_label)} labels: {file}"
    return results_table([{"label, test": name, **figures} for name, figures in by_label.items()])


def closing_table(metrics: Mapping[str, float], decisions: LabelDecisions | None = None, folded: bool = False) -> str:
    """The closing table: a line per figure of `evaluate_multilabel` in `metrics`, validation and test side by side.
    With `decisions`, the saved decoder is marked, `folded` into the bias or not."""
    chosen = None if decisions is None else DECODER_FIGURES[decisions.decoder]
    table = results_table(figure_rows(metrics, FIGURES, chosen))
    if decisions is not None:
        table += f"\n\n{chosen_line(decisions.decoder, folded)}"
    if "threshold" in metrics:
        table += f"\n\nthreshold tuned on validation: {metrics['threshold']:g}"
    return table.lstrip("\n")


def hint_of_collapse(probabilities: np.ndarray, args: TrainingArguments) -> str | None:
    """The hint for a net that gives all validation rows nearly the same `probabilities` (N, L); None for others, for
    NaN, and for a single row."""
    if len(probabilities) < 2:
        return None
    spread, size = np.ptp(probabilities, axis=0), probabilities.mean(0)
    if not (spread <= np.maximum(ALIKE * size, np.finfo(np.float32).eps)).all():
        return None
    return learned_nothing(
        f"All {len(probabilities)} validation rows have the same probabilities, to {ALIKE:.0%}", args
    )


def missed_labels(decided: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> dict[str, int]:
    """Labels that are never decided on a row that has them, the most frequent first: name -> number of its gold rows. A
    label that is decided only on wrong rows counts if it has `ENOUGH_GOLD` gold rows.

    Args:
        decided, labels: (N, L), 0 or 1; labels -1 or NaN are unknown.
        names: L names.
    """
    sets, gold, _ = decided_and_gold(decided, labels)
    count = gold.sum(0)
    missed = ~(sets & gold).any(0) & ((count >= ENOUGH_GOLD) | ((count > 0) & ~sets.any(0)))
    places = np.flatnonzero(missed)
    return {names[i]: int(count[i]) for i in places[np.argsort(-count[places], kind="stable")].tolist()}


def hint_of_missed_labels(missed: Mapping[str, int], num_labels: int, split: str, args: Any) -> str | None:
    """The hint about the labels that [`missed_labels`] found in a split; None if it found none. It names the flags that
    could help, of those that the run has and that were not given."""
    if not missed:
        return None
    flags, decoder = [], getattr(args, "decoder", None)
    if target_of(args, F1_MACRO) != F1_MACRO or decoder is not None:
        named = "--decoder thresholds " if decoder is not None else ""
        flags.append(f"{named}--target f1_macro, which cuts each label at a threshold of its own")
    weighs = "pos_weight" in getattr(TASK_LOSSES.get(getattr(args, "task_loss", "")), "also_reads", ())
    if weighs and args.pos_weight is None:
        flags.append("--pos_weight sqrt, which gives rare labels more weight in training")
    rows = [f"{name} ({count:,} row{'s' * (count != 1)})" for name, count in missed.items()]
    found = f"{len(missed)} of {num_labels} labels {'has' if len(missed) == 1 else 'have'} an F1 of 0 on {split}"
    return f"{found}: {few(rows, SHOWN_LABELS)}. {'Give ' + ', or '.join(flags) + '.' if flags else ''}".rstrip()


def hint_of_empty_sets(decided: np.ndarray, labels: np.ndarray, rows: str, args: Any) -> str | None:
    """The hint for rows that mostly have no gold label: such a row counts as right if nothing is decided. None for
    other rows.

    Args:
        decided, labels: (N, L), 0 or 1; labels -1 or NaN are unknown.
        rows: the rows in words.
    """
    sets, gold, _ = decided_and_gold(decided, labels)
    held = np.asarray(gold.any(1))
    if not held.any() or 2 * held.sum() > len(held):
        return None
    flag = "" if target_of(args, F1_MICRO) == F1_MICRO else " --target f1_micro decides for rows with labels."
    said = f"{len(held) - held.sum():,} of {len(held):,} {rows} have no label, and count 1 where none is decided"
    if not sets.any():
        return f"The saved decisions give no label to any row: {said}, so example F1 says nothing.{flag}"
    sizes = (sets.sum(1) + gold.sum(1))[held]
    score = (2 * (sets & gold).sum(1)[held] / sizes).mean()
    return f"{said}; on the {held.sum():,} others example F1 is {score:.4f}.{flag}"


def hint_of_baseline(score: float, baseline: float, reads: str, lower_is_better: bool = False) -> str | None:
    """The hint for a net whose `score` on validation rows is worse than that of a linear `baseline`; None for others.

    Args:
        reads: what the baseline reads, such as `on the same features`.
    """
    if score == baseline or (score > baseline) != lower_is_better:
        return None
    return (
        f"A logistic regression ({reads}) is better on validation rows: {baseline:.4f}, and {score:.4f} by the net. "
        "--linear true fits and saves it."
    )


# --- model cards: how the decoders decide, in words -------------------------------------------------------------------

BEST_SET = "It decides the label set with the highest expected example F1"
BEST_CLOSED_SET = f"{BEST_SET} among the sets that contain all ancestors of their labels"
DECIDES = {
    "thresholds": "Each label has its own threshold, see the table of labels.",
    "expected_f1": f"{BEST_SET}.",
    CLOSED: f"{BEST_CLOSED_SET}.",
}
WITH_ANCESTORS = "If that gives no label, it decides the likeliest one and its ancestors."
NEVER = {
    "thresholds": "If that gives no label, it decides the one nearest to its threshold.",
    CLOSED: WITH_ANCESTORS,
    CALIBRATED_CLOSED: WITH_ANCESTORS,
    "": "If that gives no label, it decides the likeliest one.",
}
OF_TRAINING = "The label sets of the training rows count by their frequency. It decides the"
CALIBRATED = {
    "calibrated_f1": BEST_SET,
    CALIBRATED_JACCARD: BEST_SET.replace("example F1", "Jaccard index"),
    CALIBRATED_CLOSED: BEST_CLOSED_SET,
    SEEN: f"{OF_TRAINING} most probable set",
    SEEN_F1: f"{OF_TRAINING} set with the highest expected {{of}}",
}


def _in_words(name: str, decisions: Mapping[str, Any]) -> str:
    plain = name.removesuffix(NEVER_EMPTY)
    if plain in (FIXED, THRESHOLD):
        said = cut_in_words("A label is decided", plain, decisions)
    elif plain in CALIBRATED:
        scale, shift = (float(f"{decisions['calibration'][key]:.4g}") for key in ("scale", "shift"))
        formula = f"σ({scale:g} · logit(p) {'-+'[shift >= 0]} {abs(shift):g})"
        of = "Jaccard index" if decisions.get("target") == JACCARD else "example F1"
        said = f"{CALIBRATED[plain].format(of=of)}, on calibrated probabilities: {formula}."
    else:
        said = DECIDES[plain]
    return said if name == plain else f"{said} {NEVER.get(plain, NEVER[''])}"


# --- model cards: code that loads and applies the net -----------------------------------------------------------------

PEFT = """\
import torch
from peft import AutoPeftModelForSequenceClassification
from transformers import AutoTokenizer

model = AutoPeftModelForSequenceClassification.from_pretrained($name, num_labels=$num_labels).eval()
inputs = AutoTokenizer.from_pretrained($name)($tokenized$cut, return_tensors="pt")
with torch.no_grad():
    probabilities = model(**inputs).logits.sigmoid()
labels = (probabilities >= $threshold).nonzero()[:, 1]  # ids of the table below
"""
ADAPTERS = """\
import adapters
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

model = AutoModelForSequenceClassification.from_pretrained($base, num_labels=$num_labels)
adapters.init(model)
model.load_adapter($name, set_active=True, use_safetensors=True)
inputs = AutoTokenizer.from_pretrained($name)($tokenized$cut, return_tensors="pt")
with torch.no_grad():
    probabilities = model.eval()(**inputs).logits.sigmoid()
labels = (probabilities >= $threshold).nonzero()[:, 1]  # ids of the table below
"""
SEAL = """\
from seal_hf import SealForMultiLabel

model = SealForMultiLabel.from_pretrained($name, with_loss_net=False)
probabilities, decisions = model.predict([{}])
labels = [model.config.id2label[i] for i, decided in enumerate(decisions[0].tolist()) if decided]
"""
SEAL_FEATURES = """\
import torch
from seal_hf import SealForMultiLabel

model = SealForMultiLabel.from_pretrained($name, with_loss_net=False)
features = torch.zeros(1, model.config.input_size)  # your rows, raw: the model normalises them
probabilities, decisions = model.predict(features=features)
labels = [model.config.id2label[i] for i, decided in enumerate(decisions[0].tolist()) if decided]
"""
IMAGE_LABELS_PEFT = """\
import torch
from peft import PeftModel
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageClassification

base = AutoModelForImageClassification.from_pretrained($base, num_labels=$num_labels, ignore_mismatched_sizes=True)
model = PeftModel.from_pretrained(base, $name).eval()
image = Image.open("image.png").convert("RGB")
inputs = AutoImageProcessor.from_pretrained($name)(image, return_tensors="pt")
with torch.no_grad():
    probabilities = model(**inputs).logits.sigmoid()
labels = (probabilities >= $threshold).nonzero()[:, 1]  # ids of the table below
"""
PIPED = '"text-classification", $name, top_k=None', "classify([$piped]$cut)[0]"
PIPED_IMAGES = '"image-classification", $name, top_k=$num_labels', 'classify("image.png")'
IMPORTED = "import seal_hf  # registers the {} with the Auto classes\n"


def _by_pipeline(pipeline: str, scores: str, imported: str = "") -> dict[str, str]:
    """Decoder -> code that applies it to the scores of a pipeline of transformers.

    Args:
        pipeline: its arguments.
        scores: an expression for the labels' scores.
        imported: a line before all others.
    """
    begin = f"{imported}from transformers import pipeline\n\nclassify = pipeline({pipeline})\n"
    decided = f'scores = {scores}\nlabels = [score["label"] for score in scores if score["score"] >= {{}}]\n'
    of_label = (
        "config = classify.model.config\n"
        'thresholds = {config.id2label[i]: t for i, t in enumerate(config.decisions["thresholds"])}\n'
    )
    one = begin + decided.format("$threshold")
    return {FIXED: one, THRESHOLD: one, "thresholds": begin + of_label + decided.format('thresholds[score["label"]]')}


# --- model cards: one for each way to save a net ----------------------------------------------------------------------

EXAMPLES = (  # texts, and a second one for models of pairs
    ("The parcel came two days late and the box was torn, but the lamp works.", "The lamp is broken."),
    ("What a match! I cannot stop smiling.", "The speaker is happy."),
    ("Prices of crude oil fell after the harvest of wheat was better than expected.", "Oil became dearer."),
)


def _decided_figures(decoder: str) -> list[str]:
    return [key for key in FIGURES if key.endswith("_decided")]


LABELS: dict[str, Any] = {
    "seal": SEAL.format("$given"),
    "plainly": "Without `seal_hf`, `transformers` gives the probability of each label and decides nothing.",
    "pipeline_tag": "text-classification",
    "task": "multi-label classification",
    "figures": FIGURES,
    "decided": _decided_figures,
    "baselines": frozenset(LINEAR_FIGURES),
    "decisions": LabelDecisions,
    "in_words": _in_words,
    "fitted": (THRESHOLD, "thresholds", *CALIBRATED),
    "unit": "text",
    "widget": tuple(text for text, _ in EXAMPLES),
}
OF_FEATURES: dict[str, Any] = LABELS | {
    "seal": SEAL_FEATURES,
    "pipeline_tag": "tabular-classification",
    "unit": "row",
    "files": ("new.arff", "predictions.csv"),
}
IMAGE_SETS: dict[str, Any] = LABELS | {
    "seal": SEAL.format('"image.png"'),
    "pipeline_tag": "image-classification",
    "unit": "image",
    "files": ("new_images", "predictions.csv"),
}
CARDS = {
    "text": CardKind(_by_pipeline(*PIPED), **LABELS),
    "peft": CardKind({FIXED: PEFT, THRESHOLD: PEFT}, **LABELS | PEFT_LIBRARY),
    "adapters": CardKind({FIXED: ADAPTERS, THRESHOLD: ADAPTERS}, **LABELS | ADAPTERS_LIBRARY),
    "features": CardKind(**OF_FEATURES | OURS),
    "feature_table": CardKind(**OF_FEATURES | OURS | {"files": ("new.csv", "predictions.csv")}),
    "text_pooled": CardKind(**LABELS | OURS | {"plain": _by_pipeline(*PIPED, IMPORTED.format("net"))}),
    "peft_pooled": CardKind(**LABELS | OURS | PEFT_LIBRARY),
    "adapters_pooled": CardKind(**LABELS | OURS | ADAPTERS_LIBRARY),
    "image_labels": CardKind(_by_pipeline(*PIPED_IMAGES), **IMAGE_SETS),
    "image_labels_cnn": CardKind(
        **IMAGE_SETS | OURS | {"plain": _by_pipeline(*PIPED_IMAGES, IMPORTED.format("convolutional net"))}
    ),
    "image_labels_peft": CardKind(
        {FIXED: IMAGE_LABELS_PEFT, THRESHOLD: IMAGE_LABELS_PEFT}, **IMAGE_SETS | PEFT_LIBRARY
    ),
}


def card_of(model: Any, space: OutputSpace, library: str | None) -> str:
    """The key in `CARDS` for a task-net, see `Task.card_of`."""
    pooled = isinstance(model.config, PooledConfig)
    if library is not None:
        library = f"{library}_pooled" if pooled else library
        return f"image_labels_{library}" if reads_images(model) else library
    if reads_images(model):
        return "image_labels_cnn" if model.config.model_type == CNNConfig.model_type else "image_labels"
    if pooled:
        return "text_pooled"
    if model.main_input_name == "features":
        return "feature_table" if "feature_columns" in (getattr(model.config, "inputs", None) or {}) else "features"
    return "text"


def reads_in_words(model: Any) -> str | None:
    """What a classifier of texts reads, in words; None for other nets."""
    is_of_text = model.main_input_name == "input_ids" and classifier_reads(model) is not None
    return reading_in_words(model) if is_of_text else None
