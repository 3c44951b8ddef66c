"""The results of a comparison: mean ± deviation over seeds, paired tests against the best baseline, as a table and a
page."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from ...reports.common import PAGE
from ...reports.page import Number, Page, Plot, Section, Table, render
from ...reports.plots import has_matplotlib, means
from ...utils.files import json_object, whole_file
from .kinds import BASELINE, CONSTANT, Figures, Methods
from .runner import AUC, LOST, ROWS, SECONDS
from .statistics import Pair, Rows, mean_std, paired_bootstraps, paired_test

COSTS = {"seconds": "seconds / epoch", "energy_auc": "energy AUC"}  # key of a row -> its column, if any row has it
FEW_ROWS = 50  # test rows; below this a bootstrap over rows is too sure


Results = Sequence[Mapping[str, Any]]  # the runs of one method


def comparison(
    runs: Mapping[str, Results],
    figures: Figures,
    methods: Methods,
    decoder: str,
    metric: str,
    reference: str = "ce",
) -> dict[str, Any]:
    """The content of a table, from the runs of each method (`Runs.all`).

    The best baseline has the highest test mean under `decoder`, so it is the hardest to beat. A baseline with one seed
    counts only if no baseline has several. Each method is tested against it twice. A bootstrap over test rows gives the
    mean difference, its 95 % interval and p-value. A paired t-test over common seeds gives another p-value.

    Args:
        figures: what the columns are.
        methods: groups and descriptions of the methods; runs of others are shown without.
        decoder: the figure whose differences are tested, one of `figures.tested_with(metric)`.
        metric: the figure that chose trials and epochs on validation.
        reference: the method whose seconds count as 1. If it lacks them, the best baseline or another with seconds.

    Returns:
        A dictionary with
        - `decoder`, `metric`, `best_baseline`, `reference`,
        - `columns`: the figures that all runs have -> heads of their columns; `legend`: how to read them; `words`: the
          name of `decoder`,
        - `aside`: the baselines with one seed, if others have several,
        - `test_rows`: their number,
        - `lost`: method -> seeds of runs that diverged,
        - `methods`: for each method with a finished run its `group`, `about` and `seeds`; mean and deviation of every
          column; `validation`, the validation mean under `decoder`; `chosen_by`, that over the seeds that all methods
          with several have; `seconds`, the median over seeds of the training seconds per epoch, relative to
          `reference`; `energy_auc`, how often the energy prefers gold to a sample of the task-net on validation rows,
          the mean over seeds. If it has seeds in common with the best baseline and is not
          that baseline, also `difference`, `interval`, `p_rows` (0 means below `least_p_rows`) and `p_seeds`.
        - `choice`: the choice on validation, `method` among all and `baseline`, each None without candidates. If both
          have common seeds, also the method's `gain` on validation and its `p_seeds`.
        Values that cannot be computed are NaN.
    """
    lost = {name: [run["seed"] for run in results if LOST in run] for name, results in runs.items()}
    runs = {name: [run for run in results if LOST not in run] for name, results in runs.items()}
    runs = {name: results for name, results in runs.items() if results}
    baselines = {name: runs[name] for name in runs if name in methods and methods[name].group == BASELINE}
    standards = several(baselines)
    best = max(standards, key=lambda name: _figures(runs[name], decoder).mean(), default=None)
    wanted = [name for name in (reference, best, *baselines) if name is not None]
    timed = [name for name in wanted if any(SECONDS in run for run in runs.get(name, ()))]
    unit = timed[0] if timed else None
    every = [run for results in runs.values() for run in results]
    columns = {key: head for key, head in figures.columns.items() if all(f"test_{key}" in run for run in every)}
    counted = [{run["seed"] for run in results} for name, results in several(runs).items() if name != CONSTANT]
    shared = set.intersection(*counted) if counted else set()
    rows: dict[str, Any] = {}
    for name, results in runs.items():
        method = methods.get(name)
        rows[name] = {"group": method and method.group, "about": method.about if method else ""}
        rows[name] |= {"seeds": [run["seed"] for run in results]}
        rows[name] |= {key: mean_std(_figures(results, key)) for key in columns}
        rows[name]["validation"] = _figures(results, decoder, "eval").mean()
        rows[name]["chosen_by"] = _figures(_of(results, shared) or results, decoder, "eval").mean()
        rows[name]["seconds"] = _ratio(results, runs[unit] if unit is not None else ())
        rows[name]["energy_auc"] = _mean([run[AUC] for run in results if AUC in run])
    if best is not None:
        others = {name: results for name, results in runs.items() if name != best}
        for name, against in _against(others, runs[best], decoder).items():
            rows[name] |= against
    said: dict[str, Any] = {"decoder": decoder, "metric": metric, "best_baseline": best, "reference": unit}
    said |= {"columns": columns, "words": figures.tested.get(decoder, figures.columns[decoder])}
    said["legend"] = " ".join([figures.legend, *(note for key, note in figures.notes.items() if key in columns)])
    said["aside"] = [name for name in baselines if name not in standards]
    said["test_rows"] = len(every[0][ROWS][decoder].split()) if every else 0
    said |= {"lost": {name: seeds for name, seeds in lost.items() if seeds}, "methods": rows}
    return said | {"choice": _choice(said, runs)}


def best_on_validation(compared: Mapping[str, Any], group: str | None = None) -> str | None:
    """The method, of all or of a group, with the highest validation mean under the table's decoder, over the seeds that
    all methods with several seeds have. Of equal ones, a baseline comes first, then the cheapest. If some methods have
    several seeds, those with one seed do not count. None without methods."""
    rows = compared["methods"]
    if group is not None:
        rows = {name: row for name, row in rows.items() if row["group"] == group}
    cost = lambda row: math.inf if math.isnan(row["seconds"]) else row["seconds"]  # noqa: E731
    order = lambda name: (  # noqa: E731
        round(rows[name]["chosen_by"], 9),
        rows[name]["group"] == BASELINE,
        -cost(rows[name]),
    )
    return max(several({name: row["seeds"] for name, row in rows.items()}), key=order, default=None)


def several(runs: Mapping[str, Sequence]) -> Mapping[str, Sequence]:
    """The methods with several seeds if a trained method has several, since one run may be luck; otherwise all."""
    least = min(2, max((len(results) for name, results in runs.items() if name != CONSTANT), default=1))
    return {name: results for name, results in runs.items() if len(results) >= least}


def _against(runs: Mapping[str, Results], baseline: Results, decoder: str) -> dict[str, dict[str, Any]]:
    """Differences of methods to the best baseline over common seeds, of those that have such."""
    pairs = {name: _of_both(results, baseline) for name, results in runs.items()}
    pairs = {name: pair for name, pair in pairs.items() if pair[0]}
    tested = paired_bootstraps([_rows_of(pair, decoder) for pair in pairs.values()])
    return {
        name: {
            "difference": by_rows.difference,
            "interval": [by_rows.low, by_rows.high],
            "p_rows": by_rows.p_value,
            "least_p_rows": 1 / by_rows.num_resamples,
            "p_seeds": paired_test(*(_figures(results, decoder) for results in pair)),
        }
        for (name, pair), by_rows in zip(pairs.items(), tested, strict=True)
    }


def _rows_of(pair: Sequence[Results], decoder: str) -> Pair:
    """The test rows of both: parts (seeds, N), and wholes."""
    both = [[Rows.of_text(run[ROWS][decoder]) for run in results] for results in pair]
    ours, theirs = (np.stack([rows.part for rows in side]) for side in both)
    of_ours, of_theirs = (np.stack([rows.whole for rows in side]) for side in both)
    return ours, theirs, (of_ours, of_theirs)


def _choice(compared: Mapping[str, Any], runs: Mapping[str, Results]) -> dict[str, Any]:
    """The choice on validation. It tells, without a look at test rows, if a loss-net is worth its time."""
    best, baseline = best_on_validation(compared), best_on_validation(compared, BASELINE)
    choice: dict[str, Any] = {"method": best, "baseline": baseline}
    if best is None or baseline is None or best == baseline:
        return choice
    pairs = _of_both(runs.get(best, ()), runs.get(baseline, ()))
    if not pairs[0]:
        return choice
    ours, theirs = (_figures(r, compared["decoder"], "eval") for r in pairs)
    return choice | {"gain": float(ours.mean() - theirs.mean()), "p_seeds": paired_test(ours, theirs)}


def _of(results: Results, seeds: Collection[int]) -> Results:
    """The runs with these seeds."""
    return [run for run in results if run["seed"] in seeds]


def _of_both(results: Results, others: Results) -> list[list[Mapping[str, Any]]]:
    """The runs of both methods with their common seeds, sorted by seed."""
    both = {run["seed"] for run in results} & {run["seed"] for run in others}
    return [sorted(_of(found, both), key=lambda run: run["seed"]) for found in (results, others)]


def _figures(results: Results, decoder: str, split: str = "test") -> np.ndarray:
    return np.array([run[f"{split}_{decoder}"] for run in results])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _ratio(results: Results, reference: Results) -> float:
    ours, theirs = ([run[SECONDS] for run in r if SECONDS in run] for r in (results, reference))
    return float(np.median(ours) / np.median(theirs)) if ours and theirs else math.nan


def markdown(compared: Mapping[str, Any], with_legend: bool = True) -> str:
    """The comparison as a Markdown table, best mean first; below it the choice on validation and the legend."""
    best, decoder, columns = compared["best_baseline"], compared["decoder"], compared["columns"]
    head = ["method", "seeds", "validation", *columns.values()]
    known = known_costs(compared["methods"])
    head += [f"difference to {best or 'a baseline'}", "p, rows", "p, seeds", *(COSTS[key] for key in known)]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name, row in sorted(compared["methods"].items(), key=lambda item: -item[1][decoder][0]):
        cells = [f"`{name}` {row['about']}".rstrip(), str(len(row["seeds"])), percent(row["validation"])]
        cells += [percent(*row[key]) for key in columns]
        if "difference" in row:
            cells += [difference(row), p_value(row["p_rows"], row["least_p_rows"]), p_value(row["p_seeds"])]
        else:
            cells += ["-", "-", "-"]
        cells += ["-" if math.isnan(row[key]) else f"{row[key]:.2f}" for key in known]
        lines.append(f"| {' | '.join(cells)} |")
    lost = [f"`{name}` with seed {', '.join(map(str, seeds))}" for name, seeds in compared["lost"].items()]
    notes = [f"Lost, as the loss was no longer finite: {'; '.join(lost)}.", ""] if lost else []
    chosen = choice_in_words(compared)
    below = [*notes, *([chosen, ""] if chosen else []), *([legend(compared), ""] if with_legend else [])]
    return "\n".join([*lines, "", *below])


def known_costs(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The keys of `COSTS` that some row has a number for."""
    return [key for key in COSTS if any(not math.isnan(row.get(key, math.nan)) for row in rows.values())]


