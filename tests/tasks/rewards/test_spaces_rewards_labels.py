"""Oracle: each rule by a loop over the labels of one set, as its sentence in the docstring says it; and all 2^L label
sets for contradictions."""

import itertools
import re

import pytest
import torch

from seal_hf import Rule
from seal_hf.core.hierarchy import Hierarchy
from seal_hf.tasks.rewards.label_rules import LabelRuleReward
from seal_hf.tasks.rewards.reward import LabelFunctionReward
from seal_hf.tasks.rewards.rules import read_rules

LABELS = ["a", "b", "c", "d"]
TEXTS = ["a Happy day", "no joy, unhappy", "neither"]
FILE = """rules:
- {keywords: [happy, 'joy'], for: [a, b], against: d, weight: 2}
- {keywords: 'un\\w+', against: [a]}
- {implies: [a, b, c]}
- {excludes: [b, c, d], weight: 0.5}
- {at_least: 1, of: [a, d]}
- {at_least: 2}
- {at_most: 1, of: [a, b, c]}
- {exactly: 2}
- {hierarchy: [[b, a], [c, b], [c, d]]}
- {hierarchy: closed}
- {rates: {a: 0.1, b: [0.6, 1]}}
"""
HIERARCHY = Hierarchy(((), (0,), (), ()))
SETS = [set(itertools.compress(LABELS, bits)) for bits in itertools.product((0, 1), repeat=4)]


def slow(text, y, rates):
    """(weight, value) of every rule that applies to a text and a set."""
    found = []
    if re.search(r"(?<!\w)(happy|joy)(?!\w)", text.lower()):
        found += [(2, len({"a", "b"} & y) / 2), (2, float("d" not in y))]
    if re.search(r"un\w+", text.lower()):
        found.append((1, float("a" not in y)))
    found += [(1, float("a" not in y or other in y)) for other in "bc"]
    near = lambda count, low, high: 1 / (1 + max(0, low - count) + max(0, count - high))  # noqa: E731
    found += [(0.5, near(len(y & set("bcd")), 0, 1)), (1, near(len(y & set("ad")), 1, 9)), (1, near(len(y), 2, 9))]
    found += [(1, near(len(y & set("abc")), 0, 1)), (1, near(len(y), 2, 2))]
    for parents in ({"b": "a", "c": "bd"}, {"b": "a"}):
        below = [label for label in y if label in parents]
        found.append((1, sum(set(parents[label]) <= y for label in below) / len(below) if below else 1.0))
    off = max(0, rates["a"] - 0.1) * ("a" in y) + max(0, 0.1 - rates["a"]) * ("a" not in y)
    off += max(0, 0.6 - rates["b"]) * ("b" not in y)
    return [*found, (1, 1 - off / 2)]


@pytest.fixture
def reward(tmp_path):
    (tmp_path / "rules.yaml").write_text(FILE)
    return LabelRuleReward(tmp_path / "rules.yaml", LABELS, HIERARCHY)


def dense(sets):
    return torch.tensor([[float(label in y) for label in LABELS] for y in sets])


def test_a_reward_is_the_weighted_share_of_its_rules(reward):
    """All sets as candidates of two texts; a row with gold counts in no rate."""
    chosen = [SETS, SETS[::-1], SETS]
    y, mask = torch.stack([dense(sets) for sets in chosen]), torch.tensor([[True], [True], [False]]).expand(3, 4)
    y[2] = 1
    found = reward(torch.tensor(reward.codes(TEXTS)), y, mask)
    rates = {name: float(y[:2, :, i].mean()) for i, name in enumerate(LABELS)}
    for row in range(2):
        values = [slow(TEXTS[row], candidate, rates) for candidate in chosen[row]]
        expected = [sum(w * s for w, s in rules) / sum(w for w, _ in rules) for rules in values]
        torch.testing.assert_close(found[row], torch.tensor(expected))
    assert found[2].tolist() == [1.0] * 16  # nothing to ask


