"""SealTrainer. Oracles: the same updates in other portions, figures recomputed by hand from the nets as they were
before, the schedules of transformers, the stock Trainer, and what hooks on the nets count."""

import itertools

import pytest
import tiny_run
import torch
import torch.nn.functional as F
from datasets import DatasetDict
from safetensors.torch import load_file
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, get_scheduler
from transformers.trainer_callback import PrinterCallback

from seal_hf import ENERGY_LOSSES, Learner, MultiLabelEnergy, NonFiniteLossError, SealTrainer, TensorRows
from seal_hf.encoders import ENCODER_MODES

EXACT = dict(rtol=0, atol=0)
ROWS = TensorRows(tiny_run.table())
X, Y = ROWS.dense["features"], ROWS.dense["labels"]


def entries(trainer, name):
    """Values of one logged quantity, in order."""
    return [log[name] for log in trainer.state.log_history if name in log]


def by_net(nets):
    return {name: value.detach().clone() for name, value in nets.state_dict().items()}


class Each(TrainerCallback):
    """Calls a function at one event."""

    def __init__(self, **functions):
        for event, function in functions.items():
            setattr(self, event, lambda args, state, control, f=function, **kwargs: f(state, control))


@pytest.fixture(autouse=True)
def float32(monkeypatch):
    """4.57's arguments leave their precision in the environment, where it is the default of those made after them."""
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")


# --- the same updates in other portions ------------------------------------------------------------------------------


ACCUMULATED = [*itertools.product(["margin", "regression"], ENCODER_MODES, [1, 3]), ("ce", "separate", 1)]


@pytest.mark.parametrize("loss, encoder, steps", ACCUMULATED)
def test_accumulation_changes_neither_nets_nor_figures(tmp_path, loss, encoder, steps):
    """16 rows per update in one, four and eight portions; no samples and no dropout. Clipping is on, so that a gradient
    that is too large by a factor would show."""
    options = dict(encoder=encoder, loss_net_steps=steps, num_train_epochs=1, logging_steps=1, max_grad_norm=1.0)
    whole, reference = tiny_run.run(tmp_path, loss=loss, **options)
    for accumulation in (4, 8):
        split, trainer = tiny_run.run(
            tmp_path, loss=loss, batch=16 // accumulation, accumulation=accumulation, **options
        )
        torch.testing.assert_close(split, whole, rtol=0, atol=2e-6)
        figures = ["loss", "task_loss", "grad_norm"]
        figures += [] if loss == "ce" else ["loss_net_loss", "loss_net_grad_norm", "energy_gold", "energy_output"]
        for name in figures:
            assert entries(trainer, name) == pytest.approx(entries(reference, name), rel=1e-4), name
            assert len(entries(trainer, name)) == 6


@pytest.mark.parametrize("loss", ENERGY_LOSSES)
def test_bf16_stays_close_and_energies_are_float32(tmp_path, loss):
    options = dict(num_train_epochs=1, dropout=0.0)
    full, _ = tiny_run.run(tmp_path, loss=loss, **options)
    torch.manual_seed(0)
    trainer, nets = tiny_run.make(tmp_path, loss, bf16=True, **options)
    kinds = {"energy": set(), "layer": set()}
    for net in nets.modules():
        if isinstance(net, MultiLabelEnergy):
            net.register_forward_hook(lambda module, args, output: kinds["energy"].add(output.dtype))
    for layer in (nets.task_net.encoder.layers[0], nets.loss_net.encoder.layers[0]):
        layer.register_forward_hook(lambda module, args, output: kinds["layer"].add(output.dtype))
    trainer.train()
    assert kinds == {"energy": {torch.float32}, "layer": {torch.bfloat16}}
    half, start = tiny_run.parameters(nets), tiny_run.parameters(tiny_run.model())
    assert half.dtype == torch.float32 and half.isfinite().all()
    assert 0 < (half - full).norm() < 0.2 * (full - start).norm()


