"""benchmarks/results_page.py and benchmarks/pages/: what is chosen, paired, counted and written, on toy runs; and what
the pages say, on the runs in the repository."""

import ast
import json
import re
import statistics
import sys
from pathlib import Path

import numpy as np
import pytest

from seal_hf.lab.compare.runner import Runs
from seal_hf.lab.compare.statistics import Rows
from seal_hf.tasks.labels.compare import COMPARED, DECODERS, METRIC

ROOT = Path(__file__).resolve().parents[2]
OURS = ("pages", "results_page", "results_store", "results_texts", "run_recipes", "defaults", "text_screen")


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import results_page

    yield results_page
    for name in [name for name in sys.modules if name.split(".")[0] in OURS]:
        del sys.modules[name]


@pytest.fixture
def runs(page):
    from pages import runs

    return runs


@pytest.fixture
def tables(page):
    from pages import label_tables

    return label_tables


@pytest.fixture
def store(runs, tmp_path, monkeypatch):
    """Results of a test, in place of the repository's."""
    monkeypatch.setattr(runs, "STORE", runs.Store(tmp_path / "results"))
    return runs.STORE


@pytest.fixture
def compared(store, tmp_path):
    """Puts a comparison's runs, by method, into the results: each run is its F1 on validation and on test."""
    from results_store import pack

    def run(seed, figures):
        if isinstance(figures, dict):
            return {"seed": seed, **figures}
        validation, test = figures
        values = {f"eval_{key}": validation for key in DECODERS} | {f"test_{key}": test for key in DECODERS}
        rows = {key: Rows.of_mean(np.full(4, test)).as_text() for key in (*COMPARED, "f1_example")}
        return {"seed": seed, "test_rows": rows, "train_seconds_per_epoch": 1.0, **values}

    def put(name, found, **identity):
        runs = Runs(tmp_path / name)
        runs.save_identity({"data": "toy", "budget": 8, **identity})
        for method, each in found.items():
            for seed, figures in enumerate(each, 1):
                runs.save(method, seed, run(seed, figures))
        pack(store, runs.folder, conflict="replace")

    return put


@pytest.fixture
def recipes(store):
    """Puts runs of recipes into the results: name -> values of a key by seed."""

    def put(key, extra=(), **found):
        lines = [
            {"name": name, "recipe": recipe, "seed": seed, key: value, "extra": list(extra)}
            for name, (recipe, values) in found.items()
            for seed, value in enumerate(values, 1)
        ]
        store.add({("", "recipes"): lines})

    return put


def cells(text, *start):
    """The cells behind these in the one row that begins with them."""
    found = [line for line in text.splitlines() if line.startswith("| " + " | ".join(start) + " |")]
    assert len(found) == 1, found
    return [cell.strip() for cell in found[0][1:-1].split("|")][len(start) :]


def test_differences_are_paired_by_seed(runs):
    ours, theirs = {1: {"f": 0.5}, 2: {"f": 0.4}, 3: {"f": 0.9}}, {2: {"f": 0.39}, 3: {"f": 0.85}, 4: {"f": 0.0}}
    found = runs.gain(ours, theirs, "f")
    assert found == pytest.approx((3.0, statistics.stdev([1.0, 5.0]), 2, 2))
    assert (str(found), found.won) == ("+3.00 ± 2.83", "2 of 2")
    assert str(runs.gain(ours, {1: {"f": 0.6}}, "f")) == "-10.00 (1 seed)"
    assert runs.gain(ours, {9: {"f": 0.6}}, "f") is None and runs.gain_cells(None) == ["-", "-"]
    assert runs.gain({1: {"a": 0.5, "b": 0.2}}, {1: {"b": 0.2}}, "a", "b").mean == pytest.approx(30)
    assert runs.figure(ours, "f") == "60.00 ± 26.46"


