"""`--help` of the programs that train. Oracles: the fields of their dataclasses, and the arguments that the same
command line gives."""

import inspect
import re
from dataclasses import fields

import pytest
from transformers import TrainingArguments

from seal_hf import EnergyTrainingArguments, SealTrainingArguments
from seal_hf.cli import predict
from seal_hf.cli.programs import UsageError
from seal_hf.cli.recipes import recipe_parser
from seal_hf.cli.train.flags import GROUPS, MAIN, declared_by_us, documented, meaning
from seal_hf.lab.compare import program as compare
from seal_hf.lab.demo.program import demo_flags
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.labels.program import ENERGY_PROGRAM as energy
from seal_hf.tasks.masks import program as segmentation
from seal_hf.tasks.masks.program import ENERGY_PROGRAM as mask_energy
from seal_hf.tasks.rewards import program as rewards
from seal_hf.tasks.tags import program as tagging
from seal_hf.tasks.tags.program import ROLE_PROGRAM as srl
from seal_hf.tasks.tags.program import TREE_PROGRAM as parsing
from seal_hf.utils.options import default_of

PROGRAMS = [*(each.PROGRAM for each in (mlc, tagging, segmentation, rewards)), srl, parsing, energy, mask_energy]
OF_THE_TRAINER = {field.name for field in fields(TrainingArguments) if field.init}


def shown(program, *words, flag="--help", group=None, columns=100, monkeypatch=None, capsys=None):
    """What the program prints when it is asked for help."""
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit) as ended:
        program.main([*words, flag, *([group] if group else [])])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.fixture
def help_of(monkeypatch, capsys):
    return lambda program, *words, **options: shown(program, *words, monkeypatch=monkeypatch, capsys=capsys, **options)