def test_fp16_on_a_cpu_is_float32(tmp_path):
    """There accelerate has no half precision and says nothing; the loss-net's scaler must be without effect too."""
    full, _ = tiny_run.run(tmp_path, num_train_epochs=1)
    half, trainer = tiny_run.run(tmp_path, num_train_epochs=1, fp16=True)
    assert trainer.learner.scaler.is_enabled()
    torch.testing.assert_close(half, full, **EXACT)


def test_cross_entropy_is_the_stock_trainer_with_summed_labels(tmp_path):
    """With dropout, clipping, a schedule and weight decay: everything that the two could do differently."""

    class Stock(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            logits = model(features=inputs["features"]).logits
            return F.binary_cross_entropy_with_logits(logits, inputs["labels"], reduction="none").sum(1).mean()

    options = dict(dropout=0.3, weight_decay=0.1, max_grad_norm=1.0, warmup_steps=3, lr_scheduler_type="cosine")
    ours, trainer = tiny_run.run(tmp_path, loss="ce", **options)
    torch.manual_seed(0)
    nets = tiny_run.model(dropout=0.3)
    stock = Stock(nets.task_net, trainer.args, train_dataset=ROWS, data_collator=trainer.data_collator)
    stock.remove_callback(PrinterCallback)
    stock.train()
    torch.testing.assert_close(tiny_run.parameters(nets), ours, **EXACT)
    for name in ("loss", "grad_norm", "learning_rate"):
        assert entries(stock, name) == entries(trainer, name)


# --- who gets which gradient -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ENCODER_MODES)
@pytest.mark.parametrize("accumulation, fresh", [(1, False), (1, True), (2, False)])
def test_no_net_holds_a_gradient_when_the_other_is_updated(tmp_path, monkeypatch, encoder, accumulation, fresh):
    """Nor does it move then."""
    order, before = [], {}

    def check(whose, mine, other):
        order.append(whose)
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in mine.parameters())
        assert all(p.grad is None for p in other.parameters())
        assert all(torch.equal(value, other.state_dict()[name]) for name, value in before.get(whose, {}).items())

    def apply(learner, original=Learner.apply):
        check("loss-net", nets.loss_net, nets.task_net)
        original(learner)
        before["task-net"] = by_net(nets.loss_net)

    monkeypatch.setattr(Learner, "apply", apply)
    watch = Each(
        on_pre_optimizer_step=lambda *_: check("task-net", nets.task_net, nets.loss_net),
        on_step_end=lambda *_: before.update({"loss-net": by_net(nets.task_net)}),
    )
    options = dict(encoder=encoder, batch=8, accumulation=accumulation, loss_net_fresh_outputs=fresh)
    trainer, nets = tiny_run.make(tmp_path, loss_net_steps=2, max_steps=4, callbacks=[watch], **options)
    trainer.train()
    assert order == ["loss-net", "loss-net", "task-net"] * 4
    mine, other = (
        {id(p) for group in optimizer.param_groups for p in group["params"]}
        for optimizer in (trainer.learner.optimizer, trainer.optimizer)
    )
    assert mine == {id(p) for p in nets.loss_net.parameters()}
    assert other == {id(p) for p in nets.task_net.parameters()} and not mine & other
    assert all(p.requires_grad for p in nets.parameters())  # what was frozen for a phase is not any more


def test_a_static_loss_net_stays_as_it_is_and_still_teaches(tmp_path):
    trained = {}
    for weight in (0.0, 1.0):
        torch.manual_seed(0)
        trainer, nets = tiny_run.make(tmp_path, loss_net_steps=0, energy_weight=weight)
        before = by_net(nets.loss_net)
        trainer.train()
        assert all(torch.equal(value, before[name]) for name, value in nets.loss_net.state_dict().items())
        trained[weight] = by_net(nets.task_net)
    assert not torch.equal(trained[0.0]["classifier.weight"], trained[1.0]["classifier.weight"])


