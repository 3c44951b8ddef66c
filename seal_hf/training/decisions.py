"""Fit the decisions of a trainer's task-net on a data set, and write them into its config."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel
from transformers.trainer_utils import PredictionOutput, has_length

from ..core.decisions import FOLDABLE, Decisions
from ..core.space import OutputSpace
from ..core.task import DECISIONS, task_of
from ..nets.adapters import library_of
from ..saving.export import ADAPTER_IS_NOT_FOLDED, saves_merged
from ..saving.fold import check_foldable

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
        """Called before a batch is evaluated. If it lacks labels, its inputs tell which positions are decoded."""
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
    found = ""
    if isinstance(dataset, dict) and dataset:
        found = f"several data sets, {', '.join(dataset)}"
    elif dataset is not None and not has_length(dataset):
        found = f"no length, as a {type(dataset).__name__}"
    elif not dataset:
        found = "no rows"
    if found:
        raise ValueError(f"`dataset` has {found}: decisions are fitted on one set of validation rows with labels.")
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
        kind.check_name(decoder, model.config, getattr(args, "target", None))
    elif decoder is not None or args.fold_decision:
        raise ValueError(
            f"`decoder` and `fold_decision` are for spaces in `DECISIONS`, which lacks {space.name!r}. Leave them out."
        )
    if args.fold_decision and task is not None and (why := task.why_not_folded(space)):
        raise ValueError(why)
    if args.fold_decision and decoder not in (None, *FOLDABLE):
        raise ValueError(
            f"`fold_decision` is True, but a bias can only hold a threshold, not decoder={decoder!r}. Use one of "
            f"{', '.join(FOLDABLE)}, or leave one of the two arguments out."
        )
    if args.fold_decision and library_of(model) is None:
        check_foldable(model)
    elif args.fold_decision and not saves_merged(model, args.adapter_export):
        raise ValueError(ADAPTER_IS_NOT_FOLDED)
