"""The frame of the programs: their name, how they start and end, and the processes of one command.

This module imports no library: many mistakes are reported at once.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeVar

from ..utils.faults import fault_of
from ..utils.files import in_line
from ..utils.messages import did_you_mean, guard_errors, one_line

USAGE, INTERRUPTED, UNREAD = 2, 130, 141  # exit statuses: a mistaken command line; as of shells after SIGINT, SIGPIPE
SHORT, FULL, ALL = ("-h", "--help"), "--help_all", "all"  # words that ask for help; what the second one shows
SHOWN_OF_A_PATH = 200  # characters
LONGEST_WAIT = timedelta(days=30)  # the slowest process may have much to do; a launcher ends the others if one fails
T = TypeVar("T")
Result = TypeVar("Result")
ENDING = ("SIGTERM", "SIGHUP")  # they end a program as Ctrl-C does; a terminal that closes sends the latter


class UsageError(ValueError):
    """A flag is mistyped or missing."""


def program_name() -> str:
    """This program's name in its messages, such as `run_mlc.py` or `seal-hf train mlc`."""
    return Path(sys.argv[0]).name


def given_flags(words: Iterable[str]) -> frozenset[str]:
    """The argument names of the flags on a command line."""
    return frozenset(word[2:].split("=")[0].replace("-", "_") for word in words if word.startswith("--"))


def help_asked_for(words: Sequence[str], groups: Collection[str]) -> str | None:
    """What a command line asks to be shown: "" for `--help`, `all` for `--help_all`, or the name of a group, which is
    the word after `--help`; None if it asks for no help.

    Raises:
        UsageError: there is no such group.
    """
    for place, word in enumerate(words):
        if word == FULL:
            return ALL
        if word not in SHORT:
            continue
        following = words[place + 1] if len(words) > place + 1 else ""
        if following == FULL or following in groups:
            return ALL if following == FULL else following
        if following and not following.startswith("-"):
            hint = did_you_mean(following, groups)
            raise UsageError(f"no group of flags {following!r}.{hint} All of them: {', '.join(groups) or 'none'}.")
        return ""
    return None


def without_help(words: Sequence[str]) -> list[str]:
    """A command line without what [`help_asked_for`] reads; a name after `--help` is that of a group."""
    before = ["", *words]
    return [
        word
        for word, last in zip(words, before, strict=False)
        if word not in (*SHORT, FULL) and not (last in SHORT and not word.startswith("-"))
    ]


def check_one_process(what: str) -> None:
    """Raises ValueError if a launcher has started several processes."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(f"{what} runs in one process: start it without a launcher.")


def is_first_process() -> bool:
    """True in the process of rank 0 of a launcher, and without a launcher."""
    return os.environ.get("RANK", "0") == "0"


class Processes:
    """One process, or those that a launcher such as `accelerate launch` has started for one command, which share out
    its chunks. They are connected through gloo: they exchange little, and it runs everywhere.

    Attributes:
        rank: the number of this process, from 0.
        count: how many there are.
    """

    def __init__(self) -> None:
        self.rank, self.count = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        if self.count == 1:
            return
        import torch

        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo", timeout=LONGEST_WAIT)
        devices = torch.accelerator.device_count() if torch.accelerator.is_available() else 0
        if devices:
            torch.accelerator.set_device_index(int(os.environ.get("LOCAL_RANK", "0")) % devices)

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.count > 1:
            import torch

            torch.distributed.barrier()

    def first_alone(self, function: Callable[[], T]) -> T:
        """Call a function in the first process, then in the others, and return its result.

        So only the first process reports a mistake.
        """
        if self.rank:
            self.wait()
        found = function()
        if not self.rank:
            self.wait()
        return found

    def results(self, items: Iterable[T], function: Callable[[T], Result]) -> Iterator[Result]:
        """What a function returns for each item, in order. Every process computes its share, and the first gets all;
        the others end here, since the rest of the command is not theirs."""
        if self.count == 1:
            yield from map(function, items)
            return
        import torch

        remaining = iter(items)
        while items := list(islice(remaining, self.count)):
            own = function(items[self.rank]) if self.rank < len(items) else None
            found: list[Any] | None = None if self.rank else [None] * self.count
            torch.distributed.gather_object(own, found)
            yield from (found or [])[: len(items)]
        if self.rank:
            raise SystemExit(0)


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP has arrived. Whatever handles Ctrl-C handles this."""


def run_program(main: Callable[[], object]) -> None:
    """Run `main()` as a command. An error that the user can fix, Ctrl-C, SIGTERM and SIGHUP end it with one line and no
    traceback. If the reader of its output goes away, as `| head` does, it ends without a word.

    After a signal the exit status is 128 + the number of the signal. A second SIGTERM ends the program at once. A
    signal that is ignored when the program starts, as `nohup` does with SIGHUP, stays ignored.
    """
    guard_errors()
    with _signals() as arrived, _quiet_threads(), _kept_interrupts():
        try:
            status = _status(main)
        except KeyboardInterrupt:
            status = INTERRUPTED
        except Exception as error:
            message = message_of(error)
            if _reader_has_gone(error):
                status = UNREAD
            elif message is not None:
                status = USAGE if isinstance(error, UsageError) else 1
                if not arrived:
                    _say(one_line(message), once=isinstance(error, UsageError))
            elif not arrived:
                raise
        if arrived:  # whatever error it led to, such as that of a worker that got the same signal
            status = 128 + arrived[0]
            _say(f"terminated by {signal.Signals(arrived[0]).name}.", once=True)
        elif status == INTERRUPTED:
            _say("interrupted.", once=True)
        _write_out(sys.stdout)
    if status is not None:
        sys.exit(status)


