"""The Trainer's own features, for both nets. Oracles: the parameters of both nets after every step of the same run, an
independent run with a trial's values, and the trainer's own log against what a logger wrote."""

import os
import re
import socket
from types import SimpleNamespace

import pytest
import tiny_run
import torch
from transformers import EarlyStoppingCallback, TrainerCallback, TrainerState

from seal_hf import SealForMultiLabel, SealTrainer, TensorRows
from seal_hf.training.epochs import Patience, without_gain

# the evaluation loss falls, so the first evaluation is the "best" where more counts as better
FIRST_IS_BEST = dict(load_best_model_at_end=True, metric_for_best_model="loss", greater_is_better=True)
EVERY_TWO = dict(eval_strategy="steps", eval_steps=2, save_strategy="steps", save_steps=2)
SCALARS = "loss_net_loss energy_gold energy_output energy_samples loss_net_learning_rate loss_net_grad_norm task_loss"


class Remember(TrainerCallback):
    """Parameters of both nets after each step."""

    def __init__(self, nets):
        self.nets, self.after = nets, {}

    def on_step_end(self, args, state, control, **kwargs):
        self.after[state.global_step] = tiny_run.parameters(self.nets)


def train(folder, callbacks=(), encoder="separate", **options):
    nets = tiny_run.model(encoder)
    remember = Remember(nets)
    options = dict(nets=nets, encoder=encoder, callbacks=[remember, *callbacks], **options)
    trainer, _ = tiny_run.make(folder, **options)
    trainer.train()
    return trainer, nets, remember.after


def checkpoints(folder):
    """Parameters of both nets in each checkpoint, by step."""
    found = {int(path.name.split("-")[1]): path for path in folder.glob("checkpoint-*")}
    return {step: tiny_run.parameters(SealForMultiLabel.from_pretrained(path)) for step, path in found.items()}


@pytest.mark.parametrize("limit, kept", [(1, {2}), (2, {2, 10}), (3, {2, 8, 10})])
def test_the_checkpoints_within_the_limit_and_the_best_are_kept_with_both_nets(tmp_path, limit, kept):
    """With a limit of 1, the Trainer deletes the last one, too, when it has loaded the best."""
    trainer, nets, after = train(tmp_path, max_steps=10, save_total_limit=limit, **FIRST_IS_BEST, **EVERY_TWO)
    saved = checkpoints(tmp_path)
    assert saved.keys() == kept and trainer.state.best_global_step == 2
    assert all(torch.equal(saved[step], after[step]) for step in kept)
    assert torch.equal(tiny_run.parameters(nets), after[2]) and not torch.equal(after[2], after[10])


@pytest.mark.parametrize("encoder", ["separate", "shared"])
def test_early_stopping_ends_with_both_nets_of_the_best_step(tmp_path, encoder):
    stopper = EarlyStoppingCallback(early_stopping_patience=2)
    trainer, nets, after = train(tmp_path, [stopper], encoder, max_steps=18, **FIRST_IS_BEST, **EVERY_TWO)
    assert trainer.state.global_step == 6 and max(after) == 6  # the best is step 2; 4 and 6 are no better
    assert torch.equal(tiny_run.parameters(nets), after[2])
    evaluated = trainer.evaluate()
    logged = [log for log in trainer.state.log_history if log.get("step") == 2 and "eval_energy_gold" in log]
    for name in ("eval_loss", "eval_energy_gold", "eval_energy_output"):  # the energies are of the best loss-net, too
        assert evaluated[name] == pytest.approx(logged[0][name], rel=1e-6)


