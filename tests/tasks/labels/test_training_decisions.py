"""`SealTrainer.fit_decisions`: what it stores is what prediction of the saved net does."""

import json

import numpy as np
import pytest
import tiny_masks
import tiny_run
import tiny_tags
import torch
from tiny_models import LABELS, tiny_arguments, tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModelForSequenceClassification, PretrainedConfig

from seal_hf import (
    MaskRows,
    SealForMultiLabel,
    SealForSegmentation,
    SealForTokenClassification,
    SealTrainer,
    TensorRows,
    load_multilabel,
    tokenize,
)
from seal_hf.core.tag_schemes import is_well_formed
from seal_hf.decisions import LabelDecisions
from seal_hf.metrics import mask_iou
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.labels.decisions.of_trainer import every_row_has_a_label
from seal_hf.tasks.labels.metrics import example_f1
from seal_hf.tasks.masks.metrics import mask_probabilities


def labels_trainer(folder, **options):
    torch.manual_seed(0)
    trainer, nets = tiny_run.make(folder, loss="ce", **options)
    trainer.train()
    return trainer, nets


@pytest.mark.parametrize("decoder", [None, "threshold", "thresholds+never_empty", "calibrated_f1"])
def test_a_saved_net_decides_as_they_say(decoder, tmp_path):
    trainer, _ = labels_trainer(tmp_path)
    decisions = trainer.fit_decisions(decoder=decoder)
    assert decoder in (None, decisions.decoder)
    trainer.save_model()
    again = SealForMultiLabel.from_pretrained(tmp_path, with_loss_net=False)
    assert again.loss_net is None and LabelDecisions.from_config(again.config) == decisions
    rows = trainer.eval_dataset
    logits = trainer.predict(rows).predictions
    expected = decisions.decide(1 / (1 + np.exp(-logits.astype(np.float64))))
    found = again.predict(features=rows.batch(range(len(rows)))["features"])[1]
    np.testing.assert_array_equal(found.bool().numpy(), expected)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "seal-hf predict" in card


def test_a_run_that_trains_on_forgets_them(tmp_path):
    trainer, _ = labels_trainer(tmp_path)
    trainer.fit_decisions()
    trainer.args.max_steps = 2
    trainer.train()
    assert getattr(trainer.model.config, "decisions", None) is None


def test_the_arguments_name_the_decoder_or_fold_it(tmp_path):
    trainer, _ = labels_trainer(tmp_path / "named", decoder="expected_f1")
    assert trainer.fit_decisions().decoder == "expected_f1"
    trainer, nets = labels_trainer(tmp_path / "folded", fold_decision=True)
    decisions = trainer.fit_decisions()
    assert decisions.decoder in ("fixed", "threshold", "thresholds")
    rows = trainer.eval_dataset.batch(range(96))
    with torch.no_grad():
        p = nets.task_net.eval()(features=rows["features"]).logits.double().sigmoid().numpy()
    trainer.save_model()
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "folded")
    with torch.no_grad():
        found = plain(features=rows["features"]).logits.sigmoid() >= 0.5
    np.testing.assert_array_equal(found.numpy(), decisions.decide(p))
    assert plain.config.decisions["folded"] == decisions.decoder and plain.config.label_bias
    assert trainer.model.config.decisions["decoder"] == decisions.decoder  # the trainer's own net is as it was
    assert not (tmp_path / "folded" / "_loss_net").exists()


def test_a_net_that_trained_in_half_precision_is_folded_in_full(tmp_path):
    trainer, nets = labels_trainer(tmp_path, bf16=True)
    decisions = trainer.fit_decisions(decoder="thresholds")
    trainer.args.fold_decision = True
    trainer.save_model()
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    features = trainer.eval_dataset.batch(range(96))["features"]
    with torch.no_grad():
        found = plain(features=features).logits.sigmoid() >= 0.5
        p = type(nets.task_net).forward(nets.task_net.eval(), features=features).logits.double().sigmoid()
    np.testing.assert_array_equal(found.numpy(), decisions.decide(p.numpy()))


def test_what_cannot_be_folded_is_refused_before_training(tmp_path):
    rows = MaskRows(tiny_masks.squares())
    for crop_size in (12, 100):
        with pytest.raises(ValueError, match="averages over crops"):
            tiny_masks.make(tmp_path, tiny_masks.model(crop_size=crop_size), rows, loss="ce", fold_decision=True)


