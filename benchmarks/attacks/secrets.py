"""A token by flag, recipe and environment for each program of `flags.py`; searched in all files and lines it leaves."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

from . import flags, samples
from .engine import Case

TOKEN = "hf_" + "SecretOfTheCase" * 2
RECIPE = "token.yaml"
NOWHERE = "the token is in no file and no line"


def cases(models: Path) -> Iterator[Case]:
    for program in flags.PROGRAMS:
        if program.startswith(("demo", "rules")):  # a demo is not asked to end; rules take no token
            continue
        words = shlex.split(program.format(models=models, quick=" ".join(samples.QUICK)))
        ways = {"environment": words}
        if words[0] in ("train", "compare"):
            ways |= {"flag": [*words, f"--hub_token={TOKEN}"], "recipe": [*words, "--recipe", RECIPE]}
        for way, given in ways.items():
            name = f"{' '.join(word for word in program.split() if '{' not in word)[:60]}: by {way}"
            yield Case("secrets", name, prepared(models, words, way), given, check=leaks)


def prepared(models: Path, words: list[str], way: str):
    def prepare(draw: random.Random) -> str:
        samples.write(samples.data())
        if words[0] == "report":
            shutil.copytree(models / "texts", "run")
        Path(RECIPE).write_text(f"hub_token: {TOKEN}\n")
        if way == "environment":
            os.environ |= {"HF_TOKEN": TOKEN, "WANDB_API_KEY": TOKEN}
        return NOWHERE

    return prepare


def leaks() -> str | None:
    """A fault, if a file of the case, or of what it printed, holds the token."""
    found = []
    for path in (path for path in Path("..").rglob("*") if path.is_file() and path.name != RECIPE):
        contents = [str(path).encode(), path.read_bytes()]
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                contents += map(archive.read, archive.namelist())
        if any(TOKEN.encode() in content for content in contents):
            found.append(str(path))
    return f"the token is in {', '.join(found)}" if found else None
