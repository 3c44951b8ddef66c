"""Faults of the machine, as errors with one line that says what to do: a full disk, a place that takes no file, too
little memory.

Libraries raise them as errors of many types. This module imports none of them.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) if hasattr(errno, "EDQUOT") else (errno.ENOSPC, errno.EFBIG)
OF_A_FULL_DISK = re.compile(  # safetensors and Arrow; PyTorch's archives; SQLite
    r"no space left on device|disk quota exceeded|file too large|os error (28|122|27)\b"
    r"|PytorchStreamWriter failed|unexpected pos \d+ vs|iostream error|disk is full|disk I/O error",
    re.IGNORECASE,
)
OF_LITTLE_MEMORY = re.compile(  # PyTorch on CPUs and GPUs; C++; the system; children that the kernel has killed
    r"can't allocate memory|cannot allocate memory|not enough memory|out of memory|bad_alloc|ALLOC_FAILED"
    r"|unable to allocate|size calculation overflowed"
    r"|worker \(pid\(?s?\)? [\d, ]+\) (is killed by signal: (Killed|Bus error)|exited unexpectedly)"
    r"|subprocesses has abruptly died|process pool was terminated abruptly|shared memory"
    r"|failed to map segment from shared object(?!: (operation|permission))",  # a library that is loaded
    re.IGNORECASE,
)
OF_THE_PLACE = re.compile(
    r"is a directory|permission denied|read-only file system|os error (13|21|30)\b", re.IGNORECASE
)
RESUMED = "What is written stays: --resume_from_checkpoint last goes on from the last whole checkpoint."
AGAIN = "What is written stays: the same command goes on with it."


class DiskFullError(OSError):
    """A file could not be written because the disk is full, or a quota or a limit for files is reached."""

    says_what_stays = False

    def say_what_stays(self, remedy: str) -> None:
        """Add a sentence that says what happens to files already written. A second call changes nothing."""
        if remedy and not self.says_what_stays:
            self.args, self.says_what_stays = (f"{self} {remedy}",), True


class NotWritableError(OSError):
    """A folder is in the place of a file, or the place is read-only."""


class OutOfMemoryError(ValueError):
    """There is not enough memory for what was asked."""


@contextmanager
def writing(place: str | os.PathLike[str], remedy: str = "") -> Iterator[None]:
    """Give an error that a block meets when it writes to a file or folder the name of that place.

    Args:
        remedy: a sentence that says what happens to files already written. Of nested blocks, the innermost one that
            gives a sentence counts.

    Raises:
        DiskFullError: names the file or folder, in place of any error that a full disk causes in a library.
        NotWritableError: the place takes no file. It names the place too.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, DiskFullError):
            error.say_what_stays(remedy)
            raise
        if isinstance(error, NotWritableError):
            raise
        if (cause := _full_disk(error)) is None:
            if (cause := _of_the_place(error)) is not None:
                raise _not_writable(cause, os.fspath(place)) from error
            raise
        fault = _of_full_disk(cause, os.fspath(place))
        fault.say_what_stays(remedy)
        raise fault from error


def fault_of(error: BaseException) -> Exception | None:
    """The fault of the machine behind an error, with one line as its message; None if it is another error."""
    if isinstance(error, (DiskFullError, NotWritableError, OutOfMemoryError)):
        return error
    if cause := _full_disk(error):
        return _of_full_disk(cause, "a file")
    if cause := _of_the_place(error):
        return _not_writable(cause, "a file")
    if cause := _little_memory(error):
        return OutOfMemoryError(
            f"there is not enough memory ({_said(cause)}). Lower the batch size, the sizes of the nets (hidden_size, "
            "num_layers), the length of texts (max_length), the number of rows, or the number of processes that read "
            "data (dataloader_num_workers)."
        )
    return None


def _full_disk(error: BaseException) -> BaseException | None:
    """The error in a chain of errors that a full disk caused."""
    for each in _chain(error):
        if isinstance(each, OSError) and each.errno in FULL:
            return each
        if not isinstance(each, (ValueError, TypeError, KeyError)) and OF_A_FULL_DISK.search(str(each)):
            return each
    return None


def _of_the_place(error: BaseException) -> BaseException | None:
    """The error of a library in a chain of errors that says why a place takes no file."""
    for each in _chain(error):
        if not isinstance(each, (OSError, ValueError, TypeError, KeyError)) and OF_THE_PLACE.search(str(each)):
            return each
    return None


def _little_memory(error: BaseException) -> BaseException | None:
    """The error in a chain of errors that too little memory caused."""
    for each in _chain(error):
        if isinstance(each, MemoryError) or (isinstance(each, OSError) and each.errno == errno.ENOMEM):
            return each
        if isinstance(each, (RuntimeError, ImportError)) and OF_LITTLE_MEMORY.search(str(each)):
            return each
        if isinstance(each, SystemError) and "without setting an exception" in str(each):
            return each  # C code of a library that lost its MemoryError
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it was raised from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _of_full_disk(cause: BaseException, place: str) -> DiskFullError:
    file = getattr(cause, "filename", None) or place
    return DiskFullError(
        f"{file} could not be written: the disk is full ({_said(cause)}). Free some space, or choose another folder."
    )


def _not_writable(cause: BaseException, place: str) -> NotWritableError:
    return NotWritableError(
        f"{place}: a file could not be written ({_said(cause)}). Remove what is in its place, or choose another folder."
    )


def _said(error: BaseException) -> str:
    """The first line of what a library says, without its C++ source and its type."""
    text = (getattr(error, "strerror", None) or str(error)).strip() or type(error).__name__
    line = re.sub(r"^\[enforce fail at [^\]]*\]\s*(err == \d+)?(\. )?", "", text.splitlines()[0]).strip(" .")
    return line if len(line) <= 200 else f"{line[:197]}..."
