"""Energy networks: E(features of x, structure y), lower = better, over candidates (B, S, ...)."""

from __future__ import annotations

from torch import nn

from .grid import GridEnergy
from .multilabel import MultiLabelEnergy

ENERGIES: dict[str, type[nn.Module]] = {"multilabel": MultiLabelEnergy, "grid": GridEnergy}

__all__ = ["ENERGIES", "GridEnergy", "MultiLabelEnergy"]
