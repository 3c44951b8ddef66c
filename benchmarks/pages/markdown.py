"""Pieces of a page: tables, blocks of commands, sections."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

WRITTEN = "`python benchmarks/results_page.py` writes this page from the raw runs in `recipes/results/`."


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def bash(*lines: str) -> str:
    """A block of commands, one per line."""
    return "\n".join(["```bash", *lines, "```"])


def prose(text: str) -> str:
    """A text of a module without its indentation."""
    return textwrap.dedent(text).strip()


def section(title: str, *blocks: str) -> str:
    return "\n\n".join([f"## {title}", *filter(None, blocks)])


def page(title: str, *blocks: str) -> str:
    return "\n\n".join([f"# {title}", *filter(None, blocks), WRITTEN]) + "\n"
