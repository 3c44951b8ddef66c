"""Checkpoints: whether one is whole, and to which run it belongs.

A run may be killed at any moment, so a folder counts as a checkpoint only if it has the marker, `complete.json`, which
is written last, and all files that the marker names as they were saved. A file of the same size from elsewhere is
noticed by the bytes at its ends. The marker is on disk before anything is pushed and before an older checkpoint is
deleted, so from the first save on there is always a whole checkpoint.

Each checkpoint has a record of its run: JSON with the arguments that make the run what it is. A resume compares its own
arguments with the record, so that no run continues from the checkpoint of another run unnoticed. The Trainer's pickled
arguments, `training_args.bin`, are never read. `training/checkpoints.py` says what is in a record. A program does not
begin in a folder that holds another run.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME, TRAINING_ARGS_NAME
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, logging

from ..utils.faults import writing
from ..utils.files import json_object
from ..utils.recorded import names_a_secret, recorded
from .export import ADAPTER_FILES

COMPLETE = "complete.json"  # the marker: name -> [size in bytes, checksum of both ends] of all other files
END = 2**16  # bytes at each end of a file that its checksum covers; torch.save ends with the checksums of all tensors

LAST_WORDS = ("true", "last")  # values of `resume_from_checkpoint` that name no folder
_may_be_pushed = ContextVar("may_be_pushed", default=False)
STEP = re.compile(r"checkpoint-(\d+)")
RECORD = "_run.json"  # begins with an underscore, so that a push to the Hub leaves it out
RESULTS = "all_results.json"
FINISHED = (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME, *ADAPTER_FILES, RESULTS)

logger = logging.get_logger(__name__)


@contextlib.contextmanager
def without_tokens() -> Iterator[None]:
    """Context for saving a run, which may be pushed: its pickled arguments lack secrets, such as tokens of the Hub."""
    before = _may_be_pushed.set(True)
    try:
        yield
    finally:
        _may_be_pushed.reset(before)


def as_pickled(arguments: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a run's arguments, as a pickle holds them, see [`without_tokens`]."""
    if not _may_be_pushed.get():
        return dict(arguments)
    plain = recorded({name: value for name, value in arguments.items() if isinstance(value, (str, list, dict))})
    return {**arguments, **plain, **{name: None for name in arguments if names_a_secret(name)}}


@contextlib.contextmanager
def written_whole(folder: Path, args: TrainingArguments, wait: Callable[[], None]) -> Iterator[None]:
    """Mark a checkpoint as whole after the Trainer has saved it in the block.

    An old marker is removed before the first file is written, and a new one is written after the last file of every
    process. In the block, the Trainer neither pushes nor deletes checkpoints, since it would do so too early. The
    caller does both afterwards.

    Args:
        wait: the barrier of all processes.
    """
    with writing(folder):
        yield from _written_whole(folder, args, wait)


def _written_whole(folder: Path, args: TrainingArguments, wait: Callable[[], None]) -> Iterator[None]:
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
        with without_tokens():
            torch.save(args, folder / TRAINING_ARGS_NAME)  # the Trainer wrote them with push and deletion switched off
    wait()
    if args.should_save:
        mark_complete(folder)
    wait()


def mark_complete(folder: str | Path) -> None:
    """Mark the checkpoint in `folder` as whole, once all its files are on disk.

    Call it yourself for a checkpoint of a plain Trainer, or one that was edited by hand."""
    folder = Path(folder)
    marker = folder / COMPLETE
    marker.unlink(missing_ok=True)
    paths = sorted(folder.rglob("*"))
    for path in paths:
        _flush(path)
    found = {path.relative_to(folder).as_posix(): _facts(path) for path in paths if path.is_file()}
    marker.write_text(json.dumps(found, indent=1), encoding="utf-8")  # cut off anywhere, it is not a JSON object
    for path in (marker, folder, folder.parent):
        _flush(path)


def what_is_missing(folder: str | Path) -> str | None:
    """Why `folder` is not a whole checkpoint; None if it is one."""
    folder = Path(folder)
    if not folder.is_dir():
        return "there is no such folder"
    if not (folder / COMPLETE).is_file():
        return f"{COMPLETE}, which is written last, is missing"
    try:
        facts = dict(json.loads((folder / COMPLETE).read_text(encoding="utf-8")))
    except (ValueError, TypeError, RecursionError):
        return f"{COMPLETE}, which is written last, is cut off"
    for name, expected in facts.items():
        if Path(name).is_absolute() or ".." in Path(name).parts:
            return f"{COMPLETE} names {name!r}, which is not in the folder"
        if not (folder / name).is_file():
            return f"{name} is missing"
        size, checksum = expected if isinstance(expected, list) and len(expected) == 2 else (expected, None)
        if (found := (folder / name).stat().st_size) != size:
            return f"{name} has {found} bytes, expected {size}"
        if checksum is not None and _facts(folder / name)[1] != checksum:
            return f"{name} is not the file that was saved: it has other bytes"
    return None


