"""Helpers for messages to users: suggest a known name, refuse options that belong to something else."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # but tabs and line breaks


def printable(text: object) -> str:
    """A text for a terminal. Control characters, by which names in data could change what is shown, are written as
    `\\x1b`."""
    return CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", str(text))


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to `name`; None if no name is close."""
    return next(iter(difflib.get_close_matches(name, list(known), 1, 0.6)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or an empty string if no known name is close."""
    close = closest(name, known)
    return f" Did you mean {close!r}?" if close else ""


def check_unread(kwargs: Mapping[str, Any], net: str) -> None:
    """Raise ValueError for an option that only `from_pretrained` reads when a fresh net is built."""
    given = [name for name, value in kwargs.items() if value is not None]
    if given:
        raise ValueError(
            f"`{given[0]}` is {kwargs[given[0]]!r}, but without `model_name_or_path` the task-net is {net}, which has "
            "no such option. Leave it out, check its spelling, or name a pretrained model."
        )


def check_owner(options: Mapping[str, Any], owner: str, found: str) -> None:
    """Raise ValueError for an option of one kind of net or data when another kind is used.

    Args:
        options: name -> value; None, False and empty values count as not set.
        owner: what the options belong to, such as "a BiLSTM".
        found: a clause that says what is used instead, such as "the task-net is a BiLSTM".
    """
    given = [name for name, value in options.items() if value not in (None, False, "", [])]
    if given:
        raise ValueError(f"`{given[0]}` is for {owner}, but {found}. Leave it out.")


def few(words: Sequence[str], shown: int = 8) -> str:
    """The first `shown` words, printable and joined by commas; ends with `...` if there are more."""
    return printable(", ".join(words[:shown]) + (", ..." if len(words) > shown else ""))


def brief(value: object, most: int = 80) -> str:
    """The `repr` of a value; ends with `...` after `most` characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."
