"""The frame of `attack.py`: cases, the process of each, and what became of it."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .watch import CODE, OUTSIDE, Watch

CLEAR, LEGAL, SILENT, UNCLEAR, TRACEBACK, HANG = "clear", "legal", "silent", "unclear", "traceback", "hang"
KINDS = (CLEAR, LEGAL, SILENT, UNCLEAR, TRACEBACK, HANG, CODE, OUTSIDE)
FAULTS = KINDS[2:]
PWNED, BAIT = "PWNED", "bait"
FAILED_TO_PREPARE = 99
LONGEST = 2000  # characters of a line that a user still reads


@dataclass
class Case:
    """One attack.

    Attributes:
        group: row of the table.
        name: unique in the group; seeds its `random.Random`.
        prepare: makes the files of the case in the current folder, and returns why it is right if the command ends
            well, or None if it must be refused.
        command: the words after `seal-hf`; or a function in its place, which is run as a program is.
        names: the message must contain one of these: a file, field or flag.
        check: a further look at what a command has left that ended as it may; returns a fault, or None.
        memory: address space in bytes; 0: `prepare` has set the limit. seconds: the time limit.
        ends: an exit status with which the command may also end, without an error of its own, and why.
    """

    group: str
    name: str
    prepare: Callable[[random.Random], str | None]
    command: list[str] | Callable[[], object]
    names: tuple[str, ...] = ()
    check: Callable[[], str | None] | None = None
    memory: int = 6 << 30
    seconds: float = 60
    ends: tuple[int, str] | None = None


@dataclass
class Outcome:
    """What became of a case: `kind` is one of KINDS, `text` the message, the reason why it is legal, or the fault."""

    case: Case
    kind: str
    text: str
    seconds: float
    output: str = field(default="", repr=False)


def run_cases(
    cases: Iterable[Case], scratch: Path, seed: int, jobs: int, allowed: list[Path], keep: bool = False
) -> Iterator[Outcome]:
    """Run each case in a fork of this process, `jobs` at a time; yields what became of each, as they end."""
    import seal_hf.__main__  # noqa: F401  # once, not in each fork

    waiting, running, number = iter(cases), {}, 0
    while True:
        while len(running) < jobs and (case := next(waiting, None)) is not None:
            number += 1
            folder = scratch / str(number)
            (folder / "case").mkdir(parents=True)
            pid = os.fork()
            if pid == 0:
                _in_child(case, folder, random.Random(f"{seed}/{case.group}/{case.name}"), allowed)
            running[pid] = (case, folder, time.monotonic())
        if not running:
            return
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in running:
            case, folder, started = running.pop(pid)
            seconds = time.monotonic() - started
            _kill_group(pid)
            yield outcome(case, folder, os.waitstatus_to_exitcode(status), seconds)
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)
            continue
        for pid, (case, _, started) in running.items():
            if time.monotonic() - started > case.seconds:
                _kill_group(pid)
        time.sleep(0.003)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _in_child(case: Case, folder: Path, draw: random.Random, allowed: list[Path]) -> None:
    """The process of a case. It never returns."""
    status = FAILED_TO_PREPARE
    try:
        os.setsid()
        os.chdir(folder / "case")
        _redirect(folder)
        legal = case.prepare(draw)
        if case.memory:
            resource.setrlimit(resource.RLIMIT_AS, (case.memory, case.memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        (folder / BAIT).mkdir(exist_ok=True)
        (folder / "tmp").mkdir()
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder / "tmp")
        watch = Watch(folder / "case", folder / BAIT, [*allowed, folder / "tmp"])
        watch.start()
        status = command_status(case.command)
        seen = watch.found()
        ended = status == 0 or (case.ends is not None and status == case.ends[0])
        fault = case.check() if ended and case.check is not None else None
        (folder / "seen.json").write_text(json.dumps({"legal": legal, "fault": fault, "seen": seen}))
    except BaseException:  # a fault of this program, which its author shall see
        traceback.print_exc()
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        os._exit(status)


def _redirect(folder: Path) -> None:
    """Output into files; the input is a pipe's: a file of lines `y`."""
    (folder / "in.txt").write_text("y\n" * 100)
    for number, name, flags in ((0, "in.txt", os.O_RDONLY), (1, "out.txt", None), (2, "err.txt", None)):
        opened = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND if flags is None else flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, "utf-8", closefd=False) for number in (1, 2))


def command_status(command: list[str] | Callable[[], object]) -> int:
    """Run a command; its exit status, or 70 if it ends in a traceback, which is printed."""
    from seal_hf.__main__ import main
    from seal_hf.cli.programs import run_program

    sys.argv = ["seal-hf", *(command if isinstance(command, list) else [])]
    try:
        main() if isinstance(command, list) else run_program(command)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 70
    return 0


def outcome(case: Case, folder: Path, status: int, seconds: float) -> Outcome:
    """Judge a case that has ended."""
    errors = (folder / "err.txt").read_text(encoding="utf-8", errors="replace")
    output = errors + (folder / "out.txt").read_text(encoding="utf-8", errors="replace")
    if status == FAILED_TO_PREPARE:
        raise RuntimeError(f"{case.group}/{case.name} cannot be prepared:\n{errors}")
    said = [line for line in re.split(r"[\r\n]", errors) if line.startswith(("seal-hf", "attack"))]
    raised = [line for line in errors.splitlines() if re.match(r"[\w.]*(Error|Exception|Interrupt|Exit)\b", line)]
    last = said[-1] if said else ""

    def judged(kind: str, text: object) -> Outcome:
        return Outcome(case, kind, str(text)[:LONGEST], seconds, output)

    report = folder / "seen.json"
    found: dict[str, Any] = json.loads(report.read_text()) if report.is_file() else {"seen": {}}
    if (folder / "case" / PWNED).exists() or CODE in found["seen"]:
        return judged(CODE, found["seen"].get(CODE, PWNED))
    if OUTSIDE in found["seen"]:
        return judged(OUTSIDE, found["seen"][OUTSIDE])
    if status < 0:
        hang = -status == signal.SIGKILL and seconds >= case.seconds
        return judged(HANG if hang else TRACEBACK, f"{case.seconds} s" if hang else signal.Signals(-status).name)
    if "Traceback (most recent call last)" in errors:
        return judged(TRACEBACK, raised[-1] if raised else last)
    if status == 0:
        if found["fault"] or found["legal"] is None:
            return judged(SILENT, found["fault"] or "nothing said")
        return judged(LEGAL, found["legal"])
    if case.ends is not None and status == case.ends[0] and (not last or "terminated by SIGTERM" in last):
        return judged(SILENT, found["fault"]) if found.get("fault") else judged(LEGAL, case.ends[1])
    if not last or len(last) > LONGEST:
        return judged(UNCLEAR, f"status {status}: {last}")
    if (
        case.names
        and "there is not enough memory" not in last
        and not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", last) for name in case.names)
    ):
        return judged(UNCLEAR, f"names none of {', '.join(case.names)}: {last}")
    return judged(CLEAR, last)
