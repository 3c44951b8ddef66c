"""What a command meets around it: a full disk, little memory, folders that cannot be written, signals, a terminal that
is gone, two runs at once."""

from __future__ import annotations

import ctypes
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from . import folders, samples, states
from .engine import Case, command_status

FEATURES = "--dataset features --hidden_size 8 --global_size 4"
TRAIN = f"train mlc {FEATURES} --output_dir o --max_steps 3 --save_strategy steps --save_steps 1 {{quick}}"
PROGRAMS = {
    "train": f"train mlc {FEATURES} --report true --num_train_epochs 2 --output_dir o",
    "train tagging": "train tagging --dataset rows.conll --num_train_epochs 2 --output_dir o",
    "train segmentation": "train segmentation --dataset masks.npz --crop_size 0 --num_train_epochs 1 --output_dir o",
    "tune": f"train mlc {FEATURES} --report false --num_train_epochs 1 --tune 2 --output_dir o",
    "compare": f"compare mlc {FEATURES} --losses ce --num_train_epochs 1 --output_dir o",
    "predict": "predict --model {models}/texts --input rows.csv --output o/p.jsonl",
    "evaluate": "evaluate --model {models}/texts --input rows.csv --output o/e.json",
    "predict masks": "predict --model {models}/masks --input masks.npz --output o/p",
    "resume": states.RESUME,
}
SIZES = (4, 12, 20, 50, 90, 150, 220, 300)  # kB that are left on the disk
MB = 1 << 20
CLONE_NEWNS, MS_REC, MS_PRIVATE, MS_RDONLY, MS_REMOUNT = 0x20000, 0x4000, 1 << 18, 1, 32
WROTE = "there was room for all of it"


