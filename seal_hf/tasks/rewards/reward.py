"""Rewards: how well outputs suit their inputs, without gold, by the rules of a file or by a Python function of the
user.

A reward maps candidates y (B, S, ...) to (B, S) in [0, 1], 1 is best. It is the score s(y) of rows without gold (the
indirect supervision of Rooshenas et al. 2019, in Shankar & Piratla's citation fields). What it must know about the
inputs is computed once, as whole numbers, their codes. The spaces of `space.py` train with it.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, SupportsFloat

import numpy as np
import torch
from torch import Tensor

from ...utils.messages import did_you_mean
from .rules import Kinds, Rule, parse_rules


class Conflict(NamedTuple):
    """Rules that no output follows together.

    Attributes:
        rules: their places in `ordered`.
        rows: the number of rows with which they meet; None: they contradict each other for every row.
        why: in words.
    """

    rules: tuple[int, ...]
    rows: int | None
    why: str


class Reward(ABC):
    """How well outputs suit inputs, without gold.

    Attributes:
        label_names: the C tags, the L labels or the classes of pixels.
    """

    label_names: list[str]

    @abstractmethod
    def codes(self, inputs: Sequence[Any]) -> list[Any]:
        """What the reward must know about each input, as whole numbers of at least 0. A sentence has one for each word.
        A text, an image or an array of features has a list, of the same length for all inputs."""

    @abstractmethod
    def __call__(self, codes: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        """Codes (B, ...), candidates y (B, S, ...) and the mask of what counts, (B, ...), -> (B, S) in [0, 1]. Relaxed
        candidates are rounded to their likeliest values; there is no gradient."""


class NoReward(Reward):
    """No opinion: rows without gold teach the loss-net nothing, and its energy teaches the task-net on them. It is only
    for losses that compare samples, such as `nce`: the candidates of such rows are all the same there, so that the
    gradient is 0. Others would learn that every output is good, and are refused."""

    def __init__(self, label_names: Sequence[str]):
        self.label_names = list(label_names)

    def codes(self, inputs: Sequence[Any]) -> list[Any]:
        return [[0] * len(given) if isinstance(given, list) else [0] for given in inputs]

    def __call__(self, codes: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        return torch.ones(y.shape[:2], device=y.device)


class Rules(Reward):
    """A reward by rules r, each with a value s_r(x, y) in [0, 1] and a weight w_r:

        reward(x, y) = Σ_r w_r a_r(x) s_r(x, y) / Σ_r w_r a_r(x),     a_r(x): whether rule r applies to x, 0 or 1

    Whether a rule applies depends on the input alone, so that no candidate can evade it. Without such a rule the reward
    is 1.

    Args:
        rules: a YAML file, or a list of [`Rule`].
        names: the fields, labels or classes that rules may name.
        what: how messages call these names, such as `the tags' fields`.

    Attributes:
        ordered: the rules as `parts` gives them.

    Raises:
        ValueError: no rules, one of another kind of output, or an unknown name.
    """

    kinds: Kinds
    further: tuple[str, ...] = ()  # kinds of a `Rule` that no file names
    noun: str  # of a name, in messages

    def __init__(self, rules: str | Path | Sequence[Rule], names: Sequence[str], what: str):
        self.file = rules if isinstance(rules, (str, Path)) else None
        self.rules: list[Rule] = parse_rules(rules, self.kinds) if isinstance(rules, (str, Path)) else list(rules)
        if not self.rules:
            raise ValueError(f"{self.file or 'The list'} has no rules; give at least one.")
        for rule in self.rules:
            if rule.kind not in (*self.kinds, *self.further):
                raise ValueError(f"{self.where(rule)}A rule is {rule.kind!r}; expected one of {', '.join(self.kinds)}.")
            for name in rule.fields:
                if name not in names:
                    raise ValueError(
                        f"{self.where(rule)}A rule ({rule.kind}) names the {self.noun} {name!r}; {what} are "
                        f"{', '.join(names)}.{did_you_mean(name, names)}"
                    )
        self.ordered: list[Rule] = list(self.rules)
        self.tables: dict[str, Tensor] = {}

    def where(self, rule: Rule) -> str:
        """The file and line of a rule, before a message; empty if it is not from a file."""
        return "" if self.file is None or rule.line is None else f"{self.file}, line {rule.line}: "

    def on(self, device: torch.device) -> dict[str, Tensor]:
        """The tables, moved to a device once."""
        if any(table.device != device for table in self.tables.values()):
            self.tables = {name: table.to(device) for name, table in self.tables.items()}
        return self.tables

    def __call__(self, codes: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        shares, applies = self.parts(codes, y, mask)
        weight = self.tables["weight"] * applies.unsqueeze(1)  # (B, 1, R)
        total = weight.sum(-1)
        return torch.where(total > 0, (weight * shares).sum(-1) / total.clamp_min(1e-12), torch.ones_like(total))

    @abstractmethod
    def parts(self, codes: Tensor, y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The value of each rule: s (B, S, R) and a (B, R), both float32, in the order of `ordered`."""

    @abstractmethod
    def coverage(self, codes: Sequence[Any]) -> list[float]:
        """The share of the N inputs with these codes to which each rule applies, in the order of `ordered`."""

    @abstractmethod
    def conflicts(self, codes: Sequence[Any]) -> list[Conflict]:
        """The contradictions among the rules, for N inputs with these `codes`."""


