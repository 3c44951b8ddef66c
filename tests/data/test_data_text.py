"""Text data: GoEmotions against its own lines, every label format written out by hand, every error by its words, and a
data set of the fake Hub loaded by a process of its own."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fake_hub import FakeHub, Repo

from seal_hf.data import DataError, kind_of, load_masks, load_multilabel, load_tags, load_trees

SPLITS = ("train", "validation", "test")
TABLES = {".csv": ",", ".tsv": "\t"}


def rows_of(data) -> list[tuple[str, set[str]]]:
    """(text, names of its labels) of all splits in order."""
    found = []
    for split in (getattr(data, name) for name in SPLITS if getattr(data, name) is not None):
        labels = split.with_format("numpy")[:]["labels"]
        assert labels.dtype == np.float32 and labels.shape == (len(split), len(data.label_names))
        names = [{data.label_names[i] for i in np.flatnonzero(row)} for row in labels]
        found += list(zip(split["text"][:], names, strict=True))
    return found


def table(header, rows, delimiter: str = ",") -> str:
    def quote(cell: str) -> str:
        return '"' + cell.replace('"', '""') + '"' if delimiter == "," and any(c in cell for c in ',"\n') else cell

    return "".join(delimiter.join(map(quote, row)) + "\n" for row in ([header] if header else []) + list(rows))


def labelled(rows) -> str:
    return table(["text", "labels"], rows)


def jsonl(rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def write(folder: Path, **files: str) -> Path:
    """Files of a folder; `train_csv` is train.csv."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / ".".join(name.rsplit("_", 1))).write_text(content, encoding="utf-8")
    return folder


def error_of(path: Path, **arguments) -> str:
    with pytest.raises(DataError) as error:
        load_multilabel(str(path), **arguments)
    return str(error.value)


# The real set


def test_go_emotions_equals_its_lines(shared_data):
    folder = shared_data / "text" / "go_emotions"
    if not folder.is_dir():
        pytest.skip("go_emotions is not there")
    data = load_multilabel("go_emotions", data_dir=str(shared_data))
    assert (data.name, data.kind, kind_of("go_emotions", str(shared_data))) == ("go_emotions", "text", "text")
    assert [len(getattr(data, split)) for split in SPLITS] == [43410, 5426, 5427]
    assert data.label_names == (folder / "labels.txt").read_text().split() and len(data.label_names) == 28
    expected = []
    for name in ("train", "dev", "test"):
        for line in (folder / f"{name}.tsv").read_text(encoding="utf-8").rstrip("\n").split("\n"):
            text, ids, _ = line.split("\t")
            expected.append((text, {data.label_names[int(i)] for i in ids.split(",")}))
    found = rows_of(data)
    assert found == expected
    assert sum(len(labels) for _, labels in found[:43410]) / 43410 == pytest.approx(1.18, abs=0.005)


# Label formats: three rows with the labels {a, c}, {}, {b}

GOLD = {"t0": {0, 2}, "t1": set(), "t2": {1}}
CELLS = {
    "ids": [["0,2", "", "1"], ["0;2", "", "1"], ["0|2", "", "1"], ["[0, 2]", "[]", "[1]"]],
    "names": [["a,c", "", "b"], ["a ; c", "", " b "], ["a|c", "", "b"], ['["a", "c"]', "[]", '["b"]'],
              ["['a', 'c']", "[]", "['b']"], ["('a', 'c')", "()", "('b',)"], ["{'c', 'a'}", "", "{'b'}"],
              ["['a ', '', 'c']", "['']", "['b', None]"]],
    "multi_hot": [["1,0,1", "0,0,0", "0,1,0"], ["[1, 0, 1]", "[0, 0, 0]", "[0, 1, 0]"],
                  ["[1.0, 0.0, 1.0]", "[0.0, 0.0, 0.0]", "[0.0, 1.0, 0.0]"],
                  ["[True, False, True]", "[False, False, False]", "[False, True, False]"],
                  ["[true, false, true]", "[false, false, false]", "[false, true, false]"],
                  ["True,False,True", "False,False,False", "False,True,False"],
                  ["[ True False  True]", "[False False False]", "[False  True False]"]],
}  # fmt: skip
JSON_CELLS = {
    "ids": [[[0, 2], [], [1]], [["0", "2"], None, 1], [["0", "2"], [""], ["1", ""]]],
    "names": [[["a", "c"], [], ["b"]], ["a,c", None, "b"], [["a", " c"], [float("nan")], ["b", None]]],
    "multi_hot": [[[1, 0, 1], [0, 0, 0], [0, 1, 0]], [[True, False, True], [False] * 3, [False, True, False]]],
}


