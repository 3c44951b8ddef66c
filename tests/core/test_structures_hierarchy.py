"""Oracles: transitive closure by powers of the adjacency matrix; sets of ancestors by hand."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from seal_hf.core.hierarchy import Hierarchy, find_cycle, hierarchy_of, store_hierarchy


def random_graph(num_labels, seed, share=0.3):
    """Edges from later labels to earlier ones of a random order: no cycle, several parents."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(num_labels)
    edges = np.tril(rng.random((num_labels, num_labels)) < share, -1)
    return Hierarchy.of_pairs([(order[i], order[j]) for i, j in np.argwhere(edges)], num_labels)


def reaches(hierarchy):
    """(L, L): whether the column's label is the row's or an ancestor of it, by matrix powers."""
    size = len(hierarchy.parents)
    steps = np.eye(size, dtype=np.int64)
    for label, above in enumerate(hierarchy.parents):
        steps[label, list(above)] = 1
    return np.linalg.matrix_power(steps, size) > 0


@pytest.mark.parametrize("seed", range(5))
def test_closure_by_matrix_powers(seed):
    hierarchy, rng = random_graph(12, seed), np.random.default_rng(seed)
    above = reaches(hierarchy)
    sets, values = rng.random((50, 12)) < 0.15, rng.random((50, 12))
    kept = values.copy()
    np.testing.assert_array_equal(hierarchy.raised(sets), sets.astype(int) @ above > 0)
    np.testing.assert_array_equal(hierarchy.raised(values), np.where(above, values[:, :, None], -1).max(1))
    np.testing.assert_array_equal(values, kept)
    place = np.argsort(hierarchy.order)
    assert all(place[parent] < place[label] for label in range(12) for parent in hierarchy.parents[label])


def test_parents_come_before_their_children():
    hierarchy = Hierarchy(((), (0,), (4,), (0,), (), (1,)))
    assert hierarchy.order.tolist() == [0, 1, 5, 3, 4, 2] and hierarchy.root is None
    assert Hierarchy(((1,), (), (1,))).root == 1 and Hierarchy(((),)).root is None


def test_a_cycle_is_found_with_its_path():
    assert find_cycle({"x": ["a"], "a": ["b"], "b": ["c", "a"], "c": []}) == ["a", "b", "a"]
    assert find_cycle({"a": ["a"]}) == ["a", "a"]
    assert find_cycle({"a": ["b", "c"], "b": ["d"], "c": ["d"]}) == []
    with pytest.raises(ValueError, match="cycle: 0 -> 2 -> 0"):
        Hierarchy(((2,), (), (0,)))
    chain = {i: [i + 1] for i in range(5000)}
    assert find_cycle(chain) == [] and len(find_cycle(chain | {5000: [0]})) == 5002


def test_it_travels_in_a_config_and_is_checked():
    hierarchy = random_graph(6, 3)
    config = SimpleNamespace(id2label=dict(enumerate("abcdef")))
    assert hierarchy_of(config) is None
    store_hierarchy(config, hierarchy)
    config.label_hierarchy = json.loads(json.dumps(config.label_hierarchy))
    assert hierarchy_of(config) == hierarchy
    for wrong, said in (
        ("up", "'up'; expected a list of the parents' ids"),
        ([[], [True]], "expected a list of the parents' ids"),
        ([[], [7]], "label 1 of the hierarchy has parent 7, expected 0 to 1"),
        ([[1], [0]], "cycle: 0 -> 1 -> 0"),
        ([[], [0]], "2 labels, but the task-net has 6"),
    ):
        config.label_hierarchy = wrong
        with pytest.raises(ValueError, match=f"`config.label_hierarchy`.*{said}"):
            hierarchy_of(config)
    store_hierarchy(config, None)
    assert hierarchy_of(config) is None
