"""`seal-hf predict` on label sets. Oracles: the trainer's own predictions of the same rows under every decoder, the
energies of the nets that were saved, the input itself."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from fake_hub import FakeHub
from predicting import ROWS, arff, trained_on_features, trained_on_texts, write
from pyarrow import parquet
from tiny_models import LABELLED, LABELS, tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModelForSequenceClassification

from seal_hf import SealForMultiLabel, TensorRows, tokenize
from seal_hf.cli.predict import main
from seal_hf.core.arrays import sigmoid
from seal_hf.data.label_cells import label_cell
from seal_hf.decisions import LabelDecisions

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A trainer of texts, its folder, and the rows to predict."""
    return trained_on_texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """The same of features."""
    return trained_on_features(tmp_path_factory.mktemp("features"))


def by_trainer(trainer, rows):
    """Probabilities (N, L), and the names of the labels that each decoder decides."""
    probabilities = sigmoid(trainer.predict(rows).predictions)
    decisions = LabelDecisions.from_config(trainer.model.config)
    sets = {
        name: [[LABELS[i] for i in np.flatnonzero(row)] for row in decisions.decide(probabilities, name)]
        for name in (*decisions.names, "0.3")
    }
    assert len({str(found) for found in sets.values()}) > 3 and len(decisions.names) >= 5
    return probabilities, sets | {None: sets[decisions.decoder]}


def read(path):
    """By other code than ours."""
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pylist(maps_as_pydicts="strict")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


def predicted(model, source, output, *flags):
    main(["--model", str(model), "--input", str(source), "--output", str(output), "--overwrite", *map(str, flags)])
    return read(output)


def refusal(*flags):
    with pytest.raises((ValueError, OSError)) as error:
        main([*map(str, flags)])
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_command_decides_as_the_trainer_under_every_decoder(texts, tmp_path, suffix):
    trainer, folder, table = texts
    probabilities, sets = by_trainer(trainer, tokenize(table, tiny_tokenizer(), 7))
    given = [{"id": f"k{i}", "text": text, "note": "a, b"} for i, text in enumerate(table["text"])]
    source = write(tmp_path / f"new{suffix}", given)
    for decoder, expected in [*sets.items()][: None if suffix == ".csv" else 2]:
        rows = predicted(folder, source, tmp_path / f"out{suffix}", *(["--decoder", decoder] if decoder else []))
        assert [{name: row[name] for name in given[0]} for row in rows] == given
        assert [label_cell(row["labels"], "") for row in rows] == expected, decoder
        for row, decided, p in zip(rows, expected, probabilities, strict=True):
            shown = row["probabilities"]
            shown = json.loads(shown) if isinstance(shown, str) else shown
            assert shown == pytest.approx({name: p[LABELS.index(name)] for name in shown}, abs=1e-5)
            assert list(shown) == [name for name in LABELS if name in {*decided, LABELS[p.argmax()]}]


def test_probabilities_of_all_labels_or_none(texts, tmp_path):
    trainer, folder, table = texts
    probabilities, _ = by_trainer(trainer, tokenize(table, tiny_tokenizer(), 7))
    source = write(tmp_path / "new.csv", [{"text": text} for text in table["text"]])
    for suffix in SUFFIXES:
        rows = predicted(folder, source, tmp_path / f"out{suffix}", "--probabilities", "all")
        if suffix == ".jsonl":
            found = [list(row["probabilities"].values()) for row in rows]
            assert list(rows[0]) == ["text", "labels", "probabilities"] and list(rows[0]["probabilities"]) == LABELS
        else:
            columns = [f"probability_{label}" for label in LABELS]
            found = [[float(row[column]) for column in columns] for row in rows]
            assert list(rows[0]) == ["text", "labels", *columns]
        np.testing.assert_allclose(found, probabilities, atol=1e-5)
        rows = predicted(folder, source, tmp_path / f"out{suffix}", "--probabilities", "none")
        assert list(rows[0]) == ["text", "labels"]


