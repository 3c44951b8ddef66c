"""Oracle: each rule by a loop over the words of one sentence, as its sentence in the docstring says it."""

import itertools
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from seal_hf import load_tags
from seal_hf.tasks.rewards.reward import TagFunctionReward
from seal_hf.tasks.rewards.rules import Rule, read_rules
from seal_hf.tasks.rewards.tag_rules import TagRuleReward

RULES = Path(__file__).resolve().parents[3] / "recipes/rules/cora.yaml"
TAGS = ["O", "B-a", "I-a", "B-d"]
FIELD = dict(zip(TAGS, ["O", "a", "a", "d"], strict=True))
WORDS = "In May 1992, pp. 3".split()
ALL = [
    Rule("words", ("d",), r"may \d+", 3.0),  # two words
    Rule("words", ("d", "O"), r"\d", 0.5),
    Rule("words", ("d",), "nowhere", 7.0),
    Rule("changes_after", (), r"[.,](?= |$)", 2.0),
    Rule("first", ("a", "O")),
    Rule("last", ("d",), None, 0.25),
    Rule("once", ("a",)),
    Rule("once", ("O",)),
    Rule("order", ("a", "d"), None, 1.5),
    Rule("present", ("d",)),
    Rule("gazetteer", ("a",), "places.txt", 2.0, phrases=("may 1992", "IN", "pp 4")),
    Rule("shape", ("d", "a"), "digits"),
    Rule("shape", ("O",), "capital", 0.5),
    Rule("never_follows", ("a", "d")),
    Rule("never_follows", ("O", "O"), None, 0.5),
]
LOOK = {"digits": str.isdigit, "capital": lambda word: word[0].isupper()}


def share(rule, words, tags):
    """s_r of one sentence, None where the rule does not apply."""
    fields = [FIELD[tag] for tag in tags]
    text, found = " ".join(words), set()
    places = [i for i, word in enumerate(words) for _ in word + " "]  # of each character
    if rule.pattern and rule.kind in ("words", "changes_after"):
        for match in re.finditer(rule.pattern, text, re.IGNORECASE):
            found |= set(places[match.start() : match.end()])
    bare = [word.strip(".,") for word in words]
    if rule.kind == "shape":
        found = {i for i, word in enumerate(bare) if LOOK[rule.pattern](word)}
    for phrase in rule.phrases:
        size = len(phrase.split())
        for i in range(len(words) - size + 1):
            if " ".join(bare[i : i + size]).lower() == phrase.lower():
                found |= set(range(i, i + size))
    if rule.kind in ("words", "gazetteer", "shape"):
        kept = [fields[i] in rule.fields for i in found]
        return sum(kept) / len(kept) if kept else None
    if rule.kind == "changes_after":
        kept = [fields[i] == fields[i + 1] for i in range(len(words) - 1) if i not in found]
        return sum(kept) / len(kept) if kept else None
    if rule.kind in ("first", "last"):
        return float(fields[0 if rule.kind == "first" else -1] in rule.fields)
    if rule.kind == "once":
        return float(sum(name == rule.fields[0] for name, _ in itertools.groupby(fields)) <= 1)
    if rule.kind == "never_follows":
        a, b = rule.fields
        return float(all(pair != (b, a) for pair in itertools.pairwise(fields)))
    if rule.kind == "order":
        a, b = rule.fields
        return float(a not in fields or b not in fields or fields.index(a) < fields.index(b))
    return float(rule.fields[0] in fields)


def expected(rules, words, tags):
    parts = [(rule.weight, share(rule, words, tags)) for rule in rules]
    return sum(w * s for w, s in parts if s is not None) / sum(w for w, s in parts if s is not None)


def test_a_reward_is_the_weighted_share_of_its_rules():
    """All 4^5 tag sequences as candidates of one row, and a shorter row with a hole beside it."""
    reward = TagRuleReward(ALL, TAGS)
    sequences = list(itertools.product(range(4), repeat=5))
    y = F.one_hot(torch.tensor(sequences), 4).float()  # (S, T, C)
    codes = torch.tensor(reward.codes([WORDS])[0])
    mask = torch.tensor([[True] * 5, [False, True, False, True, True]])
    short = [WORDS[1], *WORDS[3:]]
    holes = torch.full((5,), 3)  # what does not count may be anything
    holes[mask[1]] = torch.tensor(reward.codes([short])[0])
    found = reward(torch.stack([codes, holes]), torch.stack([y, y]), mask)
    names = [[TAGS[tag] for tag in tags] for tags in sequences]
    assert torch.allclose(found[0], torch.tensor([expected(ALL, WORDS, tags) for tags in names]))
    kept = [[tags[1], *tags[3:]] for tags in names]
    assert torch.allclose(found[1], torch.tensor([expected(ALL, short, tags) for tags in kept]))


