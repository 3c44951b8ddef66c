"""The logistic regression of a run on label sets. It is fitted on frozen features before the training, and judged
beside the task-net. An MLP takes it in after the training, unless validation rows lose. With `--linear true` it is the
last layer of the task-net, and nothing else is trained. `logistic.py` has the fit itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import broadcast_object_list
from torch import Tensor, nn

from ...core.arrays import sigmoid
from ...core.decisions import usual_or_better
from ...data.tensors.collators import TensorRows, is_table, longest_first
from ...nets.encoders import MLPForMultiLabel, inputs_of, task_features
from ...nets.frozen_encoder import OUTPUTS
from ...nets.heads import MEAN, head_of, reads_images, shared_size, with_features
from ...trainer import SealTrainer
from ...training.base import StructuredTrainer
from ...training.epochs import epochs_for
from ...training.evaluation import are_too_many
from ...utils.modules import in_evaluation, without_wrapper
from .decisions.decoders import clipped_logit
from .decisions.of_trainer import fit_labels
from .decisions.targets import F1_EXAMPLE, F1_MACRO, LOWER_IS_BETTER, names_in, options_of, reported, target_scores
from .evaluation import predict_multilabel
from .logistic import LogisticRegressions, cross_validated, fit_work, row_scores

ENCODER, FEATURES = "linear_encoder", "linear_features"  # a baseline reads an encoder that stays as it is, or the data
ALONE = "net_alone"
COLUMNS = ("features", "labels", "sample_weight")  # of a table, that it reads
DEAD = 1e-4  # of the median deviation of an encoder's features: smaller ones would get weights as large as 1e30

# --- beside the task-net ----------------------------------------------------------------------------------------------


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


def fit_baseline(trainer: SealTrainer, splits: Mapping[str, TensorRows]) -> LinearBaseline:
    """Fit a logistic regression on the trainer's training rows, and predict the rows of `splits`. It reads features as
    they are, of texts the mean of the encoder's last hidden states over tokens, of images what the head reads. The
    task-net must not be trained yet.

    Raises:
        ValueError: the task-net gives no hidden states.
    """
    train, name = trainer.train_dataset, FEATURES if _reads_features(_net_of(trainer)) else ENCODER
    found = _fitted(trainer, train, _frozen_features(trainer, train))
    probabilities = {split: found.probabilities(_frozen_features(trainer, rows)) for split, rows in splits.items()}
    return LinearBaseline(name, found, probabilities)


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


# --- in the task-net --------------------------------------------------------------------------------------------------


def average_with_regression(
    trainer: SealTrainer, dataset: Any = None, regressions: LogisticRegressions | None = None
) -> tuple[float, float] | None:
    """Replace the logits of a trained MLP by the mean of its own and of a logistic regression's, unless validation rows
    lose more than a standard error: the epoch was chosen on them for the net without it. Call it once after a training,
    before `fit_decisions`: decisions that were fitted before are dropped.

    Args:
        trainer: has trained an [`MLPForMultiLabel`].
        dataset: validation rows with labels; default: `eval_dataset`.
        regressions: of the features as they are; default: fitted to `train_dataset`, with settings chosen by
            cross-validation.

    Returns:
        the figure by which decoders are chosen, see [`row_scores`], with the regression and without it; None if the net
        stays as it is.

    Raises:
        ValueError: another net, or a sharded one; rows that are neither a `datasets.Dataset` nor [`TensorRows`].
    """
    net, dataset = _net_of(trainer), trainer.eval_dataset if dataset is None else dataset
    if not isinstance(net, MLPForMultiLabel) or _is_sharded(trainer):
        found = "a sharded net" if _is_sharded(trainer) else f"a {type(net).__name__}"
        raise ValueError(
            f"average_with_regression got {found}; expected an MLPForMultiLabel, which can hold a logistic regression "
            "of its features, without FSDP and DeepSpeed. Leave the call out."
        )
    rows = _tensor_rows(dataset)
    if regressions is None:
        train = _tensor_rows(trainer.train_dataset)
        regressions = _fitted(trainer, train, train.dense["features"])
    shared = [regressions._replace(weight=regressions.weight.cpu(), bias=regressions.bias.cpu())]
    (regressions,) = broadcast_object_list(shared)  # unlike GPUs fit a little differently, and all decide alike
    without, labels = predict_multilabel(trainer, dataset, None)["eval"]
    assert labels is not None, "as predict_multilabel says"
    linear = regressions.probabilities(rows.dense["features"])
    mean = sigmoid((clipped_logit(without) + clipped_logit(linear)) / 2)
    scores = {name: row_scores(p, labels, **_asked(trainer)) for name, p in (("mean", mean), (ALONE, without))}
    if usual_or_better(scores, "mean") == ALONE:
        return None
    net.average_with(regressions.weight, regressions.bias)
    vars(net.config).pop("decisions", None)
    return float(scores["mean"].mean()), float(scores[ALONE].mean())


def without_regression(mean: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """The probabilities that a net had before [`average_with_regression`], from those that it has, and those of the
    regression."""
    return sigmoid(2 * clipped_logit(mean) - clipped_logit(linear))


@torch.no_grad()
def fit_head(trainer: SealTrainer) -> LogisticRegressions:
    """Fit a logistic regression on what the task-net's last layer reads, and write it into this layer.

    Raises:
        ValueError: no linear layer with a bias gives the logits.
    """
    net, rows = _net_of(trainer), trainer.train_dataset
    with in_evaluation(net):
        layer, _ = head_of(net, inputs_of(net, rows.unaugmented().batch([0])))
    if layer is None or layer.bias is None:
        other = "an encoder such as BERT" if not _reads_features(net) else "a fresh net (no --model_name_or_path)"
        raise ValueError(
            f"`linear` is True, but no linear layer with a bias gives the logits of {type(net).__name__}, so it cannot "
            f"hold a logistic regression. Use {other}, or leave `linear` out."
        )
    found = _fitted(trainer, rows, _by_batch(trainer, rows, lambda inputs: head_of(net, inputs)[1]))
    layer.weight.copy_(found.weight)
    layer.bias.copy_(found.bias)
    return found


# --- what it reads ----------------------------------------------------------------------------------------------------


def _fitted(trainer: SealTrainer, rows: TensorRows, features: Tensor) -> LogisticRegressions:
    """Fitted to the labels of training rows, on a GPU if the run has one."""
    device = trainer.args.device if trainer.args.device.type == "cuda" else "cpu"
    if not _reads_features(_net_of(trainer)):
        deviations = features.std(0)
        features = features * (deviations > DEAD * deviations.median())
    labels = _labels(rows, _net_of(trainer).config.num_labels)
    return cross_validated(features.to(device), labels, rows.dense.get("sample_weight"), **_asked(trainer))


def _asked(trainer: SealTrainer) -> dict[str, Any]:
    """The target of the decisions, and its costs."""
    return options_of(getattr(trainer.args, "target", F1_EXAMPLE), names_in(_net_of(trainer).config))


def _labels(rows: TensorRows, num_labels: int) -> Tensor:
    """The labels of rows, (N, L), without reading their other columns."""
    if "labels" in rows.dense:
        return rows.dense["labels"]
    ids, offsets = rows.ragged["labels"]
    found = torch.zeros(len(rows), num_labels)
    found[torch.arange(len(rows)).repeat_interleave(offsets.diff()), ids] = 1
    return found


def _tensor_rows(rows: Any) -> TensorRows:
    """Rows of features as [`TensorRows`]. ValueError for rows of another form."""
    if is_table(rows):
        return TensorRows(rows.select_columns([name for name in COLUMNS if name in rows.column_names]))
    if not isinstance(rows, TensorRows):
        raise ValueError(
            f"average_with_regression got rows as {type(rows).__name__}; expected TensorRows, or a datasets.Dataset "
            "without a transform. Give validation rows by `dataset`, training rows as the trainer's `train_dataset`."
        )
    return rows


def _net_of(trainer: SealTrainer) -> Any:
    """The task-net, which PEFT or a launcher may have wrapped."""
    return without_wrapper(trainer.accelerator.unwrap_model(trainer.model))


def _reads_features(net: Any) -> bool:
    return net.main_input_name == "features"


@torch.no_grad()
def _frozen_features(trainer: SealTrainer, rows: TensorRows) -> Tensor:
    """What a baseline reads of each row: (N, D)."""
    net = _net_of(trainer)
    if OUTPUTS in rows.dense:
        return rows.dense[OUTPUTS][:, trainer.frozen_encoder.poolings.index(MEAN)]
    if _reads_features(net):
        return rows.dense["features"]
    return _by_batch(trainer, rows, lambda inputs: task_features(with_features(net, inputs), inputs, net))


def _by_batch(trainer: SealTrainer, rows: TensorRows, read: Callable[[dict[str, Tensor]], Any]) -> Tensor:
    """What `read` makes of the inputs of each row, in the rows' own order: (N, D), on the CPU."""
    rows, net, size = rows.unaugmented(), _net_of(trainer), trainer.args.eval_batch_size
    order = torch.tensor(longest_first(rows) or range(len(rows)))
    with in_evaluation(net), trainer.compute_loss_context_manager():
        parts = [read(inputs_of(net, rows.batch(chosen))).float().cpu() for chosen in order.split(size)]
    return torch.cat(parts)[order.argsort()]