SHOWN_OF_INPUT = 200  # characters of an input in a message


def read_function(name: str, flag: str = "reward") -> Callable:
    """The user's function that `module:function` names.

    It is imported from Python's path (installed packages or PYTHONPATH), never from a file's path, so that nothing in a
    folder of a model or a data set is executed.

    Args:
        flag: the argument that names it, for messages.

    Raises:
        ValueError: `name` has another form, or there is no such module or function.
    """
    module, _, function = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), function)):
        raise ValueError(
            f"`{flag}` is {name!r}; it must be MODULE:FUNCTION, such as my_rewards:few_titles, with the module on "
            "Python's path, not a file."
        )
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"`{flag}` is {name!r}, which cannot be imported: {error}. For a module in FOLDER, run PYTHONPATH=FOLDER "
            "python ..."
        ) from error
    if not callable(found):
        raise ValueError(
            f"`{flag}` is {name!r}, a {type(found).__name__}; it must be a function that returns numbers in [0, 1]."
        )
    return found


class TagFunctionReward(Reward):
    """A reward given as a Python function of sentences and their tags.

    A function of one sentence is called on the CPU for every candidate of every row, so it suits small data and quick
    trials; equal tags of the same words in a batch are asked about once. A function of a batch is called once.

    Args:
        function: (words, tags), two lists of T strings -> a number in [0, 1]. `batched`: (N lists of words, tag ids
            (N, S, T) int64, -1 behind the last word) -> (N, S) numbers in [0, 1].
        label_names: the C tags.
        batched: True for a function of a batch.

    Calling the reward raises ValueError, with the row, if the function fails or gives anything but numbers in [0, 1].
    """

    candidate = "the tags"  # in messages
    noun = "words"

    def __init__(self, function: Callable[..., Any], label_names: Sequence[str], batched: bool = False):
        self.function, self.label_names, self.batched = function, list(label_names), batched
        self.words: dict[str, int] = {}
        self._in_order: list[str] = []
        self._known: dict[Any, float] = {}  # what the function gave for this batch: a loss asks about a row twice
        self._batch: Tensor | None = None  # its codes

    def codes(self, inputs: Sequence[Any]) -> list[Any]:
        """The number of each word. Words are numbered in the order in which they are first seen."""
        return [[self.words.setdefault(word, len(self.words)) for word in words] for words in inputs]

    @torch.no_grad()
    def __call__(self, codes: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        if codes is not self._batch:
            self._batch, self._known = codes, {}
        rewards = torch.ones(y.shape[:2])  # 1 without positions that count, as in a row with gold: nothing to ask
        asked = mask.flatten(1).any(1).nonzero().flatten().cpu()
        if len(asked):
            codes, y, mask = codes.cpu()[asked], y.cpu()[asked], mask.cpu()[asked]
            inputs = self._inputs(codes, mask)
            ask = self._ask_batch if self.batched else self._ask_each
            rewards[asked] = ask(inputs, y, mask, codes)
        return rewards.to(y.device)

    def _inputs(self, codes: Tensor, mask: Tensor) -> list[Any]:
        """The inputs of N rows, as the function reads them."""
        if len(self._in_order) < len(self.words):
            self._in_order = list(self.words)
        return [
            [self._in_order[code] for code in row[counts].tolist()] for row, counts in zip(codes, mask, strict=True)
        ]

    def _outputs(self, y: Tensor, mask: Tensor) -> list[list[Any]]:
        """Candidates (N, S, ...) as the function reads one."""
        tags = y.argmax(-1)
        return [
            [[self.label_names[tag] for tag in one[counts].tolist()] for one in row]
            for row, counts in zip(tags, mask, strict=True)
        ]

    def _array(self, y: Tensor, mask: Tensor) -> np.ndarray:
        """Candidates (N, S, ...) as the function of a batch reads them."""
        tags, longest = y.argmax(-1), int(mask.sum(1).max())
        found = torch.full((*tags.shape[:2], longest), -1)
        for row, counts in enumerate(mask):
            found[row, :, : int(counts.sum())] = tags[row][:, counts]
        return found.numpy()

    def _place(self, row: int, codes: Tensor) -> str:
        """A row in messages, before its input."""
        return f"row {row} of the batch, "

    def _ask_each(self, inputs: list[Any], y: Tensor, mask: Tensor, codes: Tensor) -> Tensor:
        rewards, known = [], self._known
        for row, (given, outputs) in enumerate(zip(inputs, self._outputs(y, mask), strict=True)):
            which = codes[row].numpy().tobytes(), mask[row].numpy().tobytes()
            keys = [(which, one.tobytes() if hasattr(one, "tobytes") else tuple(one)) for one in outputs]
            for key, one in zip(keys, outputs, strict=True):
                if key not in known:
                    known[key] = self._ask(given, one, row, codes)
            rewards.append([known[key] for key in keys])
        return torch.tensor(rewards)

    def _ask(self, given: Any, output: Any, row: int, codes: Tensor) -> float:
        """Raises ValueError if the function fails, or gives anything but a number in [0, 1]."""
        error = None
        try:
            found = self.function(given, output)
            what = f"gave {_short(found) if hasattr(found, 'shape') else repr(found)}"
        except Exception as caught:  # the user's own code may raise anything
            found, error, what = None, caught, f"failed ({type(caught).__name__}: {caught})"
        with suppress(TypeError, ValueError, RuntimeError):  # no number, or several
            if isinstance(found, SupportsFloat) and 0 <= float(found) <= 1:
                return float(found)
        raise ValueError(
            f"The reward function {self._name} {what} for {self._place(row, codes)}the {self.noun} {_short(given)} "
            f"with {self.candidate} {_short(output)}. It must take these two and return a number in [0, 1]."
        ) from error

    def _ask_batch(self, inputs: list[Any], y: Tensor, mask: Tensor, codes: Tensor) -> Tensor:
        """Raises ValueError if the function fails, or gives another shape or numbers outside [0, 1]."""
        wanted, places = tuple(y.shape[:2]), f"the {len(inputs)} rows from {self._place(0, codes)}the {self.noun} "
        try:
            found = self.function(inputs, self._array(y, mask))
        except Exception as error:  # the user's own code may raise anything
            raise ValueError(
                f"The reward function {self._name} failed ({type(error).__name__}: {error}) for {places}"
                f"{_short(inputs[0])} on."
            ) from error
        try:
            values = torch.as_tensor(found).detach().cpu().float()
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"The reward function {self._name} gave {_short(found)} for {places}{_short(inputs[0])} on; it must "
                f"return numbers of shape {wanted}: N rows, S candidates."
            ) from error
        if tuple(values.shape) != wanted:
            raise ValueError(
                f"The reward function {self._name} gave numbers of shape {tuple(values.shape)} for {places}"
                f"{_short(inputs[0])} on; expected {wanted}: N rows, S candidates."
            )
        wrong = ~((values >= 0) & (values <= 1))  # NaN too
        if wrong.any():
            row, one = wrong.nonzero()[0].tolist()
            raise ValueError(
                f"The reward function {self._name} gave {values[row, one].item():g} for {self._place(row, codes)}the "
                f"{self.noun} {_short(inputs[row])}, candidate {one}; rewards are in [0, 1]."
            )
        return values

    @property
    def _name(self) -> str:
        return getattr(self.function, "__name__", "")


