"""Where a net is differentiated twice, or once in evaluation mode, which its fastest kernels cannot do."""

from __future__ import annotations

import contextlib

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel


@contextlib.contextmanager
def second_order(net: nn.Module):
    """Inside, a forward of `net` is one function of its inputs and parameters that has second derivatives: in
    evaluation mode, in the precision it is given, and by kernels whose own backward can be differentiated.

    Fused attention has no second derivative; cuDNN's recurrent nets have none, and in evaluation mode not even a first
    one; oneDNN's have no forward-mode derivative. Only the forward chooses kernels: a backward may run outside.
    """
    device = next(net.parameters()).device.type
    recurrent = any(isinstance(module, nn.RNNBase) for module in net.modules())
    with contextlib.ExitStack() as stack:
        stack.enter_context(evaluating(net))
        stack.enter_context(torch.autocast(device, enabled=False))
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        for library in (torch.backends.cudnn, torch.backends.mkldnn) if recurrent else ():
            stack.enter_context(_without(library))
        yield net


@contextlib.contextmanager
def evaluating(net: nn.Module):
    """Inside, `net` is in evaluation mode."""
    training = [module for module in net.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield net
    finally:
        for module in training:
            module.training = True


@contextlib.contextmanager
def _without(library):
    """Inside, a library of kernels is off. Its own `flags` would reset its precision too."""
    before, library.enabled = library.enabled, False
    try:
        yield
    finally:
        library.enabled = before
