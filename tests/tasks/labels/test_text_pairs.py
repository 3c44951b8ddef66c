"""Pairs of texts through the programs and the API. Oracle: the saved model and tokenizer, called by transformers' own
code."""

import csv
import json

import pytest
import torch
from tiny_models import LABELS, SPECIAL, tiny_config, tiny_texts, tiny_tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, PreTrainedTokenizerFast

from seal_hf import DataError, SealForMultiLabel, load_multilabel, tokenize
from seal_hf.cli.predict import evaluate
from seal_hf.cli.predict import main as predict
from seal_hf.tasks.labels.program import main as train

ROWS = 60


def pair_tokenizer():
    """The tiny one, which marks the second text by token type 1, as BERT's does."""
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, SPECIAL.index(name)) for name in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )


@pytest.fixture(scope="module")
def rows():
    first, second = tiny_texts(ROWS, seed=0), tiny_texts(ROWS, seed=5)
    names = [",".join(name for name, value in zip(LABELS, row, strict=True) if value) for row in first["labels"]]
    return [
        {"premise": a, "hypothesis": b, "labels": c}
        for a, b, c in zip(first["text"], second["text"], names, strict=True)
    ]


@pytest.fixture(scope="module")
def trained(rows, tmp_path_factory):
    """The folder of a run of the program, and the file that it was trained on."""
    folder = tmp_path_factory.mktemp("pairs")
    torch.manual_seed(0)
    AutoModel.from_config(tiny_config("bert")).save_pretrained(folder / "base")
    pair_tokenizer().save_pretrained(folder / "base")
    source = folder / "pairs.csv"
    with open(source, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["premise", "hypothesis", "labels"])
        writer.writeheader()
        writer.writerows(rows)
    flags = "--patience 0 --max_steps 2 --use_cpu true --report_to none --report false --eval_strategy no".split()
    flags += ["--save_strategy", "no", "--load_best_model_at_end", "false", "--loss_net_encoder", "shared"]
    flags += ["--text_column", "premise,hypothesis", "--max_length", "12", "--output_dir", str(folder / "run")]
    train(["--dataset", str(source), "--model_name_or_path", str(folder / "base"), *flags])
    return folder / "run", source


def by_transformers(folder, rows):
    """Probabilities, one row at a time."""
    tokenizer, net = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder)
    found = []
    for row in rows:
        pair = tokenizer(row["premise"], row["hypothesis"], truncation=True, max_length=12, return_tensors="pt")
        assert pair["token_type_ids"].max() == 1
        with torch.no_grad():
            found.append(net.eval()(**pair).logits.sigmoid())
    return torch.cat(found)


def test_predictions_of_pairs_are_those_of_the_plain_model(trained, rows, tmp_path, capsys):
    folder, source = trained
    expected = by_transformers(folder, rows)
    model = SealForMultiLabel.from_pretrained(folder, with_loss_net=False)
    assert model.config.inputs == {"max_length": 12, "pairs": True, "text_column": "premise,hypothesis"}
    probabilities, _ = model.predict([(row["premise"], row["hypothesis"]) for row in rows])
    torch.testing.assert_close(probabilities, expected, atol=1e-5, rtol=0)
    predict(["--model", str(folder), "--input", str(source), "--output", str(tmp_path / "p.jsonl")]
            + ["--probabilities", "all", "--energy"])  # fmt: skip
    written = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["hypothesis"] for row in written] == [row["hypothesis"] for row in rows]
    found = torch.tensor([[row["probabilities"][name] for name in model.config.id2label.values()] for row in written])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert all("energy" in row for row in written)
    evaluate(["--model", str(folder), "--input", str(source)])
    assert "60" in capsys.readouterr().out


def test_the_code_of_the_card_reads_a_pair(trained, monkeypatch):
    folder, _ = trained
    monkeypatch.chdir(folder.parent)
    code = (folder / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    assert "the other one" in code
    found = {}
    exec(code, found)
    assert set(found["labels"]) <= set(LABELS)


def test_what_is_no_pair_is_named(trained, tmp_path):
    folder, source = trained
    model = SealForMultiLabel.from_pretrained(folder, with_loss_net=False)
    with pytest.raises(ValueError, match=r"'[^']*' at place 1; expected a list of pairs of strings"):
        model.predict([("good", "bad"), "film"])
    with pytest.raises(ValueError, match=r"`text_column` is 'premise', but the model reads pairs of texts"):
        predict(["--model", str(folder), "--input", str(source), "--text_column", "premise"])
    with pytest.raises(DataError, match=r"no column 'hypotheses'; .* Did you mean `?'?hypothesis"):
        load_multilabel(str(source), text_column="premise,hypotheses")
    with pytest.raises(DataError, match="`text_column` names 3 columns"):
        load_multilabel(str(source), text_column="premise,hypothesis,labels")
    data = load_multilabel(str(source), text_column="premise, hypothesis")
    assert data.train.column_names == ["text", "text_pair", "labels"]
    assert any("pairs of texts: 'premise' and 'hypothesis'" in note for note in data.notes)
    with pytest.raises(ValueError, match="`max_length` is 4; with special tokens a row has at least 5"):
        tokenize(data.train, pair_tokenizer(), max_length=4)
    with pytest.raises(ValueError, match="rows have two texts, and a window holds one"):
        tokenize(data.train, pair_tokenizer(), max_length=None)
