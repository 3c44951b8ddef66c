"""Rewards: how well a tag sequence suits its words, by rules, without gold tags.

A reward maps candidates y (B, S, T, C) to (B, S) in [0, 1], 1 is best. It is the score s(y) of rows without gold (the
indirect supervision of Rooshenas et al. 2019, in Shankar & Piratla's citation fields). What it must know about the
words is computed once, as one integer per word, its code. [`RewardSpace`] trains with it.

A file of rules is a YAML list under `rules`. Each rule has a value s_r(x, y) in [0, 1] and a `weight` (default 1):

    reward(x, y) = Σ_r w_r a_r(x) s_r(x, y) / Σ_r w_r a_r(x),     a_r(x): whether rule r applies to the words, 0 or 1

    - words: PATTERN          s_r = the share of the matching words whose tag is one of these fields
      are: [date, note]
    - changes_after: PATTERN  of the words that do not match, except the last word: s_r = the share after which the
                              field continues
    - first: [author]         s_r = 1 if the first word is in one of these fields, else 0; `last` likewise
    - once: [title, date]     for each: s_r = 1 if the words of that field are adjacent, or the field has no words
    - order: [author, title]  s_r = 1 if the first field's first word precedes the second's, or a field has no words
    - present: [title]        for each: s_r = 1 if the field has a word

Whether a rule applies depends on the words alone (`words` and `changes_after`: if there is such a word; the others: if
there are words), so that no candidate can evade a rule. A pattern is a regular expression. It is searched for in the
words, joined by single spaces, ignoring case; a word matches if it shares a character with the text found.
"""

from __future__ import annotations

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsFloat

import numpy as np
import torch
import torch.nn.functional as F
import yaml
from torch import Tensor

from ..structures.sequences import pack
from ..structures.tag_schemes import scheme_of, split_tag
from ..utils.messages import did_you_mean

MOST_PATTERNS = 62  # each takes one bit of a word's code
KINDS = ("words", "changes_after", "first", "last", "once", "order", "present")


