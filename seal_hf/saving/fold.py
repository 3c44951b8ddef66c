"""An export whose classifier's bias holds the decision: code that cuts scores at 0.5 then decides as validation chose.

σ(z) >= t if and only if σ(z - logit(t)) >= 1/2. So the bias of a label is lowered by the logit of its threshold; for
masks, the bias of the foreground's channel is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..core.decisions import FOLDABLE
from ..core.masks import log_odds
from ..core.task import DECISIONS
from ..nets.image_features import blank_images, reads_images
from ..utils.modules import in_evaluation

SEVERAL_CLASSES_ARE_NOT_FOLDED = (
    "`fold_decision` is True, but masks of several classes are decided by the likeliest class, without a threshold. "
    "Leave it out."
)


@contextmanager
def folded(task_net: PreTrainedModel) -> Iterator[PreTrainedModel]:
    """The task-net with its stored decision in the bias, and a config that says so; restored when the block ends.

    Raises:
        ValueError: no decision is stored, it is not a threshold, masks have several classes, or no bias can hold the
            decision, see [`check_foldable`].
    """
    config: Any = task_net.config
    if not _of_labels(task_net) and config.num_labels > 2:
        raise ValueError(SEVERAL_CLASSES_ARE_NOT_FOLDED)
    decisions: Any = DECISIONS["multi_label" if _of_labels(task_net) else "binary_mask"].from_config(config)
    saved = getattr(config, "decisions", None)
    if saved is None and getattr(config, "threshold", None) is None:
        raise ValueError(
            "`fold_decision` is True, but no decision is stored: call `trainer.fit_decisions(validation_rows)` first."
        )
    if decisions.decoder not in FOLDABLE:
        raise ValueError(
            f"`fold_decision` is True, but the decoder is {decisions.decoder!r}, not a threshold, so no bias can "
            f"hold it. Fit one of {', '.join(FOLDABLE)}: `trainer.fit_decisions(rows, decoder='threshold')`, or "
            "--decoder threshold."
        )
    offsets = torch.as_tensor(decisions.offsets(), dtype=torch.float32, device=task_net.device)
    if offsets.dim() and len(offsets) != config.num_labels:
        raise ValueError(
            f"`config.decisions` has {len(offsets)} thresholds, but the task-net has {config.num_labels} labels: fit "
            "the decisions again."
        )
    with _lowered(task_net, offsets) if offsets.any() else nullcontext():
        config.decisions = (decisions if decisions.folded else decisions.after_folding()).as_json()
        try:
            yield task_net
        finally:
            config.decisions = saved
            if saved is None:
                del config.decisions


def check_foldable(task_net: PreTrainedModel) -> None:
    """Raises ValueError if no bias can hold a threshold: none shifts the scores by the amount it is changed, or its
    precision is too coarse."""
    with _lowered(task_net, torch.tensor(1.0, device=task_net.device)):
        pass


@contextmanager
def _lowered(task_net: PreTrainedModel, offsets: Tensor) -> Iterator[None]:
    """The task-net with its scores lowered by `offsets`, one number or one per label; for masks, the foreground's."""
    config: Any = task_net.config
    if task_net.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"`fold_decision` is True, but the weights are {str(task_net.dtype).removeprefix('torch.')}, too coarse "
            "for a bias to hold a threshold. Save the net as float32 (model.float()), or leave it out."
        )
    if getattr(config, "crop_size", None):
        raise ValueError(
            "`fold_decision` is True, but the net averages over crops, and no bias shifts their mean by the amount it "
            "is changed. Leave it out."
        )
    by = torch.zeros(config.num_labels, device=task_net.device)
    by[slice(None) if _of_labels(task_net) else -1] = offsets
    layer, bias = _found_bias(task_net, by, offsets)
    kept, values = layer.bias, bias.detach().clone()
    layer.bias = bias
    bias.data -= by.to(bias.dtype)
    if kept is None:
        config.label_bias = True
    try:
        yield
    finally:
        layer.bias, bias.data = kept, values
        if kept is None:
            config.label_bias = False


def _found_bias(task_net: PreTrainedModel, by: Tensor, offsets: Tensor) -> tuple[Any, nn.Parameter]:
    """The layer, and its bias (L,), that lowers the scores by `offsets` if it is lowered by `by`."""
    before = _scores(task_net)
    for layer, bias in _output_layers(task_net):
        kept, values = layer.bias, bias.detach().clone()
        layer.bias = bias
        bias.data -= by.to(bias.dtype)
        after = _scores(task_net)
        layer.bias, bias.data = kept, values
        if torch.allclose(before - after, offsets, atol=1e-4, rtol=1e-4):
            return layer, bias
    raise ValueError(
        f"`fold_decision` is True, but no bias of {type(task_net).__name__} shifts its scores by the amount it is "
        "changed: its last layer lacks one. Leave it out."
    )


def _output_layers(task_net: PreTrainedModel) -> Iterator[tuple[Any, nn.Parameter]]:
    """Layers that may give the scores, last first, each with its bias; a label table without a bias gets one."""
    layers: list[Any] = list(task_net.modules())
    for layer in reversed(layers):
        if task_net.config.num_labels in (getattr(layer, "out_features", None), getattr(layer, "out_channels", None)):
            if isinstance(layer.bias, nn.Parameter):
                yield layer, layer.bias
            elif getattr(layer, "is_label_table", False):
                yield layer, nn.Parameter(layer.weight.new_zeros(len(layer.weight)))


def _of_labels(task_net: PreTrainedModel) -> bool:
    """True if it decides label sets, False if masks."""
    return task_net.config.problem_type == "multi_label_classification"


@torch.no_grad()
def _scores(task_net: PreTrainedModel) -> Tensor:
    """The logits of some input, (1, L); for masks the foreground's log-odds, (1, h, w)."""
    config: Any = task_net.config
    if task_net.main_input_name == "features":
        inputs = {"features": torch.zeros(1, config.input_size)}
    elif reads_images(task_net):
        inputs = blank_images(task_net)
    else:
        inputs = {"input_ids": torch.arange(2, 10).unsqueeze(0), "attention_mask": torch.ones(1, 8, dtype=torch.long)}
    inputs = {name: value.to(task_net.device) for name, value in inputs.items()}
    forward = type(task_net).forward  # not accelerate's wrapper around it, which runs in half precision
    with in_evaluation(task_net):
        logits = forward(task_net, **inputs).logits.float()
    return log_odds(logits) if logits.dim() == 4 else logits
