"""The documentation: its code runs, its commands exist, its links lead somewhere, its pictures are described.

Blocks of Python run in their order, each page in one namespace and in an empty folder, with two training steps. Those
of the tutorials run as notebooks, each in a fork. A block below `<!-- file: NAME -->` is that file; `mine.csv` is
there too. On a page with files, commands of `seal-hf decide` run too. What cannot run is below
`<!-- not run: REASON -->`. The encoder that pages name is a tiny one here.
"""

import contextlib
import importlib
import importlib.util
import io
import json
import os
import re
import shlex
import sys
import warnings
from dataclasses import fields
from pathlib import Path

import pytest
import stand_ins
from command_words import check_command
from launching import anew
from tiny_models import tiny_config, tiny_tokenizer
from transformers import AutoModel, TrainingArguments

from seal_hf import ENERGIES, ENERGY_LOSSES, TASK_LOSSES, EnergyTrainingArguments, SealTrainingArguments
from seal_hf.__main__ import COMMANDS
from seal_hf.__main__ import main as command
from seal_hf.data import embedded
from seal_hf.tasks.labels.evaluation import BESIDE_FIGURES, DECODER_FIGURES

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("[!_]*/*.md"))
PAGES += ["docs/index.md", "README.md"]
NOTEBOOKS = ROOT / "examples" / "notebooks"
LONGEST = {"docs/how-to/": 600, "docs/": 900}  # words of a page; the first that fits
FEW_MASKS = {"train": 16, "validation": 8, "test": 8}
FEW_DIGITS = {"train": 200, "validation": 100, "test": 100}
ENCODERS = re.compile("sentence-transformers/all-MiniLM-L6-v2|distilbert-base-uncased")
BLOCK = re.compile(r"(?:<!-- (file|not run): (.+?) -->\n+)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROSE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)  # what is no prose


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def words_of(page):
    """Words, and cells of tables; the lines of a table's frame do not count."""
    return len(re.findall(r"[^\s|]+", re.sub(r"^\|[-|]+\|$", "", text_of(page), flags=re.MULTILINE)))


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith(tuple(LONGEST))])
def test_a_page_is_no_longer_than_its_reader_has_time_for(page):
    assert words_of(page) <= next(limit for folder, limit in LONGEST.items() if page.startswith(folder))


def blocks(page):
    """(what the comment above says, its value, language, text) of each fenced block."""
    return [match.groups() for match in BLOCK.finditer(text_of(page))]


def has_code(page):
    return any(language == "python" and comment is None for comment, _, language, _ in blocks(page))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    AutoModel.from_config(tiny_config("bert")).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture
def two_steps(monkeypatch):
    """Every run has two steps, and there are few images: what is tested here is that the code runs."""
    whole = TrainingArguments.__post_init__

    def short(self):
        self.max_steps = 2
        whole(self)

    monkeypatch.setattr(TrainingArguments, "__post_init__", short)
    monkeypatch.setattr(embedded, "MASK_SIZES", FEW_MASKS)
    monkeypatch.setattr(embedded, "GROUP_SIZES", FEW_DIGITS)
    registries = (ENERGIES, ENERGY_LOSSES, TASK_LOSSES)
    before = [set(registry) for registry in registries]
    yield
    for registry, names in zip(registries, before, strict=True):  # a page may add to them
        for name in set(registry) - names:
            del registry[name]


