"""The flags of the programs that train: the dataclasses that all of them share, the help, and the check for flags that
nothing in the run reads.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

from transformers import TrainerCallback, TrainingArguments
from transformers.optimization import TYPE_TO_SCHEDULER_FUNCTION
from transformers.training_args import OptimizerNames

from ...core.task import TASKS, Task, task_losses
from ...energy_losses import CROSS_ENTROPY, ENERGY_LOSSES
from ...extensions.hypergradient import METHODS
from ...nets.adapters import LIBRARIES
from ...reports.common import UNASKED
from ...training.arguments import SealTrainingArguments
from ...training.energy_trainer import ENERGY_METHODS, EnergyTrainingArguments
from ...training.epochs import Patience
from ...utils.messages import check_owner, printable
from ...utils.options import default_of
from ...utils.recorded import HIDDEN, names_a_secret
from ..programs import ALL, FULL, given_flags

TOO_LONG = "--max_length is {asked}, but the encoder takes {most} tokens: {most} are read."


@dataclass(kw_only=True)
class OriginArguments:
    """How a pretrained or saved model is read."""

    revision: str | None = field(
        default=None, metadata={"help": "Branch, tag or commit of a model on the Hub; default: its main branch."}
    )
    trust_remote_code: bool = field(
        default=False,
        metadata={
            "help": "Run code that comes with the model. For one of the Hub, give the --revision that you have read."
        },
    )


@dataclass
class RunArguments:
    """When a run stops, whether its settings are searched, and what is written at its end."""

    patience: int = field(
        default=0,
        metadata={"help": "Stop after this many evaluations without gain (packaged recipes: 2 to 10); 0: never."},
    )
    tune: int = field(
        default=0,
        metadata={"help": "First search rates, dropout and λ1 in this many trials, then train the best; 0: no search."},
    )
    log_dicts: bool = field(
        default=False,
        metadata={"help": "Print all logged figures too, as the Trainer does; they are in trainer_state.json anyway."},
    )
    report: bool = field(default=True, metadata={"help": "Write report.html, a page on the run (matplotlib)."})


class Arguments(NamedTuple):
    """The arguments of a run, from its flags and its recipe.

    Attributes:
        data: the loader's arguments.
        nets: arguments of the nets and their inputs.
        run: when it stops, whether its settings are searched, whether its page is written.
        training: the trainer's arguments.
        given: names of the flags on the command line.
    """

    data: Any
    nets: Any
    run: RunArguments
    training: Any
    given: frozenset[str]

    @property
    def callbacks(self) -> list[TrainerCallback]:
        """The callbacks that `--patience` asks for. A recipe's patience has no effect in a run without evaluations."""
        waits = "patience" in self.given or self.training.eval_strategy != "no"
        return early_stopping(self.training, self.run.patience if waits else 0)

    @property
    def loss_net(self) -> dict[str, Any]:
        """Options of `for_data` on the loss-net."""
        return {"loss_net_encoder": self.training.loss_net_encoder}

    def origin(self, name: str | None) -> dict[str, Any]:
        """Options of `from_pretrained` for the model `name`, a folder or Hub id: its revision, and whether its own code
        runs.

        Raises:
            ValueError: there is no such model, but one of these flags is given.
        """
        options = {"revision": self.nets.revision, "trust_remote_code": self.nets.trust_remote_code or None}
        if name is None:
            check_owner(options, "a pretrained or saved model", "the nets are fresh")
        return {option: value for option, value in options.items() if value is not None}

    def value(self, name: str) -> Any:
        """The value of the argument `name`."""
        return getattr(self._owner(name), name)

    def changed(self, settings: Mapping[str, Any]) -> Arguments:
        """Give some settings other values, in place, and return these same objects."""
        for name, value in settings.items():
            setattr(self._owner(name), name, value)
        return self

    def say(self, text: str) -> None:
        """Print a line in one process of the run."""
        if self.training.process_index == 0:
            print(printable(text))

    def _owner(self, name: str) -> Any:
        return next(part for part in (self.data, self.nets, self.run, self.training) if hasattr(part, name))


