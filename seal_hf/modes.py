"""Nets in another mode than the one they are in: without noise, without new statistics, at perturbed inputs."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor, nn

BATCH_NORM = nn.modules.batchnorm._BatchNorm


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


def train_mode(net: nn.Module, optimizer) -> None:
    """As the Trainer before its step: the net, and an optimizer whose weights have another mode, such as an average."""
    net.train()
    if callable(getattr(optimizer, "train", None)):
        optimizer.train()


@contextlib.contextmanager
def keeping_statistics(net: nn.Module):
    """Inside, batch normalisation in training mode works as ever, but its running statistics, and the number of batches
    that they are of, stay as they are."""
    layers = [module for module in net.modules() if isinstance(module, BATCH_NORM) and module.track_running_stats]
    for layer in layers:
        layer.track_running_stats = False
    try:
        yield net
    finally:
        for layer in layers:
            layer.track_running_stats = True


@contextlib.contextmanager
def evaluating(net: nn.Module):
    """Inside, `net` is in evaluation mode, so that it draws no noise, but is otherwise the function that is trained:
    batch normalisation in training mode goes on by the statistics of the batch, its running ones staying as they are,
    and so does a module that says `noiseless_training`: it draws nothing, but does something else in evaluation mode.
    """
    training = [module for module in net.modules() if module.training]
    for module in training:
        module.training = isinstance(module, BATCH_NORM) or getattr(module, "noiseless_training", False)
    try:
        with keeping_statistics(net):
            yield net
    finally:
        for module in training:
            module.training = True
