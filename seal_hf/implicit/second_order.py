"""Where a net is differentiated twice, which its fastest kernels cannot do."""

from __future__ import annotations

import contextlib

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..modes import evaluating


@contextlib.contextmanager
def second_order(net: nn.Module):
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
def without_fused_recurrence():
    """Inside, recurrent nets use neither cuDNN nor oneDNN. The libraries' own `flags` would reset their precision
    too."""
    libraries = (torch.backends.cudnn, torch.backends.mkldnn)
    before = [library.enabled for library in libraries]
    for library in libraries:
        library.enabled = False
    try:
        yield
    finally:
        for library, enabled in zip(libraries, before, strict=True):
            library.enabled = enabled
