"""What messages to users have in common: the known name that is most like an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`, if one is close."""
    return next(iter(difflib.get_close_matches(name, list(known), 1, 0.6)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or nothing where no known name is close."""
    close = closest(name, known)
    return f" Did you mean {close!r}?" if close else ""
