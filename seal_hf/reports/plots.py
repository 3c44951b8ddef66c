"""Plots as inline SVG, drawn by matplotlib. Colours are the page's own, so that a plot is light or dark with it."""

from __future__ import annotations

import importlib.util
import io
import math
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
    "legend.fontsize": 8,
    "legend.borderaxespad": 0,
    "legend.handlelength": 1.6,
    "figure.facecolor": "none",
}


def has_matplotlib() -> bool:
    """True if plots can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def colour(number: int) -> str:
    """The colour of a series, from 0; after the last one they repeat."""
    return f"#0500{number % SERIES:02x}"


def svg(draw: Callable[[Any], None], height: float = 2.9, aligned: bool = False) -> Markup:
    """What `draw` draws on the axes that it is given, as inline SVG. A legend goes above the axes, in two columns.

    Args:
        height: in inches; the width is 4.6, which fits a phone.
        aligned: True for fixed margins, with which the axes of plots that stand side by side are aligned; False for
            margins that fit what stands at the ticks, which takes twice the time.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.6, height), layout=None if aligned else "constrained")
        axes = figure.subplots()
        draw(axes)
        named = axes.get_legend_handles_labels()[1]
        if len(named) > 1:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1.02), ncols=2)
        if aligned:
            above = 0.1 + 0.16 * math.ceil(len(named) / 2) * (len(named) > 1)  # inches
            figure.subplots_adjust(left=0.18, right=0.98, bottom=0.45 / height, top=1 - above / height)
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
    marked: Mapping[str, float] | None = None,
    logarithmic: bool = False,
    diagonal: bool = False,
) -> Markup:
    """Draw one line for each series.

    Args:
        series: name -> (x, y). A line with few points also shows the points.
        marked: label of a vertical line -> its x. The first of these lines is dashed, the others are dotted.
        logarithmic: True for a logarithmic y.
        diagonal: True for a dotted line from (0, 0) to (1, 1), which are then the limits of the axes.
    """

    def draw(axes: Any) -> None:
        for number, (name, (x, y)) in enumerate(series.items()):
            axes.plot(x, y, color=colour(number), label=name, linewidth=1.4, marker="." if len(x) <= 40 else None)
        for number, (name, place) in enumerate((marked or {}).items()):
            axes.axvline(place, color=INK, linewidth=1, linestyle=":" if number else "--", label=name)
        if diagonal:
            axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle=":")
            axes.set(xlim=(0, 1), ylim=(0, 1))
        if logarithmic:
            axes.set_yscale("log")
            _plain_numbers(axes.yaxis)
        axes.set(xlabel=x_label, ylabel=y_label)

    return svg(draw, aligned=True)


def points(
    x: Sequence[float],
    y: Sequence[float],
    x_label: str,
    y_label: str,
    *,
    logarithmic_x: bool = False,
    counts: bool = False,
    names: Mapping[int, str] | None = None,
) -> Markup:
    """Draw a point for each pair. More than 2,000 points become one picture, so that the page stays small.

    Args:
        logarithmic_x: True for a logarithmic x.
        counts: True if x and y count the same things: equal axes from 0, logarithmic from 10 on if a count is above
            1,000, and a dotted diagonal.
        names: number of a point -> the name written beside it. A name that would cover an earlier one is left out.
    """

    def draw(axes: Any) -> None:
        many = len(x) > 2000
        axes.scatter(x, y, s=12 if not many else 4, color=colour(0), alpha=0.6, linewidths=0, rasterized=many)
        if logarithmic_x:
            axes.set_xscale("log")
            _plain_numbers(axes.xaxis)
        if counts:
            largest = max(*x, *y)
            if largest > 1000:
                axes.set_xscale("symlog", linthresh=10)
                axes.set_yscale("symlog", linthresh=10)
                _plain_numbers(axes.xaxis)
                _plain_numbers(axes.yaxis)
            axes.plot([0, largest], [0, largest], color=INK, linewidth=1, linestyle=":")
        axes.margins(x=0.12 if names else None)
        axes.get_xlim(), axes.get_ylim()  # settles the limits, by which places are known
        placed: list[tuple[float, float, int]] = []
        for number, name in (names or {}).items():
            right, up = axes.transData.transform((x[number], y[number])).tolist()
            if any(abs(up - v) < 13 and abs(right - u) < 5 * max(len(name), size) for u, v, size in placed):
                continue  # it would stand on another name
            placed.append((right, up, len(name)))
            axes.annotate(name, (x[number], y[number]), (4, 3), textcoords="offset points", fontsize=7)
        axes.set(xlabel=x_label, ylabel=y_label)

    return svg(draw, aligned=True)


def means(rows: Mapping[str, tuple[float, float]], x_label: str, marked: Mapping[str, float]) -> Markup:
    """Means with bars of one deviation, a row for each, the first at the top.

    Args:
        rows: name -> (mean, deviation); a deviation may be NaN.
        marked: what is marked by a vertical line -> its x.
    """

    def draw(axes: Any) -> None:
        places = list(range(len(rows), 0, -1))
        x, deviations = ([value for value in column] for column in zip(*rows.values(), strict=True))
        bars = [0.0 if math.isnan(value) else value for value in deviations]
        style: Any = {"fmt": "o", "markersize": 4, "color": colour(0), "elinewidth": 1.4, "capsize": 3}
        axes.errorbar(x, places, xerr=bars, label="mean and deviation", **style)
        axes.set_yticks(places, list(rows))
        axes.set_ylim(0.5, len(rows) + 0.5)
        axes.set_xlabel(x_label)
        for name, place in marked.items():
            axes.axvline(place, color=INK, linewidth=1, linestyle="--", label=name)

    return svg(draw, height=1 + 0.26 * len(rows))


def _plain_numbers(axis: Any) -> None:
    """Numbers at the ticks of a logarithmic axis, instead of formulas. Ticks between powers of 10 have one only if the
    axis is short."""
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{float(f'{x:.3g}'):,.10g}" if super().__call__(x, pos) else ""

    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain())
