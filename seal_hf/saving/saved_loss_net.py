"""The loss-net of a saved folder or repo."""

from __future__ import annotations

from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from transformers import PreTrainedModel

from ..loss_net.loss_net import LOSS_NET_FOLDER, LossNet, LossNetConfig
from ..nets.adapters import LIBRARIES, library_of
from .loss_net import load_loss_net_weights


def loss_net_of(task_net: PreTrainedModel, folder: str, space: str) -> LossNet:
    """The loss-net of `folder`. A loss-net with an adapter needs the base of the task-net beside it.

    Args:
        space: name of the task-net's output space.

    Raises:
        ValueError: the loss-net is for other outputs, its files are damaged, or its task-net lacks the adapter.
    """
    config = LossNetConfig.from_pretrained(folder)
    labels = config.num_labels, task_net.config.num_labels
    for what, (found, expected) in {"outputs": (config.space, space), "labels": labels}.items():
        if found != expected:
            raise ValueError(
                f"The loss-net in {folder} has {found} {what}, the task-net {expected}. Pass fresh_loss_net=True to "
                "build a fresh one."
            )
    if config.encoder_mode not in LIBRARIES:
        return LossNet.from_pretrained(folder, dtype=torch.float32, use_safetensors=True)
    library = LIBRARIES[config.encoder_mode]
    if library_of(task_net) is not library:
        raise ValueError(
            f"The loss-net in {folder} is an adapter ({library.mode}) in the frozen base of its task-net, but the "
            f"task-net beside it has no adapter. Remove {LOSS_NET_FOLDER}/ to start a fresh loss-net."
        )
    loss_net = LossNet(config).attach(library.loss_adapter(task_net, config.encoder_config))
    load_loss_net_weights(loss_net, Path(folder).parent)
    loss_net.name_or_path = str(folder)  # as transformers sets it
    return loss_net


def find_loss_net(name: str, hub: dict) -> str | None:
    """Path of the loss-net's folder, in a local folder or a Hub repo; None if it is missing.

    Raises:
        ValueError: it has weights, but no configuration.
    """
    root = Path(name)
    if not root.is_dir():
        root = Path(
            snapshot_download(
                name, allow_patterns=[f"{LOSS_NET_FOLDER}/config.json", f"{LOSS_NET_FOLDER}/*.safetensors"], **hub
            )
        )
    folder = root / LOSS_NET_FOLDER
    if (folder / "config.json").is_file():
        return str(folder)
    if any(folder.glob("*.safetensors")):
        raise ValueError(f"{folder} has weights, but config.json is missing. Was it saved completely?")
    return None
