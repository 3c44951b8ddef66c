"""Decoders against brute force: over all label sets for the expected F1, over grids of thresholds."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

from seal_hf.decisions import decode_expected_f1, platt_scaling, rescaled
from seal_hf.metrics import example_f1, multilabel_metrics, tune_threshold
from seal_hf.tasks.labels.decisions import decoders as decoding
from seal_hf.tasks.labels.decisions.fitting import coordinate_ascent, label_columns
from seal_hf.tasks.labels.metrics import DEFAULT_GRID, f1_of_counts


def random_rows(num_rows, num_labels, seed):
    """Rows of few and of many probable labels, with probabilities of exactly 0 and 1."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=(num_rows, num_labels)) ** rng.choice([0.3, 1, 4, 15], size=(num_rows, 1))
    p[rng.uniform(size=p.shape) < 0.05] = 0
    p[rng.uniform(size=p.shape) < 0.05] = 1
    return p


def expected_f1_of_every_set(p, empty_score):
    """(2^L sets, (2^L,) expected F1): each set against each gold set, by its probability."""
    sets = np.array(list(itertools.product([0, 1], repeat=len(p))))
    gold_probability = np.where(sets == 1, p, 1 - p).prod(1)
    f1 = np.array([example_f1(np.broadcast_to(decided, sets.shape), sets, empty_score) for decided in sets])
    return sets, f1 @ gold_probability


@pytest.mark.parametrize("empty_score", [0.0, 1.0])
@pytest.mark.parametrize("num_labels", [1, 2, 4, 6])
def test_expected_f1_equals_the_best_of_all_label_sets(num_labels, empty_score):
    rows = [random_rows(40, num_labels, seed=num_labels), np.zeros((1, num_labels)), np.ones((1, num_labels))]
    rows = np.concatenate([*rows, np.full((1, num_labels), 0.02), np.full((1, num_labels), 0.5)])
    decisions = decode_expected_f1(rows, empty_score=empty_score)
    assert decisions.dtype == bool
    for p, decided in zip(rows, decisions, strict=True):
        sets, expected = expected_f1_of_every_set(p, empty_score)
        chosen = expected[(sets == decided).all(1).argmax()]
        assert chosen == pytest.approx(expected.max(), abs=1e-12)
        if empty_score == 1.0 and p.max() < 0.1:
            assert not decided.any()


def test_an_empty_score_of_0_decodes_given_that_there_is_a_label():
    for p in random_rows(30, 4, seed=9):
        sets = np.array(list(itertools.product([0, 1], repeat=4)))
        given = np.where(sets == 1, p, 1 - p).prod(1) * sets.any(1)
        if given.sum() == 0:
            continue
        expected = [example_f1(np.broadcast_to(decided, sets.shape), sets) @ given / given.sum() for decided in sets]
        decided = decode_expected_f1(p[None], empty_score=0.0)[0]
        assert expected[(sets == decided).all(1).argmax()] == pytest.approx(max(expected), abs=1e-12)


def test_platt_scaling_finds_the_scale_and_solves_its_equations():
    rng = np.random.default_rng(6)
    score = rng.normal(size=(20_000, 5))
    labels = rng.uniform(size=score.shape) < expit(2.0 * score - 1.5)
    p = expit(score)
    scale, shift = platt_scaling(p, labels)
    assert (scale, shift) == pytest.approx((2.0, -1.5), abs=0.05)
    calibrated = rescaled(p, scale, shift)
    np.testing.assert_allclose(calibrated, expit(scale * score + shift), atol=1e-9)
    smoothed = np.where(labels, (labels.sum() + 1) / (labels.sum() + 2), 1 / ((~labels).sum() + 2))
    assert (calibrated - smoothed).mean() == pytest.approx(0, abs=1e-6)
    assert ((calibrated - smoothed) * score).mean() == pytest.approx(0, abs=1e-6)


def test_platt_scaling_is_finite_where_nothing_is_wrong_or_all_is_equal():
    labels = np.array([[1, 0], [0, 1]])
    for p in (labels.astype(float), np.where(labels, 0.9, 0.2), np.full((2, 2), 0.3)):
        calibrated = rescaled(p, *platt_scaling(p, labels))
        assert np.isfinite(calibrated).all()
        assert (calibrated[labels == 1] >= calibrated[labels == 0]).all()


