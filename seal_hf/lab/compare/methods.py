"""What a method of a comparison is, for any kind of output."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...cli.tuning.ranges import DROPOUT_RANGE, RATE, TEXT_RATE, LogUniform, Range

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


def of_recipe(settings: Mapping[str, Any]) -> Method:
    """An unchanged recipe as a method; without a loss-net it is a baseline."""
    loss = settings.get("energy_loss", settings.get("loss", "nce"))
    return Method(BASELINE if loss == "ce" else SEAL, f"({loss})", settings)


def space_of(method: Method, own: OwnRanges) -> dict[str, Range]:
    """The search space of a method for a kind of net."""
    found = {key: own.get(key, values) for key, values in method.space.items()}
    return {key: values for key, values in found.items() if values is not None}


def first_of(method: Method, own: OwnRanges) -> dict[str, Any]:
    """The first values of a method; where a kind of net has its own range, it has its recipe's value."""
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
