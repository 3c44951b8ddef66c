"""Evaluations: scoring all rows at once in their own order, or batch by batch if they are too many; energies of a few
rows; and decisions, fitted on a data set and written into the task-net's config."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import PreTrainedModel, TrainingArguments
from transformers.trainer_utils import PredictionOutput, has_length
from transformers.utils import logging

from ..core.decisions import FOLDABLE, Decisions
from ..core.space import OutputSpace
from ..core.task import DECISIONS, task_of
from ..data.tensors.collators import in_own_order
from ..loss_net.loss_net import LossNet
from ..nets.adapters import library_of
from ..nets.frozen_encoder import FEATURES, OUTPUTS, encoder_inputs
from ..saving.export import ADAPTER_IS_NOT_FOLDED, check_foldable, saves_merged
from ..saving.model import kind_of
from ..utils.modules import in_evaluation
from .launchers import SHARDED

if TYPE_CHECKING:
    from transformers import Trainer

logger = logging.get_logger(__name__)


LARGEST_WHOLE = 2 * 10**8  # logits that an evaluation keeps: 0.8 GB, as much for labels, and then copies of both


def scored_by(args: TrainingArguments, compute_metrics: Callable | None) -> Callable | None:
    """The `compute_metrics` for the Trainer: with `batch_eval_metrics`, the by-batch form of one of ours."""
    by_batch = getattr(compute_metrics, "by_batch", None)
    return by_batch() if args.batch_eval_metrics and by_batch is not None else compute_metrics


@contextmanager
def changed(owner: Any, **values: Any) -> Iterator[None]:
    """Give attributes of `owner` these values while the block runs."""
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


def scorer(
    trainer: Trainer, dataloader: DataLoader, whole: bool, order: Sequence[int] | None
) -> tuple[bool, Callable | None]:
    """How a trainer scores an evaluation: whether by batch, and its `compute_metrics`. That gets all rows in their own
    order. If it has a by-batch form, it gets a batch at a time with `batch_eval_metrics`, or if an evaluation has too
    many logits to keep.

    Args:
        whole: True if the logits are kept, however many they are.
        order: in which `dataloader` gives the rows; None for their own.
    """
    compute_metrics, by_batch = trainer.compute_metrics, trainer.args.batch_eval_metrics
    make = getattr(compute_metrics, "by_batch", None)
    if make is not None and not by_batch and not whole:
        by_batch = _gives_up_logits(trainer, dataloader, make)
    if make is not None and by_batch:
        return by_batch, make()
    if order is not None and compute_metrics is not None:
        compute_metrics = in_own_order(compute_metrics, order)
    return by_batch, compute_metrics


def counted_rows(accelerator: Accelerator, size: int) -> int:
    """The number of rows of an evaluation's batch that count, from the first on. With several processes, accelerate
    fills the last batches up with rows that it has given before.

    Args:
        size: rows of this process's batch. It stays if none of them counts, for a mean over them is not read.
    """
    state = accelerator.gradient_state
    if not state.end_of_dataloader or state.remainder <= 0:
        return size
    return min(max(state.remainder - accelerator.process_index * size, 0), size) or size


def are_too_many(model: Any, num_rows: int) -> bool:
    """True if the logits of `num_rows` rows are too many to keep."""
    return num_rows * model.config.num_labels > LARGEST_WHOLE


def _gives_up_logits(trainer: Trainer, dataloader: DataLoader, make: Any) -> bool:
    """True if the logits of an evaluation are not kept; a warning then lists the figures that it lacks."""
    model: Any = trainer.model
    metrics: Any = trainer.compute_metrics
    rows, kept = trainer.num_examples(dataloader), make().figures
    left_out = [name for name in metrics.figures if name not in kept]
    wanted = (trainer.args.metric_for_best_model or "").removeprefix("eval_")
    if not are_too_many(model, rows) or wanted in left_out:
        return False
    logger.warning_once(
        f"The logits of {rows:,} rows and {model.config.num_labels:,} labels are not kept: figures are computed by "
        f"batch, without {', '.join(left_out)}."
    )
    return True


# Energies of the few rows that a page shows.


def has_energies(trainer: Any) -> bool:
    """True if the main process alone can compute energies: there is a loss-net, and the task-net is not sharded."""
    there = getattr(trainer, "loss_net", None) is not None or _is_alone(trainer.accelerator.unwrap_model(trainer.model))
    return there and trainer.accelerator.distributed_type not in SHARDED


@torch.no_grad()
def energies(trainer: Any, batch: dict[str, Tensor], y: Tensor, mask: Tensor | None = None) -> list[list[float]] | None:
    """The energies of candidates, B rows of S numbers; None if a cache has replaced the inputs of the rows.

    Args:
        trainer: of which [`has_energies`] is True.
        batch: rows as the nets read them.
        y: candidates (B, S, ...).
        mask: (B, ...) positions that count; None: all count.
    """
    if OUTPUTS in batch or FEATURES in batch:
        return None
    model, loss_net = trainer.accelerator.unwrap_model(trainer.model), getattr(trainer, "loss_net", None)
    inputs = {name: column.to(trainer.args.device) for name, column in encoder_inputs(batch).items()}
    given = y.to(trainer.args.device), None if mask is None else mask.to(trainer.args.device)
    kind: Any = kind_of(model, trainer.space)
    with in_evaluation(model), in_evaluation(loss_net or model), trainer.accelerator.autocast():
        found = model(*given, inputs) if _is_alone(model) else kind(model, loss_net).energy(*given, **inputs)
    return found.double().tolist()


def _is_alone(model: nn.Module) -> bool:
    """True for the model of a trainer that trains an energy network."""
    return isinstance(model, LossNet)


# Evaluations that gather decoded structures in place of logits.


class PredictionDecoder:
    """A `preprocess_logits_for_metrics` that decodes by a trainer's space: tag ids (B, T), not logits.

    Args:
        trainer: its space and model are read at each call.
        decoders: names of decoders; each gives an array. Default: the space's own, which gives a single array.
    """

    def __init__(self, trainer: Any, decoders: Sequence[str] | None = None):
        self.trainer = trainer
        self.decoders = decoders
        self._positions: Tensor | None = None

    def see(self, inputs: dict[str, Tensor]) -> None:
        """Note a batch before it is evaluated. If it lacks labels, its inputs tell which positions are decoded."""
        if "labels" not in inputs:
            trainer = self.trainer
            self._positions = trainer.space.positions(trainer.model, trainer._prepare_inputs(inputs))

    def __call__(self, logits: Tensor | tuple[Tensor, ...], labels: Tensor | None) -> Any:
        logits = logits[0] if isinstance(logits, tuple) else logits
        mask = self._positions if labels is None else self.trainer.space.gold(labels)[1]
        if mask is not None and labels is None:  # unlike labels, it is not padded to the width of other processes
            mask = F.pad(mask, (0, logits.shape[1] - mask.shape[1]))
        space = self.trainer.space
        if self.decoders is None:
            return space.decode(logits, mask=mask)
        return tuple(space.decided_by(name).decode(logits, mask=mask) for name in self.decoders)


def check_undecoded(preprocess_logits_for_metrics: Callable | None) -> None:
    """Raises ValueError if the user's `preprocess_logits_for_metrics` also wants the logits."""
    if preprocess_logits_for_metrics is not None:
        raise ValueError(
            "`decode_predictions` is True, but `preprocess_logits_for_metrics` is given: both process the logits of an "
            "evaluation. Leave one of them out."
        )


