"""Options of arguments and losses: checks by name, and how a loss gets its fields from the arguments."""

from __future__ import annotations

import math
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
    """The arguments that an energy loss's class reads; a cost that is added to logits, only if its weight is not 0."""
    names = {field.name for field in fields(kind)} if kind.options is None else set(kind.options)
    if "cost_weight" in names and not getattr(args, "cost_weight", 0):
        names.discard("margin_cost")
    return {name for name in names if hasattr(args, name)}
