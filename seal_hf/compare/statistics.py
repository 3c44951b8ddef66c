"""Is a difference between two methods more than chance? On numpy arrays.

Two sources of chance, one test each: which examples are in the test split (`paired_bootstrap`, given these trained
nets), and which seeds the nets were trained with (`paired_test`, given this split). Neither covers the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import bootstrap, ttest_rel

_BLOCK = 1 << 21  # elements handled at once


class PairedDifference(NamedTuple):
    """A mean difference a - b, its 95 % interval, and the two-sided p-value of no difference; 0 stands
    for less than 1 / `num_resamples`."""

    difference: float
    low: float
    high: float
    p_value: float
    num_resamples: int

    def __str__(self) -> str:
        least = 1 / self.num_resamples
        p = f"p < {least:.2g}" if self.p_value < least else f"p = {self.p_value:.2g}"
        return f"{self.difference:+.4f} [{self.low:+.4f}, {self.high:+.4f}], {p}"


def paired_bootstrap(a: np.ndarray, b: np.ndarray, num_resamples: int = 10_000, seed: int = 0) -> PairedDifference:
    """Two methods on the same test examples: draws as many examples, with replacement, and averages a - b over them.

    The interval is that of percentiles, 2.5 % to 97.5 %, by `scipy.stats.bootstrap`. The p-value is the share of
    resamples that are at least as far from the difference found as this is from 0 (Efron & Tibshirani 1993, ch. 16:
    resamples moved to the null hypothesis), but at least 2^(1-k), the least that a test by the signs of k differences
    can give, k of them not 0.
    With fewer than some 50 examples both are a little too sure, as a normal test is beside a t-test.

    Args:
        a, b: (N,) figure of each example, such as its F1 (`reports.score_decoders`), or (seeds, N), which is averaged
            over seeds first; the numbers of seeds may differ.
        num_resamples: R. Memory does not grow with R x N.
        seed: of the resampling; the same seed draws the same examples for every pair of methods with N examples.

    Raises:
        ValueError: no examples, different numbers of them, values that are not finite, or no resamples.
    """
    a, b = (_mean_over_seeds(name, values) for name, values in (("a", a), ("b", b)))
    if a.shape != b.shape:
        raise ValueError(f"a has {len(a)} examples and b has {len(b)}: a paired test needs the same ones in both")
    if num_resamples < 1:
        raise ValueError(f"num_resamples is {num_resamples}, expected at least 1")
    differences = a - b
    found = differences.mean()
    if len(differences) == 1:  # scipy refuses a single example; each of its resamples is itself
        return PairedDifference(float(found), float(found), float(found), 1.0, num_resamples)
    batch = max(1, _BLOCK // len(differences))
    result = bootstrap((differences,), np.mean, n_resamples=num_resamples, batch=batch, method="percentile", rng=seed)
    (low, high), resampled = result.confidence_interval, result.bootstrap_distribution
    # to rounding: where all resamples are equal, their sums may still differ in the last place
    p_value = (np.abs(resampled - found) >= np.abs(found) - 1e-12).mean() if abs(found) > 1e-12 else 1.0
    least = _least(int(np.count_nonzero(np.abs(differences) > 1e-12)))
    if least >= 1 / num_resamples:
        p_value = max(p_value, least)
    return PairedDifference(float(found), float(low), float(high), float(p_value), num_resamples)


def paired_test(a: np.ndarray, b: np.ndarray) -> float:
    """Two methods trained with the same seeds: the p-value of the paired t-test, two-sided.

    Args:
        a, b: (seeds,) figure of each run, in the same order of seeds.

    Returns:
        p in [0, 1]. NaN for fewer than 2 seeds; 1 where all pairs are equal. Where all differ by the same amount, which
        happens to figures of few rows, 2^(1-n): what the signs of n differences can prove.

    Raises:
        ValueError: different numbers of runs, or values that are not finite.
    """
    a, b = (_finite(name, values) for name, values in (("a", a), ("b", b)))
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(
            f"a is {a.shape} and b is {b.shape}; a paired test needs one figure per seed, of the same seeds"
        )
    differences = a - b
    if len(a) < 2:
        return float("nan")
    if np.ptp(differences) < 1e-12:  # no variance: the t-value is 0/0 or infinite
        return 1.0 if abs(differences.mean()) < 1e-12 else _least(len(a))
    return float(ttest_rel(a, b).pvalue)


def _least(num_differences: int) -> float:
    """The least p-value of an exact two-sided test by the signs of so many differences."""
    return 2.0 ** (1 - max(num_differences, 1))


def mean_std(values: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation (of the sample, n - 1) of the figures of some seeds; that of one seed is NaN.

    Raises:
        ValueError: no values, or values that are not finite.
    """
    values = _finite("values", values)
    return float(values.mean()), float(values.std(ddof=1)) if values.size > 1 else float("nan")


def _finite(name: str, values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.size == 0:
        raise ValueError(f"{name} is empty: there is nothing to compare")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} has a value that is not finite, at {np.argwhere(~np.isfinite(values))[0].tolist()}")
    return values


def _mean_over_seeds(name: str, values: np.ndarray) -> np.ndarray:
    """(N,) or (seeds, N) -> (N,)."""
    values = _finite(name, values)
    if values.ndim not in (1, 2):
        raise ValueError(f"{name} is {values.shape}; expected (examples,) or (seeds, examples)")
    return values if values.ndim == 1 else values.mean(0)
