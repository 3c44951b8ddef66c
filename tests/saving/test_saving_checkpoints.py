"""A checkpoint is whole or none. Oracles: the files on disk at each moment of a save, and tables written by hand.

Processes that are really killed: `test_kills.py`."""

import json
import logging
import os
import shutil
from pathlib import Path

import pytest
import tiny_run
import torch
from tiny_models import tiny_config
from transformers import AutoModelForSequenceClassification, PreTrainedModel, Trainer, TrainingArguments

from seal_hf import LossNet, SealForMultiLabel, SealTrainer, TensorRows
from seal_hf.data.tensors.collators import collate_rows
from seal_hf.saving import checkpoints
from seal_hf.saving.checkpoints import (
    COMPLETE,
    is_complete,
    last_complete_checkpoint,
    mark_complete,
    rotate,
    what_is_missing,
)

SAVED = dict(save_strategy="steps", save_steps=2, max_steps=6)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """checkpoint-2, -4 and -6 of one run; not to be changed."""
    folder = tmp_path_factory.mktemp("saved")
    trainer, _ = tiny_run.make(folder, **SAVED)
    trainer.train()
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "run"))


def names(folder):
    return {path.name for path in folder.glob("checkpoint-*")}


# --- the marker ------------------------------------------------------------------------------------------------------


