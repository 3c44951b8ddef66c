"""`report.html` of a run. Oracles: the JSON files beside it, a finished run against an interrupted one, a browser."""

import html
import json
import re
import shutil
import signal
import sys

import pytest
from markupsafe import Markup, escape
from page_reader import LIMIT, Reader, check_requests, in_browser, table_with, tables

from seal_hf import SealTrainer
from seal_hf.cli import report
from seal_hf.cli.programs import run_program
from seal_hf.cli.train.closing import command_of
from seal_hf.reports.page import Number, Page, Section, Table, render
from seal_hf.reports.plots import COLOURS, lines, points
from seal_hf.reports.run_page import MOST_POINTS, training_section
from seal_hf.tasks.labels import program as mlc

pytest.importorskip("matplotlib")

SMALL = (
    "--use_cpu true --disable_tqdm true --report_to none --max_train_rows 60 --hidden_size 8 --num_train_epochs 2 "
    "--logging_steps 1 --per_device_train_batch_size 30"
).split()


def run(folder, *words):
    mlc.main([*SMALL, "--output_dir", str(folder), *words])
    return folder


def read(folder, name):
    return json.loads((folder / name).read_text(encoding="utf-8"))


def page_of(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, drawings):
    """The folder of a finished run. Tests do not change it."""
    with drawings():
        return run(tmp_path_factory.mktemp("finished") / "digits_nce")


def test_the_numbers_are_those_of_the_files(finished):
    page, results = page_of(finished), read(finished, "all_results.json")
    names = read(finished, "_report.json")["facts"]["figures"]["names"]
    figures = {row["figure"]: row for row in table_with(page, "figure")}
    for split, column in {"eval": "validation", "test": "test"}.items():
        keys = {key: key.removeprefix(f"{split}_") for key in results if key.startswith(f"{split}_")}
        expected = {names[key]: results[whole] for whole, key in keys.items() if key in names}
        assert len(expected) > 10
        assert {name: row[column] for name, row in figures.items()} == pytest.approx(expected, abs=1e-9)

    log = read(max(finished.glob("checkpoint-*")), "trainer_state.json")["log_history"]
    losses = {entry["step"]: entry["task_loss"] for entry in log if "task_loss" in entry}
    found = {row["step"]: row["training"] for row in table_with(page, "step", "training") if row["training"] != "-"}
    assert len(found) == 4 and found == pytest.approx(losses, rel=1e-9)
    assert {"fact": "task loss", "value": "cross_entropy"} in table_with(page, "fact")
    settings = {row["setting"]: row["value"] for row in table_with(page, "setting")}
    assert json.loads(settings["learning_rate"]) == 1e-3 and json.loads(settings["dataset"]) == "digits"


def test_the_saved_decision_is_marked_and_the_command_repeats_the_run(finished):
    page, decoder = page_of(finished), read(finished, "config.json")["decisions"]["decoder"]
    marked = re.findall(r'<tr class="marked">\s*<td[^>]*>([^<]*)', page)
    keys = read(finished, "_report.json")["facts"]["figures"]
    assert marked[0].startswith(f"{decoder}: ") and marked[1] == keys["names"][keys["chosen"]]
    grid = {row["decision"].split(":")[0]: row for row in table_with(page, "decision")}
    results = read(finished, "all_results.json")
    beside = {name for name in grid if name.startswith(("logistic regression", "net without"))}  # two figures of each
    assert all((value != "-") or name in beside for name, row in grid.items() for value in row.values())
    assert grid["threshold"]["micro F1"] == pytest.approx(results["test_f1_micro_tuned"], abs=1e-9)
    assert grid["fixed"]["exact match"] == pytest.approx(results["test_exact_match"], abs=1e-9)
    assert f"{' '.join(SMALL)} --output_dir {finished}</pre>" in page
    assert "The run is complete: 4 steps." in page


def test_three_cards_answer_first_and_the_title_names_data_and_model(finished):
    page = page_of(finished)
    sentences = read(finished, "config.json")["verdict"]["sentences"]
    shown = [re.sub("<[^>]*>", "", card) for card in re.findall(r'<div class="card">(.*?)</div>', page, re.DOTALL)]
    assert [card.split("<")[0] for card in re.findall(r"<h3>(.*)</h3>", page.replace("</h3>", "</h3>\n"))][:3] == [
        "The score and the saved rule", "What the loss-net did", "What to try next"
    ]  # fmt: skip
    score = f"{read(finished, 'all_results.json')['test_f1_example_decided']:.4f}"
    said = [str(escape(sentence.removeprefix("Next: ")[1:])).replace("`", "") for sentence in sentences]
    assert score in shown[0] and all(sentence in "".join(shown) for sentence in said)
    assert page.index('class="cards"') < page.index("<table") and "<h1>digits: " in page and " on MLP</h1>" in page


