"""What the head of a task-net reads: of a text, one vector of its tokens' hidden states; of an image, one vector. A
shared network reads the last hidden state too, or the vector of the image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..core.task import SPACES
from ..utils.modules import evaluating, without_wrapper

POOLINGS = MEAN, FIRST, LAST = ("mean", "first", "last")  # how tokens' hidden states become one vector per input
PROBED = 8  # tokens of the input that is looked at
TOLERANCE = 1e-4  # for floats that count as equal
PIXELS = "pixel_values"
ANY_SIZE = 64  # side in pixels, for nets that do not state one


# --- texts ------------------------------------------------------------------------------------------------------------


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


# --- images -----------------------------------------------------------------------------------------------------------


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


# --- the loss of the small nets ---------------------------------------------------------------------------------------


def label_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of label sets, logits and labels (B, L) -> scalar: the sum over labels, the mean over rows."""
    return SPACES["multi_label"]().task_loss(logits, labels)
