"""Images and masks of all splits, checked and converted; what their values mean is settled when all are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.masks import IGNORE
from ..utils.messages import few
from .common import DataError, Origins
from .image_files import as_rgb, resized, size_of
from .mask_values import MAP, TEXT, MaskValues, Seen, large_object


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

    def rows(
        self,
        pairs: Iterable[tuple[np.ndarray, np.ndarray]],
        source: str,
        files: Sequence[tuple[Path, Path]] | None = None,
        ids: np.ndarray | None = None,
    ) -> SegmentationSplit:
        """Pairs of arrays -> a split. `files` are the image and mask file of each pair; else pairs are the rows of
        `source` with these ids."""
        images: list[np.ndarray] = []
        masks: list[np.ndarray] = []
        for i, (image, mask) in enumerate(pairs):
            drawn, where = map(str, files[i]) if files else [f"{source}, row {i}"] * 2
            image, mask = self.image(np.asarray(image), drawn), np.asarray(mask)
            if self.values.marks_objects and self.values.foreground is None and (value := large_object(mask)):
                self.values = replace(self.values, foreground=value)  # as in masks of 16 bits
            mask = self.values.read(mask, where)
            if image.shape[:2] != mask.shape:
                raise DataError(
                    f"{where}: the image is {size_of(image)} pixels and its mask {size_of(mask)}; both must have the "
                    "same size. Resize the mask (nearest neighbour) or check that it belongs to this image."
                )
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
            raise DataError(f"{source}: no images. Give at least one image with its mask.")
        origins = Origins(source, rows=np.arange(len(images)), ids=ids)
        if files:
            origins = Origins(str(files[0][0].parent), files=np.array([image.name for image, _ in files]))
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
                self.notes.append(f"{len(names)} classes without names: name them in {TEXT} or {MAP} (--class_names).")
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
        rows = splits.get("train") or splits["all"]
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
