"""The README: its commands and blocks run, its tables say what the code does, and it stays short."""

import re
from pathlib import Path

import pytest

from seal_hf import ENERGY_LOSSES

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def marked(marker: str) -> str:
    """The code block below `<!-- marker -->`."""
    found = re.findall(rf"<!-- {re.escape(marker)} -->\n+```\w+\n(.*?)\n```", README, re.DOTALL)
    assert len(found) == 1, f"expected one code block below <!-- {marker} -->, found {len(found)}"
    return found[0]


def test_it_is_short():
    assert len(README.splitlines()) <= 150 and len(README.split()) <= 1_200


@pytest.mark.parametrize("marker", ["ci: run", "ci: test"])
def test_a_command_is_one_line_and_names_files_that_exist(marker):
    command = marked(marker)
    assert "\n" not in command
    files = re.findall(r"[\w./-]+\.(?:py|txt)\b", command)
    assert "constraints.txt" in files
    assert [name for name in files if not (ROOT / name).is_file()] == []


def test_every_loss_has_its_row():
    table = README[README.index("| `--loss` |") :]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [*ENERGY_LOSSES, "ce"]


def test_the_table_of_gains_is_short():
    rows = re.search(r"<!-- gains -->(.*?)<!-- /gains -->", README, re.DOTALL)[1].strip().splitlines()
    assert 3 <= len([row for row in rows if row.startswith("|")]) <= 7  # a header, a line, and five rows


def test_contributing_is_short_and_names_what_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    words = lambda part: len(re.findall(r"[^\s|]+", re.sub(r"(?m)^\|[-|]+\|$", "", part)))  # noqa: E731 - no frames
    assert words(text) <= 1_200 and words(re.search(r"(?ms)^## The rooms$(.*?)^## ", text)[1]) <= 700
    answers = re.search(r"(?ms)^## Where is it\?$(.*?)^## ", text)[1]
    for row in answers.strip().splitlines()[2:]:
        files = re.findall(r"`(seal_hf/[\w/]+\.py)`", row)
        names = re.findall(r"`([A-Za-z_]+)(?:\.\w+)?`", row)
        code = "".join((ROOT / file).read_text(encoding="utf-8") for file in files)
        assert 1 <= len(files) <= 2 and all(re.search(rf"(class|def) {name}\b|^{name}\b", code, re.M) for name in names)
    minutes = {
        re.search(r"bout (\d+) minutes on two cores", text)[1] for text in (text, (ROOT / ".ci/run").read_text())
    }
    assert len(minutes) == 1


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "recipes/pages/README.md"])
def test_links_inside_the_project_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    local = [link for link in links if not link.startswith("http")]
    assert [link for link in local if not ((ROOT / page).parent / link).exists()] == []
