"""What a checkpoint is: the loss-net in `_loss_net/` beside the plain task-net, and `complete.json`, written last.

Weights are safetensors; optimizer, scheduler and scaler are read with `weights_only=True` and nothing else.

A run may be killed at any moment, so a folder is a checkpoint only with its marker, and only while it has all the files
that the marker names. The marker is on disk before anything is pushed and before an older checkpoint is deleted, so
from the first save on there is always a whole one.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, TrainingArguments
from transformers.utils import logging

from ..second_net.learner import Learner
from ..second_net.loss_net import LossNet, LossNetConfig, aligned
from .renamed import are_renamed

LOSS_NET_FOLDER = "_loss_net"  # the Trainer's push to the Hub skips names that begin with an underscore
CONFIG, WEIGHTS, STATE = "config.json", "model.safetensors", "learner.pt"
PARTNER = "cost_augmented"  # of the network of InfNet+ that is trained beside: weights and the state of its learner
ONE_FILE = "1000GB"  # of a shard: weights of a loss-net are one file, however large
COMPLETE = "complete.json"  # the marker: names and sizes, in bytes, of all other files of the checkpoint
TABLES = ("vocab_size", "char_vocab_size", "feature_sizes", "predicate_size")  # of a BiLSTM: made from its data

logger = logging.get_logger(__name__)

# --- whole or half-written -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def written_whole(folder: Path, args: TrainingArguments, wait: Callable[[], None]) -> Iterator[None]:
    """Around the Trainer's own save of a checkpoint: an old marker goes before the first file is written, a new one
    comes after the last file of every process. The Trainer, which would push and delete before that, is told to do
    neither; both are for the caller to do afterwards. `wait` is the barrier of all processes."""
    aside = {name: getattr(args, name) for name in ("push_to_hub", "save_total_limit")}
    if args.should_save and (folder / COMPLETE).is_file():
        (folder / COMPLETE).unlink()
        _flush(folder)
    wait()
    try:
        args.push_to_hub, args.save_total_limit = False, None
        yield
    finally:
        for name, value in aside.items():
            setattr(args, name, value)
    if args.should_save:
        torch.save(args, folder / "training_args.bin")  # the Trainer wrote the arguments without what is set aside
    wait()
    if args.should_save:
        mark_complete(folder)
    wait()


def mark_complete(folder: str | Path) -> None:
    """Say that the checkpoint in `folder` is whole as it stands, once all its files are on disk.

    For a checkpoint of a plain Trainer, or one that was edited by hand, call it yourself."""
    folder = Path(folder)
    marker = folder / COMPLETE
    marker.unlink(missing_ok=True)
    paths = sorted(folder.rglob("*"))
    for path in paths:
        _flush(path)
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths if path.is_file()}
    marker.write_text(json.dumps(sizes, indent=1), encoding="utf-8")  # cut off anywhere, it is no JSON object
    for path in (marker, folder, folder.parent):
        _flush(path)


def what_is_missing(folder: str | Path) -> str | None:
    """Why `folder` is no whole checkpoint; None where it is one."""
    folder = Path(folder)
    if not folder.is_dir():
        return "there is no such folder"
    if not (folder / COMPLETE).is_file():
        return f"{COMPLETE}, which is written last, is missing"
    try:
        sizes = json.loads((folder / COMPLETE).read_text(encoding="utf-8")).items()
    except (ValueError, AttributeError):
        return f"{COMPLETE}, which is written last, is cut off"
    for name, size in sizes:
        found = (folder / name).stat().st_size if (folder / name).is_file() else None
        if found != size:
            return f"{name} has {found} bytes, expected {size}" if found is not None else f"{name} is missing"
    return None


def is_complete(folder: str | Path) -> bool:
    """Whether `folder` is a whole checkpoint: the marker is there, and every file it names, with its size."""
    return what_is_missing(folder) is None


def last_complete_checkpoint(run_dir: str | Path) -> Path | None:
    """The whole checkpoint with the highest step in `run_dir`."""
    return max(filter(is_complete, _checkpoints(run_dir)), key=_step, default=None)


def checkpoint_to_resume(wanted: str | bool | None, output_dir: str) -> str | None:
    """The folder that `resume_from_checkpoint` means: a path as it is; True, "true" and "last" are the last whole
    checkpoint of `output_dir`. Where there is none, "last" starts anew, for a job that is restarted by one command.

    Raises:
        ValueError: True, and there is no whole checkpoint.
    """
    word = wanted.lower() if isinstance(wanted, str) else wanted
    if word not in (True, "true", "last"):
        return wanted or None
    last = last_complete_checkpoint(output_dir)
    for folder in _checkpoints(output_dir):
        if last is None or _step(folder) > _step(last):
            logger.warning(f"{folder} is passed over, for it is no whole checkpoint: {what_is_missing(folder)}.")
    if last is not None:
        return str(last)
    if word == "last":
        logger.warning(f"{output_dir} has no whole checkpoint: the run starts anew.")
        return None
    raise ValueError(
        f"resume_from_checkpoint is {wanted}, but {output_dir} has no whole checkpoint (a folder checkpoint-N with "
        f"{COMPLETE}). Start without it, or with resume_from_checkpoint='last', which then starts anew."
    )


def check_complete(folder: str | Path) -> None:
    """Raises ValueError where `folder` is no whole checkpoint, with the last whole one beside it."""
    missing = what_is_missing(folder)
    if missing is None:
        return
    last = last_complete_checkpoint(Path(folder).parent)
    raise ValueError(
        f"{folder} is no whole checkpoint: {missing}. "
        + (f"The last whole one beside it is {last}. " if last else "There is no whole one beside it. ")
        + "If you know that it is whole, because a plain Trainer or an older version saved it or you edited it, call "
        f"seal_hf.saving.mark_complete({str(folder)!r})."
    )


def rotate(run_dir: str | Path, limit: int | None, keep: Iterable[str | Path]) -> None:
    """Delete checkpoints until `limit` are left (None or 0: no limit): first what is not whole, then the oldest, by the
    time of its marker. Whole ones in `keep`, the one just written and the best, stay even beyond the limit."""
    if not limit or limit < 0:
        return
    keep = {Path(folder).resolve() for folder in keep if is_complete(folder)}

    def order(folder: Path):
        whole = is_complete(folder)
        return folder.resolve() in keep, whole, (folder / COMPLETE).stat().st_mtime if whole else 0, _step(folder)

    for folder in sorted(_checkpoints(run_dir), key=order)[:-limit]:
        if folder.resolve() not in keep:
            logger.info(f"Deleting {folder}: save_total_limit is {limit}.")
            shutil.rmtree(folder, ignore_errors=True)


def _checkpoints(run_dir: str | Path) -> list[Path]:
    return [path for path in Path(run_dir).glob("checkpoint-*") if path.is_dir() and _step(path) is not None]


def _step(folder: Path) -> int | None:
    match = re.fullmatch(r"checkpoint-(\d+)", folder.name)
    return int(match[1]) if match else None


def _flush(path: Path) -> None:
    """Wait until a file or folder is on the disk; not on Windows, which has no such call for folders."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):  # a file system without it
            raise
    finally:
        os.close(descriptor)


