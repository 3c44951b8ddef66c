"""What a task-net needs before it is trained: its problem type and decoding, a padding token, and the rates of its
parts.

A fresh head beside a pretrained encoder, and a CRF, learn at a rate of their own. Under Adam a parameter moves by at
most the learning rate in a step. An encoder needs a small rate. A head that begins at small random weights would stay
near them: with 300 steps at 2e-4 it can move by 0.06.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from ..core.space import OutputSpace
from ..data.tensors.collators import TensorRows, padding_id
from ..nets.heads import LAST, head_pooling, probe
from ..utils.modules import evaluating, without_wrapper
from .rows import each_dataset

logger = logging.get_logger(__name__)


def set_problem_type(model: PreTrainedModel, space: OutputSpace) -> None:
    """Set a missing problem type in the task-net's config, since pipelines decode by it."""
    if model.config.problem_type is None or space.problem_type is None:  # None in the space: its heads never read it
        config: Any = model.config
        config.problem_type = space.problem_type


def store_decoding(model: PreTrainedModel, space: OutputSpace) -> None:
    """Write the space's decoding options into the task-net's config; warn if this drops a saved option."""
    config, options = model.config, space.decoding_options()
    for name in (name for name, value in options.items() if not value and getattr(config, name, False)):
        logger.warning(f"The task-net was saved with `{name}`, and this run drops it. Give `{name}` to keep it.")
    config.update(options)


# The rates of its parts.

IN_AN_ADAPTER = re.compile(r"\b(modules_to_save\.[^.]+|original_module)\.")  # parts of names that PEFT inserts
CRF = "crf."  # the names of a CRF's parameters begin so
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
        fresh: names of the parameters of a fresh head and a fresh CRF, from [`fresh_names`].
    """
    net: Any = without_wrapper(task_net)
    named = ((IN_AN_ADAPTER.sub("", name), p) for name, p in net.named_parameters())
    trained = {name: parameter for name, parameter in named if parameter.requires_grad}
    head = {name: parameter for name, parameter in trained.items() if name in fresh and not name.startswith(CRF)}
    beside_an_encoder = head and len(head) < len(trained) and not args.freeze_encoder
    rate = head_rate(args)
    if beside_an_encoder:
        last: list[nn.Parameter] = []
        inner: list[nn.Parameter] = []
        for parameter in head.values():
            (last if parameter.shape[:1] == (net.config.num_labels,) else inner).append(parameter)
        yield last, rate
        yield inner, max(INNER * rate, args.learning_rate)
    elif args.head_learning_rate not in (None, args.learning_rate):
        logger.warning(
            "`head_learning_rate` %g is not used: no fresh head stands beside a pretrained encoder that is trained. "
            "All layers learn at `learning_rate` %g.",
            args.head_learning_rate,
            args.learning_rate,
        )
    crf = getattr(task_net, "crf", None)
    is_fresh = beside_an_encoder or any(name.startswith(CRF) for name in fresh)
    if crf is not None and (is_fresh or args.crf_learning_rate is not None):
        yield list(crf.parameters()), rate if args.crf_learning_rate is None else args.crf_learning_rate


def fresh_names(task_net: PreTrainedModel, missing: Iterable[str] = ()) -> set[str]:
    """The names of the parameters that began fresh when a pretrained encoder or a saved net was loaded. They are those
    that the class which saved the weights lacks, without a CRF's; `config.architectures` still names that class. Empty
    for a net from scratch, and for a saved one with its own head.

    Args:
        missing: the names, where the loader reported them.
    """
    net: Any = without_wrapper(task_net)
    if missing:
        return set(missing)
    names = getattr(getattr(net, "config", None), "architectures", None) or [""]
    saved_by = getattr(transformers, names[0], None)
    if saved_by is None or isinstance(net, saved_by):
        return set()
    prefix = f"{net.base_model_prefix}."
    with torch.device("meta"):
        saved = {name.removeprefix(prefix) for name, _ in saved_by(net.config).named_parameters()}
        own = {name for name, _ in type(net)(net.config).named_parameters()}
    return {name for name in own if name.removeprefix(prefix) not in saved}


# Padding tokens: rows are padded by the token that the task-net's head knows, on a side that changes nothing.

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3}  # of logits, relative to the largest; in half precision 0.05


def settle_padding(model: PreTrainedModel, tokenizer: Any, **datasets: Any) -> None:
    """Give tokenizer and task-net a padding token if they lack one: the tokenizer's token for the end of a text.

    Args:
        tokenizer: that of the rows, or what is given in its place.
        datasets: by their names in messages.

    Raises:
        ValueError: the head finds the last token by another padding token than that of the rows, or padding on the left
            changes the task-net's logits.
    """
    if model.main_input_name != "input_ids":
        return
    if isinstance(tokenizer, PreTrainedTokenizerBase) and tokenizer.pad_token is None and tokenizer.eos_token:
        logger.warning(f"The tokenizer has no padding token: {tokenizer.eos_token!r}, the end of a text, pads rows.")
        tokenizer.pad_token = tokenizer.eos_token
    for name, padding in _paddings(datasets, tokenizer):
        _check_token(model, name, padding)
    if getattr(tokenizer, "padding_side", "right") == "left":
        others = [name for name, dataset in each_dataset(datasets) if not isinstance(dataset, TensorRows)]
        if others and _left_changes(model):
            raise ValueError(
                f"The tokenizer pads `{others[0]}` on the left, which changes the logits of {type(model).__name__}. "
                "Set tokenizer.padding_side = 'right'."
            )


def _paddings(given: dict[str, Any], tokenizer: Any) -> Iterator[tuple[str, int]]:
    """(name, id that pads) of each data set whose padding is known."""
    for name, dataset in each_dataset(given):
        if isinstance(dataset, TensorRows):
            padding = dataset.padding.get("input_ids")
        else:
            padding = padding_id(tokenizer) if isinstance(tokenizer, PreTrainedTokenizerBase) else None
        if padding is not None:
            yield name, padding


def _check_token(model: PreTrainedModel, name: str, padding: int) -> None:
    """Tell a head that looks for the last token by which id rows are padded; raise ValueError if it knows another."""
    config: Any = model.config.get_text_config()
    known = getattr(config, "pad_token_id", None)
    if known == padding or head_pooling(model) != LAST:
        return
    if known is not None:
        raise ValueError(
            f"`{name}` is padded by the token {padding}, but the head of {type(model).__name__} finds the last token "
            f"by config.pad_token_id, which is {known}: it would read padding. Set tokenizer.pad_token_id = {known} "
            f"and tokenize again, or set model.config.pad_token_id = {padding}."
        )
    logger.warning(
        f"{type(model).__name__} has no padding token: config.pad_token_id is now {padding}, as in the rows."
    )
    config.pad_token_id = padding


@torch.no_grad()
def _left_changes(model: PreTrainedModel) -> bool:
    """True if padding on the left changes the logits of an input; False for a net that reads more than token ids."""
    ids = probe(model)
    padding = getattr(model.config.get_text_config(), "pad_token_id", None)
    padded = torch.cat([torch.full_like(ids[:, :2], 0 if padding is None else padding), ids], dim=1)
    try:
        with evaluating(model):
            first: Tensor = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
            mask = torch.ones_like(padded)
            mask[:, :2] = 0
            second: Tensor = model(input_ids=padded, attention_mask=mask).logits
    except Exception:  # a net that reads something else may raise anything
        return False
    second = second if second.dim() == 2 else second[:, 2:]
    limit = TOLERANCE.get(first.dtype, 0.05) * float(first.abs().max())
    return first.shape == second.shape and float((first - second).abs().max()) > limit
