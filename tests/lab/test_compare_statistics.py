"""Oracles: the closed-form interval of a mean, a bootstrap by hand, scipy's tests, p-values that are uniform."""

import numpy as np
import pytest
from scipy import stats

from seal_hf.lab.compare import statistics as statistics_module
from seal_hf.lab.compare.statistics import (
    PairedDifference,
    Rows,
    mean_std,
    paired_bootstrap,
    paired_bootstraps,
    paired_test,
)


def normal_pair(num_examples, shift, seed):
    rng = np.random.default_rng(seed)
    b = rng.uniform(size=num_examples)
    return b + rng.normal(shift, 0.2, num_examples), b


def test_the_interval_of_normal_differences_is_the_closed_form():
    a, b = normal_pair(900, 0.01, seed=0)
    result = paired_bootstrap(a, b)
    error = (a - b).std() / 30
    assert result.difference == pytest.approx((a - b).mean())
    assert [result.low, result.high] == pytest.approx(
        [result.difference - 1.96 * error, result.difference + 1.96 * error], abs=0.05 * error
    )
    assert result.p_value == pytest.approx(2 * stats.norm.sf(abs(result.difference) / error), abs=0.02)
    assert result.p_value == pytest.approx(stats.ttest_rel(a, b).pvalue, abs=0.02)


@pytest.mark.parametrize("num_examples", [2, 3, 120])
def test_it_is_the_bootstrap_by_hand_with_the_same_draws(num_examples):
    rng = np.random.default_rng(1)
    a, b = rng.beta(0.4, 1.0, size=num_examples), rng.beta(0.5, 1.0, size=num_examples)
    rows = np.random.default_rng(7).integers(num_examples, size=(1000, num_examples))
    means = (a - b)[rows].mean(1)
    found = paired_bootstrap(a, b, num_resamples=1000, seed=7)
    assert [found.low, found.high] == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=1e-14)
    share = np.mean(np.abs(means - found.difference) >= abs(found.difference) - 1e-12)
    assert found.p_value == max(share, 2.0 ** (1 - num_examples) if num_examples < 10 else 0)


@pytest.mark.parametrize("num_examples", [1, 2, 3])
@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_equal_differences_have_an_interval_of_no_width_and_warn_of_nothing(num_examples, shift, recwarn):
    found = paired_bootstrap(np.full(num_examples, shift), np.zeros(num_examples))
    assert found[:3] == pytest.approx((shift, shift, shift)) and not recwarn.list
    assert found.p_value == (2.0 ** (1 - num_examples) if shift else 1)


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_ratio_of_counts_is_resampled_by_its_rows(seeds):
    """F1 of spans over all sentences, not a mean of sentences: by a loop, with the same draws."""
    rng = np.random.default_rng(2)
    found, there = rng.integers(0, 4, (2, seeds, 60)), rng.integers(0, 3, (2, seeds, 60))
    parts, wholes = 2 * np.minimum(found, there), found + there
    differences = []
    for drawn in [np.arange(60), *np.random.default_rng(7).integers(60, size=(500, 60))]:
        f1 = [
            np.mean([sum(part[seed, i] for i in drawn) / sum(whole[seed, i] for i in drawn) for seed in range(seeds)])
            for part, whole in zip(parts, wholes, strict=True)
        ]
        differences.append(f1[0] - f1[1])
    observed, resampled = differences[0], np.array(differences[1:])
    result = paired_bootstrap(*parts, 500, 7, wholes=tuple(wholes))
    assert result.difference == pytest.approx(observed)
    assert [result.low, result.high] == pytest.approx(np.quantile(resampled, [0.025, 0.975]), abs=1e-12)
    assert result.p_value == np.mean(np.abs(resampled - observed) >= abs(observed) - 1e-12)


def test_a_mean_over_classes_is_resampled_by_its_rows():
    """Mean IoU over classes, without those that no drawn image has: by a loop, with the same draws."""
    rng = np.random.default_rng(2)
    wholes = rng.integers(0, 4, (2, 3, 20, 4))
    wholes[..., 3] *= np.arange(20) < 1  # a class in one image
    parts = rng.integers(0, wholes + 1)
    differences = []
    for drawn in [np.arange(20), *np.random.default_rng(7).integers(20, size=(200, 20))]:
        figures = []
        for part, whole in zip(parts, wholes, strict=True):
            sums = [(part[seed][drawn].sum(0), whole[seed][drawn].sum(0)) for seed in range(3)]
            figures.append(np.mean([np.mean((part / whole)[whole > 0]) for part, whole in map(_kept, sums)]))
        differences.append(figures[0] - figures[1])
    result = paired_bootstrap(*parts, 200, 7, wholes=tuple(wholes))
    assert result.difference == pytest.approx(differences[0])
    assert [result.low, result.high] == pytest.approx(np.quantile(differences[1:], [0.025, 0.975]), abs=1e-12)
    rows = Rows(parts[0, 0], wholes[0, 0])
    again = Rows.of_text(rows.as_text())
    assert np.array_equal(again.part, rows.part) and np.array_equal(again.whole, rows.whole)
    assert rows.figure == pytest.approx((rows.part.sum(0) / rows.whole.sum(0)).mean())


def _kept(sums):
    part, whole = sums
    return part[whole > 0], whole[whole > 0]


def test_a_mean_is_a_ratio_whose_wholes_are_1_and_nothing_of_nothing_is_0():
    a, b = np.random.default_rng(6).random((2, 4, 50))
    assert paired_bootstrap(a, b) == paired_bootstrap(a, b, wholes=(np.ones((4, 50)), np.ones(50)))
    nothing = np.zeros(5)
    assert paired_bootstrap(nothing, nothing, wholes=(nothing, nothing))[:4] == (0, 0, 0, 1)


