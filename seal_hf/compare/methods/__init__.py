"""The methods of each kind of output: their settings, and what is searched of them. A new method is a line there."""

from .base import ABLATION, BASELINE, CONSTANT, ENERGY, SEAL, Method, Methods

__all__ = ["ABLATION", "BASELINE", "CONSTANT", "ENERGY", "SEAL", "Method", "Methods"]
