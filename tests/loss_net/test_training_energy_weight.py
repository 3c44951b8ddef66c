"""λ1: its schedule against the formula, its balance against norms computed anew, its rule against a closed form."""

import pytest
import tiny_run
import torch
from transformers import TrainerState

from seal_hf import SealTrainingArguments
from seal_hf.loss_net import energy_weight as alignment
from seal_hf.loss_net.energy_weight import BLIND_SHARE, SCALES, EnergyWeight, balanced, prefix_of, ruled_share


def evaluations(*found, name="eval_", every=1.0):
    """A log of (alignment, loss) pairs, with what else stands in one."""
    entries = [
        {f"{name}energy_alignment": alignment, f"{name}loss": loss, "epoch": every * (i + 1)}
        for i, (alignment, loss) in enumerate(found)
    ]
    return [{"loss": 1.0, "epoch": 0.5}, *entries]


@pytest.mark.parametrize(
    "log, share",
    [
        (evaluations(), 0.0),
        (evaluations((0.03, 5.0), (0.03, 4.0), (0.03, 3.0)), 0.0),  # the task loss still falls: no growth
        (evaluations((0.03, 5.0), (0.006, 5.0), (0.02, 6.0)), 0.16),  # by 10 a, but by no more than 0.1
        (evaluations((0.03, 5.0), (0.01, 5.0), (-0.004, 4.0)), 0.06),  # away from gold: less, whatever falls
        (evaluations((-0.3, 5.0), (0.01, 6.0), (-0.3, 6.0), *[(0.9, 6.0)] * 7), 0.5),  # from 0 to one half
        (evaluations((0.03, 5.0), (0.03, 5.0), (0.002, 6.0), every=0.5), 0.06),  # the unit is an epoch
        (evaluations((0.9, 5.0), (0.9, 6.0), name="eval_train_") + evaluations((0.03, 5.0), (0.005, 6.0)), 0.05),
        ([{"eval_loss": 3.0, "epoch": 1.0}, {"test_energy_alignment": 0.9, "test_loss": 2.0, "epoch": 1.0}], 0.0),
    ],
)
def test_the_rule_follows_the_log_of_evaluations(log, share):
    assert ruled_share(log) == pytest.approx(share)


@pytest.mark.parametrize(
    ("options", "share", "weight"),
    [
        ({"energy_weight": 0.4}, None, 0.4),
        ({"energy_weight": 0.4, "energy_weight_schedule": "rise"}, None, 0.1),  # a quarter of the run is done
        ({"energy_weight": 0.4, "energy_weight_balance": True, "energy_weight_schedule": "fall"}, 0.3, None),
        ({"energy_weight": 0.0}, None, 0.0),
        ({"task_weight": 0.0}, None, 1.0),
        ({"energy_loss": "mutual"}, None, 1.0),
        ({"energy_loss": "margin", "hypergradient": "cg"}, None, 1.0),
        ({}, BLIND_SHARE, None),
        ({"eval_strategy": "epoch"}, 0.06, None),
    ],
)
def test_its_owner_gives_the_share_of_a_step_or_its_weight(options, share, weight, tmp_path):
    log = evaluations((0.03, 5.0), (0.006, 5.0))
    state = TrainerState(global_step=5, max_steps=20, log_history=log)
    owner = EnergyWeight(SealTrainingArguments(str(tmp_path), use_cpu=True, **options))
    for found, expected in ((owner.share(state), share), (owner.weight(state), weight)):
        assert found is expected is None or found == pytest.approx(expected)
    assert owner.is_zero(state) == owner.is_never_used == (options.get("energy_weight") == 0)
    shown = f"λ1 {weight:.2g}" if share is None else f"λ1 {share:.2g} of the task loss's pull"
    assert owner.in_words(state) == shown


class Entry(dict):
    looked_at = 0

    def __contains__(self, name):
        Entry.looked_at += 1
        return super().__contains__(name)