def _facts(path: Path) -> list[int]:
    """What the marker says of a file: its size in bytes, and a checksum of its first and last bytes."""
    with path.open("rb") as file:
        checksum = zlib.crc32(file.read(END))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(END, size - END))
        return [size, zlib.crc32(file.read(END), checksum)]


def is_complete(folder: str | Path) -> bool:
    """True if `folder` is a whole checkpoint: it has the marker, and every file that the marker names, as it was
    saved."""
    return what_is_missing(folder) is None


def last_complete_checkpoint(run_dir: str | Path) -> Path | None:
    """The whole checkpoint with the highest step in `run_dir`."""
    return max(filter(is_complete, checkpoints_of(run_dir)), key=_step, default=None)


def checkpoint_to_resume(wanted: str | bool | None, output_dir: str) -> str | None:
    """The folder that `resume_from_checkpoint` means: a path stays; True, "true" and "last" mean the last whole
    checkpoint of `output_dir`. If there is none, "last" starts a new run, so that one command can start and restart a
    job.

    Raises:
        ValueError: it is True, but there is no whole checkpoint.
    """
    word = str(wanted).lower()
    if word not in LAST_WORDS:
        return str(wanted) if wanted else None
    last = last_complete_checkpoint(output_dir)
    for folder in checkpoints_of(output_dir):
        if last is None or _step(folder) > _step(last):
            logger.warning(f"{folder} is skipped, because it is not a whole checkpoint: {what_is_missing(folder)}.")
    if last is not None:
        return str(last)
    if word == "last":
        logger.warning(f"{output_dir} has no whole checkpoint: the run starts from the beginning.")
        return None
    raise ValueError(
        f"resume_from_checkpoint is {wanted}, but {output_dir} has no whole checkpoint (a folder checkpoint-N with "
        f"{COMPLETE}). Start without it, or with resume_from_checkpoint='last', which then starts from the beginning."
    )


def check_complete(folder: str | Path) -> None:
    """Raises ValueError if `folder` is not a whole checkpoint; the message names the last whole one beside it."""
    missing = what_is_missing(folder)
    if missing is None:
        return
    last = last_complete_checkpoint(Path(folder).parent)
    raise ValueError(
        f"{folder} is not a whole checkpoint: {missing}. "
        + (f"The last whole one beside it is {last}. " if last else "There is no whole one beside it. ")
        + "If you know that it is whole, because a plain Trainer or an older version saved it or you edited it, call "
        f"seal_hf.saving.mark_complete({str(folder)!r})."
    )


def step_of(folder: str | Path | None) -> int:
    """The step that a checkpoint was written at; 0 without a checkpoint."""
    file = None if folder is None else Path(folder, TRAINER_STATE_NAME)
    return json_object(file, "Take another checkpoint.")["global_step"] if file is not None and file.is_file() else 0


def rotate(run_dir: str | Path, limit: int | None, keep: Iterable[str | Path]) -> None:
    """Delete checkpoints until `limit` are left (None or 0: no limit): first those that are not whole, then the oldest,
    by the time of the marker. Whole ones in `keep` (the latest and the best) stay even beyond the limit."""
    if not limit or limit < 0:
        return
    keep = {Path(folder).resolve() for folder in keep if is_complete(folder)}

    def order(folder: Path) -> tuple[bool, bool, float, int]:
        whole = is_complete(folder)
        return folder.resolve() in keep, whole, (folder / COMPLETE).stat().st_mtime if whole else 0, _step(folder)

    for folder in sorted(checkpoints_of(run_dir), key=order)[:-limit]:
        if folder.resolve() not in keep:
            logger.info(f"Deleting {folder}: save_total_limit is {limit}.")
            shutil.rmtree(folder, ignore_errors=True)


def checkpoints_of(run_dir: str | Path) -> list[Path]:
    """The folders of checkpoints in `run_dir`, whole or not, by step."""
    found = (path for path in Path(run_dir).glob("checkpoint-*") if path.is_dir() and STEP.fullmatch(path.name))
    return sorted(found, key=_step)


def _step(folder: Path) -> int:
    return int(folder.name.removeprefix("checkpoint-"))


