"""Boundary IoU and connected components of masks. Oracles: loops over pairs of pixels, a flood fill."""

import numpy as np
import pytest

from seal_hf.tasks.masks.metrics import band_width, boundary_counts, further_components

C = 3


def masks(seed, size=(11, 14)):
    """Decided and gold masks of blobs; some pixels do not count."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, C, (2, 4, 3, 4)).repeat(4, 2).repeat(4, 3)[:, :, : size[0], : size[1]]
    noise = rng.random(coarse.shape) < 0.1
    decided, labels = np.where(noise, rng.integers(0, C, coarse.shape), coarse).astype(np.uint8)
    labels = np.where(rng.random(labels.shape) < 0.1, 255, labels).astype(np.uint8)
    return decided, labels


def band(region, counts, width):
    """By its definition, pixel by pixel."""
    found, (height, across) = set(), region.shape
    for y, x in zip(*np.nonzero(region), strict=True):
        for v in range(y - width, y + width + 1):
            for u in range(x - width, x + width + 1):
                beyond = not (0 <= v < height and 0 <= u < across)
                if beyond or (counts[v, u] and not region[v, u]):
                    found.add((y, x))
    return found


def components(region):
    """By a flood fill."""
    left, count = set(zip(*np.nonzero(region), strict=True)), 0
    while left:
        count, reached = count + 1, [left.pop()]
        while reached:
            y, x = reached.pop()
            near = {(y + v, x + u) for v in (-1, 0, 1) for u in (-1, 0, 1)} & left
            left -= near
            reached += near
    return count


@pytest.mark.parametrize("size, width", [((11, 14), 1), ((180, 240), 6), ((32, 32), 1), ((60, 80), 2)])
def test_the_band_is_two_percent_of_the_diagonal(size, width):
    assert band_width(*size) == width


@pytest.mark.parametrize("width", [1, 2])
def test_boundary_iou_is_that_of_a_loop_over_pixels(width, monkeypatch):
    monkeypatch.setattr("seal_hf.tasks.masks.metrics.SHARE_OF_DIAGONAL", width / np.hypot(11, 14))
    decided, labels = masks(0)
    both, either = boundary_counts(decided, labels, C)
    assert both.any() and (either > both).any()
    for row in range(len(labels)):
        counts = labels[row] != 255
        for i in range(C):
            ours, gold = (band((part[row] == i) & counts, counts, width) for part in (decided, labels))
            assert (both[row, i], either[row, i]) == (len(ours & gold), len(ours | gold))


def test_components_beyond_the_golds_are_those_of_a_flood_fill():
    decided, labels = masks(1)
    found = further_components(decided, labels, C)
    for row in range(len(labels)):
        counts = labels[row] != 255
        ours, gold = ([components((part[row] == i) & counts) for i in range(C)] for part in (decided, labels))
        assert found[row].tolist() == [max(a - b, 0) for a, b in zip(ours, gold, strict=True)]
    assert found.any() and not further_components(np.where(labels == 255, 0, labels), labels, C).any()


def test_pixels_that_do_not_count_have_no_influence():
    decided, labels = masks(2)
    changed = np.where(labels == 255, 2 - decided, decided)
    for figure in (boundary_counts, further_components):
        np.testing.assert_array_equal(figure(changed, labels, C), figure(decided, labels, C))
