"""SealTrainer: the Trainer with a loss-net as a loss function.

One step, for one accumulation window of micro-batches (SEAL-dynamic, Lee et al. 2022, Eq. 4-5):

1. loss-net phase: n_E updates of the loss-net on candidates from the current task-net, detached;
2. task-net phase: the Trainer's own update, on λ2 · task loss + λ1 · energy of the task-net's relaxed output.

The task-net runs once on the first micro-batch of a window: the loss-net phase uses its detached outputs, and
`compute_loss` goes on from the same graph. At prediction time only the task-net runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from .checks import (
    check_columns,
    check_export,
    check_feature_cache,
    check_loss_net,
    check_repeats,
    check_saving,
    check_task_net,
)
from .collators import TensorRows, collate_rows
from .compat import enable_gradient_checkpointing
from .encoders import last_features, task_features
from .energy_losses import ENERGY_LOSSES, GOLD, OUTPUT, SAMPLES
from .energy_weight import SCHEDULES, balanced
from .feature_cache import FEATURES, with_features
from .infnet import CostAugmentedInference
from .launchers import check_crf, check_launcher
from .learner import Learner, frozen, reduces_sparse
from .loss_net import LossNet
from .meters import Meters
from .model_card import run_card
from .modeling import SealModel
from .samplers import WindowRepeatSampler, stateless_noise
from .saving import SavingTrainer
from .spaces import SPACES, MultiLabelSpace, OutputSpace
from .training_args import CROSS_ENTROPY, SealTrainingArguments


class SealTrainer(SavingTrainer):
    """A [`~transformers.Trainer`] whose `model` is the plain task-net, with a loss-net trained beside it.

    Args:
        model: a [`SealForMultiLabel`] or the like, or any model with the right logits together with `loss_net`.
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
        model: SealModel | PreTrainedModel | None = None,
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
        self.loss_net, self._space_class = loss_net, MultiLabelSpace
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
        check_crf(args, self.accelerator, self.model)
        check_task_net(self.model, self.space)
        check_loss_net(self.loss_net, args, self.model)
        check_export(self.model, args)
        self.space.check_loss(args, self.model.config.num_labels)
        check_repeats(args, train_dataset)
        check_columns(train_dataset=train_dataset, eval_dataset=eval_dataset)
        if self.loss_net is not None:
            self.loss_net.to(args.device)
            self._cache_features()
        self.learner: Learner | None = None
        self.partner: CostAugmentedInference | None = None
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
            if first and self._is_loss_net_step:
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
        """n_E updates of the loss-net over the micro-batches of the window (SEAL Eq. 4)."""
        for update in range(self.args.loss_net_steps):
            if update == 0 or self.args.loss_net_fresh_outputs:
                task_outputs = [self._detached_outputs(batch, first=batch is window[0]) for batch in window]
            self.learner.zero_grad()
            for i, (batch, (logits, features, augmented)) in enumerate(zip(window, task_outputs, strict=True)):
                noise = self._noise(update, i)
                candidates = self.energy_loss.candidates(self.space, logits, batch["labels"], noise, augmented)
                with self.loss_net.active(training=True), self.learner.accumulate(i == len(window) - 1):
                    energies = self.learner(candidates.y, candidates.mask, _inputs(batch), features)
                    loss = self.energy_loss(energies, candidates)
                    self.learner.backward(loss / len(window))
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
            encoded = self._encode(outputs, inputs)
            loss = loss + self._weighted_energy(outputs, inputs, task_loss, encoded)
            if self.partner is not None:
                loss = loss + self._partner_step(outputs, inputs, encoded)
        self.meters.add(task_loss=task_loss)
        self.meters.watch("task-net", loss, self.state.global_step)
        return (loss, outputs) if return_outputs else loss

    # --- its parts ---------------------------------------------------------------------------------------------------

    @property
    def _is_loss_net_step(self) -> bool:
        steps, every = self.args.loss_net_steps, self.args.loss_net_every
        return self.learner is not None and steps > 0 and self.state.global_step % every == 0

    def _run_task_net(self, model: nn.Module, inputs: dict[str, Tensor]):
        shared = self._shares_features or (self.partner is not None and self.partner.reads_features)
        extra = {"output_hidden_states": True} if shared else {}
        outputs = model(**_inputs(inputs), **extra)
        self.space.check(outputs.logits, inputs["labels"])
        return outputs

    def _detached_outputs(self, batch: dict[str, Tensor], first: bool) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Without gradient: logits of the current task-net; for a shared loss-net, its features; and the logits of its
        cost-augmented partner, if it has one."""
        outputs = self._pending if first else None
        if outputs is None:  # the raw module: a forward of the DDP wrapper belongs to a backward
            with torch.no_grad(), self.compute_loss_context_manager():
                outputs = self._run_task_net(self.model, batch)
        logits, augmented = outputs.logits.detach(), None
        if self.partner is not None:
            shared = self._partner_features(outputs, batch)
            augmented = self.partner.logits(_inputs(batch), shared, logits, batch["labels"])
        return logits, self._features(outputs, batch), augmented

    def _features(self, outputs, inputs: dict[str, Tensor]) -> Tensor | None:
        """The loss-net's features, where it does not compute them: cached with the rows, or the task-net's."""
        if self._shares_features:
            return task_features(outputs, inputs, type(self.model).__name__, self.loss_net.pooled)
        return inputs.get(FEATURES)

    def _partner_features(self, outputs, inputs: dict[str, Tensor]) -> Tensor | None:
        """What the cost-augmented network shares with the task-net, with its graph."""
        if not self.partner.reads_features:
            return None
        return last_features(outputs, inputs, type(self.model).__name__, self.loss_net.pooled)

    def _weighted_energy(self, outputs, inputs: dict[str, Tensor], task_loss: Tensor, encoded: Tensor) -> Tensor:
        """λ1 · task term of E(x, ŷ): gradients flow to the task-net through ŷ only, never to the loss-net."""
        gold, mask = self.space.gold(inputs["labels"])
        relaxed = self.space.output(outputs.logits)
        self.meters.add(**self.space.facts(relaxed))
        with frozen(self.loss_net):
            y, cost = relaxed, None
            if self.energy_loss.reads_gold:
                y = self.space.join([relaxed, self.space.candidate(gold)])
                cost = self.space.cost(relaxed, gold, self.args.margin_cost, mask)
            term = self.energy_loss.task_term(self.loss_net.energies(encoded, y, mask), cost)
            done = self.state.global_step / max(self.state.max_steps, 1)
            weight = self.args.energy_weight * SCHEDULES[self.args.energy_weight_schedule](done)
            if not self.args.energy_weight_balance:
                return weight * term
            term, ratio = balanced(term, task_loss, outputs.logits, self._sum_over_processes)
        self.meters.add(energy_weight=weight * ratio)
        return weight * term

    def _partner_step(self, outputs, inputs: dict[str, Tensor], encoded: Tensor) -> Tensor:
        """The cost-augmented network's step in this phase; a term of value 0 for what it shares with the task-net."""

        def energies(y: Tensor, mask: Tensor | None) -> Tensor:
            with frozen(self.loss_net):
                return self.loss_net.energies(encoded, y, mask)

        shared = self._partner_features(outputs, inputs)
        place = (self._micro_batch, max(len(self._window), 1))
        return self.partner.step(_inputs(inputs), shared, outputs.logits, inputs["labels"], energies, place)

    def _sum_over_processes(self, values: Tensor) -> Tensor:
        return self.accelerator.reduce(values, reduction="sum")

    @torch.no_grad()
    def _encode(self, outputs, inputs: dict[str, Tensor]) -> Tensor:
        """T_E(x) of the raw loss-net, in the run's precision as in its own phase."""
        with self.accelerator.autocast():
            return self.loss_net.encode(_inputs(inputs), self._features(outputs, inputs))

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

    def _meter_evaluation(self, outputs, inputs: dict[str, Tensor]) -> None:
        """Energies of output and gold are reported beside the evaluation loss, since the loss-net moves."""
        if self.loss_net is None:
            return
        was_training = self.loss_net.training
        self.loss_net.eval()
        gold, mask = self.space.gold(inputs["labels"])
        y = self.space.join([self.space.output(outputs.logits), self.space.candidate(gold)])
        energies = self.loss_net.energies(self._encode(outputs, inputs), y, mask)
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
        """The columns that are not removed as unused: also the loss-net's, and what a net names as its input."""
        super()._set_signature_columns_if_needed()
        known = self._signature_columns
        known += [name for name in (FEATURES, *getattr(self.model, "input_names", ())) if name not in known]

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None):
        """The one hook, on both transformers lines, that knows the length of the run: the learner is built here."""
        scheduler = super().create_scheduler(num_training_steps, optimizer)
        self._take_space()
        self.meters, self.eval_meters = Meters(self.accelerator), Meters(self.accelerator)  # of this run alone
        self.learner = self.partner = None  # so are these
        if self.args.energy_loss != CROSS_ENTROPY:
            self.energy_loss = ENERGY_LOSSES[self.args.energy_loss].from_arguments(self.args)
            if self.args.loss_net_gradient_checkpointing:
                enable_gradient_checkpointing(self.loss_net.encoder)
            sparse = self.space.is_sparse(self.model.config.num_labels)
            self.loss_net.sparse_gradients(sparse and reduces_sparse(self.accelerator))
            self.loss_net.train(
                self.args.loss_net_steps > 0
            )  # a loss-net that is left as it is teaches without dropout
            with self.loss_net.active(training=True):
                self.learner = Learner.of_loss_net(self.loss_net, self.accelerator, self.args, num_training_steps)
            if self.partner_kind is not None:
                self.partner = CostAugmentedInference.beside(
                    self.model, self.loss_net, self.accelerator, self.args, self.energy_loss, self.space
                )
        return scheduler

    @property
    def partner_kind(self) -> str | None:
        """The parameterization of the cost-augmented network that the energy loss asks for, if it does."""
        loss = ENERGY_LOSSES.get(self.args.energy_loss)
        return self.args.cost_augmented_network if loss is not None and loss.has_partner else None

    def _take_space(self) -> None:
        """The output space with the arguments as they are: a hyper-parameter search changes them."""
        kind = SPACES[self.loss_net.config.space] if self.loss_net else self._space_class
        self.space = self._given_space or kind.from_arguments(self.args, self.model)

    def call_model_init(self, trial=None) -> nn.Module:
        model = self._take_apart(super().call_model_init(trial))
        if self.args.energy_loss == CROSS_ENTROPY:
            self.loss_net = None
        elif self._initial_loss_net is not None:
            self.loss_net.load_state_dict(self._initial_loss_net)
        return model

    def _take_apart(self, model):
        """A SealForMultiLabel or the like gives the Trainer its task-net, and us its loss-net."""
        if not isinstance(model, SealModel):
            return model
        self.loss_net, self._space_class = model.loss_net, model.space_class
        return model.task_net

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs or "train_loss" in logs:  # while training, and once at its end
            self.meters.check()
        if "loss" in logs:  # a training log, not an evaluation's or the closing one
            logs |= self.meters.drain()
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