def _status(main: Callable[[], object]) -> Any:
    """What `main()` asks to end with; None as usual. What it printed is written out, and errors of that are raised."""
    status = None
    try:
        main()
    except SystemExit as error:
        status = error.code
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()  # if left open, its threads sometimes abort the exit
    if sys.stdout is not None:
        sys.stdout.flush()
    return status


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Inside, the first SIGTERM or SIGHUP raises [`Terminated`]. Yields a list, to which its number is added."""
    arrived: list[int] = []
    here = os.getpid()

    def end(number: int, frame: Any) -> None:
        if os.getpid() != here:  # a fork, such as a worker that reads data, ends without a word
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        arrived.append(number)
        for each in before:  # a terminal that closes may send two SIGHUP, and a service manager one after SIGTERM
            signal.signal(each, signal.SIG_DFL if each == signal.SIGTERM else signal.SIG_IGN)
        if hasattr(signal, "SIGCHLD"):  # PyTorch's handler raises errors for workers that got the same signal
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        raise Terminated(number)

    numbers = [getattr(signal, name) for name in ENDING if hasattr(signal, name)]
    in_main = threading.current_thread() is threading.main_thread()  # only there may handlers be set
    before = {number for number in numbers if in_main and signal.getsignal(number) == signal.SIG_DFL}
    for number in before:
        signal.signal(number, end)
    try:
        yield arrived
    finally:
        for number in before:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _quiet_threads() -> Iterator[None]:
    """Inside, a thread that writes to a full disk, such as that of TensorBoard, leaves it to its owner to say so."""
    before = threading.excepthook

    def hook(args: Any) -> None:
        if args.exc_value is None or fault_of(args.exc_value) is None:
            before(args)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before


@contextmanager
def _kept_interrupts() -> Iterator[None]:
    """Inside, Ctrl-C or a signal that arrives in a destructor, where Python ignores errors, interrupts what follows."""
    before, timers = sys.unraisablehook, []

    def hook(args: Any) -> None:
        if not isinstance(args.exc_value, KeyboardInterrupt):
            return before(args)
        timers.append(threading.Timer(0.01, _thread.interrupt_main))  # after the destructor
        timers[-1].start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
        for timer in timers:
            timer.cancel()


def _say(line: str, once: bool = False) -> None:
    """Print how the program ends, in a line of its own; with `once`, in the first of a launcher's processes alone."""
    if once and not is_first_process():
        return
    start = "\n" if getattr(sys.stderr, "in_a_line", False) else ""
    with suppress(OSError):  # the terminal may have been closed
        print(f"{start}{program_name()}: {line}", file=sys.stderr, flush=True)
    _write_out(sys.stderr)


def _reader_has_gone(error: BaseException) -> bool:
    """True if `error` says that a pipe broke, and it is that of the program's own output: not one of the network."""
    if not isinstance(error, BrokenPipeError) or not hasattr(select, "poll"):
        return False
    poll = select.poll()
    for number in (1, 2):
        poll.register(number, 0)  # errors are always reported
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _write_out(stream: Any) -> None:
    """Write what was printed to `stream`, or forget it: the interpreter would complain of a broken one at its exit."""
    try:
        if stream is not None:
            stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def message_of(error: Exception) -> str | None:
    """What to tell the user of an error that can be mended; None for one of the program itself."""
    if (fault := fault_of(error)) is not None:
        return str(fault)
    if isinstance(error, RuntimeError):
        from ..training.meters import NonFiniteLossError

        if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            return f"torch.compile cannot compile this net: {in_line(error)}. Leave `torch_compile` out."
        return str(error) if isinstance(error, NonFiniteLossError) else None
    if isinstance(error, OSError) and error.strerror and isinstance(error.filename, str):
        return _of_a_path(error, error.filename)
    return str(error) if isinstance(error, (ValueError, OSError, ImportError)) else None


def _of_a_path(error: OSError, path: str) -> str:
    """What the system says of a path, with the flag of the command line that gave it."""
    words = [word for given in sys.argv[1:] for word in (given.split("=", 1) if given.startswith("--") else [given])]
    inside = (path, *map(str, Path(path).parents))
    flags = [flag for flag, value in pairwise(words) if flag.startswith("--") and value in inside]
    shown = path if len(path) <= SHOWN_OF_A_PATH else f"{path[:SHOWN_OF_A_PATH]}... ({len(path)} characters)"
    return f"{flags[0]}: {error.strerror}: {shown!r}" if flags else f"{error.strerror}: {shown!r}"