def check_gold(path: Path, label_format: str) -> None:
    for asked in (label_format, "auto"):
        data = load_multilabel(str(path), label_format=asked)
        names = ["a", "b", "c"] if label_format == "names" else ["0", "1", "2"]
        assert data.label_names == names
        rows = rows_of(data)
        assert Counter(text for text, _ in rows) == {"t0": 10, "t1": 10, "t2": 10}
        assert all(labels == {names[i] for i in GOLD[text]} for text, labels in rows)
        assert "10 of 30 rows have no label (kept)." in data.notes


@pytest.mark.parametrize("suffix", TABLES)
@pytest.mark.parametrize(("label_format", "cells"), [(name, cells) for name, some in CELLS.items() for cells in some])
def test_label_cells_of_tables(tmp_path, suffix, label_format, cells):
    path = tmp_path / f"d{suffix}"
    path.write_text(table(["text", "labels"], [(f"t{i}", c) for i, c in enumerate(cells)] * 10, TABLES[suffix]))
    check_gold(path, label_format)


@pytest.mark.parametrize(("label_format", "cells"), [(n, cells) for n, some in JSON_CELLS.items() for cells in some])
def test_label_cells_of_jsonl(tmp_path, label_format, cells):
    path = tmp_path / "d.jsonl"
    path.write_text(jsonl([{"text": f"t{i}", "labels": c} for i, c in enumerate(cells)] * 10))
    check_gold(path, label_format)


@pytest.mark.parametrize(
    "cells",
    [
        ["true,satire", "false", "true,false"],
        ["true|false", "true", "satire"],
        ["[true, satire]", "[false]", "[true, false]"],
        ["(true crime,satire)", "(false)", "(true crime,false)"],
        ['["true","false"]', '["true"]', '["satire"]'],
    ],
)
@pytest.mark.parametrize("label_format", ["auto", "names"])
def test_names_may_be_true_and_false(tmp_path, cells, label_format):
    path = tmp_path / "d.csv"
    path.write_text(table(["text", "labels"], [(f"t{i}", c) for i, c in enumerate(cells)] * 10))
    found = {text: labels for text, labels in rows_of(load_multilabel(str(path), label_format=label_format))}
    expected = [set(re.findall(r"true crime|\w+", cell)) for cell in cells]
    assert [found[f"t{i}"] for i in range(3)] == expected


def test_names_with_quotes_and_commas_in_lists(tmp_path):
    cells = ['["it\'s", "a, b"]', "['it\\'s']", '["it\'s"]']  # JSON, and both ways of Python
    path = write(tmp_path, d_csv=labelled([("x", c) for c in cells] * 10)) / "d.csv"
    data = load_multilabel(str(path))
    assert data.label_names == ["a, b", "it's"]
    assert Counter(map(str, (sorted(labels) for _, labels in rows_of(data)))) == {
        "['a, b', \"it's\"]": 10,
        '["it\'s"]': 20,
    }


def test_texts_of_a_csv_keep_commas_quotes_lines_and_letters(tmp_path):
    texts = ["a, b", 'say "x"', "two\nlines", "żółw 🐢", ""]
    path = write(tmp_path, d_csv=labelled([(t, "0") for t in texts] * 4)) / "d.csv"
    assert Counter(text for text, _ in rows_of(load_multilabel(str(path)))) == dict.fromkeys(texts, 4)


