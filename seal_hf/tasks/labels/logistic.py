"""Logistic regressions on fixed features, one for each label and all of them in one optimisation.

scikit-learn fits one label at a time. With 1,000 labels, 2,000 rows and 384 features that takes three minutes a fit,
and cross-validation needs dozens of fits. Here the labels share every matrix product, and the features are rotated to
their principal axes and scaled there, where L-BFGS needs few steps. The penalty is that of scikit-learn, so `c` means
the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ...core.decisions import folds
from .decisions.fitting import ValidationRows
from .decisions.targets import F1_EXAMPLE, target_scores

LEVELS = (0.3, 1.0, 3.0, 10.0, 30.0)  # C times the number of features: the searched values
FOLDS = 3
MOST_ROWS = 1000  # drawn for the cross-validation: the best C hardly depends on the number of rows
STEPS = 50  # of a fit of the cross-validation, which need not be exact
CURVATURE = 0.1  # p(1 - p), roughly: scales the axes
SMOOTHING = 0.5  # rows with a label, and twice as many without it, added to those of a label that has a single value
ENTRY_WORK, CALL_WORK = 400, 1e6  # of a score's sigmoid and softplus, and of a call, in multiplications


class LogisticRegressions(NamedTuple):
    """L regressions on features (D,) as they are: their standardisation is part of the weights.

    Attributes:
        weight: (L, D), float64.
        bias: (L,), float64.
        c: the inverse strength of the penalty on the weights of standardised features, as scikit-learn's `C`.
        balanced: True if both values of a label weigh the same, as with scikit-learn's `class_weight="balanced"`.
    """

    weight: Tensor
    bias: Tensor
    c: float
    balanced: bool

    def probabilities(self, features: Tensor) -> np.ndarray:
        """The probabilities (N, L), float64, of features (N, D)."""
        return torch.sigmoid(features.to(self.weight) @ self.weight.T + self.bias).cpu().numpy()

    @property
    def in_words(self) -> str:
        """The settings, in words."""
        return f"C = {self.c:.2g}, class weights {'balanced' if self.balanced else 'none'}"


def cross_validated(
    features: Tensor,
    labels: Tensor,
    row_weights: Tensor | None = None,
    target: str = F1_EXAMPLE,
    costs: ArrayLike | None = None,
) -> LogisticRegressions:
    """Fit as [`fit_logistic`] does, with the C and the class weights that decide other rows best.

    Each pair of C and class weights predicts the rows of three folds, at most `MOST_ROWS` rows drawn at random, from
    fits on the other folds. One threshold is tuned on all these predictions, or with costs one for each label. The pair
    with the highest figure wins; of equal ones the strongest penalty, without class weights.

    Args:
        target, costs: as in `LabelDecisions.fit`.
    """
    drawn = torch.from_numpy(np.random.default_rng(0).permutation(len(features))[:MOST_ROWS]).to(features.device)
    x = _standardised(features[drawn])[0].float()
    known = labels.to(x.device)[drawn]
    gold, weights = _entries(known.to(x), None if row_weights is None else row_weights.to(x.device)[drawn])
    strengths = [level / x.shape[1] for level in LEVELS]
    predicted = {(c, balanced): np.zeros(gold.shape) for balanced in (False, True) for c in strengths}
    for others, held in folds(len(x), FOLDS):
        axes = _rotated(x[others])
        for balanced in (False, True):
            weighed, found = _weighed(gold[others], weights[others], balanced), None
            for c in strengths:
                found = _solved(axes, gold[others], weighed, c, start=found)
                scores = x[held] @ (axes.directions @ found[:-1]) + found[-1]
                predicted[c, balanced][held] = torch.sigmoid(scores).cpu().numpy()
    judged = known.cpu().numpy()
    figures = {pair: row_scores(p, judged, target, costs).mean() for pair, p in predicted.items()}
    c, balanced = max(figures, key=figures.__getitem__)
    return fit_logistic(features, labels, c, balanced, row_weights)


def row_scores(
    probabilities: np.ndarray, labels: np.ndarray, target: str = F1_EXAMPLE, costs: ArrayLike | None = None
) -> np.ndarray:
    """(N,) the scores of rows, whose mean is the figure `target`, of the decisions by one threshold, or with costs by
    one for each label, tuned on these very rows; more is better.

    Args:
        probabilities, labels: (N, L); labels are 0 or 1, with -1 or NaN for unknown.
        target, costs: as in `LabelDecisions.fit`.
    """
    judged = ValidationRows(probabilities, labels, target=target, costs=costs)
    numbers = judged.numbers(() if costs is None else ("thresholds",))
    decided = judged.probabilities >= np.asarray(numbers["threshold" if costs is None else "thresholds"])
    return target_scores(target, decided, judged.labels, 1.0, judged.costs)


def fit_logistic(
    features: Tensor, labels: Tensor, c: float, balanced: bool = False, row_weights: Tensor | None = None
) -> LogisticRegressions:
    """Fit a regression for each label.

    Args:
        features: (N, D). Each is standardised; one that is constant gets the weight 0.
        labels: (N, L), 0 or 1, or -1 or NaN for unknown: such an entry is left out of its label's regression. A label
            with a single known value gets weights of 0, and its smoothed frequency.
        c, balanced: see [`LogisticRegressions`].
        row_weights: (N,), at least 0; their mean counts as 1.

    Returns:
        the regressions of the least penalised loss, on the device of `features`.
    """
    x, mean, scale = _standardised(features)
    gold, weights = _entries(labels.to(x), row_weights)
    axes = _rotated(x)
    found = _solved(axes, gold, _weighed(gold, weights, balanced), c, exact=True)
    weight = (axes.directions @ found[:-1]).T * scale
    return LogisticRegressions(weight, found[-1] - weight @ mean, c, balanced)


def _standardised(features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Features of mean 0 and deviation 1, float64; their mean and the factor that makes the deviation 1."""
    x = features.double()
    mean, deviation = x.mean(0), x.std(0, correction=0)
    constant = deviation <= 1e-7 * x.abs().amax(0).clamp_min(1e-30)
    scale = torch.where(constant, 0.0, 1 / deviation.masked_fill(constant, 1.0))
    return (x - mean) * scale, mean, scale


