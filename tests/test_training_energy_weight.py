"""λ1: its schedule against the formula, its balance against norms computed anew, one process against two."""

import pytest
import tiny_run
import torch

from seal_hf.training.energy_weight import balanced


def test_the_balanced_term_pulls_as_hard_as_the_task_loss():
    logits = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()
    task_loss = torch.nn.functional.softplus(logits).sum(-1).mean()
    energy = lambda: (1e-3 * torch.sigmoid(logits) ** 2).sum()  # noqa: E731
    (of_task,) = torch.autograd.grad(task_loss, logits, retain_graph=True)
    (of_energy,) = torch.autograd.grad(energy(), logits)
    term, ratio = balanced(energy(), task_loss, logits, lambda values: values)
    assert ratio.item() == pytest.approx((of_task.norm() / of_energy.norm()).item(), rel=1e-5)
    assert term.item() == pytest.approx(ratio.item() * energy().item(), rel=1e-5)
    (0.3 * term + task_loss).backward()
    torch.testing.assert_close(logits.grad, of_task + 0.3 * ratio * of_energy)


def test_a_term_without_gradient_weighs_nothing():
    logits = torch.zeros(2, 3, requires_grad=True)
    term, ratio = balanced((0 * logits).sum() + 5.0, torch.sigmoid(logits).sum(), logits, lambda values: values)
    term.backward()
    assert ratio.item() == term.item() == 0 and not logits.grad.any()


def test_a_pull_that_has_died_is_not_revived():
    """σ(-E) saturated: gradients so small that their squares are no float32 numbers."""
    logits = torch.ones(2, 3, requires_grad=True)
    task_loss = torch.sigmoid(logits).sum()
    term, ratio = balanced(1e-30 * logits.sum(), task_loss, logits, lambda values: values)
    assert ratio.item() == 0 and term.item() == 0
    _, ratio = balanced(1e-4 * logits.sum(), task_loss, logits, lambda values: values)
    assert ratio.item() == pytest.approx(0.19661193 / 1e-4, rel=1e-4)


def energies(trainer, key):
    return [log[key] for log in trainer.state.log_history if key in log]


@pytest.mark.parametrize("schedule", ["constant", "rise", "fall"])
def test_the_schedule_scales_the_weight_linearly_in_the_step(tmp_path, schedule):
    """Both nets frozen: loss = task loss + λ1(t) · energy."""
    options = dict(learning_rate=0.0, loss_net_steps=0, logging_steps=1, max_steps=4, energy_weight=2.0)
    rows = tiny_run.TensorRows(tiny_run.table(16))  # one batch: every step has the same losses
    _, trainer = tiny_run.run(tmp_path, rows=rows, loss="regression", energy_weight_schedule=schedule, **options)
    loss, task = (energies(trainer, key) for key in ("loss", "task_loss"))
    share = {"constant": [1, 1, 1, 1], "rise": [0, 0.25, 0.5, 0.75], "fall": [1, 0.75, 0.5, 0.25]}[schedule]
    term = (loss[-1] - task[-1]) / share[-1]
    assert abs(term) > 1e-3
    assert [a - b for a, b in zip(loss, task, strict=True)] == pytest.approx([term * s for s in share], abs=2e-4)


def test_the_log_says_the_balanced_weight_and_both_terms_pull_alike(tmp_path):
    """λ1 = 1, balanced: the energy's part of the gradient at the logits has the norm of the task loss's."""
    seen = {}
    trainer, nets = tiny_run.make(tmp_path, energy_weight_balance=True, learning_rate=0.0, max_steps=1, logging_steps=1)

    def after(module, inputs, outputs):
        if module.training:
            outputs.logits.register_hook(lambda gradient: seen.update(total=gradient, logits=outputs.logits.detach()))

    nets.task_net.register_forward_hook(after)
    compute_loss = trainer.compute_loss
    trainer.compute_loss = lambda model, inputs, **kwargs: (
        seen.update(labels=inputs["labels"]) or compute_loss(model, inputs, **kwargs)
    )
    trainer.train()
    of_task = (torch.sigmoid(seen["logits"]) - seen["labels"]) / len(seen["labels"])
    assert (seen["total"] - of_task).norm().item() == pytest.approx(of_task.norm().item(), rel=1e-4)
    assert energies(trainer, "energy_weight")[0] > 0


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(gold_mix=1.0), "`gold_mix` is 1.0; it must be a finite number, at least 0 and below 1"),
        (dict(cost_weight=-1.0), "`cost_weight` is -1.0"),
        (dict(energy_weight_schedule="up"), "`energy_weight_schedule` is 'up'; it must be one of constant, rise, fall"),
        (dict(energy_weight_balance=True, task_weight=0.0), "`energy_weight_balance`.*`task_weight` is 0"),
        (dict(regression_samples="hard"), "`regression_samples` is 'hard'; it must be one of continuous, discrete"),
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        tiny_run.arguments(tmp_path, **options)
