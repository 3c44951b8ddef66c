"""The text of a card. Oracles: huggingface_hub reads the metadata back, a table parser counts the cells; folders, words
and papers by hand."""

import json
import re

import pytest
from huggingface_hub import ModelCard

from seal_hf.reports.card_kinds import KINDS
from seal_hf.reports.model_card import MAX_LABELS, model_card, origin_of

METRICS = {
    "eval_f1_example": 0.41237,
    "test_f1_example": 0.4,
    "eval_f1_example_decided": 0.4711,
    "test_f1_example_decided": 0.4653,
    "test_map": float("nan"),
    "test_loss": 3.0,
    "threshold": 0.31,
}
NUMBERS = {
    "threshold": 0.31,
    "thresholds": [0.25, 0.4],
    "calibration": {"scale": 0.81234, "shift": -0.2},
    "never_empty": True,
    "empty_score": 1.0,
}
NASTY = ['a | b "quoted"', "it's: [x](http://y) <b>", "$name `code` *star*", "two\nlines\r\n---", "é 日本 # {0}", ""]


def card(decoder="threshold", **changes):
    arguments = {
        "model_name": "user/seal-bibtex",
        "base_model": "org/encoder",
        "dataset": "bibtex",
        "loss": "nce",
        "loss_net_encoder": "separate",
        "metrics": METRICS,
        "decisions": {"decoder": decoder, **NUMBERS},
        "label_names": ["sports", "politics"],
        "library_snippet": "text",
        "hyperparameters": {"learning_rate": 1e-3, "num_samples": 20, "hub_token": "secret", "seed": None},
    }
    return model_card(**{**arguments, **changes})


def cells(text, beginning):
    """The cells of the one table row that begins so; pipes that are escaped do not end a cell."""
    (row,) = [line for line in text.splitlines() if line.startswith(beginning)]
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def section(text, title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)[1]


def snippet(text):
    return re.search(r"```python\n(.*?)```", text, flags=re.DOTALL).group(1)


def test_no_name_steers_a_terminal_that_shows_the_card():
    name = "a\x1b[2J\x9b\u202eb\u200bc"
    text = card(label_names=[name, "politics"], dataset=name, model_name=name, unseen_labels=[name])
    assert not set(name) & set(text) - set("a[2Jbc") and text.count("\\u202e") > 2
    assert ModelCard(text).data.tags


def test_metadata_reads_back():
    data = ModelCard(card()).data
    assert data.tags == ["seal", "multi-label-classification"]
    expected = {"base_model": "org/encoder", "pipeline_tag": "text-classification", "library_name": "transformers"}
    assert expected.items() <= data.to_dict().items()
    results = {(result.metric_type, result.metric_name): result.metric_value for result in data.eval_results}
    assert results == {("f1", "example F1 at 0.5"): 0.4, ("f1", "example F1 of the decisions"): 0.4653}
    assert [set(each) for each in data.to_dict()["widget"]] == [{"text"}] * 3 and "widget" not in card(
        inputs={"pairs": 1}
    )
    assert data.model_name == "user/seal-bibtex" and data.eval_results[0].dataset_name == "bibtex"


@pytest.mark.parametrize("kind", KINDS)
def test_metadata_has_the_types_that_the_hub_asks_for(kind):
    """As of its documentation: text, or lists of text; figures are numbers."""
    changes = {"library_snippet": kind, "license": "mit", "language": "en", "tags": "mine", "dataset": "org/data"}
    figure = next(iter(KINDS[kind].figures))
    decoder = KINDS[kind].decisions().decoder
    data = ModelCard(card(decoder, metrics={f"test_{figure}": 0.5}, **changes)).data.to_dict()
    for name in ("license", "language", "library_name", "pipeline_tag", "base_model"):
        assert isinstance(data[name], str), name
    for name in ("tags", "datasets"):
        assert data[name] and all(isinstance(value, str) for value in data[name])
    ((result,),) = [entry["results"] for entry in data["model-index"]]
    assert isinstance(result["metrics"][0]["value"], float) and result["dataset"]["type"] == "org/data"


def test_the_card_says_what_was_measured_and_nothing_else():
    text = card()
    assert cells(text, "| example F1 at 0.5") == ["example F1 at 0.5", "0.4124", "0.4000"]
    assert "mean average precision" not in text and "micro" not in text and "nan" not in text.lower()
    assert "**0.31**" in text and "nce energy loss" in text and "bibtex" in text
    assert cells(text, "| num") == ["num\\_samples", "20"] and "secret" not in text and "seed" not in text
    assert cells(text, "| 1 |") == ["1", "politics"]


