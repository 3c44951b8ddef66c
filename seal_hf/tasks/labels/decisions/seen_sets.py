"""Decoding with the label sets that occur in the training rows.

Independent labels give most of their probability to label sets that never occur. Here a label set S has the probability

    P(S | x) = (1 - ρ) q(S | x) + ρ π(S | x),    q(S | x) ∝ π(S | x) freq(S)^γ  for the sets S of a list,

where π(S | x) = Π_j P(y_j | x) are the net's independent labels, freq(S) is the share of training rows that have S,
γ is the power of the frequency, and ρ the share of sets outside the list.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ....core.arrays import sigmoid
from ..metrics import BLOCK
from .decoders import clipped_logit, largest_power, quadrature

MOST_SETS, MOST_BITS = 5000, 5_000_000  # in the list: the most frequent sets, and their labels together
POWERS, SHARES = np.linspace(0, 1, 5), np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])  # tried γ and ρ


@dataclass(frozen=True, eq=False)
class SeenSets:
    """The label sets of the training rows, the most frequent first.

    Attributes:
        sets: (M, L) bool, all different.
        counts: (M,) rows that have each, at least 1.
        num_rows: all training rows, those of sets outside the list too.
    """

    sets: np.ndarray
    counts: np.ndarray
    num_rows: int

    @classmethod
    def of_rows(cls, label_sets: Iterable[np.ndarray], num_labels: int) -> SeenSets | None:
        """The list of some rows; None if no set occurs twice, so that frequencies say nothing.

        Args:
            label_sets: the ids of each row's labels, ascending.
        """
        counts: dict[tuple[int, ...], int] = {}
        for ids in label_sets:
            key = tuple(map(int, ids))
            counts[key] = counts.get(key, 0) + 1
        if max(counts.values(), default=0) < 2:
            return None
        most = min(MOST_SETS, max(1, MOST_BITS // num_labels))
        kept = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]
        sets = np.zeros((len(kept), num_labels), dtype=bool)
        for row, (labels, _) in zip(sets, kept, strict=True):
            row[list(labels)] = True
        return cls(sets, np.array([count for _, count in kept]), sum(counts.values()))

    def as_json(self) -> dict[str, Any]:
        """The list as JSON: L bits for each set, packed and in base64, and the counts."""
        bits = base64.b64encode(np.packbits(self.sets, axis=1).tobytes()).decode()
        return {"bits": bits, "counts": self.counts.tolist(), "num_labels": self.sets.shape[1], "rows": self.num_rows}

    @classmethod
    def of_saved(cls, saved: Any) -> SeenSets:
        """The inverse of `as_json`. Raises ValueError for anything else, since configs may come from anyone."""
        wrong = ValueError("`config.decisions` has `seen` that is damaged: fit the decisions again.")
        if not isinstance(saved, Mapping):
            raise wrong
        counts: Any = saved.get("counts")
        num_labels: Any = saved.get("num_labels")
        rows: Any = saved.get("rows")
        whole = [num_labels, rows, *counts] if isinstance(counts, list) and len(counts) <= MOST_SETS else [None]
        if not all(type(value) is int and 0 < value < 2**31 for value in whole) or not counts:
            raise wrong
        try:
            packed = np.frombuffer(base64.b64decode(saved.get("bits", ""), validate=True), dtype=np.uint8)
        except (TypeError, ValueError, binascii.Error):
            raise wrong from None
        if packed.size != len(counts) * -(-num_labels // 8) or sum(counts) > rows:
            raise wrong
        sets = np.unpackbits(packed.reshape(len(counts), -1), axis=1, count=num_labels).astype(bool)
        return cls(sets, np.array(counts), rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SeenSets) and self.as_json() == other.as_json()

    __hash__ = None  # type: ignore[assignment]  # it holds arrays

    @cached_property
    def _log_frequencies(self) -> np.ndarray:
        return np.log(self.counts / self.num_rows)

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return {row.tobytes(): i for i, row in enumerate(self.sets)}

    @cached_property
    def _columns(self) -> np.ndarray:
        """The sets as a matrix (L, M), float64."""
        return np.ascontiguousarray(self.sets.T, dtype=np.float64)

    @cached_property
    def _by_size(self) -> list[tuple[int, np.ndarray]]:
        """The sizes of the sets, and the places of the sets of each, without the empty set."""
        sizes = self.sets.sum(1)
        return [(size, np.flatnonzero(sizes == size)) for size in np.unique(sizes).tolist() if size]

    @cached_property
    def _agreements(self) -> dict[tuple[bool, float], np.ndarray]:
        return {}

    def probabilities(self, p: np.ndarray, power: float) -> np.ndarray:
        """q(S | x) of each set of the list, (N, M), for probabilities p (N, L)."""
        scores = clipped_logit(p) @ self._columns + power * self._log_frequencies
        scores -= scores.max(1, keepdims=True)
        weights = np.exp(scores)
        return weights / weights.sum(1, keepdims=True)

    def most_probable(self, p: np.ndarray, power: float, share: float) -> np.ndarray:
        """The most probable set of each row, (N, L) bool; ties give the more frequent set.

        Outside the list, no set is more probable than p >= 0.5: if that is in the list, its ρ π exceeds theirs too.

        Args:
            p: (N, L) in [0, 1].
            power, share: γ >= 0 and ρ in [0, 1].
        """
        found = np.empty(p.shape, dtype=bool)
        for rows in _blocks(len(p), len(self.sets)):
            q = (1 - share) * self.probabilities(p[rows], power)
            if share == 0:
                found[rows] = self.sets[q.argmax(1)]
                continue
            inside = np.exp(_log_independent(p[rows], self._columns))  # (n, M): π of the list's sets
            q += share * inside
            mode = p[rows] >= 0.5
            outside = share * np.exp(_log_mode(p[rows]))
            outside[[row.tobytes() in self._places for row in mode]] = -1.0
            best = q.argmax(1)
            listed = q[np.arange(len(q)), best] >= outside
            found[rows] = np.where(listed[:, None], self.sets[best], mode)
        return found

    def best_f1(self, p: np.ndarray, power: float, share: float, empty_score: float = 1.0) -> np.ndarray:
        """The label set of the highest expected example F1 under P(S | x), among all 2^L sets: (N, L) bool.

        The expected F1 of a set T of size k is Σ_{i in T} f_ki, with f_ki = Σ_s 2 P(y_i = 1, |y| = s) / (k + s), so the
        best set of each size has the largest f_ki (Dembczyński et al. 2011, GFM). Sizes whose bound
        2 E|y| / (k + 1) is below the best value are left out.

        Args:
            p, power, share: as for `most_probable`.
            empty_score: F1 of an empty decision where no label is gold.
        """
        found = np.zeros(p.shape, dtype=bool)
        has_labels, by_size = self.sets.any(1), self._by_size
        for rows in _blocks(len(p), max(len(self.sets), p.shape[1] * (len(by_size) + 1))):
            q = (1 - share) * self.probabilities(p[rows], power)
            both = [(size, q[:, at] @ self._columns.T[at]) for size, at in by_size]  # P(y_i = 1, |y| = s), in the list
            empty = q[:, ~has_labels].sum(1) + share * np.prod(1 - p[rows], axis=1)
            expected = sum((joint.sum(1) for _, joint in both), np.zeros(len(q))) + share * p[rows].sum(1)
            best, size = empty * empty_score, 0
            while size < p.shape[1] and (2 * expected / (size + 2) > best).any():
                size += 1
                f = sum((2 / (size + s) * joint for s, joint in both), np.zeros_like(p[rows]))
                if share > 0:
                    f += share * _independent_scores(p[rows], size)
                order = np.argsort(-f, axis=1, kind="stable")[:, :size]
                value = np.take_along_axis(f, order, 1).sum(1)
                better = np.flatnonzero(value > best + 1e-12)
                best[better] = value[better]
                chosen = np.zeros((len(better), p.shape[1]), dtype=bool)
                np.put_along_axis(chosen, order[better], True, 1)
                found[rows[better]] = chosen
        return found

    def best_of_list(self, p: np.ndarray, power: float, agreement: np.ndarray) -> np.ndarray:
        """The set of the list with the highest expected agreement under q, such as the Jaccard index, (N, L) bool.

        Args:
            p, power: as for `most_probable`.
            agreement: (M, M) of each set, in rows, with each that may be gold.
        """
        found = np.empty(p.shape, dtype=bool)
        for rows in _blocks(len(p), len(self.sets)):
            found[rows] = self.sets[(self.probabilities(p[rows], power) @ agreement.T).argmax(1)]
        return found

    def agreement(self, jaccard: bool, empty_score: float = 1.0) -> np.ndarray:
        """(M, M) F1, or Jaccard index, of each two sets of the list; `empty_score` for two empty ones."""
        if (key := (jaccard, empty_score)) not in self._agreements:
            sets = self.sets.astype(np.float32)
            both, sizes = sets @ sets.T, sets.sum(1)
            total = sizes[:, None] + sizes
            score = both / np.maximum(total - both, 1) if jaccard else 2 * both / np.maximum(total, 1)
            self._agreements[key] = np.where(total > 0, score, np.float32(empty_score))
        return self._agreements[key]

    def likeliest_numbers(self, p: np.ndarray, gold: np.ndarray) -> tuple[float, float]:
        """γ and ρ, of `POWERS` and `SHARES`, with the highest likelihood Σ log P(gold | x).

        Args:
            p, gold: (N, L) probabilities and gold sets, bool, of validation rows; N >= 1.
        """
        place = np.array([self._places.get(row.tobytes(), -1) for row in gold])
        p = sigmoid(clipped_logit(p))
        independent = np.where(gold, p, 1 - p).prod(1)  # (N,)
        listed = np.zeros((len(POWERS), len(gold)))
        for rows in _blocks(len(gold), len(self.sets)):
            for row, power in zip(listed, POWERS, strict=True):
                q = self.probabilities(p[rows], power)
                row[rows] = np.where(place[rows] >= 0, q[np.arange(len(q)), place[rows]], 0.0)
        mixed = (1 - SHARES[:, None, None]) * listed + SHARES[:, None, None] * independent  # (shares, powers, N)
        share, power = np.unravel_index(np.log(mixed + 1e-300).sum(2).argmax(), mixed.shape[:2])
        return float(POWERS[power]), float(SHARES[share])


def _blocks(num_rows: int, width: int) -> Iterable[np.ndarray]:
    """The rows in parts whose tables of this width are of moderate size."""
    size = max(1, BLOCK // max(width, 1))
    return (np.arange(start, min(start + size, num_rows)) for start in range(0, num_rows, size))


def _log_independent(p: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """log π of sets (L, M), float64: (N, M), with the probabilities clipped as in `clipped_logit`."""
    logits = clipped_logit(p)
    return logits @ columns - np.logaddexp(0, logits).sum(1, keepdims=True)


def _log_mode(p: np.ndarray) -> np.ndarray:
    """log π of p >= 0.5, (N,)."""
    logits = clipped_logit(p)
    return (np.maximum(logits, 0) - np.logaddexp(0, logits)).sum(1)


def _independent_scores(p: np.ndarray, size: int) -> np.ndarray:
    """f_i = 2 E[Y_i / (size + X)] of independent labels with these probabilities, (n, L): the integral in
    [`decode_expected_f1`] of each label alone."""
    nodes, weights = quadrature(largest_power(size, p.sum(1), p.shape[1]).max(), p.shape[1])
    factors = 1 - p[:, None] * (1 - nodes[:, None])  # (n, Q, L)
    weighted = 2 * weights * nodes**size * factors.prod(2)  # (n, Q)
    return (weighted[:, None] @ (p[:, None] / factors))[:, 0]