def test_a_step_looks_at_what_the_log_has_gained_alone(tmp_path):
    """With a log entry for each step, no step reads the entries of all steps before it."""
    owner = EnergyWeight(SealTrainingArguments(str(tmp_path), use_cpu=True, eval_strategy="epoch"))
    state, shares = TrainerState(log_history=[]), []
    for entry in [*evaluations((0.03, 5.0), (0.006, 5.0)), *[{"loss": 1.0}] * 500, *evaluations((0.1, 7.0), every=3.0)]:
        state.log_history.append(Entry(entry))
        shares.append(owner.share(state))
    assert shares == [pytest.approx(share) for share in [0.0, 0.0, 0.06, *[0.06] * 501, 0.16]]
    assert Entry.looked_at < 4 * len(shares)
    state.log_history = state.log_history[:2]  # of another run
    assert owner.share(state) == 0


def test_of_several_evaluation_sets_the_rule_follows_the_first(tmp_path):
    log = evaluations((0.9, 7.0), (0.9, 8.0), name="eval_other_")
    log += evaluations((0.03, 5.0), (0.005, 6.0), name="eval_dev_")
    assert ruled_share(log, prefix_of({"dev": 1, "other": 2})) == pytest.approx(0.05)
    trainer, _ = tiny_run.make(tmp_path, energy_weight=None, eval_strategy="epoch", max_steps=1)
    trainer.eval_dataset = {"dev": trainer.eval_dataset, "other": trainer.eval_dataset}
    trainer.train()
    trainer.state.log_history = log
    assert trainer.energy_weight.share(trainer.state) == pytest.approx(0.05)


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


