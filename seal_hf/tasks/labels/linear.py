"""Logistic regressions on fixed features, one for each label and all of them in one optimisation.

scikit-learn fits one label at a time. With 1,000 labels, 2,000 rows and 384 features that takes three minutes a fit,
and cross-validation needs dozens of fits. Here the labels share every matrix product, and the features are rotated to
their principal axes and scaled there, where L-BFGS needs few steps. The penalty is that of scikit-learn, so `c` means
the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import broadcast_object_list
from numpy.typing import ArrayLike
from torch import Tensor, nn

from ...core.arrays import logit, sigmoid
from ...core.decisions import folds
from ...data.tensors.collators import TensorRows, longest_first
from ...nets.encoders import MLPForMultiLabel, inputs_of, task_features
from ...nets.frozen_encoder import OUTPUTS
from ...nets.heads import MEAN, head_of, reads_images, shared_size, with_features
from ...trainer import SealTrainer
from ...training.base import StructuredTrainer
from ...training.epochs import epochs_for
from ...training.evaluation import are_too_many
from ...utils.modules import in_evaluation, without_wrapper
from .decisions.fitting import ValidationRows
from .decisions.of_trainer import fit_labels
from .decisions.targets import F1_EXAMPLE, F1_MACRO, LOWER_IS_BETTER, names_in, options_of, reported, target_scores
from .evaluation import predict_multilabel

LEVELS = (0.3, 1.0, 3.0, 10.0, 30.0)  # C times the number of features: the searched values
FOLDS = 3
MOST_ROWS = 1000  # drawn for the cross-validation: the best C hardly depends on the number of rows
STEPS = 50  # of a fit of the cross-validation, which need not be exact
CURVATURE = 0.1  # p(1 - p), roughly: scales the axes
ENTRY_WORK, CALL_WORK = 400, 1e6  # of a score's sigmoid and softplus, and of a call, in multiplications
SMOOTHING = 0.5  # rows with a label, and twice as many without it, added to those of a label that has a single value


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

    def to(self, device: str) -> LogisticRegressions:
        """The same, on this device."""
        return self._replace(weight=self.weight.to(device), bias=self.bias.to(device))

    @property
    def in_words(self) -> str:
        """The settings, in words."""
        return f"C = {self.c:.2g}, class weights {'balanced' if self.balanced else 'none'}"


class _Rows(NamedTuple):
    """Rows along their principal axes: `axes` (D, R), `places` (N, R), and sums of squares, `spread` (R,)."""

    axes: Tensor
    places: Tensor
    spread: Tensor


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
    rows = _rotated(x)
    found = _solved(rows, gold, _weighed(gold, weights, balanced), c, exact=True)
    return _unstandardised(rows, found, mean, scale, c, balanced)


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
    c, balanced = _best(features, labels, row_weights, target, costs)
    return fit_logistic(features, labels, c, balanced, row_weights)


def _best(
    features: Tensor, labels: Tensor, row_weights: Tensor | None, target: str, costs: ArrayLike | None
) -> tuple[float, bool]:
    drawn = torch.from_numpy(np.random.default_rng(0).permutation(len(features))[:MOST_ROWS]).to(features.device)
    x = _standardised(features[drawn])[0].float()
    known = labels.to(x.device)[drawn]
    gold, weights = _entries(known.to(x), None if row_weights is None else row_weights.to(x.device)[drawn])
    predicted = {(balanced, level): np.zeros(gold.shape) for balanced in (False, True) for level in LEVELS}
    for others, held in folds(len(x), FOLDS):
        rows = _rotated(x[others])
        for balanced in (False, True):
            weighed, start = _weighed(gold[others], weights[others], balanced), None
            for level in LEVELS:
                start = _solved(rows, gold[others], weighed, level / x.shape[1], start)
                scores = x[held] @ (rows.axes @ start[:-1]) + start[-1]
                predicted[balanced, level][held] = torch.sigmoid(scores).cpu().numpy()
    gold_known, best, chosen = known.cpu().numpy(), -np.inf, (False, LEVELS[0])
    for pair, probabilities in predicted.items():
        value = row_scores(probabilities, gold_known, target, costs).mean()
        if value > best:
            best, chosen = value, pair
    balanced, level = chosen
    return level / x.shape[1], balanced


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


def _standardised(features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Features of mean 0 and deviation 1, float64; their mean and the factor that makes the deviation 1."""
    x = features.double()
    mean, deviation = x.mean(0), x.std(0, correction=0)
    constant = deviation <= 1e-7 * x.abs().amax(0).clamp_min(1e-30)
    scale = torch.where(constant, 0.0, 1 / deviation.masked_fill(constant, 1.0))
    return (x - mean) * scale, mean, scale


