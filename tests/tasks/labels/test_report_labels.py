"""The page's sections on label sets. Oracles: loops over rows and pairs, the saved nets, the JSON files of a run."""

import json
import math

import numpy as np
import pytest
import test_reports
import torch
from markupsafe import escape
from page_reader import LIMIT, check_requests, in_browser, table_with, tables
from test_report_page import EVIL, SMALL, page_of, read, run
from transformers import Trainer, TrainingArguments

from seal_hf import SealForMultiLabel
from seal_hf.data.common import MultiLabelData, Origins, make_dataset
from seal_hf.decisions import LabelDecisions, platt_scaling, rescaled
from seal_hf.metrics import label_report, multilabel_metrics
from seal_hf.reports.run_page import write_page
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.labels.metrics import DEFAULT_GRID, pair_counts, reliability, threshold_curve
from seal_hf.tasks.labels.page import Judged, confidence, label_facts
from seal_hf.tasks.labels.program import ENERGY_PROGRAM as energy
from seal_hf.training import evaluation
from seal_hf.training.energy_trainer import load_energy_network

pytest.importorskip("matplotlib")


def rows(num_rows, num_labels, unknown=0.0, seed=0):
    """Probabilities, labels and decisions, (N, L) each; a share of the labels is unknown."""
    rng = np.random.default_rng(seed)
    p = rng.random((num_rows, num_labels)) ** 2
    labels = (rng.random(p.shape) < p).astype(np.float32)
    labels[rng.random(p.shape) < unknown] = -1
    return p, labels, p >= 0.4


# --- figures ----------------------------------------------------------------------------------------------------------


def test_the_curve_is_example_f1_at_each_threshold():
    p, labels, _ = rows(40, 6, unknown=0.1)
    expected = [multilabel_metrics(p, labels, threshold)["f1_example"] for threshold in DEFAULT_GRID]
    np.testing.assert_allclose(threshold_curve(p, labels), expected, atol=1e-12)


@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_reliability_against_a_loop(unknown):
    p, labels, _ = rows(50, 7, unknown)
    p[0, :2], labels[0, :2] = (0.0, 1.0), (0, 1)
    bins = [[] for _ in range(10)]
    for value, label in zip(p.ravel(), labels.ravel(), strict=True):
        if label >= 0:
            bins[min(int(value * 10), 9)].append((value, label))
    found = reliability(p, labels)
    np.testing.assert_array_equal(found.entries, [len(entries) for entries in bins])
    means = [np.mean(entries, axis=0) for entries in bins]
    np.testing.assert_allclose(np.stack([found.predicted, found.observed], axis=1), means, atol=1e-12)
    gap = sum(len(entries) * abs(a - b) for entries, (a, b) in zip(bins, means, strict=True))
    assert found.error == pytest.approx(gap / (labels >= 0).sum(), abs=1e-12)
    empty = reliability(np.array([[0.05, 0.95]]), np.array([[0, 1]]))
    assert empty.entries.sum() == 2 and np.isnan(empty.predicted[5]) and empty.error == pytest.approx(0.05)


def test_pairs_against_a_loop():
    p, labels, decided = rows(60, 8, unknown=0.1)
    labels[:, 3] = 0
    decided[:, 3] = False  # it occurs in no pair
    found = pair_counts(decided, labels)
    expected = {}
    for i in range(8):
        for j in range(i + 1, 8):
            gold = sum(labels[n, i] == 1 and labels[n, j] == 1 for n in range(60))
            both = sum(decided[n, i] and decided[n, j] and min(labels[n, [i, j]]) >= 0 for n in range(60))
            if gold or both:
                expected[i, j] = (gold, both)
    counts = zip(found.gold.tolist(), found.decided.tolist(), strict=True)
    assert dict(zip(zip(found.first.tolist(), found.second.tolist(), strict=True), counts, strict=True)) == expected
    few = pair_counts(decided, labels, most_labels=3)
    frequency = (decided & (labels >= 0)).sum(0) + (labels == 1).sum(0)
    assert set(few.labels) == set(np.argsort(-frequency, kind="stable")[:3])
    assert all((i, j) in expected for i, j in zip(few.first, few.second, strict=True)) and len(few.first) <= 3


