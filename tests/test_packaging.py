"""What ships: dependencies and pins, package data, changelog, kinds of tracked files, recipes."""

import ast
import contextlib
import importlib.metadata
import io
import re
import shutil
import subprocess
import sys
import zipfile
from datetime import date
from pathlib import Path

import pytest
from command_words import program_of
from launching import anew
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from seal_hf.cli.recipes import parse_recipe

ROOT = Path(__file__).resolve().parents[1]
SETUP = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
RECIPES = sorted(
    str(file.relative_to(ROOT)) for file in (ROOT / "recipes").rglob("*.y*ml") if file.parent.name != "rules"
)  # files of rules are read by seal_hf/tasks/rewards/tag_rules.py
# A pickle runs code when it is read; weights are safetensors; data sets have licences of their own and stay outside.
# Checkpoints of an earlier release have states of optimizers and generators, which test_fixtures.py looks into.
STATES = re.compile(r"tests/fixtures/.*\.(pt|pth)")
FORBIDDEN = ".pkl .pickle .joblib .bin .pt .pth .ckpt .npy .npz .h5 .arff .parquet .arrow .zip .gz".split()


def setup_constant(name: str):
    """A literal that setup.py assigns at its top level."""
    (value,) = [node.value for node in SETUP.body if isinstance(node, ast.Assign) and node.targets[0].id == name]
    return ast.literal_eval(value)


