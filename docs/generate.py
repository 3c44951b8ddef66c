"""Pages that are made of the code when the documentation is built: flags of the programs, arguments, names of the API,
packaged recipes. What it writes is not committed."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from inspect import getdoc
from pathlib import Path
from typing import Any

import seal_hf.api
from seal_hf.__main__ import COMMANDS
from seal_hf.cli.decide import apply_flags, fit_flags, report_flags
from seal_hf.cli.predict import evaluate_flags, predict_flags
from seal_hf.cli.recipes import DEFAULT_RECIPES
from seal_hf.cli.train.program import Program
from seal_hf.lab.demo.program import demo_flags

TITLES = {  # file or room of the package -> title in the reference, in the order of the page
    "trainer": "Trainers",
    "training": "Trainers",
    "model": "Models",
    "data": "Data",
    "energies": "Energies",
    "energy_losses": "Energy losses",
    "task_losses": "Task losses",
    "space": "Output spaces and rewards",
    "rewards": "Output spaces and rewards",
    "gradient_descent": "Inference",
    "implicit": "Implicit gradients",
    "loss_net": "The loss-net",
    "fcn": "Small nets",
    "mlp": "Small nets",
    "nets": "Small nets",
    "label_sets": "Structures",
    "registries": "Registries",
}

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 110  # characters of a line of a file that are shown
TRAINER_METHODS = ("train", "evaluate", "infer", "fit_decisions", "save_model")


def write(docs: Path) -> None:
    """Everything that is generated, under `docs`."""
    reference = docs / "reference/generated"
    reference.mkdir(exist_ok=True)
    pages = {"command": command_page(), "arguments": arguments_page(), "api": api_page(), "recipes": recipes_page()}
    pages["layouts"] = layouts_page()
    for name, text in pages.items():
        (reference / f"{name}.md").write_text(text, encoding="utf-8")


def command_page() -> str:
    """The flags of the subcommands: of those that train, by the group that they come from; and of those that read a
    saved model."""
    lines = ["# Command-line reference", ""]
    lines += [
        "The Trainer's own arguments are flags of `train`, too. A recipe holds the same names as keys.",
        "Defaults on this page are those without a recipe; `train KIND --help` shows them with the packaged one.",
        "The flags of `compare`, `export`, `report`, `rules check` and `analyse` are in their `--help`.",
        "",
    ]
    for name, (where, what) in COMMANDS.items():
        if not name.startswith("train "):
            continue
        program: Program = importlib.import_module(where.split(":")[0]).PROGRAM
        lines += [f"## `seal-hf {name}`", "", f"{what[0].upper()}{what[1:]}.", ""]
        lines += ["| flag | default | meaning |", "|---|---|---|"]
        for kind in program.arguments[:3]:
            lines += [flag_row(field) for field in dataclasses.fields(kind)]
        lines += ["", f"And [the arguments of the training](arguments.md#{program.arguments[3].__name__.lower()}).", ""]
    for make in (predict_flags, evaluate_flags, fit_flags, apply_flags, report_flags, demo_flags):
        flags = make()
        lines += [
            f"## `{flags.prog}`",
            "",
            flags.description or "",
            "",
            "| flag | default | meaning |",
            "|---|---|---|",
        ]
        lines += [parser_row(action) for action in flags._actions if action.dest != "help"]
        lines.append("")
    return "\n".join(lines)


def parser_row(action: argparse.Action) -> str:
    shown = "" if action.default in (None, False) else f"`{action.default}`"
    return f"| `{', '.join(action.option_strings)}` | {shown} | {cell(action.help or '')} |"


def flag_row(field: dataclasses.Field) -> str:
    shown = "" if field.default in (None, "", dataclasses.MISSING) else f"`{field.default}`"
    return f"| `--{field.name}` | {shown} | {cell(field.metadata.get('help', ''))} |"


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def arguments_page() -> str:
    """What the docstrings of the arguments say, section by section."""
    lines = ["# Arguments of the training", ""]
    for kind in (seal_hf.api.SealTrainingArguments, seal_hf.api.EnergyTrainingArguments):
        lines += [f"## {kind.__name__}", ""]
        docs = [getdoc(base) or "" for base in kind.__mro__ if base.__module__.startswith("seal_hf.")]
        for title, entries in (section for doc in docs for section in sections(doc)):
            lines += [f"### {title}", "", "| argument | type and default | meaning |", "|---|---|---|"]
            lines += [f"| {names} | {cell(kind)} | {cell(text)} |" for names, kind, text in entries]
            lines.append("")
    return "\n".join(lines)


def sections(doc: str) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Of a docstring of arguments: the title of each section, and its entries: names, type with default, text."""
    for match in re.finditer(r"^Parameters that control (.+?):\n((?:    .*\n?|\n)+)", doc, re.MULTILINE):
        title, entries = match[1], []
        for entry in re.split(r"\n(?=    \S)", match[2].rstrip()):
            text = re.sub(r"\s+", " ", entry.strip())
            head, _, meaning = text.partition("): ")
            found = re.findall(r"(\w+) \(([^()]*(?:\([^()]*\)[^()]*)*)", head + ")")
            names = ", ".join(f"`{name}`" for name, _ in found)
            if re.match(r"[a-z]{2}|a ", meaning):  # a word, not a symbol
                meaning = meaning[0].upper() + meaning[1:]
            entries.append((names, "; ".join(kind for _, kind in found), meaning))
        yield title[0].upper() + title[1:], entries


