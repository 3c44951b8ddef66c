"""What SealTrainer does beside training: forwards per step, gradients, logs, the best checkpoint, new starts."""

import itertools

import pytest
import tiny_run
import torch
from losses import LOSSES_OF_ENERGIES
from safetensors.torch import load_file
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import TrainerCallback

from seal_hf import SealForMultiLabel, SealTrainer, TensorRows, load_energy_network
from seal_hf.decisions import LabelDecisions
from seal_hf.energy_losses import NCE
from seal_hf.saving import load_loss_net, take_loss_net
from seal_hf.training.checks import check_was_trained


def count_forwards(module):
    calls = []
    module.register_forward_hook(lambda *_: calls.append(module.training))
    return calls


@pytest.mark.parametrize("steps", [1, 5])
def test_the_task_net_runs_once_per_step(tmp_path, steps):
    trainer, nets = tiny_run.make(tmp_path, loss_net_steps=steps, max_steps=4)
    task_calls, loss_calls = count_forwards(nets.task_net), count_forwards(nets.loss_net.encoder)
    trainer.train()
    assert len(task_calls) == 4
    assert len(loss_calls) == 4 * (steps + 1)


def test_the_input_is_encoded_once_for_all_candidates(tmp_path):
    trainer, nets = tiny_run.make(tmp_path, max_steps=1, num_samples=50)
    calls = count_forwards(nets.loss_net.encoder)
    trainer.train()
    assert len(calls) == 2  # one per phase


@pytest.mark.parametrize("loss", ["nce", "regression", "ce"])
def test_no_step_waits_for_the_device(tmp_path, loss):
    """From the begin of a step until its gradients are there, no operation reads a value."""
    seen = set()

    class Operations(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.add(function.overloadpacket.__name__)
            return function(*args, **(kwargs or {}))

    class Watch(TrainerCallback):
        def on_step_begin(self, *args, **kwargs):
            self.mode = Operations()
            self.mode.__enter__()

        def on_pre_optimizer_step(self, *args, **kwargs):
            self.mode.__exit__(None, None, None)

    tiny_run.make(tmp_path, loss=loss, energy_weight=None, max_steps=3, callbacks=[Watch()])[0].train()
    assert seen and ("sigmoid" in seen or loss == "ce")
    assert not seen & {"_local_scalar_dense", "nonzero", "masked_select", "equal"}


def test_each_update_moves_one_net_and_leaves_no_gradient_in_the_other(tmp_path):
    seen = []

    class Watch(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, **kwargs):
            assert all(p.grad is not None for p in nets.task_net.parameters())
            seen.append(("task", [p.grad for p in nets.loss_net.parameters()]))

    trainer, nets = tiny_run.make(tmp_path, accumulation=2, batch=8, max_steps=3, callbacks=[Watch()])
    task_before = [p.detach().clone() for p in nets.task_net.parameters()]

    def loss_net_phase(window, original=trainer.loss_net_phase):
        # gradients of the loss-net from this phase are the learner's; the task-net must get none of them
        original(window)
        assert all(p.grad is None for p in nets.task_net.parameters())
        trainer.learner.zero_grad()

    trainer.loss_net_phase = loss_net_phase
    trainer.train()
    assert len(seen) == 3 and all(g is None for _, gradients in seen for g in gradients)
    assert not all(torch.equal(a, b) for a, b in zip(task_before, nets.task_net.parameters(), strict=True))
    ours = {id(p) for group in trainer.learner.optimizer.param_groups for p in group["params"]}
    theirs = {id(p) for group in trainer.optimizer.param_groups for p in group["params"]}
    assert ours and theirs and not ours & theirs
    assert ours == {id(p) for p in nets.loss_net.parameters()}


def test_static_loss_net_is_left_as_it_is(tmp_path):
    trainer, nets = tiny_run.make(tmp_path, loss_net_steps=0)
    before = [p.detach().clone() for p in nets.loss_net.parameters()]
    trainer.train()
    assert all(torch.equal(a, b) for a, b in zip(before, nets.loss_net.parameters(), strict=True))


# energies of ŷ and y*, and Δ(ŷ, y*) -> what the task-net minimises beside its own loss, by the papers
E_OF_OUTPUT = lambda output, gold, cost: output  # noqa: E731
SCORE = lambda output, gold, cost: -torch.sigmoid(-output)  # noqa: E731
TERMS = {
    **dict.fromkeys(["nce", "ranking", "margin", "contrastive_divergence"], E_OF_OUTPUT),
    **dict.fromkeys(["regression", "regression_s"], SCORE),
    "infnet": lambda output, gold, cost: -(cost - output + gold),
    "infnet_plus": lambda output, gold, cost: -(gold - output),
}


def test_every_energy_loss_has_its_term():
    assert set(TERMS) == set(LOSSES_OF_ENERGIES)


@pytest.mark.parametrize("loss", TERMS)
def test_a_trained_loss_net_teaches_another_task_net(tmp_path, loss):
    """SEAL-static: from a folder of both nets, frozen, its energy without dropout, whatever mode it came in."""
    _, trainer = tiny_run.run(tmp_path / "dynamic", loss=loss, dropout=0.5)
    trainer.save_model()
    nets = tiny_run.model()
    nets.loss_net = load_loss_net(tmp_path / "dynamic", nets.task_net)
    before = {name: value.clone() for name, value in nets.loss_net.state_dict().items()}
    expected = trainer.loss_net.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in before.items())
    nets.loss_net.train()
    frozen = dict(loss_net_steps=0, learning_rate=0.0, logging_steps=6, max_steps=6)  # the log of all rows once
    static, _ = tiny_run.make(tmp_path / "static", loss, nets=nets, **frozen)
    static.train()
    table = tiny_run.table().with_format("torch")
    with torch.no_grad():
        logits = nets.task_net(table["features"][:]).logits
        x, gold, output = table["features"][:], table["labels"][:], torch.sigmoid(logits)
        cost = nets.space.cost(output.unsqueeze(1), gold, "f1").squeeze(1)
        term = TERMS[loss](nets.energy(output, features=x), nets.energy(gold, features=x), cost).mean().item()
    log = static.state.log_history[0]
    assert log["loss"] - log["task_loss"] == pytest.approx(term, abs=1e-4)
    assert all(torch.equal(value, before[name]) for name, value in nets.loss_net.state_dict().items())


