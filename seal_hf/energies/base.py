"""What an energy must offer to a loss-net."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class Energy(nn.Module, ABC):
    """E(x, y) of S candidate structures y for each input x, lower = better.

    A new one is a subclass in a file here and its class in `ENERGIES`; the loss-nets of its output space may then have
    it, by its name there. Its constructor takes `(num_labels, feature_size, global_size, **energy_options)`, or it has
    a `from_config` of its own. It is exact on structures (entries 0 and 1) and differentiable in relaxed ones, whose
    entries lie in between.

    Attributes:
        space: the output space whose structures it reads, by its name in `SPACES`.
        pooled: whether x is one vector per input, (B, H); else one per token, (B, T, H).
        reads: the name of the input that it reads itself, such as `pixel_values`, with no encoder before it; else None.
    """

    space: str
    pooled = True
    reads: str | None = None

    @classmethod
    def from_config(cls, config: Any, feature_size: int) -> Energy:
        """Of a [`LossNetConfig`], over features of this width; `energy_options` are its further arguments."""
        return cls(config.num_labels, feature_size, config.global_size, **(config.energy_options or {}))

    @abstractmethod
    def reset_parameters(self) -> None:
        """Where training starts; called for what has no loaded weights."""

    @abstractmethod
    def forward(self, features: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Energies (B, S), in the precision of its arguments, which are at least float32.

        Args:
            features: (B, H), (B, T, H), or the input that it `reads`.
            y: candidates (B, S, ...) with entries in [0, 1]; of many labels maybe [`LabelSets`], sums over which are
                `label_sets.dot` and `sum_rows`.
            mask: (B, ...) bool, the positions that count, or None: all. The others must have no influence.
        """

    def at(self, features: Tensor, mask: Tensor | None = None) -> Callable[[Any], Tensor]:
        """E(x, ·) of one batch, for the many structures of an inference: y -> what `forward` has, with derivatives in y
        alone. An energy with a part that depends on x alone computes it here, once."""
        features = features.detach()
        return lambda y: self(features, y, mask)