@pytest.mark.parametrize("name", ["d.csv", "d.tsv", "d.jsonl"])
def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path, name):
    rows = [(f"t{i}", str(i % 2)) for i in range(10)]
    by_suffix = {suffix: table(["text", "labels"], rows, mark) for suffix, mark in TABLES.items()}
    content = by_suffix.get(name[1:], jsonl([{"text": t, "labels": label} for t, label in rows]))
    (tmp_path / name).write_bytes(content.replace("\n", "\r\n").encode("utf-8-sig"))
    assert dict(rows_of(load_multilabel(str(tmp_path / name)))) == {text: {label} for text, label in rows}


# Splits


def test_one_file_is_split_80_10_10_by_seed_and_disjoint(tmp_path):
    path = write(tmp_path, d_csv=labelled([(f"t{i}", str(i % 3)) for i in range(50)])) / "d.csv"
    one, again, other = (load_multilabel(str(path), seed=seed) for seed in (1, 1, 2))
    assert [len(getattr(one, split)) for split in SPLITS] == [40, 5, 5]
    assert dict(rows_of(one)) == {f"t{i}": {str(i % 3)} for i in range(50)}  # all rows, each with its own label
    assert rows_of(one) == rows_of(again) != rows_of(other)
    assert "no splits: 40 / 5 / 5 rows for train, validation and test, stratified by label (seed 1)." in one.notes
    few = load_multilabel(str(path), seed=1, max_train_rows=7)
    assert few.train["text"][:] == one.train["text"][:7] and few.test["text"][:] == one.test["text"][:]


@pytest.mark.parametrize("train", ["train", "training"])
@pytest.mark.parametrize("validation", ["validation", "valid", "val", "dev"])
def test_a_folder_with_files_of_several_kinds_and_without_test(tmp_path, train, validation):
    rows = [("t0", "joy"), ("t1", "anger;joy")]
    write(tmp_path, **{f"{train}_csv": labelled(rows)})
    write(tmp_path, **{f"{validation}_jsonl": jsonl([{"labels": ["fear"], "text": "t2"}])})
    data = load_multilabel(str(tmp_path))
    assert (len(data.train), len(data.validation), data.test) == (2, 1, None)
    assert data.label_names == ["anger", "fear", "joy"]  # of all splits
    assert rows_of(data) == [("t0", {"joy"}), ("t1", {"anger", "joy"}), ("t2", {"fear"})]


def test_a_tsv_without_header_is_read_with_labels_txt_alone(tmp_path):
    write(tmp_path, train_tsv="t0\t0,1\tid0\nt1\t\tid1\n", dev_tsv="t2\t1\tid2\nt4\t\tid4\n")
    assert "has no column 'labels'" in error_of(tmp_path)
    write(tmp_path, labels_txt="joy\nfear\n\n", test_tsv="t3\t0\tid3\n")
    assert rows_of(load_multilabel(str(tmp_path))) == [
        ("t0", {"joy", "fear"}), ("t1", set()), ("t2", {"fear"}), ("t4", set()), ("t3", {"joy"}),
    ]  # fmt: skip


def test_columns_are_found_or_named(tmp_path):
    rows = [(str(i), f"a text {i}", "a b" if i % 2 else "c d") for i in range(10)]
    path = write(tmp_path, d_csv=table(["id", "comment", "topics"], rows)) / "d.csv"
    expected = {text: {topic} for _, text, topic in rows}
    assert dict(rows_of(load_multilabel(str(path), label_column="topics"))) == expected  # numbers are no text
    assert "the column 'id' holds numbers (0, 1, 2, ...)" in error_of(path, label_column="topics", text_column="id")


# Errors. A single file needs only be wrong in its first rows: the whole file is read before it is split.

