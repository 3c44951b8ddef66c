"""Writes the pages of results from the runs in recipes/results/; trains nothing.

python benchmarks/results_page.py            # docs/results/, recipes/pages/, tables in README
python benchmarks/results_page.py --check    # only says whether they agree with the runs
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pages import (
    archive,
    comparisons,
    energy_networks,
    few_labels,
    gains,
    label_recipes,
    labels,
    papers,
    schedule,
    structures,
    summary,
)
from results_store import ROOT

PAGES, ARCHIVE = Path("docs", "results"), Path(archive.FOLDER)
README = Path("README.md")


def pages() -> dict[Path, str]:
    """Every page that is generated, by its path in the project."""
    found = {ARCHIVE / f"{name}.md": text for name, text in archive.all_pages().items()}
    for module in (
        summary,
        labels,
        label_recipes,
        papers,
        schedule,
        energy_networks,
        structures,
        few_labels,
        comparisons,
    ):
        found |= {PAGES / f"{name}.md": text for name, text in module.all_pages().items()}
    base = f"{PAGES.as_posix()}/"
    of_gains = {"questions": gains.questions(base), "gains": f"{gains.gains(base)}\n\n{gains.how_to_read()}"}
    found[README] = with_tables(README, **of_gains)
    return found


def with_tables(file: Path, root: Path = ROOT, **tables: str) -> str:
    """A file of the project with new tables, each between `<!-- mark -->` and `<!-- /mark -->`.

    Raises:
        ValueError: it lacks one of these lines.
    """
    text = (root / file).read_text(encoding="utf-8")
    for mark, table in tables.items():
        between = rf"(?s)(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
        if not re.search(between, text):
            raise ValueError(
                f"{file} lacks the lines <!-- {mark} --> and <!-- /{mark} -->. A table stands between them."
            )
        text = re.sub(between, lambda found, table=table: f"{found[1]}\n{table}\n\n{found[2]}", text)  # type: ignore[misc]
    return text


def stale(found: dict[Path, str], root: Path = ROOT) -> list[Path]:
    """Files that differ from these pages, and pages in the folders of results that are no longer made."""
    there = {file.relative_to(root) for folder in (PAGES, ARCHIVE) for file in (root / folder).glob("*.md")}
    changed = [path for path, text in found.items() if _read(root / path) != text]
    return sorted([*changed, *(there - found.keys())])


def _read(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.is_file() else None


def write(found: dict[Path, str], root: Path = ROOT) -> None:
    """Writes what is stale and removes pages that are no longer made."""
    for path in stale(found, root):
        if path not in found:
            (root / path).unlink()
            continue
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(found[path], encoding="utf-8")


def main() -> None:
    found = pages()
    if "--check" not in sys.argv:
        write(found)
    elif names := [path.as_posix() for path in stale(found)]:
        sys.exit(f"{', '.join(names)} and the runs disagree. Run python benchmarks/results_page.py.")


if __name__ == "__main__":
    main()
