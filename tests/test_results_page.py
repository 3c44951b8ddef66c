"""benchmarks/results_page.py and goals.py on toy tables: what is chosen, counted and reached."""

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, ttest_rel

from seal_hf.compare import COMPARED, METRIC, Runs
from seal_hf.compare.runs import thousandths
from seal_hf.compare.table import DECODERS

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import results_page

    yield results_page
    for name in ("results_page", "results_recipes", "results_store", "results_texts", "goals", "run_recipes"):
        sys.modules.pop(name, None)


@pytest.fixture
def stored(page, tmp_path, monkeypatch):
    """Puts a comparison's runs, by method, into results that are the page's; it gives what the page reads."""
    from results_store import pack

    monkeypatch.setattr(page, "STORE", page.Store(tmp_path / "results"))

    def put(name, found, **identity):
        runs = Runs(tmp_path / name)
        runs.save_identity({"data": "toy", **identity})
        for method, each in found.items():
            for run in each:
                runs.save(method, run["seed"], run)
        pack(page.STORE, runs.folder, conflict="replace")
        return page.STORE.comparison(name)

    return put


def row(validation, tuned, half=None, difference=None, seconds=2.0, width=0.02):
    figures = {"seeds": [], "validation": validation, **{key: (tuned, 0.001) for key in COMPARED}, "seconds": seconds}
    figures["f1_example"] = (tuned if half is None else half, 0.001)
    if difference is not None:
        figures |= {"difference": difference, "interval": [difference - width / 2, difference + width / 2]}
    return figures


def table(**methods):
    return {decoder: {"methods": methods} for decoder in COMPARED}


def cells(lines, *start):
    found = [line for line in lines if line.startswith("| " + " | ".join(start) + " |")]
    assert len(found) == 1, found
    return [cell.strip() for cell in found[0].strip("|").split("|")][len(start) :]


def test_a_search_that_came_later_stands_for_the_data_set_and_leaves_its_other_rows(page):
    first = table(ce=row(0.5, 0.4), nce=row(0.9, 0.3, difference=-0.1), margin=row(0.5, 0.2, half=0.31))
    later = table(ce=row(0.5, 0.4), nce=row(0.6, 0.5, difference=0.02, seconds=2.5))
    tables = {"delicious": first, "delicious_searched": later}
    assert cells(page.summary(tables)[:9], "mean") == ["", "", "", "+2.00"]
    lines = page.goals(tables)
    assert cells(lines, "seconds per epoch", "delicious_searched")[1] == "2.50"
    assert cells(lines, "SEAL's row", "delicious", "`nce`")[0] == "50.00, tuned 50.00"
    assert cells(lines, "mean gain over the best baseline", "1 of 6")[1].startswith("+2.00")


def test_a_longer_search_of_few_methods_counts_in_the_mean_and_lines_of_its_own(page):
    first = table(ce=row(0.5, 0.4), nce=row(0.9, 0.3, difference=-0.1))
    tables = {"bibtex": first, "bibtex_long": table(nce=row(0.6, 0.5, difference=0.02, seconds=2.5))}
    assert cells(page.summary(tables)[:9], "mean") == ["", "", "", "+2.00"]
    lines = page.goals(tables)
    assert cells(lines, "seconds per epoch", "bibtex")[1] == "2.00"
    assert cells(lines, "seconds per epoch", "bibtex_long")[1] == "2.50"
    assert [cells(lines, "best published", name)[1] for name in ("bibtex", "bibtex_long")] == ["30.00", "50.00"]
    assert cells(lines, "SEAL's row", "bibtex", "`nce`")[0] == "30.00, tuned 30.00"
    assert cells(lines, "mean gain over the best baseline", "1 of 6")[1].startswith("+2.00")
    tables["bibtex_finals"] = table(nce=row(0.6, 0.5, difference=0.03))  # more thorough still
    assert cells(page.summary(tables)[:10], "mean") == ["", "", "", "+3.00"]
    assert cells(page.goals(tables), "mean gain over the best baseline", "1 of 6")[1].startswith("+3.00")
    assert page.published_of("bibtex_finals") == page.published_of("bibtex") != {}


