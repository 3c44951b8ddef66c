"""ARFF data: real sets against published counts, small files against liac-arff, Clus closure by brute force, errors."""

import json
from functools import cache
from pathlib import Path

import arff
import numpy as np
import pytest

from seal_hf.data import DataError, kind_of, load_multilabel
from seal_hf.metrics import example_f1

SPLITS = ("train", "validation", "test")


def arrays(split) -> tuple[np.ndarray, np.ndarray]:
    columns = split.with_format("numpy")[:]
    return columns["features"], columns["labels"]


def stacked(data) -> tuple[np.ndarray, np.ndarray]:
    parts = [arrays(getattr(data, split)) for split in SPLITS]
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


@cache
def real(path: Path):
    if not path.is_dir():
        pytest.skip(f"{path.name} is not there")
    return load_multilabel(str(path))


# The real sets. Figures: the table of the shared data (rows by split, labels, features, labels per row).
REAL = {
    "bibtex": ((4411, 1487, 1497), 159, 1836, 2.40),
    "delicious": ((9683, 3215, 3207), 983, 500, 19.0),
    "genbase": ((398, 132, 132), 27, 1185, 1.25),
    "cal500": ((301, 100, 101), 174, 68, 26.0),
    "spo_fun": ((1600, 837, 1266), 499, 86, None),  # its {no,yes} attributes are two columns each, as in any Clus file
    "seq_fun": ((1701, 879, 1339), 499, 529, None),
}


LARGE = ("bibtex", "delicious")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in LARGE)) for name in REAL])
def test_real_sets_have_the_published_counts(shared_data, name):
    rows, labels, features, cardinality = REAL[name]
    data = real(shared_data / "mlc" / name)
    assert (data.name, data.kind) == (name, "features")
    assert tuple(len(getattr(data, split)) for split in SPLITS) == rows
    assert len(data.label_names) == len(set(data.label_names)) == labels
    assert data.num_features == len(set(data.feature_names)) == features
    x, y = stacked(data)
    assert x.shape == (sum(rows), features) and y.shape == (sum(rows), labels)
    assert np.isfinite(x).all() and ((y == 0) | (y == 1)).all() and 0 < y.mean() < 1
    if cardinality:
        assert y.sum(1).mean() == pytest.approx(cardinality, abs=0.05)
    if name in ("bibtex", "delicious", "genbase"):
        assert ((x == 0) | (x == 1)).all() and 0 < x.mean() < 1


@pytest.mark.long
def test_delicious_keeps_and_counts_rows_without_labels_and_names_without_backslashes(shared_data):
    data = real(shared_data / "mlc" / "delicious")
    assert (stacked(data)[1].sum(1) == 0).sum() == 14
    assert any(note.startswith("14 of 16105 rows") for note in data.notes)
    assert {"TAG_m'usica", "TAG_dise~no"} <= set(data.label_names)  # written \' and \~ in both files


def test_cal500_equals_liac_arff_row_by_row(shared_data):
    folder = shared_data / "mlc" / "cal500"
    data = real(folder)
    with open(folder / "cal500.arff", encoding="utf-8") as file:
        content = arff.load(file)
    values = np.array([[float(v) for v in row] for row in content["data"]], dtype=np.float32)
    names = [name for name, _ in content["attributes"]]
    folds = json.loads((folder / "folds.json").read_text())["folds"]
    for split, parts in {"train": folds[:6], "validation": folds[6:8], "test": folds[8:]}.items():
        rows = values[[i for part in parts for i in part]]
        x, y = arrays(getattr(data, split))
        np.testing.assert_array_equal(x, rows[:, [names.index(name) for name in data.feature_names]])
        np.testing.assert_array_equal(y, rows[:, [names.index(name) for name in data.label_names]])


def test_genbase_identifier_is_dropped_or_kept(shared_data):
    folder = shared_data / "mlc" / "genbase"
    dropped, kept = real(folder), load_multilabel(str(folder), keep_id=True)
    assert dropped.notes[:2] == [
        "identifier attribute protein dropped.",
        "1 of 27 labels occur outside train only (kept): PDOC00653.",
    ]
    assert kept.feature_names == ["protein", *dropped.feature_names]
    (x, y), (x_id, y_id) = stacked(dropped), stacked(kept)
    np.testing.assert_array_equal(np.sort(x_id[:, 0]), np.arange(662))
    np.testing.assert_array_equal(x_id[:, 1:], x)
    np.testing.assert_array_equal(y_id, y)