def test_what_is_added_to_a_tuned_model_and_what_validation_chooses(compared, tables):
    compared(
        "bibtex_held",
        {"ce": [(0.5, 0.4), (0.5, 0.5)], "nce": [(0.6, 0.7)], "nce_balanced": [(0.5, 0.5), (0.7, 0.8)]},
    )
    compared("cal500_held", {"ce": [(0.5, 0.4), (0.5, 0.5)], "nce": [(0.45, 0.5), (0.45, 0.6)]})
    text = tables.beside(("bibtex", "cal500"))
    assert cells(text, "bibtex", "`nce`") == ["+30.00 (1 seed)", "1 of 1"] * 2 + ["1.00"]  # of one seed: not chosen
    assert cells(text, "bibtex", "**`nce_balanced`**") == ["+20.00 ± 14.14", "2 of 2"] * 2 + ["1.00"]
    assert cells(text, "cal500", "`nce`") == ["+10.00 ± 0.00", "2 of 2"] * 2 + ["1.00"]  # better on test alone
    assert cells(text, "mean of 2") == ["what validation chooses", "+10.00", "", "+10.00", "", ""]


def test_equal_searches_compare_what_validation_chooses_with_the_best_on_test(compared, tables, monkeypatch):
    compared(
        "a_finals",
        {
            "ce": [(0.6, 0.5)] * 2,
            "focal": [(0.5, 0.6)] * 2,
            "nce": [(0.9, 0.55)] * 2,
            "margin": [(0.5, 0.9)] * 2,
        },
    )
    compared("b_finals", {"ce": [(0.5, 0.4)] * 2, "nce": [(0.6, 0.5)] * 2})
    monkeypatch.setattr(tables, "SEARCHED", {"a": "a_finals", "b": "b_finals"})
    monkeypatch.setattr(tables, "VARIANTS", {})
    text = tables.equal_search(METRIC)
    ours = ["`ce` 50.00 ± 0.00 (2)", "`nce` 55.00 ± 0.00 (2)", "-5.00 [-5.00, -5.00] to `focal`"]
    assert cells(text, "a") == ours
    assert cells(text, "mean of 2")[-1] == "+2.50"


def test_a_comparison_that_was_chosen_at_one_half_is_tested_there(compared, page):
    from pages import archive

    compared("cal500_half", {"ce": [(0.5, 0.4)] * 2, "nce": [(0.6, 0.5)] * 2}, metric="f1_example")
    assert archive.table_of("cal500_half")["decoder"] == "f1_example"
    assert archive.kind_of("cal500_half") is None and archive.kind_of("cora_rules_50") == "rewards tagging"


def test_one_method_everywhere_is_measured_by_cross_entropy_with_its_seeds(compared, tables):
    gains = {"bibtex": 0.04, "cal500": -0.01, "genbase": 0.0, "seq_fun": 0.01}
    for name, gain in gains.items():
        found = {"ce": [(0.5, 0.4), (0.5, 0.9)], "nce": [(0.5, 0.4 + gain)]}
        compared(name, found | ({"margin": [(0.5, 0.5)]} if name == "bibtex" else {}))
    for name in ("delicious_searched", "spo_fun"):
        compared(name, {"ce": [(0.5, 0.4)]})
    (text,) = tables.for_all().values()  # `margin` has one data set
    assert cells(text, "`nce`", "SEAL-dynamic, NCE") == ["4", *["+1.00 (-1.00)"] * 2, "1.00"]


