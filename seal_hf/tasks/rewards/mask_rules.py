"""Rules for masks, which need no gold masks. See `reward.py` for how they make a reward.

    - area: [0.1, 0.4]         the share a of the pixels that are foreground, from l to h: s_r = a / l below l,
                               (1 - a) / (1 - h) above h, else 1
    - connected: 1             s_r = the share of the foreground's pixels in its largest pieces, here one; 1
                               without foreground. Pixels touch at their sides
    - smooth: 3                s_r = the share of the pixels that equal most pixels of a square around them, here of
                               3 x 3 pixels

Every rule applies to every image. Pixels that do not count (255) are background for all rules, and count in no
share. With `of: CLASS` a rule is about a class other than the foreground.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .reward import Conflict, Rules
from .rules import MASK_KINDS, Rule

FOREGROUND = "foreground"


class MaskRuleReward(Rules):
    """The weighted share of the rules that a mask follows; see the module's docstring.

    Candidates are (B, S, H, W), or of several classes (B, S, C, H, W).

    Args:
        rules: a YAML file, or a list of [`Rule`].
        label_names: names of the classes; default: background and foreground.

    Raises:
        ValueError: no rules, an unknown class, or several classes and a rule without `of`.
    """

    kinds = MASK_KINDS
    noun = "class"

    def __init__(self, rules: str | Path | Sequence[Rule], label_names: Sequence[str] = ("background", FOREGROUND)):
        super().__init__(rules, label_names, "the classes")
        self.label_names = list(label_names)
        for rule in self.ordered:
            if not rule.fields and len(label_names) != 2:
                raise ValueError(
                    f"{self.where(rule)}A rule ({rule.kind}) does not say which of {len(label_names)} classes; add "
                    "`of: CLASS`."
                )
        self.classes = [self.label_names.index(rule.fields[0]) if rule.fields else 1 for rule in self.ordered]
        self.tables = {"weight": torch.tensor([rule.weight for rule in self.ordered])}

    def codes(self, inputs: Sequence[Any]) -> list[list[int]]:
        """Empty codes (N, 0), since rules for masks do not read the image."""
        return [[] for _ in inputs]

    @torch.no_grad()
    def parts(self, codes: Tensor, y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """As in the base class. `mask` is (B, H, W)."""
        self.on(y.device)
        counts, own = mask.unsqueeze(1), y.argmax(2) if y.dim() == 5 else (y >= 0.5).long()  # ids (B, S, H, W)
        of = {place: ((own == place) & counts).float() for place in set(self.classes)}
        found = [
            FUNCTIONS[rule.kind](of[place], counts.float(), rule.values)
            for rule, place in zip(self.ordered, self.classes, strict=True)
        ]
        there = mask.flatten(1).any(1, keepdim=True).float()
        return torch.stack(found, dim=-1), there.expand(-1, len(found))

    def coverage(self, codes: Sequence[Any]) -> list[float]:
        return [1.0] * len(self.ordered)

    def conflicts(self, codes: Sequence[Any]) -> list[Conflict]:
        """Pairs of rules about one class that no mask follows together."""
        found = []
        areas = [i for i, rule in enumerate(self.ordered) if rule.kind == "area"]
        for i, j in combinations(areas, 2):
            (low, high), (other_low, other_high) = self.ordered[i].values, self.ordered[j].values
            if self.classes[i] == self.classes[j] and (low > other_high or other_low > high):
                found.append(Conflict((i, j), None, "their areas have no share in common"))
        return found


# --- the value of each kind: foreground (B, S, H, W), what counts (B, 1, H, W), the rule's numbers -> (B, S) ---------


def area(y: Tensor, counts: Tensor, values: tuple[float, ...]) -> Tensor:
    low, high = values
    share = y.sum((2, 3)) / counts.sum((2, 3)).clamp_min(1)
    below = share / low if low > 0 else torch.ones_like(share)
    above = (1 - share) / (1 - high) if high < 1 else torch.ones_like(share)
    return torch.minimum(below, above).clamp(0, 1)


def connected(y: Tensor, counts: Tensor, values: tuple[float, ...]) -> Tensor:
    """The share of the foreground in its largest pieces. The pieces of all masks are labelled in one call, on the
    CPU."""
    from scipy.ndimage import label

    masks, whole = y.flatten(0, 1).cpu().numpy() > 0, y.flatten(0, 1).flatten(1).sum(1).cpu().numpy()
    sides = np.zeros((3, 3, 3), dtype=bool)
    sides[1] = [[False, True, False], [True, True, True], [False, True, False]]  # pieces do not cross masks
    pieces, count = label(masks, sides)
    sizes = np.bincount(pieces.reshape(-1), minlength=count + 1)[1:]
    owner = np.zeros(count, dtype=np.int64)
    where = np.nonzero(pieces)
    owner[pieces[where] - 1] = where[0]
    order = np.lexsort((-sizes, owner))  # by mask, the largest first
    begins = np.searchsorted(owner[order], np.arange(len(masks)))
    rank = np.arange(count) - begins[owner[order]]
    kept = order[rank < values[0]]
    largest = np.bincount(owner[kept], weights=sizes[kept], minlength=len(masks))
    share = np.where(whole > 0, largest / np.maximum(whole, 1), 1.0)
    return torch.from_numpy(share).to(y).view(y.shape[:2])


def smooth(y: Tensor, counts: Tensor, values: tuple[float, ...]) -> Tensor:
    """The share of the pixels that are as most pixels around them. Only pixels that count vote, and a pixel agrees with
    a tie."""
    size = int(values[0])

    def around(part: Tensor) -> Tensor:
        return F.avg_pool2d(part, size, stride=1, padding=size // 2, divisor_override=1)

    votes = 2 * around(y) - around(counts)  # above 0: most are foreground
    agrees = ((votes == 0) | ((votes > 0) == (y > 0))).float() * counts
    return agrees.sum((2, 3)) / counts.sum((2, 3)).clamp_min(1)


FUNCTIONS = {
    "area": area,
    "connected": connected,
    "smooth": smooth,
}
