"""Is the difference between two methods more than chance? Works on numpy arrays.

There are two sources of chance, with one test each. `paired_bootstrap` tests against the choice of test examples, for
these trained nets. `paired_test` tests against the choice of seeds, for this split. Neither covers the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import bootstrap, ttest_rel

_BLOCK = 1 << 21  # elements per batch


class PairedDifference(NamedTuple):
    """A mean difference a - b, its 95 % interval, and the two-sided p-value of no difference. A p-value of 0 means less
    than 1 / `num_resamples`."""

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
    """Compare two methods on the same N test examples. A resample draws N of them with replacement and averages a - b.

    The interval goes from percentile 2.5 to 97.5, by `scipy.stats.bootstrap`. The p-value is the share of resamples at
    least as far from the observed difference as that difference is from 0 (Efron & Tibshirani 1993, ch. 16: resamples
    shifted to the null hypothesis). It is at least 2^(1-k), the least of a sign test, if k differences are
    not 0. With fewer than about 50 examples, interval and p-value are slightly too optimistic, like a normal test
    beside a t-test.

    Args:
        a, b: (N,) figure of each example, such as its F1 (`reports.score_decoders`); or (seeds, N), averaged over seeds
            first. The numbers of seeds may differ.
        num_resamples: number R of resamples. Memory does not grow with R x N.
        seed: seed of the resampling. The same seed draws the same examples for every pair of methods with N examples.

    Raises:
        ValueError: there are no examples or no resamples, the numbers of examples differ, or a value is not finite.
    """
    a, b = (_mean_over_seeds(name, values) for name, values in (("a", a), ("b", b)))
    if a.shape != b.shape:
        raise ValueError(f"a has {len(a)} examples and b has {len(b)}: a paired test needs the same ones in both")
    if num_resamples < 1:
        raise ValueError(f"num_resamples is {num_resamples}, expected at least 1")
    differences = a - b
    found = differences.mean()
    if len(differences) == 1:  # scipy refuses a single example, whose resamples all equal it
        return PairedDifference(float(found), float(found), float(found), 1.0, num_resamples)
    batch = max(1, _BLOCK // len(differences))
    result = bootstrap((differences,), np.mean, n_resamples=num_resamples, batch=batch, method="percentile", rng=seed)
    (low, high), resampled = result.confidence_interval, result.bootstrap_distribution
    # up to rounding: the sums of equal resamples may differ in the last digit
    p_value = (np.abs(resampled - found) >= np.abs(found) - 1e-12).mean() if abs(found) > 1e-12 else 1.0
    least = _least(int(np.count_nonzero(np.abs(differences) > 1e-12)))
    if least >= 1 / num_resamples:
        p_value = max(p_value, least)
    return PairedDifference(float(found), float(low), float(high), float(p_value), num_resamples)


def paired_test(a: np.ndarray, b: np.ndarray) -> float:
    """Compare two methods trained with the same seeds: the p-value of the two-sided paired t-test.

    Args:
        a, b: (seeds,) figure of each run, in the same order of seeds.

    Returns:
        p in [0, 1]. NaN for fewer than 2 seeds; 1 if all pairs are equal. If all n pairs differ by the same amount, as
        can happen with few rows, 2^(1-n), the p-value of a sign test.

    Raises:
        ValueError: the numbers of runs differ, or a value is not finite.
    """
    a, b = (_finite(name, values) for name, values in (("a", a), ("b", b)))
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(
            f"a is {a.shape} and b is {b.shape}; a paired test needs one figure per seed, of the same seeds"
        )
    differences = a - b
    if len(a) < 2:
        return float("nan")
    if np.ptp(differences) < 1e-12:  # without variance the t-value is 0/0 or infinite
        return 1.0 if abs(differences.mean()) < 1e-12 else _least(len(a))
    return float(ttest_rel(a, b).pvalue)


def _least(num_differences: int) -> float:
    """The smallest p-value of an exact two-sided sign test on this many differences."""
    return 2.0 ** (1 - max(num_differences, 1))


def mean_std(values: np.ndarray) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1) of figures over seeds. The deviation of one seed is NaN.

    Raises:
        ValueError: there are no values, or one is not finite.
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
