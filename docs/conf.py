"""The documentation, with the extra `docs`: sphinx-build -W docs docs/_build"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

import generate  # noqa: E402 - a neighbour

import seal_hf  # noqa: E402 - of this checkout

project = "seal_hf"
release = version = seal_hf.__version__
copyright = "the seal_hf authors"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "sphinx_copybutton"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"seal_hf {release}"
html_logo = html_favicon = "_static/logo.svg"
html_search_scorer = str(DOCS / "_static/scorer.js")
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3  # links to `page.md#a-heading`, as plain Markdown has them
# a folder or page outside docs/ is not part of the HTML; other files there become downloads
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([\w./-]+(?:/|\.md))(?:#[^)]*)?\)")

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_numpy_docstring = False


def name_what_is_outside(app: Sphinx, page: str, source: list[str]) -> None:
    """Write the path of a file outside docs/ in place of a link to it; keep a figure with its
    deviation, and an interval, on one line."""

    def named(link: re.Match) -> str:
        text, path = link.groups()
        inside = (DOCS / page).parent / link[0].split("](")[1].rstrip(")").split("#")[0]
        if inside.resolve().is_relative_to(DOCS):
            return link[0]
        return text if path.rstrip("/") in text else f"{text} (`{path}`)"

    text = re.sub(r"(?<=\d) ± (?=\d)", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}", source[0])
    text = re.sub(r"(?<=\[[-+]\d\.\d\d,) (?=[-+]\d)", "\N{NO-BREAK SPACE}", text)
    text = OUTSIDE.sub(named, text)
    source[0] = re.sub(r"\((\w+) \((`[^`]+`)\)\)", r"(\1: \2)", text)  # a link that stood in brackets


def setup(app: Sphinx) -> None:
    generate.write(DOCS)
    app.connect("source-read", name_what_is_outside)
    app.connect("autodoc-process-docstring", generate.as_rst, priority=400)  # before napoleon reads the sections
