"""Interrupted and resumed. Oracles: the same run uninterrupted, to the bit; and the state before a failed attempt."""

import copy
import json
import os
import pickle
import shutil

import pytest
import tiny_run
import torch
from safetensors.torch import load_file, save_file
from transformers.trainer_callback import PrinterCallback

from seal_hf import NonFiniteLossError, SealForMultiLabel, SealTrainer, TensorRows
from seal_hf.saving import mark_complete

STOP = 8  # of 18 updates, 6 per epoch unless batches are repeated: in the middle of the second epoch
RUNS = {
    "nce": dict(),
    "several updates": dict(loss_net_steps=3, loss_net_lr_scheduler_type="linear", loss_net_warmup_steps=30),
    "shared": dict(encoder="shared", loss="ranking"),
    "accumulation": dict(batch=8, accumulation=2),
    "accumulation, perturbed outputs": dict(batch=8, accumulation=2, loss="regression_s"),
    "repeats": dict(batch_repeats=2, num_train_epochs=2),
    "repeats, in the second epoch": dict(batch_repeats=2, num_rows=42),
    "repeats, accumulation, a batch that is not whole": dict(batch=8, accumulation=2, batch_repeats=3, num_rows=42),
    "workers": dict(dataloader_num_workers=1),
    "evaluation and clipping": dict(eval_strategy="steps", eval_steps=3, loss_net_max_grad_norm=0.1),
    "static": dict(loss_net_steps=0),
    "bf16": dict(bf16=True),
}


def run(folder, resume=None, stop=None, num_rows=tiny_run.ROWS, seed=0, **options):
    """As `tiny_run.run`, with dropout, and with another global seed where one is given."""
    torch.manual_seed(seed)
    rows = TensorRows(tiny_run.table().select(range(num_rows)))
    options = dict(dropout=0.3, rows=rows, lr_scheduler_type="cosine", **options)
    trainer, nets = tiny_run.make(folder, callbacks=[tiny_run.StopAt(stop)] if stop else None, **options)
    trainer.train(resume_from_checkpoint=resume)
    return tiny_run.parameters(nets), trainer


def flat(state):
    """All leaves of a nested state, in order, with their paths; tensors as lists."""
    if isinstance(state, dict):
        return [(f"{key}.{path}", leaf) for key in sorted(state, key=str) for path, leaf in flat(state[key])]
    if isinstance(state, (list, tuple)):
        return flat(dict(enumerate(state)))
    return [("", state.tolist() if isinstance(state, torch.Tensor) else state)]


def state_of(trainer):
    """All that a trainer would need to go on, but for its nets: optimizers, schedulers, scaler, step."""
    parts = [trainer.optimizer.state_dict(), trainer.lr_scheduler.state_dict()]
    learner = trainer.learner.state_dict() if trainer.learner is not None else {}
    return flat([*parts, learner, trainer.state.global_step])


def figures(trainer):
    """What was logged, less what measures time."""
    names = ("loss", "grad_norm", "learning_rate", "energy", "step", "epoch")
    return [
        {key: value for key, value in log.items() if any(name in key for name in names) and "per_second" not in key}
        for log in trainer.state.log_history
        if "train_runtime" not in log
    ]


@pytest.mark.parametrize("name", RUNS)
def test_resumed_equals_uninterrupted_to_the_bit(tmp_path, name):
    """Dropout and samples on; parameters of both nets, states of both optimizers and all that was logged. The part ran
    with another global seed after its checkpoint: nothing but the checkpoint brings the noise back."""
    options = RUNS[name]
    whole, done = run(tmp_path / "whole", **options)
    checkpoint = tmp_path / "part" / f"checkpoint-{STOP}"
    run(tmp_path / "part", stop=STOP, save_strategy="steps", save_steps=STOP, **options)
    resumed, trainer = run(tmp_path / "part", resume=str(checkpoint), seed=99, **options)
    assert done.state.global_step > STOP and done.state.epoch != int(STOP / done.state.global_step)
    assert torch.equal(resumed, whole)
    assert state_of(trainer) == state_of(done)
    assert figures(trainer) == figures(done)