def test_the_best_of_a_group_is_that_of_validation_and_variants_count_once(page):
    tables = {
        "genbase": table(ce=row(0.5, 0.4), nce=row(0.6, 0.5, difference=0.02), margin=row(0.5, 0.9, difference=0.5)),
        "genbase_id": table(ce=row(0.5, 0.4), nce=row(0.6, 0.5, difference=0.4)),
        "spo_fun_root": table(ce=row(0.5, 0.4), nce=row(0.6, 0.5, difference=0.04)),
        "cal500": table(ce=row(0.5, 0.4)),
    }
    lines = page.summary(tables)
    assert cells(lines[:9], "genbase") == ["40.00 `ce`", "-", "50.00 `nce`", "+2.00 [+1.00, +3.00]"]
    assert cells(lines[:9], "cal500") == ["40.00 `ce`", "-", "-", "-"]
    tables["cal500"] = table(nce=row(0.6, 0.5, seconds=3.0), ranking=row(0.6, 0.4, seconds=2.5))
    assert cells(page.summary(tables)[:9], "cal500")[2] == "40.00 `ranking`"  # of equal ones the cheaper
    assert cells(lines[:9], "mean") == ["", "", "", "+3.00"]  # of 2 and 4, not the identifier's 40


def test_readmes_table_has_the_best_of_both_groups_under_both_decoders(page):
    one = table(ce=row(0.5, 0.4), nce=row(0.6, 0.5, difference=0.02))
    for method, seeds in (("ce", 3), ("nce", 2)):
        one["f1_example_tuned"]["methods"][method]["seeds"] = list(range(seeds))
    lines = page.readme_table({"bibtex": one, "cal500": table(ce=row(0.5, 0.4) | {"seeds": [1]})})
    expected = ["`ce` 40.00 ± 0.10 (3)", "`nce` 50.00 ± 0.10 (2)", "+2.00 [+1.00, +3.00]"]
    assert cells(lines, "bibtex") == expected * 2
    assert cells(lines, "cal500") == ["-"] * 6  # no loss-net was run
    one["f1_example_tuned"]["methods"]["margin"] = row(0.7, 0.6) | {"seeds": [1]}  # the best, of one seed
    assert cells(page.readme_table({"bibtex": one}), "bibtex") == expected * 2


def test_one_method_for_all_is_measured_by_cross_entropy_with_its_seeds(page, stored):
    gains = {"bibtex": 0.04, "bibtex_long": 0.9, "cal500": -0.01, "genbase": 0.0, "seq_fun": 0.01, "genbase_id": 0.9}
    tables = {name: table(ce=row(0.5, 0.4), nce=row(0.6, 0.5)) for name in gains}
    for name, gain in gains.items():
        run = lambda seed, value: {"seed": seed, **{f"test_{decoder}": value for decoder in COMPARED}}  # noqa: E731
        stored(name, {"ce": [run(1, 0.4), run(2, 0.9)], "nce": [run(1, 0.4 + gain), run(3, 0.0)]})
    stored("spo_fun", {})
    tables["spo_fun"] = table(ce=row(0.5, 0.4), asymmetric=row(0.6, 0.5))
    (line,) = page.one_for_all(tables)[2:]  # `asymmetric` has one data set; a variant does not count, nor a long search
    assert line == "| `nce` | spo_fun | +1.00 (-1.00) | +1.00 (-1.00) | 2.00 |"


