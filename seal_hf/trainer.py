"""SealTrainer: the Trainer with a loss-net as a loss function. This file is one step, from top to bottom.

One step, for one accumulation window of micro-batches (SEAL-dynamic, Lee et al. 2022, Eq. 4-5):

1. loss-net phase: n_E updates of the loss-net on candidates from the current task-net, detached;
2. task-net phase: the Trainer's own update, on λ2 · task loss + λ1 · energy of the task-net's relaxed output.

The task-net runs once on the first micro-batch of a window: both phases use this forward. At prediction time only the
task-net runs. `extensions/` adds to a step: implicit gradients, a cost-augmented network, perturbed inputs. How a run
begins, and what is saved, is in `training/two_nets.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from transformers.trainer_utils import has_length
from transformers.utils import ModelOutput

from .core.tensors import stateless_noise
from .energy_losses import GOLD, OUTPUT, SAMPLES, Candidates
from .extensions import MicroBatch
from .loss_net.energy_weight import SHARE, row_pulls
from .nets.encoders import task_features
from .nets.frozen_encoder import FEATURES, OUTPUTS, encoder_inputs
from .nets.heads import with_features
from .nets.task_nets import check_has_logits
from .training.checks import check_begun, check_computed, check_is_in_step
from .training.evaluation import counted_rows
from .training.two_nets import TwoNetTrainer
from .utils.modules import frozen, in_evaluation, keeping_statistics, train_mode

EVALUATED, HELD = 1, 2  # streams of noise: samples of an evaluation; candidates' values at unknown labels
EVALUATION_SAMPLES = 8  # per row, which the energy should tell from gold


class Window:
    """The micro-batches of one update of the task-net, and the current one.

    Args:
        batches: from the loader; empty for a step called by hand, which is its own window.

    Attributes:
        position: index of the micro-batch that is trained on. (A subclass of the trainer may pass on copies.)
    """

    def __init__(self, batches: Sequence[dict[str, Tensor]] = ()):
        self.batches, self.position = batches, 0
        self._next = 0

    def __len__(self) -> int:
        return max(len(self.batches), 1)

    def advance(self) -> None:
        """Go to the next micro-batch."""
        self.position = self._next if self.batches else 0
        self._next += 1

    @property
    def has_begun(self) -> bool:
        """False while the micro-batches have not reached `training_step`."""
        return not self.batches or self._next > 0

    @property
    def is_last(self) -> bool:
        """True on the micro-batch after which the task-net's optimizer steps, if the window is whole."""
        return self.position == len(self) - 1

    def is_whole(self, accumulation_steps: int) -> bool:
        """False for the short window at the end of an epoch."""
        return len(self.batches) in (0, accumulation_steps)


