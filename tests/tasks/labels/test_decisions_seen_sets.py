"""Decoding with the label sets that occur, against brute force over all 2^L label sets."""

import itertools

import numpy as np
import pytest
from scipy.special import expit, logit
from test_decisions_decoders import random_rows

from seal_hf.metrics import example_f1
from seal_hf.tasks.labels.decisions.seen_sets import MOST_SETS, SeenSets

LABELS = 5
EVERY = np.array(list(itertools.product([False, True], repeat=LABELS)))


def seen(rng, num_sets=7, empty=True):
    """Sets with different counts; the empty one among them if `empty`."""
    chosen = EVERY[rng.choice(np.arange(1, len(EVERY)), num_sets, replace=False)]
    if empty:
        chosen[2] = False
    rows = [
        np.flatnonzero(row)
        for row, count in zip(chosen, 1 + np.arange(num_sets) ** 2, strict=True)
        for _ in range(count)
    ]
    return SeenSets.of_rows(rows, LABELS)


def distribution(sets, p, power, share):
    """P(S | x) of all 2^L sets, from its definition."""
    p = expit(logit(p.clip(1e-12, 1 - 1e-12)))
    independent = np.where(EVERY, p, 1 - p).prod(1)
    frequency = dict(zip(map(bytes, sets.sets), sets.counts / sets.num_rows, strict=True))
    listed = np.array(
        [
            independent[i] * frequency.get(bytes(each), 0.0) ** power if bytes(each) in frequency else 0.0
            for i, each in enumerate(EVERY)
        ]
    )
    return (1 - share) * listed / listed.sum() + share * independent


GRID = [(power, share) for power in (0.0, 0.5, 1.0) for share in (0.0, 0.2, 1.0)]


@pytest.mark.parametrize(("power", "share"), GRID)
def test_the_most_probable_set_is_that_of_all_sets(power, share):
    rng = np.random.default_rng(0)
    sets, rows = seen(rng), random_rows(60, LABELS, seed=3)
    for p, found in zip(rows, sets.most_probable(rows, power, share), strict=True):
        of_all = distribution(sets, p, power, share)
        assert of_all[(found == EVERY).all(1)][0] == pytest.approx(of_all.max(), rel=1e-9)


@pytest.mark.parametrize("empty_score", [0.0, 1.0])
@pytest.mark.parametrize(("power", "share"), GRID)
def test_the_best_expected_f1_is_that_of_all_sets(power, share, empty_score):
    rng = np.random.default_rng(1)
    sets, rows = seen(rng), random_rows(40, LABELS, seed=4)
    f1 = np.array([example_f1(np.broadcast_to(each, EVERY.shape), EVERY, empty_score) for each in EVERY])
    for p, found in zip(rows, sets.best_f1(rows, power, share, empty_score), strict=True):
        expected = f1 @ distribution(sets, p, power, share)
        assert expected[(found == EVERY).all(1)][0] == pytest.approx(expected.max(), abs=1e-8)


def test_the_best_of_the_list_has_the_highest_expected_jaccard_index():
    rng = np.random.default_rng(2)
    sets, rows = seen(rng), random_rows(40, LABELS, seed=5)
    both, either = (sets.sets[:, None] & EVERY).sum(2), (sets.sets[:, None] | EVERY).sum(2)
    jaccard = np.where(either > 0, both / np.maximum(either, 1), 1.0)
    for p, found in zip(rows, sets.best_of_list(rows, 0.5, sets.agreement(jaccard=True)), strict=True):
        expected = jaccard @ distribution(sets, p, 0.5, 0.0)
        assert expected[(found == sets.sets).all(1)][0] == pytest.approx(expected.max(), abs=1e-10)


def test_the_list_holds_the_most_frequent_sets_and_survives_json():
    rng = np.random.default_rng(3)
    sets = seen(rng)
    assert (np.diff(sets.counts) <= 0).all() and sets.num_rows == sets.counts.sum()
    again = SeenSets.of_saved(sets.as_json())
    assert (again.sets == sets.sets).all() and (again.counts == sets.counts).all() and again.num_rows == sets.num_rows
    several = [np.flatnonzero(row) for row in rng.random((MOST_SETS + 500, 40)) < 0.5]
    many = SeenSets.of_rows([*several, several[-1]], 40)
    assert len(many.sets) == MOST_SETS and many.num_rows == MOST_SETS + 501 and many.counts[0] == 2
    assert SeenSets.of_rows(several, 40) is None is SeenSets.of_rows([], 4)


@pytest.mark.parametrize(
    "change",
    [
        {"bits": "AAAA"},
        {"bits": "?"},
        {"bits": None},
        {"counts": [1]},
        {"counts": []},
        {"counts": ["1"] * 7},
        {"counts": [10**400] * 7},
        {"rows": 1},
        {"num_labels": 10**9},
        {"num_labels": -1},
    ],
)
def test_a_damaged_list_is_refused(change):
    saved = seen(np.random.default_rng(4)).as_json()
    with pytest.raises(ValueError, match="`config.decisions` has `seen` that is damaged"):
        SeenSets.of_saved({**saved, **change})