class LabelFunctionReward(TagFunctionReward):
    """A reward given as a Python function of inputs and label sets.

    Args:
        function: (input, labels) -> a number in [0, 1]. The input is a text, a pair of texts, an array of features or
            an image, and `labels` has the names of the present labels. `batched`: (N inputs, label sets (N, S, L) int64
            of 0 and 1) -> (N, S) numbers in [0, 1].
        label_names: the L labels.
        batched: True for a function of a batch.
    """

    candidate, noun = "the labels", "input"

    def __init__(self, function: Callable[..., Any], label_names: Sequence[str], batched: bool = False):
        super().__init__(function, label_names, batched)
        self.inputs: list[Any] = []

    def codes(self, inputs: Sequence[Any]) -> list[Any]:
        """The number of each input. Inputs are numbered in the order in which they are seen."""
        first = len(self.inputs)
        self.inputs += list(inputs)
        return [[first + i] for i in range(len(inputs))]

    def _inputs(self, codes: Tensor, mask: Tensor) -> list[Any]:
        return [self.inputs[code] for code in codes[:, 0].tolist()]

    def _outputs(self, y: Tensor, mask: Tensor) -> list[list[Any]]:
        names = self.label_names
        return [[[names[i] for i in one.nonzero().flatten().tolist()] for one in row] for row in y >= 0.5]

    def _array(self, y: Tensor, mask: Tensor) -> np.ndarray:
        return (y >= 0.5).long().numpy()

    def _place(self, row: int, codes: Tensor) -> str:
        return f"row {int(codes[row, 0])} (counting from 0), "


class MaskFunctionReward(LabelFunctionReward):
    """A reward given as a Python function of images and masks.

    Args:
        function: (image, mask), arrays (H, W, 3) uint8 and (H, W) int64 of class ids -> a number in [0, 1]. `batched`:
            (N images, masks (N, S, H, W)) -> (N, S) numbers in [0, 1].
        label_names: the classes.
        batched: True for a function of a batch.
    """

    candidate, noun = "the mask", "image"

    def _outputs(self, y: Tensor, mask: Tensor) -> list[list[Any]]:
        return [list(row) for row in self._array(y, mask)]

    def _array(self, y: Tensor, mask: Tensor) -> np.ndarray:
        return (y.argmax(2) if y.dim() == 5 else (y >= 0.5).long()).numpy()


def _short(value: Any) -> str:
    """An input or output in a message: a text, or the size of an array."""
    if hasattr(value, "shape"):
        return f"of shape {tuple(value.shape)}"
    shown = repr(value) if isinstance(value, str) else str(value)
    return shown if len(shown) <= SHOWN_OF_INPUT else shown[:SHOWN_OF_INPUT] + "..."
