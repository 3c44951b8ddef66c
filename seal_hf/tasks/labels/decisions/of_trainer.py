"""How the decisions of label sets are fitted to what a trainer predicts.

`label_decisions.py` has the decoders and how one is chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from transformers.utils import logging

from ....core.arrays import first_output, sigmoid
from ....core.decisions import FIXED, FOLDABLE, THRESHOLD
from ....core.hierarchy import hierarchy_of
from ....data.tensors.collators import TensorRows, is_table
from ....training.evaluation import are_too_many, predicted
from ..metrics import ThresholdScores
from .label_decisions import NEVER_EMPTY, LabelDecisions
from .seen_sets import SeenSets
from .targets import F1_EXAMPLE, names_in, options_of

logger = logging.get_logger(__name__)


def fit_decisions(trainer: Any, dataset: Any, decoder: str | None) -> LabelDecisions:
    """The decisions of label sets, fitted on validation rows."""
    if is_fitted_by_batch(trainer, len(dataset), decoder):
        return fit_threshold(trainer, dataset, decoder)
    output = predicted(trainer, dataset)
    logits, labels = first_output(output.predictions), first_output(output.label_ids)
    return fit_labels(trainer, sigmoid(logits), labels, decoder)


def fit_labels(
    trainer: Any, probabilities: np.ndarray, labels: np.ndarray, decoder: str | None = None
) -> LabelDecisions:
    """Fit decisions of label sets on predictions (N, L) of validation rows."""
    never_empty = every_row_has_a_label(trainer.train_dataset)
    among: Collection[str] | None = FOLDABLE if getattr(trainer.args, "fold_decision", False) else None
    config = trainer.accelerator.unwrap_model(trainer.model).config
    options: dict[str, Any] = {"never_empty": never_empty, "among": among, "hierarchy": hierarchy_of(config)}
    options |= {"seen": seen_sets(trainer.train_dataset, probabilities.shape[1])}
    options |= options_of(getattr(trainer.args, "target", F1_EXAMPLE), names_in(config))
    return LabelDecisions.fit(probabilities, labels, decoder=decoder, **options)


def is_fitted_by_batch(trainer: Any, num_rows: int, decoder: str | None) -> bool:
    """True if the probabilities of `num_rows` rows are too many to keep, and the decoder does not need them."""
    plain = (decoder or THRESHOLD).removesuffix(NEVER_EMPTY)
    return plain in (FIXED, THRESHOLD) and are_too_many(trainer.model, num_rows)


def fit_threshold(trainer: Any, dataset: Any, decoder: str | None = None) -> LabelDecisions:
    """Fit label sets whose probabilities are too many to keep: choose between 0.5 and one threshold."""
    logger.warning(
        f"The probabilities of {len(dataset):,} rows and {trainer.model.config.num_labels:,} labels are too many to "
        f"keep: the decoder is chosen by example F1 between {FIXED!r} and {THRESHOLD!r}. Name another one to fit it."
    )
    scores = ThresholdScores()
    trainer.give_by_batch(dataset, scores)
    if not scores.batches:
        raise ValueError("`dataset` has no labels: decisions are fitted on validation rows with labels.")
    return LabelDecisions.fit_threshold(
        scores,
        never_empty=every_row_has_a_label(trainer.train_dataset),
        decoder=decoder,
        foldable=getattr(trainer.args, "fold_decision", False),
        hierarchy=hierarchy_of(trainer.accelerator.unwrap_model(trainer.model).config),
    )


def every_row_has_a_label(dataset: Any) -> bool:
    """True if each row of a training set of label sets is known to have a label."""
    if isinstance(dataset, TensorRows):
        if "labels" in dataset.ragged:
            return bool((dataset.ragged["labels"][1].diff() > 0).all())
        return "labels" in dataset.dense and bool((dataset.dense["labels"] > 0).any(1).all())
    if not is_table(dataset) or "labels" not in dataset.column_names:
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
    elif is_table(dataset) and "labels" in dataset.column_names:
        rows = _known_sets(np.asarray(dataset["labels"][:]))
    return SeenSets.of_rows(rows, num_labels)


def _known_sets(labels: np.ndarray) -> Iterator[np.ndarray]:
    """The ids of each row's labels, from labels (N, L), without rows that have an unknown one."""
    return (np.flatnonzero(row > 0) for row in labels if (row >= 0).all())
