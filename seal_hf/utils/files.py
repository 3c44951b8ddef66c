"""Files that are written completely or not at all, and JSON files that others may have damaged."""

from __future__ import annotations

import errno
import itertools
import json
import logging
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .faults import writing

LOCK = "_lock"  # of a folder; names with `_` in front are not pushed to the Hub
_held: set[int] = set()  # descriptors of locks

logger = logging.getLogger(__name__)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new path beside `path` to write to, and rename it to `path` when the block ends. The folder is made.

    If the block is interrupted, `path` stays as it was.

    Raises:
        IsADirectoryError: `path` is a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, where a file is written. Move it away.")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = new_name(path, "unfinished")
    try:
        with writing(path):
            yield unfinished
            os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Check that [`whole_file`] can write an output, with an empty file in the folder that exists.

    Raises:
        ValueError: names the output, the folder and the reason.
    """
    place = path.absolute()
    while not os.path.lexists(place.parent):
        place = place.parent
    probe = new_name(place, "unfinished")
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(
            f"`output` is {str(path)!r}, but no such file can be made in {place.parent}: {reason}. Give another place."
        ) from error


@contextmanager
def locked(folder: str | os.PathLike[str], option: str = "--output_dir") -> Iterator[None]:
    """Let only this process write to a folder while the block runs.

    The lock ends with the process, however that ends. A folder that was made for it and is still empty is removed.

    Some file systems of networks have no locks: then a warning says so, and nothing is refused.

    Args:
        option: names the folder, for the message.

    Raises:
        ValueError: another process has the lock.
    """
    folder = Path(folder)
    new, file = not folder.exists(), folder / LOCK
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = _locked_file(file, option)
    _held.add(descriptor)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no file that is open
            file.unlink()
        _held.discard(descriptor)
        os.close(descriptor)
        if new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def _locked_file(file: Path, option: str) -> int:
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                os.close(descriptor)
                raise ValueError(
                    f"another process writes to {file.parent}. Wait until it ends, or choose another {option}."
                ) from None
            logger.warning(f"{file.parent} cannot be locked ({error.strerror}): start no second run there.")
            return descriptor
        if os.path.exists(file) and os.path.samestat(os.fstat(descriptor), os.stat(file)):
            return descriptor
        os.close(descriptor)  # the process that held it has removed the file


def _close_locks() -> None:
    """A fork, such as a worker that reads data, must not hold a lock longer than its parent."""
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_locks)


def visible(folder: Path) -> list[Path]:
    """What a folder holds, sorted, without hidden entries, such as those that macOS writes beside each file."""
    return sorted(each for each in folder.iterdir() if not each.name.startswith("."))


def of_variant(file: str, variant: str | None) -> str:
    """The name of a file of weights, with a variant such as `fp16` before its suffix."""
    start, dot, suffix = file.rpartition(".")
    return f"{start}.{variant}{dot}{suffix}" if variant else file


MOST_SAID = 400  # characters of a library's error that are shown


def in_line(error: BaseException) -> str:
    """What a library's error says, in one line without a full stop; its end is left out if it is long."""
    words = " ".join(str(error).split()).removesuffix(".")
    return words if len(words) <= MOST_SAID else f"{words[:MOST_SAID]} ..."


@contextmanager
def loading(folder: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Explain errors of a block in which a library loads something from a folder or repo, which may be damaged.

    Args:
        what: what is loaded, for messages, such as "a loss-net".

    Raises:
        ValueError: the weights are not safetensors, or other files are damaged or have values of a wrong type.
    """
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        raise ValueError(
            f"{folder}: its weights are not readable as safetensors: {error}. Is the file whole, or a pointer of Git "
            "LFS (git lfs pull)?"
        ) from error
    except Exception as error:  # of many types: transformers takes the values of a file as they are
        said = str(error)
        if isinstance(error, (ImportError, OSError)):
            raise  # messages for users
        if isinstance(error, ValueError) and "\n" not in said:
            if re.search(rf"(?<!\w){re.escape(str(folder))}(?!\w)", said):
                raise
            raise ValueError(f"{folder}: {said}") from error
        if isinstance(error, RuntimeError) and re.search("mismatch|memory", said):
            raise  # the caller says what has other shapes, and the program what needs less memory
        raise ValueError(
            f"{folder} cannot be loaded as {what}: {type(error).__name__}: {in_line(error)}. Is "
            "an argument wrong, or a file there damaged, edited, or saved by another version?"
        ) from error


def new_name(path: Path, ending: str) -> Path:
    """A name beside `path` that no file has and no other process takes."""
    names = (path.with_name(f"{path.name}.{secrets.token_hex(4)}.{ending}") for _ in itertools.count())
    return next(name for name in names if not os.path.lexists(name))


def json_object(path: Path, remedy: str) -> dict[str, Any]:
    """The JSON object in a file.

    Args:
        remedy: a sentence that ends the message of an error.

    Raises:
        ValueError: the file is not JSON, or holds something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not readable as JSON: {error}. {remedy}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds a {type(found).__name__}; expected a JSON object. {remedy}")
    return found
