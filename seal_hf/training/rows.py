"""Checks of the data of a run: missing columns, values that are not labels, lengths that nothing pads, images that the
net does not read, pixels of another scale than the saved net will read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import torch
from datasets import Dataset
from torch.utils.data import IterableDataset
from transformers import (
    DataCollatorWithPadding,
    DefaultDataCollator,
    Trainer,
    TrainingArguments,
    default_data_collator,
)
from transformers.trainer_utils import has_length

from ..core.space import OutputSpace
from ..data.tensors.collators import TensorRows, is_table
from ..data.tensors.images import ImageRows, MaskRows, pixel_scaling
from ..nets.heads import PIXELS, reading
from ..utils.messages import closest
from ..utils.modules import in_evaluation
from .arguments import SealTrainingArguments
from .epochs import has_few_labels

LOOKED_AT = 1000  # rows checked of a data set that is not TensorRows
RAW = {"text": "tokenize(data.train, tokenizer)", "words": "tokenize_words(data.train, tokenizer)"}  # column -> how
LABELS = ("labels", "label", "label_ids")  # as these collators find them
REMEDIES = {
    "labels": "data_collator=DataCollatorForTokenClassification(tokenizer), which pads them with -100",
    "input_ids": "processing_class=tokenizer, or data_collator=DataCollatorWithPadding(tokenizer)",
}


def check_rows(trainer: Any) -> None:
    """Raises ValueError for texts that are not tokenized, for labels of another shape or
    outside the trainer's space, for rows of different lengths that its collator does not pad, for images that its
    task-net does not read, and for pixels of another scale than its image processor's."""
    model, datasets = trainer.model, {"train_dataset": trainer.train_dataset, "eval_dataset": trainer.eval_dataset}
    is_ours, collator = trainer._default_collator is not None, trainer._default_collator or trainer.data_collator
    check_inputs(model, collator, **datasets)
    if is_ours:  # the user's own collator may change the labels
        check_shapes(trainer.space, model.config.num_labels, **datasets)
    check_label_values(trainer.space, **datasets)
    check_padding(trainer.args, collator, type(trainer), **datasets)
    if not (trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled):
        check_images(model, trainer.train_dataset)
    check_pixels(trainer.processing_class, **datasets)


def check_inputs(model: Any, collator: Any, **datasets: Any) -> None:
    """Raises ValueError for data sets with texts or words in place of the model's inputs, unless a collator or a
    transform of the user's own may make these."""
    name = getattr(model, "main_input_name", None)
    if not keeps_labels(collator):
        return
    for split, dataset in each_dataset(datasets):
        if not is_table(dataset) or name in dataset.column_names:
            continue
        found = next((column for column in RAW if column in dataset.column_names), None)
        if found is not None:
            raise ValueError(
                f"`{split}` has the column `{found}`, but not `{name}`, which the task-net reads. Encode it: "
                f"{RAW[found]}."
            )


def keeps_labels(collator: Any) -> bool:
    """True for a collator of transformers that stacks the labels of rows as they are."""
    return collator is default_data_collator or type(collator) in (DataCollatorWithPadding, DefaultDataCollator)


def check_shapes(space: OutputSpace, num_labels: int, **datasets: Any) -> None:
    """Raises ValueError if the first labels of a data set have a shape that the space does not know."""
    for name, dataset in each_dataset(datasets):
        for labels in islice(label_values(dataset), 1):
            try:
                shape = tuple(torch.as_tensor(labels).shape)
            except (TypeError, ValueError):  # no numbers: `check_label_values` says so
                continue
            shape = shape[1:] if isinstance(dataset, TensorRows) else shape
            space.check_shape(shape, num_labels, name)