class Reward(ABC):
    """How well tags suit words. `label_names` are the C tags."""

    @abstractmethod
    def codes(self, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
        """What the reward must know about each word of each sentence, as one integer >= 0."""

    @abstractmethod
    def __call__(self, codes: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        """codes (B, T), candidates y (B, S, T, C), mask (B, T) -> (B, S) in [0, 1]. Relaxed candidates are rounded to
        their likeliest tags; there is no gradient."""


@dataclass(frozen=True)
class Rule:
    """One rule: see the module's docstring.

    Attributes:
        kind: one of `KINDS`.
        fields: the fields that it names, in order.
        pattern: for `words` and `changes_after`.
        weight: positive.
    """

    kind: str
    fields: tuple[str, ...] = ()
    pattern: str | None = None
    weight: float = 1.0


def read_rules(file: str | Path) -> list[Rule]:
    """The rules of a YAML file. Nothing in it is executed.

    Raises:
        ValueError: the file is wrong; the message names file and rule.
    """
    try:
        found = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{file} is not YAML: {error}") from error
    if not isinstance(found, dict) or list(found) != ["rules"] or not isinstance(found["rules"], list):
        raise ValueError(f"{file}: expected a list of rules under the key `rules`, and no other key.")
    return [rule for i, item in enumerate(found["rules"], 1) for rule in _parse(item, f"{file}, rule {i}")]


def _parse(item: Any, where: str) -> list[Rule]:
    kinds = [key for key in item if key in KINDS] if isinstance(item, dict) else []
    if len(kinds) != 1:
        raise ValueError(f"{where}: {item!r} has {len(kinds)} of the keys {', '.join(KINDS)}; expected exactly one.")
    kind = kinds[0]
    key = "are" if kind == "words" else kind  # of the fields
    unknown = set(item) - {kind, key, "weight"}
    if unknown:
        raise ValueError(f"{where}: unknown key {sorted(map(str, unknown))[0]!r} in a rule of the kind {kind!r}.")
    weight, pattern = item.get("weight", 1), None
    fields: Any = ()
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 < weight < float("inf"):
        raise ValueError(f"{where}: `weight` is {weight!r}; it must be a positive number.")
    if kind in ("words", "changes_after"):
        pattern = item[kind]
        try:
            empty = re.search(pattern, "") is not None
        except (re.error, TypeError) as error:
            raise ValueError(f"{where}: {pattern!r} is not a regular expression: {error}") from error
        if empty:
            raise ValueError(f"{where}: {pattern!r} matches the empty text, so it selects no words. Change it.")
    if kind != "changes_after":
        fields = item.get(key)
        fields = [fields] if isinstance(fields, str) else fields
        if not isinstance(fields, list) or not fields or not all(isinstance(name, str) for name in fields):
            raise ValueError(f"{where}: `{key}` is {fields!r}; it must be a field's name, or a list of names.")
        if kind == "order" and len(fields) != 2:
            raise ValueError(f"{where}: `order` has {len(fields)} fields; expected two: the first, the second.")
    if kind in ("once", "present"):
        return [Rule(kind, (name,), weight=float(weight)) for name in fields]
    return [Rule(kind, tuple(fields), pattern, float(weight))]


class RuleReward(Reward):
    """The weighted share of the rules that a candidate follows; see the module's docstring.

    Args:
        rules: a file for [`read_rules`], or a list of [`Rule`].
        label_names: the C tags; the field of B-X, I-X, .. is X.

    Raises:
        ValueError: no rules, a field without a tag, or more than 62 patterns.
    """

    def __init__(self, rules: str | Path | Sequence[Rule], label_names: Sequence[str]):
        self.rules = read_rules(rules) if isinstance(rules, (str, Path)) else list(rules)
        spans = scheme_of(label_names) != "plain"
        names = [split_tag(name)[1] or name if spans else name for name in label_names]
        self.fields = list(dict.fromkeys(names))
        if not self.rules:
            raise ValueError("There are no rules; give at least one.")
        for rule in self.rules:
            for name in rule.fields:
                if name not in self.fields:
                    raise ValueError(
                        f"A rule ({rule.kind}) names the field {name!r}; the tags' fields are {', '.join(self.fields)}."
                        f"{did_you_mean(name, self.fields)}"
                    )
        by_kind = {kind: [rule for rule in self.rules if rule.kind == kind] for kind in KINDS}
        with_pattern = by_kind["words"] + by_kind["changes_after"]
        self.patterns = [re.compile(rule.pattern or "", re.IGNORECASE) for rule in with_pattern]
        if len(self.patterns) > MOST_PATTERNS:
            raise ValueError(
                f"The rules have {len(self.patterns)} patterns; at most {MOST_PATTERNS} are allowed. Join some with |."
            )
        place = {name: i for i, name in enumerate(self.fields)}
        self.num_words = len(by_kind["words"])
        self.tables = {"field": torch.tensor([place[name] for name in names])}  # (C,)
        for kind in ("words", "first", "last", "once", "present"):  # (R, F) of 0 and 1
            rows = [[float(name in rule.fields) for name in self.fields] for rule in by_kind[kind]]
            self.tables[kind] = torch.tensor(rows).view(len(rows), len(self.fields))
        self.tables["order"] = torch.tensor([[place[n] for n in r.fields] for r in by_kind["order"]]).long().view(-1, 2)
        self.ordered = [rule for kind in KINDS for rule in by_kind[kind]]  # as `parts` gives them
        self.tables["weight"] = torch.tensor([rule.weight for rule in self.ordered])

    def codes(self, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
        """Bit r of a word's code says whether pattern r matches the word."""
        return [self._codes(words) for words in sentences]

    def _codes(self, words: Sequence[str]) -> list[int]:
        text, lengths = " ".join(words), np.array([len(word) for word in words], dtype=np.int64)
        ends = (lengths + 1).cumsum() - 1  # without the space after it
        starts = ends - lengths
        codes = np.zeros(len(words), dtype=np.int64)
        for bit, pattern in enumerate(self.patterns):
            for found in pattern.finditer(text):
                if found.end() > found.start():  # the words that share a character with it
                    first, last = np.searchsorted(ends, found.start(), "right"), np.searchsorted(starts, found.end())
                    codes[first:last] |= np.int64(1 << bit)
        return codes.tolist()

    def __call__(self, codes: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        shares, applies = self.parts(codes, y, mask)
        weight = self.tables["weight"] * applies.unsqueeze(1)  # (B, 1, R)
        total = weight.sum(-1)
        return torch.where(total > 0, (weight * shares).sum(-1) / total.clamp_min(1e-12), torch.ones_like(total))

    @torch.no_grad()
    def parts(self, codes: Tensor, y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The value of each rule: s (B, S, R) and a (B, R), both float32, in the order of `ordered`."""
        if self.tables["field"].device != y.device:
            self.tables = {name: table.to(y.device) for name, table in self.tables.items()}
        table = self.tables
        mask, codes, fields = pack(mask, codes, table["field"][y.argmax(-1)].transpose(1, 2))  # fields (B, T, S)
        fields = fields.transpose(1, 2)  # (B, S, T)
        bits = torch.arange(len(self.patterns), device=y.device)
        match = ((codes.unsqueeze(-1) >> bits) & 1).float() * mask.unsqueeze(-1)  # (B, T, P)
        here = F.one_hot(fields, len(self.fields)).float() * mask[:, None, :, None]  # (B, S, T, F)
        words, words_apply = self._words(match[..., : self.num_words], here)
        changes, changes_apply = self._changes(match[..., self.num_words :], fields, mask)
        places = self._places(here, mask)
        places_apply = mask.any(1, keepdim=True).expand(-1, places.shape[-1])
        applies = torch.cat([words_apply, changes_apply, places_apply], dim=-1)
        return torch.cat([words, changes, places], dim=-1), applies.float()

    def _words(self, match: Tensor, here: Tensor) -> tuple[Tensor, Tensor]:
        """For `words`: which words match (B, T, P), the field of each word (B, S, T, F) -> (B, S, P), (B, P)."""
        hits = torch.einsum("btp,bstf->bspf", match, here)
        count = match.sum(1)
        return (hits * self.tables["words"]).sum(-1) / count.unsqueeze(1).clamp_min(1), count > 0

    def _changes(self, match: Tensor, fields: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """For `changes_after`: match (B, T, P), fields (B, S, T), mask (B, T) -> (B, S, P), (B, P)."""
        goes_on = (fields[..., 1:] == fields[..., :-1]).float()  # (B, S, T - 1)
        inner = (1 - match[:, :-1]) * mask[:, 1:, None]  # (B, T - 1, P)
        count = inner.sum(1)
        return torch.einsum("btp,bst->bsp", inner, goes_on) / count.unsqueeze(1).clamp_min(1), count > 0

    def _places(self, here: Tensor, mask: Tensor) -> Tensor:
        """For all other kinds, which always apply: here (B, S, T, F), mask (B, T) -> (B, S, R)."""
        table, length = self.tables, here.shape[2]
        last = (mask.sum(1) - 1).clamp_min(0)[:, None, None, None].expand(-1, here.shape[1], 1, here.shape[3])
        runs = here[:, :, 0] + (here[:, :, 1:] * (1 - here[:, :, :-1])).sum(2)  # (B, S, F): how often each field begins
        steps = torch.arange(length, device=here.device, dtype=here.dtype).view(-1, 1)
        begins = torch.where(here > 0, steps, float(length)).amin(2)  # (B, S, F); T: nowhere
        one, other = (begins[..., table["order"][:, i]] for i in range(2))
        kept = {
            "first": here[:, :, 0] @ table["first"].T,
            "last": here.gather(2, last).squeeze(2) @ table["last"].T,
            "once": (runs <= 1).float() @ table["once"].T,
            "order": ((one < other) | (one == length) | (other == length)).float(),
            "present": (runs > 0).float() @ table["present"].T,
        }
        return torch.cat([kept[kind] for kind in KINDS[2:]], dim=-1)


def read_function(name: str) -> Callable:
    """The user's function that `module:function` names.

    It is imported from Python's path (installed packages or PYTHONPATH), never from a file's path, so that nothing in a
    folder of a model or a data set is executed.

    Raises:
        ValueError: `name` has another form, or there is no such module or function.
    """
    module, _, function = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), function)):
        raise ValueError(
            f"`reward` is {name!r}; it must be MODULE:FUNCTION, such as my_rewards:few_titles, with the module on "
            "Python's path, not a file."
        )
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"`reward` is {name!r}, which cannot be imported: {error}. For a module in FOLDER, run PYTHONPATH=FOLDER "
            "python ..."
        ) from error
    if not callable(found):
        raise ValueError(
            f"`reward` is {name!r}, a {type(found).__name__}; it must be a function from (words, tags) to [0, 1]."
        )
    return found


class FunctionReward(Reward):
    """A reward given as a Python function of one sentence.

    It is called on the CPU for every candidate of every row, so it suits small data and quick trials; rules are
    vectorised.

    Args:
        function: (words, tags), two lists of T strings -> a number in [0, 1].
        label_names: the C tags.
    """

    def __init__(self, function: Callable[[list[str], list[str]], float], label_names: Sequence[str]):
        self.function, self.label_names = function, list(label_names)
        self.words: dict[str, int] = {}

    def codes(self, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
        """The number of each word among all words seen so far."""
        return [[self.words.setdefault(word, len(self.words)) for word in words] for words in sentences]

    @torch.no_grad()
    def __call__(self, codes: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        names = list(self.words)
        rewards = []
        for row, candidates, counts in zip(codes.cpu(), y.argmax(-1).cpu(), mask.cpu(), strict=True):
            if not counts.any():  # no words, or a row with gold tags: nothing to ask
                rewards.append([1.0] * len(candidates))
                continue
            words = [names[code] for code in row[counts].tolist()]
            tags = [[self.label_names[tag] for tag in one[counts].tolist()] for one in candidates]
            rewards.append([self._ask(words, one) for one in tags])
        return torch.tensor(rewards).to(y.device)

    def _ask(self, words: list[str], tags: list[str]) -> float:
        """Raises ValueError if the function fails, or gives anything but a number in [0, 1]."""
        error = None
        try:
            found = self.function(words, tags)
            what = f"gave {found!r}"
        except Exception as caught:  # the user's own code may raise anything
            found, error, what = None, caught, f"failed ({type(caught).__name__}: {caught})"
        if isinstance(found, SupportsFloat) and 0 <= float(found) <= 1:
            return float(found)
        raise ValueError(
            f"The reward function {getattr(self.function, '__name__', '')} {what} for the words {words} with the tags "
            f"{tags}. It must take these two lists and return a number in [0, 1]."
        ) from error
