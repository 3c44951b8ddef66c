"""Images with masks: `.npz` files, folders of images and masks, tables in memory, on disk and on the Hub, and the
embedded digits.

Masks hold class ids from 0 on, and 255 (does not count). Two classes are 0 (background) and 1 (foreground). Image files
often have 255 for the foreground: if no mask of such a data set holds a 1, 255 means foreground, and a note says so.
What the values of masks mean is settled when all are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from os.path import commonpath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.masks import IGNORE
from ..utils.messages import few
from .common import DataError, Origins, check_splits, find_data
from .embedded import DIGITS, draw_digit_masks
from .hygiene import keys_of, repeat_notes
from .image_files import as_rgb, resized, size_of
from .mask_values import BINARY, MAP, TEXT, MaskValues, Seen, find_names, given_names, large_object, names_on_hub
from .pictures import Pictures, check_size, of_pairs, pictures_by_split, pictures_of, pictures_of_tables
from .splits import add_unlabelled, check_numbers, complete_splits, limit_validation, parted
from .table_sources import ALL, is_stored, tables_of


@dataclass
class SegmentationSplit:
    """Images of one size and their masks.

    Attributes:
        images: (N, H, W, 3) uint8.
        masks: (N, H, W) uint8 of class ids and 255 (does not count).
        origins: where they were read; None for a user's arrays.
        inputs: how masks were read, for `config.inputs`, see [`MaskValues`].
    """

    images: np.ndarray
    masks: np.ndarray
    origins: Origins | None = None
    inputs: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.images)

    def take(self, rows: np.ndarray | slice) -> SegmentationSplit:
        """A split of some rows."""
        origins = None if self.origins is None else self.origins.take(rows)
        return SegmentationSplit(self.images[rows], self.masks[rows], origins, self.inputs)


def _check_foreground(splits: dict[str, SegmentationSplit], source: str) -> None:
    """Raises DataError if masks of two classes have an object in some splits, but none in train."""
    with_object = [split for split, rows in splits.items() if (rows.masks == 1).any()]
    if "train" in splits and with_object and "train" not in with_object:
        raise DataError(
            f"{source}: no mask of train holds a 1, but masks of {' and '.join(with_object)} do. If the object is "
            f"{IGNORE} in some splits and 1 in others, write it as 1 in all."
        )


class MaskReader:
    """Checks and converts images and masks, and counts what it did.

    Args:
        values: what the stored values of masks mean.
        image_size: the side to which all are resized, or None.

    Attributes:
        seen: the values of all masks.
        one_channel: where images with one channel are.
        notes: for [`SegmentationData`].
    """

    def __init__(self, values: MaskValues, image_size: int | None):
        self.values, self.image_size = values, image_size
        self.seen = Seen()
        self.one_channel: list[str] = []
        self.notes: list[str] = []

    def rows(self, found: Pictures) -> SegmentationSplit:
        """Images with masks -> a split."""
        assert found.masks is not None
        images: list[np.ndarray] = []
        masks: list[np.ndarray] = []
        for (drawn, image), (where, mask) in zip(found.images(), found.masks(), strict=True):
            image, mask = self.image(np.asarray(image), drawn), np.asarray(mask)
            if self.values.marks_objects and self.values.foreground is None and (value := large_object(mask)):
                self.values = replace(self.values, foreground=value)  # as in masks of 16 bits
            mask = self.values.read(mask, where)
            check_size(image, mask, where)
            self.seen.add(mask, where)
            if self.image_size is not None and mask.shape != (self.image_size, self.image_size):
                image, mask = (resized(array, self.image_size) for array in (image, mask))
            if images and mask.shape != masks[0].shape:
                raise DataError(
                    f"{drawn}: {size_of(mask)} pixels, but {size_of(masks[0])} before. Give `image_size` "
                    "(--image_size), the side to which all are resized."
                )
            images.append(image)
            masks.append(mask)
        if not images:
            raise DataError(f"{found.source}: no images. Give at least one image with its mask.")
        origins = Origins(found.source, rows=np.arange(len(images)), ids=found.ids)
        if found.files:
            folder = Path(commonpath([image.parent for image in found.files]))
            files = [str(image.relative_to(folder)) for image in found.files]
            origins = Origins(str(folder), files=np.array(files))
        return SegmentationSplit(np.stack(images), np.stack(masks), origins, self.values.inputs)

    def image(self, image: np.ndarray, where: str) -> np.ndarray:
        """As [`as_rgb`]; counts images with one channel."""
        found = as_rgb(image, where)
        if image.ndim == 2 or image.shape[2] == 1:
            self.one_channel.append(where)
        return found

    def settle(
        self, splits: dict[str, SegmentationSplit], source: str, find_names: Callable[[], list[str] | None]
    ) -> list[str]:
        """Settle what needs all splits: their size, the classes, the meaning of 255, and counts.

        Args:
            source: of the data, for messages.
            find_names: looks for the names of classes that are stored with the data; called only for several classes.

        Returns:
            the names of the classes.
        """
        shapes = {split: size_of(rows.masks[0]) for split, rows in splits.items()}
        if len(set(shapes.values())) > 1:
            raise DataError(f"{source}: the splits have images of different sizes, {shapes}. Give `image_size`.")
        names = find_names()
        if names is None or len(names) == 2:
            self._take_object(splits)
        if names is None:
            names = self.seen.numbered()
            if len(names) > 2:
                self.notes.append(
                    f"{len(names)} classes without names: name them in {TEXT} or {MAP}, or by `class_names` "
                    "(--class_names)."
                )
            if self.seen.may_number_objects:
                self.notes.append(
                    "each mask holds 0, 1, 2, ... to an end of its own: are these the numbers of its objects, not "
                    "classes? If so, write all objects as 1."
                )
        self.seen.check(names)
        total = sum(len(rows) for rows in splits.values())
        if len(names) == 2:
            self._settle_binary([rows.masks for rows in splits.values()], total)
            _check_foreground(splits, source)
            for rows in splits.values():
                rows.inputs = self.values.inputs
        else:
            self._count_classes(splits, names)
        if self.one_channel:
            self.notes.append(
                f"{len(self.one_channel)} of {total} images have one channel, the first {self.one_channel[0]}: "
                "repeated as three."
            )
        return names

    def _take_object(self, splits: dict[str, SegmentationSplit]) -> None:
        """Read masks of 0 and one other value as two classes, in place."""
        held, value = np.flatnonzero(self.seen.pixels).tolist(), self.values.foreground
        if self.values.reduce_labels:
            return
        if value is None and self.seen.largest > 1 and {*held} - {IGNORE} == {0, self.seen.largest}:
            if IGNORE in held and self.values.ignore_index is None:
                return  # one of both may be the object
            value = self.seen.largest
            self.values = replace(self.values, foreground=value)
            for rows in splits.values():
                rows.masks[rows.masks == value] = 1
            self.seen.pixels[1], self.seen.pixels[value] = self.seen.pixels[value], 0
        if value is not None and value > IGNORE and (others := {*np.flatnonzero(self.seen.pixels).tolist()} - {0, 1}):
            raise DataError(
                f"{self.seen.first[min(others)]}: the mask holds {min(others)}, but other masks hold 0 and {value} "
                "alone. Write classes as ids from 0 on."
            )
        if value is not None:
            self.notes.append(f"masks hold only 0 and {value}: {value} is read as foreground.")

    def _count_classes(self, splits: dict[str, SegmentationSplit], names: Sequence[str]) -> None:
        """Note ignored pixels, and classes that the training rows lack."""
        if self.seen.pixels[IGNORE]:
            self.notes.append(f"{self.seen.pixels[IGNORE]} pixels do not count.")
        rows = splits.get("train") or splits[ALL]
        there = np.bincount(rows.masks.ravel(), minlength=256)
        lacking = [name for i, name in enumerate(names) if not there[i]]
        if lacking:
            self.notes.append(f"{len(lacking)} of {len(names)} classes have no pixel in train: {few(lacking, 5)}.")

    def _settle_binary(self, masks: list[np.ndarray], total: int) -> None:
        """Settle the meaning of 255 in masks of two classes, and note it."""
        may = self.values.marks_objects and self.values.foreground is None and self.seen.pixels[IGNORE]
        marked = may and not self.seen.pixels[1]
        if may:
            self.values = replace(self.values, foreground=IGNORE if marked else 1)
        if marked:
            for part in masks:
                part[part == IGNORE] = 1
            self.notes.append("masks hold only 0 and 255: 255 is read as foreground.")
        else:
            self._notice_mixed(masks)
        ignored = sum(int((part == IGNORE).sum()) for part in masks)
        empty = sum(int((~(part == 1).any((1, 2))).sum()) for part in masks)
        if ignored:
            self.notes.append(f"{ignored} pixels do not count (255).")
        if empty:
            self.notes.append(
                f"{empty} of {total} masks are all background (kept): their IoU is 1 if nothing is predicted, else 0."
            )

    def _notice_mixed(self, masks: list[np.ndarray]) -> None:
        """Note if some masks hold 255 but no 1, as if 255 were their object, and others hold a 1."""
        objects = sum(int((part == 1).any((1, 2)).sum()) for part in masks)
        others = sum(int(((part == IGNORE).any((1, 2)) & ~(part == 1).any((1, 2))).sum()) for part in masks)
        if objects and others:
            self.notes.append(
                f"{others} masks hold 255 but no 1, while {objects} hold a 1: their 255 does not count either. If it "
                "is their object, write it as 1."
            )


EMBEDDED = {"digits": list(BINARY), "digit_classes": ["background", *DIGITS]}  # name -> names of its classes


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
            such file; COCO's annotations, a `.json` or a folder with them; a folder of images and masks, which belong
            together by their names or by a list, see `mask_pairs.py`; a `.csv` with the names of images and masks; the
            name of a folder below `data_dir`; or
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
    if not splits.keys() & {ALL, "train"}:
        raise DataError(
            f"{source}: its files, folders or lists name {' and '.join(splits)}, but no train split. Add one, or take "
            "these names away."
        )
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
        images = _without_masks(fspath(unlabelled), data.image_size, image_size)
        add_unlabelled(data, images, fspath(unlabelled), "images without masks")
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
    path = find_data(dataset, data_dir, (".npz", ".parquet", ".json", ".csv", ".tsv"), list(EMBEDDED))
    if embedded or (path is not None and not is_stored(path)):
        for option, column in zip(("image_column", "mask_column"), columns, strict=True):
            if column is not None:
                raise DataError(f"`{option}` names a column of a table, but {name} is no table. Leave it out.")
    if embedded:
        drawn = draw_digit_masks(seed, classes=name == "digit_classes").items()
        splits = {split: reader.rows(of_pairs(rows, f"{name}, {split} split")) for split, rows in drawn}
        return _Found(name, f"embedded {name}", splits, lambda: EMBEDDED[name])
    if path is not None and not is_stored(path):
        found, name, source = pictures_by_split(path), path.stem if path.is_file() else path.name, dataset
    else:
        tables = tables_of(dataset, path)
        found, name, source = pictures_of_tables(tables, *columns), tables.name, tables.source
    splits = {split: reader.rows(rows) for split, rows in found.items()}
    reader.notes += [note for rows in found.values() for note in rows.notes]

    def stored_names() -> list[str] | None:
        if path is not None:
            return next(iter(found.values())).class_names or find_names(path)
        return names_on_hub(dataset.partition(":")[0]) if isinstance(dataset, str) else None

    return _Found(name, source, splits, stored_names)


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


def _without_masks(file: str, size: tuple[int, int], image_size: int | None) -> np.ndarray:
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
    return np.stack(images) if images else np.empty((0, *size, 3), np.uint8)