class SealTrainer(TwoNetTrainer):
    """A [`~transformers.Trainer`] whose `model` is the plain task-net, with a loss-net trained beside it.

    Args:
        model: a [`SealForMultiLabel`] or the like; or a plain task-net, which gets a fresh loss-net if none is given.
        args: [`SealTrainingArguments`].
        loss_net: a [`LossNet`] that replaces the model's own; unused with `energy_loss="ce"`.
        space: the output space; its task loss and options replace those of `args`. Default: the loss-net's space, else
            that of the task-net's class, else label sets, with the options of `args`.
        task_loss: a function (logits, labels) -> (B,) that replaces the task loss of `args`, see `OwnTaskLoss`. A
            `compute_loss_func` replaces it too.
        decode_predictions: give `compute_metrics` and `predict` decoded outputs: tag ids (B, T) instead of logits.
        kwargs: as for the Trainer. Each call of `model_init` starts the loss-net anew.

    Attributes:
        energy_loss, learner: the loss-net's loss and trainer, or None. A run makes its own learner.
        energy_weight: λ1, an [`EnergyWeight`]; it gives the share or the weight of a step.
        extensions: what this run adds to a step, see [`Extension`].
        card_facts: arguments of [`run_card`] that only the user knows.

    Raises:
        ValueError: no loss-net, a task-net or launcher that is not supported, or a data set without a `labels` column.
    """

    window = Window()  # of a step called by hand
    has_computed = False  # True once `compute_loss` has run in this step
    _pending: Any = None  # the task-net's outputs with gradients, between training_step and compute_loss

    # --- the window --------------------------------------------------------------------------------------------------

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: torch.device) -> Any:
        """Keep the whole accumulation window: the loss-net phase runs over all of it."""
        batches, num_items = super().get_batch_samples(epoch_iterator, num_batches, device)
        self.window = Window(batches)
        return batches, num_items

    def training_step(self, model: nn.Module, inputs: dict[str, Tensor], num_items_in_batch: Any = None) -> Tensor:
        """Run the loss-net phase on the first micro-batch of a window, and then the Trainer's own step, which is the
        task-net phase."""
        self.window.advance()
        self.has_computed = False
        check_begun(self.learner, self.args, self.callback_handler.callbacks)
        try:
            if self.window.position == 0 and self._is_loss_net_step:
                train_mode(model, self.optimizer)
                window = [self._prepare_inputs(batch) for batch in (inputs, *self.window.batches[1:])]
                with self.compute_loss_context_manager():
                    self._pending = self._run_task_net(model, window[0])
                self.loss_net_phase(window)
            loss = super().training_step(model, inputs, num_items_in_batch)
            check_computed(self, model)
            return loss
        finally:
            self._pending = None  # also after an interrupted step: the next step or evaluation must not use it

    @property
    def _is_loss_net_step(self) -> bool:
        steps, every = self.args.loss_net_steps, self.args.loss_net_every
        return self.learner is not None and steps > 0 and self.state.global_step % every == 0 and self._ends_in_step

    @property
    def _ends_in_step(self) -> bool:
        """True if the optimizer steps after this window. At the end of a stream, a short window joins the next one."""
        whole = self.window.is_whole(self.args.gradient_accumulation_steps)
        return whole or has_length(self.callback_handler.train_dataloader)

    # --- forwards ----------------------------------------------------------------------------------------------------

    def _run_task_net(self, model: nn.Module, inputs: dict[str, Tensor]) -> Any:
        """Outputs of the task-net, with logits in the shape of the labels. `model` is the raw net or the Trainer's
        wrapper of it."""
        states = self._shares_features or any(extension.reads_hidden_states for extension in self.extensions)
        with ExitStack() as stack:
            for extension in self.extensions:
                stack.enter_context(extension.watching())
            given = encoder_inputs(inputs)
            if OUTPUTS in inputs:  # a frozen encoder's outputs replace its inputs
                stack.enter_context(self.frozen_encoder.giving(inputs[OUTPUTS]))
                given = self.frozen_encoder.stand_ins(inputs[OUTPUTS])
            outputs = with_features(self.model, given, run=model) if states else model(**given)
        check_has_logits(self.model, outputs)
        self.space.check(outputs.logits, inputs["labels"])
        outputs.logits = self.space.fit(outputs.logits, inputs["labels"])
        return outputs

    def _space_of(self, inputs: dict[str, Tensor]) -> Any:
        """The space for a micro-batch of the window."""
        others = self.window.batches if len(self.window) > 1 else ()
        return self.space.of(inputs).in_window([batch["labels"] for batch in others])

    def _micro_batch(self, i: int, outputs: Any, inputs: dict[str, Tensor]) -> MicroBatch:
        """Micro-batch `i` of a window, with the graph of its logits."""
        labels, logits = inputs["labels"], outputs.logits
        space = self._space_of(inputs).holding(logits, labels, partial(self._noise, i, 0, HELD))
        features = inputs.get(FEATURES)  # of a loss-net that does not compute them: cached ones, or the task-net's
        if self._shares_features:
            features = task_features(outputs, inputs, self.model, self.loss_net.pooling)
        return MicroBatch(encoder_inputs(inputs), labels, space, logits, features, partial(self._noise, i))

    def _detached(self, i: int, outputs: Any, inputs: dict[str, Tensor]) -> MicroBatch:
        """Micro-batch `i` for the loss-net's phase, with what the extensions add. If `outputs` is None, the task-net
        runs here."""
        if outputs is None:  # the raw module: a forward of the DDP wrapper belongs to a backward
            with torch.no_grad(), keeping_statistics(self.model), self.compute_loss_context_manager():
                outputs = self._run_task_net(self.model, inputs)
        batch = self._micro_batch(i, outputs, inputs)
        batch.logits = batch.logits.detach()
        for extension in self.extensions:
            batch = extension.prepare(batch, outputs)
        return batch

    @torch.no_grad()
    def _encode(self, batch: MicroBatch) -> Tensor:
        """T_E(x) of the raw loss-net, in the same precision as in its own phase."""
        with self.accelerator.autocast():
            return self.loss_net.encode(batch.inputs, batch.features)

    def _noise(self, micro_batch: int, update: int, *stream: int) -> torch.Generator:
        """A generator that depends only on (seed, step, update, rank, micro-batch, stream): resume is exact and ranks
        differ."""
        args, step = self.args, self.state.global_step
        return stateless_noise(args.device, args.seed, step, update, args.process_index, micro_batch, *stream)

    @property
    def _shares_features(self) -> bool:
        return self.loss_net is not None and self.loss_net.config.encoder_mode == "shared"

    # --- the loss-net's phase ----------------------------------------------------------------------------------------

    def loss_net_phase(self, window: list[dict[str, Tensor]]) -> None:
        """Update the loss-net n_E times on candidates from the current task-net (SEAL Eq. 4), over the micro-batches of
        the window."""
        outputs = [self._pending, *(None for _ in window[1:])]  # the task-net has run on the first of them
        detached = [self._detached(i, *given) for i, given in enumerate(zip(outputs, window, strict=True))]
        weight = self.energy_weight.weight(self.state)
        for update in range(self.args.loss_net_steps):
            batches = detached
            for extension in self.extensions:
                batches = extension.begin_update(batches, update, weight)
            self.learner.zero_grad()
            for i, batch in enumerate(batches):
                self._loss_net_backward(batch, update, i, len(batches))
            self.learner.apply()
            if self.learner.has_stepped:
                self.meters.add(loss_net_grad_norm=self.learner.grad_norm)
        for extension in self.extensions:
            extension.end_phase()
        self.learner.zero_grad()  # the task-net's optimizer must not see gradients of this phase

    def _loss_net_backward(self, batch: MicroBatch, update: int, i: int, num_batches: int) -> None:
        """The gradient of L_E on micro-batch `i`, with the candidates and terms of the extensions."""
        given = batch.space, batch.logits, batch.labels, batch.noise(update), batch.augmented
        candidates = self.energy_loss.candidates(*given)
        columns = [extension.columns(batch) for extension in self.extensions]
        row = batch.space.join([candidates.y, *chain(*columns)])
        with self.loss_net.active(training=True), self.learner.accumulate(i == num_batches - 1):
            energies = self.learner(row, candidates.mask, batch.inputs, batch.features)
            widths = [sum(y.shape[1] for y in own) for own in ([candidates.y], *columns)]
            energies, *of_columns = energies.split(widths, dim=1)
            loss = self.energy_loss(energies, candidates)
            terms = zip(self.extensions, of_columns, strict=True)
            total = loss + sum(extension.loss_net_term(batch, own, loss) for extension, own in terms)
            self.learner.backward(total / num_batches)
        self._meter_phase(loss, energies.detach(), candidates)

    def _meter_phase(self, loss: Tensor, energies: Tensor, candidates: Candidates) -> None:
        """Meter the energy loss of a micro-batch and its candidates' energies, (B, 2 + K)."""
        self.meters.watch("loss-net", loss, self.state.global_step)
        means = {"energy_gold": energies[:, GOLD].mean(), "energy_output": energies[:, OUTPUT].mean()}
        self.meters.add(loss_net_loss=loss, **means)
        self.meters.add(**self.energy_loss.terms(energies, candidates))
        if energies.shape[1] > 2:
            self.meters.add(energy_samples=energies[:, SAMPLES].mean())

    # --- the task-net's phase ----------------------------------------------------------------------------------------

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Training: λ2 · task loss + λ1 · energy of the relaxed output (SEAL Eq. 1, 5). Evaluation: the task loss."""
        outputs, self._pending = self._pending, None
        if outputs is None:
            outputs = self._run_task_net(model, inputs)
        with torch.autocast(outputs.logits.device.type, enabled=False):  # transformers 4 on CPU is inside one
            if not model.training:
                return self._evaluation_loss(outputs, inputs, return_outputs)
            check_is_in_step(self.learner, self.args, self.window.has_begun)
            noise = self._noise(self.window.position, self.args.loss_net_steps)
            task_loss = self._space_of(inputs).task_loss(outputs.logits, inputs["labels"], noise)
            self.has_computed = True
            loss = self.args.task_weight * task_loss
            if self.learner is not None:
                loss = self._add_energy(loss, task_loss, outputs, inputs)
            self.meters.add(task_loss=task_loss)
            self.meters.watch("task-net", loss, self.state.global_step)
            return (loss, outputs) if return_outputs else loss

    def _add_energy(self, loss: Tensor, task_loss: Tensor, outputs: Any, inputs: dict[str, Tensor]) -> Tensor:
        """`loss` + λ1 · task term of E(x, ŷ) + the extensions' terms. Gradients reach the task-net alone, through ŷ."""
        if self.energy_weight.is_zero(self.state) and not self.extensions:
            return loss
        batch = self._micro_batch(self.window.position, outputs, inputs)
        encoded = self._encode(batch)

        def energies_of(y: Any, mask: Tensor | None) -> Tensor:
            with frozen(self.loss_net.energy):
                return self.loss_net.energies(encoded, y, mask)

        gold, mask = batch.space.gold(batch.labels)
        output = batch.space.output(batch.logits)
        row, cost = self.energy_loss.task_row(batch.space, batch.logits, output, gold, mask)
        term = self.energy_loss.task_term(energies_of(row, mask), cost)
        read = batch.logits, batch.space.parameters
        term, facts = self.energy_weight.weigh(self.state, term, task_loss, *read)
        self.meters.add(**self.space.facts(output), **facts)
        loss, is_last = loss + term, self.window.is_last and self._ends_in_step
        for extension in self.extensions:
            loss = loss + extension.task_net_term(batch, outputs, energies_of, len(self.window), is_last)
        return loss

    # --- the log -----------------------------------------------------------------------------------------------------

    def _log_facts(self, facts: dict[str, float], at_end: bool) -> dict[str, float]:
        for extension in self.extensions:
            extension.read_log(facts)
        if at_end:  # `train` returns these
            logged = [*self.state.log_history, facts]
            return {name: value for e in self.extensions for name, value in e.closing_facts(logged).items()}
        if self.learner is not None:
            facts["loss_net_learning_rate"] = self.learner.learning_rate
            if self.energy_weight.is_ruled:
                facts[SHARE] = self.energy_weight.share(self.state) or 0.0
        return facts

    # --- an evaluation: what the energy says of unseen rows ----------------------------------------------------------

    def _evaluation_loss(self, outputs: Any, inputs: dict[str, Tensor], return_outputs: bool) -> Any:
        """The task loss, without row weights, of the rows that count. Energies are metered."""
        labels = inputs["labels"]
        count = counted_rows(self.accelerator, len(labels))
        loss = self.space.task_loss(outputs.logits[:count], labels[:count])
        if self.loss_net is not None and self.meters_energies:
            self.evaluated_batches += 1
            with in_evaluation(self.loss_net):
                self._meter_evaluation(self._micro_batch(self.evaluated_batches, outputs, inputs))
        return (loss, ModelOutput(logits=outputs.logits)) if return_outputs else loss

    def _meter_evaluation(self, batch: MicroBatch) -> None:
        """Meter the energies of output and gold, the direction of the energy's pull, and how often the energy and the
        task-net's own probability prefer gold to a fresh sample."""
        space: Any = batch.space
        encoded, (gold, mask) = self._encode(batch), space.gold(batch.labels)
        has_gold = space.has_gold(batch.labels).unsqueeze(1)
        if self.is_in_train:
            pulls = self._pulls(batch, encoded, gold, mask) * has_gold
            self.alignment.add(self.accelerator.gather_for_metrics(pulls))
        parts, drawn = [space.output(batch.logits), space.candidate(gold)], None
        if not space.samples_from_inputs:
            noise = self._noise(self.evaluated_batches, 0, EVALUATED)
            drawn = space.sample(batch.logits, EVALUATION_SAMPLES, noise)
            parts.append(drawn)
        energies = self.loss_net.energies(encoded, space.join(parts), mask)
        self._meter_energies(energies[:, : GOLD + 1])
        if drawn is not None:
            log_p = space.log_prob(batch.logits, space.join(parts[1:]), mask)
            differs = space.differs(drawn, gold, mask)
            orders = [preferred(-energies[:, GOLD:], differs), preferred(log_p, differs), differs.sum(1)]
            counts = torch.stack([order.float() for order in orders], dim=1) * has_gold
            counts = self.accelerator.gather_for_metrics(counts)  # of each row, (B, 3)
            self.eval_meters.add(energy_order=counts[:, 0], task_net_order=counts[:, 1], contrasted=counts[:, 2])

    def _pulls(self, batch: MicroBatch, encoded: Tensor, gold: Tensor, mask: Tensor | None) -> Tensor:
        """The sums of [`row_pulls`] for each row of an evaluation."""
        space = batch.space

        def energy_term(logits: Tensor) -> Tensor:
            row, cost = self.energy_loss.task_row(space, logits, space.output(logits), gold, mask)
            with frozen(self.loss_net.energy):
                return self.energy_loss.task_term(self.loss_net.energies(encoded, row, mask), cost)

        def task_loss(logits: Tensor) -> Tensor:
            copies = len(logits) // len(batch.labels)
            return self.space.task_loss(logits, torch.cat([batch.labels] * copies), None)

        return row_pulls(batch.logits, energy_term, task_loss)


def preferred(scores: Tensor, differs: Tensor) -> Tensor:
    """How many of K samples score less than gold: (B,). Ties count one half; samples that equal gold do not count.

    Args:
        scores: (B, 1 + K), gold first.
        differs: (B, K) bool, False where a sample equals gold.
    """
    gold, samples = scores[:, :1], scores[:, 1:]
    return (differs * ((gold > samples) + 0.5 * (gold == samples))).sum(1)