def _unstandardised(
    rows: _Rows, found: Tensor, mean: Tensor, scale: Tensor, c: float, balanced: bool
) -> LogisticRegressions:
    weight = (rows.axes @ found[:-1]).T * scale
    return LogisticRegressions(weight, found[-1] - weight @ mean, c, balanced)


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


def _rotated(x: Tensor) -> _Rows:
    """Standardised features, or those of some rows, along their principal axes; axes without extent are left out."""
    wide = x.shape[1] > x.shape[0]
    values, vectors = torch.linalg.eigh(x @ x.T if wide else x.T @ x)
    there = values > values[-1:] * len(values) * torch.finfo(x.dtype).eps
    values, vectors = values[there], vectors[:, there]
    axes = x.T @ vectors / values.sqrt() if wide else vectors
    return _Rows(axes, vectors * values.sqrt() if wide else x @ vectors, values)


def _solved(
    rows: _Rows,
    gold: Tensor,
    weighed: tuple[Tensor, Tensor],
    c: float,
    start: Tensor | None = None,
    exact: bool = False,
) -> Tensor:
    """Weights along the axes and, in the last row, biases: (R + 1, L).

    The penalised loss is Σ w (softplus(s) - y s) + |weights|² / 2C, s = the scores of the entries. It is a sum over
    labels, so its minimum is that of each label.
    """
    places, (weights, base) = rows.places, weighed
    steps = torch.cat([(rows.spread * CURVATURE + 1 / c).rsqrt(), base.new_tensor([(len(places) * CURVATURE) ** -0.5])])
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
    optimizer = torch.optim.LBFGS([u], history_size=10, line_search_fn="strong_wolfe", **limits)
    optimizer.step(objective)
    return u * steps[:, None] + offset


def fit_work(num_rows: int, num_features: int, num_labels: int) -> float:
    """Roughly the multiplications that [`cross_validated`] takes. Other work counts as the multiplications that take as
    long on a CPU."""
    drawn = min(num_rows, MOST_ROWS) * (FOLDS - 1) / FOLDS
    search = FOLDS * 2 * len(LEVELS) * (STEPS / 2) * _step_work(drawn, num_features, num_labels)
    final = 2 * STEPS * _step_work(num_rows, num_features, num_labels)
    return search + final + FOLDS * _axes_work(drawn, num_features) + _axes_work(num_rows, num_features)


def _step_work(num_rows: float, num_features: int, num_labels: int) -> float:
    return num_rows * num_labels * (2 * min(num_rows, num_features) + ENTRY_WORK) + CALL_WORK


def _axes_work(num_rows: float, num_features: int) -> float:
    return 5 * min(num_rows, num_features) ** 2 * max(num_rows, num_features)


# The linear baseline of a run on label sets: a logistic regression on frozen features, fitted before the training. An
# MLP takes it in after the training, unless that is worse.

ENCODER, FEATURES = "linear_encoder", "linear_features"  # a baseline reads an encoder that stays as it is, or the data
ALONE = "net_alone"
SHARES = {ENCODER: 0.1, FEATURES: 1.0}  # of the training: the most work that a baseline may take; an MLP may take it in
TINY = 1e-12  # a probability, whose logit is finite
STEP_WORK = 3e8  # of a training step beside the forward and backward of the nets, in multiplications
IMAGE_POSITIONS = 200  # how often an image net uses each weight: patches of a ViT, places of a feature map
DEAD = 1e-4  # of the median deviation of an encoder's features: smaller ones would get weights as large as 1e30
USUAL_WIDTH = 1024  # of the features of a net whose configuration does not state it
BACKWARD = 2  # work of a backward pass, in forward passes


class LinearBaseline(NamedTuple):
    """A fitted baseline.

    Attributes:
        name: `ENCODER` or `FEATURES`.
        regressions: one for each label.
        probabilities: split, `eval` or `test` -> (N, L).
    """

    name: str
    regressions: LogisticRegressions
    probabilities: Mapping[str, np.ndarray]


class Averaged(NamedTuple):
    """A net that has taken in a logistic regression, see [`averaged`].

    Attributes:
        alone: probabilities of the net without it: split, `eval` or `test` -> (N, L).
        score, score_alone: the figure by which decoders are chosen, on validation rows, see [`row_scores`].
    """

    alone: Mapping[str, np.ndarray]
    score: float
    score_alone: float


def fit_baseline(trainer: SealTrainer, splits: Mapping[str, TensorRows]) -> LinearBaseline:
    """Fit a logistic regression on the trainer's training rows, and predict the rows of `splits`. It reads features as
    they are, of texts the mean of the encoder's last hidden states over tokens, of images what the head reads. The
    task-net must not be trained yet.

    Raises:
        ValueError: the task-net gives no hidden states.
    """
    net, train = _net_of(trainer), trainer.train_dataset
    regressions = _fitted(trainer, _frozen_features(trainer, net, train))
    probabilities = {
        split: regressions.probabilities(_frozen_features(trainer, net, rows)) for split, rows in splits.items()
    }
    return LinearBaseline(FEATURES if _reads_features(net) else ENCODER, regressions, probabilities)


