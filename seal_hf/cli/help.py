"""`--help` of the programs that train: our flags in groups, a line each, with their defaults.

A flag belongs to the group of the dataclass that declares it, or of the section in that class's docstring that explains
it. `--help_all` shows the Trainer's own flags; `--help` shows those that every run needs or a recipe sets.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from enum import Enum
from typing import Any

from transformers import TrainingArguments

from ..reports.common import UNASKED
from ..utils.recorded import HIDDEN, names_a_secret

SHORT, FULL = "--help --help_all".split()
GROUPS = {
    "data": "Data",
    "model": "Model",
    "energy": "Energy: losses, the loss-net, and how strongly it teaches",
    "decisions": "Decisions of the saved task-net, and its card",
    "run": "Run",
}
DECLARED_BY = ("data", "model", "run", "energy")  # groups of a program's dataclasses, in their order
SECTIONS = {"decisions": "decisions", "earlier run": "run"}  # word in the title of a docstring's section -> group
EVERY_RUN = (
    "output_dir num_train_epochs learning_rate per_device_train_batch_size gradient_accumulation_steps bf16 seed "
    "logging_steps report_to resume_from_checkpoint"
).split()
OF_THE_TRAINER = "Of the Trainer of transformers"
LEFT = 36  # columns for a flag and its value
WIDEST = 120


@dataclass(frozen=True)
class Help:
    """The help of one program.

    Attributes:
        prog: the name of the program.
        arguments: the dataclasses of its flags: data, nets, run and training.
        values: kind of data or net -> flag's field -> its default in the recipe for that kind.
        plain: flag's field -> its default without a recipe.
        unread: fields that nothing in this program reads.
        note: names the recipe of the values.
    """

    prog: str
    arguments: tuple[type, ...]
    values: Mapping[str, Mapping[str, Any]]
    plain: Mapping[str, Any]
    unread: Iterable[str] = ()
    note: str = ""

    def text(self, everything: bool = False) -> str:
        """The help, as wide as the terminal, at most 120 columns.

        Args:
            everything: full texts, and the Trainer's own flags too (`--help_all`); else a line for each flag.
        """
        width = min(shutil.get_terminal_size().columns, WIDEST)
        usage = f"usage: {self.prog} [-h] [{FULL}] [--recipe FILE.yaml] [FLAGS]"
        lines = [usage, "", *textwrap.wrap(self._legend, width)]
        titles = {**GROUPS, "": OF_THE_TRAINER} if everything else GROUPS
        groups = self.groups()
        for group, title in titles.items():
            flags = [field for field in groups[group] if field.name not in self.unread]
            if flags:
                lines += ["", f"{title}:", *(line for field in flags for line in self._lines(field, everything, width))]
        return "\n".join(lines)

    def groups(self) -> dict[str, list[Field]]:
        """Group -> its fields, ours before the Trainer's. The group "" is only in `--help_all`."""
        theirs = {field.name for field in fields(TrainingArguments) if field.init}
        found: dict[str, list[Field]] = {group: [] for group in (*GROUPS, "")}
        for group, kind in zip(DECLARED_BY, self.arguments, strict=True):
            documented, ours = documented_groups(kind), declared_by_us(kind)
            for field in fields(kind):
                if field.name in ours:
                    found[documented.get(field.name, group)].append(field)
        ours = {field.name for group in found.values() for field in group}
        for field in fields(self.arguments[-1]):
            if field.name in theirs and field.name not in ours:
                found["run" if field.name in EVERY_RUN or self._is_set(field) else ""].append(field)
        return found

    @property
    def _legend(self) -> str:
        among = f" a|b: for {'|'.join(self.values)}." if len(self.values) > 1 else ""
        return (
            f"Each flag is shown with its default; -: none, or it follows from other "
            f"flags.{among}{self.note} Full texts and the Trainer's flags: {FULL}."
        )

    def _is_set(self, field: Field) -> bool:
        """True if a recipe sets this flag of the Trainer."""
        return any(values[field.name] != self.plain[field.name] for values in self.values.values())

    def _lines(self, field: Field, everything: bool, width: int) -> list[str]:
        aliases = field.metadata.get("aliases") or [f"--{field.name}"]
        values = [shown(field.name, each[field.name]) for each in self.values.values()]
        value = values[0] if len(set(values)) == 1 else "|".join(values)
        left, text = f"  {aliases[0]} {value}".ljust(LEFT), " ".join((field.metadata.get("help") or "").split())
        indent = max(LEFT, len(left)) + 2
        if not everything:
            return [f"{left}  {textwrap.shorten(text, max(width - indent, 20), placeholder=' …')}".rstrip()]
        wrapped = textwrap.wrap(text, max(width - LEFT - 2, 20)) or [""]
        first = [f"{left}  {wrapped.pop(0)}"] if indent == LEFT + 2 else [left]
        return [line.rstrip() for line in (*first, *(f"{'':{LEFT + 2}}{line}" for line in wrapped))]


def documented_groups(kind: type) -> dict[str, str]:
    """Field -> group, by the sections "Parameters that ...:" in the docstrings of a class and of our bases."""
    found = {}
    for base in kind.__mro__:
        for section in re.split(r"\n\s*Parameters that ", base.__doc__ or "" if is_ours(base) else "")[1:]:
            title, _, text = section.partition("\n")
            group = next((group for word, group in SECTIONS.items() if word in title), None)
            if group is not None:
                found.update(dict.fromkeys(re.findall(r"\b(\w+) \(`", text), group))
    return found


def declared_by_us(kind: type) -> set[str]:
    """The fields that a dataclass or its bases declare, without those of the Trainer's arguments."""
    return {name for base in kind.__mro__ if is_ours(base) for name in vars(base).get("__annotations__", {})}


def is_ours(kind: type) -> bool:
    return kind is not object and not issubclass(TrainingArguments, kind)


def shown(name: str, value: Any) -> str:
    """A value as on a command line."""
    if value is MISSING:
        return "(needed)"
    if name == "output_dir" and value is None:
        return UNASKED
    if isinstance(value, str) and names_a_secret(name):
        return HIDDEN
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple, dict)) or value is None or value == "":
        return " ".join(map(str, value)) if value else "-"
    return f"{value:g}" if isinstance(value, float) else str(value)


def asked_for(words: Sequence[str]) -> str | None:
    """The word of a command line that asks for help, or None."""
    if FULL in words:
        return FULL
    return SHORT if {"-h", SHORT} & set(words) else None


def recipes_that_hold(
    words: Sequence[str], recipes: Mapping[str, str | None], kind: Callable[[], str]
) -> dict[str, str | None]:
    """The packaged recipes of a program that a command line may get: the one for its data or net if it names them and
    they exist, else all.

    Args:
        recipes: kind of data or net -> packaged recipe.
        kind: the command line's kind; raises ValueError or OSError if that is unknown.
    """
    if {word.split("=")[0] for word in words} & {"--dataset", "--model_name_or_path"}:
        try:
            found = kind()
        except (ValueError, OSError):
            return dict(recipes)
        return {found: recipes[found]}
    return dict(recipes)
