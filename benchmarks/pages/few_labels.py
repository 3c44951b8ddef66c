"""The page of few labels with rules: comparisons with rules that few rows gave, and runs with rules of all rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from seal_hf.lab.compare.methods import SEAL
from seal_hf.lab.compare.table import best_on_validation, difference, p_value, percent

from . import recipe_tables as tables
from . import runs
from .comparisons import Compared, how_to_read
from .markdown import page, prose, section, table
from .published import beside

TAGGED = {"5": "_5", "10": "", "50": "_50"}  # tagged references -> suffix of the runs
HEAD = [
    "task",
    "labelled",
    "seeds",
    "few labels alone",
    "rules applied",
    "rules as labels",
    "best baseline",
    "energy with rules",
    "difference to the best baseline",
    "validation chooses",
    "p, rows",
    "p, seeds",
]


class Task(NamedTuple):
    """A data set with rules.

    Attributes:
        title: of its section.
        kind: of the comparison.
        about: what the rules come from.
    """

    title: str
    kind: str
    about: str


TASKS = {
    "semeval2018_ec": Task(
        "Emotions of tweets",
        "rewards mlc",
        "SemEval-2018 E-c, 11 labels, on frozen MiniLM features. At most 15 words a label.",
    ),
    "semeval2018_ec_finetuned": Task(
        "Emotions of tweets, MiniLM fine-tuned",
        "rewards mlc",
        "SemEval-2018 E-c, 11 labels. The rules above, 500 unlabelled texts, and no search.",
    ),
    "xed_en": Task(
        "Emotions of subtitles",
        "rewards mlc",
        "XED, 8 labels, on frozen MiniLM features. At most 15 words a label.",
    ),
    "xed_en_finetuned": Task(
        "Emotions of subtitles, MiniLM fine-tuned",
        "rewards mlc",
        "XED, 8 labels. The rules above, 500 unlabelled texts, and no search.",
    ),
    "cora": Task(
        "Fields of citations",
        "rewards tagging",
        "Cora, 13 fields, a BiLSTM on GloVe. 45 rules from 50 references, also where fewer of these are labelled.",
    ),
    "twitter_pos": Task("Parts of speech of tweets", "rewards tagging", "25 tags, a BiLSTM on GloVe. 40 rules."),
    "weizmann": Task(
        "Masks of horses",
        "rewards segmentation",
        "An FCN. Rules on area, pieces and smoothness, from 20 masks, also where 8 are labelled.",
    ),
}


def compared() -> dict[tuple[str, int], Compared]:
    """The comparisons with rules that have runs, by data set and number of labelled rows."""
    found = {}
    for data, task in TASKS.items():
        names = runs.there(f"{data}_rules_{count}" for count in (5, 8, 10, 20, 50, 100, 200, 500))
        found |= {(data, int(name.rsplit("_", 1)[1])): Compared(name, task.kind) for name in names}
    return found


def summary() -> str:
    """A row for each comparison."""
    rows = []
    for (data, count), each in compared().items():
        found = each.table()
        methods, key, ours = found["methods"], found["decoder"], best_on_validation(found, SEAL)
        if ours is None:
            continue
        figures = [percent(*methods[name][key]) if name in methods else "-" for name in SHOWN]
        best, row = found["best_baseline"], methods[ours]
        figures += [f"`{best}` {percent(*methods[best][key])}", f"`{ours}` {percent(*row[key])}", difference(row)]
        figures.append(f"`{best_on_validation(found)}`")
        tests = [p_value(row["p_rows"], row["least_p_rows"]), p_value(row["p_seeds"])] if "p_rows" in row else ["-"] * 2
        title = f"{TASKS[data].title}, {found['words']}"
        rows.append([title, str(count), str(len(row["seeds"])), *figures, *tests])
    return table(HEAD, rows)


def by_seeds() -> list[float]:
    """The p-values over seeds of the summary's differences."""
    found = [(each.table()["methods"], best_on_validation(each.table(), SEAL)) for each in compared().values()]
    return [methods[ours].get("p_seeds", math.nan) for methods, ours in found if ours is not None]