def test_what_is_added_to_a_tuned_model_and_what_validation_chooses(page, stored):
    values = {  # data -> method -> by seed, on validation and on test
        "bibtex_held": {
            "ce": [(0.5, 0.4), (0.5, 0.5)],
            "nce": [(0.6, 0.7)],
            "nce_balanced": [(0.5, 0.5), (0.7, 0.8)],
        },
        "cal500_held": {"ce": [(0.5, 0.4), (0.5, 0.5)], "nce": [(0.45, 0.5), (0.45, 0.6)]},
    }

    def run(seed, validation, test):
        figures = {f"eval_{key}": validation for key in DECODERS} | {f"test_{key}": test for key in DECODERS}
        rows = {key: thousandths(np.full(4, test)) for key in COMPARED}
        return {"seed": seed, "test_rows": rows, "train_seconds_per_epoch": 1.0, **figures}

    for name, found in values.items():
        stored(name, {method: [run(seed, *each) for seed, each in enumerate(found[method], 1)] for method in found})
    lines = page.beside_tuned()
    twice = lambda gain, p: [f"{gain} [{gain}, {gain}]", p] * 2  # noqa: E731
    assert cells(lines, "bibtex", "`nce`") == [
        "1",
        "+10.00",
        "-",
        *twice("+30.00", "-"),
        "1.00",
    ]  # of one seed: not chosen
    p = f"{ttest_rel([0.5, 0.8], [0.4, 0.5]).pvalue:.2g}"
    assert cells(lines, "bibtex", "**`nce_balanced`**") == ["2", "+10.00", "0.5", *twice("+20.00", p), "1.00"]
    assert cells(lines, "cal500", "`nce`")[1::2] == [
        "-5.00",
        *["+10.00 [+10.00, +10.00]"] * 2,
        "1.00",
    ]  # not what was chosen
    assert cells(lines, "mean of 2") == ["what validation chooses", "", "", "", "+10.00", "", "+10.00", "", ""]
    assert len(lines) == 6


def test_whole_energies_are_compared_with_local_ones_seed_by_seed(page, stored):
    figures = {"nce": [0.4, 0.5, 0.7], "nce_local": [0.39, 0.47], "nce_balanced": [0.4]}
    run = lambda seed, value: {"seed": seed, f"test_{METRIC}": value}  # noqa: E731
    stored("bibtex", {method: list(map(run, range(len(values)), values)) for method, values in figures.items()})
    (line,) = page.global_terms(["bibtex"])[2:]
    p = f"{ttest_rel([0.4, 0.5], [0.39, 0.47]).pvalue:.2g}"
    assert line == f"| bibtex | 2 | `nce` | 45.00 | 43.00 | +2.00 | {p} |"


def test_goals_are_reached_by_their_figures(page):
    tables = {
        "bibtex": table(nce=row(0.6, 0.49, half=0.446, difference=0.03, seconds=2.5)),  # 44.76 ± 0.17 and 48.6
        "cal500": table(nce=row(0.6, 0.42, half=0.33, difference=0.01, seconds=4.0)),  # 41.62 ± 0.80 and 47.74
        "spo_fun_root": table(ranking=row(0.6, 0.29, difference=0.5)),  # 29.68, of the draft: no deviation
    }
    lines = page.goals(tables)
    assert cells(lines, "SEAL's row", "bibtex", "`nce`") == ["44.60, tuned 49.00", "44.76 ± 0.17", "yes"]
    assert cells(lines, "SEAL's row", "cal500", "`nce`") == ["33.00, tuned 42.00", "41.62 ± 0.80", "tuned only"]
    assert cells(lines, "SEAL's row", "spo_fun_root", "`ranking`") == ["29.00, tuned 29.00", "29.68", "no"]
    assert cells(lines, "SEAL's row", "delicious", "`nce`") == ["-", "34.67 ± 0.38", "not run"]
    assert cells(lines, "best published", "bibtex") == ["`nce`, tuned", "49.00", "48.6 GSPEN", "yes"]
    assert cells(lines, "best published", "cal500") == ["`nce`, tuned", "42.00", "47.74 DVN", "no"]
    assert cells(lines, "best published", "genbase") == ["-", "-", "98.99", "not run"]
    assert cells(lines, "seconds per epoch", "bibtex")[-1] == "yes"
    assert cells(lines, "seconds per epoch", "cal500")[1:] == ["4.00", "at most 3", "no"]
    *_, said, aim, reached = cells(lines, "mean gain over the best baseline", "2 of 6")
    error = math.sqrt(2) * (2 / 3.92) / 2  # of two intervals of 2 points
    gain, width, p = map(float, re.findall(r"[\d.e-]+", said))
    assert (gain, reached) == (2.0, "no") and width == pytest.approx(1.96 * error, abs=5e-3)  # 2 of 6 alone
    assert p == pytest.approx(2 * norm.sf(2 / error), rel=0.05)


