"""The two nets in one training step: their forwards, features and noise, and what is metered."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..energy_losses import GOLD, OUTPUT, SAMPLES, Candidates, EnergyLoss
from ..extensions import MicroBatch
from ..loss_net.energy_weight import row_pulls
from ..loss_net.learner import Learner
from ..nets.encoders import task_features
from ..nets.feature_cache import FEATURES
from ..nets.frozen_encoder import OUTPUTS
from ..nets.image_features import with_features
from ..nets.task_nets import check_has_logits
from ..utils.modules import in_evaluation, keeping_statistics
from ..utils.noise import stateless_noise
from .base import encoder_inputs
from .meters import Meters

HELD = 2  # noise stream for candidates' values at unknown labels; 1 is for an evaluation's samples
EVALUATION_SAMPLES = 8  # per row, which the energy should tell from gold


class TwoNets:
    """Task-net and loss-net of a trainer, as a step runs them.

    A trainer makes one for each use and keeps none: two objects that hold each other would stay in memory.

    Args:
        trainer: its nets, space, extensions and state are read at each call.
    """

    def __init__(self, trainer: Any):
        self.trainer = trainer

    def run_task_net(self, model: nn.Module, inputs: dict[str, Tensor]) -> Any:
        """Outputs of the task-net, with logits in the shape of the labels. `model` is the raw net or the Trainer's
        wrapper of it."""
        trainer = self.trainer
        states = self._shares_features or any(extension.reads_hidden_states for extension in trainer.extensions)
        with ExitStack() as stack:
            for extension in trainer.extensions:
                stack.enter_context(extension.watching())
            given = encoder_inputs(inputs)
            if OUTPUTS in inputs:  # a frozen encoder's outputs replace its inputs
                stack.enter_context(trainer.frozen_encoder.giving(inputs[OUTPUTS]))
                given = trainer.frozen_encoder.stand_ins(inputs[OUTPUTS])
            outputs = with_features(trainer.model, given, run=model) if states else model(**given)
        check_has_logits(trainer.model, outputs)
        trainer.space.check(outputs.logits, inputs["labels"])
        outputs.logits = trainer.space.fit(outputs.logits, inputs["labels"])
        return outputs

    def micro_batch(self, i: int, outputs: Any, inputs: dict[str, Tensor]) -> MicroBatch:
        """Micro-batch `i` of a window, with the graph of its logits."""
        labels, logits = inputs["labels"], outputs.logits
        space = self.trainer.space.of(inputs).holding(logits, labels, partial(self.noise, i, 0, HELD))
        given = (encoder_inputs(inputs), labels, space, logits)
        return MicroBatch(*given, self._features(outputs, inputs), partial(self.noise, i))

    def detached(self, i: int, outputs: Any, inputs: dict[str, Tensor]) -> MicroBatch:
        """Micro-batch `i` for the loss-net's phase, with what the extensions add. If `outputs` is None, the task-net
        runs here."""
        trainer = self.trainer
        if outputs is None:  # the raw module: a forward of the DDP wrapper belongs to a backward
            with torch.no_grad(), keeping_statistics(trainer.model), trainer.compute_loss_context_manager():
                outputs = self.run_task_net(trainer.model, inputs)
        batch = self.micro_batch(i, outputs, inputs)
        batch.logits = batch.logits.detach()
        for extension in trainer.extensions:
            batch = extension.prepare(batch, outputs)
        return batch

    @torch.no_grad()
    def encode(self, batch: MicroBatch) -> Tensor:
        """T_E(x) of the raw loss-net, in the same precision as in its own phase."""
        with self.trainer.accelerator.autocast():
            return self.trainer.loss_net.encode(batch.inputs, batch.features)

    def noise(self, micro_batch: int, update: int, *stream: int) -> torch.Generator:
        """A generator that depends only on (seed, step, update, rank, micro-batch, stream): resume is exact and ranks
        differ."""
        args, step = self.trainer.args, self.trainer.state.global_step
        return stateless_noise(args.device, args.seed, step, update, args.process_index, micro_batch, *stream)

    def meter_evaluation(self, outputs: Any, inputs: dict[str, Tensor]) -> None:
        """Meter the energies of output and gold, the direction of the energy's pull, and how often the energy and the
        task-net's own probability prefer gold to a fresh sample."""
        trainer = self.trainer
        if trainer.loss_net is None or not trainer.meters_energies:
            return
        trainer.evaluated_batches += 1
        with in_evaluation(trainer.loss_net):
            self._meter_evaluation(self.micro_batch(trainer.evaluated_batches, outputs, inputs))

    def _meter_evaluation(self, batch: MicroBatch) -> None:
        trainer = self.trainer
        space: Any = batch.space
        encoded, (gold, mask) = self.encode(batch), space.gold(batch.labels)
        has_gold = space.has_gold(batch.labels).unsqueeze(1)
        if trainer.is_in_train:
            pulls = self._pulls(batch, encoded, gold, mask) * has_gold
            trainer.alignment.add(trainer.accelerator.gather_for_metrics(pulls))
        parts, drawn = [space.output(batch.logits), space.candidate(gold)], None
        if not space.samples_from_inputs:
            drawn = space.sample(batch.logits, EVALUATION_SAMPLES, self._evaluation_noise())
            parts.append(drawn)
        energies = trainer.loss_net.energies(encoded, space.join(parts), mask)
        trainer._meter_energies(energies[:, : GOLD + 1])
        if drawn is not None:
            log_p = space.log_prob(batch.logits, space.join(parts[1:]), mask)
            differs = space.differs(drawn, gold, mask)
            orders = [preferred(-energies[:, GOLD:], differs), preferred(log_p, differs), differs.sum(1)]
            trainer._meter_orders(torch.stack([order.float() for order in orders], dim=1) * has_gold)

    def _pulls(self, batch: MicroBatch, encoded: Tensor, gold: Tensor, mask: Tensor | None) -> Tensor:
        """The sums of [`row_pulls`] for each row of an evaluation."""
        trainer, space = self.trainer, batch.space

        def energy_term(logits: Tensor) -> Tensor:
            row, cost = trainer.energy_loss.task_row(space, logits, space.output(logits), gold, mask)
            return trainer.energy_loss.task_term(trainer.loss_net.energies(encoded, row, mask), cost)

        def task_loss(logits: Tensor) -> Tensor:
            copies = len(logits) // len(batch.labels)
            return trainer.space.task_loss(logits, torch.cat([batch.labels] * copies), None)

        return row_pulls(batch.logits, energy_term, task_loss)

    def _evaluation_noise(self) -> torch.Generator:
        """A generator for each batch of an evaluation. Its key ends with a stream that training does not use."""
        trainer, args = self.trainer, self.trainer.args
        key = (args.seed, trainer.state.global_step, 0, args.process_index, trainer.evaluated_batches, 1)
        return stateless_noise(args.device, *key)

    def _features(self, outputs: Any, inputs: dict[str, Tensor]) -> Tensor | None:
        """Features for a loss-net that does not compute them: the rows' cached ones, or the task-net's; else None."""
        if self._shares_features:
            trainer = self.trainer
            return task_features(outputs, inputs, trainer.model, trainer.loss_net.pooling)
        return inputs.get(FEATURES)

    @property
    def _shares_features(self) -> bool:
        loss_net = self.trainer.loss_net
        return loss_net is not None and loss_net.config.encoder_mode == "shared"


