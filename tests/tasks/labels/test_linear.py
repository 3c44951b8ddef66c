"""The linear baseline. Oracles: scikit-learn's logistic regression, the gradient at the optimum, a fit without the
unknown rows, the probabilities of the saved model, and the run's own rule for decisions."""

import json
from copy import copy

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from tiny_images import saved_encoder, write_folder
from tiny_models import LABELS, tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModel, AutoModelForSequenceClassification, set_seed

from seal_hf import (
    SealForMultiLabel,
    SealTrainer,
    SealTrainingArguments,
    TensorRows,
    average_with_regression,
    load_multilabel,
)
from seal_hf.cli.recipes import packaged_recipe, read_recipe
from seal_hf.core.decisions import folds
from seal_hf.decisions import LabelDecisions
from seal_hf.reports.run_page import figures_section
from seal_hf.tasks.labels import linear as training
from seal_hf.tasks.labels import logistic
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.labels.logistic import cross_validated, fit_logistic
from seal_hf.tasks.labels.metrics import multilabel_compute_metrics, multilabel_metrics, tune_threshold
from seal_hf.tasks.labels.report import closing_table

QUIET = "--report_to none --report false --use_cpu true --disable_tqdm true".split()
ROW = "logistic regression"


def problem(num_rows, num_features, seed=0):
    """Features of different scales, one of them constant; labels that are common, rare, and linear in a feature."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_rows, num_features)) * rng.uniform(0.1, 5, num_features) + 3
    x[:, 1] = 7.0
    labels = (rng.random((num_rows, 3)) < [0.5, 0.1, 0.5]).astype(float)
    labels[:, 2] = x[:, 0] + rng.normal(size=num_rows) > 3
    return torch.from_numpy(x), torch.from_numpy(labels)


def standardised(x):
    scale = x.std(0, correction=0)
    return ((x - x.mean(0)) / torch.where(scale > 0, scale, 1.0)).numpy()


# --- the fit ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(120, 9), (40, 70)])
@pytest.mark.parametrize(("c", "balanced"), [(0.01, False), (1.0, True), (10.0, False)])
def test_the_fit_is_scikit_learns_and_its_gradient_is_zero(size, c, balanced):
    x, labels = problem(*size)
    weights = torch.from_numpy(np.random.default_rng(1).uniform(0.2, 2, size[0]))
    weights = None if balanced else weights / weights.mean()
    found, z = fit_logistic(x, labels, c, balanced, weights), standardised(x)
    p = found.probabilities(x)
    options = {"C": c, "class_weight": "balanced" if balanced else None, "tol": 1e-8, "max_iter": 5000}
    for label in range(3):
        y = labels[:, label].numpy()
        theirs = LogisticRegression(**options).fit(z, y, None if weights is None else weights.numpy())
        np.testing.assert_allclose(p[:, label], theirs.predict_proba(z)[:, 1], atol=2e-3)
        counted = np.ones(len(y)) if weights is None else weights.numpy()
        if balanced:
            counted = np.where(y > 0, len(y) / (2 * y.sum()), len(y) / (2 * (1 - y).sum()))
        own = (found.weight[label] * x.std(0, correction=0)).numpy()
        gradient = z.T @ (counted * (p[:, label] - y)) + own / c
        assert np.abs(gradient).max() < 0.02 * max(np.abs(own).max() / c, 1)
        assert abs((counted * (p[:, label] - y)).sum()) < 1e-2
    assert found.weight[:, 1].abs().max() == 0


def test_unknown_entries_are_left_out_and_labels_of_one_value_get_their_frequency():
    x, labels = problem(60, 5)
    unknown = labels.clone()
    unknown[:20, 0], unknown[20:30, 1] = -1, torch.nan
    found = fit_logistic(x, unknown, 1.0)
    assert found.weight.isfinite().all()
    known = fit_logistic(x[20:], labels[20:], 1.0)
    # scaled by other rows: compare at a penalty that does not matter
    first, second = (fit_logistic(rows, gold, 1e4) for rows, gold in ((x, unknown[:, :1]), (x[20:], labels[20:, :1])))
    np.testing.assert_allclose(first.probabilities(x), second.probabilities(x), atol=2e-2)
    assert not np.allclose(known.probabilities(x)[:, 0], fit_logistic(x, labels, 1.0).probabilities(x)[:, 0], atol=1e-2)
    single = torch.tensor([[0.0, 1.0, -1.0]]).expand(60, 3)
    for balanced in (False, True):
        p = fit_logistic(x, single, 1.0, balanced).probabilities(x)
        np.testing.assert_allclose(p[0], [0.5 / 61.5, 60.5 / 61.5, 1 / 3], atol=1e-9)
        assert np.ptp(p, axis=0).max() == 0


def test_cross_validation_takes_the_pair_that_decides_other_rows_best(monkeypatch):
    """Every pair by scikit-learn, on the same folds."""
    x, labels = problem(90, 30)
    monkeypatch.setattr(logistic, "LEVELS", (0.03, 1.0, 100.0))
    z, y, values = standardised(x), labels.numpy(), {}
    order = np.random.default_rng(0).permutation(90)
    for balanced in (False, True):
        for level in logistic.LEVELS:
            p = np.zeros((90, 3))
            model = LogisticRegression(C=level / 30, class_weight="balanced" if balanced else None)
            for others, held in folds(90, 3):
                for label in range(3):
                    fitted = model.fit(z[order][others], y[order][others, label])
                    p[order[held], label] = fitted.predict_proba(z[order][held])[:, 1]
            threshold, _ = tune_threshold(p, y)
            values[level / 30, balanced] = multilabel_metrics(p, y, threshold)["f1_example"]
    found = cross_validated(x, labels)
    ranked = sorted(values.values())
    assert values[found.c, found.balanced] == pytest.approx(ranked[-1], abs=5e-3) and ranked[-1] > ranked[0] + 0.03
    again = fit_logistic(x, labels, found.c, found.balanced)
    torch.testing.assert_close(again.weight, found.weight)


# --- a run -----------------------------------------------------------------------------------------------------------


def texts(folder, kind="bert", train=40, validation=16):
    """A data set of texts and a tiny encoder with its tokenizer."""
    torch.manual_seed(0)
    AutoModel.from_config(tiny_config(kind)).save_pretrained(folder / "net")
    tiny_tokenizer().save_pretrained(folder / "net")
    for split, count, seed in (("train", train, 0), ("validation", validation, 1), ("test", 20, 2)):
        rows = tiny_texts(count, seed)
        lines = [
            json.dumps({"text": row["text"], "labels": [LABELS[i] for i, y in enumerate(row["labels"]) if y]})
            for row in rows
        ]
        (folder / "data").mkdir(exist_ok=True)
        (folder / "data" / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["--dataset", str(folder / "data"), "--model_name_or_path", str(folder / "net")]


def mean_vectors(folder, seed, count):
    """Of the frozen encoder, text by text without padding."""
    net, tokenizer = AutoModel.from_pretrained(folder / "net").eval(), tiny_tokenizer()
    with torch.no_grad():
        encoded = [tokenizer(text, return_tensors="pt") for text in tiny_texts(count, seed)["text"]]
        states = [net(input_ids=e["input_ids"], attention_mask=e["attention_mask"]).last_hidden_state for e in encoded]
    return torch.stack([state[0].mean(0) for state in states])


def gold(seed, count):
    """Labels in the order of the loader, by name."""
    return torch.tensor(tiny_texts(count, seed)["labels"])[:, np.argsort(LABELS)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run with a baseline beside, its flags, its figures."""
    folder = tmp_path_factory.mktemp("linear")
    flags = [*texts(folder), *QUIET, "--max_steps", "2", "--decoder", "calibrated_f1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "SHARES", dict.fromkeys(training.SHARES, 1e9))
        metrics = mlc.main([*flags, "--output_dir", str(folder / "out")])
    return folder, flags, metrics


def expected_figures(folder):
    """By the mean vectors of each text alone, and by the run's rule."""
    p = {"eval": (1, 16), "test": (2, 20)}
    found = cross_validated(mean_vectors(folder, 0, 40), gold(0, 40))
    p = {split: (found.probabilities(mean_vectors(folder, *which)), gold(*which).numpy()) for split, which in p.items()}
    decisions = LabelDecisions.fit(*p["eval"], never_empty=True, decoder="calibrated_f1")
    figures = {split: multilabel_metrics(decisions.decide(p).astype(float), gold) for split, (p, gold) in p.items()}
    return {
        f"{split}_{name}_linear_encoder": figures[split][name]
        for split in figures
        for name in ("f1_example", "f1_macro")
    }


def test_the_row_is_in_table_page_and_card_and_decided_by_the_runs_rule(finished):
    folder, _, metrics = finished
    assert {key: value for key, value in metrics.items() if "linear" in key} == pytest.approx(expected_figures(folder))
    names = json.loads((folder / "out/_report.json").read_text(encoding="utf-8"))["facts"]["figures"]["names"]
    table = closing_table(metrics)
    row, macro = (line for line in table.splitlines() if ROW in line)
    assert macro.startswith("macro F1 of a logistic regression")
    value = f"{metrics['test_f1_example_linear_encoder']:.4f}"
    assert row.startswith("example F1 of a logistic regression on the same encoder, frozen  ") and row.endswith(value)
    assert names["f1_example_linear_encoder"] in row  # by these names the page shows what is in all_results.json
    card = (folder / "out/README.md").read_text(encoding="utf-8")
    line, _ = (line for line in card.splitlines() if line.startswith("|") and ROW in line)
    assert line.endswith(f"{value} |") and "f1_example_linear" not in card  # it is no result of the model on the Hub
    section = figures_section({"names": names, "chosen": "f1_example"}, folder / "out", None)
    assert sum(ROW in row["figure"] for row in section.parts[0].rows) == 2


def test_it_changes_nothing_of_the_training(finished):
    folder, flags, metrics = finished
    plain = mlc.main([*flags, "--linear", "false", "--output_dir", str(folder / "plain")])
    assert {key: value for key, value in metrics.items() if "linear" not in key} == plain


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_kept_outputs_of_a_frozen_encoder_give_the_same_baseline(finished, pooling):
    folder, flags, metrics = finished
    words = [*flags, "--freeze_encoder", "true", "--pooling", pooling, "--output_dir", str(folder / pooling)]
    arguments = mlc.PROGRAM.parse(words)
    prepared = mlc.make_trainer(mlc.PROGRAM.load(arguments), arguments)
    trainer = prepared.trainer
    assert training.training_work(trainer) == 2 * training.STEP_WORK  # its forward passes are behind it
    labels = {"eval": gold(1, 16).numpy(), "test": gold(2, 20).numpy()}
    baseline = training.fit_baseline(trainer, prepared.splits)
    found = training.figures_of(trainer, baseline.name, baseline.probabilities, labels)
    assert found == pytest.approx({key: metrics[key] for key in found}) and len(found) == 4


def test_labels_that_are_kept_as_ids_give_the_same_baseline(tmp_path):
    words = "--max_train_rows 60 --max_validation_rows 20 --hidden_size 8 --report_to none --output_dir".split()
    arguments = mlc.PROGRAM.parse([*words, str(tmp_path)])
    trainer = mlc.make_trainer(mlc.PROGRAM.load(arguments), arguments).trainer
    expected, rows = training.fit_baseline(trainer, {}), copy(trainer.train_dataset)
    labels = rows.dense["labels"]
    offsets = torch.cat([torch.zeros(1), (labels > 0).sum(1).cumsum(0)]).long()
    rows.dense = {name: column for name, column in rows.dense.items() if name != "labels"}
    rows.ragged, rows.multi_hot = {"labels": ((labels > 0).nonzero()[:, 1], offsets)}, {"labels": labels.shape[1]}
    trainer.train_dataset = rows
    torch.testing.assert_close(training.fit_baseline(trainer, {}).regressions.weight, expected.regressions.weight)


def test_it_is_skipped_in_one_line_where_it_takes_much_of_the_training(tmp_path, capsys, monkeypatch):
    """The work is counted, not timed: a run of few steps has none beside, one of many has."""
    few = "--max_train_rows 60 --hidden_size 8 --per_device_train_batch_size 30".split()
    metrics = mlc.main([*few, *QUIET, "--max_steps", "2", "--output_dir", str(tmp_path / "out")])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if ROW in line]
    assert line == "No logistic regression is fitted beside: it would take more than 100% of the training."
    assert not any("linear" in key for key in metrics)
    arguments = [mlc.PROGRAM.parse([*few, "--max_steps", str(n), "--output_dir", str(tmp_path)]) for n in (2, 2000)]
    prepared = [mlc.make_trainer(mlc.PROGRAM.load(each), each) for each in arguments]
    made = [each.trainer for each in prepared]
    assert training.baseline_work(made[0]) == training.baseline_work(made[1])
    assert training.training_work(made[1]) == pytest.approx(1000 * training.training_work(made[0]))
    made[0].args.max_steps, made[0].args.min_steps = -1, 2000  # few rows get more epochs than `num_train_epochs`
    assert training.training_work(made[0]) == pytest.approx(training.training_work(made[1]))
    assert training.why_no_baseline(made[1], prepared[1].splits) is None
    monkeypatch.setattr(training, "are_too_many", lambda *_: True)
    assert training.why_no_baseline(made[1], prepared[1].splits) == "the probabilities of all rows are too many to keep"