def clear(tested: Sequence[float]) -> str:
    """How many of these p-values are below `LEVEL`, also among so many (Holm 1979); those of one seed do not count."""
    values = sorted(p for p in tested if not math.isnan(p))
    held = next((rank for rank, p in enumerate(values) if p > LEVEL / (len(values) - rank)), len(values))
    return prose(f"""
        {sum(p < LEVEL for p in values)} of these {len(values)} differences have p < {LEVEL} over seeds, {held} of them
        also after Holm's correction for {len(values)} tests.""")


LEVEL = 0.05  # of significance
SHOWN = ("few", "rules_applied", "rules_as_labels")


def from_few_rows() -> list[str]:
    """The sections on rules that were written from labelled rows alone; none without runs."""
    if not compared():
        return []
    blocks = [
        section(
            "Rules from few rows",
            prose("""
                The rules were written once, before any run, from the names of the labels and 50 labelled rows (masks:
                20). No other row was read. Validation has as many rows as the labelled part. All other training rows,
                at most 2,000, have no labels. Every method has three trials, but none where MiniLM is fine-tuned. All
                are evaluated on the whole test set. *Energy with rules* is the better of `rewards` and
                `rewards_default` on validation, and the best baseline is that on the test set. Each row is taken apart
                below."""),
            summary(),
            clear(by_seeds()),
            prose("""
                `rewards_default` does not search λ1: the energy pulls as hard as the task loss does on validation rows.
                That was chosen with runs of tweets and subtitles (seeds 1 and 2) and of horses (seed 1) in view, so
                these rows are a little optimistic."""),
        )
    ]
    for (data, count), each in compared().items():
        task = TASKS[data]
        blocks.append(section(f"{task.title}, {count} labelled", task.about, *each.blocks(with_legend=False)))
    return [*blocks, how_to_read(compared().values())]


def from_all_rows() -> str:
    plain, rules, implicit = (f"cora_few_{loss}" for loss in ("ce", "contrastive_divergence", "implicit"))
    rows, used = [], []
    for count, suffix in TAGGED.items():
        found = [runs.of_recipe(f"{name}{suffix}") for name in (plain, rules, implicit)]
        used += [f"{name}{suffix}" for name in (plain, rules, implicit)]
        gain = runs.gain(found[1], found[0], "test_accuracy")
        figures = [runs.figure(each, "test_accuracy") for each in found]
        rows.append([count, str(len(found[0])), *figures, *runs.gain_cells(gain)])
    head = ["tagged references", "seeds", "cross-entropy", "with rules", "with rules, implicit gradients"]
    return section(
        "Rules in view of all rows",
        prose("""
            Of 300 training references of Cora only 5, 10 or 50 have tags. Rules in `recipes/rules/cora.yaml` score tags
            of the others, and a loss-net learns from both by contrastive divergence. The task-net is a BiLSTM; the
            figure is the accuracy of fields on the test references.

            These rules were written with statistics of all 500 tagged references in view, those of the test set too.
            The figures are therefore optimistic."""),
        table([*head, "what rules add", "seeds ahead"], rows),
        tables.commands(used),
        beside("rewards"),
    )


def all_pages() -> dict[str, str]:
    return {
        "few-labels": page(
            "Few labels, with rules for the others",
            prose("""
                Figures are in percent of the test set, mean ± standard deviation over seeds. A difference is paired by
                seed, in points. The command below a table runs its rows again; `PATH` is the folder of the
                [data sets](../reference/data-sets.md) and `FOLDER` that of MiniLM's weights. Where MiniLM is
                fine-tuned, head and encoder have one rate; the [head's own rate](defaults.md#the-rate-of-a-fresh-head)
                is newer."""),
            *from_few_rows(),
            from_all_rows(),
        )
    }
