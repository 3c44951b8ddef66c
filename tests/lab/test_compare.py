"""Comparisons: statistics on runs with a known answer, a comparison that is cut off against one that is not."""

import json
import math
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_rel

from seal_hf.lab.compare import table
from seal_hf.lab.compare.kinds import BASELINE, FROZEN, KINDS, PRETRAINED, SEAL, Method, space_of, with_requirements
from seal_hf.lab.compare.runner import Runs
from seal_hf.lab.compare.statistics import Rows
from seal_hf.lab.compare.table import best_on_validation, markdown
from seal_hf.tasks.labels.compare import COMPARED, DECODERS, FIGURES, METHODS, METRIC

SMALL = "--max_train_rows 150 --num_train_epochs 2 --hidden_size 16 --per_device_train_batch_size 50".split()
SMALL += ["--per_device_eval_batch_size", "500"]


# --- the table -------------------------------------------------------------------------------------------------------

PLAIN = [key for key in DECODERS if "closed" not in key]  # of labels without a hierarchy
TOY = {"weak": Method(BASELINE, ""), "strong": Method(BASELINE, ""), "ours": Method(SEAL, ""), "same": Method(SEAL, "")}


def comparison(runs, methods, **options):
    """A table of label sets, under the decoder that chooses."""
    return table.comparison(runs, FIGURES, methods, METRIC, METRIC, **options)


def runs_with(rows_of, seconds=1.0, decoders=PLAIN):
    """A run per seed, from the F1 of the test rows."""
    return [
        {
            "seed": seed,
            **{f"{split}_{key}": float(np.mean(rows)) for key in decoders for split in ("eval", "test")},
            "test_rows": {key: Rows.of_mean(rows).as_text() for key in COMPARED},
            "train_seconds_per_epoch": seconds,
        }
        for seed, rows in enumerate(rows_of, 1)
    ]


def test_differences_are_to_the_best_baseline_with_their_chance():
    rng = np.random.default_rng(0)
    strong = [rng.random(400) for _ in range(3)]
    ours = [np.clip(rows + rng.normal(0.05, 0.1, 400), 0, 1) for rows in strong]
    runs = {
        "weak": runs_with([0.5 * rows for rows in strong], seconds=2.0),
        "strong": runs_with(strong, seconds=2.0),
        "ours": runs_with(ours, seconds=6.0),
        "same": runs_with(strong, seconds=3.0),
    }
    compared = comparison(runs, TOY, reference="strong")
    assert compared["best_baseline"] == "strong" and "difference" not in compared["methods"]["strong"]
    row, differences = compared["methods"]["ours"], np.mean(ours, 0) - np.mean(strong, 0)
    assert row["difference"] == pytest.approx(differences.mean(), abs=1e-4)
    width = 1.96 * differences.std() / 20  # the normal interval of a mean over 400 rows
    assert row["interval"] == pytest.approx([differences.mean() - width, differences.mean() + width], abs=2e-3)
    assert row["p_rows"] == 0 and row["seconds"] == 3.0
    means = [[rows.mean() for rows in r] for r in (ours, strong)]
    assert row["p_seeds"] == pytest.approx(ttest_rel(*means).pvalue)
    assert row["f1_example"] == pytest.approx((np.mean(means[0]), np.std(means[0], ddof=1)))
    same = compared["methods"]["same"]
    assert same["difference"] == 0 and same["p_rows"] == same["p_seeds"] == 1
    lines = markdown(compared).splitlines()
    assert [re.findall(r"`(\w+)`", line)[0] for line in lines[2:6]][0] == "ours"
    assert "< 0.0001" in next(line for line in lines if "`ours`" in line)