@pytest.mark.parametrize("labelled", [False, True])
def test_features_are_decided_as_by_the_trainer(features, tmp_path, labelled):
    trainer, folder, table = features
    probabilities, sets = by_trainer(trainer, TensorRows(table))
    x = np.asarray(table["features"][:], dtype=np.float32)
    path = arff(tmp_path / "new.arff", x, np.asarray(table["labels"][:]) if labelled else None)
    as_json = write(
        tmp_path / "new.jsonl", [{"id": i, "features": row} for i, row in enumerate(x.astype(float).tolist())]
    )
    for decoder, expected in sets.items():
        flags = ["--decoder", decoder] if decoder else []
        rows = predicted(folder, path, tmp_path / "out.csv", "--probabilities", "all", *flags)
        assert [label_cell(row["labels"], "") for row in rows] == expected
        found = [[float(row[f"probability_{label}"]) for label in LABELS] for row in rows]
        np.testing.assert_allclose(found, probabilities, atol=1e-5)
        np.testing.assert_allclose([[float(row[f"x{i}"]) for i in range(6)] for row in rows], x, rtol=1e-6)
        rows = predicted(folder, as_json, tmp_path / "out.jsonl", *flags)
        assert [row["labels"] for row in rows] == expected and [row["id"] for row in rows] == list(range(ROWS))


def test_batches_chunks_and_precision_change_nothing(texts, tmp_path, monkeypatch):
    _, folder, table = texts
    source = write(tmp_path / "new.csv", [{"text": text} for text in table["text"]])
    expected = predicted(folder, source, tmp_path / "out.jsonl", "--probabilities", "all")
    for flags in (["--batch_size", 1], ["--device", "cpu", "--batch_size", 64], ["--dtype", "bfloat16"]):
        found = predicted(folder, source, tmp_path / "out.jsonl", "--probabilities", "all", *flags)
        for row, other in zip(found, expected, strict=True):
            bound = 3e-2 if "bfloat16" in flags else 2e-6
            assert row["probabilities"] == pytest.approx(other["probabilities"], abs=bound)
    monkeypatch.setattr("seal_hf.cli.output_kind.OutputKind.rows_per_chunk", 7)
    found = predicted(folder, source, tmp_path / "out.jsonl", "--probabilities", "all", "--batch_size", 3)
    assert [row["labels"] for row in found] == [row["labels"] for row in expected]


def test_texts_are_cut_where_training_cut_them_unless_told_otherwise(texts, tmp_path):
    trainer, folder, _ = texts
    long = [{"text": "good " * 20 + "bad"}, {"text": "good " * 20}]
    source = write(tmp_path / "new.csv", long)
    first, second = predicted(folder, source, tmp_path / "out.jsonl", "--probabilities", "all")
    assert first["probabilities"] == second["probabilities"]
    first, second = predicted(folder, source, tmp_path / "out.jsonl", "--probabilities", "all", "--max_length", 30)
    assert first["probabilities"] != second["probabilities"]


@pytest.mark.parametrize("kind", ["texts", "features"])
def test_energies_are_those_of_the_decided_sets(kind, request, tmp_path):
    trainer, folder, table = request.getfixturevalue(kind)
    rows = TensorRows(table) if kind == "features" else tokenize(table, tiny_tokenizer(), 7)
    if kind == "features":
        source = arff(tmp_path / "new.arff", np.asarray(table["features"][:], dtype=np.float32))
    else:
        source = write(tmp_path / "new.csv", [{"text": text, "energy": "mine"} for text in table["text"]])
    found = predicted(folder, source, tmp_path / "out.jsonl", "--energy", "true")
    column = "energy" if kind == "features" else "predicted_energy"  # the input's own stays as it is
    nets = SealForMultiLabel(trainer.model, trainer.loss_net).eval()
    for i, row in enumerate(found):
        y = torch.tensor([[float(label in row["labels"]) for label in LABELS]])
        inputs = {name: value for name, value in rows.batch([i]).items() if name != "labels"}
        with torch.no_grad():
            assert row[column] == pytest.approx(nets.energy(y, **inputs).item(), abs=1e-4)
        assert kind == "features" or row["energy"] == "mine"