def values(text):
    """Flag -> the value beside it."""
    return dict(re.findall(r"^  --(\w+) (\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_flag_is_in_one_group(program):
    groups = program.help([]).groups()
    grouped = [field.name for group in groups.values() for field in group]
    ours = {name for kind in program.arguments for name in declared_by_us(kind)}
    assert groups.keys() == GROUPS.keys() and len(grouped) == len(set(grouped))
    assert ours | OF_THE_TRAINER == set(grouped) and not ours & {field.name for field in groups["trainer"]}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_help_has_a_dozen_flags_in_sentences_and_the_groups(program, help_of):
    text = help_of(program)
    found, there = values(text), program.help([])
    names = {name for name in MAIN if name in {f.name for kind in program.arguments for f in fields(kind)}}
    names -= {*there.unread, *(() if program is rewards.PROGRAM else ["num_labelled"])}
    said = " ".join(text.split())
    assert 10 <= len(found) <= 15 and len(text.splitlines()) <= 55 and max(map(len, text.splitlines())) <= 100
    assert found.keys() == {"loss" if name == "energy_loss" else name for name in names}
    assert all(MAIN[name] in said for name in names) and all(re.match(r"[A-Zλ].*\.$", text) for text in MAIN.values())
    listed = dict(re.findall(r"^  (\w+) .*\((\d+)\)?$", text, re.MULTILINE))
    groups = there.groups().items()
    assert listed == {g: str(n) for g, own in groups if (n := len({f.name for f in own} - set(there.unread)))}


def test_each_group_shows_its_flags_with_full_texts(help_of, monkeypatch):
    there = mlc.PROGRAM.help([])
    monkeypatch.setenv("COLUMNS", "100")
    for group, found in there.groups().items():
        shown = [field for field in found if field.name not in there.unread]
        text = there.text(group)
        assert len(values(text)) == len(shown)
        said = "".join(text.split())
        texts = {f.name: meaning(f, kind) for kind in mlc.ARGUMENTS for f in fields(kind)}
        assert [f.name for f in shown if "".join(texts[f.name].split()) not in said] == []
    assert values(help_of(mlc, group="decisions")).keys() == {"decoder", "target", "fold_decision", "license"}


@pytest.mark.parametrize("kind", [SealTrainingArguments, EnergyTrainingArguments])
def test_every_argument_of_a_training_is_documented_with_its_default(kind):
    """The docstring is the help. Oracle: the fields."""
    said = documented(kind)
    own = {field.name: field for field in fields(kind) if field.init and field.name not in OF_THE_TRAINER}
    assert own.keys() <= said.keys() and all(meaning(field, kind).endswith(".") for field in own.values())
    docs = "\n".join(inspect.cleandoc(base.__doc__) for base in kind.__mro__ if base.__module__.startswith("seal_hf."))
    heads = dict(re.findall(r"(?m)^ {4}(\w+) \((.*?)\):", docs))
    assert own.keys() == heads.keys() - OF_THE_TRAINER
    for name, head in ((name, heads[name]) for name in own):
        default = default_of(own[name])
        default = default[0] if isinstance(default, list) and default else default  # as a flag gives it
        if default is None or default == []:
            assert head.endswith(("optional", "default empty")), name
        else:
            text = re.search(r"default ([^,]*)", head)[1].strip('`"')
            assert text == str(default) or float(text) == default, name


def test_an_unknown_group_is_named_with_its_neighbour(help_of):
    with pytest.raises(
        UsageError, match=r"no group of flags 'decision'. Did you mean 'decisions'\? All of them: data,"
    ):
        mlc.main(["--help", "decision"])


@pytest.mark.parametrize("flags", [predict.predict_flags, predict.evaluate_flags, demo_flags])
def test_programs_that_read_a_model_have_groups_too(flags, capsys):
    def shown(*words):
        with pytest.raises(SystemExit):
            flags().parsed(list(words))
        return capsys.readouterr().out

    def names(text):
        return set(re.findall(r"^  --(\w+)", text, re.MULTILINE))

    groups = flags().groups
    every = {action.dest for action in flags()._actions} - {"help"}
    assert set(groups) == {"columns", "loading"} and names(shown("--help_all")) == every
    assert names(shown("--help")) == every - {name for names in groups.values() for name in names}
    assert len(names(shown("--help"))) <= 12
    for group, own in groups.items():
        assert names(shown("-h", group)) == set(own) and f"{group}, " in " ".join(shown("--help").split())
    assert all(re.match(r"[A-Z].*\.$", action.help) for action in flags()._actions if action.dest != "help")


def test_a_comparison_shows_its_own_flags_and_those_of_training(capsys):
    def shown(*words):
        with pytest.raises(SystemExit):
            compare.main(list(words))
        return capsys.readouterr().out

    assert {"losses", "budget", "learning_rate", "dataset"} <= set(re.findall(r"^  --(\w+)", shown("--help"), re.M))
    assert set(re.findall(r"^  --(\w+)", shown("mlc", "--help", "decisions"), re.MULTILINE)) == {
        field.name for field in mlc.PROGRAM.help([]).groups()["decisions"]
    }
    assert {"losses", "adam_beta1", "crf_learning_rate"} <= set(
        re.findall(r"^  --(\w+)", shown("tagging", "--help_all"), re.M)
    )


@pytest.mark.parametrize("program", [mlc.PROGRAM, energy])
def test_the_long_help_has_every_flag_of_the_parser_but_those_of_other_kinds_of_output(program, help_of):
    named = values(help_of(program, flag="--help_all")).keys()
    unread = program.help([]).unread
    of_fields = {field.name for kind in program.arguments for field in fields(kind) if field.init} - unread
    parsed = {action.dest for action in recipe_parser(program.arguments)._actions} - {"help", "help_all", "recipe"}
    assert len(named) == len(of_fields) and of_fields == parsed - unread


def test_flags_of_other_kinds_of_output_are_left_out(help_of):
    labels, tags, masks = (values(help_of(program, flag="--help_all")) for program in (mlc, tagging, segmentation))
    assert "relaxed_mass" in labels and not {"coherence_size", "crf_learning_rate"} & labels.keys()
    assert {"constrained_decoding", "crf_learning_rate"} <= tags.keys() and not {
        "relaxed_mass",
        "pixel_loss",
    } & tags.keys()
    assert {"pixel_loss", "coherence_size"} <= masks.keys() and not {
        "relaxed_mass",
        "crf_learning_rate",
    } & masks.keys()


@pytest.mark.parametrize("word", rewards.PROGRAMS)
def test_programs_with_rewards_have_the_flags_of_their_output(word):
    """`coherence_size` is a flag of masks, `constrained_decoding` one of tags, `relaxed_mass` one of label sets."""
    unread = rewards.PROGRAMS[word].help([]).unread
    own = {"mlc": "relaxed_mass", "tagging": "constrained_decoding", "segmentation": "coherence_size"}
    assert {name for name in own.values() if name not in unread} == {own[word]}
    assert "--rules" in rewards.PROGRAMS[word].help([]).text()


def test_the_values_are_those_that_hold(help_of, tmp_path):
    """Of both kinds of data; of the one that is named; of a recipe that is given."""
    text = help_of(mlc, flag="--help_all")
    both = values(text)
    assert "for features|text|text_frozen|images|images_pretrained." in " ".join(text.split())
    assert both["num_train_epochs"] == "60|5|30|15|5" and both["patience"] == "8|2|4|4|2" and both["loss"] == "nce"
    (tmp_path / "own.csv").write_text("text,labels\n" + "a b,x|y\n" * 9)
    (tmp_path / "own.yaml").write_text("num_train_epochs: 7\nloss: ranking\n")
    for words in (["--dataset", str(tmp_path / "own.csv")], ["--recipe", str(tmp_path / "own.yaml")]):
        arguments = mlc.PROGRAM.parse(words)
        found = values(help_of(mlc, *words, flag="--help_all"))
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
    assert {"loss_net_steps", "loss_net_max_grad_norm"} <= {f.name for f in groups["loss_net"]}
    assert {"task_loss", "pos_weight"} <= {f.name for f in groups["task_loss"]}
    assert all(f.name.startswith("hypergradient") for f in groups["implicit"]) and groups["implicit"]
