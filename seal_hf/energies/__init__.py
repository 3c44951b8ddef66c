"""Energy networks: E(features of x, structure y), lower = better, over candidates (B, S, ...)."""

from __future__ import annotations

from torch import nn

from .multilabel import MultiLabelEnergy

ENERGIES: dict[str, type[nn.Module]] = {"multilabel": MultiLabelEnergy}

__all__ = ["ENERGIES", "MultiLabelEnergy"]