@pytest.mark.parametrize("name", ["spo_fun", "seq_fun"])
def test_clus_labels_are_closed_under_ancestors(shared_data, name):
    folder = shared_data / "mlc" / name
    data = real(folder)

    def closure(paths):
        return {"/".join(path.split("/")[:n]) for path in paths for n in range(1, path.count("/") + 2)}

    def text(word):
        return next(folder.glob(f"*.{word}.arff")).read_text()

    declared = next(line for line in text("train").splitlines() if " hierarchical " in line)
    assert set(data.label_names) == closure(declared.split()[-1].split(","))
    for split, word in {"train": "train", "validation": "valid", "test": "test"}.items():
        body = text(word).split("@DATA", 1)[1].strip().splitlines()
        labels = arrays(getattr(data, split))[1]
        for line, row in zip(body, labels, strict=True):
            expected = closure(line.strip().rsplit(",", 1)[1].split("@"))
            assert {data.label_names[i] for i in np.flatnonzero(row)} == expected


def test_clus_missing_numbers_take_the_mean_of_their_column_in_train(shared_data):
    folder = shared_data / "mlc" / "seq_fun"  # (spo_fun misses nominals alone)
    data = real(folder)
    lines = next(folder.glob("*.train.arff")).read_text().splitlines()
    header = [line.split()[1:3] for line in lines if line.upper().startswith("@ATTRIBUTE")]
    numeric = [i for i, (_, kind) in enumerate(header) if kind.lower() == "numeric"]
    columns = [data.feature_names.index(header[i][0]) for i in numeric]
    raw = {}
    for split, word in {"train": "train", "validation": "valid", "test": "test"}.items():
        body = next(folder.glob(f"*.{word}.arff")).read_text().split("@DATA", 1)[1].split()
        raw[split] = np.genfromtxt(body, delimiter=",", usecols=numeric)  # `?` becomes NaN
        expected = np.where(np.isnan(raw[split]), np.nanmean(raw["train"], axis=0), raw[split])
        np.testing.assert_allclose(arrays(getattr(data, split))[0][:, columns], expected, rtol=1e-5)
    missing = sum(np.isnan(values).sum() for values in raw.values())
    assert missing == 30 and any(note.startswith(f"{missing} missing numeric values") for note in data.notes)


# Small files: a Mulan folder is written from its attributes and rows.


def write(folder: Path, attributes, rows, labels=("a", "b"), folds=None, name="toy") -> Path:
    folder.mkdir(exist_ok=True)
    header = "".join(f"@attribute {attribute}\n" for attribute in attributes)
    body = "".join(f"{row}\n" for row in rows)
    (folder / f"{name}.arff").write_text(f"% comment\n@relation toy\n\n{header}\n@data\n{body}", encoding="utf-8")
    tags = "".join(f'<label name="{label}"></label>' for label in labels)
    (folder / "toy.xml").write_text(f'<labels xmlns="http://mulan.sourceforge.net/labels">{tags}</labels>')
    if folds is not None:
        (folder / "folds.json").write_text(json.dumps(folds))
    return folder


def load(folder: Path, **arguments):
    return load_multilabel(str(folder), **arguments)


def error_of(folder: Path, **arguments) -> str:
    with pytest.raises(DataError) as error:
        load(folder, **arguments)
    return str(error.value)


ATTRIBUTES = ["x numeric", "a {0,1}", "b {0,1}"]
ROWS = [f"{i}.5,{i % 2},{int(i < 5)}" for i in range(10)]
FILE_ORDER = {"rows": 10, "folds": [[i] for i in range(10)]}  # the splits in order are then the rows of the file


