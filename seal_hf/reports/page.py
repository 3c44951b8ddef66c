"""A page: sections of paragraphs, tables, plots and pictures, as one HTML file that requests nothing."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from ..utils.messages import printable

FOLDER = Path(__file__).parent
SHOWN = {"eval": "validation"}  # key of a split in the result files -> its name for readers
MAX_ROWS = 1000  # of a table; a page of 10,000 labels stays below 3 MB


@dataclass(frozen=True)
class Number:
    """A number with a text of its own, such as `81.2 ± 0.4`. Tables sort by the number; None and NaN come last."""

    value: float | None
    text: str


@dataclass
class Table:
    """A table. A click on a column's name sorts it.

    Attributes:
        rows: a mapping per row, with the names of columns as keys. Values are text, numbers, [`Number`], None, or
            [`Markup`], which is HTML already. Columns stand in the order in which their keys first appear. Numbers are
            aligned right.
        caption: what to see in it.
        marked: numbers of rows that stand out.
        more: number of rows that are left out, for instance because they are too many.
        folded: True if the table is shown only when its caption is clicked.
        saved_as: the name of the csv file that a button saves; beside it a field filters the rows. Empty for neither.
    """

    rows: Sequence[Mapping[str, Any]]
    caption: str = ""
    marked: Sequence[int] = ()
    more: int = 0
    folded: bool = False
    saved_as: str = ""
    kind: str = field(default="table", init=False)

    def __post_init__(self) -> None:
        if len(self.rows) > MAX_ROWS:
            self.more += len(self.rows) - MAX_ROWS
            self.rows = self.rows[:MAX_ROWS]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(dict.fromkeys(key for row in self.rows for key in row))

    @property
    def numbers(self) -> set[str]:
        """The columns of numbers."""
        return {column for column in self.columns if all(is_number(row.get(column)) for row in self.rows)}


@dataclass
class Plot:
    """A plot, its caption, and the numbers that it shows.

    Attributes:
        svg: from `plots.py`, or any inline HTML, such as an `<img>` with its data.
        caption: what to see in it.
        table: the numbers, folded away below the plot.
        wide: True for the full width of the page.
    """

    svg: Markup
    caption: str
    table: Table | None = None
    wide: bool = False
    kind: str = field(default="plot", init=False)


@dataclass
class Card:
    """A short answer. Cards that follow each other stand side by side.

    Attributes:
        title: the question.
        sentences: the answer.
        number: what stands out in it, such as a score; empty for nothing.
    """

    title: str
    sentences: Sequence[str]
    number: str = ""
    kind: str = field(default="card", init=False)


@dataclass
class Section:
    """A part of the page.

    Attributes:
        title: its heading; also its entry in the list at the top.
        parts: paragraphs (str, or [`Markup`] for HTML), tables, plots and cards, in order. Plots that follow each other
            stand side by side if the screen is wide enough, and so do cards.
    """

    title: str
    parts: list[str | Table | Plot | Card] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        """The name of the section in links."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.title.lower()).split())

    @property
    def groups(self) -> list[tuple[str, list[Any]]]:
        """Kind of part (`text`, `table`, `plots`, `cards`) -> parts that follow each other."""
        found: list[tuple[str, list[Any]]] = []
        for part in self.parts:
            kind = "text" if isinstance(part, str) else {"plot": "plots", "card": "cards"}.get(part.kind, part.kind)
            if kind in ("plots", "cards") and found and found[-1][0] == kind:
                found[-1][1].append(part)
            else:
                found.append((kind, [part]))
        return found


@dataclass
class Page:
    """A page.

    Attributes:
        title: of the page and of the browser's tab.
        lead: one or two sentences below the title.
        sections: those without parts are left out.
        foot: the last line.
    """

    title: str
    sections: Sequence[Section]
    lead: str = ""
    foot: str = ""


def render(page: Page) -> str:
    """The HTML of a page, [`printable`]. Everything that is not [`Markup`] is escaped. The page's own policy forbids
    requests."""
    return printable(_template().render(page=page, sections=[section for section in page.sections if section.parts]))


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": cell, "sort_key": sort_key, "said": said}
    environment.tests["is_number"] = is_number
    environment.globals["inline"] = lambda name: Markup((FOLDER / name).read_text(encoding="utf-8"))
    return environment.get_template("page.html")


def cell(value: Any) -> str | Markup:
    """The text of a table's cell: floats have 4 decimals, or 4 digits if they are small or large; NaN is `-`."""
    if isinstance(value, Number):
        return value.text
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def said(sentence: str) -> Markup:
    """HTML of a sentence, with names in backticks and flags with their values set as code."""
    code = r"`([^`]+)`|(?<![\w-])(--\w+(?: (?:true|false|ce|[\d.e-]*\d))?)"
    return Markup(re.sub(code, r"<code>\1\2</code>", str(escape(sentence))))


def sort_key(value: Any) -> str:
    """What the table sorter compares: the whole number, not its rounded text."""
    value = value.value if isinstance(value, Number) else value
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else f"{value:.10g}"


def is_number(value: Any) -> bool:
    """True for numbers and for a missing value."""
    return value is None or (isinstance(value, (int, float, Number)) and not isinstance(value, bool))
