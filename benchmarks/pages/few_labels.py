"""The page of few labels with rules: comparisons with rules that few rows gave, and runs with rules of all rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from seal_hf.lab.compare.kinds import SEAL
from seal_hf.lab.compare.table import best_on_validation, difference, p_value, percent

from . import runs
from .comparisons import Compared
from .markdown import archived, page, prose, section, table
from .published import value

TAGGED = {"5": "_5", "10": "", "50": "_50"}  # tagged references -> suffix of the runs
HEAD = ["data", "labelled", "few alone", "best baseline", "energy with rules", "difference", "p, seeds"]
KINDS = {  # data -> the words of the kind of comparison
    "semeval2018_ec": "rewards mlc",
    "semeval2018_ec_finetuned": "rewards mlc",
    "xed_en": "rewards mlc",
    "xed_en_finetuned": "rewards mlc",
    "cora": "rewards tagging",
    "twitter_pos": "rewards tagging",
    "weizmann": "rewards segmentation",
}


def compared() -> dict[tuple[str, int], Compared]:
    """The comparisons with rules that have runs, by data set and number of labelled rows."""
    found = {}
    for data, kind in KINDS.items():
        names = runs.there(f"{data}_rules_{count}" for count in (5, 8, 10, 20, 50, 100, 200, 500))
        found |= {(data, int(name.rsplit("_", 1)[1])): Compared(name, kind) for name in names}
    return found


def summary() -> str:
    """A row for each comparison."""
    rows = []
    for (data, count), each in compared().items():
        found = each.table()
        methods, key, ours = found["methods"], found["decoder"], best_on_validation(found, SEAL)
        if ours is None:
            continue
        best, row = found["best_baseline"], methods[ours]
        figures = [f"`{best}` {percent(*methods[best][key])}", f"`{ours}` {percent(*row[key])}", difference(row)]
        rows.append([data, str(count), percent(*methods["few"][key]), *figures, p_value(row.get("p_seeds", math.nan))])
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


def from_all_rows() -> str:
    rows = []
    for column, (count, suffix) in enumerate(TAGGED.items(), 1):
        found = [runs.of_recipe(f"cora_few_{loss}{suffix}") for loss in ("ce", "contrastive_divergence")]
        gain = runs.gain(found[1], found[0], "test_accuracy")
        figures = [runs.figure(each, "test_accuracy") for each in found]
        rows.append([count, *figures, *runs.gain_cells(gain), value("rewards", "implicit gradients", column)])
    head = ["tagged", "cross-entropy", "with rules", "difference", "seeds ahead", "published, other rules"]
    return table(head, rows)


def all_pages() -> dict[str, str]:
    return {
        "few-labels": page(
            "Few labels, with rules for the others",
            prose("""
                Figures are in percent of the test set, mean ± standard deviation over 5 seeds (3 in the last table).
                Emotions of tweets (semeval2018_ec) and of subtitles (xed_en) are judged by example F1 at one threshold,
                fields of citations (cora) and parts of speech (twitter_pos) by accuracy, horses (weizmann) by IoU at
                0.5. Where MiniLM is fine-tuned, head and encoder have one rate; the
                [head's own rate](defaults.md#the-rate-of-a-fresh-head) is newer.

                **In short.** Rules are worth most with few labels. Whether an energy uses them better than other
                methods depends on the data."""),
            section(
                "Rules from few rows",
                prose("""
                    The rules were written once, before any run, from the names of the labels and 50 labelled rows
                    (masks: 20). Validation has as many rows as the labelled part. All other training rows, at most
                    2,000, have no labels. Every method has three trials, but none where MiniLM is fine-tuned. *Energy
                    with rules* is the better of `rewards` and `rewards_default` on validation. The best baseline is
                    that on the test set; a difference to it has a 95 % interval over test rows."""),
                summary(),
                clear(by_seeds()),
                prose("""
                    `rewards_default` does not search λ1: the energy pulls as hard as the task loss does on validation
                    rows. That was chosen with some of these runs in view, so they are a little optimistic."""),
            ),
            section(
                "Rules in view of all rows",
                prose("""
                    Of 300 training references of Cora only 5, 10 or 50 have tags. Rules in `recipes/rules/cora.yaml`
                    score tags of the others, and a loss-net learns from both by contrastive divergence. These rules
                    were written with statistics of all 500 tagged references in view, those of the test set too, so
                    the figures are optimistic. Published figures are those of Shankar & Piratla with 1,000 other
                    references."""),
                from_all_rows(),
            ),
            archived("semeval2018_ec", "xed_en", "cora", "twitter_pos", "weizmann"),
        )
    }
