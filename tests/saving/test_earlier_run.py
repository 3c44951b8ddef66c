"""What the programs do with the run that their output folder holds. Oracles: every byte of the folder before, and the
figures of the same run uninterrupted."""

import errno
import json
import logging
import os
import signal

import pytest
import tiny_run
from test_run_record import files

from seal_hf.saving.checkpoints import RECORD
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.labels.program import ENERGY_PROGRAM as energy
from seal_hf.utils.files import LOCK, locked

QUIET = "--use_cpu true --disable_tqdm true --report_to none --report false".split()
SMALL = "--max_train_rows 100 --num_train_epochs 2 --hidden_size 16 --per_device_train_batch_size 50".split()
EVERY_EPOCH = "--save_strategy epoch --save_total_limit 2".split()


def run(folder, *words, program=mlc):
    """On the digits, by features: 4 steps."""
    return program.main([*QUIET, *SMALL, *EVERY_EPOCH, "--output_dir", str(folder), *words])


def interrupt(folder, monkeypatch, *words):
    """The same, cut off in the evaluation after the second epoch: the checkpoint is the first's."""
    evaluate = mlc.SealTrainer.evaluate

    def cut_off(self, *args, **kwargs):
        if self.state.global_step == 4:
            raise KeyboardInterrupt
        return evaluate(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(mlc.SealTrainer, "evaluate", cut_off)
        with pytest.raises(KeyboardInterrupt):
            run(folder, *words)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "finished"
    run(folder)
    return folder


@pytest.mark.parametrize(
    "words",
    ["", "--loss ce", "--resume_from_checkpoint {0}/elsewhere/checkpoint-2", "--tune 2", "--max_train_rows 60"],
)
def test_a_finished_run_is_not_overwritten_and_its_folder_stays_as_it_was(finished, words):
    before = files(finished)
    message = (
        rf"^{finished} holds a finished run \(model.safetensors\). Go on with it by --resume_from_checkpoint last, "
        r"replace it by --overwrite_output_dir true, or choose another --output_dir.$"
    )
    with pytest.raises(ValueError, match=message):
        run(finished, *words.format(finished.parent).split())
    assert files(finished) == before


def test_weights_or_results_alone_are_not_overwritten_either(tmp_path):
    for name in ("adapter_model.safetensors", "all_results.json"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text("{}")
        with pytest.raises(ValueError, match=rf"holds a finished run \({name}\). Replace it by --overwrite"):
            run(folder, "--resume_from_checkpoint", "last")  # there is no checkpoint
        assert list(files(folder).values()) == [b"{}"]


def test_a_resume_with_nothing_left_to_train_reports_the_same_figures(tmp_path, finished, caplog):
    first = json.loads((finished / "all_results.json").read_text())
    with caplog.at_level(logging.WARNING, logger="seal_hf"):
        again = run(finished, "--resume_from_checkpoint", "last")
    assert "checkpoint-4 is at step 4 of 4: nothing is left to train." in caplog.text
    second = json.loads((finished / "all_results.json").read_text())
    same = [name for name in first if "runtime" not in name and "per_second" not in name]
    assert {name: second[name] for name in same} == {name: first[name] for name in same}
    assert second["train_loss"] == first["train_loss"] > 0 and again["eval_f1_micro"] == first["eval_f1_micro"]


def without_times(folder):
    """Every file of a run but its pickled arguments, which name the folder, and the checkpoints; no run times."""
    found = {}
    for path, content in files(folder).items():
        if path.suffix == ".json" and path.name.endswith("_results.json"):
            values = json.loads(content)
            content = {k: v for k, v in values.items() if "runtime" not in k and "per_second" not in k}
        elif path.name == "_report.json":
            content = {k: v for k, v in json.loads(content).items() if k not in ("command", "log")}
        if path.name != "training_args.bin" and not path.parts[0].startswith("checkpoint-"):
            found[str(path)] = content
    return found


@pytest.mark.parametrize("moment", ["save_metrics", "predict", "create_model_card"])
def test_a_run_killed_after_its_last_step_writes_what_it_lacks(tmp_path, finished, monkeypatch, moment):
    """After the training, before its figures, the decisions, or the card with the results."""

    def killed(*args, **kwargs):
        raise KeyboardInterrupt

    folder = tmp_path / finished.name
    with monkeypatch.context() as patch:
        patch.setattr(mlc.SealTrainer, moment, killed)
        with pytest.raises(KeyboardInterrupt):
            run(folder)
    assert without_times(folder).keys() < without_times(finished).keys()
    run(folder, "--resume_from_checkpoint", "last")
    assert without_times(folder) == without_times(finished)


def test_an_interrupted_run_goes_on_or_begins_anew_as_the_user_says(tmp_path, finished, monkeypatch, capsys):
    evaluating = ["--eval_strategy", "epoch", "--load_best_model_at_end", "false"]
    whole = run(tmp_path / "whole", *evaluating)
    folder = tmp_path / "part"
    interrupt(folder, monkeypatch, *evaluating)
    before = files(folder)
    assert (folder / "checkpoint-2" / RECORD).is_file() and not (folder / "model.safetensors").exists()
    message = r"holds a run that was interrupted \(checkpoint-2\). Go on with it by --resume_from_checkpoint last, repl"
    with pytest.raises(ValueError, match=message):
        run(folder, *evaluating)
    changed = ["--hidden_size", "8", "--normalize", "none", "--learning_rate", "1e-4"]
    with pytest.raises(ValueError, match="is of another run") as error:
        run(folder, *evaluating, *changed, "--resume_from_checkpoint", "last")
    assert all(f"{name[2:]}: was" in str(error.value) for name in changed[::2])
    assert files(folder) == before
    resumed = run(folder, *evaluating, "--resume_from_checkpoint", "last")
    assert {name: resumed[name] for name in whole if "runtime" not in name and "per_second" not in name} == {
        name: whole[name] for name in whole if "runtime" not in name and "per_second" not in name
    }
    capsys.readouterr()
    anew = ["--overwrite_output_dir", "true", "--save_strategy", "no", "--output_dir", str(folder)]
    mlc.main([*QUIET, *SMALL, *evaluating, *changed, *anew])
    assert "an earlier run. Removed: checkpoint-2, checkpoint-4." in capsys.readouterr().out
    assert list(folder.glob("checkpoint-*")) == []


def test_a_loss_net_that_cross_entropy_replaces_is_named(tmp_path, caplog):
    tiny_run.make(tmp_path)[0].save_model()
    with caplog.at_level(logging.WARNING, logger="seal_hf"):
        tiny_run.make(tmp_path, "ce")[0].save_model()
    assert f"Removed {tmp_path}/_loss_net, the loss-net of an earlier run" in caplog.text
    assert not (tmp_path / "_loss_net").exists()


def test_an_energy_network_on_its_own_is_guarded_too(tmp_path):
    few = ["--inference_steps", "2", "--inference_steps_eval", "2", "--num_train_epochs", "1"]
    run(tmp_path, *few, program=energy)
    with pytest.raises(ValueError, match="holds a finished run"):
        run(tmp_path, *few, program=energy)
    with pytest.raises(ValueError, match="energy: was 'multilabel', now 'pairwise'"):
        run(tmp_path, *few, "--energy", "pairwise", "--resume_from_checkpoint", "last", program=energy)


def holder(folder):
    """A process that holds the lock of `folder`, and has a child of its own, as for reading data: its ids."""
    reader, writer = os.pipe()
    if (own := os.fork()) == 0:
        with locked(folder):
            if (child := os.fork()) == 0:
                signal.pause()
            os.write(writer, str(child).encode())
            signal.pause()
    return own, int(os.read(reader, 100))


def test_one_run_at_a_time_in_a_folder(tmp_path, monkeypatch):
    """The second is refused, whatever it asks for; a process that was killed holds no lock, even if a child of it
    still lives. Another folder is free."""
    own, child = holder(tmp_path / "run")
    try:
        for words in ([], ["--resume_from_checkpoint", "last"], ["--overwrite_output_dir", "true"], ["--tune", "2"]):
            with pytest.raises(
                ValueError, match=r"another process writes to .*run\. Wait until it ends, or choose ano"
            ):
                run(tmp_path / "run", *words)
        assert [path.name for path in (tmp_path / "run").iterdir()] == [LOCK]
        os.kill(own, signal.SIGKILL)
        os.waitpid(own, 0)
        with locked(tmp_path / "run"), locked(tmp_path / "new" / "other"):
            assert (tmp_path / "new" / "other").is_dir()
    finally:
        os.kill(child, signal.SIGKILL)
    assert not list((tmp_path / "run").iterdir()) and not (tmp_path / "new" / "other").exists()
    monkeypatch.setenv("RANK", "1")  # the first process of a launcher holds the lock
    with locked(tmp_path / "run"), pytest.raises(ValueError, match="Data set .nowhere.csv. not found"):
        mlc.main(["--dataset", "nowhere.csv", "--output_dir", str(tmp_path / "run")])


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch, caplog):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with locked(tmp_path), locked(tmp_path):
        pass
    assert f"{tmp_path} cannot be locked (No locks available): start no second run there." in caplog.text
