"""Plots as inline SVG, drawn by matplotlib. Colours are the page's own, so that a plot is light or dark with it."""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

SERIES = 6  # colours of series in page.css
# What matplotlib draws with -> what the browser shows: a colour of page.css.
INK, FAINT, LINE, PAPER = "#010101", "#020202", "#030303", "#040404"
COLOURS = {INK: "--ink", FAINT: "--faint", LINE: "--line", PAPER: "--paper"}
COLOURS |= {f"#0500{i:02x}": f"--series-{i}" for i in range(SERIES)}
STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: it can be selected, and needs no paths
    "svg.hashsalt": "seal_hf",  # equal plots are equal files
    "font.size": 9,
    "text.parse_math": False,  # names of data may hold dollars
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "figure.facecolor": "none",
}


def has_matplotlib() -> bool:
    """True if plots can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def colour(number: int) -> str:
    """The colour of a series, from 0; after the last one they repeat."""
    return f"#0500{number % SERIES:02x}"


def svg(draw: Callable[[Any], None], width: float = 4.6, height: float = 2.9) -> Markup:
    """What `draw` draws on the axes that it is given, as inline SVG.

    Args:
        width, height: in inches; 4.6 fits a phone.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.subplots())
        file = io.StringIO()
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Markup(_for_pages(file.getvalue()))


def _for_pages(text: str) -> str:
    """An SVG file as an element of a page: without its prologue, its fixed size and ids that nothing refers to."""
    text = text[text.index("<svg") :]
    head, rest = text.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', rest))
    rest = re.sub(r' id="([^"]+)"', lambda match: match[0] if match[1] in used else "", rest)
    for drawn, shown in COLOURS.items():
        rest = rest.replace(drawn, f"var({shown})")
    return f'{head} role="img" font-family="inherit">{rest}'


def lines(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x_label: str,
    y_label: str,
    *,
    marked: tuple[float, str] | None = None,
    logarithmic: bool = False,
) -> Markup:
    """Lines.

    Args:
        series: name -> (x, y). Lines of few points show the points.
        marked: an x that is marked by a vertical line, and what it is.
        logarithmic: True for a logarithmic y.
    """

    def draw(axes: Any) -> None:
        for number, (name, (x, y)) in enumerate(series.items()):
            axes.plot(x, y, color=colour(number), label=name, linewidth=1.4, marker="." if len(x) <= 40 else None)
        if marked is not None:
            axes.axvline(marked[0], color=INK, linewidth=1, linestyle="--", label=marked[1])
        if logarithmic:
            axes.set_yscale("log")
        axes.set(xlabel=x_label, ylabel=y_label)
        if len(series) > 1 or marked is not None:
            axes.legend(fontsize=8)

    return svg(draw)


def points(
    x: Sequence[float], y: Sequence[float], x_label: str, y_label: str, *, logarithmic_x: bool = False
) -> Markup:
    """A point per pair; more than 2,000 are drawn as one picture, so that the page stays small."""

    def draw(axes: Any) -> None:
        many = len(x) > 2000
        axes.scatter(x, y, s=12 if not many else 4, color=colour(0), alpha=0.6, linewidths=0, rasterized=many)
        if logarithmic_x:
            axes.set_xscale("log")
        axes.set(xlabel=x_label, ylabel=y_label)

    return svg(draw)
