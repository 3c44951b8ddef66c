"""Pieces of a page: tables, blocks of commands, sections."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

WRITTEN = "<!-- python benchmarks/results_page.py writes this page from recipes/results/ -->"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def bash(*lines: str) -> str:
    """A block of commands, one per line."""
    return "\n".join(["```bash", *lines, "```"])


def prose(text: str) -> str:
    """Paragraphs, and lists whose items begin with `- `, each filled to the width of a line."""
    items = re.split(r"\n\s*\n|\n(?=\s*- )", text.strip())
    filled = [_fill(" ".join(item.split())) for item in items]
    joined = filled[0]
    for before, item in zip(filled, filled[1:], strict=False):
        joined += ("\n" if before.startswith("- ") and item.startswith("- ") else "\n\n") + item
    return joined


def _fill(item: str) -> str:
    indent = "  " if item.startswith("- ") else ""
    return textwrap.fill(item, 118, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def section(title: str, *blocks: str) -> str:
    return "\n\n".join([f"## {title}", *filter(None, blocks)])


def archived(*data_sets: str) -> str:
    """The last lines of a page: where all runs and their commands are."""
    names = ", ".join(data_sets)
    return prose(f"Every run, with its command, is in the [archive](../../recipes/pages/README.md): {names}.")


def page(title: str, *blocks: str) -> str:
    return "\n\n".join([f"# {title}", *filter(None, blocks), WRITTEN]) + "\n"