def test_seeds_are_paired_and_one_seed_has_no_deviation():
    rows = [np.full(10, value) for value in (0.2, 0.4, 0.6)]
    runs = {"strong": runs_with(rows), "ours": runs_with([rows[0] + 0.1])}
    row = comparison(runs, TOY)["methods"]["ours"]
    assert math.isnan(row["p_seeds"]) and math.isnan(row["f1_example"][1]) and row["seconds"] == 1.0
    later = [{**run, "seed": run["seed"] + 1} for run in runs_with([rows[1] + 0.1, rows[2] + 0.3])]
    row = comparison({"strong": runs["strong"], "ours": later}, TOY)["methods"]["ours"]  # seeds 2 and 3 of both
    assert row["p_seeds"] == pytest.approx(ttest_rel([0.5, 0.9], [0.4, 0.6]).pvalue)
    assert row["difference"] == pytest.approx(0.2)
    others = [{**run, "seed": run["seed"] + 5} for run in runs_with(rows)]
    compared = comparison({"strong": runs["strong"], "ours": others}, TOY)
    assert "difference" not in compared["methods"]["ours"]  # no seed in common
    assert any("| - | - | - |" in line for line in markdown(compared).splitlines() if "`ours`" in line)


def test_one_run_of_a_baseline_is_no_standard_where_others_have_several():
    rows = [np.full(60, value) for value in (0.2, 0.4, 0.6)]
    untimed = [{key: value for key, value in run.items() if "seconds" not in key} for run in runs_with(rows)]
    runs = {"weak": runs_with(rows), "strong": runs_with([rows[2] + 0.1]), "ours": runs_with(rows)}
    compared = comparison({**runs, "constant": untimed}, {**TOY, "constant": Method(BASELINE, "")})
    assert compared["best_baseline"] == "weak" and compared["methods"]["ours"]["p_seeds"] == 1
    assert compared["aside"] == ["strong"] and "weak (strong, with one seed, left aside)" in markdown(compared)
    toy = {**TOY, "constant": Method(BASELINE, "")}
    alone = {"strong": runs["strong"], "ours": runs["ours"], "constant": untimed[:2]}
    compared = comparison(alone, toy)
    assert compared["best_baseline"] == compared["reference"] == "strong"  # frequencies, which cost nothing, set none
    for seeds, best in ((3, "constant"), (1, "weak")):  # the best by far
        assert comparison({"constant": runs_with([rows[2] + 0.3] * seeds), **runs}, toy)["best_baseline"] == best
    no_time = {"constant": [{**run} for run in untimed], "ours": runs["ours"]}
    compared = comparison(no_time, {**TOY, "constant": Method(BASELINE, "")})
    assert compared["reference"] is None and "Seconds" not in markdown(compared)


def test_a_small_test_split_is_said():
    for num_rows, said in ((20, True), (60, False)):
        runs = {name: runs_with([np.linspace(0, 1, num_rows)]) for name in ("strong", "ours")}
        compared = comparison(runs, TOY)
        assert compared["test_rows"] == num_rows
        assert (f"The test split has only {num_rows} rows" in markdown(compared)) == said


def test_figures_of_rows_are_kept_to_a_thousandth_and_counts_exactly():
    f1 = np.array([0.0, 1 / 3, 2 / 3, 1.0])
    kept = Rows.of_text(Rows.of_mean(f1).as_text())
    np.testing.assert_allclose(kept.part, f1, atol=5e-4)
    assert (kept.whole == 1).all() and kept.figure == pytest.approx(0.5)
    counts = Rows(np.array([0, 2, 0]), np.array([3, 2, 0]))
    assert counts.as_text() == "0/3 2/2 0/0" and counts.figure == 2 / 5
    assert all((one == other).all() for one, other in zip(Rows.of_text(counts.as_text()), counts, strict=True))


def test_closed_sets_have_columns_where_every_run_has_them():
    rows = [np.linspace(0, 1, 60)]
    for decoders, shown in ((PLAIN, False), (DECODERS, True)):
        runs = {"strong": runs_with(rows, decoders=decoders), "ours": runs_with(rows, decoders=DECODERS)}
        text = markdown(comparison(runs, TOY))
        assert ("| F1 closed sets | F1 closed sets, calibrated |" in text) == shown
        assert ("Closed sets are those" in text) == shown


