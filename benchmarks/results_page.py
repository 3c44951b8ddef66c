"""Writes recipes/RESULTS.md, and a table of README's, from the runs in recipes/results/; runs nothing.

python benchmarks/results_page.py
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import mean, median

from goals import ABOUT, BESIDE, LONGER, NOT_RUN, PUBLISHED, SEARCHED, WHY, best_of, goals, with_later
from results_recipes import dependencies, implicit, masks, variant
from results_store import ROOT, Store, Stored
from results_texts import (
    ALL_BESIDE,
    AT_HALF,
    BALANCED,
    BESIDE_TUNED,
    DEPENDENCIES,
    GLOBAL_TERMS,
    IMPLICIT,
    INTRODUCTION,
    LIGHT,
    MASKS,
    ONE_FOR_ALL,
    ONE_SHARE,
    RECIPES,
    SEARCHES,
    SUMMARY,
    THIRTY,
    WITHOUT_SEARCH,
)
from run_recipes import STORE, names, table, write_readme

from seal_hf.cli.recipes import read_recipe
from seal_hf.compare import COMPARED, METHODS, METRIC, comparison, markdown
from seal_hf.compare.methods import BASELINE, ENERGY, SEAL, Method, of_recipe
from seal_hf.compare.runs import LOST
from seal_hf.compare.statistics import paired_test
from seal_hf.compare.table import best_on_validation, difference, p_value, percent

SETS = ("bibtex", "delicious", "genbase", "genbase_id", "cal500", "spo_fun", "spo_fun_root", "seq_fun")
DATA = tuple(each for name in SETS for each in with_later(name))
COUNTED_AS = {"genbase_id": "genbase", "spo_fun_root": "spo_fun"}  # what counts in a mean in their place
HALF = "_half"  # of a comparison that is chosen at 0.5
RECIPES_AS_THEY_ARE = "_recipes"  # of one of recipes
HELD = "_held"  # of one where the task-net's settings are those of a tuned plain model
APART = {  # ends of the names of comparisons that count in no summary: title, text
    HELD: ("a loss-net beside a tuned model", BESIDE_TUNED),
    "_thirty": ("more trials for cross-entropy", THIRTY),
}
# of a comparison's identity, what is no flag of its command
NO_FLAGS = {"data", "labels", "train", "validation", "test", "contents", "flags"}
NO_FLAGS |= {"budget", "finalists", "metric", "held"}  # said last
TITLES = {
    "tagging": "Tagging",
    "srl": "Semantic roles",
    "segmentation": "Segmentation",
    "mask_energy": "Segmentation by gradient-based inference",
    "rewards": "Citation fields with few tags",
}
LEAST_SETS = 4  # that a method has runs on, to be one for all


def all_runs(name: str) -> dict[str, list[dict]]:
    """Every run of a comparison, by method."""
    return STORE.comparison(name).all()


def compared(name: str, decoder: str) -> dict:
    """A comparison's figures, tested under a decoder."""
    return _compared(STORE, name, decoder)


@cache
def _compared(store: Store, name: str, decoder: str) -> dict:
    runs = store.comparison(name)
    return comparison(runs.all(), methods_of(name), decoder, metric=runs.identity().get("metric", METRIC))


def methods_of(name: str) -> Mapping[str, Method]:
    """What a comparison compares."""
    if not name.endswith(RECIPES_AS_THEY_ARE):
        return METHODS
    return {each: of_recipe(read_recipe(ROOT / "recipes" / "mlc" / f"{each}.yaml")) for each in all_runs(name)}


def ending(end: str) -> dict[str, str]:
    """Comparisons whose name ends so, by that without the end."""
    return {name.removesuffix(end): name for name in STORE.comparisons() if name.endswith(end)}


def summary(tables: dict[str, dict[str, dict]]) -> list[str]:
    """The best of each group by data set and decoder, chosen on validation."""
    lines = []
    for decoder, meaning in COMPARED.items():
        lines += [
            f"**{meaning}**",
            "",
            "| data | best baseline | best energy network | best SEAL | difference |",
            "|---|---|---|---|---|",
        ]
        gains = []
        for name, by_decoder in tables.items():
            cells = [name]
            for group in (BASELINE, ENERGY, SEAL):
                found = best_of(by_decoder[decoder], group)
                cells.append(f"{100 * found[1][decoder][0]:.2f} `{found[0]}`" if found else "-")
            found = best_of(by_decoder[decoder], SEAL)
            counted_as = COUNTED_AS.get(name)
            if found and "difference" in found[1] and counted_as not in tables and is_last(name, tables):
                gains.append(found[1]["difference"])
            shown = best_of(by_decoder[decoder], BASELINE)
            cells.append(gain(by_decoder[decoder], found[1], shown and shown[0]) if found else "-")
            lines.append(f"| {' | '.join(cells)} |")
        if gains:
            lines.append(f"| mean | | | | {100 * mean(gains):+.2f} |")
        lines.append("")
    return lines