@pytest.mark.parametrize("page", [page for page in PAGES if has_code(page) and "/tutorials/" not in page])
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, encoder, two_steps):
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text("text,labels\n" + 20 * "a red cat,warm|big\na grey dog,cold\n")
    for library in ("setfit", "gliner"):
        if importlib.util.find_spec(library) is None:
            monkeypatch.setitem(sys.modules, library, stand_ins)
    names = {"__name__": "__main__"}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # as for a reader who runs it
        for comment, value, language, text in blocks(page):
            if comment == "file":
                Path(value).write_text(text, encoding="utf-8")
            elif language == "bash" and text.startswith("seal-hf decide") and [*Path().glob("*.jsonl")]:
                for line in text.splitlines():
                    monkeypatch.setattr(sys, "argv", shlex.split(line))
                    command()
            elif language == "python" and comment is None:
                exec(compile(ENCODERS.sub(encoder, text), page, "exec"), names)  # noqa: S102 - our own page


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_are_known(page):
    shell = "\n".join(text for _, _, language, text in blocks(page) if language == "bash").replace("\\\n", " ")
    for line in shell.splitlines():
        words = shlex.split(line, comments=True)
        if "seal-hf" not in words:
            continue
        words = words[words.index("seal-hf") + 1 :]
        name = next((name for name in COMMANDS if words[: len(name.split())] == name.split()), None)
        assert name or words[:1] == ["--help"] or "--help" in words, line
        if name and name.startswith(("train", "compare")):
            check_command(name, words[len(name.split()) :])


def test_the_reference_has_every_argument(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    page = importlib.import_module("generate").arguments_page()
    for kind in (SealTrainingArguments, EnergyTrainingArguments):
        own = {each.name for each in fields(kind)} - {each.name for each in fields(TrainingArguments)}
        assert [name for name in sorted(own) if f"`{name}`" not in page] == []


def test_the_page_of_figures_has_every_end_of_a_name():
    keys = [key for key in [*DECODER_FIGURES.values(), *BESIDE_FIGURES] if key.startswith("f1_example_")]
    parts = {key.removeprefix("f1_example").removesuffix("_never_empty") or "_never_empty" for key in keys}
    assert [end for end in sorted(parts) if f"`{end}`" not in text_of("docs/reference/figures.md")] == []


def anchors(page):
    """Of the headings, as GitHub and MyST write them."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere_and_pictures_are_described(page):
    prose = PROSE.sub("", text_of(page))
    assert re.findall(r"!\[\s*\]", prose) == []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if target.startswith(("http", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if "generated/" in target:  # made when the documentation is built
            continue
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file.relative_to(ROOT) if file.is_absolute() else file), target


@pytest.mark.long
@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda file: file.stem)
@pytest.mark.usefixtures("two_steps")
def test_a_notebook_runs_from_the_top(notebook, encoder, tmp_path):
    """Its cells in their order, as in a fresh kernel: without the cell that installs the package, with few images and a
    tiny encoder."""

    def program():
        from seal_hf.data import embedded

        os.chdir(tmp_path)
        warnings.simplefilter("ignore")  # as for a reader who runs it
        embedded.MASK_SIZES, embedded.GROUP_SIZES = FEW_MASKS, FEW_DIGITS
        names = {"__name__": "__main__"}
        for number, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"]):
            code = "".join(cell["source"])
            if cell["cell_type"] != "code" or code.startswith("%pip "):
                continue
            if code.startswith("%%writefile "):
                first, _, text = code.partition("\n")
                Path(first.split()[1]).write_text(text + "\n", encoding="utf-8")
            else:
                code = re.sub(r'^ENCODER = ".*"$', f"ENCODER = {encoder!r}", code, flags=re.MULTILINE)
                exec(compile(code, f"{notebook.name}, cell {number}", "exec"), names)  # noqa: S102 - our own notebook

    anew(program)


def test_the_notebooks_have_the_code_of_the_tutorials(monkeypatch):
    """Cell by cell: an install cell, the files that a page shows, and its blocks of Python in their order."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    made = importlib.import_module("notebooks").notebooks()
    assert {*made} == {*NOTEBOOKS.glob("*")} and len(made) >= 4
    for file, text in made.items():
        assert file.read_text(encoding="utf-8") == text, f"{file.name} is old: python docs/notebooks.py"
        cells = [c for c in json.loads(text)["cells"] if c["cell_type"] == "code"]
        install, *code = ["".join(cell["source"]) for cell in cells]
        run = [
            f"%%writefile {value}\n{block}" if comment == "file" else block
            for comment, value, language, block in blocks(f"docs/tutorials/{file.stem}.md")
            if comment == "file" or (language == "python" and comment is None)
        ]
        assert install.startswith("%pip install ") and code == [each.rstrip("\n") for each in run]
