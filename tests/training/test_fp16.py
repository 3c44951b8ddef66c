"""fp16, with a gradient scaler of the loss-net's own. accelerate has no fp16 on a CPU, and says nothing; torch has: the
tests give the accelerator what it would have on a GPU, autocast and a scaler for the task-net."""

import pytest
import tiny_run
import torch

from seal_hf import SealTrainer, TensorRows
from seal_hf.loss_net.learner import Learner


class HalfTrainer(SealTrainer):
    def create_accelerator_and_postprocess(self):
        super().create_accelerator_and_postprocess()
        self.accelerator.native_amp = True
        self.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)


def make(folder, **options):
    torch.manual_seed(0)
    nets, rows = tiny_run.model(), TensorRows(tiny_run.table())
    arguments = tiny_run.arguments(folder, loss="regression", fp16=True, **options)
    return HalfTrainer(nets, arguments, train_dataset=rows, eval_dataset=rows), nets


@pytest.fixture
def accelerator(tmp_path):
    return make(tmp_path)[0].accelerator


def learner(accelerator, rate=0.1, **options):
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 1).to(accelerator.device)
    return Learner(net, accelerator, [{"params": list(net.parameters()), "lr": rate}], **options)


def update(learner, inputs):
    learner.zero_grad()
    learner.backward(learner(inputs).float().mean() / 16)
    learner.apply()


def test_fp16_on_a_cpu_is_refused_since_accelerate_would_leave_it_out(tmp_path):
    with pytest.raises(ValueError, match="fp16 is set, but accelerate has no fp16 on cpu: .*Use bf16=True"):
        tiny_run.make(tmp_path, fp16=True)


@pytest.mark.parametrize("options", [dict(), dict(accumulation=2, batch=8, loss_net_steps=2)])
def test_fp16_stays_close_to_float32(tmp_path, options):
    full, _ = tiny_run.run(tmp_path, loss="regression", **options)
    trainer, nets = make(tmp_path, **options)
    halves = []
    nets.task_net.classifier.register_forward_hook(lambda _, __, output: halves.append(output.dtype))
    trainer.train()
    assert set(halves) == {torch.float16} and trainer.learner.scaler.is_enabled()
    start = tiny_run.parameters(tiny_run.model())
    assert 0 < (tiny_run.parameters(nets) - full).norm() < 0.02 * (full - start).norm()


def test_norm_and_clipping_are_those_of_the_unscaled_gradient(accelerator):
    """d mean(wx + b) / 16: the mean input for w, 1 for b, both over 16."""
    inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    half = learner(accelerator, max_grad_norm=0.05)
    assert half.scaler.get_scale() == 2.0**16
    update(half, inputs)
    expected = torch.cat([inputs.mean(0), torch.ones(1)]).norm() / 16
    torch.testing.assert_close(half.grad_norm, expected, rtol=1e-3, atol=0)
    clipped = torch.cat([parameter.grad.flatten() for parameter in half.net.parameters()]).norm()
    assert clipped.item() == pytest.approx(0.05, rel=1e-3)


def test_an_overflow_skips_the_update_and_its_schedule_and_halves_the_scale(accelerator):
    half = learner(accelerator, scheduler_type="linear", num_training_steps=10)
    before, inputs = half.net.weight.clone(), torch.ones(8, 4)
    half.zero_grad()
    half.backward(half(inputs).float().mean() * 1e38)
    half.apply()
    assert torch.equal(half.net.weight, before) and half.learning_rate == 0.1
    assert half.scaler.get_scale() == 2.0**15
    update(half, inputs)
    assert not torch.equal(half.net.weight, before) and half.learning_rate == pytest.approx(0.09)


def test_the_scaler_is_part_of_the_state(accelerator):
    first, second = learner(accelerator), learner(accelerator)
    first.backward(first(torch.ones(8, 4)).float().mean() * 1e38)
    first.apply()
    second.load_state_dict(first.state_dict())
    assert second.scaler.get_scale() == first.scaler.get_scale() == 2.0**15


def test_an_overflow_of_the_loss_net_leaves_the_task_net_alone(tmp_path):
    """At a scale of 2^100 every update of the loss-net overflows: the run is that with a loss-net that stands still."""
    trainer, nets = make(tmp_path, loss_net_lr_scheduler_type="linear")
    built = trainer.create_scheduler

    def create_scheduler(*args, **kwargs):
        scheduler = built(*args, **kwargs)
        trainer.learner.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100)
        return scheduler

    trainer.create_scheduler = create_scheduler
    trainer.train()
    still, still_nets = make(tmp_path, loss_net_steps=0)
    still.train()
    assert torch.equal(tiny_run.parameters(nets), tiny_run.parameters(still_nets))
    assert not any("loss_net_grad_norm" in entry for entry in trainer.state.log_history)  # it would be infinite
    steps = trainer.state.global_step
    assert trainer.learner.learning_rate == 1e-2 and trainer.learner.scaler.get_scale() == 2.0 ** (100 - steps)
    assert trainer.accelerator.scaler.get_scale() == 1024.0 and trainer.lr_scheduler.last_epoch == steps


def test_an_fp16_run_resumes_to_the_bit(tmp_path):
    options = dict(save_strategy="steps", save_steps=7)
    trainer, whole = make(tmp_path / "whole", **options)
    trainer.train()
    resumed_trainer, resumed = make(tmp_path / "part", **options)
    resumed_trainer.train(resume_from_checkpoint=f"{tmp_path}/whole/checkpoint-7")
    assert torch.equal(tiny_run.parameters(resumed), tiny_run.parameters(whole))
