"""benchmarks/unlabelled.py: its teacher, against sums over the label sets of the labelled rows."""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def unlabelled(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import unlabelled

    yield unlabelled
    for name in ("unlabelled", "results_store", "results_texts"):
        sys.modules.pop(name, None)


def test_marginals_are_those_of_the_label_sets_that_occur(unlabelled):
    rng = np.random.default_rng(0)
    sets = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 0]], dtype=float)
    p = rng.random((4, 3))
    expected = np.zeros((4, 3))
    for row in range(4):
        weights = {}
        for labels in map(tuple, sets):
            often = sum(np.array_equal(labels, other) for other in sets) / len(sets)
            independent = np.prod([q if label else 1 - q for q, label in zip(p[row], labels, strict=True)])
            weights[labels] = independent * often**0.5
        for labels, weight in weights.items():
            expected[row] += weight / sum(weights.values()) * np.array(labels)
    np.testing.assert_allclose(unlabelled.seen_marginals(p, sets), expected, rtol=1e-9)


def test_a_file_gives_texts_and_their_labels(unlabelled, tmp_path):
    (tmp_path / "train.tsv").write_text("text\tlabels\na b\tx,y\nno label\t\n", encoding="utf-8")
    assert unlabelled.read(tmp_path / "train.tsv") == [("a b", {"x", "y"}), ("no label", set())]
