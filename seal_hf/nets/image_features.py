"""What a shared network reads of a task-net: its last hidden state, or of images the vector that its head reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

PIXELS = "pixel_values"
ANY_SIZE = 64  # side in pixels, for nets that do not state one


def reads_images(net: nn.Module) -> bool:
    """True for a net of images."""
    return getattr(net, "main_input_name", None) == PIXELS


def with_features(net: Any, inputs: dict[str, Tensor], run: Callable[..., Any] | None = None) -> Any:
    """The outputs of a task-net with `hidden_states`. A shared network reads the last of them.

    The hidden states of image nets differ: some are feature maps, others are tokens before the last normalisation. For
    a net that reads images, `hidden_states` therefore has one entry, the input of its head (B, F). That is the first
    token of a ViT, the first token and the mean of the others of a DINOv2, and the mean over the image of a ConvNeXt
    or a ResNet.

    Args:
        net: the raw task-net.
        inputs: without labels.
        run: what is called in place of `net`, such as a launcher's wrapper of it.

    Raises:
        ValueError: no linear layer of an image net gives the labels.
    """
    run = net if run is None else run
    if not reads_images(net):
        return run(**inputs, output_hidden_states=True)
    with _watched(net) as seen:
        outputs = run(**inputs)
    if not seen:
        raise ValueError(
            f"A shared network (loss_net_encoder or cost_augmented_network) reads what the head of the task-net reads, "
            f"but no linear layer of {type(net).__name__} was seen to give its {net.config.num_labels} labels. Use "
            "loss_net_encoder='separate', cost_augmented_network='stacked'."
        )
    outputs.hidden_states = (seen[-1],)
    return outputs


def head_of(net: Any, inputs: dict[str, Tensor]) -> tuple[Any, Tensor | None]:
    """The linear layer whose outputs are the logits of any task-net, and what it reads of these inputs, (B, F); None
    and None if there is no such layer."""
    seen: list[tuple[Any, Any, Tensor]] = []
    handles = [layer.register_forward_hook(lambda *each: seen.append(each)) for layer in _heads(net)]
    try:
        logits = net(**inputs).logits
    finally:
        for handle in handles:
            handle.remove()
    same = [(layer, given[0]) for layer, given, made in seen if made is logits or torch.equal(made, logits)]
    return same[-1] if same else (None, None)


def shared_size(net: Any) -> int | None:
    """Width of the features that a shared network reads; None if the config does not say."""
    if not reads_images(net):
        return getattr(net.config, "hidden_size", None)
    return next((layer.in_features for layer in reversed(_heads(net))), None)


def _heads(net: Any) -> list[nn.Linear]:
    """Layers that may give the logits, in their order."""
    labels = net.config.num_labels
    return [layer for layer in net.modules() if isinstance(layer, nn.Linear) and layer.out_features == labels]


@contextmanager
def _watched(net: Any) -> Iterator[list[Tensor]]:
    """A list that takes what each of these layers reads, in the order in which they run."""
    seen: list[Tensor] = []
    handles = [layer.register_forward_pre_hook(lambda _, given: seen.append(given[0])) for layer in _heads(net)]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def blank_images(net: PreTrainedModel) -> dict[str, Tensor]:
    """The inputs of an image net for one black image, of the size that its configuration states."""
    config: Any = net.config
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", None) or ANY_SIZE
    shape = [getattr(vision, "num_channels", 3), *([size, size] if isinstance(size, int) else size)]
    of_timm = getattr(config, "pretrained_cfg", None) or {}
    return {PIXELS: torch.zeros(1, *of_timm.get("input_size", shape))}


@contextmanager
def reading(net: PreTrainedModel, batch: dict[str, Tensor]) -> Iterator[None]:
    """Explain errors about images while the block runs. Errors of nets that read no images stay as they are.

    Raises:
        ValueError: the net cannot read images of this form.
    """
    try:
        yield
    except (ValueError, RuntimeError) as error:
        if PIXELS not in batch:
            raise
        height, width = batch[PIXELS].shape[2:]
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(
            f"{type(net).__name__} does not read what the image processor gives, images of {height} x {width} pixels "
            f"with 3 channels: {reason.rstrip('.')}. Use the image processor of this model, or set its size: "
            "seal_hf.resize_to(processor, (height, width)), or --image_size."
        ) from error