OK = [("t", "0"), ("u", "1")] * 10
NOT_BINARY = [("a", "1,0,0"), ("b", "0,0,2")] * 10


@pytest.mark.parametrize(
    ("name", "content", "arguments", "words"),
    [
        ("d.csv", table(["text", "lables"], OK), {}, ["no column 'labels'", "Did you mean 'lables'?", "--label_"]),
        ("d.csv", labelled(OK), {"text_column": "txt"}, ["no column 'txt'", "Did you mean 'text'?", "--text_column"]),
        ("d.csv", table(["title", "body", "labels"], [("a", "b", "0")]), {}, ["2 columns of text: title, body"]),
        ("d.csv", table(["text", "text"], OK), {}, ["two columns have the same name", "text, text"]),
        ("d.csv", "text,labels\na,0\nb\n", {}, ["d.csv, line 3", "1 values, expected 2 (text, labels)"]),
        ("d.csv", "text,labels\na,0\nb,1,2\n", {}, ["d.csv, line 3", "3 values, expected 2"]),
        ("d.csv", 'text,labels\na,0\n"b', {}, ["d.csv, line 3", "quote is open", "ends early"]),
        ("d.tsv", "text\tlabels\na\t0\nb\n", {}, ["d.tsv, line 3", "1 values, expected 2"]),
        ("d.csv", "", {}, ["d.csv is empty"]),
        ("d.csv", "text,labels\n", {}, ["d.csv is empty", "no rows"]),
        ("d.jsonl", "\n", {}, ["d.jsonl is empty"]),
        ("d.jsonl", jsonl([{"text": "a", "labels": [0]}] * 3)[:-9], {}, ["line 3", "not a JSON object", "end early"]),
        ("d.jsonl", "[1]\n", {}, ["d.jsonl, line 1", "not a JSON object"]),
        ("d.jsonl", jsonl([{"text": "a", "labels": [0]}, {"text": "b"}]), {}, ["line 2", "expected ['labels', "]),
        ("d.jsonl", jsonl([{"text": "a", "labels": [[0, 1]]}] * 10), {}, ["line 1", "[0, 1] is neither a name nor"]),
        ("d.jsonl", jsonl([{"text": ["a", "b"], "labels": [0]}] * 10), {}, ["line 1", "a list; expected a string"]),
        ("d.jsonl", jsonl([{"text": "hi \ud83d", "labels": [0]}] * 10), {}, ["line 1", "'hi \\ud83d'", "valid text"]),
        ("d.jsonl", jsonl([{"text": "hi", "labels": ["\ud83d"]}] * 10), {}, ["line 1", "'\\ud83d'", "valid text"]),
        ("d.csv", labelled([("a", "-1")] * 10), {}, ["no row has a label", "the first value found is '-1'"]),
        ("d.csv", labelled(OK), {"normalize": "standard"}, ["`normalize` is an option of features", "holds texts"]),
        ("d.csv", labelled(OK), {"keep_id": True}, ["`keep_id` is an option of features"]),
        ("d.csv", labelled([*OK, ("v", "-1")]), {}, ["line 22", "'-1'", "range 0..1"]),
        ("d.csv", labelled([*OK, ("v", "--5")]), {"label_format": "ids"}, ["line 22", "'--5'", "range 0..1"]),
        ("d.csv", labelled([*OK, ("v", "20240131")]), {}, ["label id 20240131", "--label_column"]),
        ("d.csv", labelled([("a", "1,0,1"), ("b", "0,1")] * 10), {}, ["line 3", "2 entries, expected 3"]),
        ("d.csv", labelled(NOT_BINARY), {"label_format": "multi_hot"}, ["line 3", "0 or 1", "'2'"]),
        ("d.csv", labelled(NOT_BINARY), {}, ["line 2", "repeats an id", "--label_format"]),
        ("d.csv", labelled([("a", "1,0,0.5")] * 10), {}, ["line 2", "0 or 1", "'0.5'"]),
        ("d.csv", labelled([("a", "x,0")] * 10), {"label_format": "multi_hot"}, ["line 2", "0 or 1", "'x'"]),
        ("d.csv", labelled([("a", "[0, 1")] * 10), {}, ["line 2", "'[0, 1'", "not one"]),
        ("d.csv", labelled([("a", "")] * 10), {}, ["no row has a label", "--label_column"]),
        ("d.csv", labelled(OK), {"label_format": "idx"}, ["'idx'", "auto, ids, names, multi_hot"]),
        ("d.csv", labelled(OK[:3]), {}, ["validation split is empty", "'validation': 0"]),
        ("d.xlsx", "x", {}, ["d.xlsx", "'.xlsx'", ".arff, .csv, .tsv, .jsonl"]),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_clear_error(tmp_path, name, content, arguments, words):
    (tmp_path / name).write_text(content)
    message = error_of(tmp_path / name, **arguments)
    assert all(word in message for word in words), message


def test_a_file_that_is_not_utf_8(tmp_path):
    (tmp_path / "d.csv").write_bytes("text,labels\ncafé,0\n".encode("latin-1"))
    assert "d.csv: not UTF-8" in error_of(tmp_path / "d.csv")
    (tmp_path / "d.csv").write_text(labelled(OK))
    (tmp_path / "labels.txt").write_bytes("café\n".encode("latin-1"))
    assert "labels.txt: not UTF-8" in error_of(tmp_path / "d.csv")


def test_a_name_in_brackets_is_a_name(tmp_path):
    path = write(tmp_path, d_csv=labelled([("x", "(other)"), ("y", "{a}|(1)")] * 10)) / "d.csv"
    assert load_multilabel(str(path)).label_names == ["(1)", "(other)", "{a}"]


def test_a_folder_without_a_validation_file_gives_a_tenth_of_train(tmp_path):
    write(tmp_path, train_csv=labelled([(f"t{i}", str(i % 2)) for i in range(20)]), test_csv=labelled(OK))
    data = load_multilabel(str(tmp_path), seed=3)
    assert (len(data.train), len(data.validation), len(data.test)) == (18, 2, len(OK))
    assert {*data.train["text"], *data.validation["text"]} == {f"t{i}" for i in range(20)}
    assert "no validation split: 2 rows from train, stratified by label (seed 3)." in data.notes
    origin = data.origins["validation"].of(0)
    assert origin["source"].endswith("train.csv") and data.validation["text"][0] == f"t{origin['line'] - 2}"


def test_names_of_files_in_upper_case_are_known(tmp_path):
    for folder, names in (
        ("lower", ("train.csv", "val.csv", "test.tsv")),
        ("upper", ("Train.csv", "VAL.CSV", "Test.TSV")),
    ):
        (tmp_path / folder).mkdir()
        for name, separator in zip(names, ",,\t", strict=True):
            rows = [(f"{name.lower()} {i}", str(i % 2)) for i in range(10)]
            (tmp_path / folder / name).write_text("\n".join(map(separator.join, [("text", "labels"), *rows])))
    lower, upper = (load_multilabel(str(tmp_path / folder)) for folder in ("lower", "upper"))
    assert all(getattr(lower, split)[:] == getattr(upper, split)[:] for split in ("train", "validation", "test"))
    (tmp_path / "upper" / "training.CSV").write_text("text,labels\nx,1\n")
    assert "two files for the train split: Train.csv, training.CSV" in error_of(tmp_path / "upper")
    lower.train.to_parquet(tmp_path / "Train.PARQUET")
    for path in (tmp_path / "Train.PARQUET", tmp_path / "upper" / "VAL.CSV"):
        assert len(load_multilabel(str(path), label_format="multi_hot" if "PAR" in path.name else "auto").train) == 8


def test_files_are_of_the_splits_that_their_names_contain_unless_one_is_called_train(tmp_path):
    def write(name, size, kind="csv"):
        rows = "".join(f"{name} {i},{i % 2}\n" for i in range(size))
        (tmp_path / f"{name}.{kind}").write_text(f"text,labels\n{rows}")

    def sizes(data):
        return [0 if part is None else len(part) for part in (data.train, data.validation, data.test)]

    write("blood_test", 20)
    assert sizes(load_multilabel(str(tmp_path))) == [16, 2, 2]  # a single file has no splits
    (tmp_path / "blood_test.csv").unlink()
    for name, size in (("my_train", 9), ("my-val", 8), ("test", 7), ("test_public", 6), ("more", 5)):
        write(name, size)
    data = load_multilabel(str(tmp_path))
    assert sizes(data) == [9, 8, 7]
    left = ("more.csv", "test_public.csv")
    assert data.notes[:2] == [f"{name} is not read: its name is not that of a split." for name in left]
    write("our-train", 1)
    assert "two files for the train split: my_train.csv, our-train.csv. Keep one." in error_of(tmp_path)
    write("train", 10)
    write("notes_val", 1, "txt")
    data = load_multilabel(str(tmp_path))
    assert sizes(data) == [9, 1, 7] and "my-val.csv is not read: its name is not that of a split." in data.notes


def test_texts_in_folders_of_their_class_are_no_table(tmp_path):
    for name in ("joy", "fear"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.txt").write_text("x")
    assert "Texts in folders of their class are not read: write a .csv" in error_of(tmp_path)


HEADED = {"train_csv": labelled(OK), "dev_csv": labelled(OK[:2])}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"dev_csv": HEADED["dev_csv"]}, ["no file for the train split", "training", "found dev.csv"]),
        ({"data_csv": "x", "more_csv": "x"}, ["no file for the train split", "found data.csv, more.csv", "single"]),
        ({}, ["no file for the train split", "found nothing"]),
        ({**HEADED, "dev_tsv": "x"}, ["two files for the validation split", "dev.csv, dev.tsv"]),
        ({**HEADED, "dev_csv": "text,labels\n"}, ["dev.csv is empty", "no rows"]),
        ({**HEADED, "dev_csv": table(["text", "label"], OK)}, ["dev.csv", "Did you mean 'label'?"]),
        ({**HEADED, "dev_csv": table(["texts", "labels"], OK)}, ["dev.csv", "Did you mean 'texts'?"]),
        (
            {**HEADED, "labels_txt": "joy\n"},
            ["train.csv, line 3", "'1'", "range 0..0 of 1 labels", "labels.txt has 1 name: add"],
        ),
        (
            {**HEADED, "train_csv": labelled([("a", "0,2")] * 9), "id2label_json": '{"0": "a", "1": "b"}'},
            ["train.csv, line 2", "label '2' is not an id in the range 0..1", "id2label.json has 2 names: add"],
        ),
        ({**HEADED, "labels_txt": "joy\n\nfear\n"}, ["labels.txt", "one label per line", "''"]),
        ({**HEADED, "labels_txt": "joy\njoy\n"}, ["labels.txt", "each once", "'joy'"]),
        ({**HEADED, "labels_txt": ""}, ["labels.txt", "one label per line"]),
        (
            {**HEADED, "dev_csv": labelled([("v", "jot")]), "labels_txt": "joy\n0\n1\n"},
            ["dev.csv, line 2", "'jot'", "not one of the 3 known labels", "Did you mean 'joy'?", "labels.txt has 3 n"],
        ),
        (
            {**HEADED, "train_csv": labelled([("a", "1,0")] * 9), "labels_txt": "a\nb\n",
             "dev_csv": labelled([("a", "0,0,1")])},
            ["dev.csv, line 2", "3 entries, expected 2", "labels.txt has 2 names: add the missing"],
        ),
    ],
)  # fmt: skip
def test_a_bad_folder_is_one_clear_error(tmp_path, files, words):
    message = error_of(write(tmp_path / "set", **files))
    assert all(word in message for word in words), message


