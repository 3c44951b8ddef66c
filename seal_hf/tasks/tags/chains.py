"""Linear chains: exact sums, maxima and samples over all C^T tag sequences of a conditional random field (Lafferty et
al. 2001).

The score of a tag sequence y_1 .. y_n with emissions e (T, C) and transitions A (C, C) from row to column is

    s(y) = start[y_1] + Σ_t e_t[y_t] + Σ_{t > 1} A[y_{t-1}, y_t] + end[y_n],     P(y) = exp(s(y) - log Z)

Positions of a batch count where `mask` (B, T) is true. It may have holes (sub-words after a word's first, special
tokens): counted positions are neighbours, in their order. Values elsewhere have no influence, not even NaN. A row
without counted positions has one sequence, the empty one, with score 0 and log Z = 0.

A transition, start or end of -inf forbids a sequence, which then has probability 0 and no gradient. Everything is
computed in float32, or in float64 if the emissions are. Nothing here synchronises with the device; loops are over T.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...core.tensors import IGNORED, at_least_float32, inverse_transform, pack, take, unpack
from ...core.trees import has_trees, levels_of

TINY = {torch.float64: 1e-200, torch.float32: 1e-30}  # of a sum of terms of at most 1; 1 / TINY is finite
LOWEST = -1e30  # stands for -inf in sums, since the gradient of a sum of -inf alone would be NaN


def _prepare(
    emissions: Tensor, transitions: Tensor, mask: Tensor, start: Tensor | None, end: Tensor | None
) -> tuple[Tensor, ...]:
    """Packed mask, packed emissions with zeros where nothing counts, transitions, start, end; at least float32."""
    mask, emissions = pack(mask, at_least_float32(emissions))
    none = emissions.new_zeros(emissions.shape[-1])
    weights = (none if w is None else w.to(emissions.dtype) for w in (transitions, start, end))
    return mask, emissions.masked_fill(~mask.unsqueeze(2), 0), *weights


def _messages(emissions: Tensor, transitions: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """The recursion of the forward algorithm, by products with exp A: no tensor holds each transition of each row.

    Args:
        emissions: (B, T, C), or (D, B, T, C) of D chains.
        transitions, start: (C, C) and (C,), or (D, C, C) and (D, 1, C).

    Returns:
        for each position and tag, log Σ exp of the scores of all tags before it, with the transition to it but without
        its own emission, as `emissions`. A number is subtracted at each position, so that they stay small. What was
        subtracted there, (B, T) or (D, B, T). A tag that is less likely than the best by `TINY` counts as forbidden.
    """
    exact = torch.float32 if emissions.device.type == "mps" else torch.float64  # sums of small numbers; MPS has no more
    tiny, kind, emissions = TINY[exact], emissions.dtype, emissions.to(exact)
    top = transitions.detach().amax((-2, -1), keepdim=True)
    weights = (transitions - top).to(exact).exp()
    messages = [start.to(exact).expand_as(emissions[..., 0, :])]
    for e in emissions[..., :-1, :].unbind(-2):
        sums = torch.softmax(messages[-1] + e, dim=-1) @ weights
        messages.append(sums.clamp_min(tiny).log().masked_fill(sums < tiny, LOWEST))
    found = torch.stack(messages, dim=-2)
    scales = torch.logsumexp((found + emissions)[..., :-1, :], dim=-1) + top
    return found.to(kind), F.pad(scales, (1, 0)).to(kind)


def _log_z(messages: Tensor, scales: Tensor, emissions: Tensor, end: Tensor, mask: Tensor) -> Tensor:
    """log Z from what [`_messages`] found of packed rows: (B,), below `LOWEST` / 2 if every sequence is forbidden."""
    last = (mask.sum(1, keepdim=True) - 1).clamp_min(0)  # (B, 1)
    ending = take(messages + emissions, last).squeeze(1) + end
    return torch.logsumexp(ending, dim=1) + scales.masked_fill(~mask, 0).sum(1)


def log_partition(
    emissions: Tensor, transitions: Tensor, mask: Tensor, start: Tensor | None = None, end: Tensor | None = None
) -> Tensor:
    """log Z = log Σ_y exp s(y), by the forward algorithm.

    Args:
        emissions: (B, T, C).
        transitions: (C, C), from row to column.
        mask: (B, T) bool.
        start, end: (C,); 0 by default.

    Returns:
        (B,), -inf if every sequence is forbidden.
    """
    if emissions.shape[1] == 0:
        return emissions.sum((1, 2))
    mask, *values = _prepare(emissions, transitions, mask, start, end)
    emissions, transitions, start, end = (w.clamp_min(LOWEST) for w in values)
    log_z = _log_z(*_messages(emissions, transitions, start), emissions, end, mask)
    return log_z.masked_fill(log_z < LOWEST / 2, float("-inf")).masked_fill(~mask[:, 0], 0)


def marginals(
    emissions: Tensor, transitions: Tensor, mask: Tensor, start: Tensor | None = None, end: Tensor | None = None
) -> Tensor:
    """P(y_t = c), the gradient of log Z in the emissions, by the forward-backward algorithm; differentiable.

    Arguments as for `log_partition`.

    Returns:
        (B, T, C), 0 at positions that do not count, and in a row whose sequences are all forbidden.
    """
    if emissions.shape[1] == 0:
        return at_least_float32(emissions)
    packed, *values = _prepare(emissions, transitions, mask, start, end)
    emissions, transitions, start, end = (w.clamp_min(LOWEST) for w in values)
    places = torch.arange(emissions.shape[1], device=emissions.device)
    back = (packed.sum(1, keepdim=True) - 1 - places).clamp_min(0)  # (B, T): counted positions from the last
    messages, scales = _messages(  # of both directions at once: half as many steps
        torch.stack([emissions, take(emissions, back)]),
        torch.stack([transitions, transitions.T]),
        torch.stack([start, end]).unsqueeze(1),
    )
    p = torch.softmax(messages[0] + emissions + take(messages[1], back), dim=-1)
    allowed = _log_z(messages[0], scales[0], emissions, end, packed) > LOWEST / 2
    return unpack(mask, p.masked_fill(~allowed[:, None, None], 0))


@torch.no_grad()
def sample(
    emissions: Tensor,
    transitions: Tensor,
    mask: Tensor,
    noise: Tensor,
    start: Tensor | None = None,
    end: Tensor | None = None,
) -> Tensor:
    """K independent tag sequences y ~ P, exact: forward filtering, backward sampling.

    From the last position to the first, a tag is drawn from P(y_t | y_{t+1}), by the noise of its own position.

    Args:
        emissions, transitions, mask, start, end: as for `log_partition`.
        noise: (B, T, K), uniform in (0, 1).

    Returns:
        (B, K, T) int64, -100 at positions that do not count. Meaningless if every sequence of a row is forbidden.
    """
    if emissions.shape[1] == 0:
        return noise.long().transpose(1, 2)
    packed, *values = _prepare(emissions, transitions, mask, start, end)
    emissions, transitions, start, end = (w.clamp_min(LOWEST) for w in values)
    _, noise = pack(mask, noise)
    messages, _ = _messages(emissions, transitions, start)
    ending = packed & ~torch.cat([packed[:, 1:], packed.new_zeros(len(packed), 1)], dim=1)  # (B, T): the last position
    before, tags, drawn = transitions.T.contiguous(), noise.new_zeros(noise[:, 0].shape, dtype=torch.long), []
    for here, u, is_last in zip(*(x.unbind(1)[::-1] for x in (messages + emissions, noise, ending)), strict=True):
        after = torch.where(is_last[:, None, None], end, before[tags])  # (B, K, C)
        p = torch.softmax(here.unsqueeze(1) + after, dim=-1)
        tags = inverse_transform(p, u.unsqueeze(-1)).squeeze(-1)
        drawn.append(tags)
    return unpack(mask, torch.stack(drawn[::-1], dim=2), dim=2, fill=IGNORED)


def sequence_score(
    emissions: Tensor,
    transitions: Tensor,
    y: Tensor,
    mask: Tensor,
    start: Tensor | None = None,
    end: Tensor | None = None,
) -> Tensor:
    """s(y) of tag sequences.

    Args:
        y: tags (B, T) int64, with any value where the mask is false; or candidates (B, S, T, C), one-hot or on the
            simplex. On the simplex s is multilinear: the expected score if positions were independent.
        emissions, transitions, mask, start, end: as for `log_partition`.

    Returns:
        (B,) for tags, (B, S) for candidates; -inf for a forbidden sequence.
    """
    if emissions.shape[1] == 0:
        return emissions.new_zeros(y.shape[: y.dim() // 2])  # (B,) or (B, S)
    packed, emissions, transitions, start, end = _prepare(emissions, transitions, mask, start, end)
    last = packed & ~torch.cat([packed[:, 1:], packed.new_zeros(len(packed), 1)], dim=1)  # (B, T)
    if y.dim() == 2:
        _, y = pack(mask, y)
        y = y.masked_fill(~packed, 0)
        pairs = transitions[y[:, :-1], y[:, 1:]].masked_fill(~packed[:, 1:], 0).sum(1)
        edges = start[y[:, 0]].masked_fill(~packed[:, 0], 0) + end[y].masked_fill(~last, 0).sum(1)
        return emissions.gather(2, y.unsqueeze(2)).squeeze(2).sum(1) + pairs + edges

    _, y = pack(mask, y, dim=2)
    y = y.masked_fill(~packed[:, None, :, None], 0).to(emissions.dtype)
    y_last = (y * last[:, None, :, None]).sum(2)  # (B, S, C)

    def chain(transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
        pairs = ((y[:, :, :-1] @ transitions) * y[:, :, 1:]).sum((2, 3))
        return y[:, :, 0] @ start + pairs + y_last @ end

    parts = (transitions, start, end)
    with torch.autocast(y.device.type, enabled=False):
        score = torch.einsum("bstc,btc->bs", y, emissions) + chain(*(w.masked_fill(w.isneginf(), 0) for w in parts))
        with torch.no_grad():  # 0 times -inf would be NaN
            forbidden = chain(*(w.isneginf().to(y.dtype) for w in parts)) > 0
    return score.masked_fill(forbidden, float("-inf"))


def log_probability(
    emissions: Tensor,
    transitions: Tensor,
    y: Tensor,
    mask: Tensor,
    start: Tensor | None = None,
    end: Tensor | None = None,
) -> Tensor:
    """log P(y) = s(y) - log Z, with arguments and shapes of `sequence_score`; -inf for a forbidden sequence."""
    log_z = log_partition(emissions, transitions, mask, start, end)
    log_z = log_z.masked_fill(log_z.isneginf(), 0)  # every s(y) is -inf then
    score = sequence_score(emissions, transitions, y, mask, start, end)
    return score - (log_z if score.dim() == 1 else log_z.unsqueeze(1))


@torch.no_grad()
def viterbi(
    emissions: Tensor, transitions: Tensor, mask: Tensor, start: Tensor | None = None, end: Tensor | None = None
) -> Tensor:
    """The tag sequence with the highest score: (B, T) int64, -100 at positions that do not count.

    Arguments as for `log_partition`. The result is meaningless if no sequence of a row's length is allowed.
    """
    if emissions.shape[1] == 0:
        return mask.long()
    packed, emissions, transitions, start, end = _prepare(emissions, transitions, mask, start, end)
    stay = torch.arange(emissions.shape[2], device=emissions.device).expand(emissions.shape[0], -1)  # (B, C)
    delta, back = start + emissions[:, 0], []
    for t in range(1, emissions.shape[1]):
        best, previous = (delta.unsqueeze(2) + transitions).max(dim=1)
        here = packed[:, t, None]
        delta = torch.where(here, best + emissions[:, t], delta)
        back.append(torch.where(here, previous, stay))
    tags = [(delta + end).argmax(1, keepdim=True)]  # (B, 1) each, from the end
    for previous in reversed(back):
        tags.append(previous.gather(1, tags[-1]))
    return unpack(mask, torch.cat(tags[::-1], dim=1), fill=IGNORED)


class CRF(nn.Module):
    """A linear-chain conditional random field over a task-net's logits (Lafferty et al. 2001).

    Its parameters start at zero: positions are then independent, and P is the softmax of the logits.

    Args:
        num_tags: C.
        tied: a `TiedTags`, if transitions are between groups of tags; default: between tags.
    """

    def __init__(self, num_tags: int, tied: Any = None):
        super().__init__()
        self.num_tags, self.tied = num_tags, tied
        size = num_tags if tied is None else tied.num_groups
        self.transitions = nn.Parameter(torch.zeros(size, size))  # from row to column
        self.start = nn.Parameter(torch.zeros(size))
        self.end = nn.Parameter(torch.zeros(size))

    def forward(self, emissions: Tensor, labels: Tensor) -> Tensor:
        """The loss -log P(labels), (B,), at least 0, for logits (B, T, C) and labels (B, T), -100 where a position does
        not count."""
        weights = {"transitions": self.transitions, "start": self.start, "end": self.end}
        function = log_probability if self.tied is None else self.tied.log_probability
        return -function(emissions, y=labels, mask=labels != IGNORED, **weights)


# The best tag sequence of a linear chain in which no role begins twice.
#
# A state of Viterbi's algorithm is then a tag and the set of the roles that have begun (Täckström, Ganchev & Das 2015).
# For each sentence only some roles are followed: at first none, then those that its result repeats, until it repeats
# none. A result that repeats nothing is the best, since the sequences that repeat nothing were all among its rivals.

FREE = -1  # the role of a tag that begins none
_BLOCK = 1 << 24  # scores of pairs of states that are in memory at once


@torch.no_grad()
def unique_viterbi(
    emissions: Tensor, mask: Tensor, roles: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """The tag sequence with the highest score among those in which each role begins at most once: exact.

    Each pass waits for the device. A sentence that repeats nothing costs what [`viterbi`] costs; one with R followed
    roles costs 2^R times as much.

    Args:
        emissions, mask, transitions, start, end: as for [`viterbi`].
        roles: (C,) the number of the role that a tag begins, from 0, or -1.

    Returns:
        (B, T) int64, -100 at positions that do not count; meaningless if no such sequence is allowed.
    """
    tags, size = viterbi(emissions, transitions, mask, start, end), emissions.shape[2]
    numbers = torch.arange(int(roles.max()) + 1, device=roles.device)  # (X,)
    followed = torch.zeros(len(tags), len(numbers), dtype=torch.bool, device=tags.device)
    while True:
        begun = torch.where(tags == IGNORED, FREE, roles[tags.clamp_min(0)])
        repeated = (begun.unsqueeze(2) == numbers).sum(1) > 1  # (B, X)
        followed |= repeated
        again, counts = repeated.any(1), followed.sum(1)
        if not again.any():
            return tags
        bits = torch.where(followed, 2 ** (followed.cumsum(1) - 1).clamp_min(0), 0)
        begins = torch.where(roles == FREE, 0, bits[:, roles.clamp_min(0)])  # (B, C)
        for number in counts[again].unique().tolist():
            for rows in (again & (counts == number)).nonzero().flatten().split(max(1, _BLOCK // (2**number * size**2))):
                parts = (emissions[rows], mask[rows], begins[rows])
                tags[rows] = _best(*parts, 2**number, transitions, start, end)


def _best(
    emissions: Tensor, mask: Tensor, begins: Tensor, sets: int, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """The best sequences in which no followed role begins twice.

    Args:
        begins: (B, C) the bit of the followed role that a tag begins, or 0.
        sets: M, number of sets of followed roles; a set is a sum of bits.
    """
    packed, emissions = pack(mask, at_least_float32(emissions))
    rows, length, size = emissions.shape
    used, begins = torch.arange(sets, device=begins.device).view(1, -1, 1), begins.unsqueeze(1)
    before = used & ~begins  # (B, M, C): the set before a tag that leads to this one
    impossible = (used & begins) != begins
    delta = (start + emissions[:, 0]).unsqueeze(1).masked_fill(impossible | (before > 0), float("-inf"))  # (B, M, C)
    stay = torch.arange(sets * size, device=begins.device).expand(rows, -1)
    back = []
    for t in range(1, length):
        best, previous = (delta.unsqueeze(3) + transitions).max(2)  # over the tag before, with the same set
        here = packed[:, t, None]
        longer = (best.gather(1, before) + emissions[:, t].unsqueeze(1)).masked_fill(impossible, float("-inf"))
        delta = torch.where(here.unsqueeze(2), longer, delta)
        back.append(torch.where(here, (before * size + previous.gather(1, before)).flatten(1), stay))
    states = [(delta + end).flatten(1).argmax(1, keepdim=True)]  # set and tag, from the end
    for previous in reversed(back):
        states.append(previous.gather(1, states[-1]))
    return unpack(mask, torch.cat(states[::-1], dim=1) % size, fill=IGNORED)


# Linear chains over groups of tags: a transition depends on the groups of two tags alone.
#
# With emissions e (T, C), the group g(c) of each tag c, and transitions A (G, G) between groups,
#
#     s(y) = start[g(y_1)] + Σ_t e_t[y_t] + Σ_{t > 1} A[g(y_{t-1}), g(y_t)] + end[g(y_n)]
#
# is a chain over groups, with the emissions E_t[g] = log Σ_{c in g} exp e_t[c], and an independent choice of each tag
# within its group: P(y) = P(groups) Π_t exp(e_t[y_t] - E_t[g(y_t)]). A position costs G² + C, not C².
#
# The groups of the tags of trees are their levels: the tags of a treebank have some 30 levels, but hundreds of labels.


class TiedTags:
    """The functions of this module for tied tags, with the same arguments and results. `transitions`, `start` and `end`
    are those of the groups.

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
        """The object itself, with its tensors moved once."""
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
        return self._scored(log_probability, emissions, y, mask, weights)

    def sequence_score(self, emissions: Tensor, y: Tensor, mask: Tensor, **weights: Tensor) -> Tensor:
        """The score s(y), as in the function [`sequence_score`]."""
        return self._scored(sequence_score, emissions, y, mask, weights)

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
        return marginals(of_groups, mask=mask, **weights)[..., self.groups] * within.exp()

    @torch.no_grad()
    def sample(self, emissions: Tensor, mask: Tensor, noise: Tensor, **weights: Tensor) -> Tensor:
        """K sequences y ~ P. Of the noise (B, T, 2 K), the first half draws groups, the second half tags in them."""
        of_groups, within = self._split(emissions, mask)
        for_groups, for_tags = (part.contiguous() for part in noise.chunk(2, dim=2))
        groups = sample(of_groups, mask=mask, noise=for_groups, **weights)  # (B, K, T)
        number = groups.clamp_min(0).transpose(1, 2)  # (B, T, K)
        sums = within[..., self.order].exp().cumsum(2)  # it reaches g + 1 at the last tag of group g
        place = torch.searchsorted(sums, (number + for_tags).contiguous(), right=True)
        place = torch.minimum(torch.maximum(place, self.first[number]), self.last[number])
        return self.order[place].transpose(1, 2).masked_fill(groups == IGNORED, IGNORED)

    @torch.no_grad()
    def viterbi(self, emissions: Tensor, mask: Tensor, **weights: Tensor) -> Tensor:
        """The best sequence: the best tag of each group stands for the group."""
        emissions = at_least_float32(emissions).masked_fill(~mask.unsqueeze(2), 0)
        groups = viterbi(self._most(emissions), mask=mask, **weights)  # (B, T)
        others = self.groups != groups.clamp_min(0).unsqueeze(2)
        return emissions.masked_fill(others, float("-inf")).argmax(2).masked_fill(groups == IGNORED, IGNORED)


def tied_crf(tag_names: Sequence[str]) -> CRF:
    """A fresh CRF for these tags: between the levels of tags of trees, and between all tags of any other kind."""
    tied = TiedTags(levels_of(tag_names)) if has_trees(tag_names) else None
    return CRF(len(tag_names), tied)