def test_a_loss_net_is_found_beside_the_empty_folder_of_an_earlier_one(tmp_path):
    nets = tiny_run.model()
    nets.loss_net.save_pretrained(tmp_path)  # as EnergyTrainer does
    (tmp_path / "_loss_net").mkdir()
    loaded = load_loss_net(tmp_path, nets.task_net)
    assert all(torch.equal(value, nets.loss_net.state_dict()[name]) for name, value in loaded.state_dict().items())


def test_loss_nets_that_cannot_teach_are_refused(tmp_path):
    task_net = tiny_run.model().task_net
    with pytest.raises(ValueError, match="has no loss-net: it has neither _loss_net/config.json nor"):
        load_loss_net(tmp_path, task_net)
    task_net.save_pretrained(tmp_path / "plain")
    (tmp_path / "plain" / "_loss_net").mkdir()  # what cross-entropy leaves of an earlier loss-net
    with pytest.raises(ValueError, match="holds a seal_mlp, not a loss-net"):
        load_loss_net(tmp_path / "plain", task_net)
    tiny_run.model("shared").save_pretrained(tmp_path / "shared")
    with pytest.raises(ValueError, match="reads its task-net's features .shared."):
        load_loss_net(tmp_path / "shared", task_net)
    nets = tiny_run.model()
    nets.save_pretrained(tmp_path / "six")
    nets.task_net.config.num_labels = 7
    with pytest.raises(ValueError, match="has 6 labels and 20 input features, the task-net 7 and 20"):
        load_loss_net(tmp_path / "six", nets.task_net)


