"""From energies or probabilities to decisions: gradient-based inference, and decoders for label sets."""

from .closed_sets import decode_closed_f1
from .decoders import (
    constant_probabilities,
    decode_expected_f1,
    platt_scaling,
    rescaled,
    thresholds_of_label_f1,
    tune_thresholds_per_label,
)
from .gradient_descent import GradientBasedInference

__all__ = [
    "GradientBasedInference",
    "constant_probabilities",
    "decode_closed_f1",
    "decode_expected_f1",
    "platt_scaling",
    "rescaled",
    "thresholds_of_label_f1",
    "tune_thresholds_per_label",
]