def early_stopping(args: TrainingArguments, patience: int) -> list[TrainerCallback]:
    """The callback for `--patience`, the number of evaluations without gain after which a run stops; 0: no callback.

    Raises:
        ValueError: a negative number, or a run without evaluations or without a metric.
    """
    if patience < 0:
        raise ValueError(f"`patience` is {patience}; it must be a number of evaluations, or 0 to never stop early.")
    without = [
        f"{name} is {found!r}"
        for name, found, missing in (
            ("eval_strategy", str(getattr(args.eval_strategy, "value", args.eval_strategy)), "no"),
            ("metric_for_best_model", args.metric_for_best_model, None),
        )
        if found == missing
    ]
    if patience and without:
        raise ValueError(
            f"`patience` is {patience}, but {' and '.join(without)}: there is nothing to wait for. Give "
            "--eval_strategy epoch --save_strategy epoch --load_best_model_at_end true and a --metric_for_best_model, "
            "or leave --patience out."
        )
    return [Patience(patience)] if patience else []


# --- the help -------------------------------------------------------------------------------------------------------
#
# `--help` shows the dozen flags that matter, with their defaults, `--help GROUP` the flags of a group, and `--help_all`
# all of them. A flag belongs to the group of the dataclass that declares it, or of the section in that class's
# docstring that explains it. The last group has the Trainer's own flags, without those that every run needs or a recipe
# sets.

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
    "how long a run takes": "run",
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
        """The help on the flags that matter, except those in `without`, and the names of the groups of others."""
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
                texts = [(field, self._meanings[field.name]) for field in flags]
                lines += ["", f"{GROUPS[group]}:", *(line for each in texts for line in self._lines(*each, width))]
        return lines

    def groups(self) -> dict[str, list[Field]]:
        """Group -> its fields, ours before the Trainer's."""
        theirs = {field.name for field in fields(TrainingArguments) if field.init}
        found: dict[str, list[Field]] = {group: [] for group in GROUPS}
        for group, kind in zip(DECLARED_BY, self.arguments, strict=True):
            said, ours = documented(kind), declared_by_us(kind)
            for each in (each for each in fields(kind) if each.name in ours):
                found[said[each.name].group or group if each.name in said else group].append(each)
        ours = {field.name for group in found.values() for field in group}
        for each in fields(self.arguments[-1]):
            if each.name in theirs and each.name not in ours:
                found["run" if each.name in EVERY_RUN or self._is_set(each) else "trainer"].append(each)
        return found

    @cached_property
    def _meanings(self) -> dict[str, str]:
        return {field.name: meaning(field, kind) for kind in self.arguments for field in fields(kind)}

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


class Documented(NamedTuple):
    """What the docstring of a dataclass says of a field.

    Attributes:
        group: a key of `GROUPS`, by the title of the section; None: no section with such a title.
        text: the first sentence.
    """

    group: str | None
    text: str


def documented(kind: type) -> dict[str, Documented]:
    """Field -> what the sections "Parameters that ...:" say of it, in the docstrings of a class and of our bases."""
    found = {}
    for base in kind.__mro__:
        doc = inspect.cleandoc(base.__doc__ or "") if is_ours(base) else ""
        for section in re.split(r"(?m)^Parameters that ", doc)[1:]:
            title, _, entries = section.partition("\n")
            group = next((group for word, group in SECTIONS.items() if word in title), None)
            for entry in re.split(r"\n {4}(?=\w)", f"\n{entries.split(chr(10) * 2)[0]}")[1:]:
                names, _, text = entry.partition("): ")
                found.update(dict.fromkeys(re.findall(r"\b(\w+) \(`", names), Documented(group, _first_sentence(text))))
    return found