def test_dense_rows_equal_liac_arff_in_the_order_of_the_folds(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{rng.normal():.6g},{i % 2},{rng.normal():.3e},{i % 3 % 2}" for i in range(10)]
    order = [3, 1, 4, 0, 5, 9, 2, 6, 8, 7]
    attributes = ["x numeric", "a {0,1}", "y real", "b {1,0}"]  # labels are not at the end
    folder = write(tmp_path / "d", attributes, rows, labels=("b", "a"), folds={"folds": [[i] for i in order]})
    parsed = np.array(arff.loads((folder / "toy.arff").read_text())["data"]).astype(np.float32)[order]
    for path in (folder, folder / "toy.arff"):
        data = load(path)
        assert [len(getattr(data, split)) for split in SPLITS] == [6, 2, 2]
        assert (data.name, data.feature_names, data.label_names) == ("toy", ["x", "y"], ["b", "a"])  # as in the XML
        x, y = stacked(data)
        np.testing.assert_array_equal(x, parsed[:, [0, 2]])
        np.testing.assert_array_equal(y, parsed[:, [3, 1]])
        assert kind_of(str(path)) == "features"


def test_sparse_rows_equal_liac_arff_and_the_same_rows_written_densely(tmp_path):
    attributes = ["x numeric", "n {p,q,r}", "f {YES,NO}", "a {0,1}", "b {0,1}"]
    sparse = ["{0 1.5,1 q,3 1}", "{}", "{2 NO,4 1}", "{1 r}"] + ["{0 -2,3 1,4 1}"] * 6
    # what is absent is 0, or the first value of a nominal: p and YES
    dense = ["1.5,q,YES,1,0", "0,p,YES,0,0", "0,p,NO,0,1", "0,r,YES,0,0"] + ["-2,p,YES,1,1"] * 6
    one = load(write(tmp_path / "sparse", attributes, sparse, folds=FILE_ORDER))
    two = load(write(tmp_path / "dense", attributes, dense, folds=FILE_ORDER))
    assert one.feature_names == two.feature_names == ["x", "n=p", "n=q", "n=r", "f"]
    x, y = stacked(one)
    for a, b in zip((x, y), stacked(two), strict=True):
        np.testing.assert_array_equal(a, b)
    parsed = arff.loads((tmp_path / "sparse" / "toy.arff").read_text(), return_type=arff.LOD)["data"]
    np.testing.assert_array_equal(x[:, 0], [row.get(0, 0) for row in parsed])
    np.testing.assert_array_equal(y, [[float(row.get(j, 0)) for j in (3, 4)] for row in parsed])
    np.testing.assert_array_equal(x[:4, 1:], [[0, 1, 0, 1], [1, 0, 0, 1], [1, 0, 0, 0], [0, 0, 1, 1]])
    assert "2 of 10 rows have no label (kept)." in one.notes


@pytest.mark.parametrize(
    ("kind", "cells", "columns"),
    [
        ("{YES,NO}", ["YES", "NO"], {"f": [1, 0]}),
        ("{NO, YES}", ["YES", "NO"], {"f": [1, 0]}),
        ("{false,true}", ["true", "false"], {"f": [1, 0]}),
        ("{1}", ["1", "1"], {"f": [1, 1]}),  # as delicious declares labels that are always on
        ("{w,c}", ["w", "c"], {"f=w": [1, 0], "f=c": [0, 1]}),
        ("{0,1,2}", ["2", "?"], {"f=0": [0, 0], "f=1": [0, 0], "f=2": [1, 0]}),  # missing: zeros
        ("{'two words',\"it's\"}", ["'two words'", '"it\'s"'], {"f=two words": [1, 0], "f=it's": [0, 1]}),
    ],
)
def test_nominals_become_numbers(tmp_path, kind, cells, columns):
    rows = [f"{cells[i % 2]},{i % 2},1" for i in range(10)]
    data = load(write(tmp_path, [f"f {kind}", "a {0,1}", "b {0,1}"], rows, folds=FILE_ORDER))
    assert data.feature_names == list(columns)
    np.testing.assert_array_equal(stacked(data)[0][:2], np.array(list(columns.values())).T)


def test_quoted_names_with_escaped_quotes_and_backslashes(tmp_path):
    attributes = [r"'it\'s x' numeric", r'"5\" pipe" {0,1}', r"TAG_m\'usica {0,1}", r"'l\'' {0,1}"]
    labels = ("5&quot; pipe", r"TAG_m\'usica", "l'")  # plain, escaped as in the ARFF, plain
    data = load(write(tmp_path, attributes, [f"{i},1,0,{i % 2}" for i in range(10)], labels, FILE_ORDER))
    assert (data.feature_names, data.label_names) == (["it's x"], ['5" pipe', "TAG_m'usica", "l'"])
    np.testing.assert_array_equal(stacked(data)[1], [[1, 0, i % 2] for i in range(10)])


@pytest.mark.parametrize("kind", ["string", "{" + ",".join(f"id{i}" for i in range(20)) + "}"])
def test_an_attribute_of_different_values_is_an_identifier(tmp_path, kind):
    write(tmp_path, [f"key {kind}", *ATTRIBUTES], [f"id{i},{i},{i % 2},1" for i in range(20)])
    dropped, kept = load(tmp_path), load(tmp_path, keep_id=True)
    assert (dropped.feature_names, kept.feature_names) == (["x"], ["key", "x"])
    x = stacked(kept)[0]
    np.testing.assert_array_equal(x[:, 0], x[:, 1])  # its index is the number of the row
    assert "identifier attribute key dropped." in dropped.notes
    assert "identifier attribute key kept as an integer." in kept.notes


def test_a_number_called_id_is_a_feature_and_noted(tmp_path):
    rows = [f"{7 * i},{i},{i % 2},1" for i in range(20)]
    data = load(write(tmp_path, ["id numeric", *ATTRIBUTES], rows))
    (note,) = (note for note in data.notes if "differ in each row" in note)
    assert "features: id." in note and data.feature_names == ["id", "x"]
    assert load(write(tmp_path, ["id string", *ATTRIBUTES], rows)).feature_names == ["x"]
    assert not any(
        "differ in" in note for note in load(write(tmp_path, ["id numeric", *ATTRIBUTES], rows[:9] * 2)).notes
    )


def test_strings_that_identify_rows_are_numbered_in_one_file_alone(tmp_path):
    for part in ("train", "test"):
        folder = write(
            tmp_path, ["key string", *ATTRIBUTES], [f"{part}{i},{i},0,1" for i in range(20)], name=f"toy-{part}"
        )
    assert load(folder).feature_names == ["x"]
    with pytest.raises(DataError, match="toy-test.arff: the identifier 'key' is a string, but `keep_id` "):
        load(folder, keep_id=True)


def test_without_folds_rows_are_split_by_seed(tmp_path):
    folder = write(tmp_path, ATTRIBUTES, [f"{i},{i % 2},1" for i in range(50)])
    one, again, other = load(folder, seed=3), load(folder, seed=3), load(folder, seed=4)
    assert [len(getattr(one, split)) for split in SPLITS] == [30, 10, 10]
    x = stacked(one)[0][:, 0]
    assert sorted(x) == list(range(50))  # disjoint, and all are there
    np.testing.assert_array_equal(x, stacked(again)[0][:, 0])
    assert not np.array_equal(x, stacked(other)[0][:, 0])
    assert any("60/20/20" in note and "seed 3" in note for note in one.notes)


def test_train_and_test_files_take_validation_rows_out_of_train(tmp_path):
    for part, rows in (("train", range(20)), ("test", range(20, 25))):
        folder = write(tmp_path, ATTRIBUTES, [f"{i},{i % 2},1" for i in rows], name=f"toy-{part}")
    data = load(folder)
    assert (data.name, [len(getattr(data, split)) for split in SPLITS]) == ("toy", [16, 4, 5])
    x = stacked(data)[0][:, 0]
    assert sorted(x[:20]) == list(range(20)) and list(x[20:]) == list(range(20, 25))
    write(tmp_path, ["y numeric", *ATTRIBUTES[1:]], ["1,0,1"], name="toy-test")
    assert "toy-test.arff has other attributes than toy-train.arff" in error_of(folder)


def scaled_features(data):
    """All splits' features as the model scales them."""
    x = stacked(data)[0]
    return x if data.scaling is None else (x - data.scaling.shift) * data.scaling.scale


@pytest.mark.parametrize("kind", ["none", "minmax", "standard"])
def test_normalisation_is_fitted_on_train_and_constant_columns_become_zero(tmp_path, kind):
    rng = np.random.default_rng(0)
    raw = rng.normal(3, 5, (10, 4)).astype(np.float32)
    raw[:6, 1] = 0.1  # constant in train alone
    raw[:, 2] = np.float32(1e6 + 0.1)  # constant, of a size whose float error is no variance
    raw[6:, 3] += 100  # far outside the range of train
    attributes = [*(f"x{i} numeric" for i in range(4)), "a {0,1}", "b {0,1}"]
    rows = [",".join(f"{v:.9g}" for v in row) + ",0,1" for row in raw]
    folder = write(tmp_path, attributes, rows, folds=FILE_ORDER)
    x = scaled_features(load(folder, normalize=kind))
    train = raw[:6].astype(np.float64)
    low, high = train.min(0), train.max(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = {"minmax": (raw - low) / (high - low), "standard": (raw - train.mean(0)) / train.std(0), "none": raw}
    expected = scaled[kind] if kind == "none" else np.where(high == low, 0, scaled[kind])
    np.testing.assert_allclose(x, expected, rtol=1e-5, atol=1e-6)
    few = scaled_features(load(folder, normalize="minmax", max_train_rows=3))  # of the first rows alone
    assert len(few) == 7 and few[:3, 0].min() == 0 and few[:3, 0].max() == 1


def test_normalisation_may_leave_columns_of_0_and_1_as_they_are(tmp_path):
    """A column of 0 and 1 in train stays, whatever later rows hold; all others are as under `standard`."""
    rng = np.random.default_rng(1)
    raw = rng.normal(3, 5, (10, 4)).astype(np.float32)
    raw[:, 1] = raw[:, 1] > 3
    raw[:6, 1] = 0, 1, 0, 0, 0, 0
    raw[:, 2] = 1  # constant
    raw[:, 3] = 2 * (raw[:, 3] > 3)  # of two values, but not these
    attributes = [*(f"x{i} numeric" for i in range(4)), "a {0,1}", "b {0,1}"]
    rows = [",".join(f"{v:.9g}" for v in row) + ",0,1" for row in raw]
    folder = write(tmp_path, attributes, rows, folds=FILE_ORDER)
    some, all_scaled = (scaled_features(load(folder, normalize=kind)) for kind in ("auto", "standard"))
    np.testing.assert_array_equal(some[:, 1], raw[:, 1])
    np.testing.assert_array_equal(some[:, [0, 2, 3]], all_scaled[:, [0, 2, 3]])


# Errors: each names the file, what was found and what was expected.


@pytest.mark.parametrize(
    ("attributes", "rows", "words"),
    [
        (ATTRIBUTES, [*ROWS[:9], "9.5,1"], ["toy.arff, line 18", "2 values, expected 3", "ends early"]),
        (ATTRIBUTES, [*ROWS[:9], "9.5,1,"], ["toy.arff, line 18", "2 values, expected 3"]),
        (ATTRIBUTES, [*ROWS[:2], "1,2,3,4"], ["toy.arff, line 11", "4 values, expected 3"]),
        (ATTRIBUTES, ["{0 1,1 1}"] * 9 + ["{0 1,1"], ["toy.arff, line 18", "closing brace"]),
        (ATTRIBUTES, [], ["toy.arff", "no rows after @data"]),
        (ATTRIBUTES, ["abc,0,1"], ["toy.arff", "not readable as ARFF"]),
        (ATTRIBUTES, ["1,0,7"], ["toy.arff", "not readable as ARFF", "7"]),
        (ATTRIBUTES, ["x" * 200_000 + ",0,1"], ["toy.arff", "not readable as ARFF"]),
        (["x wat", *ATTRIBUTES[1:]], ROWS, ["toy.arff", "not readable as ARFF"]),
        (["x string", *ATTRIBUTES[1:]], ["s,0,1"] * 20, ["toy.arff", "'x'", "string", "numeric or nominal"]),
        (ATTRIBUTES, [*ROWS[:4], "?,0,1"], ["toy.arff", "missing", "row 4", "'x'"]),
        (ATTRIBUTES, [*ROWS[:4], "nan,0,1"], ["toy.arff", "NaN", "row 4", "'x'"]),
        (ATTRIBUTES, [*ROWS[:4], "-inf,0,1"], ["toy.arff", "infinite", "row 4", "'x'", "-inf"]),
        (ATTRIBUTES, [*ROWS[:4], "1e300,0,1"], ["toy.arff", "infinite", "row 4", "'x'"]),  # beyond float32
        (["x numeric", "a numeric", "b {0,1}"], ["1,2,1"], ["label 'a'", "2.0", "row 0", "0 or 1"]),
        (
            ["x numeric", "a {p,q,r}", "b {0,1}"],
            ["1,p,1"],
            ["toy.xml", "1 of 2 labels", "'a'", "with the values 0 and 1"],
        ),
        (
            ["x numeric", "a {-1,1}", "b {0,1}"],
            ["1,-1,1"],
            ["values 0 and 1, or no and yes", "'a'. Declare it as {0,1}"],
        ),
        (["x numeric", "aa {0,1}", "b {0,1}"], ["1,0,1"], ["toy.xml", "1 of 2 labels", "'a'", "Did you mean 'aa'"]),
        (ATTRIBUTES[1:], ["0,1"] * 10, ["no attribute is a feature"]),
        (ATTRIBUTES, ROWS[:2], ["validation split is empty", "'train': 1"]),
    ],
)
@pytest.mark.filterwarnings("error")
def test_bad_arff_is_one_clear_error(tmp_path, attributes, rows, words):
    message = error_of(write(tmp_path / "toy", attributes, rows))
    assert all(word in message for word in words), message


@pytest.mark.parametrize("content", ["", "@relation toy\n@attribute x numeric\n@attr", "text\n"])
def test_a_file_without_data_line(tmp_path, content):
    folder = write(tmp_path, ATTRIBUTES, ROWS)
    (folder / "toy.arff").write_text(content)
    assert "toy.arff: no @data line" in error_of(folder)


def test_a_byte_order_mark_windows_lines_and_indentation_are_read(tmp_path):
    folder = write(tmp_path, ATTRIBUTES, ROWS, folds=FILE_ORDER)
    expected = stacked(load(folder))
    text = (folder / "toy.arff").read_text().replace("@attribute", "  @ATTRIBUTE").replace("@data", " @DATA ")
    (folder / "toy.arff").write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    for a, b in zip(stacked(load(folder)), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_tabs_after_keywords_are_read(tmp_path):
    folder = write(tmp_path, ATTRIBUTES, ROWS, folds=FILE_ORDER)
    expected, text = stacked(load(folder)), (folder / "toy.arff").read_text()
    (folder / "toy.arff").write_text(text.replace("@attribute ", "@attribute\t").replace("@relation ", "@relation\t"))
    for a, b in zip(stacked(load(folder)), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_file_that_is_not_utf_8(tmp_path):
    folder = write(tmp_path, ATTRIBUTES, ROWS)
    whole = (folder / "toy.arff").read_bytes()
    (folder / "toy.arff").write_bytes("% café\n".encode("latin-1") + whole)
    load(folder)  # a comment is nobody's loss
    (folder / "toy.arff").write_bytes(whole.replace(b"toy", "tö".encode("latin-1"), 1))
    assert "toy.arff, line 2: not UTF-8" in error_of(folder)


def test_options_of_texts_are_refused(tmp_path):
    assert "`label_format` is an option of texts, but" in error_of(
        write(tmp_path, ATTRIBUTES, ROWS), label_format="names"
    )


@pytest.mark.parametrize(
    ("xml", "words"),
    [
        (None, ["toy.xml is missing", "toy.arff"]),
        ("", ["toy.xml", "not readable as XML"]),
        ('<labels><label name="a"></lab', ["toy.xml", "not readable as XML"]),
        ("<labels></labels>", ["toy.xml", "0 of 0 labels"]),
        ("<labels><label></label></labels>", ["toy.xml", "1 of 1 labels", "''"]),
        ('<labels><label name="a"/><label name="a"/></labels>', ["toy.xml", "'a' is listed twice"]),
    ],
)
def test_bad_xml_is_one_clear_error(tmp_path, xml, words):
    folder = write(tmp_path, ATTRIBUTES, ROWS)
    (folder / "toy.xml").unlink()
    if xml is not None:
        (folder / "toy.xml").write_text(xml)
    message = error_of(folder)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("folds", "words"),
    [
        ({"rows": 12, "folds": [[i] for i in range(10)]}, ["10 rows", "expects 12", "ends early"]),
        ({"folds": [[i] for i in range(9)]}, ["ten folds", "9 folds"]),
        ({"folds": [[0]] * 10}, ["every row 0..9 once"]),
        ({"folds": [[[0, 1], [2]]]}, ["folds.json", "ten lists of row numbers"]),
        ({"parts": []}, ["folds.json", "'folds'"]),
        ([1, 2], ["folds.json", "expected"]),
    ],
)
def test_bad_folds_are_one_clear_error(tmp_path, folds, words):
    message = error_of(write(tmp_path, ATTRIBUTES, ROWS, folds=folds))
    assert all(word in message for word in words), message


def test_two_arff_files_without_train_and_test_in_their_names(tmp_path):
    write(tmp_path, ATTRIBUTES, ROWS)
    write(tmp_path, ATTRIBUTES, ROWS, name="other")
    assert "expected one .arff file" in (message := error_of(tmp_path)) and "other.arff, toy.arff" in message


# Clus: three files with a class attribute

OTHER_CLUS = "@relation r\n@attribute y numeric\n@attribute class hierarchical 01\n@data\n1,01\n"


def write_clus(folder: Path, **files: str | None) -> Path:
    header = "@relation r\n@attribute x numeric\n@attribute class hierarchical 01,01/02,01/02/03,04\n@data\n"
    default = {"train": "1,01/02\n3,04@01\n", "valid": "?,01/02/03\n", "test": "5,01@01/02\n"}
    for word, body in {**default, **files}.items():
        if body is None:
            continue
        (folder / f"m.{word}.arff").write_text(body if body.startswith("@") else header + body)
    return folder


def test_clus_by_hand(tmp_path):
    data = load(write_clus(tmp_path))
    assert data.label_names == ["01", "01/02", "01/02/03", "04"] and data.feature_names == ["x"]
    x, y = stacked(data)
    np.testing.assert_array_equal(x[:, 0], [1, 3, 2, 5])  # the missing value is the mean of 1 and 3
    np.testing.assert_array_equal(y, [[1, 1, 0, 0], [1, 0, 0, 1], [1, 1, 1, 0], [1, 1, 0, 0]])
    assert "the root, always on, is left out" in data.notes[0]
    kept = load(tmp_path, keep_root=True)
    assert kept.label_names == ["root", *data.label_names] and "the first is the root" in kept.notes[0]
    np.testing.assert_array_equal(stacked(kept)[1], np.insert(y, 0, 1, axis=1))


def test_a_root_is_kept_of_a_hierarchy_alone(tmp_path):
    folder = write(tmp_path / "flat", ["x numeric", "a {0,1}", "b {0,1}"], ["1,0,1"] * 5)
    for dataset in (str(folder), None, "owner/name"):
        with pytest.raises(DataError, match="`keep_root` is set, but .* Leave it out"):
            load_multilabel(dataset, keep_root=True)


def test_the_root_of_spo_fun_alone_is_worth_23_points(shared_data):
    """500 labels, as the papers count; example F1 of a row with n classes and the root is 2 / (n + 2)."""
    folder = shared_data / "mlc" / "spo_fun"
    plain, kept = real(folder), load_multilabel(str(folder), keep_root=True)
    labels, classes = arrays(kept.test)[1], arrays(plain.test)[1]
    assert len(kept.label_names) == 500 and (labels[:, 0] == 1).all()
    np.testing.assert_array_equal(labels[:, 1:], classes)
    root_alone = np.zeros_like(labels)
    root_alone[:, 0] = 1
    assert example_f1(root_alone, labels).mean() == pytest.approx(np.mean(2 / (classes.sum(1) + 2)))
    assert 100 * example_f1(root_alone, labels).mean() == pytest.approx(23.02, abs=5e-3)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"test": "5,01/0\n"}, ["class '01/0'", "row 0", "test file", "not declared"]),
        ({"valid": "1,01\n2,?\n"}, ["row 1", "validation file", "no class"]),
        ({"valid": "1,01\n2"}, ["m.valid.arff, line 6", "1 values, expected 2"]),
        ({"valid": "@relation r\n@attribute x numeric\n@data\n1\n"}, ["m.valid.arff", "class hierarchical"]),
        ({"test": OTHER_CLUS}, ["test file has other attributes"]),
        ({"valid": None}, ["*.valid.arff for the validation split, found 0", "m.train.arff, m.test.arff"]),
        ({"valid": "inf,01\n"}, ["validation split", "infinite", "row 0", "'x'"]),
    ],
)
def test_bad_clus_files_are_one_clear_error(tmp_path, files, words):
    message = error_of(write_clus(tmp_path, **files))
    assert all(word in message for word in words), message