def test_a_relaxed_candidate_counts_as_its_likeliest_tags():
    reward = TagRuleReward(ALL, TAGS)
    codes, mask = torch.tensor(reward.codes([WORDS])), torch.ones(1, 5).bool()
    logits = torch.randn(1, 3, 5, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    hard = F.one_hot(logits.argmax(-1), 4).float()
    found = reward(codes, logits.softmax(-1), mask)
    assert torch.equal(found, reward(codes, hard, mask)) and not found.requires_grad


def test_without_words_nothing_is_broken():
    assert TagRuleReward(ALL, TAGS)(
        torch.zeros(1, 5).long(), torch.rand(1, 2, 5, 4), torch.zeros(1, 5).bool()
    ).tolist() == [[1.0, 1.0]]


def test_tags_without_a_scheme_are_fields_themselves():
    assert TagRuleReward([Rule("present", ("x-y",))], ["x-y", "z"]).fields == ["x-y", "z"]


def test_a_function_gets_words_and_tags():
    def mine(words, tags):
        assert words == ["b", "c"]
        return float(tags == ["x", "y"])

    reward = TagFunctionReward(mine, ["x", "y"])
    codes = torch.tensor(reward.codes([["a", "b", "c"]]))
    y = F.one_hot(torch.tensor([[[0, 0, 1], [0, 1, 1]]]), 2)
    assert reward(codes, y, torch.tensor([[False, True, True]])).tolist() == [[1.0, 0.0]]
    for function, found in (
        (lambda words, tags: 2, "<lambda> gave 2 for row 0 of the batch, the words"),
        (lambda words, tags: None, "gave None for row 0 of the batch, the words"),
        (lambda words, tags: 1 / 0, "failed .ZeroDivisionError: division by zero. for row 0 of the batch, the words"),
        (lambda words: 1, "failed .TypeError: .*takes 1 positional argument"),
    ):
        wrong = TagFunctionReward(function, ["x", "y"])
        with pytest.raises(ValueError, match=f"The reward function .*({found}).*a number in"):
            wrong(torch.tensor(wrong.codes([["a", "b", "c"]])), y, torch.ones(1, 3).bool())


def test_equal_tags_of_the_same_words_are_asked_about_once_in_a_batch():
    asked = []

    def mine(words, tags):
        asked.append((*words, *tags))
        return float(words[0] == "a") / len(asked)

    reward = TagFunctionReward(mine, ["x", "y"])
    codes = torch.tensor(reward.codes([["a", "b", "a"], ["a", "b", "a"]]))
    y = F.one_hot(torch.tensor([[[0, 0, 0]] * 2] * 2), 2)
    mask = torch.tensor([[True, True, False], [False, True, True]])  # "a b" and "b a"
    assert reward(codes, y, mask).tolist() == reward(codes, y, mask).tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert asked == [("a", "b", "x", "x"), ("b", "a", "x", "x")]
    assert reward(codes.clone(), y, mask)[0, 0].item() == pytest.approx(1 / 3)  # another batch


def test_a_file_of_rules(tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text("rules:\n- {words: '\\d+', are: d, weight: 2}\n- {once: [a, d]}\n- {order: [a, d]}\n")
    assert read_rules(file) == [
        Rule("words", ("d",), r"\d+", 2.0),
        Rule("once", ("a",)),
        Rule("once", ("d",)),
        Rule("order", ("a", "d")),
    ]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{word: x}", "line 2: .* has 0 of the keys words"),
        ("{first: a, last: a}", "has 2 of the keys"),
        ("{first: a, are: d}", "unknown key 'are' in a rule of the kind 'first'"),
        ("{first: a, weight: -1}", "`weight` is -1; it must be a positive number"),
        ("{first: a, weight: yes}", "`weight` is True"),
        ("{words: '(', are: a}", "not a regular expression"),
        ("{words: 1992, are: a}", "not a regular expression"),
        ("{words: 'x*', are: a}", "matches the empty text"),
        ("{words: x}", "`are` is None"),
        ("{order: [a, b, c]}", "has 3 fields; expected two"),
        ("{present: dd}", "names the field 'dd'; the tags' fields are O, a, d. Did you mean 'd'?"),
        ("{gazetteer: none.txt, are: a}", "`gazetteer` is 'none.txt', which is not readable"),
        ("{shape: round, are: a}", "`shape` is 'round'; it must be one of capital"),
        ("{shape: [digits], are: a}", r"line 2: `shape` is \['digits'\]; it must be one of capital"),
        ("{words: 2024-13-45, are: a}", "rules.yaml: not a YAML file: month must be in 1..12"),
        ("{present: a, present: d}", "rules.yaml: not a YAML file: key 'present' twice"),
        ("!!python/object/apply:os.getcwd []", "not a YAML file"),
    ],
)
def test_a_wrong_rule_is_named(tmp_path, rule, message):
    file = tmp_path / "rules.yaml"
    file.write_text(f"rules:\n- {rule}\n")
    with pytest.raises(ValueError, match=re.escape(message) if "Did" in message else message):
        TagRuleReward(file, TAGS)


