"""Options of losses and methods, in one mechanism.

The options of a loss are the fields of its dataclass; a run takes them from the arguments of the same names. [`option`]
says which values a field may have, and which value of another option makes it idle. The checks of arguments, the
refusal of flags that nothing reads (`cli/train/flags.py`) and the settings on the model card follow from that.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from numbers import Real
from operator import ge, gt, le, lt
from pathlib import PurePath
from typing import Any, ClassVar

from .messages import brief, in_words


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
        choices, least, below: the allowed values, as [`check_value`].
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
        """Each option that has no effect under these arguments -> the option whose value takes its effect away."""
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
    above: float | None = None,
    below: float | None = None,
    most: float | None = None,
    whole: bool = False,
) -> None:
    """Raise ValueError if an option or argument has a value that is not allowed. None passes as a number that is not
    set.

    Args:
        choices: the allowed values.
        least, above, below, most: the range of a number: `least` and `most` belong to it, `above` and `below` do not.
            A number must be finite without a range too.
        whole: True if a number must be whole.
    """
    if choices is not None and value not in choices:
        raise ValueError(f"`{name}` is {brief(value)}; it must be one of {', '.join(choices)}.")
    if isinstance(value, bool) or not isinstance(value, Real):
        return
    limits = {"at least": least, "above": above, "below": below, "at most": most}
    holds = {"at least": ge, "above": gt, "below": lt, "at most": le}
    stated = {words: limit for words, limit in limits.items() if limit is not None}
    finite = isinstance(value, int) or math.isfinite(value)  # a large int is no float
    if not finite or not all(holds[words](value, limit) for words, limit in stated.items()):
        range_ = " and ".join(f"{words} {_shown(limit)}" for words, limit in stated.items())
        raise ValueError(f"`{name}` is {brief(value)}; it must be a finite number{', ' * bool(range_)}{range_}.")
    if whole and value % 1:
        raise ValueError(f"`{name}` is {value}; it must be a whole number.")


def check_class(name: str, value: Any, base: type, example: type, hint: str = "") -> None:
    """Raise TypeError unless `value` is a subclass of `base`.

    Args:
        name: what the message calls it.
        example: a class that belongs there.
        hint: a sentence with what else to do.
    """
    if not (isinstance(value, type) and issubclass(value, base)):
        raise TypeError(f"{name} is {in_words(value)}; expected a class like {example.__name__}.{hint and f' {hint}'}")


def _shown(limit: float) -> str:
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


FOLDERS = ("output_dir", "data_dir", "loss_net_feature_cache")  # arguments that name a folder
READ_AS_THEY_ARE = ("model", "input", "output", "folder", "rules")  # names of files and folders that nothing records
MOST = 2**31 - 1  # of whole numbers without another limit; no run counts that far, and C reads larger ones wrongly


def check_arguments(source: Any, limits: Mapping[str, Mapping[str, Any]]) -> None:
    """Check a dataclass of arguments as [`check_given`] checks a mapping."""
    usual = {each.name: default_of(each) for each in fields(source)}
    check_given({name: getattr(source, name, None) for name in usual}, usual, limits)


def check_given(given: Mapping[str, Any], usual: Mapping[str, Any], limits: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise ValueError for a value that no argument may have, or that is outside its own limits.

    A text is not empty, unless that is its default. It has no NUL, and is UTF-8 if runs record it. A number is finite.
    A whole number lies within ±(2³¹ - 1), unless its limits say otherwise. A folder is no file.

    Args:
        given: argument -> its value, or a list of values.
        usual: argument -> its default.
        limits: names of arguments, separated by spaces -> their limits, as arguments of [`check_value`].
    """
    by_name = {name: own for names, own in limits.items() for name in names.split()}
    for name, values in given.items():
        own = by_name.get(name, {})
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, str | PurePath):
                _check_text(name, str(value), usual.get(name))
            check_value(name, value, **own)
            if isinstance(value, int) and "most" not in own:
                check_value(name, value, least=-MOST, most=MOST)


def _check_text(name: str, text: str, default: Any) -> None:
    if "\0" in text:
        raise ValueError(f"`{name}` holds the character NUL, which no name or path has. Leave the character out.")
    if name not in READ_AS_THEY_ARE and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError(f"`{name}` is {brief(text)}, which is no UTF-8, so it cannot be recorded. Rename it.")
    if not text.strip() and text != default:
        raise ValueError(f"`{name}` is empty. Give a value, or leave it out; is a variable unset?")
    if name in FOLDERS and os.path.isfile(text):
        raise ValueError(f"`{name}` is {brief(text)}, which is a file. Give a folder: --{name} FOLDER.")
