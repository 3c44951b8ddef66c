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
    features, texts = _data_sets("Features"), _data_sets("Texts")
    return [
        _decoder("texts", texts),
        _linear(label_recipes.ROWS[-1]),
        _in_the_net(features),
        _default("features", features),
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


def _linear(rows: int) -> Row:
    """Of texts: a fine-tuned encoder in place of a logistic regression on it."""
    way, keys = label_recipes.now(rows), label_recipes.linear_keys("f1_example", "linear_encoder")
    found = [
        name for name in label_recipes.TEXTS if any(keys[0] in run for run in runs.of_defaults(name, way).values())
    ]
    before, ours = (_of_sets(found, way, key) for key in keys)
    return Row(
        "fine-tuning, not a logistic regression on the encoder",
        _said(f"texts, {rows:,} rows", found),
        before,
        ours,
        "defaults",
    )


def _in_the_net(names: list[str]) -> Row:
    """Of features: a net that takes a logistic regression in."""
    key, decided = label_recipes.linear_keys("f1_example", "net_alone")
    found = {name: label_recipes.with_linear(name) for name in names}
    before, ours = (_mean_of_sets(list(found.values()), each) for each in (key, decided))
    return Row("a logistic regression in the net", _said("features", names), before, ours, "defaults")


def _default(kind: str, names: list[str]) -> Row:
    way = plain_way(names[0]) if names else "ce"
    before, ours = (_of_sets(names, each, runs.CALIBRATED) for each in (way, way.replace("ce", "default")))
    return Row("the loss-net of the defaults", _said(kind, names), before, ours, "defaults")


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
    decided, (few, more) = _decoder("texts", _data_sets("Texts")), map(_linear, label_recipes.ROWS)
    before, ours = (_mean(list(values.values())) for values in (decided.before, decided.ours))
    bibtex, seq_fun = (beside_gain(name, "nce_balanced") for name in ("bibtex", "seq_fun"))
    answers = {
        "Why not just `Trainer`?": f"""
            It ends with probabilities; a cut at 0.5 is seldom right. A run fits decisions on validation rows: after
            cross-entropy F1 rises from {before} to {ours} on {len(_data_sets("Texts"))} sets of texts
            ([defaults]({base}defaults.md)). [`seal-hf decide fit`](docs/how-to/decide.md) does this for other
            models.""",
        "Why not a linear model?": f"""
            Most runs fit one and print its figures. Fine-tuning is ahead by {few.gain()} on 300 texts, and by
            {more.gain()} on 1,000 ([data sets]({base}defaults.md#beside-a-logistic-regression)).""",
        "When does the energy help?": f"""
            On some label sets of features ({bibtex} on bibtex, {seq_fun} on seq_fun), and where rules know more than a
            few labelled rows ({_rules(*RULES).gain()} on citations). Beside a fine-tuned text encoder it does not
            ([results]({base}index.md)).""",
    }
    return "\n\n".join(prose(f"**{question}** {answer}") for question, answer in answers.items())