def test_a_fresh_loss_net_that_is_never_trained_is_refused_by_the_programs(tmp_path, caplog):
    nets, args = tiny_run.model(), tiny_run.arguments(tmp_path, loss_net_steps=0)
    with pytest.raises(ValueError, match="`loss_net_steps` is 0, .* fresh.*--loss_net_path"):
        check_was_trained(nets.loss_net, args)
    nets.save_pretrained(tmp_path / "trained")
    saved = nets.loss_net
    take_loss_net(nets, tmp_path / "trained", args)
    assert nets.loss_net is not saved and "keeps its" not in caplog.text
    check_was_trained(nets.loss_net, args)  # a loaded one teaches
    check_was_trained(SealForMultiLabel.from_pretrained(tmp_path / "trained").loss_net, args)
    again = SealForMultiLabel.from_pretrained(tmp_path / "trained", fresh_loss_net=True, energy="pairwise")
    assert again.loss_net.config.energy == "pairwise"
    with pytest.raises(ValueError, match="it is fresh"):
        check_was_trained(again.loss_net, args)
    check_was_trained(again.loss_net, tiny_run.arguments(tmp_path, "ce", loss_net_steps=0))
    with caplog.at_level("WARNING"):
        take_loss_net(again, tmp_path / "trained", args)
    assert "keeps its energy 'multilabel'; 'pairwise' is ignored" in caplog.text


def test_the_log_says_what_the_loss_net_does(tmp_path):
    trainer, _ = tiny_run.make(tmp_path, logging_steps=2, num_train_epochs=1)
    trainer.train()
    log = trainer.state.log_history[0]
    names = "loss_net_loss energy_gold energy_output energy_samples loss_net_learning_rate loss_net_grad_norm task_loss"
    assert set(names.split()) <= set(log)
    assert log["loss_net_learning_rate"] == pytest.approx(1e-2)


def test_logged_means_and_losses_are_those_of_the_steps(tmp_path):
    """One step on the whole data: recomputed by hand from the parameters before and after the loss-net phase."""
    trainer, nets = tiny_run.make(tmp_path, "margin", batch=96, max_steps=1, logging_steps=1)
    batch = TensorRows(tiny_run.table()).batch(range(96))
    x, y = batch["features"], batch["labels"]
    y_hat = torch.sigmoid(nets(features=x).logits).detach()
    before_gold, before_output = nets.energy(y, features=x).detach(), nets.energy(y_hat, features=x).detach()
    task_loss = nets.space.task_loss(nets(features=x).logits, y)
    trainer.train()
    log = trainer.state.log_history[0]
    assert log["energy_gold"] == pytest.approx(before_gold.mean().item(), rel=1e-4)
    assert log["energy_output"] == pytest.approx(before_output.mean().item(), rel=1e-4)
    cost = 1 - nets.space.score(y_hat.unsqueeze(1), y).squeeze(1)
    assert log["loss_net_loss"] == pytest.approx(torch.relu(cost - before_output + before_gold).mean().item(), rel=1e-4)
    assert log["task_loss"] == pytest.approx(task_loss.item(), rel=1e-4)
    updated_energy = nets.energy(y_hat, features=x).mean()  # the loss-net has moved once, on the same outputs
    assert log["loss"] == pytest.approx((task_loss + updated_energy).item(), rel=1e-3)


@pytest.mark.parametrize("encoder", ["separate", "shared"])
def test_the_evaluation_loss_is_the_task_loss_alone_and_energies_stand_beside_it(tmp_path, encoder):
    trainer, nets = tiny_run.make(tmp_path, encoder=encoder, energy_weight=3.0, task_weight=0.5)
    trainer.train()
    metrics = trainer.evaluate()
    nets.eval()
    batch = TensorRows(tiny_run.table()).batch(range(96))
    logits = nets(features=batch["features"]).logits
    assert metrics["eval_loss"] == pytest.approx(nets.space.task_loss(logits, batch["labels"]).item(), rel=1e-4)
    gold = nets.energy(batch["labels"], features=batch["features"]).mean().item()
    output = nets.energy(torch.sigmoid(logits), features=batch["features"]).mean().item()
    assert metrics["eval_energy_gold"] == pytest.approx(gold, rel=1e-4)
    assert metrics["eval_energy_output"] == pytest.approx(output, rel=1e-4)
    assert trainer.predict(TensorRows(tiny_run.table())).predictions.shape == (96, 6)