def test_few_training_rows_beside_many_others_have_one(tmp_path):
    """With few labelled rows a linear model is hard to beat. The number of validation rows does not hide it."""
    work = []
    for count in (16, 400):
        folder = tmp_path / str(count)
        folder.mkdir()
        words = [*texts(folder, validation=count), "--report_to", "none", "--output_dir", str(folder / "out")]
        arguments = mlc.PROGRAM.parse(words)
        trainer = mlc.make_trainer(mlc.PROGRAM.load(arguments), arguments).trainer
        assert (len(trainer.train_dataset), len(trainer.eval_dataset)) == (40, count)
        work.append(training.baseline_work(trainer))
    assert work[0] == work[1]


# --- in the net ------------------------------------------------------------------------------------------------------


def of_features(folder, scale=1.0):
    """A folder of features with labels: half of them linear in the features, half not."""
    draw = np.random.default_rng(0)
    for split, count in (("train", 120), ("validation", 400), ("test", 60)):
        x = draw.normal(size=(count, 6)) * scale + 3 * scale
        z = x / scale - 3
        y = np.stack([z[:, 0] > 0, z[:, 1] + z[:, 2] > 0.5, z[:, 3] * z[:, 4] > 0], 1).astype(int)
        lines = [",".join(map(str, [*row, *labels])) for row, labels in zip(x, y, strict=True)]
        head = ",".join([f"x{i}" for i in range(6)] + ["a", "b", "c"])
        (folder / f"{split}.csv").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return ["--dataset", str(folder), "--label_columns", "a,b,c", *QUIET, "--loss", "ce", "--hidden_size", "8"]


