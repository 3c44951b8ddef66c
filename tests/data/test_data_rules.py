"""Rules of the loaders that a guess could get silently wrong; the expected rows are written out by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from seal_hf.data import DataError, load_multilabel

XML = '<labels xmlns="http://mulan.sourceforge.net/labels"><label name="L"></label></labels>'
HEADER = "@relation r\n@attribute x numeric\n@attribute L {0,1}\n@data\n"


def write(folder: Path, **files: str) -> Path:
    """Files by name, with `__` for the dot."""
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content, encoding="utf-8")
    return folder


def labels_by_text(data) -> dict[str, list[int]]:
    rows = [row for split in (data.train, data.validation, data.test) if split is not None for row in split]
    return {row["text"]: [int(v) for v in row["labels"]] for row in rows}


def table(cells: list[str], separator: str = "\t") -> str:
    return f"text{separator}labels\n" + "".join(f"t{i}{separator}{cell}\n" for i, cell in enumerate(cells))


# Text: the format of label cells


def test_multi_hot_rows_without_a_repeated_value_are_not_read_as_ids(tmp_path):
    data = load_multilabel(str(write(tmp_path, d__tsv=table(["0,1", "1,0"] * 10)) / "d.tsv"))
    assert labels_by_text(data) == {f"t{i}": [0, 1] if i % 2 == 0 else [1, 0] for i in range(20)}
    assert "If they are ids, each row has both labels: give label_format='ids'" in " ".join(data.notes)
    for cells, options in ((["0,1", "1,0"] * 10, {"label_format": "ids"}), (["0,1,1", "1,0,0"] * 10, {})):
        data = load_multilabel(str(write(tmp_path, d__tsv=table(cells)) / "d.tsv"), **options)
        assert "If they are ids" not in " ".join(data.notes)


@pytest.mark.parametrize("cells", [["0", "1"] * 10, ["0,1", "1", "", "0"] * 5])
def test_ids_zero_and_one_of_other_lengths_stay_ids(tmp_path, cells):
    data = load_multilabel(str(write(tmp_path, d__tsv=table(cells)) / "d.tsv"))
    expected = {f"t{i}": [int(str(label) in cell.split(",")) for label in (0, 1)] for i, cell in enumerate(cells)}
    assert labels_by_text(data) == expected


def test_a_list_of_names_of_another_length_says_that_these_are_ids(tmp_path):
    write(tmp_path, labels__txt="a\nb\nc\n", d__tsv=table(["0,1", "1,0"] * 10))
    assert set(map(tuple, labels_by_text(load_multilabel(str(tmp_path / "d.tsv"))).values())) == {(1, 1, 0)}


def test_a_tsv_with_header_is_unquoted_as_a_csv_and_keeps_stray_quotes(tmp_path):
    rows = ['"[""joy"", ""fear""]"', '"[""fear""]"'] * 10
    content = table(rows) + 'say "hi" again\t[]\n"whole ""cell"""\t[]\n"open\t[]\n'
    data = load_multilabel(str(write(tmp_path, d__tsv=content) / "d.tsv"))
    assert data.label_names == ["fear", "joy"]
    expected = {f"t{i}": [1, 1 - i % 2] for i in range(20)}
    assert labels_by_text(data) == {**expected, 'say "hi" again': [0, 0], 'whole "cell"': [0, 0], '"open': [0, 0]}


def test_a_headerless_tsv_is_taken_as_it_is(tmp_path):
    rows = '"all quoted"\t1\tx1\n"open\t0,1\tx2\n'
    write(tmp_path, labels__txt="a\nb\n", train__tsv=rows, dev__tsv='no "label"\t\tx3\n')
    assert labels_by_text(load_multilabel(str(tmp_path))) == {
        '"all quoted"': [0, 1],
        '"open': [1, 1],
        'no "label"': [0, 0],
    }


