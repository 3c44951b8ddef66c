"""Oracles: scikit-learn for the figures, the logits themselves for the decisions, the written files for the table."""

import json

import numpy as np
import pytest
import torch
from markupsafe import Markup
from sklearn.metrics import f1_score
from torch import nn
from torch.utils.data import TensorDataset
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments

from seal_hf.cli.train.closing import write_results
from seal_hf.decisions import LabelDecisions, decode_expected_f1, platt_scaling, rescaled
from seal_hf.lab.demo import markup
from seal_hf.metrics import multilabel_metrics
from seal_hf.reports.page import Page, Section, Table, render
from seal_hf.tasks.labels.evaluation import evaluate_multilabel, score_decoders
from seal_hf.tasks.labels.report import closing_table, write_predictions
from seal_hf.training import evaluation
from seal_hf.utils.messages import printable, results_table


class LogitsConfig(PretrainedConfig):
    model_type = "logits-are-inputs"


class LogitsAreInputs(PreTrainedModel):
    config_class = LogitsConfig

    def __init__(self, config):
        super().__init__(config)
        self.scale = nn.Parameter(torch.ones(1))
        self.post_init()

    def _init_weights(self, module):
        pass

    def forward(self, logits, labels=None):
        logits = logits * self.scale
        outputs = {"logits": logits, "hidden_states": logits}
        if labels is None:
            return outputs
        return {"loss": nn.functional.binary_cross_entropy_with_logits(logits, labels), **outputs}


def collate(rows):
    batch = {"logits": torch.stack([row[0] for row in rows])}
    if len(rows[0]) > 1:
        batch["labels"] = torch.stack([row[1] for row in rows])
    return batch


AVERAGES = ("example", "micro", "macro")


def decoders_of(decisions):
    return LabelDecisions.of_saved(decisions).names


@pytest.fixture
def trainer(tmp_path):
    args = TrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, report_to=[], per_device_eval_batch_size=4, disable_tqdm=True
    )
    return Trainer(LogitsAreInputs(LogitsConfig()), args, data_collator=collate)


def split(num_rows, seed, labels=True):
    generator = torch.Generator().manual_seed(seed)
    gold = (torch.rand(num_rows, 5, generator=generator) < 0.3).float()
    logits = torch.randn(num_rows, 5, generator=generator) + 2 * gold - 2
    return TensorDataset(logits, gold) if labels else TensorDataset(logits)


