"""What a classifier's head reads of the hidden states of an input's tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..utils.modules import evaluating, without_wrapper

POOLINGS = MEAN, FIRST, LAST = ("mean", "first", "last")  # how tokens' hidden states become one vector per input
PROBED = 8  # tokens of the input that is looked at


def probe(task_net: PreTrainedModel) -> Tensor:
    """A short input for looking at a net of tokens: ids (1, T), none of them padding."""
    padding = getattr(task_net.config.get_text_config(), "pad_token_id", None)
    token = next(i for i in (5, 6) if i != padding)
    return torch.full((1, PROBED), token, device=next(task_net.parameters()).device)


def head_pooling(task_net: PreTrainedModel) -> str:
    """`first` or `last` if the head reads the last hidden state of that token alone, otherwise `mean`: it reads all
    tokens, or, as BERT's, what a pooler of the encoder makes of them.

    It is found by one forward of a short input, whose hidden states get NaN as gradient where the head reads them.
    """
    plain = without_wrapper(task_net)
    base: nn.Module = plain.base_model
    if base is plain or plain.main_input_name != "input_ids":
        return MEAN
    ids = probe(plain)
    leaves: list[Tensor] = []

    def cut(module: nn.Module, args: Any, outputs: Any) -> Any:
        values = {name: value.detach() if torch.is_tensor(value) else value for name, value in outputs.items()}
        leaves.append(values["last_hidden_state"].requires_grad_())
        return type(outputs)(**values)

    hook = base.register_forward_hook(cut)
    try:
        with evaluating(plain), torch.enable_grad():
            logits = plain(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
            (found,) = torch.autograd.grad(logits, leaves, torch.full_like(logits, torch.nan), allow_unused=True)
    except Exception:  # a net that reads something else may raise anything
        return MEAN
    finally:
        hook.remove()
    if found is None or found.shape[:2] != ids.shape:
        return MEAN
    read = found[0].isnan().any(-1).nonzero().flatten().tolist()
    return {(0,): FIRST, (PROBED - 1,): LAST}.get(tuple(read), MEAN)


def pooling_for(task_net: PreTrainedModel, encoder_mode: str) -> str:
    """How a fresh loss-net makes one vector per input: a `shared` one takes the vector that the task-net's head reads.
    With an encoder or adapter of its own it takes the mean, unless the head reads the last token, which in a causal
    encoder is the only one that has seen the whole text."""
    found = head_pooling(task_net)
    return found if encoder_mode == "shared" or found == LAST else MEAN