@pytest.fixture
def short(monkeypatch):
    """A few epochs, with a baseline however long it takes."""
    monkeypatch.setattr(training, "SHARES", dict.fromkeys(training.SHARES, 1e9))
    return ["--num_train_epochs", "3"]


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_an_mlp_takes_the_regression_in_where_validation_gains(tmp_path, short, capsys, scale):
    """The logits of the saved model are the mean of those of the two, which are made apart from it."""
    flags, out = [*of_features(tmp_path, scale), *short], tmp_path / "out"
    metrics = mlc.main([*flags, "--output_dir", str(out)])
    said = [line for line in capsys.readouterr().out.splitlines() if "takes the logistic regression in" in line]
    assert len(said) == 1 and "--linear false leaves it out" in said[0]
    assert "by an MLP and by a logistic regression" in (out / "README.md").read_text(encoding="utf-8")
    plain = mlc.main([*flags, "--linear", "false", "--output_dir", str(tmp_path / "plain")])
    figure = "test_f1_example"
    assert metrics[f"{figure}_net_alone"] == plain[f"{figure}_decided"] and f"{figure}_net_alone" not in plain
    saved, alone = (
        SealForMultiLabel.from_pretrained(tmp_path / name, with_loss_net=False) for name in ("out", "plain")
    )
    assert saved.config.linear_skip and not alone.config.linear_skip
    data = load_multilabel(str(tmp_path), label_columns=["a", "b", "c"])
    x, y = (torch.tensor(np.asarray(data.train[name])) for name in ("features", "labels"))
    expected = cross_validated(x, y)
    features = torch.tensor(np.asarray(data.test["features"])).float()
    logits = features.double() @ expected.weight.T + expected.bias
    with torch.no_grad():
        mean = (alone.task_net.eval()(features).logits + logits) / 2
        torch.testing.assert_close(saved.task_net.eval()(features).logits.double(), mean, atol=1e-4, rtol=1e-4)