@pytest.mark.parametrize("seed", range(4))
def test_platt_scaling_by_a_general_optimiser(seed):
    rng = np.random.default_rng(seed)
    score = rng.normal(size=(300, 4)) * 10.0**seed  # up to where σ is 0 or 1
    labels = rng.uniform(size=score.shape) < expit(rng.normal() + score / 10.0**seed)
    p = expit(score)
    smoothed = np.where(labels, (labels.sum() + 1) / (labels.sum() + 2), 1 / ((~labels).sum() + 2))
    score = logit(p.clip(1e-12, 1 - 1e-12))

    def loss(w):
        z = w[0] * score + w[1]
        return (np.logaddexp(0, z) - smoothed * z).mean()

    found = platt_scaling(p, labels)
    assert found == pytest.approx(minimize(loss, [0.1, 0.0], method="Nelder-Mead", tol=1e-12).x, rel=1e-4, abs=1e-4)


def convolution(p, largest):
    """E_0 .. E_largest from the exact distribution of the number of other gold labels, label by label."""
    values = [np.prod(1 - p)]
    others = []
    for i in range(largest):
        distribution = np.ones(1)
        for q in np.delete(p, i):
            distribution = np.convolve(distribution, [1 - q, q])
        others.append(distribution)
    for k in range(1, largest + 1):
        values.append(sum(2 * p[i] * (others[i] / (k + 1 + np.arange(len(others[i])))).sum() for i in range(k)))
    return np.array(values)


@pytest.mark.parametrize("num_labels, exponent", [(20, 1), (60, 0.2), (150, 6), (150, 1)])
def test_the_integral_is_exact_to_1e_9_for_every_size_that_may_win(num_labels, exponent):
    rng = np.random.default_rng(0)
    p = np.sort(rng.uniform(size=(3, num_labels)) ** exponent)[:, ::-1]
    mean, empty = p.sum(1), decoding.empty_f1(p, 1.0)
    reached = np.maximum(decoding.reached_f1(p, mean), empty)
    bounds = decoding.bounds_of_size(p, mean, (p * (1 - p)).sum(1), reached)
    for row, smallest, largest in zip(p, *bounds, strict=True):
        exact, mean = convolution(row, num_labels), row.sum()
        assert exact.argmax() == 0 or smallest <= exact.argmax() <= largest
        width = min(30 / (smallest + mean - row[0]), 1)
        for sizes, part in (((1, largest), 1.0), ((smallest, largest), width)):
            power = decoding.largest_power(largest, mean, num_labels, part)
            found = decoding.expected_f1(row[None], sizes, decoding.quadrature(power, num_labels, part), exact[:1])[0]
            assert found == pytest.approx([exact[0], *exact[sizes[0] : sizes[1] + 1]], abs=1e-9)


def test_few_nodes_are_enough_for_many_labels():
    """Every power of t that a row of 10,000 labels can have, against 1 / (power + 1)."""
    for degree in (50.0, 1000.0, 20_000.0):
        t, weights = decoding.quadrature(degree, 10_000)
        powers = np.unique(np.linspace(0, degree, 200).astype(int))
        assert len(t) < 4 * np.sqrt(degree)
        assert np.abs((weights * t ** powers[:, None]).sum(1) - 1 / (powers + 1)).max() < 1e-14 * 10_000


def test_blocks_do_not_change_the_decisions(monkeypatch):
    p = random_rows(30, 12, seed=1)
    whole = decode_expected_f1(p)
    monkeypatch.setattr(decoding, "BLOCK", 40)  # less than one row's nodes
    assert (decode_expected_f1(p) == whole).all()


def ascended(p, labels, start, grid=DEFAULT_GRID, empty_score=1.0):
    """The thresholds of labels that coordinate ascent finds, and their example F1."""
    grid, gold = np.union1d(grid, start), labels.sum(1)
    columns = label_columns(p, labels, grid)
    thresholds, hits, decided = coordinate_ascent(columns, gold, start, grid, empty_score)
    return thresholds, f1_of_counts(hits, decided, gold, empty_score).mean()


