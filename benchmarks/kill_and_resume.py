"""Runs killed again and again with SIGKILL, and what they end with: the uninterrupted run's parameters, to the bit.

python benchmarks/kill_and_resume.py --kills 20 --seed 0           # some six minutes; writes kill_and_resume.json

Every other kill comes by the clock, at a random time after training has started; the others at a random moment of a
save, with half of a file written, or of the deletion of an older checkpoint (see `tests/killed_run.py`). A killed run
is started again, to be killed again with a probability of three in four. Before each start its whole checkpoints are
compared with those of the uninterrupted run.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from logging import getLogger
from pathlib import Path

import torch
from transformers.utils import logging

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import killed_run  # noqa: E402

from seal_hf.saving import is_complete, last_complete_checkpoint  # noqa: E402

EPOCHS = 8  # of 6 steps; a save every 3


def kill_by_the_clock(folder: Path, draw: random.Random, longest: float) -> str | None:
    """The moment; None where the run had ended before."""
    command = killed_run.command(folder, epochs=EPOCHS)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        if line.strip() == "started":
            break
    seconds = draw.uniform(0, longest)
    time.sleep(seconds)
    process.kill()
    return f"{seconds:.2f} s after the start" if process.wait() < 0 else None


def step_of(folder: Path | None) -> int | None:
    return int(folder.name.split("-")[1]) if folder is not None else None


def inspect(folder: Path, reference: Path) -> dict:
    """What a kill left. Raises AssertionError for a folder that counts as whole and is not."""
    half = []
    for checkpoint in sorted(folder.glob("checkpoint-*")):
        if is_complete(checkpoint):
            wrong = killed_run.differences(checkpoint, reference / checkpoint.name)
            assert not wrong, f"{checkpoint.name} counts as whole, but differs in {', '.join(wrong)}"
        else:
            half.append(checkpoint.name)
    return {"half_written": half, "resumes_from_step": step_of(last_complete_checkpoint(folder))}


def main(kills: int, seed: int) -> dict:
    draw, rows, folder_number = random.Random(seed), [], 0
    logging.disable_progress_bar()
    getLogger("seal_hf").setLevel("ERROR")
    with tempfile.TemporaryDirectory() as scratch:
        reference = Path(scratch, "whole")
        expected, trainer = killed_run.run(reference, epochs=EPOCHS, save_total_limit=None)
        longest, end = trainer.state.log_history[-1]["train_runtime"], trainer.state.global_step
        while len(rows) < kills:
            folder_number += 1
            folder, in_this_run = Path(scratch, str(folder_number)), 0
            while len(rows) < kills and (in_this_run == 0 or draw.random() < 3 / 4):
                if len(rows) % 2:
                    kind, moment = "clock", kill_by_the_clock(folder, draw, longest)
                else:
                    kind = draw.choice(["save", "save", "deletion"])
                    moment = killed_run.killed(folder, draw.randrange(2**32), kind, EPOCHS)
                if moment is None:  # it ran to its end
                    break
                in_this_run += 1
                rows.append({"run": folder_number, "kill": kind, "moment": moment, **inspect(folder, reference)})
                left = ", ".join(rows[-1]["half_written"]) or "none"
                print(f"{len(rows):3}  run {folder_number:2}  {kind:9} {moment:52} half-written: {left:28} "
                      f"resumes from step: {rows[-1]['resumes_from_step'] or 'none'}", flush=True)  # fmt: skip
                if rows[-1]["resumes_from_step"] == end:
                    break  # nothing is left to be killed
            ended, _ = killed_run.run(folder, epochs=EPOCHS)
            assert torch.equal(ended, expected), f"run {folder_number} ended with other parameters"
            assert inspect(folder, reference)["resumes_from_step"] == end
    print(f"{kills} kills, {folder_number} runs: each ended with the {expected.numel()} parameters of the whole run.")
    return {"kills": kills, "seed": seed, "runs": folder_number, "equal_to_the_bit": True, "rows": rows}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", default=str(ROOT / "benchmarks" / "kill_and_resume.json"))
    given = parser.parse_args()
    figures = main(given.kills, given.seed)
    Path(given.output).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
