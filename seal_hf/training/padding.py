"""Padding tokens: rows are padded by the token that the task-net's head knows, on a side that changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from ..data.tensors.collators import TensorRows, padding_id
from ..nets.heads import LAST, head_pooling, probe
from ..utils.modules import evaluating
from .rows import each_dataset

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3}  # of logits, relative to the largest; in half precision 0.05

logger = logging.get_logger(__name__)


def settle_padding(trainer: Any, model: PreTrainedModel) -> None:
    """Give tokenizer and task-net a padding token if they lack one: the tokenizer's token for the end of a text.

    Raises:
        ValueError: the head finds the last token by another padding token than that of the rows, or padding on the left
            changes the task-net's logits.
    """
    if model.main_input_name != "input_ids":
        return
    tokenizer: Any = getattr(trainer.data_collator, "tokenizer", None) or trainer.processing_class
    if isinstance(tokenizer, PreTrainedTokenizerBase) and tokenizer.pad_token is None and tokenizer.eos_token:
        logger.warning(f"The tokenizer has no padding token: {tokenizer.eos_token!r}, the end of a text, pads rows.")
        tokenizer.pad_token = tokenizer.eos_token
    given = {"train_dataset": trainer.train_dataset, "eval_dataset": trainer.eval_dataset}
    for name, padding in _paddings(given, tokenizer):
        _check_token(model, name, padding)
    if getattr(tokenizer, "padding_side", "right") == "left":
        others = [name for name, dataset in each_dataset(given) if not isinstance(dataset, TensorRows)]
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
