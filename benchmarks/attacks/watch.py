"""What a process opens, executes, unpickles, starts and calls while a command runs: noticed, not hindered.

Python's audit events tell of files that Python opens. Libraries in Rust and C++ open files without them, so the folder
of baits, which no command may touch, is also watched by the kernel (inotify).
"""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

IN_OPEN = 0x20  # of <sys/inotify.h>
CODE, OUTSIDE = "code run", "opened outside"
STARTED = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn")
HERE = {"127.0.0.1", "::1", "localhost"}  # a page asks itself whether it is there
CALLED = ("socket.connect", "socket.getaddrinfo", "socket.sendto")
SYSTEM = ("/dev", "/proc", "/sys", "/etc", "/usr")


def _words(arguments: Iterable) -> Iterator[str]:
    """The texts in nested arguments, such as a host and its port."""
    for each in arguments:
        if isinstance(each, tuple):
            yield from _words(each)
        elif isinstance(each, str):
            yield each


class Watch:
    """Notices what happens from `start()` on; it cannot be stopped, so it lives in the process of one case.

    Args:
        folder: the case's own folder, which holds the files of strangers.
        bait: a folder beside it, full of files that a stranger would like to have read.
        allowed: further folders that may be read, such as the package's.
    """

    def __init__(self, folder: Path, bait: Path, allowed: list[Path]):
        self.folder, self.bait = str(folder.resolve()), str(bait.resolve())
        installed = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")]
        roots = [self.folder, sys.prefix, sys.base_prefix, *installed, *SYSTEM, *map(str, allowed)]
        self.allowed = tuple({os.path.realpath(root) + os.sep for root in roots})
        self.seen: list[tuple[str, str]] = []
        self.inotify = -1

    def start(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.inotify = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for folder in [each for each, _, _ in os.walk(self.bait)]:  # before any is watched: a walk opens folders
            if libc.inotify_add_watch(self.inotify, os.fsencode(folder), IN_OPEN) < 0:
                raise OSError(ctypes.get_errno(), "inotify cannot watch the bait", folder)
        sys.addaudithook(self._hear)

    def found(self) -> dict[str, list[str]]:
        """What was noticed, by kind, without repetitions."""
        try:
            if self.inotify >= 0 and os.read(self.inotify, 65536):
                self.seen.append((OUTSIDE, self.bait))
        except BlockingIOError:
            pass
        kinds = dict.fromkeys(kind for kind, _ in self.seen)
        return {kind: list(dict.fromkeys(what for of, what in self.seen if of == kind)) for kind in kinds}

    def _hear(self, event: str, arguments: tuple) -> None:
        if event == "open":
            self._open(arguments[0])
        elif event == "exec":
            self._code(getattr(arguments[0], "co_filename", ""))
        elif event == "import":
            self._code(arguments[1] or "")
        elif event == "pickle.find_class":
            self.seen.append((CODE, f"unpickled {arguments[0]}.{arguments[1]}"))
        elif event in STARTED and arguments[0] != "git":  # a comparison records the commit of the code
            self.seen.append((CODE, f"{event} {arguments[:2]}"))
        elif event in CALLED and not (HERE & set(_words(arguments))):
            self.seen.append((OUTSIDE, f"{event} {arguments[1:]}"))

    def _open(self, path: object) -> None:
        if isinstance(path, (str, bytes)):
            real = os.path.realpath(os.fsdecode(path))
            if not real.startswith(self.allowed) and not os.path.isdir(real):
                self.seen.append((OUTSIDE, real))

    def _code(self, file: str) -> None:
        if file.startswith(("/", ".")) and os.path.realpath(file).startswith((self.folder, self.bait)):
            self.seen.append((CODE, f"Python of {file}"))