def test_rates_prefer_candidates_that_bring_a_batch_nearer():
    reward = LabelRuleReward([Rule("rates", ("a", "b"), values=(0.0, 0.25, 0.75, 1.0))], ["a", "b"])
    y = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]).expand(4, 2, 2)  # both at a half
    found = reward(torch.zeros(4, 0).long(), y, torch.ones(4, 2).bool())
    assert torch.allclose(found, torch.tensor([[0.75, 1.0]] * 4))


def test_a_relaxed_set_counts_as_its_decisions_and_a_pair_of_texts_as_both(reward):
    codes, mask = torch.tensor(reward.codes([("nothing", "joy")])), torch.ones(1, 4).bool()
    assert codes.tolist() == [[1, 1, 0]]
    y = torch.rand(1, 5, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    found = reward(codes, y, mask)
    assert torch.equal(found, reward(codes, (y >= 0.5).float(), mask)) and not found.requires_grad


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{keywords: x}", "needs `for` or `against`"),
        ("{keywords: [joy, ''], for: a}", "with an empty name. Remove it"),
        ("{keywords: '(', for: a}", "not a regular expression"),
        ("{implies: [a]}", "`implies` has 1 name; expected at least 2"),
        ("{at_least: 1.5}", "`at_least` is 1.5; it must be a whole number of at least 0"),
        ("{rates: {a: [0.4, 0.2]}}", "the lowest share, 0.4, is above the highest, 0.2"),
        ("{rates: {a: 2}}", "`rates of a` is 2; it must be a number from 0 to 1"),
        ("{hierarchy: [a, b]}", "must be closed, or a list of pairs"),
        ("{excludes: [a, bb]}", "names the label 'bb'; the labels are a, b, c, d. Did you mean 'b'?"),
        ("{exactly: 5}", "asks for 5 of 4 labels, which no label set can have"),
        ("{at_least: 3, of: [a, b]}", "asks for 3 of 2 labels"),
        ("{at_least: 2, of: [a, a]}", "`of` names 'a' twice"),
        ("{needs: [a, b]}", "has 0 of the keys keywords"),
        ("{first: a}", "has 0 of the keys .* Its keys belong to rules for tags"),
    ],
)
def test_a_wrong_rule_is_named_with_its_line(tmp_path, rule, message):
    (tmp_path / "rules.yaml").write_text(f"rules:\n# a comment\n- {{at_most: 3}}\n- {rule}\n")
    with pytest.raises(
        ValueError, match=rf"rules\.yaml, line 4: .*{re.escape(message) if 'Did' in message else message}"
    ):
        LabelRuleReward(tmp_path / "rules.yaml", LABELS)


@pytest.mark.parametrize("rule", ["{at_least: 4}", "{exactly: 2, of: [a, b]}", "{at_most: 9}"])
def test_a_count_that_some_label_set_has_is_taken(tmp_path, rule):
    (tmp_path / "rules.yaml").write_text(f"rules:\n- {rule}\n")
    assert len(LabelRuleReward(tmp_path / "rules.yaml", LABELS).rules) == 1


def test_a_closed_hierarchy_needs_one(tmp_path):
    with pytest.raises(ValueError, match="the data have no hierarchy. Give `hierarchy` .--hierarchy FILE"):
        LabelRuleReward([Rule("hierarchy", (), "closed")], LABELS)
    (tmp_path / "rules.yaml").write_text("rules:\n- hierarchy: closed\n")
    with pytest.raises(ValueError, match=r"rules\.yaml, line 2: A rule says `hierarchy: closed`"):
        LabelRuleReward(tmp_path / "rules.yaml", LABELS)


def test_a_file_says_for_which_outputs_it_is(tmp_path):
    (tmp_path / "rules.yaml").write_text(FILE)
    assert {rule.kind for rule in read_rules(tmp_path / "rules.yaml")} >= {"keywords_against", "rates"}
    assert [rule.line for rule in read_rules(tmp_path / "rules.yaml")][:4] == [2, 2, 3, 4]


def contradict(reward, places, text):
    """True if no label set follows these rules, by trying all."""
    codes = torch.tensor(reward.codes([text]))
    values, applies = reward.parts(codes, dense(SETS).unsqueeze(0), torch.ones(1, 4).bool())
    return applies[0, list(places)].all() and not (values[0][:, list(places)] == 1).all(1).any()


