"""Task-nets given to the trainer without a loss-net."""

from __future__ import annotations

from typing import Any

from transformers import set_seed
from transformers.utils import logging

from ..core.energy import ENERGIES
from ..core.space import OutputSpace
from ..loss_net.loss_net import LossNet
from ..nets.task_nets import check_is_pretrained_model, feature_size
from ..saving.model import SealModel, kind_of, model_classes
from .arguments import CROSS_ENTROPY, SealTrainingArguments

logger = logging.get_logger(__name__)


def with_loss_net(model: Any, args: SealTrainingArguments, loss_net: LossNet | None, space: OutputSpace | None) -> Any:
    """Add a fresh loss-net, drawn from `args.seed`, to a plain task-net of a known kind if the run needs one: it has an
    energy loss, and no `loss_net` is given. Return any other model unchanged.

    Raises:
        TypeError: the model lacks a config.
    """
    if model is None or (isinstance(model, SealModel) and model.loss_net is not None):
        return model
    if not hasattr(model, "config"):
        check_is_pretrained_model(model, "SealTrainer")
    if loss_net is not None or args.energy_loss == CROSS_ENTROPY:
        return model
    if (kind := kind_of(model, space)) is None:
        return model
    set_seed(args.seed)
    task_net = model.task_net if isinstance(model, SealModel) else model
    seal = kind.from_task_net(task_net, loss_net_encoder=args.loss_net_encoder)
    built = seal.loss_net.config
    logger.warning(
        f"`model` is a plain {type(task_net).__name__}: built a fresh loss-net for it (encoder: {built.encoder_mode}, "
        f"energy: {built.energy}), as {kind.__name__}.from_task_net does."
    )
    return seal


def given_loss_net(loss_net: LossNet | None, args: SealTrainingArguments, model: Any) -> LossNet:
    """The loss-net. ValueError if it is None."""
    if loss_net is None:
        wrap = ", ".join(f"{kind.__name__}.from_task_net" for kind in model_classes())
        raise ValueError(
            f"energy_loss={args.energy_loss!r} needs a loss-net, but `model` lacks one. Its class name, "
            f"{type(model).__name__}, and config.problem_type do not tell which outputs it has: wrap it by one of "
            f"{wrap}; or pass `loss_net=`; or train with energy_loss='ce'."
        )
    return loss_net


def check_feature_size(loss_net: LossNet, model: Any) -> None:
    """Raises ValueError if the loss-net was built for another feature size than that of its encoder or the task-net."""
    if ENERGIES[loss_net.config.energy].reads is not None:
        return
    separate, expected = loss_net.config.encoder_mode == "separate", loss_net.config.feature_size
    net: Any = loss_net.encoder if separate else model
    if getattr(net.config, "hidden_size", None) == expected:
        return
    try:
        found = feature_size(model, net if separate else None)
    except ValueError:  # unknown before the first step
        return
    if found != expected:
        owner = "its own encoder" if separate else f"the task-net, {type(model).__name__},"
        raise ValueError(
            f"The loss-net reads features of size {expected}, but {owner} gives {found}. Build it with "
            f"LossNetConfig(feature_size={found}, ...), or leave `loss_net` out to have it built for this task-net."
        )
