"""benchmarks/text_screen.py: its bootstrap against the variance of a nested design, its choices, its split."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from seal_hf.lab.compare.runner import Runs
from seal_hf.lab.compare.statistics import Rows
from seal_hf.tasks.labels.compare import COMPARED, METRIC

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def screen(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import text_screen

    yield text_screen
    for name in ("text_screen", "results_store"):
        sys.modules.pop(name, None)


def test_the_interval_has_the_variance_of_sets_and_of_seeds_within(screen):
    """Var = (variance of the sets' means + mean variance of a set's mean over seeds) / number of sets."""
    rng = np.random.default_rng(1)
    by_set = [rng.normal(centre, 2.0, size) for centre, size in ((1.0, 5), (3.0, 4), (0.5, 5), (2.0, 6))]
    found = screen.interval(by_set, resamples=100_000)
    between = np.var([values.mean() for values in by_set])
    within = np.mean([values.var() / len(values) for values in by_set])
    std = np.sqrt((between + within) / len(by_set))
    assert found.mean == pytest.approx(np.mean([values.mean() for values in by_set]))
    assert found.high - found.low == pytest.approx(2 * 1.96 * std, rel=0.05)
    assert screen.interval([np.array([1.0, 1.0]), np.array([1.0])])[:3] == (1.0, 1.0, 1.0)
    assert screen.interval([np.array([0.5]), np.array([-0.5])]).p == 1.0


def test_p_is_that_of_a_t_test_over_sets_or_over_the_seeds_of_one(screen):
    one, two, three = np.array([0.5, 1.5, 0.9]), np.array([0.2, 0.4]), np.array([-0.1])
    several = [one.mean(), two.mean(), three.mean()]
    assert screen.interval([one]).p == pytest.approx(ttest_1samp(one, 0).pvalue)
    assert screen.interval([one, two, three]).p == pytest.approx(ttest_1samp(several, 0).pvalue)
    assert np.isnan(screen.interval([three]).p)


def test_the_summary_has_what_validation_chooses(screen, tmp_path):
    """Of each group, and its difference on test, by common seeds."""
    store = screen.Store(tmp_path / "results")
    made = {  # method -> figures on validation and on test
        "ce": ([0.50, 0.52], [0.40, 0.41]),
        "asymmetric": ([0.49, 0.50], [0.45, 0.46]),
        "nce": ([0.55, 0.55], [0.42, 0.42]),
        "nce_local": ([0.60, 0.60], [0.60, 0.60]),  # an ablation is no choice
        "ranking": ([0.54, 0.54], [0.50, 0.50]),
    }
    for data in ("xed_en", "hoc"):
        runs = Runs(tmp_path / f"{data}_toy")
        runs.save_identity({"data": data, "budget": 0})
        for method, (validation, test) in made.items():
            for seed, (a, b) in enumerate(zip(validation, test, strict=True), 1):
                rows = {key: Rows.of_mean(np.full(3, b)).as_text() for key in COMPARED}
                figures = {f"eval_{METRIC}": a, f"test_{METRIC}": b}
                runs.save(method, seed, {"seed": seed, **figures, "test_rows": rows, "method": {}})
        screen.pack(store, runs.folder)
    text = screen.summary(store, "toy", METRIC)
    assert "| xed_en | `ce` 40.50 | `nce` 42.00 | +1.50 | 2 and 2 |" in text
    assert "| SEAL to baseline, by validation | no controls | +1.50" in text
    assert "| `ranking` to `ce` | controls | +9.50" in text and "`constant`" not in text


def test_a_split_anew_keeps_every_row_once(screen, tmp_path):
    lines = [f'row {i} "with quotes\tjoy,fear\n' for i in range(50)]
    (tmp_path / "train.tsv").write_text("text\tlabels\n" + "".join(lines))
    (tmp_path / "test.tsv").write_text("text\tlabels\nlast\tjoy\n")
    for _ in range(2):
        screen.split_anew(tmp_path, tmp_path / "anew")
    parts = {file.stem: file.read_text().splitlines(keepends=True) for file in (tmp_path / "anew").iterdir()}
    assert len(parts["train"]) == 41 and len(parts["validation"]) == 11 and len(parts["test"]) == 2
    assert sorted(parts["train"][1:] + parts["validation"][1:]) == sorted(lines)
    assert parts["train"][0] == parts["validation"][0] == "text\tlabels\n"
