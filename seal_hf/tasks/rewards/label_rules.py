"""Rules for label sets, which need no gold labels. See `reward.py` for how they make a reward.

    - keywords: PATTERN       applies if the text holds the pattern: a regular expression, or a list of words
      for: [joy, love]        s_r = the share of these labels that are present; `against`: that are absent
    - implies: [a, b, c]      for b and for c: s_r = 0 if a is present without it, else 1
    - excludes: [a, b, c]     at most one of them: s_r = 1 / (1 + d), with d labels too many
    - at_least: 1             s_r = 1 / (1 + d), with d labels too few; `at_most` and `exactly` likewise; with
      of: [a, b]              `of: [a, b]` only these labels are counted
    - hierarchy: closed       s_r = the share of the present labels with parents that have all of them, 1 if none is
                              present. `closed` means the data's own hierarchy; else a list of pairs [child, parent]
    - rates: {joy: 0.1, fear: [0.2, 0.4]}   the expected share of rows with each label, or its limits

For `rates`, let r_j be the share of label j among all candidates of the rows of a batch without gold. With limits l_j
and h_j of J labels, s_r = 1 - Σ_j ([r_j - h_j]_+ y_j + [l_j - r_j]_+ (1 - y_j)) / J: a label that is too frequent
counts against the candidates with it.

A text is searched ignoring case; words of a list match whole words, or, in scripts
without blanks such as Chinese, parts of a run of letters. All but `keywords` apply to every row.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.hierarchy import Hierarchy
from .reward import Conflict, Rules
from .rules import AGAINST, CLOSED, LABEL_KINDS, Rule

COUNTS = ("excludes", "at_least", "at_most", "exactly")


class LabelRuleReward(Rules):
    """The weighted share of the rules that a label set follows; see the module's docstring.

    Args:
        rules: a YAML file, or a list of [`Rule`].
        label_names: the L labels.
        hierarchy: the data's own, for `hierarchy: closed`.

    Raises:
        ValueError: no rules, an unknown label, a rule for more labels than there are, or `hierarchy: closed` without a
            hierarchy.
    """

    kinds = LABEL_KINDS
    further = (AGAINST,)
    noun = "label"

    def __init__(
        self, rules: str | Path | Sequence[Rule], label_names: Sequence[str], hierarchy: Hierarchy | None = None
    ):
        super().__init__(rules, label_names, "the labels")
        self.label_names = list(label_names)
        place = {name: i for i, name in enumerate(label_names)}
        groups = [("keywords", AGAINST), ("implies",), COUNTS, ("hierarchy",), ("rates",)]
        grouped = [[rule for rule in self.rules if rule.kind in group] for group in groups]
        self.ordered = [rule for group in grouped for rule in group]
        words, implied, counted, closed, rates = grouped
        for rule in counted:
            if rule.values[0] > (found := len(rule.fields or place)):
                raise ValueError(
                    f"{self.where(rule)}A rule ({rule.kind}) asks for {rule.values[0]:g} of {found} labels, which no "
                    f"label set can have. Give at most {found}."
                )
        self.patterns = [re.compile(rule.pattern or "", re.IGNORECASE) for rule in words]
        self.tables = {
            "weight": torch.tensor([rule.weight for rule in self.ordered]),
            "words": self._members(words, place),
            "against": torch.tensor([rule.kind == AGAINST for rule in words], dtype=torch.bool),
            "implies": torch.tensor([[place[name] for name in rule.fields] for rule in implied]).long().view(-1, 2),
            "counted": self._members(counted, place),
            "low": torch.tensor([rule.values[0] for rule in counted]),
            "high": torch.tensor([rule.values[1] for rule in counted]),
        }
        # for each rule of a hierarchy, or of rates
        self.parents = [self._parents(rule, place, hierarchy) for rule in closed]
        self.rates = [
            (torch.tensor([place[name] for name in rule.fields]), torch.tensor(rule.values).view(-1, 2).T)
            for rule in rates
        ]

    def _members(self, rules: Sequence[Rule], place: dict[str, int]) -> Tensor:
        """(R, L) of 0 and 1: the labels that each rule names; all if it names none."""
        rows = [[float(not rule.fields or name in rule.fields) for name in place] for rule in rules]
        return torch.tensor(rows).view(len(rows), len(place))

    def _parents(self, rule: Rule, place: dict[str, int], hierarchy: Hierarchy | None) -> Tensor:
        """(L, L): 1 where the column is a parent of the row."""
        if rule.pattern == CLOSED:
            if hierarchy is None:
                raise ValueError(
                    f"{self.where(rule)}A rule says `hierarchy: closed`, but the data have no hierarchy. Give "
                    "`hierarchy` (--hierarchy FILE), or list the pairs [child, parent] in the rule."
                )
            pairs = [(child, parent) for child, above in enumerate(hierarchy.parents) for parent in above]
        else:
            pairs = [(place[a], place[b]) for a, b in zip(rule.fields[::2], rule.fields[1::2], strict=True)]
        table = torch.zeros(len(place), len(place))
        for child, parent in pairs:
            table[child, parent] = 1
        return table

    def codes(self, inputs: Sequence[Any]) -> list[list[int]]:
        """Which patterns each text holds, as 0 or 1. A pair of texts holds those of either. Inputs that are not texts
        hold none."""
        return [[int(pattern.search(text) is not None) for pattern in self.patterns] for text in map(_text, inputs)]

    def on(self, device: torch.device) -> dict[str, Tensor]:
        if any(part.device != device for part in (*self.parents, *itertools.chain(*self.rates))):
            self.parents = [parents.to(device) for parents in self.parents]
            self.rates = [(labels.to(device), limits.to(device)) for labels, limits in self.rates]
        return super().on(device)

    @torch.no_grad()
    def parts(self, codes: Tensor, y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """As in the base class. In `mask` (B, L) either all labels of a row count, or none."""
        table = self.on(y.device)
        y, there = (y >= 0.5).float(), mask.any(1, keepdim=True)  # (B, S, L), (B, 1)
        share = y @ table["words"].T / table["words"].sum(1)
        words = torch.where(table["against"], 1 - share, share)
        one, other = (y[..., table["implies"][:, i]] for i in range(2))
        count = y @ table["counted"].T
        off = (table["low"] - count).clamp_min(0) + (count - table["high"]).clamp_min(0)
        found = [words, 1 - one * (1 - other), 1 / (1 + off)]
        found += [self._closed(y, parents).unsqueeze(-1) for parents in self.parents]
        found += [self._expected(y, there, *rate).unsqueeze(-1) for rate in self.rates]
        values = torch.cat(found, dim=-1)
        always = torch.ones(len(y), values.shape[-1] - len(self.patterns), device=y.device)
        return values, torch.cat([codes.float(), always], dim=1) * there

    @staticmethod
    def _closed(y: Tensor, parents: Tensor) -> Tensor:
        """(B, S, L), (L, L) -> (B, S)."""
        below = parents.any(1).float()  # labels with parents
        kept = (y @ parents.T == parents.sum(1)).float()
        count = (y * below).sum(-1)
        return torch.where(count > 0, (y * below * kept).sum(-1) / count.clamp_min(1), torch.ones_like(count))

    @staticmethod
    def _expected(y: Tensor, there: Tensor, labels: Tensor, limits: Tensor) -> Tensor:
        """(B, S, L), the rows that count (B, 1), J labels, limits (2, J) -> (B, S)."""
        y = y[..., labels]
        rate = (y.mean(1) * there).sum(0) / there.sum().clamp_min(1)  # (J,)
        over, under = (rate - limits[1]).clamp_min(0), (limits[0] - rate).clamp_min(0)
        return 1 - (over * y + under * (1 - y)).mean(-1)

    def coverage(self, codes: Sequence[Any]) -> list[float]:
        held = np.array(codes, dtype=np.float64).reshape(len(codes), len(self.patterns)).mean(0)
        return [*held.tolist(), *[1.0] * (len(self.ordered) - len(self.patterns))]

    # --- contradictions ----------------------------------------------------------------------------------------------

    def conflicts(self, codes: Sequence[Any]) -> list[Conflict]:
        """Pairs of rules that no label set follows together; and, if all rules that always apply contradict each other,
        a smallest set of them. The answer is exact, by integer programming."""
        table = np.array(codes, dtype=np.int64).reshape(len(codes), len(self.patterns))
        always = [i for i in range(len(self.patterns), len(self.ordered)) if self.ordered[i].kind != "rates"]
        words, found = range(len(self.patterns)), []
        for i, j in itertools.combinations([*words, *always], 2):
            if self._share_labels(i, j) and not self._feasible([i, j]):
                both = [table[:, k] > 0 for k in (i, j) if k in words]
                rows = int(np.logical_and.reduce(both).sum()) if both else None
                found.append(Conflict((i, j), rows, "no label set follows both"))
        alone = {conflict.rules for conflict in found}
        for start in [[], *[[i] for i in words]]:
            core = self._core(start, always)
            if core and tuple(sorted(core)) not in alone and len(core) > 2:
                rows = int((table[:, start[0]] > 0).sum()) if start else None
                found.append(Conflict(tuple(sorted(core)), rows, "no label set follows all of them"))
                if not start:  # then every keyword contradicts them, too
                    break
        return found

    def _core(self, start: list[int], others: list[int]) -> list[int]:
        """A smallest set of `start` and some of the `others` that no label set follows; empty if one follows all."""
        if not others or self._feasible([*start, *others]):
            return []
        kept = list(others)
        for rule in others:
            rest = [other for other in kept if other != rule]
            if not self._feasible([*start, *rest]):
                kept = rest
        return [*start, *kept]

    def _share_labels(self, i: int, j: int) -> bool:
        one, other = (set(self.ordered[k].fields or self.label_names) for k in (i, j))
        return bool(one & other)

    def _feasible(self, chosen: Sequence[int]) -> bool:
        """True if some label set follows all these rules entirely."""
        from scipy.optimize import LinearConstraint, milp

        rows, low, high = [], [], []
        for index in chosen:
            for row, least, most in self._linear(index):
                rows.append(row)
                low.append(least)
                high.append(most)
        size = len(self.label_names)
        if not rows:
            return True
        limits = LinearConstraint(np.array(rows), low, high)
        result = milp(np.zeros(size), constraints=limits, integrality=np.ones(size), bounds=(0, 1))
        return result.status != 2  # infeasible

    def _linear(self, index: int) -> list[tuple[np.ndarray, float, float]]:
        """A rule as linear constraints on a label set: row, least, most."""
        rule, size = self.ordered[index], len(self.label_names)
        place = {name: i for i, name in enumerate(self.label_names)}
        eye = np.eye(size)
        if rule.kind in ("keywords", AGAINST):
            wanted = float(rule.kind == "keywords")
            return [(eye[place[name]], wanted, wanted) for name in rule.fields]
        if rule.kind == "implies":
            return [(eye[place[rule.fields[1]]] - eye[place[rule.fields[0]]], 0, 1)]
        if rule.kind in COUNTS:
            return [(sum(eye[place[name]] for name in rule.fields or self.label_names), *rule.values)]
        if rule.kind == "hierarchy":
            number = sum(other.kind == "hierarchy" for other in self.ordered[:index])
            pairs = self.parents[number].nonzero().tolist()
            return [(eye[parent] - eye[child], 0, 1) for child, parent in pairs]
        return []


def _text(value: Any) -> str:
    """A text to search: of a pair, both; of inputs that are not texts, an empty one."""
    if isinstance(value, str):
        return value
    return "\n".join(value) if isinstance(value, tuple) and all(isinstance(part, str) for part in value) else ""
