"""Flags of `seal-hf predict`, `evaluate` and `demo`. A flag for another kind of output is an error."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ...utils.messages import unknown_flag
from ..programs import UsageError

LABELS, TAGS = "multi_label", "tag_sequence"
BATCH_SIZE = 32
KINDS = {LABELS: "label sets", TAGS: "tag sequences", "binary_mask": "masks", "masks": "masks of several classes"}


class Flags(ArgumentParser):
    """A parser whose flags know which kinds of output read them."""

    def __init__(self, prog: str, description: str):
        super().__init__(prog=prog, description=description, allow_abbrev=False)
        self.kinds: dict[str, tuple[str, ...]] = {}  # flag -> the kinds that read it, if not all do
        self.needed: list[str] = []

    def flag(self, name: str, *kinds: str, required: bool = False, **options: Any) -> None:
        """Add `--name`, which these kinds of output read; default: all kinds."""
        if required:  # argparse would report missing flags before mistyped ones
            self.needed.append(name)
        if options.get("type") is bool:
            options |= {"type": _bool, "nargs": "?", "const": True, "default": False, "metavar": "true|false"}
        if kinds:
            self.kinds[name] = kinds
            options["help"] = f"{' and '.join(KINDS[kind] for kind in kinds)}: {options['help']}"
        self.add_argument(f"--{name}", **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. All flags: {self.prog} --help.")

    def parsed(self, argv: Sequence[str] | None) -> Namespace:
        """Raises UsageError for an unknown flag (names the nearest one), a missing flag, or a wrong value."""
        options, unknown = self.parse_known_args(argv)
        if unknown:
            known = [flag for action in self._actions for flag in action.option_strings]
            raise UsageError(f"{unknown_flag(unknown[0], known)} All flags: {self.prog} --help.")
        missing = [f"--{name}" for name in self.needed if getattr(options, name) is None]
        if missing:
            self.error(f"{' and '.join(missing)} must be given")
        from ...utils.options import check_given  # imports NumPy, which --help does not need

        try:
            check_given(vars(options), {name: self.get_default(name) for name in vars(options)}, {})
        except ValueError as error:
            raise UsageError(f"{error} All flags: {self.prog} --help.") from error
        if getattr(options, "revision", None) is not None and Path(options.model).is_dir():
            self.error(f"`revision` is of a Hub id, but {options.model} is a folder. Leave it out")
        return options

    def check_kind(self, options: Namespace, kind: str) -> None:
        """Raises ValueError for a flag that this kind of output does not read."""
        for name, kinds in self.kinds.items():
            if kind not in kinds and getattr(options, name) != self.get_default(name):
                raise ValueError(
                    f"`{name}` is an option of {' and '.join(KINDS[kind] for kind in kinds)}, but {options.model} "
                    f"predicts {KINDS[kind]}. Leave it out."
                )


def add_common(flags: Flags) -> None:
    """Flags of `predict` and `evaluate`."""
    flags.flag("model", required=True, metavar="FOLDER_OR_HUB_ID", help="a saved task-net")
    flags.flag("input", required=True, metavar="FILE", help="file or folder; for label sets, also a Hub id")
    flags.flag("output", metavar="FILE", help="its suffix names the format; default: the terminal")
    add_reading(flags)
    flags.flag("overwrite", type=bool, help="replace an existing output")
    flags.flag("split", LABELS, TAGS, help="of a folder or, for label sets, a Hub id; default: test, or the only one")
    flags.flag("tag_column", TAGS, help="column of the gold tags; default for evaluate: the last, `tags` or `ner_tags`")


def add_reading(flags: Flags) -> None:
    """How a model is loaded, reads its inputs and decides."""
    add_origin(flags)
    flags.flag(
        "decoder", help="decoder in place of the stored one; for label sets and masks of two classes, also a threshold"
    )
    flags.flag("batch_size", type=at_least_one, default=BATCH_SIZE, help="texts or images read at once (default 32)")
    flags.flag("device", default="auto", help="cpu, cuda, cuda:1, ... (default auto: an accelerator, if any)")
    flags.flag(
        "dtype",
        choices=("float32", "bfloat16", "float16"),
        default="float32",
        help="type of the weights (default float32)",
    )
    flags.flag("max_length", LABELS, TAGS, type=at_least_one, help="tokens read at once; default: as in training")
    flags.flag(
        "text_column",
        LABELS,
        help="column of the texts; default: as in training, else `text`, or the only string column",
    )
    flags.flag(
        "image_column", LABELS, help="column of images or of names of their files; default: as in training, or found"
    )
    flags.flag(
        "word_column", TAGS, help="column of the words, counted from 0, or JSON field; makes a .txt a file of columns"
    )


def add_origin(flags: Flags) -> None:
    """Which version of a model is loaded, and whether its code runs."""
    flags.flag("revision", help="branch, tag or commit of a Hub id")
    flags.flag("trust_remote_code", type=bool, help="run the model's own code; on the Hub it needs --revision")


def add_predict(flags: Flags) -> None:
    """Flags of `predict`."""
    flags.flag("energy", type=bool, help="add the energy of each decided structure; loads the loss-net too")
    flags.flag(
        "probabilities",
        choices=("none", "top", "all"),
        help="for what is decided (top), for all labels, tags or pixels, or none; default: top for label sets, none "
        "for the others",
    )

    flags.flag(
        "escape_formulas", LABELS, type=bool, help="write ' before cells of a csv or tsv that a spreadsheet would run"
    )


def add_evaluate(flags: Flags) -> None:
    """Flags of `evaluate`."""
    flags.flag("refit", type=bool, help="fit the decisions anew on these rows; the saved model stays unchanged")
    flags.flag("label_column", LABELS, help="column of the gold labels; default: `labels` or `label`")
    flags.flag(
        "label_format",
        LABELS,
        choices=("auto", "ids", "names", "multi_hot"),
        default="auto",
        help="how the gold labels are written (default auto)",
    )


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
