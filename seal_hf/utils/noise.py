"""Noise that depends on a key alone, and inputs that carry it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def stateless_noise(device: torch.device, *key: int) -> torch.Generator:
    """A generator that depends on the key alone, (seed, step, rank, ...): resume is exact, and nothing is saved."""
    seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
    return torch.Generator(device).manual_seed(seed)


def perturbed(
    inputs: dict[str, Tensor], copies: int, std: float, generator: torch.Generator | None = None
) -> dict[str, Tensor]:
    """K copies of each input, (B, ...) -> (B K, ...), those of one input side by side; Gaussian noise of standard
    deviation `std`, new for each copy, is added to what is floating point, such as pixels, in its own units."""
    repeated = {name: value.repeat_interleave(copies, 0) for name, value in inputs.items()}
    for name, value in repeated.items():
        if value.is_floating_point():
            noise = torch.randn(value.shape, device=value.device, dtype=value.dtype, generator=generator)
            repeated[name] = value + std * noise
    return repeated