def test_the_table_in_words():
    """Mean ± deviation, the interval, `-` for what one seed does not say."""
    strong = [np.tile([0.4, 0.6], 50), np.tile([0.5, 0.7], 50)]
    runs = {"strong": runs_with(strong, seconds=2.0), "ours": runs_with([strong[0] + 0.1], seconds=5.0)}
    text = markdown(comparison(runs, TOY, reference="strong"))
    head, _, ours, best, _, choice, _, legend, *_ = text.split("\n")
    cells = lambda line: [cell.strip() for cell in line.strip("|").split("|")]  # noqa: E731
    assert cells(head)[0] == "method" and cells(head)[10] == "difference to strong"
    figures = ["60.00"] * 7
    assert cells(ours) == ["`ours`", "1", "60.00", *figures, "+10.00 [+10.00, +10.00]", "< 0.0001", "-", "2.50"]
    assert cells(best) == ["`strong`", "2", "55.00", *["55.00 ± 7.07"] * 7, "-", "-", "-", "1.00"]
    assert "the baseline that is best there, strong, over the seeds of both" in legend
    assert "median over seeds, are relative to strong" in legend and "chosen by `f1_example_tuned`" in legend


def test_what_validation_chooses_is_said_beside_what_is_best_on_test():
    rows = [np.full(4, value) for value in (0.5, 0.5)]
    runs = {name: runs_with(rows) for name in ("weak", "strong", "ours")} | {"same": runs_with([np.full(4, 0.9)])}

    def table(**validation):
        for name, value in validation.items():
            for run in runs[name]:
                run["eval_f1_example_tuned"] = value + 0.01 * run["seed"] * (name == "ours")
        compared = comparison(runs, TOY)
        return compared, [line for line in markdown(compared).split("\n") if "Validation" in line]

    compared, lines = table(weak=0.4, strong=0.6, ours=0.7)
    p = ttest_rel([0.71, 0.72], [0.6, 0.6]).pvalue
    said = f"Validation chooses `ours`, +11.50 points to `{{}}`, the best baseline there (p = {p:.2g} over seeds)."
    assert lines == [said.format("strong")]
    assert compared["choice"]["gain"] == pytest.approx(0.115) and compared["choice"]["p_seeds"] == pytest.approx(p)
    assert best_on_validation(compared, BASELINE) == "strong"  # and `same`, of one seed, stands aside
    assert table(weak=0.715)[1] == ["Validation chooses `weak`, a baseline."]  # the mean of `ours` is the same
    assert table(weak=0.8)[1] == ["Validation chooses `weak`, a baseline."]
    strong = runs.pop("strong")
    assert table(ours=0.9)[1] == [said.format("weak")]
    for run in runs["weak"]:
        run["train_seconds_per_epoch"] = 3.0
    runs["strong"] = strong
    assert best_on_validation(table(strong=0.8, ours=0.7)[0]) == "strong"  # as good and cheaper
    assert best_on_validation(comparison({}, TOY)) is None


def test_validation_chooses_by_the_seeds_that_all_methods_have():
    """Two lucky seeds of a method are compared with the same seeds of the others."""
    rows = [np.linspace(0, 1, 60)]
    runs = {"strong": runs_with(rows * 5), "ours": runs_with(rows * 2)}
    for run in runs["strong"]:
        run["eval_f1_example_tuned"] = 0.9 if run["seed"] <= 2 else 0.5
    for run in runs["ours"]:
        run["eval_f1_example_tuned"] = 0.8
    compared = comparison(runs, TOY)
    assert compared["choice"]["method"] == "strong"
    assert compared["methods"]["strong"]["validation"] == pytest.approx(0.66)


def test_seconds_are_those_of_the_median_seed():
    runs = {"strong": runs_with([np.ones(4)] * 3), "ours": runs_with([np.ones(4)] * 3)}
    for run, seconds in zip(runs["ours"], (2.0, 90.0, 3.0), strict=True):
        run["train_seconds_per_epoch"] = seconds
    assert comparison(runs, TOY, reference="strong")["methods"]["ours"]["seconds"] == 3.0