def test_commands_say_methods_seeds_and_settings_of_the_runs(compared, tables):
    from pages.label_tables import read_recipe

    sizes = {"labels": 500, "train": 1, "validation": 1, "test": 1, "contents": "0a1b", "flags": ""}
    recipe = {key: str(value) for key, value in read_recipe(ROOT / "recipes/mlc/spo_fun_ce.yaml").items()}
    identity = {"data": "spo_fun", **sizes, "metric": "f1_example", **recipe, "keep_root": "true"}
    found = {method: [{}] * seeds for method, seeds in (("nce", 2), ("ce", 2), ("focal", 1))}
    compared("spo_fun_root", found, **identity)
    _, both, one, _ = tables.commands("spo_fun_root").splitlines()
    flags = "--recipe recipes/mlc/spo_fun_ce.yaml --keep_root true --budget 8 --metric f1_example"
    assert both.endswith(f"compare/spo_fun_root {flags} --losses ce nce --seeds 1 2")
    assert one.endswith(f"{flags} --losses focal --seeds 1")
    assert tables.searched("spo_fun_root") == "Each method had 8 trials of search on validation, scored by one seed."
    compared("spo_fun_root", found, **identity, finalists=3, held="dropout learning_rate")
    assert f"{flags} --finalists 3 --hold dropout learning_rate --losses ce" in tables.commands("spo_fun_root")
    assert "best 3 trials ran with two more seeds" in tables.searched("spo_fun_root")
    assert "left dropout and learning_rate as they were" in tables.searched("spo_fun_root")
    compared("spo_fun_root", found, **identity | {"budget": 0})
    assert tables.searched("spo_fun_root").startswith("No method was searched")


def test_comparisons_of_texts_have_a_summary_and_their_commands(compared, runs):
    from pages import text_screens

    assert text_screens.in_short("frozen") == ""
    found = {"ce": [(0.5, 0.4), (0.5, 0.5)], "mutual": [(0.4, 0.5)] * 2, "nce": [(0.6, 0.6), (0.6, 0.6)]}
    for data in ("xed_en", "hoc"):
        compared(f"{data}_frozen", found, budget=6)
    compared("semeval2018_ec_frozen", {"ce": found["ce"]}, budget=6)
    text = text_screens.in_short("frozen")  # hoc is a control, semeval2018_ec has no SEAL method
    assert cells(text, "xed_en") == ["45.00 ± 7.07", "`ce` 45.00 ± 7.07", "`nce` 60.00 ± 0.00", "+15.00 ± 7.07"]
    assert cells(text, "mean of the 1")[-1].startswith("+15.00") and "hoc" not in text
    summary = text_screens.text_screen.summary(runs.STORE, "frozen", METRIC)
    assert cells(summary, "SEAL to baseline, by validation", "controls")[0].startswith("+15.00")
    command = text_screens.command("hoc_frozen").splitlines()[1]
    assert command.partition("size 64 ")[2] == "--losses ce mutual nce --seeds 1 2 --budget 6 --sets hoc"
    assert text_screens.command("bibtex_held") == ""


def test_recipes_are_compared_with_each_baseline_seed_by_seed(recipes, page):
    from pages import recipe_tables

    values = {"ce": [0.7, 0.8, 0.9], "soft_iou": [0.72, 0.82, 0.92], "nce": [0.71, 0.83], "nce_w1": [0.5]}
    found = {f"weizmann_{name}": (f"weizmann_{name.removesuffix('_w1')}", each) for name, each in values.items()}
    one = found.pop("weizmann_nce_w1")
    recipes("test_mean_iou", **found)
    recipes("test_mean_iou", ["--energy_weight", "1", "--report_to", "none"], weizmann_nce_w1=one)
    names = recipe_tables.names("weizmann_*", "weizmann_soft_iou")
    assert names[0] == "weizmann_soft_iou"
    text = recipe_tables.table_of(
        names,
        {"IoU": "test_mean_iou"},
        {"weizmann_ce": "cross-entropy", "weizmann_soft_iou": "soft IoU"},
        "test_mean_iou",
    )
    nce = ["2", "77.00 ± 8.49", "+2.00 ± 1.41", "2 of 2", "+0.00 ± 1.41", "1 of 2"]
    assert cells(text, "`weizmann_nce`: NCE on independent pixels") == nce
    assert cells(text, "`weizmann_ce`: cross-entropy")[2:] == ["-", "-", "-2.00 ± 0.00", "0 of 3"]
    assert cells(text, "`weizmann_nce_w1`: `--energy_weight 1`")[:2] == ["1", "50.00 (1 seed)"]
    assert "| difference to cross-entropy | seeds ahead | difference to soft IoU | seeds ahead |" in text
    assert recipe_tables.commands(names).splitlines()[1:-1] == [
        "python benchmarks/run_recipes.py recipes/segmentation/weizmann_soft_iou.yaml "
        "recipes/segmentation/weizmann_ce.yaml --data_dir PATH --seeds 1 2 3",
        "python benchmarks/run_recipes.py recipes/segmentation/weizmann_nce.yaml --data_dir PATH --seeds 1 2",
        "python benchmarks/run_recipes.py recipes/segmentation/weizmann_nce.yaml --data_dir PATH --seeds 1 "
        "--suffix _w1 --extra --energy_weight 1",
    ]