def test_a_net_that_has_taken_it_in_and_is_behind_it_says_so(tmp_path, short, capsys):
    flags, out = [*of_features(tmp_path), *short[:1], "1"], tmp_path / "out"  # too short to learn
    metrics = mlc.main([*flags, "--output_dir", str(out)])
    said = capsys.readouterr().out
    assert "takes the logistic regression in" in said
    assert metrics["eval_f1_example_decided"] < metrics["eval_f1_example_linear_features"]
    assert "A logistic regression on the same features is better on validation rows" in said


def trained(folder, rows=TensorRows, **options):
    """A script's trainer after the training, with the settings of the command's recipe."""
    set_seed(42)
    data = load_multilabel(str(folder), label_columns=["a", "b", "c"])
    settings = {**read_recipe(packaged_recipe("features")), "num_train_epochs": 3, **options}
    del settings["patience"]
    args = SealTrainingArguments(
        str(folder / "script"), energy_loss="ce", report_to="none", use_cpu=True, disable_tqdm=True, **settings
    )
    set_seed(42)
    model, splits = SealForMultiLabel.for_data(data, hidden_size=8), (data.train, data.validation)
    train, validation = (rows(split) for split in splits)
    given = {"train_dataset": train, "eval_dataset": validation, "compute_metrics": multilabel_compute_metrics}
    trainer = SealTrainer(model, args, **given)
    trainer.train()
    return trainer, data


