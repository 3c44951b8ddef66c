"""Energy networks: E(features of x, structure y), lower = better, over candidates (B, S, ...)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

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
SIZES = ("num_labels", "feature_size", "global_size")  # arguments that the loss-net's config has itself


def check_energy_options(energy: str, options: Iterable[str]) -> None:
    """Raises ValueError where an energy of `ENERGIES` has not all of these `energy_options`."""
    known = [name for name in inspect.signature(ENERGIES[energy]).parameters if name not in SIZES]
    for name in options:
        if name not in known:
            has = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ValueError(f"`energy_options` holds {name!r}, which the energy {energy!r} does not have; {has}.")


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
    "check_energy_options",
]
