"""SealTrainer: the Trainer with a loss-net as a loss function.

One step, for one accumulation window of micro-batches (SEAL-dynamic, Lee et al. 2022, Eq. 4-5):

1. loss-net phase: n_E updates of the loss-net on candidates from the current task-net, detached;
2. task-net phase: the Trainer's own update, on λ2 · task loss + λ1 · energy of the task-net's relaxed output.

The task-net runs once on the first micro-batch of a window: the loss-net phase uses its detached outputs, and
`compute_loss` goes on from the same graph. At prediction time only the task-net runs.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from .checks import (
    check_columns,
    check_export,
    check_feature_cache,
    check_hypergradient,
    check_loss_net,
    check_repeats,
    check_saving,
    check_task_net,
)
from .collators import TensorRows, collate_rows
from .compat import enable_gradient_checkpointing
from .encoders import task_features
from .energy_losses import ENERGY_LOSSES, GOLD, OUTPUT, SAMPLES
from .energy_weight import SCHEDULES, balanced
from .feature_cache import FEATURES, with_features
from .implicit import Hypergradient
from .implicit_phase import Implicit, MicroBatch, Pulled, evaluating
from .launchers import check_launcher
from .learner import Learner, frozen, reduces_sparse
from .loss_net import LossNet
from .meters import Meters
from .model_card import run_card
from .modeling import SealForMultiLabel
from .samplers import WindowRepeatSampler, stateless_noise
from .saving import SavingTrainer
from .spaces import SPACES, MultiLabelSpace, OutputSpace
from .training_args import CROSS_ENTROPY, SealTrainingArguments


class SealTrainer(SavingTrainer):
    """A [`~transformers.Trainer`] whose `model` is the plain task-net, with a loss-net trained beside it.

    Args:
        model: a [`SealForMultiLabel`], or any multi-label model together with `loss_net`.
        args: [`SealTrainingArguments`].
        loss_net: a [`LossNet`]; not needed for `energy_loss="ce"`.
        space: the output space, with its task loss; default: the loss-net's, else label sets, as `args` have them.
        kwargs: as for the Trainer. With `model_init`, the loss-net starts anew with every call.

    Raises:
        ValueError: no loss-net, a task-net or launcher that is not supported, or a data set without a `labels` column.
    """

    loss_is_scaled_for_ga = False  # ours is a mean over the micro-batch: the Trainer divides by the accumulation steps

    def __init__(
        self,
        model: SealForMultiLabel | PreTrainedModel | None = None,
        args: SealTrainingArguments | None = None,
        data_collator=None,
        train_dataset=None,
        eval_dataset=None,
        *,
        loss_net: LossNet | None = None,
        space: OutputSpace | None = None,
        **kwargs,
    ):
        args = args if args is not None else SealTrainingArguments(output_dir="trainer_output")
        check_launcher(args)
        check_saving(args)
        self.loss_net = loss_net
        self._initial_loss_net = {k: v.clone() for k, v in loss_net.state_dict().items()} if loss_net else None
        model = self._take_apart(model)
        if data_collator is None and isinstance(train_dataset or eval_dataset, TensorRows):
            data_collator = collate_rows
        super().__init__(model, args, data_collator, train_dataset, eval_dataset, **kwargs)
        if args.energy_loss == CROSS_ENTROPY:
            self.loss_net = None
        self._given_space = space
        self._take_space()
        check_launcher(args, self.accelerator)
        check_task_net(self.model, self.space)
        check_loss_net(self.loss_net, args, self.model)
        check_export(self.model, args)
        self.space.check_loss(args, self.model.config.num_labels)
        check_hypergradient(args, self.model, self.space, self.accelerator.distributed_type)
        check_repeats(args, train_dataset)
        check_columns(train_dataset=train_dataset, eval_dataset=eval_dataset)
        if self.loss_net is not None:
            self.loss_net.to(args.device)
            self._cache_features()
        self.learner: Learner | None = None
        self.implicit: Implicit | None = None
        self.meters, self.eval_meters = Meters(self.accelerator), Meters(self.accelerator)
        self.model_accepts_loss_kwargs = False
        self.label_names = ["labels"]
        self.card_facts: dict[str, Any] = {}  # what only the user knows of the card: arguments of `model_card.run_card`
        self._window: list[dict[str, Tensor]] = []
        self._micro_batch = 0  # which of the window
        self._pending = None  # the task-net's outputs with gradients, between training_step and compute_loss

    # --- the algorithm -----------------------------------------------------------------------------------------------

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        """Keep the whole accumulation window: the loss-net phase runs over all of it."""
        self._window, num_items = super().get_batch_samples(epoch_iterator, num_batches, device)
        return self._window, num_items

    def training_step(self, model: nn.Module, inputs: dict[str, Tensor], num_items_in_batch=None) -> Tensor:
        """On the first micro-batch of a window: loss-net phase. Then the Trainer's own step: task-net phase."""
        first = not self._window or inputs is self._window[0]
        self._micro_batch = 0 if first else self._micro_batch + 1
        try:
            if self.learner is not None and self.args.loss_net_steps > 0 and first:
                model.train()
                window = [self._prepare_inputs(batch) for batch in (self._window or [inputs])]
                if not self.args.loss_net_fresh_outputs:
                    with self.compute_loss_context_manager():
                        self._pending = self._run_task_net(model, window[0])
                self.loss_net_phase(window)
            return super().training_step(model, inputs, num_items_in_batch)
        finally:
            self._pending = None  # an interrupted step leaves nothing for the next, or for an evaluation

    def loss_net_phase(self, window: list[dict[str, Tensor]]) -> None:
        """n_E updates of the loss-net over the micro-batches of the window (SEAL Eq. 4); with `hypergradient`, by the
        gradient of a loss that knows what the energy does to the task-net (implicit.py)."""
        for update in range(self.args.loss_net_steps):
            if update == 0 or self.args.loss_net_fresh_outputs:
                task_outputs = [self._detached_outputs(batch, first=batch is window[0]) for batch in window]
            pulled = self._pulled(window, task_outputs, update)
            self.learner.zero_grad()
            for i, (batch, (logits, features, _)) in enumerate(zip(window, task_outputs, strict=True)):
                noise = self._noise(update, i)
                candidates = self.energy_loss.candidates(self.space, pulled.logits(i, logits), batch["labels"], noise)
                row = pulled.row(i, candidates.y)
                with self.loss_net.active(training=True), self.learner.accumulate(i == len(window) - 1):
                    energies = self.learner(row, candidates.mask, _inputs(batch), features)
                    energies, term = pulled.split(energies)
                    loss = self.energy_loss(energies, candidates)
                    self._meter_hypergradient(loss, term, first=update == i == 0)
                    self.learner.backward((loss + term) / len(window))
                self._meter_loss_net(loss, energies.detach())
            self.learner.apply()
            self.meters.add(loss_net_grad_norm=self.learner.grad_norm)
        self.learner.zero_grad()  # nothing of this phase is left when the task-net's optimizer steps

    def compute_loss(self, model, inputs, return_outputs: bool = False, num_items_in_batch=None):
        """Training: λ2 · task loss + λ1 · energy of the relaxed output (SEAL Eq. 1, 5). Evaluation: the task loss
        alone, which is the one that is trained (of `ranking`, cross-entropy: it needs no samples)."""
        outputs, self._pending = self._pending, None
        if outputs is None:
            outputs = self._run_task_net(model, inputs)
        noise = self._noise(self.args.loss_net_steps, self._micro_batch) if model.training else None
        task_loss = self.space.task_loss(outputs.logits, inputs["labels"], noise)
        if not model.training:
            self._meter_evaluation(outputs, inputs)
            return (task_loss, {"logits": outputs.logits}) if return_outputs else task_loss
        loss = self.args.task_weight * task_loss
        if self.learner is not None:
            loss = loss + self._weighted_energy(outputs, inputs, task_loss)
        self.meters.add(task_loss=task_loss)
        self.meters.watch("task-net", loss, self.state.global_step)
        return (loss, outputs) if return_outputs else loss

    # --- its parts ---------------------------------------------------------------------------------------------------

    def _run_task_net(self, model: nn.Module, inputs: dict[str, Tensor]):
        extra = {"output_hidden_states": True} if self._shares_features else {}
        with self.implicit.task_function.watch() if self.implicit is not None else nullcontext():
            outputs = model(**_inputs(inputs), **extra)
        self.space.check(outputs.logits, inputs["labels"])
        return outputs

    def _detached_outputs(self, batch: dict[str, Tensor], first: bool) -> tuple:
        """Logits and, for a shared loss-net, features of the current task-net, without gradient; and for implicit
        gradients the logits as a function of its parameters."""
        outputs = self._pending if first else None
        if outputs is None:  # the raw module: a forward of the DDP wrapper belongs to a backward
            with torch.no_grad(), self.compute_loss_context_manager():
                outputs = self._run_task_net(self.model, batch)
        function = None
        if self.implicit is not None:
            function = self.implicit.task_function.on(_inputs(batch), outputs.logits)
        return outputs.logits.detach(), self._features(outputs, batch), function

    def _pulled(self, window: list[dict[str, Tensor]], task_outputs: list[tuple], update: int) -> Pulled:
        """What implicit gradients add to this update of the loss-net; nothing, without them."""
        if self.implicit is None:
            return Pulled()
        batches = []
        with frozen(self.loss_net), evaluating(self.loss_net):
            for i, (batch, (_, features, function)) in enumerate(zip(window, task_outputs, strict=True)):
                with torch.no_grad(), self.loss_net.active(), self.accelerator.autocast():
                    encoded = self.loss_net.encode(_inputs(batch), features).float()
                batches.append(MicroBatch(function, batch["labels"], encoded, partial(self._noise, update, i)))
            pulled = self.implicit.solve(batches, self._energy_weight, self._mean_over_processes)
        self.meters.add(**{f"hypergradient_{name}": value for name, value in pulled.pulls.diagnostics.items()})
        return pulled

    def _features(self, outputs, inputs: dict[str, Tensor]) -> Tensor | None:
        """The loss-net's features, where it does not compute them: cached with the rows, or the task-net's."""
        if self._shares_features:
            return task_features(outputs, inputs, type(self.model).__name__)
        return inputs.get(FEATURES)

    def _weighted_energy(self, outputs, inputs: dict[str, Tensor], task_loss: Tensor) -> Tensor:
        """λ1 · task term of E(x, ŷ): gradients flow to the task-net through ŷ only, never to the loss-net."""
        gold, mask = self.space.gold(inputs["labels"])
        relaxed = self.space.output(outputs.logits)
        self.meters.add(**self.space.facts(relaxed))
        with frozen(self.loss_net):
            energy = self._energies(relaxed, mask, outputs, inputs)
            augmented = self.energy_loss.cost_augmented
            cost = self.space.cost(relaxed, gold, self.args.margin_cost, mask) if augmented else None
            term = self.energy_loss.task_term(energy, cost)
            weight = self._energy_weight
            if not self.args.energy_weight_balance:
                return weight * term
            term, ratio = balanced(term, task_loss, outputs.logits, self._sum_over_processes)
        self.meters.add(energy_weight=weight * ratio)
        return weight * term

    @property
    def _energy_weight(self) -> float:
        """λ1 of this step."""
        done = self.state.global_step / max(self.state.max_steps, 1)
        return self.args.energy_weight * SCHEDULES[self.args.energy_weight_schedule](done)

    def _mean_over_processes(self, values: Tensor) -> Tensor:
        return self.accelerator.reduce(values, reduction="mean")

    def _sum_over_processes(self, values: Tensor) -> Tensor:
        return self.accelerator.reduce(values, reduction="sum")

    def _energies(self, y: Tensor, mask: Tensor | None, outputs, inputs: dict[str, Tensor]) -> Tensor:
        """E(x, y), (B, S), of the raw loss-net, in the run's precision as in its own phase."""
        with self.accelerator.autocast():
            return self.loss_net(y, mask, _inputs(inputs), self._features(outputs, inputs))

    @property
    def _shares_features(self) -> bool:
        return self.loss_net is not None and self.loss_net.config.encoder_mode == "shared"

    def _cache_features(self) -> None:
        """With `loss_net_feature_cache`: freeze the loss-net's encoder and take its features from the disk."""
        folder, encoder = self.args.loss_net_feature_cache, self.loss_net.encoder
        if folder is None:
            return
        check_feature_cache(self.loss_net, train_dataset=self.train_dataset, eval_dataset=self.eval_dataset)
        encoder.requires_grad_(False)
        with self.args.main_process_first(desc="features of the loss-net's frozen encoder"):
            if self.train_dataset is not None:
                self.train_dataset = with_features(encoder, self.train_dataset, folder)
            if self.eval_dataset is not None:
                self.eval_dataset = with_features(encoder, self.eval_dataset, folder)

    def _noise(self, update: int, micro_batch: int) -> torch.Generator:
        """Stateless: depends on (seed, step, update, rank, micro-batch) alone, so resume is exact and ranks differ."""
        key = (self.args.seed, self.state.global_step, update, self.args.process_index, micro_batch)
        return stateless_noise(self.args.device, *key)

    def _meter_loss_net(self, loss: Tensor, energies: Tensor) -> None:
        self.meters.watch("loss-net", loss, self.state.global_step)
        self.meters.add(
            loss_net_loss=loss, energy_gold=energies[:, GOLD].mean(), energy_output=energies[:, OUTPUT].mean()
        )
        if energies.shape[1] > 2:
            self.meters.add(energy_samples=energies[:, SAMPLES].mean())

    def _meter_hypergradient(self, loss: Tensor, term: Tensor | float, first: bool) -> None:
        """Direct against full gradient, which takes a backward of each: of a micro-batch, once per log."""
        if self.implicit is None or self.args.loss_net_torch_compile:  # a compiled backward cannot be repeated
            return
        if first and self.state.global_step % max(self.state.logging_steps, 1) == 0:
            facts = self.implicit.compare(loss, term, self.learner.parameters)
            self.meters.add(**{f"hypergradient_{name}": value for name, value in facts.items()})

    def _meter_evaluation(self, outputs, inputs: dict[str, Tensor]) -> None:
        """Energies of output and gold are reported beside the evaluation loss, since the loss-net moves."""
        if self.loss_net is None:
            return
        was_training = self.loss_net.training
        self.loss_net.eval()
        gold, mask = self.space.gold(inputs["labels"])
        y = self.space.join([self.space.output(outputs.logits), self.space.candidate(gold)])
        energies = self._energies(y, mask, outputs, inputs)
        energies = self.accelerator.gather_for_metrics(energies)  # less the rows that filled up the last batch
        self.eval_meters.add(energy_output=energies[:, OUTPUT], energy_gold=energies[:, GOLD])
        self.loss_net.train(was_training)

    # --- the Trainer's hooks: data, set-up, log; those that save and load are in saving.py ---------------------------

    def _get_train_sampler(self, train_dataset=None):
        train_dataset = train_dataset if train_dataset is not None else self.train_dataset
        if self.args.batch_repeats == 1:
            return super()._get_train_sampler(train_dataset)
        window = self._train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
        seed = self.args.data_seed if self.args.data_seed is not None else self.args.seed
        return WindowRepeatSampler(len(train_dataset), window, self.args.batch_repeats, seed)

    def _set_signature_columns_if_needed(self) -> None:
        """The columns that are not removed as unused: also the loss-net's."""
        super()._set_signature_columns_if_needed()
        if FEATURES not in self._signature_columns:
            self._signature_columns.append(FEATURES)

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None):
        """The one hook, on both transformers lines, that knows the length of the run: the learner is built here."""
        scheduler = super().create_scheduler(num_training_steps, optimizer)
        self._take_space()
        self.meters, self.eval_meters = Meters(self.accelerator), Meters(self.accelerator)  # of this run alone
        self.implicit = None
        if self.args.energy_loss != CROSS_ENTROPY:
            self.energy_loss = ENERGY_LOSSES[self.args.energy_loss].from_arguments(self.args)
            if self.args.hypergradient != "none":
                config = Hypergradient.from_arguments(self.args)
                parts = (self.loss_net, self.space, self.energy_loss, self.args.task_weight)
                self.implicit = Implicit(config, self.model, self.args.hypergradient_parameters, *parts)
            if self.args.loss_net_gradient_checkpointing:
                enable_gradient_checkpointing(self.loss_net.encoder)
            sparse = self.space.is_sparse(self.model.config.num_labels)
            self.loss_net.sparse_gradients(sparse and reduces_sparse(self.accelerator))
            self.loss_net.train(
                self.args.loss_net_steps > 0
            )  # a loss-net that is left as it is teaches without dropout
            with self.loss_net.active(training=True):
                self.learner = Learner(
                    self.loss_net,
                    self.accelerator,
                    self.loss_net.parameter_groups(self.args),
                    scheduler_type=self.args.loss_net_lr_scheduler_type,
                    num_warmup_steps=self.args.loss_net_warmup_steps,
                    num_training_steps=num_training_steps * self.args.loss_net_steps,
                    max_grad_norm=self.args.loss_net_max_grad_norm,
                    betas=(self.args.adam_beta1, self.args.adam_beta2),
                    eps=self.args.adam_epsilon,
                    compile_options=self.args.loss_net_compile_options,
                )
        return scheduler

    def _take_space(self) -> None:
        """The output space with the arguments as they are: a hyper-parameter search changes them."""
        kind = SPACES[self.loss_net.config.space] if self.loss_net else MultiLabelSpace
        self.space = self._given_space or kind.from_arguments(self.args)

    def call_model_init(self, trial=None) -> nn.Module:
        model = self._take_apart(super().call_model_init(trial))
        if self.args.energy_loss == CROSS_ENTROPY:
            self.loss_net = None
        elif self._initial_loss_net is not None:
            self.loss_net.load_state_dict(self._initial_loss_net)
        return model

    def _take_apart(self, model):
        """A SealForMultiLabel gives the Trainer its task-net, and us its loss-net."""
        if not isinstance(model, SealForMultiLabel):
            return model
        self.loss_net = model.loss_net
        return model.task_net

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs or "train_loss" in logs:  # while training, and once at its end
            self.meters.check()
        if "loss" in logs:  # a training log, not an evaluation's or the closing one
            logs |= self.meters.drain()
            if self.implicit is not None:
                self.implicit.warn(logs)
            if self.learner is not None:
                logs["loss_net_learning_rate"] = self.learner.learning_rate
        super().log(logs, start_time)

    def evaluation_loop(self, *args, metric_key_prefix: str = "eval", **kwargs):
        self.eval_meters.drain()
        output = super().evaluation_loop(*args, metric_key_prefix=metric_key_prefix, **kwargs)
        output.metrics.update({f"{metric_key_prefix}_{k}": v for k, v in self.eval_meters.drain().items()})
        return output

    def create_model_card(self, **facts) -> None:
        """README.md of the output folder, written anew on every push: our card in place of the Trainer's draft."""
        if self.is_world_process_zero():
            card = run_card(self, **{**self.card_facts, **facts})
            Path(self.args.output_dir, "README.md").write_text(card, encoding="utf-8")


def _inputs(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """What an encoder takes of a batch."""
    return {name: value for name, value in batch.items() if name not in ("labels", FEATURES)}
