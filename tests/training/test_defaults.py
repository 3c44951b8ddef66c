"""Defaults have one source: recipes, arguments, `--help` and the Python API say the same numbers."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest
import yaml
from transformers import TrainingArguments

from seal_hf import (
    SealForMultiLabel,
    SealForTokenClassification,
    SealTrainingArguments,
    Vocabulary,
    load_multilabel,
    load_tags,
    tokenize,
)
from seal_hf.cli.recipes import DEFAULT_RECIPES
from seal_hf.loss_net.energy_weight import BLIND_SHARE, LARGEST_SHARE, LARGEST_STEP
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.labels.program import ENERGY_PROGRAM as energy
from seal_hf.tasks.masks import program as segmentation
from seal_hf.tasks.masks.program import ENERGY_PROGRAM as mask_energy
from seal_hf.tasks.rewards import program as rewards
from seal_hf.tasks.tags import program as tagging
from seal_hf.tasks.tags.program import ROLE_PROGRAM as srl
from seal_hf.tasks.trees import program as parsing

ROOT = Path(__file__).parents[2]
PROGRAMS = {  # packaged recipe -> the programs that take it
    "features": [mlc],
    "text": [mlc],
    "text_frozen": [mlc],
    "images": [mlc],
    "images_pretrained": [mlc],
    "tagging": [tagging],
    "tagging_text": [tagging, srl],
    "parsing": [parsing],
    "parsing_text": [parsing],
    "segmentation": [segmentation],
    "segmentation_classes": [segmentation],
    "segmentation_pretrained": [segmentation],
    "rewards": [rewards],
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


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ("rewards", "energy", "mask_energy")])
def test_a_packaged_recipe_evaluates_and_leaves_the_weight_of_the_energy_to_the_rule(name):
    settings = recipe(name)
    assert settings["eval_strategy"] == settings["save_strategy"] == "epoch" and settings["load_best_model_at_end"]
    assert "energy_weight" not in settings and SealTrainingArguments.energy_weight is None
    assert "warmup_steps" not in settings


def said(field):
    """The number that the help of a flag gives as its default."""
    return float(re.search(r"default: ([\d.]*\d)", field.metadata["help"]).group(1))


def test_the_help_of_the_nets_says_what_the_api_builds():
    config = SealForMultiLabel.for_data(load_multilabel()).config
    known = fields(mlc)
    for name in ("hidden_size", "num_layers", "dropout"):
        assert said(known[name]) == getattr(config, name), name
    data = load_tags("toy_tags")
    config = SealForTokenClassification.for_data(data, vocabulary=Vocabulary.from_data(data.train)).config
    for program in (tagging, parsing, rewards):
        known = fields(program)
        for name in {"hidden_size", "num_layers", "dropout"} & known.keys():
            assert said(known[name]) == getattr(config, name), name


def test_the_help_of_the_longest_text_says_what_is_cut():
    length = inspect.signature(tokenize).parameters["max_length"].default
    assert said(fields(mlc)["max_length"]) == said(fields(energy)["max_length"]) == mlc.MAX_LENGTH
    assert length in (inspect.Parameter.empty, mlc.MAX_LENGTH)


def test_the_documentation_says_the_numbers_of_the_rule():
    text = (ROOT / "docs/how-to/energy-weight.md").read_text(encoding="utf-8")
    assert f"by at most {LARGEST_STEP} an epoch and up to {LARGEST_SHARE}" in text
    assert f"λ1 stays at {BLIND_SHARE} of the task loss's pull" in text