def test_a_published_row_may_be_reached_by_what_was_chosen_at_one_half(page):
    tables = {"bibtex": table(nce=row(0.6, 0.49, half=0.41))}  # 44.76 ± 0.17
    assert cells(page.goals(tables), "SEAL's row", "bibtex", "`nce`")[2] == "tuned only"
    for half, said in ((0.446, ["44.60, tuned 49.00", "44.76 ± 0.17", "chosen at 0.5"]), (0.44, None)):
        lines = page.goals(tables, {"bibtex": table(nce=row(0.6, 0.3, half=half))[METRIC]})
        found = cells(lines, "SEAL's row", "bibtex", "`nce`")
        assert found == said if said else found[2] == "tuned only"


def test_the_best_published_figure_is_beside_ours_of_the_decoder_that_validation_prefers(page):
    calibrated = row(0.7, 0.0) | {"f1_example_calibrated": (0.487, 0.001)}
    tuned = row(0.6, 0.49)
    by_decoder = {
        "f1_example_tuned": {"methods": {"nce": tuned}},
        "f1_example_calibrated": {"methods": {"ranking": calibrated}},
    }
    lines = page.goals({"bibtex": by_decoder})
    assert cells(lines, "best published", "bibtex") == ["`ranking`, calibrated", "48.70", "48.6 GSPEN", "yes"]


def test_without_runs_every_goal_is_open(page):
    lines = page.goals({})
    assert len(lines) > 40 and all(line.endswith("| not run |") for line in lines[2:])


def test_every_published_figure_is_of_a_method_and_a_data_set_of_the_page(page):
    assert set(page.PUBLISHED) <= set(page.METHODS)
    assert {name for figures in page.PUBLISHED.values() for name in figures} <= set(page.DATA)
    assert {name for figures in page.PUBLISHED.values() for name in figures} >= {"spo_fun_root", "genbase_id"}


def test_commands_say_methods_seeds_and_settings_of_the_runs(page, stored):
    sizes = {"labels": 500, "train": 1, "validation": 1, "test": 1, "contents": "0a1b", "flags": ""}
    recipe = {key: str(value) for key, value in page.read_recipe(page.ROOT / "recipes/mlc/spo_fun_ce.yaml").items()}
    identity = {"data": "spo_fun", **sizes, "budget": 8, "metric": "f1_example", **recipe, "keep_root": "true"}
    found = {method: [{"seed": 1}, {"seed": 2}][:seeds] for method, seeds in (("nce", 2), ("ce", 2), ("focal", 1))}
    runs = stored("spo_fun_root", found, **identity)
    _, both, one, *_ = page.commands(runs)
    flags = "--recipe recipes/mlc/spo_fun_ce.yaml --keep_root true --budget 8 --metric f1_example"
    assert both.endswith(f"compare/spo_fun_root {flags} --losses ce nce --seeds 1 2")
    assert one.endswith(f"{flags} --losses focal --seeds 1")
    assert page.searched(runs) == "8 trials of search for each method."
    runs = stored("spo_fun_root", found, **{**identity, "finalists": 3})
    assert page.commands(runs)[2].endswith(f"{flags} --finalists 3 --losses focal --seeds 1")
    assert "the best 3 of them run by two more seeds" in page.searched(runs)
    runs = stored("spo_fun_root", found, **{**identity, "held": "dropout learning_rate"})
    assert page.commands(runs)[2].endswith(f"{flags} --hold dropout learning_rate --losses focal --seeds 1")
    assert "; dropout and learning_rate stayed as given" in page.searched(runs)


def test_the_page_has_all_raw_runs(page):
    """Of those in the repository. That its figures are theirs, `results_page.py --check` says in CI."""
    if not (names := page.STORE.comparisons()):
        pytest.skip("the raw runs are not there")
    text = (page.ROOT / "recipes" / "RESULTS.md").read_text(encoding="utf-8")
    titles = re.findall("^## (.*)$", text, re.M)
    ends = {"_recipes": "recipes as they are", "_half": "chosen at 0.5"}
    ends |= {end: title for end, (title, _) in page.APART.items()}
    said = [re.sub(f"({'|'.join(ends)})$", lambda end: f", {ends[end[0]]}", name) for name in names]
    assert {"Summary", "Goals", *said} <= {*titles}
    assert all(f"--output_dir runs/compare/{name} " in text for name in names)
    assert text.count(f"chosen by `{METRIC}`") == 1  # how to read the tables, once


