"""The best tag sequence of a linear chain in which no role begins twice.

A state of Viterbi's algorithm is then a tag and the set of the roles that have begun (Täckström, Ganchev & Das 2015).
For each sentence only some roles are followed: at first none, then those that its result repeats, until it repeats
none. A result that repeats nothing is the best, since the sequences that repeat nothing were all among its rivals.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .crf import viterbi
from .sequences import IGNORED, at_least_float32, pack, unpack

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