# --- whether it is worth its time -------------------------------------------------------------------------------------

SHARES = {ENCODER: 0.1, FEATURES: 1.0}  # of the training: the most work that a baseline may take; an MLP may take it in
STEP_WORK = 3e8  # of a training step beside the forward and backward of the nets, in multiplications
BACKWARD = 2  # work of a backward pass, in forward passes
IMAGE_POSITIONS = 200  # how often an image net uses each weight: patches of a ViT, places of a feature map
USUAL_WIDTH = 1024  # of the features of a net whose configuration does not state it


def why_no_baseline(trainer: SealTrainer, splits: Mapping[str, Any]) -> str | None:
    """Why a run fits no baseline beside the net, as the end of a sentence; None if it fits one, as [`fit_baseline`]."""
    if _is_sharded(trainer):
        return "the task-net is sharded"
    if are_too_many(trainer.model, max(map(len, (trainer.train_dataset, *splits.values())))):
        return "the probabilities of all rows are too many to keep"
    share = SHARES[FEATURES if _reads_features(_net_of(trainer)) else ENCODER]
    if baseline_work(trainer) > share * training_work(trainer):
        return f"it would take more than {share:.0%} of the training"
    return None


def _is_sharded(trainer: SealTrainer) -> bool:
    return trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled


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