def test_a_run_may_be_interrupted_twice_and_found_by_itself(tmp_path):
    whole, _ = run(tmp_path / "whole")
    saved = dict(save_strategy="steps", save_steps=1, save_total_limit=2)
    run(tmp_path / "part", stop=3, **saved)
    run(tmp_path / "part", resume=True, stop=11, seed=1, **saved)
    assert {folder.name for folder in (tmp_path / "part").glob("checkpoint-*")} == {"checkpoint-10", "checkpoint-11"}
    resumed, _ = run(tmp_path / "part", resume=True, seed=2, **saved)
    assert torch.equal(resumed, whole)


def test_the_loss_nets_state_goes_through_the_checkpoint_unchanged(tmp_path):
    """What the file holds is what the learner had when it was written, and only tensors and numbers."""
    _, trainer = run(tmp_path, stop=5, save_strategy="steps", save_steps=5, loss_net_lr_scheduler_type="linear")
    folder = tmp_path / "checkpoint-5" / "_loss_net"
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors", "learner.pt"}
    state = torch.load(folder / "learner.pt", weights_only=True)
    assert flat(state) == flat(trainer.learner.state_dict())
    moments = state["optimizer"]["state"]
    assert len(moments) == len(list(trainer.loss_net.parameters())) and {int(m["step"]) for m in moments.values()} == {
        5
    }
    assert state["scheduler"]["last_epoch"] == 5
    saved = load_file(folder / "model.safetensors")
    assert saved.keys() == trainer.loss_net.state_dict().keys()
    assert all(torch.equal(value, saved[name]) for name, value in trainer.loss_net.state_dict().items())


def test_cross_entropy_resumes_and_writes_no_loss_net(tmp_path):
    whole, _ = run(tmp_path / "whole", loss="ce")
    run(tmp_path / "part", loss="ce", stop=STOP, save_strategy="steps", save_steps=STOP)
    checkpoint = tmp_path / "part" / f"checkpoint-{STOP}"
    assert not (checkpoint / "_loss_net").exists()
    resumed, _ = run(tmp_path / "part", loss="ce", resume=str(checkpoint))
    assert torch.equal(resumed, whole)


def test_cross_entropy_leaves_no_loss_net_of_an_earlier_run_beside_its_task_net(tmp_path):
    for loss in ("nce", "ce"):
        trainer, _ = tiny_run.make(tmp_path, loss, max_steps=2)
        trainer.train()
        trainer.save_model()
        assert (tmp_path / "_loss_net" / "config.json").exists() == (loss == "nce")


def test_cross_entropy_goes_on_from_a_checkpoint_of_another_loss(tmp_path):
    """The task-net's part of a checkpoint is the plain Trainer's."""
    run(tmp_path, stop=4, save_strategy="steps", save_steps=4)
    trainer, nets = tiny_run.make(tmp_path / "ce", "ce", max_steps=5, resume_changed=True)
    loss_net = copy.deepcopy(nets.loss_net.state_dict())
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert trainer.state.global_step == 5
    assert all(torch.equal(value, loss_net[name]) for name, value in nets.loss_net.state_dict().items())


# --- what cannot be resumed ------------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path):
    run(tmp_path / "earlier", stop=4, save_strategy="steps", save_steps=4)
    return tmp_path / "earlier" / "checkpoint-4"


def assert_refused(folder, tmp_path, error, message, **options):
    """With the message; then both nets are as before the attempt, and a run from there is as if there had been none."""
    trainer, nets = tiny_run.make(tmp_path / "run", num_train_epochs=1, resume_changed=True, **options)
    before = tiny_run.parameters(nets)
    with pytest.raises(error, match=message):
        trainer.train(resume_from_checkpoint=str(folder))
    assert torch.equal(tiny_run.parameters(nets), before)
    assert not list((tmp_path / "run").glob("checkpoint-*"))
    trainer.train()
    expected, _ = tiny_run.run(tmp_path / "expected", num_train_epochs=1, **options)
    assert torch.equal(tiny_run.parameters(nets), expected)


