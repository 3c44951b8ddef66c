"""What rewards of all outputs share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ...utils.messages import did_you_mean
from .rule import Kinds, Rule, parse_rules


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
        """What the reward must know about each input, as whole numbers of at least 0: for each word of a sentence, one;
        for texts, features and images, a list of one length."""

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
    others: dict[str, Kinds] = {}

    def __init__(self, rules: str | Path | Sequence[Rule], names: Sequence[str], what: str):
        self.file = rules if isinstance(rules, (str, Path)) else None
        self.rules: list[Rule] = (
            parse_rules(rules, self.kinds, self.others) if isinstance(rules, (str, Path)) else list(rules)
        )
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


# Outputs of high reward, found without a net: the rules as a predictor.

MARGIN = 1e-6  # a smaller difference of rewards is none
MOST_SWEEPS = 50


@torch.no_grad()
def most_rewarded(
    reward: Reward, codes: Tensor, mask: Tensor, start: Tensor, num_values: int, is_set: bool = False
) -> tuple[Tensor, Tensor]:
    """Local maxima of a reward, by coordinate ascent from `start`. A sweep finds the positions whose change alone
    raises the reward. It changes all of them, or only the best one if that gives more. The ascent ends when no change
    helps.

    For a reward by rules, the change of a position raises the reward if the weighted vote of the rules is for it.

    Args:
        codes: of B inputs, as [`Reward.codes`] has them.
        mask: (B, n) bool, the positions that count: words, or labels.
        start: (n,) int64, or (B, n): the first value of each position.
        num_values: C, the values of a position: tags, or 2 for a label.
        is_set: True for label sets: candidates are (B, S, n) of 0 and 1, not one-hot (B, S, n, C).

    Returns:
        the values (B, n) int64, and where the reward has an opinion on them: (B, n) bool, True where another value
        alone would change the reward.
    """
    ids = start.expand(mask.shape).clone()
    size = ids.shape[1]
    values = torch.arange(num_values).repeat(size)  # of each change
    changed = torch.eye(size, dtype=torch.bool).repeat_interleave(num_values, 0)  # (n C, n)

    def rewards(y: Tensor) -> Tensor:
        return reward(codes, y.float() if is_set else F.one_hot(y, num_values).float(), mask)

    for sweep in range(MOST_SWEEPS + 1):
        found = rewards(torch.where(changed, values[:, None], ids[:, None])).view(*ids.shape, num_values)
        found = found.masked_fill(~mask.unsqueeze(2), 0)
        now = found.gather(2, ids.unsqueeze(2))  # (B, n, 1), without a change
        gain, best = (found - now).max(2)
        raises = gain > MARGIN
        if sweep == MOST_SWEEPS or not raises.any():
            break
        one = F.one_hot(gain.argmax(1), size).bool() & raises
        steps = torch.where(torch.stack([raises, one], 1), best[:, None], ids[:, None])  # (B, 2, n)
        ids = steps[torch.arange(len(ids)), rewards(steps).argmax(1)]
    return ids, (found - now).abs().amax(2) > MARGIN


@torch.no_grad()
def most_rewarded_of(reward: Reward, codes: Tensor, mask: Tensor, candidates: Tensor) -> Tensor:
    """The index of the candidate with the highest reward, (B,), the first of equal ones: for masks, whose pixels no
    rule speaks about one by one.

    Args:
        codes, mask: as for [`most_rewarded`].
        candidates: (S, ...), the same for all inputs, in the form that the reward reads.
    """
    return reward(codes, candidates.expand(len(codes), *candidates.shape), mask).argmax(1)
