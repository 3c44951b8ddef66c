"""The base of all trainers here: a loss of their own, checked data, meters, checkpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, RandomSampler, Subset
from transformers import Trainer, set_seed
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import EvalLoopOutput, PredictionOutput, TrainOutput, default_compute_objective
from transformers.utils import logging

from ..core.space import OutputSpace
from ..data.tensors.collators import TensorRows, collate_rows, longest_first, order_of, put_back
from ..energy_losses import GOLD, OUTPUT
from ..loss_net.energy_weight import ALIGNMENT, PULL, EnergyWeight
from ..saving.checkpoints import COMPLETE, step_of, without_tokens
from ..saving.export import make_branch, tell_local_base
from ..utils.faults import fault_of, writing
from ..utils.files import loading
from ..utils.messages import brief
from .arguments import check_label_names, check_own_loss, check_saving
from .checkpoints import Checkpoints, contents, without_shares
from .checks import check_best_metric, check_embeddings, warn_of_other_rows
from .epochs import (
    NewEpoch,
    SaveAfterEvaluation,
    SeededByEpoch,
    check_workers,
    epochs_for,
    learns_epochs,
    logged,
    order_seed,
    unchanged,
)
from .evaluation import changed, scored_by, scorer
from .hints import hint_at, hint_of_norm
from .loss_weights import see_labels
from .meters import CarriedFigures, Meters, contrasts
from .rows import CheckedRows, check_columns

logger = logging.get_logger(__name__)
CHECKED = {"Training": "train_dataset", "Evaluation": "eval_dataset"}  # of loaders by what they are for


class StructuredTrainer(Trainer):
    """A Trainer whose own loss reads a net's output and the column `labels`, and is a mean over the micro-batch.
    Without a `data_collator`, its loaders take whole batches of [`TensorRows`] as they are.

    A subclass sets its own parameters before it calls this constructor, which calls `_take_arguments`.

    Attributes:
        space: the output space for the current arguments.
        meters, eval_meters: figures logged beside the Trainer's own, in training and in an evaluation.
        model_role: what messages call the model.
        run_settings, run_defaults: as [`StructuredTrainer.record_settings`] takes them.
        resumed_step: the step of the checkpoint from which the run went on; 0 if it began anew.

    Raises:
        ValueError: arguments that change the Trainer's loss or save within a step, or data without `labels`.
    """

    loss_is_scaled_for_ga = False  # ours is a mean over the micro-batch: the Trainer divides by the accumulation steps
    model_role = "task-net"
    run_settings: dict[str, Any] = {}
    run_defaults: dict[str, Any] = {}
    evaluates_by_length = True
    args: Any  # [`SealTrainingArguments`] or [`EnergyTrainingArguments`]
    model: Any
    hub_model_id: Any  # a name, once the repo is there
    train_dataset: Any
    eval_dataset: Any
    space: OutputSpace = None  # type: ignore[assignment]  # until the constructor has the model
    in_checkpoint = False  # True while one is saved
    energy_weight: EnergyWeight | None = None  # λ1, with a loss-net beside the model
    evaluated_batches = 0  # in the current evaluation
    meters_energies = True  # in an evaluation
    _given_space: OutputSpace | None = None
    resumed_step = 0
    carried: CarriedFigures  # of the current run
    _resumed_from: str | None = None
    _puts_back = False  # True within `evaluate` and `predict`, whose results return in the rows' own order
    _contents: dict[str, tuple[Any, Any]]  # attribute -> (data set, its contents)
    _trial = None  # set by the Trainer: the trial whose values the arguments have

    def __init__(
        self,
        model: Any,
        args: Any,
        data_collator: Any = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        **kwargs: Any,
    ):
        check_saving(args)
        check_own_loss(args, kwargs.get("compute_loss_func"))
        check_label_names(args)
        kwargs["compute_metrics"] = scored_by(args, kwargs.get("compute_metrics"))
        super().__init__(model, args, data_collator, train_dataset, eval_dataset, **kwargs)
        check_embeddings(self.model, args)
        self.add_callback(SaveAfterEvaluation())
        check_columns(train_dataset=train_dataset, eval_dataset=eval_dataset)
        check_workers(args, train_dataset)
        self._contents = {}
        self._default_collator = self.data_collator if data_collator is None else None
        self._take_collator(train_dataset)  # for loaders of a subclass, which read the attribute
        self.model_accepts_loss_kwargs = False
        self.label_names = ["labels"]
        self._reset_meters()
        self._take_arguments()
        self.args.logging_nan_inf_filter = False  # it waits for the loss of each step; ours are watched on the device
        if self.args.device.type == "cpu":  # torch would warn at every evaluation
            self.args.dataloader_pin_memory = False

    def _take_arguments(self) -> None:
        """Make the output space and all else that depends on the arguments. Every run begins with this, since a
        hyper-parameter search changes the arguments."""
        raise NotImplementedError

    def call_model_init(self, trial: Any = None) -> nn.Module:
        """Make the nets as the Trainer does, but with the arguments of this trial.

        transformers 5 makes the nets before it sets the arguments. `model_init(trial)` would then find no
        `trial.params`, and the arguments of the trial before.
        """
        if trial is not None and self._trial is not trial:
            self._hp_search_setup(trial)
            set_seed(self.args.seed)
        return super().call_model_init(trial)

    def hyperparameter_search(
        self, hp_space: Any = None, compute_objective: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Search as the Trainer does, with a default objective that leaves out energies.

        The default is the loss or the sum of the metrics. Energies have no fixed scale.
        """
        return super().hyperparameter_search(hp_space, compute_objective or _default_objective, *args, **kwargs)

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> Any:
        """The one hook, on both transformers lines, that knows that a run begins, and how long it is."""
        self._take_arguments()
        self._reset_meters()
        try:
            scheduler = super().create_scheduler(num_training_steps, optimizer)
        except TypeError as error:
            found = f"`lr_scheduler_kwargs` is {brief(self.args.lr_scheduler_kwargs)}"
            kind = str(getattr(self.args.lr_scheduler_type, "value", self.args.lr_scheduler_type))
            raise ValueError(f"{found}, with which the schedule {kind!r} cannot be built: {error}.") from error
        self.begin_run(num_training_steps)
        return scheduler

    def begin_run(self, num_training_steps: int) -> None:
        """Runs when a run begins: its length, space and optimizer are known, but no checkpoint is read yet."""
        hooks = (type(self).evaluate, type(self).evaluation_loop)
        if all(hook.__module__.startswith("seal_hf.") for hook in hooks):  # a subclass's may give more figures
            check_best_metric(self.args, self.compute_metrics, self.eval_dataset)
        hint_at(self.args, num_training_steps, self.energy_weight)
        self.resumed_step = step_of(self._resumed_from)
        if self._resumed_from is not None and self.resumed_step >= num_training_steps:
            reached = f"is at step {self.resumed_step} of {num_training_steps}"
            logger.warning(f"{self._resumed_from} {reached}: nothing is left to train.")
        config: Any = self.model.config
        for name in ("decisions", "verdict") if num_training_steps > 0 else ():  # of the untrained nets
            vars(config).pop(name, None)
        if isinstance(self.train_dataset, TensorRows) and self.train_dataset.inputs:
            config.inputs = self.train_dataset.inputs

    def record_settings(self, settings: dict[str, Any], defaults: dict[str, Any]) -> None:
        """Take settings that change the run, beside arguments and rows. The record beside each checkpoint holds them,
        and a resume compares them.

        Args:
            settings: name -> value.
            defaults: name -> its value in an earlier record that lacks it, or has null for it.
        """
        self.run_settings, self.run_defaults = settings, defaults

    # --- data --------------------------------------------------------------------------------------------------------

    def get_train_dataloader(self) -> DataLoader:
        self._take_collator(self.train_dataset)
        return super().get_train_dataloader()

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader:
        dataset = eval_dataset if eval_dataset is not None else self.eval_dataset
        dataset = self.eval_dataset[dataset] if isinstance(dataset, str) else dataset
        self._take_collator(dataset)
        self.see(self.space, dataset)
        with self._whole_evaluation():
            return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> DataLoader:
        self._take_collator(test_dataset)
        self.see(self.space, test_dataset)
        with self._whole_evaluation():
            return super().get_test_dataloader(test_dataset)

    def _get_dataloader(self, dataset: Any, description: str, *args: Any, **kwargs: Any) -> DataLoader:
        """As the Trainer's. Persistent workers are seeded by a generator of their own: they are seeded once in a run
        and once more in a resumed run, which would shift the noise of dropout. The labels of each batch are
        checked."""
        collator = self.data_collator
        if description in CHECKED and not isinstance(dataset, TensorRows):
            self.data_collator = CheckedRows(
                collator, dataset, CHECKED[description], self.space, self.model.config.num_labels
            )
        try:
            loader: Any = super()._get_dataloader(dataset, description, *args, **kwargs)
        finally:
            self.data_collator = collator
        if self.args.dataloader_persistent_workers:
            inner = getattr(loader, "base_dataloader", loader)  # of accelerate's
            inner.generator = torch.Generator().manual_seed(self.args.seed)
        return loader

    def kept_rows(self, dataset: Any) -> Any:
        """The data set as the nets read it, which with a frozen encoder is the encoder's outputs for its rows."""
        return dataset

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        """Like the Trainer's, but the order of an epoch depends only on the seed and the epoch."""
        sampler: Any = super()._get_train_sampler(train_dataset)
        is_seeded = isinstance(sampler, RandomSampler) and self.args.accelerator_config.use_seedable_sampler
        if is_seeded or getattr(sampler, "generator", 0) is not None:
            return sampler
        sampler = SeededByEpoch(sampler, order_seed(self.args))
        self._tell_epochs(sampler)
        return sampler

    def _tell_epochs(self, told: Any) -> None:
        """Add the callback for training rows or a sampler, if it has `set_epoch`, in place of one for others of its
        type."""
        if not learns_epochs(told):
            return
        for callback in self.callback_handler.callbacks[:]:
            if isinstance(callback, NewEpoch) and type(callback.told) is type(told):
                self.remove_callback(callback)
        self.add_callback(NewEpoch(told))

    def see(self, space: OutputSpace, dataset: Any) -> None:
        """Show a space the labels of a data set. A user's collator may change them: then they count as unseen."""
        if self._default_collator is None and dataset is not None:
            space.see(None)
        else:
            see_labels(space, dataset)

    @contextlib.contextmanager
    def _whole_evaluation(self) -> Iterator[None]:
        """Ignore `dataloader_drop_last` inside: metrics and predictions cover all rows."""
        asked, self.args.dataloader_drop_last = self.args.dataloader_drop_last, False
        try:
            yield
        finally:
            self.args.dataloader_drop_last = asked

    def _take_collator(self, dataset: Any) -> None:
        if self._default_collator is not None:
            while isinstance(dataset, Subset):  # gives whole batches if its own data set does
                dataset = dataset.dataset
            self.data_collator = collate_rows if isinstance(dataset, TensorRows) else self._default_collator

    # --- evaluation and log ------------------------------------------------------------------------------------------

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate as the Trainer does. If the nets diverged, the training stops before a metric meets NaN."""
        if self.is_in_train:
            self._check_finite()
        with changed(self, _puts_back=True):
            return super().evaluate(*args, **kwargs)

    def predict(self, *args: Any, **kwargs: Any) -> PredictionOutput:
        """Predict as the Trainer does."""
        with changed(self, _puts_back=True):
            return super().predict(*args, **kwargs)

    @contextlib.contextmanager
    def predicting(self, preprocess: Callable | None = None) -> Iterator[None]:
        """Make the trainer predict only logits, or what `preprocess` makes of them, while the block runs.

        Metrics, energies, the user's `preprocess_logits_for_metrics` and `prediction_loss_only` are off.
        """
        off = {"compute_metrics": None, "meters_energies": False}
        with changed(self, preprocess_logits_for_metrics=preprocess, **off):
            with changed(self.args, prediction_loss_only=False):
                yield

    def give_by_batch(self, dataset: Any, take: Callable) -> None:
        """Predict a data set, and pass each batch of logits and labels to `take`, as the Trainer's `batch_eval_metrics`
        does. No batch is kept. Without labels, `take` is not called."""
        with self.predicting(), changed(self, compute_metrics=take), changed(self.args, batch_eval_metrics=True):
            self.evaluation_loop(self.get_test_dataloader(dataset), "Evaluation")

    def evaluation_loop(
        self, dataloader: DataLoader, description: str, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any
    ) -> EvalLoopOutput:
        """Evaluate as the Trainer does, and add metered figures. Rows sorted by length return in their own order."""
        order = order_of(dataloader)
        self._evaluation_facts()  # clear those of an interrupted evaluation
        self.evaluated_batches = 0
        kwargs["metric_key_prefix"] = metric_key_prefix
        whole = description == "Prediction"  # `predict` returns the logits
        by_batch, compute_metrics = scorer(self, dataloader, whole, order)
        with changed(self, compute_metrics=compute_metrics), changed(self.args, batch_eval_metrics=by_batch):
            output: Any = super().evaluation_loop(dataloader, description, *args, **kwargs)
        facts = self._evaluation_facts()
        output.metrics.update({f"{metric_key_prefix}_{name}": value for name, value in facts.items()})
        if order is None:
            return output
        return output._replace(
            predictions=put_back(output.predictions, order), label_ids=put_back(output.label_ids, order)
        )

    def decide_by(self, decoder: str) -> None:
        """Decode by this decoder from now on, if the space decodes by itself."""
        self.space = self.space.decided_by(decoder)

    def _evaluation_facts(self) -> dict[str, float]:
        """What an evaluation reports beside its loss and metrics."""
        return contrasts(self.eval_meters.drain())

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        """By length, unless the order matters: for metrics, results or noise by batch, or in a loader for the user."""
        args, sorts = self.args, self._puts_back and self.evaluates_by_length
        seen = args.batch_eval_metrics or not args.eval_do_concat_batches or not sorts
        if seen or getattr(args, "use_legacy_prediction_loop", False):
            return super()._get_eval_sampler(eval_dataset)
        return longest_first(eval_dataset) or super()._get_eval_sampler(eval_dataset)

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        """Choose the best as the Trainer does, but the latest one while all figures are equal, such as an F1 of 0.

        Raises:
            ValueError: the metric is unknown. The message lists the known ones.
        """
        if unchanged(logged(self.args, self.state)):
            self.state.best_metric = None
        try:
            return super()._determine_best_metric(metrics, trial)
        except KeyError as error:
            raise ValueError(error.args[0]) from error

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add what was metered in training. An evaluation has its own in its metrics."""
        at_end = "total_flos" in logs  # `train_loss` is also a figure of `evaluate(..., metric_key_prefix="train")`
        if "loss" in logs or at_end:
            self.meters.check()
            logs |= self._log_facts(self.meters.drain(), at_end)
            hint_of_norm(logs, self.accelerator.scaler is not None)
        if at_end:
            if self.carried.loss is None and self.carried.earlier is not None:  # nothing was left to train
                self._see_loss(none := torch.zeros((), device=self.args.device))
                self._total_loss_scalar += none.item()
            logs |= self.carried.closing(self, logs)
        super().log(logs, start_time)

    def _log_facts(self, facts: dict[str, float], at_end: bool) -> dict[str, float]:
        """What a training log reports of the figures since the last log. The closing log has the Trainer's totals."""
        return {} if at_end else facts

    def _meter_energies(self, energies: Tensor) -> None:
        """Meter the energies of output and gold, (B, 2), in an evaluation."""
        energies = self.accelerator.gather_for_metrics(energies)  # drops rows that only pad the last batch
        self.eval_meters.add(energy_output=energies[:, OUTPUT], energy_gold=energies[:, GOLD])

    def _check_finite(self) -> None:
        self.meters.check({self.model_role: self.model})

    def _reset_meters(self) -> None:
        self.meters, self.eval_meters = Meters(self.accelerator), Meters(self.accelerator)
        self.carried = CarriedFigures(self._resumed_from)
        self.meters.restore(self.carried.metered(self.args))

    # --- checkpoints -------------------------------------------------------------------------------------------------

    @property
    def checkpoints(self) -> Checkpoints:
        """What is on disk."""
        return Checkpoints(self)

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> TrainOutput:
        """Train as the Trainer does.

        Args:
            resume_from_checkpoint: a folder; or `True` or `"last"` for the last complete checkpoint. If there is none,
                `"last"` starts a new run.

        Raises:
            ValueError: the checkpoint is incomplete, or its run had other arguments and `resume_changed` is not set.
        """
        self._resumed_from = self.checkpoints.folder_to_resume(resume_from_checkpoint)
        warn_of_other_rows(self.args, self._resumed_from)
        self._tell_epochs(self.train_dataset)
        self.args.num_train_epochs = epochs_for(self.args, self.train_dataset)
        asked = self.args.eval_on_start
        self.args.eval_on_start = asked and self._resumed_from is None  # that evaluation was made, and counts once
        try:
            with without_shares():
                result = super().train(self._resumed_from, *args, **kwargs)
            return result._replace(training_loss=result.metrics["train_loss"])  # of all steps, see `log`
        finally:
            self.args.eval_on_start = asked

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: torch.device) -> Any:
        """Like the Trainer's, but without a batch if a callback stops the run before it begins, see [`Patience`]."""
        if self.control.should_training_stop:
            return [], None
        return super().get_batch_samples(epoch_iterator, num_batches, device)

    def _maybe_log_save_evaluate(self, tr_loss: Tensor, *args: Any, **kwargs: Any) -> None:
        self._see_loss(tr_loss)
        super()._maybe_log_save_evaluate(tr_loss, *args, **kwargs)

    def _see_loss(self, loss: Tensor) -> None:
        """Add the losses before the checkpoint to those of a resumed run, once."""
        if (earlier := self.carried.see_loss(loss, self.args)) is not None:
            total, self._globalstep_last_logged = earlier
            self._total_loss_scalar += total

    def contents_of(self, name: str) -> Any:
        """A description of `train_dataset` or `eval_dataset`, see [`contents`]; computed once."""
        dataset = getattr(self, name)
        known = self._contents.get(name)
        if known is None or known[0] is not dataset:
            known = self._contents[name] = dataset, contents(dataset)
        return known[1]

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        self._check_finite()
        with self.checkpoints.writing(self._get_output_dir(trial=trial)), changed(self, in_checkpoint=True):
            super()._save_checkpoint(model, trial)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = output_dir or self.args.output_dir
        with without_tokens(), writing(folder):
            self.checkpoints.save(folder, partial(super()._save, folder, state_dict))

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self.args.should_save:
            self.checkpoints.save_state(output_dir)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        self.checkpoints.check(resume_from_checkpoint)
        load_model = partial(super()._load_from_checkpoint, resume_from_checkpoint, model)
        self._load_nets(resume_from_checkpoint, load_model)

    def _load_nets(self, folder: str, load_model: Callable[[], None]) -> None:
        """Load the nets of a checkpoint. `load_model` is the Trainer's own loading of its model.

        Raises:
            ValueError: weights are damaged, or of a net of another shape.
        """
        try:
            with loading(folder, "a checkpoint of this run"):
                self.checkpoints.load(folder, load_model)
        except RuntimeError as error:
            if fault_of(error) is not None:
                raise
            raise ValueError(f"{folder}: its weights do not fit this run: {' '.join(str(error).split())}") from error

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            self.checkpoints.check_states(checkpoint)
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self.checkpoints.load_state(checkpoint)

    def _load_callback_state(self) -> None:
        """As the Trainer's; a callback that the run of the checkpoint lacked gets its place among the states, without
        which the next save would fail."""
        super()._load_callback_state()
        states: Any = self.state.stateful_callbacks
        for callback in (*self.callback_handler.callbacks, self.control):
            if isinstance(callback, ExportableState):
                states.setdefault(type(callback).__name__, callback.state())

    def _load_best_model(self) -> None:
        best = str(self.state.best_model_checkpoint)
        if not Path(best, COMPLETE).is_file():  # files removed since are the loader's concern
            logger.warning(f"The best checkpoint, {best}, was never completed: the nets stay as they are.")
            return
        self._load_nets(best, super()._load_best_model)

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        if not self.checkpoints.pushes_checkpoints or self.args.hub_strategy == "end":
            return
        self._keep_report()
        with without_tokens():
            super()._push_from_checkpoint(checkpoint_folder)

    def _keep_report(self) -> None:
        """Rename a report in the output folder, which would be pushed."""
        page = Path(str(self.args.output_dir), "report.html")
        if self.is_world_process_zero() and page.is_file():
            page.replace(page.with_name("_report.html"))
            logger.warning(f"{page} holds rows of the data: it is called _report.html now, and not pushed.")

    def init_hf_repo(self, token: str | None = None, *args: Any, **kwargs: Any) -> None:
        """Like the Trainer's, but also make a branch that does not exist, since every push to it would fail."""
        super().init_hf_repo(token, *args, **kwargs)
        if self.is_world_process_zero():
            make_branch(self.hub_model_id, self.args.hub_revision, token or self.args.hub_token)

    def push_to_hub(self, *args: Any, token: str | None = None, revision: str | None = None, **kwargs: Any) -> Any:
        """Push as the Trainer does, but first remove what an earlier push left and this one does not replace.

        That is a loss-net, which is never pushed, or a task-net in its other form, plain or adapters. A report in the
        output folder is renamed, so that it is not pushed.
        """
        token = token if token is not None else self.args.hub_token
        revision = revision if revision is not None else self.args.hub_revision
        self._keep_report()
        if self.is_world_process_zero():
            if self.hub_model_id is None:
                self.init_hf_repo(token=token)
            make_branch(self.hub_model_id, revision, token)
            self.checkpoints.clear_repo(self.hub_model_id, token, revision)
        kwargs |= {"token": token, "revision": revision}
        pushed = super().push_to_hub(*args, **kwargs)
        if self.is_world_process_zero():
            tell_local_base(str(self.args.output_dir))
        return pushed


def _default_objective(metrics: dict[str, float]) -> float:
    of_energies = ("_energy_output", "_energy_gold", "_energy_auc", "_task_net_auc", f"_{ALIGNMENT}", f"_{PULL}")
    names = [name for name in metrics if not name.endswith(of_energies)]
    return default_compute_objective({name: metrics[name] for name in names})
