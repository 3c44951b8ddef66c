"""Evaluations by batch. Oracle: the same evaluation with all logits at once."""

import logging

import pytest
import tiny_run
import torch
from tiny_models import tiny_arguments, tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModelForSequenceClassification

from seal_hf import SealTrainer, TensorRows, tokenize
from seal_hf.core.hierarchy import Hierarchy, store_hierarchy
from seal_hf.decisions import LabelDecisions
from seal_hf.metrics import MultiLabelByBatch, multilabel_compute_metrics, sigmoid
from seal_hf.tasks.labels.evaluation import evaluate_multilabel
from seal_hf.training import evaluation


def trainer_of(folder, rows=None, compute_metrics=multilabel_compute_metrics, **options):
    rows = rows if rows is not None else TensorRows(tiny_run.table())
    args = tiny_run.arguments(folder, per_device_eval_batch_size=10, **options)
    return SealTrainer(tiny_run.model(), args, eval_dataset=rows, compute_metrics=compute_metrics)


def scores(metrics):
    """The figures of a `metrics`, without `map_macro` and times."""
    return {name: metrics[f"eval_{name}"] for name in (*MultiLabelByBatch.figures, "loss", "energy_gold")}


@pytest.fixture
def small(monkeypatch):
    """An evaluation of more than 100 logits is large."""
    monkeypatch.setattr(evaluation, "LARGEST_WHOLE", 100)
    evaluation.logger.warning_once.cache_clear()


def test_a_large_evaluation_is_scored_by_batch_and_says_so(tmp_path, monkeypatch, caplog):
    whole = trainer_of(tmp_path).evaluate()
    asked = trainer_of(tmp_path, batch_eval_metrics=True)
    assert scores(asked.evaluate()) == pytest.approx(scores(whole), abs=1e-12)
    assert scores(asked.evaluate()) == pytest.approx(scores(whole), abs=1e-12)  # counts are of one evaluation
    monkeypatch.setattr(evaluation, "LARGEST_WHOLE", tiny_run.ROWS * tiny_run.LABELS)
    assert "eval_map_macro" in trainer_of(tmp_path).evaluate()
    monkeypatch.setattr(evaluation, "LARGEST_WHOLE", tiny_run.ROWS * tiny_run.LABELS - 1)
    evaluation.logger.warning_once.cache_clear()
    trainer = trainer_of(tmp_path)
    with caplog.at_level(logging.WARNING, "seal_hf"):
        found = trainer.evaluate()
    assert scores(found) == pytest.approx(scores(whole), abs=1e-12) and "eval_map_macro" not in found
    said = "The logits of 96 rows and 6 labels are not kept: figures are computed by batch, without map_macro."
    assert caplog.messages.count(said) == 1
    assert trainer.compute_metrics is multilabel_compute_metrics and not trainer.args.batch_eval_metrics
    assert trainer.predict(trainer.eval_dataset).predictions.shape == (96, 6)  # which are asked for


@pytest.mark.usefixtures("small")
def test_all_logits_are_kept_where_a_figure_of_all_of_them_chooses_or_is_the_users(tmp_path):
    assert "eval_map_macro" in trainer_of(tmp_path, metric_for_best_model="map_macro").evaluate()
    own = trainer_of(tmp_path, compute_metrics=lambda found: {"rows": len(found.predictions)})
    assert own.evaluate()["eval_rows"] == tiny_run.ROWS