def setup_argument(name: str):
    """A literal that setup.py hands to `setup`."""
    (call,) = [node.value for node in SETUP.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    return ast.literal_eval(next(keyword.value for keyword in call.keywords if keyword.arg == name))


@pytest.mark.parametrize(
    ("name", "unsafe", "safe"),
    [
        ("transformers", ["4.57.5", "5.0.0", "5.2.9", "5.4.1", "5.8.1"], ["4.57.6", "5.10.0", "5.23.0"]),
        ("torch", ["2.6.0", "2.9.1"], ["2.10.0", "2.13.0"]),
        ("pillow", ["12.1.1"], ["12.2.0"]),
        ("starlette", ["1.0.1", "1.2.1"], ["1.3.1"]),
    ],
)
def test_versions_with_known_weaknesses_are_not_installed(name, unsafe, safe):
    wanted = next(requirement for requirement in requirements() if requirement.name == name).specifier
    assert not any(version in wanted for version in unsafe) and all(version in wanted for version in safe)


def requirements(*, but: str | None = None) -> list[Requirement]:
    extras = {name: wanted for name, wanted in setup_constant("EXTRAS_REQUIRE").items() if name != but}
    return [Requirement(text) for text in sum(extras.values(), setup_constant("INSTALL_REQUIRES"))]


def pins(file: str) -> dict[str, Version]:
    """Name -> version of a constraints file; every line is `name==version`, sorted, once."""
    lines = [line for line in (ROOT / file).read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    wrong = [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*", line)]
    assert wrong == [], "expected name==version, without a local version such as +cpu"
    names = [canonicalize_name(line.split("==")[0]) for line in lines]
    assert sorted(set(names)) == sorted(names)
    return {name: Version(line.split("==")[1]) for name, line in zip(names, lines, strict=True)}


@pytest.mark.parametrize("file, but", [("constraints.txt", "adapters"), ("constraints-adapters.txt", "trackio")])
def test_constraints_pin_every_dependency_within_its_bounds(file, but):
    pinned = pins(file)
    wanted = requirements(but=but)
    assert [str(r) for r in wanted if canonicalize_name(r.name) not in pinned] == []
    assert [str(r) for r in wanted if pinned[canonicalize_name(r.name)] not in r.specifier] == []


def test_the_two_lanes_are_the_two_lines_of_transformers():
    assert pins("constraints.txt")["transformers"].major == 5
    assert pins("constraints-adapters.txt")["transformers"].release[:2] == (4, 57)
    assert "adapters" not in pins("constraints.txt")


def test_every_dependency_has_a_lower_bound_and_a_reason():
    for requirement in requirements():
        assert ">=" in str(requirement.specifier), requirement
    in_lists = re.findall(
        r'^ +(?:"\w+": \[)?"[\w.-]+>=.*$', (ROOT / "setup.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(in_lists) == len(requirements())
    assert [line for line in in_lists if "  # " not in line] == []


def test_imports_of_the_package_are_dependencies():
    """Everything that `seal_hf` imports is the standard library, itself, or named in setup.py."""
    names = {"liac-arff": "arff", "scikit-learn": "sklearn", "pyyaml": "yaml", "pillow": "PIL"}
    known = {names.get(canonicalize_name(r.name), r.name) for r in requirements()} | {"seal_hf"}
    found = set()
    for file in (ROOT / "seal_hf").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add(node.module.split(".")[0])
    assert found - set(sys.stdlib_module_names) - known == set()


def test_packages_of_extras_are_imported_where_they_are_used():
    """Who did not install an extra can import every module but those of `lab/demo/` that no other imports at its top:
    no `import` at the top of a file needs one."""
    required = {canonicalize_name(Requirement(text).name) for text in setup_constant("INSTALL_REQUIRES")}
    names = {"pillow": "PIL"}
    extra = {canonicalize_name(requirement.name) for requirement in requirements()} - required
    extra = {names.get(name, name) for name in extra}
    found = []
    for file in (ROOT / "seal_hf").rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
            found += [(file.name, module) for module in modules if module.split(".")[0] in extra]
    late = {"guard.py": "guard"}  # of the demo: a class of it has one of starlette's as base
    tops = [node for node in ast.parse((ROOT / "seal_hf/lab/demo/program.py").read_text(encoding="utf-8")).body]
    early = {node.module for node in tops if isinstance(node, ast.ImportFrom)} & set(late.values())
    others = [(name, module) for name, module in found if name not in late]
    assert "matplotlib" in extra and others == [] and not early


def test_package_data_names_every_file_that_is_not_python():
    package = ROOT / "seal_hf"
    files = {file for file in package.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")}
    globs = setup_argument("package_data")["seal_hf"]
    assert [glob for glob in globs if not list(package.glob(glob))] == []
    assert files - {file for glob in globs for file in package.glob(glob)} == set()


def test_the_wheel_is_enough(tmp_path):
    """The wheel holds the files of the package and no others; installed, it finds its own data and has the command."""
    pytest.importorskip("setuptools", "70.1")
    source, installed = tmp_path / "source", tmp_path / "installed"
    shutil.copytree(ROOT / "seal_hf", source / "seal_hf", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = "from setuptools import build_meta; print(build_meta.build_wheel('..'))"
    built = subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True, text=True)
    wheel = tmp_path / built.stdout.splitlines()[-1]
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        stated = archive.read(metadata).decode().splitlines()
    expected = {file for file in (ROOT / "seal_hf").rglob("*") if file.is_file() and file.suffix != ".pyc"}
    version = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)[1]
    for line in (f"Version: {version}", "License-Expression: Apache-2.0", "Provides-Extra: plot"):
        assert line in stated
    assert f'__version__ = "{version}"' in (ROOT / "seal_hf/__init__.py").read_text(encoding="utf-8")
    assert held == {file.relative_to(ROOT).as_posix() for file in expected}

    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)  # as pip does, which makes a script of the entry point besides
    (distribution,) = importlib.metadata.distributions(path=[str(installed)])
    (entry,) = distribution.entry_points.select(group="console_scripts")
    assert (entry.name, entry.value) == ("seal-hf", "seal_hf.__main__:main")

    def program():
        sys.path.insert(0, str(installed))
        sys.argv = ["seal-hf", "--help"]
        with pytest.raises(SystemExit), contextlib.redirect_stdout(io.StringIO()) as said:
            entry.load()()
        assert "train mlc" in said.getvalue()
        from seal_hf.cli.recipes import packaged_recipe

        recipe = packaged_recipe("text")
        assert recipe.is_file() and recipe.is_relative_to(installed)

    anew(program)


def test_the_changelog_keeps_its_format():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.startswith("# Changelog\n")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    released = []
    for heading in headings[1:]:
        match = re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})", heading)
        assert match, f"'## {heading}': expected '## [1.2.3] - 2024-12-31'"
        released.append((Version(match[1]), date.fromisoformat(match[2])))
    assert released == sorted(released, reverse=True)
    kinds = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        of_part = re.findall(r"^### (.*)$", part, re.MULTILINE)
        assert len(of_part) == len(set(of_part)), f"a kind of change stands twice in '## {part.splitlines()[0]}'"
    empty = re.findall(r"^### .*$(?=\s*(?:^##|\Z))", text, re.MULTILINE)
    assert empty == []


def test_no_pickles_weights_or_data_are_tracked():
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("git is not installed")
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    files = listed.stdout.split("\0")
    found = [name for name in files if name.lower().endswith(tuple(FORBIDDEN))]
    assert [name for name in found if not STATES.fullmatch(name)] == []


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_parses_against_its_program(recipe, tmp_path):
    """recipes/mlc/ belongs to `train mlc`, and so on: every key is a field of one of its dataclasses."""
    words = ["--recipe", str(ROOT / recipe), "--output_dir", str(tmp_path), "--use_cpu", "true"]
    parsed = parse_recipe(program_of(Path(recipe).parts[1].replace("_", "-")).arguments, words)
    assert parsed[-1].output_dir == str(tmp_path)
