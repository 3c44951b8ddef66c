"""A trainer's files on disk: complete checkpoints, the nets in them, and the record of the run, with the arguments,
rows and nets that change what it learns."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from logging import LogRecord, getLogger
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from transformers import PreTrainedModel, TrainingArguments
from transformers.trainer import (
    OPTIMIZER_NAME,
    SCALER_NAME,
    SCHEDULER_NAME,
    TRAINER_STATE_NAME,
    TRAINING_ARGS_NAME,
)
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import logging

from ..data.tensors.collators import TensorRows
from ..energy_losses import ENERGY_LOSSES
from ..extensions import wanted_extensions
from ..loss_net.energy_weight import ALIGNMENT, PULL, WEIGHT
from ..loss_net.loss_net import LOSS_NET_FOLDER, LossNet
from ..nets.adapters import library_of
from ..nets.frozen_encoder import FEATURES, OUTPUTS
from ..nets.text_pooling import PooledConfig, reading_in_words
from ..saving.checkpoints import (
    check_complete,
    check_same_run,
    checkpoint_to_resume,
    plain,
    read_record,
    rotate,
    write_record,
    written_whole,
)
from ..saving.export import ADAPTER_FILES, folded, remove_stale, save_nets, saves_merged
from ..saving.loss_net import (
    STATE,
    check_fits,
    check_resumable,
    load_learner_state,
    load_loss_net_weights,
    save_learner_state,
    save_loss_net,
)
from ..saving.states import (
    are_renamed,
    check_like,
    check_optimizer,
    check_optimizer_fits,
    check_random_state,
    check_run_state,
    read_renamed,
    read_state,
)
from ..utils.compat import with_later_names
from ..utils.gate import check_origin
from ..utils.options import default_of
from .launchers import check_resume
from .meters import CarriedFigures

logger = logging.get_logger(__name__)


OF_THE_TRAINER = (  # arguments of the Trainer that change what a run learns, or which of its epochs is kept
    "seed data_seed learning_rate lr_scheduler_type lr_scheduler_kwargs warmup_steps num_train_epochs max_steps "
    "per_device_train_batch_size gradient_accumulation_steps dataloader_drop_last train_sampling_strategy optim "
    "optim_args optim_target_modules weight_decay adam_beta1 adam_beta2 adam_epsilon max_grad_norm bf16 fp16 "
    "neftune_noise_alpha eval_strategy eval_steps eval_delay load_best_model_at_end metric_for_best_model "
    "greater_is_better"
).split()
AFTERWARDS = (  # arguments of ours that change nothing of what is learned
    "overwrite_output_dir resume_changed decoder target fold_decision license adapter_export "
    "loss_net_gradient_checkpointing"
).split()
FRESH = "fresh_head"  # key of a record: names of the task-net's parameters that did not come with its encoder
LOOKED_AT = 1000  # rows read of a `datasets.Dataset`
SHARE = re.compile(r"\n\t\w+_steps: 0\.\d+ \(from args\) != \d+ \(from trainer_state\.json\)")


def record_of(trainer: Any) -> dict[str, Any]:
    """The record of a trainer's run with its current arguments."""
    args = trainer.args
    ours = {name: getattr(args, name) for name in own_defaults(args)}
    if "task_loss" in ours:  # a user's own one is not among the arguments
        ours["task_loss"] = trainer.task_loss_name
    if ours.get("loss_net_feature_cache") is not None:  # the folder's name is not a setting
        ours["loss_net_feature_cache"] = "given"
    facts = {
        **{f"{name}_data": trainer.contents_of(f"{name}_dataset") for name in ("train", "eval")},
        **{"model": net_in_words(trainer.model), "loss_net": net_in_words(getattr(trainer, "loss_net", None))},
        "processes": args.world_size,
        FRESH: getattr(trainer, "fresh", set()),
    }
    theirs = with_later_names(args)
    return plain({**facts, **{name: theirs[name] for name in OF_THE_TRAINER}, **ours, **trainer.run_settings})


def own_defaults(args: TrainingArguments) -> dict[str, Any]:
    """Our arguments that belong in a record, with their defaults."""
    of_the_trainer = {field.name for field in fields(TrainingArguments)}
    own = [field for field in fields(args) if field.name not in of_the_trainer and field.name not in AFTERWARDS]
    return {field.name: default_of(field) for field in own}


def net_in_words(net: Any) -> str | None:
    """The class and size of a net in words, and how a classifier of ours reads texts. None without a net."""
    if net is None:
        return None
    reads = f", reads {reading_in_words(net)}" if isinstance(getattr(net, "config", None), PooledConfig) else ""
    return f"{type(net).__name__}, {sum(parameter.numel() for parameter in net.parameters())} parameters{reads}"