def test_masks_are_compared_with_both_baselines_seed_by_seed(page, monkeypatch):
    figures = {"ce": [0.7, 0.8, 0.9], "soft_iou": [0.72, 0.82, 0.92], "nce": [0.71, 0.83], "regression": [0.9]}
    runs = {f"weizmann_{name}_bf16": values for name, values in figures.items()}
    found = lambda name: [{"seed": i, "test_mean_iou": value} for i, value in enumerate(runs[name])]  # noqa: E731
    monkeypatch.setattr(sys.modules["results_recipes"], "names", lambda pattern: sorted(runs))
    monkeypatch.setattr(sys.modules["results_recipes"], "runs_of", found)
    lines = page.masks()
    assert cells(lines, "weizmann_nce_bf16", "2")[::2] == ["+2.00", "+0.00"]
    assert cells(lines, "weizmann_nce_bf16", "2")[1] == f"{ttest_rel([0.71, 0.83], [0.7, 0.8]).pvalue:.2g}"
    assert cells(lines, "weizmann_soft_iou_bf16", "3") == ["+2.00", "0.25", "-", "-"]
    assert cells(lines, "weizmann_ce_bf16", "3") == ["-", "-", "-2.00", "0.25"]
    assert len(lines) == 5  # one seed says nothing


@pytest.fixture
def run_recipes(page, tmp_path, monkeypatch):
    """`main` of run_recipes.py on words of a command, with results in `tmp_path`; it returns the runs that it made."""
    import run_recipes

    made = []

    def run(recipe, seed, data_dir, extra):
        made.append((recipe.stem, seed))
        return {"recipe": recipe.stem, "seed": seed, "extra": run_recipes.said(extra), "test_f1_example": 0.5}

    store = run_recipes.Store(tmp_path)
    given = {"RESULTS": tmp_path, "STORE": store, "run": run, "write_heads": list, "write_readme": print}
    for name, value in given.items():
        monkeypatch.setattr(run_recipes, name, value)
    recipe = str(ROOT / "recipes" / "mlc" / "bibtex_nce.yaml")

    def main(words):
        monkeypatch.setattr(sys, "argv", ["run_recipes.py", recipe, *words.split()])
        made.clear()
        run_recipes.main()
        return list(made)

    return main


def test_runs_of_other_flags_are_not_filed_as_the_recipes_own(run_recipes, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run_recipes("--seeds 1 --extra --global_size 0")
    assert "name it by --suffix _NAME, before it" in capsys.readouterr().err and not list(tmp_path.iterdir())
    assert run_recipes("--seeds 1") == [("bibtex_nce", 1)] and run_recipes("--seeds 1 2") == [("bibtex_nce", 2)]
    local = "--suffix _local --extra --global_size 0 --model_name_or_path some/where/model"
    assert len(run_recipes(f"--seeds 1 {local}")) == 1
    assert len(run_recipes(f"--seeds 1 2 {local.replace('some/where', 'elsewhere')}")) == 1  # a path is no setting
    for other in ("--seeds 3 --suffix _local", f"--seeds 1 {local.replace('0', '1')}"):
        with pytest.raises(SystemExit, match="bibtex_nce_local has runs with --extra --global_size 0 .* model, not"):
            run_recipes(other)
    lines = [json.loads(line) for line in (tmp_path / "bibtex" / "recipes.jsonl").read_text().splitlines()]
    assert [(line["name"], line["seed"]) for line in lines] == [
        (name, seed) for name in ("bibtex_nce", "bibtex_nce_local") for seed in (1, 2)
    ]
    same = "--seeds 1 --suffix _local --extra --report_to none --model_name_or_path=model --global_size 0"
    assert run_recipes(same) == run_recipes("--seeds 1 --suffix _local") == []  # what is there is shown
    printed = capsys.readouterr().out
    assert (
        "| bibtex_nce_local | 2 | 50.00 ± 0.00 |" in printed and "has seeds 1, which are not trained again" in printed
    )
    assert run_recipes(f"--results {tmp_path / 'anew'} --seeds 1") == [("bibtex_nce", 1)]
