"""Every flag of `--help_all` of every program, with values that it should refuse and some at the edge."""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import signal
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from seal_hf.utils.messages import printable

from . import samples
from .engine import Case

HUGE = "9" * 30
NUMBERS = [
    "0",
    "-1",
    "-7",
    "1.5",
    HUGE,
    "-" + HUGE,
    "2147483648",
    "nan",
    "inf",
    "1e308",
    "1e-320",
    "0x10",
    "x",
    "",
    "1 2",
    "true",
    "१",
]
TEXTS = [
    "",
    " ",
    "zz",
    "none",
    "0",
    "-1",
    "nan",
    "{bad",
    "{}",
    '{"a": 1}',
    "[" * 5000,
    "[]",
    '"x"',
    "null",
    "a" * 5000,
    "\x1b[31m",
    "\u202e",
    "é",
    "a/b/c",
    "nowhere.yaml",
    ",",
    "--x",
    "\udcff",
]
SWITCHES = ["maybe", "", "2", "TRUE", "true", "false", "None"]
STEPS = "--inference_steps 1 --inference_steps_eval 1"
PROGRAMS = {  # words of a run that ends well within a second -> which of its flags are tried: its own or all
    "train mlc --dataset features --hidden_size 8 --global_size 4 --output_dir o {quick}": "all",
    "train mlc --dataset rows.csv --model_name_or_path {models}/encoder --output_dir o {quick}": "own",
    "train mlc --dataset pictures --hidden_size 8 --output_dir o {quick}": "own",
    "train tagging --dataset rows.conll --output_dir o {quick}": "own",
    "train srl --dataset roles.srl --model_name_or_path {models}/encoder --output_dir o {quick}": "own",
    "train parsing --dataset rows.trees --output_dir o {quick}": "own",
    "train segmentation --dataset masks.npz --crop_size 0 --output_dir o {quick}": "own",
    "train rewards --rules rules.yaml --dataset rows.csv --num_labelled 8 --model_name_or_path {models}/encoder "
    "--output_dir o {quick}": "own",
    f"train energy --dataset features --hidden_size 8 {STEPS} --output_dir o {{quick}}": "own",
    f"train mask-energy --dataset masks.npz --crop_size 0 {STEPS} --output_dir o {{quick}}": "own",
    "predict --model {models}/texts --input rows.csv --output o.csv": "all",
    "predict --model {models}/tags --input rows.conll --output o.jsonl": "all",
    "predict --model {models}/masks --input masks.npz --output o": "all",
    "evaluate --model {models}/texts --input rows.csv": "all",
    "evaluate --model {models}/tags --input rows.conll": "all",
    "evaluate --model {models}/classes --input classes.npz": "all",
    "export --model {models}/texts --output o.onnx": "all",
    "report run": "all",
    "demo --model {models}/texts --port 1": "all",
    "compare mlc --dataset features --losses ce --hidden_size 8 --num_train_epochs 1 --output_dir o": "all",
    "rules check rules.yaml --dataset rows.csv --data_seed 1": "all",
}
LONG = {"max_steps", "num_train_epochs", "budget", "tune"}  # a large number is a long run
LEFT_OUT = {"help", "help_all", "model", "input", "output", "share"}  # `share` opens a tunnel


def actions(words: list[str]) -> list[argparse.Action]:
    """The flags of the program that these words run."""
    from seal_hf.__main__ import COMMANDS
    from seal_hf.cli.recipes import recipe_parser

    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
    module = import_module(COMMANDS[name][0].split(":")[0])
    if name == "compare":
        return module.own_parser(module.kind_of(["mlc"])[0])._actions
    if name == "rules":
        arguments = [import_module("seal_hf.data").DataArguments, module.SeedArguments]
    elif name.startswith("train"):
        function = COMMANDS[name][0].split(":")[1]
        program = module.PROGRAM if name == "train rewards" else getattr(module, function).__self__
        arguments = program.arguments
    else:
        return parser_of(module, words[0])._actions
    return recipe_parser(list(arguments))._actions


def parser_of(module, name: str) -> argparse.ArgumentParser:
    """The parser of a program that has no dataclasses: caught when it parses."""
    found: list[argparse.ArgumentParser] = []

    class Caught(Exception):
        pass

    from seal_hf.cli.flags import Flags

    before = Flags.parse_known_args

    def catch(self, *given):
        found.append(self)
        raise Caught

    Flags.parse_known_args = catch  # type: ignore[method-assign]
    try:
        module.main([])
    except Caught:
        pass
    finally:
        Flags.parse_known_args = before  # type: ignore[method-assign]
    return found[0]