@torch.no_grad()
def fit_head(trainer: SealTrainer) -> LogisticRegressions:
    """Fit a logistic regression on what the task-net's last layer reads, and write it into this layer. Every process
    does the same.

    Raises:
        ValueError: no linear layer with a bias gives the logits.
    """
    net, rows = _net_of(trainer), trainer.train_dataset.unaugmented()
    with in_evaluation(net):
        layer, _ = head_of(net, inputs_of(net, rows.batch([0])))
    if layer is None or layer.bias is None:
        other = "an encoder such as BERT" if not _reads_features(net) else "a fresh net (no --model_name_or_path)"
        raise ValueError(
            f"`linear` is True, but no linear layer with a bias gives the logits of {type(net).__name__}, so it cannot "
            f"hold a logistic regression. Use {other}, or leave `linear` out."
        )
    found = _fitted(trainer, _by_batch(trainer, net, rows, lambda inputs: head_of(net, inputs)[1]))
    layer.weight.copy_(found.weight)
    layer.bias.copy_(found.bias)
    return found


def _fitted(trainer: SealTrainer, features: Tensor) -> LogisticRegressions:
    """Fitted to the labels of the trainer's training rows, on a GPU if the run has one."""
    rows, device = trainer.train_dataset, trainer.args.device if trainer.args.device.type == "cuda" else "cpu"
    net = _net_of(trainer)
    if not _reads_features(net):
        deviations = features.std(0)
        features = features * (deviations > DEAD * deviations.median())
    asked = options_of(getattr(trainer.args, "target", F1_EXAMPLE), names_in(net.config))
    return cross_validated(features.to(device), _labels(trainer, rows), rows.dense.get("sample_weight"), **asked)


def _labels(trainer: SealTrainer, rows: TensorRows) -> Tensor:
    """The labels of rows, (N, L), without reading their other columns."""
    if "labels" in rows.dense:
        return rows.dense["labels"]
    ids, offsets = rows.ragged["labels"]
    found = torch.zeros(len(rows), trainer.model.config.num_labels)
    found[torch.arange(len(rows)).repeat_interleave(offsets.diff()), ids] = 1
    return found


def _net_of(trainer: SealTrainer) -> Any:
    """The task-net, which PEFT or a launcher may have wrapped."""
    return without_wrapper(trainer.accelerator.unwrap_model(trainer.model))


def averaged(
    trainer: SealTrainer, baseline: LinearBaseline | None, splits: Mapping[str, TensorRows]
) -> Averaged | None:
    """Replace the logits of a trained MLP by the mean of its own and of the baseline's, unless the mean decides
    validation rows worse, by more than a standard error: the epoch was chosen on these rows for the net alone. Every
    process calls this; the baseline of the main process counts.

    Returns:
        what was found; None if the net stays as it is.
    """
    net = _net_of(trainer)
    if not isinstance(net, MLPForMultiLabel):
        return None
    shared = [None if baseline is None else baseline.regressions.to("cpu")]  # a GPU of one process is not another's
    broadcast_object_list(shared)
    if (regressions := shared[0]) is None:
        return None
    predicted = predict_multilabel(trainer, splits["eval"], splits.get("test"))
    alone, labels = predicted["eval"]
    assert labels is not None, "as predict_multilabel says"
    linear = regressions.probabilities(_frozen_features(trainer, net, splits["eval"]))
    asked = options_of(getattr(trainer.args, "target", F1_EXAMPLE), names_in(net.config))
    mean = sigmoid(logit(np.stack([alone, linear]).clip(TINY, 1 - TINY)).mean(0))
    scores, scores_alone = (row_scores(p, labels, **asked) for p in (mean, alone))
    gains = scores - scores_alone
    if gains.mean() < -gains.std() / len(gains) ** 0.5:
        return None
    net.average_with(regressions.weight, regressions.bias)
    return Averaged({split: p for split, (p, _) in predicted.items()}, scores.mean(), scores_alone.mean())


