"""Whether probabilities of labels are what they say: predicted against observed frequency, in bins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .multilabel import checked_blocks

NUM_BINS = 10


class Reliability(NamedTuple):
    """Entries (row, label) in bins of equal width: bin b of B holds the probabilities in [b / B, (b + 1) / B), the last
    bin also 1.

    Attributes:
        entries: (B,) number of entries in each bin.
        predicted: (B,) their mean probability; NaN in an empty bin.
        observed: (B,) share of them that are gold; NaN in an empty bin.
    """

    entries: np.ndarray
    predicted: np.ndarray
    observed: np.ndarray

    @property
    def error(self) -> float:
        """The expected calibration error (Naeini et al. 2015; Guo et al. 2017): |predicted - observed| of the bins,
        weighted by their entries. In [0, 1], 0 is best."""
        gaps = np.abs(np.nan_to_num(self.predicted - self.observed))
        return float((self.entries * gaps).sum() / self.entries.sum())


def reliability(probabilities: np.ndarray, labels: np.ndarray) -> Reliability:
    """The reliability of probabilities over all known entries.

    Args:
        probabilities: (N, L) in [0, 1].
        labels: (N, L), 0 or 1, or -1 or NaN for unknown.

    Raises:
        ValueError: as `multilabel_metrics`.
    """
    sums = np.zeros((3, NUM_BINS))  # entries, their probabilities, their gold labels
    for block, gold in checked_blocks(probabilities, labels):
        p, y = block.ravel(), gold.ravel()
        if not (known := p >= 0).all():
            p, y = p[known], y[known]
        bins = np.minimum((p * NUM_BINS).astype(np.intp), NUM_BINS - 1)
        for total, weights in zip(sums, (None, p, y), strict=True):
            total += np.bincount(bins, weights, minlength=NUM_BINS)
    entries = np.where(sums[0] > 0, sums[0], np.nan)
    return Reliability(sums[0].astype(np.int64), sums[1] / entries, sums[2] / entries)
