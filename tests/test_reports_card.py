"""Oracles: huggingface_hub reads the metadata back, Python runs the snippet, a table parser counts the cells."""

import re
import sys
from types import SimpleNamespace

import pytest
from huggingface_hub import ModelCard

from seal_hf.reports.model_card import MAX_LABELS, model_card

METRICS = {
    "eval_f1_example": 0.41237,
    "test_f1_example": 0.4,
    "test_f1_example_tuned": 0.4653,
    "test_map": float("nan"),
    "test_loss": 3.0,
    "threshold": 0.31,
}
NASTY = ['a | b "quoted"', "it's: [x](http://y) <b>", "$name `code` *star*", "two\nlines\r\n---", "é 日本 # {0}", ""]


def card(**changes):
    arguments = {
        "model_name": "user/seal-bibtex",
        "base_model": "org/encoder",
        "dataset": "bibtex",
        "loss": "nce",
        "loss_net_encoder": "separate",
        "metrics": METRICS,
        "threshold": 0.31,
        "label_names": ["sports", "politics"],
        "library_snippet": "text",
        "hyperparameters": {"learning_rate": 1e-3, "num_samples": 20, "hub_token": "secret", "seed": None},
    }
    return model_card(**{**arguments, **changes})


def cells(text, beginning):
    """The cells of the one table row that begins so; pipes that are escaped do not end a cell."""
    (row,) = [line for line in text.splitlines() if line.startswith(beginning)]
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def snippet(text):
    return re.search(r"```python\n(.*?)```", text, flags=re.DOTALL).group(1)


def test_metadata_reads_back():
    data = ModelCard(card()).data
    assert data.tags == ["seal", "multi-label-classification"]
    expected = {"base_model": "org/encoder", "pipeline_tag": "text-classification", "library_name": "transformers"}
    assert expected.items() <= data.to_dict().items()
    results = {result.metric_type: result.metric_value for result in data.eval_results}
    assert results == {"f1_example": 0.4, "f1_example_tuned": 0.4653}
    assert data.model_name == "user/seal-bibtex" and data.eval_results[0].dataset_name == "bibtex"


def test_the_card_says_what_was_measured_and_nothing_else():
    text = card()
    assert cells(text, "| example F1 at 0.5") == ["example F1 at 0.5", "0.4124", "0.4000"]
    assert cells(text, "| example F1 at the tuned") == ["example F1 at the tuned threshold", "-", "0.4653"]
    assert "mean average precision" not in text and "micro" not in text and "nan" not in text.lower()
    assert "**0.31**" in text and "nce energy loss" in text and "bibtex" in text
    assert cells(text, "| num") == ["num\\_samples", "20"] and "secret" not in text and "seed" not in text
    assert cells(text, "| 1 |") == ["1", "politics"]


def test_a_card_of_nothing_measured():
    text = card(metrics={}, threshold=None, hyperparameters={}, base_model=None, dataset=None, loss="ce")
    assert "Figures" not in text and "threshold tuned" not in text and "Hyper" not in text and "| None" not in text
    assert "cross-entropy" in text and "loss-net" not in text and "energy" not in text
    assert ">= 0.5" in snippet(text)
    data = ModelCard(text).data
    assert data.eval_results is None and data.base_model is None


@pytest.mark.parametrize("name", NASTY)
def test_names_break_neither_table_nor_metadata(name):
    arguments = {"model_name": name or "m", "dataset": name or "d", "label_names": [name, "last"]}
    text = card(**arguments, hyperparameters={"note": name})
    data = ModelCard(text).data
    assert data.tags == ["seal", "multi-label-classification"]
    assert data.eval_results[0].dataset_name == arguments["dataset"]
    for beginning in ("| 0 |", "| 1 |", "| note |"):
        assert len(cells(text, beginning)) == 2
    unescaped = re.sub(r"\\(.)", r"\1", cells(text, "| 0 |")[1])
    assert unescaped == " ".join(name.split())
    compile(snippet(text), "snippet", "exec")


def test_the_text_snippet_runs(monkeypatch):
    def pipeline(task, model, top_k):
        assert (task, model, top_k) == ("text-classification", 'a "quoted" name', None)
        return lambda texts: [[{"label": "high", "score": 0.4}, {"label": "low", "score": 0.3}] for _ in texts]

    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(pipeline=pipeline))
    names = {}
    exec(snippet(card(model_name='a "quoted" name')), names)  # noqa: S102 - our own snippet
    assert names["labels"] == ["high"]


def test_the_features_snippet_needs_the_package():
    text = card(library_snippet="features", base_model=None)
    assert "import seal_hf" in snippet(text) and 'from_pretrained("user/seal-bibtex")' in snippet(text)
    compile(snippet(text), "snippet", "exec")
    assert ModelCard(text).data.pipeline_tag == "tabular-classification"


@pytest.mark.parametrize(
    "kind, library", [("tokens", "transformers"), ("tokens_peft", "peft"), ("words", "transformers")]
)
def test_a_card_of_tags_speaks_of_tokens(kind, library):
    metrics = {"eval_f1": 0.5, "test_f1": 0.61237, "test_accuracy": 0.9, "test_f1_example": 0.1}
    text = card(library_snippet=kind, metrics=metrics, threshold=None, label_names=["O", "B-X"], crf=True)
    data = ModelCard(text).data
    assert data.tags == ["seal", "token-classification"] and data.pipeline_tag == "token-classification"
    assert data.library_name == library and "A token classifier trained with" in text
    assert {result.metric_type: result.metric_value for result in data.eval_results} == {"f1": 0.6124, "accuracy": 0.9}
    assert cells(text, "| F1 of spans") == ["F1 of spans", "0.5000", "0.6124"] and cells(text, "| CRF")
    assert "multi-label" not in text and "SequenceClassification" not in text and "hreshold" not in text
    compile(snippet(text), "snippet", "exec")
    if kind == "tokens":
        assert "CRF" not in card(library_snippet=kind)


def test_the_snippet_of_tokens_runs(monkeypatch):
    def pipeline(task, model, aggregation_strategy):
        assert (task, model, aggregation_strategy) == ("token-classification", "user/seal-bibtex", "first")
        return lambda text: [{"entity_group": "X", "word": text}]

    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(pipeline=pipeline))
    names = {}
    exec(snippet(card(library_snippet="tokens")), names)  # noqa: S102 - our own snippet
    assert names["spans"][0]["entity_group"] == "X"


def test_local_paths_stay_private(tmp_path):
    folder = tmp_path / "private" / "my-data"
    folder.mkdir(parents=True)
    text = card(dataset=str(folder), base_model=str(folder))
    assert "my-data" in text and "private" not in text
    assert ModelCard(text).data.base_model is None  # not a Hub id
    assert ModelCard(card(dataset="org/data")).data.datasets == ["org/data"]


def test_many_labels_are_cut():
    text = card(label_names=[f"label{i}" for i in range(MAX_LABELS + 7)])
    assert cells(text, f"| {MAX_LABELS - 1} |") and f"| {MAX_LABELS} |" not in text
    assert "and 7 more" in text and cells(text, "| labels") == ["labels", str(MAX_LABELS + 7)]


def test_an_unknown_snippet_is_named():
    with pytest.raises(ValueError, match="library_snippet is 'image', expected one of text, peft"):
        card(library_snippet="image")