# Names


def test_a_folder_of_named_sets_that_is_not_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "text,labels\n" + "".join(f"a{i},{'xy'[i % 2]}\n" for i in range(30))
    for folder in (tmp_path / "all" / "mlc" / "set", tmp_path / "other"):
        folder.mkdir(parents=True)
        (folder / "train.csv").write_text(rows)
    assert load_multilabel("set", data_dir="all").name == "set"
    assert load_multilabel("other", data_dir=".").name == "other"
    frame = pd.DataFrame({"text": ["a", "b"], "labels": [["x"], ["y"]]})
    found = {None: "digits is embedded", "digit_images": "digit_images is embedded", "a/b": "a/b is a Hub id"}
    found |= {"other": "other is a path", "other/train.csv": "other/train.csv is a path"}
    for given, what in (*found.items(), (frame, "a table is given")):
        with pytest.raises(DataError, match=f"`data_dir` is 'all', a folder of named data sets, but {what}. Leave it"):
            load_multilabel(given, data_dir="all")
    for load, name in ((load_tags, "toy_tags"), (load_trees, "toy_trees"), (load_masks, "digits")):
        with pytest.raises(DataError, match=f"`data_dir` is 'all', .*, but {name} is embedded"):
            load(None, data_dir="all")


def test_an_unknown_name_says_what_was_tried(tmp_path, monkeypatch):
    monkeypatch.delenv("SEAL_HF_DATA", raising=False)
    (tmp_path / "mlc" / "bibtex").mkdir(parents=True)
    with pytest.raises(DataError, match="'bibtext' not found: no such folder or file.*no data_dir was given"):
        load_multilabel("bibtext")
    with pytest.raises(DataError) as error:
        load_multilabel("bibtext", data_dir=str(tmp_path))
    words = ["'bibtext' not found", f"{tmp_path} and its folders", "not a Hub id", "Did you mean 'bibtex'?"]
    assert all(word in str(error.value) for word in words)
    monkeypatch.setenv("SEAL_HF_DATA", str(tmp_path))
    with pytest.raises(DataError, match="Did you mean 'bibtex'"):
        kind_of("bibtext")
    with pytest.raises(DataError, match="not found"):
        load_multilabel("folder/missing.csv")