def test_the_loss_net_is_read_for_energies_alone(texts, tmp_path):
    trainer, _, table = texts
    trainer.save_model(tmp_path / "run")
    tiny_tokenizer().save_pretrained(tmp_path / "run")
    weights = tmp_path / "run" / "_loss_net" / "model.safetensors"
    weights.write_bytes(b"damaged")
    source = write(tmp_path / "new.csv", [{"text": "good"}])
    flags = ["--model", tmp_path / "run", "--input", source]
    assert len(predicted(tmp_path / "run", source, tmp_path / "out.jsonl")) == 1
    with pytest.raises(Exception, match="(?i)header|deserializ"):
        main([*map(str, flags), "--output", str(tmp_path / "two.csv"), "--energy"])
    for file in weights.parent.iterdir():
        file.unlink()
    message = refusal(*flags, "--output", tmp_path / "two.csv", "--energy", "true")
    assert "`energy` is True, but" in message and "lacks a loss-net (_loss_net/)" in message
    message = refusal(*flags, "--output", tmp_path / "two.csv", "--energy", "--dtype", "bfloat16")
    assert not (tmp_path / "two.csv").exists()


AWKWARD = ["", " ", 'a "quote"', "two\nlines", "\r", "tab\there", "żółw 🐢 \u2028", "=1+1, a|b;c", '"all quoted"', "NA"]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("source", [".csv", ".jsonl", ".parquet"])
def test_awkward_texts_come_through_any_pair_of_formats(texts, tmp_path, source, suffix):
    given = [{"text": text, "id": text} for text in AWKWARD]
    found = predicted(texts[1], write(tmp_path / f"new{source}", given), tmp_path / f"out{suffix}")
    assert [{"text": row["text"], "id": row["id"]} for row in found] == given


FORMULAS = {  # cell -> the same, written safely
    "=1+1": "'=1+1",
    "@SUM(1)": "'@SUM(1)",
    "+cmd|' /C calc'!A0": "'+cmd|' /C calc'!A0",
    "-2+3+cmd": "'-2+3+cmd",
    " \xa0=1": "' \xa0=1",
    "\ufeff=1": "'\ufeff=1",
    "＝1": "'＝1",
    "a;=1": "a;'=1",
    "a; -b": "a;' -b",
    "-": "'-",
    **{same: same for same in ("-1.5", "+3", "-.5e-7", "a=b", "a;-) b", "1;-2;+3", "'=1", '"=1"', "", "a-b, -c")},
}
WITH_BREAKS = {
    **{cell: f"'{cell}" for cell in ("\t=1", "\r@a", "\n+b", "\ta", "- a\n- b")},
    "a\n=b": "a\n'=b",
}


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_cells_that_a_spreadsheet_would_run_are_counted_and_escaped(texts, tmp_path, capsys, suffix):
    """By hand, for the cells that OWASP lists. Our own numbers do not count, nor do cells of other formats."""
    cells = FORMULAS | (WITH_BREAKS if suffix == ".csv" else {})
    given = [{"text": "good", "=id": cell, "n": -1.5} for cell in cells]
    source, output = write(tmp_path / "new.jsonl", given), tmp_path / f"out{suffix}"
    count = sum(cell != safe for cell, safe in cells.items()) + 1  # the header
    for flags, expected, column in (([], cells.keys(), "=id"), (["--escape_formulas"], cells.values(), "'=id")):
        rows = predicted(texts[1], source, output, "--probabilities", "none", *flags)
        assert [row[column] for row in rows] == [*expected] and {row["n"] for row in rows} == {"-1.5"}
        (said,) = [line for line in capsys.readouterr().err.splitlines() if " in front" in line]
        assert f" {count} cells with =, +, - or @ in front" in said and ("Safe: --esc" in said) == (not flags)
    if suffix == ".csv":  # read again, by ourselves too, the quote is part of the text
        again = predicted(texts[1], output, tmp_path / "again.jsonl")
        assert [row["'=id"] for row in again] == [*cells.values()]
        predicted(texts[1], source, tmp_path / "out.jsonl")
        assert " in front" not in capsys.readouterr().err


