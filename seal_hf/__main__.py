"""The command `seal-hf`, or `python -m seal_hf`. A subcommand is imported only when it is run, so help and errors are
quick."""

from __future__ import annotations

import sys
from importlib import import_module

from .cli.programs import UsageError, run_program
from .utils.messages import did_you_mean

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
OF_KINDS = {  # subcommand -> the kinds of output that its first word may name
    "compare": ("mlc", "tagging", "srl", "parsing", "segmentation", "rewards"),
    "train rewards": ("mlc", "tagging", "segmentation"),
}
GROUPS = ("train", "decide")  # first words of subcommands of two words
HELP = ("-h", "--help")


def main() -> None:
    """Run the subcommand that `sys.argv` names. A mistyped subcommand or flag ends with one line and status 2."""
    run_program(_run)


def _run() -> None:
    name, words = subcommand(sys.argv[1:])
    module, function = COMMANDS[name][0].split(":")
    kind = [word for word in words[:1] if word in OF_KINDS.get(name, ())]
    sys.argv = [" ".join(["seal-hf", name, *kind]), *words[len(kind) :]]  # what messages and --help call the program
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
        raise UsageError(f"no subcommand {name!r}.{near} All of them: {sys.argv[0]} --help.")
    return group + name, words[1:]


def help_of(group: str) -> str:
    """The subcommands of a group such as `train `, or all for ""."""
    lines = [f"  {name:<18}  {what}" for name, (_, what) in COMMANDS.items() if name.startswith(group)]
    usage = f"usage: {sys.argv[0]} SUBCOMMAND [FLAGS]"
    return "\n".join([usage, "", *lines, "", "Flags of each: seal-hf SUBCOMMAND --help."])


if __name__ == "__main__":
    main()