def test_a_curve_that_never_changes_is_not_drawn():
    log = [{"step": step, "learning_rate": 0.001, "task_loss": 1.0 / step} for step in range(1, 5)]
    section = training_section(log, None)
    assert [part.caption for part in section.parts if not isinstance(part, str)] and len(section.parts) == 3
    assert section.parts[-1] == "Not drawn, because they never changed: learning rate, task-net: 0.001."


def test_errors_can_be_filtered_and_saved_in_a_browser(tmp_path):
    rows = [{"text": "a, b", "n": 1.0}, {"text": "=1+1", "n": -2.0}, {"text": 'c "d"', "n": 3.0}]
    page = render(Page("errors", [Section("Errors", [Table(rows, saved_as="errors.csv")])]))
    script = """
      let saved;
      const text = (link) => decodeURIComponent(link.href.split(",")[1]);
      HTMLAnchorElement.prototype.click = function () { saved = this.download + text(this); };
      const field = document.querySelector(".tools input");
      const seen = () => [...document.querySelectorAll("tbody tr")].filter((row) => !row.hidden).length;
      field.value = "C "; field.dispatchEvent(new Event("input")); const one = seen();
      field.value = ""; field.dispatchEvent(new Event("input"));
      document.querySelector(".tools button").click();
      document.title = [one, seen(), saved.replace("\\ufeff", "|").replaceAll("\\r\\n", "/")].join(" ");
    """
    title = in_browser(page, script, tmp_path)
    expected = '1 3 errors.csv|"text","n"/"a, b","1.0000"/"\'=1+1","-2.0000"/"c ""d""","3.0000"/'
    assert html.unescape(title) == expected


@pytest.mark.usefixtures("drawn")
def test_the_page_requests_nothing_and_is_written_again_as_it_was(finished, capsys):
    page = page_of(finished)
    check_requests(page)
    report.main([str(finished)])
    assert capsys.readouterr().out.strip() == str(finished / "report.html") and page_of(finished) == page


def test_the_figures_of_another_run_stand_beside(finished, tmp_path):
    other = run(tmp_path / "plain", "--loss", "ce", "--num_train_epochs", "1", "--report", "false")
    assert not (other / "report.html").exists() and read(other, "_report.json")["loss"] == "ce"
    copy = shutil.copytree(finished, tmp_path / "copy")
    report.main([str(copy), "--beside", str(other)])
    row = {row["figure"]: row for row in table_with(page_of(copy), "figure")}["example F1 at 0.5"]
    theirs, ours = read(other, "all_results.json"), read(finished, "all_results.json")
    expected = {"test": ours["test_f1_example"], "test, plain": theirs["test_f1_example"]}
    assert {name: row[name] for name in expected} == pytest.approx(expected, abs=1e-9)
    assert "do not compare" not in page_of(copy)
    facts = read(other, "_report.json")
    facts["settings"]["eval_data"] = "other rows"
    (other / "_report.json").write_text(json.dumps(facts))
    report.main([str(copy), "--beside", str(other)])
    assert "other validation rows, so the figures do not compare" in page_of(copy)
    with pytest.raises(ValueError, match="has no all_results.json with such figures. Give the folder of a finished"):
        report.main([str(copy), "--beside", str(tmp_path)])


def test_decisions_with_the_figures_of_another_one_are_named(finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "copy")
    grid = read(copy, "_report.json")["facts"]["figures"]["grid"]
    same = {
        f"test_{start}{grid['decisions'][name]}": 0.5 for name in grid["decisions"] for start in grid["kinds"].values()
    }
    (copy / "all_results.json").write_text(json.dumps(read(copy, "all_results.json") | same))
    report.main([str(copy)])
    first, *others = (name.split(":")[0] for name in grid["decisions"])
    chosen = next(name for name, end in grid["decisions"].items() if end == grid["chosen"]).split(":")[0]
    assert [row["decision"].split(":")[0] for row in table_with(page_of(copy), "decision")] == [first, chosen]
    others.remove(chosen)
    assert f"Left out, since their figures are those of a row here: {', '.join(others)}." in page_of(copy)


def test_an_interrupted_run_leaves_a_page_and_a_refused_one_leaves_the_page_as_it_is(finished, tmp_path, monkeypatch):
    copy = shutil.copytree(finished, tmp_path / "copy")
    before = page_of(copy), (copy / "_report.json").read_text()
    with pytest.raises(ValueError, match="is of another run"):
        run(copy, "--resume_from_checkpoint", "last", "--learning_rate", "0.5")
    assert (page_of(copy), (copy / "_report.json").read_text()) == before

    step = SealTrainer.training_step

    def interrupted(self, *args, **kwargs):
        if self.state.global_step == 3:
            assert not (copy / "report.html").exists()  # that of the earlier run, which a push would take along
            signal.raise_signal(signal.SIGTERM)
        return step(self, *args, **kwargs)

    monkeypatch.setattr(SealTrainer, "training_step", interrupted)
    with pytest.raises(SystemExit):
        run_program(lambda: run(copy, "--overwrite_output_dir", "true"))
    page = page_of(copy)
    assert "The run was interrupted: Terminated. It made 3 of 4 steps." in page
    assert Reader(page).sections == ["what-was-run", "training"]  # the figures in the folder are of the other run
    assert [row["step"] for row in table_with(page, "step", "training")] == [1, 2, 3]


