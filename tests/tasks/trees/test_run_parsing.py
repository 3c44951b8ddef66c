"""seal-hf train, predict, evaluate and compare of trees, on the embedded grammar. Oracles: the metrics of the files
they write, the same trees by another command."""

import json
import re

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from tiny_models import tiny_config, tiny_tokenizer
from transformers import AutoModel

from seal_hf import (
    DataError,
    SealForTokenClassification,
    SealTrainer,
    SealTrainingArguments,
    Vocabulary,
    encode_words,
    load_trees,
    tags_to_tree,
)
from seal_hf.cli import predict
from seal_hf.cli.predict import evaluate
from seal_hf.data import embedded
from seal_hf.data.brackets import read_brackets
from seal_hf.decisions import TagDecisions
from seal_hf.metrics import tree_metrics
from seal_hf.tasks.tags.program import TREE_PROGRAM as parsing
from seal_hf.tasks.tags.report import gold_tags, predict_tags

SMALL = "--num_train_epochs 2 --use_cpu true --disable_tqdm true --report_to none --global_size 8".split()


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """Of the embedded grammar."""
    monkeypatch.setattr(embedded, "TREE_SIZES", {"train": 48, "validation": 16, "test": 20})


def run(folder, *flags):
    """On a small BiLSTM, unless another model is named."""
    size = [] if "--model_name_or_path" in flags else ["--hidden_size", "16", "--learning_rate", "1e-2"]
    return parsing.main(["--output_dir", str(folder), *SMALL, *size, *flags])


def trees(texts):
    """Tags and parts of speech of trees in brackets."""
    found = [next(read_brackets(text.encode(), "x")) for text in texts]
    return [tree.tags for tree in found], [tree.pos for tree in found]


