"""Stratified splits. Oracles: Algorithm 1 of Sechidis et al. (2011) as a loop over the matrix, and class counts."""

import numpy as np
import pytest

from seal_hf.data.splits import stratified_split

PARTS = (0.8, 0.1, 0.1)


def by_the_paper(labels, fractions, seed):
    """Algorithm 1, reading the whole matrix at each step; parts that are full take no row. Same draws."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    ties = rng.random((len(labels), len(fractions)))
    sizes = [len(part) for part in stratified_split(np.empty((len(labels), 0)), fractions, 0)]
    rows, parts = list(range(len(labels))), [[] for _ in fractions]
    wanted = labels.sum(0)[:, None] * np.array(fractions)
    while rows and (remaining := labels[order[rows]].sum(0)).any():
        label = min(np.flatnonzero(remaining), key=lambda i: remaining[i])
        for row in [row for row in rows if labels[order[row], label]]:
            open_parts = [k for k, size in enumerate(sizes) if len(parts[k]) < size]
            best = max(open_parts, key=lambda k: (wanted[label, k], sizes[k] - len(parts[k]), ties[row, k]))
            parts[best].append(order[row])
            wanted[:, best] -= labels[order[row]]
            rows.remove(row)
    for row in rows:
        parts[next(k for k, size in enumerate(sizes) if len(parts[k]) < size)].append(order[row])
    return [sorted(part) for part in parts]


@pytest.mark.parametrize("density", [0.02, 0.2, 0.7])
def test_it_is_the_papers_algorithm(density):
    for seed in range(3):
        labels = (np.random.default_rng(seed).random((150, 9)) < density).astype(np.float32)
        found = stratified_split(labels, PARTS, seed)
        assert [part.tolist() for part in found] == by_the_paper(labels, PARTS, seed)
        assert [len(part) for part in found] == [120, 15, 15]
        assert sorted(np.concatenate(found)) == list(range(150))


def test_classes_have_their_share_in_each_part():
    classes = np.repeat(np.arange(4), [10, 40, 50, 100])
    labels = np.eye(4)[np.random.default_rng(0).permutation(classes)]
    for seed in range(5):
        counts = [labels[part].sum(0).tolist() for part in stratified_split(labels, PARTS, seed)]
        assert counts == [[8, 32, 40, 80], [1, 4, 5, 10], [1, 4, 5, 10]]
    one, other = (stratified_split(labels, PARTS, seed)[0] for seed in (0, 1))
    assert not np.array_equal(one, other)


def test_label_sets_keep_their_shares_better_than_by_chance():
    rng = np.random.default_rng(0)
    labels = rng.random((2000, 20)) < rng.uniform(0.005, 0.1, 20)

    def error(parts):
        return sum(np.abs(labels[part].mean(0) - labels.mean(0)).sum() for part in parts[1:])

    stratified, random = (
        np.mean([error(split(seed)) for seed in range(3)])
        for split in (
            lambda seed: stratified_split(labels, PARTS, seed),
            lambda seed: stratified_split(np.empty((2000, 0)), PARTS, seed),
        )
    )
    assert stratified < random / 3


def test_groups_stay_together():
    groups = np.repeat(np.arange(50), np.arange(50) % 4 + 1)
    labels = np.eye(3)[groups % 3]
    parts = stratified_split(labels, PARTS, 1, groups)
    assert [len(set(groups[part])) for part in parts] == [40, 5, 5]
    assert sorted(np.concatenate(parts)) == list(range(len(groups)))


def test_nothing_to_split_by():
    assert [len(part) for part in stratified_split(np.zeros((10, 3)), PARTS, 0)] == [8, 1, 1]
    assert [len(part) for part in stratified_split(np.zeros((0, 3)), PARTS, 0)] == [0, 0, 0]