def test_a_killed_run_has_the_page_of_its_last_checkpoint(finished, tmp_path):
    folder = tmp_path / "killed"
    shutil.copytree(min(finished.glob("checkpoint-*")), folder / "checkpoint-4")
    report.main([str(folder)])
    page = page_of(folder)
    assert "its last checkpoint is that of 4 of 4 steps" in page and "digits: nce" in page
    assert Reader(page).sections == ["what-was-run", "training"]


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "holds no run. Expected the output folder of a run, with _report.json or a checkpoint"),
        ("{", "_report.json is not readable as JSON"),
        ('{"step": 1}', "_report.json lacks ended, log, steps"),
        (
            '{"step": 1, "steps": 1, "ended": "", "log": [], "facts": {"labels": {}}}',
            "_report.json, or a file beside it, is not as this version of seal_hf writes it",
        ),
        ('{"step": "1", "steps": 1, "ended": "", "log": {}}', "_report.json lacks log, step, or holds something else"),
        ('{"step": 1, "steps": 1, "ended": "", "log": [1]}', "is not as this version of seal_hf writes it"),
        ('{"step": 1, "steps": 1, "ended": "", "log": [], "rows": [1]}', "is not as this version of seal_hf writes"),
    ],
)
def test_a_folder_without_a_run_is_refused(content, message, tmp_path):
    if content is not None:
        (tmp_path / "_report.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        report.main([str(tmp_path)])


def test_without_matplotlib_one_line_says_how_to_get_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run(tmp_path, "--max_steps", "1")
    said = [line for line in capsys.readouterr().out.splitlines() if "report.html" in line]
    assert len(said) == 1 and "pip install 'seal_hf[plot]', then: seal-hf report" in said[0]
    assert not (tmp_path / "report.html").exists() and (tmp_path / "_report.json").is_file()
    with pytest.raises(ValueError, match=r"pip install 'seal_hf\[plot\]'"):
        report.main([str(tmp_path)])
    monkeypatch.undo()
    report.main([str(tmp_path)])
    assert Reader(page_of(tmp_path)).sections[-1] == "errors"


def test_cross_entropys_trial_stands_beside_the_best_one(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "tuned")
    trials = [(None, 0.61), (0.0, 0.58), (0.3, 0.66), (0.0, 0.6), (1.0, None)]
    content = {
        "metric": "f1_example_tuned",
        "trials": [{"settings": {"learning_rate": 1e-3, "energy_weight": w}, "value": value} for w, value in trials],
    }

    def pages(best):
        (folder / "tuning.json").write_text(json.dumps(content | {"best": best}))
        report.main([str(folder)])
        return page_of(folder)

    assert "tuning" not in pages(3) and "trial" not in pages(3)  # a file of another run: this one was not tuned
    (folder / "_report.json").write_text(json.dumps(read(folder, "_report.json") | {"tuned": True}))
    page = pages(3)
    two, every = (rows for rows in tables(page) if rows and "trial" in rows[0])
    assert [(row["trial"], row["f1_example_tuned"]) for row in two] == [(3, 0.66), (4, 0.6)]
    assert [row["energy_weight"] for row in every] == ["rule", 0, 0.3, 0, 1] and every[-1]["f1_example_tuned"] == "-"
    content["trials"][3]["value"] = 0.7
    assert "The search chose λ1 = 0 (energy_weight), cross-entropy alone" in pages(4)


@pytest.mark.usefixtures("drawn")
def test_a_long_log_stays_small_and_its_last_step_is_kept():
    keys = "task_loss energy_share energy_gold energy_output energy_samples grad_norm loss_net_grad_norm".split()
    log = [{"step": step, **{key: 1.0 + step for key in keys}} for step in range(1, 10**5 + 1)]
    page = render(Page("long", [training_section(log, None)]))
    steps = [row["step"] for row in table_with(page, "step", "gold")]
    assert len(page) < LIMIT and len(steps) <= MOST_POINTS and steps[-1] == 10**5
    holes = [{"step": 1, "task_loss": float("nan")}, {"step": 2, "task_loss": None}, {"step": 3, "task_loss": 2.0}]
    assert table_with(render(Page("holes", [training_section(holes, None)])), "step") == [{"step": 3, "training": 2}]


# --- the page itself --------------------------------------------------------------------------------------------------

EVIL = "<script>document.title = 'run'</script>$x_1$\"'&"


@pytest.mark.usefixtures("drawn")
def test_text_from_data_is_text(tmp_path):
    table = Table([{EVIL: EVIL, "html": Markup("<b>bold</b>"), "n": Number(1.5, EVIL)}], caption=EVIL)
    drawn = points([1, 2], [1, 2], EVIL, EVIL)
    page = render(Page(EVIL, [Section(EVIL, [EVIL, table, Markup(drawn)])], lead=EVIL, foot=EVIL))
    assert page.count("<script>") == 1 and "<b>bold</b>" in page  # ours
    ((row,),) = tables(page)
    assert row == {EVIL: EVIL, "html": "bold", "n": 1.5}
    assert "&lt;script&gt;" in drawn and "$x_1$" in drawn  # no formula
    assert in_browser(page, "", tmp_path).startswith("&lt;script&gt;")


@pytest.mark.usefixtures("drawn")
def test_plots_have_the_pages_colours():
    series = {str(number): ([1, 2, 3], [1.0, 10.0, 100.0 + number]) for number in range(8)}
    drawn = [
        lines(series, "x", "y", marked={"a": 1, "b": 2}, logarithmic=True),
        lines(series, "x", "y", diagonal=True),
        points([1, 2000], [1, 2], "x", "y", counts=True),
        points([1, 2000], [1, 2], "x", "y", logarithmic_x=True),
    ]
    assert all(name not in svg for svg in drawn for name in COLOURS)
    assert {colour for svg in drawn for colour in re.findall(r"#[0-9a-fA-F]{3,8}\b", svg)} <= {
        found for svg in drawn for found in re.findall(r'(?:url\(|href=")(#[^")]+)', svg)
    }
    assert "var(--series-5)" in drawn[0] and "mathdefault" not in drawn[0]
    assert all("width=" not in svg.split(">")[0] and 'role="img"' in svg for svg in drawn)


@pytest.mark.usefixtures("drawn")
def test_points_have_names_that_do_not_stand_on_each_other():
    names = {0: "the first", 1: "the second", 2: "the third"}
    drawn = points([1, 1.01, 50], [1, 1, 50], "x", "y", names=names)
    assert "the first" in drawn and "the third" in drawn and "the second" not in drawn


def test_numbers_are_short_in_their_cells_and_whole_in_their_keys():
    values = [0.123456789, 12345.678, 1e-5, 1234567, None, float("nan"), True, "text", Number(2.0, "2 ± 1")]
    page = render(Page("numbers", [Section("n", [Table([{"v": value} for value in values])])]))
    ((_, body),) = Reader(page).tables
    texts = ["0.1235", "1.235e+04", "1e-05", "1,234,567", "-", "-", "yes", "text", "2 ± 1"]
    keys = ["0.123456789", "12345.678", "1e-05", "1234567", "", "", None, None, "2"]
    assert [row[0] for row in body] == list(zip(texts, keys, strict=True))


def test_a_table_of_many_rows_says_what_it_leaves_out():
    page = render(Page("many", [Section("n", [Table([{"v": i} for i in range(10_000)])])]))
    assert len(tables(page)[0]) == 1000 and "9,000 more rows are left out." in page


def test_a_click_sorts_a_table_in_a_browser(tmp_path):
    rows = [{"name": "b", "n": 9.5}, {"name": "a", "n": None}, {"name": "c", "n": 10.0}, {"name": "d", "n": -1}]
    page = render(Page("sorted", [Section("n", [Table(rows)])]))
    script = """
      const names = () => [...document.querySelectorAll("tbody tr")].map((row) => row.cells[0].textContent).join("");
      const heads = document.querySelectorAll("th button"), seen = [names()];
      for (const head of [heads[1], heads[1], heads[0], heads[0]]) { head.click(); seen.push(names()); }
      document.title = seen.join(" ");
    """
    assert in_browser(page, script, tmp_path) == "bacd cbda dbca dcba abcd"


def test_a_page_opens_in_a_browser_without_an_error(finished, tmp_path):
    """Wide and narrow: nothing is wider than the window, and all sections are there."""
    script = """
      const inside = document.documentElement.scrollWidth <= window.innerWidth;
      document.title = [inside, document.querySelectorAll("section").length, document.querySelectorAll("svg").length];
    """
    page = page_of(finished)
    inside, sections, plots = in_browser(page, script, tmp_path).split(",")
    assert inside == "true" and int(sections) == len(Reader(page).sections) and int(plots) == page.count("<svg") > 8


def test_the_command_has_no_token():
    words = "train mlc --hub_token secret --push_to_hub_token=secret --hub-token secret --seed 3".split()
    command = command_of(words)
    assert "secret" not in command and command.endswith("--seed 3") and command.count("token") == 3
