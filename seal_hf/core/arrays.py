"""What a task-net gives, as arrays: probabilities, and the most probable structures of independent outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Probabilities of logits of any shape, in float64. scipy has it too, but takes long to import."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-np.asarray(logits, dtype=np.float64)))


def logit(probabilities: ArrayLike) -> np.ndarray:
    """The inverse of `sigmoid`, in float64; -inf for 0 and inf for 1."""
    p = np.asarray(probabilities, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.log(p) - np.log1p(-p)


def first_output(outputs: Any) -> np.ndarray:
    """The array that a Trainer returned, or the first of a tuple (from a model with further outputs).

    Raises:
        ValueError: `outputs` is a list, as a Trainer returns batches.
    """
    if isinstance(outputs, list):
        raise ValueError(
            "predictions came as a list of batches (`eval_do_concat_batches` is False), but the metrics need all rows "
            "together. Set it to True."
        )
    return np.asarray(outputs[0] if isinstance(outputs, tuple) else outputs)


def likeliest(log_probabilities: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The most probable structures if each position takes its value independently of the others.

    A structure that changes the best one where it is not among the K - 1 positions with the cheapest second-best value
    is beaten by K others: the best one, and those with one of these changes. So only these positions are searched, one
    after another, and K structures are kept after each. Exact, in O(T C log C + K³ log K).

    Args:
        log_probabilities: (T, C), of the C values at each of T positions; -inf for a value that never occurs. For a
            label set, C is 2.
        count: K, at least 1.

    Returns:
        structures (n, T), int, the values by their number, the most probable first; and their log-probabilities (n,).
        n is K, or less if fewer structures have a positive probability.
    """
    order = np.argsort(-log_probabilities, axis=1, kind="stable")[:, :count]  # (T, min(K, C))
    ranked = np.take_along_axis(log_probabilities, order, 1)
    costs = ranked[:, :1] - ranked  # of a value in place of the best one
    best, ranks, totals = ranked[:, 0].sum(), np.zeros((1, len(costs)), dtype=np.int64), np.zeros(1)
    if costs.shape[1] > 1:
        for position in np.argsort(costs[:, 1], kind="stable")[: count - 1]:
            sums = (totals[:, None] + costs[position]).ravel()
            kept = np.argsort(sums, kind="stable")[:count]
            kept = kept[np.isfinite(sums[kept])]
            parents, values = np.divmod(kept, costs.shape[1])
            ranks, totals = ranks[parents], sums[kept]
            ranks[:, position] = values
    return order[np.arange(len(costs)), ranks], best - totals


def label_log_probabilities(probabilities: np.ndarray) -> np.ndarray:
    """The log-probabilities of each label's absence and presence, (L, 2), from its probability (L,)."""
    with np.errstate(divide="ignore"):
        return np.log(np.stack([1 - probabilities, probabilities], 1))
