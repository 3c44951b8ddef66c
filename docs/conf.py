"""The documentation, with the extra `docs`: sphinx-build -W docs docs/_build"""

from __future__ import annotations

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
html_title = "seal_hf"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3  # links to `page.md#a-heading`, as plain Markdown has them
suppress_warnings = ["myst.xref_missing"]  # links to files outside docs/; tests/test_docs.py checks them all

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_numpy_docstring = False


def setup(app: Sphinx) -> None:
    generate.write(DOCS)
    app.connect("autodoc-process-docstring", generate.as_rst, priority=400)  # before napoleon reads the sections