def test_the_figures_of_the_stored_decoder_come_first():
    for decisions, first in (({"decoder": "threshold", "threshold": 0.3}, "tuned threshold"), ({}, "at 0.5")):
        metrics = {"eval_mean_iou": 0.5, "eval_mean_iou_tuned": 0.6, "eval_mean_mask_iou": 0.2}
        text = card(library_snippet="images", metrics=metrics, decisions=decisions)
        assert first in section(text, "Figures").splitlines()[3]
    assert "of the decisions | 0.4711 | 0.4653 |" in section(card(), "Figures").splitlines()[3]
    tagged = {"eval_accuracy": 0.9, "eval_f1": 0.6, "eval_f1_viterbi": 0.6, "eval_f1_constrained_viterbi": 0.7}
    text = card("viterbi", library_snippet="tokens", metrics=tagged)
    assert "| F1 of spans, best sequence of the CRF | 0.6000" in section(text, "Figures").splitlines()[3]
    assert len(re.findall("best sequence of the CRF \\|", text)) == 1  # not twice


def test_a_card_of_nothing_measured():
    nothing = {"metrics": {}, "decisions": None, "hyperparameters": {}, "base_model": None, "dataset": None}
    text = card(**nothing, loss="ce")
    for absent in ("## Figures", "## Decisions", "## Training", "## Limits", "## Papers", "| None", "nan"):
        assert absent not in text
    assert "cross-entropy" in text and "loss-net" not in text and "energy" not in text and "SEAL" not in text
    assert ">= 0.5" in snippet(text)
    data = ModelCard(text).data
    assert data.eval_results is None and data.base_model is None and data.license is None


def test_figures_without_a_metric_of_the_hub_are_in_the_table_alone():
    text = card(metrics={"test_jaccard_decided": 0.3, "test_exact_match_decided": 0.2, "test_map": 0.1})
    results = {result.metric_type: result.metric_value for result in ModelCard(text).data.eval_results}
    assert results == {"exact_match": 0.2}
    text = card(library_snippet="images", metrics={"test_pixel_accuracy_tuned": 0.9, "test_mean_iou_tuned": 0.5})
    assert {each.metric_type for each in ModelCard(text).data.eval_results} == {"accuracy", "mean_iou"}


def test_the_language_is_that_of_the_base_if_its_card_names_one(monkeypatch, tmp_path):
    (tmp_path / "README.md").write_text("---\nlanguage:\n- en\n---\n")
    cached = lambda name, file: str(tmp_path / file) if name == "org/encoder" else None  # noqa: E731
    monkeypatch.setattr("seal_hf.reports.model_card.try_to_load_from_cache", cached)
    assert ModelCard(card()).data.language == "en" and ModelCard(card(language="de")).data.language == "de"
    (tmp_path / "README.md").write_text("---\nlanguage: [en, de]\n---\n")
    assert ModelCard(card()).data.language is None


@pytest.mark.parametrize("name", NASTY)
def test_names_break_neither_table_nor_metadata(name):
    arguments = {"model_name": name or "m", "dataset": name or "d", "label_names": [name, "last"]}
    text = card(**arguments, hyperparameters={"note": name}, unseen_labels=[name], rows={"train": 2})
    data = ModelCard(text).data
    assert data.tags == ["seal", "multi-label-classification"]
    assert data.eval_results[0].dataset_name == arguments["dataset"]
    for beginning in ("| 0 |", "| 1 |", "| note |"):
        assert len(cells(text, beginning)) == 2
    unescaped = re.sub(r"\\(.)", r"\1", cells(text, "| 0 |")[1])
    assert unescaped == " ".join(name.split())
    assert len(section(text, "Limits").strip().splitlines()) == 4
    compile(snippet(text), "snippet", "exec")
    (command,) = re.findall(r"^seal-hf .*$", text, flags=re.MULTILINE)
    assert command.endswith("--input new.csv --output predictions.csv")


