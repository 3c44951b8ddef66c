"""The command `seal-hf`, or `python -m seal_hf`. A subcommand is imported only when it is run, so help and errors are
quick."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NoReturn

from .cli.known_flags import mistyped_flag
from .cli.programs import run_program
from .utils.messages import did_you_mean, printable

COMMANDS = {  # subcommand -> (module:function of a command line, what it does)
    "predict": ("seal_hf.cli.predict:main", "apply a saved model to new data: labels, tags, trees or masks"),
    "evaluate": ("seal_hf.cli.predict:evaluate", "measure a saved model on labelled data"),
    "export": ("seal_hf.cli.export:main", "write a saved model as an ONNX file"),
    "train mlc": ("seal_hf.tasks.labels.program:main", "label sets, with a loss-net or without"),
    "train tagging": ("seal_hf.tasks.tags.program:main", "tags: parts of speech, entities, citation fields"),
    "train srl": ("seal_hf.tasks.tags.program:role_main", "semantic roles of a given predicate"),
    "train parsing": ("seal_hf.tasks.tags.program:tree_main", "constituency trees, by one tag per word"),
    "train segmentation": ("seal_hf.tasks.masks.program:main", "masks of images"),
    "train rewards": (
        "seal_hf.tasks.rewards.program:main",
        "any of these, from few labelled rows and rules for the others",
    ),
    "train energy": ("seal_hf.tasks.labels.program:energy_main", "an energy network of label sets on its own"),
    "train mask-energy": ("seal_hf.tasks.masks.program:energy_main", "an energy network of masks on its own"),
    "decide fit": (
        "seal_hf.cli.decide:fit",
        "fit decisions on probabilities of any model, and gold labels",
    ),
    "decide apply": ("seal_hf.cli.decide:apply", "decide on new probabilities, and say which rows to review"),
    "decide report": ("seal_hf.cli.decide:report", "figures of decisions on labelled rows, and a page"),
    "rules": (
        "seal_hf.tasks.rewards.program:check_main",
        "rules check FILE: what each rule does on data, before training",
    ),
    "report": ("seal_hf.cli.report:main", "a page on a run: figures, curves, errors"),
    "demo": ("seal_hf.lab.demo.program:main", "show in the browser what a saved model predicts"),
    "compare": ("seal_hf.lab.compare.program:command", "methods on one data set, each tuned with the same budget"),
    "analyse": ("seal_hf.lab.analysis:main", "what a trained energy has learned"),
}
COMPARED = ("mlc", "tagging", "srl", "parsing", "segmentation")  # `compare KIND` also takes the flags of `train KIND`
REWARDED, REWARDS = "train rewards", "rewards"  # `compare rewards` takes the flags of the former
OF_REWARDS = {  # first word of `train rewards`, which the rules also tell -> its flags, as for `known_flags`
    "mlc": "seal_hf.tasks.rewards.program:LABEL_ARGUMENTS",
    "tagging": "seal_hf.tasks.rewards.program",
    "segmentation": "seal_hf.tasks.rewards.program:MASK_ARGUMENTS",
}
GROUPS = ("train", "decide")  # first words of subcommands of two words
CHECKED = ("train", "compare")  # their flags are checked before they are imported
HELP = ("-h", "--help")


def main() -> None:
    """Run the subcommand that `sys.argv` names. A mistyped subcommand or flag ends with one line and status 2."""
    run_program(_run)


def _run() -> None:
    name, words = subcommand(sys.argv[1:])
    module, function = COMMANDS[name][0].split(":")
    kind = kind_compared(words) if name == "compare" else None
    given = words[:1] if words[:1] == [kind] or (name == REWARDED and words and words[0] in OF_REWARDS) else []
    sys.argv = [" ".join(["seal-hf", name, *given]), *words[len(given) :]]  # what messages and --help call the program
    if name.startswith(CHECKED) and (mistake := mistyped_flag(modules_of_flags(name, kind), sys.argv[1:])):
        refuse(mistake)
    getattr(import_module(module), function)(words)


def subcommand(words: list[str]) -> tuple[str, list[str]]:
    """The name in `COMMANDS` and the words after it. Help and unknown subcommands end the program."""
    sys.argv[0], group = "seal-hf", ""
    if words and words[0] in GROUPS:
        sys.argv[0], group, words = f"seal-hf {words[0]}", f"{words[0]} ", words[1:]
    known = {name.removeprefix(group).split()[0] for name in COMMANDS if name.startswith(group)}
    if not words or words[0] in HELP:
        print(help_of(group), file=sys.stdout if words else sys.stderr)
        sys.exit(0 if words else 2)
    name = words[0].replace("_", "-")
    if name not in known:
        near = f" Did you mean 'train {name}'?" if f"train {name}" in COMMANDS else did_you_mean(name, known)
        refuse(f"no subcommand {name!r}.{near} All of them: {sys.argv[0]} --help.")
    return group + name, words[1:]


def kind_compared(words: list[str]) -> str:
    """The kind of output that `compare` gets as its first word; by default the first. Another word ends the program."""
    kind, known = words[0] if words and not words[0].startswith("-") else COMPARED[0], (*COMPARED, REWARDS)
    if kind not in known:
        sys.argv[0] = "seal-hf compare"
        refuse(f"no kind of output {kind!r}.{did_you_mean(kind, known)} All of them: {', '.join(known)}.")
    return kind


def modules_of_flags(name: str, kind: str | None = None) -> list[str]:
    """The modules whose flags a subcommand takes: its own, and for a kind of output those of its training."""
    if name == REWARDED:
        return list(OF_REWARDS.values())
    if kind == REWARDS:
        return [*modules_of_flags(name), *modules_of_flags(REWARDED)]
    names = [name] if kind is None else [name, f"train {kind}"]
    return [flags_of(COMMANDS[each][0]) for each in names]


def flags_of(program: str) -> str:
    """MODULE:energy_main -> MODULE:ENERGY_ARGUMENTS, the tuple of its flags; that of MODULE:main is the usual one."""
    module, _, function = program.partition(":")
    return f"{module}:{function.removesuffix('main').upper()}ARGUMENTS" if function.endswith("_main") else module


def help_of(group: str) -> str:
    """The subcommands of a group such as `train `, or all for ""."""
    lines = [f"  {name:<18}  {what}" for name, (_, what) in COMMANDS.items() if name.startswith(group)]
    usage = f"usage: {sys.argv[0]} SUBCOMMAND [FLAGS]"
    return "\n".join([usage, "", *lines, "", "Flags of each: seal-hf SUBCOMMAND --help."])


def refuse(message: str) -> NoReturn:
    """End with one line and the status of a mistaken command line."""
    print(printable(f"{sys.argv[0]}: {message}"), file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