def test_the_figures_and_the_threshold(trainer, tmp_path):
    validation, test = split(30, 0), split(23, 1)
    found = evaluate_multilabel(trainer, validation, test)
    metrics, (probabilities, labels) = found.metrics, found.test

    figures = [f"{figure}_{average}" for figure in ("f1", "precision", "recall") for average in AVERAGES]
    figures += ["jaccard", "exact_match", "hamming_loss"]
    figures += [f"{figure}_{of}" for figure in figures for of in ("tuned", "decided")]
    kinds = ("f1_example", "f1_micro", "f1_macro", "jaccard", "exact_match")
    figures += [
        "map",
        "map_macro",
        *(f"{kind}_{of}" for kind in kinds for of in ("per_label", "expected", "calibrated")),
    ]
    assert set(metrics) == {f"{s}_{f}" for s in ("eval", "test") for f in figures} | {"threshold"}
    decisions = trainer.model.config.decisions
    assert decisions["threshold"] == metrics["threshold"] and decisions["decoder"] in decoders_of(decisions)

    def example_f1(dataset, threshold):
        decided = (dataset.tensors[0].double().sigmoid() >= threshold).int().numpy()
        return f1_score(dataset.tensors[1].numpy(), decided, average="samples", zero_division=1.0)

    best = max(example_f1(validation, t) for t in np.arange(1, 100) / 100)
    assert metrics["eval_f1_example_tuned"] == pytest.approx(best, abs=1e-9)
    assert metrics["test_f1_example"] == pytest.approx(example_f1(test, 0.5), abs=1e-9)
    assert metrics["test_f1_example_tuned"] == pytest.approx(example_f1(test, metrics["threshold"]), abs=1e-9)
    p = [dataset.tensors[0].double().sigmoid().numpy() for dataset in (validation, test)]
    per_label = np.array(LabelDecisions.fit(p[0], validation.tensors[1].numpy(), decoder="thresholds").thresholds)
    assert not validation.tensors[1].any(1).all()  # some have no label
    calibrated = rescaled(p[1], *platt_scaling(p[0], validation.tensors[1].numpy()))
    decoded = {"expected": decode_expected_f1(p[1]), "calibrated": decode_expected_f1(calibrated)}
    for key, decided in {"per_label": p[1] >= per_label, **decoded}.items():
        expected = f1_score(test.tensors[1].numpy(), decided.astype(int), average="samples", zero_division=1.0)
        assert metrics[f"test_f1_example_{key}"] == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(probabilities, test.tensors[0].sigmoid().numpy(), atol=1e-6)
    np.testing.assert_array_equal(labels, test.tensors[1].numpy())

    write_results(trainer, metrics)
    written = {name: json.loads((tmp_path / f"{name}_results.json").read_text()) for name in ("eval", "test", "all")}
    assert written["all"] == metrics
    for name in ("eval", "test"):
        assert written[name] == {k: v for k, v in metrics.items() if k.startswith(f"{name}_") or k == "threshold"}

    table = closing_table(metrics)
    for line in ("figure", f"{metrics['test_map']:.4f}", f"{metrics['eval_map']:.4f}", f"{metrics['threshold']:g}"):
        assert line in table
    decisions = LabelDecisions("threshold", threshold=0.3)
    assert "saved with the model: threshold (--decoder selects others)" in closing_table(metrics, decisions)
    assert "the bias of the saved classifier: threshold\n" in closing_table(metrics, decisions, folded=True)


def test_results_of_an_earlier_run_do_not_stay(trainer, tmp_path):
    """Those of its test split, where this one has none; the figures of this run's training do."""
    metrics = evaluate_multilabel(trainer, split(30, 0), split(23, 1)).metrics
    write_results(trainer, metrics)
    (tmp_path / "_predictions.jsonl").write_text("{}")
    (tmp_path / "model.safetensors").write_text("weights")
    trainer.save_metrics("train", {"train_loss": 1.0})
    metrics = evaluate_multilabel(trainer, split(30, 0), None).metrics
    write_results(trainer, metrics)
    assert json.loads((tmp_path / "all_results.json").read_text()) == {"train_loss": 1.0, **metrics}
    kept = {file.name for file in tmp_path.iterdir() if file.is_file()}
    assert kept == {"all_results.json", "eval_results.json", "train_results.json", "model.safetensors"}


def test_a_figure_is_of_the_split_whose_name_it_begins_with(trainer, tmp_path):
    metrics = {"test_f1": 0.1, "test_b_f1": 0.2, "eval_f1": 0.3}
    write_results(trainer, metrics, ["eval", "test_b", "test", "unseen"])
    found = {file.name: json.loads(file.read_text()) for file in tmp_path.glob("*_results.json")}
    each = {f"{key.removesuffix('_f1')}_results.json": {key: value} for key, value in metrics.items()}
    assert found == {"all_results.json": metrics, **each}


def test_a_plain_trainer_keeps_all_probabilities(trainer, monkeypatch):
    whole = evaluate_multilabel(trainer, split(30, 0), split(23, 1)).metrics
    monkeypatch.setattr(evaluation, "LARGEST_WHOLE", 1)
    found = evaluate_multilabel(trainer, split(30, 0), split(23, 1))
    assert found.metrics == whole and found.test[0].shape == (23, 5)


def test_batches_that_were_not_joined_are_refused(trainer):
    trainer.args.eval_do_concat_batches = False
    with pytest.raises(ValueError, match="`eval_do_concat_batches` is False"):
        evaluate_multilabel(trainer, split(30, 0), None)


