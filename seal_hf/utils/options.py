"""Options of arguments and losses: checks by name, and how a loss gets its fields from the arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any


class Checked:
    """Checks of a field by its name, for dataclasses."""

    def _check_choice(self, name: str, choices) -> None:
        value = getattr(self, name)
        if value not in choices:
            raise ValueError(f"`{name}` is {value!r}; it must be one of {', '.join(choices)}.")

    def _check_range(self, name: str, least: float) -> None:
        value = getattr(self, name)
        if value is not None and not (math.isfinite(value) and value >= least):
            raise ValueError(f"`{name}` is {value}; it must be a finite number, at least {least}.")


def fields_from(kind: type, args) -> dict[str, Any]:
    """The fields of a loss's class that are arguments too, as they are given.

    Raises:
        TypeError: `options` of the class names what is no field of it.
    """
    names = {field.name for field in fields(kind)}
    for name in sorted(set(kind.options or ()) - names):
        raise TypeError(
            f"{kind.__name__}.options names {name!r}, which is no field of {kind.__name__}: declare it with its type "
            "and default, and make the class a dataclass (`@dataclass`)."
        )
    return {name: getattr(args, name) for name in names if hasattr(args, name)}


def options_read(kind: type, args) -> set[str]:
    """The arguments that an energy loss's class reads, with the values that they have."""
    return {name for name in _options(kind) - options_idle(kind, args).keys() if hasattr(args, name)}


def options_idle(kind: type, args) -> dict[str, str]:
    """Those of its options that an energy loss's class does not read, each with the one by whose value it is so."""
    values = {field.name: getattr(args, field.name, field.default) for field in fields(kind)}
    idle = {name: by for name, by in kind.idle.items() if {name, by[0]} <= _options(kind)}
    return {name: other for name, (other, value) in idle.items() if values[other] == value}


def _options(kind: type) -> set[str]:
    return {field.name for field in fields(kind)} if kind.options is None else set(kind.options)


def check_unread(kwargs: Mapping[str, Any], net: str) -> None:
    """Raises ValueError for what only `from_pretrained` reads, where a fresh net is built without it."""
    given = [name for name, value in kwargs.items() if value is not None]
    if given:
        raise ValueError(
            f"`{given[0]}` is {kwargs[given[0]]!r}, but without `model_name_or_path` the task-net is {net}, which has "
            "no such option. Leave it out, check its spelling, or name a pretrained model."
        )


def check_owner(options: Mapping[str, Any], owner: str, found: str) -> None:
    """Raises ValueError for an option of one kind of net, or data, where another is there.

    Args:
        options: their values; None, False and what is empty are not set.
        owner: whose options they are, such as "a BiLSTM".
        found: a clause that says what is there, such as "the task-net is a BiLSTM".
    """
    given = [name for name, value in options.items() if value not in (None, False, "", [])]
    if given:
        raise ValueError(f"`{given[0]}` is of {owner}, but {found}. Leave it out.")