def difference(row: Mapping[str, Any]) -> str:
    """The difference of a row to the best baseline with its interval, in percent; `-` without a difference."""
    if "difference" not in row:
        return "-"
    low, high = row["interval"]
    return f"{100 * row['difference']:+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]"


def choice_in_words(compared: Mapping[str, Any], name: Callable[[str], str] = "`{}`".format) -> str:
    """The choice on validation, with names of methods as `name` writes them; empty without one."""
    choice = compared["choice"]
    best, baseline = choice["method"], choice["baseline"]
    if None in (best, baseline) or len(compared["methods"]) < 2:
        return ""
    if best == baseline:
        return f"Validation chooses {name(best)}, a baseline."
    gain, p = (_number(choice.get(key)) for key in ("gain", "p_seeds"))
    above = "" if math.isnan(gain) else f", {100 * gain:+.2f} points to {name(baseline)}, the best baseline there"
    chance = " (one seed cannot tell whether that is chance)" if math.isnan(p) else f" (p = {p_value(p)} over seeds)"
    return f"Validation chooses {name(best)}{above}{chance if above else ''}."


def _number(value: float | None) -> float:
    """The value; NaN for null, which JSON has instead."""
    return math.nan if value is None else value


def decided(compared: Mapping[str, Any]) -> str:
    """The name of the column of test figures by which methods are chosen and tested."""
    return compared["columns"].get(compared["decoder"], compared["words"])


