"""Interrupted and resumed. Oracles: the same run uninterrupted, to the bit; and the state before a failed attempt."""

import copy
import json
import logging
import os
import random
import re
import shutil
from pathlib import Path

import pytest
import tiny_run
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import TrainerCallback, TrainingArguments
from transformers.trainer_callback import ExportableState, PrinterCallback
from transformers.utils import logging as hf_logging

from seal_hf import NonFiniteLossError, SealForMultiLabel, SealTrainer, TensorRows
from seal_hf.saving import mark_complete
from seal_hf.training.meters import FIGURES

STOP = 8  # of 18 updates, 6 per epoch unless batches are repeated: in the middle of the second epoch
OLD = hasattr(TrainingArguments, "group_by_length")  # of transformers 4
BY_LENGTH = {"group_by_length": True} if OLD else {"train_sampling_strategy": "group_by_length"}
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
    "implicit gradients": dict(loss="regression", hypergradient="cg"),
    "a log at the end of each epoch": dict(logging_strategy="epoch"),
    "persistent workers": dict(
        dataloader_num_workers=1, dataloader_persistent_workers=True, eval_strategy="steps", eval_steps=5
    ),
    "another sampler": dict(accelerator_config={"use_seedable_sampler": False}, num_rows=37, data_seed=3),
    "grouped by length": dict(
        **BY_LENGTH, batch=4, accumulation=2, num_rows=37, lengths=True, remove_unused_columns=False
    ),
}


def run(folder, resume=None, stop=None, num_rows=tiny_run.ROWS, seed=0, lengths=False, **options):
    """As `tiny_run.run`, with dropout, and with another global seed where one is given; with a column of lengths, rows
    of a plain data set."""
    torch.manual_seed(seed)
    rows = tiny_run.table().select(range(num_rows))
    rows = rows.add_column("length", list(range(num_rows))) if lengths else TensorRows(rows)
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
    """What was logged, also at the end of the run, less what measures time."""
    times = ("runtime", "per_second")
    return [{k: v for k, v in log.items() if not any(t in k for t in times)} for log in trainer.state.log_history]


@pytest.mark.parametrize("name", RUNS)
def test_resumed_equals_uninterrupted_to_the_bit(tmp_path, name):
    """Dropout and samples on; parameters of both nets, states of both optimizers and all that was logged. The part ran
    with another global seed after its checkpoint: nothing but the checkpoint brings the noise back. The checkpoint lies
    between two logs."""
    options = dict(logging_steps=3) | RUNS[name]
    whole, done = run(tmp_path / "whole", **options)
    checkpoint = tmp_path / "part" / f"checkpoint-{STOP}"
    run(tmp_path / "part", stop=STOP, save_strategy="steps", save_steps=STOP, **options)
    resumed, trainer = run(tmp_path / "part", resume=str(checkpoint), seed=99, **options)
    assert done.state.global_step > STOP and done.state.epoch != int(STOP / done.state.global_step)
    assert torch.equal(resumed, whole)
    assert state_of(trainer) == state_of(done)
    assert figures(trainer) == [pytest.approx(log, rel=1e-6) for log in figures(done)]  # rounding of a sum of losses


@pytest.mark.parametrize(
    "options, named",
    [
        (dict(ignore_data_skip=True), "ignore_data_skip"),
        (dict(accelerator_config={"dispatch_batches": True}), "dispatch_batches"),
        (dict(), None),
    ],
)
def test_a_resume_that_the_trainer_makes_inexact_says_so(tmp_path, caplog, options, named):
    options |= dict(save_strategy="steps", save_steps=8, max_steps=9)
    with caplog.at_level(logging.WARNING, logger="seal_hf"):
        run(tmp_path / "whole", **options)
        assert "another order" not in caplog.text
        run(tmp_path / "part", resume=str(tmp_path / "whole" / "checkpoint-8"), **options)
    assert (f"because of {named}: its figures will differ" in caplog.text) == (named is not None)
    assert ("another order" in caplog.text) == (named is not None)


@pytest.mark.parametrize("changed, said", [(dict(), []), (dict(save_steps=4), ["save_steps: 4"])], ids=str)
def test_steps_that_are_shares_of_the_run_are_not_called_changed(tmp_path, changed, said):
    """transformers compares shares with the steps that they came to."""
    options = dict(save_strategy="steps", save_steps=8, max_steps=9, eval_strategy="steps", eval_steps=0.3)
    run(tmp_path, logging_steps=0.3, **options)
    found = []
    handler = logging.Handler()
    handler.emit = lambda record: found.extend(re.findall(r"\w+_steps: [\d.]+", record.getMessage()))
    logging.getLogger("transformers").addHandler(handler)
    hf_logging.warning_once.cache_clear()
    try:
        run(tmp_path, resume=str(tmp_path / "checkpoint-8"), logging_steps=0.3, **options | changed)
    finally:
        logging.getLogger("transformers").removeHandler(handler)
    assert found == said


