"""The linear baseline of a run on label sets: a logistic regression on frozen features, fitted before the training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..data.tensors.collators import TensorRows
from ..data.tensors.length_order import longest_first
from ..decisions.targets import F1_EXAMPLE, F1_MACRO, target_scores
from ..nets.encoders import inputs_of, task_features
from ..nets.frozen_encoder import OUTPUTS
from ..nets.heads import MEAN
from ..nets.image_features import head_of, reads_images, shared_size, with_features
from ..nets.linear import LogisticRegressions, cross_validated, fit_work
from ..utils.modules import in_evaluation, without_wrapper
from .decisions import fit_labels
from .evaluation import are_too_many

ENCODER, FEATURES = "encoder", "features"  # what a baseline reads: an encoder that stays as it is, or the data
SHARE = 0.1  # of the training: the most work that a baseline may take
STEP_WORK = 3e8  # of a training step beside the forward and backward of the nets, in multiplications
IMAGE_POSITIONS = 200  # how often an image net uses each weight: patches of a ViT, places of a feature map
USUAL_WIDTH = 1024  # of the features of a net whose configuration does not state it
BACKWARD = 2  # work of a backward pass, in forward passes


class LinearBaseline(NamedTuple):
    """A fitted baseline.

    Attributes:
        on: `ENCODER` or `FEATURES`.
        regressions: one for each label.
        probabilities: split, `eval` or `test` -> (N, L).
    """

    on: str
    regressions: LogisticRegressions
    probabilities: Mapping[str, np.ndarray]


def fit_baseline(trainer: Any) -> LinearBaseline:
    """Fit a logistic regression on the trainer's training rows and predict its other rows. It reads features as they
    are, of texts the mean over tokens of the encoder's last hidden states, of images what the head reads. The task-net
    must not be trained yet.

    Raises:
        ValueError: the task-net gives no hidden states.
    """
    net, train = _net_of(trainer), trainer.train_dataset
    regressions = _fitted(trainer, _frozen_features(trainer, net, train))
    splits = {"eval": trainer.eval_dataset, "test": getattr(trainer, "test_dataset", None)}
    probabilities = {
        split: regressions.probabilities(_frozen_features(trainer, net, rows))
        for split, rows in splits.items()
        if rows is not None
    }
    return LinearBaseline(FEATURES if _reads_features(net) else ENCODER, regressions, probabilities)


@torch.no_grad()
def fit_head(trainer: Any) -> LogisticRegressions:
    """Fit a logistic regression on what the task-net's last layer reads, and write it into this layer. Every process
    does the same.

    Raises:
        ValueError: no linear layer with a bias gives the logits.
    """
    net, rows = _net_of(trainer), trainer.train_dataset.unaugmented()
    with in_evaluation(net):
        layer, _ = head_of(net, inputs_of(net, rows.batch([0])))
    if layer is None or layer.bias is None:
        raise ValueError(
            f"`linear` is True, but no linear layer with a bias gives the logits of {type(net).__name__}, so it cannot "
            "hold a logistic regression. Use an encoder such as BERT, or leave `linear` out."
        )
    found = _fitted(trainer, _by_batch(trainer, net, rows, lambda inputs: head_of(net, inputs)[1]))
    layer.weight.copy_(found.weight)
    layer.bias.copy_(found.bias)
    return found


def _fitted(trainer: Any, features: Tensor) -> LogisticRegressions:
    """Fitted to the labels of the trainer's training rows, on a GPU if the run has one."""
    rows, target = trainer.train_dataset, getattr(trainer.args, "target", F1_EXAMPLE)
    device = trainer.args.device if trainer.args.device.type == "cuda" else "cpu"
    return cross_validated(features.to(device), _labels(trainer, rows), rows.dense.get("sample_weight"), target)


def _labels(trainer: Any, rows: TensorRows) -> Tensor:
    """The labels of rows, (N, L), without reading their other columns."""
    if "labels" in rows.dense:
        return rows.dense["labels"]
    ids, offsets = rows.ragged["labels"]
    found = torch.zeros(len(rows), trainer.model.config.num_labels)
    found[torch.arange(len(rows)).repeat_interleave(offsets.diff()), ids] = 1
    return found


