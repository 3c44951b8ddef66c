"""Options of losses and methods, in one mechanism.

The options of a loss are the fields of its dataclass; a run takes them from the arguments of the same names. [`option`]
says which values a field may have, and which value of another option makes it idle. The checks of arguments, the
refusal of flags that nothing reads (`cli/flags.py`) and the settings on the model card follow from that.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar

import numpy as np


def default_of(field: Field) -> Any:
    """The default of a dataclass's field."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def option(
    default: Any,
    *,
    choices: Iterable[str] | None = None,
    least: float | None = None,
    below: float | None = None,
    idle: tuple[str, Any] | None = None,
) -> Any:
    """A field of a dataclass of options.

    Args:
        choices: the allowed values.
        least, below: the range of a number, [least, below).
        idle: (other option, value) that makes this option idle: it is not read while the other has this value.
    """
    limits = {"choices": choices, "least": least, "below": below}
    return field(default=default, metadata={"limits": limits, "idle": idle})


@dataclass
class Options:
    """Base of dataclasses whose fields are options.

    Attributes:
        also_reads: further arguments that a run reads if the class is used, such as an extension's.
    """

    also_reads: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for values that are not allowed."""
        self.check_values(self)

    @classmethod
    def check_values(cls, source: Any) -> None:
        """Raise ValueError if `source`, such as arguments, has a value that one of these options does not allow."""
        for each in _fields(cls):
            if "limits" in each.metadata and hasattr(source, each.name):
                whole = each.type in (int, "int")
                check_value(each.name, getattr(source, each.name), **each.metadata["limits"], whole=whole)

    @classmethod
    def values_from(cls, args: Any) -> dict[str, Any]:
        """The given values of the fields that are also arguments.

        Raises:
            TypeError: a class declares a field but is not a dataclass.
        """
        return {each.name: getattr(args, each.name) for each in _fields(cls) if hasattr(args, each.name)}

    @classmethod
    def idle(cls, args: Any) -> dict[str, str]:
        """Idle option -> the other option whose value makes it idle, under these arguments."""
        found = {each.name: each.metadata["idle"] for each in _fields(cls) if each.metadata.get("idle")}
        values = {each.name: getattr(args, each.name, each.default) for each in _fields(cls)}
        return {name: other for name, (other, value) in found.items() if other in values and values[other] == value}

    @classmethod
    def read(cls, args: Any) -> set[str]:
        """The names of the arguments that are read, given their values."""
        names = {each.name for each in _fields(cls)} | set(cls.also_reads)
        return {name for name in names - cls.idle(args).keys() if hasattr(args, name)}


def _fields(cls: type[Options]) -> tuple[Field, ...]:
    """The fields of a class.

    Raises:
        TypeError: a class declares or changes a field but is not a dataclass, so that its value would be ignored.
    """
    names = {each.name for each in fields(cls)}
    for base in cls.__mro__[: cls.__mro__.index(Options)]:
        if "__dataclass_fields__" in vars(base):
            continue
        declared = {name for name, kind in inspect.get_annotations(base).items() if "ClassVar" not in str(kind)}
        for name in sorted(declared | (vars(base).keys() & names)):
            raise TypeError(
                f"{base.__name__} declares {name!r}, which is not yet an option of {base.__name__}: make the class a "
                "dataclass (`@dataclass`), and give each option a type."
            )
    return fields(cls)


def check_value(
    name: str,
    value: Any,
    choices: Iterable[str] | None = None,
    least: float | None = None,
    below: float | None = None,
    whole: bool = False,
) -> None:
    """Raise ValueError if an option or argument has a value that is not allowed. None passes as a number that is not
    set."""
    if choices is not None and value not in choices:
        raise ValueError(f"`{name}` is {value!r}; it must be one of {', '.join(choices)}.")
    if least is None and below is None or not isinstance(value, (int, float, np.number)):
        return
    if not math.isfinite(value) or (least is not None and value < least) or (below is not None and value >= below):
        limits = [f"at least {least:g}"] if least is not None else []
        limits += [f"below {below:g}"] if below is not None else []
        raise ValueError(f"`{name}` is {value}; it must be a finite number, {' and '.join(limits)}.")
    if whole and value != int(value):
        raise ValueError(f"`{name}` is {value}; it must be a whole number.")