def _flush(path: Path) -> None:
    """Wait until a file or folder is on the disk; not on Windows, which lacks such a call for folders."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):  # the file system does not support it
            raise
    finally:
        os.close(descriptor)


# --- the record of a run ----------------------------------------------------------------------------------------------


def write_record(folder: str | Path, record: Mapping[str, Any]) -> None:
    """Write the record of a run into a checkpoint, before the checkpoint is marked as whole.

    Args:
        record: argument -> value, as [`plain`] gives it.
    """
    text = json.dumps(recorded(record), indent=1, ensure_ascii=False, allow_nan=False)
    Path(folder, RECORD).write_text(text + "\n", encoding="utf-8")


def read_record(folder: str | Path) -> dict[str, Any] | None:
    """The record in a checkpoint; None if it lacks one, as from an older version or a plain Trainer.

    Raises:
        ValueError: the file is not a JSON object.
    """
    file = Path(folder, RECORD)
    if not file.is_file():
        return None
    return json_object(file, "Put the file back, or take another checkpoint.")


def check_same_run(
    folder: str | Path, ours: Mapping[str, Any], defaults: Mapping[str, Any], may_differ: bool = False
) -> dict[str, str]:
    """Compare the run that resumes from a checkpoint with the run that wrote it.

    Args:
        ours: the record of the run that resumes.
        defaults: the values of arguments that the checkpoint's record lacks, since they are newer, or has as null,
            since the net decided them.
        may_differ: warn about other arguments instead of refusing them (`--resume_changed true`).

    Returns:
        argument that differs -> both values in words.

    Raises:
        ValueError: the arguments differ; the message names all that do, with both values.
    """
    theirs = read_record(folder)
    if theirs is None:
        return {}
    theirs = {
        **defaults,
        **{name: value for name, value in theirs.items() if value is not None or name not in defaults},
    }
    ours = recorded(ours)
    changed = {
        name: f"was {theirs[name]!r}, now {value!r}"
        for name, value in ours.items()
        if name in theirs and theirs[name] not in (value, _end(value))
    }
    if not changed:
        return {}
    those = "; ".join(f"{name}: {values}" for name, values in changed.items())
    if not may_differ:
        raise ValueError(
            f"{folder} is of another run ({those}). Resume with the same arguments; allow these changes by "
            "`resume_changed=True` (--resume_changed true); or start a new run in another folder (--output_dir)."
        )
    logger.warning(f"Resumed from {folder} with other arguments ({those}).")
    return changed


def plain(value: Any) -> Any:
    """A value as plain JSON. The path of a file or folder becomes its last part: the location is not a setting."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(each) for each in (sorted(value, key=str) if isinstance(value, set) else value)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Path) or (isinstance(value, str) and _is_path(value)):
        return Path(value).name or str(value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__


def _end(value: Any) -> Any:
    """What records of version 0.1.0 hold of a Hub id or a pattern: what follows its last slash."""
    return Path(value).name if isinstance(value, str) else value


def _is_path(value: str) -> bool:
    """False for a Hub id, or a pattern, which may hold slashes too."""
    return os.path.isabs(value) or os.path.exists(value)


# --- the run in an output folder --------------------------------------------------------------------------------------


def check_output_dir(args: TrainingArguments) -> None:
    """Check that the output folder is free for a run, or that the run resumes from it or may overwrite it.

    Raises:
        ValueError: the folder holds a finished run, a saved model, or whole checkpoints; the message says what to do.
    """
    folder = Path(str(args.output_dir))
    if vars(args).get("overwrite_output_dir") or goes_on(args):
        return
    last = last_complete_checkpoint(folder)
    files = [name for name in FINISHED if (folder / name).is_file()]
    resume = "R" if last is None else "Go on with it by --resume_from_checkpoint last, r"
    if last is not None and files in ([], [RESULTS]):  # results of the training; the nets are not saved yet
        found = f"a run that was interrupted ({last.name})"
    elif files:
        found = f"a finished run ({files[0]})"
    else:
        return
    raise ValueError(
        f"{folder} holds {found}. {resume}eplace it by --overwrite_output_dir true, or choose another --output_dir."
    )


def goes_on(args: TrainingArguments) -> bool:
    """True if the run resumes from a checkpoint in its own output folder."""
    wanted, folder = args.resume_from_checkpoint, Path(str(args.output_dir))
    if not wanted:
        return False
    if str(wanted).lower() in LAST_WORDS:
        return last_complete_checkpoint(folder) is not None
    return Path(wanted).resolve().parent == folder.resolve()


def remove_checkpoints(args: TrainingArguments) -> list[str]:
    """Delete the checkpoints in an output folder that a run will overwrite, since a later resume would take the one
    with the highest step. The nets and results stay until the run writes its own.

    Returns:
        the names of the deleted checkpoints, by step.
    """
    folders = [] if goes_on(args) else checkpoints_of(str(args.output_dir))
    for folder in folders:
        shutil.rmtree(folder)
    return [folder.name for folder in folders]
