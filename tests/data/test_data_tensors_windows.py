"""Windows of long sentences: each word is kept once, in a window that has room for it, with neighbours around it."""

import numpy as np
import pytest
from tiny_models import tiny_tokenizer

from seal_hf.data.tensors.words import Window, subword_counts, windows_of


@pytest.mark.parametrize("seed", range(50))
def test_windows_of_random_sentences(seed):
    rng = np.random.default_rng(seed)
    room = int(rng.integers(1, 40))
    sizes = rng.integers(1, min(room, int(rng.integers(1, 8))) + 1, int(rng.integers(1, 200)))
    windows = windows_of(sizes, room)
    assert [i for window in windows for i in range(window.first, window.last)] == list(range(len(sizes)))
    assert windows[0].start == 0 and windows[-1].end == len(sizes)
    for window in windows:
        assert window.start <= window.first <= window.last <= window.end
        assert sizes[window.start : window.end].sum() <= room
    for earlier, later in zip(windows, windows[1:], strict=False):
        assert earlier.start <= later.start <= earlier.end < later.end
        assert sizes[later.start : earlier.end].sum() <= room / 4
        before, behind = later.first - later.start, earlier.end - earlier.last
        assert abs(before - behind) <= 1  # words that are shared, but taken from the other window
    assert (len(windows) == 1) == (sizes.sum() <= room)


def test_windows_by_hand():
    assert windows_of([1] * 8, 8) == [Window(0, 8, 0, 8)]
    assert windows_of([1] * 12, 8) == [Window(0, 8, 0, 7), Window(6, 12, 7, 12)]
    assert windows_of([2, 2, 8, 1], 8) == [Window(0, 2, 0, 2), Window(2, 3, 2, 3), Window(3, 4, 3, 4)]
    with pytest.raises(ValueError, match="word 1 has 9 sub-words, but the encoder reads at most 8 at once"):
        windows_of([1, 9], 8)


def test_subwords_are_counted():
    counts = subword_counts([["good", "film-book", "", "x-y"], ["bad"]], tiny_tokenizer())
    assert [row.tolist() for row in counts] == [[1, 3, 1, 3], [1]]