@pytest.mark.parametrize("kind", KINDS)
def test_tables_have_as_many_cells_in_every_row(kind):
    figures = {f"eval_{key}": 0.5 for key in KINDS[kind].figures}
    decoder = KINDS[kind].decisions().decoder
    settings = {"metrics": figures, "rows": {NASTY[0]: 3}, "versions": {"a|b": "1"}, "license": "x|y"}
    text = card(decoder, library_snippet=kind, label_names=NASTY, hyperparameters={"a|b": "c|d"}, **settings)
    tables = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    assert len(tables) == 4 and len(tables[1].splitlines()) == 2 + len(figures)
    for table in tables:
        widths = {len(re.split(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1 and re.fullmatch(r"\|(---\|)+", table.splitlines()[1])


# --- decisions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "decoder, said",
    [
        ("fixed", "if its probability is at least 0.5."),
        ("threshold", "at least **0.31**, tuned on validation."),
        ("thresholds", "Each label has its own threshold"),
        ("expected_f1", "the label set with the highest expected example F1."),
        ("calibrated_f1", "on calibrated probabilities: σ(0.8123 · logit(p) - 0.2)."),
        ("thresholds+never_empty", "the one nearest to its threshold."),
        ("expected_f1+never_empty", "decides the likeliest one."),
    ],
)
def test_decisions_in_words(decoder, said):
    text = section(card(decoder), "Decisions")
    assert f"The stored decoder is `{decoder}`." in text and said in text
    assert "Five-fold cross-fitting on the validation rows chose it" in text
    assert ("numbers were then fitted" in text) == (
        decoder.removesuffix("+never_empty") not in ("fixed", "expected_f1")
    )
    assert "Example F1 of the decisions: 0.4711 on validation, 0.4653 on test." in text
    assert "also holds `fixed`: `--decoder fixed` selects it." in card("threshold", library_snippet="images")
    stored = re.search("`config.json` also holds (.*): `--decoder NAME`", text)[1]
    others = {f"{name}{suffix}" for name in ("fixed", "expected_f1", *NUMBERS) for suffix in ("", "+never_empty")}
    others = {
        name.replace("calibration", "calibrated_f1") for name in others if not name.startswith(("never", "empty"))
    }
    assert set(re.findall("`(.*?)`", stored)) == others - {decoder}


@pytest.mark.parametrize(
    "decoder, said",
    [
        ("closed_f1", "and adds all ancestors of its labels."),
        ("calibrated_closed_f1", "of its labels, on calibrated probabilities: σ(0.8123 · logit(p) - 0.2)."),
        ("closed_f1+never_empty", "the likeliest one and its ancestors."),
    ],
)
def test_closed_sets_in_words(decoder, said):
    hierarchical = {"decoder": decoder, **NUMBERS, "label_hierarchy": [[], [0]]}
    text = card(decisions=hierarchical)
    assert said in section(text, "Decisions") and "from seal_hf import" in snippet(text)
    assert ("numbers were then fitted" in text) == decoder.startswith("calibrated")


def test_what_the_user_chose_was_not_cross_fitted():
    assert "cross-fitting" not in card(chosen=False)
    assert "chosen on the validation rows" in card("constrained", library_snippet="tokens")
    assert "chosen" not in section(card("constrained", library_snippet="tokens", chosen=False), "Decisions")


def test_what_no_validation_row_decided_is_not_called_optimistic():
    for decoder, chosen, tuned in (("fixed", False, False), ("threshold", False, True), ("fixed", True, True)):
        assert ("optimistic" in card(decoder, chosen=chosen)) == tuned
    assert "The epoch depends on the validation rows:" in card("fixed", chosen=False, best_epoch=True)


def test_thresholds_by_label_are_a_column():
    text = card("thresholds")
    assert cells(text, "| id |") == ["id", "label", "threshold"] and cells(text, "| 1 |") == ["1", "politics", "0.4"]
    many = [f"label{i}" for i in range(MAX_LABELS + 7)]
    text = card(decisions={"decoder": "thresholds", "thresholds": [0.5] * len(many)}, label_names=many)
    assert cells(text, f"| {MAX_LABELS - 1} |")[2] == "0.5" and "and 7 more" in text


def test_a_folded_decision_is_said():
    text = card(decisions={"decoder": "fixed", "folded": "thresholds", "threshold": 0.5})
    said = section(text, "Decisions")
    assert "bias holds the decision `thresholds`" in said and "pipeline that cuts at 0.5" in said
    assert "shifts" in said and "0.4653 on test" in said and "config.json" not in said
    assert ">= 0.5]" in snippet(text)
    held = card(decisions={"decoder": "fixed", "folded": "fixed", "threshold": 0.5})  # there is nothing to hold
    assert "bias" not in held and "at least 0.5." in held


def test_a_decoder_without_its_numbers_is_refused():
    with pytest.raises(
        ValueError, match="`decoder` is 'thresholds'; these decisions have fixed, threshold, expected_f1"
    ):
        card(decisions={"decoder": "thresholds", "threshold": 0.3})


# --- use -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_snippet_for_every_kind_and_decoder_is_python(kind):
    decoders = {"LabelDecisions": [*"fixed threshold thresholds expected_f1 calibrated_f1".split()]}
    decoders["LabelDecisions"] += [f"{name}+never_empty" for name in decoders["LabelDecisions"]]
    decoders["MaskDecisions"], decoders["ClassMaskDecisions"] = ["fixed", "threshold"], ["fixed"]
    decoders["TagDecisions"] = ["independent", "constrained", "viterbi", "constrained_viterbi", "unique_roles"]
    for decoder in decoders[KINDS[kind].decisions.__name__]:
        text = card(decoder, library_snippet=kind, inputs={"max_length": 9}, loss="ce", hyperparameters={})
        compile(snippet(text), "snippet", "exec")
        needs = "from seal_hf import SealFor" in snippet(text)
        plain = decoder in KINDS[kind].plain
        assert needs != plain
        assert (KINDS[kind].plainly in section(text, "Use")) == (needs or KINDS[kind].plainly == "")
        assert ("seal_hf" in section(text, "Limits")) == (needs or KINDS[kind].is_ours)


def test_the_features_snippet_needs_the_package():
    text = card(library_snippet="features", base_model=None)
    assert "from seal_hf import" in snippet(text) and 'from_pretrained("user/seal-bibtex", with' in snippet(text)
    assert ModelCard(text).data.pipeline_tag == "tabular-classification"


@pytest.mark.parametrize(
    "kind, library", [("tokens", "transformers"), ("tokens_peft", "peft"), ("words", "transformers")]
)
def test_a_card_of_tags_speaks_of_tokens(kind, library):
    metrics = {"eval_f1": 0.5, "test_f1": 0.61237, "test_accuracy": 0.9, "test_f1_example": 0.1}
    text = card("viterbi", library_snippet=kind, metrics=metrics, label_names=["O", "B-X"], crf=True)
    data = ModelCard(text).data
    assert data.tags == ["seal", "token-classification"] and data.pipeline_tag == "token-classification"
    assert data.library_name == library and "A token classifier trained with" in text
    assert {result.metric_type: result.metric_value for result in data.eval_results} == {"f1": 0.6124, "accuracy": 0.9}
    assert cells(text, "| F1 of spans") == ["F1 of spans", "0.5000", "0.6124"] and "CRF's best sequence of tags" in text
    assert "multi-label" not in text and "SequenceClassification" not in text and "hreshold" not in text
    assert "--input new.txt --output predictions.jsonl" in text
    if kind == "tokens":
        assert "CRF" not in card("independent", library_snippet=kind)


def test_roles_need_their_predicate():
    text = card("independent", library_snippet="tokens", columns=["predicate", "pos"])
    assert 'columns={"predicate": [3], "pos": [["?"] * len(words)]}' in snippet(text) and "pipeline" not in snippet(
        text
    )
    assert "--input new.srl --output" in text
    assert "A plain `transformers` pipeline cannot read `predicate` and `pos`." in text


# --- where it is from ------------------------------------------------------------------------------------------------


def test_local_paths_stay_private(tmp_path):
    folder = tmp_path / "private" / "my-data"
    folder.mkdir(parents=True)
    text = card(dataset=str(folder), base_model=str(folder))
    assert "my-data" in text and "private" not in text
    assert ModelCard(text).data.base_model is None  # not a Hub id
    assert ModelCard(card(dataset="org/data")).data.datasets == ["org/data"]
    assert "private" not in card(base_model="C:\\private\\encoder", dataset="~/private/data")


def test_the_base_is_found_behind_folders(tmp_path):
    """By hand: what each folder says, and what a chain of them says."""

    def folder(name, **files):
        (tmp_path / name).mkdir()
        for file, content in files.items():
            path = tmp_path / name / {"card": "README.md", "adapter": "adapter_config.json"}.get(file, "config.json")
            path.write_text(content if file == "card" else json.dumps(content))
        return str(tmp_path / name)

    by_card = folder("card", card="---\nbase_model: org/one\n---\n# A card\n")
    listed = folder("listed", card="---\nbase_model: [org/one]\n---\n", config={"_name_or_path": "org/other"})
    of_two = folder("two", card="---\nbase_model: [org/one, org/two]\n---\n")
    broken = folder("broken", card="---\n[: \n---\n", config={"_name_or_path": "org/two"})
    adapter = folder("adapter", adapter={"base_model_name_or_path": by_card})
    gone = folder("gone", config={"_name_or_path": "/home/somebody/models/encoder"})
    circle = folder("circle", config={"_name_or_path": str(tmp_path / "circle")})
    checkpoint = folder("checkpoint", config={"_name_or_path": "runs/checkpoint-500"})
    expected = {by_card: "org/one", listed: "org/one", of_two: None, broken: "org/two", adapter: "org/one"}
    expected |= {gone: None, circle: None, checkpoint: None}
    for path, hub_id in expected.items():
        assert origin_of(path) == (path.rsplit("/")[-1], hub_id)
    snapshot = "/home/user/.cache/huggingface/hub/models--org--an-encoder/snapshots/0123abcd"
    assert origin_of(snapshot) == ("org/an-encoder", "org/an-encoder") and origin_of(None) is origin_of("") is None
    text = card(base_model=adapter)
    assert cells(text, "| began from") == ["began from", "adapter, trained from org/one"]
    assert ModelCard(text).data.base_model == "org/one" and str(tmp_path) not in text
    for base, hub_id in ((adapter, None), ("org/one", "org/one")):  # an adapter fits the very model that it is for
        assert ModelCard(card(base_model=base, library_snippet="peft")).data.base_model == hub_id


def test_an_id_without_an_owner_is_one_that_is_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert origin_of("tiny-bert") == ("tiny-bert", None)
    snapshot = tmp_path / "models--tiny-bert" / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (tmp_path / "models--tiny-bert" / "refs").mkdir()
    (tmp_path / "models--tiny-bert" / "refs" / "main").write_text("0123")
    assert origin_of("tiny-bert") == origin_of(str(snapshot)) == ("tiny-bert", "tiny-bert")


# --- training, limits, papers ----------------------------------------------------------------------------------------


def test_rows_versions_and_limits():
    text = card(
        rows={"train": 12345, "validation": 67},
        versions={"torch": "2.9.0", "peft": "0.18"},
        inputs={"max_length": 64},
        unseen_labels=["politics"],
        missed_labels={"sport": 12},
        best_epoch=True,
        license="apache-2.0",
    )
    assert cells(text, "| rows") == ["rows", "12,345 train, 67 validation"]
    assert cells(text, "| versions") == ["versions", "torch 2.9.0, peft 0.18"]
    assert cells(text, "| license") == ["license", "apache-2.0"] and ModelCard(text).data.license == "apache-2.0"
    assert cells(text, "| texts cut") == ["texts cut at", "64 tokens"]
    assert "truncation=True, max_length=64)" in snippet(text)
    said = section(text, "Limits")
    assert "trained on 12,345 rows of bibtex." in said and "at 64 tokens" in said
    assert "Labels without a training row: 1 of 2 (politics)." in said
    assert "Labels with an F1 of 0: 1 of 2 (sport)." in said
    assert "The decisions and the epoch depend on the validation rows:" in said
    assert "The loss-net is not part of this repository." in said


@pytest.mark.parametrize(
    "loss, settings, keys",
    [
        ("nce", {}, ["lee2022structured"]),
        ("infnet", {}, ["lee2022structured", "tu2020improving"]),
        ("infnet_plus", {"hypergradient": "none"}, ["lee2022structured", "tu2020improving"]),
        ("margin", {"hypergradient": "cg"}, ["lee2022structured", "shankar2022implicit"]),
        ("contrastive_divergence", {}, ["lee2022structured", "shankar2022implicit"]),
        ("ce", {"hypergradient": "cg"}, []),
    ],
)
def test_the_papers_of_what_was_used(loss, settings, keys):
    text = card(loss=loss, hyperparameters=settings)
    assert re.findall(r"^@\w+\{(\w+),$", text, flags=re.MULTILINE) == keys
    assert ("## Papers" in text) == bool(keys)
    for entry in re.findall(r"^@.*?^\}$", text, flags=re.MULTILINE | re.DOTALL):
        assert entry.count("{") == entry.count("}") and re.search(r"url = \{https://[\w./?=-]+\}", entry)


def test_many_labels_are_cut():
    text = card(label_names=[f"label{i}" for i in range(MAX_LABELS + 7)])
    assert cells(text, f"| {MAX_LABELS - 1} |") and f"| {MAX_LABELS} |" not in text
    assert "and 7 more" in text and cells(text, "| labels") == ["labels", str(MAX_LABELS + 7)]


def test_an_unknown_snippet_is_named():
    with pytest.raises(ValueError, match="library_snippet is 'image', expected one of text, peft"):
        card(library_snippet="image")
