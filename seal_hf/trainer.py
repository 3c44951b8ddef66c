"""SealTrainer: the Trainer with a loss-net as a loss function.

One step, for one accumulation window of micro-batches (SEAL-dynamic, Lee et al. 2022, Eq. 4-5):

1. loss-net phase: n_E updates of the loss-net on candidates from the current task-net, detached;
2. task-net phase: the Trainer's own update, on λ2 · task loss + λ1 · energy of the task-net's relaxed output.

The task-net runs once on the first micro-batch of a window: both phases use this forward. At prediction time only the
task-net runs. `extensions/` adds to a step: implicit gradients, a cost-augmented network, perturbed inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.trainer_utils import TrainOutput, has_length
from transformers.utils import ModelOutput

from .core.decisions import Decisions
from .core.space import REWARD_CODES, SAMPLE_WEIGHT, OutputSpace
from .energy_losses import ENERGY_LOSSES, EnergyLoss
from .extensions import Extension, MicroBatch
from .loss_net.energy_weight import Alignment, EnergyWeight, Lessons, is_ruled, prefix_of
from .loss_net.learner import Learner
from .loss_net.loss_net import LossNet
from .loss_net.optimizer import with_own_rate
from .nets.feature_cache import FEATURES
from .nets.frozen_encoder import OUTPUTS
from .reports.card_facts import run_card
from .saving.model import SealModel, kind_of
from .saving.run_record import read_record
from .training import checks
from .training.arguments import CROSS_ENTROPY, SealTrainingArguments
from .training.base import StructuredTrainer
from .training.checkpoints import TwoNetCheckpoints
from .training.decisions import PredictionDecoder, check_undecoded, fit_decisions
from .training.epochs import tell_epochs
from .training.evaluation import counted_rows
from .training.forwards import PhaseMeters, TwoNets
from .training.frozen import cache_features
from .training.launchers import check_launcher
from .training.own_rates import fresh_names, own_rates
from .training.rows import check_rows
from .training.run_record import FRESH
from .training.samplers import WindowRepeatSampler, has_few_labels
from .training.setup import loss_net_learner, made_extensions, made_space, own_loss, prepare_net, prepare_run
from .training.task_nets import with_loss_net
from .training.verdict import store_verdict
from .training.window import Window
from .utils.modules import frozen, train_mode


@dataclass
class LossNetPhase:
    """The loss-net's part of a step: n_E updates on candidates from the current task-net (SEAL Eq. 4).

    Args:
        loss_net, learner: the raw loss-net, and what trains it.
        energy_loss: what the loss-net minimises.
        extensions: add candidates and terms of the loss.
        meters: collects figures for the log.
    """

    loss_net: LossNet
    learner: Learner
    energy_loss: EnergyLoss
    extensions: list[Extension]
    meters: PhaseMeters

    def __call__(self, window: list[MicroBatch], num_updates: int, energy_weight: float, step: int) -> None:
        """Make `num_updates` (n_E) updates on the micro-batches of `window`, whose task-net outputs are detached.
        `energy_weight` is λ1 of this step."""
        for update in range(num_updates):
            batches = window
            for extension in self.extensions:
                batches = extension.begin_update(batches, update, energy_weight)
            self.learner.zero_grad()
            for i, batch in enumerate(batches):
                noise = batch.noise(update)
                candidates = self.energy_loss.candidates(
                    batch.space, batch.logits, batch.labels, noise, batch.augmented
                )
                columns = [extension.columns(batch) for extension in self.extensions]
                row = batch.space.join([candidates.y, *chain(*columns)])
                with self.loss_net.active(training=True), self.learner.accumulate(i == len(batches) - 1):
                    energies = self.learner(row, candidates.mask, batch.inputs, batch.features)
                    widths = [sum(y.shape[1] for y in own) for own in ([candidates.y], *columns)]
                    energies, *of_columns = energies.split(widths, dim=1)
                    loss = self.energy_loss(energies, candidates)
                    terms = zip(self.extensions, of_columns, strict=True)
                    total = loss + sum(extension.loss_net_term(batch, own, loss) for extension, own in terms)
                    self.learner.backward(total / len(batches))
                self.meters.add_batch(loss, energies.detach(), candidates, step)
            self.learner.apply()
            self.meters.add_update(self.learner)
        for extension in self.extensions:
            extension.end_phase()
        self.learner.zero_grad()  # the task-net's optimizer must not see gradients of this phase


class SealTrainer(StructuredTrainer):
    """A [`~transformers.Trainer`] whose `model` is the plain task-net, with a loss-net trained beside it.

    Args:
        model: a [`SealForMultiLabel`] or the like; or a plain task-net, which gets a fresh loss-net if none is given.
        args: [`SealTrainingArguments`].
        loss_net: a [`LossNet`] that replaces the model's own; unused with `energy_loss="ce"`.
        space: the output space; its task loss and options replace those of `args`. Default: the loss-net's space, else
            that of the task-net's class, else label sets, with the options of `args`.
        task_loss: logits, labels -> (B,), replaces that of `args` (`OwnTaskLoss`); so does a `compute_loss_func`.
        decode_predictions: give `compute_metrics` and `predict` decoded outputs: tag ids (B, T) instead of logits.
        kwargs: as for the Trainer. Each call of `model_init` starts the loss-net anew.

    Attributes:
        energy_loss, learner: the loss-net's loss and trainer, or None. A run makes its own learner.
        extensions: what this run adds to a step, see [`Extension`].
        card_facts: arguments of `reports.run_card` that only the user knows.

    Raises:
        ValueError: no loss-net, a task-net or launcher that is not supported, or a data set without a `labels` column.
    """

    # --- the algorithm -----------------------------------------------------------------------------------------------

    def training_step(self, model: nn.Module, inputs: dict[str, Tensor], num_items_in_batch: Any = None) -> Tensor:
        """On the first micro-batch of a window: loss-net phase. Then the Trainer's own step: task-net phase."""
        self.window.advance()
        self.has_computed = False
        checks.check_begun(self.learner, self.args, self.callback_handler.callbacks)
        try:
            if self.window.is_first and self._is_loss_net_step:
                train_mode(model, self.optimizer)
                window = [self._prepare_inputs(batch) for batch in (inputs, *self.window.batches[1:])]
                with self.compute_loss_context_manager():
                    self._pending = self.forwards.run_task_net(model, window[0])
                self.loss_net_phase(window)
            loss = super().training_step(model, inputs, num_items_in_batch)
            checks.check_computed(self, model)
            return loss
        finally:
            self._pending = None  # also after an interrupted step: the next step or evaluation must not use it

    def loss_net_phase(self, window: list[dict[str, Tensor]]) -> None:
        """The loss-net's updates over the micro-batches of the window, see [`LossNetPhase`]."""
        outputs = [self._pending, *(None for _ in window[1:])]  # the task-net has run on the first of them
        batches = [self.forwards.detached(i, *given) for i, given in enumerate(zip(outputs, window, strict=True))]
        self.phase(batches, self.args.loss_net_steps, self.energy_weight, self.state.global_step)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Training: λ2 · task loss + λ1 · energy of the relaxed output (SEAL Eq. 1, 5). Evaluation: the task loss."""
        outputs, self._pending = self._pending, None
        if outputs is None:
            outputs = self.forwards.run_task_net(model, inputs)
        with torch.autocast(outputs.logits.device.type, enabled=False):  # transformers 4 on CPU is inside one
            if not model.training:
                return self._evaluation_loss(outputs, inputs, return_outputs)
            noise = self.forwards.noise(self.window.position, self.args.loss_net_steps)
            task_loss = self.space.of(inputs).task_loss(outputs.logits, inputs["labels"], noise)
            self.has_computed = True
            loss = self.args.task_weight * task_loss
            if self.learner is not None:
                loss = self._add_energy(loss, task_loss, outputs, inputs)
            self.meters.add(task_loss=task_loss)
            self.meters.watch("task-net", loss, self.state.global_step)
            return (loss, outputs) if return_outputs else loss

    def _evaluation_loss(self, outputs: Any, inputs: dict[str, Tensor], return_outputs: bool) -> Any:
        """The task loss, without row weights, of the rows that count. Energies are metered."""
        labels = inputs["labels"]
        count = counted_rows(self.accelerator, len(labels))
        loss = self.space.task_loss(outputs.logits[:count], labels[:count])
        self.forwards.meter_evaluation(outputs, inputs)
        return (loss, ModelOutput(logits=outputs.logits)) if return_outputs else loss

    def _add_energy(self, loss: Tensor, task_loss: Tensor, outputs: Any, inputs: dict[str, Tensor]) -> Tensor:
        """`loss` + λ1 · task term of E(x, ŷ) + the extensions' terms. Gradients reach the task-net alone, through ŷ."""
        if self.energy_weight == 0 and not self.extensions:
            return loss
        batch = self.forwards.micro_batch(self.window.position, outputs, inputs)
        encoded = self.forwards.encode(batch)

        def energies_of(y: Any, mask: Tensor | None) -> Tensor:
            with frozen(self.loss_net.energy):
                return self.loss_net.energies(encoded, y, mask)

        gold, mask = batch.space.gold(batch.labels)
        output = batch.space.output(batch.logits)
        row, cost = self.energy_loss.task_row(batch.space, batch.logits, output, gold, mask)
        term = self.energy_loss.task_term(energies_of(row, mask), cost)
        read = batch.logits, batch.space.parameters
        term, facts = self._energy_weights.weigh(self.energy_weight, term, task_loss, *read)
        self.meters.add(**self.space.facts(output), **facts)
        loss, is_last = loss + term, self.window.is_last and self._ends_in_step
        for extension in self.extensions:
            loss = loss + extension.task_net_term(batch, outputs, energies_of, len(self.window), is_last)
        return loss

    learner: Learner | None = None
    phase: Any = None  # a [`LossNetPhase`] during a run
    extensions: list[Extension] = []
    _writes_card = False  # True after `fit_decisions`
    fresh: set[str] = set()  # names of the task-net's parameters that did not come with its pretrained encoder
    has_computed = False  # True once `compute_loss` has run in this step
    given_decoder: str | None = None  # the decoder passed to `fit_decisions`
    alignment: Alignment  # of the current evaluation
    _pending: Any = None  # the task-net's outputs with gradients, between training_step and compute_loss

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: torch.device) -> Any:
        """Keep the whole accumulation window: the loss-net phase runs over all of it."""
        batches, num_items = super().get_batch_samples(epoch_iterator, num_batches, device)
        self.window = Window(batches)
        return batches, num_items

    @property
    def forwards(self) -> TwoNets:
        """The two nets, as a step runs them."""
        return TwoNets(self)

    @property
    def energy_weight(self) -> float:
        """λ1 of this step."""
        done = self.state.global_step / max(self.state.max_steps, 1)
        return self._energy_weights.at(done, self.state.log_history)

    @property
    def lessons(self) -> Lessons | None:
        """How far the loss-net taught the task-net whose weights are kept; None without a loss-net."""
        if self.energy_loss is None:
            return None
        log, best = self.state.log_history, self.state.best_global_step
        kept = best if self.args.load_best_model_at_end and best else self.state.global_step
        epoch = next((entry["epoch"] for entry in log if entry.get("step") == kept and "epoch" in entry), None)
        return self._energy_weights.lessons(log, kept, self.state.epoch or 0.0 if epoch is None else epoch)

    @property
    def _is_loss_net_step(self) -> bool:
        steps, every = self.args.loss_net_steps, self.args.loss_net_every
        return self.learner is not None and steps > 0 and self.state.global_step % every == 0 and self._ends_in_step

    @property
    def _ends_in_step(self) -> bool:
        """True if the optimizer steps after this window. At the end of a stream, a short window joins the next one."""
        whole = self.window.is_whole(self.args.gradient_accumulation_steps)
        return whole or has_length(self.callback_handler.train_dataloader)

    # --- set-up ------------------------------------------------------------------------------------------------------

    args: SealTrainingArguments
    optimizer: Any
    loss_net: Any = None  # a [`LossNet`], with an energy loss
    energy_loss: Any = None  # an [`EnergyLoss`]
    _space_class: type[OutputSpace] | None = None  # of label sets, if the net does not tell

    def __init__(
        self,
        model: SealModel | PreTrainedModel | None = None,
        args: SealTrainingArguments | None = None,
        data_collator: Any = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        *,
        loss_net: LossNet | None = None,
        space: OutputSpace | None = None,
        task_loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        decode_predictions: bool = False,
        **kwargs: Any,
    ):
        args = args if args is not None else SealTrainingArguments(output_dir="trainer_output")
        check_launcher(args)
        self.loss_net = self._given_loss_net = loss_net
        self._initial_loss_net: Any = None  # its weights, to begin each trial of a search with
        if loss_net is not None and kwargs.get("model_init") is not None:
            self._initial_loss_net = {name: value.clone() for name, value in loss_net.state_dict().items()}
        self._given_space, self._own_loss = space, own_loss(task_loss, kwargs.pop("compute_loss_func", None), space)
        self.window, self.alignment = Window(), Alignment()
        self.card_facts: dict[str, Any] = {}
        model = self._take_apart(model, args)
        super().__init__(model, args, data_collator, train_dataset, eval_dataset, **kwargs)
        if decode_predictions:
            check_undecoded(self.preprocess_logits_for_metrics)
            self.preprocess_logits_for_metrics = PredictionDecoder(self)
        prepare_run(self)
        checks.check_repeats(args, self.train_dataset)
        check_rows(self)
        if self.loss_net is not None:
            self.loss_net.to(args.device)
        cache_features(self)

    @property
    def checkpoints(self) -> TwoNetCheckpoints:
        """What is on disk."""
        return TwoNetCheckpoints(self)

    def _take_apart(self, model: Any, args: SealTrainingArguments) -> Any:
        """Return the task-net. Keep the loss-net of a [`SealModel`] unless one was given."""
        model = with_loss_net(model, args, self._given_loss_net, self._given_space)
        if (kind := kind_of(model)) is not None:
            self._space_class = kind.space_of(model.task_net if isinstance(model, SealModel) else model)
        missing: list[str] = []
        self.fresh = set()
        if isinstance(model, SealModel):
            self.loss_net, missing = self._given_loss_net or model.loss_net, model.fresh
            model = model.task_net
        if model is not None:  # `model_init` makes it later
            self.fresh = fresh_names(model, missing)
        if args.energy_loss == CROSS_ENTROPY:
            self.loss_net = None
        return model

    def call_model_init(self, trial: Any = None) -> nn.Module:
        made = super().call_model_init(trial)
        if self._given_loss_net is not None:
            self.loss_net = self._given_loss_net  # a trial with cross-entropy may have removed it
            self.loss_net.load_state_dict(self._initial_loss_net)
        model = self._take_apart(made, self.args)
        if self.space is not None:  # the constructor checks the first net itself
            prepare_net(self, model)
        return model

    def _take_arguments(self) -> None:
        """Output space, energy loss and λ1."""
        args = self.args
        args.check()
        loss = ENERGY_LOSSES.get(args.energy_loss)  # None for cross-entropy
        self.energy_loss = loss.from_arguments(args) if loss is not None else None
        self.space = made_space(self)
        summed = partial(self.accelerator.reduce, reduction="sum")
        self.weight_is_ruled = is_ruled(args, self.space)
        prefix = prefix_of(self.eval_dataset)
        self._energy_weights = EnergyWeight(args, summed, self.weight_is_ruled, self.space.has_all_gold, prefix)
        checks.tell_decoding(self.model, self.space)

    def begin_run(self, num_training_steps: int) -> None:
        super().begin_run(num_training_steps)
        if self._trial is not None:  # a search changed the arguments
            prepare_run(self)
        self.learner, self.phase, self.extensions = None, None, []  # each run has its own
        if self.energy_loss is not None:
            self.learner = loss_net_learner(self, num_training_steps)
            self.extensions = made_extensions(self)
            meters = PhaseMeters(self.meters, self.energy_loss)
            self.phase = LossNetPhase(self.loss_net, self.learner, self.energy_loss, self.extensions, meters)

    def create_optimizer(self, *args: Any, **kwargs: Any) -> Any:
        """The Trainer's optimizer. A fresh head and a CRF get their own rates."""
        made = self.optimizer is None
        optimizer: Any = super().create_optimizer(*args, **kwargs)
        for parameters, rate in own_rates(self.model, self.args, self.fresh) if made else ():
            with_own_rate(self.optimizer, parameters, rate)
        return optimizer

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        """As the Trainer's. The checkpoint's record names the head that was fresh when the run began."""
        record = read_record(resume_from_checkpoint)
        self.fresh = self.fresh if record is None else set(record.get(FRESH, ()))  # older runs had one rate
        super()._load_from_checkpoint(resume_from_checkpoint, model)

    # --- data, evaluation, log ---------------------------------------------------------------------------------------

    def fit_decisions(self, dataset: Any = None, decoder: str | None = None) -> Decisions:
        """Fit how outputs become decisions and store it in the task-net's config; `save_model` adds the model card.

        Args:
            dataset: validation rows with labels; default: `eval_dataset`.
            decoder: default: chosen by cross-fitting on these rows.

        Raises:
            ValueError: no rows, no labels, or an unknown decoder.
        """
        self._writes_card, self.given_decoder = True, decoder
        return fit_decisions(self, self.eval_dataset if dataset is None else dataset, decoder)

    def train(self, *args: Any, **kwargs: Any) -> TrainOutput:
        """As that of [`StructuredTrainer`]. The task-net's config then holds the verdict on the training."""
        result = super().train(*args, **kwargs)
        store_verdict(self)
        return result

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """As the Trainer's; also writes the model card after `fit_decisions`."""
        super().save_model(output_dir, _internal_call)
        if self._writes_card and not self.in_checkpoint:
            self.create_model_card(output_dir=output_dir, model_name=Path(output_dir).name if output_dir else None)

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        train_dataset = self.train_dataset if train_dataset is None else train_dataset
        if self.args.batch_repeats == 1 and not has_few_labels(train_dataset):
            return super()._get_train_sampler(train_dataset)
        sampler = WindowRepeatSampler.of_trainer(self, train_dataset)
        tell_epochs(self, sampler)
        return sampler

    def _set_signature_columns_if_needed(self) -> None:
        """Keep the loss-net's columns too, and those that a net names as its input."""
        super()._set_signature_columns_if_needed()
        known: Any = self._signature_columns
        named = getattr(self.model, "input_names", ())
        known += [name for name in (FEATURES, OUTPUTS, REWARD_CODES, SAMPLE_WEIGHT, *named) if name not in known]

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        metrics = super().evaluate(*args, **kwargs)
        self._energy_weights.evaluated(metrics, in_training=self.is_in_train)
        return metrics

    def _evaluation_facts(self) -> dict[str, float]:
        return super()._evaluation_facts() | self.alignment.drain(with_pull=not self.space.has_all_gold)

    def prediction_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self.preprocess_logits_for_metrics, PredictionDecoder):
            self.preprocess_logits_for_metrics.see(inputs)
        return super().prediction_step(model, inputs, *args, **kwargs)

    def _log_facts(self, facts: dict[str, float], at_end: bool) -> dict[str, float]:
        for extension in self.extensions:
            extension.read_log(facts)
        if at_end:  # `train` returns these
            logged = [*self.state.log_history, facts]
            return {name: value for e in self.extensions for name, value in e.closing_facts(logged).items()}
        if self.learner is not None:
            facts["loss_net_learning_rate"] = self.learner.learning_rate
            if self.weight_is_ruled:
                facts["energy_share"] = self.energy_weight
        return facts

    def _check_finite(self) -> None:
        self.meters.check({self.model_role: self.model, "loss-net": self.loss_net})

    def create_model_card(self, *args: Any, output_dir: str | None = None, **facts: Any) -> None:
        """Write our card as README.md of a folder (default: the output folder), on every push too."""
        if self.is_world_process_zero():
            card = run_card(self, **{**self.card_facts, **facts})
            Path(output_dir or str(self.args.output_dir), "README.md").write_text(card, encoding="utf-8")
