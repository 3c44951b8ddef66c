"""Energy networks: E(features of x, structure y), lower = better, over candidates (B, S, ...); their interface, and the
registry of those of all tasks."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from .task import Registry


class Energy(nn.Module, ABC):
    """E(x, y) of S candidate structures y for each input x, lower = better.

    To add an energy, write a subclass and put it into `ENERGIES`; loss-nets of its output space can then use it by its
    name there. Its constructor takes `(num_labels, feature_size, global_size, **energy_options)`, or it
    overrides `from_config`. It is exact on structures (entries 0 and 1) and differentiable in relaxed ones (entries in
    between).

    Attributes:
        space: the output space whose structures it reads, by its name in `SPACES`.
        pooled: True if x is one vector per input, (B, H); False if one per token, (B, T, H).
        reads: the name of the input, such as `pixel_values`, that it reads directly without an encoder; else None.
    """

    space: str
    pooled = True
    reads: str | None = None

    @classmethod
    def from_config(cls, config: Any, feature_size: int) -> Energy:
        """The energy of a [`LossNetConfig`] for features of this width. The config's `energy_options` are further
        arguments."""
        return cls(config.num_labels, feature_size, config.global_size, **(config.energy_options or {}))

    @abstractmethod
    def reset_parameters(self) -> None:
        """Initialise the parameters. It is called for those that no file has."""

    @abstractmethod
    def forward(self, features: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Energies (B, S), in the precision of the arguments, which is at least float32.

        Args:
            features: (B, H), (B, T, H), or the input that it `reads`.
            y: candidates (B, S, ...) with entries in [0, 1]; with many labels they may be [`LabelSets`], which
                `label_sets.dot` and `sum_rows` sum over.
            mask: (B, ...) bool, the positions that count; None: all. Words and pixels that do not count must have no
                influence. Label sets come with values at their unknown labels, so an energy may ignore `mask`.
        """

    def at(self, features: Tensor, mask: Tensor | None = None) -> Callable[[Any], Tensor]:
        """The energy of one batch as a function of y alone: y -> the value of `forward`, with derivatives in y.
        Inference calls it with many structures, so the part that depends only on x is computed here, once."""
        features = features.detach()
        return lambda y: self(features, y, mask)


def of_candidates(energies: Tensor, y: Any, energy: Energy) -> Tensor:
    """Returns what an energy gives for the candidates `y` (B, S, ...). Raises ValueError if it is not a number for each
    of them, or if no gradient in `y` can be taken of it where one is wanted."""
    if torch.is_grad_enabled() and y.requires_grad and not energies.requires_grad:
        raise ValueError(
            f"The energy {type(energy).__name__} gave numbers without a gradient in `y`, so it cannot teach the "
            "task-net. Its `forward` must depend on `y`, by differentiable operations: no argmax, round or detach."
        )
    return of_shape(energies, y, f"The energy {type(energy).__name__}")


def of_shape(energies: Tensor, y: Any, what: str) -> Tensor:
    """Returns `energies` if they have one number for each of the candidates `y` (B, S, ...). Raises ValueError
    otherwise; `what` names their source in the message."""
    if energies.shape != y.shape[:2]:
        raise ValueError(
            f"{what} gave {tuple(energies.shape)}; expected {tuple(y.shape[:2])}, a number for each candidate of each "
            "input."
        )
    return energies


ENERGIES: Registry[type[Energy]] = Registry(lambda task: task.energies)
SIZES = ("num_labels", "feature_size", "global_size", "mask_channels")  # arguments set by the loss-net's own config


def energies_of(space: str) -> dict[str, type[Energy]]:
    """The entries of `ENERGIES` that read structures of an output space, which is given by its name in `SPACES`."""
    return {name: energy for name, energy in ENERGIES.items() if getattr(energy, "space", None) == space}


def energy_of(space: str, energy: str | None = None) -> str:
    """The name of an energy for the output space. By default it is the first of `energies_of`.

    Raises:
        ValueError: the energy is unknown, or one of another output space; or this space has none.
    """
    known = energies_of(space)
    if not known:
        raise ValueError(f"no energy reads {space} outputs. Put one into `ENERGIES`, or into `energies` of their task.")
    if energy is not None and energy not in known:
        stated = f" Its class has `space = {getattr(ENERGIES[energy], 'space', None)!r}`." if energy in ENERGIES else ""
        raise ValueError(f"`energy` is {energy!r}; for {space} outputs it must be one of {', '.join(known)}.{stated}")
    return energy or next(iter(known))


def check_energy_options(energy: str, options: Iterable[str]) -> None:
    """Raises ValueError if the energy lacks one of these `energy_options`."""
    known = [name for name in inspect.signature(ENERGIES[energy]).parameters if name not in SIZES]
    for name in options:
        if name not in known:
            has = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ValueError(f"`energy_options` holds {name!r}, which the energy {energy!r} lacks; {has}.")