def test_contradictions_are_those_that_all_label_sets_show(reward):
    conflicts = reward.conflicts(reward.codes(TEXTS))
    text, rules = "happy unhappy", range(len(reward.ordered) - 1)  # without rates
    pairs = {pair for pair in itertools.combinations(rules, 2) if contradict(reward, pair, text)}
    assert {found.rules for found in conflicts if len(found.rules) == 2} == pairs
    kinds = [{reward.ordered[i].kind for i in found.rules} for found in conflicts]
    assert {"keywords", "at_most"} in kinds  # a and b, but at most one of a, b, c
    for found in conflicts:
        assert contradict(reward, found.rules, text), found
    (met,) = [found.rows for found, kind in zip(conflicts, kinds, strict=True) if kind == {"keywords", "at_most"}]
    assert met == 2  # texts with these words


def test_a_smallest_contradictory_set_of_three_is_found():
    rules = [Rule("exactly", values=(1, 1)), Rule("at_least", ("a", "b"), values=(1, 1e9))]
    rules += [Rule("at_least", ("c", "d"), values=(1, 1e9)), Rule("at_most", ("d",), values=(0, 1))]
    (found,) = LabelRuleReward(rules, LABELS).conflicts([[]])
    assert found.rules == (0, 1, 2) and found.rows is None


def test_a_function_of_a_batch_is_asked_once_and_about_rows_without_gold():
    asked = []

    def mine(inputs, sets):
        asked.append((inputs, sets.shape))
        return sets.sum(-1) / 4

    reward = LabelFunctionReward(mine, LABELS, batched=True)
    codes = torch.tensor(reward.codes(TEXTS))
    y, mask = torch.rand(3, 2, 4), torch.tensor([[True], [False], [True]]).expand(3, 4)
    found = reward(codes, y, mask)
    assert asked == [([TEXTS[0], TEXTS[2]], (2, 2, 4))]
    torch.testing.assert_close(found[[0, 2]], (y >= 0.5).float().mean(-1)[[0, 2]])
    assert found[1].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda inputs, sets: 1 / 0, "failed .ZeroDivisionError.* the 1 rows from row 2 .*'neither'"),
        (lambda inputs, sets: sets[..., 0].T, r"shape \(2, 1\) for .* row 2 .*'neither' on; expected \(1, 2\)"),
        (lambda inputs, sets: "good", "gave .good. for .* row 2"),
        (lambda inputs, sets: sets[..., 0] * float("nan"), "gave nan for row 2 .*'neither', candidate 0"),
        (lambda inputs, sets: sets[..., 0] * 0 + 2, "gave 2 for row 2 .*'neither', candidate 0; rewards are in"),
    ],
)
def test_a_wrong_function_of_a_batch_is_named_with_its_row(function, message):
    reward = LabelFunctionReward(function, LABELS, batched=True)
    codes = torch.tensor(reward.codes(TEXTS))[2:]
    with pytest.raises(ValueError, match=f"The reward function <lambda> .*{message}"):
        reward(codes, torch.ones(1, 2, 4), torch.ones(1, 4).bool())


@pytest.mark.parametrize(("given", "said"), [(float("nan"), "nan"), (torch.ones(3), r"of shape \(3,\)")])
def test_a_wrong_function_of_one_set_is_named_with_its_row(given, said):
    reward = LabelFunctionReward(lambda text, labels: given, LABELS)
    with pytest.raises(ValueError, match=rf"gave {said} for row 1 .*'no joy, unhappy' with the labels \['a', 'b'"):
        reward(torch.tensor(reward.codes(TEXTS))[1:], torch.ones(2, 2, 4), torch.ones(2, 4).bool())


def test_keywords_in_scripts_without_blanks_are_found_in_runs_of_letters(tmp_path):
    (tmp_path / "rules.yaml").write_text("rules:\n- {keywords: [声音, fan, ถัง], for: sound}\n", encoding="utf-8")
    reward = LabelRuleReward(tmp_path / "rules.yaml", ["sound", "heat"])
    texts = ["加热快声音小", "a fan", "fans", "ในถังน้ำ", "加热"]
    assert reward.coverage(reward.codes(texts)) == [3 / 5]