# --- the loss-net's part ---------------------------------------------------------------------------------------------


def save_loss_net(loss_net: LossNet | None, folder: str | Path) -> None:
    """Write the loss-net's config and weights to `folder/_loss_net/`. Without a loss-net, one of an earlier run in the
    same folder is removed: it belongs to another task-net than the one just saved there."""
    if loss_net is not None:
        loss_net.save_pretrained(Path(folder) / LOSS_NET_FOLDER, max_shard_size=ONE_FILE)
        return
    path = Path(folder, LOSS_NET_FOLDER)
    for name in (CONFIG, WEIGHTS, STATE, f"{PARTNER}.safetensors", f"{PARTNER}.pt"):
        Path(path, name).unlink(missing_ok=True)
    if path.is_dir() and not any(path.iterdir()):
        path.rmdir()


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


def load_loss_net(folder: str | Path, task_net: nn.Module, energy_loss: str | None = None) -> LossNet:
    """A trained loss-net for another task-net: the frozen loss of SEAL-static, or a start for SEAL-dynamic.

    Args:
        folder: saved by `EnergyTrainer`, or with a task-net, in `_loss_net/`.
        task_net: the one that it is to teach.
        energy_loss: by which it is to teach; under `ce` it would not.

    Returns:
        the loss-net, in evaluation mode: with `loss_net_steps=0` it teaches without dropout.

    Raises:
        ValueError: there is none, it has no encoder of its own, or is made for other labels or features; or the loss is
            `ce`.
        OSError: its weights are missing, or no safetensors.
    """
    if energy_loss == "ce":
        raise ValueError(
            f"`loss_net_path` is {str(folder)!r}, but energy_loss='ce' trains without a loss-net. Leave it out, or "
            "name the loss that it was trained by (--loss nce)."
        )
    if not Path(folder).is_dir():
        raise ValueError(
            f"`loss_net_path`: there is no folder {folder}. Give one that a run with a loss-net has saved."
        )
    path = Path(folder) / LOSS_NET_FOLDER
    path = path if (path / CONFIG).is_file() else Path(folder)
    if not (path / CONFIG).is_file():
        raise ValueError(f"{folder} has no loss-net: there is neither {LOSS_NET_FOLDER}/{CONFIG} nor {CONFIG}.")
    config = AutoConfig.from_pretrained(path)
    if not isinstance(config, LossNetConfig):
        raise ValueError(f"{folder} holds a {config.model_type} and no loss-net. Train one first, or check the path.")
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
            f"the task-net {expected[0]} and {expected[1] or 'none'}. Train it on the same data, with the same options."
        )
    for name in TABLES if "char_vocab_size" in options else ("vocab_size",):
        if own.get(name) != options.get(name):
            raise ValueError(
                f"The loss-net in {folder} has `{name}` {own.get(name)}, the task-net {options.get(name)}: they read "
                "different ids. Train it on the same data, with the same options."
            )
    if config.id2label != task_net.config.id2label:
        raise ValueError(
            f"The loss-net in {folder} has other labels than the task-net, or another order: {config.id2label[0]!r} is "
            f"its first, {task_net.config.id2label[0]!r} the task-net's. Train it on the same data."
        )
    return aligned(LossNet.from_pretrained(path, dtype=torch.float32, use_safetensors=True)).eval()