@pytest.mark.parametrize("encoder, dropout", [("shared", 0.3), ("separate", 0.0)])
def test_without_energy_the_task_net_learns_as_from_cross_entropy(tmp_path, encoder, dropout):
    """(A loss-net of its own would draw dropout masks too.)"""
    plain, _ = tiny_run.run(tmp_path, loss="ce", encoder=encoder, dropout=dropout)
    taught, trainer = tiny_run.run(tmp_path, loss="nce", encoder=encoder, dropout=dropout, energy_weight=0.0)
    task_net = slice(0, sum(p.numel() for p in trainer.model.parameters()))
    torch.testing.assert_close(taught[task_net], plain[task_net], **EXACT)


# --- how often the nets run ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ENCODER_MODES)
@pytest.mark.parametrize(
    "steps, accumulation, fresh, task_forwards",
    [
        (1, 1, False, 1),
        (5, 1, False, 1),
        (0, 1, False, 1),
        (1, 1, True, 2),
        (5, 1, True, 6),
        (3, 2, False, 4),
        (3, 2, True, 8),
    ],
)
def test_forwards_per_step(tmp_path, encoder, steps, accumulation, fresh, task_forwards):
    """The task-net runs once where a window is one micro-batch; a loss-net update is one forward per micro-batch, and
    the energy of the task-net's phase one more, whatever the number of samples."""
    options = dict(loss_net_steps=steps, loss_net_fresh_outputs=fresh, accumulation=accumulation, batch=8, max_steps=3)
    trainer, nets = tiny_run.make(tmp_path, encoder=encoder, num_samples=17, **options)
    counts = {"task": 0, "loss": 0}
    for name, net in (("task", nets.task_net), ("loss", nets.loss_net)):
        net.register_forward_hook(lambda *_, name=name: counts.update({name: counts[name] + 1}))
    trainer.train()
    assert counts == {"task": 3 * task_forwards, "loss": 3 * accumulation * (steps + 1)}


def test_the_last_window_of_an_epoch_may_be_shorter(tmp_path):
    """5 micro-batches, accumulation 2: windows of 2, 2 and 1."""
    rows = TensorRows(tiny_run.table(40))
    trainer, nets = tiny_run.make(tmp_path, rows=rows, batch=8, accumulation=2, num_train_epochs=2)
    forwards = []
    nets.task_net.register_forward_hook(lambda *_: forwards.append(trainer.state.global_step))
    trainer.train()
    assert [forwards.count(step) for step in range(trainer.state.global_step)] == [4, 4, 1] * 2


# --- noise -----------------------------------------------------------------------------------------------------------


def samples_of(trainer, nets):
    """Samples of every loss-net update of a task-net that says 1/2 for all labels of all rows, and stays so."""
    torch.nn.init.zeros_(nets.task_net.classifier.weight)
    seen = []
    nets.loss_net.register_forward_pre_hook(
        lambda net, args: seen.append(args[0][:, 2:]) if args[0].shape[1] > 2 else None
    )
    trainer.train()
    return torch.stack(seen)


def test_noise_differs_by_step_update_micro_batch_and_seed_and_by_nothing_else(tmp_path):
    options = dict(learning_rate=0.0, loss_net_steps=2, accumulation=2, batch=8, max_steps=3)
    runs = {}
    for name, seed, global_seed in (("first", 1, 0), ("again", 1, 123), ("other", 2, 0)):
        trainer, nets = tiny_run.make(tmp_path, seed=seed, data_seed=0, **options)
        torch.manual_seed(global_seed)
        runs[name] = samples_of(trainer, nets)
        assert runs[name].shape == (3 * 2 * 2, 8, 20, 6) and set(runs[name].unique().tolist()) == {0.0, 1.0}
    assert torch.equal(runs["first"], runs["again"])
    both = torch.cat([runs["first"], runs["other"]])
    assert both.unique(dim=0).shape == both.shape


