"""Soft span F1 of relaxed tag sequences: the score s(ŷ, y) of spans such as entities and arguments."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from ..structures.sequences import at_least_float32, pack

LEAST = 1e-30  # lower bound of a probability before the log


class SoftSpanF1:
    """F1 of spans, with expected counts if positions were independent:

        F1 = 2 hits / (gold + predicted)
        hits      = Σ over gold spans [a, b] of Π_{t=a..b} ŷ_t(y_t) · (1 - Σ of ŷ_{b+1} over tags that prolong the span)
        predicted = Σ_t Σ of ŷ_t over the tags that begin a span (B-X, S-X, U-X)

    It is 1 if there is neither a gold span nor any mass on a beginning. Spans are read strictly: a span starts with B-X
    and continues with I-X of the same X; in BIOES (and BIOUL) it ends with E-X (L-X), or is S-X (U-X) alone, and
    nothing prolongs it. Other gold tags do not count. In BIO both expectations are exact; in BIOES a beginning without
    an end counts as predicted. For hard sequences, in BIOES for valid ones, it is the F1 of seqeval's strict mode for
    that sentence. Differentiable in ŷ, except in a gold tag of probability 0, whose gradient is 0.

    Args:
        tags: the C names of the tags: `O`, or a prefix of B I E L S U, a hyphen, and the span's type.
        ignored: types that count neither as gold nor as predicted, such as V in semantic roles, which is given.

    Raises:
        ValueError: a tag has another form, or no tag begins a span.
    """

    def __init__(self, tags: Sequence[str], ignored: Collection[str] = ()):
        parts = [("O", "") if tag == "O" else tuple(tag.split("-", 1)) for tag in tags]
        for tag, part in zip(tags, parts, strict=True):
            if len(part) != 2 or part[0] not in tuple("OBIELSU"):
                raise ValueError(
                    f"The tag {tag!r} is neither O nor of the form B-X (B, I, E, L, S or U, a hyphen, the type), so "
                    "spans cannot be read from the tags. Choose the score of tags instead of spans."
                )
        if not any(prefix in "BSU" for prefix, _ in parts):
            raise ValueError(f"No tag begins a span (B-X, S-X or U-X) among {', '.join(tags)}.")
        closing = "ELSU" if any(prefix in "ELSU" for prefix, _ in parts) else "BI"
        self.begins = torch.tensor([prefix in "BSU" and kind not in ignored for prefix, kind in parts])  # (C,)
        self.closes = torch.tensor([prefix in closing for prefix, _ in parts])  # (C,)
        self.prolongs = torch.tensor(  # (C, C), from the previous tag to this tag
            [[a in "BI" and b in "IEL" and x == y for b, y in parts] for a, x in parts]
        )

    def __call__(self, y_hat: Tensor, gold: Tensor, mask: Tensor) -> Tensor:
        """Candidates (B, S, T, C) on the simplex, gold (B, T, C) one-hot, mask (B, T) bool -> (B, S), in [0, 1]."""
        if self.begins.device != y_hat.device:
            self.begins, self.closes, self.prolongs = (
                table.to(y_hat.device) for table in (self.begins, self.closes, self.prolongs)
            )
        _, y_hat = pack(mask, at_least_float32(y_hat), dim=2)
        mask, tags = pack(mask, gold.argmax(-1))  # (B, T), now without holes
        y_hat = y_hat.masked_fill(~mask[:, None, :, None], 0)
        no = mask.new_zeros(len(mask), 1)

        # gold segments: each is a span, or a tag outside spans
        joined = torch.cat([no, self.prolongs[tags[:, :-1], tags[:, 1:]]], dim=1)[:, : mask.shape[1]] & mask
        first, last = ~joined, ~torch.cat([joined[:, 1:], no], dim=1)[:, : mask.shape[1]]
        segment = first.long().cumsum(1) - 1  # (B, T)
        closed = torch.zeros_like(segment).scatter_add(1, segment, (last & self.closes[tags]).long()).gather(1, segment)
        span = mask & first & self.begins[tags] & (closed > 0)  # at the position where it begins

        right = y_hat.gather(3, tags[:, None, :, None].expand(-1, y_hat.shape[1], -1, 1)).squeeze(3)  # (B, S, T)
        longer = (y_hat[:, :, 1:] * self.prolongs[tags[:, :-1]].unsqueeze(1)).sum(3)  # autocast rounds matmuls
        longer = torch.cat([longer, y_hat.new_zeros(*y_hat.shape[:2], 1)], dim=2)[:, :, : mask.shape[1]]
        log = right.clamp_min(LEAST).log() + (1 - longer).clamp_min(LEAST).log() * last.unsqueeze(1)
        where = segment.unsqueeze(1).expand_as(log)
        found = torch.zeros_like(log).scatter_add(2, where, log).exp().gather(2, where)

        hits = (found * span.unsqueeze(1)).sum(2)
        predicted = (y_hat * self.begins).sum((2, 3))
        total = predicted + span.sum(1, keepdim=True)
        return torch.where(total > 0, 2 * hits / total.where(total > 0, 1), 1).clamp(0, 1)
