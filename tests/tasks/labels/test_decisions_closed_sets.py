"""Closed decisions against brute force over all closed sets; expected F1 over all label sets."""

import itertools

import numpy as np
import pytest
from test_decisions_decoders import expected_f1_of_every_set, random_rows
from test_structures_hierarchy import random_graph

from seal_hf.core.hierarchy import Hierarchy
from seal_hf.decisions import NEVER_EMPTY, LabelDecisions, decode_closed_f1, decode_expected_f1, rescaled
from seal_hf.tasks.labels.decisions import closed_sets
from seal_hf.tasks.labels.decisions.fitting import ValidationRows


def random_forest(num_labels, seed, roots=0.3):
    rng = np.random.default_rng(seed)
    order = rng.permutation(num_labels)
    pairs = [(order[i], order[rng.integers(i)]) for i in range(1, num_labels) if rng.random() >= roots]
    return Hierarchy.of_pairs(pairs, num_labels)


def scores_of(hierarchy, p, empty_score):
    """(sets, whether each is closed, its expected F1), of all label sets."""
    sets, expected = expected_f1_of_every_set(p, empty_score)
    return sets, (hierarchy.raised(sets) == sets).all(1), expected


def value_of(decided, sets, expected):
    return expected[(sets == decided).all(1).argmax()]


@pytest.mark.parametrize("empty_score", [0.0, 1.0])
@pytest.mark.parametrize(("num_labels", "roots", "seed"), [(1, 0, 0), (3, 0.3, 1), (5, 0, 2), (7, 0.2, 3), (7, 0, 4)])
def test_of_a_forest_the_best_of_all_closed_sets_is_decided(num_labels, roots, seed, empty_score):
    hierarchy = random_forest(num_labels, seed, roots)
    rows = np.concatenate([random_rows(25, num_labels, seed), np.zeros((1, num_labels)), np.ones((1, num_labels))])
    for p, decided in zip(rows, decode_closed_f1(rows, hierarchy, empty_score=empty_score), strict=True):
        sets, is_closed, expected = scores_of(hierarchy, p, empty_score)
        assert (hierarchy.raised(decided[None]) == decided).all()
        assert value_of(decided, sets, expected) == pytest.approx(expected[is_closed].max(), abs=1e-12)


def test_with_several_parents_the_best_threshold_closed_up_or_down_is_decided():
    for seed in range(4):
        hierarchy = random_graph(6, seed, share=0.5)
        rows = random_rows(15, 6, seed)
        assert not hierarchy.is_forest
        for p, decided in zip(rows, decode_closed_f1(rows, hierarchy), strict=True):
            sets, is_closed, expected = scores_of(hierarchy, p, 1.0)
            assert value_of(decided, sets, is_closed), "closed"
            cuts = [*np.unique(p), 2]
            families = [hierarchy.raised(p[None] >= t) for t in cuts] + [hierarchy.lowered(p[None] >= t) for t in cuts]
            best = max(value_of(found[0], sets, expected) for found in families)
            assert value_of(decided, sets, expected) >= best - 1e-12


def test_without_edges_and_where_parents_are_likelier_it_is_plain_expected_f1():
    flat, chain = Hierarchy(((),) * 8), Hierarchy(((), *((i,) for i in range(7))))
    rows = random_rows(60, 8, 1)
    np.testing.assert_array_equal(decode_closed_f1(rows, flat), decode_expected_f1(rows))
    falling = -np.sort(-rows, axis=1)
    np.testing.assert_array_equal(decode_closed_f1(falling, chain), decode_expected_f1(falling))


