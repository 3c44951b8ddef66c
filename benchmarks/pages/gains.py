"""README's table: what one addition gives to cross-entropy."""

from __future__ import annotations

import statistics
from typing import NamedTuple

import defaults

from . import label_recipes, runs
from .label_recipes import families, plain_way
from .label_tables import beside_gain, gain_with_linear
from .markdown import prose, table

HEAD = ["what you add", "data", "without it", "with it", "difference", "seeds", "more"]

RECIPES = (  # what is added, data, recipe without it, recipe with it, key of the figure, page
    ("a CRF", "semantic roles, F1, no role twice", "srl_ewt_ce", "srl_ewt_crf", "test_f1_unique_roles", "roles"),
)
# comparison, methods without rules and with, the figure
RULES = ("cora_rules_50", "few", "rewards_default", "test_accuracy")
NAMED = 3  # data sets of a row at most; more are counted


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
    features = _data_sets("Features")
    return [
        _decisions(),
        _linear(label_recipes.ROWS[-1]),
        _in_the_net(features),
        *(_recipe(*each) for each in RECIPES),
        _rules(*RULES),
    ]


def _data_sets(family: str) -> list[str]:
    """Data sets on which the rule of λ1 was not found, those with the most seeds; none that is made by a program."""
    found = [name for name in families()[family] if name in defaults.SETS["verdict"]]
    seeds = {name: len(runs.of_defaults(name, plain_way(name))) for name in found if not name.startswith("synthetic")}
    return [name for name, number in seeds.items() if number == max(seeds.values()) > 0]


def _decisions() -> Row:
    """Of texts: what a run without flags decides, in place of what a Trainer ends with."""
    ways = (label_recipes.SOFT_F1[0], runs.AT_HALF), (label_recipes.SOFT_F1[1], runs.CALIBRATED)
    before, ours = (_of_sets(label_recipes.TEXTS, *each) for each in ways)
    what = "soft F1 and calibrated decisions, not cross-entropy and 0.5"
    return Row(what, _said("texts, 1,000 rows", label_recipes.TEXTS), before, ours, "defaults")


def _linear(rows: int) -> Row:
    """Of texts: a fine-tuned encoder in place of a logistic regression on it."""
    sets = {name: found for name in label_recipes.TEXTS if (found := label_recipes.fine_tuned(name, rows))}
    keys = label_recipes.linear_keys("f1_example", "linear_encoder")
    before, ours = (_mean_of_sets(list(sets.values()), key) for key in keys)
    what = "fine-tuning, not a logistic regression on the encoder"
    return Row(what, _said(f"texts, {rows:,} rows", list(sets)), before, ours, "defaults")


def _in_the_net(names: list[str]) -> Row:
    """Of features: a net that takes a logistic regression in."""
    sets = {name: found for name in names if (found := label_recipes.with_linear(name))}
    keys = label_recipes.linear_keys("f1_example", "net_alone")
    before, ours = (_mean_of_sets(list(sets.values()), key) for key in keys)
    return Row("a logistic regression in the net", _said("features", list(sets)), before, ours, "defaults")


def _said(kind: str, names: list[str]) -> str:
    named = ", ".join(names) if len(names) <= NAMED else f"{len(names)} data sets"
    return f"{kind}, F1: {'mean of ' * (len(names) > 1)}{named}"


def _of_sets(names: list[str], loss: str, key: str) -> dict[int, float]:
    """By seed that all these data sets have, the mean over them."""
    return _mean_of_sets([runs.of_defaults(name, loss) for name in names], key)


def _mean_of_sets(sets: list[dict[int, dict[str, float]]], key: str) -> dict[int, float]:
    found = [{seed: run for seed, run in of_set.items() if key in run} for of_set in sets]
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


def how_to_read() -> str:
    return prose("""
        Figures are those of test sets in percent, mean ± standard deviation over seeds. A *difference* is paired by
        seed.""")


def questions(base: str = "") -> str:
    """README's three questions, each with its figure; links begin with `base`."""
    decided, (few, more) = _decisions(), map(_linear, label_recipes.ROWS)
    before, ours = (_mean([values[seed] for seed in decided.seeds()]) for values in (decided.before, decided.ours))
    bibtex, seq_fun = (beside_gain(name, "nce_balanced") for name in ("bibtex", "seq_fun"))
    answers = {
        "Why not just `Trainer`?": f"""
            It ends at probabilities; a cut at 0.5 is seldom right. A run adds soft F1 to cross-entropy and fits
            decisions on validation rows: F1 rises from {before} to {ours} on {len(label_recipes.TEXTS)} sets of texts
            ([defaults]({base}defaults.md)). [`seal-hf decide fit`](docs/how-to/decide.md) serves other models.""",
        "Why not a linear model?": f"""
            Most runs fit one and print its figures. Fine-tuning is ahead by {few.gain()} on 300 texts, and by
            {more.gain()} on 1,000 ([data sets]({base}defaults.md#beside-a-logistic-regression)). A net on features
            takes it in.""",
        "When does the energy help?": f"""
            On some features ({bibtex} on bibtex, {seq_fun} on seq_fun; calibrated, with a regression in the net,
            {gain_with_linear("bibtex")} and {gain_with_linear("seq_fun")}), and where rules know more than a few
            labelled rows ({_rules(*RULES).gain()} on citations). Beside a fine-tuned text encoder it does not
            ([results]({base}index.md)).""",
    }
    return "\n\n".join(prose(f"**{question}** {answer}") for question, answer in answers.items())
