"""Commands of pages and files, against the parsers of the programs that they start."""

from importlib import import_module

from seal_hf.__main__ import COMMANDS, OF_KINDS
from seal_hf.cli.recipes import check_words, recipe_parser
from seal_hf.lab.compare.kinds import KINDS
from seal_hf.lab.compare.program import own_parser
from seal_hf.tasks.rewards.program import PROGRAMS


def program_of(name, kind=None):
    """The program of `train NAME`; of rewards that of a kind."""
    module, function = COMMANDS[f"train {name}"][0].split(":")
    return PROGRAMS[kind or "tagging"] if name == "rewards" else getattr(import_module(module), function).__self__


def check_command(name, words):
    """UsageError if `seal-hf NAME` followed by these words has one that no flag takes; `name` begins with train or
    compare."""
    kind = words[0] if words and words[0] in OF_KINDS.get(name, ()) else None
    words = words[kind is not None :]
    if name == "compare" and kind == "rewards":
        words = own_parser(KINDS["mlc"]).parse_known_args(words)[1]
        return check_command("train rewards", words)
    if name == "compare":
        words = own_parser(KINDS[kind or "mlc"]).parse_known_args(words)[1]
    program = program_of(kind or "mlc") if name == "compare" else program_of(name.removeprefix("train "), kind)
    check_words(recipe_parser(program.arguments), words)
