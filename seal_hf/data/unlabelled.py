"""Data with few gold rows: the gold of the others is put aside (`num_labelled`), the rows of a file have none
(`unlabelled`), and the validation split is smaller (`max_validation_rows`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset, Image, concatenate_datasets

from .arff import ArffReader, find_arff, is_arff
from .common import IMAGE, PAIR, DataError, MultiLabelData, fixed_size_column
from .image_files import resized, size_of
from .label_rows import FeatureTable, ImageTable, TextReader, image_column_of, image_files, text_column_of
from .pictures import pictures_of
from .row_tables import Table
from .sentences import Needs
from .table_sources import open_table
from .tag_files import SentenceFile

AT_ONCE = 1000  # rows
GOLD = ("labels", "soft_labels", "tags", "sample_weight")  # columns that rows without gold lack


def check_numbers(**numbers: int | None) -> None:
    """Raises DataError for a number of rows below 1."""
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise DataError(f"`{name}` is {value}; it must be at least 1.")


def limit_validation(data: Any, max_validation_rows: int | None, seed: int) -> None:
    """Keep so many rows of the validation split, drawn with the seed, in place; a smaller part is part of a larger one.

    Args:
        data: label sets, tag sequences or masks.
    """
    size = len(data.validation)
    if max_validation_rows is None or max_validation_rows >= size:
        return
    kept = np.sort(np.random.default_rng(seed).permutation(size)[:max_validation_rows])
    if isinstance(data.validation, Dataset):
        data.validation = _taken(data.validation, kept)
        if "validation" in data.origins:
            data.origins["validation"] = data.origins["validation"].take(kept)
    else:  # masks, which know their places
        data.validation = data.validation.take(kept)
    data.notes.append(f"validation: {max_validation_rows} of {size} rows (seed {seed}).")


def parted(size: int, num_labelled: int, seed: int, source: str, notes: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the training rows that keep their gold, and of the others. A smaller part is part of a larger one.

    Raises:
        DataError: there are not so many rows.
    """
    if num_labelled > size:
        raise DataError(f"`num_labelled` is {num_labelled}, but {source} has {size} training rows.")
    order = np.random.default_rng(seed).permutation(size)
    notes.append(f"train: {num_labelled} labelled rows, {size - num_labelled} unlabelled (seed {seed}).")
    return np.sort(order[:num_labelled]), np.sort(order[num_labelled:])


def part_label_sets(data: MultiLabelData, num_labelled: int, seed: int) -> None:
    """Put aside the gold of all but so many training rows, in place."""
    kept, others = parted(len(data.train), num_labelled, seed, data.name, data.notes)
    columns = [name for name in data.train.column_names if name not in GOLD]
    data.unlabelled = _taken(data.train.select_columns(columns), others) if len(others) else None
    data.train = _taken(data.train, kept)
    if "train" in data.origins:
        data.origins["train"] = data.origins["train"].take(kept)


def _taken(rows: Dataset, ids: np.ndarray) -> Dataset:
    """These rows, copied: without a map of indices, which `datasets` would resolve again and again."""
    whole = rows.flatten_indices() if rows._indices is not None else rows
    return Dataset(whole.data.table.take(pa.array(ids)), info=rows.info)


