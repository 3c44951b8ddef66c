"""ARFF data: real sets against published counts, small files against liac-arff, Clus closure by brute force, errors."""

import json
from functools import cache
from pathlib import Path

import arff
import numpy as np
import pytest

from seal_hf.data import DataError, load_multilabel

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


def error_of(path: Path, **arguments) -> str:
    with pytest.raises(DataError) as error:
        load_multilabel(str(path), **arguments)
    return str(error.value)


# The real sets. Figures: the table of the shared data (rows by split, labels, features, labels per row).
REAL = {
    "bibtex": ((4411, 1487, 1497), 159, 1836, 2.40),
    "delicious": ((9683, 3215, 3207), 983, 500, 19.0),
    "genbase": ((398, 132, 132), 27, 1185, 1.25),
    "cal500": ((301, 100, 101), 174, 68, 26.0),
    "spo_fun": ((1600, 837, 1266), 499, 86, None),
    "seq_fun": ((1701, 879, 1339), 499, 529, None),
}


@pytest.mark.parametrize("name", REAL)
def test_real_sets_have_the_published_counts(shared_data, name):
    rows, labels, features, cardinality = REAL[name]
    data = real(shared_data / "mlc" / name)
    assert (data.name, data.kind) == (name, "features")
    assert tuple(len(getattr(data, split)) for split in SPLITS) == rows
    assert len(data.label_names) == len(set(data.label_names)) == labels
    assert data.num_features == len(set(data.feature_names)) == features
    x, y = stacked(data)
    assert x.shape == (sum(rows), features) and y.shape == (sum(rows), labels)
    assert np.isfinite(x).all() and set(np.unique(y)) == {0, 1}
    if cardinality:
        assert y.sum(1).mean() == pytest.approx(cardinality, abs=0.05)
    if name in ("bibtex", "delicious", "genbase"):
        assert set(np.unique(x)) == {0, 1}


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
    assert dropped.notes == ["identifier attribute protein dropped."]
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
    folder = shared_data / "mlc" / "spo_fun"
    data = real(folder)
    lines = next(folder.glob("*.train.arff")).read_text()
    header = [line.split()[1:3] for line in lines.splitlines() if line.upper().startswith("@ATTRIBUTE")]
    assert [kind for _, kind in header].count("{no,yes}") == 2  # two columns each in Clus files: 86
    numeric = [(i, name) for i, (name, kind) in enumerate(header) if kind.lower() == "numeric"]

    def cells(word):
        body = next(folder.glob(f"*.{word}.arff")).read_text().split("@DATA", 1)[1].split()
        return np.array([line.split(",")[: len(header) - 1] for line in body])

    raw, missing = {"train": cells("train"), "validation": cells("valid"), "test": cells("test")}, 0
    for column, name in numeric:
        train = [float(v) for v in raw["train"][:, column] if v != "?"]
        for split in SPLITS:
            expected = [np.mean(train) if v == "?" else float(v) for v in raw[split][:, column]]
            found = arrays_of(data, split)[:, data.feature_names.index(name)]
            np.testing.assert_allclose(found, expected, rtol=1e-5)
            missing += (raw[split][:, column] == "?").sum()
    assert missing == sum(int(note.split()[0]) for note in data.notes if "missing numeric values" in note)


@cache
def _features(path: Path, split: str):
    return arrays(getattr(real(path), split))[0]


def arrays_of(data, split):
    return data.train.with_format("numpy")[:]["features"] if data is None else _CACHE(data, split)


_FEATURES: dict = {}


def _CACHE(data, split):
    key = (id(data), split)
    if key not in _FEATURES:
        _FEATURES[key] = arrays(getattr(data, split))[0]
    return _FEATURES[key]