def test_gains_of_defaults_are_means_over_data_sets_by_seed(store, runs, page):
    from pages import gains, label_recipes

    def put(data, loss, seed, half, calibrated, **more):
        line = {"name": data, "loss": loss, "seed": seed, runs.AT_HALF: half, runs.CALIBRATED: calibrated}
        store.add({("", "defaults"): [line | more]})

    for data, seeds in {
        "genbase": 2,
        "hoc": 2,
        "go_emotions": 2,
        "seq_fun": 1,
        "cal500": 2,
        "synthetic_200": 2,
    }.items():
        for seed in range(1, seeds + 1):
            high = 0.2 * (data == "go_emotions")
            way = label_recipes.plain_way(data)
            linear = {f"test_f1_{mean}_linear_encoder": 0.5 for mean in ("example", "macro") if data != "hoc"}
            put(data, way, seed, 0.1 * seed + high, 0.5 + high, test_f1_example_decided=0.6, **linear)
    # the rule was found on cal500, texts of a program count nowhere, and seq_fun has fewer seeds
    assert [gains._data_sets(family) for family in ("Features", "Texts")] == [["genbase"], ["hoc", "go_emotions"]]
    page = "[defaults](docs/results/defaults.md)"
    linear = gains._linear(1000).cells("docs/results/")
    assert linear[1:] == [
        "texts, 1,000 rows, F1: go_emotions",
        "50.00 ± 0.00",
        "60.00 ± 0.00",
        "+10.00 ± 0.00",
        "2",
        page,
    ]
    assert gains._linear(300).seeds() == []
    plain, soft = label_recipes.SOFT_F1
    for name in label_recipes.TEXTS:
        put(name, plain, 3, 0.2, 0.4, test_f1_example_linear_encoder=0.5, test_f1_macro_linear_encoder=0.1)
        put(name, soft, 3, 0.3, 0.6, test_f1_example_decided=0.7)  # the regression is that of the other loss
    decided = "texts, 1,000 rows, F1: mean of 6 data sets"
    assert gains._decisions().cells("")[1:6] == [decided, "20.00", "60.00", "+40.00 (1 seed)", "1"]
    put("go_emotions", soft, 1, 0.3, 0.6), put("go_emotions", soft, 2, 0.3, 0.6), put("hoc", soft, 1, 0.3, 0.6)
    put("hoc", soft, 2, 0.3, 0.6)
    assert gains._linear(1000).cells("")[1:6] == [decided, "50.00", "70.00", "+20.00 (1 seed)", "1"]


def test_a_net_without_a_regression_is_the_net_alone(store, runs, page):
    from pages import gains

    both = {"test_f1_example_linear_features": 0.5, "test_f1_macro_linear_features": 0.2, "test_f1_macro_decided": 0.3}
    alone = {"test_f1_example_net_alone": 0.55, "test_f1_macro_net_alone": 0.25}
    for seed, more in ((1, alone), (2, {})):
        line = {"name": "genbase", "loss": "ce", "seed": seed, "test_f1_example_decided": 0.6, **both, **more}
        store.add({("", "defaults"): [line]})
    row = gains._in_the_net(["genbase"])
    assert row.before == pytest.approx({1: 55.0, 2: 60.0}) and row.ours == pytest.approx({1: 60.0, 2: 60.0})


