"""All that a comparison knows of a kind of output: the search, the runs, the tests and the tables ask these objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ...cli.train.program import Program
from .methods import FROM_SCRATCH, PRETRAINED, TASK_NET, Method, Methods, OwnRanges
from .rows import Rows


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
        """The one whose flags a comparison takes."""
        return self.programs[TASK_NET]

    def recipe(self, given: Mapping[str, Any]) -> str:
        """The name of the packaged recipe for these settings, if none is named."""
        name = self.program.recipes[self.net(given)]
        assert name is not None, "each of these nets has a recipe"
        return name

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
    def score(self, trainer: Any, splits: Mapping[str, Any], data: Any) -> Scored:
        """The figures of a trained net.

        Args:
            splits: as its program has prepared them, with `eval` and `test`.
        """

    @abstractmethod
    def constant(self, data: Any) -> Scored:
        """The figures of one prediction for every row, from what is frequent in training."""

    def linear(self, trainer: Any, data: Any) -> Scored:
        """The figures of a method of `LINEAR`: of logistic regressions on what the untrained net gives."""
        raise AssertionError("a kind with such a method overrides this")

    def caches(self, settings: Mapping[str, Any], folder: Path) -> dict[str, str]:
        """Further settings, by which runs with these settings share in `folder` what is the same for all of them."""
        return {}

    @abstractmethod
    def scored(self, data: Any, decided: Mapping[str, Any]) -> Scored:
        """The figures of outputs that are given.

        Args:
            decided: `eval` and `test` -> N label sets (N, L) or their probabilities, tag sequences by names, or masks.
        """

    def check_method(self, name: str, method: Method, settings: Mapping[str, Any]) -> None:  # noqa: B027
        """Raise ValueError if a method cannot run under these common settings."""

    def why_not(self, name: str, data: Any) -> str:
        """Why a method of this kind is not among those for these data; empty if it is none of this kind."""
        return ""

    def is_labelled(self, split: Any) -> bool:
        """True if a split has gold outputs to compare methods on."""
        return split is not None

    def has(self, data: Any) -> set[str]:
        """What these data have of what methods may need, see `Method.needs`."""
        return set()

    def unsaid(self, data: Any) -> dict[str, str]:
        """Settings that a recipe need not name, for the record of a folder's results."""
        return {}

    def methods_for(self, data: Any) -> Methods:
        """The methods that suit these data."""
        there = {"", *self.has(data)}
        return {name: method for name, method in self.methods.items() if method.needs in there}