@pytest.mark.usefixtures("small")
def test_rows_by_length_are_scored_by_batch(tmp_path, monkeypatch):
    rows = tokenize(tiny_texts(40), tiny_tokenizer(), max_length=16)
    net = AutoModelForSequenceClassification.from_config(tiny_config("bert"))
    args = tiny_arguments(tmp_path, energy_loss="ce", per_device_eval_batch_size=8)
    trainer = SealTrainer(net, args, eval_dataset=rows, compute_metrics=multilabel_compute_metrics)
    found = trainer.evaluate()
    monkeypatch.setattr(evaluation, "LARGEST_WHOLE", 10**9)
    whole = trainer.evaluate()
    assert {name: found[name] for name in found if "second" not in name and "time" not in name} == pytest.approx(
        {name: whole[name] for name in found if "second" not in name and "time" not in name}, abs=1e-6
    )


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("decoder", [None, "threshold", "fixed+never_empty"])
@pytest.mark.parametrize("every_row", [False, True])
def test_a_threshold_is_fitted_by_batch(decoder, every_row, tmp_path):
    """Oracle: the choice among the same decoders from all probabilities."""
    table = tiny_run.table()
    if every_row:
        table = table.filter(lambda row: any(row["labels"]))
    rows = TensorRows(table)
    trainer = trainer_of(tmp_path, rows, learning_rate=0.05)
    trainer.train_dataset = rows
    trainer.train()
    found = trainer.fit_decisions(decoder=decoder)
    logits, labels, _ = trainer.predict(rows)
    plain = ("fixed", "threshold")
    among = {*plain, *(f"{name}+never_empty" for name in plain)}
    expected = LabelDecisions.fit(sigmoid(logits), labels, never_empty=every_row, decoder=decoder, among=among)
    expected.thresholds = expected.calibration = None
    assert found == expected and LabelDecisions.from_config(trainer.model.config) == found
    assert trainer.fit_decisions(decoder="thresholds").thresholds is not None  # all are kept if they are needed


@pytest.mark.parametrize(
    ("decoder", "parents"), [("threshold", None), ("fixed+never_empty", ((), (0,), (1,), (), (3,), ()))]
)
def test_the_closing_figures_are_taken_by_batch(decoder, parents, tmp_path, monkeypatch):
    rows = TensorRows(tiny_run.table().filter(lambda row: any(row["labels"])))
    test = TensorRows(tiny_run.table().select(range(70)))
    trainer = trainer_of(tmp_path, rows, decoder=decoder, learning_rate=0.05)
    trainer.train_dataset = rows
    trainer.train()
    store_hierarchy(trainer.model.config, parents and Hierarchy(parents))
    kept = evaluate_multilabel(trainer, rows, test)
    stored = LabelDecisions.from_config(trainer.model.config)
    monkeypatch.setattr(evaluation, "LARGEST_WHOLE", len(rows) * tiny_run.LABELS - 1)
    by_batch = evaluate_multilabel(trainer, rows, test)
    whole, found = kept.metrics, by_batch.metrics
    assert found == pytest.approx({name: whole[name] for name in found}, abs=1e-12)
    left_out = {name.split("_", 1)[1] for name in whole.keys() - found.keys()}
    assert left_out == {
        name
        for name in left_out
        if name == "map_macro"
        or "per_label" in name
        or "_expected" in name
        or "_calibrated" in name
        or "_closed" in name
        or "_seen" in name
        or (name.endswith("_never_empty") and not name.startswith("f1_example"))
    }
    assert LabelDecisions.from_config(trainer.model.config).threshold == stored.threshold
    assert by_batch.test == (None, None) and kept.test[0].shape == (70, tiny_run.LABELS)


@pytest.mark.parametrize("largest", [10**9, 100])
def test_a_split_without_a_known_label_is_predicted_but_not_scored_and_refused_for_evaluation(
    largest, tmp_path, monkeypatch
):
    monkeypatch.setattr(evaluation, "LARGEST_WHOLE", largest)
    test = TensorRows(tiny_run.table())
    test.dense["labels"] = torch.full_like(test.dense["labels"], -1)
    trainer = trainer_of(tmp_path)
    found = evaluate_multilabel(trainer, trainer.eval_dataset, test)
    assert found.test[1] is None and not any(name.startswith("test_") for name in found.metrics)
    trainer.compute_metrics = None
    with pytest.raises(ValueError, match="rows are unknown|has no labels"):
        trainer.fit_decisions(test)
    with pytest.raises(ValueError, match="All labels of the 96 rows of `eval_dataset` are unknown"):
        trainer_of(tmp_path, test)
