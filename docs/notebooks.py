"""The tutorials as notebooks for a hosted service, in examples/notebooks/. Their code is that of the pages, which
tests/test_docs.py keeps alike. It runs every notebook from the top, with a tiny model in place of its `ENCODER`.

python docs/notebooks.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
FOLDER = DOCS.parent / "examples" / "notebooks"
REPOSITORY = re.search(r'^Repository = "(.+)"$', (DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"), re.M)[1]  # type: ignore[index]
INSTALL = f'%pip install -q "seal_hf[plot,vision] @ git+{REPOSITORY}"'
ABOUT = (
    "Run this cell first. A CPU is enough; a GPU is used if there is one. "
    "Where a cell sets `ENCODER`, it takes a Hub id or a folder with another model."
)
LEFT_OUT = re.compile(r"^\[As a notebook\].*\n+|<!-- output -->\n+```text\n.*?^```\n*|<!-- .*? -->\n*", re.M | re.S)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!http)[^)]+\)")  # to another page, which is not there
BLOCK = re.compile(r"(?:<!-- file: (\S+) -->\n+)?^```(\w+)\n(.*?)^```\n*", re.M | re.S)


def notebook_of(text: str) -> dict[str, Any]:
    """A page of Markdown as a notebook (format 4.5), whose first cell installs the package."""
    title, _, rest = text.partition("\n\n")
    cells = [_cell("markdown", f"{title}\n\n{ABOUT}"), _cell("code", INSTALL), *_cells(rest)]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _cells(text: str) -> Iterator[dict[str, Any]]:
    start = 0
    for block in BLOCK.finditer(text):
        file, language, code = block.groups()
        if file is None and language != "python":
            continue  # stays in the prose
        yield from _prose(text[start : block.start()])
        yield _cell("code", f"%%writefile {file}\n{code}" if file else code)
        start = block.end()
    yield from _prose(text[start:])


def _prose(text: str) -> Iterator[dict[str, Any]]:
    if said := LINK.sub(r"\1", LEFT_OUT.sub("", text)).strip():
        yield _cell("markdown", said)


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.rstrip("\n").splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def notebooks() -> dict[Path, str]:
    """The text of each notebook."""
    pages = sorted((DOCS / "tutorials").glob("*.md"))
    found = {FOLDER / f"{page.stem}.ipynb": notebook_of(page.read_text(encoding="utf-8")) for page in pages}
    return {file: json.dumps(content, indent=1, ensure_ascii=False) + "\n" for file, content in found.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in notebooks().items():
        file.write_text(text, encoding="utf-8")
