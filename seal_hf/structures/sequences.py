"""Tag sequences in a batch: which positions count, and how to pack the counted ones side by side."""

from __future__ import annotations

import torch
from torch import Tensor

IGNORED = -100  # the label of a position that does not count


def pack(mask: Tensor, *tensors: Tensor, dim: int = 1) -> tuple[Tensor, ...]:
    """Move the counted positions to the front, in order; the others follow, in order.

    Args:
        mask: (B, T) bool.
        tensors: (B, T, ...), or with `dim=2` candidates (B, S, T, ...).

    Returns:
        The packed mask (B, T), then every tensor in its shape.
    """
    order = torch.argsort(~mask, dim=1, stable=True)
    return mask.gather(1, order), *(_take(x, order, dim) for x in tensors)


def unpack(mask: Tensor, packed: Tensor, dim: int = 1, fill: float = 0) -> Tensor:
    """The inverse of `pack`; `mask` is the mask before packing. Positions that do not count get the value `fill`."""
    place = (mask.long().cumsum(1) - 1).clamp_min(0)
    return _take(packed, place, dim).masked_fill(~_beside(mask, packed, dim), fill)


def _beside(index: Tensor, x: Tensor, dim: int) -> Tensor:
    """`index` (B, T), reshaped to as many dimensions as `x`, with T at `dim`."""
    return index.view(index.shape[0], *[1] * (dim - 1), index.shape[1], *[1] * (x.dim() - dim - 1))


def _take(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """x[..., index[b, t], ...] at dimension `dim`."""
    return x.gather(dim, _beside(index, x, dim).expand_as(x))


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision is cast to float32; float32 and float64 stay."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
