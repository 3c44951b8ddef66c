"""Task-nets built by the user: their sizes, and the encoder that a separate loss-net starts from."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import MODEL_MAPPING, AutoConfig, AutoModel, PreTrainedModel
from transformers.utils import logging

from ..utils.messages import in_words
from ..utils.modules import evaluating, without_wrapper
from .adapters import LIBRARIES, library_of
from .encoders import encoder_options, pool
from .heads import blank_images, reads_images, shared_size

logger = logging.get_logger(__name__)


def check_is_pretrained_model(task_net: Any, built_by: str) -> None:
    """Raises TypeError for what is neither a Hugging Face model nor one wrapped by PEFT."""
    if isinstance(task_net, PreTrainedModel) or (isinstance(task_net, nn.Module) and library_of(task_net) is not None):
        return
    takes = f"{built_by} takes a PreTrainedModel, whose config states its sizes and is saved with it; found"
    if isinstance(task_net, type | str):
        raise TypeError(f"{takes} {in_words(task_net)}. Give the model itself, from `from_pretrained` of its class.")
    if isinstance(task_net, FunctionType):
        raise TypeError(f"{takes} {in_words(task_net)}. If it makes the net, call it, or give it as `model_init=`.")
    raise TypeError(
        f"{takes} {type(task_net).__name__}. Make it one: `class MyNet(PreTrainedModel)` with a `config_class`, a "
        "`forward` whose outputs have `logits`, and `num_labels` and `hidden_size` in the config."
    )


def check_has_logits(task_net: PreTrainedModel, outputs: Any) -> None:
    """Raises ValueError for outputs without logits."""
    if getattr(outputs, "logits", None) is not None:
        return
    found = f"{type(task_net).__name__} returns {type(outputs).__name__} without `logits`."
    if isinstance(outputs, tuple):
        raise ValueError(f"{found} Load it with return_dict=True, and without torchscript.")
    raise ValueError(f"{found} Return a ModelOutput with `logits`.")


def check_num_labels(task_net: PreTrainedModel, inputs: Mapping[str, Tensor] | None, dim: int) -> None:
    """Raises ValueError if the outputs lack logits, or if their number of labels, in dimension `dim`, differs from the
    config's."""
    outputs, name, said = probed(task_net, task_net, inputs), type(task_net).__name__, task_net.config.num_labels
    if outputs is None:
        return
    check_has_logits(task_net, outputs)
    if (found := outputs.logits.shape[dim]) != said:
        raise ValueError(
            f"The logits of {name} have {found} labels, but its config.num_labels is {said}. Build it with "
            f"num_labels={found} in the config, and that many label names."
        )


def feature_size(
    task_net: PreTrainedModel, encoder: PreTrainedModel | None, inputs: Mapping[str, Tensor] | None = None
) -> int:
    """Width of the features that a loss-net reads: its own encoder's, or without one those that the task-net shares.

    Raises:
        ValueError: neither a forward nor the config gives it.
    """
    net = task_net if encoder is None else encoder
    if encoder is None and reads_images(task_net):
        found = shared_size(task_net)
    elif encoder is None:
        states = getattr(probed(net, task_net, inputs, output_hidden_states=True), "hidden_states", None)
        found = getattr(net.config, "hidden_size", None) if states is None else states[-1].shape[-1]
    else:
        outputs = probed(net, task_net, inputs)
        hidden = getattr(outputs, "last_hidden_state", None)
        pooled = getattr(outputs, "pooler_output", None)
        found = getattr(net.config, "hidden_size", None) if hidden is None else pool(hidden, None, pooled).shape[-1]
    if found is None:
        raise ValueError(
            f"The feature size of {type(net).__name__} is unknown: its config has no `hidden_size`. Set it, or pass "
            "`inputs=`, a batch of the net's inputs, to measure it."
        )
    return int(found)


@torch.no_grad()
def probed(net: PreTrainedModel, task_net: PreTrainedModel, inputs: Mapping[str, Tensor] | None, **options: Any) -> Any:
    """Outputs of one forward without noise; None if the net does not read the task-net's `dummy_inputs`, or a black
    image for a net of images.

    Raises:
        Exception: any error of the net for given `inputs`.
    """
    dummy = blank_images(task_net) if reads_images(task_net) else task_net.dummy_inputs
    given = dummy if inputs is None else inputs
    if inputs is None and "input_ids" in given:  # without a mask transformers warns
        given = {"attention_mask": torch.ones_like(given["input_ids"]), **given}
    device = next(net.parameters()).device
    try:
        with evaluating(net):
            return net(**{name: value.to(device) for name, value in given.items() if name != "labels"}, **options)
    except Exception:  # a net that reads something else may raise anything
        if inputs is not None:
            raise
        return None