CRF = "--loss ce --task_loss crf --crf_learning_rate 1e-2 --word_features pos".split()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a BiLSTM with a CRF over the levels, which reads parts of speech, and its figures."""
    folder, sizes = tmp_path_factory.mktemp("trained"), dict(embedded.TREE_SIZES)
    embedded.TREE_SIZES.update(train=48, validation=16, test=20)
    figures = run(folder, *CRF)
    embedded.TREE_SIZES.update(sizes)
    return folder, figures


def test_a_crf_over_the_levels_writes_what_it_measured(trained):
    folder, metrics = trained
    for split, size in (("eval", 16), ("test", 20)):
        lines = (folder / f"_predictions_{split}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        assert len(rows) == size and set(rows[0]) == {"source", "row", "words", "predicted", "gold"}
        (gold, pos), (ours, _) = (trees(row[side] for row in rows) for side in ("gold", "predicted"))
        figures = tree_metrics(ours, gold, pos)
        saved = json.loads((folder / f"{split}_results.json").read_text())
        for key in ("precision", "recall", "f1", "exact_match"):  # a tree may have several sequences of tags
            assert saved[f"{split}_{key}"] == metrics[f"{split}_{key}"] == pytest.approx(figures[key])
        both = [metrics[f"{split}_f1_{decoder}"] for decoder in ("viterbi", "independent")]
        assert metrics[f"{split}_f1"] in both
    seal = SealForTokenClassification.from_pretrained(folder, with_loss_net=False)
    levels = len({re.match(r"[+-]\d+|", name)[0] for name in seal.config.id2label.values()})
    assert seal.task_net.crf.transitions.shape == (levels, levels) and levels < seal.config.num_labels
    assert seal.task_net.crf.transitions.abs().max() > 0
    card = ModelCard.load(folder / "README.md")
    assert "constituency-parsing" in card.data.tags and "F1 of labelled brackets" in card.text
    assert "tags_to_tree(words, tags[0])" in card.text and "A constituency parser trained with" in card.text
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Trees, gold and decided" in page and "F1 of labelled brackets" in page


def test_predict_writes_brackets_that_evaluate_measures(trained, tmp_path, capsys):
    folder, metrics = trained
    data, test = load_trees(), tmp_path / "test.mrg"
    gold = [tags_to_tree(row["words"], [data.label_names[tag] for tag in row["tags"]], row["pos"]) for row in data.test]
    test.write_text("".join(f"( {tree} )\n" for tree in gold), encoding="utf-8")
    common = ["--model", str(folder), "--input", str(test), "--device", "cpu"]
    evaluate([*common, "--output", str(tmp_path / "figures.json")])
    assert "F1 of labelled brackets" in capsys.readouterr().out
    found = json.loads((tmp_path / "figures.json").read_text())
    assert found["figures"] == pytest.approx(
        {key: metrics[f"test_{key}"] for key in ("accuracy", "precision", "recall", "f1", "exact_match")}
    )
    assert set(found["decoders"]) == {"viterbi", "independent"}

    predict.main([*common, "--output", str(tmp_path / "trees.mrg")])
    lines = (tmp_path / "trees.mrg").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in (folder / "_predictions_test.jsonl").read_text().splitlines()]
    assert lines == [row["predicted"] for row in rows]

    predict.main([*common, "--output", str(tmp_path / "trees.jsonl"), "--probabilities", "top"])
    rows = [json.loads(line) for line in (tmp_path / "trees.jsonl").read_text().splitlines()]
    assert [row["tree"] for row in rows] == lines and rows[3]["line"] == 4
    assert [tags_to_tree(row["words"], row["tags"], row["pos"]) for row in rows] == lines
    predict.main(["--model", str(folder), "--input", str(tmp_path / "trees.jsonl"), "--device", "cpu"])
    said = [json.loads(line) if line.startswith("{") else line for line in capsys.readouterr().out.splitlines()]
    assert said == lines

    (tmp_path / "split").mkdir()
    for split, trees in (("train", gold[:2]), ("test", gold)):
        (tmp_path / "split" / f"{split}.mrg").write_text("".join(f"( {tree} )\n" for tree in trees), encoding="utf-8")
    capsys.readouterr()
    whole = tmp_path / "whole.json"
    evaluate(["--model", str(folder), "--input", str(tmp_path / "split"), "--device", "cpu", "--output", str(whole)])
    assert "of its 2 files, those of the test are read" in capsys.readouterr().err
    assert json.loads(whole.read_text())["figures"] == found["figures"]

    (tmp_path / "bad.mrg").write_text(f"{gold[0]}\n(S (NN a)\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"bad\.mrg, line 2: the tree that begins here is not closed"):
        evaluate(["--model", str(folder), "--input", str(tmp_path / "bad.mrg")])
    (tmp_path / "new.txt").write_text("the cat slept\n", encoding="utf-8")
    with pytest.raises(DataError, match="the model reads the column `pos`"):
        predict.main(["--model", str(folder), "--input", str(tmp_path / "new.txt")])
    with pytest.raises(ValueError, match="`probabilities` is 'top', but brackets"):
        predict.main([*common, "--output", str(tmp_path / "x.mrg"), "--probabilities", "top"])


def test_infnet_plus_with_tag_language_models_on_an_encoder(tmp_path, capsys):
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path / "net")
    tiny_tokenizer().save_pretrained(tmp_path / "net")
    flags = "--loss infnet_plus --energy chain_ge_b --margin_cost l1 --energy_weight 0.1".split()
    metrics = run(tmp_path / "out", "--model_name_or_path", str(tmp_path / "net"), *flags)
    assert 0 <= metrics["test_f1"] <= 1
    both = SealForTokenClassification.from_pretrained(tmp_path / "out")
    assert both.loss_net.config.energy == "chain_ge_b"
    (tmp_path / "new.txt").write_text("(The cat slept.)\nYes\n", encoding="utf-8")  # raw text, not brackets
    capsys.readouterr()
    predict.main(["--model", str(tmp_path / "out"), "--input", str(tmp_path / "new.txt"), "--device", "cpu"])
    first, second = (list(read_brackets(line.encode(), "x")) for line in capsys.readouterr().out.splitlines())
    assert first[0].words == ["(", "The", "cat", "slept", ".", ")"] and set(first[0].pos) == {"XX"}
    assert second[0].words == ["Yes"]


def test_a_comparison_of_parsers_has_the_figures_of_its_rows(program, tmp_path):
    words = "--hidden_size 8 --global_size 4 --num_train_epochs 1 --use_cpu true --energy_weight 0.1".split()
    names = ["constant", "ce", "crf", "nce", "infnet_plus_chain_ge_b"]
    runs = program.main(["parsing", *words, "--losses", *names, "--output_dir", str(tmp_path)])
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    for name in names:
        (found,) = runs.all()[name]
        assert 0 <= found["test_f1"] <= 1 and f"| `{name}` " in text
        assert {"test_exact_match", "test_precision", "test_recall", "test_accuracy", "eval_f1"} <= set(found)
    assert "F1 of brackets" in text and "exact match" in text


def test_tuning_chooses_by_the_f1_of_brackets(tmp_path):
    pytest.importorskip("optuna")
    words = "--hidden_size 8 --num_samples 3 --num_train_epochs 1 --energy_weight 0.1 --tune 2".split()
    metrics = parsing.main(["--output_dir", str(tmp_path), *SMALL, *words])
    found = json.loads((tmp_path / "tuning.json").read_text(encoding="utf-8"))
    assert found["metric"] == "f1"
    values = [trial["value"] for trial in found["trials"]]
    assert metrics["eval_f1"] == pytest.approx(np.nanmax(values))


def test_a_trainer_chooses_the_decoder_by_brackets_of_all_words(tmp_path):
    """Without parts of speech, no word is punctuation."""
    data = load_trees()
    vocabulary = Vocabulary.from_data(data.train)
    seal = SealForTokenClassification.for_data(data, vocabulary=vocabulary, crf=True, hidden_size=8, dropout=0.0)
    torch.nn.init.normal_(seal.task_net.crf.transitions)
    args = SealTrainingArguments(str(tmp_path), energy_loss="ce", task_loss="crf", use_cpu=True, report_to="none")
    trainer = SealTrainer(seal, args, train_dataset=encode_words(data.train, vocabulary))
    rows = encode_words(data.validation, vocabulary)
    found = predict_tags(trainer, rows, trainer.space.decoders)
    gold = gold_tags(data.validation, data.label_names)
    pos = [["NN"] * len(tags) for tags in gold]
    expected = TagDecisions.fit(found, gold, "plain", pos=pos).decoder
    assert trainer.fit_decisions(rows).decoder == expected == seal.config.decisions["decoder"]
