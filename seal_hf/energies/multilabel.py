"""The multi-label energy of SPEN, DVN and SEAL: a local term per label and a global term over the whole label set."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MultiLabelEnergy(nn.Module):
    """E(x, y) = - Σ_i y_i b_iᵀ T(x) - vᵀ softplus(M y + c)        (SEAL Eq. 2, as an energy: lower = better)

    The printed Eq. 2 has no minus signs; the authors' code maximises the same expression. The sign is a convention: all
    of b, v, M, c are learned.

    Args:
        num_labels: L.
        feature_size: H, the width of T(x).
        global_size: rows of M.
    """

    def __init__(self, num_labels: int, feature_size: int, global_size: int):
        super().__init__()
        self.label_embeddings = nn.Linear(feature_size, num_labels, bias=False)  # b: (L, H)
        self.projection = nn.Linear(num_labels, global_size)  # M, c
        self.direction = nn.Linear(global_size, 1, bias=False)  # v
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Label table Xavier uniform, v normal with variance 2 / rows(M), M as PyTorch's linear layers (the authors'
        choices)."""
        nn.init.xavier_uniform_(self.label_embeddings.weight)
        nn.init.kaiming_uniform_(self.projection.weight, a=math.sqrt(5))
        nn.init.zeros_(self.projection.bias)
        nn.init.normal_(self.direction.weight, std=math.sqrt(2 / self.direction.in_features))

    def forward(self, features: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """features (B, H), y (B, S, L) in [0, 1] -> energies (B, S). The features are used once for all S
        candidates."""
        local_term = torch.einsum("bsl,bl->bs", y, self.label_embeddings(features))
        global_term = self.direction(F.softplus(self.projection(y))).squeeze(-1)
        return -(local_term + global_term)
