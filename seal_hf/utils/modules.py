"""Nets in a temporary state: frozen, without noise, without new statistics, with second derivatives; and without
their wrapper."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

Net = TypeVar("Net", bound=nn.Module)

BATCH_NORM = nn.modules.batchnorm._BatchNorm


@contextlib.contextmanager
def frozen(net: Net) -> Iterator[Net]:
    """Freeze `net` while the block runs: its parameters get no gradients, which still flow through it to its inputs."""
    trainable = [p for p in net.parameters() if p.requires_grad]
    for p in trainable:
        p.requires_grad_(False)
    try:
        yield net
    finally:
        for p in trainable:
            p.requires_grad_(True)


def without_wrapper(net: Any) -> Any:
    """The net itself, which PEFT may have wrapped."""
    return net.get_base_model() if hasattr(net, "get_base_model") else net


@contextlib.contextmanager
def described_by_base(net: Any) -> Iterator[None]:
    """Give a net the configuration of its base while the block runs.

    Libraries of adapters read from it where adapters belong. A net of ours has a configuration of another type.
    """
    own, base = net.config, net.base_model.config
    if type(base) is not type(own):
        net.config = base
    try:
        yield
    finally:
        net.config = own


def train_mode(net: nn.Module, optimizer: torch.optim.Optimizer | None) -> None:
    """Put the net in training mode, as the Trainer does before a step.

    An optimizer that has modes, such as one that averages weights, is put in training mode too.
    """
    net.train()
    if callable(train := getattr(optimizer, "train", None)):
        train()


@contextlib.contextmanager
def keeping_statistics(net: Net) -> Iterator[Net]:
    """Keep the running statistics and batch counts of batch normalisation while the block runs.

    In training mode it works as usual otherwise.
    """
    layers = [module for module in net.modules() if isinstance(module, BATCH_NORM) and module.track_running_stats]
    for layer in layers:
        layer.track_running_stats = False
    try:
        yield net
    finally:
        for layer in layers:
            layer.track_running_stats = True


def hold_statistics(net: nn.Module) -> None:
    """Keep frozen batch normalisation of `net` in evaluation mode from now on, whatever mode `net` gets: its statistics
    are part of the frozen weights."""
    for layer in (module for module in net.modules() if isinstance(module, BATCH_NORM)):
        if not any(parameter.requires_grad for parameter in layer.parameters()):
            kind: Any = type(layer)
            layer.__class__ = _held(kind)
            layer.eval()


@cache
def _held(kind: Any) -> Any:
    """The class of layers whose training mode is always off."""
    return type(kind.__name__, (kind,), {"train": lambda self, mode=True: kind.train(self, False)})


@contextlib.contextmanager
def in_evaluation(net: Net) -> Iterator[Net]:
    """Put `net` in evaluation mode while the block runs."""
    training = [module for module in net.modules() if module.training]
    net.eval()
    try:
        yield net
    finally:
        for module in training:
            module.training = True


@contextlib.contextmanager
def evaluating(net: Net) -> Iterator[Net]:
    """Keep `net` from drawing noise while the block runs. Otherwise it stays the function that is trained.

    Its modules are in evaluation mode, with two exceptions. Batch normalisation in training mode still uses the batch's
    statistics, and its running statistics do not change. A module with `noiseless_training` stays in training mode: it
    draws no noise there, but computes something else in evaluation mode.
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
    """Make the forward of `net` a deterministic function, with second derivatives, of its inputs and parameters.

    It draws no noise (see `evaluating`), runs without autocast, and uses kernels whose backward is differentiable.
    Fused attention lacks a second derivative. cuDNN's recurrent nets lack one too, and in evaluation mode even a first
    one; oneDNN's lack forward-mode derivatives. Only the forward chooses kernels, so a backward may run outside.
    """
    device = next(net.parameters()).device.type
    recurrent = any(isinstance(module, nn.RNNBase) for module in net.modules())
    kernels = without_fused_recurrence() if recurrent else contextlib.nullcontext()
    with evaluating(net), torch.autocast(device, enabled=False), sdpa_kernel(SDPBackend.MATH), kernels:
        yield net


@contextlib.contextmanager
def without_fused_recurrence() -> Iterator[None]:
    """Run recurrent nets without cuDNN and oneDNN while the block runs.

    The libraries' own `flags` would also reset their precision.
    """
    libraries: tuple[Any, ...] = (torch.backends.cudnn, torch.backends.mkldnn)  # `enabled` is set on them at import
    before = [library.enabled for library in libraries]
    for library in libraries:
        library.enabled = False
    try:
        yield
    finally:
        for library, enabled in zip(libraries, before, strict=True):
            library.enabled = enabled
