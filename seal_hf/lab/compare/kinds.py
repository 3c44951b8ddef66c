"""What a method of a comparison is, and all that a comparison knows of a kind of output: the search, the runs, the
tests and the tables ask these objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ...cli.search import DROPOUT_RANGE, RATE, TEXT_RATE, LogUniform, Range
from ...cli.train.program import Program
from ...core.task import Registry
from ...training.base import StructuredTrainer
from .statistics import Rows

BASELINE, SEAL, ENERGY, ABLATION = "baseline", "SEAL", "energy network", "ablation"  # groups, by their table names
# what a method trains
TASK_NET, ENERGY_NETWORK, CONSTANT = "task_net", "energy_network", "constant"
LINEAR = "linear"  # logistic regressions on frozen features: the task-net only gives these


@dataclass(frozen=True)
class Method:
    """One row of a comparison.

    Attributes:
        group: the others are tested against `BASELINE` rows.
        about: a few words for the table's legend.
        settings: keys of a recipe, over those of the data set.
        space: key -> searched range.
        first: values under the user's flags and over those of the data set's recipe; a search begins with them, a run
            without search has them.
        program: a key of `Kind.programs`, or `CONSTANT`, which trains nothing, or `LINEAR`.
        takes: setting -> another method, which is run before and whose net of the same seed is used.
        search_of: one of the methods in `takes`, whose searched values this one has too, without a search of its own.
        needs: what the data must have, see `Kind.has`; empty: nothing.
    """

    group: str
    about: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Range] = field(default_factory=dict)
    first: Mapping[str, Any] = field(default_factory=dict)
    program: str = TASK_NET
    takes: Mapping[str, str] = field(default_factory=dict)
    search_of: str = ""
    needs: str = ""


Methods = Mapping[str, Method]

WEIGHT, SHARE = LogUniform(0.03, 10.0), LogUniform(0.03, 3.0)  # λ1, and λ1 of a balanced energy
TEXT = {"learning_rate": TEXT_RATE, "loss_net_learning_rate": LogUniform(3e-5, 1e-3)}  # pretrained nets
OwnRanges = Mapping[str, Range | None]  # those of a kind of net in place of a method's; None: not searched
FROM_SCRATCH: OwnRanges = {}
PRETRAINED: OwnRanges = {**TEXT, "dropout": None}  # small rates, and the net's own dropout
FROZEN: OwnRanges = {"dropout": None}  # fresh heads on a pretrained encoder
LOSS_NET_RATE = LogUniform(2e-4, 5e-3)
NET: dict[str, Range] = {"learning_rate": RATE, "dropout": DROPOUT_RANGE}
# rates, sizes and λ1: a data set's recipe may set them for all methods
COMMON = {"num_samples", "global_size", "dropout", "energy_weight", "inference_learning_rate", *TEXT}


def space_of(method: Method, own: OwnRanges) -> dict[str, Range]:
    """The search space of a method for a kind of net."""
    found = {key: own.get(key, values) for key, values in method.space.items()}
    return {key: values for key, values in found.items() if values is not None}


def first_of(method: Method, own: OwnRanges) -> dict[str, Any]:
    """The values that a method is tried with first, except those that the recipe of a kind of net gives."""
    return {key: value for key, value in method.first.items() if key not in own}


def hold(keys: Collection[str], methods: Methods) -> dict[str, Method]:
    """The methods without a search of these keys, which then keep a method's first values.

    Raises:
        ValueError: a key that no method searches.
    """
    searched = {key for method in methods.values() for key in method.space}
    for key in keys:
        if key not in searched:
            raise ValueError(
                f"`hold` has {key!r}, which no method searches; they search {', '.join(sorted(searched))}."
            )
    free = {
        name: {key: method.space[key] for key in method.space if key not in keys} for name, method in methods.items()
    }
    return {name: replace(method, space=free[name]) for name, method in methods.items()}


def own_keys(methods: Methods) -> set[str]:
    """The recipe keys that define methods: all that methods name, except sizes, rates and λ1. A data set's recipe
    cannot set them for all methods."""
    return {key for method in methods.values() for key in (*method.settings, *method.space, *method.first)} - COMMON


def with_requirements(names: list[str], methods: Methods) -> list[str]:
    """The named methods and those whose nets they take, which come before them.

    Raises:
        ValueError: an unknown name.
    """
    unknown = [name for name in names if name not in methods]
    if unknown:
        raise ValueError(f"unknown method {unknown[0]!r}; it must be one of {', '.join(methods)}, or all.")
    ordered: list[str] = []

    def add(name: str) -> None:
        for needed in methods[name].takes.values():
            add(needed)
        if name not in ordered:
            ordered.append(name)

    for name in names:
        add(name)
    return ordered


@dataclass(frozen=True)
class Figures:
    """The figures of a table.

    Attributes:
        columns: key of a figure in a run, without `eval_` or `test_` -> the head of its column. All are shown in
            percent. A table leaves out columns that a run lacks.
        tested: those whose differences are tested, beside the metric -> their names in words.
        legend: how to read the columns.
        notes: key of a column -> a sentence in the legend of a table that has it.
    """

    columns: Mapping[str, str]
    tested: Mapping[str, str]
    legend: str
    notes: Mapping[str, str] = field(default_factory=dict)

    def tested_with(self, metric: str) -> list[str]:
        """The figures whose differences are tested: the metric, if it has a column, and `tested`."""
        return [key for key in dict.fromkeys((metric, *self.tested)) if key in self.columns]


class Scored(NamedTuple):
    """The figures of a run.

    Attributes:
        metrics: `eval_{figure}` and `test_{figure}`, and others.
        rows: figure -> its test rows, at least for those that are tested.
    """

    metrics: dict[str, float]
    rows: Mapping[str, Rows]


@dataclass(frozen=True)
class Kind(ABC):
    """A kind of output.

    Attributes:
        word: its name on the command line, `seal-hf compare WORD`.
        programs: what a method trains -> the program that does so; flags are those of `TASK_NET`'s.
        methods: name -> method.
        usual: the methods that are compared by default.
        figures: of its tables.
        known_metrics: all that `metrics` may return.
        identity: settings by which the results of this kind are told apart.
        without_net: what a method "trains" -> (arguments, data) -> a function that gives the outputs of a split, as
            `scored` reads them, without a net.
        contents: settings -> what stands in the files that they name, for the record of a folder's results.
    """

    word: str
    programs: Mapping[str, Program]
    methods: Methods
    usual: Sequence[str]
    figures: Figures
    known_metrics: Sequence[str]
    identity: Mapping[str, str] = field(default_factory=dict)
    without_net: Mapping[str, Callable[[Any, Any], Callable[[Any], Any]]] = field(default_factory=dict)
    contents: Callable[[Mapping[str, Any]], Mapping[str, str]] = lambda settings: {}

    @property
    def program(self) -> Program:
        """The program whose flags a comparison takes."""
        return self.programs[TASK_NET]

    def recipe(self, given: Mapping[str, Any]) -> str:
        """The packaged recipe of runs whose settings name none. A method's own settings override its values."""
        names = self.program.recipes[self.net(given)]
        assert names is not None, "each of these nets has a recipe"
        return names.split()[0]

    def net(self, settings: Mapping[str, Any]) -> str:
        """The kind of data or net that these settings name, a key of the recipes of `program`."""
        return self.program.kind_of(Namespace(**{"model_name_or_path": None, **settings}))

    def of(self, data: Any) -> Kind:
        """The kind for these data."""
        return self

    @abstractmethod
    def pretrained(self, data: Any, settings: Mapping[str, Any]) -> bool:
        """True if the task-net is pretrained, and so needs small rates."""

    def own_ranges(self, data: Any, settings: Mapping[str, Any]) -> OwnRanges:
        """The searched ranges that the task-net has in place of a method's."""
        return PRETRAINED if self.pretrained(data, settings) else FROM_SCRATCH

    @abstractmethod
    def metrics(self, data: Any) -> Sequence[str]:
        """The validation figures that may choose trials and epochs, the default first."""

    @abstractmethod
    def score(self, trainer: StructuredTrainer, splits: Mapping[str, Any], data: Any) -> Scored:
        """The figures of a trained net.

        Args:
            splits: the data sets as the program prepared them, among them `eval` and `test`.
        """

    @abstractmethod
    def constant(self, data: Any) -> Callable[[Any], Any]:
        """A function that gives one output for every row of a split, what is frequent in training, as `scored` reads
        them."""

    def linear(self, trainer: StructuredTrainer, splits: Mapping[str, Any], data: Any) -> Scored:
        """The figures of a method of `LINEAR`, which fits logistic regressions to the features of the untrained net."""
        raise AssertionError("a kind with such a method overrides this")

    def caches(self, settings: Mapping[str, Any], folder: Path) -> dict[str, str]:
        """Further settings that let runs with these settings share, in `folder`, what is the same for all of them."""
        return {}

    @abstractmethod
    def scored(self, data: Any, decided: Mapping[str, Any]) -> Scored:
        """The figures of outputs that are given.

        Args:
            decided: `eval` and `test` -> N label sets (N, L) or their probabilities, tag sequences by names, or masks.
        """

    def check_method(self, name: str, method: Method, settings: Mapping[str, Any]) -> None:  # noqa: B027
        """Raise ValueError if a method cannot run under these common settings."""

    def is_labelled(self, split: Any) -> bool:
        """True if a split has gold outputs to compare methods on."""
        return split is not None

    def has(self, data: Any) -> set[str]:
        """The needs of methods that these data meet, see `Method.needs`."""
        return set()

    def unsaid(self, data: Any) -> dict[str, str]:
        """Settings that a recipe need not name, for the record of a folder's results."""
        return {}

    def methods_for(self, data: Any) -> Methods:
        """The methods that suit these data."""
        there = {"", *self.has(data)}
        return {name: method for name, method in self.methods.items() if method.needs in there}


KINDS: Registry[Kind] = Registry(lambda task: {} if task.compared_word else {kind.word: kind for kind in task.compared})