def figures_of(
    trainer: StructuredTrainer,
    name: str,
    probabilities: Mapping[str, np.ndarray],
    gold: Mapping[str, np.ndarray | None],
) -> dict[str, float]:
    """The figures of the decisions of another model than the saved one, `{split}_{figure}_{name}`: the one by which
    decoders are chosen, and macro F1. The decisions are fitted on validation rows, as those of the task-net are.

    Args:
        name: of the model, a key of `BESIDE`.
        probabilities: split -> (N, L).
        gold: split -> labels (N, L), or None.
    """
    assert gold["eval"] is not None, "as predict_multilabel says"
    decisions = fit_labels(trainer, probabilities["eval"], gold["eval"], trainer.args.decoder)
    found = {}
    for split, labels in gold.items():
        if labels is not None:
            decided = decisions.decide(probabilities[split])
            for target in (decisions.target, F1_MACRO):
                costs = None if decisions.costs is None else np.asarray(decisions.costs)
                value = reported(target, float(target_scores(target, decided, labels, 1.0, costs).mean()))
                found[f"{split}_{LOWER_IS_BETTER.get(target, target)}_{name}"] = value
    return found


def why_no_baseline(trainer: SealTrainer, splits: Mapping[str, Any]) -> str | None:
    """Why a run fits no baseline beside the net, as the end of a sentence; None if it fits one, as [`fit_baseline`]."""
    rows = trainer.train_dataset
    if not isinstance(rows, TensorRows) or not isinstance(splits["eval"], TensorRows):
        return "its rows are no tensors"
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        return "the task-net is sharded"
    if are_too_many(trainer.model, max(map(len, (rows, *splits.values())))):
        return "the probabilities of all rows are too many to keep"
    share = SHARES[FEATURES if _reads_features(_net_of(trainer)) else ENCODER]
    if baseline_work(trainer) > share * training_work(trainer):
        return f"it would take more than {share:.0%} of the training"
    return None


def baseline_work(trainer: SealTrainer) -> float:
    """Roughly the multiplications of a baseline: its features of training rows, and the fit. Features of validation and
    test rows are left out, which take as long as one evaluation. Else few training rows beside many others would have
    no baseline."""
    net, rows = _net_of(trainer), trainer.train_dataset
    read = 0 if _reads_features(net) else len(rows)
    width = rows.dense["features"].shape[1] if _reads_features(net) else shared_size(net) or USUAL_WIDTH
    return read * _forward_work(trainer, net) + fit_work(len(rows), width, net.config.num_labels)


def training_work(trainer: SealTrainer) -> float:
    """Roughly the multiplications of the training as it is planned, with its evaluations."""
    args, rows = trainer.args, trainer.train_dataset
    batch = trainer.get_total_train_batch_size(args)
    steps = args.max_steps if args.max_steps > 0 else epochs_for(args, rows) * -(-len(rows) // batch)
    evaluated = 0 if args.eval_strategy == "no" else steps * batch / len(rows) * len(trainer.eval_dataset)
    forward = _forward_work(trainer, _net_of(trainer))
    return steps * STEP_WORK + (steps * batch * (1 + BACKWARD) + evaluated) * forward


def _forward_work(trainer: SealTrainer, net: Any) -> float:
    """The multiplications of a forward pass of a row; 0 for an encoder whose outputs are kept."""
    if trainer.frozen_encoder is not None:
        return 0.0
    tables = {module.weight for module in net.modules() if isinstance(module, nn.Embedding)}  # rows are only looked up
    weights = sum(parameter.numel() for parameter in net.parameters() if parameter not in tables)
    ids = trainer.train_dataset.ragged.get("input_ids")
    if ids is not None:
        return weights * len(ids[0]) / max(len(trainer.train_dataset), 1)
    return weights * (IMAGE_POSITIONS if reads_images(net) else 1)


def _reads_features(net: Any) -> bool:
    return net.main_input_name == "features"


@torch.no_grad()
def _frozen_features(trainer: SealTrainer, net: Any, rows: TensorRows) -> Tensor:
    """What a baseline reads of each row: (N, D)."""
    if OUTPUTS in rows.dense:
        return rows.dense[OUTPUTS][:, trainer.frozen_encoder.poolings.index(MEAN)]
    if _reads_features(net):
        return rows.dense["features"]

    def read(inputs: dict[str, Tensor]) -> Tensor:
        return task_features(with_features(net, inputs), inputs, net)

    return _by_batch(trainer, net, rows, read)


def _by_batch(trainer: SealTrainer, net: Any, rows: TensorRows, read: Any) -> Tensor:
    """What `read` makes of the inputs of each row, in the rows' own order: (N, D), on the CPU."""
    rows, found = rows.unaugmented(), None
    order, size = longest_first(rows) or list(range(len(rows))), trainer.args.eval_batch_size
    with in_evaluation(net), trainer.compute_loss_context_manager():
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            part = read(inputs_of(net, rows.batch(chosen))).float().cpu()
            found = part.new_empty(len(rows), part.shape[1]) if found is None else found
            found[torch.as_tensor(chosen)] = part
    assert found is not None, "a split has rows"
    return found