def preferred(scores: Tensor, differs: Tensor) -> Tensor:
    """How many of K samples score less than gold: (B,). Ties count one half; samples that equal gold do not count.

    Args:
        scores: (B, 1 + K), gold first.
        differs: (B, K) bool, False where a sample equals gold.
    """
    gold, samples = scores[:, :1], scores[:, 1:]
    return (differs * ((gold > samples) + 0.5 * (gold == samples))).sum(1)


class PhaseMeters:
    """Figures for the log from the loss-net's phase.

    Args:
        meters: the trainer's.
        energy_loss: its `terms` are metered beside its value.
    """

    def __init__(self, meters: Meters, energy_loss: EnergyLoss):
        self.meters, self.energy_loss = meters, energy_loss

    def add_batch(self, loss: Tensor, energies: Tensor, candidates: Candidates, step: int) -> None:
        """Meter the energy loss of a micro-batch and its candidates' energies, (B, 2 + K), without gradient."""
        self.meters.watch("loss-net", loss, step)
        self.meters.add(
            loss_net_loss=loss, energy_gold=energies[:, GOLD].mean(), energy_output=energies[:, OUTPUT].mean()
        )
        self.meters.add(**self.energy_loss.terms(energies, candidates))
        if energies.shape[1] > 2:
            self.meters.add(energy_samples=energies[:, SAMPLES].mean())

    def add_update(self, learner: Learner) -> None:
        """Meter the gradient norm of an update; it is infinite if that was skipped."""
        if learner.has_stepped:
            self.meters.add(loss_net_grad_norm=learner.grad_norm)
