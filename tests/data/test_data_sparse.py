"""LIBSVM files against scikit-learn's reader, in splits, in predictions and in rows without labels."""

import json

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_svmlight_files

from seal_hf import DataError, SealForMultiLabel, load_multilabel
from seal_hf.cli.predict import evaluate
from seal_hf.data.label_rows import FeatureTable
from seal_hf.data.table_sources import open_table
from seal_hf.tasks.labels import program as multilabel

X = np.random.default_rng(0).integers(1, 9, size=(30, 6)).astype(float)
X[20:, 0] = 0  # the last rows lack the first feature and the last one
X[20:, 5] = 0
Y = np.array([[i % 2 == 0, i % 3 == 0, i % 5 < 2] for i in range(30)], dtype=int)


def write(path, rows, zero_based):
    dump_svmlight_file(X[rows], Y[rows], str(path), multilabel=True, zero_based=zero_based)
    return path


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("widest", ["train", "test"])
def test_splits_are_numbered_alike(tmp_path, zero_based, widest):
    parts = {"train": slice(0, 20), "test": slice(20, 30)} if widest == "train" else {"train": slice(20, 30)}
    parts |= {"validation": slice(0, 20), "test": slice(0, 20)} if widest == "test" else {"validation": slice(20, 30)}
    files = {split: write(tmp_path / f"{split}.svm", rows, zero_based) for split, rows in parts.items()}
    data = load_multilabel(str(tmp_path), normalize="none")
    read = load_svmlight_files([*map(str, files.values())], multilabel=True)[::2]
    for split, expected in zip(files, read, strict=True):
        np.testing.assert_array_equal(getattr(data, split)["features"][:], expected.toarray())
    assert data.columns["first_index"] == 1 - zero_based
    lacks = [note for note in data.notes if "come after the last one" in note]
    assert lacks == (
        []
        if widest == "train"
        else ["1 of 6 features come after the last one of train.svm, where they are 0 in all rows."]
    )


@pytest.mark.parametrize("zero_based", [True, False])
def test_a_model_reads_rows_as_in_training(tmp_path, zero_based):
    write(tmp_path / "all.svm", slice(0, 20), zero_based)
    flags = "--use_cpu --num_train_epochs 1 --report_to none --report false --disable_tqdm true --loss ce".split()
    out = tmp_path / "out"
    multilabel.main([*flags, "--dataset", str(tmp_path / "all.svm"), "--output_dir", str(out)])
    model = SealForMultiLabel.from_pretrained(out)
    assert model.config.inputs["first_index"] == 1 - zero_based
    new = write(tmp_path / "new.svm", slice(20, 30), zero_based)
    (chunk,) = FeatureTable(open_table(str(new)), 6, trained=model.config.inputs).chunks(10)
    np.testing.assert_array_equal(chunk.inputs, X[20:])
    lists = tmp_path / "new.jsonl"
    lists.write_text(
        "".join(
            json.dumps({"features": X[i].tolist(), "labels": np.flatnonzero(Y[i]).tolist()}) + "\n"
            for i in range(20, 30)
        ),
        encoding="utf-8",
    )
    figures = []
    for source in (new, lists):
        output = tmp_path / f"{source.suffix}.json"
        evaluate(["--model", str(out), "--input", str(source), "--output", str(output)])
        figures.append(json.loads(output.read_text())["figures"])
    assert figures[0] == figures[1]
    with pytest.raises(DataError, match=r"new.svm, line 1: the feature '\d:\d' is not among the 6 that are read"):
        other = write(tmp_path / "new.svm", slice(0, 20), not zero_based)
        list(FeatureTable(open_table(str(other)), 6, trained={"first_index": 1 - zero_based}).chunks(10))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("0 1:5 2:3 1:9\n", "line 1: the feature 1 occurs twice"),
        ("0 1:5\n1 x\n", "line 2: 'x' is no feature; expected index:value"),
        ("a 1:5\n", "line 1: the labels are 'a'; expected ids with commas"),
        ("3 2 2\n0 0:5\n1 1:2\n", "line 1 declares 3 rows, but there are 2. The file may end early"),
        ("1 2 2\n0 0:5\n1 1:2\n", "line 1 declares 1 rows, but there are 2. .*two were joined"),
        ("2 2 2\n0 0:5\n0,2 1:2\n", "line 3: the label 2 is not below 2, the number of labels in line 1"),
    ],
)
def test_mistakes_name_the_line(tmp_path, lines, message):
    path = tmp_path / ("a.svm" if ":" in lines.partition("\n")[0] else "a.txt")
    path.write_text(lines, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        load_multilabel(str(path))


def test_tabs_are_white_space(tmp_path):
    (tmp_path / "a.svm").write_text("0,1\t1:5\t2:0.5\n1 2:3\n" * 10, encoding="utf-8")
    data = load_multilabel(str(tmp_path / "a.svm"), normalize="none")
    assert {tuple(row) for row in data.train["features"][:]} == {(5, 0.5), (0, 3)}
    (tmp_path / "a.txt").write_text(
        "__label__a\thello you\n__label__a, __label__b , see  there,\tyou\n" * 10, encoding="utf-8"
    )
    data = load_multilabel(str(tmp_path / "a.txt"))
    assert set(data.train["text"]) == {"hello you", "see  there,\tyou"} and data.label_names == ["a", "b"]
