"""The multi-label energy of SPEN, DVN and SEAL: a local term per label and a global term over the whole label set."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..label_sets import LabelSets, dot, sum_rows


class MultiLabelEnergy(nn.Module):
    """E(x, y) = - Σ_i y_i b_iᵀ T(x) - vᵀ softplus(M y + c)        (SEAL Eq. 2, as an energy: lower = better)

    The printed Eq. 2 has no minus signs; the authors' code maximises the same expression. The sign is a convention: all
    of b, v, M, c are learned. Both tables have a row per label, M as its transpose: a sparse label set reads
    the rows of its own labels alone.

    Args:
        num_labels: L.
        feature_size: H, the width of T(x).
        global_size: G, rows of M; 0: the local term alone, an energy that knows no dependencies between labels.
    """

    pooled = True  # reads one vector per input
    reads = None  # an encoder's features, no input itself

    def __init__(self, num_labels: int, feature_size: int, global_size: int):
        super().__init__()
        self.label_embeddings = nn.Embedding(num_labels, feature_size)  # b: (L, H)
        self.has_global_term = global_size > 0
        if self.has_global_term:
            self.projection = nn.Embedding(num_labels, global_size)  # Mᵀ: (L, G)
            self.bias = nn.Parameter(torch.empty(global_size))  # c
            self.direction = nn.Linear(global_size, 1, bias=False)  # v
        self.reset_parameters()

    @classmethod
    def from_config(cls, config, feature_size: int) -> MultiLabelEnergy:
        """Of a [`LossNetConfig`], over features of this width."""
        return cls(config.num_labels, feature_size, config.global_size, **(config.energy_options or {}))

    def reset_parameters(self) -> None:
        """Label table Xavier uniform, v normal with variance 2 / rows(M), M as PyTorch's linear layers (the authors'
        choices)."""
        nn.init.xavier_uniform_(self.label_embeddings.weight)
        if not self.has_global_term:
            return
        bound = 1 / math.sqrt(self.projection.num_embeddings)  # of a linear layer with L inputs
        nn.init.uniform_(self.projection.weight, -bound, bound)
        nn.init.zeros_(self.bias)
        nn.init.normal_(self.direction.weight, std=math.sqrt(2 / self.direction.in_features))

    def forward(self, features: Tensor, y: Tensor | LabelSets, mask: Tensor | None = None) -> Tensor:
        """features (B, H), y (B, S, L) in [0, 1] -> energies (B, S). The features are used once for all S
        candidates."""
        labels = None
        if isinstance(y, LabelSets):  # the same sums over the U labels that occur
            labels, y = y.compact()

        def rows(table: nn.Embedding) -> Tensor:
            return table.weight if labels is None else table(labels)

        score = dot(y, features @ rows(self.label_embeddings).T)
        if self.has_global_term:
            hidden = F.softplus(sum_rows(y, rows(self.projection)) + self.bias)  # (B, S, G)
            score = score + self.direction(hidden).squeeze(-1)
        return -score

    @torch.no_grad()
    def truncation_bound(self, features: Tensor, dropped: Tensor) -> Tensor:
        """How far E(x, ŷ) can be from its value on a truncated ŷ: features (B, H), dropped mass r (B,) -> (B,).

            |E(x, ŷ) - E(x, ŷ')| <= r max_j ( |b_jᵀ T(x)| + Σ_g |v_g| |M_gj| ),     r = Σ_j |ŷ_j - ŷ'_j|

        Along the segment from ŷ' to ŷ, ∂E/∂y_j = -b_jᵀ T(x) - Σ_g v_g σ(M y + c)_g M_gj, and 0 < σ < 1 bounds the last
        factor: each unit of mass at label j moves E by at most the term in brackets. Equality is approached where the
        dropped mass lies on the largest label, all signs agree, and M y + c is large. Costs a pass over both tables:
        for a look at a trained net, not for every step.
        """
        local = (features @ self.label_embeddings.weight.T).abs()  # (B, L)
        if self.has_global_term:
            local = local + self.projection.weight.abs() @ self.direction.weight[0].abs()
        return dropped * local.max(1).values