def test_a_table_without_a_baseline_has_no_differences():
    compared = comparison({"ours": runs_with([np.full(4, 0.5)] * 2), "same": runs_with([np.full(4, 0.25)])}, TOY)
    text = markdown(compared)
    assert compared["best_baseline"] is None and "difference to a baseline" in text and "None" not in text
    assert "Differences" not in text and "relative to" not in text
    assert "| `ours` | 2 | 50.00 | 50.00 ± 0.00 |" in text and "| `same` | 1 | 25.00 | 25.00 |" in text
    assert text.split("\n")[0].endswith("p, seeds |") and text.split("\n")[2].endswith("| - | - | - |")


# --- methods ---------------------------------------------------------------------------------------------------------


def test_methods_come_after_the_nets_that_they_take():
    assert with_requirements(["static_margin", "ce"], METHODS) == ["ce", "gbi_spen", "static_margin"]
    names = with_requirements(list(METHODS), METHODS)
    assert sorted(names) == sorted(METHODS)
    for name in names:
        assert all(names.index(other) < names.index(name) for other in METHODS[name].takes.values())
    with pytest.raises(ValueError, match="unknown method 'nec'; it must be one of constant, linear, ce"):
        with_requirements(["nec"], METHODS)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_setting_and_searched_key_of_a_method_is_one_of_its_program(kind):
    assert set(kind.usual) <= set(kind.methods)
    for name, method in kind.methods.items():
        if method.program in kind.programs:
            keys = kind.programs[method.program].keys
            assert {*method.settings, *method.space, *method.first, *method.takes} <= keys, name
            assert set(method.first) - {"num_samples"} <= set(method.space), name


def test_a_pretrained_encoder_is_searched_at_small_rates_without_dropout():
    space = space_of(METHODS["nce"], PRETRAINED)
    assert set(space) == {"learning_rate", "energy_weight", "loss_net_learning_rate"}
    assert space["learning_rate"].high <= METHODS["nce"].space["learning_rate"].low
    frozen = space_of(METHODS["nce"], FROZEN)  # a fresh head
    assert set(frozen) == set(space) and frozen["learning_rate"] == METHODS["nce"].space["learning_rate"]


# --- the program -----------------------------------------------------------------------------------------------------


@pytest.fixture
def few_steps(monkeypatch):
    """Of inference in energy networks."""
    for name in ("gbi_spen", "gbi_dvn"):
        few = {"inference_steps": 2, "inference_steps_eval": 2}
        monkeypatch.setitem(METHODS, name, replace(METHODS[name], settings={**METHODS[name].settings, **few}))


