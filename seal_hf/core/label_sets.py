"""Sparse label sets: candidates over 10⁴ to 10⁶ labels, each holding only a few.

A candidate row over L labels is either a tensor (B, S, L) or a [`LabelSets`]. Energies, costs and log-probabilities
need two sums over a set; only these two functions differ between the representations:

    dot(y, w)_bs       = Σ_j y_bsj w_bj        a number per label and input: scores, logits, the gold
    sum_rows(y, A)_bs  = Σ_j y_bsj A_j         a row per label: the matrix of the global term

The rest of this file draws and cuts label sets without ever making a B x K x L tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

# labels: sparse is already 3 times as fast at 1000 (benchmarks/cost/label_scale.json); dense is exact
SPARSE_FROM = 2000
AT_ONCE = 2**16  # labels per part of a sum over all labels: keeps its memory small
CERTAIN = 40.0  # from this λ on, P(N = 0) = exp(-λ) is below the rounding of a double


@dataclass
class LabelSets:
    """S label sets per input, each stored as the labels that it holds.

    Sets of one origin (the output, the gold, the samples) form one block of one width, so that an output of 256 labels
    does not widen samples of 10.

    Attributes:
        blocks: pairs of `index` (B, S_i, M_i), int64 in 0..L-1, and `value` (B, S_i, M_i) in [0, 1]; 0 is padding.
            Σ S_i = S. No label occurs twice in a set with a value other than 0.
        num_labels: L.
        dropped: (B,) mass Σ_j ŷ_j that [`truncate`] left out of the relaxed output; None if nothing was cut.
    """

    blocks: tuple[tuple[Tensor, Tensor], ...]
    num_labels: int
    dropped: Tensor | None = None

    @property
    def shape(self) -> torch.Size:
        """(B, S, L), as the dense tensor has."""
        batch = self.blocks[0][0].shape[0]
        return torch.Size((batch, sum(index.shape[1] for index, _ in self.blocks), self.num_labels))

    @property
    def requires_grad(self) -> bool:
        """True if the values of a block do, as of the dense tensor."""
        return any(value.requires_grad for _, value in self.blocks)

    def float(self) -> LabelSets:
        return LabelSets(tuple((i, value.float()) for i, value in self.blocks), self.num_labels, self.dropped)

    def __getitem__(self, key: tuple[slice, slice]) -> LabelSets:
        """Some of the candidates, `y[:, a:b]`, as with the dense tensor."""
        rows, columns = key
        if rows != slice(None) or not isinstance(columns, slice) or columns.step not in (None, 1):
            raise TypeError(f"LabelSets take y[:, a:b], a slice of candidates; got y[{rows}, {columns}].")
        start, stop, _ = columns.indices(self.shape[1])
        blocks, first = [], 0
        for index, value in self.blocks:
            here = slice(max(start - first, 0), max(stop - first, 0))
            first += index.shape[1]
            if index[:, here].shape[1]:
                blocks.append((index[:, here], value[:, here]))
        return LabelSets(tuple(blocks), self.num_labels, self.dropped)

    def compact(self) -> tuple[Tensor, LabelSets]:
        """The U labels that occur, (U,) ascending, and the same sets over these labels alone. The host reads U, so this
        waits for the device."""
        labels, places = torch.unique(torch.cat([i.flatten() for i, _ in self.blocks]), return_inverse=True)
        parts = places.split([index.numel() for index, _ in self.blocks])
        blocks = tuple((p.view_as(i), value) for p, (i, value) in zip(parts, self.blocks, strict=True))
        return labels, LabelSets(blocks, len(labels), self.dropped)

    def to_dense(self) -> Tensor:
        """The dense tensor (B, S, L), for tests and small L."""
        parts = []
        for index, value in self.blocks:
            zeros = value.new_zeros(*index.shape[:2], self.num_labels)
            parts.append(zeros.scatter_add(-1, index, value))
        return torch.cat(parts, dim=1)


def from_dense(y: Tensor) -> LabelSets:
    """The sparse sets with the nonzero entries of a dense tensor (B, S, L). The host reads the width of the widest
    set."""
    batch, sets, num_labels = y.shape
    place, label = y.detach().flatten(0, 1).nonzero(as_tuple=True)  # (N,) which set, ascending; which label
    count = torch.bincount(place, minlength=batch * sets)
    slot = torch.arange(len(place), device=y.device) - (count.cumsum(0) - count)[place]
    width = max(int(count.max()), 1)
    index = torch.zeros(batch * sets, width, dtype=torch.long, device=y.device)
    index[place, slot] = label
    index = index.view(batch, sets, width)
    filled = torch.arange(width, device=y.device) < count.view(batch, sets, 1)
    return LabelSets(((index, y.gather(-1, index) * filled),), num_labels)


def concatenate(parts: Sequence[LabelSets]) -> LabelSets:
    """The candidates of all parts side by side, like `torch.cat(parts, dim=1)`."""
    dropped = next((part.dropped for part in parts if part.dropped is not None), None)
    return LabelSets(tuple(block for part in parts for block in part.blocks), parts[0].num_labels, dropped)


def dot(y: Tensor | LabelSets, weights: Tensor) -> Tensor:
    """Σ_j y_bsj w_bj: sets of shape (B, S, L), weights (B, L) -> (B, S)."""
    if isinstance(y, Tensor):
        return torch.einsum("bsl,bl->bs", y, weights)
    gathered = [(weights.gather(1, i.flatten(1)).view_as(value) * value).sum(-1) for i, value in y.blocks]
    return torch.cat(gathered, dim=1)


def sum_rows(y: Tensor | LabelSets, table: Tensor) -> Tensor:
    """Σ_j y_bsj A_j: sets of shape (B, S, L), table A (L, D) -> (B, S, D)."""
    if isinstance(y, Tensor):
        return y @ table
    bags = [
        F.embedding_bag(i.flatten(0, 1), table, per_sample_weights=value.flatten(0, 1), mode="sum").view(
            *i.shape[:2], table.shape[1]
        )
        for i, value in y.blocks
    ]
    return torch.cat(bags, dim=1)


def squared(y: Tensor | LabelSets) -> Tensor | LabelSets:
    """y², entry by entry: sets of the same shape."""
    if isinstance(y, Tensor):
        return y**2
    return LabelSets(tuple((index, value**2) for index, value in y.blocks), y.num_labels, y.dropped)


def total(y: Tensor | LabelSets) -> Tensor:
    """Σ_j y_bsj, the size of each set: (B, S)."""
    return y.sum(-1) if isinstance(y, Tensor) else torch.cat([value.sum(-1) for _, value in y.blocks], dim=1)


def hashes(y: LabelSets) -> Tensor:
    """One int64 per set of values in {0, 1}: (B, S). Equal sets have equal hashes; others collide once in 2⁶⁴.

    It is the sum of the labels' hashes (multiplications and shifts of SplitMix64, Steele et al. 2014), in any order.
    """

    def shifted(label: Tensor) -> Tensor:
        return (label >> 31) & 0x1FFFFFFFF  # a logical shift: no sign bits come in

    def mixed(label: Tensor) -> Tensor:
        for factor in (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15):  # 0xBF58476D1CE4E5B9 and 0x94D049BB133111EB, signed
            label = (label ^ shifted(label)) * factor
        return label ^ shifted(label)

    golden = -0x61C8864680B583EB  # 0x9E3779B97F4A7C15, signed: spreads labels far apart, and maps none to 0
    return torch.cat([(mixed((i + 1) * golden) * (value > 0)).sum(-1) for i, value in y.blocks], dim=1)


@torch.no_grad()
def sample_bernoulli(logits: Tensor, num_samples: int, generator: torch.Generator) -> LabelSets:
    """Draw K exact samples of independent Bernoulli(σ(z_j)), from about Σ_j σ(z_j) random numbers for each instead of
    L.

    Poisson splitting. Let N_j ~ Poisson(λ_j), independent, with λ_j = -log(1 - σ(z_j)) = softplus(z_j); then
    P(N_j >= 1) = 1 - exp(-λ_j) = σ(z_j). Independent Poisson counts are equivalent to N ~ Poisson(Λ) events in total,
    Λ = Σ_j λ_j, each of which falls on label j with probability λ_j / Λ (Kingman 1993, Poisson Processes, §1.2). So:
    draw N, draw N labels through the inverse of the cumulative sum, and keep each label once. Sums and uniform numbers
    are doubles, and λ is cut at 40, where 1 - exp(-λ) rounds to 1: rare labels keep their rates to about 1e-16 Λ.

    The host reads the largest N and the size of the largest set, once each, for the width of the block.

    Args:
        logits: (B, L).
        num_samples: K.
        generator: the only source of random numbers.

    Raises:
        ValueError: the sets have so many labels that sparse samples would cost more than dense ones.
    """
    batch, num_labels = logits.shape
    rate = F.softplus(logits.float()).clamp_max_(CERTAIN)
    cumulative = rate.cumsum(-1, dtype=torch.float64)  # (B, L)
    mean = cumulative[:, -1:]  # (B, 1) Λ
    events = torch.poisson(mean.expand(batch, num_samples), generator=generator)  # (B, K)
    width = max(int(events.max()), 1)
    _refuse_crowded(width, batch, num_samples, num_labels)
    shape = (batch, num_samples, width)
    uniform = torch.rand(shape, dtype=torch.float64, device=logits.device, generator=generator)  # in [0, 1)
    beyond = torch.arange(width, device=logits.device) >= events.unsqueeze(-1)
    place = uniform.masked_fill_(beyond, 1.0).flatten(1) * mean  # beyond the N events: past the last label
    index = torch.searchsorted(cumulative, place, right=True)  # right: a label of rate 0 is never drawn
    index = index.view(shape).sort(-1).values
    twice = torch.zeros_like(beyond)
    twice[..., 1:] = index[..., 1:] == index[..., :-1]
    index = index.masked_fill(twice, num_labels).sort(-1).values
    held = index < num_labels
    width = max(int(held.sum(-1).max()), 1)  # duplicates are gone: often much narrower
    index, held = index[..., :width], held[..., :width]
    return LabelSets(((index.masked_fill(~held, 0), held.to(rate.dtype)),), num_labels)


def truncate(logits: Tensor, mass: float, width: int) -> LabelSets:
    """The relaxed output ŷ = σ(z), cut to its largest entries: (B, L) -> sets (B, 1, ·), differentiable in `logits`.

    Each row keeps its largest ŷ_j until they hold the share `mass` of Σ_j ŷ_j, at most `width` of them. `dropped` is
    the mass left out, r = Σ_dropped ŷ_j.
    """
    num_labels = logits.shape[1]
    with torch.no_grad():
        parts = logits.split(AT_ONCE, dim=-1)
        whole = sum(torch.sigmoid(part.float()).sum(-1, keepdim=True) for part in parts)  # (B, 1)
        index = logits.topk(min(width, num_labels)).indices
    value = torch.sigmoid(logits.gather(1, index).float())  # (B, M), largest first
    with torch.no_grad():
        before = value.cumsum(-1) - value
        keep = before < mass * whole if mass < 1 else torch.ones_like(value, dtype=torch.bool)
        dropped = (whole - (value * keep).sum(-1, keepdim=True)).clamp_min(0).squeeze(1)
    return LabelSets(((index.unsqueeze(1), (value * keep).unsqueeze(1)),), num_labels, dropped)


def _refuse_crowded(width: int, batch: int, num_samples: int, num_labels: int) -> None:
    if width > num_labels // 8 and batch * num_samples * width > 2**24:
        raise ValueError(
            f"The task-net draws samples of up to {width} labels out of {num_labels}: sparse sampling would cost more "
            "than dense. A fresh output layer without bias gives every label the probability 1/2: start its bias at "
            "the labels' rates (`for_data` or `from_pretrained(..., label_rates=...)`), or set "
            "`sparse_labels_from` above the number of labels to sample densely."
        )