def fit_decisions(trainer: Any, dataset: Any, decoder: str | None = None) -> Decisions:
    """Predict a data set, fit the decisions of the task-net on it, and store them.

    Args:
        trainer: a [`SealTrainer`].
        dataset: validation rows with labels.
        decoder: default: `args.decoder`, or else chosen by cross-fitting.

    Raises:
        ValueError: no rows or no labels; an unknown decoder; a space that is not in `DECISIONS`.
    """
    if isinstance(dataset, dict) and dataset:
        given = "trainer.eval_dataset" if dataset is trainer.eval_dataset else "dataset"
        raise ValueError(
            f"`dataset` has several data sets, {', '.join(dataset)}: decisions are fitted on one. Give one of them, "
            f"such as fit_decisions({given}[{next(iter(dataset))!r}])."
        )
    if dataset is not None and not has_length(dataset):
        raise ValueError(
            f"`dataset` ({type(dataset).__name__}) has no length: decisions are fitted on a set of validation rows. "
            "Give fit_decisions one with a length, such as datasets.Dataset.from_list(list(rows))."
        )
    if not dataset:
        raise ValueError("`dataset` has no rows: decisions are fitted on one set of validation rows with labels.")
    task = task_of(trainer.space)
    if task is None or trainer.space.name not in DECISIONS:
        raise ValueError(f"`fit_decisions` is for spaces in `DECISIONS`, which lacks {trainer.space.name!r}.")
    decoder = trainer.args.decoder if decoder is None else decoder
    decisions: Decisions = task.fit_decisions(trainer, dataset, decoder)
    store(trainer, decisions)
    return decisions


def store(trainer: Any, decisions: Decisions) -> None:
    """Write decisions into the config of the trainer's model. A space that decodes uses them from now on."""
    decisions.store(trainer.accelerator.unwrap_model(trainer.model).config)
    if hasattr(trainer, "decide_by"):  # a plain Trainer has no space
        trainer.decide_by(decisions.decoder)


def predicted(trainer: Any, dataset: Any, decoders: Sequence[str] | None = None) -> PredictionOutput:
    """What the task-net predicts for a data set with labels; with `decoders`, what each of them decides.

    Raises:
        ValueError: the data set has no labels.
    """
    with trainer.predicting(PredictionDecoder(trainer, decoders) if decoders else None):
        output = trainer.predict(dataset)
    if output.label_ids is None:
        raise ValueError("`dataset` has no labels: decisions are fitted on validation rows with labels.")
    return output


def check_decoder(model: PreTrainedModel, space: OutputSpace, args: Any) -> None:
    """Raises ValueError for a decoder that these outputs lack, or that the task-net's bias cannot hold.

    The names of decoders are known before training; their numbers for label sets and masks are fitted after it.
    """
    decoder, task = args.decoder, task_of(space)
    space.decided_by(decoder)
    if task is not None and task.decodes:
        if args.fold_decision:
            raise ValueError(f"`fold_decision` is True, but {task.name} are not decided by a threshold. Leave it out.")
        return
    kind: Any = DECISIONS.get(space.name)
    if kind is not None:
        kind.check_arguments(args, model.config)
    elif decoder is not None or args.fold_decision:
        raise ValueError(
            f"`decoder` and `fold_decision` are for spaces in `DECISIONS`, which lacks {space.name!r}. Leave them out."
        )
    if args.fold_decision:
        kind.check_has_threshold()
    if args.fold_decision and decoder not in (None, *FOLDABLE):
        raise ValueError(
            f"`fold_decision` is True, but a bias can only hold a threshold, not decoder={decoder!r}. Use one of "
            f"{', '.join(FOLDABLE)}, or leave one of the two arguments out."
        )
    if args.fold_decision and library_of(model) is None:
        check_foldable(model)
    elif args.fold_decision and not saves_merged(model, args.adapter_export):
        raise ValueError(ADAPTER_IS_NOT_FOLDED)