def test_an_adapter_is_not_folded(tmp_path):
    pytest.importorskip("peft")
    AutoModelForSequenceClassification.from_config(tiny_config("bert")).save_pretrained(tmp_path / "bert")
    both = SealForMultiLabel.from_pretrained(tmp_path / "bert", loss_net_encoder="peft")
    texts = tokenize(tiny_texts(8), tiny_tokenizer(), max_length=5)
    args = tiny_arguments(tmp_path, loss_net_encoder="peft", adapter_export="adapter", fold_decision=True)
    with pytest.raises(ValueError, match="saved as an adapter"):
        SealTrainer(both, args, train_dataset=texts, eval_dataset=texts)


def test_checkpoints_are_not_folded(tmp_path):
    trainer, nets = tiny_run.make(tmp_path, loss="ce", fold_decision=True, save_strategy="epoch")
    trainer.train()
    trainer.fit_decisions()
    trainer._save_checkpoint(trainer.model, None)
    saved = json.loads((tmp_path / f"checkpoint-{trainer.state.global_step}" / "config.json").read_text())
    assert not saved["label_bias"] and "folded" not in saved["decisions"]


@pytest.mark.parametrize("hook", [torch.sigmoid, lambda z: (z > 0).int(), None])
def test_they_are_fitted_on_the_logits_whatever_the_user_makes_of_them(hook, tmp_path):
    trainer, nets = labels_trainer(tmp_path)
    trainer.fit_decisions(decoder="threshold")
    expected = dict(nets.config.decisions)
    trainer.preprocess_logits_for_metrics = hook and (lambda logits, labels: hook(logits))
    trainer.args.prediction_loss_only = hook is None
    trainer.fit_decisions(decoder="threshold")
    assert nets.config.decisions == expected
    assert (trainer.preprocess_logits_for_metrics is None) == (hook is None)  # it is back


def test_what_a_data_set_calls_inputs_is_not_saved(tmp_path):
    class Rows(torch.utils.data.Dataset):
        inputs, num_labelled = ["a private text"], 1

        def __len__(self):
            return tiny_run.ROWS

        def __getitem__(self, i):
            return {"features": torch.tensor(ROWS[i]["features"]), "labels": torch.tensor(ROWS[i]["labels"])}

    ROWS = tiny_run.table()
    trainer, nets = labels_trainer(tmp_path, rows=Rows())
    assert getattr(nets.config, "inputs", None) is None


def test_mistakes_are_named(tmp_path):
    with pytest.raises(ValueError, match="`decoder` is 'tresholds'; .* Did you mean 'thresholds'"):
        tiny_run.make(tmp_path, decoder="tresholds")
    with pytest.raises(ValueError, match="`fold_decision` is True, .*decoder='expected_f1'"):
        tiny_run.make(tmp_path, decoder="expected_f1", fold_decision=True)
    both, rows = tiny_tags.nets("bilstm", tmp_path)
    with pytest.raises(ValueError, match="`decoder` is 'viterbi'; these decisions have independent, constrained"):
        tiny_tags.trainer(tmp_path, both, rows, decoder="viterbi")
    with pytest.raises(ValueError, match="`fold_decision` is True, but tags"):
        tiny_tags.trainer(tmp_path, both, rows, fold_decision=True)
    trainer, _ = tiny_run.make(tmp_path)
    with pytest.raises(ValueError, match="`dataset` has no rows"):
        trainer.fit_decisions(TensorRows(tiny_run.table(0)))
    several = {"a": trainer.eval_dataset, "b": trainer.eval_dataset}
    with pytest.raises(ValueError, match=r"several data sets, a, b: .* such as fit_decisions\(dataset\['a'\]\)"):
        trainer.fit_decisions(several)
    trainer.eval_dataset = several
    with pytest.raises(ValueError, match=r"such as fit_decisions\(trainer.eval_dataset\['a'\]\)"):
        trainer.fit_decisions()
    with pytest.raises(ValueError, match=r"`dataset` \(IterableDataset\) has no length: .*Dataset.from_list\(list\("):
        trainer.fit_decisions(tiny_run.table(4).to_iterable_dataset())
    trainer.eval_dataset = None
    with pytest.raises(ValueError, match="`dataset` has no rows"):
        trainer.fit_decisions()


