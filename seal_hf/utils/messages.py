"""Helpers for messages to users: suggest a known name, refuse options that belong to something else, show tables."""

from __future__ import annotations

import difflib
import math
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

from .recorded import HIDDEN, Changed, hidden, names_a_secret, remember_words

# characters that steer a terminal, turn the direction of a text, break its lines, or hide in it
CONTROLS = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
# what hides only behind other characters: joiners, which scripts from Hebrew on and emoji need, and selectors of the
# variant of an ideograph
JOINED = (
    r"\u0590-\u115e\u1161-\u1dff\u20d0-\u20ff\u2190-\u3163\u3165-\ud7ff\ufb1d-\ufefc"
    r"\U00010000-\U0001d172\U0001d17b-\U000dffff"
)
HIDING = rf"(?<![{JOINED}])[\u200c\u200d]|(?<![\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]"
FLAG = r"\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f"  # an emoji, such as that of Wales
OF_SECRETS = (
    "--hub_token",
    "--push_to_hub_token",
    "--token",
    "--api_key",
    "--password",
)  # also where they are no flags
# Options of earlier versions, and what to do in their place. Recipes and flags that name them are refused with this;
# records of runs and comparisons that name them are read as before.
RETIRED = {
    "label_correlation_weight": "The task loss label_correlation had no clear gain. Give --task_loss soft_f1",
    "language_model_weight": "In Python, energy_options={'language_model_weight': 0.5} of `for_data` sets it",
    "max_labels": "The Hessian is that of the 200 most frequent labels",
    "picture": "The page report.html shows images and masks",
    "tag_score": "Tags are scored by their accuracy",
    "train_subset": "Give a smaller file, or draw the rows in Python, by load_tags(..., train_subset='random')",
    "train_word_embeddings": "In Python, for_data(..., train_word_embeddings=False) keeps word vectors as they are",
}
UNPRINTABLE = re.compile(f"(?P<kept>{FLAG})|[{CONTROLS}]|{HIDING}")


def printable(text: object) -> str:
    """A text for a terminal, a card or a page: without secrets (see [`hidden`]), and without characters by which texts
    in data could change what is shown. Control characters are written as `\\x1b`, and those that turn the direction of
    a text or are invisible as `\\u202e`. Tabs and line breaks stay."""
    return UNPRINTABLE.sub(_written, hidden(str(text)))


def for_eyes(stream: Any) -> Any:
    """A stream for data. To a terminal it writes [`printable`] texts, to a file or pipe what it is given."""
    return Changed(stream, printable) if stream.isatty() else stream


def guard_errors() -> None:
    """Hide secrets, and characters that turn a text or are invisible, in what libraries write to this program's
    standard error, such as logs, warnings and tracebacks. Their colours and bars stay."""
    remember_words(sys.argv[1:])
    if sys.stderr is not None and not isinstance(sys.stderr, Changed):
        sys.stderr = Changed(sys.stderr, _of_libraries)


def _of_libraries(text: str) -> str:
    return UNPRINTABLE.sub(lambda found: found[0] if found[0] < " " else _written(found), hidden(text))


def _written(found: re.Match[str]) -> str:
    code = ord(found[0][0])
    if found["kept"]:
        return found[0]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: object, most: int = 1000) -> str:
    """A text as one printable line. If it is longer than `most` characters, its middle is left out."""
    line = printable(re.sub(r"\s*\n\s*", " ", str(text)).strip())
    return line if len(line) <= most else f"{line[: most // 2]} ... {line[-most // 2 :]}"


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to `name`; None if no name is close."""
    return next(iter(difflib.get_close_matches(name, list(known), 1, 0.6)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or an empty string if no known name is close."""
    close = closest(name, known)
    return f" Did you mean {close!r}?" if close else ""


READERS = ("--dataset", "--input")  # flags of the file that a command reads, which may be forgotten


def unknown_flag(word: str, known: Collection[str]) -> str:
    """The message for a word on the command line that is not the name of a flag: perhaps the name of a file without the
    flag before it.

    It never shows the word's value, since that may be a token whose flag was mistyped.
    """
    flag, equals, _ = word.partition("=")
    if (name := flag.lstrip("-").replace("-", "_")) in RETIRED:
        return f"{flag} is an option of earlier versions. {RETIRED[name]}."
    near = closest(flag, known)
    if not word.startswith("-"):  # a file's name has an ending
        takers = [] if equals or "." not in word else ["--recipe"] if word.endswith((".yaml", ".yml")) else READERS
        near = next((f"{taker} {word}" for taker in takers if taker in known), None)
    names = [name.replace("-", "_") for name in (*known, *OF_SECRETS)]
    meant = difflib.get_close_matches(flag.replace("-", "_"), names)
    shown = f"{flag}={HIDDEN}" if equals and any(map(names_a_secret, [flag, *meant])) else word
    return f"unknown command-line argument {shown!r}." + (f" Did you mean {near!r}?" if near else "")


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


def brief(value: object) -> str:
    """The `repr` of a value without secrets; ends with `...` after 80 characters."""
    text = hidden(repr(value))
    return text if len(text) <= 80 else f"{text[:80]}..."


def in_words(value: object) -> str:
    """What a user gave in the wrong place: a text or number as [`brief`] writes it, anything else by its name."""
    if isinstance(value, type | FunctionType):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__name__}"
    return brief(value) if isinstance(value, str | int | float) else f"an object of {type(value).__name__}"


PRINTED_LABELS = 40  # most labels of which a table is printed


def results_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """An aligned plain-text table for the terminal: a column per key, in order of first appearance. Numbers are aligned
    right, floats have 4 decimals, missing values and NaN are `-`, control characters are written as `\\x1b`. Without
    rows, the string is empty."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    heads = [*map(_cell, columns)]
    widths = [max(len(line[i]) for line in [heads, *cells]) for i in range(len(heads))]
    right = [all(isinstance(row.get(column), (int, float, type(None))) for row in rows) for column in columns]

    def line(texts: Sequence[str]) -> str:
        aligned = (t.rjust(w) if r else t.ljust(w) for t, w, r in zip(texts, widths, right, strict=True))
        return "  ".join(aligned).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(heads), rule, *map(line, cells)]) if columns else ""


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else printable(value).replace("\n", "\\n")
