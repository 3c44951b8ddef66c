"""How a task-net's outputs become decisions: fitted on validation rows, saved with it as `config.decisions`.

A decoder with many numbers always looks good on the rows to which they were fitted. Decoders are therefore compared by
cross-fitting: each fold of the validation rows is decided with numbers fitted on the other folds. Each kind of output
has a usual decoder. Another one is chosen only if it is clearly better, since the best of many is often best by chance.
Its numbers are then fitted on all rows.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..utils.files import json_object, whole_file
from ..utils.messages import did_you_mean

FOLDS = 5
FIXED, THRESHOLD = "fixed", "threshold"
FOLDABLE = (FIXED, THRESHOLD, "thresholds")  # decoders that a classifier's bias can hold
DecisionsT = TypeVar("DecisionsT", bound="Decisions")


def folds(num_rows: int, most: int = FOLDS) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields at most `most` pairs: rows to fit on, and rows to decide. The rows to decide are a random partition of all
    rows. The others are fitted on. A single row is fitted on itself."""
    order = np.random.default_rng(0).permutation(num_rows)
    for decided in np.array_split(order, min(most, num_rows)):
        yield np.setdiff1d(order, decided) if len(decided) < num_rows else decided, decided


def usual_or_better(scores: Mapping[str, np.ndarray], usual: str, errors: float = 1.0) -> str:
    """The usual decoder, unless the best one is better by more than `errors` standard errors; then the best one.

    Args:
        scores: (N,) score of each row under each decoder.
        usual: one of them.
        errors: at least 0. The standard error is that of the mean difference d of the rows' scores if the two decoders
            were equally good, √(Σ d² / N²). So a single row changes nothing.

    Returns:
        the decoder's name.
    """
    best = max(scores, key=lambda name: scores[name].mean())
    gain = scores[best] - scores[usual]
    return best if gain.sum() > errors * math.sqrt(gain @ gain) else usual