@pytest.mark.parametrize("never", [True, False])
def test_never_empty_is_offered_where_every_training_row_has_a_label(never, tmp_path):
    table = tiny_run.table().filter(lambda row: any(row["labels"]) or not never)
    rows = TensorRows(table)
    assert every_row_has_a_label(rows) == every_row_has_a_label(table) == never
    trainer, _ = tiny_run.make(tmp_path, rows=rows, loss="ce")
    assert any("never_empty" in name for name in trainer.fit_decisions(TensorRows(tiny_run.table())).names) == never


@pytest.mark.parametrize("crf", [False, True])
def test_tags_are_decided_within_the_scheme_where_that_is_better(crf, tmp_path):
    options = {"crf": True} if crf else {}
    both, rows = tiny_tags.nets("bert", tmp_path, **options)
    options = {"task_loss": "crf", "crf_learning_rate": 0.1} if crf else {}
    trainer = tiny_tags.trainer(tmp_path / "run", both, rows, energy_loss="ce", max_steps=40, **options)
    trainer.train()
    scores = both.task_net.crf.start if crf else both.task_net.classifier.bias
    scores.data[tiny_tags.TAGS.index("I-X")] += 6.0  # sequences begin with a tag that none may begin with
    decisions = trainer.fit_decisions()
    assert decisions.decoder == ("constrained_viterbi" if crf else "constrained")
    assert set(decisions.names) > {decisions.decoder}
    trainer.save_model()

    again = SealForTokenClassification.from_pretrained(tmp_path / "run", with_loss_net=False)
    again.processor = tiny_tokenizer()
    words = tiny_tags.sentences()["words"][:]
    probabilities, tags = again.predict(words, batch_size=5)
    assert all(is_well_formed(row, "bio") for row in tags)
    assert [len(row) for row in tags] == [len(p) for p in probabilities] == [len(row) for row in words]
    output, labels = trainer.predict(rows).predictions, None
    batch = rows.batch(range(len(rows)))
    labels = batch.pop("labels")
    logits = torch.as_tensor(output) if output.ndim == 3 else again(**batch).logits
    expected = trainer.space.decode(logits, mask=labels >= 0)
    assert tags == [[tiny_tags.TAGS[t] for t in row[counts]] for row, counts in zip(expected, labels >= 0, strict=True)]
    free = again.predict(words, decoder="viterbi" if crf else "independent")[1]
    assert not all(is_well_formed(row, "bio") for row in free)
    assert trainer.fit_decisions(decoder="independent").decoder == "independent"


def test_masks(tmp_path):
    trainer, nets = tiny_masks.make(tmp_path, rows=MaskRows(tiny_masks.squares()), loss="ce", num_train_epochs=8)
    trainer.train()
    with torch.no_grad():
        nets.task_net.scores[0].bias[1] -= 1.5  # 0.5 now decides too little
    decisions = trainer.fit_decisions()
    assert decisions.decoder == "threshold"
    split = tiny_masks.squares()
    p = mask_probabilities(trainer.predict(trainer.eval_dataset).predictions)
    assert mask_iou(p, split.masks, decisions.cut()).mean() > mask_iou(p, split.masks).mean()
    trainer.save_model()
    again = SealForSegmentation.from_pretrained(tmp_path, with_loss_net=False)
    again.processor = tiny_masks.image_processor_class()(do_resize=False, do_normalize=False)
    probabilities, masks = again.predict(list(split.images), batch_size=3)
    np.testing.assert_allclose(torch.stack(probabilities), p, atol=1e-6)
    np.testing.assert_array_equal(torch.stack(masks), p.astype(np.float64) >= decisions.threshold)
    tall = np.concatenate([split.images[0], split.images[1]])
    assert again.predict([tall])[1][0].shape == (2 * tiny_masks.SIZE, tiny_masks.SIZE)