def test_the_knapsack_and_its_bound_by_brute_force():
    hierarchy, rng = random_forest(8, 5, 0.2), np.random.default_rng(5)
    ends = closed_sets._subtree_ends(hierarchy)
    scores = rng.exponential(size=(8, 12))
    sets = np.array(list(itertools.product([False, True], repeat=8)))  # in preorder
    by_label = np.empty_like(sets)
    by_label[:, hierarchy.order] = sets
    sets = sets[(hierarchy.raised(by_label) == by_label).all(1)]
    for size in range(1, 9):
        sizes = np.full(12, size)
        totals, found = closed_sets.best_closed_sets(scores, ends, sizes)
        best = (sets[sets.sum(1) == size] @ scores).max(0)
        np.testing.assert_allclose(totals, best)
        np.testing.assert_allclose((found * scores.T).sum(1), best)
        assert (found.sum(1) == size).all()
        bounds = closed_sets._upper_bounds(scores, ends, sizes, np.full(12, -np.inf))
        assert (bounds >= best - 1e-9).all()
        lines = [(sets @ scores - sets.sum(1, keepdims=True) * t).max(0) + size * t for t in np.linspace(-1, 6, 3000)]
        np.testing.assert_allclose(bounds, np.min(lines, axis=0), atol=0.02)


def test_blocks_do_not_matter(monkeypatch):
    hierarchy, rows = random_forest(30, 1), random_rows(40, 30, 2)
    whole = decode_closed_f1(rows, hierarchy)
    monkeypatch.setattr(closed_sets, "BLOCK", 64)
    np.testing.assert_array_equal(decode_closed_f1(rows, hierarchy), whole)


def test_of_many_labels_the_bounds_rule_out_no_size_that_is_best(monkeypatch):
    """Against the knapsack of every size; with ties, and probabilities that hardly keep to the hierarchy."""
    hierarchy, rng = random_forest(60, 3, 0.1), np.random.default_rng(3)
    rows = 1 / (1 + np.exp(2 - 2 * rng.normal(size=(12, 60))))
    rows[6:] = rows[6:].round(1)
    quick = decode_closed_f1(rows, hierarchy)
    monkeypatch.setattr(closed_sets, "_upper_bounds", lambda scores, ends, sizes, enough: np.full(len(sizes), np.inf))
    slow = decode_closed_f1(rows, hierarchy)
    np.testing.assert_array_equal(quick[:6], slow[:6])
    np.testing.assert_array_equal(quick.sum(1), slow.sum(1))
    assert (hierarchy.raised(quick) == quick).all() and (quick != decode_expected_f1(rows)).any(1).all()


def test_another_number_of_labels_is_refused():
    with pytest.raises(ValueError, match="the hierarchy has 3 labels, but the rows have 4"):
        decode_closed_f1(np.full((1, 4), 0.5), Hierarchy(((),) * 3))


# --- decisions -------------------------------------------------------------------------------------------------------

TREE = Hierarchy(((), (0,), (0,), (1,)))


def closed_rows(num_rows=80, seed=0):
    rng = np.random.default_rng(seed)
    labels = TREE.raised(rng.random((num_rows, 4)) < 0.2)
    return 1 / (1 + np.exp(-(rng.normal(size=labels.shape) + 2 * labels - 1.2))), labels


def test_a_hierarchy_gives_a_decoder_that_is_fitted_and_chosen_like_the_others():
    p, labels = closed_rows()
    fitted = LabelDecisions.fit(p, labels, hierarchy=TREE)
    assert "closed_f1" in fitted.names and "closed_f1" not in LabelDecisions.fit(p, labels).names
    np.testing.assert_array_equal(fitted.decide(p, "closed_f1"), decode_closed_f1(p, TREE))
    calibrated = decode_closed_f1(rescaled(p, *fitted.calibration), TREE)
    np.testing.assert_array_equal(fitted.decide(p, "calibrated_closed_f1"), calibrated)
    scores = LabelDecisions.cross_fitted(ValidationRows(p, labels, hierarchy=TREE), fitted.names)
    assert set(scores) == set(fitted.names)
    assert LabelDecisions.fit(p, labels, hierarchy=TREE, decoder="closed_f1").decoder == "closed_f1"
    with pytest.raises(ValueError, match="`decoder` is 'closed_f1', but the labels lack a hierarchy: .*--hierarchy"):
        LabelDecisions.fit(p, labels, decoder="closed_f1")


def test_never_empty_brings_the_likeliest_label_with_its_ancestors():
    decisions = LabelDecisions(never_empty=True, hierarchy=TREE)
    p = np.array([[0.01, 0.02, 0.01, 0.05]])
    assert not decisions.decide(p, "closed_f1").any()
    assert decisions.decide(p, "closed_f1" + NEVER_EMPTY).tolist() == [[True, True, False, True]]