@pytest.mark.parametrize("options", [dict(), dict(logging_strategy="epoch")], ids=str)
def test_figures_of_a_run_cover_all_its_starts(tmp_path, options):
    """Interrupted at the end of an epoch, twice between two logs, and after its last step. Speeds and seconds are those
    of all parts."""
    options |= dict(save_strategy="steps", save_steps=3)
    _, done = run(tmp_path, **options)
    folder = tmp_path / "checkpoint-{}"
    for step in (6, 9, 18):
        file = Path(str(folder).format(step), FIGURES)
        file.write_text(json.dumps(json.loads(file.read_text()) | {"seconds": 1e4}))
        mark_complete(file.parent)
        torch.manual_seed(0)
        trainer, _ = tiny_run.make(tmp_path / "part", dropout=0.3, lr_scheduler_type="cosine", **options)
        ended = trainer.train(resume_from_checkpoint=str(file.parent))
        assert figures(trainer) == figures(done)
        assert ended.training_loss == ended.metrics["train_loss"] == done.state.log_history[-1]["train_loss"] > 0
        assert ended.metrics["train_runtime"] >= 1e4  # a start after the last step may take nothing
        speeds = [ended.metrics[f"train_{what}_per_second"] for what in ("steps", "samples")]
        assert speeds == pytest.approx([18 / 1e4, 3 * tiny_run.ROWS / 1e4], abs=2e-3)


def test_damaged_figures_are_refused(tmp_path):
    run(tmp_path, stop=1, save_strategy="steps", save_steps=1)
    folder = tmp_path / "checkpoint-1"
    for text in (
        "[]",
        "{",
        "{}",
        '{"metered": {"energy": 3}}',
        '{"metered": {}, "total_loss": 1, "seconds": 1, "loss": []}',
    ):
        (folder / FIGURES).write_text(text)
        mark_complete(folder)
        with pytest.raises(ValueError, match=rf"{folder}/{FIGURES} .*\. Take another checkpoint\.$"):
            run(tmp_path / "again", resume=str(folder))


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
    message = "does not fit the one of this run: loss_net_encoder was 'separate', now 'shared'. Give back"
    assert_refused(checkpoint, tmp_path, ValueError, message, encoder="shared")


@pytest.mark.parametrize("resume_changed", [False, True])
@pytest.mark.parametrize(
    "options, changed",
    [
        ({"global_size": 7}, "global_size was 200, now 7"),
        ({"energy": "pairwise"}, "energy was 'multilabel', now 'pairwise'"),
    ],
)
def test_a_changed_setting_of_the_loss_net_is_named(options, changed, resume_changed, checkpoint, tmp_path):
    nets = SealForMultiLabel.for_data(tiny_run.Names, hidden_size=16, **options)
    trainer, _ = tiny_run.make(tmp_path / "run", nets=nets, resume_changed=resume_changed)
    with pytest.raises(ValueError, match=f"of this run: {changed}. Give back the old values, or start a new run"):
        trainer.train(resume_from_checkpoint=str(checkpoint))


def test_a_folder_without_a_task_net_is_refused(checkpoint, tmp_path):
    (checkpoint / "model.safetensors").unlink()
    mark_complete(checkpoint)
    assert_refused(checkpoint, tmp_path, OSError, "no file named model.safetensors. Only safetensors are read")


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


# --- checkpoints that are damaged, hostile or of another run ---------------------------------------------------------

PLUS = dict(loss="infnet_plus", max_steps=4, save_strategy="steps", save_steps=2)
STATES = "optimizer.pt scheduler.pt rng_state.pth _loss_net/learner.pt _loss_net/cost_augmented.pt".split()
FILES = [*STATES, "trainer_state.json", "_run.json", "config.json", "model.safetensors", "_loss_net/model.safetensors"]


class Bomb:
    def __reduce__(self):
        return os.makedirs, (os.environ["BOMB"],)


@pytest.fixture(scope="module")
def resumable(tmp_path_factory):
    """A checkpoint of two nets and a third, one of another run of the same nets, and a trainer that did nothing yet."""
    folder = tmp_path_factory.mktemp("resumable")
    tiny_run.run(folder / "other", learning_rate=0.02, stop=2, **PLUS)
    tiny_run.run(folder / "own", stop=2, **PLUS)
    trainer, nets = tiny_run.make(folder / "new", **PLUS)
    return folder / "own" / "checkpoint-2", folder / "other" / "checkpoint-2", trainer, nets


