"""Oracle: shares counted by hand on a table that the test writes."""

import pytest

from seal_hf.data import load_multilabel
from seal_hf.tasks.rewards.program import check_main as main

RULES = """rules:
- {keywords: [happy], for: joy}
- {keywords: day, against: joy}
- {keywords: nowhere, for: fear}
- {excludes: [joy, fear]}
"""


@pytest.fixture
def table(tmp_path):
    rows = [("a happy day", "joy"), ("happy", "joy"), ("a day", "fear"), ("so", "joy|fear")]
    for split in ("train", "validation"):
        (tmp_path / f"{split}.csv").write_text("text,labels\n" + "\n".join(map(",".join, rows)) + "\n")
    (tmp_path / "more.csv").write_text("text\nhappy days\nhappy day\nno\nday\n")
    (tmp_path / "rules.yaml").write_text(RULES)
    return tmp_path


def lines(capsys):
    text = capsys.readouterr().out
    return text, {line.split()[0]: line.split() for line in text.splitlines() if line[:4].strip().isdigit()}


def test_coverage_agreement_and_contradictions_are_told_before_training(table, capsys):
    main(["check", str(table / "rules.yaml"), "--dataset", str(table), "--unlabelled", str(table / "more.csv")])
    text, by_line = lines(capsys)
    assert "4 rules on" in text and "4 labelled and 4 unlabelled rows" in text
    # weight, applies %, gold follows %, labelled rows
    assert by_line["2"][1:7] == ["1", "50.0", "%", "100.0", "%", "2"]
    assert by_line["3"][1:7] == ["1", "62.5", "%", "50.0", "%", "2"]
    assert by_line["4"][1:6] == ["1", "0.0", "%", "-", "0"] and "it applies to no row" in text
    assert by_line["5"][1:7] == ["1", "100.0", "%", "87.5", "%", "4"]  # 1/2 for one too many
    (conflict,) = [line for line in text.splitlines() if line.startswith("- ")]
    assert conflict.startswith("- in 3 of 8 rows: line 2 (") and "line 3 (" in conflict


def test_rules_of_tags_and_masks_are_checked_on_embedded_data(tmp_path, capsys):
    (tmp_path / "tags.yaml").write_text("rules:\n- {words: 'w1\\b', are: X}\n- {first: [X]}\n- {first: [Y]}\n")
    main(["check", str(tmp_path / "tags.yaml"), "--max_train_rows", "30", "--num_labelled", "5"])
    text, by_line = lines(capsys)
    assert set(by_line) == {"2", "3", "4"} and "always: line 3 (the first word is in X); line 4" in text
    (tmp_path / "masks.yaml").write_text("rules:\n- {area: [0.1, 0.2]}\n- {area: 0.5}\n")
    main(["check", str(tmp_path / "masks.yaml"), "--max_train_rows", "10"])
    text, _ = lines(capsys)
    assert "10 labelled and 0 unlabelled rows" in text and "their areas have no share in common" in text


@pytest.mark.parametrize("words", [[], ["--help"], ["check", "--help"]])
def test_help_is_the_usage(words, capsys):
    main(words)
    assert capsys.readouterr().out.startswith("usage: seal-hf rules check RULES.yaml")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["chekc"], "no subcommand 'chekc'"),
        (["check"], "the file of rules is missing"),
        (["check", "no.yaml"], "no.yaml"),
    ],
)
def test_a_wrong_command_line_is_named(words, message):
    with pytest.raises(ValueError, match=message):
        main(words)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("rules:\n- {at_leest: 1}\n", "line 2: .* has 0 of the keys .* Did you mean 'at_least'"),
        ("rules: []\n", "rules.yaml has no rule. Write rules below `rules:`"),
    ],
)
def test_rules_of_no_known_kind_are_named(table, tmp_path, rules, message):
    (tmp_path / "rules.yaml").write_text(rules)
    with pytest.raises(ValueError, match=message):
        main(["check", str(tmp_path / "rules.yaml"), "--dataset", str(table)])


@pytest.mark.parametrize("seed", range(6))
def test_its_labelled_rows_are_those_of_a_run_with_the_same_seed(table, capsys, seed):
    main(["check", str(table / "rules.yaml"), "--dataset", str(table), "--num_labelled", "2", "--data_seed", str(seed)])
    rows = load_multilabel(str(table), num_labelled=2, seed=seed).train
    applies = sum("happy" in text for text in rows["text"])
    assert lines(capsys)[1]["2"][6 if applies else 5] == str(applies)  # after "100.0 %", or "-"