def test_a_folder_of_cross_entropy_is_refused(tmp_path):
    run(tmp_path / "ce", loss="ce", stop=4, save_strategy="steps", save_steps=4)
    message = (
        "has no loss-net: _loss_net/model.safetensors is missing.*energy_loss='ce'.*SealForMultiLabel.from_pretrained"
    )
    assert_refused(tmp_path / "ce" / "checkpoint-4", tmp_path, ValueError, message)


@pytest.mark.parametrize("loss", ["nce", "ce"])
def test_weights_alone_are_refused(tmp_path, loss):
    run(tmp_path / "only", loss=loss, stop=4, save_strategy="steps", save_steps=4, save_only_model=True)
    message = "cannot be resumed: scheduler.pt.*save_only_model=True.*Start a new run from its weights"
    assert_refused(tmp_path / "only" / "checkpoint-4", tmp_path, ValueError, message)


@pytest.mark.parametrize(
    "options", [dict(eval_strategy="epoch"), dict(eval_strategy="steps", eval_steps=3, eval_on_start=True)]
)
def test_evaluations_at_the_checkpoint_are_made_once(tmp_path, options):
    """λ1 by the rule reads them. The checkpoint is at the end of an epoch, or the run evaluated at its start."""
    options |= dict(energy_weight=None, save_strategy="steps", save_steps=6, num_train_epochs=4)
    whole, trainer = run(tmp_path / "whole", **options)
    run(tmp_path / "part", stop=12, **options)
    resumed, again = run(tmp_path / "part", resume=str(tmp_path / "part" / "checkpoint-12"), **options)
    assert torch.equal(whole, resumed)
    steps = [[entry["step"] for entry in each.state.log_history if "eval_loss" in entry] for each in (trainer, again)]
    assert steps[0] == steps[1] and 12 in steps[0]


def test_a_batch_that_was_too_large_leaves_no_trace_in_the_loss_net(tmp_path):
    """Oracle: the run that began with the batch that fits."""
    plain, _ = tiny_run.run(tmp_path / "plain", batch=14)
    torch.manual_seed(0)
    trainer, nets = tiny_run.make(tmp_path / "found", auto_find_batch_size=True)
    step = trainer.compute_loss

    def fails_at_first(model, inputs, *args, **kwargs):
        if len(inputs["labels"]) > 14 and model.training:
            raise RuntimeError("CUDA out of memory.")
        return step(model, inputs, *args, **kwargs)

    trainer.compute_loss = fails_at_first
    trainer.train()
    assert trainer._train_batch_size == 14
    torch.testing.assert_close(tiny_run.parameters(nets), plain)


def test_a_loss_net_of_another_size_is_refused(checkpoint, tmp_path):
    path = checkpoint / "_loss_net" / "model.safetensors"
    weights = load_file(path)
    weights["energy.direction.weight"] = torch.zeros(1, 7)
    del weights["energy.bias"]
    save_file(weights, path)
    mark_complete(checkpoint)
    message = (
        r"does not fit the one of this run: energy.bias is absent, expected \(200,\); "
        r"energy.direction.weight is \(1, 7\), expected \(1, 200\)\.$"
    )
    assert_refused(checkpoint, tmp_path, ValueError, message)


def test_a_loss_net_of_the_other_kind_is_refused(checkpoint, tmp_path):
    message = "does not fit the one of this run: encoder.layers.0.bias is .*, expected none"
    assert_refused(checkpoint, tmp_path, ValueError, message, encoder="shared")


def test_a_folder_without_a_task_net_is_refused(checkpoint, tmp_path):
    (checkpoint / "model.safetensors").unlink()
    mark_complete(checkpoint)
    assert_refused(checkpoint, tmp_path, ValueError, "Can't find a valid checkpoint at")


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    assert_refused(tmp_path / "nowhere", tmp_path, ValueError, "is not a whole checkpoint: there is no such folder")