def test_a_test_split_without_labels_is_predicted_and_not_scored(trainer, tmp_path):
    found = evaluate_multilabel(trainer, split(9, 0), split(7, 1, labels=False))
    metrics, (probabilities, labels) = found.metrics, found.test
    assert labels is None and probabilities.shape == (7, 5)
    assert all(key.startswith("eval_") or key == "threshold" for key in metrics)
    write_results(trainer, metrics)
    assert not (tmp_path / "test_results.json").exists()
    with pytest.raises(ValueError, match="validation split has no labels"):
        evaluate_multilabel(trainer, split(9, 0, labels=False), split(7, 1))
    for empty in ((split(0, 0), split(7, 1)), (split(9, 0), split(0, 1))):
        with pytest.raises(ValueError, match="(validation|test) split is empty"):
            evaluate_multilabel(trainer, *empty)


def test_no_row_is_decided_empty_where_every_validation_row_has_a_label():
    labels, p = np.array([[1, 0], [0, 1]]), np.full((2, 2), 0.1)
    _, per_example = score_decoders(p, labels, p, labels)
    assert per_example["f1_example_expected"].sum() > 0
    with_empty, rows = np.concatenate([labels, [[0, 0]]]), np.full((3, 2), 0.1)
    _, per_example = score_decoders(rows, with_empty, rows, with_empty)
    np.testing.assert_array_equal(per_example["f1_example_expected"], [0, 0, 1])


def test_decisions_on_float32_are_those_of_the_metrics():
    """0.7 in float32 is below 0.7, and thresholds are tuned and applied in float64."""
    validation, test = np.array([[0.705, 0.695]], np.float32), np.array([[0.7, 0.1]], np.float32)
    labels = np.array([[1, 0]])
    metrics, per_example = score_decoders(validation, labels, test, labels)
    assert metrics["threshold"] == 0.7
    assert per_example["f1_example_tuned"] == multilabel_metrics(test, labels, 0.7)["f1_example"] == 0


@pytest.mark.parametrize("empty_score", [0.0, 1.0])
def test_every_decoder_is_scored_and_gives_the_f1_of_each_test_row(empty_score):
    (validation, validation_labels), (test, test_labels) = (
        (logits.double().sigmoid().numpy(), gold.numpy())
        for logits, gold in (split(30, 0).tensors, split(23, 1).tensors)
    )
    metrics, per_example = score_decoders(validation, validation_labels, test, test_labels, empty_score=empty_score)
    decoders = ("", "_tuned", "_per_label", "_expected", "_calibrated")
    assert list(per_example) == [f"f1_example{decoder}" for decoder in decoders]
    for key, values in per_example.items():
        assert values.shape == (23,) and metrics[f"test_{key}"] == pytest.approx(values.mean(), abs=1e-12)
    row = f1_score(test_labels, (test >= 0.5).astype(int), average="samples", zero_division=empty_score)
    assert metrics["test_f1_example"] == pytest.approx(row, abs=1e-12)
    at_half, tuned, per_label = (metrics[f"eval_f1_example{key}"] for key in ("", "_tuned", "_per_label"))
    assert at_half <= tuned <= per_label

    alone, nothing = score_decoders(validation, validation_labels, empty_score=empty_score)
    assert nothing == {} and alone == {k: v for k, v in metrics.items() if not k.startswith("test_")}
    table = closing_table(metrics)
    assert all(name in table for name in ("at 0.5", "at the tuned", "one per label", "highest expected", "calibrated"))


