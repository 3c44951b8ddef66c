"""InfNet+ in the trainer. Oracles: the whole objective of A and F in one graph, finite differences, the same run with
other labels, in one batch, without interruption."""

import copy

import pytest
import tiny_run
import tiny_tags
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback

from seal_hf import ENERGY_LOSSES, TagSequenceSpace, TensorRows
from seal_hf.energy_losses import MARGINS
from seal_hf.extensions.cost_augmented import PARAMETERIZATIONS
from seal_hf.loss_net.learner import Learner
from seal_hf.tasks.tags.energies import ChainForwardEnergy

PLUS = dict(loss="infnet_plus")
STOP = 5


class Watch(TrainerCallback):
    """Copies F before every step; takes the gradients of the task-net, and the loss-net's parameters, after it."""

    def __init__(self):
        self.partners, self.gradients, self.loss_nets = [], [], []

    def on_step_begin(self, args, state, control, **kwargs):
        self.partners.append(copy.deepcopy(tiny_run.extension(self.trainer).net))

    def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
        self.gradients.append([p.grad.clone() for p in model.parameters()])
        self.loss_nets.append(flat(self.trainer.loss_net))


def flat(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def watched(folder, **options):
    watch = Watch()
    trainer, nets = tiny_run.make(folder, callbacks=[watch], **PLUS | options)
    watch.trainer = trainer
    return trainer, nets, watch


def with_other_labels():
    """The tiny data with the labels of every row turned into their opposite."""
    rows = TensorRows(tiny_run.table())
    rows.dense["labels"] = 1 - rows.dense["labels"]
    return rows


@pytest.mark.parametrize("kind", PARAMETERIZATIONS)
def test_the_gold_reaches_a_frozen_test_time_network_only_where_its_features_are_shared(tmp_path, kind):
    """One step, no task loss, the loss-net as it is: whatever the labels, A goes downhill in E(x, A(x))."""
    options = dict(cost_augmented_network=kind, loss_net_steps=0, task_weight=0.0, max_steps=2, margin_cost="l1")
    first, _ = tiny_run.run(tmp_path, **PLUS | options)
    second, _ = tiny_run.run(tmp_path, rows=with_other_labels(), **PLUS | options)
    assert not torch.equal(first, tiny_run.parameters(tiny_run.model()))
    assert torch.equal(first, second) == (kind != "shared")


@pytest.mark.parametrize("kind", PARAMETERIZATIONS)
def test_the_same_of_tags(tmp_path, kind):
    """Other tags at the positions that count; the energies reach A through its own relaxed output alone."""
    ends = []
    for shift in (0, 1):
        both, rows = tiny_tags.nets("bilstm", tmp_path)
        flat_labels, _ = rows.ragged["labels"]
        flat_labels.add_(shift).remainder_(len(tiny_tags.TAGS))
        options = dict(cost_augmented_network=kind, loss_net_steps=0, task_weight=0.0, max_steps=2, margin_cost="l1")
        tiny_tags.trainer(tmp_path, both, rows, energy_loss="infnet_plus", **options).train()
        ends.append(flat(both.task_net))
    assert torch.equal(*ends) == (kind != "shared")


def by_hand(nets, partner, batch, margin_type, truncated, task_weight, perceptron_weight, energy_weight):
    """λ2 task loss + λ1 (what A seeks + what F seeks), with its graph; multi-label, Δ = l1. And F's part alone."""
    outputs = nets.task_net(features=batch["features"], output_hidden_states=True)
    y, gold = outputs.logits.sigmoid(), batch["labels"]
    if partner.kind == "shared":
        found = partner.layer(outputs.hidden_states[-1])
    elif partner.kind == "stacked":
        found = partner.layer(torch.cat([y.detach(), gold], dim=1))
    else:
        found = partner.net(features=batch["features"]).logits
    energies = nets.loss_net(torch.stack([y, gold, found.sigmoid()], 1), None, {"features": batch["features"]})
    output, gold_energy, found_energy = energies.unbind(1)
    cost, gap = (found.sigmoid() - gold).abs().sum(1), gold_energy.detach() - found_energy
    violation = {"rescaled": cost + gap, "slack": cost * (1 + gap), "contrastive": 1 + gap, "perceptron": gap}
    sought, test_time = violation[margin_type], perceptron_weight * (gold_energy.detach() - output)
    if truncated:
        sought, test_time = sought.relu(), test_time.relu()
    augmented = -energy_weight * sought.mean()
    whole = task_weight * nets.space.task_loss(outputs.logits, gold) - energy_weight * test_time.mean() + augmented
    return whole, augmented


@pytest.mark.parametrize("margin_type, truncated", [("rescaled", False), ("slack", False), ("rescaled", True)])
@pytest.mark.parametrize("kind", PARAMETERIZATIONS)
def test_both_networks_take_the_gradient_of_the_whole_objective(tmp_path, kind, margin_type, truncated):
    """One update over two micro-batches. F's gradient is left in place by its step."""
    trainer, nets, watch = watched(
        tmp_path,
        **dict(cost_augmented_network=kind, margin_type=margin_type, inference_truncation=truncated),
        **dict(margin_cost="l1", task_weight=0.7, perceptron_weight=0.5, energy_weight=0.3),
        **dict(max_steps=1, loss_net_steps=0, batch=48, accumulation=2, max_grad_norm=0.0),
    )
    before = copy.deepcopy(nets)
    trainer.train()
    (partner,) = watch.partners
    batch = TensorRows(tiny_run.table()).batch(range(96))
    whole, augmented = by_hand(before, partner, batch, margin_type, truncated, 0.7, 0.5, 0.3)
    expected = torch.autograd.grad(whole, list(before.task_net.parameters()), retain_graph=True)
    torch.testing.assert_close(watch.gradients[0], list(expected), rtol=1e-4, atol=1e-6)
    expected = torch.autograd.grad(augmented, list(partner.parameters()))
    found = [p.grad for p in tiny_run.extension(trainer).net.parameters()]
    torch.testing.assert_close(found, list(expected), rtol=1e-4, atol=1e-6)
    assert not torch.equal(flat(partner), flat(tiny_run.extension(trainer).net))


def test_a_separated_network_begins_as_the_task_net_and_is_another(tmp_path):
    trainer, nets, watch = watched(tmp_path, cost_augmented_network="separated", max_steps=3)
    start = flat(nets.task_net)
    trainer.train()
    assert torch.equal(flat(watch.partners[0]), start)
    assert not {id(p) for p in tiny_run.extension(trainer).net.parameters()} & {id(p) for p in nets.parameters()}
    assert not torch.equal(flat(tiny_run.extension(trainer).net), flat(nets.task_net))


@pytest.mark.parametrize("margin_type", MARGINS)
def test_the_objective_of_f_has_the_gradient_of_finite_differences(margin_type):
    """Of tag sequences with holes, through softmax, cost and a recurrent energy, in double precision."""
    torch.manual_seed(0)
    space, energy = TagSequenceSpace(["O", "B-x", "I-x"]), ChainForwardEnergy(3, 4, 5).double()
    loss = ENERGY_LOSSES["infnet_plus"](margin_type=margin_type, margin_cost="l1")
    gold, mask = space.gold(torch.tensor([[0, -100, 1, 2], [1, 0, -100, -100]]))
    features, gold = torch.randn(2, 4, 4).double(), gold.double()

    def objective(logits):
        y = torch.cat([space.output(logits), space.candidate(gold)], 1)
        return -loss.sought(energy(features, y, mask), space.cost(y[:, :1], gold, "l1", mask))

    logits = torch.randn(2, 4, 3).double().requires_grad_()
    assert torch.autograd.gradcheck(objective, (logits,))
    (gradient,) = torch.autograd.grad(objective(logits), logits)
    assert not gradient[~mask].any() and gradient[mask].abs().sum(-1).all()


@pytest.mark.parametrize("kind", PARAMETERIZATIONS)
def test_accumulation_changes_nothing(tmp_path, kind):
    """Both networks and F; clipping, F's task loss and several loss-net updates on."""
    options = dict(cost_augmented_network=kind, cost_augmented_task_weight=0.5, loss_net_steps=2, num_train_epochs=1)
    torch.manual_seed(0)
    whole, one = tiny_run.run(tmp_path, **PLUS | options)
    split, two = tiny_run.run(tmp_path, batch=4, accumulation=4, **PLUS | options)
    torch.testing.assert_close(split, whole, rtol=0, atol=2e-6)
    torch.testing.assert_close(flat(tiny_run.extension(two).net), flat(tiny_run.extension(one).net), rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", PARAMETERIZATIONS)
def test_f_takes_a_step_with_every_one_of_the_task_net_and_no_other(tmp_path, kind, monkeypatch):
    """A short last window of a stream makes no step: for both networks, its gradients join the next window's."""
    for rows, batch, accumulation in ((10, 2, 4), (14, 2, 2), (12, 2, 2)):
        stream = tiny_run.table(rows).to_iterable_dataset()
        options = dict(batch=batch, accumulation=accumulation, max_steps=5, cost_augmented_network=kind)
        trainer, _ = tiny_run.make(tmp_path, rows=stream, **PLUS | options)
        calls = {name: [] for name in ("zero_grad", "apply")}

        def watch(name, calls=calls, trainer=trainer):
            call = getattr(Learner, name)

            def watched(self):
                if trainer.extensions and self is tiny_run.extension(trainer).learner:
                    calls[name].append(trainer.state.global_step)
                call(self)

            return watched

        with monkeypatch.context() as patch:
            for name in calls:
                patch.setattr(Learner, name, watch(name))
            trainer.train()
        assert calls == dict.fromkeys(calls, [0, 1, 2, 3, 4])  # gradients are dropped as often as they are used


def test_the_loss_net_moves_on_every_kth_step_alone(tmp_path):
    """6 steps, k = 4: phases before steps 1 and 5, and a schedule of these two updates each."""
    options = dict(loss_net_every=4, loss_net_steps=2, loss_net_lr_scheduler_type="linear", max_steps=6)
    trainer, nets, watch = watched(tmp_path, logging_steps=1, **options)
    start = flat(nets.loss_net)
    trainer.train()
    states = [start, *watch.loss_nets]
    assert [not torch.equal(*pair) for pair in zip(states[:-1], states[1:], strict=True)] == [1, 0, 0, 0, 1, 0]
    assert trainer.learner.scheduler.last_epoch == 4 and trainer.learner.learning_rate == 0
    assert len({tuple(flat(net).tolist()) for net in watch.partners}) == 6  # F moves with the task-net
    logs = [log for log in trainer.state.log_history if "loss" in log]
    assert ["loss_net_loss" in log for log in logs] == [1, 0, 0, 0, 1, 0]
    assert [log["loss_net_learning_rate"] for log in logs] == pytest.approx([5e-3] * 4 + [0] * 2)


def test_an_overflow_of_fp16_skips_the_update_of_f_and_stops_nothing(tmp_path):
    """The scaler of F alone, with a scale at which some of its gradients are infinite."""
    options = dict(cost_augmented_network="shared", max_steps=2, loss_net_steps=0, margin_cost="l1", energy_weight=1e3)
    trainer, nets, watch = watched(tmp_path, **options)
    begin = watch.on_step_begin

    def on_step_begin(args, state, control, **kwargs):
        begin(args, state, control)
        if state.global_step == 0:
            tiny_run.extension(trainer).learner.scaler = torch.amp.GradScaler("cpu", init_scale=3e38)

    watch.on_step_begin = on_step_begin
    trainer.train()
    assert torch.equal(*map(flat, watch.partners)) and tiny_run.extension(trainer).learner.scaler.get_scale() < 1e38
    assert tiny_run.parameters(nets).isfinite().all() and all(g.abs().sum() > 0 for g in watch.gradients[0])


# --- interrupted -----------------------------------------------------------------------------------------------------


def run(folder, kind, resume=None, stop=None, seed=0, **options):
    torch.manual_seed(seed)
    options = dict(cost_augmented_network=kind, dropout=0.3, max_steps=9, loss_net_every=2) | options
    trainer, nets = tiny_run.make(folder, callbacks=[tiny_run.StopAt(stop)] if stop else None, **PLUS | options)
    trainer.train(resume_from_checkpoint=resume)
    return torch.cat([tiny_run.parameters(nets), flat(tiny_run.extension(trainer).net)]), trainer


@pytest.mark.parametrize("kind", PARAMETERIZATIONS)
def test_resumed_equals_uninterrupted_to_the_bit(tmp_path, kind):
    """All three networks; interrupted between two of the loss-net's phases, and resumed under another global seed."""
    options = dict(batch=8, accumulation=2, cost_augmented_task_weight=0.5)
    whole, done = run(tmp_path / "whole", kind, **options)
    run(tmp_path / "part", kind, stop=STOP, save_strategy="steps", save_steps=STOP, **options)
    folder = tmp_path / "part" / f"checkpoint-{STOP}"
    resumed, trainer = run(tmp_path / "part", kind, resume=str(folder), seed=99, **options)
    assert torch.equal(resumed, whole)
    moments = [tiny_run.extension(t).learner.optimizer.state_dict()["state"] for t in (trainer, done)]
    assert all(torch.equal(a[name], b[name]) for a, b in zip(*(m.values() for m in moments), strict=True) for name in a)
    saved = load_file(folder / "_loss_net" / "cost_augmented.safetensors")
    assert saved.keys() == tiny_run.extension(trainer).net.state_dict().keys()


@pytest.mark.parametrize(
    "earlier, message",
    [
        (
            dict(loss="nce"),
            "cost_augmented.safetensors, the cost-augmented network of energy_loss='infnet_plus', is mi",
        ),
        (dict(cost_augmented_network="separated"), "is 'separated', but `cost_augmented_network` is 'stacked'"),
        (dict(cost_augmented_network="shared"), "is 'shared', but `cost_augmented_network` is 'stacked'"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_and_nothing_is_changed(tmp_path, earlier, message):
    trainer, _ = tiny_run.make(tmp_path / "earlier", max_steps=2, save_strategy="steps", save_steps=2, **PLUS | earlier)
    trainer.train()
    trainer, nets = tiny_run.make(tmp_path / "run", max_steps=4, resume_changed=True, **PLUS)
    trainer.remove_callback(PrinterCallback)
    before = tiny_run.parameters(nets)
    with pytest.raises(ValueError, match=message):
        trainer.train(resume_from_checkpoint=str(tmp_path / "earlier" / "checkpoint-2"))
    assert torch.equal(tiny_run.parameters(nets), before)


def test_a_changed_loss_is_resumed_as_what_it_is_now(tmp_path):
    """The arguments at the start of the training count, not those at construction."""
    earlier, _ = tiny_run.make(tmp_path / "earlier", "margin", max_steps=2, save_strategy="steps", save_steps=2)
    earlier.train()
    trainer, _ = tiny_run.make(tmp_path / "run", max_steps=4, resume_changed=True, **PLUS)
    trainer.args.energy_loss = "margin"
    trainer.train(resume_from_checkpoint=str(tmp_path / "earlier" / "checkpoint-2"))
    assert trainer.state.global_step == 4 and trainer.extensions == []


def test_the_saved_nets_are_those_of_any_other_run(tmp_path):
    """F is given up after training, and a later run with another loss in the same place has none."""
    run(tmp_path, "stacked")[1].save_model()
    assert {path.name for path in (tmp_path / "_loss_net").iterdir()} == {"config.json", "model.safetensors"}
    trainer, _ = tiny_run.make(tmp_path, max_steps=1, **PLUS)
    trainer.train()
    trainer.args.energy_loss = "nce"
    trainer.train()
    assert trainer.extensions == []


@pytest.mark.parametrize(("truncated", "margin_type"), [(i % 2 == 0, name) for i, name in enumerate(MARGINS)])
def test_the_compound_objective_has_the_gradients_of_finite_differences(margin_type, truncated):
    """L_E in the energy's parameters, and what A seeks in its logits, through a recurrent energy of tags."""
    torch.manual_seed(0)
    space, energy = TagSequenceSpace(["O", "B-x", "I-x"]), ChainForwardEnergy(3, 4, 5).double()
    options = dict(margin_type=margin_type, margin_cost="l1", inference_truncation=truncated, perceptron_weight=0.7)
    loss = ENERGY_LOSSES["infnet_plus"](**options)
    labels, features = torch.tensor([[0, -100, 1, 2], [1, 0, -100, -100]]), torch.randn(2, 4, 4).double()
    logits, augmented = torch.randn(2, 2, 4, 3).double()
    candidates = loss.candidates(space, logits, labels, torch.Generator(), augmented)

    def of_energy(parameter):
        energies = torch.func.functional_call(energy, {name: parameter}, (features, candidates.y, candidates.mask))
        terms = loss.terms(energies, candidates)
        value = loss(energies, candidates)
        assert value == terms["margin_loss"] + 0.7 * terms["perceptron_loss"]
        return value

    for name, parameter in energy.named_parameters():
        assert torch.autograd.gradcheck(of_energy, (parameter.detach().clone().requires_grad_(),)), name
    gold, mask = space.gold(labels)

    def of_a(logits):
        y = torch.cat([space.output(logits), space.candidate(gold.double())], 1)
        return loss.task_term(energy(features, y, mask))

    assert torch.autograd.gradcheck(of_a, (logits.requires_grad_(),))