def test_texts_are_cut_where_training_cut_them(tmp_path):
    texts, tokenizer = tiny_texts(40), tiny_tokenizer()
    torch.manual_seed(0)
    task_net = AutoModelForSequenceClassification.from_config(tiny_config("bert"))
    rows = tokenize(texts, tokenizer, max_length=5)
    args = tiny_arguments(tmp_path, energy_loss="ce")
    trainer = SealTrainer(task_net, args, train_dataset=rows, eval_dataset=rows, processing_class=tokenizer)
    trainer.train()
    decisions = trainer.fit_decisions()
    trainer.save_model()
    again = SealForMultiLabel.from_pretrained(tmp_path, with_loss_net=False)
    assert again.config.inputs == {"max_length": 5}
    probabilities, decided = again.predict(texts["text"][:], batch_size=7)
    expected = torch.as_tensor(trainer.predict(rows).predictions).sigmoid()
    torch.testing.assert_close(probabilities, expected, atol=1e-5, rtol=0)
    np.testing.assert_array_equal(decided.bool(), decisions.decide(probabilities.numpy()))
    assert probabilities.shape == (40, len(LABELS))
    for name in decisions.names:
        assert [found.shape for found in again.predict([], decoder=name)] == [(0, len(LABELS))] * 2
    for given, message in (({"texts": "one"}, "one string"), ({"texts": ["a", 3]}, "3 at place 1")):
        with pytest.raises(ValueError, match=f"`texts` holds {message}"):
            again.predict(given["texts"])
    for file in tmp_path.glob("*token*"):
        file.unlink()
    again.processor = None
    (tmp_path / "config.json").unlink()
    with pytest.raises(ValueError, match=f"{tmp_path} lacks a tokenizer for raw inputs") as lacking:
        again.predict(["good"])
    assert len(str(lacking.value)) < 1000  # transformers 4 lists all the models that it knows
    with pytest.raises(ValueError, match="neither `texts` nor inputs"):
        again.predict()


def test_figures_of_the_decisions_are_theirs(tmp_path):
    trainer, _ = labels_trainer(tmp_path)
    decisions = trainer.fit_decisions(decoder="calibrated_f1")
    output = trainer.predict(trainer.eval_dataset)
    p = 1 / (1 + np.exp(-output.predictions.astype(np.float64)))
    by_hand = np.mean([f1(row, gold) for row, gold in zip(decisions.decide(p), output.label_ids > 0, strict=True)])
    assert example_f1(decisions.decide(p), output.label_ids).mean() == pytest.approx(by_hand)


@pytest.mark.parametrize("target", ["hamming", "cost"])
def test_a_run_decides_for_a_loss_and_reports_it(target, tmp_path, capsys):
    """`--target hamming` and `--target cost FILE`. Oracle: the errors in the file of predictions, weighed by hand."""
    costs = tmp_path / "costs.csv"
    costs.write_text("label,false_positive,false_negative\n*,1,4\ndigit 7,2,1\n")
    words = [target] if target == "hamming" else [target, str(costs)]
    flags = f"--loss ce --num_train_epochs 1 --use_cpu true --report_to none --output_dir {tmp_path / 'run'} --target"
    mlc.main([*flags.split(), *words])
    names = load_multilabel("digits").label_names
    found = LabelDecisions.from_config(PretrainedConfig.from_pretrained(tmp_path / "run"))
    assert found.target == target
    lines = [json.loads(line) for line in (tmp_path / "run" / "_predictions.jsonl").read_text().splitlines()]
    ours, gold = (np.array([[name in line[key] for name in names] for line in lines]) for key in ("labels", "gold"))
    weights = np.tile([[1.0], [4.0]], len(names))
    weights[:, names.index("digit 7")] = 2, 1
    cost = (ours & ~gold) @ weights[0] + (gold & ~ours) @ weights[1]
    by_hand = {"hamming": (ours != gold).mean(), "cost": cost.mean()}
    if target == "cost":
        np.testing.assert_array_equal(found.costs, weights)
    results = json.loads((tmp_path / "run" / "test_results.json").read_text())
    figure = {"hamming": "hamming_loss"}.get(target, target)
    assert results[f"test_{figure}_decided"] == pytest.approx(by_hand[target])
    assert f"of the decisions: {by_hand[target]:.4f} on test" in capsys.readouterr().out.replace("a row's ", "the ")


def test_a_file_of_costs_is_read_before_training(tmp_path):
    (tmp_path / "costs.csv").write_text("label,false_positive,false_negative\nb,2,1\n")
    for target, message in (
        (["cost", str(tmp_path / "costs.csv")], "has no costs of 'a', 'c'"),
        ("cost", "a file of costs after it"),
        ("jaccard x.csv", "nothing after it"),
        ("f2", "`target` is 'f2'; it must be one of f1_example, .* hamming, cost"),
    ):
        with pytest.raises(ValueError, match=message):
            tiny_run.make(tmp_path, loss="ce", target=target)


def f1(decided, gold):
    both = decided.sum() + gold.sum()
    return 1.0 if both == 0 else 2 * (decided & gold).sum() / both
