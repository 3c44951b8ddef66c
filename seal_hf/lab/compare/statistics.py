"""Is the difference between two methods more than chance? The tests read numpy arrays.

There are two sources of chance, with one test each. `paired_bootstrap` tests against the choice of test examples, for
these trained nets. `paired_test` tests against the choice of seeds, for this split. Neither covers the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import ttest_rel


class Rows(NamedTuple):
    """What N rows add to a figure, Σ part / Σ whole: the part and the whole of each row.

    A mean over rows has wholes of 1. Accuracy of tags has right tags and tags; F1 of spans over all sentences has twice
    the right spans, and predicted and gold spans together. The figure may also be the mean of such ratios over C
    classes: mean IoU has the pixels of each class's intersection and union.

    Attributes:
        part, whole: (N,), or of classes (N, C), at least 0; a part is at most its whole.
    """

    part: np.ndarray
    whole: np.ndarray

    @classmethod
    def of_mean(cls, values: np.ndarray) -> Rows:
        """Rows for a figure that is a mean of `values`, (N,) numbers in [0, 1]."""
        values = np.asarray(values, dtype=np.float64)
        return cls(values, np.ones_like(values))

    @property
    def figure(self) -> float:
        """The figure over all rows, which is [`ratio`] of their sums."""
        part, whole = (np.atleast_1d(values.sum(0)) for values in self)
        return float(ratio(part, whole))

    def as_text(self) -> str:
        """Write the rows as one word each.

        Counts are `part/whole`, with commas between classes. A figure of a mean is in thousandths.
        """
        if self.part.dtype.kind == "f":
            return " ".join(str(round(1000 * value)) for value in self.part)
        part, whole = (values.reshape(len(values), -1).tolist() for values in self)
        words = [[f"{a}/{b}" for a, b in zip(*row, strict=True)] for row in zip(part, whole, strict=True)]
        return " ".join(map(",".join, words))

    @classmethod
    def of_text(cls, text: str) -> Rows:
        """The inverse of `as_text`, up to half a thousandth."""
        words = text.split()
        if "/" not in text:
            return cls.of_mean(np.array(words, dtype=np.float64) / 1000)
        counts = np.array(
            [[pair.split("/") for pair in word.split(",")] for word in words], dtype=np.int64
        )  # (N, C, 2)
        part, whole = counts.transpose(2, 0, 1)
        return cls(part, whole) if "," in text else cls(part[:, 0], whole[:, 0])


def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Part / whole (..., C), the mean over the classes with a whole above 0; 0 without such classes."""
    known = whole > 0
    ratios = np.divide(part, whole, out=np.zeros(part.shape), where=known)
    return ratios.sum(-1) / np.maximum(known.sum(-1), 1)


_BLOCK = 1 << 19  # elements per batch
_KEPT = 1 << 25  # elements of draws that are kept for the next figures

Values = np.ndarray | float
Pair = tuple[np.ndarray, np.ndarray, tuple[Values, Values]]  # a, b, and their wholes


class PairedDifference(NamedTuple):
    """A difference a - b, its 95 % interval, and the two-sided p-value of no difference. A p-value of 0 means less than
    1 / `num_resamples`."""

    difference: float
    low: float
    high: float
    p_value: float
    num_resamples: int

    def __str__(self) -> str:
        least = 1 / self.num_resamples
        p = f"p < {least:.2g}" if self.p_value < least else f"p = {self.p_value:.2g}"
        return f"{self.difference:+.4f} [{self.low:+.4f}, {self.high:+.4f}], {p}"


def paired_bootstrap(
    a: np.ndarray,
    b: np.ndarray,
    num_resamples: int = 10_000,
    seed: int = 0,
    *,
    wholes: tuple[Values, Values] = (1.0, 1.0),
) -> PairedDifference:
    """Compare two methods on the same N test examples by a figure that is a ratio of sums over them, Σ part / Σ whole.
    A resample draws N of them with replacement, and takes the difference of the figures of a and b on these.

    The interval goes from percentile 2.5 to 97.5. The p-value is the share of resamples at least as far from the
    observed difference as that difference is from 0 (Efron & Tibshirani 1993, ch. 16: resamples shifted to the null
    hypothesis). It is at least 2^(1-k), the least of a sign test, if a and b differ in k examples. With fewer than
    about 50 examples, interval and p-value are slightly too optimistic, like a normal test beside a t-test.

    Args:
        a, b: (N,) part of each example, or (seeds, N); a figure is then the mean over seeds. The numbers of seeds may
            differ. Without `wholes` the figure is a mean, and a part is an example's own figure, such as its F1.
        num_resamples: number R of resamples. Memory does not grow with R x N.
        seed: seed of the resampling. The same seed draws the same examples for every pair of methods with N examples.
        wholes: of a and of b, in the same shapes, for a ratio of counts: for the F1 of spans, parts are twice the right
            spans, and wholes are the predicted and gold spans together. A figure with wholes of 0 alone is 0. Counts of
            C classes are (seeds, N, C): the figure is then the mean over classes, without those whose whole is 0.

    Raises:
        ValueError: there are no examples or no resamples, the numbers of examples differ, or a value is not finite.
    """
    return paired_bootstraps([(a, b, wholes)], num_resamples, seed)[0]