def test_a_gain_of_recipes_is_over_the_seeds_of_both(recipes, page):
    from pages import gains

    recipes("test_f1", srl_ewt_ce=("srl_ewt_ce", [0.6, 0.5]), srl_ewt_crf=("srl_ewt_crf", [0.65]))
    row = gains._recipe("a CRF", "roles, F1", "srl_ewt_ce", "srl_ewt_crf", "test_f1", "roles").cells("")
    assert row[3:] == ["65.00", "+5.00 (1 seed)", "1", "[roles](roles.md)"]


def test_differences_are_counted_after_a_correction_for_their_number(page):
    from pages.few_labels import clear

    said = "{} of these {} differences have p < 0.05 over seeds, {} of them also after Holm's correction for {} tests."
    words = lambda values: " ".join(clear(values).split())  # noqa: E731
    assert words([0.2, 0.001, float("nan"), 0.02]) == said.format(2, 3, 2, 3)  # 0.001 < 0.05 / 3, 0.02 < 0.05 / 2
    assert words([0.03, 0.04]) == said.format(2, 2, 0, 2)  # the smallest is above 0.05 / 2, so none holds


def test_a_table_is_written_between_its_marks(page, tmp_path):
    file = Path("README.md")
    (tmp_path / file).write_text("# A\n<!-- gains -->\n| old |\n\nmore\n<!-- /gains -->\nrest\n")
    text = page.with_tables(file, tmp_path, gains="| new |")
    assert text == "# A\n<!-- gains -->\n\n| new |\n\n<!-- /gains -->\nrest\n"
    (tmp_path / file).write_text(text)
    assert page.with_tables(file, tmp_path, gains="| new |") == text
    for text in ("# A\n", "<!-- gains -->\n", "<!-- /gains -->\n<!-- gains -->\n"):
        (tmp_path / file).write_text(text)
        with pytest.raises(ValueError, match="README.md lacks the lines <!-- gains --> and <!-- /gains -->"):
            page.with_tables(file, tmp_path, gains="")


def test_check_names_pages_that_differ_are_missing_or_are_no_longer_made(page, tmp_path, monkeypatch):
    a, b, old = (page.PAGES / f"{name}.md" for name in ("a", "b", "old"))
    found = {a: "A\n", b: "B\n"}
    (tmp_path / page.PAGES).mkdir(parents=True)
    (tmp_path / a).write_text("A, edited\n")
    (tmp_path / old).write_text("")
    assert page.stale(found, tmp_path) == [a, b, old]
    page.write(found, tmp_path)
    assert page.stale(found, tmp_path) == [] and not (tmp_path / old).exists()
    assert (tmp_path / a).read_text() == "A\n"
    monkeypatch.setattr(page, "pages", lambda: {Path("README.md"): "changed"})
    monkeypatch.setattr(page, "stale", lambda found: [a, Path("README.md")])
    monkeypatch.setattr(sys, "argv", ["results_page.py", "--check"])
    with pytest.raises(SystemExit, match="docs/results/a.md, README.md and the runs disagree. Run python"):
        page.main()


def test_prose_is_filled_by_paragraph_and_by_item(page):
    from pages.markdown import prose

    text = f"\n  One\n  two.\n\n  - {'word ' * 30}\n    end.\n  - b\n\n  Last.\n"
    lines = prose(text).split("\n")
    assert lines[:2] == ["One two.", ""] and lines[-3:] == ["- b", "", "Last."]
    assert lines[2].startswith("- word") and lines[3].startswith("  word") and max(map(len, lines)) <= 118


# Of the runs in the repository. That the pages' figures are theirs, `results_page.py --check` says in CI.


