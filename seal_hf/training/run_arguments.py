"""The arguments of a run's length, and those that guard an earlier run, for all trainers."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from accelerate.utils import DynamoBackend
from transformers import SchedulerType, Trainer, TrainingArguments
from transformers.optimization import TYPE_TO_SCHEDULER_FUNCTION
from transformers.trainer_pt_utils import AcceleratorConfig

from ..saving.checkpoints import as_pickled
from ..utils.messages import brief
from ..utils.options import check_arguments, check_value
from ..utils.recorded import recorded, remember

LIMITS: dict[str, dict[str, Any]] = {  # of the Trainer's own arguments; transformers checks some others
    "learning_rate weight_decay adam_epsilon max_grad_norm num_train_epochs logging_steps eval_steps eval_delay "
    "dataloader_num_workers neftune_noise_alpha": {"least": 0},
    "save_total_limit per_device_train_batch_size per_device_eval_batch_size gradient_accumulation_steps "
    "eval_accumulation_steps dataloader_prefetch_factor ddp_bucket_cap_mb ddp_timeout": {"least": 1},
    "min_steps": {"least": 0},
    "seed data_seed": {"least": 0, "most": 2**32 - 1, "whole": True},  # as numpy takes them
    "adam_beta1 adam_beta2": {"least": 0, "below": 1},
    "save_steps": {"above": 0},
    "max_steps local_rank": {"least": -1},
}
FILES = ("accelerator_config", "fsdp_config")  # arguments that may name a JSON file in place of JSON


@dataclass
class GuardedArguments(TrainingArguments):
    """[`~transformers.TrainingArguments`], how many steps a run takes at least, and what it may do with an earlier run.

    Parameters that control how long a run takes:
        min_steps (`int`, default 0): with few training rows `num_train_epochs` grows, until the run has so many
            updates. With `max_steps`, and for streams without a length, it changes nothing.

    Parameters that control an earlier run in the output folder:
        resume_from_checkpoint (`str`, optional): the folder of a checkpoint; `true`, the last complete one in the
            output folder; or `last`, the same, but a run without checkpoints starts anew. Programs read it; in Python
            it is an argument of `train`, as with the Trainer.
        resume_changed (`bool`, default False): resume although arguments, rows or nets differ from those of the
            checkpoint's run, which are in its `_run.json`. Without it, such a resume is a ValueError.
        overwrite_output_dir (`bool`, default False): programs replace the run that the output folder holds. The
            trainers, like the Trainer of transformers 5, do not check the folder.
    """

    min_steps: int = field(default=0, metadata={"help": "More epochs with few rows, up to so many updates."})
    resume_from_checkpoint: str | None = field(
        default=None, metadata={"help": "Resume from a checkpoint: its folder, or last: the last one, if any."}
    )
    resume_changed: bool = field(
        default=False, metadata={"help": "Resume although arguments differ from the checkpoint's."}
    )
    overwrite_output_dir: bool = field(
        default=False, metadata={"help": "Replace the run that the output folder holds."}
    )

    def __getstate__(self) -> dict[str, Any]:
        return as_pickled(vars(self))

    def to_dict(self) -> dict[str, Any]:
        """As the Trainer's, for logs and services, without secrets."""
        return recorded(super().to_dict())

    def __post_init__(self) -> None:
        check_arguments(self, LIMITS)  # before the Trainer computes with them
        if self.max_steps == 0:
            raise ValueError("`max_steps` is 0; it must be at least 1, or -1 for all of `num_train_epochs`.")
        for name in self._VALID_DICT_FIELDS:
            if isinstance(text := getattr(self, name), str):
                _check_json(name, text)
        if self.optim_args and not all(part.count("=") == 1 for part in self.optim_args.split(",")):
            raise ValueError(f"`optim_args` is {brief(self.optim_args)}; it must be key=value, with commas between.")
        if self.torch_compile_backend is not None:
            backends = [backend.value.lower() for backend in DynamoBackend]
            check_value("torch_compile_backend", self.torch_compile_backend.lower(), backends)
        if self.torch_compile_mode is not None and self.torch_compile_backend in (None, "inductor"):
            from torch._inductor import list_mode_options  # takes a second to import

            check_value("torch_compile_mode", self.torch_compile_mode, list_mode_options())
        super().__post_init__()
        remember(vars(self))
        _check_optim_args(self)
        build: Any = TYPE_TO_SCHEDULER_FUNCTION[SchedulerType(self.lr_scheduler_type)]
        takes = inspect.signature(build).parameters
        unknown = [key for key in self.lr_scheduler_kwargs or {} if key not in takes]
        if unknown and not any(each.kind is each.VAR_KEYWORD for each in takes.values()):
            schedule = SchedulerType(self.lr_scheduler_type).value  # its function would not get the key
            raise ValueError(
                f"`lr_scheduler_kwargs` has {unknown[0]!r}, which the schedule {schedule!r} does not take."
            )


