"""README's table: what one addition gives to cross-entropy."""

from __future__ import annotations

import statistics
from typing import NamedTuple

import defaults

from . import label_recipes, runs
from .label_recipes import families, plain_way
from .label_tables import beside_gain
from .markdown import prose, table

HEAD = ["what you add", "data", "without it", "with it", "difference", "seeds", "more"]

RECIPES = (  # what is added, data, recipe without it, recipe with it, key of the figure, page
    ("a CRF", "semantic roles, F1, no role twice", "srl_ewt_ce", "srl_ewt_crf", "test_f1_unique_roles", "roles"),
    (
        "soft IoU as a loss, no loss-net",
        "Weizmann's horses, IoU",
        "weizmann_ce_bf16",
        "weizmann_soft_iou_bf16",
        "test_mean_iou",
        "masks",
    ),
)
# comparison, methods without rules and with, the figure
RULES = ("cora_rules_50", "few", "rewards_default", "test_accuracy")


class Row(NamedTuple):
    """Figures by seed, in percent.

    Attributes:
        before: without what is added.
        ours: with it.
        page: under docs/results/, with the figures and the commands.
    """

    what: str
    data: str
    before: dict[int, float]
    ours: dict[int, float]
    page: str

    def seeds(self) -> list[int]:
        """Those with both figures."""
        return [seed for seed in self.ours if seed in self.before]

    def gain(self) -> runs.Gain:
        return runs.of_differences([self.ours[seed] - self.before[seed] for seed in self.seeds()])

    def cells(self, base: str) -> list[str]:
        seeds = self.seeds()
        means = (_mean([values[seed] for seed in seeds]) for values in (self.before, self.ours))
        figures = [*means, str(self.gain()), str(len(seeds))]
        return [self.what, self.data, *figures, f"[{self.page}]({base}{self.page}.md)"]


def _mean(values: list[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def rows() -> list[Row]:
    features, texts = _data_sets("Features"), _data_sets("Texts")
    return [
        _decoder("texts", texts),
        _head("texts, 1,000 rows", label_recipes.TEXTS),
        _decoder("features", features),
        _default("features", features),
        _head_of_tags(),
        *(_recipe(*each) for each in RECIPES),
        _rules(*RULES),
    ]


def _data_sets(family: str) -> list[str]:
    """Data sets on which the rule of λ1 was not found, those with the most seeds; none that is made by a program."""
    found = [name for name in families()[family] if name in defaults.SETS["verdict"]]
    seeds = {name: len(runs.of_defaults(name, plain_way(name))) for name in found if not name.startswith("synthetic")}
    return [name for name, number in seeds.items() if number == max(seeds.values()) > 0]


def _decoder(kind: str, names: list[str]) -> Row:
    way = plain_way(names[0]) if names else "ce"
    plain, decoded = (_of_sets(names, way, key) for key in (runs.AT_HALF, runs.CALIBRATED))
    return Row("calibrated expected F1, not a cut at 0.5", _said(kind, names), plain, decoded, "defaults")


def _head(kind: str, names: list[str]) -> Row:
    """Of texts: what follows from a rate of its own for the fresh head, beside a lower one of the encoder."""
    ways = label_recipes.HEAD_RATES["ce_1e-4"]
    found = [name for name in names if all(runs.of_defaults(name, way) for way in ways)]
    before, ours = (_of_sets(found, way, runs.CALIBRATED) for way in ways)
    return Row("1e-2 for the fresh head and 5e-5, not 1e-4 for both", _said(kind, found), before, ours, "defaults")


def _head_of_tags() -> Row:
    plain, ours = (_of_sets(["wnut17"], way, "test_f1") for way in label_recipes.HEAD_RATES["ce_2e-4"])
    data = "named entities, 1,000 sentences, span F1"
    return Row("a rate of 1e-2 for the fresh head", data, plain, ours, "defaults")


def _default(kind: str, names: list[str]) -> Row:
    way = plain_way(names[0]) if names else "ce"
    before, ours = (_of_sets(names, each, runs.CALIBRATED) for each in (way, way.replace("ce", "default")))
    return Row("then a loss-net, by default", _said(kind, names), before, ours, "defaults")


def _said(kind: str, names: list[str]) -> str:
    return f"{kind}, F1: {'mean of ' * (len(names) > 1)}{', '.join(names)}"


def _of_sets(names: list[str], loss: str, key: str) -> dict[int, float]:
    """By seed that all these data sets have, the mean over them."""
    found = [runs.of_defaults(name, loss) for name in names]
    seeds = sorted(set.intersection(*(set(each) for each in found))) if found else []
    return {seed: 100 * statistics.mean(each[seed][key] for each in found) for seed in seeds}


def _recipe(what: str, data: str, plain: str, ours: str, key: str, page: str) -> Row:
    before, after = (_values(name, key) for name in (plain, ours))
    return Row(what, data, before, after, page)


def _rules(name: str, plain: str, ours: str, key: str) -> Row:
    before, after = (
        {seed: 100 * run[key] for seed, run in runs.of_method(name, method).items()} for method in (plain, ours)
    )
    data = "citations, 50 tagged, accuracy"
    return Row("rules for the rows without tags", data, before, after, "few-labels")


def _values(name: str, key: str) -> dict[int, float]:
    return {seed: 100 * run[key] for seed, run in runs.of_recipe(name).items()}


def gains(base: str = "") -> str:
    """The table; links begin with `base`."""
    return table(HEAD, (row.cells(base) for row in rows() if row.seeds()))


def below() -> str:
    """How to read the table, and what a searched loss-net gives."""
    one, calibrated = (
        [beside_gain(name, "nce_balanced", key) for name in ("bibtex", "seq_fun")]
        for key in (runs.TUNED, runs.CALIBRATED)
    )
    return prose(f"""
        Figures are those of test sets in percent, mean ± standard deviation over seeds. A *difference* is paired by
        seed. With its settings searched, a loss-net adds {one[0]} points to a tuned model on bibtex and
        {one[1]} on seq_fun at one threshold, {calibrated[0]} and {calibrated[1]} under calibrated expected F1. On four
        other sets with features it adds at most 0.2.""")