def test_the_marker_names_every_file_and_a_folder_that_lost_one_is_no_checkpoint(folder):
    checkpoint = folder / "checkpoint-4"
    files = [path for path in checkpoint.rglob("*") if path.is_file()]
    assert len(files) >= 9 and what_is_missing(checkpoint) is None
    for path in files:
        content, name = path.read_bytes(), path.relative_to(checkpoint).as_posix()
        path.unlink()
        assert not is_complete(checkpoint) and name in what_is_missing(checkpoint)
        path.write_bytes(content[: len(content) // 2])
        assert not is_complete(checkpoint) and name in what_is_missing(checkpoint)
        path.write_bytes(content)
        assert is_complete(checkpoint)


def test_a_marker_of_an_earlier_version_has_sizes_alone(folder):
    checkpoint = folder / "checkpoint-4"
    marker = json.loads((checkpoint / COMPLETE).read_text())
    (checkpoint / COMPLETE).write_text(json.dumps({name: size for name, (size, _) in marker.items()}))
    assert is_complete(checkpoint)
    (checkpoint / "config.json").write_bytes(b"")
    assert what_is_missing(checkpoint).startswith("config.json has 0 bytes")


@pytest.mark.parametrize("name", ["../checkpoint-2/config.json", "/etc/hosts"])
def test_a_marker_names_no_file_elsewhere(name, folder):
    (folder / "checkpoint-4" / COMPLETE).write_text(json.dumps({name: [1, 1]}))
    assert what_is_missing(folder / "checkpoint-4") == f"complete.json names {name!r}, which is not in the folder"


def test_a_marker_that_is_cut_off_anywhere_is_none(folder):
    marker = folder / "checkpoint-4" / COMPLETE
    content = marker.read_bytes()
    for length in range(len(content)):
        marker.write_bytes(content[:length])
        assert what_is_missing(marker.parent) == "complete.json, which is written last, is cut off"


def test_the_marker_comes_after_every_file_and_before_a_push_or_a_deletion(tmp_path, monkeypatch):
    """Looked at whenever the Trainer saves, pushes or deletes; into folders of an earlier run, too."""
    events = []

    def look(event, function):
        def looked(*args, **kwargs):
            folder = tmp_path / f"checkpoint-{trainer.state.global_step}"
            events.append((event, is_complete(folder)))
            return function(*args, **kwargs)

        return looked

    monkeypatch.setattr(shutil, "rmtree", look("delete", shutil.rmtree))
    for number_of_run in range(2):
        trainer, _ = tiny_run.make(tmp_path, save_total_limit=1, hub_strategy="checkpoint", **SAVED)
        trainer.args.push_to_hub = True
        monkeypatch.setattr(trainer, "init_hf_repo", lambda *_, **__: None)
        monkeypatch.setattr(trainer, "_push_from_checkpoint", look("push", lambda folder: None))
        for name in ("_save", "_save_optimizer_and_scheduler", "_save_rng_state"):
            monkeypatch.setattr(trainer, name, look("save", getattr(trainer, name)))
        events.clear()
        trainer.train()
        save, delete = [("save", False)] * 3 + [("push", True)], [("delete", True)]
        assert events == save + delete * number_of_run + save + delete + save + delete
        arguments = torch.load(tmp_path / "checkpoint-6" / "training_args.bin", weights_only=False)
        assert arguments.save_total_limit == trainer.args.save_total_limit == 1
        assert arguments.push_to_hub and trainer.args.push_to_hub


def test_a_save_that_fails_leaves_no_marker_and_the_arguments_as_they_were(folder, monkeypatch):
    trainer, _ = tiny_run.make(folder, save_total_limit=1, **SAVED)

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(trainer, "_save_rng_state", full)
    with pytest.raises(OSError, match="no space"):
        trainer.train()
    assert trainer.args.save_total_limit == 1 and names(folder) == {"checkpoint-2", "checkpoint-4", "checkpoint-6"}
    assert "complete.json" in what_is_missing(folder / "checkpoint-2")  # it was whole before, of an earlier run
    assert last_complete_checkpoint(folder) == folder / "checkpoint-6"


# --- what is resumed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [True, "true", "last"])
def test_the_last_whole_checkpoint_is_resumed_and_the_others_are_named(folder, caplog, word):
    (folder / "checkpoint-6" / COMPLETE).unlink()
    (folder / "checkpoint-10").mkdir()
    (folder / "checkpoint-of-mine").mkdir()
    trainer, _ = tiny_run.make(folder, **SAVED)
    seen = []
    trainer._load_from_checkpoint = lambda path, *_: seen.append(path)
    trainer.train(resume_from_checkpoint=word)
    assert seen == [str(folder / "checkpoint-4")]
    said = [record.getMessage() for record in caplog.records if "is skipped" in record.getMessage()]
    assert sorted(message.split()[0] for message in said) == [str(folder / f"checkpoint-{n}") for n in (10, 6)]


def test_without_a_whole_checkpoint_true_is_refused_and_last_starts_anew(tmp_path, caplog):
    (tmp_path / "checkpoint-3").mkdir()
    trainer, _ = tiny_run.make(tmp_path, max_steps=2)
    with pytest.raises(ValueError, match=f"{tmp_path} has no whole checkpoint .*resume_from_checkpoint='last'"):
        trainer.train(resume_from_checkpoint=True)
    trainer.train(resume_from_checkpoint="last")
    assert trainer.state.global_step == 2 and "has no whole checkpoint: the run starts" in caplog.text


def test_a_half_written_folder_is_refused_by_name_with_the_last_whole_one(folder):
    (folder / "checkpoint-6" / "optimizer.pt").write_bytes(b"")
    trainer, nets = tiny_run.make(folder, **SAVED)
    before = tiny_run.parameters(nets)
    message = (
        r"checkpoint-6 is not a whole checkpoint: optimizer.pt has 0 bytes, expected \d+. The last whole one .*"
        r".*checkpoint-4. If .* call seal_hf.saving.mark_complete\('.*checkpoint-6'\)\.$"
    )
    with pytest.raises(ValueError, match=message):
        trainer.train(resume_from_checkpoint=str(folder / "checkpoint-6"))
    assert torch.equal(tiny_run.parameters(nets), before)


def test_a_checkpoint_of_a_plain_trainer_is_taken_once_it_is_called_whole(tmp_path):
    args = TrainingArguments(str(tmp_path), report_to="none", use_cpu=True, disable_tqdm=True, **SAVED)
    rows = TensorRows(tiny_run.table())
    Trainer(tiny_run.model().task_net, args, data_collator=collate_rows, train_dataset=rows).train()
    trainer, _ = tiny_run.make(tmp_path, "ce", **(SAVED | dict(max_steps=8)))
    plain = tmp_path / "checkpoint-6"
    with pytest.raises(ValueError, match="checkpoint-6 is not a whole checkpoint: complete.json, .*plain Trainer"):
        trainer.train(resume_from_checkpoint=str(plain))
    mark_complete(plain)
    trainer.train(resume_from_checkpoint=True)
    assert trainer.state.global_step == 8 and is_complete(tmp_path / "checkpoint-8")


def test_a_best_checkpoint_that_was_never_completed_is_not_loaded(tmp_path, caplog, monkeypatch):
    options = dict(SAVED, eval_strategy="steps", eval_steps=2, load_best_model_at_end=True)
    options |= dict(metric_for_best_model="loss", greater_is_better=True)  # so that the first evaluation is the best
    trainer, nets = tiny_run.make(tmp_path, **options)
    monkeypatch.setattr(checkpoints, "mark_complete", lambda folder: None)
    trainer.train()
    assert trainer.state.best_global_step == 2 and "the nets stay as they are" in caplog.text
    saved = SealForMultiLabel.from_pretrained(tmp_path / "checkpoint-6")
    assert torch.equal(tiny_run.parameters(saved), tiny_run.parameters(nets))


def test_a_checkpoint_in_the_middle_of_a_step_is_refused(tmp_path):
    args = tiny_run.arguments(tmp_path)
    args.enable_jit_checkpoint = True
    with pytest.raises(ValueError, match="`enable_jit_checkpoint` is True.*save_strategy='steps'"):
        SealTrainer(tiny_run.model(), args, train_dataset=TensorRows(tiny_run.table()))


# --- what is deleted -------------------------------------------------------------------------------------------------

ROTATIONS = {  # folders in the order in which they were written; a minus for one that is half-written
    "no limit": ("3 6 9", None, "9", "3 6 9"),
    "the oldest": ("3 6 9 12", 2, "12", "9 12"),
    "a number is no age: 9 and 12 are of an earlier run": ("9 12 3 6", 2, "6", "3 6"),
    "the best stays": ("3 6 9 12", 2, "12 3", "3 12"),
    "the best stays beyond the limit": ("3 6 9 12", 1, "12 3", "3 12"),
    "half-written first, whatever its number": ("3 6 -12 9", 2, "9", "6 9"),
    "a half-written one takes no whole one's place": ("-12 -15 3 6 9", 3, "9", "3 6 9"),
    "a half-written one is the best no more": ("3 -12 9", 2, "9 12", "3 9"),
    "the only whole one": ("-3 -6 9", 1, "9", "9"),
    "the limit is not reached": ("3 -6 9", 3, "9", "3 6 9"),
}


@pytest.mark.parametrize("case", ROTATIONS)
def test_rotation(tmp_path, case):
    folders, limit, keep, left = ROTATIONS[case]
    for age, name in enumerate(folders.split()):
        folder = tmp_path / f"checkpoint-{name.strip('-')}"
        folder.mkdir()
        (folder / "weights").write_bytes(b"12345678")
        if not name.startswith("-"):
            mark_complete(folder)
            os.utime(folder / COMPLETE, (age, age))
    (tmp_path / "checkpoint-best").mkdir()  # a folder of the user's
    rotate(tmp_path, limit, [tmp_path / f"checkpoint-{name}" for name in keep.split()])
    assert names(tmp_path) == {"checkpoint-best"} | {f"checkpoint-{name}" for name in left.split()}
    assert last_complete_checkpoint(tmp_path) is not None


def test_weights_of_a_loss_net_are_one_file_where_transformers_would_cut_them(tmp_path, monkeypatch):
    """transformers 4 cuts at 5 GB."""

    def cut(self, folder, max_shard_size="2KB", **kwargs):
        PreTrainedModel.save_pretrained(self, folder, max_shard_size=max_shard_size, **kwargs)

    monkeypatch.setattr(LossNet, "save_pretrained", cut)
    trainer, nets = tiny_run.make(tmp_path, save_strategy="epoch", num_train_epochs=1)
    trainer.train()
    again = SealForMultiLabel.from_pretrained(tmp_path / "checkpoint-6")
    for name, value in nets.loss_net.state_dict().items():
        assert torch.equal(value, again.loss_net.state_dict()[name])
    longer, _ = tiny_run.make(tmp_path, save_strategy="epoch", num_train_epochs=2, resume_changed=True)
    longer.train(resume_from_checkpoint="last")


def test_nothing_is_left_of_a_loss_net_that_a_run_without_one_replaces(tmp_path):
    tiny_run.make(tmp_path)[0].save_model()
    assert (tmp_path / "_loss_net" / "config.json").is_file()
    tiny_run.make(tmp_path, loss="ce")[0].save_model()
    assert not (tmp_path / "_loss_net").exists()


@pytest.mark.parametrize("kind", ["mlp", "bert", "roberta"])
def test_a_net_saved_without_a_loss_net_loads_without_a_report(kind, tmp_path, caplog, monkeypatch):
    """The encoder of the fresh loss-net comes from the same weights: it has no use for the head's."""
    AutoModelForSequenceClassification.from_config(tiny_config(kind)).save_pretrained(tmp_path)
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    monkeypatch.setattr(logging.getLogger("seal_hf"), "propagate", True)
    SealForMultiLabel.from_pretrained(tmp_path)
    assert [record.getMessage()[:12] for record in caplog.records] == ["No _loss_net"]
