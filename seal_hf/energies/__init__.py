"""Energy networks: E(features of x, structure y), lower = better, over candidates (B, S, ...)."""

from __future__ import annotations

from torch import nn

from .grid import GridEnergy
from .multilabel import MultiLabelEnergy
from .tags import ChainBothEnergy, ChainEnergy, ChainForwardEnergy, ChainWordsEnergy, TagAttentionEnergy

TAG_ENERGIES: dict[str, type[nn.Module]] = {
    "chain": ChainEnergy,
    "chain_ge_a": ChainForwardEnergy,
    "chain_ge_b": ChainBothEnergy,
    "chain_ge_c": ChainWordsEnergy,
    "tag_attention": TagAttentionEnergy,
}
ENERGIES: dict[str, type[nn.Module]] = {"multilabel": MultiLabelEnergy, "grid": GridEnergy, **TAG_ENERGIES}

__all__ = [
    "ENERGIES",
    "TAG_ENERGIES",
    "ChainBothEnergy",
    "ChainEnergy",
    "ChainForwardEnergy",
    "ChainWordsEnergy",
    "GridEnergy",
    "MultiLabelEnergy",
    "TagAttentionEnergy",
]
