"""What a folder holds: results that belong in one table, trials that are not lost, one process at a time."""

import json
import sys
from dataclasses import replace

import pytest

from seal_hf import load_multilabel
from seal_hf.cli.search import LogUniform, has_trials
from seal_hf.lab.compare.kinds import KINDS
from seal_hf.lab.compare.runner import Comparison, Runs
from seal_hf.tasks.labels.compare import METHODS
from seal_hf.utils.files import LOCK, locked

SMALL = "--max_train_rows 150 --num_train_epochs 1 --hidden_size 16 --per_device_train_batch_size 50".split()
SMALL += ["--per_device_eval_batch_size", "500"]


@pytest.fixture(scope="module")
def digits():
    return load_multilabel(max_train_rows=20)


def test_a_mistaken_command_leaves_nothing_that_refuses_the_next(program, tmp_path):
    constant = ["--losses", "constant", "--output_dir", str(tmp_path)]
    with pytest.raises(ValueError, match="unknown method 'cee'"):
        program.main(["--losses", "cee", "--hidden_size", "8", "--output_dir", str(tmp_path)])
    assert Runs(tmp_path).identity() is None
    Runs(tmp_path).save_identity({"data": "another", "hidden_size": "8"})  # as of a run that ended at once
    (tmp_path / "work" / "search").mkdir(parents=True)
    runs = program.main([*constant, "--hidden_size", "16"])
    assert runs.identity()["hidden_size"] == "16" and not (tmp_path / "work").exists()
    program.main([*constant, "--hidden_size", "8", "--seeds", "2"])  # frequencies took no work
    assert [run["seed"] for run in runs.all()["constant"]] == [2]
    runs.save("ce", 2, runs.load("constant", 2))
    with pytest.raises(ValueError, match="holds results with hidden_size = '8', not '16'"):
        program.main([*constant, "--hidden_size", "16"])
    same = [*constant, "--hidden_size", "8", "--seeds", "2", "--learning_rate"]
    Runs(tmp_path).save_identity({**runs.identity(), "learning_rate": "0.001", "flags": "learning_rate"})
    program.main([*same, "1e-3"])  # one number, in other words
    with pytest.raises(ValueError, match="holds results with learning_rate = '0.001', not '2e-3'"):
        program.main([*same, "2e-3"])


def test_a_record_of_0_1_0_is_taken_as_it_is(digits, tmp_path):
    """It says nothing of the files that settings name."""
    runs = Runs(tmp_path)
    make = lambda **options: Comparison(runs, digits, {}, KINDS["mlc"], say=str, **options)  # noqa: E731
    make().run(["constant"], [1])
    runs.save("ce", 1, runs.load("constant", 1))
    runs.save_identity({key: value for key, value in runs.identity().items() if key != "files"})
    make().run(["constant"], [1])
    with pytest.raises(ValueError, match="holds results with metric = 'f1_example_tuned', not 'f1_example'"):
        make(metric="f1_example").run(["constant"], [1])
    with pytest.raises(ValueError, match="`metric` is 'loss'; it must be one of f1_example_tuned, f1_example,"):
        make(metric="loss")


def test_files_of_before_features_were_normalised_by_default_mean_none(digits, tmp_path):
    """Those of the packaged recipe said `auto`, and those of a recipe that said nothing had none."""
    runs = Runs(tmp_path)
    make = lambda **base: Comparison(runs, digits, base, KINDS["mlc"], say=str)  # noqa: E731
    make().run(["constant"], [1])
    runs.save("ce", 1, runs.load("constant", 1))
    assert runs.identity()["normalize"] == "auto"
    make(normalize="auto").run(["constant"], [1])
    runs.save_identity({key: value for key, value in runs.identity().items() if key != "normalize"})
    make(normalize="none").run(["constant"], [1])
    with pytest.raises(ValueError, match="holds results with normalize = 'none', not 'auto'"):
        make().run(["constant"], [1])