def test_how_often_gold_is_preferred_to_fresh_samples(tmp_path, monkeypatch):
    """Against the probabilities of all 2⁶ label sets, by the energy and by the task-net itself."""
    monkeypatch.setattr("seal_hf.trainer.EVALUATION_SAMPLES", 2000)
    trainer, nets = tiny_run.make(tmp_path)
    trainer.train()
    metrics = trainer.evaluate()
    batch = TensorRows(tiny_run.table()).batch(range(96))
    x, gold = batch["features"], batch["labels"]
    everything = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 6).expand(96, -1, -1)  # (B, 64, L)
    nets.eval()
    with torch.no_grad():
        log_p = nets.space.log_prob(nets(features=x).logits, torch.cat([gold.unsqueeze(1), everything], 1))
        energies = nets.energy(torch.cat([gold.unsqueeze(1), everything], 1), features=x)
    weights = log_p[:, 1:].exp() * (everything != gold.unsqueeze(1)).any(-1)
    for name, scores in (("energy", -energies), ("task_net", log_p)):
        better = (scores[:, :1] > scores[:, 1:]).float() + 0.5 * (scores[:, :1] == scores[:, 1:])
        expected = (weights * better).sum() / weights.sum()
        assert metrics[f"eval_{name}_auc"] == pytest.approx(expected.item(), abs=0.01)
    again = trainer.evaluate()
    assert again["eval_energy_auc"] == metrics["eval_energy_auc"]  # the noise depends on the step


def test_a_second_training_and_model_init_start_the_learner_anew(tmp_path):
    trainer, _ = tiny_run.make(tmp_path, num_train_epochs=1)
    trainer.train()
    first = trainer.learner
    trainer.train()
    assert trainer.learner is not first and trainer.state.global_step == 6

    args = tiny_run.arguments(tmp_path, num_train_epochs=1)
    trainer = SealTrainer(args=args, model_init=lambda: tiny_run.model(), train_dataset=TensorRows(tiny_run.table()))
    ends = []
    for _ in range(2):
        torch.manual_seed(0)
        trainer.train()
        ends.append(torch.cat([p.detach().flatten() for p in trainer.loss_net.parameters()]))
    assert torch.equal(*ends)


def test_a_given_loss_net_outlives_a_trial_of_cross_entropy(tmp_path):
    """A hyper-parameter search over `energy_loss` with `model_init` and `loss_net`."""
    nets, table = tiny_run.model(), TensorRows(tiny_run.table())
    start = [p.detach().clone() for p in nets.loss_net.parameters()]
    args = tiny_run.arguments(tmp_path, num_train_epochs=1)

    def untold():
        task_net = tiny_run.model().task_net
        task_net.config.problem_type = None
        return task_net

    trainer = SealTrainer(args=args, model_init=untold, loss_net=nets.loss_net, train_dataset=table)
    for loss in ("nce", "ce", "nce"):
        args.energy_loss = loss
        trainer.train()
        assert (trainer.loss_net is None) == (loss == "ce")
    trainer.call_model_init()
    assert trainer.model.config.problem_type == "multi_label_classification"  # what pipelines decode by, of every net
    assert all(torch.equal(a, b) for a, b in zip(start, trainer.loss_net.parameters(), strict=True))


def test_cross_entropy_takes_no_trained_loss_net(tmp_path):
    nets = tiny_run.model()
    nets.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="`loss_net_path` is .*, but energy_loss='ce' trains without a loss-net"):
        load_loss_net(tmp_path, nets.task_net, "ce")
    load_loss_net(tmp_path, nets.task_net, "nce")


def test_a_loss_net_that_is_given_stands_in_the_place_of_the_models_own(tmp_path):
    nets, other = tiny_run.model(), tiny_run.model().loss_net
    for loss, expected in (("nce", other), ("ce", None)):
        args = tiny_run.arguments(tmp_path, loss, loss_net_steps=0, max_steps=2)
        trainer = SealTrainer(nets, args, train_dataset=tiny_run.table(48), loss_net=other)
        trainer.train()
        assert trainer.loss_net is expected and trainer.model is nets.task_net


def test_training_forgets_the_decisions_of_the_net_as_it_was(tmp_path):
    """A run of no step leaves them, as the net."""
    stored = LabelDecisions("threshold", threshold=0.3)
    for epochs, expected in ((0, stored.as_json()), (1, None)):
        nets = tiny_run.model()
        stored.store(nets.config)
        trainer, _ = tiny_run.make(tmp_path, nets=nets, num_train_epochs=epochs)
        trainer.train()
        trainer.save_model()
        again = SealForMultiLabel.from_pretrained(tmp_path)
        assert getattr(again.config, "decisions", None) == expected