def _first_sentence(text: str) -> str:
    """The first sentence of an entry, as a sentence without the marks of a docstring."""
    first = re.split(r"(?<=\.)\s+(?=[A-Z])", " ".join(text.split()))[0]
    plain = re.sub(r"\[?`~?([^`]*)`\]?", r"\1", first)
    is_symbol = not plain[:1].isascii() or plain[1:2] == " "  # λ1, or m
    return plain if is_symbol else plain[:1].upper() + plain[1:]


def meaning(field: Field, kind: type) -> str:
    """What a flag does, in a sentence: the help of its field, or else what the docstring of its dataclass says."""
    given = field.metadata.get("help")
    return str(given or documented(kind).get(field.name, Documented(None, "")).text)


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


# --- flags that nothing reads -----------------------------------------------------------------------------------------
#
# They are an error, not silently ignored. A recipe may hold them: one file then serves several losses. Cross-entropy
# (`--loss ce`) accepts flags of energy losses: the baseline is then one flag away.

OF_ENERGY_LOSSES = {"energy_loss", "hypergradient", "sample_coherence"}
Readers = dict[str, dict[str, list[str]]]  # flag -> argument -> the values with which the flag is read
ANY: list[str] = []  # in place of these values: every one but None, False, and empty ones
SCHEDULES: dict[Any, Any] = TYPE_TO_SCHEDULER_FUNCTION
WARMED = [kind.value for kind, build in SCHEDULES.items() if "num_warmup_steps" in inspect.signature(build).parameters]
PROJECTED = [name.value for name in OptimizerNames if name.value.startswith(("galore", "apollo"))]
OF_NEEDED: dict[str, dict[str, list[str]]] = {  # flags -> as in `Readers`
    # of data and nets
    "adapter_rank adapter_targets": {"adapter": ANY, "loss_net_encoder": list(LIBRARIES)},
    # of the Trainer
    "eval_steps": {"eval_strategy": ["steps"]},
    "eval_delay": {"eval_strategy": ["steps", "epoch"]},
    "metric_for_best_model greater_is_better": {"eval_strategy": ["steps", "epoch"], "tune": ANY},
    "save_steps": {"save_strategy": ["steps"]},
    "save_total_limit save_only_model": {"save_strategy": ["steps", "epoch", "best"]},
    "warmup_steps warmup_ratio": {"lr_scheduler_type": WARMED},
    "optim_target_modules": {"optim": PROJECTED},
    "dataloader_persistent_workers dataloader_prefetch_factor": {"dataloader_num_workers": ANY},
    "length_column_name": {"group_by_length": ANY, "train_sampling_strategy": ["group_by_length"]},  # its two names
    "fsdp_config": {"fsdp": ANY},
    "gradient_checkpointing_kwargs": {"gradient_checkpointing": ANY},
    "liger_kernel_config": {"use_liger_kernel": ANY},
    "hub_model_id hub_strategy hub_private_repo hub_always_push hub_revision": {"push_to_hub": ANY},
    "project trackio_space_id trackio_bucket_id trackio_static_space_id": {"report_to": ["trackio"]},
}
NEEDED: Readers = {name: switches for names, switches in OF_NEEDED.items() for name in names.split()}


def check_flags(
    args: SealTrainingArguments | EnergyTrainingArguments, argv: Sequence[str] | None, task: str, *others: Any
) -> None:
    """Raises ValueError for a flag that nothing reads.

    Args:
        argv: the command line without the program's name; default `sys.argv[1:]`.
        task: the program's task, a key of `TASKS`.
        others: the program's arguments of data, nets and run.
    """
    given = set(given_flags(sys.argv[1:] if argv is None else argv))
    values: dict[str, Any] = {}
    for part in (args, *others):
        values |= vars(part)
        usual = {field.name for field in fields(part) if getattr(part, field.name) == default_of(field)}
        given -= usual  # they count as not given
    read_by = readers(args)
    if getattr(args, "energy_loss", None) == CROSS_ENTROPY:
        given -= {name for name, switches in read_by.items() if switches.keys() & OF_ENERGY_LOSSES}
    for name in sorted(given - TASKS[task].arguments):
        if programs := [f"{other.name} ({other.program})" for other in TASKS.values() if name in other.arguments]:
            raise ValueError(f"`{name}` is for another kind of output, {' or '.join(programs)}. Leave it out.")
    for name, other in idle(args).items():
        if name in given and other in vars(args):
            found = getattr(args, other)
            raise ValueError(f"`{name}` is not read if {other} is {found!r}. Leave it out, or give --{other}.")
    for name, switches in {**read_by, **NEEDED}.items():
        if name in given and not any(_reads(values.get(switch), read) for switch, read in switches.items()):
            read = " or with ".join(f"{switch} {' or '.join(read)}".strip() for switch, read in switches.items())
            found = " and ".join(f"{switch} is {_plain(values.get(switch))!r}" for switch in switches)
            give = " or ".join(f"--{switch}" for switch in switches)
            raise ValueError(f"`{name}` is read only with {read}, but {found}. Leave it out, or give {give}.")


