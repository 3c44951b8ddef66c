"""Linear chains over groups of tags: a transition depends on the groups of two tags alone.

With emissions e (T, C), the group g(c) of each tag c, and transitions A (G, G) between groups,

    s(y) = start[g(y_1)] + Σ_t e_t[y_t] + Σ_{t > 1} A[g(y_{t-1}), g(y_t)] + end[g(y_n)]

is a chain over groups, with the emissions E_t[g] = log Σ_{c in g} exp e_t[c], and an independent choice of each tag
within its group: P(y) = P(groups) Π_t exp(e_t[y_t] - E_t[g(y_t)]). A position costs G² + C, not C².

The groups of the tags of trees are their levels: the tags of a treebank have some 30 levels, but hundreds of labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from . import crf
from .sequences import IGNORED, at_least_float32
from .trees import has_trees, levels_of


class TiedTags:
    """The functions of `crf.py` for tied tags, with their arguments and results; `transitions`, `start` and `end` are
    those of the groups.

    Args:
        groups: C numbers, from 0 to G - 1.
    """

    def __init__(self, groups: Sequence[int]):
        self.groups = torch.tensor(groups)
        self.order = torch.argsort(self.groups, stable=True)  # tags, those of a group side by side
        sizes = torch.bincount(self.groups)
        self.num_groups = len(sizes)
        self.last = sizes.cumsum(0) - 1  # places of each group in that order
        self.first = self.last - sizes + 1

    def to(self, device: torch.device) -> TiedTags:
        """Itself, moved once."""
        if self.groups.device != device:
            for name in ("groups", "order", "first", "last"):
                setattr(self, name, getattr(self, name).to(device))
        return self

    def _split(self, emissions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """E (B, T, G), and log P of each tag within its group, (B, T, C)."""
        emissions = at_least_float32(emissions).masked_fill(~mask.unsqueeze(2), 0)
        most = self._most(emissions.detach())
        sums = torch.zeros_like(most).index_add(2, self.groups, (emissions - most[..., self.groups]).exp())
        of_groups = sums.log() + most
        return of_groups, emissions - of_groups[..., self.groups]

    def _most(self, emissions: Tensor) -> Tensor:
        """The largest emission of each group: (B, T, G)."""
        index = self.to(emissions.device).groups.expand(emissions.shape)
        empty = emissions.new_zeros((*emissions.shape[:2], self.num_groups))
        return empty.scatter_reduce(2, index, emissions, "amax", include_self=False)

    def log_probability(self, emissions: Tensor, y: Tensor, mask: Tensor, **weights: Tensor) -> Tensor:
        """log P(y)."""
        return self._scored(crf.log_probability, emissions, y, mask, weights)

    def sequence_score(self, emissions: Tensor, y: Tensor, mask: Tensor, **weights: Tensor) -> Tensor:
        """s(y)."""
        return self._scored(crf.sequence_score, emissions, y, mask, weights)

    def _scored(
        self, function: Callable[..., Tensor], emissions: Tensor, y: Tensor, mask: Tensor, weights: dict[str, Tensor]
    ) -> Tensor:
        """What a function gives for the groups, and log P of the tags within them."""
        of_groups, within = self._split(emissions, mask)
        if y.dim() == 2:
            y = y.masked_fill(~mask, 0)
            chosen = within.gather(2, y.unsqueeze(2)).squeeze(2).masked_fill(~mask, 0).sum(1)
            return function(of_groups, y=self.groups[y], mask=mask, **weights) + chosen
        y = y.masked_fill(~mask[:, None, :, None], 0).to(within.dtype)
        y_groups = y.new_zeros((*y.shape[:3], self.num_groups)).index_add(3, self.groups, y)
        return function(of_groups, y=y_groups, mask=mask, **weights) + torch.einsum("bstc,btc->bs", y, within)

    def marginals(self, emissions: Tensor, mask: Tensor, **weights: Tensor) -> Tensor:
        """P(y_t = c)."""
        of_groups, within = self._split(emissions, mask)
        return crf.marginals(of_groups, mask=mask, **weights)[..., self.groups] * within.exp()

    @torch.no_grad()
    def sample(self, emissions: Tensor, mask: Tensor, noise: Tensor, **weights: Tensor) -> Tensor:
        """K sequences y ~ P. Of the noise (B, T, 2 K), the first half draws groups, the second half tags in them."""
        of_groups, within = self._split(emissions, mask)
        for_groups, for_tags = (part.contiguous() for part in noise.chunk(2, dim=2))
        groups = crf.sample(of_groups, mask=mask, noise=for_groups, **weights)  # (B, K, T)
        number = groups.clamp_min(0).transpose(1, 2)  # (B, T, K)
        sums = within[..., self.order].exp().cumsum(2)  # it reaches g + 1 at the last tag of group g
        place = torch.searchsorted(sums, (number + for_tags).contiguous(), right=True)
        place = torch.minimum(torch.maximum(place, self.first[number]), self.last[number])
        return self.order[place].transpose(1, 2).masked_fill(groups == IGNORED, IGNORED)

    @torch.no_grad()
    def viterbi(self, emissions: Tensor, mask: Tensor, **weights: Tensor) -> Tensor:
        """The best sequence: the best tag of each group stands for the group."""
        emissions = at_least_float32(emissions).masked_fill(~mask.unsqueeze(2), 0)
        groups = crf.viterbi(self._most(emissions), mask=mask, **weights)  # (B, T)
        others = self.groups != groups.clamp_min(0).unsqueeze(2)
        return emissions.masked_fill(others, float("-inf")).argmax(2).masked_fill(groups == IGNORED, IGNORED)


def tied_crf(tag_names: Sequence[str]) -> crf.CRF:
    """A fresh CRF for these tags: between the levels of tags of trees, and between all tags of any other kind."""
    tied = TiedTags(levels_of(tag_names)) if has_trees(tag_names) else None
    return crf.CRF(len(tag_names), tied)
