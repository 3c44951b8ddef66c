"""The page of a comparison, `report.html`, from its `results.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ...reports.common import PAGE
from ...reports.page import Number, Page, Plot, Section, Table, render
from ...reports.page.plots import has_matplotlib, means
from ...utils.files import json_object, whole_file
from .table import COSTS, choice_in_words, difference, known_costs, p_value, percent, several

TOLD = "seeds validation chosen_by interval least_p_rows difference p_rows p_seeds about group".split()


def write_page(folder: Path, title: str, command: str = "") -> Path:
    """Write `report.html` beside `results.json`; arguments as for [`comparison_page`]. Returns the page."""
    tables = json_object(folder / "results.json", "Remove it, and start the comparison again.")
    text = render(comparison_page(list(tables.values()), title, command))
    with whole_file(folder / PAGE) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return folder / PAGE


def comparison_page(tables: Sequence[Mapping[str, Any]], title: str, command: str = "") -> Page:
    """The page of a comparison; without matplotlib it has no plots, and says so.

    Args:
        tables: what `comparison` returns, one by tested decoder; None counts as NaN. A row has a column for each figure
            (mean and deviation) and each number that it holds.
        command: the one that wrote the results.
    """
    first, names = tables[0], {**COSTS, **tables[0]["columns"]}
    plots = [_plot(table) for table in tables if has_matplotlib() and table["methods"]]
    sections = [
        Section("Means", [*plots]),
        *(_section(table, names) for table in tables),
        _figures(first, names),
    ]
    lost = [f"{name} with seed {', '.join(map(str, seeds))}" for name, seeds in first["lost"].items()]
    runs = Section("Runs")
    if lost:
        runs.parts.append(f"Lost, as the loss was no longer finite: {'; '.join(lost)}.")
    if command:
        runs.parts += [
            "The command of the last start:",
            Markup("<pre>{}</pre>").format(command),
        ]
    if not has_matplotlib():
        runs.parts.append("There are no plots, since matplotlib is not installed: pip install 'seal_hf[plot]'.")
    return Page(
        title, [*sections, runs], choice_in_words(first, str), "Written by seal_hf from results.json beside it."
    )


def _rows(table: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of a table by method, best mean first, with NaN for null, without costs that no row has."""
    rows = {name: {key: _without_none(value) for key, value in row.items()} for name, row in table["methods"].items()}
    unknown = COSTS.keys() - known_costs(rows)
    rows = {name: {key: value for key, value in row.items() if key not in unknown} for name, row in rows.items()}
    return dict(sorted(rows.items(), key=lambda item: -item[1][table["decoder"]][0]))


def _plot(table: Mapping[str, Any]) -> Plot:
    """The means of the tested figure."""
    rows, best, tested = _rows(table), table["best_baseline"], table["words"]
    means_of = {name: (100 * row[table["decoder"]][0], 100 * row[table["decoder"]][1]) for name, row in rows.items()}
    caption, marked = f"{tested} on test, mean and standard deviation over seeds.", {}
    if best is not None:
        marked = {f"the best baseline: {best}": means_of[best][0]}
        caption += f" Left of the dashed line is what gains nothing over {best}, the best baseline."
    numbers = [{"method": name, "mean": mean, "deviation": std} for name, (mean, std) in means_of.items()]
    return Plot(means(means_of, f"{tested}, percent", marked), caption, Table(numbers))


def _section(table: Mapping[str, Any], names: Mapping[str, str]) -> Section:
    """The differences of the tested figure to the best baseline, best mean first."""
    decoder, best, tested, rows = table["decoder"], table["best_baseline"], table["words"], _rows(table)
    trusted = several({name: row["seeds"] for name, row in rows.items()})
    marked = [number for number, name in enumerate(rows) if name in trusted][:1]
    caption = (
        f"{tested} on test in percent, mean ± standard deviation over seeds; the best mean is marked. Trials and "
        f"epochs were chosen by {table['metric']} on validation: that column is too good for the seeds of a search."
    )
    if best is not None:
        aside = f" ({', '.join(table['aside'])}, with one seed, left aside)" if table["aside"] else ""
        caption += (
            f" Differences to {best}{aside} have a 95 % interval over the {table['test_rows']:,} test rows. p is that "
            "of a bootstrap over rows, and of a paired t-test over seeds, not corrected for the number of methods."
        )
    if table["reference"] is not None:
        caption += f" Seconds are relative to {table['reference']}."
    cells = [_cells(name, row, decoder, tested, best, names) for name, row in rows.items()]
    return Section(tested, [Table(cells, caption, marked)])


def _cells(
    name: str, row: Mapping[str, Any], decoder: str, tested: str, best: str | None, names: Mapping[str, str]
) -> dict[str, Any]:
    """A row of the table of differences."""
    cells: dict[str, Any] = {"method": name, "seeds": len(row["seeds"])}
    cells["validation"] = Number(row["validation"], percent(row["validation"]))
    cells[tested] = Number(row[decoder][0], percent(*row[decoder]))
    tests: dict[str, Any] = dict.fromkeys((f"difference to {best or 'a baseline'}", "p, rows", "p, seeds"))
    if "difference" in row:
        p = p_value(row["p_rows"], row["least_p_rows"])
        found = (row["difference"], difference(row)), (row["p_rows"], p), (row["p_seeds"], p_value(row["p_seeds"]))
        tests = dict(zip(tests, (Number(*one) for one in found), strict=True))
    rest = {key: value for key, value in row.items() if key not in TOLD and isinstance(value, (int, float))}
    texts = {key: "-" if math.isnan(value) else f"{value:.2f}" for key, value in rest.items()}
    return cells | tests | {names.get(key, key): Number(value, texts[key]) for key, value in rest.items()}


def _figures(table: Mapping[str, Any], names: Mapping[str, str]) -> Section:
    """What the methods are, and all their figures."""
    cells = []
    for name, row in _rows(table).items():
        figures = {key: value for key, value in row.items() if key not in TOLD and isinstance(value, list)}
        columns = {names.get(key, key): Number(mean, percent(mean, std)) for key, (mean, std) in figures.items()}
        cells.append({"method": name, "about": row["about"], "seeds": ", ".join(map(str, row["seeds"])), **columns})
    return Section("All figures", [Table(cells, "Test figures in percent, mean ± standard deviation over seeds.")])


def _without_none(value: Any) -> Any:
    """The value with NaN for null, which JSON has instead."""
    if isinstance(value, (list, tuple)):
        return [_without_none(each) for each in value]
    return math.nan if value is None else value
