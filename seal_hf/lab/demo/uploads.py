"""How much of the disk the page takes: what arrives, what was uploaded, and results."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from starlette.formparsers import MultiPartException

from .files import IN_USE

MB = 1_000_000
MOST_FILES = 2_000
STEPS = 50  # looks at the disk while as many bytes arrive as there is room for
PAUSE = 2  # seconds between two looks at the disk while nothing arrives
SLACK = 1  # seconds by which the times of files may differ from the clock


class Refused(MultiPartException):
    """A body is too large, or was cut off. Raised where Gradio reads it, so that Gradio removes what it has written."""


@dataclass(eq=False)
class Body:
    """The body of a request, while it arrives.

    Attributes:
        most: bytes that it may have.
        taken: bytes that have arrived.
        begun: when the request came, in seconds of the clock.
    """

    most: int
    taken: int = 0
    begun: float = field(default_factory=time.time)


class Uploads:
    """Files in a folder, with a limit for all of them together. Where newer ones need room, the oldest are removed.

    Gradio writes what arrives into files directly in the folder, and moves each into a folder of its own at its end.

    Args:
        folder: of uploads and results.
        limit: bytes of all files, and of all bodies that are arriving.
    """

    def __init__(self, folder: Path, limit: int):
        self.folder, self.limit = folder, limit
        self.step = limit // STEPS  # bytes that arrive between two looks at the disk
        self.arriving: set[Body] = set()
        self._since = 0  # bytes that have arrived since the last look at the disk

    def begin(self, most: int, declared: int) -> Body:
        """Take notice of a request that begins, and make room for what it declares.

        Args:
            most: bytes that its body may have.
            declared: bytes that its header names; 0 if none.

        Raises:
            Refused: there are too many.
        """
        body = Body(min(most, self.limit))
        if declared > body.most:
            raise self._too_large(body)
        if declared:
            self.make_room(declared)
        return body

    def take(self, body: Body, count: int) -> None:
        """Take notice of the next bytes of a body.

        Raises:
            Refused: there are too many.
        """
        if not count:
            return
        self.arriving.add(body)
        body.taken += count
        self._since += count
        if body.taken > body.most:
            raise self._too_large(body)
        if sum(each.taken for each in self.arriving) > self.limit:
            raise Refused(f"Too many uploads at once: together they may have {self.limit // MB} MB. Try again soon.")
        if self._since > self.step:
            self.make_room(self.step)

    def end(self, body: Body) -> None:
        """The request is answered."""
        self.arriving.discard(body)

    def _too_large(self, body: Body) -> Refused:
        what = "The files are" if body.most == self.limit else "The input is"
        return Refused(f"{what} larger than {body.most // MB} MB. Give less at once.")

    def make_room(self, spare: int = 0) -> None:
        """Remove the oldest files until all of them take at most the limit less `spare` bytes.

        Raises:
            Refused: what is arriving alone takes more.
        """
        self._since, size, count = 0, 0, 0
        first = min((body.begun for body in self.arriving), default=math.inf) - SLACK
        removable, seen = [], set()
        for file, status in files_below(str(self.folder)):
            size, count = size + (status.st_size if status.st_ino not in seen else 0), count + 1
            seen.add(status.st_ino)
            folder = os.path.dirname(file)
            may_be_arriving = folder == str(self.folder) and status.st_mtime >= first
            if not may_be_arriving and f"{os.sep}{IN_USE}{os.sep}" not in file:
                removable.append((status.st_mtime, status.st_size if status.st_nlink == 1 else 0, file))
        for _, freed, file in sorted(removable):
            if size <= self.limit - spare and count <= MOST_FILES:
                break
            with suppress(OSError):  # another thread has removed it, or the folder holds other files
                size, count = size - freed, count - 1
                os.remove(file)
                os.rmdir(os.path.dirname(file))
        if size > self.limit or count > MOST_FILES:
            raise Refused("There is no room for more files now. Try again soon, with fewer or smaller ones.")

    async def keep_room(self) -> None:
        """Make room again and again, since results take some too."""
        while True:
            with suppress(Refused):
                self.make_room()
            await asyncio.sleep(PAUSE)


def files_below(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Path and status of each file, while others may move and remove some."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from files_below(entry.path)
            else:
                with suppress(FileNotFoundError):
                    yield entry.path, entry.stat(follow_symlinks=False)