def test_confidence_against_the_probability_of_each_set():
    p, labels, decided = rows(30, 5, unknown=0.2)
    judged = Judged("test", p, labels, decided)

    def log_p(row, chosen):
        known = labels[row] >= 0
        return np.where(chosen, np.log(p[row]), np.log1p(-p[row]))[known].sum()

    wrong = [n for n in range(30) if any(labels[n, j] >= 0 and decided[n, j] != labels[n, j] for j in range(5))]
    assert judged.wrong.tolist() == wrong
    expected = [log_p(row, decided[row]) - log_p(row, labels[row] > 0) for row in wrong]
    np.testing.assert_allclose(confidence(judged, judged.wrong), expected, atol=1e-9)
    sure = Judged("test", np.array([[0.0, 1.0]]), np.array([[1, 0]]), np.array([[False, True]]))
    assert confidence(sure, sure.wrong)[0] == pytest.approx(2 * math.log(1e12), rel=1e-6)


# --- a run ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a finished run. Tests do not change it."""
    return run(tmp_path_factory.mktemp("labels") / "digits_nce", "--seed", "2")


def predictions(folder):
    lines = (folder / "_predictions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_the_page_shows_the_labels_of_the_report_and_the_facts(finished):
    page, facts = page_of(finished), read(finished, "_report.json")["facts"]["labels"]
    by_label = read(finished, "label_report.json")
    shown = {row["label"]: row for row in table_with(page, "label", "F1")}
    assert list(shown) == sorted(by_label, key=lambda name: -by_label[name]["support"])
    for name, figures in by_label.items():
        row = {"precision": shown[name]["precision"], "recall": shown[name]["recall"], "f1": shown[name]["F1"]}
        assert row | {"support": shown[name]["rows"]} == pytest.approx(figures, abs=1e-9)

    results, thresholds = read(finished, "all_results.json"), table_with(page, "threshold", "example F1")
    curve = {row["threshold"]: row["example F1"] for row in thresholds}
    assert len(curve) == 99 and curve[results["threshold"]] == pytest.approx(results["eval_f1_example_tuned"])
    assert curve[0.5] == pytest.approx(results["eval_f1_example"])
    assert f"{results['eval_f1_example_decided']:.4f}" in page and facts["decoder"] in page
    bins = table_with(page, "bin")
    assert sum(row["entries"] for row in bins) == 2 * 1000 * 18
    assert f"{facts['reliability']['before']['error']:.4f} as predicted" in page
    assert f"{facts['reliability']['after']['error']:.4f} calibrated" in page


def test_errors_and_pairs_are_those_of_the_predictions(finished):
    page, lines = page_of(finished), predictions(finished)
    errors = table_with(page, "gold", "decided", "confidence")
    assert len(errors) == 20 and [row["confidence"] for row in errors] == sorted(
        (row["confidence"] for row in errors), reverse=True
    )
    names = lambda text: set(text.split(", ")) - {"none"}  # noqa: E731
    for row in errors:
        line = next(line for line in lines if line["row"] == row["row"])
        assert names(row["gold"]) == set(line["gold"]) != names(row["decided"]) == set(line["labels"])
    wrong = sum(set(line["gold"]) != set(line["labels"]) for line in lines)
    assert f"{wrong:,} rows of test have a wrong label. These are the 20" in page
    first = read(finished, "_report.json")["facts"]["labels"]["errors"]["rows"][0]
    for label in set(first["gold"]) ^ set(first["decided"]):
        assert f'<b class="bad">{label}</b>' in page

    for row in table_with(page, "and", "difference"):
        for column, key in (("gold", "gold"), ("decided", "labels")):
            assert row[column] == sum({row["label"], row["and"]} <= set(line[key]) for line in lines)
        assert row["difference"] == row["decided"] - row["gold"]


def test_the_energies_are_those_of_the_saved_nets(finished):
    errors = read(finished, "_report.json")["facts"]["labels"]["errors"]["rows"]
    arguments = mlc.PROGRAM.parse([*SMALL, "--output_dir", "unused"])
    data, saved = mlc.PROGRAM.load(arguments), SealForMultiLabel.from_pretrained(finished)
    features = torch.tensor([data.test[error["from"]["row"]]["features"] for error in errors])
    for which in ("gold", "decided"):
        y = torch.tensor([[float(name in error[which]) for name in data.label_names] for error in errors])
        with torch.no_grad():
            expected = saved.energy(y, features=features).tolist()
        assert [error[f"energy_{which}"] for error in errors] == pytest.approx(expected, abs=1e-5)
    shown = table_with(page_of(finished), "E(gold)", "E(decided)")
    assert [row["E(gold)"] for row in shown] == pytest.approx([error["energy_gold"] for error in errors], rel=1e-8)
    lower = sum(error["energy_gold"] < error["energy_decided"] for error in errors)
    assert f"the energy prefers gold in {lower}, and the decision in {20 - lower}." in page_of(finished)


def test_an_energy_network_alone_has_its_own_energies_and_no_task_loss(tmp_path):
    words = [*SMALL, "--num_train_epochs", "1", "--inference_steps", "2", "--output_dir", str(tmp_path)]
    energy.main(words)
    errors = read(tmp_path, "_report.json")["facts"]["labels"]["errors"]["rows"]
    data, network = energy.load(energy.parse(words)), load_energy_network(tmp_path)
    features = torch.tensor([data.test[error["from"]["row"]]["features"] for error in errors])
    y = [[[float(name in e[which]) for name in data.label_names] for which in ("gold", "decided")] for e in errors]
    with torch.no_grad():
        expected = network(torch.tensor(y), None, {"features": features}).tolist()
    assert [[e["energy_gold"], e["energy_decided"]] for e in errors] == [
        pytest.approx(two, abs=1e-5) for two in expected
    ]
    page = page_of(tmp_path)
    assert "digits: energy network" in page and "The task loss" not in page
    log = [entry for entry in read(tmp_path, "_report.json")["log"] if "loss" in entry]
    assert [row["the energy network's"] for row in table_with(page, "step", "the energy network's")] == pytest.approx(
        [entry["loss"] for entry in log]
    )


def test_a_baseline_has_no_energies_and_an_evaluation_by_batch_only_the_curve(tmp_path, monkeypatch):
    run(tmp_path / "whole", "--loss", "ce", "--num_train_epochs", "1", "--decoder", "threshold")
    monkeypatch.setattr(evaluation, "LARGEST_WHOLE", 1000)
    run(tmp_path / "parts", "--loss", "ce", "--num_train_epochs", "1", "--decoder", "threshold")
    whole, parts = (read(tmp_path / name, "_report.json")["facts"]["labels"] for name in ("whole", "parts"))
    assert "energy_gold" not in whole["errors"]["rows"][0] and "E(gold)" not in page_of(tmp_path / "whole")
    assert parts.keys() == {"decoder", "missed", "thresholds"}
    assert parts["thresholds"]["f1"] == pytest.approx(whole["thresholds"]["f1"], abs=1e-9)
    page = page_of(tmp_path / "parts")
    assert "were too many to keep: nothing is shown of labels, pairs and errors." in page
    assert f"The model saves the threshold {parts['thresholds']['tuned']:g}." in page


# --- rows that were never trained on ----------------------------------------------------------------------------------


@pytest.fixture
def trainer(tmp_path):
    args = TrainingArguments(str(tmp_path / "trainer"), use_cpu=True, report_to=[])
    return Trainer(test_reports.LogitsAreInputs(test_reports.LogitsConfig()), args)


def data_of(labels, names, texts=None):
    inputs = np.zeros((len(labels), 1)) if texts is None else texts
    split = make_dataset(inputs, np.asarray(labels, np.float32))
    origins = {name: Origins("rows.csv", lines=np.arange(2, len(labels) + 2)) for name in ("validation", "test")}
    kind = "features" if texts is None else "text"
    return MultiLabelData("given", kind, split, split, split, list(names), origins=origins)


def write(folder, facts, by_label=None):
    """The page of a folder that holds these facts."""
    report = {"ended": "complete", "step": 1, "steps": 1, "log": [], "dataset": EVIL, "loss": "ce", "command": EVIL}
    report |= {"settings": {EVIL: EVIL}, "facts": {"labels": facts}}
    (folder / "_report.json").write_text(json.dumps(report), encoding="utf-8")
    if by_label is not None:
        (folder / "label_report.json").write_text(json.dumps(by_label), encoding="utf-8")
    return write_page(folder).read_text(encoding="utf-8")


def test_labels_and_texts_are_shown_as_text(trainer, tmp_path):
    p, labels, decided = rows(30, 4)
    names = [EVIL, "<b>bold</b>", "</table>", "d"]
    data = data_of(labels, names, [f"{EVIL} {'long ' * 100}"] * 30)
    decisions = LabelDecisions.fit(p, labels)
    facts = label_facts(trainer, {}, data, decisions, threshold_curve(p, labels), Judged("test", p, labels, decided))
    page = write(tmp_path, facts, label_report(decided, labels, names))
    assert page.count("<script>") == 1 and "<b>bold</b>" not in page and page.count("</table>") == page.count("<table")
    check_requests(page)
    errors = table_with(page, "line", "text", "gold")
    assert all(row["text"] == f"{EVIL} {'long ' * 100}"[:300] + "…" for row in errors)
    assert {name for row in errors for name in row["gold"].split(", ")} <= {*names, "none"}
    assert f"<title>{escape(EVIL)}: ce</title>" in page and "those of rows.csv." in page
    in_browser(page, "", tmp_path)


def test_validation_is_judged_where_test_has_no_labels(trainer, tmp_path):
    p, labels, decided = rows(40, 5, unknown=0.1)
    data, decisions = data_of(labels, "abcde"), LabelDecisions.fit(p, labels)
    facts = label_facts(trainer, {}, data, decisions, threshold_curve(p, labels), Judged("eval", p, labels, decided))
    page = write(tmp_path, facts)  # without label_report.json
    assert "rows of validation have a wrong label" in page
    expected = label_report(decided, labels, "abcde")
    found = {row["label"]: row["F1"] for row in table_with(page, "label", "F1")}
    assert found == pytest.approx({name: figures["f1"] for name, figures in expected.items()})
    after = reliability(rescaled(p, *platt_scaling(p, labels)), labels)
    assert facts["reliability"]["after"]["error"] == pytest.approx(after.error)
    assert facts["reliability"]["after"]["entries"] == after.entries.tolist()


def test_rows_without_an_error_have_no_table(trainer, tmp_path):
    labels = np.array([[1, 0], [0, 1]])
    p, data = np.where(labels, 0.9, 0.1), data_of(labels, "ab")
    facts = label_facts(
        trainer,
        {},
        data,
        LabelDecisions.fit(p, labels),
        threshold_curve(p, labels),
        Judged("test", p, labels, labels > 0),
    )
    page = write(tmp_path, facts, label_report(labels > 0, labels, "ab"))
    assert "No row of test has a wrong label." in page
    assert not any(rows and "and" in rows[0] for rows in tables(page))  # no two labels occur together
    (tmp_path / "label_report.json").unlink()
    assert not any(rows and "F1" in rows[0] for rows in tables(write(tmp_path, facts)))


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("num_rows, num_labels", [(120, 10_000), (100_000, 12)])
def test_a_page_of_many_labels_or_rows_is_small_and_opens(num_rows, num_labels, trainer, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random((num_rows, num_labels)) ** (40 if num_labels > 100 else 3)
    labels = (rng.random(p.shape) < p).astype(np.float32)
    decided, names = p >= 0.4, [f"a label with a rather long name, {number}" for number in range(num_labels)]
    data = data_of(labels, names)
    decisions = LabelDecisions(threshold=0.4, calibration=(1.1, 0.1))
    facts = label_facts(trainer, {}, data, decisions, threshold_curve(p, labels), Judged("test", p, labels, decided))
    by_label = label_report(decided, labels, names)
    page = write(tmp_path, facts, by_label)
    assert len(page.encode()) < LIMIT
    shown, most = table_with(page, "label", "F1"), sorted(by_label, key=lambda name: -by_label[name]["support"])
    assert [row["label"] for row in shown] == most[:1000]
    if num_labels > 1000:
        assert "The first 1,000 of 10,000 are shown." in page and "the 500 most frequent of 10,000 labels" in page
    assert f"<td>{shown[0]['label']}</td>" in page
    script = "document.title = document.querySelectorAll('section').length"
    assert in_browser(page, script, tmp_path) == "4"


def test_the_command_to_predict_names_a_file_like_that_of_training(tmp_path, capsys):
    rows = [f"{i / 7:.3f},{i % 3},{i % 2},{(i + 1) % 2}" for i in range(30)]
    (tmp_path / "sound.csv").write_text("\n".join(["pitch,tempo,calm,loud", *rows]) + "\n")
    out = tmp_path / "out"
    flags = ["--dataset", str(tmp_path / "sound.csv"), "--output_dir", str(out), "--loss", "ce", "--max_steps", "1"]
    mlc.main([*flags, "--report_to", "none", "--disable_tqdm", "true", "--use_cpu", "true", "--report", "false"])
    assert "--input new.csv" in capsys.readouterr().out
    assert "--input new.csv" in (out / "README.md").read_text(encoding="utf-8")
