"""The record of a run beside its checkpoints. Oracles: the same run uninterrupted, to the bit; literal values, which
are those of both lines of transformers; the folder before a refused resume."""

import json
import logging
import os
from contextlib import nullcontext

import pytest
import tiny_run
import torch

from seal_hf import EnergyTrainer, EnergyTrainingArguments, SealForMultiLabel, TensorRows
from seal_hf.lab.compare.runner import Runs, claim_folder
from seal_hf.saving import mark_complete
from seal_hf.saving.checkpoints import RECORD, check_same_run, plain
from seal_hf.utils.messages import RETIRED

SAVES = dict(save_strategy="steps", save_steps=4)
EXPECTED = {
    "processes": 1,
    "seed": 42,
    "learning_rate": 0.01,
    "lr_scheduler_type": "linear",
    "lr_scheduler_kwargs": None,
    "warmup_steps": 0.1,
    "num_train_epochs": 3,
    "train_sampling_strategy": "random",
    "optim": "adamw_torch_fused",
    "eval_strategy": "no",
    "energy_loss": "nce",
    "energy_weight": 1.0,
    "loss_net": "LossNet, 2304 parameters",
    "loss_net_feature_cache": None,
}
CHANGES = {  # what is changed -> how the refusal names it
    "seed": (dict(seed=1), "seed: was 42, now 1"),
    "rate": (dict(learning_rate=1e-3), "learning_rate: was 0.01, now 0.001"),
    "batch": (dict(batch=8), "per_device_train_batch_size: was 16, now 8"),
    "accumulation": (dict(accumulation=2), "gradient_accumulation_steps: was 1, now 2"),
    "λ1": (dict(energy_weight=None), "energy_weight: was 1.0, now None"),
    "loss": (dict(loss="ranking"), "energy_loss: was 'nce', now 'ranking'"),
    "length": (dict(num_train_epochs=4), "num_train_epochs: was 3, now 4"),
    "schedule": (dict(lr_scheduler_type="cosine"), "lr_scheduler_type: was 'linear', now 'cosine'"),
    "model": (
        dict(nets=SealForMultiLabel.for_data(tiny_run.Names, hidden_size=8)),
        "model: was 'MLPForMultiLabel, ",
    ),
}


def files(folder):
    """Every file below a folder, with its bytes."""
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """A run of 18 steps that was stopped after its checkpoint at step 4."""
    folder = tmp_path_factory.mktemp("part")
    tiny_run.run(folder, stop=4, **SAVES)
    return folder


def test_the_record_is_json_with_these_values_on_both_lines_of_transformers(tmp_path):
    warmup = "warmup_ratio" if hasattr(tiny_run.arguments(tmp_path), "warmup_ratio") else "warmup_steps"
    tiny_run.run(tmp_path, stop=4, **SAVES, **{warmup: 0.1})
    text = (tmp_path / "checkpoint-4" / RECORD).read_text(encoding="utf-8")
    record = json.loads(text)
    assert {name: record[name] for name in EXPECTED} == EXPECTED
    assert record["train_data"].startswith("96 rows, ") and record["train_data"] == record["eval_data"]
    assert not {"output_dir", "report_to", "license", "resume_changed"} & record.keys() and os.sep not in text
    assert RECORD in json.loads((tmp_path / "checkpoint-4" / "complete.json").read_text())


def test_a_run_goes_on_from_its_own_checkpoint_and_ends_as_one_that_was_not_stopped(tmp_path):
    whole, _ = tiny_run.run(tmp_path / "whole")
    tiny_run.run(tmp_path / "part", stop=4, **SAVES)
    moved = tmp_path / "elsewhere"
    (tmp_path / "part").rename(moved)
    resumed, trainer = tiny_run.run(moved, resume="last", **SAVES)
    assert torch.equal(resumed, whole) and trainer.resumed_step == 4


def test_a_file_named_by_another_path_is_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.csv").touch()
    names = [str(tmp_path / "weights.csv"), "weights.csv", os.path.join("..", tmp_path.name, "weights.csv")]
    assert {plain(name) for name in names} == {"weights.csv"}
    names = [".", "l0 / l1", "owner/encoder", "crf/.*|x/layer"]  # a label, a Hub id, a pattern
    assert plain({"": names}) == {"": names}


def test_a_record_that_names_retired_options_is_that_of_the_same_run(tmp_path):
    record = dict.fromkeys(RETIRED, "random")
    (tmp_path / RECORD).write_text(json.dumps(record | {"seed": 3}))
    check_same_run(tmp_path, {"seed": 3}, {})
    runs, ours = Runs(tmp_path / "compared"), dict.fromkeys(("data", "flags", "files", "contents"), "digits")
    runs.save_identity(ours | record)
    runs.save("ce", 1, {"seed": 1})
    claim_folder(runs, ours)
    with pytest.raises(ValueError, match="holds results with data = 'digits', not 'others'"):
        claim_folder(runs, ours | {"data": "others"})


def test_null_in_a_record_is_the_default_of_a_setting(tmp_path):
    (tmp_path / RECORD).write_text(json.dumps({"hidden_size": None, "adapter": None}))
    check_same_run(tmp_path, {"hidden_size": 400, "adapter": None}, {"hidden_size": 400, "adapter": None})
    with pytest.raises(ValueError, match="hidden_size: was 400, now 8"):
        check_same_run(tmp_path, {"hidden_size": 8}, {"hidden_size": 400})


