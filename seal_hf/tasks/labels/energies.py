"""Energies for label sets: a local term per label and a global term over the whole set."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...core.energy import Energy, of_shape
from ...core.label_sets import LabelSets, dot, squared, sum_rows


class LabelEnergy(Energy):
    """E(x, y) = - Σ_i y_i b_iᵀ T(x) + global term(y)

    Tables have one row per label; a sparse label set reads only the rows of its labels.

    Args:
        num_labels: L.
        feature_size: H, the width of T(x).
        global_size: G, the width of the global term; 0: only the local term, an energy without dependencies between
            labels.
    """

    space = "multi_label"

    def __init__(self, num_labels: int, feature_size: int, global_size: int):
        super().__init__()
        self.label_embeddings = nn.Embedding(num_labels, feature_size)  # b: (L, H)
        self.has_global_term = global_size > 0

    def reset_parameters(self) -> None:
        """Initialise the label table by Xavier uniform, the authors' choice."""
        nn.init.xavier_uniform_(self.label_embeddings.weight)

    def forward(self, features: Tensor, y: Tensor | LabelSets, mask: Tensor | None = None) -> Tensor:
        """Energies (B, S) of label sets y (B, S, L), with entries in [0, 1], for features (B, H). The features are used
        once for all S candidates."""
        labels = None
        if isinstance(y, LabelSets):  # the same sums over the U labels that occur
            labels, y = y.compact()

        def rows(table: nn.Embedding) -> Tensor:
            return table.weight if labels is None else table(labels)

        return self._energies(features @ rows(self.label_embeddings).T, y, rows)

    def at(self, features: Tensor, mask: Tensor | None = None) -> Callable[[Tensor | LabelSets], Tensor]:
        """As in `Energy`. The labels' scores, b_iᵀ T(x), are computed once."""
        with torch.no_grad():
            scores = features @ self.label_embeddings.weight.T
        return lambda y: self._energies(scores, y, lambda table: table.weight.detach())

    def _energies(self, scores: Tensor, y: Tensor | LabelSets, rows: Callable[[nn.Embedding], Tensor]) -> Tensor:
        """Energies (B, S) of label sets over U labels, given the scores b_iᵀ T(x), (B, U)."""
        local = dot(y, scores)
        return of_shape(self.global_term(y, rows), y, "`global_term`") - local if self.has_global_term else -local

    @abstractmethod
    def global_term(self, y: Tensor | LabelSets, rows: Callable[[nn.Embedding], Tensor]) -> Tensor:
        """The global term, lower = better: (B, S). `rows` gives a table's rows for the labels of `y`."""


class MultiLabelEnergy(LabelEnergy):
    """E(x, y) = - Σ_i y_i b_iᵀ T(x) - vᵀ softplus(M y + c)        (SEAL Eq. 2, as an energy: lower = better)

    The energy of SPEN, DVN and SEAL. The printed Eq. 2 lacks the minus signs; the authors' code maximises the same
    expression. The sign is a convention: b, v, M and c are all learned. M (G, L) is stored as its transpose.
    """

    def __init__(self, num_labels: int, feature_size: int, global_size: int):
        super().__init__(num_labels, feature_size, global_size)
        if self.has_global_term:
            self.projection = nn.Embedding(num_labels, global_size)  # Mᵀ: (L, G)
            self.bias = nn.Parameter(torch.empty(global_size))  # c
            self.direction = nn.Linear(global_size, 1, bias=False)  # v
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise v with normal values of variance 2 / rows(M), and M like PyTorch's linear layers, as the authors
        do."""
        super().reset_parameters()
        if not self.has_global_term:
            return
        bound = 1 / math.sqrt(self.projection.num_embeddings)  # of a linear layer with L inputs
        nn.init.uniform_(self.projection.weight, -bound, bound)
        nn.init.zeros_(self.bias)
        nn.init.normal_(self.direction.weight, std=math.sqrt(2 / self.direction.in_features))

    def global_term(self, y: Tensor | LabelSets, rows: Callable[[nn.Embedding], Tensor]) -> Tensor:
        hidden = F.softplus(sum_rows(y, rows(self.projection)) + self.bias)  # (B, S, G)
        return -self.direction(hidden).squeeze(-1)


class PairwiseEnergy(LabelEnergy):
    """E(x, y) = - Σ_i y_i b_iᵀ T(x) - Σ_{i<j} W_ij y_i y_j,        W = Mᵀ diag(v) M

    A conditional random field with a weight for each pair of labels (Ghamrawi & McCallum 2005), of rank G, computed as
    in a factorisation machine (Rendle 2010, Lemma 3.1) in O(L G) instead of O(L²):

        Σ_{i<j} W_ij y_i y_j = ½ Σ_g v_g [ (Σ_i M_gi y_i)² - Σ_i M_gi² y_i² ]

    It is linear in each y_i. So E(x, ŷ) of a relaxed output is the mean of E(x, y) over label sets drawn from ŷ, which
    the task-net's term is meant to be. The softplus of [`MultiLabelEnergy`] lacks this property.
    """

    def __init__(self, num_labels: int, feature_size: int, global_size: int):
        super().__init__(num_labels, feature_size, global_size)
        if self.has_global_term:
            self.projection = nn.Embedding(num_labels, global_size)  # Mᵀ: (L, G)
            self.direction = nn.Parameter(torch.empty(global_size))  # v
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise M as [`MultiLabelEnergy`] does, and v with alternating signs: half of the G factors attract, half
        repel."""
        super().reset_parameters()
        if self.has_global_term:
            bound = 1 / math.sqrt(self.projection.num_embeddings)
            nn.init.uniform_(self.projection.weight, -bound, bound)
            with torch.no_grad():
                self.direction.fill_(1.0)[1::2] = -1.0

    def global_term(self, y: Tensor | LabelSets, rows: Callable[[nn.Embedding], Tensor]) -> Tensor:
        table = rows(self.projection)
        squares = (table**2) @ self.direction  # W_ii: (L,)
        together = sum_rows(y, table) ** 2 @ self.direction  # (B, S)
        return (sum_rows(squared(y), squares.unsqueeze(1)).squeeze(-1) - together) / 2
