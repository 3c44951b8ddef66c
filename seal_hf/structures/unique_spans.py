"""The best tag sequence of a linear chain in which no role begins twice.

A state of Viterbi's algorithm is then a tag and the set of the roles that have begun (Täckström, Ganchev & Das 2015).
Only some roles are followed: at first none, then those that the result repeats, until it repeats none. A result that
repeats nothing is the best, since it was chosen among more sequences than those that repeat nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .crf import viterbi
from .sequences import IGNORED, at_least_float32, pack, unpack

FREE = -1  # the role of a tag that begins none


@torch.no_grad()
def unique_viterbi(
    emissions: Tensor, mask: Tensor, roles: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """The tag sequence with the highest score among those in which each role begins at most once: exact.

    Each pass waits once for the device. The states of a position are C times 2^R for R followed roles.

    Args:
        emissions, mask, transitions, start, end: as for [`viterbi`].
        roles: (C,) the number of the role that a tag begins, from 0, or -1.

    Returns:
        (B, T) int64, -100 at positions that do not count; meaningless if no such sequence is allowed.
    """
    tags = viterbi(emissions, transitions, mask, start, end)
    followed = torch.zeros(int(roles.max()) + 1, dtype=torch.bool)
    while True:
        repeated = _begun(tags, roles, len(followed)) > 1  # (B, X)
        rows = repeated.any(1).nonzero().flatten()
        if not len(rows):
            return tags
        followed |= repeated.any(0).cpu()
        bits = torch.where(followed, 2 ** (followed.cumsum(0) - 1).clamp_min(0), 0).to(roles.device)  # (X,)
        begins = torch.where(roles == FREE, 0, bits[roles.clamp_min(0)])
        tags[rows] = _best(emissions[rows], mask[rows], begins, int(followed.sum()), transitions, start, end)


def _begun(tags: Tensor, roles: Tensor, number: int) -> Tensor:
    """How often each role begins: (B, X)."""
    begun = torch.where(tags == IGNORED, FREE, roles[tags.clamp_min(0)])
    return (begun.unsqueeze(2) == torch.arange(number, device=tags.device)).sum(1)


def _best(
    emissions: Tensor, mask: Tensor, begins: Tensor, number: int, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """The best sequences in which none of `number` roles begins twice; `begins` (C,) is a tag's bit, or 0."""
    packed, emissions = pack(mask, at_least_float32(emissions))
    (rows, length, size), sets = emissions.shape, 1 << number
    used = torch.arange(sets, device=begins.device).unsqueeze(1)  # (M, 1)
    before = used & ~begins  # (M, C): the set before a tag that leads to this one
    impossible = (used & begins) != begins
    source = before.expand(rows, -1, -1)
    delta = (start + emissions[:, 0]).unsqueeze(1).masked_fill(impossible | (before > 0), float("-inf"))  # (B, M, C)
    stay = torch.arange(sets * size, device=begins.device).expand(rows, -1)
    back = []
    for t in range(1, length):
        best, previous = (delta.unsqueeze(3) + transitions).max(2)  # over the tag before, with the same set
        here = packed[:, t, None]
        longer = (best.gather(1, source) + emissions[:, t].unsqueeze(1)).masked_fill(impossible, float("-inf"))
        delta = torch.where(here.unsqueeze(2), longer, delta)
        back.append(torch.where(here, (source * size + previous.gather(1, source)).flatten(1), stay))
    states = [(delta + end).flatten(1).argmax(1, keepdim=True)]  # set and tag, from the end
    for previous in reversed(back):
        states.append(previous.gather(1, states[-1]))
    return unpack(mask, torch.cat(states[::-1], dim=1) % size, fill=IGNORED)