def test_exchanging_the_methods_negates_the_difference():
    a, b = normal_pair(200, 0.02, seed=3)
    there, back = paired_bootstrap(a, b), paired_bootstrap(b, a)
    assert [back.difference, back.low, back.high] == pytest.approx([-there.difference, -there.high, -there.low])
    assert back.p_value == there.p_value and 0 < there.p_value < 1


def test_a_constant_shift_is_below_the_resolution_and_no_difference_is_certain():
    b = np.random.default_rng(4).uniform(size=300)
    shifted = paired_bootstrap(b + 0.1, b, num_resamples=500)
    assert [shifted.difference, shifted.low, shifted.high] == pytest.approx([0.1] * 3) and shifted.p_value == 0
    assert str(shifted) == "+0.1000 [+0.1000, +0.1000], p < 0.002"
    assert paired_bootstrap(b, b, num_resamples=500)[:4] == (0, 0, 0, 1)
    assert str(PairedDifference(-0.02, -0.05, 0.01, 0.1234, 500)) == "-0.0200 [-0.0500, +0.0100], p = 0.12"


@pytest.mark.parametrize("num_examples", [1, 2, 3, 6, 10])
def test_few_examples_prove_no_more_than_their_signs_can(num_examples):
    """The exact sign-flip test of N differences has 2^N arrangements, of which two are as extreme as all alike."""
    b = np.zeros(num_examples)
    assert paired_bootstrap(b + 0.3, b).p_value == 2.0 ** (1 - num_examples)
    ties = np.zeros(100)
    few = np.concatenate([b + 0.3, ties])
    assert paired_bootstrap(few, np.zeros(len(few))).p_value >= 2.0 ** (1 - num_examples)
    if num_examples > 1:
        assert paired_test(b + 0.3, b) == 2.0 ** (1 - num_examples)


def test_pairs_that_share_resamples_have_the_figures_of_each_alone():
    rng = np.random.default_rng(0)
    pairs = [(rng.random((seeds, 60)), rng.random(60), (1.0, 1.0)) for seeds in (1, 3)]
    pairs.append((*rng.random((2, 4, 60)), tuple(1 + rng.random((2, 4, 60)))))  # ratios
    together = paired_bootstraps(pairs, 700, seed=5)
    for (a, b, wholes), found in zip(pairs, together, strict=True):
        assert found == pytest.approx(paired_bootstrap(a, b, 700, 5, wholes=wholes), abs=1e-12)
    assert paired_bootstraps([]) == []
    with pytest.raises(ValueError, match="a pair has 50 examples and another has 60"):
        paired_bootstraps([*pairs, (np.zeros(50), np.zeros(50), (1.0, 1.0))])


@pytest.mark.parametrize("test", [lambda a, b: paired_bootstrap(a, b, num_resamples=400).p_value, paired_test])
def test_without_an_effect_p_values_are_uniform(test):
    p_values = [test(*normal_pair(60, 0.0, seed)) for seed in range(400)]
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    assert 0.02 < np.mean(np.array(p_values) < 0.05) < 0.09


def test_seeds_are_averaged_first_and_need_not_be_as_many():
    rng = np.random.default_rng(5)
    a, b = rng.uniform(size=(3, 80)), rng.uniform(size=(5, 80))
    assert paired_bootstrap(a, b) == paired_bootstrap(a.mean(0), b.mean(0))


def test_blocks_do_not_change_the_result(monkeypatch):
    a, b = normal_pair(50, 0.03, seed=6)
    whole = paired_bootstrap(a, b, num_resamples=700)
    monkeypatch.setattr(statistics_module, "_BLOCK", 50 * 9)
    # up to rounding: a product of matrices of another shape may add in another order
    assert tuple(paired_bootstrap(a, b, num_resamples=700)) == pytest.approx(tuple(whole), abs=1e-12)
    assert paired_bootstrap(a, b, num_resamples=700, seed=1) != whole


def test_the_paired_test_is_scipys_and_knows_its_ends():
    a, b = np.array([0.41, 0.43, 0.42, 0.45]), np.array([0.40, 0.41, 0.42, 0.42])
    assert paired_test(a, b) == pytest.approx(stats.ttest_rel(a, b).pvalue)
    t = (a - b).mean() / ((a - b).std(ddof=1) / 2)
    assert paired_test(a, b) == pytest.approx(2 * stats.t.sf(t, 3))
    assert np.isnan(paired_test(a[:1], b[:1]))
    assert paired_test(a, a) == 1 and paired_test(a + 0.1, a) == 2.0 ** (1 - len(a))  # as signs alone


def test_mean_and_deviation():
    assert mean_std([1.0, 2.0, 4.0]) == pytest.approx((7 / 3, np.sqrt(7 / 3)))
    mean, deviation = mean_std([0.5])
    assert mean == 0.5 and np.isnan(deviation)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: paired_bootstrap(np.zeros(3), np.zeros(4)), "a has 3 examples and b has 4"),
        (lambda: paired_bootstrap(np.zeros(0), np.zeros(0)), "a is empty"),
        (lambda: paired_bootstrap(np.zeros(2), np.array([0, np.nan])), r"b has a value that is not finite, at \[1\]"),
        (lambda: paired_bootstrap(np.zeros((1, 1, 1, 2)), np.zeros(2)), r"a is \(1, 1, 1, 2\); expected"),
        (lambda: paired_bootstrap(np.zeros(2), np.zeros(2), 0), "num_resamples is 0"),
        (lambda: paired_test(np.zeros(2), np.zeros(3)), r"a is \(2,\) and b is \(3,\)"),
        (lambda: mean_std([]), "values is empty"),
    ],
)
def test_what_cannot_be_compared_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