def legend(compared: Mapping[str, Any]) -> str:
    """How to read the table."""
    best, reference, tested = compared["best_baseline"], compared["reference"], decided(compared)
    text = (
        f"Trials and epochs were chosen by `{compared['metric']}` on validation; the column *validation* is the mean "
        f"of *{tested}* there, which is too high for seeds that a search used (the first, with finalists the first "
        f"three). {compared['legend']}"
    )
    aside = f" ({', '.join(compared['aside'])}, with one seed, left aside)" if compared["aside"] else ""
    if best is not None:
        text += (
            f" Differences are in *{tested}*, to the baseline that is best there, {best}{aside}, over the seeds of "
            "both, with a 95 % interval over test rows; p by a bootstrap over rows and by a paired t-test over seeds, "
            "not corrected for the number of methods. The p of validation's choice is too small, since the same seeds "
            "chose it."
        )
        if compared["test_rows"] < FEW_ROWS:
            text += (
                f" The test split has only {compared['test_rows']} rows, so intervals and p over rows look surer than "
                "they are."
            )
    if reference is not None:
        text += f" Seconds of training per epoch, the median over seeds, are relative to {reference}."
    if "energy_auc" in known_costs(compared["methods"]):
        text += (
            " *Energy AUC* is how often the energy prefers gold to a fresh sample of the task-net, on validation rows "
            "at the chosen epoch: 0.5 is chance, 1 is always; below 0.5 it prefers the samples."
        )
    return text


