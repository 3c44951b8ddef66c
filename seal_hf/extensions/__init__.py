"""What some runs add to a step: implicit gradients, a cost-augmented network, samples from perturbed inputs.

Each is a subclass of [`Extension`] in a file of its own, and stands in `EXTENSIONS`. `SealTrainer` asks those of a run
at the same places of a step, in this order.
"""

from .base import Extension, MicroBatch, Run
from .cost_augmented import CostAugmentedInference
from .implicit_gradients import ImplicitGradients
from .perturbed_inputs import PerturbedInputs

EXTENSIONS: tuple[type[Extension], ...] = (PerturbedInputs, ImplicitGradients, CostAugmentedInference)

__all__ = [
    "EXTENSIONS",
    "CostAugmentedInference",
    "Extension",
    "ImplicitGradients",
    "MicroBatch",
    "PerturbedInputs",
    "Run",
]