def _net_of(trainer: Any) -> Any:
    """The task-net, which PEFT or a launcher may have wrapped."""
    return without_wrapper(trainer.accelerator.unwrap_model(trainer.model))


def figures_of(trainer: Any, baseline: LinearBaseline, gold: Mapping[str, np.ndarray | None]) -> dict[str, float]:
    """The figure by which decoders are chosen, and macro F1, of the baseline's decisions, fitted on validation rows as
    those of the task-net are: `{split}_{target}_linear_{on}`.

    Args:
        gold: split -> labels (N, L), or None.
    """
    assert gold["eval"] is not None, "as predict_multilabel says"
    decisions = fit_labels(trainer, baseline.probabilities["eval"], gold["eval"], trainer.args.decoder)
    found = {}
    for split, labels in gold.items():
        if labels is not None:
            decided = decisions.decide(baseline.probabilities[split])
            for target in (decisions.target, F1_MACRO):
                value = target_scores(target, decided, labels, 1.0).mean()
                found[f"{split}_{figure_key(target, baseline.on)}"] = float(value)
    return found


def figure_key(target: str, on: str) -> str:
    """The key of a baseline's figure in the result files, without its split."""
    return f"{target}_linear_{on}"


def why_no_baseline(trainer: Any) -> str | None:
    """The reason for which a run fits no baseline beside, as the end of a sentence; None if it does."""
    rows = trainer.train_dataset
    if not isinstance(rows, TensorRows) or not isinstance(trainer.eval_dataset, TensorRows):
        return "its rows are no tensors"
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        return "the task-net is sharded"
    test = getattr(trainer, "test_dataset", None)
    if are_too_many(trainer, max(len(each) for each in (rows, trainer.eval_dataset, test) if each is not None)):
        return "the probabilities of all rows are too many to keep"
    if baseline_work(trainer) > SHARE * training_work(trainer):
        return f"it would take more than {SHARE:.0%} of the training"
    return None


def baseline_work(trainer: Any) -> float:
    """The multiplications, roughly, of a baseline: its features of training and validation rows, and the fit. Those of
    test rows belong to the evaluation."""
    net, rows = _net_of(trainer), trainer.train_dataset
    read = 0 if _reads_features(net) else len(rows) + len(trainer.eval_dataset)
    width = rows.dense["features"].shape[1] if _reads_features(net) else shared_size(net) or USUAL_WIDTH
    return read * _forward_work(trainer, net) + fit_work(len(rows), width, net.config.num_labels)


def training_work(trainer: Any) -> float:
    """The multiplications, roughly, of the training as it is planned, with its evaluations."""
    args, rows = trainer.args, trainer.train_dataset
    batch = trainer.get_total_train_batch_size(args)
    steps = args.max_steps if args.max_steps > 0 else args.num_train_epochs * -(-len(rows) // batch)
    evaluated = 0 if args.eval_strategy == "no" else steps * batch / len(rows) * len(trainer.eval_dataset)
    forward = _forward_work(trainer, _net_of(trainer))
    return steps * STEP_WORK + (steps * batch * (1 + BACKWARD) + evaluated) * forward


def _forward_work(trainer: Any, net: Any) -> float:
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
def _frozen_features(trainer: Any, net: Any, rows: TensorRows) -> Tensor:
    """What a baseline reads of each row: (N, D)."""
    if OUTPUTS in rows.dense:
        return rows.dense[OUTPUTS][:, trainer.frozen_encoder.poolings.index(MEAN)]
    if _reads_features(net):
        return rows.dense["features"]

    def read(inputs: dict[str, Tensor]) -> Tensor:
        return task_features(with_features(net, inputs), inputs, net)

    return _by_batch(trainer, net, rows, read)


def _by_batch(trainer: Any, net: Any, rows: TensorRows, read: Any) -> Tensor:
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
