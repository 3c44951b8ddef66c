"""Tables of comparisons on label sets, made by `seal-hf compare` with equal means for every method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, median
from typing import Any

from results_store import ROOT, Stored

from seal_hf.cli.recipes import read_recipe
from seal_hf.lab.compare.kinds import ABLATION, BASELINE, ENERGY, SEAL
from seal_hf.lab.compare.table import best_on_validation, difference, percent
from seal_hf.tasks.labels.compare import METHODS, METRIC

from . import runs
from .markdown import bash, table
from .published import FIGURES

SETS = ("bibtex", "delicious", "genbase", "cal500", "spo_fun", "seq_fun")
# the most thorough search of each data set that is the same for all methods, and two variants of data sets
SEARCHED = {name: f"{name}_finals" for name in SETS} | {"delicious": "delicious_searched"}
VARIANTS = {"genbase_id": "genbase", "spo_fun_root": "spo_fun"}
BESIDE = ("nce", "nce_balanced", "nce_balanced_cheap", "nce_balanced_local")  # a tuned model, in the tables' order
SEARCHES = {"": "one seed", "_long": "one seed", "_finals": "three seeds", "_thirty": "three seeds"}
LEAST_SETS = 4  # with runs of a method that is judged over data sets
GROUPS = {
    BASELINE: "Without a loss-net",
    "dynamic": "A loss-net trained beside the task-net",
    "static": "A trained energy network, frozen, as the loss-net",
    ENERGY: "Energy networks alone",
    ABLATION: "Ablations",
}
# of a comparison's identity, what is no flag of its command, or is said last
NO_FLAGS = {"data", "labels", "train", "validation", "test", "contents", "flags"}
NO_FLAGS |= {"budget", "finalists", "metric", "held"}


def group_of(method: str) -> str:
    group = runs.METHODS[method].group
    return ("static" if method.startswith("static_") else "dynamic") if group == SEAL else group


def decided() -> str:
    """Tuned cross-entropy under three decisions, beside published figures."""
    rows = []
    for name in (*SETS, *VARIANTS):
        plain = runs.compared(f"{name}_held" if name in SETS else name)["methods"]["ce"]
        figures = [percent(*plain[key]) for key in ("f1_example", METRIC, "f1_example_calibrated")]
        published = [FIGURES[method].get(name, "-") for method in ("ce", "nce")]
        rows.append([name, str(len(plain["seeds"])), *figures, *published])
    head = ["data", "seeds", "at 0.5", "one threshold", "calibrated", "published: cross-entropy", "NCE"]
    return table(head, rows)


def chosen_beside(name: str) -> str:
    """What validation chooses beside a tuned model, under one threshold."""
    return best_on_validation(runs.compared(f"{name}_held")) or "ce"


def gain_with_linear(data: str) -> runs.Gain | None:
    """What NCE adds to cross-entropy, calibrated, if both nets have taken a logistic regression in."""
    ours, plain = (runs.of_recipe(f"{data}_{loss}_linear") for loss in ("nce_balanced", "ce"))
    return runs.gain(ours, plain, runs.CALIBRATED)


def beside_gain(name: str, method: str, key: str = runs.TUNED) -> runs.Gain:
    """What a loss-net adds to a tuned cross-entropy; cross-entropy itself adds 0."""
    comparison = f"{name}_held"
    found = runs.gain(runs.of_method(comparison, method), runs.of_method(comparison, "ce"), key)
    assert found is not None
    return found


def beside(names: Sequence[str] = SETS, chosen: bool = False) -> str:
    """What each method adds to a tuned cross-entropy; in bold what validation chooses. `chosen`: only those rows."""
    rows = []
    for name in names:
        methods = runs.compared(f"{name}_held")["methods"]
        best = chosen_beside(name)
        for method in (method for method in BESIDE if method in methods and (method == best or not chosen)):
            gains = [beside_gain(name, method, key) for key in (runs.TUNED, runs.CALIBRATED)]
            shown = f"**`{method}`**" if method == best and not chosen else f"`{method}`"
            cells = [cell for gain in gains for cell in runs.gain_cells(gain)]
            rows.append([name, shown, *cells, f"{methods[method]['seconds']:.2f}"])
    if len(names) > 1:
        means = [f"{mean_beside(names, key):+.2f}" for key in (runs.TUNED, runs.CALIBRATED)]
        rows.append([f"mean of {len(names)}", "what validation chooses", means[0], "", means[1], "", ""])
    head = ["data", "method", "one threshold", "seeds ahead", "calibrated expected F1", "seeds ahead"]
    return table([*head, "seconds per epoch"], rows)


def mean_beside(names: Sequence[str] = SETS, key: str = runs.TUNED) -> float:
    """Mean over data sets of what the method adds that validation chooses."""
    return mean(beside_gain(name, chosen_beside(name), key).mean for name in names)


def equal_search(decoder: str = METRIC) -> str:
    """The best baseline and the best loss-net on validation of each data set, after the same search."""
    rows = []
    for name, comparison in SEARCHED.items():
        found = runs.compared(comparison, decoder)
        cells = []
        for group in (BASELINE, SEAL):
            best = best_on_validation(found, group=group)
            row = found["methods"][best]
            cells.append(f"`{best}` {percent(*row[decoder])} ({len(row['seeds'])})")
        against = f"{difference(row)} to `{found['best_baseline']}`" if "difference" in row else "-"
        rows.append([name, *cells, against])
    rows.append([f"mean of {len(SEARCHED)}", "", "", f"{mean_equal(decoder):+.2f}"])
    return table(["data", "best without a loss-net", "best loss-net", "difference"], rows)


def mean_equal(decoder: str = METRIC) -> float:
    """Mean over data sets of the best loss-net's difference to the best baseline, after the same search."""
    gains = []
    for comparison in SEARCHED.values():
        found = runs.compared(comparison, decoder)
        gains.append(100 * found["methods"][best_on_validation(found, group=SEAL)]["difference"])
    return mean(gains)