def _reads(value: Any, read: Sequence[str]) -> bool:
    if read == ANY:
        return bool(value)
    return any(each in read for each in value) if isinstance(value, list) else value in read


def _plain(value: Any) -> Any:
    """The text of a choice of the Trainer, such as `no`; other values as they are."""
    return getattr(value, "value", value)


def readers(args: SealTrainingArguments | EnergyTrainingArguments) -> Readers:
    """For each flag that only some losses, methods or options read: the arguments it depends on."""
    found: Readers = defaultdict(lambda: defaultdict(list))
    for switch, values in _switches(args).items():
        for value, names in values.items():
            for name in names:
                found[name][switch].append(value)
    return found


def _switches(args: SealTrainingArguments | EnergyTrainingArguments) -> dict[str, Mapping[str, Iterable[str]]]:
    """Argument that makes a choice -> each of its values -> the arguments that this value reads."""

    def read(kinds: Mapping[str, Any]) -> dict[str, Iterable[str]]:
        return {name: kind.read(args) for name, kind in kinds.items()}

    if isinstance(args, EnergyTrainingArguments):
        return {"energy_method": read(ENERGY_METHODS)}
    task_loss: dict[str, list[str]] = defaultdict(list)
    found: dict[str, Mapping[str, Iterable[str]]] = {"energy_loss": read(ENERGY_LOSSES), "task_loss": task_loss}
    found["hypergradient"] = {name: [f"hypergradient_{option}" for option in names] for name, names in METHODS.items()}
    for task in reversed(TASKS.values()):
        found |= task.switches
        for name, names in read(task.task_losses).items():  # some share a name
            task_loss[name] += [each for each in names if each not in task_loss[name]]
    return found


def of_other_tasks(kind: type, task: str) -> set[str]:
    """The arguments of a class that only other tasks read."""
    read = {name: _of_task(each, kind) for name, each in TASKS.items()}
    return set().union(*read.values()) - read[task] - _of_energies(kind)


def _of_task(task: Task, kind: type) -> set[str]:
    """The arguments that not every task reads, but this one."""
    of_losses = {name for loss in task.task_losses.values() for name in loss.read(kind)}
    of_switches = {name for values in task.switches.values() for names in values.values() for name in names}
    return {*task.arguments, *of_losses, *of_switches}


def _of_energies(kind: type) -> set[str]:
    """The arguments that energy losses read, for any output."""
    return {name for loss in ENERGY_LOSSES.values() for name in loss.read(kind)}


def idle(args: SealTrainingArguments | EnergyTrainingArguments) -> dict[str, str]:
    """Option of the loss -> the other option whose value makes it ineffective."""
    if isinstance(args, EnergyTrainingArguments):
        return ENERGY_METHODS[args.energy_method].idle(args)
    found = task_losses()[args.task_loss][0].idle(args)
    if args.energy_loss == CROSS_ENTROPY:
        return found
    if args.loss_net_encoder == "shared":
        found = found | {"loss_net_encoder_learning_rate": "loss_net_encoder"}
    return found | ENERGY_LOSSES[args.energy_loss].idle(args)