def contents(dataset: Any) -> Any:
    """The number of rows of a data set and 16 digits of a hash, by which a resume notices other rows.

    The hash covers all rows of [`TensorRows`], though of features only a rounded mean and spread, since last digits
    differ between machines. Of a `datasets.Dataset` it covers the first `LOOKED_AT` rows. Other data sets have no hash.
    """
    if dataset is None or isinstance(dataset, dict):
        return None if dataset is None else {name: contents(each) for name, each in dataset.items()}
    if not hasattr(dataset, "__len__"):
        return type(dataset).__name__
    digest = hashlib.sha256()
    if isinstance(dataset, TensorRows):
        columns = {**dataset.dense, **{name: flat for name, (flat, _) in dataset.ragged.items()}}
        for name in sorted(columns.keys() - {FEATURES, OUTPUTS}):
            digest.update(name.encode() + _content(columns[name], exact=name == "labels"))
    elif isinstance(dataset, Dataset):
        digest.update(repr(dataset.with_format("arrow")[:LOOKED_AT].to_pylist()).encode())
    else:
        return f"{len(dataset)} rows"
    return f"{len(dataset)} rows, {digest.hexdigest()[:16]}"


def _content(column: Tensor, exact: bool) -> bytes:
    if column.is_floating_point() and not exact:
        return f"{column.shape} {column.mean():.3g} {column.std():.3g}".encode() if column.numel() > 1 else b""
    return column.contiguous().view(torch.uint8).numpy().tobytes() if column.numel() else b""


@contextmanager
def without_shares() -> Iterator[None]:
    """While the block runs, leave shares of a run out of what transformers says of arguments that a resume changes: it
    compares a share of steps with the steps that it came to."""
    loggers = [getLogger(f"transformers.{module}") for module in ("trainer", "trainer_utils")]  # of 4.57 and 5
    for logger in loggers:
        logger.addFilter(_without_shares)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_without_shares)


def _without_shares(record: LogRecord) -> bool:
    text, shares = SHARE.subn("", record.getMessage())
    record.msg, record.args = (text, None) if shares else (record.msg, record.args)
    return not shares or "(from args)" in text


