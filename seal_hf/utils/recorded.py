"""What is recorded or shown of settings, commands and texts: all but secrets, such as tokens of the Hub.

A secret is known by the name of its flag, key or environment variable, by its value wherever that occurs again, and by
its form: a token of the Hub, or what a URL holds before `@` or behind `token=`.
"""

from __future__ import annotations

import html
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

HIDDEN = "..."
ENDINGS = ("token", "secret", "password", "passwd", "passphrase", "apikey", "_key")  # of names of secrets
SHORT = 4  # shorter values, and these words, are no secrets: they would be hidden all over a text
WORDS = ("true", "false", "none", "null", "auto")
SHORT_IN_ENVIRONMENT = 8  # its variables are not ours, so that their names tell less
FORMS = re.compile(
    r"(?P<before>://)[^/\s@\"'<>]+(?=@)"
    r"|(?P<query>[?&][\w.\-]*(?:token|key|secret|password|signature|sig)=)[^&\s#\"'<>]+"
    r"|\b(?:hf|api_org)_[A-Za-z0-9]{16,}",
    re.IGNORECASE,
)
_given: set[str] = set()


def names_a_secret(name: str) -> bool:
    """True for the name of a flag, key or environment variable whose value is a secret."""
    return name.lstrip("-").replace("-", "_").lower().endswith(ENDINGS)


def remember(settings: Mapping[str, Any]) -> None:
    """Hide the secrets of these settings, also nested ones, in everything that this process records from now on."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            remember(value)
        elif isinstance(value, str) and names_a_secret(str(name)) and len(value) >= SHORT:
            _given.update(() if value.lower() in WORDS else _spelled(value))


def remember_words(words: Iterable[str]) -> None:
    """Do as [`remember`] for the words of a command line: `--name value`, `--name=value`, and values that are JSON."""
    for name, value in _flags(words):
        remember({name: value})
        if value.startswith("{"):
            try:
                remember(json.loads(value))
            except (ValueError, RecursionError):  # the program says what is wrong with it
                continue


def hidden(text: str) -> str:
    """A text with `...` in place of each secret."""
    return _without(_secrets(), text)


def _secrets() -> list[str]:
    """Those that are known by name, the longest first."""
    return sorted(_given.union(_of_environment()), key=len, reverse=True)


def _without(secrets: Iterable[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return FORMS.sub(lambda found: f"{found['before'] or found['query'] or ''}{HIDDEN}", text)


def recorded(value: Any) -> Any:
    """A value of settings or facts without secrets: texts as [`hidden`] gives them, and mappings without the texts
    under the name of a secret."""
    secrets = _secrets()  # looked for once: a state of a run has thousands of texts

    def each(value: Any) -> Any:
        if isinstance(value, Mapping):
            named = {key for key, text in value.items() if isinstance(text, str) and names_a_secret(str(key))}
            return {key: each(inner) for key, inner in value.items() if key not in named}
        if isinstance(value, (list, tuple)):
            return [each(inner) for inner in value]
        return _without(secrets, value) if isinstance(value, str) else value

    return each(value)


def command_line(words: Sequence[str]) -> str:
    """A command line to record, which can be pasted into a shell. Paths in the working folder are relative to it."""
    remember_words(words)
    return shlex.join(_recorded_words(words))


def _recorded_words(words: Iterable[str]) -> Iterator[str]:
    secret = False
    for word in words:
        flag, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        named = bool(flag) and names_a_secret(flag)
        shown = HIDDEN if secret or (named and equals) else hidden(_from_here(value))
        yield f"{flag}{equals}{shown}"
        secret = named and not equals


def _flags(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The flags of a command line and their values; of several values, each."""
    name = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            if not equals:
                continue
        else:
            value = word
        yield name, value


def _from_here(value: str) -> str:
    path, here = Path(value), Path.cwd()
    inside = path.is_absolute() and path.is_relative_to(here) and here != Path(here.anchor)
    return str(path.relative_to(here)) if inside else value


def _spelled(secret: str) -> set[str]:
    """A secret, and how it is written in URLs, in HTML and in JSON."""
    return {secret, quote(secret, safe=""), html.escape(secret), json.dumps(secret)[1:-1]}


def _of_environment() -> Iterator[str]:
    for name, value in os.environ.items():
        if names_a_secret(name) and len(value) >= SHORT_IN_ENVIRONMENT and not os.path.exists(value):
            yield value


class Changed:
    """A stream that changes each text before it is written.

    Args:
        change: text -> what is written of it.

    Attributes:
        in_a_line: True if what was written last, such as a progress bar, ended no line.
    """

    def __init__(self, stream: Any, change: Callable[[str], str]):
        self._stream, self._change = stream, change
        self.in_a_line = False

    def write(self, text: str) -> int:
        """Write a text; returns its length, as a stream does."""
        self._stream.write(self._change(text))
        self.in_a_line = not text.endswith(("\n", "\r")) if text else self.in_a_line
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
