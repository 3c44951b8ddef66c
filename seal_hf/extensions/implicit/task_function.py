"""A task-net as a function of some of its parameters, φ -> logits, which implicit gradients differentiate."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ...utils.modules import second_order, without_wrapper
from .hypergradient import Parameters, detached

SUBSETS = ("head", "adapters", "all")
FUSED_ATTENTION = ("flash_attention_2", "flash_attention_3", "flex_attention")  # kernels without a second derivative


def select_parameters(model: nn.Module, subset: str) -> Parameters:
    """The trainable parameters of `model` for the Hessian, by name.

    Args:
        model: a Hugging Face model, plain or with adapters; for `all` and a regular expression, any module.
        subset: `head`: those outside the encoder (`base_model`); `adapters`: those inside a partly frozen encoder;
            `all`; otherwise a regular expression that is searched for in the names. A CRF's parameters (`crf`) are
            always left out: the task loss reads them from the net, so they are held fixed.

    Raises:
        ValueError: nothing is selected, the regular expression is invalid, the net lacks an encoder for `head` or
            `adapters`, or the encoder is not frozen for `adapters`.
    """
    trainable = {n: p for n, p in model.named_parameters() if p.requires_grad and not n.startswith("crf.")}
    if subset in ("head", "adapters"):
        plain = without_wrapper(model)
        encoder = getattr(plain, "base_model", plain)
        if encoder is plain:
            raise ValueError(
                f"`hypergradient_parameters` is {subset!r}, but {type(plain).__name__} has no encoder (`base_model`) "
                "separate from a head or adapters. Use hypergradient_parameters='all', or a regular "
                f"expression that matches the names you mean, such as {next(reversed(trainable), '')!r}."
            )
        inside = {id(p) for p in encoder.parameters()}
        if subset == "adapters" and all(p.requires_grad for p in encoder.parameters()):
            raise ValueError(
                f"`hypergradient_parameters` is 'adapters', but no parameter of the encoder of "
                f"{type(plain).__name__} is frozen. Train an adapter on it, or choose 'head' or 'all'."
            )
        chosen = {name: p for name, p in trainable.items() if (id(p) in inside) == (subset == "adapters")}
    elif subset == "all":
        chosen = trainable
    else:
        try:
            pattern = re.compile(subset)
        except re.error as error:
            raise ValueError(
                f"`hypergradient_parameters` is {subset!r}, which is not a regular expression: {error}. Use one of "
                f"{', '.join(SUBSETS)}, or a regular expression that matches parameters' names ('\\.' is a dot)."
            ) from error
        chosen = {name: p for name, p in trainable.items() if pattern.search(name)}
    if not chosen:
        raise ValueError(
            f"`hypergradient_parameters` is {subset!r}, but it selects no trainable parameter of "
            f"{type(model).__name__}. Choose one of {', '.join(SUBSETS)}, or a regular expression that "
            f"matches names such as {next(iter(trainable), 'none: all are frozen')!r}."
        )
    return dict(chosen)


class TaskFunction:
    """A task-net as a function φ -> logits of some of its parameters.

    Args:
        model: the raw task-net.
        subset: which parameters, see [`select_parameters`]. If they are all in the module that gives the logits, as for
            `head` in most architectures, the function starts from that module's inputs in the run's own forward, and
            the encoder does not run again.
    """

    def __init__(self, model: nn.Module, subset: str):
        names = list(select_parameters(model, subset))
        shared = os.path.commonprefix([name.split(".")[:-1] for name in names])  # the module that holds all of them
        self.model, self.names = model, names
        self.prefix = ".".join(shared)
        self.head: Any = model.get_submodule(self.prefix) if shared else None
        self._seen: Any = None
        self._logits: Tensor | None = None
        self._last: bool | None = None

    def parameters(self) -> Parameters:
        """The current φ, by name: leaves in float32, which share memory with float32 parameters."""
        own = dict(self.model.named_parameters())
        return detached({name: own[name] for name in self.names})

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Inside, a forward of the model stores the head's input and the logits for the next call of `on`."""
        if self.head is None:
            yield
            return

        def keep(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            self._seen = _detach(args), _detach(kwargs), output.detach() if torch.is_tensor(output) else None

        def keep_logits(module: nn.Module, args: Any, output: Any) -> None:
            self._logits = output.logits.detach()

        handles = [
            self.head.register_forward_hook(keep, with_kwargs=True),
            self.model.register_forward_hook(keep_logits),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def on(self, inputs: dict[str, Tensor]) -> Callable[[Parameters], Tensor]:
        """φ -> logits of this micro-batch, (B, ...) as the model gives them. `inputs` are those of the last watched
        forward."""
        seen, logits, self._seen, self._logits = self._seen, self._logits, None, None
        if seen is None or logits is None or not self._is_last(seen[2], logits):
            inside = {name: f"net.{name}" for name in self.names}
            whole = _function(_OwnForward(self.model), inside, (), _detach(inputs))
            return lambda phi: whole(phi).logits
        inside = {name: name.removeprefix(f"{self.prefix}.") for name in self.names}
        return _function(self.head, inside, *seen[:2])

    def _is_last(self, output: Tensor | None, logits: Tensor) -> bool:
        """True if the head gives the logits. Checked once: wrappers and precision copy the logits but do not change
        this."""
        if self._last is None:
            self._last = (
                output is not None
                and output.shape == logits.shape
                and torch.allclose(output.float(), logits.float(), rtol=1e-2, atol=1e-6)
            )
        return self._last


def _function(module: nn.Module, inside: dict[str, str], args: Any, kwargs: Any) -> Callable[[Parameters], Any]:
    """φ -> the output of `module` for `args` and `kwargs`; its other parameters and its buffers keep their current
    values, in float32. `inside`: the names of φ's tensors within the module."""
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    rest = _detach({name: tensor for name, tensor in tensors.items() if name not in inside.values()})

    def call(phi: Parameters) -> Any:
        own = {inside[name]: p for name, p in phi.items()}
        with second_order(module):
            return functional_call(module, rest | own, args, kwargs)

    return call


class _OwnForward(nn.Module):
    """The forward of a net's class: in half precision accelerate replaces it by one with autocast."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def forward(self, **inputs: Tensor) -> Any:
        return type(self.net).forward(self.net, **inputs)


def _detach(values: Any) -> Any:
    """The same tuple or dict with detached tensors, floating-point ones in float32."""
    if isinstance(values, dict):
        return {name: _detach(value) for name, value in values.items()}
    if isinstance(values, (tuple, list)):
        return type(values)(_detach(value) for value in values)
    if not torch.is_tensor(values):
        return values
    return values.detach().float() if values.is_floating_point() else values
