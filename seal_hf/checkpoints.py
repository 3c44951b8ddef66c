"""The loss-net in a folder: `_loss_net/` beside the plain task-net at the root.

Weights are safetensors; optimizer, scheduler and scaler are read with `weights_only=True` and nothing else.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from .learner import Learner
from .loss_net import LossNet

LOSS_NET_FOLDER = "_loss_net"  # the Trainer's push to the Hub skips names that begin with an underscore
CONFIG, WEIGHTS, STATE = "config.json", "model.safetensors", "learner.pt"


def save_loss_net(loss_net: LossNet | None, folder: str | Path) -> None:
    """Write the loss-net's config and weights to `folder/_loss_net/`. Without a loss-net, one of an earlier run in the
    same folder is removed: it belongs to another task-net than the one just saved there."""
    if loss_net is not None:
        loss_net.save_pretrained(Path(folder) / LOSS_NET_FOLDER)
        return
    for name in (CONFIG, WEIGHTS, STATE):
        Path(folder, LOSS_NET_FOLDER, name).unlink(missing_ok=True)


def check_resumable(loss_net: LossNet, folder: str | Path) -> None:
    """Whether a run with this loss-net can go on from `folder`; looks before anything is loaded.

    Raises:
        ValueError: weights or optimizer state of the loss-net are missing, or the weights are of another shape.
    """
    _read_weights(loss_net, folder)
    if not (Path(folder) / LOSS_NET_FOLDER / STATE).is_file():
        raise ValueError(
            f"{folder} cannot be resumed: {LOSS_NET_FOLDER}/{STATE}, the state of the loss-net's optimizer, is "
            "missing. Was it saved with save_only_model=True? Start a new run from its weights instead."
        )


def load_loss_net_weights(loss_net: LossNet, folder: str | Path) -> None:
    """Read the weights of `folder/_loss_net/` into `loss_net`, in place; all of them or none.

    Raises:
        ValueError: the folder has no loss-net, or one of another shape.
    """
    loss_net.load_state_dict(_read_weights(loss_net, folder))


def _read_weights(loss_net: LossNet, folder: str | Path) -> dict[str, Tensor]:
    path = Path(folder) / LOSS_NET_FOLDER / WEIGHTS
    if not path.is_file():
        raise ValueError(
            f"{folder} has no loss-net: {LOSS_NET_FOLDER}/{WEIGHTS} is missing. It was saved by a plain Trainer "
            f"or with "
            "energy_loss='ce'. Resume with the same loss, or start a new run from these weights: "
            "SealForMultiLabel.from_pretrained(folder) gives them a fresh loss-net."
        )
    weights = load_file(path, device="cpu")
    found, expected = (
        {name: tuple(value.shape) for name, value in tensors.items()} for tensors in (weights, loss_net.state_dict())
    )
    wrong = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
    if wrong:
        details = (f"{name} is {found.get(name, 'absent')}, expected {expected.get(name, 'none')}" for name in wrong)
        raise ValueError(f"The loss-net in {path.parent} does not fit the one of this run: {'; '.join(details)}.")
    return weights


def save_learner_state(learner: Learner, folder: str | Path) -> None:
    """Write optimizer, scheduler and scaler of the loss-net."""
    path = Path(folder) / LOSS_NET_FOLDER
    path.mkdir(parents=True, exist_ok=True)
    torch.save(learner.state_dict(), path / STATE)


def load_learner_state(learner: Learner, folder: str | Path) -> None:
    """Read what [`save_learner_state`] wrote; [`check_resumable`] said that it is there."""
    path = Path(folder) / LOSS_NET_FOLDER / STATE
    learner.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
