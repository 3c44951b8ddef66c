"""A tiny training run that kills itself with SIGKILL, for `test_kills.py` and `benchmarks/kill_and_resume.py`:

python killed_run.py FOLDER SEED KIND EPOCHS

A moment is the end of a step or a point of a save: before a file or folder is made or removed, and with half of a file
written. The run goes on from the last whole checkpoint in FOLDER; it is first done to its end on a copy, to count its
moments, of which the seed draws one. KIND is `step`, `save` or `deletion`, or `never`: only print when training starts.
"""

import builtins
import gc
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import safetensors.torch
import tiny_run
import torch
from launching import forked
from transformers import TrainerCallback

# 6 updates per epoch, with dropout and samples; each save deletes the checkpoint before it
OPTIONS = dict(dropout=0.3, loss_net_steps=2, lr_scheduler_type="cosine")
SAVES = dict(save_strategy="steps", save_steps=3, save_total_limit=1)


def kind_of(moment):
    return {"step": "step", "unlink": "deletion", "rmdir": "deletion"}.get(moment.split()[0], "save")


class Moments(TrainerCallback):
    """Counts the moments of a run in `folder`, and kills the process at one."""

    def __init__(self, folder, kill_at=None):
        self.folder, self.kill_at, self.seen = Path(folder), kill_at, []

    def __call__(self, moment):
        self.seen.append(moment)
        if len(self.seen) - 1 == self.kill_at:
            print(moment, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        self(f"step {state.global_step + 1}: between the updates of loss-net and task-net")

    def on_step_end(self, args, state, control, **kwargs):
        self(f"step {state.global_step}: done")

    def name_of(self, path):
        """The path inside the folder; None outside of it."""
        try:
            return Path(path).relative_to(self.folder).as_posix()
        except (TypeError, ValueError):
            return None

    def watch(self):
        """Put this between the process and the functions that write and remove files."""
        torch.save = self.writer(torch.save)
        safetensors.torch.serialize_file = self.writer(safetensors.torch.serialize_file)
        builtins.open = io.open = self.opener(io.open)
        for name in ("mkdir", "unlink", "remove", "rmdir", "rename", "replace"):
            setattr(os, name, self.changer(getattr(os, name), name.replace("remove", "unlink")))

    def writer(self, write):
        def watched(value, path, *args, **kwargs):
            name = self.name_of(path)
            if name is not None:
                self(f"before {name}")
                if len(self.seen) == self.kill_at:  # the next moment: what a kill in the middle of the write leaves
                    write(value, path, *args, **kwargs)
                    os.truncate(path, os.path.getsize(path) // 2)
                self(f"half of {name}")
            return write(value, path, *args, **kwargs)

        return watched

    def opener(self, real_open):
        def watched(path, mode="r", *args, **kwargs):
            name = self.name_of(path) if mode == "w" else None
            if name is None:
                return real_open(path, mode, *args, **kwargs)
            self(f"before {name}")
            return Halved(real_open(path, mode, *args, **kwargs), lambda: self(f"half of {name}"))

        return watched

    def changer(self, change, what):
        def watched(path, *args, **kwargs):
            inside = self.name_of(path) or (kwargs.get("dir_fd") is not None and path)  # rmtree gives bare names
            if inside:
                self(f"{what} {inside}")
            return change(path, *args, **kwargs)

        return watched


class Announce(TrainerCallback):
    """Says when training starts, for a killer that goes by the clock."""

    def on_train_begin(self, args, state, control, **kwargs):
        print("started", flush=True)


class Halved:
    """A text file whose every write has a moment in its middle."""

    def __init__(self, file, in_the_middle):
        self.file, self.in_the_middle = file, in_the_middle

    def write(self, text):
        self.file.write(text[: len(text) // 2])
        self.file.flush()
        self.in_the_middle()
        return self.file.write(text[len(text) // 2 :])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)


def run(folder, callback=None, epochs=2, **options):
    """To the end, from the last whole checkpoint if there is one; parameters and trainer."""
    torch.manual_seed(0)
    options = OPTIONS | SAVES | dict(num_train_epochs=epochs) | options
    trainer, nets = tiny_run.make(folder, callbacks=[callback] if callback else None, **options)
    trainer.train(resume_from_checkpoint="last")
    return tiny_run.parameters(nets), trainer


def command(folder, seed=0, kind="never", epochs=2):
    return [sys.executable, __file__, str(folder), str(seed), kind, str(epochs)]


def killed(folder, seed, kind, epochs=2):
    """A process that runs in `folder` and is killed; the moment."""
    done = subprocess.run(command(folder, seed, kind, epochs), capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.splitlines()[-1]


def killed_in_a_fork(folder, seed, kind, epochs=2):
    """The same in a fork of this process, which has imported what the run needs."""
    with tempfile.TemporaryFile("w+") as said:

        def program():
            os.dup2(said.fileno(), 1)
            sys.stdout = open(1, "w", closefd=False)
            main(folder, seed, kind, epochs)

        assert forked(program) == [-signal.SIGKILL]
        said.seek(0)
        return said.read().splitlines()[-1]


def differences(checkpoint, reference):
    """What of `checkpoint` is not as in the same checkpoint of the uninterrupted run; weights and states to the bit.

    The arguments name the folder, and the trainer's state has run times: of these it is enough that they are there."""
    wrong = []
    for path in sorted(path for path in reference.rglob("*") if path.is_file()):
        mine = checkpoint / path.relative_to(reference)
        by_content = path.suffix in (".safetensors", ".pt", ".pth")
        if not mine.is_file() or (by_content and mine.read_bytes() != path.read_bytes()):
            wrong.append(path.relative_to(reference).as_posix())
    return wrong


def main(folder, seed, kind, epochs):
    if kind == "never":
        run(folder, Announce(), int(epochs))
        return
    moments = Moments("")
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch, "copy")
        if Path(folder).is_dir():
            shutil.copytree(folder, copy)
        moments.folder = copy
        moments.watch()
        run(copy, moments, int(epochs))
        candidates = [i for i, moment in enumerate(moments.seen) if kind_of(moment) == kind]
    at = random.Random(int(seed)).choice(candidates)
    moments.folder, moments.seen, moments.kill_at = Path(folder), [], at
    run(folder, moments, int(epochs))


if __name__ == "__main__":
    gc.freeze()  # a training ends with a collection of garbage, which need not look through what was imported
    main(*sys.argv[1:])
