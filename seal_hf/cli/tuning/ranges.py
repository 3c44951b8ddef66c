"""The space of a search: ranges of numbers, values, groups of settings; and ranges that suit our nets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Interval(ABC):
    """Numbers from `low` to `high`."""

    low: float
    high: float

    @abstractmethod
    def suggest(self, trial: Any, name: str) -> float:
        """The value that a trial gives it."""

    @abstractmethod
    def at(self, share: float) -> float:
        """The value below which this share of the range lies; `share` is in [0, 1)."""

    def including(self, name: str, value: Any) -> Interval:
        """The range, widened to include `value`."""
        return replace(self, low=min(self.low, float(value)), high=max(self.high, float(value)))

    def settings(self, name: str, value: Any) -> Settings:
        """The settings of a trial with this value."""
        return {name: value}


@dataclass(frozen=True)
class LogUniform(Interval):
    """A positive number whose logarithm is uniform."""

    def suggest(self, trial: Any, name: str) -> float:
        return trial.suggest_float(name, self.low, self.high, log=True)

    def at(self, share: float) -> float:
        return self.low * (self.high / self.low) ** share

    def including(self, name: str, value: Any) -> Interval:
        """As of the base. Raises ValueError for a `value` <= 0, which has no logarithm."""
        if value <= 0:
            raise ValueError(f"`{name}` is {value}, but the search draws its logarithm: give a number above 0.")
        return super().including(name, value)


@dataclass(frozen=True)
class Uniform(Interval):
    """A uniform number."""

    def suggest(self, trial: Any, name: str) -> float:
        return trial.suggest_float(name, self.low, self.high)

    def at(self, share: float) -> float:
        return self.low + (self.high - self.low) * share


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: tuple

    def suggest(self, trial: Any, name: str) -> Any:
        return trial.suggest_categorical(name, list(self.values))

    def at(self, share: float) -> Any:
        return self.values[int(share * len(self.values))]

    def including(self, name: str, value: Any) -> Choice:
        return self if value in self.values else replace(self, values=(*self.values, value))

    def settings(self, name: str, value: Any) -> Settings:
        return {name: value}


@dataclass(frozen=True)
class Group:
    """One of several groups of settings; a value is the name of a group."""

    groups: Mapping[str, Settings]

    def suggest(self, trial: Any, name: str) -> Any:
        return trial.suggest_categorical(name, list(self.groups))

    def at(self, share: float) -> str:
        return list(self.groups)[int(share * len(self.groups))]

    def including(self, name: str, value: Any) -> Group:
        assert value in self.groups, f"{value!r} names no group"
        return self

    def settings(self, name: str, value: Any) -> Settings:
        return self.groups[value]


SPREAD_SEED = 33  # of those below 40, the first two of three trials are farthest apart

Range = Interval | Choice | Group
Space = Mapping[str, Range]  # key of a setting, or name for groups of settings -> range

RATE, DROPOUT_RANGE = LogUniform(3e-4, 5e-3), Uniform(0.0, 0.8)  # for nets trained from scratch
TEXT_RATE = LogUniform(2e-5, 3e-4)  # for pretrained encoders; with some hundred steps 2e-4 is far ahead of 5e-5
HEAD_RATE = LogUniform(1e-3, 3e-2)  # for a fresh head beside a pretrained encoder
FINE_TUNED = {"learning_rate": TEXT_RATE, "head_learning_rate": HEAD_RATE}
ENERGY_RATES = {"learning_rate": LogUniform(3e-5, 3e-3), "inference_learning_rate": LogUniform(0.007, 0.5)}


def widened(space: Space, given: Sequence[Settings]) -> dict[str, Range]:
    """The space, widened to include the values of every given trial."""
    wide = dict(space)
    for values in given:
        for name, value in values.items():
            wide[name] = wide[name].including(name, value)
    return wide


def spread(space: Space, number: int) -> list[dict[str, Any]]:
    """The values of `number` trials that cover each range evenly (a Latin hypercube; McKay et al. 1979). Few random
    trials often lie close together."""
    from scipy.stats.qmc import LatinHypercube  # takes a second to import

    rows = LatinHypercube(len(space), scramble=False, rng=SPREAD_SEED).random(number).tolist()
    return [{name: space[name].at(share) for name, share in zip(space, row, strict=True)} for row in rows]


def settings_of(space: Space, values: Settings) -> dict[str, Any]:
    """The settings of a trial with these values, by the names of the space."""
    groups = [space[name].settings(name, value) for name, value in values.items()]
    return {key: setting for group in groups for key, setting in group.items()}