def test_labels_txt_beside_a_single_file_gives_its_names_and_range(tmp_path):
    write(tmp_path, labels__txt="a\nb\nc\n", d__csv=table(["0", "1"] * 10, ","), wrong__csv=table(["0", "3"] * 10, ","))
    data = load_multilabel(str(tmp_path / "d.csv"))
    assert data.label_names == ["a", "b", "c"] and "label names from labels.txt." in data.notes
    with pytest.raises(DataError, match=r"label '3' is not an id in the range 0\.\.2"):
        load_multilabel(str(tmp_path / "wrong.csv"))


# Mulan: which file, which XML


def test_folds_json_splits_the_whole_file_also_beside_train_and_test_files(tmp_path):
    rows = [f"{i},{i % 2}\n" for i in range(20)]
    folds = [[2 * i, 2 * i + 1] for i in reversed(range(10))]
    write(tmp_path, m__xml=XML, folds__json=json.dumps({"rows": 20, "labels": 1, "folds": folds}))
    (tmp_path / "m.arff").write_text(HEADER + "".join(rows))
    (tmp_path / "m-train.arff").write_text(HEADER + "".join(rows[:12]))
    (tmp_path / "m-test.arff").write_text(HEADER + "".join(rows[12:]))
    data = load_multilabel(str(tmp_path))
    expected = {"train": folds[:6], "validation": folds[6:8], "test": folds[8:]}
    for split, parts in expected.items():
        ids = np.array(getattr(data, split)["features"])[:, 0]
        assert ids.tolist() == [i for part in parts for i in part]


def test_the_only_xml_of_the_folder_names_the_labels_of_a_renamed_file(tmp_path):
    write(tmp_path, m__xml=XML)
    (tmp_path / "m-train.arff").write_text(HEADER + "".join(f"{i},{i % 2}\n" for i in range(20)))
    data = load_multilabel(str(tmp_path / "m-train.arff"))
    assert (data.label_names, data.feature_names) == (["L"], ["x"])
    write(tmp_path, n__xml=XML)
    with pytest.raises(DataError, match="m-train.xml is missing"):
        load_multilabel(str(tmp_path / "m-train.arff"))


def test_an_unknown_normalisation_is_refused_for_text_too(tmp_path):
    path = write(tmp_path, d__tsv=table(["0", "1"] * 10)) / "d.tsv"
    with pytest.raises(DataError, match="`normalize` is 'zscore'; it must be one of none, minmax, standard"):
        load_multilabel(str(path), normalize="zscore")


def test_a_file_too_short_to_be_split_says_how_many_rows_it_takes(tmp_path):
    with pytest.raises(DataError, match="validation split is empty.*at least 10 rows"):
        load_multilabel(str(write(tmp_path, d__tsv=table(["0", "1"])) / "d.tsv"))
    assert len(load_multilabel(str(write(tmp_path, e__tsv=table(["0", "1"] * 5)) / "e.tsv")).validation) == 1


# Clus: every nominal is one-hot, as the counts of the data sets say


def test_clus_two_valued_nominals_are_one_hot_and_zero_where_missing(tmp_path):
    header = "@relation r\n@attribute x numeric\n@attribute b {no,yes}\n@attribute class hierarchical 01,01/02\n@data\n"
    rows = {"train": "1,yes,01\n3,?,01/02\n", "valid": "?,no,01\n", "test": "5,yes,01/02@01\n"}
    for word, body in rows.items():
        (tmp_path / f"m.{word}.arff").write_text(header + body)
    data = load_multilabel(str(tmp_path))
    assert data.feature_names == ["x", "b=no", "b=yes"]
    assert data.train["features"][:] == [[1, 0, 1], [3, 0, 0]]
    assert data.validation["features"][:] == [[2, 1, 0]]  # the mean of 1 and 3
    assert data.test["features"][:] == [[5, 0, 1]]


def test_spo_fun_has_86_features(shared_data):
    assert load_multilabel(str(shared_data / "mlc" / "spo_fun")).num_features == 86