def test_columns_of_the_input_keep_their_names_and_types(texts, tmp_path, capsys):
    given = [{"text": "good", "labels": ["gold"], "predicted_labels": 1.5, "n": 7, "ok": None}] * 3
    source = write(tmp_path / "new.parquet", given)
    rows = predicted(texts[1], source, tmp_path / "out.parquet", "--probabilities", "none")
    assert [list(row) for row in rows] == [[*given[0], "predicted_predicted_labels"]] * 3
    assert [{name: row[name] for name in given[0]} for row in rows] == given
    said = capsys.readouterr().err
    assert said.count("the input has a column 'labels': ours is called 'predicted_predicted_labels'.") == 1
    types = parquet.read_schema(tmp_path / "out.parquet")
    assert types.field("n").type == pa.int64() and types.field("predicted_labels").type == pa.float64()


def test_label_names_with_separators_are_a_list_in_a_table(tmp_path, texts):
    _, folder, table = texts
    names = ["a|b", "c, d", 'e "f"', "g; h"]
    model = SealForMultiLabel.from_pretrained(folder, with_loss_net=False)
    model.config.id2label, model.config.label2id = dict(enumerate(names)), {name: i for i, name in enumerate(names)}
    model.save_pretrained(tmp_path / "run")
    tiny_tokenizer().save_pretrained(tmp_path / "run")
    source = write(tmp_path / "new.csv", [{"text": text} for text in table["text"]])
    expected = [row["labels"] for row in predicted(tmp_path / "run", source, tmp_path / "out.jsonl")]
    assert {name for row in expected for name in row} == set(names)
    for suffix in (".csv", ".tsv"):
        rows = predicted(tmp_path / "run", source, tmp_path / f"out{suffix}", "--probabilities", "none")
        cells = [row["labels"] for row in rows]
        assert [label_cell(cell, "") for cell in cells] == expected == [json.loads(cell) for cell in cells]


def test_without_an_output_lines_of_json_go_to_the_terminal(texts, tmp_path, capsys):
    source = write(tmp_path / "new.csv", [{"text": "good"}, {"text": "bad"}])
    main(["--model", str(texts[1]), "--input", str(source)])
    said = capsys.readouterr()
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert rows == predicted(texts[1], source, tmp_path / "out.jsonl")
    assert "row/s" not in said.err  # a bar is for a terminal


def test_a_terminal_shows_no_controls_and_a_pipe_gets_the_bytes(texts, tmp_path, capsys, monkeypatch):
    evil = "a\x9b31m\u202eb\u2028c\x1b[2J \u05e9\u05dc\u05d5\u05dd"
    source = write(tmp_path / "new.jsonl", [{"text": evil}])
    main(["--model", str(texts[1]), "--input", str(source)])
    assert json.loads(capsys.readouterr().out)["text"] == evil
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    main(["--model", str(texts[1]), "--input", str(source)])
    shown = "a\\x9b31m\\u202eb\\u2028c\\u001b[2J \u05e9\u05dc\u05d5\u05dd"
    assert capsys.readouterr().out.startswith(f'{{"text": "{shown}"')


def test_a_row_that_ends_the_command_leaves_the_output_as_it_was(texts, tmp_path, monkeypatch):
    monkeypatch.setattr("seal_hf.cli.output_kind.OutputKind.rows_per_chunk", 2)
    source = write(tmp_path / "new.jsonl", [{"text": "good"}] * 5 + [{"text": ["no", "string"]}])
    flags = ["--model", texts[1], "--input", source, "--output", tmp_path / "out.csv"]
    assert "new.jsonl, line 6: the text is" in refusal(*flags)
    assert not (tmp_path / "out.csv").exists()
    (tmp_path / "out.csv").write_text("before")
    assert "new.jsonl, line 6: the text is" in refusal(*flags, "--overwrite")
    assert (tmp_path / "out.csv").read_text() == "before"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["new.jsonl", "out.csv"]


# One clear line