def test_kind_is_known_without_reading(tmp_path):
    write(tmp_path / "arff", x_arff="broken")
    write(tmp_path / "text", train_csv="broken")
    assert kind_of(str(tmp_path / "arff")) == kind_of("arff", str(tmp_path)) == "features"
    assert kind_of(str(tmp_path / "text")) == kind_of("owner/name") == "text"


# The Hub

CLIENT = """
import json
from seal_hf.data import DataError, kind_of, load_multilabel
assert kind_of("user/data") == "text"
found = {}
for name in ("user/data", "user/data:again", "user/lists", "user/none"):
    try:
        data = load_multilabel(name, seed=5)
        splits = {s: getattr(data, s) for s in ("train", "validation", "test") if getattr(data, s) is not None}
        rows = {s: [(row["text"], list(row["labels"])) for row in part] for s, part in splits.items()}
        found[name] = {"rows": rows, "labels": data.label_names, "notes": data.notes, "name": data.name}
    except DataError as error:
        found[name] = str(error)
print(json.dumps(found))
"""


def hub_set(hub: FakeHub, name: str, files: dict[str, str]) -> None:
    hub.repos["dataset", name] = Repo({}, {})
    hub.repos["dataset", name].add_commit("main", {path: text.encode() for path, text in files.items()}, "data")


