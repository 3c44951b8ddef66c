"""Options: what a loss, or a method, can be told, in one mechanism.

The fields of its dataclass are its options: a run takes them from the arguments of the same names. [`option`] says
which values a field takes, and by which value of another option it is idle. From that follow the checks of the
arguments, the refusal of flags that nothing reads (`cli/flags.py`), and the settings on the model card.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar


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
        choices: the values it may have; or, of a number,
        least, below: its range, [least, below).
        idle: (other option, value): where the other has this value, this one is not read.
    """
    limits = {"choices": choices, "least": least, "below": below}
    return field(default=default, metadata={"limits": limits, "idle": idle})


@dataclass
class Options:
    """Base of dataclasses whose fields are options.

    Attributes:
        also_reads: further arguments that a run reads for its sake, such as an extension's.
    """

    also_reads: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for values that cannot be."""
        self.check_values(self)

    @classmethod
    def check_values(cls, source: Any) -> None:
        """Raise ValueError where `source`, such as arguments, has a value that one of these options cannot have."""
        for each in _fields(cls):
            if "limits" in each.metadata and hasattr(source, each.name):
                check_value(each.name, getattr(source, each.name), **each.metadata["limits"])

    @classmethod
    def values_from(cls, args: Any) -> dict[str, Any]:
        """The fields that are arguments too, as they are given.

        Raises:
            TypeError: a class that declares a field and is no dataclass.
        """
        return {each.name: getattr(args, each.name) for each in _fields(cls) if hasattr(args, each.name)}

    @classmethod
    def idle(cls, args: Any) -> dict[str, str]:
        """Option that these arguments leave unread -> the option whose value is the reason."""
        found = {each.name: each.metadata["idle"] for each in _fields(cls) if each.metadata.get("idle")}
        values = {each.name: getattr(args, each.name, each.default) for each in _fields(cls)}
        return {name: other for name, (other, value) in found.items() if other in values and values[other] == value}

    @classmethod
    def read(cls, args: Any) -> set[str]:
        """The arguments that are read, with the values that they have."""
        names = {each.name for each in _fields(cls)} | set(cls.also_reads)
        return {name for name in names - cls.idle(args).keys() if hasattr(args, name)}


def _fields(cls: type[Options]) -> tuple[Field, ...]:
    """The fields of a class.

    Raises:
        TypeError: a class that declares or changes a field and is not a dataclass: its value would be ignored.
    """
    names = {each.name for each in fields(cls)}
    for base in cls.__mro__[: cls.__mro__.index(Options)]:
        if "__dataclass_fields__" in vars(base):
            continue
        declared = {name for name, kind in inspect.get_annotations(base).items() if "ClassVar" not in str(kind)}
        for name in sorted(declared | (vars(base).keys() & names)):
            raise TypeError(
                f"{base.__name__} declares {name!r}, which is no field of {base.__name__}: make the class a dataclass "
                "(`@dataclass`), with a type for each of its options."
            )
    return fields(cls)


def check_value(
    name: str,
    value: Any,
    choices: Iterable[str] | None = None,
    least: float | None = None,
    below: float | None = None,
) -> None:
    """Raise ValueError where an option or argument has another value than these; None is not set, and passes."""
    if choices is not None and value not in choices:
        raise ValueError(f"`{name}` is {value!r}; it must be one of {', '.join(choices)}.")
    if least is None and below is None or not isinstance(value, (int, float)):
        return
    if not math.isfinite(value) or (least is not None and value < least) or (below is not None and value >= below):
        limits = [f"at least {least:g}"] if least is not None else []
        limits += [f"below {below:g}"] if below is not None else []
        raise ValueError(f"`{name}` is {value}; it must be a finite number, {' and '.join(limits)}.")