def test_a_search_of_another_space_is_not_taken_for_that_of_the_method(digits, tmp_path):
    runs, methods = Runs(tmp_path), dict(METHODS)
    compared = Comparison(runs, digits, {}, KINDS["mlc"], methods, budget=2, say=str)
    compared.run([], [])  # the folder is this comparison's
    found = {"settings": {"learning_rate": 0.1}, "trials": 2, "value": 0.5}
    runs.save_settings("nce", found)
    compared.run(["nce"], [])  # of before spaces were stored
    runs.save_settings("nce", found | compared._sought("nce"))
    compared.run(["nce"], [])
    nce = METHODS["nce"]
    for changed, words in (
        ({"space": {**nce.space, "energy_weight": LogUniform(1, 2)}}, "a search .space. with energy_weight = 'LogUni"),
        ({"space": {"dropout": nce.space["dropout"]}}, "a search .space. with energy_weight = .* not None"),
        ({"first": {**nce.first, "energy_weight": 9.0}}, "a search .first. with energy_weight = '0.3', not '9.0'"),
        ({"settings": {**nce.settings, "num_samples": 3}}, "a search .method. with num_samples = None, not '3'"),
    ):
        methods["nce"] = replace(nce, **changed)
        with pytest.raises(ValueError, match=words):
            compared.run(["nce"], [])


def test_what_a_first_command_got_wrong_can_be_put_right_in_its_folder(program, tmp_path, monkeypatch):
    """The remedy that the message names is not refused for what the mistaken command left."""
    rows = "\n".join(f"{text},{label}" for text, label in [("a b", "x"), ("c d", "y")] * 20)
    (tmp_path / "mine.csv").write_text(f"text,labels\n{rows}\n")
    own = ["--dataset", str(tmp_path / "mine.csv"), "--losses", "constant", "ce", "--output_dir", str(tmp_path / "own")]
    with pytest.raises(ValueError, match="`model_name_or_path` is missing"):
        program.main(own)
    with pytest.raises(OSError, match="nowhere"):  # not that the folder holds other results
        program.main([*own, "--model_name_or_path", str(tmp_path / "nowhere")])
    usual = [*SMALL, "--losses", "constant", "ce", "--output_dir", str(tmp_path / "digits")]
    with pytest.raises(ValueError, match="`seeds` has -1"):
        program.main([*usual, "--seeds", "-1"])
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["seal_hf.cli.search"], "find_spec", lambda name: None)
        with pytest.raises(ValueError, match=r"a search needs Optuna: .*, or --budget 0 for none"):
            program.main([*usual, "--budget", "2"])
    assert not list((tmp_path / "digits").glob("*/*.json"))
    assert set(program.main(usual).all()) == {"constant", "ce"}


def test_flags_with_an_equals_sign_are_flags(program, tmp_path):
    runs = program.main([*SMALL, "--num_train_epochs=2", "--losses", "ce", "--output_dir", str(tmp_path)])
    assert runs.load("ce", 1)["epochs"] == 2 and runs.identity()["num_train_epochs"] == "2"
    for flags, message in (
        (["--energy_loss=nce", "--hidden_size=8"], "--energy_loss is what is compared"),
        (["--seed=3", "--hidden_size=8"], "--seed is called --seeds here"),
        (["--eval_strategy=steps", "--hidden_size=8"], "--eval_strategy is epoch in every run"),
    ):
        with pytest.raises(ValueError, match=message):
            program.main([*flags, "--output_dir", str(tmp_path)])


def test_a_second_process_is_refused(program, tmp_path):
    options = [*SMALL, "--losses", "constant", "--output_dir", str(tmp_path)]
    with locked(tmp_path), pytest.raises(ValueError, match="another process writes to .* --output_dir"):
        program.main(options)
    assert set(program.main(options).all()) == {"constant"} and not (tmp_path / LOCK).exists()


def test_finished_trials_are_not_given_up_for_other_settings_or_seeds(program, tmp_path, monkeypatch):
    """Also in a folder whose name has a meaning in an address."""
    pytest.importorskip("optuna")
    folder = tmp_path / "q?u%20ü"
    options = [*SMALL, "--losses", "ce", "--budget", "3", "--output_dir", str(folder)]
    prepared_of, made = program.Comparison._prepared, []

    def counted(self, name, settings, folder):
        if "check" not in folder:
            made.append(settings["seed"])
            if len(made) == 3:
                raise KeyboardInterrupt
        return prepared_of(self, name, settings, folder)

    monkeypatch.setattr(program.Comparison, "_prepared", counted)
    with pytest.raises(KeyboardInterrupt):
        program.main([*options, "--seeds", "7"])
    assert has_trials(folder / "work" / "search") and [file.name for file in tmp_path.iterdir()] == [folder.name]
    with pytest.raises(ValueError, match="holds results with budget = 3, not 4"):
        program.main([*options, "--budget", "4"])
    runs = program.main([*options, "--seeds", "1", "7"])
    assert made == [7, 7, 7, 7, 1, 7] and runs.settings("ce")["seed"] == 7  # the third trial, then a run of each seed