class Averaging(torch.optim.SGD):
    """As schedule-free optimizers: evaluated are other weights than those that are trained."""

    training = True

    def _swap(self, training):
        if training != self.training:
            self.training = training
            for group in self.param_groups:
                for p in group["params"]:
                    p.data.mul_(-1)

    def train(self):
        self._swap(True)

    def eval(self):
        self._swap(False)


def test_an_optimizer_with_modes_is_in_that_of_training_in_every_forward(tmp_path):
    """An evaluation after every step changes nothing."""
    ends = []
    for evaluated in (False, True):
        nets, rows = tiny_run.model(), TensorRows(tiny_run.table())
        often = dict(eval_strategy="steps", eval_steps=1) if evaluated else {}
        args = tiny_run.arguments(tmp_path, max_steps=4, lr_scheduler_type="constant", **often)
        optimizer = Averaging(nets.task_net.parameters(), lr=0.01)
        trainer = SealTrainer(nets, args, train_dataset=rows, eval_dataset=rows, optimizers=(optimizer, None))
        trainer.train()
        optimizer.train()
        ends.append(tiny_run.parameters(nets))
    torch.testing.assert_close(*ends)


def test_an_optimizer_with_the_loss_nets_parameters_is_refused(tmp_path):
    nets, rows = tiny_run.model(), TensorRows(tiny_run.table())
    optimizer = torch.optim.SGD(nets.parameters(), lr=0.01)
    trainer = SealTrainer(nets, tiny_run.arguments(tmp_path), train_dataset=rows, optimizers=(optimizer, None))
    with pytest.raises(ValueError, match="`optimizers` or `create_optimizer`, has parameters of the loss-net"):
        trainer.train()


def test_a_window_that_ends_in_no_step_has_no_phase_of_the_loss_net_beside_that_of_the_step(tmp_path):
    """Of a stream, whose length is unknown, the Trainer takes the gradients of the last window into the next epoch."""
    for rows, sizes in ((tiny_run.table(10).to_iterable_dataset(), [4, 4, 4, 4]), (tiny_run.table(10), [4, 1, 4, 1])):
        trainer, _ = tiny_run.make(tmp_path, rows=rows, batch=2, accumulation=4, max_steps=4, logging_steps=1)
        phases, phase = [], trainer.loss_net_phase

        def watched(window, trainer=trainer, phases=phases, phase=phase):
            phases.append((trainer.state.global_step, len(window)))
            phase(window)

        trainer.loss_net_phase = watched
        trainer.train()
        assert phases == list(enumerate(sizes))


@pytest.mark.parametrize(
    "values, message",
    [
        ({"sparse_labels_from": 2, "energy_loss": "infnet"}, "needs the cost of all 6 labels"),
        ({"loss_net_encoder": "shared"}, "but the loss-net was built as 'separate'"),
        ({"margin_cost": "iou"}, "margin_cost"),
    ],
)
def test_a_search_is_refused_what_the_constructor_is(values, message, tmp_path):
    pytest.importorskip("optuna")
    rows = TensorRows(tiny_run.table())
    trainer = SealTrainer(
        args=tiny_run.arguments(tmp_path, max_steps=1, eval_strategy="steps", eval_steps=1),
        model_init=lambda trial: tiny_run.model(),
        train_dataset=rows,
        eval_dataset=rows,
    )
    space = lambda trial: {name: trial.suggest_categorical(name, [value]) for name, value in values.items()}  # noqa: E731
    with pytest.raises(ValueError, match=message):
        trainer.hyperparameter_search(space, n_trials=1, backend="optuna")


