"""What a Trainer returns, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Probabilities of logits of any shape, in float64, without overflow."""
    return expit(np.asarray(logits, dtype=np.float64))


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