@pytest.mark.parametrize("rows", [TensorRows, lambda table: table])
def test_a_script_has_the_net_and_the_figures_of_the_command(rows, tmp_path, short):
    """The same function after the same training; of rows as tensors and of a plain table."""
    flags = of_features(tmp_path)
    mlc.main([*flags, *short, "--output_dir", str(tmp_path / "out")])
    written = json.loads((tmp_path / "out/all_results.json").read_text(encoding="utf-8"))
    trainer, data = trained(tmp_path, rows)
    trainer.fit_decisions()  # of the net without it
    with_it, without = average_with_regression(trainer)
    assert with_it > without and not hasattr(trainer.model.config, "decisions")
    trainer.fit_decisions()
    trainer.save_model(str(tmp_path / "final"))
    saved, of_command = (
        SealForMultiLabel.from_pretrained(tmp_path / name, with_loss_net=False) for name in ("final", "out")
    )
    for name, weight in of_command.task_net.state_dict().items():
        torch.testing.assert_close(saved.task_net.state_dict()[name], weight)
    _, decided = saved.predict(features=torch.tensor(np.asarray(data.test["features"])))
    figures = multilabel_metrics(decided.double().numpy(), np.asarray(data.test["labels"]))
    assert figures["f1_example"] == pytest.approx(written["test_f1_example_decided"])


def test_a_script_is_told_what_cannot_hold_a_regression_or_be_read(tmp_path):
    of_features(tmp_path)
    trainer, data = trained(tmp_path, max_steps=1, num_train_epochs=1)
    with pytest.raises(ValueError, match="got rows as dict; expected TensorRows, or a datasets.Dataset"):
        average_with_regression(trainer, {"a": trainer.eval_dataset})
    trainer.model = torch.nn.Linear(6, 3)
    with pytest.raises(ValueError, match="got a Linear; expected an MLPForMultiLabel"):
        average_with_regression(trainer)


def test_test_rows_are_predicted_once(tmp_path, short, monkeypatch):
    """What the net gave without the regression follows from what it gives with it."""
    predicted, predict = [], SealTrainer.predict

    def counted(trainer, rows, *given, **named):
        predicted.append(len(rows))
        return predict(trainer, rows, *given, **named)

    monkeypatch.setattr(SealTrainer, "predict", counted)
    metrics = mlc.main([*of_features(tmp_path), *short, "--output_dir", str(tmp_path / "out")])
    assert "test_f1_example_net_alone" in metrics and predicted.count(60) == 1