def percent(mean: float, std: float = math.nan) -> str:
    return f"{100 * mean:.2f}" if math.isnan(std) else f"{100 * mean:.2f} ± {100 * std:.2f}"


def p_value(value: float, least: float = 0.0) -> str:
    """A p-value as text: `-` for NaN, and `<` for values below the test's resolution."""
    if math.isnan(value):
        return "-"
    return f"< {least:.2g}" if value < least else f"{value:.2g}"


# The page of a comparison, `report.html`, from its `results.json`.

TOLD = "seeds validation chosen_by interval least_p_rows difference p_rows p_seeds about group".split()


def write_page(folder: Path, title: str, command: str = "") -> Path:
    """Write `report.html` beside `results.json`; the arguments are those of [`comparison_page`]. Returns the page."""
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
        _all_figures(first, names),
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
    caption, marked = f"Test figures: {tested}, mean and standard deviation over seeds.", {}
    if best is not None:
        marked = {f"the best baseline: {best}": means_of[best][0]}
        caption += f" A method left of the dashed line gains nothing over {best}, the best baseline."
    numbers = [{"method": name, "mean": mean, "deviation": std} for name, (mean, std) in means_of.items()]
    return Plot(means(means_of, f"{tested}, percent", marked), caption, Table(numbers))


def _section(table: Mapping[str, Any], names: Mapping[str, str]) -> Section:
    """The differences of the tested figure to the best baseline, best mean first."""
    decoder, best, tested, rows = table["decoder"], table["best_baseline"], table["words"], _rows(table)
    trusted = several({name: row["seeds"] for name, row in rows.items()})
    marked = [number for number, name in enumerate(rows) if name in trusted][:1]
    caption = (
        "Test figures in percent, mean ± standard deviation over seeds; the best mean is marked. Trials and "
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


def _all_figures(table: Mapping[str, Any], names: Mapping[str, str]) -> Section:
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