class CheckedRows:
    """A collator that checks the labels of each batch, before they are on a device. The user's own data set, transform
    or collator may give labels that could not be checked before.

    Args:
        collator: makes the batches.
        dataset: the rows, which are looked through for the wrong one.
        name: of the data set, for messages.
        space: what labels are.
        num_labels: of the task-net.
    """

    def __init__(self, collator: Any, dataset: Any, name: str, space: Any, num_labels: int):
        self.collator, self.dataset, self.name, self.space, self.num_labels = collator, dataset, name, space, num_labels

    def __call__(self, rows: Any) -> Any:
        """Raises ValueError for labels outside of the space; names the first row with such."""
        try:
            batch = self.collator(rows)
        except Exception:  # a library says nothing of labels that it cannot stack
            self._check_rows(rows)
            raise
        labels = batch.get("labels") if isinstance(batch, Mapping) else None
        if labels is None:
            self._check_rows(rows)
        if isinstance(labels, torch.Tensor):
            try:
                self.space.check_values(labels.flatten(), self.name)
            except ValueError as error:
                self._name_row()
                raise ValueError(f"{error} It is in a batch of {len(labels)} rows.") from None
        return batch

    def _check_rows(self, rows: Any) -> None:
        """Raises ValueError for labels of these rows that are missing in training, no numbers, or of another shape."""
        for row in rows if keeps_labels(self.collator) else ():
            found = next((name for name in LABELS if name in row), None)
            if found is not None:
                self.space.check_shape(tuple(as_numbers(row[found], self.name).shape), self.num_labels, self.name)
            elif self.name == "train_dataset":
                has = f"it has {', '.join(row)}" if row else "it has nothing that the task-net reads"
                raise ValueError(
                    f"A row of `{self.name}` has no `labels`; {has}. Name inputs as the task-net's `forward` does, and "
                    "gold outputs `labels`."
                )

    def _name_row(self) -> None:
        """Raises ValueError for the first row with such labels, if rows can be read by index."""
        for i in range(len(self.dataset) if hasattr(self.dataset, "__getitem__") else 0):
            row = self.dataset[i]
            labels = row.get("labels") if isinstance(row, Mapping) else None
            if labels is not None:
                self.space.check_values(torch.as_tensor(labels).flatten(), f"{self.name}[{i}]")


def check_padding(args: TrainingArguments, collator: Any, kind: type[Trainer], **datasets: Any) -> None:
    """Check the first `LOOKED_AT` rows of each data set that can be read by index.

    Args:
        kind: the trainer's class, whose loaders may be the user's own.

    Raises:
        ValueError: rows have different lengths, and a default collator of transformers does not pad them.
    """
    columns = tuple(REMEDIES)
    if type(collator) is DataCollatorWithPadding:
        columns, name = ("labels",), "DataCollatorWithPadding"
    elif collator is default_data_collator or isinstance(collator, DefaultDataCollator):
        name = "transformers' default collator"
    else:
        return
    met = []  # the data sets whose rows meet in a batch of our own loaders
    if args.train_batch_size > 1 and kind.get_train_dataloader.__module__.startswith("seal_hf."):
        met.append("train_dataset")
    if args.eval_batch_size > 1 and kind.get_eval_dataloader.__module__.startswith("seal_hf."):
        met.append("eval_dataset")
    for split, dataset in each_dataset({split: datasets[split] for split in met}):
        for column in columns:
            lengths = sorted(set(_lengths(dataset, column)))
            if len(lengths) > 1:
                raise ValueError(
                    f"`{column}` of `{split}` has rows of different lengths, from {lengths[0]} to {lengths[-1]}, which "
                    f"{name} does not pad. Pass {REMEDIES[column]}."
                )


def _lengths(dataset: Any, column: str) -> Iterator[int]:
    """Lengths of the lists in a column; nothing for rows that come one by one or through a transform."""
    rows: Any = []
    if is_table(dataset) and column in dataset.column_names:
        rows = dataset.select(range(min(len(dataset), LOOKED_AT))).with_format(None)[column][:]
    elif isinstance(dataset, (list, tuple)):
        rows = [row.get(column) for row in dataset[:LOOKED_AT]]
    yield from (len(row) for row in rows if hasattr(row, "__len__"))


def check_images(model: Any, rows: Any) -> None:
    """Raises ValueError if the task-net does not read the first of its images."""
    if not isinstance(rows, ImageRows):
        return
    batch = {PIXELS: rows.batch([0])[PIXELS].to(model.device, model.dtype)}
    with torch.no_grad(), in_evaluation(model), reading(model, batch):
        model(**batch)


def check_pixels(processor: Any, **datasets: Any) -> None:
    """Raises ValueError if images with masks are scaled otherwise than by the image processor, by which a saved net
    reads new images. Rows of a class that scales by itself, and processors of another kind, are not checked."""
    if not hasattr(processor, "image_mean") and not hasattr(processor, "do_rescale"):
        return
    try:
        scaling = pixel_scaling(processor)
    except (TypeError, ValueError):  # its scale cannot be read
        return
    for split, rows in each_dataset(datasets):
        if isinstance(rows, MaskRows) and type(rows).batch is MaskRows.batch and not rows.reads_as(processor):
            raise ValueError(
                f"`{split}` scales pixels otherwise than the image processor, {type(processor).__name__} with "
                f"{scaling or 'pixels from 0 to 1'}. A saved net would read other pixels than it was trained on. Give "
                "MaskRows(..., **pixel_scaling(processor)), or the processor that belongs to these rows."
            )


