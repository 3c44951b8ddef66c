"""Derivatives of an energy by its structures, and counts of the data to compare them with.

An `energy` here is a function of candidates alone, such as `lambda y: seal.energy(y, mask, **inputs)` of a frozen net.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from scipy.stats import pearsonr, spearmanr
from torch import Tensor

from ...core.sequences import pack

Energy = Callable[[Tensor], Tensor]


def energy_hessian(energy: Energy, y: Tensor, labels: Sequence[int] | None = None) -> Tensor:
    """∂²E/∂y_i∂y_j at label sets, the mean over the batch (Shankar & Piratla, appendix C).

    Of [`MultiLabelEnergy`] it is -Mᵀ diag(v σ'(M y + c)) M. One backward pass per label.

    Args:
        energy: structures (B, L) -> energies (B,).
        y: (B, L), the points.
        labels: ids of K labels; default: all L.

    Returns:
        (K, K), symmetric.
    """
    labels = list(range(y.shape[1])) if labels is None else list(labels)
    y = y.detach().requires_grad_()
    gradient = _gradient(energy, y)
    rows = [_second(gradient[:, i].sum(), y)[:, labels].mean(0) for i in labels]
    return torch.stack(rows)


def tag_pair_hessian(energy: Energy, y: Tensor, mask: Tensor) -> Tensor:
    """∂²E/∂y_t∂y_{t+1} of tag sequences, the mean over neighbouring counted positions of the batch (Shankar & Piratla,
    appendix C, Fig. 2). Of a chain it is -W, whatever y. T C backward passes.

    Args:
        energy: structures (B, T, C) -> energies (B,).
        y: (B, T, C), where.
        mask: (B, T), the positions that count.

    Returns:
        (C, C), from the tag at t to that at t + 1; zeros where no two positions are neighbours.
    """
    places = torch.arange(y.shape[1], device=y.device).expand_as(mask)
    packed, places = pack(mask, places)  # (B, T): where the t-th counted position stands
    pairs = packed[:, 1:].to(y.dtype)  # (B, T - 1): of the t-th and the one after it
    y = y.detach().requires_grad_()
    gradient = _gradient(energy, y)
    rows = torch.arange(len(y), device=y.device)
    total = y.new_zeros(y.shape[2], y.shape[2])
    for t in range(int(pairs.sum(1).max()) if pairs.numel() else 0):
        here = gradient[rows, places[:, t]] * pairs[:, t : t + 1]  # (B, C)
        for tag in range(y.shape[2]):
            total[tag] += _second(here[:, tag].sum(), y)[rows, places[:, t + 1]].sum(0)
    return total / pairs.sum().clamp_min(1)


def gradient_samples(
    energy: Energy, num_labels: int, target: int, num_samples: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """∂E/∂y_k at label sets drawn from Uniform(0, 1)^L (SEAL appendix G): plotted over (y_i, y_k), it shows whether the
    gradient at label k depends on label i.

    Args:
        energy: structures (S, L) -> energies (S,), of the global term alone: features 0 take the local term away.
        num_labels: L.
        target: k.
        num_samples: S.

    Returns:
        The samples (S, L) and the gradients (S,).
    """
    y = torch.rand(num_samples, num_labels, generator=generator).requires_grad_()
    return y.detach(), _gradient(energy, y, create_graph=False)[:, target]


def gradients_at_output(
    energy: Energy, logits: Tensor, labels: Tensor, energy_weight: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The gradients at the task-net's logits z of label sets, ŷ = σ(z), for every input:

        ∂BCE/∂z_k = ŷ_k - y*_k,     λ1 ∂E/∂z_k = λ1 ŷ_k (1 - ŷ_k) ∂E/∂y_k

    The first depends on label k alone, the second on all of ŷ (SEAL appendix A).

    Args:
        energy: structures (B, L) -> energies (B,).
        logits, labels: (B, L).
        energy_weight: λ1.

    Returns:
        Both, (B, L) each.
    """
    logits = logits.detach().requires_grad_()
    slope = _gradient(lambda z: energy(torch.sigmoid(z)), logits, create_graph=False)
    return torch.sigmoid(logits.detach()) - labels, energy_weight * slope


def label_pmi(labels: np.ndarray) -> np.ndarray:
    """Smoothed pointwise mutual information log( (n_ij + 1) / (n_i n_j / N + 1) ), near 0 where the data is too small
    to tell. labels (N, L) of 0 and 1 -> (L, L)."""
    labels = np.asarray(labels, dtype=np.float64)
    counts = labels.sum(0)
    expected = np.outer(counts, counts) / max(len(labels), 1)
    return np.log((labels.T @ labels + 1) / (expected + 1))


def label_correlation(labels: np.ndarray) -> np.ndarray:
    """Pearson's correlation of the columns (N, L) -> (L, L); 0 where a label is constant."""
    centred = np.asarray(labels, dtype=np.float64) - np.mean(labels, axis=0)
    norms = np.sqrt((centred**2).sum(0))
    return centred.T @ centred / np.maximum(np.outer(norms, norms), 1e-12)


def tag_bigrams(sequences: Iterable[Sequence[int]], num_tags: int) -> np.ndarray:
    """How often tag b follows tag a: N sequences of ids -> (C, C) int64, from row to column."""
    counts = np.zeros((num_tags, num_tags), dtype=np.int64)
    for tags in sequences:
        np.add.at(counts, (np.asarray(tags[:-1], dtype=int), np.asarray(tags[1:], dtype=int)), 1)
    return counts


def tag_pmi(bigrams: np.ndarray) -> np.ndarray:
    """Smoothed pointwise mutual information of neighbours, from their counts, as `label_pmi`: (C, C)."""
    expected = np.outer(bigrams.sum(1), bigrams.sum(0)) / max(bigrams.sum(), 1)
    return np.log((bigrams + 1) / (expected + 1))


def agreement(matrix: np.ndarray, reference: np.ndarray, *, symmetric: bool) -> dict[str, float | int | None]:
    """Correlations of two (K, K) matrices over their entries: of a symmetric one those above the diagonal, as both
    papers' plots leave the diagonal out, else all.

    Returns:
        `pearson` and `spearman`, in [-1, 1], None where a matrix is constant; `pairs`, the number of entries.
    """
    where = np.triu_indices(len(matrix), 1) if symmetric else np.indices(matrix.shape).reshape(2, -1)
    a, b = np.asarray(matrix)[tuple(where)], np.asarray(reference)[tuple(where)]
    found: dict[str, float | int | None] = {"pearson": None, "spearman": None, "pairs": len(a)}
    if len(a) > 1 and np.ptp(a) > 0 and np.ptp(b) > 0:
        found |= {"pearson": float(pearsonr(a, b)[0]), "spearman": float(spearmanr(a, b)[0])}
    return found


def label_pairs(labels: np.ndarray, num_pairs: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Pairs of labels (i, k) to study: the labels k that vary most, each with its most associated label i, and with the
    label whose PMI is nearest to 0.

    Args:
        labels: (N, L) of 0 and 1. If possible, a partner i is present in at least 5 rows and absent in at least 5.
        num_pairs: number of labels k.

    Returns:
        The associated pairs and the unrelated pairs.

    Raises:
        ValueError: fewer than two labels.
    """
    if np.shape(labels)[1] < 2:
        raise ValueError(f"Pairs of labels were asked for, but the data has {np.shape(labels)[1]}.")
    counts, pmi = np.asarray(labels).sum(0), label_pmi(labels)
    varies = np.minimum(counts, len(labels) - counts)
    varied = varies >= 5 if (varies >= 5).sum() > 1 else np.ones(len(counts), dtype=bool)
    associated, unrelated = [], []
    for k in np.argsort(-varies, kind="stable")[:num_pairs]:
        partners = varied & (np.arange(len(counts)) != k)
        associated.append((int(np.where(partners, pmi[:, k], -np.inf).argmax()), int(k)))
        unrelated.append((int(np.where(partners, np.abs(pmi[:, k]), np.inf).argmin()), int(k)))
    return associated, unrelated


def _gradient(energy: Energy, y: Tensor, create_graph: bool = True) -> Tensor:
    return torch.autograd.grad(energy(y).sum(), y, create_graph=create_graph)[0]


def _second(value: Tensor, y: Tensor) -> Tensor:
    """The gradient of a first derivative; zero for a linear energy."""
    if not value.requires_grad:
        return torch.zeros_like(y)
    found = torch.autograd.grad(value, y, retain_graph=True, allow_unused=True)[0]
    return torch.zeros_like(y) if found is None else found.detach()
