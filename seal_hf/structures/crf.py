"""Linear chains: exact sums and maxima over all C^T tag sequences of a conditional random field (Lafferty et al. 2001).

The score of a tag sequence y_1 .. y_n with emissions e (T, C) and transitions A (C, C) from row to column is

    s(y) = start[y_1] + Σ_t e_t[y_t] + Σ_{t > 1} A[y_{t-1}, y_t] + end[y_n],     P(y) = exp(s(y) - log Z)

Positions of a batch count where `mask` (B, T) is true. It may have holes (sub-words after a word's first, special
tokens): counted positions are neighbours, in their order. Values elsewhere have no influence, not even NaN. A row
without counted positions has one sequence, the empty one, with score 0 and log Z = 0.

A transition, start or end of -inf forbids a sequence, which then has probability 0 and no gradient. Everything is
computed in float32, or in float64 if the emissions are. Nothing here synchronises with the device; loops are over T.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .sequences import IGNORED, at_least_float32, pack, unpack


def _prepare(
    emissions: Tensor, transitions: Tensor, mask: Tensor, start: Tensor | None, end: Tensor | None
) -> tuple[Tensor, ...]:
    """Packed mask, packed emissions with zeros where nothing counts, transitions, start, end; at least float32."""
    mask, emissions = pack(mask, at_least_float32(emissions))
    none = emissions.new_zeros(emissions.shape[-1])
    weights = (none if w is None else w.to(emissions.dtype) for w in (transitions, start, end))
    return mask, emissions.masked_fill(~mask.unsqueeze(2), 0), *weights


def _logsumexp(x: Tensor, dim: int) -> Tensor:
    """log Σ exp x; if all x are -inf, -inf without a gradient (torch's gradient is NaN there)."""
    empty = x.isneginf().all(dim)
    return x.masked_fill(empty.unsqueeze(dim), 0).logsumexp(dim).masked_fill(empty, float("-inf"))


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
    mask, emissions, transitions, start, end = _prepare(emissions, transitions, mask, start, end)
    alpha = start + emissions[:, 0]  # (B, C): all sequences up to t that end in a tag
    for t in range(1, emissions.shape[1]):
        longer = _logsumexp(alpha.unsqueeze(2) + transitions, dim=1) + emissions[:, t]
        alpha = torch.where(mask[:, t, None], longer, alpha)
    return _logsumexp(alpha + end, dim=1).masked_fill(~mask[:, 0], 0)


def marginals(
    emissions: Tensor, transitions: Tensor, mask: Tensor, start: Tensor | None = None, end: Tensor | None = None
) -> Tensor:
    """P(y_t = c), the gradient of log Z in the emissions: (B, T, C), 0 at positions that do not count.

    Differentiable if gradients are enabled and an argument requires one. Arguments as for `log_partition`.
    """
    arguments = [x for x in (emissions, transitions, start, end) if x is not None]
    differentiable = torch.is_grad_enabled() and any(x.requires_grad for x in arguments)
    with torch.enable_grad():
        e = at_least_float32(emissions)
        e = e if e.requires_grad else e.detach().requires_grad_()
        log_z = log_partition(e, transitions, mask, start, end).sum()
        (p,) = torch.autograd.grad(log_z, e, create_graph=differentiable)
    return p


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
    """

    def __init__(self, num_tags: int):
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(num_tags, num_tags))  # from row to column
        self.start = nn.Parameter(torch.zeros(num_tags))
        self.end = nn.Parameter(torch.zeros(num_tags))

    def forward(self, emissions: Tensor, labels: Tensor) -> Tensor:
        """-log P(labels) for logits (B, T, C) and labels (B, T), -100 where a position does not count: (B,), >= 0."""
        mask = labels != IGNORED
        log_z = log_partition(emissions, self.transitions, mask, self.start, self.end)
        return log_z - sequence_score(emissions, self.transitions, labels, mask, self.start, self.end)

    def decode(
        self,
        emissions: Tensor,
        mask: Tensor,
        transitions: Tensor | float = 0.0,
        start: Tensor | float = 0.0,
        end: Tensor | float = 0.0,
    ) -> Tensor:
        """The likeliest tags (B, T), -100 where a position does not count. `transitions` (C, C), `start` and `end` (C,)
        are added to the learned ones, such as 0 and -inf for constrained decoding."""
        return viterbi(emissions, self.transitions + transitions, mask, self.start + start, self.end + end)

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """P(y_t = c): (B, T, C), 0 at positions that do not count; differentiable."""
        return marginals(emissions, self.transitions, mask, self.start, self.end)
