"""Checkpoints whose files are missing, damaged, hostile or those of another net. The oracle of a resume that ends well
is the resume of the untouched checkpoint: the same nets, to the bit."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import data_files, folders, samples
from .engine import Case

QUICK = (
    "--max_steps 3 --save_strategy steps --save_steps 1 --save_total_limit 9 --eval_strategy no "
    "--load_best_model_at_end false --patience 0"
)
TRAIN = f"train mlc --dataset features --hidden_size 8 --global_size 4 --report false --output_dir o {QUICK}"
RESUME = f"{TRAIN} --resume_from_checkpoint last"
LAST = Path("o", "checkpoint-2")  # the one that is resumed: a run that was killed after its second step
STATES = ("optimizer.pt", "scheduler.pt", "rng_state.pth", "_loss_net/learner.pt")
FILES = (
    *STATES,
    "trainer_state.json",
    "model.safetensors",
    "config.json",
    "_loss_net/model.safetensors",
    "_loss_net/config.json",
    "training_args.bin",
    "complete.json",
    "run.json",
)
Change = Callable[[Path, random.Random], None]


def stored(value: Callable[[], Any]) -> Change:
    """Every state is what `torch.save` makes of a value."""
    return lambda path, draw: __import__("torch").save(value(), path)


def huge() -> Any:
    import torch

    return {"state": {0: {"step": torch.zeros(1), "exp_avg": torch.zeros(1).expand(10**6, 10**6)}}, "param_groups": []}


def of_another_net() -> Any:
    import torch

    net = torch.nn.Linear(3, 3)
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return optimizer.state_dict()


def mutated(mutation: str) -> Change:
    return lambda path, draw: path.write_bytes(data_files.EVERYWHERE[mutation](path.read_bytes(), draw)) and None


CHANGES: dict[str, Change] = {
    "missing": lambda path, draw: path.unlink(),
    "a folder": lambda path, draw: path.unlink() or path.mkdir(),
    **{name: mutated(name) for name in data_files.EVERYWHERE},
    "random bytes of its size": lambda path, draw: path.write_bytes(draw.randbytes(path.stat().st_size)) and None,
    "a text": stored(lambda: "x"),
    "nothing in it": stored(dict),
    "other keys": stored(lambda: {"a": 1}),
    "a huge tensor": stored(huge),
    "the state of another net": stored(of_another_net),
}


def changed(file: str, change: Change, marked: bool) -> Callable[[Path, random.Random], None]:
    def apply(folder: Path, draw: random.Random) -> None:
        change(folder / file, draw)
        if marked:  # by someone who knows how checkpoints count as whole
            from seal_hf.saving import mark_complete

            mark_complete(folder)

    return apply


def trains(models: Path) -> Iterator[Case]:
    """The run to resume, and what its resume ends with."""
    run, reference = models / "run", models / "reference" / "run"

    def prepare(draw: random.Random) -> str:
        samples.write(samples.features())
        return "a run"

    def keep_run() -> None:
        for step in (1, 2):
            shutil.copytree(f"o/checkpoint-{step}", run / "o" / f"checkpoint-{step}")

    yield Case("models", "a run", prepare, TRAIN.split(), check=keep_run)

    def prepare_resume(draw: random.Random) -> str:
        shutil.copytree(run / "o", "o")
        return prepare(draw)

    def keep() -> None:
        for path in map(Path, folders.TRAINED):
            (reference / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, reference / path)

    yield Case("models", "a resume", prepare_resume, RESUME.split(), check=keep)


def case(models: Path, title: str, apply: Callable[[Path, random.Random], None], names: tuple[str, ...]) -> Case:
    byte = title.split(":")[0] in (*STATES, "model.safetensors", "_loss_net/model.safetensors") and "byte" in title

    def prepare(draw: random.Random) -> str:
        samples.write(samples.features())
        shutil.copytree(models / "run" / "o", "o")
        apply(LAST, draw)
        return folders.A_BYTE if byte else folders.IGNORED

    check = None if byte else lambda: folders.differences(models / "reference" / "run")
    return Case("checkpoints", title, prepare, RESUME.split(), (*names, "checkpoint-2"), check, seconds=40)


def cases(models: Path) -> Iterator[Case]:
    for file in FILES:
        if not (models / "run" / LAST / file).is_file():
            continue
        for title, change in CHANGES.items():
            for marked in (False, True):
                how = "marked as whole" if marked else "not marked"
                yield case(models, f"{file}: {title} ({how})", changed(file, change, marked), (file,))
    draw = random.Random(0)
    state = json.loads((models / "run" / LAST / "trainer_state.json").read_text())
    for where in folders.fields(state):
        for value in draw.sample(folders.POOL, 2):
            change = folders.one_field("trainer_state.json", where, value)

            def apply(folder: Path, draw: random.Random, change=change) -> None:
                change(folder, draw)
                changed("trainer_state.json", lambda path, draw: None, True)(folder, draw)

            field = next(str(key) for key in reversed(where) if isinstance(key, str))
            shown = f"trainer_state.json {'.'.join(map(str, where))} = {repr(value)[:24]}"
            yield case(models, shown, apply, (field, "trainer_state.json"))
