"""The page of a comparison. Oracles: its results.json and table.md."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from page_reader import Reader, check_requests, in_browser, table_with, tables
from test_compare import SMALL, TOY, runs_with
from test_compare import comparison as label_table
from test_report_page import EVIL

from seal_hf.lab.compare.kinds import KINDS
from seal_hf.lab.compare.runner import Runs, write_json
from seal_hf.lab.compare.table import comparison, comparison_page, markdown, write_page
from seal_hf.reports.page import render
from seal_hf.tasks.labels.compare import METRIC

pytest.importorskip("matplotlib")

STORED = Path(__file__).parents[1] / "fixtures" / "comparison"


def test_the_numbers_are_those_of_the_results(tmp_path):
    shutil.copytree(STORED, tmp_path, dirs_exist_ok=True)
    kind, found = KINDS["mlc"], Runs(tmp_path).all()
    made = [comparison(found, kind.figures, kind.methods, key, METRIC) for key in kind.figures.tested_with(METRIC)]
    write_json(tmp_path / "results.json", {table["decoder"]: table for table in made})
    page = write_page(tmp_path, "digits", "seal-hf compare --seeds 1").read_text(encoding="utf-8")
    check_requests(page)
    results = json.loads((tmp_path / "results.json").read_text())
    for decoder, table in results.items():
        rows = {row["method"]: row for row in table_with(page, "method", "validation", table["words"])}
        assert list(rows) == sorted(table["methods"], key=lambda name: -table["methods"][name][decoder][0])
        for name, row in table["methods"].items():
            assert rows[name][table["words"]] == pytest.approx(row[decoder][0])
            assert rows[name]["validation"] == pytest.approx(row["validation"])
            if "difference" in row:
                assert rows[name][f"difference to {table['best_baseline']}"] == pytest.approx(row["difference"])
                assert rows[name]["p, rows"] == row["p_rows"] and rows[name]["p, seeds"] == "-"
    every = {row["method"]: row for row in table_with(page, "about")}
    assert every["ce"]["about"] == "cross-entropy"
    assert every["ce"]["F1 at 0.5"] == pytest.approx(table["methods"]["ce"]["f1_example"][0])
    assert Reader(page).sections == [
        *("means", "example-f1-one-tuned-threshold", "example-f1-calibrated-expected-f1"),
        *("all-figures", "runs"),
    ]
    assert "Validation chooses constant, a baseline." in page and "<pre>seal-hf compare --seeds 1</pre>" in page


def test_the_command_writes_the_page_beside_its_table(drawing_program, tmp_path, capsys):
    drawing_program.main([*SMALL, "--losses", "constant", "--output_dir", str(tmp_path)])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert [row["method"] for row in table_with(page, "about")] == ["constant"]
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results) == page.count("<svg") == 2
    assert "examples/compare_losses.py" in page and "--losses constant" in page


def test_the_best_is_marked_and_texts_are_those_of_the_table(tmp_path):
    base = [[0.3 + 0.01 * seed] * 60 for seed in range(3)]
    runs = {
        "strong": runs_with(base),
        "ours": runs_with([[value + 0.1 for value in rows] for rows in base], seconds=2.0),
        "same": runs_with([[0.9] * 60]),  # by far the best, but one seed
    }
    runs["ours"].append({"seed": 4, "lost": "the loss is NaN"})
    table = label_table(runs, TOY)
    page = render(comparison_page([json.loads(json.dumps(table))], "toy"))
    marked = page.split('<tr class="marked">')
    assert len(marked) == 2 and marked[1].lstrip().startswith("<td>ours</td>")
    ours = next(line for line in markdown(table).splitlines() if "`ours`" in line)
    body = next(body for head, body in Reader(page).tables if "difference to strong" in head)
    texts = [text for text, _ in next(row for row in body if row[0][0] == "ours")]
    assert len(texts) == 8 and all(f"| {text} |" in ours for text in texts[1:])
    assert "Lost, as the loss was no longer finite: ours with seed 4." in page
    assert "Validation chooses ours, +10.00 points to strong, the best baseline there" in page


def test_a_constant_with_several_seeds_is_not_marked_before_trained_methods(tmp_path):
    """As after an interruption: the trained methods have one seed yet."""
    few, many = [[0.3] * 60], [[0.1] * 60] * 2
    table = label_table({"constant": runs_with(many), "strong": runs_with(few), "ours": runs_with([[0.5] * 60])}, TOY)
    page = render(comparison_page([json.loads(json.dumps(table))], "toy"))
    assert page.split('<tr class="marked">')[1].lstrip().startswith("<td>ours</td>")


def test_a_table_brings_its_own_columns_and_names_are_text(monkeypatch, tmp_path):
    row = {"seeds": [1, 2], "iou": [0.5, 0.1], "validation": 0.6, "energy_auc": 0.75, "about": EVIL, "group": "x"}
    table = {"decoder": "iou", "metric": "mean_iou", "best_baseline": None, "reference": None, "aside": []}
    table |= {"test_rows": 7, "lost": {}, "methods": {EVIL: row}, "columns": {"iou": "IoU"}, "words": "mean IoU"}
    table["choice"] = {"method": None, "baseline": None}
    page = render(comparison_page([table], EVIL))
    assert page.count("<script>") == 1 and "$x_1$" in page
    (found,) = table_with(page, "method", "mean IoU")
    assert found["mean IoU"] == 0.5 and found["energy AUC"] == 0.75 and found["method"] == EVIL
    assert table_with(page, "about")[0]["IoU"] == 0.5 and table_with(page, "about")[0]["about"] == EVIL
    assert int(in_browser(page, "document.title = document.querySelectorAll('svg').length", tmp_path)) == 1
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = render(comparison_page([table], "toy"))
    assert "<svg" not in page and "matplotlib is not installed: pip install &#39;seal_hf[plot]&#39;" in page
    assert len(tables(page)) == 2
