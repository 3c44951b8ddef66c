"""The README: its commands, its quickstart and its tables say what the code does."""

import ast
import contextlib
import dataclasses
import io
import os
import re
import warnings
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from seal_hf import ENERGY_LOSSES, RuleReward, SealForMultiLabel, SealTrainingArguments
from seal_hf.data import DataArguments

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def marked(marker: str) -> str:
    """The code block below `<!-- marker -->`."""
    found = re.findall(rf"<!-- {re.escape(marker)} -->\n+```\w+\n(.*?)\n```", README, re.DOTALL)
    assert len(found) == 1, f"expected one code block below <!-- {marker} -->, found {len(found)}"
    return found[0]


def section(title: str) -> str:
    """The text below `## title`."""
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, re.DOTALL | re.MULTILINE)[1]


def first_column(table: str) -> list[str]:
    """The names in backticks that open the rows of a table."""
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


def test_the_quickstart_runs_and_leaves_a_plain_model_and_a_loss_net(tmp_path):
    code = marked("test: quickstart")
    assert len(ast.parse(code).body) <= 10  # "ten lines"
    assert "num_train_epochs=20" in code
    assert "eval_f1_example" in run_code(code.replace("num_train_epochs=20", "num_train_epochs=2"), tmp_path)

    folder = tmp_path / "outputs/quickstart/final"
    nets = SealForMultiLabel.from_pretrained(folder)  # warns and builds a fresh loss-net where there is none
    assert (folder / "_loss_net/model.safetensors").is_file()
    task_net = AutoModelForSequenceClassification.from_pretrained(folder)
    assert task_net.config.num_labels == nets.loss_net.config.num_labels > 10


@pytest.mark.parametrize("kind, figure", [("tags", "eval_f1"), ("masks", "eval_mean_iou"), ("rewards", "train_loss")])
def test_the_other_kinds_train_as_shown(kind, figure, tmp_path):
    code = marked(f"test: {kind}")
    code = code.replace("SealTrainingArguments(", "SealTrainingArguments(max_steps=2, output_dir=", 1)
    printed = run_code(code, tmp_path)
    assert figure in printed
    if kind == "masks":  # what the pipeline finds in an image
        assert "'label': 'background'" in printed and "'mask': <PIL.Image.Image image mode=L size=32x32" in printed


def test_the_rules_are_rules(tmp_path):
    """A citation that keeps all of them, and one that keeps none but the year's."""
    (tmp_path / "rules.yaml").write_text(marked("test: rules"))
    reward = RuleReward(tmp_path / "rules.yaml", names := ["author", "editor", "title", "date"])
    words = "A. Smith , Nets . 1999 .".split()
    rows = [[0, 0, 0, 2, 2, 3, 3], [2, 0, 2, 0, 2, 3, 2]]
    y = torch.nn.functional.one_hot(torch.tensor([rows]), len(names)).float()
    kept = reward(torch.tensor(reward.codes([words])), y, torch.ones(1, 7).bool())
    assert kept[0, 0] == 1 and len(reward.rules) == 7 and kept[0, 1] < 0.6


def run_code(code: str, folder: Path) -> str:
    """What it prints, run in `folder`. A warning is no error, as for a reader who runs it."""
    printed, before = io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
            warnings.simplefilter("ignore")
            exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own page
    finally:
        os.chdir(before)
    return printed.getvalue()


@pytest.mark.parametrize("marker", ["ci: run", "ci: test"])
def test_a_command_is_one_line_and_names_files_that_exist(marker):
    command = marked(marker)
    assert "\n" not in command
    files = re.findall(r"[\w./-]+\.(?:py|txt)\b", command)
    assert "constraints.txt" in files
    assert [name for name in files if not (ROOT / name).is_file()] == []


def test_every_loss_has_its_row():
    assert first_column(section("The losses").split("| argument |")[0]) == [*ENERGY_LOSSES, "ce"]


def test_the_table_of_arguments_gives_the_defaults():
    rows = re.findall(r"^\| `(\w+)` \| `?([^|`]+?)`? \|", section("The losses").split("| argument |")[1], re.MULTILINE)
    defaults = {field.name: field.default for field in dataclasses.fields(SealTrainingArguments)}
    implicit = {name for name in defaults if name.startswith("hypergradient")}
    assert set(first_column(section("Implicit gradients"))) == {"loss_net_every", *implicit}
    assert len(rows) > 10
    for name, shown in rows:
        default = {"False": "off", "None": "a rule"}.get(str(defaults[name]), defaults[name])
        assert shown == default if isinstance(default, str) else float(shown) == default, name


def test_arguments_and_flags_that_are_named_exist():
    files = [ROOT / "seal_hf/cli/train" / name for name in ("mlc.py", "arguments.py")]
    program = "\n".join(file.read_text(encoding="utf-8") for file in files)
    known = {field.name for kind in (SealTrainingArguments, DataArguments) for field in dataclasses.fields(kind)}
    known |= set(re.findall(r"^    (\w+): .*= field\(", program, re.MULTILINE)) | {"loss", "recipe", "help"}
    blocks = [README[match.start() :] for match in re.finditer(r"run_mlc\.py", README)]
    flags = {flag for block in blocks for flag in re.findall(r"--(\w+)", block.split("\n")[0].split("&&")[0])}
    flags |= set(
        re.findall(
            r"`--([a-z]\w*)",
            "".join(section(name) for name in ("The program", "The losses", "Implicit gradients", "Data")),
        )
    )
    assert {"loss", "dataset", "model_name_or_path", "push_to_hub", "normalize"} <= flags
    assert flags - known - {"multi_gpu", "num_processes", "cpu"} == set()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_inside_the_project_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    local = [link for link in links if not link.startswith("http")]
    assert [link for link in local if not (ROOT / link).exists()] == []