def add_label_sets(
    data: MultiLabelData,
    file: str,
    text_column: str | None,
    image_column: str | None,
    sample_weight: str | None = None,
) -> None:
    """Add the rows of a file without gold, in place. It is read as for `seal-hf predict`: a table of the same columns,
    an ARFF file, or images; labels and weights in it are ignored, and of a folder the training rows are taken.

    Raises:
        DataError: names the file, the column or the row.
    """
    table: Table | None = None
    if data.kind == "features":
        reader: Any
        if is_arff(file):
            unread = [] if sample_weight is None else [sample_weight]
            reader = ArffReader(find_arff(file, None, "train"), data.label_names, data.num_features, unread=unread)
            data.notes += reader.notes
        else:
            table = open_table(file, usual="train")
            reader = FeatureTable(table, data.num_features, trained=data.columns)
        parts = [chunk.inputs for chunk in reader.chunks(AT_ONCE)]
        values = np.concatenate(parts) if parts else np.zeros((0, data.num_features), np.float32)
        rows = Dataset(pa.table({"features": fixed_size_column(values)}))
    elif data.kind == "images":
        images = image_files(file)
        if images is None:
            table = open_table(file, usual="train")
            images = ImageTable(table, image_column_of(table, image_column, data.columns.get("image_column")))  # type: ignore[assignment]
        cells = [cell for chunk in images.chunks(AT_ONCE) for cell in chunk.inputs]  # type: ignore[union-attr]
        stored = [cell if isinstance(cell, dict) else {"bytes": None, "path": cell} for cell in cells]
        rows = Dataset.from_dict({IMAGE: stored}).cast_column(IMAGE, Image())
    else:
        table, pairs = open_table(file, usual="train"), PAIR[1] in data.train.column_names
        reader = TextReader(
            table, text_column_of(table, text_column, data.columns.get("text_column"), "labels", pairs or None)
        )
        texts = [text for chunk in reader.chunks(AT_ONCE) for text in chunk.inputs]
        columns = zip(*texts, strict=True) if pairs else [texts]
        names = PAIR if pairs else PAIR[:1]
        rows = Dataset(pa.table({name: pa.array(c, pa.string()) for name, c in zip(names, columns, strict=True)}))
    data.notes += [table.note] if table is not None and table.note else []
    data.unlabelled = _joined(data.unlabelled, rows, file, data.notes)


def _joined(known: Dataset | None, rows: Dataset, file: str, notes: list[str]) -> Dataset:
    if not len(rows):
        raise DataError(f"`unlabelled` is {file}, which has no rows. Give a file with rows, or leave it out.")
    notes.append(f"{len(rows)} rows without labels from {file}.")
    return rows if known is None else concatenate_datasets([known, rows.cast(known.features)])


def sentences_of(file: str, features: Sequence[str], predicate: bool, word_column: int | str | None) -> dict[str, list]:
    """The sentences of a file without gold tags: column -> a value per sentence. It is read as for `seal-hf predict`;
    tags in it are ignored.

    Args:
        features: further columns with a string per word.
        predicate: True for semantic roles.
        word_column: as for `load_tags`; of a file of columns.

    Raises:
        DataError: names the file and the line.
    """
    found = SentenceFile(Path(file), Needs(features, predicate), word_column, usual="train")
    sentences = [sentence for chunk in found.chunks(AT_ONCE) for sentence in chunk.inputs]
    if not sentences:
        raise DataError(f"`unlabelled` is {file}, which has no sentences. Give a file with some, or leave it out.")
    rows: dict[str, list] = {"words": [sentence.words for sentence in sentences]}
    rows |= {name: [sentence.features[name] for sentence in sentences] for name in features}
    return rows | ({"predicate": [sentence.predicate for sentence in sentences]} if predicate else {})


def pictures_without_masks(file: str, size: tuple[int, int], image_size: int | None) -> np.ndarray:
    """The images of a file or a folder: (N, H, W, 3) uint8.

    Args:
        size: (H, W) of the images with masks.
        image_size: the side to which all are resized, if any.

    Raises:
        DataError: an image has another size; names it.
    """
    images = []
    for picture in pictures_of(Path(file)):
        image = picture.image if image_size is None else resized(picture.image, image_size)
        if image.shape[:2] != size:
            raise DataError(
                f"{file}, image {picture.name}: {size_of(image)} pixels (height x width), but the images with masks "
                f"have {size[0]} x {size[1]}. Give `image_size` (--image_size), the side to which all are resized."
            )
        images.append(image)
    if not images:
        raise DataError(f"`unlabelled` is {file}, which has no images. Give some, or leave it out.")
    return np.stack(images)