def test_a_file_without_rules_is_named(tmp_path):
    (tmp_path / "a.yaml").write_text("- {first: a}\n")
    with pytest.raises(ValueError, match=r"a\.yaml: expected a list of rules under the key `rules`"):
        read_rules(tmp_path / "a.yaml")
    with pytest.raises(ValueError, match="The list has no rules; give at least one"):
        TagRuleReward([], TAGS)
    with pytest.raises(ValueError, match="70 patterns; at most 62"):
        TagRuleReward([Rule("changes_after", (), "x")] * 70, TAGS)
    with pytest.raises(ValueError, match="A rule is 'implies'; expected one of words, gazetteer"):
        TagRuleReward([Rule("implies", ("a", "d"))], TAGS)
    (tmp_path / "a.yaml").write_text("rules:\n- {at_most: 1}\n")
    with pytest.raises(ValueError, match=r"A rule is 'at_most'; expected one of words"):
        TagRuleReward(read_rules(tmp_path / "a.yaml"), TAGS)


def test_the_rules_for_cora_prefer_gold(shared_data):
    """Every gold reference of a part earns more than 0.8, and more the fewer of its tags are replaced."""
    data = load_tags("cora", data_dir=str(shared_data))
    reward = TagRuleReward(RULES, data.label_names)
    assert set(reward.fields) >= set("author title booktitle journal date pages volume editor publisher".split())
    words, tags = data.validation["words"][:], [torch.tensor(row) for row in data.validation["tags"][:]]
    pad = lambda rows: torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)  # noqa: E731
    codes, gold = pad([torch.tensor(row) for row in reward.codes(words)]), pad(tags)
    mask = pad([torch.ones_like(row) for row in tags]).bool()
    noise = torch.Generator().manual_seed(0)
    other, drawn = (
        torch.randint(len(data.label_names), gold.shape, generator=noise),
        torch.rand(gold.shape, generator=noise),
    )
    rows = torch.stack([torch.where(drawn < p, other, gold) for p in (0, 0.05, 0.2, 0.5, 1)], dim=1)
    found = reward(codes, F.one_hot(rows, len(data.label_names)), mask)
    assert found[:, 0].min() > 0.8
    assert (found.mean(0).diff() < -0.02).all()


def test_a_space_belongs_to_no_word():
    rules = [Rule("words", ["A"], pattern=pattern) for pattern in (r"\s\d+", r"\w+\s", r"in 1", r"\s", r"\b")]
    reward = TagRuleReward(rules, ["A"])
    assert [f"{code:05b}"[::-1] for code in reward.codes([["in", "1999", "x"]])[0]] == ["01100", "11100", "00000"]


def test_contradictory_rules_are_found():
    rules = [
        *(Rule("words", ("a",), "may"), Rule("words", ("d",), "y 1992"), Rule("words", ("a", "d"), "may")),
        *(Rule("first", ("a",)), Rule("first", ("d", "O")), Rule("order", ("a", "d")), Rule("order", ("d", "a"))),
        *(Rule("present", ("a",)), Rule("present", ("d",))),
    ]
    reward = TagRuleReward(rules, TAGS)
    found = {
        tuple(str(reward.ordered[i].kind) for i in conflict.rules): conflict.rows
        for conflict in reward.conflicts(reward.codes([WORDS, ["may"], WORDS]))
    }
    assert found == {
        **{("words", "words"): 2, ("first", "first"): None},
        **{("order", "order"): None},
    }


def test_a_function_of_a_batch_gets_words_and_padded_tags():
    def mine(sentences, tags):
        assert sentences == [["a", "b"], ["c"]]
        assert tags[1].tolist() == [[1, -1], [0, -1]]
        return (tags == 0).sum(-1) / 2

    reward = TagFunctionReward(mine, ["x", "y"], batched=True)
    codes = torch.tensor([[*row, *[0] * (2 - len(row))] for row in reward.codes([["a", "b"], ["c"]])])
    y = F.one_hot(torch.tensor([[[0, 0], [0, 1]], [[1, 0], [0, 0]]]), 2)
    found = reward(codes, y, torch.tensor([[True, True], [True, False]]))
    assert found.tolist() == [[1.0, 0.5], [0.0, 0.5]]