@pytest.mark.long
def test_a_hub_data_set_without_validation_split(tmp_path):
    rows = [(f"t{i}", "joy|fear" if i % 2 else "joy") for i in range(20)]
    with FakeHub() as hub:
        hub_set(
            hub,
            "user/data",
            {"train.csv": labelled(rows), "test.csv": labelled([("x", "fear")])},
        )
        hub_set(hub, "user/lists", {"train.jsonl": jsonl([{"text": f"t{i}", "labels": [i % 2]} for i in range(20)])})
        run = subprocess.run(
            [sys.executable, "-c", CLIENT], env=hub.environment(tmp_path), capture_output=True, text=True, timeout=120
        )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    csv_set, lists = found["user/data"], found["user/lists"]
    assert (csv_set["name"], csv_set["labels"]) == ("data", ["fear", "joy"])
    assert {split: len(part) for split, part in csv_set["rows"].items()} == {"train": 18, "validation": 2, "test": 1}
    seen = dict(map(tuple, csv_set["rows"]["train"] + csv_set["rows"]["validation"]))
    assert seen == {text: [float("fear" in cell), 1.0] for text, cell in rows}  # all rows, each with its own labels
    assert csv_set["rows"]["test"] == [["x", [1.0, 0.0]]]
    assert "no validation split: 2 rows from train, stratified by label (seed 5)." in csv_set["notes"]
    assert {split: len(part) for split, part in lists["rows"].items()} == {"train": 16, "validation": 2, "test": 2}
    assert all(
        labels == [float(int(t[1:]) % 2 == i) for i in (0, 1)] for part in lists["rows"].values() for t, labels in part
    )
    for name in ("user/none", "user/data:again"):
        assert f"Hub data set {name!r} could not be loaded, and there is no such file" in found[name]


