"""Energies for tag sequences: local term, linear chain, tag language models, self-attention over tags.

Every energy here reads features (B, T, H), candidates y (B, S, T, C) and the mask (B, T) of the positions that count.
It first moves these positions to the front, in order, so that neighbours are neighbouring words. All energies are exact
on one-hot sequences and differentiable on relaxed ones.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...core.energy import Energy, of_shape
from ...core.tensors import pack, take

TINY = 1e-20  # lower bound of a probability before its logarithm


class TagEnergy(Energy):
    """E(x, y) = - Σ_t y_tᵀ U b(x, t) + global term(y, b)     (InfNet+ Eq. 7, SEAL appendix Eq. 15: the local term)

    Args:
        num_labels: C.
        feature_size: H, the width of b(x, t).
        global_size: width of the global term.
    """

    space = "tag_sequence"
    pooled = False  # reads one vector per token

    def __init__(self, num_labels: int, feature_size: int, global_size: int):
        super().__init__()
        self.label_embeddings = nn.Linear(feature_size, num_labels, bias=False)  # U: (C, H)

    def reset_parameters(self) -> None:
        """Xavier uniform for U; the parts of the global term initialise themselves."""
        nn.init.xavier_uniform_(self.label_embeddings.weight)

    def forward(self, features: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """features (B, T, H), y (B, S, T, C) on the simplex, mask (B, T) -> energies (B, S)."""
        if mask is None:
            mask = torch.ones(features.shape[:2], dtype=torch.bool, device=features.device)
        _, y = pack(mask, y, dim=2)
        packed, features = pack(mask, features)
        y = y * packed[:, None, :, None]
        local = torch.einsum("bstc,btc->bs", y, self.label_embeddings(features))
        return of_shape(self.global_term(features, y, packed), y, "`global_term`") - local

    def global_term(self, features: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        """(B, S), lower = better; `y` is zero after the end of a sequence, where `mask` (B, T) is False."""
        return y.new_zeros(y.shape[:2])


class ChainEnergy(TagEnergy):
    """E(x, y) = - ( Σ_t y_tᵀ U b(x, t) + Σ_t y_{t-1}ᵀ W y_t )     (InfNet+ Eq. 7; Tu & Gimpel 2018)

    W (C, C) starts at zero.
    """

    language_models: tuple[str, ...] = ()
    language_model_weight = 1.0  # of those that read the words

    def __init__(self, num_labels: int, feature_size: int, global_size: int):
        super().__init__(num_labels, feature_size, global_size)
        self.transitions = nn.Parameter(torch.zeros(num_labels, num_labels))  # W
        self.global_terms = nn.ModuleDict(
            {
                name: TagLanguageModel(
                    num_labels,
                    global_size,
                    feature_size if "words" in name else 0,
                    backward=name.startswith("backwards"),
                )
                for name in self.language_models
            }
        )

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.zeros_(self.transitions)
        for model in self.global_terms.values():
            assert isinstance(model, TagLanguageModel)
            model.reset_parameters()

    def global_term(self, features: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        energy = -(y[:, :, :-1] @ self.transitions * y[:, :, 1:]).sum((2, 3))
        for name, model in self.global_terms.items():
            weight = self.language_model_weight if "words" in name else 1.0
            energy = energy + weight * model(features, y, mask)
        return energy


class ChainForwardEnergy(ChainEnergy):
    """Chain plus a forward tag language model, GE(a): Eq. 7 + Eq. 8 of InfNet+."""

    language_models = ("forwards",)


class ChainBothEnergy(ChainEnergy):
    """Chain plus a forward and a backward tag language model, GE(b): Eq. 7 + Eq. 9 of InfNet+ with γ = 0."""

    language_models = ("forwards", "backwards")


class ChainWordsEnergy(ChainEnergy):
    """Chain plus four tag language models, two of which also read the words, GE(c): Eq. 7 + Eq. 9 of InfNet+.

    `language_model_weight` is γ. As x_t they use b(x, t), the features of the position.
    """

    language_models = ("forwards", "backwards", "forwards_words", "backwards_words")

    def __init__(self, num_labels: int, feature_size: int, global_size: int, language_model_weight: float = 1.0):
        super().__init__(num_labels, feature_size, global_size)
        self.language_model_weight = language_model_weight


class TagLanguageModel(nn.Module):
    """E(y) = - Σ_{t=1..n+1} log( y_tᵀ ȳ_t ),   ȳ_t = LSTM(y_0 .. y_{t-1})     (InfNet+ Eq. 8-9)

    y_0 marks the start and y_{n+1} the end of a sequence of n tags. On one-hot tags this is the negative
    log-likelihood.

    Args:
        num_labels: C.
        hidden_size: width of the LSTM.
        word_size: width of the features read with the tags, or 0.
        backward: True to read the sequence from its end.
    """

    def __init__(self, num_labels: int, hidden_size: int, word_size: int = 0, backward: bool = False):
        super().__init__()
        _check_width(hidden_size)
        self.word_size, self.backward = word_size, backward
        self.lstm = nn.LSTM(num_labels + 1 + word_size, hidden_size, batch_first=True)  # C tags, the start, the word
        self.next_tag = nn.Linear(hidden_size, num_labels + 1)  # C tags and the end

    def reset_parameters(self) -> None:
        self.lstm.reset_parameters()
        self.next_tag.reset_parameters()

    def forward(self, features: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        """features (B, T, H), packed y (B, S, T, C), mask (B, T) -> (B, S)."""
        batch, candidates, length, num_labels = y.shape
        sizes = mask.sum(1)  # n: (B,)
        if self.backward:
            steps = (sizes.unsqueeze(1) - 1 - torch.arange(length, device=y.device)).clamp_min(0)  # (B, T)
            y = take(y, steps, 2) * mask[:, None, :, None]
            features = take(features, steps)
        inputs = F.pad(F.pad(y, (0, 1)), (0, 0, 1, 0))  # (B, S, T + 1, C + 1), y_0 first
        inputs[:, :, 0, num_labels] = 1
        if self.word_size:
            words = F.pad(features, (0, 0, 1, 0)).unsqueeze(1).expand(-1, candidates, -1, -1)
            inputs = torch.cat([inputs, words], dim=-1)
        hidden, _ = self.lstm(inputs.flatten(0, 1))
        predicted = self.next_tag(hidden).softmax(-1).unflatten(0, (batch, candidates))  # ȳ: (B, S, T + 1, C + 1)
        expected = (predicted[:, :, :-1, :num_labels] * y).sum(-1)  # (B, S, T)
        tags = expected.clamp_min(TINY).log() * mask.unsqueeze(1)
        end = predicted[..., num_labels].gather(2, sizes[:, None, None].expand(batch, candidates, 1)).squeeze(2)
        return -(tags.sum(-1) + end.clamp_min(TINY).log())


class TagAttentionEnergy(TagEnergy):
    """E(x, y) = - ( Σ_t y_tᵀ U b(x, t) + Σ_t max_c E_S(y)_tc )     (SEAL appendix Eq. 15, as an energy)

    E_S is self-attention with one head over the sequence of tag vectors with sinusoidal positions, projected back to C
    values per position (Vaswani et al. 2017).
    """

    def __init__(self, num_labels: int, feature_size: int, global_size: int, attention_dropout: float = 0.1):
        super().__init__(num_labels, feature_size, global_size)
        _check_width(global_size)
        self.inputs = nn.Linear(num_labels, global_size)
        self.attention = nn.Linear(global_size, 3 * global_size)  # queries, keys, values
        self.outputs = nn.Linear(global_size, num_labels)
        self.dropout = nn.Dropout(attention_dropout)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for layer in (self.inputs, self.attention, self.outputs):
            layer.reset_parameters()

    def global_term(self, features: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        hidden = self.inputs(y)  # (B, S, T, G)
        hidden = self.dropout(hidden + sinusoids(hidden.shape[2], hidden.shape[3], hidden))
        queries, keys, values = self.attention(hidden).chunk(3, dim=-1)
        keep = mask | ~mask.any(1, keepdim=True)  # a row without positions attends to padding, without effect
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=keep[:, None, None, :])
        scores = self.outputs(self.dropout(mixed)).amax(-1)  # (B, S, T)
        return -(scores * mask.unsqueeze(1)).sum(-1)


def _check_width(global_size: int) -> None:
    if global_size < 1:
        raise ValueError(f"`global_size` is {global_size}; this energy needs at least 1. `chain` needs none.")


def sinusoids(length: int, width: int, like: Tensor) -> Tensor:
    """Positions as sines and cosines of geometric wavelengths (Vaswani et al. 2017, §3.5): (length, width)."""
    rates = torch.exp(torch.arange(0, width, 2, device=like.device) * (-math.log(10000.0) / width))
    angles = torch.arange(length, device=like.device).unsqueeze(1) * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width].to(like.dtype)
