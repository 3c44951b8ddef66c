"""The loss-net in a folder: `_loss_net/` beside the plain task-net at the root.

Weights are safetensors; optimizer, scheduler and scaler are read with `weights_only=True` and nothing else.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file

from .learner import Learner
from .loss_net import LossNet

LOSS_NET_FOLDER = "_loss_net"  # the Trainer's push to the Hub skips names that begin with an underscore
WEIGHTS, STATE = "model.safetensors", "learner.pt"


def save_loss_net(loss_net: LossNet, folder: str | Path) -> None:
    """Write the loss-net's config and weights to `folder/_loss_net/`."""
    loss_net.save_pretrained(Path(folder) / LOSS_NET_FOLDER)


def load_loss_net_weights(loss_net: LossNet, folder: str | Path) -> None:
    """Read the weights of `folder/_loss_net/` into `loss_net`, in place.

    Raises:
        ValueError: the folder has no loss-net, or one of another shape.
    """
    path = Path(folder) / LOSS_NET_FOLDER / WEIGHTS
    if not path.is_file():
        raise ValueError(
            f"{folder} has no loss-net: {LOSS_NET_FOLDER}/{WEIGHTS} is missing. It was saved by a plain Trainer "
            f"or with "
            "energy_loss='ce'. Resume with the same loss, or start a new run from these weights: "
            "SealForMultiLabel.from_pretrained(folder) gives them a fresh loss-net."
        )
    try:
        loss_net.load_state_dict(load_file(path, device="cpu"))
    except RuntimeError as error:
        raise ValueError(f"The loss-net in {path.parent} does not fit the one of this run: {error}") from error


def save_learner_state(learner: Learner, folder: str | Path) -> None:
    """Write optimizer, scheduler and scaler of the loss-net."""
    path = Path(folder) / LOSS_NET_FOLDER
    path.mkdir(parents=True, exist_ok=True)
    torch.save(learner.state_dict(), path / STATE)


def load_learner_state(learner: Learner, folder: str | Path) -> None:
    """Read what [`save_learner_state`] wrote.

    Raises:
        ValueError: the folder has no such state.
    """
    path = Path(folder) / LOSS_NET_FOLDER / STATE
    if not path.is_file():
        raise ValueError(
            f"{folder} cannot be resumed: {LOSS_NET_FOLDER}/{STATE}, the state of the loss-net's optimizer, is "
            f"missing. Was it "
            "saved with save_only_model=True? Start a new run from its weights instead."
        )
    learner.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