def _check_optim_args(args: TrainingArguments) -> None:
    """Raises ValueError for a key of `optim_args` that changes nothing, whatever its value."""
    pairs = [part.split("=") for part in (args.optim_args or "").split(",") if part]
    for key, value in pairs:
        others = [f"{name}={given}" for name, given in pairs if name != key]
        found = {_optimizer(args, [*others, *own]) for own in ([], *([f"{key}={each}"] for each in (value, 0, 1)))}
        if len(found) == 1 and None not in found:
            optim = getattr(args.optim, "value", args.optim)
            raise ValueError(
                f"`optim_args` has {brief(key)}, which the optimizer {optim!r} does not read. Leave it out."
            )


def _optimizer(args: TrainingArguments, pairs: list[str]) -> str | None:
    """What the Trainer builds with these pairs as `optim_args`; None if it refuses them."""
    given = copy.copy(args)
    given.optim_args = ",".join(pairs)
    try:
        return repr(Trainer.get_optimizer_cls_and_kwargs(given))
    except Exception:  # it reads the key; or it says itself why it cannot build the optimizer
        return None


def _check_json(name: str, text: str) -> None:
    """Raises ValueError for a text that the Trainer shall read as JSON, or as the name of a JSON file, and cannot."""
    place, file = brief(text), Path(text)
    if name in FILES and not text.startswith("{"):
        if not file.is_file():
            raise ValueError(f'`{name}` is {place}, which is no file. Give JSON, {{"key": value}}, or a JSON file.')
        place = f"the file {place}"
    elif name == "deepspeed" and not text.startswith("{"):
        return  # its library also takes other forms
    try:
        found = json.loads(file.read_text(encoding="utf-8") if place.startswith("the file") else text)
        problem = "" if isinstance(found, dict) else f"that holds a {type(found).__name__}"
        if name == "accelerator_config" and not problem:
            known = [each.name for each in fields(AcceleratorConfig)]
            unknown = [key for key in found if key not in known]
            problem = f"with the unknown key {unknown[0]!r}; known are {', '.join(known)}" if unknown else ""
    except (ValueError, RecursionError) as error:
        problem = f"which is not JSON ({error})"
    if problem:
        raise ValueError(f'`{name}` is {place}, {problem}. Give keys and values: {{"key": value}}.')


def check_saving(args: TrainingArguments) -> None:
    """Raises ValueError for a checkpoint on SIGTERM, which transformers 5 writes in the middle of a step, and for
    weights that are pickles, an option of transformers 4."""
    if not vars(args).get("save_safetensors", True):
        raise ValueError("`save_safetensors` is False, but saved nets are read as safetensors alone. Leave it out.")
    if vars(args).get("enable_jit_checkpoint"):
        raise ValueError(
            "`enable_jit_checkpoint` is True, but it saves between the updates of loss-net and task-net, where no run "
            "can resume exactly. Save every few steps instead (save_strategy='steps', save_steps=N): checkpoints "
            "survive a kill at any moment."
        )


def check_own_loss(args: TrainingArguments, compute_loss_func: Callable | None) -> None:
    """Raises ValueError for options that change the Trainer's own loss, which our trainers do not use."""
    given = {"label_smoothing_factor": args.label_smoothing_factor, "compute_loss_func": compute_loss_func}
    for name, value in given.items():
        if value:
            raise ValueError(
                f"`{name}` is {value!r}, but it changes the Trainer's own loss, which this trainer does not use. Leave "
                "it out; choose a loss by `task_loss` (--task_loss), or pass SealTrainer a function."
            )


def check_label_names(args: TrainingArguments) -> None:
    """Raises ValueError for label columns of another name."""
    if args.label_names not in (None, ["labels"]):
        raise ValueError(
            f"`label_names` is {args.label_names!r}, but gold outputs are read from the column `labels`. Rename your "
            "column, and leave the argument out."
        )
