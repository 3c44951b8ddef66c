"""Comparisons as programs: killed and started again, diverged, mistaken, on one's own texts; where methods begin."""

import json
import os
import re
import signal
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from launching import forked
from tiny_models import tiny_config, tiny_texts, tiny_tokenizer
from transformers import BertModel, TrainerCallback

from seal_hf import load_multilabel
from seal_hf.cli.search import LogUniform
from seal_hf.lab.compare.kinds import KINDS, SEAL, Method, own_keys
from seal_hf.lab.compare.runner import Comparison, Runs
from seal_hf.tasks.labels.compare import METHODS

SMALL = "--max_train_rows 150 --num_train_epochs 2 --hidden_size 16 --per_device_train_batch_size 50".split()
SMALL += ["--per_device_eval_batch_size", "500"]
CLOCK = "train_seconds_per_epoch"


def figures(runs):
    return {name: [{**run, CLOCK: 0} for run in found] for name, found in runs.all().items()}


@pytest.mark.long
def test_a_comparison_killed_in_a_trial_and_in_a_run_ends_as_one_that_was_not(program, tmp_path):
    pytest.importorskip("optuna")
    options = [*SMALL, "--losses", "constant", "ce", "nce", "--budget", "2"]
    whole = program.main([*options, "--output_dir", str(tmp_path / "whole")])
    part = [*options, "--output_dir", str(tmp_path / "part")]
    prepared_of, made = program.Comparison._prepared, []

    class Kill(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 4:  # of 6, after the first checkpoint
                os.kill(os.getpid(), signal.SIGKILL)

    def killing(trainer):
        def counted(self, name, settings, folder):
            prepared = prepared_of(self, name, settings, folder)
            if folder != str(self.runs.work("check")):  # which is built before anything begins, and not trained
                made.append(prepared.trainer)
                if len(made) == trainer:
                    prepared.trainer.add_callback(Kill())
            return prepared

        program.Comparison._prepared = counted
        program.main(part)

    times = []
    for trainer in (5, 2):  # the second trial of nce, after two trials and a run of ce; then, resumed, the run of nce
        assert forked(partial(killing, trainer)) == [-signal.SIGKILL]
        assert not (tmp_path / "part" / "nce" / "seed1.json").exists()
        times.append({file: file.stat().st_mtime_ns for file in (tmp_path / "part").glob("*/seed1.json")})
    assert len(times[0]) == 2 and times[0] == times[1]
    resumed = program.main(part)
    assert all(file.stat().st_mtime_ns == time for file, time in times[0].items())
    assert figures(resumed) == figures(whole)
    assert resumed.settings("nce") == whole.settings("nce")


def test_a_run_that_diverges_is_lost_and_the_others_go_on(program, tmp_path, monkeypatch, capsys):
    """In its trial too, so that what the search found diverges."""
    pytest.importorskip("optuna")
    rate, first = LogUniform(1e29, 1e30), {"learning_rate": 1e29}
    wild = replace(METHODS["ce"], group=SEAL, space={"learning_rate": rate}, first=first)
    taught = Method(SEAL, "", {"energy_loss": "nce", "loss_net_steps": 0}, takes={"loss_net_path": "wild"})
    methods = {"wild": wild, "taught": taught, **{name: METHODS[name] for name in ("constant", "ce")}}
    monkeypatch.setitem(KINDS, "mlc", replace(KINDS["mlc"], methods=methods))
    options = [*SMALL, "--losses", "all", "--budget", "1", "--seeds", "1", "2", "--output_dir", str(tmp_path)]
    runs, said = program.main(options), capsys.readouterr().out
    assert "wild: trial 1 of 1: 0.00" in said and runs.settings("wild")["value"] == 0
    assert "wild, seed 1: lost: The loss of the task-net phase is NaN or infinite" in said
    assert "taught, seed 2: left out, as wild, whose net it takes, was lost" in said
    assert re.findall(r"\(run (\d) of (\d)", said) == [(str(i), "8") for i in range(1, 9)]
    assert "lost" in runs.load("wild", 1) and runs.load("taught", 1) is None
    assert [run["seed"] for run in runs.all()["ce"]] == [1, 2]
    table = json.loads((tmp_path / "results.json").read_text())["f1_example_tuned"]
    assert table["lost"] == {"wild": [1, 2]} and set(table["methods"]) == {"constant", "ce"}
    assert "Lost, as the loss was no longer finite: `wild` with seed 1, 2." in said
    monkeypatch.setattr(program.Comparison, "_prepared", lambda *_, **__: pytest.fail("trained again"))
    program.main(options)


def test_a_table_of_lost_runs_alone_is_written(program, tmp_path):
    Runs(tmp_path).save("wild", 1, {"seed": 1, "lost": "NaN"})
    program.write_table(Runs(tmp_path), KINDS["mlc"].figures, {}, "none", "f1_example_tuned")
    assert "`wild` with seed 1" in (tmp_path / "table.md").read_text()


@pytest.fixture(scope="module")
def digits():
    return load_multilabel(max_train_rows=20)


# --- where a method begins -------------------------------------------------------------------------------------------


def test_a_method_begins_at_its_own_values_over_the_recipe_and_under_flags(program, digits, tmp_path):
    recipe = {"learning_rate": 1e-3, "energy_weight": 1.0, "hidden_size": 9}
    make = lambda data=digits, **flags: Comparison(Runs(tmp_path), data, recipe, KINDS["mlc"], flags=flags)  # noqa: E731
    settings = make().settings("gbi_dvn", 1)
    assert (settings["learning_rate"], settings["hidden_size"]) == (3e-4, 9) and "energy_weight" not in settings
    assert make(learning_rate="0.5").settings("gbi_dvn", 1)["learning_rate"] == "0.5"
    assert make().settings("regression", 1)["energy_weight"] == 3.0
    assert make(energy_weight="2").settings("regression", 1)["energy_weight"] == "2"
    assert make(energy_weight="2").settings("regression", 1, {"energy_weight": 7.0})["energy_weight"] == 7.0
    texts = SimpleNamespace(kind="text", test=digits.test, name="texts")
    assert make(texts).settings("gbi_dvn", 1)["learning_rate"] == 1e-3  # the recipe's: of a pretrained encoder


def test_a_flag_that_is_a_part_of_a_method_is_said(program, tmp_path, capsys):
    flags = ["--losses", "constant", "nce_cheap", "--num_samples", "7", "--output_dir", str(tmp_path)]
    program.main([*SMALL, *flags])
    assert "--num_samples does not change nce_cheap (5)" in capsys.readouterr().out


def test_a_recipe_says_no_method_for_all(program, tmp_path, capsys):
    file = tmp_path / "some.yaml"
    file.write_text("hidden_size: 8\nenergy_loss: nce\nhypergradient: cg\ncost_weight: 2\nenergy_weight: 3\n")
    base = program.shared_settings(KINDS["mlc"], file, {"gold_mix": "0.5"})
    assert base == {"hidden_size": 8, "energy_weight": 3}
    assert "cost_weight, hypergradient ignored" in capsys.readouterr().out
    own = own_keys(METHODS)
    assert {"hypergradient", "cost_weight", "gold_mix", "energy_weight_balance", "loss_net_encoder"} <= own
    assert not {"learning_rate", "energy_weight", "num_samples", "global_size", "dropout"} & own


def test_flags_that_a_comparison_has_or_sets_itself_are_refused(program):
    for flag, name in (("metric_for_best_model", "metric"), ("seed", "seeds")):
        with pytest.raises(ValueError, match=f"--{flag} is called --{name} here"):
            program.main([f"--{flag}", "1"])
    with pytest.raises(ValueError, match="--eval_strategy is epoch in every run of a comparison: leave it out"):
        program.main(["--eval_strategy", "steps"])


def test_trials_epochs_and_tables_are_of_the_metric(program, tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    trainers, prepared_of = [], program.Comparison._prepared

    def watched(self, name, settings, folder):
        prepared = prepared_of(self, name, settings, folder)
        if folder != str(self.runs.work("check")):  # which is not trained
            trainers.append(prepared.trainer)
        return prepared

    monkeypatch.setattr(program.Comparison, "_prepared", watched)
    options = ["--losses", "constant", "ce", "--metric", "f1_example", "--budget", "1", "--output_dir", str(tmp_path)]
    runs = program.main([*SMALL, *options])
    found, (trial, _) = runs.settings("ce"), trainers
    assert all(trainer.args.metric_for_best_model == found["metric"] == "f1_example" for trainer in trainers)
    seen = [log["eval_f1_example"] for log in trial.state.log_history if "eval_f1_example" in log]
    assert len(seen) == 2 and found["value"] == max(seen)
    tables = json.loads((tmp_path / "results.json").read_text())
    assert list(tables) == ["f1_example", "f1_example_tuned", "f1_example_calibrated"]
    assert all(table["metric"] == "f1_example" for table in tables.values())
    assert "chosen by `f1_example` on validation" in (tmp_path / "table.md").read_text()


# --- one's own data --------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_own_texts_are_compared(program, tmp_path):
    BertModel(tiny_config("bert")).save_pretrained(tmp_path / "bert")
    tiny_tokenizer().save_pretrained(tmp_path / "bert")
    rows = tiny_texts(80)
    lines = [f'{row["text"]},"{json.dumps([int(value) for value in row["labels"]])}"' for row in rows]
    (tmp_path / "own.csv").write_text("\n".join(["text,labels", *lines]) + "\n")
    options = ["--dataset", str(tmp_path / "own.csv"), "--model_name_or_path", str(tmp_path / "bert")]
    options += ["--num_train_epochs", "1", "--warmup_steps", "0", "--label_format", "multi_hot"]
    methods = ["constant", "ce", "nce", "gbi_dvn", "static_nce"]
    runs = program.main([*options, "--losses", *methods, "--output_dir", str(tmp_path / "out")])
    found = runs.all()
    assert set(found) == {*methods, "gbi_nce"}  # whose network static_nce takes
    assert all(0 <= run["test_f1_example_tuned"] <= 1 and run["seed"] == 1 for (run,) in found.values())


@pytest.mark.parametrize("content, found", [('{"seed": 1, "f1', "JSON"), ("[1]", "'list'"), ("{}", "found None")])
@pytest.mark.parametrize("name", ["comparison.json", "ce/seed1.json", "ce/settings.json"])
def test_a_file_that_is_no_result_is_named(program, tmp_path, name, content, found):
    program.main([*SMALL, "--losses", "constant", "--output_dir", str(tmp_path)])
    (tmp_path / "ce").mkdir()
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=rf"{name} is no .*{found}.*[.] (Delete it, and that|Put a whole copy back, )"):
        program.main([*SMALL, "--losses", "ce", "constant", "--output_dir", str(tmp_path)])
    assert (tmp_path / name).read_text() == content


def test_a_folder_that_lost_a_file_is_not_taken_for_another_one(program, tmp_path):
    out = tmp_path / "out"
    options = [*SMALL, "--losses", "ce", "--output_dir", str(out)]
    (out / "work").mkdir(parents=True)
    (out / "work" / "thesis.txt").write_text("mine")
    program.main(options)
    assert (out / "work" / "thesis.txt").read_text() == "mine"  # of a folder that was there
    said = (out / "comparison.json").rename(tmp_path / "comparison.json")
    with pytest.raises(
        ValueError, match="out holds results, but lacks comparison.json with their settings. Put it back"
    ):
        program.main(options)
    said.rename(out / "comparison.json")
    run = json.loads((out / "ce" / "seed1.json").read_text())
    (out / "ce" / "seed1.json").write_text(json.dumps(run | {"searched": {"learning_rate": 0.1}}))
    with pytest.raises(ValueError, match=r"out/ce holds a run \(seed 1\) with settings from a search, but it lacks "):
        program.main([*options, "--seeds", "1", "2"])


def test_what_is_held_is_of_a_search_of_this_data_without_a_loss_net(program, tmp_path):
    (tmp_path / "ce").mkdir()
    settings, said = tmp_path / "ce" / "settings.json", tmp_path / "comparison.json"
    options = [*SMALL, "--budget", "1", "--beside", str(tmp_path / "ce"), "--output_dir", str(tmp_path / "out")]
    settings.write_text('{"settings": {"learning_rate": 0.001, "energy_weight": 6.0}}')
    with pytest.raises(
        ValueError, match="--beside: .*ce belongs to a method with energy_weight, .* without a loss-net"
    ):
        program.main(options)
    settings.write_text('{"settings": {"learning_rate": 0.001}}')
    for content, found in (
        ('"metric": "map"', "map, not f1_example_tuned"),
        ('"contents": "0"', "the rows of x, not"),
    ):
        said.write_text(f'{{"data": "x", {content}}}')
        with pytest.raises(ValueError, match=f"--beside: .*ce was searched with {found}"):
            program.main(options)
    said.write_text('{"data": "x", "model_name_or_path": "a/b"}')
    data = load_multilabel("digits", max_train_rows=150)
    with pytest.raises(ValueError, match="--beside: .*ce was searched with a/b, not c/d. Search the plain model again"):
        program.check_same(tmp_path / "ce", data, "f1_example_tuned", {"model_name_or_path": "/nets/c/d"})
    assert not (tmp_path / "out").exists()
    for flags in (["--beside", str(tmp_path / "ce")], ["--hold", "dropout"]):
        with pytest.raises(ValueError, match=f"{flags[0]} .* nothing is searched. Give --budget"):
            program.main(flags)
