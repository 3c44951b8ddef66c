"""Energy networks: E(features of x, structure y), lower = better, over candidates (B, S, ...)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from ..core.energy import Energy
from .labels.energies import MultiLabelEnergy, PairwiseEnergy
from .masks.energies import ClassGridEnergy, GridEnergy
from .tags.energies import (
    ChainBothEnergy,
    ChainEnergy,
    ChainForwardEnergy,
    ChainWordsEnergy,
    TagAttentionEnergy,
)

ENERGIES: dict[str, type[Energy]] = {
    "multilabel": MultiLabelEnergy,
    "pairwise": PairwiseEnergy,
    "grid": GridEnergy,
    "class_grid": ClassGridEnergy,
    "chain": ChainEnergy,
    "chain_ge_a": ChainForwardEnergy,
    "chain_ge_b": ChainBothEnergy,
    "chain_ge_c": ChainWordsEnergy,
    "tag_attention": TagAttentionEnergy,
}
SIZES = ("num_labels", "feature_size", "global_size", "mask_channels")  # arguments set by the loss-net's own config


def energies_of(space: str) -> dict[str, type[Energy]]:
    """The `ENERGIES` that read structures of the output space with this name in `SPACES`."""
    return {name: energy for name, energy in ENERGIES.items() if getattr(energy, "space", None) == space}


def energy_of(space: str, energy: str | None = None) -> str:
    """The name of an energy for the output space; default: the first of `energies_of`.

    Raises:
        ValueError: the energy is unknown, or one of another output space.
    """
    known = energies_of(space)
    if energy is not None and energy not in known:
        raise ValueError(f"`energy` is {energy!r}; for {space} outputs it must be one of {', '.join(known)}.")
    return energy or next(iter(known))


def check_energy_options(energy: str, options: Iterable[str]) -> None:
    """Raises ValueError if the energy lacks one of these `energy_options`."""
    known = [name for name in inspect.signature(ENERGIES[energy]).parameters if name not in SIZES]
    for name in options:
        if name not in known:
            has = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ValueError(f"`energy_options` holds {name!r}, which the energy {energy!r} lacks; {has}.")
