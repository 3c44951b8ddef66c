"""Optional additions to a step: implicit gradients, a cost-augmented network, samples from perturbed inputs.

Each is a subclass of [`Extension`] in its own file and a member of `EXTENSIONS`. `SealTrainer` calls the extensions of
a run at the same points of a step, in this order.
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