def turned(baseline):
    """A regression that says the opposite."""
    regressions = baseline.regressions._replace(weight=-9 * baseline.regressions.weight)
    return baseline._replace(regressions=regressions)


def test_an_mlp_stays_alone_where_validation_loses(tmp_path, short, monkeypatch, capsys):
    flags, out = [*of_features(tmp_path), *short[:1], "30"], tmp_path / "out"  # long enough to be good
    fitted = training.fit_baseline
    monkeypatch.setattr(mlc, "fit_baseline", lambda *given: turned(fitted(*given)))
    metrics = mlc.main([*flags, "--output_dir", str(out)])
    assert "takes the logistic" not in capsys.readouterr().out and "test_f1_example_net_alone" not in metrics
    assert not SealForMultiLabel.from_pretrained(out, with_loss_net=False).config.linear_skip


def test_a_net_with_a_regression_is_trained_on_and_averages_again(tmp_path, short, capsys):
    """The mean of a net that has one, and of another, has the halves of both in one linear term."""
    flags, out = [*of_features(tmp_path), *short], tmp_path / "out"
    mlc.main([*flags, "--output_dir", str(out)])
    net = SealForMultiLabel.from_pretrained(out, with_loss_net=False).task_net.eval()
    x, weight, bias = torch.randn(5, 6), torch.randn(3, 6, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    with torch.no_grad():
        expected = (net(x).logits + x.double() @ weight.T + bias) / 2
        net.average_with(weight, bias)
        torch.testing.assert_close(net(x).logits.double(), expected, atol=1e-5, rtol=1e-5)
    again = [*flags, "--model_name_or_path", str(out), "--output_dir", str(tmp_path / "again")]
    again = [word for word in again if word not in ("--hidden_size", "8")]
    capsys.readouterr()
    metrics = mlc.main(again)
    assert 0 < metrics["test_f1_example_decided"] <= 1
    said = capsys.readouterr().out  # it still holds the earlier one
    assert "example F1 of the net without this logistic regression" in said and "net alone" not in said
    with pytest.raises(ValueError, match="Use a fresh net .no --model_name_or_path."):
        alone = ["--linear", "true", "--output_dir", str(tmp_path / "alone")]
        mlc.main([word for word in again[:-2] if word not in ("--loss", "ce", *short)] + alone)


# --- alone -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_alone_it_is_saved_as_a_plain_model(kind, tmp_path):
    """The saved classifier gives, without this package, the probabilities of scikit-learn's regression on what its last
    layer reads."""
    flags, out = texts(tmp_path, kind), tmp_path / "out"
    mlc.main([*flags, *QUIET, "--linear", "true", "--output_dir", str(out)])
    assert "logistic regression" in (out / "README.md").read_text(encoding="utf-8")
    net = AutoModelForSequenceClassification.from_pretrained(out).eval()
    head = net.classifier.out_proj if kind == "roberta" else net.classifier
    seen = []
    head.register_forward_hook(lambda module, given, made: seen.append(given[0]))
    with torch.no_grad():
        inputs = tiny_tokenizer()(tiny_texts(40, 0)["text"][:], padding=True, return_tensors="pt")
        logits = net(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
    labels = gold(0, 40)
    expected = cross_validated(seen[0], labels)
    np.testing.assert_allclose(torch.sigmoid(logits).numpy(), expected.probabilities(seen[0]), atol=2e-2)
    z = standardised(seen[0].double())
    theirs = LogisticRegression(C=expected.c, class_weight="balanced" if expected.balanced else None, tol=1e-8)
    for label in range(len(LABELS)):
        p = theirs.fit(z, labels[:, label].numpy()).predict_proba(z)[:, 1]
        np.testing.assert_allclose(torch.sigmoid(logits[:, label]).numpy(), p, atol=2e-2)


def test_a_dead_unit_of_the_encoder_gets_no_weight(tmp_path):
    """MiniLM has some, of 1e-31 and 1e-9; half precision holds weights up to 65504."""
    flags, out = texts(tmp_path), tmp_path / "out"
    net = AutoModel.from_pretrained(tmp_path / "net")
    norm = net.encoder.layer[-1].output.LayerNorm
    with torch.no_grad():
        norm.weight[:2], norm.bias[:2] = torch.tensor([1e-31, 1e-9]), 0.0
    net.save_pretrained(tmp_path / "net")
    mlc.main([*flags, *QUIET, "--linear", "true", "--pooling", "mean", "--output_dir", str(out)])
    weight = SealForMultiLabel.from_pretrained(out, with_loss_net=False).task_net.classifier.weight
    assert weight[:, :2].abs().max() == 0
    assert 0 < weight[:, 2:].abs().amax(0).min() < 1000


def test_alone_on_features_and_images(tmp_path):
    out = tmp_path / "features"
    mlc.main([*QUIET, "--linear", "true", "--max_train_rows", "80", "--output_dir", str(out)])
    model = SealForMultiLabel.from_pretrained(out, with_loss_net=False)
    data = mlc.PROGRAM.load(mlc.PROGRAM.parse(["--max_train_rows", "80", "--output_dir", str(out)]))
    x, labels = (torch.tensor(np.array(data.train[name][:]), dtype=torch.float32) for name in ("features", "labels"))
    p, _ = model.predict(features=x)
    np.testing.assert_allclose(p.numpy(), cross_validated(x, labels).probabilities(x), atol=1e-3)
    assert model.config.num_layers == 0 and model.config.hidden_size == x.shape[1]

    pytest.importorskip("PIL")
    encoder, folder = saved_encoder(tmp_path / "encoder", "vit"), write_folder(tmp_path / "data")
    metrics = mlc.main(
        [*QUIET, "--linear", "true", "--dataset", str(folder), "--model_name_or_path", str(encoder)]
        + ["--output_dir", str(tmp_path / "images")]
    )
    assert metrics["eval_f1_example_decided"] > 0.5


@pytest.mark.parametrize("kind", ["vit", "convnext"])
def test_a_run_on_images_has_a_row_with_a_pretrained_net_alone(kind, tmp_path, capsys, monkeypatch):
    pytest.importorskip("PIL")
    monkeypatch.setattr(training, "SHARES", dict.fromkeys(training.SHARES, 1e9))
    data, quick = ["--dataset", str(write_folder(tmp_path / "data"))], [*QUIET, "--max_steps", "2", "--output_dir"]
    encoder = ["--model_name_or_path", str(saved_encoder(tmp_path / "encoder", kind))]
    metrics = mlc.main([*data, *encoder, *quick, str(tmp_path / "out")])
    assert metrics["eval_f1_example_linear_encoder"] > 0.6
    assert "linear" not in "".join(mlc.main([*data, *quick, str(tmp_path / "cnn")]))
    said = "No logistic regression is fitted beside: the net of images is not pretrained."
    assert said in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--learning_rate", "1e-3"], "`learning_rate` is given, but --linear true trains no net"),
        (["--loss", "nce"], "--loss is 'nce', but --linear true has no loss-net"),
        (["--tune", "3"], "`tune` is given"),
        (["--resume_from_checkpoint", "last"], "`resume_from_checkpoint` is given"),
        (["--hidden_size", "8"], "`hidden_size` is given"),
        (["--dataset", "digit_images"], "reads the features of a pretrained model"),
    ],
)
def test_flags_of_a_training_are_refused(flags, said, tmp_path):
    with pytest.raises(ValueError, match=said) as error:
        mlc.PROGRAM.parse([*QUIET, "--linear", "true", *flags, "--output_dir", str(tmp_path / "out")])
    assert "\n" not in str(error.value)


def test_the_method_of_a_comparison_is_the_row_of_a_run(program, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "SHARES", dict.fromkeys(training.SHARES, 1e9))
    small = "--max_train_rows 60 --hidden_size 8 --num_train_epochs 1 --per_device_train_batch_size 30".split()
    runs = program.main([*small, "--losses", "linear", "--output_dir", str(tmp_path / "compared")])
    (run,) = runs.all()["linear"]
    flags = [*small, *QUIET, "--decoder", "threshold", "--output_dir", str(tmp_path / "out")]
    assert run["test_f1_example_tuned"] == pytest.approx(mlc.main(flags)["test_f1_example_linear_features"], abs=1e-6)
    assert "`linear` a logistic regression" in (tmp_path / "compared" / "table.md").read_text(encoding="utf-8")