def ruled_run(folder, resume=None, stop=None, **options):
    """A run under the rule, validated on rows of which half have foreign labels, so that the task loss rises there."""
    torch.manual_seed(0)
    options = dict(energy_weight=None, learning_rate=0.1, logging_steps=1) | options
    trainer, nets = tiny_run.make(folder, callbacks=[tiny_run.StopAt(stop)] if stop else None, **options)
    table = tiny_run.table()
    trainer.eval_dataset = tiny_run.TensorRows(
        table.remove_columns("labels").add_column("labels", table["labels"][:48] + table["labels"][:48])
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer, nets


@pytest.mark.parametrize("scales_at_once", [len(SCALES), 5])
def test_the_rule_takes_its_share_of_the_pull_and_evaluations_move_it(tmp_path, monkeypatch, scales_at_once):
    """Each step has the share that the log until then gives, and an evaluation's alignment is the cosine of the two
    gradients of all rows, at the scale of the logits that fits their labels best."""
    monkeypatch.setattr(alignment, "AT_ONCE", scales_at_once * 40 * tiny_run.LABELS)
    trainer, nets = ruled_run(tmp_path, loss="regression", eval_strategy="epoch", per_device_eval_batch_size=40)
    log = trainer.state.log_history
    shares = [(i, entry["energy_share"]) for i, entry in enumerate(log) if "energy_share" in entry]
    assert [share for _, share in shares] == [ruled_share(log[:i]) for i, _ in shares]
    assert len({share for _, share in shares}) > 1  # it has moved

    rows = trainer.eval_dataset.batch(range(tiny_run.ROWS))
    inputs, labels = {"features": rows["features"]}, rows["labels"]
    with torch.no_grad():
        logits = nets.task_net.eval()(**inputs).logits
    logits.requires_grad_()
    nets.loss_net.eval()
    energies_of_output = nets.loss_net.energies(nets.loss_net.encode(inputs), torch.sigmoid(logits).unsqueeze(1))
    (of_energy,) = torch.autograd.grad(-torch.sigmoid(-energies_of_output).sum(), logits)  # the term of `regression`

    def slope(scale):
        a = torch.tensor(scale, requires_grad=True)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(a * logits.detach(), labels)
        return abs(torch.autograd.grad(loss, a)[0].item())

    best = min(SCALES, key=slope)
    assert best not in (1.0, SCALES[0], SCALES[-1])  # over-confident, or the rows would not tell
    of_task = torch.sigmoid(best * logits.detach()) - labels
    cosine = torch.nn.functional.cosine_similarity(of_energy.flatten(), of_task.flatten(), dim=0).item()
    assert energies(trainer, "eval_energy_alignment")[-1] == pytest.approx(cosine, rel=1e-4)


def test_a_run_under_the_rule_goes_on_where_it_was_killed(tmp_path):
    """Every parameter of both nets, and the share in the log, as without the interruption."""
    options = dict(save_strategy="steps", save_steps=5, eval_strategy="steps", eval_steps=3)
    trainer, whole = ruled_run(tmp_path / "whole", **options)
    ruled_run(tmp_path / "cut", stop=12, **options)
    again, gone_on = ruled_run(tmp_path / "cut", resume=str(tmp_path / "cut" / "checkpoint-10"), **options)
    assert torch.equal(tiny_run.parameters(whole), tiny_run.parameters(gone_on))
    assert energies(again, "energy_share") == energies(trainer, "energy_share")
    assert len(set(energies(trainer, "energy_share"))) > 1


def test_without_evaluations_the_share_is_fixed(tmp_path):
    """It is that of a run with the same number, balanced."""
    options = dict(loss="regression", logging_steps=1)
    ruled, trainer = tiny_run.run(tmp_path, energy_weight=None, **options)
    given, _ = tiny_run.run(tmp_path, energy_weight=BLIND_SHARE, energy_weight_balance=True, **options)
    assert torch.equal(ruled, given) and set(energies(trainer, "energy_share")) == {BLIND_SHARE}


def test_a_weight_that_is_given_means_what_it_says(tmp_path):
    """No rule, and no balance: the term is λ1 · E, whatever evaluations find."""
    options = dict(loss="regression", learning_rate=0.0, loss_net_steps=0, logging_steps=1, eval_strategy="epoch")
    rows = tiny_run.TensorRows(tiny_run.table(16))
    terms = {}
    for weight in (1.0, 3.0):
        _, trainer = tiny_run.run(tmp_path, rows=rows, energy_weight=weight, **options)
        assert "energy_share" not in trainer.state.log_history[0]
        terms[weight] = energies(trainer, "loss")[-1] - energies(trainer, "task_loss")[-1]
    assert terms[3.0] == pytest.approx(3 * terms[1.0], rel=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        dict(task_weight=0.0),
        dict(loss="regression", hypergradient="cg"),
        dict(loss="regression", hypergradient="neumann"),
    ],
)
def test_where_the_rule_has_nothing_to_go_by_the_weight_is_one(tmp_path, options):
    ruled, trainer = tiny_run.run(tmp_path, energy_weight=None, **options)
    given, _ = tiny_run.run(tmp_path, energy_weight=1.0, **options)
    assert torch.equal(ruled, given)
    assert "energy_share" not in trainer.state.log_history[0]


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(gold_mix=1.0), "`gold_mix` is 1.0; it must be a finite number, at least 0 and below 1"),
        (dict(cost_weight=-1.0), "`cost_weight` is -1.0"),
        (dict(energy_weight_schedule="up"), "`energy_weight_schedule` is 'up'; it must be one of constant, rise, fall"),
        (
            dict(energy_weight=None, energy_weight_balance=True),
            "`energy_weight_balance` is True.*.--energy_weight.. Give one",
        ),
        (
            dict(energy_weight=None, energy_weight_schedule="rise"),
            "`energy_weight_schedule` is 'rise', .*.--energy_weight.. Give one",
        ),
        (dict(energy_weight_balance=True, task_weight=0.0), "`energy_weight_balance`.*`task_weight` is 0"),
        (dict(regression_samples="hard"), "`regression_samples` is 'hard'; it must be one of continuous, discrete"),
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        tiny_run.arguments(tmp_path, **options)
