"""From energies to decisions: gradient-based inference."""

from .gradient_descent import GradientBasedInference

__all__ = ["GradientBasedInference"]