def is_last(name: str, tables: Mapping[str, dict]) -> bool:
    """Whether no later, more thorough comparison of a data set is there."""
    return not any(each in tables for each in with_later(name)[1:])


def gain(compared: dict, row: dict, shown: str | None) -> str:
    """A row's difference to the best baseline, which is named where it is not the one shown."""
    best = compared.get("best_baseline")
    return difference(row) + (f" to `{best}`" if best not in (None, shown) else "")


def one_for_all(tables: dict[str, dict[str, dict]]) -> list[str]:
    """Each method's mean difference over the data sets, with the same baseline for all methods of a data set: what one
    would have from taking it everywhere."""
    replaced = COUNTED_AS | SEARCHED  # longer searches are of few methods
    sets = [name for name in tables if replaced.get(name) not in tables and name not in LONGER.values()]
    rows = []
    for method in METHODS:
        found = {name: pairs for name in sets if (pairs := with_cross_entropy(name, method))}
        if method in ("constant", "ce") or len(found) < LEAST_SETS:
            continue
        gains = {
            decoder: [mean(a[f"test_{decoder}"] - b[f"test_{decoder}"] for a, b in pairs) for pairs in found.values()]
            for decoder in COMPARED
        }
        seconds = [tables[name][METRIC]["methods"][method]["seconds"] for name in found]
        cells = [f"{100 * mean(values):+.2f} ({100 * min(values):+.2f})" for values in gains.values()]
        missing = [name for name in sets if name not in found]
        rows.append(
            (-mean(gains[METRIC]), [f"`{method}`", ", ".join(missing) or "-", *cells, f"{median(seconds):.2f}"])
        )
    head = ["method", "not run", *COMPARED.values(), "seconds / epoch"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return lines + [f"| {' | '.join(cells)} |" for _, cells in sorted(rows, key=lambda row: row[0])]


def with_cross_entropy(name: str, method: str) -> list[tuple[dict, dict]]:
    """A method's runs on a data set, each with that of cross-entropy with the same seed."""
    runs = all_runs(name)
    ours, theirs = ({run["seed"]: run for run in runs.get(each, ()) if LOST not in run} for each in (method, "ce"))
    return [(ours[seed], theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())]


def readme_table(tables: dict[str, dict[str, dict]]) -> list[str]:
    """The best baseline and the best SEAL method of each data set, under both decoders, in one table."""
    head = [f"{part}, {meaning}" for meaning in COMPARED.values() for part in ("baseline", "loss-net", "difference")]
    lines = [f"| data | {' | '.join(head)} |", "|---" * (1 + len(head)) + "|"]
    for name, by_decoder in tables.items():
        cells = [name]
        for decoder in COMPARED:
            found = [best_of(by_decoder[decoder], group) for group in (BASELINE, SEAL)]
            if None in found:
                cells += ["-"] * 3
                continue
            for method, row in found:
                cells.append(f"`{method}` {percent(*row[decoder])} ({len(row['seeds'])})")
            cells.append(gain(by_decoder[decoder], found[1][1], found[0][0]))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def global_terms(names: Sequence[str]) -> list[str]:
    """Methods with the whole energy and with its local term alone, seed by seed, of these comparisons."""
    lines = ["| data | seeds | method | whole | local | difference | p |", "|---" * 7 + "|"]
    for name in names:
        runs = all_runs(name)
        for method in ("nce", "nce_balanced"):
            both = [
                {run["seed"]: run for run in runs.get(other, ()) if LOST not in run}
                for other in (method, f"{method}_local")
            ]
            if seeds := sorted(both[0].keys() & both[1].keys()):
                values = [[found[seed][f"test_{METRIC}"] for seed in seeds] for found in both]
                cells = [f"{100 * value:.2f}" for value in map(mean, values)]
                p = f"{paired_test(*values):.2g}" if len(seeds) > 1 else "-"
                gain = f"{100 * (mean(values[0]) - mean(values[1])):+.2f}"
                lines.append(f"| {name} | {len(seeds)} | `{method}` | {' | '.join(cells)} | {gain} | {p} |")
    return lines


def commands(runs: Stored) -> list[str]:
    """What the runs of a comparison were made by, as Markdown: one command for the methods with the same seeds."""
    identity, by_seeds = runs.identity(), {}
    for method, results in runs.all().items():
        by_seeds.setdefault(tuple(run["seed"] for run in results), []).append(method)
    lines, (first, *_) = ["```bash"], next(iter(by_seeds.values()))
    if first in METHODS:
        recipe = f"recipes/mlc/{identity['data']}_ce.yaml"
        settings = {key: str(value) for key, value in read_recipe(ROOT / recipe).items()}
        flags = {key: value for key, value in identity.items() if key not in NO_FLAGS and settings.get(key) != value}
        flags |= {"budget": identity["budget"], "metric": identity.get("metric", METRIC)}
        flags |= {"finalists": identity.get("finalists", 1), "hold": identity.get("held", "")}
        usual = {("metric", METRIC), ("finalists", 1), ("hold", "")}
        flags = [f"--{key} {value}" for key, value in flags.items() if (key, value) not in usual]
        head = [f"--recipe {recipe}", *flags, "--losses"]
    else:
        head = ["--recipes"]
    for seeds, methods in sorted(by_seeds.items(), key=lambda item: (-len(item[0]), item)):
        ordered = [method for method in METHODS if method in methods]
        ordered = ordered or [f"recipes/mlc/{method}.yaml" for method in methods]
        words = [
            "OMP_NUM_THREADS=1 python examples/compare_losses.py",
            "--data_dir PATH",
            f"--output_dir runs/compare/{runs.name}",
        ]
        lines.append(" ".join([*words, *head, *ordered, "--seeds", *map(str, seeds)]))
    return [*lines, "```", ""]


def of_recipes() -> list[str]:
    """The comparisons of recipes as they are."""
    lines = []
    for title, name in ending(RECIPES_AS_THEY_ARE).items():
        lines += [f"## {title}, recipes as they are", "", *by_decoders(name), *commands(STORE.comparison(name))]
    return lines


def apart() -> list[str]:
    """The comparisons of one question, which count in no summary."""
    lines = []
    for end, (title, text) in APART.items():
        for data, name in ending(end).items():
            runs = STORE.comparison(name)
            lines += [f"## {data}, {title}", "", text, "", *by_decoders(name), searched(runs), "", *commands(runs)]
    return lines


def beside_tuned() -> list[str]:
    """What each method adds to a tuned plain model, by data set, and what validation, which may choose cross-entropy,
    does on the mean over data sets; in bold what it chooses under the tuned threshold."""
    head = ["data", "method", "seeds", "on validation", "p"]
    head += [part for meaning in COMPARED.values() for part in (f"on test, {meaning}", "p")]
    lines, gains = [f"| {' | '.join([*head, 'seconds / epoch'])} |", "|---" * (len(head) + 1) + "|"], []
    for data, folder in ending(HELD).items():
        found = {decoder: compared(folder, decoder) for decoder in COMPARED}
        chosen = best_on_validation(found[METRIC])
        rows = {name: [each["methods"][name] for each in found.values()] for name in found[METRIC]["methods"]}
        gains.append([row.get("difference", 0.0) for row in rows[chosen]])
        for method in (method for method in METHODS if "difference" in rows.get(method, [{}])[0]):
            pairs = with_cross_entropy(folder, method)
            cells = [data, f"**`{method}`**" if method == chosen else f"`{method}`"]
            ours, theirs = ([run[f"eval_{METRIC}"] for run in runs] for runs in zip(*pairs, strict=True))
            cells += [str(len(pairs)), f"{100 * (mean(ours) - mean(theirs)):+.2f}", p_value(paired_test(ours, theirs))]
            for row in rows[method]:
                cells += [difference(row), p_value(row["p_seeds"])]
            lines.append(f"| {' | '.join([*cells, format(row['seconds'], '.2f')])} |")
    means = [f"{100 * mean(column):+.2f} | " for column in zip(*gains, strict=True)]
    return [*lines, f"| mean of {len(gains)} | what validation chooses | | | | {'| '.join(means)}| |"]


def by_decoders(name: str) -> list[str]:
    lines = []
    for decoder, meaning in COMPARED.items():
        table = markdown(compared(name, decoder), methods_of(name), legend=False)
        lines += [f"Differences under {meaning}:", "", table]
    return lines


def chosen_at_half() -> dict[str, dict]:
    """The comparisons whose trials and epochs were chosen at 0.5, under that decoder, by data set."""
    return {data: compared(name, "f1_example") for data, name in ending(HALF).items()}


def published_of(name: str) -> dict[str, str]:
    """Published figures of a data set, searched later or not, by method."""
    known = next(data for data in SETS if name in with_later(data))
    return {method: row[known] for method, row in PUBLISHED.items() if known in row}


def searched(runs: Stored) -> str:
    """How much a method was searched."""
    trials, finalists = runs.identity()["budget"], runs.identity().get("finalists", 1)
    if not trials:
        return WITHOUT_SEARCH
    more = f", the best {finalists} of them run by two more seeds, of which the best mean was taken" * (finalists > 1)
    held = runs.identity().get("held", "").replace(" ", " and ")
    kept = f"; {held} stayed as given, so that a method without more to search was not searched" * bool(held)
    return f"{trials} trials of search for each method{more}{kept}."


def main() -> None:
    found = [name for name in DATA if name in STORE.comparisons() and all_runs(name)]
    tables = {name: {decoder: compared(name, decoder) for decoder in COMPARED} for name in found}
    lines = [INTRODUCTION, "## Summary", ""]
    lines += [SUMMARY, "", *summary(tables)]
    at_half = chosen_at_half()
    reached = goals(tables, at_half)
    open_goals = sum(line.endswith(NOT_RUN) for line in reached)
    lines += ["## Goals", "", f"{ABOUT} Goals without a run yet: {open_goals}.", ""]
    lines += [*(line for line in reached if not line.endswith(NOT_RUN)), "", WHY, ""]
    lines += ["## A loss-net beside a tuned model", "", ALL_BESIDE, "", *beside_tuned(), ""]
    lines += ["## What a search finds", "", SEARCHES, ""]
    with_search = {name: table for name, table in tables.items() if STORE.comparison(name).identity()["budget"]}
    lines += [
        "## One method for all",
        "",
        ONE_FOR_ALL,
        "",
        *one_for_all(with_search),
        "",
        ONE_SHARE,
        "",
        *variant("share01", "share 0.1"),
        "",
        LIGHT,
        "",
        *variant("light", "light"),
        "",
        BALANCED,
        "",
        *variant("balanced", "λ1 by gradient norms"),
        "",
        *variant("cheap", "cheap form"),
        "",
    ]
    for i, (name, by_decoder) in enumerate(tables.items()):
        runs = STORE.comparison(name)
        lines += [f"## {name}", "", markdown(by_decoder[METRIC], beside=published_of(name), legend=i == 0)]
        lines += [searched(runs), "", *commands(runs)]
    for name, table_at_half in at_half.items():
        runs, published = STORE.comparison(f"{name}{HALF}"), published_of(name)
        lines += [f"## {name}, chosen at 0.5", "", AT_HALF, "", markdown(table_at_half, beside=published, legend=False)]
        lines += [searched(runs), "", *commands(runs)]
    lines += [*apart(), *of_recipes()]
    if names("*_nce_local"):
        beside = ending(HELD).values()
        lines += ["## What of a gain are dependencies", "", DEPENDENCIES, "", *dependencies(), ""]
        lines += [GLOBAL_TERMS, "", *global_terms([*tables, *beside]), ""]
    for kind, title in TITLES.items():
        if len(rows := table(kind).split("\n")) > 2:
            lines += [f"## {title}", "", RECIPES.format(kind=kind), "", *rows, "", f"Published: {BESIDE[kind]}", ""]
        if kind == "segmentation" and len(pairs := masks()) > 2:
            lines += [MASKS, "", *pairs, ""]
    lines += ["## Implicit gradients", "", IMPLICIT, "", *implicit(), "", f"Published: {BESIDE['implicit']}", ""]
    (ROOT / "recipes" / "RESULTS.md").write_text("\n".join(lines), encoding="utf-8")
    write_readme("compared", readme_table({name: table for name, table in tables.items() if is_last(name, tables)}))
    write_readme("beside", beside_tuned())


def check() -> None:
    """Ends the program with an error where a page says something else than the raw runs; the pages stay as they are."""
    pages = [ROOT / "recipes" / "RESULTS.md", ROOT / "README.md"]
    before = {page: page.read_text(encoding="utf-8") for page in pages}
    main()
    changed = [page for page, text in before.items() if page.read_text(encoding="utf-8") != text]
    for page in changed:
        page.write_text(before[page], encoding="utf-8")
    if changed:
        names = " and ".join(str(page.relative_to(ROOT)) for page in changed)
        sys.exit(f"{names} and the raw runs disagree: run python benchmarks/results_page.py")


if __name__ == "__main__":
    check() if "--check" in sys.argv else main()
