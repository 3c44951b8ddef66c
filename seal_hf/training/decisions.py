"""Fit the decisions of a trainer's task-net on a data set, and write them into its config."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel
from transformers.trainer_utils import has_length
from transformers.utils import logging

from ..core.hierarchy import hierarchy_of
from ..core.sequences import IGNORED
from ..core.space import OutputSpace
from ..core.tag_schemes import given_types, scheme_of
from ..core.trees import has_trees
from ..data.tensors.collators import TensorRows
from ..decisions import (
    DECISIONS,
    FIXED,
    FOLDABLE,
    NEVER_EMPTY,
    THRESHOLD,
    ClassMaskDecisions,
    Decisions,
    LabelDecisions,
    MaskDecisions,
    TagDecisions,
)
from ..decisions.seen_sets import SeenSets
from ..decisions.targets import F1_EXAMPLE
from ..nets.adapters import library_of
from ..saving.export import ADAPTER_IS_NOT_FOLDED, saves_merged
from ..saving.fold import SEVERAL_CLASSES_ARE_NOT_FOLDED, check_foldable
from ..tasks.labels.metrics import first_output, sigmoid
from ..tasks.labels.metrics_by_batch import ThresholdScores
from ..tasks.labels.space import MultiLabelSpace
from ..tasks.masks.metrics import mask_probabilities
from ..tasks.masks.space import BinaryMaskSpace, MaskSpace
from ..tasks.tags.metrics import Tags
from ..tasks.tags.space import WITHIN_SCHEME, TagSequenceSpace
from .evaluation import are_too_many, give_by_batch, predicting

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


logger = logging.get_logger(__name__)


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
    if trainer.space.name not in DECISIONS:
        raise ValueError(f"`fit_decisions` is for spaces in `DECISIONS`, which lacks {trainer.space.name!r}.")
    decoder = trainer.args.decoder if decoder is None else decoder
    if isinstance(trainer.space, TagSequenceSpace):
        predicted, gold = predicted_tags(trainer, dataset, trainer.space.decoders)
        kind = "srl" if given_types(trainer.space.label_names) else scheme_of(trainer.space.label_names)
        trees = has_trees(trainer.space.label_names)
        pos = [[""] * len(tags) for tags in gold] if trees else None  # unknown here: all words of a tree count
        decisions: Decisions = fit_tags(predicted, gold, kind, trainer.args, decoder, pos)
    elif isinstance(trainer.space, MaskSpace):
        decisions = ClassMaskDecisions()
        decisions.named(decoder)
    elif isinstance(trainer.space, MultiLabelSpace) and is_fitted_by_batch(trainer, len(dataset), decoder):
        decisions = fit_threshold(trainer, dataset, decoder)
    else:
        with predicting(trainer):
            output = trainer.predict(dataset)
        if output.label_ids is None:
            raise ValueError("`dataset` has no labels: decisions are fitted on validation rows with labels.")
        logits, labels = first_output(output.predictions), first_output(output.label_ids)
        if isinstance(trainer.space, BinaryMaskSpace):
            decisions = MaskDecisions.fit(mask_probabilities(logits, labels.shape[1:]), labels, decoder=decoder)
        else:
            decisions = fit_labels(trainer, sigmoid(logits), labels, decoder)
    store(trainer, decisions)
    return decisions


def store(trainer: Any, decisions: Decisions) -> None:
    """Write decisions into the config of the trainer's model. For tags, its space uses them from now on."""
    decisions.store(trainer.accelerator.unwrap_model(trainer.model).config)
    if isinstance(decisions, TagDecisions):
        trainer.space = trainer.space.decided_by(decisions.decoder)


def fit_labels(
    trainer: Any, probabilities: np.ndarray, labels: np.ndarray, decoder: str | None = None
) -> LabelDecisions:
    """Fit decisions of label sets on predictions (N, L) of validation rows."""
    never_empty = every_row_has_a_label(trainer.train_dataset)
    among: Collection[str] | None = FOLDABLE if getattr(trainer.args, "fold_decision", False) else None
    hierarchy = hierarchy_of(trainer.accelerator.unwrap_model(trainer.model).config)
    options: dict[str, Any] = {"never_empty": never_empty, "among": among, "hierarchy": hierarchy}
    options |= {"seen": seen_sets(trainer.train_dataset, probabilities.shape[1])}
    options |= {"target": getattr(trainer.args, "target", F1_EXAMPLE)}
    return LabelDecisions.fit(probabilities, labels, decoder=decoder, **options)


def is_fitted_by_batch(trainer: Any, num_rows: int, decoder: str | None) -> bool:
    """True if the probabilities of `num_rows` rows are too many to keep, and the decoder does not need them."""
    plain = (decoder or THRESHOLD).removesuffix(NEVER_EMPTY)
    return plain in (FIXED, THRESHOLD) and are_too_many(trainer, num_rows)


