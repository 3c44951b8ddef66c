"""`seal-hf evaluate` on label sets. Oracles: scikit-learn, the figures of the trainer's own predictions, decisions
fitted anew by hand, the files of the model before and after."""

import json
import shutil
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
import torch
from datasets import Dataset
from predicting import arff, trained_on_features, trained_on_texts, write
from pyarrow import parquet
from sklearn.metrics import average_precision_score, f1_score, hamming_loss, precision_recall_fscore_support
from tiny_models import LABELS, tiny_texts, tiny_tokenizer

from seal_hf import MLPConfig, MLPForMultiLabel, SealForMultiLabel, TensorRows, tokenize
from seal_hf.cli.predict import evaluate as main
from seal_hf.core.arrays import sigmoid
from seal_hf.decisions import LabelDecisions
from seal_hf.tasks.labels import files as labels_module
from seal_hf.tasks.labels import metrics as metrics_module
from seal_hf.tasks.labels.decisions import decoders
from seal_hf.tasks.labels.metrics import label_report, set_metrics


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A trainer of texts, its folder, and the rows to evaluate on."""
    return trained_on_texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """The same of features."""
    return trained_on_features(tmp_path_factory.mktemp("features"))


def evaluated(model, source, output, *flags):
    main(["--model", str(model), "--input", str(source), "--output", str(output), "--overwrite", *map(str, flags)])
    return json.loads(output.read_text(encoding="utf-8"))


def refusal(*flags):
    with pytest.raises((ValueError, OSError)) as error:
        main([*map(str, flags)])
    assert "\n" not in str(error.value)
    return str(error.value)


def labelled(table):
    names = [[label for label, y in zip(LABELS, row, strict=True) if y] for row in table["labels"][:]]
    return [{"text": text, "labels": "|".join(row)} for text, row in zip(table["text"][:], names, strict=True)]


def by_trainer(trainer, rows):
    output = trainer.predict(rows)
    return sigmoid(output.predictions), output.label_ids


@pytest.fixture
def predicted(texts):
    trainer, _, table = texts
    return by_trainer(trainer, tokenize(table, tiny_tokenizer(), 7))


def test_figures_are_those_of_the_stored_decisions(texts, predicted, tmp_path, capsys):
    trainer, folder, table = texts
    (probabilities, gold), decisions = predicted, LabelDecisions.from_config(trainer.model.config)
    found = evaluated(folder, write(tmp_path / "test.csv", labelled(table)), tmp_path / "results.json")
    decided = decisions.decide(probabilities)
    assert (found["rows"], found["decoder"]) == (len(table), decisions.decoder)
    assert {"origin": "stored with the model", **decisions.as_json()} == found["decisions"]
    figures = found["figures"]
    for average in ("micro", "macro"):
        assert figures[f"f1_{average}"] == pytest.approx(f1_score(gold, decided, average=average, zero_division=0))
    assert figures["hamming_loss"] == pytest.approx(hamming_loss(gold, decided))
    # rows that differ by rounding alone stand in any order: gold ones last, and first
    worst, best = (average_precision_score(gold, probabilities + e * gold, average="macro") for e in (-1e-6, 1e-6))
    assert worst <= figures["map_macro"] <= best < worst + 5e-3
    assert {name: figures[name] for name in set_metrics(decided, gold)} == pytest.approx(set_metrics(decided, gold))
    for name, of_sets in found["decoders"].items():
        assert of_sets == pytest.approx(set_metrics(decisions.decide(probabilities, name), gold)), name
    assert tuple(found["decoders"]) == decisions.names
    precision, recall, f1, support = precision_recall_fscore_support(gold, decided, zero_division=0)
    assert list(found["labels"]) == LABELS
    for i, label in enumerate(LABELS):
        expected = {"precision": precision[i], "recall": recall[i], "f1": f1[i], "support": support[i]}
        assert found["labels"][label] == pytest.approx(expected)
    printed = capsys.readouterr().out
    assert f"{len(table)} rows, decoder {decisions.decoder} (*), stored with the model" in printed
    assert f"\n{decisions.decoder} *" in printed and "\njoy " in printed and f"{figures['f1_example']:.4f}" in printed


def test_another_decoder_and_a_threshold(texts, predicted, tmp_path):
    trainer, folder, table = texts
    source, (probabilities, gold) = write(tmp_path / "test.jsonl", labelled(table)), predicted
    decisions = LabelDecisions.from_config(trainer.model.config)
    for decoder in ("calibrated_f1", "0.3"):
        found = evaluated(folder, source, tmp_path / "results.json", "--decoder", decoder)
        expected = set_metrics(decisions.decide(probabilities, decoder), gold)
        assert {name: found["figures"][name] for name in expected} == pytest.approx(expected)
        assert found["decoder"] == decoder and found["decoders"][decoder] == pytest.approx(expected)


def test_refit_is_fitted_on_these_rows_and_the_model_stays_as_it_was(texts, predicted, tmp_path, capsys):
    trainer, folder, table = texts
    source, (probabilities, gold) = write(tmp_path / "test.csv", labelled(table)), predicted
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    for flags, decoder in (([], None), (["--decoder", "thresholds"], "thresholds")):
        found = evaluated(folder, source, tmp_path / "results.json", "--refit", *flags)
        fitted_anew = LabelDecisions.fit(probabilities, gold, never_empty=bool(gold.any(1).all()), decoder=decoder)
        expected = set_metrics(fitted_anew.decide(probabilities), gold)
        assert found["decoder"] == fitted_anew.decoder
        assert {name: found["figures"][name] for name in expected} == pytest.approx(expected)
        assert found["decisions"]["thresholds"] == fitted_anew.thresholds
        assert "fitted anew on these rows" in capsys.readouterr().out
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


def test_a_folder_in_the_layout_of_training_gives_its_test_split(texts, tmp_path, capsys):
    _, folder, table = texts
    data = tmp_path / "data"
    data.mkdir()
    for name, seed in (("train", 0), ("dev", 1)):
        write(data / f"{name}.csv", labelled(tiny_texts(10, seed)))
    write(data / "test.csv", labelled(table))
    expected = evaluated(folder, data / "test.csv", tmp_path / "results.json")
    capsys.readouterr()
    found = evaluated(folder, data, tmp_path / "results.json")
    assert (
        found["figures"] == expected["figures"] and "the rows of test.csv, its test split." in capsys.readouterr().err
    )
    assert evaluated(folder, data, tmp_path / "results.json", "--split", "dev")["rows"] == 10


@pytest.mark.parametrize("form", ["names", "ids", "ids of a list", "multi_hot"])
def test_gold_labels_in_any_form(texts, tmp_path, form):
    _, folder, table = texts
    expected = evaluated(folder, write(tmp_path / "a.csv", labelled(table)), tmp_path / "results.json")
    order = list(reversed(LABELS)) if form == "ids of a list" else LABELS
    rows = []
    for text, y in zip(table["text"][:], table["labels"][:], strict=True):
        names = [label for label, value in zip(LABELS, y, strict=True) if value]
        cells = {"names": names, "multi_hot": [int(value) for value in y]}
        rows.append({"text": text, "mood": cells.get(form, [order.index(name) for name in names])})
    if form == "ids of a list":
        (tmp_path / "labels.txt").write_text("\n".join(order) + "\n")
    source = write(tmp_path / "b.jsonl", rows)
    for flags in ([], ["--label_format", form.split()[0]]):
        found = evaluated(folder, source, tmp_path / "results.json", "--label_column", "mood", *flags)
        assert found["figures"] == expected["figures"] and found["labels"] == expected["labels"]


def test_the_usual_columns_of_gold_labels_are_found(texts, tmp_path):
    _, folder, table = texts
    rows = labelled(table)
    expected = evaluated(folder, write(tmp_path / "a.csv", rows), tmp_path / "results.json")
    again = [{("label" if name == "labels" else name): cell for name, cell in row.items()} for row in rows]
    found = evaluated(folder, write(tmp_path / "b.csv", again), tmp_path / "results.json")
    assert found["figures"] == expected["figures"]


def test_gold_labels_in_a_column_each(texts, tmp_path, capsys):
    _, folder, table = texts
    expected = evaluated(folder, write(tmp_path / "a.csv", labelled(table)), tmp_path / "results.json")
    columns = dict(zip(reversed(LABELS), np.array(table["labels"][:])[:, ::-1].astype(int).T.tolist(), strict=True))
    rows = [
        {"text": text, **dict(zip(columns, values, strict=True))}
        for text, *values in zip(table["text"][:], *columns.values(), strict=True)
    ]
    found = evaluated(folder, write(tmp_path / "b.csv", rows), tmp_path / "results.json")
    assert found["figures"] == expected["figures"] and found["labels"] == expected["labels"]
    without = [{name: cell for name, cell in row.items() if name != "joy"} for row in rows]
    with pytest.raises(ValueError, match="for 3 of the model's 4 labels, but none for joy. Add these columns"):
        evaluated(folder, write(tmp_path / "c.csv", without), tmp_path / "results.json")
    assert evaluated(folder, write(tmp_path / "c.csv", [{**row, "joy": ""} for row in without]), tmp_path / "d.json")
    said = f"{len(rows)} of {4 * len(rows)} labels of rows are unknown (-1): they count in no figure."
    assert said in capsys.readouterr().out
    with pytest.raises(ValueError, match="b.csv has no column 'mood'.*--label_column"):
        evaluated(folder, tmp_path / "b.csv", tmp_path / "results.json", "--label_column", "mood")
    ones = [{name: "" if cell == 0 else cell for name, cell in row.items()} for row in rows]  # of a spreadsheet
    with pytest.raises(ValueError, match="f.csv: labels are 1 or unknown, but never 0. If an empty cell"):
        evaluated(folder, write(tmp_path / "f.csv", ones), tmp_path / "results.json")
    empty = write(tmp_path / "e.csv", [{"text": row["text"], "labels": ""} for row in rows])
    with pytest.raises(ValueError, match="e.csv: no row has a gold label"):
        evaluated(folder, empty, tmp_path / "results.json")
    rows[3]["joy"] = 2
    with pytest.raises(ValueError, match="b.csv, line 5: the label column 'joy' holds '2'; expected 0 or 1"):
        evaluated(folder, write(tmp_path / "b.csv", rows), tmp_path / "results.json")


def test_data_need_not_have_the_parents_that_a_hierarchy_added(texts, tmp_path):
    """As a column each, and as lists of 0 and 1; a parent of unknown children is unknown. Oracle: closed sets."""
    _, folder, table = texts
    shutil.copytree(folder, tmp_path / "net")
    config = json.loads((tmp_path / "net" / "config.json").read_text())
    *own, parent = LABELS
    parents = [[len(own)], [len(own)], *([] for _ in LABELS[2:])]  # the last label is above the first two
    (tmp_path / "net" / "config.json").write_text(json.dumps({**config, "label_hierarchy": parents}))
    gold = np.array(table["labels"][:])[:, :-1].astype(int)
    gold[:5, 0] = -1
    above = gold[:, :2].max(1)
    above = np.where((above == 0) & (gold[:, :2] < 0).any(1), -1, above)
    cell = lambda value: "" if value < 0 else int(value)  # noqa: E731
    each = [
        {"text": text, **{name: cell(value) for name, value in zip(own, row, strict=True)}}
        for text, row in zip(table["text"][:], gold, strict=True)
    ]
    whole = [{**row, parent: cell(value)} for row, value in zip(each, above, strict=True)]
    lists = [{"text": row["text"], "labels": values} for row, values in zip(each, gold.tolist(), strict=True)]
    expected = evaluated(tmp_path / "net", write(tmp_path / "whole.csv", whole), tmp_path / "results.json")
    for source in (write(tmp_path / "each.csv", each), write(tmp_path / "lists.jsonl", lists)):
        found = evaluated(tmp_path / "net", source, tmp_path / "results.json")
        assert found["figures"] == expected["figures"] and found["labels"] == expected["labels"]


def test_features_are_judged_by_the_attributes_that_are_labels(features, tmp_path):
    trainer, folder, table = features
    probabilities, gold = by_trainer(trainer, TensorRows(table))
    x, y = (np.asarray(table[name][:], dtype=np.float32) for name in ("features", "labels"))
    found = evaluated(folder, arff(tmp_path / "test.arff", x, y), tmp_path / "results.json")
    decisions = LabelDecisions.from_config(trainer.model.config)
    expected = set_metrics(decisions.decide(probabilities), gold)
    assert {name: found["figures"][name] for name in expected} == pytest.approx(expected)
    assert found["labels"] == label_report(decisions.decide(probabilities), gold, LABELS)
    columns = {label: y[:, i].astype(int).tolist() for i, label in enumerate(LABELS)}
    Dataset.from_dict({"features": x, **columns}).to_parquet(tmp_path / "test.parquet")  # the same, in a table
    again = evaluated(folder, tmp_path / "test.parquet", tmp_path / "results.json")
    assert again["figures"] == found["figures"] and again["labels"] == found["labels"]


def test_the_report_by_label_is_printed_up_to_40_labels(tmp_path, capsys):
    for number, printed in ((40, True), (41, False)):
        names = {i: f"label {i}" for i in range(number)}
        options = {"id2label": names, "label2id": {name: i for i, name in names.items()}}
        config = MLPConfig(input_size=3, hidden_size=4, problem_type="multi_label_classification", **options)
        MLPForMultiLabel(config).save_pretrained(tmp_path / "run")
        rows = [{"features": [0.1, i / 9, 1.0], "labels": [f"label {i}"]} for i in range(9)]
        source = write(tmp_path / "test.jsonl", rows)
        main(["--model", str(tmp_path / "run"), "--input", str(source)])
        said = capsys.readouterr().out
        assert ("\nlabel 39 " in said) == printed
        assert ("support of the 41 labels: --output FILE.json" in said) == (not printed)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"--input": "unknown.csv"}, ["does not know 1 of the labels ('jot'); it knows 4: 'joy', 'anger', 'fear',",
                                      "Did you mean 'joy'?"]),
        ({"--input": "new.csv"}, ["new.csv has no column 'labels'; its columns are text, lable", "--label_column",
                                  "Did you mean 'lable'?"]),
        ({"--output": "there.json"}, ["there.json'", "exists", "--overwrite"]),
        ({"--output": "results.csv"}, ["results.csv'", "expected .json"]),
        ({"--decoder": "no"}, ["`decoder` is 'no'; these decisions have fixed"]),
        ({"--decoder": "0.3", "--refit": "true"}, ["`decoder` is '0.3'; these decisions have fixed"]),
        ({"--energy": "true"}, ["'--energy'"]),
        ({"--tag_column": "2"}, ["`tag_column` is an option of tag sequences"]),
    ],
)  # fmt: skip
def test_a_mistake_is_one_clear_line_before_the_model_is_loaded(texts, tmp_path, monkeypatch, flags, words):
    def refuse(*_, **__):
        raise AssertionError("the weights were loaded before the mistake was found")

    monkeypatch.setattr(SealForMultiLabel, "from_pretrained", refuse)
    write(tmp_path / "test.csv", labelled(texts[2]))
    write(tmp_path / "unknown.csv", [{"text": "good", "labels": "joy|jot"}])
    write(tmp_path / "new.csv", [{"text": "good", "lable": "joy"}])
    (tmp_path / "there.json").write_text("mine")
    given = {"--input": "test.csv", "--output": "results.json"} | flags
    given |= {name: tmp_path / given[name] for name in ("--input", "--output")}
    message = refusal("--model", texts[1], *(word for pair in given.items() for word in pair))
    assert all(word in message for word in words), message
    assert (tmp_path / "there.json").read_text() == "mine" and not (tmp_path / "results.json").exists()


def test_options_of_tables_are_refused_for_arff(features, tmp_path):
    source = arff(tmp_path / "new.arff", np.zeros((2, 6)), np.zeros((2, 4)))
    for flags in (["--label_column", "mood"], ["--label_format", "ids"]):
        message = refusal("--model", features[1], "--input", source, *flags)
        assert f"`{flags[0][2:]}` is for tables, but" in message and "is ARFF" in message


# entries that are in memory at once, whatever the number of rows
BLOCKS = ((metrics_module, "BLOCK"), (decoders, "_AT_ONCE"), (labels_module, "ENTRIES_PER_CHUNK"))


def wide_net(folder, num_labels, **config):
    """An untrained MLP of 3 features whose decisions have all decoders."""
    names = {"id2label": {i: f"l{i}" for i in range(num_labels)}, "label2id": {f"l{i}": i for i in range(num_labels)}}
    torch.manual_seed(0)
    net = MLPForMultiLabel(MLPConfig(input_size=3, hidden_size=8, label_bias=True, **names, **config))
    torch.nn.init.normal_(net.classifier.weight, 0, 2)
    torch.nn.init.normal_(net.classifier.bias, -3, 1)
    numbers = {"threshold": 0.4, "thresholds": [0.3] * num_labels, "calibration": (0.9, -0.2), "never_empty": True}
    LabelDecisions(decoder="calibrated_f1", **numbers).store(net.config)
    net.save_pretrained(folder)
    return folder


def wide_rows(path, num_rows, num_labels):
    """A table of features and names of labels, and its features and its gold labels."""
    generator = np.random.default_rng(0)
    x, gold = generator.normal(size=(num_rows, 3)).astype(np.float32), generator.random((num_rows, num_labels)) < 0.02
    names = [[f"l{i}" for i in np.flatnonzero(row)] for row in gold]
    write(path, [{"features": row, "labels": labels} for row, labels in zip(x.tolist(), names, strict=True)])
    return x, gold


@pytest.mark.long
@pytest.mark.parametrize("form, num_rows, num_labels", [("names", 800, 1000), ("columns", 3000, 100)])
def test_the_memory_of_an_evaluation_is_that_of_its_probabilities_and_gold_labels(
    tmp_path, monkeypatch, form, num_rows, num_labels
):
    """Of 4 + 1 bytes for each row and label, beside blocks of rows and small things."""
    for module, name in BLOCKS:
        monkeypatch.setattr(module, name, 1 << 14)
    model, table, results = wide_net(tmp_path / "net", num_labels), tmp_path / "rows.parquet", tmp_path / "results.json"
    wide_rows(table, 9, num_labels)
    evaluated(model, table, results)  # what is loaded once does not count
    x, gold = wide_rows(table, num_rows, num_labels)
    if form == "columns":
        columns = {f"l{i}": pa.array(gold[:, i].astype(np.int8)) for i in range(num_labels)}
        parquet.write_table(pa.table({"features": list(x), **columns}), table, row_group_size=256)
    tracemalloc.start()
    found = evaluated(model, table, results)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.3 * 5 * num_rows * num_labels + 2.5e6
    seal = SealForMultiLabel.from_pretrained(model, with_loss_net=False)
    p, decided = (a.numpy() for a in seal.predict(features=torch.from_numpy(x)))
    assert found["figures"]["f1_micro"] == pytest.approx(f1_score(gold, decided, average="micro"), abs=1e-12)
    for name, y, scores in (("map", gold, p), ("map_macro", gold.T, p.T)):
        expected = np.mean([average_precision_score(a, b) for a, b in zip(y, scores, strict=True) if a.any()])
        assert found["figures"][name] == pytest.approx(expected, abs=1e-12)


def test_columns_in_place_of_those_of_training_are_named(texts, tmp_path, capsys):
    _, folder, table = texts
    shutil.copytree(folder, tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["inputs"] = {"max_length": 7, "text_column": "plot", "label_column": "moods"}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    rows = [{"plot": row["text"], "moods": row["labels"], "n": "1"} for row in labelled(table)]
    expected = evaluated(tmp_path / "model", write(tmp_path / "same.csv", rows), tmp_path / "results.json")
    assert "of training" not in capsys.readouterr().err
    other = evaluated(tmp_path / "model", write(tmp_path / "other.csv", labelled(table)), tmp_path / "results.json")
    said = capsys.readouterr().err
    assert "other.csv lacks the column 'plot' of training: 'text' is read." in said
    assert "other.csv lacks the column 'moods' of training: 'labels' is read." in said
    assert other["figures"] == expected["figures"]
    named = ("--text_column", "text", "--label_column", "labels")
    evaluated(tmp_path / "model", tmp_path / "other.csv", tmp_path / "results.json", *named)
    assert "of training" not in capsys.readouterr().err