def values_of(action: argparse.Action, draw: random.Random, each: int) -> list[str]:
    kind = getattr(action.type, "__name__", str(action.type))
    if "bool" in kind or action.nargs == "?":
        pool = SWITCHES
    elif kind in ("int", "float", "at_least_one"):
        pool = [value for value in NUMBERS if action.dest not in LONG or len(value) < 3]
    else:
        pool = [*TEXTS, *NUMBERS[:4]]
    return draw.sample(pool, min(each, len(pool)))


def own_flags(words: list[str]) -> set[str]:
    """The flags of a program that no other one has: those of its data and nets."""
    from seal_hf.training.arguments import SealTrainingArguments

    return {action.dest for action in actions(words)} - {name for name in SealTrainingArguments.__dataclass_fields__}


def cases(models: Path, each: int = 3) -> Iterator[Case]:
    for program, which in PROGRAMS.items():
        words = shlex.split(program.format(models=models, quick=" ".join(samples.QUICK)))
        draw = random.Random(program)
        own = own_flags(words) if which == "own" else None
        label = " ".join(word for word in program.split(" --output_dir")[0].split() if "{" not in word)[:60]
        for action in actions(words):
            if action.dest in LEFT_OUT or not action.option_strings or own is not None and action.dest not in own:
                continue
            flag = next(flag for flag in action.option_strings if flag.startswith("--"))
            for value in values_of(action, draw, each):
                yield case(models, label, words, action.dest, flag, value)


def terminated_later(seconds: float = 6) -> None:
    """A demo ends then."""
    parent = os.getpid()
    if os.fork() == 0:
        time.sleep(seconds)
        os.kill(parent, signal.SIGTERM)
        os._exit(0)


def case(models: Path, label: str, words: list[str], dest: str, flag: str, value: str) -> Case:
    def prepare(draw: random.Random) -> str | None:
        samples.write(samples.data())
        if words[0] == "demo":
            terminated_later()
        if words[0] == "report":
            shutil.copytree(models / "texts", "run")
        return legal(dest, value)

    at = [i for i, word in enumerate(words) if word == flag]
    kept = [word for i, word in enumerate(words) if not any(i in (j, j + 1) for j in at)]
    names = (
        dest,
        dest.replace("_", " "),
        flag,
        *([printable(value)] if value.strip() else []),
        "File name too long",
        "usage",
        "NaN or infinite",
    )
    name = f"{label} {flag} {value[:30]!r} of {len(value)}"
    ends = (143, "a page that is served") if words[0] == "demo" and legal(dest, value) else None
    return Case("flags", name, prepare, [*kept, f"{flag}={value}"], names, seconds=90, ends=ends)


ANY_TEXT = {  # flags that take any text
    "run_name": "the name of a run",
    "tag_column": "-1 is the last column",
    "label_separator": "a note says if no cell has it",
    "ignore_index": "an id of pixels that do not count",
    "output_dir": "the name of a folder",
    "hub_token": "a token, which nothing asks for here",
    "text_column": "a column of files that are uploaded later",
    "image_column": "a column of files that are uploaded later",
    "word_column": "a column of files that are uploaded later",
    "log_level": "checked by the parser",
    "revision": "a folder has none; code of the Hub that it names would be read there",
}
ZERO = {  # flags for which 0 has a meaning
    "tune": "no search",
    "patience": "no early end",
    "task_weight": "the energy alone",
    "global_size": "no global energy",
    "dropout": "none of it",
    "adam_beta1": "no memory of gradients",
    "adam_beta2": "no memory of gradients",
    "port": "any free port",
    "seed": "a seed",
    "data_seed": "a seed",
}
OF_ZERO = ("_weight", "_decay", "_std", "_steps", "_rate", "_norm", "_delay", "_workers", "_alpha", "_scale", "_rows")


def legal(dest: str, value: str) -> str | None:
    """Why a command may end well with this value. What is not listed must be refused."""
    if value.lower() in ("true", "false"):
        return "a switch, which is on or off"
    try:
        number = float(value) if not value.startswith("0x") else float("nan")
    except ValueError:
        return ANY_TEXT.get(dest)
    if 0 < number < float("inf"):
        return "a number above 0"
    if number == 0 and (dest in ZERO or dest.endswith(OF_ZERO)):
        return ZERO.get(dest, "none of it")
    return ANY_TEXT.get(dest)