@pytest.fixture
def refused(resumable, tmp_path, monkeypatch):
    """A copy of the checkpoint, and a function: a resume from it ends with one line that names a file, and changes
    nothing. Gives that line."""
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    original, _, trainer, nets = resumable
    folder = shutil.copytree(original, tmp_path / "checkpoint-2")

    def check(name, marked=False):
        if marked:
            mark_complete(folder)
        before, random_before = tiny_run.parameters(nets), torch.get_rng_state()
        with pytest.raises(ValueError) as error:
            trainer.train(resume_from_checkpoint=str(folder))
        message = str(error.value)
        assert str(folder) in message and name in message and "\n" not in message and len(message) < 600
        assert torch.equal(before, tiny_run.parameters(nets)) and torch.equal(random_before, torch.get_rng_state())
        assert trainer.optimizer is None and not (tmp_path / "exploded").exists()
        return message

    return folder, check


def damage(file, how, other):
    if how == "deleted":
        file.unlink()
    elif how == "truncated":
        file.write_bytes(file.read_bytes()[:-2])
    elif how == "random bytes":
        file.write_bytes(random.Random(0).randbytes(file.stat().st_size))
    elif how == "of another run":
        shutil.copy(other, file)
    elif how == "hostile":
        torch.save({"state": Bomb()}, file)


@pytest.mark.parametrize("how", ["deleted", "truncated", "random bytes", "of another run"])
def test_a_checkpoint_whose_files_are_not_those_that_were_saved_is_refused(how, refused, resumable):
    """The marker has the sizes and checksums of all files. A damaged file of the right size has another checksum."""
    folder, check = refused
    for name in FILES:
        file, content = folder / name, (folder / name).read_bytes()
        damage(file, how, resumable[1] / name)
        if not file.exists() or file.read_bytes() != content:  # equal in both runs: configurations
            check(name)
        file.write_bytes(content)


@pytest.mark.parametrize("how", ["deleted", "truncated", "random bytes", "hostile"])
def test_a_state_that_is_damaged_is_refused_although_it_is_marked_as_whole(how, refused, resumable):
    folder, check = refused
    for name in [*STATES, "trainer_state.json"] if how != "hostile" else STATES:
        content = (folder / name).read_bytes()
        damage(folder / name, how, None)
        check(name, marked=True)
        (folder / name).write_bytes(content)


WEIGHTS = ["model.safetensors", "_loss_net/model.safetensors", "_loss_net/cost_augmented.safetensors"]