def encoder_of(task_net: Any) -> PreTrainedModel:
    """The encoder of a task-net, which may have an adapter."""
    return without_wrapper(task_net).base_model


def encoder_for(task_net: PreTrainedModel, mode: str) -> PreTrainedModel | None:
    """The encoder that a loss-net of this mode owns: a trainable copy of the task-net's, with its current weights.

    Raises:
        ValueError: the task-net lacks such an encoder, or the adapter that `mode` needs.
    """
    library = library_of(task_net)
    if mode in LIBRARIES and library is not LIBRARIES[mode]:
        raise ValueError(
            f"`loss_net_encoder` is {mode!r}, but the task-net, {type(task_net).__name__}, has no adapter of that "
            "library. Add one first, or use 'separate' or 'shared'."
        )
    if mode != "separate":
        return None
    if library is not None and not library.mergeable(task_net):
        raise ValueError(
            "`loss_net_encoder` is 'separate', but the task-net's adapter cannot be merged into a copy of its encoder. "
            f"Use {library.mode!r} or 'shared'."
        )
    plain = copy.deepcopy(task_net) if library is None else library.merged(task_net)
    encoder, name = plain.base_model, type(plain).__name__
    if encoder is plain or not isinstance(encoder, PreTrainedModel):
        raise ValueError(
            f"`loss_net_encoder` is 'separate', but {name} has no encoder to copy: its "
            f"`base_model_prefix` is {plain.base_model_prefix!r}. Name the encoder there, or use 'shared'."
        )
    if type(encoder) not in _loaded_by_auto_model(encoder.config):
        raise ValueError(
            f"`loss_net_encoder` is 'separate', but AutoModel cannot load the encoder of {name} again. Register it: "
            f"AutoModel.register({type(encoder.config).__name__}, {type(encoder).__name__}); or use 'shared'."
        )
    frozen = _frozen(encoder) - _frozen(_built_again(encoder, name))
    if library is None and frozen:
        logger.warning(
            f"{len(frozen)} parameters of the encoder, such as {min(frozen)}, are frozen in the task-net but not in "
            "the loss-net's copy of it. Freeze them there too, in `loss_net.encoder`, or use loss_net_encoder='shared'."
        )
    encoder.zero_grad()
    return encoder.float().requires_grad_(True)


def _frozen(net: nn.Module) -> set[str]:
    return {name for name, parameter in net.named_parameters() if not parameter.requires_grad}


def _built_again(encoder: PreTrainedModel, name: str) -> PreTrainedModel:
    """The encoder as AutoModel builds it, without weights. Raises ValueError if it cannot, or if the encoder reads more
    than the input."""
    refused = f"`loss_net_encoder` is 'separate', but the encoder of {name} "
    if getattr(encoder.config, "is_encoder_decoder", False):
        ids = torch.ones((1, 2), dtype=torch.long, device=encoder.device)
        try:
            with torch.no_grad(), evaluating(encoder):
                encoder(input_ids=ids, attention_mask=torch.ones_like(ids))
        except ValueError as error:
            raise ValueError(f"{refused}does not run on the input alone: {error}. Use 'shared'.") from error
    options = encoder_options(encoder.config)
    try:
        with torch.device("meta"):
            return AutoModel.from_config(
                AutoConfig.for_model(options.pop("model_type"), **options), trust_remote_code=False
            )
    except (TypeError, ValueError, KeyError) as error:
        raise ValueError(
            f"{refused}cannot be built again from its configuration ({error}). Use 'shared', or energy_loss='ce', "
            "which has no loss-net."
        ) from error


def _loaded_by_auto_model(config: Any) -> tuple[type, ...]:
    """The classes as which AutoModel may load the weights of such a config; T5's encoder alone is not among them."""
    if type(config) not in MODEL_MAPPING:
        return ()
    found: Any = MODEL_MAPPING[type(config)]
    return found if isinstance(found, tuple) else (found,)