def test_a_method_that_fails_is_left_out_and_tried_again(program, tmp_path, monkeypatch, capsys):
    options = [*SMALL, "--losses", "ce", "nce", "static_nce", "--seeds", "1", "2", "--output_dir", str(tmp_path)]
    prepared_of = program.Comparison._prepared

    def failing(self, name, settings, folder):
        if name == "nce" or (name == "gbi_nce" and settings["seed"] == 2):
            raise RuntimeError("no memory is left")
        return prepared_of(self, name, settings, folder)

    with monkeypatch.context() as patch:
        patch.setattr(program.Comparison, "_prepared", failing)
        with pytest.raises(ValueError, match="nce: RuntimeError: no memory is left; gbi_nce: .*Started again"):
            program.main(options)
    said, runs = capsys.readouterr().out, Runs(tmp_path)
    assert "nce, seed 1: failed: no memory is left" in said and "nce, seed 2: left out, as nce failed" in said
    assert "static_nce, seed 2: left out, as gbi_nce failed" in said
    seeds = {name: [run["seed"] for run in found] for name, found in runs.all().items()}
    assert seeds == {"ce": [1, 2], "gbi_nce": [1], "static_nce": [1]}
    assert set(json.loads((tmp_path / "results.json").read_text())["f1_example_tuned"]["methods"]) == set(seeds)
    program.main(options)
    assert all([run["seed"] for run in found] == [1, 2] for found in runs.all().values()) and len(runs.all()) == 4


def test_a_table_is_written_of_what_was_done_when_it_is_cut_off(program, tmp_path, monkeypatch):
    def cut(self, name, seed):
        if name == "ce":
            raise KeyboardInterrupt
        return of(self, name, seed)

    of = program.Comparison._one
    monkeypatch.setattr(program.Comparison, "_one", cut)
    with pytest.raises(KeyboardInterrupt):
        program.main([*SMALL, "--losses", "constant", "ce", "--output_dir", str(tmp_path)])
    assert "`constant`" in (tmp_path / "table.md").read_text()


def test_a_method_that_is_added_later_is_tested_against_the_baselines_that_are_there(program, tmp_path):
    for losses in (("ce", "margin"), ("nce",)):
        program.main([*SMALL, "--losses", *losses, "--output_dir", str(tmp_path)])
    (tmp_path / "margin").rename(tmp_path / "of_before")  # a name that no method has now
    program.main([*SMALL, "--losses", "nce", "--output_dir", str(tmp_path)])
    table = json.loads((tmp_path / "results.json").read_text())["f1_example_tuned"]
    assert table["best_baseline"] == "ce" and set(table["methods"]) == {"ce", "of_before", "nce"}
    assert "difference" in table["methods"]["of_before"] and "difference" in table["methods"]["nce"]


def test_runs_of_two_searches_are_not_one_method(digits, tmp_path):
    runs = Runs(tmp_path)
    compared = Comparison(runs, digits, {}, KINDS["mlc"], budget=2, say=str)
    compared.run([], [])  # the folder is this comparison's
    runs.save_settings("nce", {"settings": {"learning_rate": 0.1}, "trials": 2, "value": 0.5})
    runs.save("nce", 1, {"seed": 1, "searched": {"learning_rate": 0.2}})
    with pytest.raises(ValueError, match=r"a run \(seed 1\) with learning_rate = '0.2', not '0.1'"):
        compared.run(["nce"], [])


def test_what_is_in_every_run_is_no_flag(program, tmp_path):
    with pytest.raises(ValueError, match="--save_strategy is epoch in every run"):
        program.main([*SMALL, "--losses", "ce", "--output_dir", str(tmp_path), "--save_strategy", "no"])
