"""`--help` of the programs that train: the dozen flags that matter, with their defaults. `--help GROUP` shows the flags
of a group, and `--help_all` all of them.

A flag belongs to the group of the dataclass that declares it, or of the section in that class's docstring that explains
it. The last group has the Trainer's own flags, without those that every run needs or a recipe sets.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from enum import Enum
from typing import Any

from transformers import TrainingArguments

from ..reports.common import UNASKED
from ..utils.recorded import HIDDEN, names_a_secret
from .programs import ALL, FULL

GROUPS = {
    "data": "Data: where they are, their columns and their rows",
    "model": "Model: the pretrained model, adapters, and the sizes of nets from scratch",
    "run": "Run: rates, epochs, evaluations, checkpoints, and what is printed and written",
    "energy": "Energy: what trains the loss-net, and how strongly it teaches",
    "loss_net": "Loss-net: its encoder, its updates, its optimizer and its memory",
    "task_loss": "Task loss: the task-net's own loss, and weights of labels",
    "output": "Output: options of tags, large label sets and masks",
    "implicit": "Implicit gradients of the loss-net",
    "decisions": "Decisions of the saved task-net, and its card",
    "trainer": "Trainer: the other flags of the Trainer of transformers",
}
DECLARED_BY = ("data", "model", "run", "energy")  # groups of a program's dataclasses, in their order
SECTIONS = {  # words in the title of a docstring's section -> group; the first that occur count
    "decisions": "decisions",
    "earlier run": "run",
    "the task loss": "task_loss",
    "implicit gradients": "implicit",
    "tag sequences": "output",
    "large label sets": "output",
    "masks": "output",
    "alternation": "loss_net",
    "the loss-net and its optimizer": "loss_net",
    "time and memory": "loss_net",
}
MAIN = {  # the flags that matter -> what they do, in whole sentences
    "dataset": "Give the data here: a file, a folder, a Hub id, or the name of embedded data.",
    "model_name_or_path": "Name the pretrained model to fine-tune, a folder or a Hub id. Without it a small net is "
    "trained from scratch, where the data allow it.",
    "output_dir": "The model, its card, its figures and report.html go to this folder.",
    "task_net_path": "The energy network learns from samples of this trained task-net.",
    "rules": "The rules in this file teach the rows without labels.",
    "num_labelled": "Only this many training rows keep their labels; the rules teach the others.",
    "energy_loss": "This loss trains the loss-net. The value ce trains none: it is the baseline to compare with.",
    "energy_method": "This method trains the energy network.",
    "energy_weight": "λ1 says how strongly the loss-net teaches. By default evaluations choose it, and it may stay 0.",
    "target": "This figure of the validation rows chooses the decision rule.",
    "learning_rate": "Lower the rate if the loss jumps, and raise it if the run was too short.",
    "num_train_epochs": "The run ends after this many passes over the training rows, or earlier by --patience.",
    "per_device_train_batch_size": "Each step reads this many rows on each device. Halve it if memory runs out.",
    "patience": "The run stops after this many evaluations without gain; 0 never stops early.",
    "tune": "This many trials search the settings first, and the run takes the best. It needs the extra optuna.",
    "seed": "The seed draws weights, samples and the order of rows. A second one shows how much of a gain is luck.",
    "resume_from_checkpoint": "Give the word last to go on with an interrupted run.",
    "overwrite_output_dir": "Give true to replace the run that the output folder holds.",
}
OF_RULES = ("num_labelled",)  # matters if rules teach the other rows
EVERY_RUN = (
    "output_dir num_train_epochs learning_rate per_device_train_batch_size gradient_accumulation_steps bf16 seed "
    "logging_steps report_to resume_from_checkpoint"
).split()
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

    def text(self, asked: str = "") -> str:
        """The help, as wide as the terminal, at most 120 columns.

        Args:
            asked: "" for the flags that matter, the name of a group for its flags, or `all`.
        """
        width = min(shutil.get_terminal_size().columns, WIDEST)
        usage = f"usage: {self.prog} [-h [GROUP]] [{FULL}] [--recipe FILE.yaml] [FLAGS]"
        lines = [usage, "", *textwrap.wrap(self._legend, width)]
        return "\n".join([*lines, *(self.main(width) if asked == "" else self.details(asked, width))])

    def main(self, width: int, without: Collection[str] = ()) -> list[str]:
        """The flags that matter, without some of them, and the names of the groups."""
        groups = {group: [f for f in found if f.name not in self.unread] for group, found in self.groups().items()}
        there = {field.name: field for found in groups.values() for field in found}
        without = [*without, *OF_RULES] if "rules" not in there else without
        flags = [(there[name], text) for name, text in MAIN.items() if name in there and name not in without]
        names = [f"  {group:<10} {GROUPS[group]} ({len(found)})" for group, found in groups.items() if found]
        names = [line for name in names for line in textwrap.wrap(name, width, subsequent_indent=" " * 13)]
        lines = [line for field, text in flags for line in self._lines(field, text, width)]
        intro = f"All flags in groups. `{self.prog} --help GROUP` shows one, and {FULL} shows all:"
        return ["", *lines, "", *textwrap.wrap(intro, width), *names]

    def details(self, asked: str, width: int) -> list[str]:
        """The flags of one group, or of all."""
        lines = []
        for group, found in self.groups().items():
            flags = [field for field in found if field.name not in self.unread]
            if flags and asked in (ALL, group):
                texts = [(field, str(field.metadata.get("help") or "")) for field in flags]
                lines += ["", f"{GROUPS[group]}:", *(line for each in texts for line in self._lines(*each, width))]
        return lines

    def groups(self) -> dict[str, list[Field]]:
        """Group -> its fields, ours before the Trainer's."""
        theirs = {field.name for field in fields(TrainingArguments) if field.init}
        found: dict[str, list[Field]] = {group: [] for group in GROUPS}
        for group, kind in zip(DECLARED_BY, self.arguments, strict=True):
            documented, ours = documented_groups(kind), declared_by_us(kind)
            for field in fields(kind):
                if field.name in ours:
                    found[documented.get(field.name, group)].append(field)
        ours = {field.name for group in found.values() for field in group}
        for field in fields(self.arguments[-1]):
            if field.name in theirs and field.name not in ours:
                found["run" if field.name in EVERY_RUN or self._is_set(field) else "trainer"].append(field)
        return found

    @property
    def _legend(self) -> str:
        among = f" a|b: for {'|'.join(self.values)}." if len(self.values) > 1 else ""
        return (
            f"Each flag is shown with its default; - means that it has none, or that it follows from other "
            f"flags.{among}{self.note}"
        )

    def _is_set(self, field: Field) -> bool:
        """True if a recipe sets this flag of the Trainer."""
        return any(values[field.name] != self.plain[field.name] for values in self.values.values())

    def _lines(self, field: Field, text: str, width: int) -> list[str]:
        aliases = field.metadata.get("aliases") or [f"--{field.name}"]
        values = [shown(field.name, each[field.name]) for each in self.values.values()]
        value = values[0] if len(set(values)) == 1 else "|".join(values)
        left = f"  {aliases[0]} {value}".ljust(LEFT)
        room = max(width - LEFT - 2, 20)
        wrapped = textwrap.wrap(" ".join(text.split()), room, break_on_hyphens=False) or [""]
        first = [f"{left}  {wrapped.pop(0)}"] if len(left) == LEFT else [left]
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