def fit_threshold(trainer: Any, dataset: Any, decoder: str | None = None) -> LabelDecisions:
    """Fit label sets whose probabilities are too many to keep: choose between 0.5 and one threshold."""
    logger.warning(
        f"The probabilities of {len(dataset):,} rows and {trainer.model.config.num_labels:,} labels are too many to "
        f"keep: the decoder is chosen between {FIXED!r} and {THRESHOLD!r}. Name another one to fit it."
    )
    scores = ThresholdScores()
    give_by_batch(trainer, dataset, scores)
    if not scores.batches:
        raise ValueError("`dataset` has no labels: decisions are fitted on validation rows with labels.")
    return LabelDecisions.fit_threshold(
        scores,
        never_empty=every_row_has_a_label(trainer.train_dataset),
        decoder=decoder,
        foldable=getattr(trainer.args, "fold_decision", False),
        hierarchy=hierarchy_of(trainer.accelerator.unwrap_model(trainer.model).config),
    )


def fit_tags(
    predicted: Mapping[str, Tags],
    gold: Tags,
    kind: str,
    args: Any,
    decoder: str | None = None,
    pos: Sequence[Sequence[str]] | None = None,
) -> TagDecisions:
    """Fit decisions of tag sequences. With `constrained_decoding`, only decoders that follow the scheme are compared.

    Args:
        predicted: the predictions of each decoder.
        kind: as in `tag_metrics`.
        decoder: default: `args.decoder`.
        pos: as for `TagDecisions.fit`.
    """
    decoder = args.decoder if decoder is None else decoder
    if decoder is None and args.constrained_decoding:
        predicted = {name: tags for name, tags in predicted.items() if name in WITHIN_SCHEME}
    return TagDecisions.fit(predicted, gold, kind, decoder=decoder, pos=pos)


def predicted_tags(trainer: Any, dataset: Any, decoders: Sequence[str]) -> tuple[dict[str, Tags], Tags]:
    """Tag names at labelled positions: those of each decoder, from one pass over the rows, and gold."""
    with predicting(trainer, PredictionDecoder(trainer, decoders)):
        output = trainer.predict(dataset)
    if output.label_ids is None:
        raise ValueError("`dataset` has no labels: decisions are fitted on validation rows with labels.")
    names, labels = np.asarray(trainer.space.label_names, dtype=object), first_output(output.label_ids)
    arrays = output.predictions if isinstance(output.predictions, tuple) else (output.predictions,)

    def named(ids: np.ndarray) -> Tags:
        return [names[row[counts]].tolist() for row, counts in zip(ids, labels != IGNORED, strict=True)]

    return {name: named(np.asarray(ids)) for name, ids in zip(decoders, arrays, strict=True)}, named(labels)


def every_row_has_a_label(dataset: Any) -> bool:
    """True if each row of a training set of label sets is known to have a label."""
    if isinstance(dataset, TensorRows):
        if "labels" in dataset.ragged:
            return bool((dataset.ragged["labels"][1].diff() > 0).all())
        return "labels" in dataset.dense and bool((dataset.dense["labels"] > 0).any(1).all())
    if "labels" not in (getattr(dataset, "column_names", None) or ()):
        return False
    return all(any(label > 0 for label in row) for row in dataset["labels"][:])


def seen_sets(dataset: Any, num_labels: int) -> SeenSets | None:
    """The label sets of a training set's rows whose labels are all known; None without any that occurs twice."""
    rows: Any = ()
    if isinstance(dataset, TensorRows) and "labels" in dataset.ragged:
        flat, offsets = (column.numpy() for column in dataset.ragged["labels"])
        rows = np.split(flat, offsets[1:-1])
    elif isinstance(dataset, TensorRows) and "labels" in dataset.dense:
        rows = _known_sets(dataset.dense["labels"].numpy())
    elif "labels" in (getattr(dataset, "column_names", None) or ()):
        rows = _known_sets(np.asarray(dataset["labels"][:]))
    return SeenSets.of_rows(rows, num_labels)


def _known_sets(labels: np.ndarray) -> Iterator[np.ndarray]:
    """The ids of each row's labels, from labels (N, L), without rows that have an unknown one."""
    return (np.flatnonzero(row > 0) for row in labels if (row >= 0).all())


def check_decoder(model: PreTrainedModel, space: OutputSpace, args: Any) -> None:
    """Raises ValueError for a decoder that these outputs lack, or that the task-net's bias cannot hold.

    The names of decoders are known before training; their numbers for label sets and masks are fitted after it.
    """
    decoder = args.decoder
    if isinstance(space, TagSequenceSpace):
        space.decided_by(decoder)
        if args.fold_decision:
            raise ValueError("`fold_decision` is True, but tags are not decided by a threshold. Leave it out.")
        return
    kind: Any = DECISIONS.get(space.name)
    if kind is not None:
        kind.check_name(decoder, model.config, getattr(args, "target", None))
    elif decoder is not None or args.fold_decision:
        raise ValueError(
            f"`decoder` and `fold_decision` are for spaces in `DECISIONS`, which lacks {space.name!r}. Leave them out."
        )
    if args.fold_decision and isinstance(space, MaskSpace):
        raise ValueError(SEVERAL_CLASSES_ARE_NOT_FOLDED)
    if args.fold_decision and decoder not in (None, *FOLDABLE):
        raise ValueError(
            f"`fold_decision` is True, but a bias can only hold a threshold, not decoder={decoder!r}. Use one of "
            f"{', '.join(FOLDABLE)}, or leave one of the two arguments out."
        )
    if args.fold_decision and library_of(model) is None:
        check_foldable(model)
    elif args.fold_decision and not saves_merged(model, args.adapter_export):
        raise ValueError(ADAPTER_IS_NOT_FOLDED)