class Checkpoints:
    """The checkpoints of a trainer that trains only its `model`.

    A trainer makes one for each use and keeps none: two objects that hold each other would stay in memory.

    Args:
        trainer: its model, arguments and state are read at each call.
    """

    def __init__(self, trainer: Any):
        self.trainer = trainer

    # --- whole folders -----------------------------------------------------------------------------------------------

    def folder_to_resume(self, wanted: str | bool | None) -> str | None:
        """The folder that `resume_from_checkpoint` means, see [`checkpoint_to_resume`].

        Raises:
            ValueError: a launcher whose checkpoints cannot be read back, or no complete checkpoint.
        """
        check_resume(self.trainer.accelerator, wanted)
        return checkpoint_to_resume(wanted, self.trainer.args.output_dir)

    @contextmanager
    def writing(self, run_dir: str) -> Iterator[Path]:
        """Run the Trainer's own save of a checkpoint inside; yields its folder. An interrupted one does not count as a
        checkpoint. Then older ones beyond the limit are deleted."""
        trainer = self.trainer
        folder = Path(run_dir, f"{PREFIX_CHECKPOINT_DIR}-{trainer.state.global_step}")
        with written_whole(folder, trainer.args, trainer.accelerator.wait_for_everyone):
            yield folder
            trainer.carried.write(trainer, folder)
            if trainer.args.should_save:
                write_record(folder, record_of(trainer))
        if trainer.args.push_to_hub:
            trainer._push_from_checkpoint(str(folder))
        if trainer.args.should_save:
            best = trainer.state.best_model_checkpoint
            rotate(run_dir, trainer.args.save_total_limit, {folder, best or folder})

    # --- the nets ----------------------------------------------------------------------------------------------------

    @property
    def _loss_net(self) -> LossNet | None:
        """The loss-net to save beside the model; None: `save` deletes one of an earlier run."""
        return None

    @property
    def pushes_checkpoints(self) -> bool:
        """True if the Hub gets the same files as a checkpoint."""
        return True

    def save(self, folder: str, save_model: Callable[[], None]) -> None:
        """Write the nets. `save_model` is the Trainer's own save of its model, called in every process."""
        save_model()
        if self.trainer.args.should_save:  # transformers 5 saves in every process
            for name in ADAPTER_FILES:  # those of an earlier save would be loaded instead
                Path(folder, name).unlink(missing_ok=True)
            save_loss_net(self._loss_net, folder)

    def load(self, folder: str, load_model: Callable[[], None]) -> None:
        """Load the nets of a folder into the trainer's. `load_model` is the Trainer's own loading of its model, which
        misses tensors that the file holds under other names."""
        self._check_origin(folder)
        trainer = self.trainer
        sharded = trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled
        if sharded or not isinstance(trainer.model, PreTrainedModel) or not are_renamed(trainer.model, folder):
            load_model()
        else:
            trainer.model.load_state_dict(read_renamed(trainer.model, folder))

    def _check_origin(self, folder: str) -> None:
        """Raises OSError or ValueError unless the Trainer would open safetensors of this folder alone."""
        check_origin(folder, adapter=library_of(self.trainer.model) is not None)

    def _check_nets(self, folder: str) -> None:
        """Raises ValueError if `folder` has nets that no change of arguments makes those of this run."""

    def check(self, folder: str) -> None:
        """Raises ValueError if a run cannot go on from `folder`, before anything is changed."""
        check_complete(folder)
        self._check_origin(folder)
        self._check_nets(folder)
        trainer = self.trainer
        for name, what in self._states(Path(folder)).items():
            if not Path(folder, name).is_file():
                raise ValueError(
                    f"{folder} cannot be resumed: {name}, {what}, is missing. Was it saved with save_only_model=True? "
                    "Start a new run from its weights instead."
                )
        callbacks = [*trainer.callback_handler.callbacks, trainer.control]
        state = check_run_state(Path(folder, TRAINER_STATE_NAME), callbacks)
        self._check_log(folder, state["log_history"])
        CarriedFigures(folder)  # a ValueError, if they are damaged
        defaults = {**own_defaults(trainer.args), **trainer.run_defaults}
        changed = check_same_run(folder, record_of(trainer), defaults, trainer.args.resume_changed)
        for name in self._states(Path(folder)):
            file = Path(folder, name)
            if name == OPTIMIZER_NAME:
                self._check_optimizer(file, changed)
            elif name.startswith("rng_state"):
                check_random_state(file)
            elif name != TRAINER_STATE_NAME:
                read_state(file)

    def _check_optimizer(self, file: Path, changed: Mapping[str, str]) -> None:
        """Raises ValueError if the optimizer's state is not of this task-net. If settings of the net have `changed`,
        the message names them."""
        state = read_state(file)
        try:
            check_optimizer(file, state, self._trained())
        except ValueError as error:
            others = {*OF_THE_TRAINER, "train_data", "eval_data", "model", "loss_net", "processes", FRESH}
            of_the_net = [f"{name} {values} (--{name})" for name, values in changed.items() if name not in others]
            if not of_the_net:
                raise
            raise ValueError(
                f"{file.parent} cannot be resumed, even with `resume_changed`: its task-net has other parameters. "
                f"Changed: {'; '.join(of_the_net)}. Give back the old values of those that shape the net, or start a "
                "new run in another folder (--output_dir)."
            ) from error

    def _check_log(self, folder: str, log: list[dict[str, Any]]) -> None:
        """Raises ValueError if a log has no number where the run reads one: the figure that chooses the best
        checkpoint, or those by which λ1 is chosen."""
        metric = f"eval_{(self.trainer.args.metric_for_best_model or '').removeprefix('eval_')}"
        for entry in log:
            for name, value in entry.items():
                read = name in (metric, "epoch", WEIGHT) or name.endswith(("_loss", ALIGNMENT, PULL))
                if read and (isinstance(value, bool) or not isinstance(value, (int, float))):
                    raise ValueError(
                        f"{Path(folder, TRAINER_STATE_NAME)}: `log_history` has {name} {value!r:.40}, expected a "
                        "number. Take another checkpoint."
                    )

    def _states(self, folder: Path) -> dict[str, str]:
        """The files that hold the state of a run beside its nets, and what they are."""
        trainer = self.trainer
        files = {SCHEDULER_NAME: "the state of the schedule"}
        if not (trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled):  # they have files of their own
            files[OPTIMIZER_NAME] = "the state of the optimizer"
        files[TRAINER_STATE_NAME] = "the step and the log"
        if getattr(trainer.accelerator, "scaler", None) is not None:
            files[SCALER_NAME] = "the state of the gradient scaler"
        processes = trainer.args.world_size
        if (read_record(folder) or {}).get("processes", processes) == processes:  # else `resume_changed` permits it
            name = f"rng_state_{trainer.args.process_index}.pth" if processes > 1 else "rng_state.pth"
            files[name] = "the state of the random numbers"
        return files

    def _trained(self) -> list[Any]:
        """The parameters that the Trainer's optimizer trains."""
        if self.trainer.optimizer is not None:
            return [parameter for group in self.trainer.optimizer.param_groups for parameter in group["params"]]
        return [parameter for parameter in self.trainer.model.parameters() if parameter.requires_grad]

    def check_states(self, folder: str) -> None:
        """Raises ValueError if a state in `folder` is that of another optimizer or schedule than those of this run,
        which exist now. [`check`] has found the files readable."""
        trainer = self.trainer
        expected = {SCHEDULER_NAME: trainer.lr_scheduler, SCALER_NAME: getattr(trainer.accelerator, "scaler", None)}
        for name in self._states(Path(folder)):
            file = Path(folder, name)
            if name == OPTIMIZER_NAME:
                check_optimizer_fits(file, read_state(file), trainer.optimizer)
            elif (own := expected.get(name)) is not None:
                check_like(file, read_state(file), own.state_dict(), "the state", owner=own)

    def save_state(self, folder: str) -> None:
        """Write what a resume needs beside the Trainer's own state."""

    def load_state(self, folder: str) -> None:
        """Read what `save_state` wrote."""

    def clear_repo(self, repo_id: str, token: str | None, revision: str | None) -> None:
        """Remove from a repo what an earlier push left and this one would not replace."""
        remove_stale(repo_id, True, token, revision)


