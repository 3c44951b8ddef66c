"""What the cost programs share: clocks, peak memory, turns, ratios, what is said of the machine, and the JSON file."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

WARM_UP = 3  # steps of a training that are not measured
QUIET = {  # arguments of a training that does nothing beside its steps
    "output_dir": tempfile.gettempdir(),
    "logging_strategy": "no",
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
}
Costs = Mapping[str, Sequence[Mapping[str, float]]]  # variant -> a measurement per round, by figure


def clock() -> float:
    """Seconds. On one thread they are the processor's, which other programs disturb less than the wall's."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def seconds_of(work: Callable[[], object], now: Callable[[], float] = time.process_time) -> float:
    """The seconds that `work` takes."""
    start = now()
    work()
    return now() - start


class StepClock(TrainerCallback):
    """The seconds of each step of a Trainer."""

    def __init__(self):
        self.times: list[float] = []

    def on_step_begin(self, *_, **__):
        self.times.append(clock())

    on_step_end = on_step_begin

    def median(self) -> float:
        """Of the steps after the warm-up."""
        steps = [end - start for start, end in zip(self.times[::2], self.times[1::2], strict=True)]
        return statistics.median(steps[WARM_UP:])


def peak_bytes() -> int:
    """The most memory that this process has held; on Linux. `getrusage` would begin with the parent's."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def held_bytes() -> int:
    """The memory that this process holds now, to which its peak is reset; on Linux. Files that were only read through
    memory leave no trace."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_bytes()


def step_costs(clock: StepClock, before: int) -> dict[str, float]:
    """`seconds` of a step, and `bytes`: the peak memory, on a GPU its own, else less what was held `before`."""
    held = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else peak_bytes() - before
    return {"seconds": clock.median(), "bytes": held}


def in_turns(variants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """A figure of each variant per round. They take turns, so that a drift of the machine's speed hits all alike."""
    found: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, measure in variants.items():
            found[name].append(measure())
    return found


def in_processes(names: Iterable[str], rounds: int, *options: str) -> dict[str, list[dict[str, float]]]:
    """Measurements of each variant per round, in turns, each by this program in a process of its own, which is started
    with the same flags, `--variant NAME` and `options`, and prints one line of JSON last."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(rounds):
        for name, measured in found.items():
            command = [sys.executable, *sys.argv, "--variant", name, *options]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{name}: {done.stderr[-2000:]}")
            measured.append(json.loads(done.stdout.splitlines()[-1]))
            print(f"round {number + 1}, {name}: {measured[-1]}", file=sys.stderr)
    return found


def ratios(values: Iterable[float], base: Iterable[float]) -> list[float]:
    """Round by round: the median ratio, the least and the most."""
    found = [a / b for a, b in zip(values, base, strict=True)]
    return [statistics.median(found), min(found), max(found)]


def spread(found: Sequence[float], digits: int = 2) -> str:
    """`median (least .. most)`."""
    return "{:.{d}f} ({:.{d}f} .. {:.{d}f})".format(*found, d=digits)


def cost_table(measured: Costs, base: Callable[[str], str], called: str) -> dict[str, list[float]]:
    """Prints a Markdown table of what [`in_processes`] found, over the variant that `base` names, which readers know as
    `called`; the ratios by `variant, figure`. A figure that the base lacks (0 bytes) is left out."""
    print(f"| variant | time / {called} | memory / {called} | seconds of a step | MiB |\n|---|---|---|---|---|")
    found: dict[str, list[float]] = {}
    for name, runs in measured.items():
        cells = []
        for key in ("seconds", "bytes"):
            values, others = ([run[key] for run in of] for of in (runs, measured[base(name)]))
            if all(others):  # small nets: less than what the loading of the data had taken
                found[f"{name}, {key}"] = ratios(values, others)
            cells.append(spread(found[f"{name}, {key}"]) if all(others) else "-")
        seconds, size = (statistics.median(run[key] for run in runs) for key in ("seconds", "bytes"))
        print(f"| {name} | {cells[0]} | {cells[1]} | {seconds:.3f} | {size / 2**20:.0f} |")
    return found


def machine() -> dict[str, Any]:
    """What figures depend on beside the program."""
    return {"threads": torch.get_num_threads(), "torch": torch.__version__}


def write_json(path: str | Path | None, figures: Mapping[str, Any]) -> None:
    """Where there is a path."""
    if path is not None:
        Path(path).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