@pytest.fixture
def no_weights(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the weights were loaded before the mistake was found")

    monkeypatch.setattr(SealForMultiLabel, "from_pretrained", refuse)


@pytest.mark.usefixtures("no_weights")
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"--output": "there.csv"}, ["`output` is", "there.csv'", "exists", "--overwrite"]),
        ({"--output": "out.xlsx"}, ["out.xlsx'", "not a format", ".csv, .tsv, .jsonl, .parquet"]),
        ({"--output": "out"}, ["out'", "not a format"]),
        ({"--input": "no.csv"}, ["no.csv: no such file"]),
        ({"--input": "short.csv"}, ["short.csv, line 3: 1 values, expected 2 (id, text)"]),
        ({"--input": "title.csv"}, ["2 columns of text: title, body", "--text_column"]),
        ({"--text_column": "txt"}, ["new.csv has no column 'txt'", "Did you mean 'text'?"]),
        ({"--text_column": "id"}, ["the column 'id' holds numbers (17, ...)", "ids"]),
        ({"--input": "new.arff"}, ["new.arff is ARFF, a format for features, but", "reads texts"]),
        ({"--decoder": "treshold"}, ["`decoder` is 'treshold'", "Did you mean 'threshold'?"]),
        ({"--decoder": "1.5"}, ["`decoder` is 1.5", "from 0 to 1"]),
        ({"--split": "test"}, ["`split` is 'test'", "is one file"]),
        ({"--word_column": "2"}, ["`word_column` is an option of tag sequences and trees, but", "predicts label sets"]),
        ({"--batch_size": "0"}, ["--batch_size", "'0' is not a whole number of at least 1"]),
        ({"--dtype": "float64"}, ["--dtype", "'float64'", "bfloat16"]),
        ({"--energy": "maybe"}, ["--energy", "'maybe' is neither true nor false"]),
        ({"--output": "o.jsonl", "--escape_formulas": "true"}, ["`escape_formulas` is for", ".csv or .tsv"]),
        ({"--outptu": "x"}, ["'--outptu'", "Did you mean '--output'?", "seal-hf predict --help"]),
    ],
)  # fmt: skip
def test_a_mistake_is_one_clear_line_before_the_model_is_loaded(texts, tmp_path, flags, words):
    write(tmp_path / "new.csv", [{"id": "17", "text": "good"}])
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "short.csv").write_text("id,text\n1,a\n2\n")
    (tmp_path / "title.csv").write_text("title,body\na,b\n")
    (tmp_path / "new.arff").write_text("@relation r\n@attribute x numeric\n@data\n1\n")
    given = {"--input": "new.csv", "--output": "out.csv"} | flags
    given |= {name: tmp_path / given[name] for name in ("--input", "--output")}
    message = refusal("--model", texts[1], *(word for pair in given.items() for word in pair))
    assert all(word in message for word in words), message
    assert (tmp_path / "there.csv").read_text() == "mine" and not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"architectures": ["BertModel"]}, ["another kind of model, BertModel,", "neither label sets nor tags"]),
        ({"architectures": ["BertForSequenceClassification"]}, ["one label per row", "problem_type None"]),
        ({"model_type": "seal_loss_net"}, ["another kind of model, a model of type 'seal_loss_net'"]),
        (
            {"architectures": ["BertForTokenClassification"], "id2label": {"0": "O"}},
            ["its suffix is not a format for these"],
        ),
        ("{", ["config.json is not readable as JSON"]),
        ({"architectures": "BertModel"}, ["config.json: `architectures` is 'BertModel'; expected class names"]),
        ({"id2label": ["a", "b"]}, ["config.json: `id2label` is ['a', 'b']; expected the labels by number"]),
        ({"id2label": {"0": "a", "1": "a"}}, ["`id2label` is {'0': 'a', '1': 'a'}; expected", "no two alike"]),
        ({"id2label": {"0": "a", "2": "b"}}, ["`id2label` is {'0': 'a', '2': 'b'}"]),
        ({"input_size": "6"}, ["config.json: `input_size` is '6'; expected the number of features"]),
        ({"inputs": 128}, ["config.json: `inputs` is 128; expected a mapping"]),
        ({"inputs": {"max_length": -5}}, ["config.json: in `inputs`, `max_length` is -5; expected a whole number of"]),
        ({"inputs": {"text_column": {}}}, ["config.json: in `inputs`, `text_column` is {}; expected the name of a"]),
        ({"inputs": {"image_size": [0, "a"]}}, ["`image_size` is [0, 'a']; expected height and width in pixels"]),
        ({"decisions": {"threshold": 10**400}}, ["config.json: `config.decisions` has threshold 1000", "from 0 to 1"]),
        ('{"decisions": {"threshold": NaN}}', ["has threshold nan; expected a number from 0 to 1"]),
        ({"decisions": {"threshold": "0.5"}}, ["has threshold '0.5'; expected a number from 0 to 1"]),
        ({"decisions": {"calibration": {"scale": 10**400, "shift": 0}}}, ["has calibration", "expected two numbers"]),
        ({"decisions": [0.5]}, ["config.json: `config.decisions` is [0.5]; expected a mapping"]),
        (None, ["holds no model: it has neither config.json nor adapter_config.json"]),
    ],
)
def test_another_model_is_one_clear_line(tmp_path, options, words):
    if options is not None:
        (tmp_path / "config.json").write_text(options if isinstance(options, str) else json.dumps(options))
    message = refusal("--model", tmp_path, "--input", "user/data", "--output", tmp_path / "out.csv", "--split", "test")
    assert all(word in message for word in words), message


