"""README's table: what one addition gives beside a plain Trainer, that is cross-entropy at 0.5."""

from __future__ import annotations

import statistics
from typing import NamedTuple

import defaults

from . import runs
from .label_recipes import families
from .label_tables import beside_gain
from .markdown import prose, table

HEAD = ["what you add", "data", "plain Trainer at 0.5", "with it", "difference", "seeds", "more"]

RECIPES = (  # what is added, data, recipe without it, recipe with it, key of the figure, page
    ("a CRF", "semantic roles, F1", "srl_ewt_ce", "srl_ewt_crf", "test_f1", "roles"),
    (
        "an energy of tags (InfNet+)",
        "parts of speech, accuracy",
        "twitter_pos_ce",
        "twitter_pos_infnet_plus",
        "test_accuracy",
        "tags",
    ),
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
        plain: of cross-entropy at 0.5, or of the likelier class.
        before: of the same without what is added.
        ours: of what is added.
        page: under docs/results/, with the figures and the commands.
        to: what the difference is to, if it is not `plain`.
    """

    what: str
    data: str
    plain: dict[int, float]
    before: dict[int, float]
    ours: dict[int, float]
    page: str
    to: str = ""

    def cells(self, base: str) -> list[str]:
        seeds = [seed for seed in self.ours if seed in self.before]
        gain = runs.of_differences([self.ours[seed] - self.before[seed] for seed in seeds])
        said = str(gain) + f" to {self.to}" * bool(self.to)
        figures = [_mean(self.plain), _mean(self.ours), said, str(len(seeds))]
        return [self.what, self.data, *figures, f"[{self.page}]({base}{self.page}.md)"]


def _mean(values: dict[int, float]) -> str:
    found = list(values.values())
    if len(found) == 1:
        return f"{found[0]:.2f}"
    return f"{statistics.mean(found):.2f} ± {statistics.stdev(found):.2f}"


def rows() -> list[Row]:
    features, texts = _data_sets("Features"), _data_sets("Texts")
    return [
        _rate("texts", texts),
        _decoder("texts", texts),
        _decoder("features", features),
        _default("features", features),
        _default("texts", texts),
        *(_recipe(*each) for each in RECIPES),
        _rules(*RULES),
    ]


def _data_sets(family: str) -> list[str]:
    """Data sets on which the rule of λ1 was not found, those with the most seeds; none that is made by a program."""
    found = [name for name in families()[family] if name in defaults.SETS["verdict"]]
    found = [name for name in found if not name.startswith("synthetic")]
    most = max((len(_seeds([name])) for name in found), default=0)
    return [name for name in found if len(_seeds([name])) == most > 0]


def _seeds(names: list[str]) -> list[int]:
    """The seeds that all runs of these data sets have."""
    found = [set(runs.of_defaults(name, loss)) for name in names for loss in ("ce", "default")]
    return sorted(set.intersection(*found))


def _rate(kind: str, names: list[str]) -> Row:
    plain, ours = _of_sets(names, "ce_5e-5", runs.AT_HALF), _of_sets(names, "ce", runs.AT_HALF)
    return Row("a learning rate of 1e-4 in place of 5e-5", _said(kind, names), plain, plain, ours, "defaults")


def _decoder(kind: str, names: list[str]) -> Row:
    plain, decoded = _of_sets(names, "ce", runs.AT_HALF), _of_sets(names, "ce", runs.CALIBRATED)
    return Row("a fitted decoder: calibrated expected F1", _said(kind, names), plain, plain, decoded, "defaults")


def _default(kind: str, names: list[str]) -> Row:
    plain, decoded = _of_sets(names, "ce", runs.AT_HALF), _of_sets(names, "ce", runs.CALIBRATED)
    ours = _of_sets(names, "default", runs.CALIBRATED)
    what, to = "that decoder and a loss-net by default", "the decoder alone"
    return Row(what, _said(kind, names), plain, decoded, ours, "defaults", to)


def _said(kind: str, names: list[str]) -> str:
    return f"{kind}, F1: mean of {', '.join(names)}" if len(names) > 1 else f"{kind}, F1: {names[0]}"


def _of_sets(names: list[str], loss: str, key: str) -> dict[int, float]:
    """By seed that all runs have, the mean over data sets."""
    found = [runs.of_defaults(name, loss) for name in names]
    return {seed: 100 * statistics.mean(each[seed][key] for each in found) for seed in _seeds(names)}


def _recipe(what: str, data: str, plain: str, ours: str, key: str, page: str) -> Row:
    before, after = (_values(name, key) for name in (plain, ours))
    return Row(what, data, before, before, after, page)


def _rules(name: str, plain: str, ours: str, key: str) -> Row:
    before, after = (
        {seed: 100 * run[key] for seed, run in runs.of_method(name, method).items()} for method in (plain, ours)
    )
    data = "citations, 50 tagged, accuracy"
    return Row("rules for the rows without tags", data, before, before, after, "few-labels")


def _values(name: str, key: str) -> dict[int, float]:
    return {seed: 100 * run[key] for seed, run in runs.of_recipe(name).items()}


def gains(base: str = "") -> str:
    """The table; links begin with `base`."""
    return table(HEAD, (row.cells(base) for row in rows()))


def below() -> str:
    """How to read the table, and what a searched loss-net gives."""
    bibtex, seq_fun = (beside_gain(name, "nce_balanced") for name in ("bibtex", "seq_fun"))
    return prose(f"""
        Figures are those of test sets in percent, mean ± standard deviation over seeds. A *difference* is paired by
        seed. The first row begins with the Trainer's own rate of 5e-5; the other rows on texts have ours on both
        sides. With its settings searched, a loss-net adds {bibtex} points to a tuned model on bibtex and {seq_fun} on
        seq_fun; on four other sets with features it adds nothing.""")
