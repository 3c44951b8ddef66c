"""The page's section on rewards. Oracles: the rules' definitions in loops over sentences, the files of a run."""

import json

import pytest
from test_data_tensors_semi_supervised import own_module, run_rewards  # noqa: F401 - a fixture
from test_metrics_tags import make
from test_spaces_rewards import ALL, TAGS, expected, share

from seal_hf.reports.page import Page, render
from seal_hf.tasks.rewards.page import followed, in_words, reward_sections
from seal_hf.tasks.rewards.rules import Rule
from seal_hf.tasks.rewards.tag_rules import TagRuleReward

pytest.importorskip("matplotlib")


@pytest.mark.usefixtures("drawn")
def test_rules_against_a_loop_over_their_definitions():
    decided, gold = make(TAGS, size=300)  # more than one batch, of rows of many lengths
    words = [
        [("May", "1992,", "pp.", "3", "In")[(i + 3 * j) % 5] for j in range(len(row))] for i, row in enumerate(gold)
    ]
    sides = {"decided": decided, "gold": gold}
    found = followed(TagRuleReward(ALL, TAGS), words, sides, TAGS)
    rows = {row["rule"]: row for row in found["rules"]}
    assert len(rows) == len(ALL)
    for rule in ALL:
        row = rows[in_words(rule)]
        for name, tags in sides.items():
            values = [share(rule, *sentence) for sentence in zip(words, tags, strict=True)]
            applied = [value for value in values if value is not None]
            assert row["applies"] == pytest.approx(len(applied) / 300) and row["weight"] == rule.weight
            assert row[name] == (pytest.approx(sum(applied) / len(applied), abs=1e-6) if applied else None)
    for name, tags in sides.items():
        whole = [expected(ALL, *sentence) for sentence in zip(words, tags, strict=True)]
        assert found["reward"][name] == pytest.approx(sum(whole) / 300, abs=1e-6)
    assert rows["nowhere is in d"]["applies"] == 0 and 0 < rows["there is d"]["gold"] < 1

    facts = {"rows": 300, "of": 400, **found}
    page = render(
        Page("rules", reward_sections(json.loads(json.dumps({"unlabelled": facts, "validation": facts})), None))
    )
    assert "300 of 400 unlabelled rows" in page and f"{rows['there is d']['gold']:.4f}" in page
    assert all(f"rule {number}</text>" in page for number in (1, 2, 4)) and "rule 3</text>" not in page


def test_patterns_are_escaped():
    rules = [Rule("words", ("d",), "<script>alert(1)</script>|3")]
    found = {
        "rows": 1,
        "of": 1,
        **followed(TagRuleReward(rules, TAGS), [["3"]], {"decided": [["O"]], "gold": [["O"]]}, TAGS),
    }
    page = render(Page("rules", reward_sections({"unlabelled": found, "validation": found}, None)))
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page


def lines_of(folder):
    text = (folder / "run/_predictions_eval.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def facts_of(folder):
    return json.loads((folder / "run/_report.json").read_text(encoding="utf-8"))["facts"]["rewards"]


QUICK = "--hidden_size 16 --num_train_epochs 1 --disable_tqdm true --eval_strategy no --save_strategy no".split()
QUICK += ["--load_best_model_at_end", "false", "--num_samples", "2"]


@pytest.mark.usefixtures("drawn")
def test_a_run_with_rules(tmp_path):
    (tmp_path / "rules.yaml").write_text("rules: [{words: 'w1\\d', are: X}, {present: [X, Y], weight: 0.5}]")
    run_rewards(tmp_path, *QUICK, "--rules", str(tmp_path / "rules.yaml"))
    facts, lines = facts_of(tmp_path), lines_of(tmp_path)
    assert (facts["unlabelled"]["rows"], facts["unlabelled"]["of"], facts["validation"]["rows"]) == (25, 25, len(lines))
    rules = {row["rule"]: row for row in facts["validation"]["rules"]}
    for side, key in (("decided", "predicted"), ("gold", "gold")):
        shares, present = [], []
        for line in lines:
            fields = [tag[2:] for tag in line[key]]
            hits = [f == "X" for w, f in zip(line["words"], fields, strict=True) if len(w) == 3 and w[1] == "1"]
            shares += [sum(hits) / len(hits)] if hits else []
            present.append("Y" in fields)
        assert rules[r"w1\d is in X"][side] == pytest.approx(sum(shares) / len(shares), abs=1e-6)
        assert rules[r"w1\d is in X"]["applies"] == pytest.approx(len(shares) / len(lines))
        assert rules["there is Y"][side] == pytest.approx(sum(present) / len(lines), abs=1e-6)
    assert set(facts["unlabelled"]["reward"]) == {"decided"}
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert r"w1\d is in X" in page and f"{facts['validation']['reward']['gold']:.4f}" in page


def test_a_run_with_a_function(own_module, tmp_path):  # noqa: F811 - the fixture
    run_rewards(tmp_path, *QUICK, "--reward", "my_rewards:outside")
    facts, lines = facts_of(tmp_path), lines_of(tmp_path)
    for side, key in (("decided", "predicted"), ("gold", "gold")):
        mean = sum(line[key].count("O") / len(line[key]) for line in lines) / len(lines)
        assert facts["validation"]["reward"][side] == pytest.approx(mean, abs=1e-6)
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert f"{facts['unlabelled']['reward']['decided']:.4f}" in page and "rules" not in facts["validation"]
