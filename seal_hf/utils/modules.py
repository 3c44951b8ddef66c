"""Nets in another state for a while: frozen, without noise, without new statistics, with second derivatives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

Net = TypeVar("Net", bound=nn.Module)

BATCH_NORM = nn.modules.batchnorm._BatchNorm


@contextlib.contextmanager
def frozen(net: Net) -> Iterator[Net]:
    """Inside, no parameter of `net` takes a gradient (gradients still flow through it to its inputs)."""
    trainable = [p for p in net.parameters() if p.requires_grad]
    for p in trainable:
        p.requires_grad_(False)
    try:
        yield net
    finally:
        for p in trainable:
            p.requires_grad_(True)


def train_mode(net: nn.Module, optimizer: torch.optim.Optimizer | None) -> None:
    """As the Trainer before its step: the net, and an optimizer whose weights have another mode, such as an average."""
    net.train()
    if callable(train := getattr(optimizer, "train", None)):
        train()


@contextlib.contextmanager
def keeping_statistics(net: Net) -> Iterator[Net]:
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
def evaluating(net: Net) -> Iterator[Net]:
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


@contextlib.contextmanager
def second_order(net: Net) -> Iterator[Net]:
    """Inside, a forward of `net` is one function of its inputs and parameters that has second derivatives: without
    noise (see `evaluating`), in the precision it is given, and by kernels whose own backward can be differentiated.

    Fused attention has no second derivative; cuDNN's recurrent nets have none, and in evaluation mode not even a first
    one; oneDNN's have no forward-mode derivative. Only the forward chooses kernels: a backward may run outside.
    """
    device = next(net.parameters()).device.type
    recurrent = any(isinstance(module, nn.RNNBase) for module in net.modules())
    kernels = without_fused_recurrence() if recurrent else contextlib.nullcontext()
    with evaluating(net), torch.autocast(device, enabled=False), sdpa_kernel(SDPBackend.MATH), kernels:
        yield net


@contextlib.contextmanager
def without_fused_recurrence() -> Iterator[None]:
    """Inside, recurrent nets use neither cuDNN nor oneDNN. The libraries' own `flags` would reset their precision
    too."""
    libraries: tuple[Any, ...] = (torch.backends.cudnn, torch.backends.mkldnn)  # `enabled` is set on them at import
    before = [library.enabled for library in libraries]
    for library in libraries:
        library.enabled = False
    try:
        yield
    finally:
        for library, enabled in zip(libraries, before, strict=True):
            library.enabled = enabled