ARCHIVE = ROOT / "recipes" / "pages"


def written(folder=ROOT / "docs" / "results"):
    return {file.stem: file.read_text(encoding="utf-8") for file in folder.glob("*.md")}


def test_the_archive_has_all_raw_runs_and_their_commands(runs, page):
    from pages import recipe_tables

    pages = written(ARCHIVE)
    assert pages.keys() - {"README"} >= {*runs.STORE.comparisons().values()}
    assert [name for name, data in runs.STORE.comparisons().items() if f"\n## {name}\n" not in pages[data]] == []
    text = "\n".join(pages.values())
    hidden = []
    for name, found in runs.STORE.recipes().items():
        recipe, seeds = recipe_tables.recipe_of(name), " ".join(str(run["seed"]) for run in found)
        end = f"--seeds {seeds}" + f" --suffix {name.removeprefix(recipe.stem)} " * (name != recipe.stem)
        lines = [line for line in text.splitlines() if f"{recipe.parent.name}/{recipe.name} " in line]
        if not any(f"{line} ".count(f"{end} ".replace("  ", " ")) for line in lines):
            hidden.append(name)
    assert hidden == []


def test_the_commands_of_recipes_are_those_of_the_runs_on_file(page, monkeypatch, capsys):
    """Each runs as it stands on its page, and finds all of its runs, so that it trains nothing."""
    import run_recipes

    monkeypatch.setattr(run_recipes, "run", lambda *given: pytest.fail(f"{given} would be trained"))
    monkeypatch.setattr(run_recipes, "write_heads", list)
    monkeypatch.setattr(run_recipes, "table", str)
    monkeypatch.chdir(ROOT)
    commands = {
        line
        for text in written(ARCHIVE).values()
        for line in re.findall(r"^python (benchmarks/run_rec.*)$", text, re.M)
    }
    for command in commands:
        monkeypatch.setattr(sys, "argv", command.split())
        run_recipes.main()
    assert len(commands) > 30 and "which are not trained again" in capsys.readouterr().out


def test_pages_lead_somewhere():
    found = written()
    for name, text in found.items():
        assert text.startswith("# ") and text.count("\n# ") == 0, name
        assert all(link in found for link in re.findall(r"\]\(([\w-]+)\.md\)", text)), name
        assert "recipes/pages/README.md" in text, name
    contents = re.search(r"(?s)```\{toctree\}\n(.*?)```", found["index"])[1].split()
    assert {*contents} >= found.keys() - {"index"}
    archive = written(ARCHIVE)
    assert {*re.findall(r"\]\(([\w-]+)\.md\)", archive["README"])} == archive.keys() - {"README"}


def test_figures_in_sentences_are_computed():
    """No text of the pages' modules holds a figure with two decimals."""
    for file in (ROOT / "benchmarks" / "pages").glob("*.py"):
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        assert [text for text in texts if re.search(r"\d\.\d\d", text)] == [], file.name