def check_columns(**datasets: Any) -> None:
    """Every data set that names its columns must have `labels`, also within a dictionary of data sets. A transform of
    the user's own may make them.

    Raises:
        ValueError: a data set without `labels` (names its columns and the closest match), or without rows; several data
            sets in the place of the training rows.
    """
    if isinstance(several := datasets.get("train_dataset"), dict):
        raise ValueError(
            f"`train_dataset` has several data sets, {', '.join(map(str, several))}: a run trains on one. Give one of "
            f"them, such as dataset[{next(iter(several), 'train')!r}]."
        )
    for name, dataset in each_dataset(datasets):
        columns = getattr(dataset, "column_names", None)
        if has_length(dataset) and len(dataset) == 0:
            raise ValueError(f"`{name}` is empty: it has no rows.")
        if isinstance(dataset, (list, tuple)) and isinstance(dataset[0], Mapping):
            columns = list(dataset[0])
        if columns is None or "labels" in columns or (isinstance(dataset, Dataset) and not is_table(dataset)):
            continue
        close = closest("labels", columns)
        hint = f" Did you mean `{close}`? Rename it: dataset.rename_column({close!r}, 'labels')." if close else ""
        raise ValueError(f"`{name}` has no column `labels`; it has {', '.join(columns)}.{hint}")


def check_label_values(space: OutputSpace, **datasets: Any) -> None:
    """Check label values: of all rows of [`TensorRows`], and of the first `LOOKED_AT` rows of tables and lists.

    Raises:
        ValueError: a value that is not a label of this space; names the data set.
    """
    for name, dataset in each_dataset(datasets):
        for labels in label_values(dataset):
            space.check_values(as_numbers(labels, name), name)


def as_numbers(labels: Any, name: str) -> torch.Tensor:
    """The labels of a row as a tensor. Raises ValueError for labels that are no numbers; names the data set."""
    try:
        return torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"`labels` of `{name}` holds {labels!r}, but must hold numbers: 0 or 1 for each label of a set, "
            "the id of each word's tag. The loaders encode names, such as load_multilabel and load_tags."
        ) from error


def each_dataset(datasets: Mapping) -> Iterator[tuple[str, Any]]:
    """(name, data set) of every given data set; a dictionary gives each of its own."""
    for name, dataset in datasets.items():
        if isinstance(dataset, dict):
            yield from each_dataset({f"{name}[{key!r}]": part for key, part in dataset.items()})
        elif dataset is not None:
            yield name, dataset


def label_values(dataset: Any) -> Iterator[Any]:
    """Tensors of many rows, or the raw labels of each row."""
    if isinstance(dataset, TensorRows):
        if "labels" in dataset.dense:
            yield dataset.dense["labels"]
        elif "labels" in dataset.ragged and "labels" not in dataset.multi_hot:
            yield dataset.ragged["labels"][0]
    elif is_table(dataset):
        yield from dataset.select(range(min(len(dataset), LOOKED_AT))).with_format(None)["labels"][:]
    elif isinstance(dataset, (list, tuple)):
        yield from (row["labels"] for row in dataset[:LOOKED_AT])


def check_repeats(args: SealTrainingArguments, train_dataset: Any) -> None:
    """Raises ValueError for batch repeats, or rows of which few have gold, in an order that is not shuffled; and for
    batch repeats over an iterable data set."""
    few = has_few_labels(train_dataset)
    if args.batch_repeats == 1 and not few:
        return
    what = "Only the first rows have gold" if few else f"`batch_repeats` is {args.batch_repeats}"
    order = getattr(args, "train_sampling_strategy", "random")  # of transformers 5
    if order != "random" or getattr(args, "group_by_length", False):
        name = f"train_sampling_strategy={order!r}" if order != "random" else "group_by_length=True"
        raise ValueError(f"{what}, for which a sampler shuffles the rows, but {name}. Leave one of them out.")
    if isinstance(train_dataset, IterableDataset):
        raise ValueError(
            f"`batch_repeats` is {args.batch_repeats}, but the training data is an iterable data set: the repeating "
            "sampler needs rows by index. Use a data set with a length, or batch_repeats=1."
        )
