"""`--help` of the programs that train. Oracles: the fields of their dataclasses, and the arguments that the same
command line gives."""

import re
from dataclasses import fields

import pytest
from transformers import TrainingArguments

from seal_hf.cli.help import GROUPS, declared_by_us
from seal_hf.cli.recipes import recipe_parser
from seal_hf.cli.train import energy, mask_energy, mlc, parsing, rewards, segmentation, srl, tagging

PROGRAMS = [mlc, tagging, srl, parsing, segmentation, rewards, energy, mask_energy]
OF_THE_TRAINER = {field.name for field in fields(TrainingArguments) if field.init}


def shown(program, *words, flag="--help", columns=100, monkeypatch=None, capsys=None):
    """What the program prints when it is asked for help."""
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit) as ended:
        program.main([*words, flag])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.fixture
def help_of(monkeypatch, capsys):
    return lambda program, *words, **options: shown(program, *words, monkeypatch=monkeypatch, capsys=capsys, **options)


def values(text):
    """Flag -> the value beside it."""
    return dict(re.findall(r"^  --(\w+) (\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_of_our_flags_is_in_one_group_and_the_help_has_127_lines_at_most(program, help_of):
    groups = program.PROGRAM.help([]).groups()
    grouped = [field.name for group in GROUPS for field in groups[group]]
    ours = {name for kind in program.ARGUMENTS for name in declared_by_us(kind)}
    assert len(grouped) == len(set(grouped)) and ours <= set(grouped)
    assert {field.name for field in groups[""]} == OF_THE_TRAINER - set(grouped)
    lines = help_of(program).splitlines()
    assert len(lines) <= 127 and max(map(len, lines)) <= 100


@pytest.mark.parametrize("program", [mlc, energy])
def test_the_long_help_has_every_flag_of_the_parser_but_those_of_other_kinds_of_output(program, help_of):
    named = values(help_of(program, flag="--help_all")).keys()
    unread = program.PROGRAM.help([]).unread
    of_fields = {field.name for kind in program.ARGUMENTS for field in fields(kind) if field.init} - unread
    parsed = {action.dest for action in recipe_parser(program.ARGUMENTS)._actions} - {"help", "help_all", "recipe"}
    assert len(named) == len(of_fields) and of_fields == parsed - unread


def test_flags_of_other_kinds_of_output_are_left_out(help_of):
    labels, tags, masks = (values(help_of(program)) for program in (mlc, tagging, segmentation))
    assert "relaxed_mass" in labels and not {"tag_score", "coherence_size", "unique_roles_weight"} & labels.keys()
    assert {"tag_score", "unique_roles_weight"} <= tags.keys() and not {"relaxed_mass", "pixel_loss"} & tags.keys()
    assert {"pixel_loss", "coherence_size"} <= masks.keys() and not {"relaxed_mass", "tag_score"} & masks.keys()


@pytest.mark.parametrize("word", rewards.PROGRAMS)
def test_programs_with_rewards_have_the_flags_of_their_output(word):
    """`coherence_size` is a flag of masks, `tag_score` one of tags, `relaxed_mass` one of label sets."""
    unread = rewards.PROGRAMS[word].help([]).unread
    own = {"mlc": "relaxed_mass", "tagging": "tag_score", "segmentation": "coherence_size"}
    assert {name for name in own.values() if name not in unread} == {own[word]}
    assert "--rules" in rewards.PROGRAMS[word].help([]).text()


def test_the_values_are_those_that_hold(help_of, tmp_path):
    """Of both kinds of data; of the one that is named; of a recipe that is given."""
    text = help_of(mlc)
    both = values(text)
    assert "for features|text|text_frozen|images|images_pretrained." in " ".join(text.split())
    assert both["num_train_epochs"] == "60|5|30|15|5" and both["patience"] == "8|2|4|4|2" and both["loss"] == "nce"
    (tmp_path / "own.csv").write_text("text,labels\n" + "a b,x|y\n" * 9)
    (tmp_path / "own.yaml").write_text("num_train_epochs: 7\nloss: ranking\n")
    for words in (["--dataset", str(tmp_path / "own.csv")], ["--recipe", str(tmp_path / "own.yaml")]):
        arguments = mlc.PROGRAM.parse(words)
        found = values(help_of(mlc, *words))
        for name in ("num_train_epochs", "learning_rate", "per_device_train_batch_size", "task_weight", "patience"):
            assert float(found[name]) == arguments.value(name), name
        assert found["loss_net_encoder"] == (arguments.training.loss_net_encoder or "-")
        assert found["loss"] == arguments.training.energy_loss


def test_a_data_set_that_is_not_there_is_no_obstacle(help_of):
    assert values(help_of(mlc, "--dataset", "/nowhere/at.all"))["num_train_epochs"] == "60|5|30|15|5"


def test_sections_of_the_docstring_make_groups():
    groups = mlc.PROGRAM.help([]).groups()
    assert {"decoder", "target", "fold_decision", "license"} == {field.name for field in groups["decisions"]}
    assert {"resume_changed", "overwrite_output_dir", "patience", "output_dir"} <= {f.name for f in groups["run"]}
