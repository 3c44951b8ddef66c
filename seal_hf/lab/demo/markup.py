"""The answers of the page as HTML. Text from data is escaped: only [`Markup`] is taken as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from ...utils.messages import printable

SMALL, MOST = 1e-3, 80  # shares below have two digits; characters of a cell in a table


class Bar(NamedTuple):
    """A bar.

    Attributes:
        name: what it belongs to.
        value: its length, in [0, 1].
        chosen: True for what is decided.
        mark: the threshold, in [0, 1]; None without one.
    """

    name: str
    value: float
    chosen: bool = False
    mark: float | None = None


class Alternative(NamedTuple):
    """A structure with its energy.

    Attributes:
        what: names the structure.
        share: a number in [0, 1] beside it, such as its probability.
        energy: lower is better.
        decided: True for the decided structure.
    """

    what: str
    share: float
    energy: float
    decided: bool = False


def fill(template: str, **values: object) -> Markup:
    """A template with its values, each [`printable`] and escaped unless it is [`Markup`]."""
    shown = {name: value if isinstance(value, Markup) else printable(value) for name, value in values.items()}
    return Markup(template).format(**shown)


def answer(*parts: Markup) -> str:
    """The HTML of one answer, made of these parts, as plain text for Gradio."""
    return str(fill('<div class="seal">{parts}</div>', parts=Markup().join(parts)))


def note(text: str) -> Markup:
    return fill('<p class="note">{text}</p>', text=text)


def chips(title: str, names: Sequence[str], nothing: str) -> Markup:
    """The names that the net decided for, each in a small box; `nothing` is shown if there are none."""
    found = Markup().join(fill('<span class="chip">{name}</span>', name=name) for name in names)
    shown = found or fill('<span class="nothing">{nothing}</span>', nothing=nothing)
    return fill('<p class="decided"><span class="title">{title}</span>{shown}</p>', title=title, shown=shown)


def bars(title: str, rows: Iterable[Bar]) -> Markup:
    """A list of bars, one below the other."""
    return fill('<h4>{title}</h4><ul class="bars">{rows}</ul>', title=title, rows=Markup().join(map(_bar, rows)))


def _bar(row: Bar) -> Markup:
    mark = fill('<span class="mark" style="left:{place}%"></span>', place=f"{100 * (row.mark or 0):.1f}")
    return fill(
        '<li class="{kind}"><span class="name" title="{name}">{name}</span><span class="track">'
        '<span class="length" style="width:{width}%"></span>{mark}</span><span class="number">{number}</span></li>',
        kind="chosen" if row.chosen else "other",
        name=row.name,
        width=f"{100 * row.value:.1f}",
        mark=Markup() if row.mark is None else mark,
        number=f"{row.value:.3f}",
    )


def legend(rows: Iterable[tuple[str, str, float]]) -> Markup:
    """A legend of classes, each with its colour, which is six hexadecimal digits, and its share."""
    one = '<li><span class="swatch" style="background:#{colour}"></span> {name} <span class="share">{share}</span></li>'
    listed = (fill(one, name=name, colour=colour, share=percent(share)) for name, colour, share in rows)
    return fill('<h4>Classes</h4><ul class="legend">{rows}</ul>', rows=Markup().join(listed))


def energies(rows: Sequence[Alternative], share: str, caption: str) -> Markup:
    """A table of energies with the lowest in bold. `share` is the heading of the numbers beside them."""
    low, high = min(row.energy for row in rows), max(row.energy for row in rows)
    return fill(
        '<h4>Energies</h4><table class="energies"><caption>{caption}</caption><thead><tr><th></th><th>{share}</th>'
        '<th colspan="2">energy</th></tr></thead><tbody>{rows}</tbody></table>',
        caption=caption,
        share=share,
        rows=Markup().join(_energy(row, low, high) for row in rows),
    )


def _energy(row: Alternative, low: float, high: float) -> Markup:
    return fill(
        '<tr class="{kind}"><td>{what}{decided}</td><td class="number">{share}</td><td class="number">{energy}</td>'
        '<td class="track"><span class="length" style="width:{width}%"></span></td></tr>',
        kind="lowest" if row.energy == low else "other",
        what=row.what,
        decided=fill(' <span class="tag">decided</span>') if row.decided else "",
        share=percent(row.share),
        energy=f"{row.energy:.3f}".replace("-", "\u2212"),
        width=f"{100 * (row.energy - low) / (high - low or 1):.1f}",
    )


def percent(share: float) -> str:
    """A share in percent; small ones with two digits."""
    return f"{100 * share:.1f} %" if share >= SMALL or not share else f"{100 * share:.2g} %"


def marked(text: str, spans: Iterable[Mapping[str, Any]], colours: Mapping[str, int], focus: Any = None) -> Markup:
    """A text with its spans highlighted.

    Args:
        spans: `label`, `score`, `start` and `end`, in their order; they do not overlap.
        colours: label -> hue in degrees.
        focus: (start, end) of a part to underline, such as a predicate; None without one.
    """
    parts, last = [], 0
    for span in spans:
        parts.append(_focused(text, last, span["start"], focus))
        parts.append(
            fill(
                '<mark style="--hue:{hue}" title="{label}: {score}">{text}<span class="label">{label}</span></mark>',
                hue=colours[span["label"]],
                label=span["label"],
                score=f"{span['score']:.3f}",
                text=_focused(text, span["start"], span["end"], focus),
            )
        )
        last = span["end"]
    parts.append(_focused(text, last, len(text), focus))
    return fill('<p class="text">{parts}</p>', parts=Markup().join(parts))


def _focused(text: str, start: int, end: int, focus: Any) -> Markup:
    if focus is None or not start <= focus[0] < end:
        return fill("{text}", text=text[start:end])
    first, last = focus
    before, inside, after = text[start:first], text[first:last], text[last:end]
    return fill("{before}<u>{inside}</u>{after}", before=before, inside=inside, after=after)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """An HTML table of the rows of a file. Long cells are cut."""
    head = Markup().join(fill("<th>{name}</th>", name=name) for name in headers)
    body = Markup().join(fill("<tr>{cells}</tr>", cells=Markup().join(map(_cell, row))) for row in rows)
    return fill(
        '<div class="scroll" tabindex="0"><table class="rows"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        "</table></div>",
        head=head,
        body=body,
    )


def _cell(text: str) -> Markup:
    return fill("<td>{text}</td>", text=text if len(text) <= MOST else f"{text[: MOST - 1]}\u2026")