@pytest.mark.long
def test_a_comparison_that_is_cut_off_goes_on_and_repeats_nothing(program, tmp_path, few_steps, monkeypatch, capsys):
    """Cut off in a search, and between two runs; the runs are those of a comparison that was not."""
    pytest.importorskip("optuna")
    options = [*SMALL, "--losses", "constant", "nce", "static_margin", "--budget", "2", "--seeds", "1"]
    program.main([*options, "--output_dir", str(tmp_path / "whole")])
    whole = Runs(tmp_path / "whole").all()
    assert set(whole) == {"constant", "nce", "ce", "gbi_spen", "static_margin"}  # and what static_margin takes
    for name in set(whole) - {"constant"}:  # the run of the seed that was searched on is the best trial again
        best = Runs(tmp_path / "whole").settings(name)["value"]
        assert whole[name][0][f"eval_{METRIC}"] == pytest.approx(best, abs=1e-9), name

    started, cut_at = [], [2, 7]  # in the search of nce, and in the first trial after that of ce
    prepared_of = program.Comparison._prepared

    def counted(self, name, settings, folder):
        if folder != str(self.runs.work("check")):  # which is built before anything begins, and not trained
            started.append(name)
            if len(started) in cut_at:
                raise KeyboardInterrupt
        return prepared_of(self, name, settings, folder)

    monkeypatch.setattr(program.Comparison, "_prepared", counted)
    for _ in cut_at:
        with pytest.raises(KeyboardInterrupt):
            program.main([*options, "--output_dir", str(tmp_path / "part")])
    program.main([*options, "--output_dir", str(tmp_path / "part")])
    assert len(started) == 4 * 3 + len(cut_at)  # two trials and a run of each of four; a cut one is started again
    parts = Runs(tmp_path / "part").all()
    clock = "train_seconds_per_epoch"
    for name, (run,) in whole.items():
        assert {**parts[name][0], clock: 0} == {**run, clock: 0}, name

    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "part").rglob("seed1.json")}
    capsys.readouterr()
    program.main([*options, "--output_dir", str(tmp_path / "part")])  # all is there
    assert len(started) == 14 and all(file.stat().st_mtime_ns == time for file, time in before.items())
    table, results = capsys.readouterr().out, json.loads((tmp_path / "part" / "results.json").read_text())
    assert "| `static_margin`" in table and set(results) == set(COMPARED)
    shutil.rmtree(tmp_path / "part" / "work")
    (tmp_path / "part" / "static_margin" / "seed1.json").unlink()
    program.main([*options, "--output_dir", str(tmp_path / "part")])  # trains the nets again that it takes
    again = Runs(tmp_path / "part").all()["static_margin"][0]
    assert {**again, clock: 0} == {**whole["static_margin"][0], clock: 0}
    with pytest.raises(ValueError, match="holds results with budget = 2, not 3"):
        program.main([*options, "--budget", "3", "--output_dir", str(tmp_path / "part")])
    with pytest.raises(ValueError, match="holds results with hidden_size = '16', not '8'"):
        program.main([*options, "--hidden_size", "8", "--output_dir", str(tmp_path / "part")])
    found = Runs(tmp_path / "part").settings("nce")
    assert found["trials"] == 2 and set(found["settings"]) == set(METHODS["nce"].space)


@pytest.mark.long
def test_finalists_are_run_by_two_more_seeds_as_the_runs_of_these_seeds_are(program, tmp_path, few_steps):
    """What a finalist has by another seed is what the table's run of that seed has; its nets are of that seed too."""
    pytest.importorskip("optuna")
    options = [*SMALL, "--losses", "static_regression", "--budget", "3", "--output_dir", str(tmp_path)]
    runs = program.main([*options, "--finalists", "2", "--seeds", "1", "2", "3"])
    assert set(runs.all()) == {"gbi_dvn", "static_regression"}
    for name, (first, *more) in runs.all().items():
        tried = runs.settings(name)["tried"]
        assert sorted(len(one["values"]) for one in tried) == [1, 3, 3]
        values = next(one["values"] for one in tried if one["settings"] == first["searched"])
        assert values == pytest.approx([run[f"eval_{METRIC}"] for run in (first, *more)], abs=1e-9), name
    for flags, message in (
        (["--finalists", "3"], "holds results with finalists = 2, not 3"),
        ([], "holds results with finalists = 2, not 1"),
    ):
        with pytest.raises(ValueError, match=message):
            program.main([*options, *flags])