def ratio_scores(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Scores of N rows whose mean is the ratio r = Σ part / Σ whole, such as F1 over the spans of all rows: (N,), r +
    (part - r whole) / mean(whole). Their deviation is that of r to first order."""
    ratio = part.sum() / max(whole.sum(), 1)
    return ratio + (part - ratio * whole) / max(whole.mean(), 1e-12)


@dataclass
class Decisions(ABC):
    """The decoder, and the numbers fitted for it.

    Attributes:
        decoder: the default decoder.
        folded: the decoder that a folded export has put into the bias of the saved classifier; else empty.
        output: the name of the output space, in files.
    """

    output: ClassVar[str]

    decoder: str = FIXED
    folded: str = ""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The decoders that have numbers, simplest first."""

    @abstractmethod
    def numbers(self) -> dict[str, Any]:
        """The fitted numbers, as JSON."""

    @classmethod
    @abstractmethod
    def of_saved(cls: type[DecisionsT], saved: Mapping[str, Any]) -> DecisionsT:
        """The decisions that `as_json` gave. Missing values get their defaults.

        Raises:
            ValueError: a value is of the wrong kind, see [`checked`]; configs may come from anyone.
        """

    def as_json(self) -> dict[str, Any]:
        """The value to store in a config."""
        return {"decoder": self.decoder, **self.numbers(), **({"folded": self.folded} if self.folded else {})}

    @classmethod
    def from_config(cls: type[DecisionsT], config: Any) -> DecisionsT:
        """The decisions stored in a task-net's config, or the defaults.

        Raises:
            ValueError: as `of_saved`, and if the decoder lacks its numbers.
        """
        found = cls.of_saved(cls.saved_in(config))
        found.named()
        return found

    @classmethod
    def saved_in(cls, config: Any) -> Mapping[str, Any]:
        """The decisions that a config holds, as `of_saved` reads them."""
        saved = getattr(config, "decisions", None)
        return {} if saved is None else saved

    @classmethod
    def check_name(cls, decoder: str | None) -> None:
        """Raises ValueError for a decoder that no fit can give, whatever the rows. None means the choice by
        cross-fitting."""
        cls().named(decoder)

    @classmethod
    def check_arguments(cls, args: Any, config: Any) -> None:
        """Raises ValueError for arguments of a run by which no decisions can be fitted, before the run.

        Args:
            config: the task-net's.
        """
        cls.check_name(args.decoder)

    @classmethod  # noqa: B027
    def check_has_threshold(cls) -> None:
        """Raises ValueError for outputs that no threshold decides: no bias of a task-net can hold their decisions."""

    def named(self, decoder: str | None = None) -> str:
        """`decoder`, or by default the stored one.

        Raises:
            ValueError: it is not one of `names`.
        """
        name = self.decoder if decoder is None else decoder
        if name not in self.names:
            held = f", and the classifier's bias already applies `{self.folded}`" if self.folded else ""
            raise ValueError(
                f"`decoder` is {name!r}; these decisions have {', '.join(self.names)}{held}."
                f"{did_you_mean(name, self.names)}"
            )
        return name

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the decisions as a JSON file, which `load`, `seal-hf decide` and `seal-hf predict --decoder` read."""
        text = json.dumps(self.as_file(), indent=1, ensure_ascii=False)
        with whole_file(path) as unfinished:
            unfinished.write_text(text + "\n", encoding="utf-8")

    def as_file(self) -> dict[str, Any]:
        """The value to write to a file of its own, without a config beside it."""
        return {"output": self.output, **self.as_json()}

    @classmethod
    def load(cls: type[DecisionsT], path: str | os.PathLike[str]) -> DecisionsT:
        """The decisions of a file that `save` wrote.

        Raises:
            OSError: no such file.
            ValueError: the file is damaged, or has decisions of another kind of output; names the file.
        """
        saved = json_object(Path(path), "Fit the decisions again.")
        if saved.get("output") != cls.output:
            raise ValueError(
                f"{path} has decisions for {saved.get('output')!r}; expected {cls.output!r}, as `save` writes it."
            )
        try:
            found = cls.of_saved(saved)
            found.named()
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        return found

    def store(self, config: Any) -> None:
        """Write the decisions into a task-net's config."""
        config.decisions = self.as_json()


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_probability(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


# name in `config.decisions` -> (check of a value, description of what is expected)
SAVED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "decoder": (lambda value: isinstance(value, str), "the name of a decoder"),
    "folded": (lambda value: isinstance(value, str), "the name of a decoder"),
    "threshold": (_is_probability, "a number from 0 to 1"),
    "thresholds": (
        lambda value: isinstance(value, list) and all(map(_is_probability, value)),
        "a list of numbers from 0 to 1",
    ),
    "calibration": (
        lambda value: isinstance(value, Mapping) and all(_is_number(value.get(name)) for name in ("scale", "shift")),
        'two numbers, {"scale": 1.0, "shift": 0.0}',
    ),
    "never_empty": (lambda value: isinstance(value, bool), "true or false"),
    "empty_score": (_is_probability, "a number from 0 to 1"),
    "seen_power": (lambda value: _is_number(value) and value >= 0, "a number from 0 on"),
    "seen_share": (_is_probability, "a number from 0 to 1"),
    "labels": (
        lambda value: (
            isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)
        ),
        "a list of different names",
    ),
    "refused": (
        lambda value: isinstance(value, list) and all(type(label) is int and label >= 0 for label in value),
        "a list of numbers of labels",
    ),
    "guarantee": (
        lambda value: (
            isinstance(value, Mapping)
            and isinstance(value.get("name"), str)
            and all(_is_probability(value.get(name)) for name in ("value", "confidence"))
        ),
        'a mapping, {"name": "precision", "value": 0.9, "confidence": 0.95}',
    ),
    "costs": (
        lambda value: (
            isinstance(value, list)
            and len(value) == 2
            and all(isinstance(row, list) and all(_is_number(cost) and cost >= 0 for cost in row) for row in value)
            and len(value[0]) == len(value[1])
        ),
        "two lists of numbers from 0 on",
    ),
    "target": (lambda value: isinstance(value, str), "the name of a figure"),
}


def checked(saved: Any, *names: str) -> dict[str, Any]:
    """The named values that `saved` has; null counts as missing.

    Raises:
        ValueError: `saved` is not a mapping, or a value is of the wrong kind.
    """
    if not isinstance(saved, Mapping):
        raise ValueError(
            f"`config.decisions` is {reprlib.repr(saved)}; expected a mapping, as `trainer.fit_decisions` stores it."
        )
    found = {name: saved[name] for name in names if saved.get(name) is not None}
    for name, value in found.items():
        holds, expected = SAVED[name]
        if not holds(value):
            raise ValueError(f"`config.decisions` has {name} {reprlib.repr(value)}; expected {expected}.")
    return found


def as_threshold(decoder: str | float | None) -> float | None:
    """The threshold, if `decoder` is a number such as 0.3; None if it is a name.

    Raises:
        ValueError: the number is not in [0, 1].
    """
    try:
        value = float(decoder)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    except OverflowError:  # a whole number that no float holds
        value = math.inf
    if not 0 <= value <= 1:
        said = decoder if isinstance(decoder, str) else reprlib.repr(decoder)
        raise ValueError(f"`decoder` is {said}; a threshold must be a probability, from 0 to 1.")
    return value