def test_no_model_is_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    flags = ["--input", "new.csv", "--output", "out.csv"]
    assert "nothing/here: no such folder here or in the Hub's cache" in refusal("--model", "nothing/here", *flags)
    for name in (tmp_path / "no", "./no", "runs/mine/no"):
        assert refusal("--model", name, *flags) == f"{name}: no such folder."
    assert "file is a file. Give the folder" in refusal("--model", "file", *flags)
    assert "cannot be read from the Hub" in refusal("--model", "a name/b", *flags)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"--input": "new.csv"}, ["no column 'features', where this model reads 6 numbers"]),
        ({"--input": "few.arff"}, ["few.arff has 5 features", "the model reads 6"]),
        ({"--text_column": "text"}, ["`text_column` is for texts, but", "reads features"]),
        ({"--max_length": "5"}, ["`max_length` is for texts"]),
        ({"--batch_size": "5"}, ["`batch_size` is for texts"]),
    ],
)
@pytest.mark.usefixtures("no_weights")
def test_mistakes_about_features(features, tmp_path, flags, words):
    (tmp_path / "new.csv").write_text("text\ngood\n")
    arff(tmp_path / "new.arff", np.zeros((2, 6)))
    arff(tmp_path / "few.arff", np.zeros((2, 5)))
    given = {"--input": "new.arff"} | flags
    given["--input"] = tmp_path / given["--input"]
    flags = [word for pair in given.items() for word in pair]
    message = refusal("--model", features[1], "--output", tmp_path / "out.csv", *flags)
    assert all(word in message for word in words), message