def test_predictions_file(tmp_path):
    probabilities = np.array([[0.91239, 0.45, 0.1], [0.2, 0.3, 0.39]])
    labels = np.array([[1, 0, 0], [0, 0, 1]])
    path = tmp_path / "new" / "_predictions.jsonl"
    names = ['a "quoted" | name', "é", "c"]
    rows = [{"source": "a.csv", "line": 7, "text": "x"}, {"source": "a.csv", "line": 9, "text": "y"}]
    write_predictions(path, probabilities, labels, names, probabilities >= 0.4, rows)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines == [
        {
            **rows[0],
            "labels": [names[0], "é"],
            "labels_at_0.5": [names[0]],
            "gold": [names[0]],
            "probabilities": {names[0]: 0.9124, "é": 0.45},
        },
        {**rows[1], "labels": [], "labels_at_0.5": [], "gold": ["c"], "probabilities": {}},
    ]
    write_predictions(path, probabilities, None, names, probabilities >= 0.95)  # a tuned threshold above 0.5
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    assert first == {"row": 0, "labels": [], "labels_at_0.5": [names[0]], "probabilities": {names[0]: 0.9124}}
    assert [file.name for file in path.parent.iterdir()] == ["_predictions.jsonl"]


@pytest.mark.parametrize(
    ("labels", "names", "decided", "message"),
    [
        (None, ["a"], np.zeros((1, 2)), "expected 2 different label names, found 1"),
        (None, ["a", "a"], np.zeros((1, 2)), "expected 2 different label names, found 1"),
        (np.zeros((1, 3)), ["a", "b"], np.zeros((1, 2)), r"labels are \(1, 3\)"),
        (None, ["a", "b"], np.zeros((2, 2)), r"decided are \(2, 2\)"),
    ],
)
def test_predictions_that_do_not_fit_are_refused(tmp_path, labels, names, decided, message):
    with pytest.raises(ValueError, match=message):
        write_predictions(tmp_path / "p.jsonl", np.array([[0.5, 0.4]]), labels, names, decided)
    assert not list(tmp_path.iterdir())


LEGITIMATE = [  # Hebrew with points, Persian with U+200C, Hindi with U+200D, emoji of parts, a flag, a variant of 葛, é
    "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u0915\u094d\u200d\u0937",
    "\U0001f469\U0001f3fd\u200d\U0001f52c \u2764\ufe0f\u200d\U0001f525 1\ufe0f\u20e3",
    "\U0001f3f4\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f",
    "\u845b\U000e0100",
    "cafe\u0301\tx\ny \u00a0",
]
MISLEADING = "\x00\x07\x1b\r\x7f\x85\x9b\xad\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2060\u2066\u2069\ufeff"


@pytest.mark.parametrize("text", LEGITIMATE)
def test_texts_of_all_scripts_stay(text):
    assert printable(text) == text


@pytest.mark.parametrize("character", [*MISLEADING, *"\u200c\u200d\ud800\U000e0041\U000e0100"])
def test_no_character_steers_a_terminal_a_card_or_a_page(character):
    """It is written as Python writes it, so that it reads back."""
    text = f"pay{character}pal"
    code = ord(character)
    shown = ascii(character)[1:-1] if code != 0x0D else "\\x0d"
    assert printable(text) == f"pay{shown}pal" == printable(printable(text))
    page = render(Page(text, [Section(text, [Table([{text: text}]), text, Markup("<pre>{}</pre>").format(text)])]))
    assert character not in page and page.count(shown) >= 6
    assert character not in markup.note(text) and shown in markup.note(text)
    assert character not in results_table([{text: text}])


def test_two_joiners_in_a_row_hide_nothing():
    assert printable("\u0645\u200c\u200d\u0645") == "\u0645\u200c\\u200d\u0645"


def test_results_table_aligns():
    rows = [{"loss": "ce", "F1": 0.5, "epochs": 3}, {"loss": "ranking", "F1": float("nan"), "note": "short"}]
    assert results_table(rows) == "\n".join(
        [
            "loss         F1  epochs  note",
            "-------  ------  ------  -----",
            "ce       0.5000       3  -",
            "ranking       -       -  short",
        ]
    )
    assert results_table([]) == ""
    assert results_table([{"label\x1b[2J": "a\r\nb\x9b"}]).split() == ["label\\x1b[2J", "-" * 12, "a\\x0d\\nb\\x9b"]
    assert closing_table({}) == ""