# --- the best, and the last good checkpoint --------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["separate", "shared"])
def test_the_best_checkpoint_is_found_across_an_interruption(tmp_path, encoder):
    """The learning rate is so large that an early evaluation stays the best."""
    options = dict(encoder=encoder, learning_rate=0.5, max_grad_norm=0.0, eval_strategy="epoch", save_strategy="epoch")
    options |= dict(load_best_model_at_end=True, num_train_epochs=4)
    run(tmp_path, stop=18, **options)
    ended, trainer = run(tmp_path, resume=str(tmp_path / "checkpoint-18"), **options)
    scores = {log["step"]: log["eval_loss"] for log in trainer.state.log_history if "eval_loss" in log}
    best = min(scores, key=scores.get)
    assert set(scores) == {6, 12, 18, 24} and trainer.state.best_model_checkpoint == str(
        tmp_path / f"checkpoint-{best}"
    )
    saved = SealForMultiLabel.from_pretrained(tmp_path / f"checkpoint-{best}")
    assert torch.equal(tiny_run.parameters(saved), ended)
    if best != 24:
        last = SealForMultiLabel.from_pretrained(tmp_path / "checkpoint-24")
        assert not torch.equal(tiny_run.parameters(last), ended)


@pytest.mark.parametrize("loss, phase", [("nce", "loss-net"), ("margin", "loss-net"), ("ce", "task-net")])
def test_after_a_nan_the_last_good_checkpoint_is_whole_and_resumes(tmp_path, loss, phase):
    """A row of the data has a NaN; the run stops before it would save again. With the row mended, the run goes on from
    the last checkpoint and ends as it would have."""
    options = dict(save_strategy="steps", save_steps=2, logging_steps=100, num_train_epochs=1)
    seen = []

    def spoil(features, step):
        """Batches in order; the one of that step gets a NaN."""
        seen.append(1)
        (batch,) = features
        if len(seen) == step:
            batch["features"][7, 11] = float("nan")
        return batch

    def make(collator=None):
        rows = TensorRows(tiny_run.table())
        nets = tiny_run.model(dropout=0.3)
        args = tiny_run.arguments(tmp_path / "run", loss, **options)
        trainer = SealTrainer(nets, args, collator, rows)
        trainer.remove_callback(PrinterCallback)
        return trainer, nets

    whole, nets = make()
    whole.train()
    expected = tiny_run.parameters(nets)
    shutil.rmtree(tmp_path / "run")

    trainer, _ = make(lambda features: spoil(features, step=5))
    with pytest.raises(NonFiniteLossError, match=f"loss of the {phase} phase is NaN or infinite, first at step 5. "):
        trainer.train()
    assert {folder.name for folder in (tmp_path / "run").glob("checkpoint-*")} == {"checkpoint-2", "checkpoint-4"}
    for step in (2, 4):
        folder = tmp_path / "run" / f"checkpoint-{step}"
        assert json.loads((folder / "trainer_state.json").read_text())["global_step"] == step
        saved = SealForMultiLabel.from_pretrained(folder)
        assert tiny_run.parameters(saved).isfinite().all()

    trainer, nets = make()
    trainer.train(resume_from_checkpoint=True)
    assert trainer.state.global_step == 6 and torch.equal(tiny_run.parameters(nets), expected)


class Bomb:
    def __reduce__(self):
        return os.makedirs, (os.environ["BOMB"],)


@pytest.mark.parametrize("file, loss", [("learner.pt", "nce"), ("cost_augmented.pt", "infnet_plus")])
def test_the_state_of_a_second_net_is_never_unpickled(file, loss, tmp_path, monkeypatch):
    """A checkpoint may come from the Hub, where `--hub_strategy checkpoint` puts it."""
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    options = dict(loss=loss, max_steps=2, save_strategy="steps", save_steps=1)
    tiny_run.run(tmp_path / "run", **options)
    folder = tmp_path / "run" / "checkpoint-1"
    torch.save({"optimizer": Bomb()}, folder / "_loss_net" / file)
    mark_complete(folder)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        tiny_run.run(tmp_path / "run", resume=str(folder), **options)
    assert not (tmp_path / "exploded").exists()
