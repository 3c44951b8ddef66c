"""Noise that depends on a key alone, perturbed inputs, shapes of tensors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def stateless_noise(device: torch.device, *key: int) -> torch.Generator:
    """A generator seeded by the key (seed, step, rank, ...) alone, so that a resume is exact without a saved state."""
    seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
    return torch.Generator(device).manual_seed(seed)


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


def wide(values: Tensor, like: Tensor) -> Tensor:
    """Give values (B,) or (B, S) further dimensions of size 1, so that they broadcast with `like`, (B, S, ...)."""
    return values.view(*values.shape, *[1] * (like.dim() - values.dim()))