@pytest.mark.parametrize("how", ["truncated", "random bytes", "hostile", "of another net"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_are_damaged_are_refused_although_they_are_marked_as_whole(
    name, how, resumable, tmp_path, monkeypatch
):
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    folder = shutil.copytree(resumable[0], tmp_path / "checkpoint-2")
    damage(folder / name, how, None)
    if how == "of another net":
        tensors = load_file(folder / name)
        with safe_open(folder / name, "pt") as file:
            save_file({each: torch.zeros(3) for each in tensors}, folder / name, metadata=file.metadata())
    mark_complete(folder)
    trainer, _ = tiny_run.make(tmp_path / "new", **PLUS)
    with pytest.raises(ValueError, match=str(folder)) as error:
        trainer.train(resume_from_checkpoint=str(folder))
    assert "\n" not in str(error.value) and not (tmp_path / "exploded").exists()
    assert not list(tmp_path.glob("new/*"))  # no step was made


def changed(state, *path, to):
    """`state` with the value at a path replaced, or removed with `to=None`."""
    *keys, last = path
    place = state
    for key in keys:
        place = place[key]
    if to is None:
        del place[last]
    else:
        place[last] = to
    return state


GROUP, LEARNER = ("param_groups", 0), ("optimizer", "param_groups", 0)
FAULTS = {  # what is wrong -> file, and how its state is changed
    "a list": ("optimizer.pt", lambda state: [state]),
    "no groups": ("optimizer.pt", lambda state: changed(state, "param_groups", to=None)),
    "fewer parameters": ("optimizer.pt", lambda state: changed(state, *GROUP, "params", to=[0])),
    "another shape": ("optimizer.pt", lambda state: changed(state, "state", 0, "exp_avg", to=torch.zeros(3, 5))),
    "no generator": ("rng_state.pth", lambda state: changed(state, "numpy", to=None)),
    "a generator of another kind": ("rng_state.pth", lambda state: changed(state, "cpu", to=torch.zeros(3))),
    "Python's generator": ("rng_state.pth", lambda state: changed(state, "python", to=(3, (1, 2), None))),
    "learner: none": ("_loss_net/learner.pt", lambda state: changed(state, "optimizer", to=None)),
    "learner: shapes": (
        "_loss_net/learner.pt",
        lambda state: changed(state, "optimizer", "state", 0, "exp_avg", to=torch.zeros(3, 5)),
    ),
    "log": ("trainer_state.json", lambda state: changed(state, "log_history", to="x")),
    "logs": ("trainer_state.json", lambda state: changed(state, "log_history", to=["x"])),
    "a weight": ("trainer_state.json", lambda state: changed(state, "log_history", 0, "energy_weight", to="x")),
    "step": ("trainer_state.json", lambda state: changed(state, "global_step", to="two")),
    "no step": ("trainer_state.json", lambda state: changed(state, "global_step", to=None)),
    "best": ("trainer_state.json", lambda state: changed(state, "best_metric", to=[])),
    "unknown field": ("trainer_state.json", lambda state: state | {"evil": 1}),
    "callbacks": ("trainer_state.json", lambda state: changed(state, "stateful_callbacks", to=[1])),
    "a callback": (
        "trainer_state.json",
        lambda state: changed(state, "stateful_callbacks", "TrainerControl", to={"args": "x"}),
    ),
}
LATER = {  # noticed when the optimizer and the schedule exist
    "rate": ("optimizer.pt", lambda state: changed(state, *GROUP, "lr", to="x")),
    "betas": ("optimizer.pt", lambda state: changed(state, *GROUP, "betas", to=(0.9,))),
    "exchanged shapes": (
        "optimizer.pt",
        lambda state: changed(state, "state", 0, "exp_avg", to=state["state"][1]["exp_avg"]),
    ),
    "a method of the schedule": ("scheduler.pt", lambda state: state | {"step": "x"}),
    "an empty schedule": ("scheduler.pt", lambda state: {}),
    "last step": ("scheduler.pt", lambda state: changed(state, "last_epoch", to="x")),
    "rates": ("scheduler.pt", lambda state: changed(state, "base_lrs", to=[])),
    "learner: rate": ("_loss_net/learner.pt", lambda state: changed(state, *LEARNER, "lr", to="x")),
    "learner: schedule": ("_loss_net/learner.pt", lambda state: changed(state, "scheduler", to={})),
    "learner: scaler": ("_loss_net/learner.pt", lambda state: changed(state, "scaler", to=[])),
    "third net": ("_loss_net/cost_augmented.pt", lambda state: changed(state, "scheduler", to=None)),
}


def rewrite(file, change):
    if file.suffix == ".json":
        file.write_text(json.dumps(change(json.loads(file.read_text()))))
    else:
        torch.save(change(torch.load(file, weights_only=False)), file)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_state_of_something_else_is_refused_before_anything_is_changed(fault, refused):
    folder, check = refused
    name, change = FAULTS[fault]
    rewrite(folder / name, change)
    check(name, marked=True)


@pytest.mark.parametrize("fault", LATER)
def test_a_state_that_does_not_fit_the_runs_optimizers_is_refused(fault, resumable, tmp_path):
    folder = shutil.copytree(resumable[0], tmp_path / "checkpoint-2")
    name, change = LATER[fault]
    rewrite(folder / name, change)
    mark_complete(folder)
    trainer, _ = tiny_run.make(tmp_path / "new", **PLUS)
    with pytest.raises(ValueError, match=f"{name} does not fit this run: .* Put a whole copy back, take another"):
        trainer.train(resume_from_checkpoint=str(folder))
    assert trainer.state.global_step in (0, 2) and not list(tmp_path.glob("new/*"))  # no step was made


def test_a_callback_that_the_run_of_the_checkpoint_lacked_joins_it(resumable, tmp_path):
    """transformers looks for its state when it saves the next checkpoint."""
    trainer, _ = tiny_run.make(tmp_path / "new", **PLUS)
    trainer.add_callback(Counting())
    trainer.train(resume_from_checkpoint=str(resumable[0]))
    state = json.loads((tmp_path / "new" / "checkpoint-4" / "trainer_state.json").read_text())
    assert state["stateful_callbacks"]["Counting"] == {"args": {}, "attributes": {"steps": 2}}


class Counting(TrainerCallback, ExportableState):
    steps = 0

    def on_step_end(self, args, state, control, **kwargs):
        self.steps += 1

    def state(self):
        return {"args": {}, "attributes": {"steps": self.steps}}
