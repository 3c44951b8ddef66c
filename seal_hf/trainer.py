"""SealTrainer: the Trainer with a loss-net as a loss function.

One step, for one accumulation window of micro-batches (SEAL-dynamic, Lee et al. 2022, Eq. 4-5):

1. loss-net phase: n_E updates of the loss-net on candidates from the current task-net, detached;
2. task-net phase: the Trainer's own update, on λ2 · task loss + λ1 · energy of the task-net's relaxed output.

The task-net runs once on the first micro-batch of a window: the loss-net phase uses its detached outputs, and
`compute_loss` goes on from the same graph. At prediction time only the task-net runs.

The algorithm is here; two_nets.py sets up what it calls, saving_trainer.py saves and loads both nets, and
structured_trainer.py is what all trainers here share.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.trainer_utils import has_length
from transformers.utils import ModelOutput

from .energy_losses import GOLD, OUTPUT, SAMPLES, Candidates
from .implicit.phase import ImplicitTerm, MicroBatch
from .nets.encoders import last_features, task_features
from .nets.feature_cache import FEATURES
from .spaces import OutputSpace
from .training.base import encoder_inputs
from .training.checks import check_begun
from .training.energy_weight import SCHEDULES, balanced
from .training.two_nets import TwoNetTrainer
from .utils.modules import evaluating, frozen, keeping_statistics, train_mode
from .utils.noise import perturbed, stateless_noise


class SealTrainer(TwoNetTrainer):
    """A [`~transformers.Trainer`] whose `model` is the plain task-net, with a loss-net trained beside it.

    Args:
        model: a [`SealForMultiLabel`] or the like, or any model with the right logits together with `loss_net`.
        args: [`SealTrainingArguments`].
        loss_net: a [`LossNet`], in place of the model's own, if it has one; not needed for `energy_loss="ce"`.
        space: the output space, with its task loss and options in place of those of `args`; default: the loss-net's,
            else label sets, as `args` have them.
        decode_predictions: evaluation gathers what the space decodes, tag ids (B, T) instead of logits, and gives that
            to `compute_metrics` and `predict`.
        kwargs: as for the Trainer. With `model_init`, the loss-net starts anew with every call.

    Raises:
        ValueError: no loss-net, a task-net or launcher that is not supported, or a data set without a `labels` column.
    """

    _window: Sequence[dict[str, Tensor]] = ()  # the micro-batches of this update
    _micro_batch = 0  # which of them is trained on, by number: a subclass may hand on copies
    _next_micro_batch = 0  # the counter
    _pending: Any = None  # the task-net's outputs with gradients, between training_step and compute_loss

    # --- the algorithm -----------------------------------------------------------------------------------------------

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        """Keep the whole accumulation window: the loss-net phase runs over all of it."""
        self._window, num_items = super().get_batch_samples(epoch_iterator, num_batches, device)
        self._next_micro_batch = 0
        return self._window, num_items

    def training_step(self, model: nn.Module, inputs: dict[str, Tensor], num_items_in_batch=None) -> Tensor:
        """On the first micro-batch of a window: loss-net phase. Then the Trainer's own step: task-net phase."""
        self._micro_batch = self._next_micro_batch if self._window else 0
        self._next_micro_batch += 1
        check_begun(self.learner, self.args, self.callback_handler.callbacks)
        try:
            if self._micro_batch == 0 and self._is_loss_net_step:
                train_mode(model, self.optimizer)
                window = [self._prepare_inputs(batch) for batch in (inputs, *self._window[1:])]
                if not self.args.loss_net_fresh_outputs:
                    with self.compute_loss_context_manager():
                        self._pending = self._run_task_net(model, window[0])
                self.loss_net_phase(window)
            return super().training_step(model, inputs, num_items_in_batch)
        finally:
            self._pending = None  # an interrupted step leaves nothing for the next, or for an evaluation

    def loss_net_phase(self, window: list[dict[str, Tensor]]) -> None:
        """n_E updates of the loss-net over the micro-batches of the window (SEAL Eq. 4); with `hypergradient`, by the
        gradient of a loss that knows what the energy does to the task-net (implicit/)."""
        for update in range(self.args.loss_net_steps):
            if update == 0 or self.args.loss_net_fresh_outputs:
                task_outputs = [self._detached_outputs(batch, first=batch is window[0]) for batch in window]
            implicit_term = self._implicit_term(window, task_outputs, update)
            self.learner.zero_grad()
            for i, (batch, task) in enumerate(zip(window, task_outputs, strict=True)):
                logits, noise = implicit_term.logits(i, task.logits), self._noise(update, i)
                space, labels = self._space_of(batch), batch["labels"]
                candidates = self.energy_loss.candidates(space, logits, labels, noise, task.augmented)
                row, split = implicit_term.row(i, candidates.y)  # the candidates; with implicit gradients, more columns
                with self.loss_net.active(training=True), self.learner.accumulate(i == len(window) - 1):
                    energies, term = split(self.learner(row, candidates.mask, encoder_inputs(batch), task.features))
                    loss = self.energy_loss(energies, candidates)
                    self._meter_hypergradient(loss, term)
                    self.learner.backward((loss + term) / len(window))
                self._meter_loss_net(loss, energies.detach(), candidates)
            self.learner.apply()
            self.meters.add(loss_net_grad_norm=self.learner.grad_norm)
        self.learner.zero_grad()  # nothing of this phase is left when the task-net's optimizer steps

    def compute_loss(self, model, inputs, return_outputs: bool = False, num_items_in_batch=None):
        """Training: λ2 · task loss + λ1 · energy of the relaxed output (SEAL Eq. 1, 5). Evaluation: the task loss
        alone, which is the one that is trained (of `ranking`, cross-entropy: it needs no samples)."""
        outputs, self._pending = self._pending, None
        if outputs is None:
            outputs = self._run_task_net(model, inputs)
        with torch.autocast(outputs.logits.device.type, enabled=False):  # on CPU, transformers 4 has one around it all
            noise = self._noise(self.args.loss_net_steps, self._micro_batch) if model.training else None
            task_loss = self.space.task_loss(outputs.logits, inputs["labels"], noise)
            if not model.training:
                self._meter_evaluation(outputs, inputs)
                return (task_loss, ModelOutput(logits=outputs.logits)) if return_outputs else task_loss
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
        return self.learner is not None and steps > 0 and self.state.global_step % every == 0 and self._ends_in_step

    @property
    def _ends_in_step(self) -> bool:
        """Not so the last window of a stream, if it is short: the Trainer, which did not know that the stream would
        end, adds its gradients to those of the next epoch's first window."""
        whole = len(self._window) in (0, self.args.gradient_accumulation_steps)
        return whole or has_length(self.callback_handler.train_dataloader)

    def _run_task_net(self, model: nn.Module, inputs: dict[str, Tensor]):
        shared = self._shares_features or (self.partner is not None and self.partner.reads_features)
        extra = {"output_hidden_states": True} if shared else {}
        with self.implicit.task_function.watch() if self.implicit is not None else nullcontext():
            outputs = model(**encoder_inputs(inputs), **extra)
        self.space.check(outputs.logits, inputs["labels"])
        outputs.logits = self.space.fit(outputs.logits, inputs["labels"])
        return outputs

    def _detached_outputs(self, batch: dict[str, Tensor], first: bool) -> Detached:
        """What the loss-net's phase reads of the current task-net."""
        outputs = self._pending if first else None
        if outputs is None:  # the raw module: a forward of the DDP wrapper belongs to a backward
            with torch.no_grad(), keeping_statistics(self.model), self.compute_loss_context_manager():
                outputs = self._run_task_net(self.model, batch)
        logits, augmented, function = outputs.logits.detach(), None, None
        if self.partner is not None:
            shared = self._partner_features(outputs, batch)
            augmented = self.partner.logits(encoder_inputs(batch), shared, logits, batch["labels"])
        if self.implicit is not None:
            raw = self.implicit.task_function.on(encoder_inputs(batch))
            function = lambda phi: self.space.fit(raw(phi), batch["labels"])  # noqa: E731
        return Detached(logits, self._features(outputs, batch), augmented, function)

    def _space_of(self, batch: dict[str, Tensor]) -> OutputSpace:
        """The output space, with what it needs to know of this batch, and of the task-net where that draws samples."""
        space = self.space.of(batch)
        return space.proposing(partial(self._perturbed_outputs, batch)) if space.samples_from_inputs else space

    @torch.no_grad()
    def _perturbed_outputs(self, batch: dict[str, Tensor], num_samples: int, noise: torch.Generator) -> Tensor:
        """The task-net's logits at K noisy copies of each input, in its present mode, by one forward: (B, K, ...)."""
        inputs = perturbed(encoder_inputs(batch), num_samples, self.args.input_noise_std, noise)
        with keeping_statistics(self.model), self.compute_loss_context_manager():
            logits = self.model(**inputs).logits
        logits = self.space.fit(logits, batch["labels"].repeat_interleave(num_samples, 0))
        return logits.unflatten(0, (-1, num_samples))

    def _implicit_term(
        self, window: list[dict[str, Tensor]], task_outputs: list[Detached], update: int
    ) -> ImplicitTerm:
        """What implicit gradients add to this update of the loss-net; nothing, without them."""
        if self.implicit is None:
            return ImplicitTerm()
        batches = []
        with frozen(self.loss_net), evaluating(self.loss_net):
            for i, (batch, task) in enumerate(zip(window, task_outputs, strict=True)):
                with torch.no_grad(), self.loss_net.active(), self.accelerator.autocast():
                    encoded = self.loss_net.encode(encoder_inputs(batch), task.features).float()
                noise = partial(self._noise, update, i)
                batches.append(MicroBatch(task.function, batch["labels"], encoded, noise, self._space_of(batch)))
            term = self.implicit.solve(batches, self._energy_weight, self._mean_over_processes)
        self.meters.add(**{f"hypergradient_{name}": value for name, value in term.adjoints.diagnostics.items()})
        return term

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
            weight = self._energy_weight
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
        batch, size = (encoder_inputs(inputs), shared, outputs.logits, inputs["labels"]), max(len(self._window), 1)
        return self.partner.step(*batch, energies, size, last=self._ends_in_step and self._micro_batch == size - 1)

    @property
    def _energy_weight(self) -> float:
        """λ1 of this step."""
        done = self.state.global_step / max(self.state.max_steps, 1)
        return self.args.energy_weight * SCHEDULES[self.args.energy_weight_schedule](done)

    def _mean_over_processes(self, values: Tensor) -> Tensor:
        return self.accelerator.reduce(values, reduction="mean")

    def _sum_over_processes(self, values: Tensor) -> Tensor:
        return self.accelerator.reduce(values, reduction="sum")

    @torch.no_grad()
    def _encode(self, outputs, inputs: dict[str, Tensor]) -> Tensor:
        """T_E(x) of the raw loss-net, in the run's precision as in its own phase."""
        with self.accelerator.autocast():
            return self.loss_net.encode(encoder_inputs(inputs), self._features(outputs, inputs))

    @property
    def _shares_features(self) -> bool:
        return self.loss_net is not None and self.loss_net.config.encoder_mode == "shared"

    def _noise(self, update: int, micro_batch: int) -> torch.Generator:
        """Stateless: depends on (seed, step, update, rank, micro-batch) alone, so resume is exact and ranks differ."""
        key = (self.args.seed, self.state.global_step, update, self.args.process_index, micro_batch)
        return stateless_noise(self.args.device, *key)

    def _meter_loss_net(self, loss: Tensor, energies: Tensor, candidates: Candidates) -> None:
        self.meters.watch("loss-net", loss, self.state.global_step)
        self.meters.add(
            loss_net_loss=loss, energy_gold=energies[:, GOLD].mean(), energy_output=energies[:, OUTPUT].mean()
        )
        self.meters.add(**self.energy_loss.terms(energies, candidates))
        if energies.shape[1] > 2:
            self.meters.add(energy_samples=energies[:, SAMPLES].mean())

    def _meter_hypergradient(self, loss: Tensor, term: Tensor | float) -> None:
        """Direct against full gradient, which takes a backward of each: of one micro-batch per log."""
        if self.implicit is None or self.args.loss_net_torch_compile:  # a compiled backward cannot be repeated
            return
        if "hypergradient_cosine" not in self.meters:
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
        self._meter_energies(self.loss_net.energies(self._encode(outputs, inputs), y, mask))
        self.loss_net.train(was_training)


class Detached(NamedTuple):
    """What the loss-net's phase reads of the task-net on a micro-batch, without gradient: its logits; for a shared
    loss-net its features; the logits of its cost-augmented partner; for implicit gradients, the logits as a function of
    its parameters."""

    logits: Tensor
    features: Tensor | None
    augmented: Tensor | None
    function: Any