def test_what_is_held_is_not_searched_and_stays_as_it_was_given(program, tmp_path):
    pytest.importorskip("optuna")
    options = [*SMALL, "--losses", "ce", "nce", "--budget", "3", "--output_dir", str(tmp_path / "out")]
    given = ["--learning_rate", "0.004", "--dropout", "0.1"]
    with pytest.raises(ValueError, match="`hold` has 'drop', which no method searches; they search .*dropout,"):
        program.main([*options, *given, "--hold", "learning_rate", "drop"])
    with pytest.raises(ValueError, match="--hold .* nothing is searched"):
        program.main([*SMALL, "--hold", "dropout", "--output_dir", str(tmp_path / "out")])
    runs = program.main([*options, *given, "--hold", "learning_rate", "dropout"])
    assert runs.settings("ce") is None
    assert all(
        set(one["settings"]) == {"energy_weight", "loss_net_learning_rate"} for one in runs.settings("nce")["tried"]
    )
    first = ["--losses", "ce", "--budget", "1", "--output_dir", str(tmp_path / "first")]  # its trial is what was given
    (alone,), (held,) = (found.all()["ce"] for found in (program.main([*SMALL, *given, *first]), runs))
    assert alone["searched"] == {"learning_rate": 0.004, "dropout": 0.1} and held["searched"] == {}
    assert held["test_rows"] == alone["test_rows"]
    with pytest.raises(ValueError, match="holds results with held = 'dropout learning_rate', not ''"):
        program.main([*options, *given])
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").glob("*/*.json")}
    beside = ["--beside", str(tmp_path / "first" / "ce")]  # whose only trial is what was given
    assert program.main([*options, *beside]).all() == runs.all()
    assert {file: file.stat().st_mtime_ns for file in files} == files  # nothing was run again
    with pytest.raises(ValueError, match="--dropout is given, but --beside .*first/ce has it too. Leave one"):
        program.main([*options, *beside, "--dropout", "0.1"])
    with pytest.raises(ValueError, match="--beside: .*out/ce has no settings.json, which a comparison with --budget"):
        program.main([*options, "--beside", str(tmp_path / "out" / "ce")])


def test_a_file_of_settings_with_another_content_is_another_setting(program, tmp_path):
    (tmp_path / "mine.conll").write_text("N a\nN b\n\nM b\nN a\n\n" * 9)
    (tmp_path / "vectors.txt").write_text("N 0.1 0.2\nM 0.3 0.4\n")
    words = ["tagging", "--dataset", str(tmp_path / "mine.conll"), "--word_vectors", str(tmp_path / "vectors.txt")]
    words += ["--losses", "constant", "--output_dir", str(tmp_path / "out"), "--seeds"]
    runs = program.main([*words, "1"])
    runs.save("ce", 1, runs.load("constant", 1))
    program.main([*words, "1", "2"])
    (tmp_path / "vectors.txt").write_text("N 0.5 0.2\nM 0.3 0.4\n")
    with pytest.raises(ValueError, match="holds results with files = '[0-9a-f]{16}', not '[0-9a-f]{16}'"):
        program.main([*words, "1", "2", "3"])


def test_data_of_the_same_name_and_size_with_other_labels_is_other_data(program, tmp_path):
    rng = np.random.default_rng(0)
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        rows = [f"{' '.join(rng.choice(list('abcdefgh'), 4))},{rng.choice(['x', 'y'])}" for _ in range(60)]
        (tmp_path / folder / "mine.csv").write_text("text,labels\n" + "\n".join(rows) + "\n")
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "here" / "mine.csv", tmp_path / "copy")
    options = ["--losses", "constant", "--output_dir", str(tmp_path / "out"), "--dataset"]
    runs = program.main([*options, str(tmp_path / "here" / "mine.csv")])
    runs.save("ce", 1, runs.load("constant", 1))  # constant alone took no work, and is given up
    first = runs.all()
    assert program.main([*options, str(tmp_path / "copy" / "mine.csv")]).all() == first  # where it lies does not matter
    with pytest.raises(ValueError, match="holds results with contents = '[0-9a-f]{16}', not '[0-9a-f]{16}'"):
        program.main([*options, str(tmp_path / "there" / "mine.csv")])
    with pytest.raises(ValueError, match="holds results with max_train_rows = None, not '20'"):  # says more than a hash
        program.main([*options, str(tmp_path / "here" / "mine.csv"), "--max_train_rows", "20"])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--losses", "cee"], "unknown method 'cee'"),
        (["--hiden_size", "4"], "unknown command-line argument '--hiden_size'. Did you mean '--hidden_size'"),
        (["--hidden_size"], "argument --hidden_size/--hidden-size: expected one argument"),
        (["--freeze_encoder"], "pairs of --name value"),
        (["--energy_loss", "nce"], "--energy_loss is what is compared"),
        (["--budget", "-1"], "`budget` is -1"),
        (["--finalists", "0"], "`finalists` is 0; .* from 1 .none. to `budget`, which is 0"),
        (["--budget", "2", "--finalists", "3"], "`finalists` is 3; .* to `budget`, which is 2"),
        (["--dataset", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(program, tmp_path, arguments, message):
    with pytest.raises((ValueError, OSError), match=message):
        program.main([*arguments, "--output_dir", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()
