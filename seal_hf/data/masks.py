"""Images with masks: `.npz` files, folders of images and masks, tables in memory, on disk and on the Hub, and the
embedded digits.

Masks hold class ids from 0 on, and 255 (does not count). Two classes are 0 (background) and 1 (foreground). Image files
often have 255 for the foreground: if no mask of such a data set holds a 1, 255 means foreground, and a note tells so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np

from ..utils.messages import did_you_mean
from .common import DataError, Origins, check_splits, find_data, id_column
from .digit_masks import DIGITS, draw_digit_masks
from .hygiene import keys_of, repeat_notes
from .image_files import mask_values, pixels
from .image_tables import check_files
from .mask_reader import MaskReader, SegmentationSplit
from .mask_values import BINARY, MaskValues, find_names, given_names, names_on_hub
from .pictures import pictures_by_split
from .stratified import complete_splits
from .table_sources import Tables, is_stored, tables_of
from .unlabelled import check_numbers, limit_validation, parted, pictures_without_masks

EMBEDDED = {"digits": list(BINARY), "digit_classes": ["background", *DIGITS]}  # name -> names of its classes
IMAGE_NAMES, MASK_NAMES = ("image", "images", "pixel_values"), ("mask", "masks", "label", "labels", "annotation")


@dataclass
class SegmentationData:
    """A data set of images with masks.

    Attributes:
        name: short name, for logs and the model card.
        kind: `masks`.
        train, validation, test: splits; `test` may be None. All images have one size.
        label_names: of the C classes; of two, background first.
        notes: what the loader did to the data, with counts.
        unlabelled: with `num_labelled` or `unlabelled`, training images without masks, (N, H, W, 3) uint8.
    """

    name: str
    train: SegmentationSplit
    validation: SegmentationSplit
    test: SegmentationSplit | None
    label_names: list[str] = field(default_factory=lambda: list(BINARY))
    notes: list[str] = field(default_factory=list)
    unlabelled: np.ndarray | None = None
    kind = "masks"

    @property
    def origins(self) -> dict[str, Origins]:
        """Split -> where its images were read; without splits made of arrays."""
        splits = {"train": self.train, "validation": self.validation, "test": self.test}
        return {split: rows.origins for split, rows in splits.items() if rows is not None and rows.origins is not None}

    @property
    def image_size(self) -> tuple[int, int]:
        """(H, W) in pixels."""
        return self.train.masks.shape[1:]


def load_masks(
    dataset: Any = None,
    *,
    data_dir: str | None = None,
    image_size: int | None = None,
    image_column: str | None = None,
    mask_column: str | None = None,
    class_names: str | Sequence[str] | None = None,
    ignore_index: int | None = None,
    reduce_labels: bool = False,
    max_train_rows: int | None = None,
    max_validation_rows: int | None = None,
    num_labelled: int | None = None,
    unlabelled: str | PathLike[str] | None = None,
    seed: int = 0,
) -> SegmentationData:
    """Images with masks, by name, folder, file or Hub id, or in a table.

    Masks are index or palette images, or arrays, of class ids and 255, which does not count.

    Args:
        dataset: `digits` (default), drawn from scikit-learn's, with one class of objects; `digit_classes`, with ten; a
            folder of `.npz` files, one per split, each with arrays `images` (N, H, W, 3) and `masks` (N, H, W); one
            such file; COCO's annotations, a `.json` or a folder with them; a folder with `images` and `masks`, files of
            equal stems, or with these below `train`, `validation` and `test`; the name of a folder below `data_dir`; or
            data with a column of images and one of masks: parquet, a folder of `save_to_disk`, `owner/name` on
            the Hub, a `datasets.Dataset` or `DatasetDict`, a pandas frame, a mapping of split names to these.
        data_dir: folder of named data sets, searched two levels deep; default: the environment variable SEAL_HF_DATA.
        image_size: resize to this side in pixels, images bilinearly, masks to the nearest pixel; needed if image sizes
            differ.
        image_column, mask_column: of tables; default: the first of the usual names.
        class_names: names of the classes, or a file with a name in each line, or a JSON file of names by id. Default:
            `classes.txt` or `id2label.json` beside the data, in its folder or Hub repo; or else numbers, if every class
            up to the largest occurs. Two classes are background and foreground.
        ignore_index: a value of pixels that do not count, beside 255.
        reduce_labels: 0 does not count, and every other value v is the class v - 1, as `do_reduce_labels` of image
            processors.
        max_train_rows: keep only this many first rows of the train split.
        max_validation_rows: keep only this many rows of the validation split, drawn with `seed`.
        num_labelled: this many of these rows, drawn with `seed`, stay `train`; the images of the others become
            `unlabelled`.
        unlabelled: a file or folder of further training images without masks, which become `unlabelled`, too.
        seed: for the embedded data, and for splits that the data does not fix: 80/10/10, or a tenth of train for a
            missing validation split; each part has its share of masks with each class but the first.

    Raises:
        DataError: tells what is wrong, where, and what to do.
    """
    numbers = {"max_train_rows": max_train_rows, "max_validation_rows": max_validation_rows}
    check_numbers(**numbers, num_labelled=num_labelled, image_size=image_size)
    given = None if class_names is None else given_names(class_names)
    reader = MaskReader(MaskValues(ignore_index, reduce_labels), image_size)
    found = _read(dataset, data_dir, reader, (image_column, mask_column), seed)
    name, source, splits = found.name, found.source, found.splits
    label_names = reader.settle(splits, source, found.find_names if given is None else lambda: given)
    splits = _complete(splits, len(label_names), reader.notes, seed)
    if max_train_rows is not None:
        splits["train"] = splits["train"].take(slice(max_train_rows))
    check_splits({split: len(rows) for split, rows in splits.items()}, source)
    notes = reader.notes + repeat_notes({split: keys_of(rows.images) for split, rows in splits.items()})
    data = SegmentationData(name, splits["train"], splits["validation"], splits.get("test"), label_names, notes)
    limit_validation(data, max_validation_rows, seed)
    if num_labelled is not None:
        kept, others = parted(len(data.train), num_labelled, seed, source, data.notes)
        data.train, data.unlabelled = data.train.take(kept), data.train.images[others] if len(others) else None
    if unlabelled is not None:
        images = pictures_without_masks(fspath(unlabelled), data.image_size, image_size)
        data.notes.append(f"{len(images)} images without masks from {unlabelled}.")
        data.unlabelled = images if data.unlabelled is None else np.concatenate([data.unlabelled, images])
    return data


class _Found(NamedTuple):
    """A data set that was read: its name, what messages call it, its splits, and how to find names of its classes."""

    name: str
    source: str
    splits: dict[str, SegmentationSplit]
    find_names: Callable[[], list[str] | None]


def _read(
    dataset: Any, data_dir: str | None, reader: MaskReader, columns: tuple[str | None, str | None], seed: int
) -> _Found:
    dataset = fspath(dataset) if isinstance(dataset, PathLike) else dataset
    name = "digits" if dataset is None else dataset
    embedded = isinstance(name, str) and name in EMBEDDED
    path = find_data(dataset, data_dir, (".npz", ".parquet", ".json"), list(EMBEDDED))
    if embedded or (path is not None and not is_stored(path)):
        for option, column in zip(("image_column", "mask_column"), columns, strict=True):
            if column is not None:
                raise DataError(f"`{option}` names a column of a table, but {name} is no table. Leave it out.")
    if embedded:
        drawn = draw_digit_masks(seed, classes=name == "digit_classes").items()
        splits = {split: reader.rows(rows, f"{name}, {split} split") for split, rows in drawn}
        return _Found(name, f"embedded {name}", splits, lambda: EMBEDDED[name])
    if path is not None and not is_stored(path):
        found = pictures_by_split(path)
        splits = {split: reader.rows(rows.pairs(), rows.source, rows.files) for split, rows in found.items()}
        reader.notes += [note for rows in found.values() for note in rows.notes]
        named = next(iter(found.values())).class_names
        return _Found(path.stem if path.is_file() else path.name, dataset, splits, lambda: named or find_names(path))
    tables = tables_of(dataset, path)

    def stored_names() -> list[str] | None:
        if path is not None:
            return find_names(path)
        return names_on_hub(dataset.partition(":")[0]) if isinstance(dataset, str) else None

    return _Found(tables.name, tables.source, _read_tables(tables, reader, *columns), stored_names)


def _complete(
    splits: dict[str, SegmentationSplit], num_classes: int, notes: list[str], seed: int
) -> dict[str, SegmentationSplit]:
    """Add a missing validation split: a single table is split 80/10/10; else it is a tenth of train."""
    present = {split: _classes_in(rows.masks, num_classes)[:, 1:] for split, rows in splits.items()}
    parts = complete_splits(present, seed, notes)
    return {
        split: splits[key] if len(ids) == len(splits[key]) else splits[key].take(ids)
        for split, (key, ids) in parts.items()
    }


def _classes_in(masks: np.ndarray, num_classes: int) -> np.ndarray:
    """Which classes each mask has: (N, C) bool."""
    return np.array([np.bincount(mask.ravel(), minlength=num_classes)[:num_classes] > 0 for mask in masks])


# --- where the data is -----------------------------------------------------------------------------------------------


def _read_tables(
    tables: Tables, reader: MaskReader, image_column: str | None, mask_column: str | None
) -> dict[str, SegmentationSplit]:
    reader.notes += tables.notes
    splits = {}
    for split, table in tables.splits.items():
        place, columns, data = table.source, table.columns, table.data
        image = _column(columns, image_column, IMAGE_NAMES, "image_column", place)
        mask = _column(columns, mask_column, MASK_NAMES, "mask_column", place)
        for column in (image, mask):
            check_files(data, column, table.place)
        pairs = ((pixels(row[image]), mask_values(row[mask])) for row in data.select_columns([image, mask]))
        splits[split] = reader.rows(pairs, place, ids=id_column(data["id"][:]) if "id" in columns else None)
    if (image, mask) != (IMAGE_NAMES[0], MASK_NAMES[0]) and None in (image_column, mask_column):
        reader.notes.append(f"images: column {image!r}; masks: column {mask!r}.")
    return splits


def _column(columns: Sequence[str], given: str | None, usual: Sequence[str], argument: str, source: str) -> str:
    found = given if given is not None else next((name for name in usual if name in columns), None)
    if found is None:
        raise DataError(
            f"{source}: no column is called {' or '.join(usual)}; the columns are {', '.join(columns)}. Name one with "
            f"`{argument}`, or give other data."
        )
    if found not in columns:
        hint = did_you_mean(found, columns)
        raise DataError(
            f"{source}: `{argument}` is {given!r}, but the columns are {', '.join(columns)}.{hint} Give one of them."
        )
    return found
