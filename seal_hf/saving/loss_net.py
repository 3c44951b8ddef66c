"""The loss-net on disk: `_loss_net/` beside the plain task-net.

Weights are safetensors; the state of its learner is read as `states.py` reads all states.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, PreTrainedModel
from transformers.utils import logging

from ..loss_net.learner import Learner
from ..loss_net.loss_net import LOSS_NET_FOLDER, LossNet, LossNetConfig, aligned
from ..nets.adapters import LIBRARIES, library_of
from ..utils.faults import writing
from ..utils.files import loading
from ..utils.gate import check_origin
from .states import are_renamed, check_like, check_optimizer, check_optimizer_fits, read_state

logger = logging.get_logger(__name__)


CONFIG, WEIGHTS, STATE = "config.json", "model.safetensors", "learner.pt"
COST_AUGMENTED = ("cost_augmented.safetensors", "cost_augmented.pt")  # the network, and its learner's state
ONE_FILE = "1000GB"  # shard size: the weights of a loss-net are one file, however large
TABLES = ("vocab_size", "char_vocab_size", "feature_sizes", "predicate_size")  # sizes that a BiLSTM gets from its data


def save_loss_net(loss_net: LossNet | None, folder: str | Path) -> None:
    """Write the loss-net's config and weights to `folder/_loss_net/`. If there is no loss-net, an earlier run's in the
    same folder is removed: it belongs to another task-net than the one just saved there."""
    if loss_net is not None:
        with writing(place := Path(folder) / LOSS_NET_FOLDER):
            loss_net.save_pretrained(place, max_shard_size=ONE_FILE)
        return
    path = Path(folder, LOSS_NET_FOLDER)
    if (path / WEIGHTS).is_file():
        logger.warning(f"Removed {path}, the loss-net of an earlier run: this run's task-net was trained without one.")
    for name in (CONFIG, WEIGHTS, STATE, *COST_AUGMENTED):
        Path(path, name).unlink(missing_ok=True)
    if path.is_dir() and not any(path.iterdir()):
        path.rmdir()


def check_fits(loss_net: LossNet, folder: str | Path) -> None:
    """Raises ValueError if a folder has a loss-net with other settings, whose weights do not fit this one."""
    place = Path(folder, LOSS_NET_FOLDER)
    if (place / WEIGHTS).is_file() and _changed_settings(loss_net.config, place):
        _read_weights(loss_net, folder)


def check_resumable(loss_net: LossNet, folder: str | Path) -> None:
    """Check, before anything is loaded, that a run with this loss-net can resume from `folder`.

    Raises:
        ValueError: weights or optimizer state of the loss-net are missing or damaged, or of a net of another shape.
    """
    _read_weights(loss_net, folder)
    file = Path(folder) / LOSS_NET_FOLDER / STATE
    if not file.is_file():
        raise ValueError(
            f"{folder} cannot be resumed: {LOSS_NET_FOLDER}/{STATE}, the state of the loss-net's optimizer, is "
            "missing. Was it saved with save_only_model=True? Start a new run from its weights instead."
        )
    with loss_net.active(training=True):  # of an adapter on a shared base
        trained = [parameter for parameter in loss_net.parameters() if parameter.requires_grad]
    check_optimizer(file, read_state(file).get("optimizer"), trained)


def load_loss_net(folder: str | Path, task_net: PreTrainedModel, energy_loss: str | None = None) -> LossNet:
    """A trained loss-net for another task-net: the frozen loss of SEAL-static, or a start for SEAL-dynamic.

    Args:
        folder: saved by `EnergyTrainer`, or with a task-net, in `_loss_net/`.
        task_net: the task-net that it will teach.
        energy_loss: the loss that will be used; `ce` would ignore the loss-net.

    Returns:
        the loss-net, in evaluation mode: with `loss_net_steps=0` it teaches without dropout.

    Raises:
        ValueError: the folder has no loss-net, or one without its own encoder or for other labels or features; or the
            loss is `ce`.
        OSError: its weights are missing, or are not safetensors.
    """
    if energy_loss == "ce":
        raise ValueError(
            f"`loss_net_path` is {str(folder)!r}, but energy_loss='ce' trains without a loss-net. Leave it out, or "
            "name the loss that it was trained by, such as energy_loss='nce' (--loss nce)."
        )
    if not Path(folder).is_dir():
        raise ValueError(
            f"`loss_net_path`: there is no folder {folder}. Give a folder that a run with a loss-net saved."
        )
    path = Path(folder) / LOSS_NET_FOLDER
    path = path if (path / CONFIG).is_file() else Path(folder)
    if not (path / CONFIG).is_file():
        raise ValueError(f"{folder} has no loss-net: it has neither {LOSS_NET_FOLDER}/{CONFIG} nor {CONFIG}.")
    check_origin(path)
    config = AutoConfig.from_pretrained(path, trust_remote_code=False)
    if not isinstance(config, LossNetConfig):
        raise ValueError(f"{folder} holds a {config.model_type}, not a loss-net. Train one first, or check the path.")
    if config.encoder_mode != "separate":
        raise ValueError(
            f"The loss-net in {folder} reads its task-net's features ({config.encoder_mode}), so it cannot teach "
            "another one. Train it with loss_net_encoder='separate'."
        )
    own, options = config.encoder_config or {}, task_net.config.to_dict()
    found = (config.num_labels, own.get("input_size"))
    expected = (task_net.config.num_labels, options.get("input_size"))
    if found != expected:
        raise ValueError(
            f"The loss-net in {folder} ({config.space}) has {found[0]} labels and {found[1] or 'no'} input features, "
            f"the task-net {expected[0]} and {expected[1] or 'no'}. Train it on the same data, with the same options."
        )
    for name in TABLES if "char_vocab_size" in options else ("vocab_size",):
        if own.get(name) != options.get(name):
            raise ValueError(
                f"The loss-net in {folder} has `{name}` {own.get(name)}, the task-net {options.get(name)}, so their "
                "ids differ. Train it on the same data, with the same options."
            )
    ours: dict = config.id2label or {}  # a configuration converts the keys to integers
    theirs: dict = task_net.config.id2label or {}
    if ours != theirs:
        raise ValueError(
            f"The loss-net in {folder} has other labels than the task-net, or another order: its first label is "
            f"{ours[0]!r}, the task-net's is {theirs[0]!r}. Train it on the same data."
        )
    return aligned(LossNet.from_pretrained(path, dtype=torch.float32, use_safetensors=True)).eval()


def take_loss_net(nets: Any, folder: str | Path | None, args: Any) -> None:
    """Replace the loss-net of `nets`, a [`SealModel`], by the trained one of `folder`, as `--loss_net_path` asks.

    The trained loss-net keeps its energy, and a warning says so if another was requested. Without a folder, `nets` stay
    as they are.

    Raises:
        ValueError: [`load_loss_net`] refuses the folder.
    """
    if folder is not None:
        fresh = nets.loss_net.config
        nets.loss_net = load_loss_net(folder, nets.task_net, args.energy_loss)
        for name in ("energy", "global_size"):
            saved, asked = getattr(nets.loss_net.config, name), getattr(fresh, name)
            if saved != asked:
                logger.warning(f"The loss-net in {folder} keeps its {name} {saved!r}; {asked!r} is ignored.")


def load_loss_net_weights(loss_net: LossNet, folder: str | Path) -> None:
    """Read the weights of `folder/_loss_net/` into `loss_net`, in place; all of them or none.

    Raises:
        ValueError: the folder has no loss-net, or its tensors have other shapes.
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
    own = loss_net.config.encoder_mode == "separate"  # otherwise its names match no architecture
    with loading(path, "a loss-net"):
        if own and are_renamed(loss_net, path.parent):
            weights = LossNet.from_pretrained(path.parent, dtype=torch.float32, use_safetensors=True).state_dict()
        else:
            weights = load_file(path, device="cpu")
    ours = loss_net.state_dict()
    named = {ours[name].data_ptr(): name for name in weights if name in ours}
    for name in ours.keys() - weights.keys():  # a tied tensor is in the file once, under one of its names
        if (twin := named.get(ours[name].data_ptr())) is not None and ours[twin].shape == ours[name].shape:
            weights[name] = weights[twin]
    found, expected = ({name: tuple(value.shape) for name, value in tensors.items()} for tensors in (weights, ours))
    wrong = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
    if wrong and (settings := _changed_settings(loss_net.config, path.parent)):
        raise ValueError(
            f"The loss-net in {path.parent} does not fit the one of this run: {'; '.join(settings)}. Give back the old "
            "values, or start a new run in another folder (`output_dir`, --output_dir)."
        )
    if wrong:
        details = (f"{name} is {found.get(name, 'absent')}, expected {expected.get(name, 'none')}" for name in wrong)
        raise ValueError(f"The loss-net in {path.parent} does not fit the one of this run: {'; '.join(details)}.")
    return weights


def _changed_settings(config: LossNetConfig, folder: Path) -> list[str]:
    """The settings of a loss-net that differ from those of the loss-net in a folder, with both values."""
    saved = LossNetConfig.from_pretrained(folder)
    changed = []
    for name in ("encoder_mode", "energy", "energy_options", "global_size"):
        was, now = getattr(saved, name) or None, getattr(config, name) or None
        if was != now:
            changed.append(f"{'loss_net_encoder' if name == 'encoder_mode' else name} was {was!r}, now {now!r}")
    return changed


def save_learner_state(learner: Learner, file: str | Path) -> None:
    """Write optimizer, scheduler and scaler of a learner."""
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    torch.save(learner.state_dict(), file)


def load_learner_state(learner: Learner, file: str | Path) -> None:
    """Read what [`save_learner_state`] wrote.

    Raises:
        ValueError: the file is damaged, or holds the state of another net's learner.
    """
    file, expected = Path(file), learner.state_dict()
    state = read_state(file)
    check_optimizer_fits(file, state.get("optimizer"), learner.optimizer)
    for name, owner in (("scheduler", learner.scheduler), ("scaler", learner.scaler)):
        check_like(file, state.get(name), expected[name], name, owner=owner)
    learner.load_state_dict(state)


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
