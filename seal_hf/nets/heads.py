"""What a classifier's head reads of the hidden states of an input's tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..core.task import SPACES
from ..utils.modules import evaluating, without_wrapper

POOLINGS = MEAN, FIRST, LAST = ("mean", "first", "last")  # how tokens' hidden states become one vector per input
PROBED = 8  # tokens of the input that is looked at
TOLERANCE = 1e-4  # for floats that count as equal


def probe(task_net: PreTrainedModel) -> Tensor:
    """A short input for looking at a net of tokens: ids (1, T), none of them padding."""
    padding = getattr(task_net.config.get_text_config(), "pad_token_id", None)
    token = next(i for i in (5, 6) if i != padding)
    return torch.full((1, PROBED), token, device=next(task_net.parameters()).device)


def head_pooling(task_net: PreTrainedModel) -> str:
    """`first` or `last` if the head reads the last hidden state of that token alone, otherwise `mean`: it reads all
    tokens, or, as BERT's, what a pooler of the encoder makes of them."""
    return read_tokens(task_net) or MEAN


def read_tokens(task_net: PreTrainedModel, through_pooler: bool = False) -> str | None:
    """What the head reads of the last hidden state: the `first` or `last` token alone, `mean` if all of them; None: it
    reads something else.

    It is found by one forward of a short input, whose hidden states get NaN as gradient where the head reads them.

    Args:
        through_pooler: a head that reads what a pooler of the encoder makes of the first token reads the first token.
    """
    plain = without_wrapper(task_net)
    base: nn.Module = plain.base_model
    if base is plain or plain.main_input_name != "input_ids":
        return None
    ids = probe(plain)
    leaves: list[Tensor] = []

    def cut(module: nn.Module, args: Any, outputs: Any) -> Any:
        values = {name: value.detach() if torch.is_tensor(value) else value for name, value in outputs.items()}
        leaves.append(values["last_hidden_state"].requires_grad_())
        if through_pooler and (pooler := own_pooler(base, outputs)) is not None:
            values["pooler_output"] = pooler(leaves[0])
        return type(outputs)(**values)

    hook = base.register_forward_hook(cut)
    try:
        with evaluating(plain), torch.enable_grad():
            logits = plain(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
            (found,) = torch.autograd.grad(logits, leaves, torch.full_like(logits, torch.nan), allow_unused=True)
    except Exception:  # a net that reads something else may raise anything
        return None
    finally:
        hook.remove()
    if found is None or found.shape[:2] != ids.shape:
        return None
    read = found[0].isnan().any(-1).nonzero().flatten().tolist()
    return {(0,): FIRST, (PROBED - 1,): LAST, tuple(range(PROBED)): MEAN}.get(tuple(read))


def own_pooler(base: nn.Module, outputs: Any) -> nn.Module | None:
    """The encoder's pooler if it reads only the first token, so that it is part of the head; else None."""
    pooler, pooled = getattr(base, "pooler", None), getattr(outputs, "pooler_output", None)
    if not isinstance(pooler, nn.Module) or pooled is None:
        return None
    made = pooler(outputs.last_hidden_state[:, :1])
    return pooler if torch.is_tensor(made) and alike(made, pooled) else None


def alike(first: Tensor, second: Tensor) -> bool:
    """True for tensors whose values count as equal."""
    return first.shape == second.shape and torch.allclose(first, second, rtol=TOLERANCE, atol=TOLERANCE)


def pooling_for(task_net: PreTrainedModel, encoder_mode: str) -> str:
    """How a fresh loss-net makes one vector per input: a `shared` one takes the vector that the task-net's head reads.
    With an encoder or adapter of its own it takes the mean, unless the head reads the last token, which in a causal
    encoder is the only one that has seen the whole text."""
    found = head_pooling(task_net)
    return found if encoder_mode == "shared" or found == LAST else MEAN


def label_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of label sets, logits and labels (B, L) -> scalar: the sum over labels, the mean over rows."""
    return SPACES["multi_label"]().task_loss(logits, labels)
