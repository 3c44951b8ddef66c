"""Command-line flags that nothing in the run reads are an error, not silently ignored. A recipe may hold them: one file
then serves several losses. Cross-entropy (`--loss ce`) accepts flags of energy losses: the baseline is then one flag
away."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from inspect import signature
from typing import Any

from transformers.optimization import TYPE_TO_SCHEDULER_FUNCTION
from transformers.training_args import OptimizerNames

from ..core.task import TASKS, Task, task_losses
from ..energy_losses import CROSS_ENTROPY, ENERGY_LOSSES
from ..energy_losses.regression import Regression
from ..extensions.implicit.hypergradient import METHODS
from ..nets.adapters import LIBRARIES
from ..training.arguments import SealTrainingArguments
from ..training.energy_methods import ENERGY_METHODS, EnergyTrainingArguments
from ..utils.options import default_of
from .programs import given_flags

OF_ENERGY_LOSSES = {"energy_loss", "hypergradient", "sample_coherence"}
Readers = dict[str, dict[str, list[str]]]  # flag -> argument -> the values with which the flag is read
ANY: list[str] = []  # in place of these values: every one but None, False, and empty ones
SCHEDULES: dict[Any, Any] = TYPE_TO_SCHEDULER_FUNCTION
WARMED = [kind.value for kind, build in SCHEDULES.items() if "num_warmup_steps" in signature(build).parameters]
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
        return {name: _with_score(kind, kind.read(args)) for name, kind in kinds.items()}

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


def _with_score(kind: type, names: Iterable[str]) -> set[str]:
    """The arguments that a loss reads, and `tag_score` if its cost or its regression takes a score."""
    return {*names, "tag_score"} if "margin_cost" in names or issubclass(kind, Regression) else {*names}


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