def test_the_loss_net_does_not_touch_the_global_generator(tmp_path):
    """Without dropout nothing of a step may draw from it: samples come from a generator of their own."""
    states = []
    watch = Each(on_step_end=lambda *_: states.append(torch.random.get_rng_state()))
    trainer, _ = tiny_run.make(tmp_path, max_steps=4, callbacks=[watch])
    trainer.train()
    assert len(states) == 4 and all(torch.equal(state, states[0]) for state in states)


# --- figures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ENERGY_LOSSES)
@pytest.mark.parametrize("encoder", ENCODER_MODES)
def test_what_is_logged_is_what_the_formulas_give(tmp_path, loss, encoder):
    """One step on all rows, recomputed from the nets as they were before, and from the loss-net as it is after."""
    weights = dict(energy_weight=0.5, task_weight=2.0)
    options = dict(batch=tiny_run.ROWS, max_steps=1, logging_steps=1, **weights)
    trainer, nets = tiny_run.make(tmp_path, loss, encoder, loss_net_max_grad_norm=1e-3, **options)
    logits = nets(features=X).logits
    output, task_loss = logits.sigmoid().detach(), nets.space.task_loss(logits, Y).item()
    gold, before = nets.energy(Y, features=X).mean().item(), nets.energy(output, features=X).mean().item()
    old_task_net = {name: value.clone() for name, value in nets.task_net.state_dict().items()}
    trainer.train()
    (log,) = (log for log in trainer.state.log_history if "loss" in log)
    names = {"loss_net_loss", "energy_gold", "energy_output", "loss_net_learning_rate", "loss_net_grad_norm"}
    assert names <= set(log) and ("energy_samples" in log) == (loss in ("nce", "ranking", "regression_s"))
    assert log["energy_gold"] == pytest.approx(gold, rel=1e-4)
    assert log["energy_output"] == pytest.approx(before, rel=1e-4)
    assert log["task_loss"] == pytest.approx(task_loss, rel=1e-4)
    assert log["loss_net_learning_rate"] == 1e-2
    assert log["loss_net_grad_norm"] > 1e-3  # as it was before clipping
    nets.task_net.load_state_dict(old_task_net)
    after = nets.energy(output, features=X)  # the loss-net has moved, the output has not
    term = -torch.sigmoid(-after) if loss.startswith("regression") else after
    assert log["loss"] == pytest.approx(2.0 * task_loss + 0.5 * term.mean().item(), rel=1e-4)


def test_logged_values_are_means_since_the_last_log(tmp_path):
    every, _ = tiny_run.make(tmp_path, max_steps=6, logging_steps=1)
    third, _ = tiny_run.make(tmp_path, max_steps=6, logging_steps=3)
    for trainer in (every, third):
        torch.manual_seed(0)
        trainer.train()
    for name in ("loss_net_loss", "energy_gold", "energy_output", "energy_samples", "loss_net_grad_norm", "task_loss"):
        single = entries(every, name)
        assert entries(third, name) == pytest.approx([sum(single[:3]) / 3, sum(single[3:]) / 3], rel=1e-5), name


@pytest.mark.parametrize("schedule", "constant constant_with_warmup linear cosine polynomial inverse_sqrt".split())
def test_the_loss_net_has_its_own_schedule_in_its_own_updates(tmp_path, schedule):
    options = dict(loss_net_steps=2, num_train_epochs=1, logging_steps=1, loss_net_learning_rate=3e-3)
    options |= dict(loss_net_lr_scheduler_type=schedule, loss_net_warmup_steps=5)
    trainer, _ = tiny_run.make(tmp_path, **options)
    trainer.train()
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=3e-3)
    oracle = get_scheduler(schedule, optimizer, num_warmup_steps=5, num_training_steps=12)
    rates = []
    for _ in range(12):
        optimizer.step()
        oracle.step()
        rates.append(oracle.get_last_lr()[0])
    assert entries(trainer, "loss_net_learning_rate") == pytest.approx(rates[1::2], abs=1e-12)