def searches() -> str:
    """Cross-entropy and two loss-nets by how far they were searched."""
    rows = []
    for name in SETS:
        for comparison in runs.there(f"{name}{end}" for end in SEARCHES):
            identity = runs.stored(comparison).identity()
            end = comparison.removeprefix(name)
            found = [runs.figure(runs.of_method(comparison, method), runs.TUNED) for method in ("ce", *BESIDE[:2])]
            if identity["budget"]:
                rows.append([name, str(identity["budget"]), SEARCHES[end], *found, f"`{comparison}`"])
    return table(["data", "trials", "chosen by", "`ce`", "`nce`", "`nce_balanced`", "comparison"], rows)


def for_all() -> dict[str, str]:
    """A table per group: the mean difference of each method to cross-entropy over data sets, and the least one."""
    sets = ["delicious_searched" if name == "delicious" else name for name in SETS]
    rows: dict[str, list[Any]] = {}
    for method in runs.METHODS:
        gains = {key: [_to_ce(name, method, key) for name in sets] for key in (runs.TUNED, runs.CALIBRATED)}
        found = [name for name in sets if _to_ce(name, method, runs.TUNED) is not None]
        if method in ("constant", "ce") or len(found) < LEAST_SETS:
            continue
        cells = [f"`{method}`", runs.METHODS[method].about, str(len(found))]
        values = [[value for value in each if value is not None] for each in gains.values()]
        cells += [f"{mean(each):+.2f} ({min(each):+.2f})" for each in values]
        seconds = [runs.compared(name)["methods"][method]["seconds"] for name in found]
        rows.setdefault(group_of(method), []).append((-mean(values[0]), [*cells, f"{median(seconds):.2f}"]))
    head = ["method", "what it is", "data sets", "one threshold", "calibrated expected F1", "seconds per epoch"]
    return {
        GROUPS[group]: table(head, (cells for _, cells in sorted(rows[group]))) for group in GROUPS if group in rows
    }


def _to_ce(comparison: str, method: str, key: str) -> float | None:
    found = runs.gain(runs.of_method(comparison, method), runs.of_method(comparison, "ce"), key)
    return None if found is None else found.mean


def searched(comparison: str) -> str:
    """How far the methods of a comparison were searched, in a sentence."""
    identity = runs.stored(comparison).identity()
    trials, finalists, held = (identity.get(key) for key in ("budget", "finalists", "held"))
    if not trials:
        return "No method was searched: each has the settings of the data set's recipes, and first values of its own."
    said = [f"Each method had {trials} trials of search on validation, scored by one seed."]
    if finalists:
        said.append(f"The best {finalists} trials ran with two more seeds, and the best mean of three seeds was taken.")
    if held:
        said.append(f"The search left {held.replace(' ', ' and ')} as they were.")
    return " ".join(said)


def commands(comparison: str) -> str:
    """The commands of a comparison: one for the methods with the same seeds."""
    found = runs.stored(comparison)
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for method, results in found.all().items():
        by_seeds.setdefault(tuple(run["seed"] for run in results), []).append(method)
    words = "OMP_NUM_THREADS=1 python examples/compare_losses.py --data_dir PATH"
    start = " ".join([words, f"--output_dir runs/compare/{comparison}", *_flags(found)])
    lines = []
    for seeds, methods in sorted(by_seeds.items(), key=lambda item: (-len(item[0]), item)):
        ordered = " ".join(method for method in METHODS if method in methods)
        lines.append(f"{start} --losses {ordered} --seeds {' '.join(map(str, seeds))}")
    return bash(*lines)


def _flags(found: Stored) -> Iterable[str]:
    """Recipe, settings that differ from it, and what is said last."""
    identity = found.identity()
    recipe = f"recipes/mlc/{identity['data']}_ce.yaml"
    settings = {key: str(value) for key, value in read_recipe(ROOT / recipe).items()}
    flags = {key: value for key, value in identity.items() if key not in NO_FLAGS and settings.get(key) != value}
    flags |= {"budget": identity["budget"], "metric": identity.get("metric", METRIC)}
    flags |= {"finalists": identity.get("finalists", 1), "hold": identity.get("held", "")}
    usual = {("metric", METRIC), ("finalists", 1), ("hold", "")}
    return [f"--recipe {recipe}", *(f"--{key} {value}" for key, value in flags.items() if (key, value) not in usual)]