@pytest.mark.parametrize("flag", ["--help", "--modle"])
@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_help_and_a_mistyped_flag_load_no_library(command, flag):
    run = [sys.executable, "-X", "importtime", "-m", "seal_hf", command, flag]
    done = subprocess.run(run, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert ("FOLDER_OR_HUB_ID" in done.stdout) if flag == "--help" else ("Did you mean '--model'?" in done.stderr)
    loaded = {line.split("|")[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "argparse" in loaded and not {"torch", "transformers", "datasets", "numpy", "pyarrow"} & loaded


# Other forms of a model


@pytest.mark.parametrize("mode", ["peft", "adapters"])
def test_a_model_that_is_saved_as_an_adapter(texts, tmp_path, mode):
    pytest.importorskip(mode)
    trainer, folder, table = texts
    torch.manual_seed(0)
    seal = SealForMultiLabel.from_pretrained(folder.parent / "encoder", loss_net_encoder=mode, **LABELLED)
    seal.config.decisions = {"decoder": "thresholds", "thresholds": [0.45, 0.5, 0.55, 0.49]}
    seal.processor = tiny_tokenizer()
    seal.save_pretrained(tmp_path / "run", adapter_export="adapter")
    tiny_tokenizer().save_pretrained(tmp_path / "run")
    source = write(tmp_path / "new.csv", [{"text": text} for text in table["text"]])
    _, decided = seal.eval().predict(table["text"][:])
    expected = [[LABELS[i] for i in np.flatnonzero(row)] for row in decided.numpy()]
    rows = predicted(tmp_path / "run", source, tmp_path / "out.jsonl", "--energy", "true")
    assert [row["labels"] for row in rows] == expected and all(isinstance(row["energy"], float) for row in rows)


def test_a_plain_classifier_of_another_library_is_cut_at_one_half(tmp_path):
    torch.manual_seed(0)
    plain = AutoModelForSequenceClassification.from_config(tiny_config("bert"))
    plain.save_pretrained(tmp_path / "plain")
    tiny_tokenizer().save_pretrained(tmp_path / "plain")
    table = tiny_texts(20)["text"][:]
    source = write(tmp_path / "new.csv", [{"text": text} for text in table])
    rows = predicted(tmp_path / "plain", source, tmp_path / "out.jsonl", "--probabilities", "all")
    for row, text in zip(rows, table, strict=True):
        with torch.no_grad():
            p = plain.eval()(**tiny_tokenizer()(text, return_tensors="pt")).logits[0].sigmoid()
        assert list(row["probabilities"].values()) == pytest.approx(p.tolist(), abs=1e-5)
        assert row["labels"] == [label for label, value in zip(LABELS, p.tolist(), strict=True) if value >= 0.5]


CLIENT = """
import json, sys
from pathlib import Path
from huggingface_hub import HfApi
from seal_hf import SealForMultiLabel
from seal_hf.cli.predict import main
from tiny_models import tiny_tokenizer

folder, home = Path(sys.argv[1]), Path(sys.argv[2])
seal = SealForMultiLabel.from_pretrained(folder)
seal.push_to_hub("user/both", include_loss_net=True)
seal.push_to_hub("user/alone")
for name in ("user/both", "user/alone"):
    tiny_tokenizer().push_to_hub(name)
HfApi().create_branch("user/alone", branch="dev")
api = HfApi()
api.create_repo("user/texts", repo_type="dataset")
for file in ("train.csv", "test.csv"):
    api.upload_file(path_or_fileobj=str(home / file), path_in_repo=file, repo_id="user/texts", repo_type="dataset")

def predict(output, *flags):
    main(["--output", str(home / output), *flags])

predict("1.jsonl", "--model", "user/alone", "--input", str(home / "test.csv"))
predict("2.jsonl", "--model", "user/both", "--input", "user/texts", "--energy")
predict("3.jsonl", "--model", "user/alone", "--revision", "dev", "--input", "user/texts", "--split", "train")
for flags in (["--energy"], ["--revision", "no"], ["--split", "dev"]):
    try:
        predict("4.jsonl", "--model", "user/alone", "--input", "user/texts", *flags)
    except (ValueError, OSError) as error:
        print("refused:", error)
try:
    predict("5.jsonl", "--model", "user/nothing", "--input", "user/texts")
except OSError as error:
    print("refused:", error)
"""


@pytest.mark.long
def test_a_model_and_rows_of_the_hub(texts, tmp_path):
    trainer, folder, table = texts
    rows = [{"id": f"k{i}", "text": text} for i, text in enumerate(table["text"][:20])]
    write(tmp_path / "test.csv", rows)
    write(tmp_path / "train.csv", rows[:5])
    expected = predicted(folder, tmp_path / "test.csv", tmp_path / "0.jsonl", "--energy")
    with FakeHub() as hub:
        printed = hub.run(CLIENT, tmp_path, folder, tmp_path)
        assert not [request for request in hub.unknown_requests if "dataset" not in request]
    found = read(tmp_path / "2.jsonl")
    assert [row["labels"] for row in found] == [row["labels"] for row in expected]
    assert [row["energy"] for row in found] == pytest.approx([row["energy"] for row in expected], abs=1e-5)
    assert [(row["id"], row["text"]) for row in found] == [(row["id"], row["text"]) for row in rows]
    for name, number in (("1.jsonl", 20), ("3.jsonl", 5)):
        assert [row["labels"] for row in read(tmp_path / name)] == [row["labels"] for row in expected[:number]]
    refused = [line for line in printed.splitlines() if line.startswith("refused:")]
    assert "user/alone lacks a loss-net" in refused[0] and "user/alone: no such folder here" in refused[1]
    assert "'user/texts' has no dev split; it has train, test." in refused[2]
    assert "user/nothing: no such folder here, and it cannot be read from the Hub" in refused[3]
