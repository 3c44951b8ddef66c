"""Images for predicting masks, and images with gold masks for evaluation, read one at a time.

They come from an image file; a folder of image files; a folder with `images/` and gold masks in `masks/`; or an `.npz`
file with `images` (N, H, W, 3) uint8 and gold `masks` (N, H, W).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.masks import IGNORE
from .chunks import Chunk
from .common import DataError
from .image_files import (
    IMAGE_SUFFIXES,
    as_rgb,
    files_by_stem,
    image_folders,
    mask_values,
    paired_files,
    pixels,
    size_of,
)
from .mask_values import MaskValues
from .stored_arrays import StoredArray

Arrays = Callable[[], Iterator[tuple[str, np.ndarray]]]  # (place, array) each


class Picture(NamedTuple):
    """An image.

    Attributes:
        name: of its outputs: the file's name without suffix, or the row number.
        image: (H, W, 3) uint8.
        mask: (H, W) uint8 of class ids and 255 (does not count); None without gold.
    """

    name: str
    image: np.ndarray
    mask: np.ndarray | None


@dataclass
class Pictures:
    """A [`Reader`] of N images of any sizes: `inputs` are (H, W, 3) uint8, `gold` are masks (H, W) uint8 of class ids
    and 255.

    Attributes:
        names: of the N images.
        images, masks: return the stored arrays; `masks` is None without gold.
        values: what the stored values of masks mean.
        num_classes: of the masks.
        columns, notes: as in [`Reader`].
    """

    names: list[str]
    images: Arrays
    masks: Arrays | None = None
    values: MaskValues = field(default_factory=MaskValues)
    num_classes: int = 2
    columns: Sequence[str] = ()
    notes: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return len(self.names)

    def chunks(self, size: int) -> Iterator[Chunk]:
        """All images, `size` at a time; each row has its `name`."""
        pictures = iter(self)
        while part := list(islice(pictures, size)):
            names, images = [{"name": picture.name} for picture in part], [picture.image for picture in part]
            yield Chunk(names, images, None if self.masks is None else [picture.mask for picture in part])

    def __iter__(self) -> Iterator[Picture]:
        """Raises DataError for a wrong image or mask, and for a mask whose size differs from its image's."""
        masks = self._settled() if self.masks else ((where, None) for where in self.names)
        for name, (where, image), (place, mask) in zip(self.names, self.images(), masks, strict=True):
            image = as_rgb(image, where)
            if mask is not None and mask.shape != image.shape[:2]:
                raise DataError(
                    f"{place}: the image is {size_of(image)} pixels and its mask {size_of(mask)}; both must have the "
                    "same size. Resize the mask (nearest neighbour) or check that it belongs to this image."
                )
            yield Picture(name, image, mask)

    def _read(self) -> Iterator[tuple[str, np.ndarray]]:
        assert self.masks is not None
        for where, mask in self.masks():
            mask = self.values.read(mask, where)
            wrong = mask[(mask >= self.num_classes) & (mask != IGNORE)]
            if wrong.size:
                raise DataError(
                    f"{where}: the mask holds the class {wrong[0]}, but the model has {self.num_classes} classes, 0 to "
                    f"{self.num_classes - 1}, and {IGNORE} does not count. Map the masks' values as in training."
                )
            yield where, mask

    @cached_property
    def _marks_objects(self) -> bool:
        """True if 255 is the foreground: in masks of two classes none of which holds a 1, as in black-and-white
        files."""
        may = self.num_classes == 2 and self.values.marks_objects and self.values.foreground != 1
        if not may or any((mask == 1).any() for _, mask in self._read()):
            return False
        self.notes.append("no mask holds a 1: 255 is read as foreground.")
        return True

    def _settled(self) -> Iterator[tuple[str, np.ndarray]]:
        for where, mask in self._read():
            yield where, np.where(mask == IGNORE, 1, mask) if self._marks_objects else mask


def pictures_of(path: Path, gold: bool = False, values: MaskValues | None = None, num_classes: int = 2) -> Pictures:
    """The images of a file or folder; `gold`: with their masks, in the values and classes of a model.

    Raises:
        DataError: the file does not exist, there is no image, an image's type is not supported, or masks are missing.
    """
    meaning: dict[str, Any] = {"values": values or MaskValues(), "num_classes": num_classes}
    if path.suffix.lower() == ".npz":
        return _of_arrays(path, gold, meaning)
    if gold:
        folders = image_folders(path)
        if folders is None and (path / "images").is_dir():
            raise DataError(f"{path}: has images/ but no masks/ beside it. Put the masks there, under the same names.")
        if folders is None:
            raise DataError(f"{path}: expected a folder with images/ and masks/, or an .npz file with both.")
        pairs = paired_files(*folders)
        files, masks = [image for image, _ in pairs], [mask for _, mask in pairs]
        return Pictures([file.stem for file in files], _files(files, pixels), _files(masks, mask_values), **meaning)
    if path.is_dir():
        files = list(files_by_stem(path / "images" if (path / "images").is_dir() else path).values())
    elif not path.is_file():
        raise DataError(f"{path}: no such file or folder.")
    elif path.suffix.lower() not in IMAGE_SUFFIXES:
        raise DataError(
            f"{path}: images of type {path.suffix or '(none)'} are not supported. Give an image file of type "
            f"{', '.join(IMAGE_SUFFIXES)}, a folder of them, or an .npz file."
        )
    else:
        files = [path]
    return Pictures([file.stem for file in files], _files(files, pixels))


def _files(files: list[Path], read: Callable[[Path], np.ndarray]) -> Arrays:
    return lambda: ((str(file), read(file)) for file in files)


def _of_arrays(path: Path, gold: bool, meaning: dict[str, Any]) -> Pictures:
    images, masks = StoredArray(path, "images"), StoredArray(path, "masks") if gold else None
    if not len(images):
        raise DataError(f"{path}: no images. Give at least one.")
    if masks is not None and len(masks) != len(images):
        raise DataError(f"{path}: {len(images)} images, but {len(masks)} masks. Every image needs one mask.")

    def rows(array: StoredArray) -> Arrays:
        return lambda: ((f"{path}, row {i}", row) for i, row in enumerate(array))

    names = [str(i) for i in range(len(images))]
    return Pictures(names, rows(images), None if masks is None else rows(masks), **meaning)
