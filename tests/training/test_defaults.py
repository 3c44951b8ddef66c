"""Defaults have one source: recipes, arguments, `--help` and the Python API say the same numbers."""

import dataclasses
import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from transformers import TrainingArguments

from seal_hf import (
    SealForMultiLabel,
    SealForTokenClassification,
    SealTrainingArguments,
    Vocabulary,
    load_tags,
    tokenize,
)
from seal_hf.cli.recipes import DEFAULT_RECIPES
from seal_hf.cli.train.program import run_settings
from seal_hf.loss_net.energy_weight import BLIND_SHARE, LARGEST_SHARE, LARGEST_STEP
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.labels.model import MAX_LENGTH
from seal_hf.tasks.labels.program import ENERGY_PROGRAM as energy
from seal_hf.tasks.masks import program as segmentation
from seal_hf.tasks.masks.program import ENERGY_PROGRAM as mask_energy
from seal_hf.tasks.rewards import program as rewards
from seal_hf.tasks.tags import program as tagging
from seal_hf.tasks.tags.program import ROLE_PROGRAM as srl
from seal_hf.tasks.tags.program import TREE_PROGRAM as parsing

ROOT = Path(__file__).parents[2]
PROGRAMS = {  # packaged recipe -> the programs that take it
    "features": [mlc],
    "text": [mlc],
    "text_frozen": [mlc],
    "images": [mlc],
    "images_pretrained": [mlc],
    "tagging": [tagging],
    "tagging_text": [tagging, srl],
    "roles": [srl],
    "parsing": [parsing],
    "parsing_text": [parsing],
    "segmentation": [segmentation],
    "segmentation_classes": [segmentation],
    "segmentation_pretrained": [segmentation],
    "rewards": [rewards],
    "rewards_labels": [],
    "rewards_masks": [],
    "rewards_text": [rewards],
    "energy": [energy],
    "mask_energy": [mask_energy],
}


def fields(program):
    """The fields of a program's flags, by name and alias."""
    found = {}
    for kind in getattr(program, "PROGRAM", program).arguments:
        for field in dataclasses.fields(kind):
            found[field.name] = field
            for alias in field.metadata.get("aliases", ()):
                found[alias.removeprefix("--")] = field
    return found


# those laid over others, and those without the rule of λ1; the rest evaluate
UNRULED = ("roles", "rewards", "rewards_labels", "rewards_masks", "energy", "mask_energy")


def recipe(name):
    return yaml.safe_load((DEFAULT_RECIPES / f"{name}.yaml").read_text(encoding="utf-8"))


def test_every_packaged_recipe_has_its_programs():
    assert {file.stem for file in DEFAULT_RECIPES.glob("*.yaml")} == set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_packaged_recipe_says_no_default_again(name):
    """What is equal to a default of ours would have two sources. The Trainer's own may change with transformers."""
    theirs = {field.name for field in dataclasses.fields(TrainingArguments)}
    for program in PROGRAMS[name]:
        known = fields(program)
        again = [key for key, value in recipe(name).items() if key in known and known[key].default == value]
        assert [key for key in again if key not in theirs] == []


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in UNRULED])
def test_a_packaged_recipe_evaluates_and_leaves_the_weight_of_the_energy_to_the_rule(name):
    settings = recipe(name)
    assert settings["eval_strategy"] == settings["save_strategy"] == "epoch" and settings["load_best_model_at_end"]
    assert "energy_weight" not in settings and SealTrainingArguments.energy_weight is None
    assert "warmup_steps" not in settings


FROM_SCRATCH = {  # program and kind of data or net -> its flags, and how Python makes the same net
    "labels of features": (mlc, "features", [], lambda: label_nets("digits")),
    "labels of images": (
        mlc,
        "images",
        ["--dataset", "digit_images"],
        lambda: SealForMultiLabel.for_data("digit_images"),
    ),
    "energies of labels": (energy, "features", [], lambda: label_nets("digits", dropout=0.2)),
    "tags": (tagging, "BiLSTM", [], lambda: tag_nets("toy_tags")),
    "trees": (parsing, "BiLSTM", [], lambda: tag_nets("toy_tags")),
    "rewards": (rewards, "BiLSTM", [], lambda: tag_nets("toy_tags")),
}


def label_nets(name, **sizes):
    return SealForMultiLabel.for_data(name, **sizes)


def tag_nets(name):
    data = load_tags(name)
    return SealForTokenClassification.for_data(data, vocabulary=Vocabulary.from_data(data.train))


