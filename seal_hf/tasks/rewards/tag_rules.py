"""Rules for tag sequences, which need no gold tags. See `reward.py` for how they make a reward.

    - words: PATTERN          s_r = the share of the matching words whose tag is one of these fields
      are: [date, note]
    - gazetteer: cities.txt   likewise, for the words of a phrase of this file: one phrase per line, beside the rules
      are: place
    - shape: digits           likewise, for words of this shape, one of `SHAPES`
      are: [date, pages]
    - changes_after: PATTERN  of the words that do not match, except the last word: s_r = the share after which the
                              field continues
    - first: [author]         s_r = 1 if the first word is in one of these fields, else 0; `last` likewise
    - once: [title, date]     for each: s_r = 1 if the words of that field are adjacent, or the field has no words
    - order: [author, title]  s_r = 1 if the first field's first word precedes the second's, or a field has no words
    - present: [title]        for each: s_r = 1 if the field has a word
    - never_follows: [a, b]   s_r = 1 if no word of field a stands directly after a word of field b, else 0

Whether a rule applies depends on the words alone, so that no candidate can evade it. A rule with a pattern, a gazetteer
or a shape applies if there is such a word, and any other if there are words. A pattern is a regular expression. It is
searched for in the words, joined by single spaces, ignoring case; a word matches if it shares a character with the text
found. Phrases of a gazetteer are compared without case, and without punctuation at the ends of words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...core.tag_schemes import scheme_of, split_tag
from ...core.tensors import pack
from .reward import Conflict, Rules
from .rules import SHAPES, TAG_KINDS, Rule

MOST_PATTERNS = 62  # each takes one bit of a word's code


ENDS = ".,;:!?\"'()[]{}"  # punctuation at the ends of words


KINDS = tuple(TAG_KINDS)
OF_WORDS = ("words", "gazetteer", "shape")


class TagRuleReward(Rules):
    """The weighted share of the rules that a candidate follows; see the module's docstring.

    Args:
        rules: a file for [`read_rules`], or a list of [`Rule`].
        label_names: the C tags; the field of B-X, I-X, .. is X.

    Raises:
        ValueError: no rules, a field without a tag, or more than 62 patterns.
    """

    kinds = TAG_KINDS
    noun = "field"

    def __init__(self, rules: str | Path | Sequence[Rule], label_names: Sequence[str]):
        self.label_names = list(label_names)
        spans = scheme_of(label_names) != "plain"
        parts = [split_tag(name) for name in label_names]
        names = [part[1] or name if spans else name for part, name in zip(parts, label_names, strict=True)]
        self.fields = list(dict.fromkeys(names))
        super().__init__(rules, self.fields, "the tags' fields")
        by_kind = {kind: [rule for rule in self.rules if rule.kind == kind] for kind in KINDS}
        self.ordered = [rule for kind in KINDS for rule in by_kind[kind]]
        of_words = [rule for kind in OF_WORDS for rule in by_kind[kind]]
        self.matchers = [_Matcher(rule) for rule in of_words + by_kind["changes_after"]]
        if len(self.matchers) > MOST_PATTERNS:
            where = "The rules have" if self.file is None else f"{self.file} has"
            raise ValueError(
                f"{where} {len(self.matchers)} patterns; at most {MOST_PATTERNS} are allowed. Join some with |."
            )
        place = {name: i for i, name in enumerate(self.fields)}
        self.num_words = len(of_words)
        self.tables = {"field": torch.tensor([place[name] for name in names])}  # (C,)
        groups = {"words": of_words, **{kind: by_kind[kind] for kind in ("first", "last", "once", "present")}}
        for kind, rules_of in groups.items():  # (R, F) of 0 and 1
            rows = [[float(name in rule.fields) for name in self.fields] for rule in rules_of]
            self.tables[kind] = torch.tensor(rows).view(len(rows), len(self.fields))
        for kind in ("order", "never_follows"):
            pairs = [[place[name] for name in rule.fields] for rule in by_kind[kind]]
            self.tables[kind] = torch.tensor(pairs).long().view(-1, 2)
        self.tables["weight"] = torch.tensor([rule.weight for rule in self.ordered])

    def codes(self, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
        """Bit r of a word's code says whether pattern r matches the word."""
        return [self._codes(words) for words in sentences]

    def _codes(self, words: Sequence[str]) -> list[int]:
        codes = np.zeros(len(words), dtype=np.int64)
        for bit, matcher in enumerate(self.matchers):
            for first, last in matcher(words):
                codes[first:last] |= np.int64(1 << bit)
        return codes.tolist()

    @torch.no_grad()
    def parts(self, codes: Tensor, y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The value of each rule: s (B, S, R) and a (B, R), both float32, in the order of `ordered`."""
        table = self.on(y.device)
        mask, codes, tags = pack(mask, codes, y.argmax(-1).transpose(1, 2))
        tags = tags.transpose(1, 2)  # (B, S, T)
        fields = table["field"][tags]
        bits = torch.arange(len(self.matchers), device=y.device)
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
        pairs = torch.einsum("bstf,bstg->bsfg", here[:, :, 1:], here[:, :, :-1])  # a word of f after one of g
        kept = {
            "first": here[:, :, 0] @ table["first"].T,
            "last": here.gather(2, last).squeeze(2) @ table["last"].T,
            "once": (runs <= 1).float() @ table["once"].T,
            "order": ((one < other) | (one == length) | (other == length)).float(),
            "present": (runs > 0).float() @ table["present"].T,
            "never_follows": (pairs[..., table["never_follows"][:, 0], table["never_follows"][:, 1]] == 0).float(),
        }
        return torch.cat([kept[kind] for kind in KINDS[4:]], dim=-1)

    def coverage(self, codes: Sequence[Sequence[int]]) -> list[float]:
        applies = torch.zeros(len(self.ordered))
        for row in codes:
            matched = (
                torch.tensor(row, dtype=torch.long).unsqueeze(1) >> torch.arange(len(self.matchers))
            ) & 1  # (T, P)
            of_words, changes = matched[:, : self.num_words], matched[:-1, self.num_words :]
            others = torch.full((len(self.ordered) - len(self.matchers),), bool(row))
            applies += torch.cat([of_words.any(0), (changes == 0).any(0), others]).float()
        return (applies / max(len(codes), 1)).tolist()

    def conflicts(self, codes: Sequence[Sequence[int]]) -> list[Conflict]:
        """Pairs of rules that no tags follow together. They ask for different fields of the same word, or of the first
        or last one; or for two fields that are present, each before the other."""
        flat = np.concatenate([np.asarray(row, dtype=np.int64) for row in codes]) if len(codes) else np.zeros(0, int)
        sentence = np.repeat(np.arange(len(codes)), [len(row) for row in codes])
        found, rules = [], self.ordered
        present = {rule.fields[0] for rule in rules if rule.kind == "present"}
        for j, other in enumerate(rules):
            for i, rule in enumerate(rules[:j]):
                apart = not set(rule.fields) & set(other.fields)
                if j < self.num_words and apart:
                    rows = len(set(sentence[(flat >> i) & (flat >> j) & 1 > 0].tolist()))
                    if rows:
                        found.append(Conflict((i, j), rows, "a word that both match cannot be in a field of each"))
                elif rule.kind == other.kind and rule.kind in ("first", "last") and apart:
                    found.append(Conflict((i, j), None, f"no {rule.kind} word is in a field of each"))
                elif rule.kind == other.kind == "order" and rule.fields == other.fields[::-1]:
                    if set(rule.fields) <= present:
                        found.append(Conflict((i, j), None, "both fields must be present, each before the other"))
        return found


class _Matcher:
    """Words of a sentence -> where a rule's pattern, phrases or shape occur: pairs of a first word and the word after
    the last."""

    def __init__(self, rule: Rule):
        self.kind, self.shape = rule.kind, rule.pattern
        self.pattern = re.compile(
            SHAPES[rule.pattern or ""]
            if rule.kind == "shape"
            else ""
            if rule.kind == "gazetteer"
            else rule.pattern or "",
            re.IGNORECASE,
        )
        self.phrases: dict[str, set[tuple[str, ...]]] = {}  # first word -> phrases
        for phrase in rule.phrases:
            words = tuple(map(_bare, phrase.split()))
            self.phrases.setdefault(words[0], set()).add(words)

    def __call__(self, words: Sequence[str]) -> list[tuple[int, int]]:
        if self.kind == "gazetteer":
            bare = [_bare(word) for word in words]
            return [
                (i, i + len(phrase))
                for i, word in enumerate(bare)
                for phrase in self.phrases.get(word, ())
                if tuple(bare[i : i + len(phrase)]) == phrase
            ]
        if self.kind == "shape":
            return [(i, i + 1) for i, word in enumerate(words) if self._has_shape(word.strip(ENDS))]
        text, lengths = " ".join(words), np.array([len(word) for word in words], dtype=np.int64)
        ends = (lengths + 1).cumsum() - 1  # without the space after it
        starts = ends - lengths
        return [
            (int(np.searchsorted(ends, found.start(), "right")), int(np.searchsorted(starts, found.end())))
            for found in self.pattern.finditer(text)
            if found.end() > found.start()  # the words that share a character with it
        ]

    def _has_shape(self, word: str) -> bool:
        if self.shape == "capital" and not word[:1].isupper() or self.shape == "capitals" and not word.isupper():
            return False
        return self.pattern.fullmatch(word) is not None


def _bare(word: str) -> str:
    """A word to compare with those of a gazetteer; of punctuation alone, itself."""
    return word.strip(ENDS).casefold() or word