def test_the_default_objective_of_a_search_is_the_loss_without_energies(tmp_path):
    pytest.importorskip("optuna")
    rows, seen = TensorRows(tiny_run.table()), []
    for metrics, expected in ((None, "eval_loss"), (lambda found: {"f1": 0.25}, "eval_f1")):
        trainer = SealTrainer(
            args=tiny_run.arguments(tmp_path, max_steps=2, eval_strategy="steps", eval_steps=2),
            model_init=lambda trial: tiny_run.model(),
            train_dataset=rows,
            eval_dataset=rows,
            compute_metrics=metrics,
        )
        evaluate = trainer.evaluate
        trainer.evaluate = lambda *args, evaluate=evaluate, **kwargs: seen.append(evaluate(*args, **kwargs)) or seen[-1]
        space = lambda trial: {"learning_rate": trial.suggest_float("learning_rate", 1e-3, 1e-2)}  # noqa: E731
        best = trainer.hyperparameter_search(space, n_trials=1, backend="optuna")
        assert best.objective == pytest.approx(seen[-1][expected])


def test_an_evaluation_with_the_prefix_train_takes_nothing_from_the_log(tmp_path):
    """Under cross-entropy `loss` and `task_loss` of a log are the same mean over its steps."""

    class Evaluates(TrainerCallback):
        def on_epoch_end(self, *args, **kwargs):
            trainer.evaluate(trainer.train_dataset, metric_key_prefix="train")

    trainer, _ = tiny_run.make(tmp_path, "ce", callbacks=[Evaluates()], logging_steps=4, num_train_epochs=2)
    trainer.train()
    logged = [(entry["loss"], entry["task_loss"]) for entry in trainer.state.log_history if "task_loss" in entry]
    assert len(logged) == 3 and all(loss == pytest.approx(task_loss, rel=1e-4) for loss, task_loss in logged)


def test_samples_are_new_in_every_step_update_and_micro_batch_and_with_every_seed(tmp_path, monkeypatch):
    """Drawn at logits of 0, so that they differ by their noise alone."""
    draw, seen = NCE.draw, []
    fair = lambda loss, space, logits, *rest: [seen.append(draw(loss, space, 0 * logits, *rest)), seen[-1]][1]  # noqa: E731
    monkeypatch.setattr(NCE, "draw", fair)
    for seed in (0, 1):
        options = dict(batch=8, accumulation=2, loss_net_steps=2, max_steps=2, seed=seed)
        tiny_run.make(tmp_path, **options)[0].train()
    assert len(seen) == 2 * 2 * 2 * 2 and not any(torch.equal(a, b) for a, b in itertools.combinations(seen, 2))


def test_a_loss_net_alone_is_read_from_safetensors_only(tmp_path):
    nets = tiny_run.model()
    nets.save_pretrained(tmp_path)
    folder = tmp_path / "_loss_net"
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    for load in (lambda: load_loss_net(tmp_path, nets.task_net), lambda: load_energy_network(folder)):
        with pytest.raises(OSError, match="model.safetensors"):
            load()


def test_the_loss_nets_optimizer_has_the_arguments_of_adam_and_its_own_decay(tmp_path):
    options = dict(adam_beta1=0.5, adam_beta2=0.75, adam_epsilon=1e-3, loss_net_weight_decay=0.2, weight_decay=0.1)
    trainer, _ = tiny_run.make(tmp_path, max_steps=1, rows=TensorRows(tiny_run.table(16)), **options)
    trainer.train()
    for group in trainer.learner.optimizer.param_groups:
        assert group["betas"] == (0.5, 0.75) and group["eps"] == 1e-3 and group["weight_decay"] == 0.2


def test_an_interrupted_step_leaves_no_outputs_for_the_next_evaluation(tmp_path, monkeypatch):
    trainer, _ = tiny_run.make(tmp_path)
    expected = trainer.evaluate()["eval_loss"]

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("seal_hf.trainer.SealTrainer.loss_net_phase", interrupt)
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert trainer.evaluate()["eval_loss"] == expected


@pytest.mark.parametrize(
    "options, steps",
    [
        ({"num_train_epochs": 1}, 3),
        ({"num_train_epochs": 1, "min_steps": 7}, 9),  # whole epochs of 3 updates
        ({"num_train_epochs": 4, "min_steps": 7}, 12),
        ({"max_steps": 2, "min_steps": 7}, 2),
    ],
)
def test_few_rows_get_more_epochs(tmp_path, options, steps):
    trainer, _ = tiny_run.make(tmp_path, "ce", batch=16, accumulation=2, **options)
    assert len(trainer.train_dataset) == 96
    assert trainer.train().global_step == steps