@pytest.mark.parametrize("name", FROM_SCRATCH)
def test_help_recipe_record_and_api_agree_on_a_net_from_scratch(name, tmp_path):
    program, kind, words, make = FROM_SCRATCH[name]
    program = getattr(program, "PROGRAM", program)
    shown = program.help(words).values[kind]
    given = [*words, "--output_dir", str(tmp_path), "--report_to", "none"]
    arguments = program.parse(given)
    data = SimpleNamespace(name="any")
    recorded, defaults, built = run_settings(data, arguments), program.defaults(arguments), make().config
    sizes = {"hidden_size", "num_layers", "dropout"} & program.from_scratch[kind].keys() & recorded.keys()
    assert {"hidden_size", "dropout"} <= sizes
    for size in sizes:
        values = {shown[size], getattr(arguments.nets, size), recorded[size], defaults[size], getattr(built, size)}
        assert len(values) == 1 and None not in values, (size, values)
    other = program.parse([*given, "--hidden_size", "8"])
    assert run_settings(data, other)["hidden_size"] == 8 and program.defaults(other)["hidden_size"] != 8


@pytest.mark.parametrize("program", [mlc, energy])
def test_the_longest_text_has_one_default(program):
    length = inspect.signature(tokenize).parameters["max_length"].default
    assert fields(program)["max_length"].default == MAX_LENGTH and length in (inspect.Parameter.empty, MAX_LENGTH)


TEXTS = ["--dataset", "any.csv", "--model_name_or_path", "owner/name"]


@pytest.mark.parametrize(
    "program, words, task_loss",
    [
        (mlc.PROGRAM, [], "cross_entropy"),
        (mlc.PROGRAM, TEXTS, "soft_f1"),
        (mlc.PROGRAM, [*TEXTS, "--label_format", "probabilities"], "cross_entropy"),  # soft F1 does not read them
        (mlc.PROGRAM, [*TEXTS, "--freeze_encoder", "true"], "cross_entropy"),
        (rewards.PROGRAMS["mlc"], [*TEXTS, "--rules", "any.yaml", "--num_labelled", "8"], "cross_entropy"),
        (tagging.PROGRAM, TEXTS, "cross_entropy"),
        (srl, TEXTS, "crf"),
        (srl, [*TEXTS, "--adapter", "lora"], "cross_entropy"),  # a CRF is not saved with an adapter
        (srl, [*TEXTS, "--loss_net_encoder", "peft"], "cross_entropy"),
        (segmentation.PROGRAM, [], "soft_iou"),
        (segmentation.PROGRAM, ["--dataset", "digit_classes"], "soft_iou"),
        (rewards.MASK_PROGRAM, [], "cross_entropy"),
    ],
)
def test_the_task_loss_of_a_run_without_flags(program, words, task_loss, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("any.csv").write_text("text,labels\na text,a|b\nanother,b\n", encoding="utf-8")
    given = [*words, "--output_dir", str(tmp_path), "--report_to", "none"]
    assert program.parse(given).training.task_loss == task_loss
    assert program.parse([*given, "--task_loss", "cross_entropy"]).training.task_loss == "cross_entropy"


def test_a_logistic_regression_has_no_other_loss_than_cross_entropy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("any.csv").write_text("text,labels\na text,a|b\nanother,b\n", encoding="utf-8")
    arguments = mlc.PROGRAM.parse([*TEXTS, "--linear", "true", "--output_dir", str(tmp_path), "--report_to", "none"])
    assert arguments.training.task_loss == "cross_entropy"


@pytest.mark.parametrize("word", rewards.PROGRAMS)
def test_help_and_run_agree_on_what_rewards_lay_over_a_recipe(word, tmp_path):
    program, kind = rewards.PROGRAMS[word], next(iter(rewards.PROGRAMS[word].recipes))
    shown = program.help([]).values[kind]
    arguments = program.parse(["--output_dir", str(tmp_path), "--report_to", "none"])
    for key in {"energy_loss", "sample_coherence", "crop_size"} & shown.keys():
        assert arguments.value(key) == shown[key]
    expected = {"mlc": "contrastive_divergence", "tagging": "contrastive_divergence", "segmentation": "ranking"}
    assert shown["energy_loss"] == expected[word] and (word != "segmentation" or shown["crop_size"] == 0)


def test_the_documentation_says_the_numbers_of_the_rule():
    text = (ROOT / "docs/how-to/energy-weight.md").read_text(encoding="utf-8")
    assert f"by at most {LARGEST_STEP} an epoch and up to {LARGEST_SHARE}" in text
    assert f"λ1 stays at {BLIND_SHARE} of the task loss's pull" in text