@pytest.mark.parametrize(("recorded", "refused"), [("one/bert", True), ("two/bert", False), ("bert", False)])
def test_another_hub_model_of_the_same_name_is_noticed(tmp_path, recorded, refused):
    """The last record is of version 0.1.0, which kept what follows the slash."""
    (tmp_path / RECORD).write_text(json.dumps({"model_name_or_path": recorded}))
    with pytest.raises(ValueError, match="was 'one/bert', now 'two/bert'") if refused else nullcontext():
        check_same_run(tmp_path, {"model_name_or_path": "two/bert"}, {})


@pytest.mark.parametrize("kind", CHANGES)
def test_a_resume_with_other_arguments_names_them_and_changes_nothing(part, kind, caplog):
    options, named = CHANGES[kind]
    before = files(part)
    with pytest.raises(ValueError, match="is of another run") as error:
        tiny_run.run(part, resume=True, **{**SAVES, **options})
    assert named in str(error.value) and "--resume_changed true" in str(error.value)
    assert len(str(error.value).splitlines()) == 1 and files(part) == before


def test_other_rows_are_another_run(part):
    rows = TensorRows(tiny_run.table(95))
    with pytest.raises(ValueError, match="train_data: was '96 rows, [0-9a-f]{16}', now '95 rows, [0-9a-f]{16}'"):
        tiny_run.run(part, resume=True, rows=rows)
    rows = TensorRows(tiny_run.table())
    rows.dense["labels"][3, 2] = 1 - rows.dense["labels"][3, 2]
    with pytest.raises(ValueError, match="train_data: was '96 rows, [0-9a-f]{16}', now '96 rows, [0-9a-f]{16}'"):
        tiny_run.run(part, resume=True, rows=rows)
    with pytest.raises(ValueError, match="'96 rows, [0-9a-f]{16}', now '96 rows, [0-9a-f]{16}'"):
        tiny_run.run(part, resume=True, rows=tiny_run.table())  # the first rows of a `datasets.Dataset`


def test_a_changed_run_goes_on_where_that_is_asked_for_and_says_so(tmp_path, caplog):
    tiny_run.run(tmp_path, stop=4, **SAVES)
    with caplog.at_level(logging.WARNING, logger="seal_hf"):
        _, trainer = tiny_run.run(tmp_path, resume="last", max_steps=6, resume_changed=True, save_steps=6)
    assert trainer.state.global_step == 6
    assert "with other arguments (max_steps: was -1, now 6)" in caplog.text


def test_an_older_checkpoint_without_a_record_is_resumed_as_before(tmp_path):
    tiny_run.run(tmp_path, stop=4, **SAVES)
    (tmp_path / "checkpoint-4" / RECORD).unlink()
    mark_complete(tmp_path / "checkpoint-4")
    _, trainer = tiny_run.run(tmp_path, resume="last", max_steps=6)
    assert trainer.state.global_step == 6


def test_an_argument_that_a_record_lacks_had_its_default(tmp_path):
    """The record is of an older version, which did not have the argument."""
    tiny_run.run(tmp_path, stop=4, **SAVES)
    file = tmp_path / "checkpoint-4" / RECORD
    record = {name: value for name, value in json.loads(file.read_text()).items() if name != "gold_mix"}
    file.write_text(json.dumps(record | {"an_argument_of_another_version": 7}))
    mark_complete(tmp_path / "checkpoint-4")
    with pytest.raises(ValueError, match=r"\(gold_mix: was 0.0, now 0.5\)"):
        tiny_run.run(tmp_path, resume="last", gold_mix=0.5)
    _, trainer = tiny_run.run(tmp_path, resume="last")
    assert trainer.state.global_step == 18


@pytest.mark.parametrize("text, message", [("{", "is not readable as JSON"), ("[]", "holds a list; expected a JSON")])
def test_a_record_that_cannot_be_read_is_named(tmp_path, text, message):
    tiny_run.run(tmp_path, stop=4, **SAVES)
    (tmp_path / "checkpoint-4" / RECORD).write_text(text)
    mark_complete(tmp_path / "checkpoint-4")
    with pytest.raises(ValueError, match=f"{RECORD} {message}"):
        tiny_run.run(tmp_path, resume="last")


def test_a_resume_with_nothing_left_to_train_says_so(tmp_path, caplog):
    whole, _ = tiny_run.run(tmp_path, **SAVES | dict(save_steps=18))
    with caplog.at_level(logging.WARNING, logger="seal_hf"):
        again, trainer = tiny_run.run(tmp_path, resume="last", **SAVES | dict(save_steps=18))
    said = [record.getMessage() for record in caplog.records if "nothing is left to train" in record.getMessage()]
    assert said == [f"{tmp_path}/checkpoint-18 is at step 18 of 18: nothing is left to train."]
    assert torch.equal(again, whole) and trainer.resumed_step == 18


def test_an_energy_network_on_its_own_has_a_record_too(tmp_path):
    def train(resume=None, **options):
        rows = TensorRows(tiny_run.table())
        options = dict(max_steps=4, inference_steps=2, disable_tqdm=True) | options
        args = EnergyTrainingArguments(str(tmp_path), report_to="none", use_cpu=True, **SAVES | options)
        EnergyTrainer(tiny_run.model().loss_net, args, train_dataset=rows).train(resume_from_checkpoint=resume)

    train()
    with pytest.raises(ValueError, match=r"\(energy_method: was 'spen', now 'dvn'\)"):
        train(resume=True, energy_method="dvn")
    train(resume=True, inference_steps=2)