def _entries(labels: Tensor, row_weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Labels (N, L) as 0 or 1, and the weight of each entry: 0 where it is unknown."""
    known = (labels >= 0).to(labels)
    if row_weights is not None:
        known = known * (row_weights.to(labels) / row_weights.mean().to(labels))[:, None]
    return (labels > 0).to(labels), known


def _weighed(gold: Tensor, weights: Tensor, balanced: bool) -> tuple[Tensor, Tensor]:
    """The weights of entries, (N, L), 0 for a label that has a single value; and the biases (L,) without features."""
    present, absent = (gold * weights).sum(0), ((1 - gold) * weights).sum(0)  # (L,)
    varies = (present > 0) & (absent > 0)
    alone = ((present + SMOOTHING) / (absent + 2 * SMOOTHING)).log()
    if balanced:
        half = (present + absent) / 2
        weights = weights * torch.where(gold > 0, half / present.clamp_min(1e-12), half / absent.clamp_min(1e-12))
    usual = torch.zeros_like(alone) if balanced else (present / absent).log()
    return torch.where(varies, weights, 0.0), torch.where(varies, usual, alone)


class _Axes(NamedTuple):
    """Principal axes of rows: `directions` (D, R), the rows along them, `places` (N, R), and sums of squares, `spread`
    (R,)."""

    directions: Tensor
    places: Tensor
    spread: Tensor


def _rotated(x: Tensor) -> _Axes:
    """Standardised features, or those of some rows, along their principal axes; axes without extent are left out."""
    wide = x.shape[1] > x.shape[0]
    values, vectors = torch.linalg.eigh(x @ x.T if wide else x.T @ x)
    there = values > values[-1:] * len(values) * torch.finfo(x.dtype).eps
    values, vectors = values[there], vectors[:, there]
    directions = x.T @ vectors / values.sqrt() if wide else vectors
    return _Axes(directions, vectors * values.sqrt() if wide else x @ vectors, values)


def _solved(
    axes: _Axes,
    gold: Tensor,
    weighed: tuple[Tensor, Tensor],
    c: float,
    start: Tensor | None = None,
    exact: bool = False,
) -> Tensor:
    """Weights along the axes and, in the last row, biases: (R + 1, L).

    The penalised loss is Σ w (softplus(s) - y s) + |weights|² / 2C, s = the scores of the entries. It is a sum over
    labels, so its minimum is that of each label. `start` is what was found for another C.
    """
    places, (weights, base) = axes.places, weighed
    steps = torch.cat([(axes.spread * CURVATURE + 1 / c).rsqrt(), base.new_tensor([(len(places) * CURVATURE) ** -0.5])])
    moved = torch.cat([places, places.new_ones(len(places), 1)], 1) * steps  # (N, R + 1)
    penalty = torch.cat([steps[:-1] ** 2 / c, steps.new_zeros(1)])[:, None]
    offset = torch.cat([base.new_zeros(len(steps) - 1, len(base)), base[None]])
    u = torch.zeros_like(offset) if start is None else (start - offset) / steps[:, None]

    def objective() -> float:
        scores = moved @ u + base
        u.grad = moved.T @ (weights * (torch.sigmoid(scores) - gold)) + penalty * u
        loss = (weights * (torch.nn.functional.softplus(scores) - gold * scores)).sum() + (penalty * u * u).sum() / 2
        return loss.item()

    limits: dict[str, Any] = {"max_iter": 2000, "tolerance_grad": 1e-4, "tolerance_change": 0.0}
    if not exact:
        limits = {"max_iter": STEPS, "tolerance_grad": 0.0, "tolerance_change": 1e-6 * objective()}
    torch.optim.LBFGS([u], history_size=10, line_search_fn="strong_wolfe", **limits).step(objective)
    return u * steps[:, None] + offset


def fit_work(num_rows: int, num_features: int, num_labels: int) -> float:
    """Roughly the multiplications that [`cross_validated`] takes. Other work counts as the multiplications that take as
    long on a CPU."""
    drawn, work = min(num_rows, MOST_ROWS) * (FOLDS - 1) / FOLDS, 0.0
    for rows, times, steps in ((drawn, FOLDS, len(LEVELS) * STEPS), (num_rows, 1, 2 * STEPS)):
        narrow, wide = sorted((rows, num_features))
        step = rows * num_labels * (2 * narrow + ENTRY_WORK) + CALL_WORK
        work += times * (5 * narrow**2 * wide + steps * step)
    return work