def paired_bootstraps(pairs: Sequence[Pair], num_resamples: int = 10_000, seed: int = 0) -> list[PairedDifference]:
    """[`paired_bootstrap`] of several pairs on the same N examples. The resamples are drawn once for all of them."""
    sides = [
        [_by_seed(name, part, whole) for name, part, whole in zip("ab", (a, b), wholes, strict=True)]
        for a, b, wholes in pairs
    ]
    if not sides:
        return []
    number = sides[0][0].shape[2]
    for one, other in sides:
        if one.shape[2] != other.shape[2]:
            raise ValueError(
                f"a has {one.shape[2]} examples and b has {other.shape[2]}: a paired test needs the same ones in both"
            )
        if one.shape[2] != number:
            raise ValueError(f"a pair has {one.shape[2]} examples and another has {number}: they share no resamples")
    if num_resamples < 1:
        raise ValueError(f"num_resamples is {num_resamples}, expected at least 1")
    tables = [np.concatenate([_by_row(one), _by_row(other)], axis=1) for one, other in sides]
    shapes = [(len(one[0]), one.shape[-1]) for one, _ in sides]  # seeds of a, C
    of_all, ends = np.concatenate(tables, axis=1), np.cumsum([table.shape[1] for table in tables])[:-1]
    resampled, start = np.empty((len(pairs), num_resamples)), 0
    draws = _kept_draws if number * num_resamples <= _KEPT else _draws
    for times in draws(number, num_resamples, seed):
        sums = np.split(times.astype(np.float64) @ of_all, ends, axis=1)
        for values, some, shape in zip(resampled, sums, shapes, strict=True):
            values[start : start + len(times)] = _difference(some, *shape)
        start += len(times)
    found = [float(_difference(table.sum(0), *shape)) for table, shape in zip(tables, shapes, strict=True)]
    return [_tested(*each) for each in zip(found, resampled, sides, strict=True)]


def _draws(number: int, num_resamples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each of N examples is in a resample: blocks of (some of R, N)."""
    rng, batch = np.random.default_rng(seed), max(1, _BLOCK // number)
    for start in range(0, num_resamples, batch):
        drawn = rng.integers(number, size=(min(batch, num_resamples - start), number))
        drawn += number * np.arange(len(drawn))[:, None]
        times = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
        yield times.astype(np.min_scalar_type(number))  # at most N times


@lru_cache(maxsize=2)
def _kept_draws(number: int, num_resamples: int, seed: int) -> list[np.ndarray]:
    """[`_draws`], for the next figure of the same examples."""
    return list(_draws(number, num_resamples, seed))


def _by_row(side: np.ndarray) -> np.ndarray:
    """(2, seeds, N, C) as (N, 2 seeds C)."""
    return np.moveaxis(side, 2, 0).reshape(side.shape[2], -1)


def _tested(found: float, resampled: np.ndarray, sides: Sequence[np.ndarray]) -> PairedDifference:
    low, high = np.quantile(resampled, [0.025, 0.975])
    # up to rounding: the sums of equal resamples may differ in the last digit
    p_value = (np.abs(resampled - found) >= np.abs(found) - 1e-12).mean() if abs(found) > 1e-12 else 1.0
    one, other = sides
    apart = np.abs(one.mean(1) - other.mean(1)) > 1e-12  # (2, N, C): parts and wholes
    least = _least(int(np.count_nonzero(apart.any((0, 2)))))
    if least >= 1 / len(resampled):
        p_value = max(p_value, least)
    return PairedDifference(found, float(low), float(high), float(p_value), len(resampled))


def _by_seed(name: str, part: np.ndarray, whole: np.ndarray | float) -> np.ndarray:
    """Parts and wholes of a method: (2, seeds, N, C). Seeds with the same wholes are averaged, with the same result."""
    part, whole = _finite(name, part), _finite(f"the whole of {name}", whole)
    if part.ndim not in (1, 2, 3):
        raise ValueError(f"{name} is {part.shape}; expected (examples,), (seeds, examples), or with classes last")
    part, whole = np.broadcast_arrays(np.atleast_2d(part), whole)
    if part.ndim == 2:
        part, whole = part[..., None], whole[..., None]
    if (whole == whole[0]).all():
        part, whole = part.mean(0, keepdims=True), whole[:1]
    return np.stack([part, whole])


def _difference(sums: np.ndarray, seeds: int, classes: int) -> np.ndarray:
    """The figure of a less that of b, from the sums (..., 2 seeds C of a + 2 seeds C of b) of parts and wholes."""
    figures = []
    for side in np.split(sums, [2 * seeds * classes], axis=-1):
        part, whole = np.moveaxis(side.reshape(*sums.shape[:-1], 2, -1, classes), -3, 0)
        figures.append(ratio(part, whole).mean(-1))
    return figures[0] - figures[1]


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


def _finite(name: str, values: Any) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.size == 0:
        raise ValueError(f"{name} is empty: there is nothing to compare")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} has a value that is not finite, at {np.argwhere(~np.isfinite(values))[0].tolist()}")
    return values