@pytest.mark.parametrize("killed_at", [3, 5])
def test_a_resumed_run_stops_early_where_the_uninterrupted_one_does(tmp_path, killed_at):
    """The best is step 2; steps 4 and 6 are no better. One kill is before step 4, one after it."""
    options = {"max_steps": 18, **FIRST_IS_BEST, **EVERY_TWO}
    whole, nets, _ = train(tmp_path / "whole", [Patience(2)], **options)
    train(tmp_path / "killed", [Patience(2), tiny_run.StopAt(killed_at)], **options)
    last = max((tmp_path / "killed").glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    resumed, others = tiny_run.make(tmp_path / "killed", callbacks=[Patience(2)], **options)
    resumed.train(resume_from_checkpoint=str(last))
    assert resumed.state.global_step == whole.state.global_step == 6
    assert torch.equal(tiny_run.parameters(others), tiny_run.parameters(nets))


@pytest.mark.parametrize("strategy", ["steps", "epoch"])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_run_that_had_stopped_early_trains_no_step_when_it_is_resumed(tmp_path, strategy, accumulation, caplog):
    every = EVERY_TWO if strategy == "steps" else dict(eval_strategy="epoch", save_strategy="epoch")
    options = {"num_train_epochs": 9, "accumulation": accumulation, **FIRST_IS_BEST, **every}
    whole, nets, after = train(tmp_path, [Patience(2)], **options)
    assert 0 < whole.state.global_step < whole.state.max_steps
    assert re.search(
        r"Stopped early, after [\d.]+ of 9 epochs: `loss` .* in 2 evaluations \(--patience 2;", caplog.text
    )
    last = tmp_path / f"checkpoint-{whole.state.global_step}"
    saved = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    others = tiny_run.model()
    remember = Remember(others)
    resumed, _ = tiny_run.make(tmp_path, nets=others, callbacks=[remember, Patience(2)], **options)
    resumed.train(resume_from_checkpoint=str(last))
    assert not remember.after and resumed.state.global_step == whole.state.global_step
    assert torch.equal(tiny_run.parameters(others), tiny_run.parameters(nets))
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == saved
    assert f"had already stopped early, at step {whole.state.global_step}: no step is trained" in caplog.text


def test_patience_counts_from_the_first_change_of_the_figure():
    for values, greater, count in (
        ([0, 0, 0], True, 0),
        ([0, 0, 0.1, 0.1, 0.05], True, 2),
        ([0.5, 0.5, 0.4, 0.4], True, 2),
        ([0.5, 0.5, 0.4, 0.4], False, 1),
        ([], True, 0),
    ):
        assert without_gain(values, greater) == count
    assert without_gain([0.5, 0.6, 0.65, 0.8], True, threshold=0.1) == 0
    assert without_gain([0.5, 0.55, 0.6, 0.65], True, threshold=0.1) == 3
    assert without_gain([0.5, 0.45, 0.3], False, threshold=0.1) == 0


@pytest.mark.parametrize(("figures", "best"), [([0, 0, 0], 3), ([0, 0, 0.2, 0.2], 3), ([0.5, 0.5, 0.4, 0.4], 2)])
def test_of_equal_figures_from_the_beginning_the_latest_is_the_best(figures, best, tmp_path):
    found = iter(figures)
    options = dict(eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, greater_is_better=True)
    options |= dict(metric_for_best_model="figure", num_train_epochs=len(figures))
    trainer, _ = tiny_run.make(tmp_path, "ce", **options)
    trainer.compute_metrics = lambda _: {"figure": next(found)}
    trainer.train()
    epochs = {entry["step"]: entry["epoch"] for entry in trainer.state.log_history if "eval_figure" in entry}
    assert epochs[int(trainer.state.best_model_checkpoint.rpartition("-")[2])] == best


def test_each_trial_of_a_search_is_a_run_of_its_own_with_its_values(tmp_path):
    """Three trials, the third with the values of the first, against trainers that are given them as arguments."""
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    trials = [(0.5, 1e-2, 0.0), (2.0, 1e-3, 0.5), (0.5, 1e-2, 0.0)]
    options = dict(num_train_epochs=1, eval_strategy="epoch", save_strategy="steps", save_steps=3)
    rows, ends = TensorRows(tiny_run.table()), []

    def trainer_with(folder, dropout=None, **values):
        args = tiny_run.arguments(folder, **(options | values))

        def model_init(trial):
            return tiny_run.model(dropout=trial.params["dropout"] if trial is not None else dropout or 0.0)

        return SealTrainer(args=args, model_init=model_init, train_dataset=rows, eval_dataset=rows)

    def parameters(trainer):
        return torch.cat([p.detach().flatten() for net in (trainer.model, trainer.loss_net) for p in net.parameters()])

    def space(trial):
        weight, rate, dropout = trials[trial.number]
        return {
            "energy_weight": trial.suggest_float("energy_weight", weight, weight),
            "loss_net_learning_rate": trial.suggest_float("loss_net_learning_rate", rate, rate),
            "dropout": trial.suggest_float("dropout", dropout, dropout),  # of the nets, not of the arguments
        }

    def objective(metrics):
        ends.append(parameters(search))
        return metrics["eval_loss"]

    search = trainer_with(tmp_path / "search")
    search.hyperparameter_search(space, objective, n_trials=3, backend="optuna")
    for number, (weight, rate, dropout) in enumerate(trials):
        alone = trainer_with(tmp_path / "alone", dropout, energy_weight=weight, loss_net_learning_rate=rate)
        alone.train()
        assert torch.equal(ends[number], parameters(alone))
        saved = SealForMultiLabel.from_pretrained(tmp_path / "search" / f"run-{number}" / "checkpoint-6")
        assert torch.equal(tiny_run.parameters(saved), ends[number])
    assert torch.equal(ends[0], ends[2]) and not torch.equal(ends[0], ends[1])


def logged(trainer):
    """What a logger must have: {(name, step): value}, named as the Trainer's integrations do."""
    entries = {}
    for log in trainer.state.log_history:
        if "train_runtime" in log:
            continue
        for name, value in log.items():
            if name not in ("step", "epoch"):
                tag = f"eval/{name.removeprefix('eval_')}" if name.startswith("eval_") else f"train/{name}"
                entries[tag, log["step"]] = pytest.approx(value, rel=1e-6)
    assert {f"train/{name}" for name in SCALARS.split()} | {"eval/energy_gold"} <= {tag for tag, _ in entries}
    return entries


LOGGED = dict(max_steps=6, logging_steps=2, eval_strategy="steps", eval_steps=3)


def test_tensorboard_has_the_scalars_of_both_nets(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    trainer, _, _ = train(tmp_path, report_to="tensorboard", **LOGGED)
    (file,) = tmp_path.rglob("events.out.tfevents.*")
    events = accumulator.EventAccumulator(str(file.parent)).Reload()
    written = {(tag, event.step): event.value for tag in events.Tags()["scalars"] for event in events.Scalars(tag)}
    expected = logged(trainer)
    assert {key: written.get(key) for key in expected} == expected


def test_trackio_has_the_scalars_of_both_nets_and_nobody_else(tmp_path, monkeypatch):
    """Logged to a file in a folder; nothing is sent anywhere."""
    for name in [name for name in os.environ if name.startswith("TRACKIO_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("HOME", str(tmp_path))
    calls = []
    monkeypatch.setattr(socket.socket, "connect", lambda *given: calls.append(given))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **_: calls.append(given))
    storage = pytest.importorskip("trackio.sqlite_storage")  # reads TRACKIO_DIR when it is imported, so here first
    options = dict(report_to="trackio", project="seal", run_name="both", trackio_space_id=None)
    trainer, _, _ = train(tmp_path / "run", **options, **LOGGED)
    assert calls == [] and {path.suffix for path in (tmp_path / "trackio").glob("seal*")} >= {".db"}
    rows = storage.SQLiteStorage.get_logs("seal", "both")
    written = {(tag, row["train/global_step"]): value for row in rows for tag, value in row.items()}
    expected = logged(trainer)
    assert {key: written.get(key) for key in expected} == expected


@pytest.mark.parametrize("threshold, count", [(0.0, 0), (0.1, 3)])
def test_a_gain_below_the_threshold_of_early_stopping_is_none(threshold, count):
    args = SimpleNamespace(metric_for_best_model="f1", greater_is_better=True, process_index=0)
    state = TrainerState(epoch=4, num_train_epochs=9, log_history=[{"eval_f1": v} for v in (0.5, 0.55, 0.6, 0.65)])
    patience = Patience(3, early_stopping_threshold=threshold)
    patience.check_metric_value(args, state, None, 0.65)
    assert patience.early_stopping_patience_counter == count