class TwoNetCheckpoints(Checkpoints):
    """The checkpoints of a task-net, its loss-net, the learner, and extensions.

    A checkpoint holds what is trained. Other saves are for users: plain nets with merged adapters.
    """

    @property
    def _loss_net(self) -> LossNet | None:
        return self.trainer.loss_net

    @property
    def _merges(self) -> bool:
        return saves_merged(self.trainer.model, self.trainer.args.adapter_export)

    @property
    def pushes_checkpoints(self) -> bool:
        """False if adapters are merged for the Hub at the end."""
        return library_of(self.trainer.model) is None or not self._merges

    def save(self, folder: str, save_model: Callable[[], None]) -> None:
        trainer = self.trainer
        fits = getattr(trainer.model.config, "decisions", None) is not None
        fold = trainer.args.fold_decision and fits and not trainer.in_checkpoint
        if trainer.args.fold_decision and not fits and not trainer.in_checkpoint:
            logger.warning_once("`fold_decision` is True, but no decision is stored: call `fit_decisions` first.")
        if library_of(trainer.model) is None:
            with folded(trainer.accelerator.unwrap_model(trainer.model)) if fold else nullcontext():
                super().save(folder, save_model)
        elif trainer.args.should_save:
            form = "adapter" if trainer.in_checkpoint else trainer.args.adapter_export
            save_nets(trainer.model, trainer.loss_net, folder, form, fold)
            if trainer.processing_class is not None:
                trainer.processing_class.save_pretrained(folder)
            torch.save(trainer.args, Path(folder) / TRAINING_ARGS_NAME)

    def load(self, folder: str, load_model: Callable[[], None]) -> None:
        library = library_of(self.trainer.model)
        if library is not None:
            self._check_origin(folder)
            library.load(self.trainer.model, folder)
        else:
            super().load(folder, load_model)
        if self.trainer.loss_net is not None:
            load_loss_net_weights(self.trainer.loss_net, folder)

    def _check_nets(self, folder: str) -> None:
        if self.trainer.loss_net is not None:
            check_fits(self.trainer.loss_net, folder)

    def check(self, folder: str) -> None:
        super().check(folder)
        trainer = self.trainer
        if trainer.loss_net is not None:
            check_resumable(trainer.loss_net, folder)
        loss = ENERGY_LOSSES.get(trainer.args.energy_loss)  # of the new run, not of the last
        for kind in wanted_extensions(trainer.args, loss, trainer.space):
            kind.check_resumable(trainer.args, folder)

    def save_state(self, folder: str) -> None:
        if self.trainer.learner is not None:
            save_learner_state(self.trainer.learner, Path(folder, LOSS_NET_FOLDER, STATE))
        for extension in self.trainer.extensions:
            extension.save(folder)

    def load_state(self, folder: str) -> None:
        if self.trainer.learner is not None:
            load_learner_state(self.trainer.learner, Path(folder, LOSS_NET_FOLDER, STATE))
        for extension in self.trainer.extensions:
            extension.load(folder)

    def clear_repo(self, repo_id: str, token: str | None, revision: str | None) -> None:
        """Remove a loss-net from the repo too, since it belongs to the task-net of an earlier push."""
        remove_stale(repo_id, self._merges, token, revision)