def test_texts_that_are_empty_and_labels_that_train_has_not_are_noted(tmp_path):
    for split, rows in {
        "train": [("a", "x"), (" ", "y"), ("b", "x|y")],
        "dev": [("c", "x|z"), ("", "y")],
        "test": [("d", "w")],
    }.items():
        (tmp_path / f"{split}.csv").write_text(labelled(rows))
    notes = load_multilabel(str(tmp_path)).notes
    assert "2 of 6 texts are empty (kept)." in notes
    assert "2 of 4 labels occur outside train only (kept): w, z." in notes
    (tmp_path / "test.csv").write_text(labelled([("", "x"), (" ", "y")]))
    with pytest.raises(DataError, match="test.*: all 2 texts are empty or null, in column 'text'"):
        load_multilabel(str(tmp_path))


SOFT = [[0.9, 0.2, 0.5], [0.0, 1.0, 0.25]] * 20


@pytest.mark.parametrize("form", ("mappings", "lists", "columns"))
def test_probabilities_are_kept_for_the_task_loss(tmp_path, form):
    """Oracle: the numbers that were written. Everything else reads the labels from 0.5 on."""
    cells = {
        "mappings": lambda row: {"labels": json.dumps({name: p for name, p in zip("abc", row, strict=True) if p})},
        "lists": lambda row: {"labels": json.dumps(row)},
        "columns": lambda row: dict(zip("abc", row, strict=True)),
    }[form]
    rows = [{"text": f"a text, {i}", **cells(row)} for i, row in enumerate(SOFT)]
    pd.DataFrame(rows).to_csv(tmp_path / "train.csv", index=False)
    pd.DataFrame(rows[:4]).to_csv(tmp_path / "valid.csv", index=False)
    (tmp_path / "classes.txt").write_text("a\nb\nc\n")
    asked = {"label_columns": "a,b,c"} if form == "columns" else {}
    data = load_multilabel(str(tmp_path), label_format="probabilities", max_train_rows=30, **asked)
    assert data.label_names == ["a", "b", "c"] and "soft_labels" not in data.validation.column_names
    assert np.allclose(data.train["soft_labels"][:], SOFT[:30])
    assert np.array_equal(data.train["labels"][:], np.array(SOFT[:30]) >= 0.5)
    rows[7] |= cells([0.1, 1.5, 0.0])
    pd.DataFrame(rows).to_csv(tmp_path / "train.csv", index=False)
    with pytest.raises(
        DataError, match=r"train.csv, line 9: the probability of .* is '?1.5'?; expected a number from 0"
    ):
        load_multilabel(str(tmp_path), label_format="probabilities", **asked)
