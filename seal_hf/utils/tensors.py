"""Shapes of tensors."""

from __future__ import annotations

from torch import Tensor


def wide(values: Tensor, like: Tensor) -> Tensor:
    """(B,) or (B, S) -> (B, 1, ...) or (B, S, 1, ...), to go with `like`, (B, S, ...)."""
    return values.view(*values.shape, *[1] * (like.dim() - values.dim()))
