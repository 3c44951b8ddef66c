"""Tensors of any task: the positions of a sequence that count, packed side by side; draws and noise; shapes."""

from __future__ import annotations

import numpy as np
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
    return mask.gather(1, order), *(take(x, order, dim) for x in tensors)


def unpack(mask: Tensor, packed: Tensor, dim: int = 1, fill: float = 0) -> Tensor:
    """The inverse of `pack`; `mask` is the mask before packing. Positions that do not count get the value `fill`."""
    place = (mask.long().cumsum(1) - 1).clamp_min(0)
    return take(packed, place, dim).masked_fill(~_beside(mask, packed, dim), fill)


def _beside(index: Tensor, x: Tensor, dim: int) -> Tensor:
    """`index` (B, T), reshaped to as many dimensions as `x`, with T at `dim`."""
    return index.view(index.shape[0], *[1] * (dim - 1), index.shape[1], *[1] * (x.dim() - dim - 1))


def take(x: Tensor, index: Tensor, dim: int = 1) -> Tensor:
    """x[..., index[b, i], ...] at dimension `dim`, for an index (B, n)."""
    return x.gather(dim, _beside(index, x, dim).expand(*x.shape[:dim], index.shape[1], *x.shape[dim + 1 :]))


def wide(values: Tensor, like: Tensor) -> Tensor:
    """Give values (B,) or (B, S) further dimensions of size 1, so that they broadcast with `like`, (B, S, ...)."""
    return values.view(*values.shape, *[1] * (like.dim() - values.dim()))


def at_least_float32(x: Tensor) -> Tensor:
    """Casts half precision to float32. Float32 and float64 stay."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def stateless_noise(device: torch.device, *key: int) -> torch.Generator:
    """A generator seeded by the key (seed, step, rank, ...) alone, so that a resume is exact without a saved state."""
    seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
    return torch.Generator(device).manual_seed(seed)


def uniform(shape: tuple[int, int, int], like: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform noise in (0, 1) of shape (B, T, K), with the device and dtype of `like`.

    It is drawn T first, so that more padding does not change the noise of the other positions. It is never 0, which
    would draw a first tag of any probability.
    """
    batch, length, number = shape
    noise = torch.rand((length, batch, number), device=like.device, dtype=like.dtype, generator=generator)
    return noise.transpose(0, 1).contiguous().clamp_min_(torch.finfo(noise.dtype).eps / 2)


def inverse_transform(p: Tensor, noise: Tensor) -> Tensor:
    """Draw from categorical distributions p (..., C) by uniform noise (..., K): indices (..., K), int64. An index of
    probability 0 is never drawn."""
    cumulative = p.cumsum(-1)
    noise = noise * cumulative[..., -1:]  # the last value may differ slightly from 1
    return torch.searchsorted(cumulative, noise, right=True).clamp_max(p.shape[-1] - 1)


def perturbed(
    inputs: dict[str, Tensor], copies: int, std: float, generator: torch.Generator | None = None
) -> dict[str, Tensor]:
    """K = `copies` noisy copies of each input: (B, ...) -> (B K, ...), the copies of one input side by side.

    Floating-point inputs, such as pixels, get Gaussian noise of standard deviation `std`, in the input's units and new
    for each copy. Other inputs are only repeated.
    """
    repeated = {name: value.repeat_interleave(copies, 0) for name, value in inputs.items()}
    for name, value in repeated.items():
        if value.is_floating_point():
            noise = torch.randn(value.shape, device=value.device, dtype=value.dtype, generator=generator)
            repeated[name] = value + std * noise
    return repeated