def brute_force(p, labels, grid, empty_score=1.0):
    return max(
        example_f1(p >= np.array(thresholds), labels, empty_score).mean()
        for thresholds in itertools.product(grid, repeat=p.shape[1])
    )


@pytest.mark.parametrize("empty_score", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_thresholds_per_label_never_lose_and_no_single_one_can_still_gain(seed, empty_score):
    rng = np.random.default_rng(seed)
    labels = rng.uniform(size=(60, 7)) < rng.uniform(0.05, 0.6, size=7)
    p = np.clip(labels * 0.3 + rng.uniform(size=labels.shape) * rng.uniform(0.3, 0.7, size=7), 0, 1)
    start, before = tune_threshold(p, labels, empty_score=empty_score)
    thresholds, f1 = ascended(p, labels, start, empty_score=empty_score)
    assert f1 == pytest.approx(example_f1(p >= thresholds, labels, empty_score).mean(), abs=1e-12)
    assert f1 >= before
    for label in range(7):
        for candidate in np.arange(1, 100) / 100:
            other = np.where(np.arange(7) == label, candidate, thresholds)
            assert example_f1(p >= other, labels, empty_score).mean() <= f1 + 1e-9
    again = ascended(p, labels, start, empty_score=empty_score)
    assert (again[0] == thresholds).all()


@pytest.mark.parametrize("start", [0.0, 0.004, 0.456, 1.0])
def test_rows_below_the_grid_are_decided_from_the_start_alone(start):
    rng = np.random.default_rng(1)
    p, labels = rng.uniform(size=(50, 6)) ** 8, rng.uniform(size=(50, 6)) < 0.3
    thresholds, f1 = ascended(p, labels, start)
    assert f1 == example_f1(p >= thresholds, labels).mean() >= example_f1(p >= start, labels).mean()
    assert set(thresholds) <= {start, *(np.arange(1, 100) / 100)}


def test_two_labels_reach_the_best_pair():
    rng = np.random.default_rng(4)
    labels = rng.uniform(size=(50, 2)) < [0.3, 0.5]
    p = np.clip(labels * [0.15, 0.4] + rng.uniform(size=labels.shape) * [0.25, 0.6], 0, 1)
    grid = np.array([0.1, 0.2, 0.3, 0.5, 0.7])
    start = 0.2
    before = example_f1(p >= start, labels).mean()
    thresholds, f1 = ascended(p, labels, start, grid=grid)
    assert f1 == pytest.approx(brute_force(p, labels, grid), abs=1e-12) and f1 > before + 0.01
    assert set(thresholds) <= set(grid)


def test_a_threshold_that_gains_nothing_stays_and_one_that_moves_goes_no_further_than_it_must():
    p = np.array([[0.9, 0.30], [0.9, 0.10], [0.2, 0.35]])
    labels = np.array([[1, 1], [1, 0], [0, 1]])
    thresholds, f1 = ascended(p, labels, 0.5)  # label 0 is right anywhere in (0.2, 0.9]
    assert f1 == 1.0
    np.testing.assert_allclose(thresholds, [0.5, 0.3])
    thresholds, _ = ascended(p, labels, 0.456)  # not on the grid
    np.testing.assert_allclose(thresholds, [0.456, 0.3])


def test_example_f1_is_what_the_metrics_average():
    rng = np.random.default_rng(5)
    p, labels = rng.uniform(size=(30, 6)), rng.uniform(size=(30, 6)) < 0.2
    for empty_score in (0.0, 1.0):
        figures = multilabel_metrics(p, labels, 0.8, empty_score=empty_score)
        assert example_f1(p >= 0.8, labels, empty_score).mean() == pytest.approx(figures["f1_example"], abs=1e-12)


def test_bad_arrays_are_named():
    with pytest.raises(ValueError, match=r"probabilities\[0, 1\] is 3.0, expected 0 to 1: logits need a sigmoid"):
        decode_expected_f1(np.array([[0.1, 3.0]]))
    with pytest.raises(ValueError, match=r"labels\[0, 0\] is 2"):
        platt_scaling(np.array([[0.1, 0.3]]), np.array([[2, 0]]))
