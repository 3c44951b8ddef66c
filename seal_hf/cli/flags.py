"""Flags of `seal-hf predict`, `evaluate` and `demo`. A flag for another kind of output is an error."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..core.task import TASKS
from ..utils.messages import unknown_flag
from .programs import ALL, FULL, UsageError, help_asked_for

if TYPE_CHECKING:
    from .output_kind import OutputKind

LABELS, TAGS = ("labels",), ("tags", "trees")  # tasks
BATCH_SIZE = 32

COLUMNS, LOADING = "columns", "loading"
GROUPS = {COLUMNS: "the columns of the input", LOADING: "how the model is loaded and runs"}  # the others matter most


class Flags(ArgumentParser):
    """A parser whose flags know which tasks read them. `--help` shows those that matter most, `--help GROUP`
    those of a group, and `--help_all` all."""

    def __init__(self, prog: str, description: str):
        super().__init__(prog=prog, description=description, allow_abbrev=False)
        self.groups: dict[str, list[str]] = {}  # group -> its flags
        self.asked = ""  # for this help
        self.tasks: dict[str, Sequence[str]] = {}  # flag -> the tasks that read it, if not all do
        self.needed: list[str] = []

    def flag(self, name: str, *tasks: str, required: bool = False, group: str | None = None, **options: Any) -> None:
        """Add `--name`, which these tasks read; default: all. `group` is one of `GROUPS`."""
        if group is not None:
            self.groups.setdefault(group, []).append(name)
        if required:  # argparse would report missing flags before mistyped ones
            self.needed.append(name)
        if options.get("type") is bool:
            options |= {"type": _bool, "nargs": "?", "const": True, "default": False, "metavar": "true|false"}
        if tasks:
            self.tasks[name] = tasks
            options["help"] = f"{options['help']} For {_outputs_of(tasks)}."
        self.add_argument(f"--{name}", **options)

    def format_help(self) -> str:
        shown = [action for action in self._actions if self._is_shown(action.dest)]
        formatter = self._get_formatter()
        formatter.add_usage(None, shown, [])
        formatter.add_text(self.description)
        formatter.start_section("flags")
        formatter.add_arguments(shown)
        formatter.end_section()
        named = "; ".join(f"{group}, {GROUPS[group]}" for group in self.groups)
        if named and self.asked == "":
            formatter.add_text(f"More flags: {self.prog} --help GROUP. Groups: {named}. All flags: {FULL}.")
        return formatter.format_help()

    def _is_shown(self, name: str) -> bool:
        group = next((group for group, names in self.groups.items() if name in names), "")
        return self.asked in (ALL, group)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. All flags: {self.prog} --help.")

    def parsed(self, argv: Sequence[str] | None) -> Namespace:
        """The options that a command line gives.

        Raises:
            UsageError: a flag is unknown (the message names the nearest one) or missing, or a value is wrong.
        """
        words = sys.argv[1:] if argv is None else argv
        if (asked := help_asked_for(words, self.groups)) is not None:
            self.asked = asked
            self.print_help()
            self.exit()
        options, unknown = self.parse_known_args(words)
        if unknown:
            known = [flag for action in self._actions for flag in action.option_strings]
            raise UsageError(f"{unknown_flag(unknown[0], known)} All flags: {self.prog} --help.")
        missing = [f"--{name}" for name in self.needed if getattr(options, name) is None]
        if missing:
            self.error(f"{' and '.join(missing)} must be given")
        from ..utils.options import check_given  # imports NumPy, which --help does not need

        try:
            check_given(vars(options), {name: self.get_default(name) for name in vars(options)}, {})
        except ValueError as error:
            raise UsageError(f"{error} All flags: {self.prog} --help.") from error
        if getattr(options, "revision", None) is not None and Path(options.model).is_dir():
            self.error(f"`revision` is of a Hub id, but {options.model} is a folder. Leave it out")
        return options

    def check_task(self, options: Namespace, task: str, found: str | None = None) -> None:
        """Raises ValueError for a flag that this task does not read; `found` says which task it is."""
        for name, tasks in self.tasks.items():
            if task not in tasks and getattr(options, name) != self.get_default(name):
                found = found or f"{options.model} predicts {_outputs_of([task])}"
                raise ValueError(f"`{name}` is an option of {_outputs_of(tasks)}, but {found}. Leave it out.")


def _outputs_of(tasks: Sequence[str]) -> str:
    """What these tasks predict, in words."""
    return " and ".join(TASKS[task].outputs_name for task in tasks)


def add_common(flags: Flags) -> None:
    """Flags of `predict` and `evaluate`."""
    flags.flag("model", required=True, metavar="FOLDER_OR_HUB_ID", help="This saved task-net is used.")
    flags.flag(
        "input", required=True, metavar="FILE", help="This file or folder is read; for label sets, also a Hub id."
    )
    flags.flag(
        "output",
        metavar="FILE",
        help="The results go to this file, whose suffix names the format; default: the terminal.",
    )
    add_reading(flags)
    flags.flag("overwrite", type=bool, help="An existing output is replaced.")
    flags.flag(
        "split",
        *LABELS,
        *TAGS,
        "masks",
        help="This split is read, of a folder or, for label sets, of a Hub id; default: test, or the only one.",
    )
    flags.flag(
        "tag_column",
        *TAGS,
        group=COLUMNS,
        help="This column has the gold tags; default for evaluate: the last one, `tags` or `ner_tags`.",
    )


def add_reading(flags: Flags) -> None:
    """Add the flags that say how a model is loaded, how it reads inputs, and how it decides."""
    add_origin(flags)
    flags.flag(
        "decoder",
        help="This decoder decides in place of the stored one. For label sets and masks, it may be a threshold; for "
        "label sets, a FILE.json of `seal-hf decide fit`.",
    )
    flags.flag(
        "batch_size",
        type=at_least_one,
        default=BATCH_SIZE,
        group=LOADING,
        help="This many texts or images are read at once (default 32).",
    )
    flags.flag(
        "device",
        default="auto",
        group=LOADING,
        help="The model runs on this device: cpu, cuda, cuda:1, ... (default auto: an accelerator, if there is one).",
    )
    flags.flag(
        "dtype",
        choices=("float32", "bfloat16", "float16"),
        default="float32",
        group=LOADING,
        help="The weights have this type (default float32).",
    )
    flags.flag(
        "torch_compile",
        type=bool,
        group=LOADING,
        help="The task-net is compiled by torch.compile, which takes a minute and pays off on many rows.",
    )
    flags.flag(
        "max_length",
        *LABELS,
        *TAGS,
        type=at_least_one,
        help="This many tokens are read at once; default: as in training.",
    )
    flags.flag(
        "text_column",
        *LABELS,
        group=COLUMNS,
        help="This column has the texts; default: as in training, else `text`, or the only one of strings.",
    )
    flags.flag(
        "image_column",
        *LABELS,
        group=COLUMNS,
        help="This column has images, or the names of their files; default: as in training, or found.",
    )
    flags.flag(
        "word_column",
        *TAGS,
        group=COLUMNS,
        help="This column, counted from 0, or this JSON field has the words; it makes a .txt a file of columns.",
    )


def add_origin(flags: Flags) -> None:
    """Add the flags that say which version of a model is loaded and whether its code runs."""
    flags.flag("revision", group=LOADING, help="This branch, tag or commit of a Hub id is loaded.")
    flags.flag(
        "trust_remote_code", type=bool, group=LOADING, help="The model's own code runs; on the Hub it needs --revision."
    )


def add_predict(flags: Flags) -> None:
    """Add the flags of `predict`."""
    flags.flag(
        "energy", type=bool, help="The energy of each decided structure is added; the loss-net is loaded for it."
    )
    flags.flag(
        "probabilities",
        choices=("none", "top", "all"),
        help="These probabilities are written: of what is decided (top), of all labels, tags or pixels (all), or none. "
        "The default is top for label sets, and none for the others.",
    )
    flags.flag(
        "escape_formulas",
        *LABELS,
        type=bool,
        help="A ' is written before cells of a csv or tsv that a spreadsheet would run.",
    )


def add_evaluate(flags: Flags) -> None:
    """Add the flags of `evaluate`."""
    flags.flag("refit", type=bool, help="The decisions are fitted anew on these rows; the saved model stays unchanged.")
    flags.flag(
        "label_column",
        *LABELS,
        group=COLUMNS,
        help="This column has the gold labels; default: as in training, or `labels`.",
    )
    flags.flag(
        "label_separator",
        *LABELS,
        group=COLUMNS,
        help="This mark separates the labels of a cell; none: a cell is one name. Default: as in training, or found.",
    )
    flags.flag(
        "label_format",
        *LABELS,
        group=COLUMNS,
        choices=("auto", "ids", "names", "multi_hot"),
        default="auto",
        help="The gold labels are written in this form (default auto).",
    )


def open_kind(flags: Flags, options: Namespace) -> OutputKind:
    """The [`OutputKind`] for `options.model`, without loading its weights.

    Raises:
        OSError: the folder or repo does not exist.
        ValueError: another kind of model, or a flag for another kind of output.
    """
    from ..saving.loading import task_of_model  # late, so that `--help` is quick

    hub = {} if options.revision is None else {"revision": options.revision}
    task, space = task_of_model(options.model, hub)
    flags.check_task(options, task.name)
    if space not in task.outputs:
        raise ValueError(f"{options.model} predicts {task.name}, for which `predict` and `evaluate` read no files.")
    return task.outputs[space](options)


def _bool(text: str) -> bool:
    if (lowered := text.lower()) in ("true", "yes", "1"):
        return True
    if lowered in ("false", "no", "0"):
        return False
    raise ArgumentTypeError(f"{text!r} is neither true nor false")


def at_least_one(text: str) -> int:
    """The type of a flag that takes a whole number of at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return value