def api_page() -> str:
    """Every public name with its docstring, by room."""
    by_title: dict[str, list[str]] = defaultdict(list)
    for name in seal_hf.api.__all__:
        found: Any = getattr(seal_hf.api, name)
        module = getattr(found, "__module__", "")
        by_title[title_of(module)].append(name)
    lines = ["# API", "", "Names to import from `seal_hf`.", ""]
    for title in dict.fromkeys(TITLES.values()):
        lines += [f"## {title}", ""]
        for name in by_title[title]:
            lines += directive(name)
    lines += ["## Metrics", "", "`seal_hf.metrics`, for `compute_metrics=`.", ""]
    lines += ["```{eval-rst}", ".. automodule:: seal_hf.metrics", "   :imported-members:", "```", ""]
    return "\n".join(lines)


def title_of(module: str) -> str:
    """The title for what a module defines: by its file, or else by its room."""
    parts = module.split(".")[1:] if module.startswith("seal_hf.") else ["registries"]
    return next(TITLES[part] for part in (parts[-1], *reversed(parts[:-1]), "registries") if part in TITLES)


def directive(name: str) -> list[str]:
    found = getattr(seal_hf.api, name)
    if isinstance(found, Mapping):
        keys = ", ".join(f"`{key}`" for key in found)
        return [f"**`{name}`**: {keys}.", ""]
    if name.endswith("TrainingArguments"):
        return [f"**`{name}`**: [its arguments](arguments.md#{name.lower()}).", ""]
    kind = "autoclass" if isinstance(found, type) else "autofunction"
    members: list[str] = []
    if name.endswith("Trainer"):  # its other methods are the Trainer's hooks
        shown = [method for method in TRAINER_METHODS if hasattr(found, method)]
        members = ["   :no-members:", "", *(f"   .. automethod:: {method}" for method in shown)]
    return ["```{eval-rst}", f".. {kind}:: seal_hf.{name}", *members, "```", ""]


def as_rst(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Our docstrings are Markdown in the layout of Google's: what reStructuredText would read otherwise is escaped."""
    for number, line in enumerate(lines):
        parts = re.split(r"(\[?`[^`]+`\]?)", line)
        parts[::2] = [re.sub(r"([*|\\]|_(?!\w))", r"\\\1", text) for text in parts[::2]]
        parts[1::2] = [code_as_rst(code.strip("[]").strip("`").lstrip("~")) for code in parts[1::2]]
        lines[number] = "".join(parts)


def code_as_rst(code: str) -> str:
    return f":py:obj:`~seal_hf.{code}`" if code in seal_hf.api.__all__ else f"``{code}``"


def layouts_page() -> str:
    """The layouts that are read, with the first lines of the inputs of their tests."""
    layouts = module_of(ROOT / "tests/layouts.py")
    lines = [
        "# Layouts of data",
        "",
        "Each file below is read by a test, which knows its rows. Five lines of each are shown.",
        "",
    ]
    for title, load, found in (
        ("Label sets", "load_multilabel", layouts.LABELS),
        ("Tags", "load_tags", layouts.TAGS),
    ):
        lines += [f"## {title}", "", f"Read by `{load}` and the commands that train.", ""]
        for one in found:
            lines += [f"### {one.title.replace('|', chr(92) + '|')}", "", *shown_file(one.file, one.content)]
            for name, content in one.beside.items():
                lines += [f"Beside it, `{name}`:", "", *shown_file(name, content)]
            if one.options:
                lines += [f"Flags: `{' '.join(f'--{name} {value!r}' for name, value in one.options.items())}`", ""]
            if one.note:
                lines += [f"The notes say: `{one.note}`.", ""]
    return "\n".join(lines)


def module_of(file: Path) -> Any:
    """A module that is no part of a package."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown_file(name: str, content: str) -> list[str]:
    """The first lines of a file, with tabs as arrows, in a block."""
    first = [line if len(line) <= LONGEST else f"{line[:LONGEST]} ..." for line in content.split("\n")[:5]]
    arrows = ["In it, → is a tab.", ""] if any("\t" in line for line in first) else []
    return [f"`{name}`:", "", "````text", *(line.replace("\t", "→") for line in first), "````", "", *arrows]


def recipes_page() -> str:
    """The packaged recipes as they are."""
    lines = ["# Packaged recipes", "", "A program takes one of these where no `--recipe` is given.", ""]
    for file in sorted(DEFAULT_RECIPES.glob("*.yaml")):
        lines += [f"## {file.stem}", "", "```yaml", file.read_text(encoding="utf-8").rstrip(), "```", ""]
    return "\n".join(lines)