@pytest.mark.parametrize("encoder", ENCODER_MODES)
def test_evaluation_gives_the_task_loss_alone_and_the_energies_beside_it(tmp_path, encoder):
    """Over all 96 rows in batches of 40, 40 and 16; dropout is on in training and off here, in both nets."""
    options = dict(energy_weight=3.0, task_weight=0.5, per_device_eval_batch_size=40, num_train_epochs=1)
    trainer, nets = tiny_run.make(tmp_path, encoder=encoder, dropout=0.5, **options)
    trainer.train()
    metrics = trainer.evaluate(metric_key_prefix="test")
    assert trainer.evaluate(metric_key_prefix="test")["test_energy_output"] == metrics["test_energy_output"]
    nets.eval()
    with torch.no_grad():
        logits = nets(features=X).logits
        loss = F.binary_cross_entropy_with_logits(logits, Y, reduction="none").sum(1).mean()
        gold, output = nets.energy(Y, features=X).mean(), nets.energy(logits.sigmoid(), features=X).mean()
    assert metrics["test_loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert metrics["test_energy_gold"] == pytest.approx(gold.item(), rel=1e-5)
    assert metrics["test_energy_output"] == pytest.approx(output.item(), rel=1e-5)
    predictions = torch.as_tensor(trainer.predict(ROWS).predictions)
    torch.testing.assert_close(predictions, logits, rtol=0, atol=1e-5)  # logits alone, without hidden states


def test_several_evaluation_sets_are_told_apart(tmp_path):
    parts = DatasetDict({"few": tiny_run.table().select(range(16)), "all": tiny_run.table()})
    args = tiny_run.arguments(tmp_path, max_steps=1)
    trainer = SealTrainer(tiny_run.model(), args, train_dataset=tiny_run.table(), eval_dataset=parts)
    metrics = trainer.evaluate()
    for name, rows in (("few", 16), ("all", 96)):
        nets = tiny_run.model()
        gold = nets.energy(Y[:rows], features=X[:rows]).mean().item()
        assert metrics[f"eval_{name}_energy_gold"] == pytest.approx(gold, rel=1e-5)


def test_cross_entropy_reports_no_energies(tmp_path):
    trainer, _ = tiny_run.make(tmp_path, "ce", num_train_epochs=1)
    trainer.train()
    trainer.evaluate()
    assert not [name for log in trainer.state.log_history for name in log if "energy" in name or "loss_net" in name]


@pytest.mark.parametrize("steps", [0, 1])
def test_evaluation_in_between_changes_nothing(tmp_path, steps):
    """Not even whether the loss-net is in training mode. (The noise of dropout does change: a loader draws a seed.)"""
    options = dict(num_train_epochs=1, loss_net_steps=steps)
    plain, reference = tiny_run.run(tmp_path, **options)
    evaluated, trainer = tiny_run.run(tmp_path, eval_strategy="steps", eval_steps=1, **options)
    assert len(entries(trainer, "eval_loss")) == 6
    assert trainer.loss_net.training == reference.loss_net.training
    torch.testing.assert_close(evaluated, plain, **EXACT)


# --- runs that end otherwise -----------------------------------------------------------------------------------------


def test_an_interrupted_step_leaves_nothing_behind(tmp_path):
    """A user stops a notebook's cell in the loss-net's phase, then evaluates and goes on."""
    trainer, nets = tiny_run.make(tmp_path, per_device_eval_batch_size=16)
    handle = nets.loss_net.register_forward_hook(lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    handle.remove()
    with torch.no_grad():
        expected = nets.space.task_loss(nets.task_net.eval()(features=X).logits, Y).item()
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected, rel=1e-5)
    trainer.train()
    assert trainer.state.global_step == 18 and tiny_run.parameters(nets).isfinite().all()


def nan_at(step, batch=16):
    """Rows of which one has a NaN, first read at this step (from 1): a collator that puts it there."""
    rows, calls = TensorRows(tiny_run.table()), []

    def collate(features):
        calls.append(1)
        (whole,) = features
        if len(calls) == step:
            whole["features"][2, 3] = float("nan")
        return whole

    return rows, collate


@pytest.mark.parametrize("loss, phase", [("nce", "loss-net"), ("ce", "task-net")])
@pytest.mark.parametrize("logging_steps", [1, 4, 1000])
def test_a_nan_feature_stops_the_run_at_the_next_log_or_at_its_end(tmp_path, loss, phase, logging_steps):
    rows, collate = nan_at(step=6)
    args = tiny_run.arguments(tmp_path, loss, logging_steps=logging_steps)
    trainer = SealTrainer(tiny_run.model(), args, collate, rows)
    trainer.remove_callback(PrinterCallback)
    with pytest.raises(NonFiniteLossError, match=f"loss of the {phase} phase is NaN or infinite, first at step 6. "):
        trainer.train()
    assert trainer.state.global_step == {1: 6, 4: 8, 1000: 18}[logging_steps]


def test_the_phase_that_was_first_is_named(tmp_path):
    """The task-net's loss overflows in step 3; both nets see NaN from then on, the loss-net from step 4."""
    trainer, nets = tiny_run.make(tmp_path, logging_steps=1000)

    def overflow(net, args, output):
        late = trainer.state.global_step == 2 and net.training and output.shape[1] == 1
        return output * float("inf") if late else output

    nets.loss_net.register_forward_hook(overflow)
    with pytest.raises(NonFiniteLossError, match="task-net phase is NaN or infinite, first at step 3.*`energy_weight`"):
        trainer.train()


def test_the_same_trainer_can_start_again_after_a_nan(tmp_path):
    rows, collate = nan_at(step=2)
    trainer = SealTrainer(tiny_run.model(), tiny_run.arguments(tmp_path, num_train_epochs=1), collate, rows)
    trainer.remove_callback(PrinterCallback)
    start = by_net(trainer.model), by_net(trainer.loss_net)
    with pytest.raises(NonFiniteLossError):
        trainer.train()
    for net, weights in zip((trainer.model, trainer.loss_net), start, strict=True):
        net.load_state_dict(weights)
    trainer.optimizer = None  # its moments are NaN
    trainer.train()
    assert all(p.isfinite().all() for p in trainer.loss_net.parameters())


def test_parameters_that_are_not_finite_are_not_saved(tmp_path):
    """A gradient may overflow where the loss did not."""

    def spoil(state, control):
        if state.global_step == 3:
            trainer.loss_net.energy.direction.weight.data.fill_(float("inf"))

    options = dict(save_strategy="steps", save_steps=3, callbacks=[Each(on_step_end=spoil)])
    trainer, _ = tiny_run.make(tmp_path, **options)
    with pytest.raises(NonFiniteLossError, match="A parameter of the loss-net is NaN or infinite"):
        trainer.train()
    assert not list(tmp_path.glob("checkpoint-*"))


def test_early_stopping_and_the_best_checkpoint(tmp_path):
    """The metric says that the second of five epochs was best: both nets end as they were then."""
    kept = {}

    def keep(state, control):
        kept[state.global_step] = by_net(nets)

    scores = iter([0.4, 0.9, 0.5, 0.6, 0.7])
    nets, best = (
        tiny_run.model(),
        dict(load_best_model_at_end=True, metric_for_best_model="score", greater_is_better=True),
    )
    options = dict(num_train_epochs=5, eval_strategy="epoch", save_strategy="epoch", save_total_limit=2)
    trainer = SealTrainer(
        nets,
        tiny_run.arguments(tmp_path, **options, **best),
        train_dataset=ROWS,
        eval_dataset=ROWS,
        compute_metrics=lambda _: {"score": next(scores)},
        callbacks=[EarlyStoppingCallback(2), Each(on_epoch_end=keep)],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    assert trainer.state.global_step == 24 and trainer.state.best_model_checkpoint == str(tmp_path / "checkpoint-12")
    assert all(torch.equal(value, kept[12][name]) for name, value in nets.state_dict().items())
    assert not all(torch.equal(value, kept[12][name]) for name, value in kept[24].items())
    assert {folder.name for folder in tmp_path.glob("checkpoint-*")} == {"checkpoint-12", "checkpoint-24"}
    for folder in tmp_path.glob("checkpoint-*"):
        assert (folder / "_loss_net" / "learner.pt").is_file() and (folder / "model.safetensors").is_file()
    for name, value in load_file(tmp_path / "checkpoint-24" / "_loss_net" / "model.safetensors").items():
        assert torch.equal(value, kept[24][f"loss_net.{name}"])


def test_a_second_run_goes_on_from_the_weights_with_a_learner_anew(tmp_path):
    trainer, nets = tiny_run.make(tmp_path, num_train_epochs=1, loss_net_lr_scheduler_type="linear")
    trainer.train()
    first, middle = trainer.learner, by_net(nets)
    assert first.learning_rate == 0
    trainer.train()
    assert trainer.learner is not first and trainer.learner.learning_rate == 0
    for name, value in nets.state_dict().items():
        assert not torch.equal(value, middle[name]), name
    assert next(iter(trainer.learner.optimizer.state.values()))["step"].item() == 6


# --- model_init and the search for hyper-parameters ------------------------------------------------------------------


@pytest.mark.parametrize("given", ["both nets", "loss_net=", "ce"])
def test_model_init_starts_both_nets_anew(tmp_path, given):
    """Every call of `train` ends with the same nets as the first, and as a trainer that was given the nets."""
    loss = "ce" if given == "ce" else "nce"
    args = tiny_run.arguments(tmp_path, loss, num_train_epochs=1)
    if given == "loss_net=":
        options = dict(loss_net=tiny_run.model().loss_net, model_init=lambda: tiny_run.model().task_net)
    else:
        options = dict(model_init=lambda: tiny_run.model())
    trainer = SealTrainer(args=args, train_dataset=ROWS, eval_dataset=ROWS, **options)
    trainer.remove_callback(PrinterCallback)
    expected, _ = tiny_run.run(tmp_path, loss=loss, num_train_epochs=1, seed=42)
    for _ in range(2):
        trainer.train()
        nets = [trainer.model] + ([trainer.loss_net] if loss == "nce" else [])
        found = torch.cat([p.detach().flatten() for net in nets for p in net.parameters()])
        assert torch.equal(found, expected[: len(found)])
    if given == "ce":  # the loss-net that model_init also gives is left aside
        assert trainer.loss_net is None and set(trainer.evaluate()) & {"eval_energy_gold"} == set()
        trainer.save_model(tmp_path / "saved")
        assert not (tmp_path / "saved" / "_loss_net").exists()


def test_a_search_starts_both_nets_anew_in_every_trial(tmp_path):
    pytest.importorskip("optuna")
    args = tiny_run.arguments(tmp_path, num_train_epochs=1, eval_strategy="epoch")
    trainer = SealTrainer(args=args, model_init=lambda: tiny_run.model(), train_dataset=ROWS, eval_dataset=ROWS)
    trainer.remove_callback(PrinterCallback)
    weights, ends = [0.5, 0.5, 0.125], []

    def space(trial):
        return {"energy_weight": trial.suggest_categorical("energy_weight", [weights[len(ends)]])}

    def objective(metrics):
        ends.append(
            torch.cat([p.detach().flatten() for p in [*trainer.model.parameters(), *trainer.loss_net.parameters()]])
        )
        return metrics["eval_loss"]

    for _ in weights:
        best = trainer.hyperparameter_search(space, objective, n_trials=1, backend="optuna", direction="minimize")
    assert best.hyperparameters == {"energy_weight": 0.125}
    assert torch.equal(ends[0], ends[1]) and not torch.equal(ends[0], ends[2])
    for end, weight in ((ends[1], 0.5), (ends[2], 0.125)):
        expected, _ = tiny_run.run(tmp_path, num_train_epochs=1, energy_weight=weight)
        assert torch.equal(end, expected)
