"""What users' subclasses of a Trainer do: hooks overridden, batches copied, loaders and schedules of their own. Oracle:
the trainer itself, or a refusal."""

import gc
import weakref

import pytest
import tiny_run
import torch
from torch.utils.data import DataLoader
from transformers import TrainerCallback, get_scheduler

from seal_hf import SealTrainer, TensorRows


class Prepares(SealTrainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        return super().training_step(model, self._prepare_inputs(dict(inputs)), num_items_in_batch)


class Copies(SealTrainer):
    def get_batch_samples(self, epoch_iterator, num_batches, device):
        batches, num_items = super().get_batch_samples(epoch_iterator, num_batches, device)
        return [dict(batch) for batch in batches], num_items


class Renames(SealTrainer):
    """Its loader calls the labels something else."""

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        batches, num_items = super().get_batch_samples(epoch_iterator, num_batches, device)
        for batch in batches:
            batch["gold"] = batch.pop("labels")
        return batches, num_items

    def training_step(self, model, inputs, num_items_in_batch=None):
        inputs = dict(inputs)
        inputs["labels"] = inputs.pop("gold")
        return super().training_step(model, inputs, num_items_in_batch)


class Regularised(SealTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch)
        loss = loss + 0.0 * outputs.logits.square().mean()
        return (loss, outputs) if return_outputs else loss


class OwnLoader(SealTrainer):
    def get_train_dataloader(self):
        generator = torch.Generator().manual_seed(0)
        sampler = torch.utils.data.RandomSampler(self.train_dataset, generator=generator)
        return self.accelerator.prepare(
            DataLoader(self.train_dataset, batch_size=16, sampler=sampler, collate_fn=self.data_collator)
        )


class OwnSchedule(SealTrainer):
    def create_scheduler(self, num_training_steps, optimizer=None):
        self.lr_scheduler = get_scheduler("cosine", optimizer or self.optimizer, 0, num_training_steps)
        return self.lr_scheduler


class OwnLoss(SealTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(features=inputs["features"])
        loss = torch.nn.functional.binary_cross_entropy_with_logits(outputs.logits, inputs["labels"])
        return (loss, outputs) if return_outputs else loss


class OwnStep(SealTrainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        model.train()
        loss = self.compute_loss(model, self._prepare_inputs(inputs))
        self.accelerator.backward(loss)
        return loss.detach()


class OwnEvaluation(SealTrainer):
    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad():
            logits = model(features=inputs["features"]).logits
        return logits.square().mean(), logits, inputs["labels"]


class OwnLoop(SealTrainer):
    """Evaluates by the Trainer's loop, and logs by itself."""

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        output = self.evaluation_loop(self.get_eval_dataloader(eval_dataset), "Evaluation")
        self.log(output.metrics)
        return {"eval_loss": output.metrics["eval_loss"]}


class OwnFigures(SealTrainer):
    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        return {"eval_loss": 1.0}


class SomeEvaluations(SealTrainer):
    """Evaluates rarely, since that is expensive, and gives the last figures in between."""

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        if self.state.global_step == 2:
            self.last = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        return self.last


def make(kind, folder, rows=None, **options):
    rows = TensorRows(tiny_run.table()) if rows is None else rows
    args = tiny_run.arguments(folder, num_train_epochs=1, **options)
    return kind(tiny_run.model(), args, train_dataset=rows, eval_dataset=rows)


def weights(trainer):
    nets = (trainer.model, trainer.loss_net)
    return torch.cat([p.detach().flatten() for net in nets for p in net.parameters()])


@pytest.mark.parametrize("kind", [Prepares, Copies, Regularised])
@pytest.mark.parametrize("accumulation", [1, 3])
def test_batches_may_be_copied_and_losses_added_to(kind, accumulation, tmp_path):
    trainers = [make(cls, tmp_path / cls.__name__, accumulation=accumulation) for cls in (SealTrainer, kind)]
    for trainer in trainers:
        trainer.train()
    assert torch.equal(*map(weights, trainers))
    assert "loss_net_loss" in trainers[1].state.log_history[0]
    assert trainers[1].evaluate()["eval_loss"] == trainers[0].evaluate()["eval_loss"]


def test_a_step_may_name_the_labels_of_its_batch(tmp_path):
    trainers = [make(cls, tmp_path / cls.__name__) for cls in (SealTrainer, Renames)]
    for trainer in trainers:
        trainer.train()
    assert torch.equal(*map(weights, trainers))


def test_a_loader_of_ones_own_finds_the_collator_of_the_rows(tmp_path):
    trainer = make(OwnLoader, tmp_path)
    trainer.train()
    assert trainer.state.global_step == 6


def test_a_loader_of_ones_own_does_not_repeat_batches_in_silence(tmp_path):
    with pytest.raises(ValueError, match="`batch_repeats` is 3, .*`get_train_dataloader`"):
        make(OwnLoader, tmp_path, batch_repeats=3).train()


def test_a_schedule_that_keeps_the_beginning_of_a_run_from_the_trainer_is_refused(tmp_path):
    with pytest.raises(ValueError, match="energy_loss='nce', but the loss-net has no learner.* super"):
        make(OwnSchedule, tmp_path).train()
    trainer = make(OwnSchedule, tmp_path, loss="ce")
    trainer.train()
    assert trainer.state.global_step == 6


@pytest.mark.parametrize("options", [{}, {"loss_net_steps": 0}, {"accumulation": 3}], ids=["nce", "static", "window"])
def test_a_loss_of_ones_own_does_not_leave_the_energy_out_in_silence(tmp_path, options):
    with pytest.raises(ValueError, match="does not call super.*compute_loss.*`task_loss` or `compute_loss_func`"):
        make(OwnLoss, tmp_path, **options).train()
    for options in ({"loss": "ce"}, {"energy_weight": 0.0}):
        trainer = make(OwnLoss, tmp_path, **options)
        trainer.train()
        assert trainer.state.global_step == 6


@pytest.mark.parametrize("accumulation", [1, 3])
def test_a_step_of_ones_own_does_not_leave_the_loss_net_untrained_in_silence(tmp_path, accumulation):
    with pytest.raises(ValueError, match="does not call super.*training_step.*trains the loss-net"):
        make(OwnStep, tmp_path, accumulation=accumulation).train()
    for options in ({"loss": "ce"}, {"loss_net_steps": 0}):
        trainer = make(OwnStep, tmp_path, **options)
        trainer.train()
        assert trainer.state.global_step == 6


@pytest.mark.parametrize("kind", [OwnEvaluation, OwnFigures])
def test_an_evaluation_of_ones_own_does_not_leave_the_rule_without_figures(kind, tmp_path):
    trainer = make(kind, tmp_path, energy_weight=None, eval_strategy="epoch")
    with pytest.raises(ValueError, match="did not measure the energy's alignment.*`evaluate`.*`prediction_step`"):
        trainer.train()
    make(kind, tmp_path, energy_weight=1.0, eval_strategy="epoch").train()
    make(SomeEvaluations, tmp_path, energy_weight=None, eval_strategy="steps", eval_steps=2).train()


def test_the_rule_follows_an_evaluation_loop_that_one_calls_oneself(tmp_path, monkeypatch):
    """The energy weight rises at once, as if each evaluation had shown a use of the energy."""
    rises = lambda log, prefix: sum("eval_loss" in entry for entry in log) / 10  # noqa: E731
    monkeypatch.setattr("seal_hf.loss_net.energy_weight.ruled_share", rises)
    shares = []
    for kind in (SealTrainer, OwnLoop):
        trainer = make(kind, tmp_path / kind.__name__, energy_weight=None, eval_strategy="steps", eval_steps=2)
        trainer.args.logging_steps = 1
        trainer.train()
        shares.append([log["energy_share"] for log in trainer.state.log_history if "energy_share" in log])
    assert shares[0] == shares[1] == [0.0, 0.0, 0.1, 0.1, 0.2, 0.2]


def test_a_trainer_that_is_given_up_leaves_memory_at_once(tmp_path):
    """No helper of it holds it: several runs in one process do not add up."""
    trainer = make(SealTrainer, tmp_path, loss="margin", hypergradient="cg")
    trainer.train()
    trainer.evaluate()
    given_up, net = weakref.ref(trainer), weakref.ref(trainer.loss_net)
    trainer.callback_handler = None  # the Trainer's own circle
    gc.collect()
    gc.disable()
    try:
        del trainer
        assert given_up() is None and net() is None
    finally:
        gc.enable()


class HalfWay(TrainerCallback):
    """Changes λ1 in the middle of a run."""

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 3:
            args.energy_weight = 0.0


def test_the_energy_weight_may_be_changed_in_a_run(tmp_path):
    """At 0 the task-net's gradient is that of its loss; its own loss at the next step is what it would be."""
    ends = []
    for callbacks in ([], [HalfWay()]):
        trainer = make(SealTrainer, tmp_path, logging_steps=1)
        for callback in callbacks:
            trainer.add_callback(callback)
        trainer.train()
        ends.append([log["loss"] - log["task_loss"] for log in trainer.state.log_history if "task_loss" in log])
    assert ends[0][:3] == ends[1][:3]
    assert all(abs(difference) > 1e-3 for difference in ends[0][3:])
    assert all(abs(difference) < 1e-3 for difference in ends[1][3:])
