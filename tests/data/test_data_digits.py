"""The embedded digits: labels by brute force in plain Python, source images by their pixels, normalisation by numpy."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_digits

from seal_hf.data import DataError, kind_of, load_multilabel
from seal_hf.data.embedded import LABEL_NAMES, digit_labels


def labels_of(digits: tuple[int, ...]) -> set[str]:
    """The definition of the labels, word by word; `digits` from left to right, without empty slots."""
    labels = {f"digit {d}" for d in digits}
    rules = {
        "several": len(digits) > 1,
        "repeated": len(set(digits)) < len(digits),
        "sorted": len(digits) > 1 and list(digits) == sorted(digits),
        "odd sum": sum(digits) % 2 == 1,
        "sum above 12": sum(digits) > 12,
        "contains a prime": any(d in (2, 3, 5, 7) for d in digits),
        "largest is 8 or 9": max(digits) in (8, 9),
        "only even digits": all(d % 2 == 0 for d in digits),
    }
    return labels | {name for name, holds in rules.items() if holds}


def arrays(split) -> tuple[np.ndarray, np.ndarray]:
    columns = split.with_format("numpy")[:]
    return columns["features"], columns["labels"]


def named(row: np.ndarray) -> set[str]:
    return {LABEL_NAMES[i] for i in np.flatnonzero(row)}


@pytest.fixture(scope="module")
def data():
    return load_multilabel()


def slots_of(features: np.ndarray) -> np.ndarray:
    """(N, 192) -> (N, 3, 64): the three 8 x 8 pictures of each canvas."""
    return features.reshape(-1, 8, 3, 8).transpose(0, 2, 1, 3).reshape(-1, 3, 64)


@pytest.fixture(scope="module")
def sources():
    """Pixels -> number of the image in scikit-learn's file."""
    images = (load_digits().images / 16).astype(np.float32).reshape(-1, 64)
    known = {image.tobytes(): i for i, image in enumerate(images)}
    assert len(known) == len(images)  # no image is there twice, so pixels say which one it is
    return known


def test_labels_of_all_combinations():
    combinations = [c for n in (1, 2, 3) for c in itertools.product(range(10), repeat=n)]
    padded = np.array([c + (-1,) * (3 - len(c)) for c in combinations])
    found = digit_labels(padded)
    assert found.shape == (1110, 18) and found.dtype == np.float32
    for digits, row in zip(combinations, found, strict=True):
        assert named(row) == labels_of(digits), digits


def test_sizes_names_and_kind(data):
    assert (data.name, data.kind, kind_of(None), kind_of("digits")) == ("digits", "features", "features", "features")
    assert [len(split) for split in (data.train, data.validation, data.test)] == [2000, 500, 1000]
    assert data.num_features == len(data.feature_names) == 192 and data.label_names == LABEL_NAMES
    assert data.feature_names[0] == "pixel 0,0" and data.feature_names[-1] == "pixel 7,23"


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_rows_are_real_images_with_the_labels_of_their_digits(data, sources, split):
    features, labels = arrays(getattr(data, split))
    assert features.min() == 0 and features.max() == 1
    target = load_digits().target
    lengths = set()
    for slots, row in zip(slots_of(features), labels, strict=True):
        filled = [slot for slot in slots if slot.any()]
        assert all(slot.any() for slot in slots[: len(filled)])  # filled from the left
        digits = tuple(int(target[sources[slot.tobytes()]]) for slot in filled)
        assert named(row) == labels_of(digits)
        lengths.add(len(digits))
    assert lengths == {1, 2, 3}


def test_no_source_image_in_two_splits(data, sources):
    used = {}
    for split in ("train", "validation", "test"):
        slots = slots_of(arrays(getattr(data, split))[0]).reshape(-1, 64)
        used[split] = {sources[slot.tobytes()] for slot in slots if slot.any()}
    for a, b in itertools.combinations(used.values(), 2):
        assert not a & b
    assert sum(map(len, used.values())) > 1700  # and nearly all 1797 images take part


def test_seed(data):
    again, other = load_multilabel("digits"), load_multilabel("digits", seed=1)
    for a, b in zip(arrays(again.train), arrays(data.train), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(arrays(other.train)[0], arrays(data.train)[0])


def test_max_train_rows_and_normalisation_of_these_rows_alone(data):
    some = load_multilabel("digits", max_train_rows=100, normalize="standard")
    raw = arrays(data.train)[0][:100].astype(np.float64)
    assert [len(some.train), len(some.validation), len(some.test)] == [100, 500, 1000]
    mean, std = raw.mean(0), raw.std(0)
    varies = raw.max(0) > raw.min(0)
    assert (~varies).sum() > 0  # pixels at the border are always 0
    for split in ("train", "validation", "test"):
        rows = arrays(getattr(data, split))[0][: len(getattr(some, split))]
        expected = np.where(varies, (rows - mean) / np.where(varies, std, 1), 0)
        scaled = (arrays(getattr(some, split))[0] - some.scaling.shift) * some.scaling.scale
        np.testing.assert_allclose(scaled, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("argument", "words"),
    [({"max_train_rows": 0}, ["max_train_rows", "0", "at least 1"]), ({"normalize": "zscore"}, ["zscore", "standard"])],
)
def test_bad_arguments_are_named(argument, words):
    with pytest.raises(DataError) as error:
        load_multilabel("digits", **argument)
    assert all(word in str(error.value) for word in words)
