"""Runs comparisons in many processes on one machine, so that one large GPU or many cores have enough to do.

    DATA=PATH ENCODER=FOLDER python benchmarks/parallel.py benchmarks/comparisons.txt --jobs 16 --minutes 30

Each line of the file is a command `seal-hf compare ...` with --losses, --seeds and --output_dir. Variables of the
environment, such as $DATA, are replaced. Lines that begin with `#` are comments. Every method and seed is a process of
its own; with --budget every method, whose seeds share a search. Earlier lines begin first. When the minutes are over
or the program is stopped, unfinished runs are lost. Finished ones are in the folders of the commands, so the same call
goes on, and each command by itself then writes its table.

Runs in parallel disturb each other, so their seconds are left out. On a GPU, start NVIDIA's Multi-Process Service
first (`nvidia-cuda-mps-control -d`): without it only one process at a time has the device.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import shlex
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple

from seal_hf.lab.compare.program import command
from seal_hf.lab.compare.runner import SECONDS, Runs, claim_folder

PARTS = "parts"  # folder of the processes' results, in that of a comparison
AGAIN = 0.2  # seconds between two looks at the processes


class Part(NamedTuple):
    """What one process does.

    Attributes:
        words: of `seal-hf compare`, for one method.
        folder: of the comparison.
        method, seeds: the runs.
    """

    words: tuple[str, ...]
    folder: Path
    method: str
    seeds: tuple[int, ...]

    @property
    def place(self) -> Path:
        return self.folder / PARTS / "_".join([self.method, *map(str, self.seeds)])

    def __str__(self) -> str:
        return f"{self.folder.name} {self.method}, seed {' '.join(map(str, self.seeds))}"


def parts(line: str) -> Iterator[Part]:
    """The processes of a command that have something to do.

    Raises:
        ValueError: the line is no such command, or has a variable that is not set.
    """
    if unset := re.search(r"\$\w+", os.path.expandvars(line)):
        raise ValueError(f"{unset[0]} is not set in the environment. Set it: {line.strip()!r} needs it.")
    words = shlex.split(os.path.expandvars(line))
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--losses", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--output_dir", type=Path)
    parser.add_argument("--budget", type=int, default=0)
    found, others = parser.parse_known_args(words[2:])
    if words[:2] != ["seal-hf", "compare"] or None in (found.losses, found.seeds, found.output_dir):
        raise ValueError(
            f"{line!r} is no command `seal-hf compare ...` with --losses, --seeds and --output_dir. Give one per line."
        )
    runs = Runs(found.output_dir)
    if found.budget:
        others += ["--budget", str(found.budget)]
    for seeds in [found.seeds] if found.budget else [[seed] for seed in found.seeds]:
        for method in found.losses:
            if any(runs.load(method, seed) is None for seed in seeds):
                yield Part(tuple(others), found.output_dir, method, tuple(seeds))


def run(part: Part) -> None:
    """Do the runs of a part in this process; what it prints goes to a log beside its results."""
    part.place.mkdir(parents=True, exist_ok=True)
    seeds = map(str, part.seeds)
    with (part.place / "log.txt").open("w", encoding="utf-8") as log, redirect_stdout(log), redirect_stderr(log):
        try:
            command([*part.words, "--losses", part.method, "--seeds", *seeds, "--output_dir", str(part.place)])
        except Exception:
            traceback.print_exc()  # in the log
            sys.exit(1)


def collect(part: Part) -> list[int]:
    """Take a part's results into the comparison's folder, without seconds; return the finished seeds."""
    there, theirs = Runs(part.folder), Runs(part.place)
    identity = theirs.identity()
    if identity is None:
        return []
    claim_folder(there, identity)
    for method, found in theirs.all().items():
        settings = theirs.settings(method)
        if settings is not None and there.settings(method) is None:
            there.save_settings(method, settings)
        for figures in found:
            if there.load(method, figures["seed"]) is None:
                there.save(method, figures["seed"], {key: figures[key] for key in figures if key != SECONDS})
    return [seed for seed in part.seeds if there.load(part.method, seed) is not None]


def work(todo: Sequence[Part], jobs: int, seconds: float) -> bool:
    """Run the parts, `jobs` at a time, for so long at most; True if all of them did all they should."""
    context = multiprocessing.get_context("forkserver")  # it has imported everything, and has no device yet
    context.set_forkserver_preload(["seal_hf.lab.compare.program", "seal_hf.tasks.labels.program"])
    end, waiting, complete = time.monotonic() + seconds, list(todo), True
    running: dict[Part, Any] = {}
    try:
        while (waiting or running) and time.monotonic() < end:
            while waiting and len(running) < jobs:
                part = waiting.pop(0)
                running[part] = context.Process(target=run, args=(part,))
                running[part].start()
            for part in [part for part, process in running.items() if not process.is_alive()]:
                running.pop(part).join()
                done = collect(part)
                complete &= len(done) == len(part.seeds)
                print(f"{part}: {'done' if len(done) == len(part.seeds) else f'failed, see {part.place}/log.txt'}")
            time.sleep(AGAIN)
    finally:  # also if this process is interrupted or terminated
        for part, process in running.items():
            process.kill()
            process.join()
            collect(part)
            print(f"{part}: stopped")
    return complete and not waiting and not running


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a command per line")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once; default: one per core")
    parser.add_argument("--minutes", type=float, default=60.0, help="what is not finished then is lost")
    options = parser.parse_args(argv)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes share the cores
    lines = options.file.read_text(encoding="utf-8").splitlines()
    try:
        todo = [part for line in lines if line.strip() and not line.startswith("#") for part in parts(line)]
    except ValueError as error:
        sys.exit(str(error))
    complete = work(todo, options.jobs, 60 * options.minutes)
    for folder in {part.folder for part in todo} if complete else ():
        with suppress(OSError):
            shutil.rmtree(folder / PARTS)
    if not complete:
        sys.exit("Not everything is done. The same call goes on.")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # stop the processes too
    main()
