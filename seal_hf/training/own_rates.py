"""The parts of a task-net that learn at a rate of their own: a fresh head beside a pretrained encoder, and a CRF.

Under Adam a parameter moves by at most the learning rate in a step. An encoder needs a small rate. A head that begins
at small random weights would stay near them: with 300 steps at 2e-4 it can move by 0.06.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import transformers
from torch import nn
from transformers import PreTrainedModel

from ..utils.modules import without_wrapper

IN_AN_ADAPTER = re.compile(r"\b(modules_to_save\.[^.]+|original_module)\.")  # parts of names that PEFT inserts
HEAD_RATE = 1e-2  # measured: docs/results/defaults.md
INNER = 0.1  # of the head's rate, for its layers before the last


def head_rate(args: Any) -> float:
    """The rate of a fresh head's last layer: `head_learning_rate`, or by default `HEAD_RATE` with an optimizer of
    Adam's kind, and at least `learning_rate`. Other optimizers do not normalise their steps: `learning_rate`."""
    if args.head_learning_rate is not None:
        return args.head_learning_rate
    return max(HEAD_RATE if "adam" in str(args.optim).lower() else 0.0, args.learning_rate)


def own_rates(task_net: nn.Module, args: Any, fresh: set[str]) -> Iterator[tuple[list[nn.Parameter], float]]:
    """The trainable parameters with a rate of their own, and that rate.

    Args:
        args: [`SealTrainingArguments`].
        fresh: names of the fresh head's parameters, from [`fresh_names`].
    """
    net: Any = without_wrapper(task_net)
    named = ((IN_AN_ADAPTER.sub("", name), p) for name, p in net.named_parameters())
    trained = {name: parameter for name, parameter in named if parameter.requires_grad}
    head = {name: parameter for name, parameter in trained.items() if name in fresh}
    beside_an_encoder = head and len(head) < len(trained) and not args.freeze_encoder
    rate = head_rate(args)
    if beside_an_encoder:
        last: list[nn.Parameter] = []
        inner: list[nn.Parameter] = []
        for parameter in head.values():
            (last if parameter.shape[:1] == (net.config.num_labels,) else inner).append(parameter)
        yield last, rate
        yield inner, max(INNER * rate, args.learning_rate)
    crf = getattr(task_net, "crf", None)
    if crf is not None and (beside_an_encoder or args.crf_learning_rate is not None):
        yield list(crf.parameters()), rate if args.crf_learning_rate is None else args.crf_learning_rate


def fresh_names(task_net: PreTrainedModel, missing: Iterable[str] = ()) -> set[str]:
    """The names of the parameters that began fresh when a pretrained encoder was loaded, without a CRF's. They are
    those that the class which saved the weights lacks; `config.architectures` still names that class. Empty for a net
    from scratch, and for a saved one with its own head.

    Args:
        missing: the names, where the loader reported them.
    """
    net: Any = without_wrapper(task_net)
    if missing:
        return {name for name in missing if not name.startswith("crf.")}
    names = getattr(getattr(net, "config", None), "architectures", None) or [""]
    saved_by = getattr(transformers, names[0], None)
    if saved_by is None or isinstance(net, saved_by):
        return set()
    prefix = f"{net.base_model_prefix}."
    with torch.device("meta"):
        saved = {name.removeprefix(prefix) for name, _ in saved_by(net.config).named_parameters()}
        own = {name for name, _ in type(net)(net.config).named_parameters()}
    return {name for name in own if name.removeprefix(prefix) not in saved}
