"""The end of a run of label sets: its files, its table and its hints."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from transformers import TrainingArguments

from ...reports.common import LABEL_REPORT, Ending, chosen_line, figure_rows, score_of
from ...reports.page import SHOWN
from ...training.base import StructuredTrainer
from ...training.hints import learned_nothing
from ...utils.files import whole_file
from ...utils.messages import PRINTED_LABELS, few, results_table
from ...utils.modules import without_wrapper
from .cards import CARDS, card_of
from .decisions.label_decisions import LabelDecisions
from .decisions.targets import F1_MACRO, F1_MICRO, LOWER_IS_BETTER, target_of
from .evaluation import BESIDE, DECODER_FIGURES, FIGURES, GRID_DECISIONS, GRID_KINDS, evaluate_multilabel
from .linear import ALONE, LinearBaseline, figures_of, without_regression
from .metrics import decided_and_gold, label_report
from .page import Judged, label_facts, row_facts
from .task_losses import TASK_LOSSES

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
    averaged: bool = False,
) -> Ending:
    """Evaluate a multi-label run under all decoders. Its report writes `_predictions.jsonl` and `label_report.json` of
    the test split.

    Args:
        rows: split, `eval` or `test` -> rows for the task-net.
        data: from [`load_multilabel`].
        card: entries of [`SealTrainer.card_facts`] beside the figures; None: an energy network, without a card.
        baseline: a logistic regression that was fitted beside the task-net.
        averaged: True if the net has taken it in.
    """
    found = evaluate_multilabel(trainer, rows["eval"], rows.get("test"))
    beside = {} if baseline is None else {baseline.name: baseline.probabilities}
    if baseline is not None and averaged:
        linear = baseline.probabilities
        beside[ALONE] = {split: without_regression(p, linear[split]) for split, (p, _) in found.predicted.items()}
    for name, of_splits in beside.items():
        known = {split: labels for split, (_, labels) in found.predicted.items()}
        found.metrics.update(figures_of(trainer, name, of_splits, known))
    metrics, (probabilities, labels) = found.metrics, found.test
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
        scores = metrics[f"eval_{figure}"], metrics[f"eval_{figure.removesuffix('_decided')}_{baseline.name}"]
        hints.append(hint_of_baseline(*scores, BESIDE[baseline.name], lower_is_better=target in LOWER_IS_BETTER))
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


def hint_of_baseline(score: float, baseline: float, model: str, lower_is_better: bool = False) -> str | None:
    """The hint for a net whose `score` on validation rows is worse than that of a linear `baseline`; None for others.

    Args:
        model: the baseline in words, such as `a logistic regression on the same features`.
    """
    if score == baseline or (score > baseline) != lower_is_better:
        return None
    return (
        f"{model[0].upper()}{model[1:]} is better on validation rows: {baseline:.4f}, and {score:.4f} by the net. "
        "--linear true fits and saves it."
    )