def test_what_the_summary_says_holds_of_the_runs(runs, page):
    from pages import few_labels, label_recipes, label_tables, structures, summary

    mean = lambda name, key: statistics.mean(run[key] for run in runs.of_recipe(name).values())  # noqa: E731
    sets = label_tables.SETS
    assert all(summary._decoder(name).mean > 5 for name in sets if name != "genbase")
    gains = {name: label_tables.beside_gain(name, "nce_balanced") for name in sets}
    helped = {name for name, gain in gains.items() if gain.mean > gain.std and gain.ahead >= 0.9 * gain.seeds}
    assert helped == {"bibtex", "seq_fun"} and all(gains[name].mean < 0.1 for name in set(sets) - helped)
    held = {name: runs.stored(f"{name}_held").all().keys() - {"constant", "ce"} for name in set(sets) - helped}
    keys = (runs.TUNED, runs.CALIBRATED)
    others = [label_tables.beside_gain(name, each, key).mean for name in held for each in held[name] for key in keys]
    assert max(others) < 0.21
    for part, whole in label_recipes.parts_of_energies().items():
        gain = runs.gain(runs.of_recipe(whole), runs.of_recipe(part), runs.TUNED)
        assert abs(gain.mean) < gain.std or part.endswith("pairwise"), part
    assert mean("go_emotions_nce", runs.TUNED) < mean("go_emotions_ce", runs.TUNED)
    half = [statistics.mean(run[runs.AT_HALF] for run in runs.of_method("cal500_half", each).values())
            for each in ("asymmetric", "nce", "ce")]  # fmt: skip
    assert half == sorted(half, reverse=True) and half[0] > half[1] + 0.05
    roles = {loss: mean(f"srl_ewt_{loss}", f"test_f1{runs.SCHEME}") for loss in structures.ROLES}
    assert min(roles["crf"], roles["crf_nce"]) > 0.03 + max(roles[loss] for loss in ("ce", "nce", "unique_roles"))
    sets = [f"{data}_finetuned" for data in ("semeval2018_ec", "xed_en", "brighter_eng")]
    found = [{method: runs.of_method(name, method) for method in ("ce", "zlpr")} for name in sets]
    of_default = [
        (runs.of_method(name, "default"), runs.of_method(name, "ce")) for name in (*sets, "valueeval23_finetuned")
    ]
    pairs = [(ours[seed], run) for ours, plain in of_default for seed, run in plain.items()]
    assert (sum(ours["test_rows"] == plain["test_rows"] for ours, plain in pairs), len(pairs)) == (17, 20)
    zlpr = [statistics.mean(runs.gain(each["zlpr"], each["ce"], key).mean for each in found)
            for key in (runs.TUNED, runs.CALIBRATED)]  # fmt: skip
    assert 0.4 < zlpr[0] < 0.6 and 0.15 < zlpr[1] < 0.35
    masks = {loss: mean(f"weizmann_{loss}_bf16", "test_mean_iou") for loss in structures.MASKS}
    assert max(masks, key=masks.get) == "soft_iou" and masks["nce"] < masks["ce"] < masks["ranking_field"]
    others = [name for name in runs.STORE.recipes() if name.startswith("weizmann") and "dvn" not in name]
    assert mean("weizmann_dvn", "test_mean_iou") < min(mean(name, "test_mean_iou") for name in others)
    rules = [mean(f"cora_few_contrastive_divergence{end}", "test_accuracy") for end in few_labels.TAGGED.values()]
    assert all(value > 0.87 for value in rules)
    assert all(gain.mean < 0.3 for gain in structures.implicit_gains())


@pytest.fixture
def run_recipes(page, tmp_path, monkeypatch):
    """`main` of run_recipes.py on words of a command, with results in `tmp_path`; it returns the runs that it made."""
    import run_recipes

    made = []

    def run(recipe, seed, data_dir, extra, suffix, kept):
        made.append((recipe.stem, seed))
        if kept is not None:
            kept.mkdir(parents=True)
        return {"recipe": recipe.stem, "seed": seed, "extra": run_recipes.said(extra), "test_f1_example": 0.5}

    store = run_recipes.Store(tmp_path)
    given = {"RESULTS": tmp_path, "STORE": store, "run": run, "write_heads": list}
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
    lines = [json.loads(line) for line in (tmp_path / "recipes.jsonl").read_text().splitlines()]
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


def test_a_run_on_file_is_trained_again_where_its_nets_are_asked_for(run_recipes, tmp_path):
    assert run_recipes("--seeds 1") == [("bibtex_nce", 1)]
    keep = f"--seeds 1 2 --keep {tmp_path / 'nets'}"
    assert run_recipes(keep) == [("bibtex_nce", 1), ("bibtex_nce", 2)] and run_recipes(keep) == []
    assert {folder.name for folder in (tmp_path / "nets").iterdir()} == {"bibtex_nce_1", "bibtex_nce_2"}