def mounted(where: str, size: int, read_only: bool = False) -> bool:
    """A file system of `size` kB at a folder, which this process alone sees; False without the right to make one."""
    libc = ctypes.CDLL(None, use_errno=True)
    Path(where).mkdir(exist_ok=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        return False
    if libc.mount(b"tmpfs", where.encode(), b"tmpfs", 0, f"size={size}k".encode()):
        return False
    return not read_only or not libc.mount(b"none", where.encode(), None, MS_REMOUNT | MS_RDONLY, b"")


def words(command: str, models: Path) -> list[str]:
    return command.format(models=models, quick=" ".join(samples.QUICK)).split()


def prepared(
    then: Callable[[random.Random], object], legal: str | None = None
) -> Callable[[random.Random], str | None]:
    def prepare(draw: random.Random) -> str | None:
        samples.write(samples.data())
        then(draw)
        return legal

    return prepare


def whole(command: str) -> Callable[[], str | None]:
    """That a command which says it ended well has written what it should."""

    def check() -> str | None:
        expected = {"predict": "o/p.jsonl", "evaluate": "o/e.json", "predict masks": "o/p", "compare": "o/table.md"}
        found = Path(expected.get(command, "o/model.safetensors"))
        if not found.exists():
            return f"{found} is missing"
        if command == "predict" and len(found.read_text().splitlines()) != samples.ROWS:
            return "rows are missing"
        return None

    return check


def full_disks(models: Path) -> Iterator[Case]:
    for name, command in PROGRAMS.items():
        for size in SIZES:

            def fill(draw: random.Random, size: int = size, name: str = name) -> None:
                if not mounted("o", size + (600 if name == "resume" else 0)):  # then no file is longer
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                    resource.setrlimit(resource.RLIMIT_FSIZE, (size * 1000, size * 1000))
                if name == "resume":
                    resumed(models, size)

            yield Case(
                "surroundings",
                f"{name}: {size} kB left on the disk",
                prepared(fill, WROTE),
                words(command, models),
                ("space", "large", "disk"),
                whole(name),
            )


def resumed(models: Path, left: int) -> None:
    """A run to resume, and a file that leaves so much room."""
    shutil.copytree(models / "run" / "o", "o", dirs_exist_ok=True)
    disk = os.statvfs("o")
    extra = disk.f_bavail * disk.f_frsize - left * 1000
    if extra > 0 and disk.f_blocks * disk.f_frsize < 2 * MB:
        Path("o", "full").write_bytes(bytes(extra))


def little_memory(models: Path) -> Iterator[Case]:
    large = {
        "wide nets": "train mlc --dataset features --hidden_size 20000 --num_layers 3 --output_dir o --max_steps 1",
        "a wide adapter": "train mlc --dataset rows.csv --model_name_or_path {models}/encoder --adapter lora "
        "--adapter_rank 90000 --output_dir o --max_steps 1",
        "large batches": f"train mlc {FEATURES} --num_samples 100000000 --output_dir o --max_steps 1",
        "large images": "train segmentation --dataset masks.npz --image_size 20000 --crop_size 0 --output_dir o "
        "--max_steps 1",
        "predict": "predict --model {models}/texts --input rows.csv --output o.jsonl",
        "evaluate": "evaluate --model {models}/texts --input rows.csv --output o.json",
        "train": f"train mlc {FEATURES} --output_dir o --max_steps 1",
        "compare": f"compare mlc {FEATURES} --losses ce --num_train_epochs 1 --output_dir o",
    }
    for name, command in large.items():
        for more in (4, 40, 150, 400):  # MB beyond what the process has

            def limit(draw: random.Random, more: int = more) -> None:
                pages = int(Path("/proc/self/statm").read_text().split()[0])
                most = pages * resource.getpagesize() + more * MB
                resource.setrlimit(resource.RLIMIT_AS, (most, most))

            yield Case(
                "surroundings",
                f"{name}: {more} MB of memory",
                prepared(limit, "there was room for it"),
                words(command, models),
                ("memory", "Memory", "large", "batch_size"),
                memory=0,
            )


def unwritable(models: Path) -> Iterator[Case]:
    def read_only(draw: random.Random) -> None:
        if not mounted("o", 1000, read_only=True):
            Path("o").chmod(0o500)

    def a_file(draw: random.Random) -> None:
        Path("o").write_text("a file")

    def no_folder(draw: random.Random) -> None:
        os.environ["HOME"] = os.environ["TMPDIR"] = "/nowhere"

    ways = {"a folder that is read only": read_only, "a file in the place of the folder": a_file, "no home": no_folder}
    for way, then in ways.items():
        for name, command in PROGRAMS.items():
            if name != "resume":
                legal = "neither the home nor temporary files are needed" if then is no_folder else None
                yield Case(
                    "surroundings",
                    f"{name}: {way}",
                    prepared(then, legal),
                    words(command, models),
                    ("o", "o/p", "o/p.jsonl", "o/e.json", "temporary"),
                )


def odd_names(models: Path) -> Iterator[Case]:
    for name in (
        "a b",
        "é",
        "日本",
        "new\nline",
        "tab\there",
        "%s",
        "$HOME",
        "{x}",
        "-x",
        "'\"",
        "*",
        "#",
        "a" * 255,
        "a" * 256,
        "\udcff",
        "\u202e",
        "x:y",
    ):
        for command in (
            "train mlc --dataset features --hidden_size 8 --report true --max_steps 1 --output_dir",
            "predict --model {models}/features --input features --output",
        ):
            given = [
                *words(command, models)[:-1],
                f"{words(command, models)[-1]}={name}{'.csv' if 'predict' in command else ''}",
            ]
            yield Case(
                "surroundings",
                f"a path {name[:12]!r} of {len(name)} ({given[0]})",
                prepared(lambda draw: None, "a name that this system takes"),
                given,
                ("output_dir", "output", "File name too long", "name"),
            )


def signals(models: Path) -> Iterator[Case]:
    """A signal after a random part of the time that the command takes."""
    for name in ("train", "tune", "compare", "predict", "evaluate", "resume"):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            for turn in range(3):

                def send(draw: random.Random, number: int = number, name: str = name) -> None:
                    if name == "resume":
                        shutil.copytree(models / "run" / "o", "o")
                    parent, wait = os.getpid(), draw.uniform(0.02, 1.0)
                    if os.fork() == 0:
                        time.sleep(wait)
                        os.kill(parent, number)
                        os._exit(0)

                yield Case(
                    "surroundings",
                    f"{name}: {number.name} {turn}",
                    prepared(send, "it had ended before"),
                    words(PROGRAMS[name], models),
                    (number.name, "interrupted", "terminated"),
                )


def closed(models: Path) -> Iterator[Case]:
    """Standard streams that are closed, full, or whose reader has gone."""

    def output(to: int) -> None:
        os.dup2(to, 1)
        sys.stdout = os.fdopen(1, "w", 1, "utf-8", closefd=False)

    def gone() -> None:
        reading, writing = os.pipe()
        os.close(reading)
        output(writing)

    def none() -> None:
        os.close(1)
        sys.stdout = None  # type: ignore[assignment]

    ways: dict[str, Callable[[random.Random], object]] = {
        "no output": lambda draw: none(),
        "no input": lambda draw: os.close(0),
        "the reader of the output has gone": lambda draw: gone(),
        "the output is full": lambda draw: output(os.open("/dev/full", os.O_WRONLY)),
    }
    for way, then in ways.items():
        for name in ("train", "predict", "evaluate", "compare"):
            command = PROGRAMS[name].replace(" --output o/p.jsonl", "") if "output" in way else PROGRAMS[name]
            yield Case(
                "surroundings",
                f"{name}: {way}",
                prepared(then, "files are written all the same"),
                words(command, models),
                ("output", "space", "Broken pipe", "descriptor"),
                ends=(141, "as `| head` ends a program") if "gone" in way else None,
            )


def two_at_once(models: Path) -> Iterator[Case]:
    """Two of the same command in one folder: one trains, the other says so; or both end well, one after the other."""
    for name in ("train", "resume", "tune", "compare"):
        for turn in range(3):
            given = words(PROGRAMS[name], models)

            def both(given: list[str] = given) -> None:
                ended = []
                for number in (0, 1):
                    if os.fork() == 0:
                        log = os.open(f"{number}.txt", os.O_WRONLY | os.O_CREAT)
                        os.dup2(log, 1)
                        os.dup2(log, 2)
                        os._exit(command_status(given))
                for _ in (0, 1):
                    ended.append(os.waitstatus_to_exitcode(os.wait()[1]))
                said = [Path(f"{number}.txt").read_text() for number in (0, 1)]
                if any("Traceback" in text for text in said) or not set(ended) <= {0, 1} or ended == [1, 1]:
                    sys.stderr.write("\n".join(said))
                    os._exit(70)
                if 1 in ended:
                    refused = next(text for text in said if "another" in text or "at once" in text or "lock" in text)
                    raise ValueError(refused.splitlines()[-1])

            def prepare(draw: random.Random, name: str = name) -> str:
                samples.write(samples.data())
                if name == "resume":
                    shutil.copytree(models / "run" / "o", "o")
                return "one began when the other had ended"

            check = (lambda: folders.differences(models / "reference" / "run")) if name == "resume" else whole(name)
            yield Case("surroundings", f"two at once: {name} {turn}", prepare, both, ("o",), check)


def cases(models: Path) -> Iterator[Case]:
    for group in (full_disks, little_memory, unwritable, odd_names, signals, closed, two_at_once):
        yield from group(models)
