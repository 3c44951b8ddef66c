"""Optional additions to a step: implicit gradients, a cost-augmented network, samples from perturbed inputs.

Each is a subclass of [`Extension`] in its own file and a member of `EXTENSIONS`. `SealTrainer` calls the extensions of
a run at the same points of a step, in this order.
"""

from typing import Any

from ..core.space import OutputSpace
from ..energy_losses import EnergyLoss
from .base import Extension, MicroBatch, PerturbedInputs, Run
from .cost_augmented import CostAugmentedInference
from .implicit_gradients import ImplicitGradients

EXTENSIONS: tuple[type[Extension], ...] = (PerturbedInputs, ImplicitGradients, CostAugmentedInference)


def wanted_extensions(
    args: Any, energy_loss: EnergyLoss | type[EnergyLoss] | None, space: OutputSpace
) -> list[type[Extension]]:
    """The extensions of a run with these arguments; none without an energy loss."""
    return [kind for kind in EXTENSIONS if energy_loss is not None and kind.is_wanted(args, energy_loss, space)]


__all__ = [
    "EXTENSIONS",
    "CostAugmentedInference",
    "Extension",
    "ImplicitGradients",
    "MicroBatch",
    "PerturbedInputs",
    "Run",
    "wanted_extensions",
]
