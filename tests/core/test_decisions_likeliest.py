"""The most probable structures. Oracle: brute force over all of them."""

import itertools

import numpy as np
import pytest

from seal_hf.core.arrays import label_log_probabilities, likeliest


def every_structure(logs):
    """All structures (C^T, T), and their log-probabilities, the most probable first."""
    structures = np.array(list(itertools.product(range(logs.shape[1]), repeat=len(logs))))
    totals = np.array([sum(row[value] for row, value in zip(logs, structure, strict=True)) for structure in structures])
    order = np.argsort(-totals, kind="stable")
    return structures[order], totals[order]


@pytest.mark.parametrize(("positions", "values"), [(1, 2), (8, 2), (4, 5), (3, 1), (1, 7)])
@pytest.mark.parametrize("count", [1, 2, 6, 40])
def test_they_are_the_first_of_all_structures(positions, values, count):
    rng = np.random.default_rng(positions + count)
    for sharpness in (0.3, 4):
        logs = rng.normal(0, sharpness, (positions, values))
        logs -= np.log(np.exp(logs).sum(1, keepdims=True))
        structures, totals = likeliest(logs, count)
        all_structures, all_totals = every_structure(logs)
        np.testing.assert_allclose(totals, all_totals[:count], atol=1e-12)
        np.testing.assert_array_equal(structures, all_structures[:count])


def test_of_equal_structures_any_is_given_once():
    structures, totals = likeliest(np.log(np.full((5, 2), 0.5)), 20)
    assert len(np.unique(structures, axis=0)) == 20
    np.testing.assert_allclose(totals, 5 * np.log(0.5))


def test_what_never_occurs_is_left_out():
    logs = label_log_probabilities(np.array([1.0, 0.0, 0.25]))
    structures, totals = likeliest(logs, 6)
    assert structures.tolist() == [[1, 0, 0], [1, 0, 1]]
    np.testing.assert_allclose(np.exp(totals), [0.75, 0.25])