def take_loss_net(nets: nn.Module, folder: str | Path | None, args) -> None:
    """The programs' `--loss_net_path`: the trained loss-net of `folder` in place of that of `nets`, a [`SealModel`]; it
    keeps its energy, which is said where it is another. Without a folder, `nets` stay as they are.

    Raises:
        ValueError: as [`load_loss_net`].
    """
    if folder is not None:
        fresh = nets.loss_net.config
        nets.loss_net = load_loss_net(folder, nets.task_net, args.energy_loss)
        for name in ("energy", "global_size"):
            saved, asked = getattr(nets.loss_net.config, name), getattr(fresh, name)
            if saved != asked:
                logger.warning(f"The loss-net in {folder} has {name} {saved!r} and keeps it, not {asked!r}.")


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
    own = loss_net.config.encoder_mode == "separate"  # else its names are those of no architecture
    if own and are_renamed(loss_net, path.parent):
        weights = LossNet.from_pretrained(path.parent, dtype=torch.float32, use_safetensors=True).state_dict()
    else:
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


def save_partner(learner: Learner, folder: str | Path) -> None:
    """Write a cost-augmented network and the state of its learner, for a run that goes on."""
    path = Path(folder) / LOSS_NET_FOLDER
    path.mkdir(parents=True, exist_ok=True)
    weights = {name: value.contiguous().clone() for name, value in learner.net.state_dict().items()}
    save_file(weights, path / f"{PARTNER}.safetensors", metadata={"kind": learner.net.kind})
    torch.save(learner.state_dict(), path / f"{PARTNER}.pt")


def check_partner(kind: str, folder: str | Path) -> None:
    """Whether a run with a cost-augmented network of this kind can go on from `folder`; looks before anything is
    loaded.

    Raises:
        ValueError: the checkpoint has no cost-augmented network, or one of another kind.
    """
    path = Path(folder) / LOSS_NET_FOLDER / f"{PARTNER}.safetensors"
    if not path.is_file():
        raise ValueError(
            f"{folder} cannot be resumed: {LOSS_NET_FOLDER}/{path.name}, the cost-augmented network of "
            "energy_loss='infnet_plus', is missing. Was it saved by a run with another loss? Resume with that one."
        )
    with safe_open(path, "pt") as file:
        found = (file.metadata() or {}).get("kind")
    if found != kind:
        raise ValueError(
            f"{folder} cannot be resumed: its cost-augmented network is {found!r}, and `cost_augmented_network` is "
            f"{kind!r}. Resume with cost_augmented_network={found!r}, or start a new run."
        )


def load_partner(learner: Learner, folder: str | Path) -> None:
    """Read what [`save_partner`] wrote; [`check_partner`] said that it is there."""
    path = Path(folder) / LOSS_NET_FOLDER
    learner.net.load_state_dict(load_file(path / f"{PARTNER}.safetensors", device="cpu"))
    learner.load_state_dict(torch.load(path / f"{PARTNER}.pt", map_location="cpu", weights_only=True))
