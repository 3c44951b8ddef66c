"""Images with binary masks: `.npz` files, folders of images and masks, tables in memory, on disk and on the Hub, and
the embedded digits.

Masks hold 0 (background), 1 (foreground) and 255 (does not count). Image files often have 255 for the foreground: if no
mask of a data set holds a 1, 255 means foreground, and a note tells so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from ..structures.masks import IGNORE
from ..utils.messages import did_you_mean
from .common import DataError, Origins, check_splits, find_data
from .digit_masks import draw_digit_masks
from .given import Tables, from_hub, in_memory, is_stored, stored
from .hygiene import keys_of, repeat_notes
from .image_files import as_mask, as_rgb, mask_values, paired_files, pixels, resized, size_of
from .stratified import complete_splits
from .unlabelled import check_number, parted, pictures_without_masks

SPLIT_WORDS = {"train": ("train",), "validation": ("validation", "valid", "val", "dev"), "test": ("test",)}
IMAGE_NAMES, MASK_NAMES = ("image", "images", "pixel_values"), ("mask", "masks", "label", "labels", "annotation")


@dataclass
class SegmentationSplit:
    """Images of one size and their masks.

    Attributes:
        images: (N, H, W, 3) uint8.
        masks: (N, H, W) uint8 of 0, 1 and 255.
        origins: where they were read; None for a user's arrays.
    """

    images: np.ndarray
    masks: np.ndarray
    origins: Origins | None = None

    def __len__(self) -> int:
        return len(self.images)

    def take(self, rows: np.ndarray | slice) -> SegmentationSplit:
        """A split of some rows."""
        origins = None if self.origins is None else self.origins.take(rows)
        return SegmentationSplit(self.images[rows], self.masks[rows], origins)


@dataclass
class SegmentationData:
    """A data set of images with binary masks.

    Attributes:
        name: short name, for logs and the model card.
        kind: `masks`.
        train, validation, test: splits; `test` may be None. All images have one size.
        label_names: of background and foreground.
        notes: what the loader did to the data, with counts.
        unlabelled: with `num_labelled` or `unlabelled`, training images without masks, (N, H, W, 3) uint8.
    """

    name: str
    train: SegmentationSplit
    validation: SegmentationSplit
    test: SegmentationSplit | None
    label_names: list[str] = field(default_factory=lambda: ["background", "foreground"])
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
    max_train_rows: int | None = None,
    num_labelled: int | None = None,
    unlabelled: str | PathLike[str] | None = None,
    seed: int = 0,
) -> SegmentationData:
    """Images with binary masks, by name, folder, file or Hub id, or in a table.

    Args:
        dataset: `digits` (default), drawn from scikit-learn's; a folder of `.npz` files, one per split, each with
            arrays `images` (N, H, W, 3) and `masks` (N, H, W); one such file; a folder with `images` and `masks`, files
            of equal stems, or with these below `train`, `validation` and `test`; the name of a folder below `data_dir`;
            or data with a column of images and one of masks: parquet, a folder of `save_to_disk`, `owner/name` on the
            Hub, a `datasets.Dataset` or `DatasetDict`, a pandas frame, a mapping of split names to these.
        data_dir: folder of named data sets, searched two levels deep; default: the environment variable SEAL_HF_DATA.
        image_size: resize to this side in pixels, images bilinearly, masks to the nearest pixel; needed if image sizes
            differ.
        image_column, mask_column: of tables; default: the first of the usual names.
        max_train_rows: keep only this many first rows of the train split.
        num_labelled: this many of these rows, drawn with `seed`, stay `train`; the images of the others become
            `unlabelled`.
        unlabelled: a file or folder of further training images without masks, which become `unlabelled`, too.
        seed: for the embedded data, and for splits that the data does not fix: 80/10/10, or a tenth of train for a
            missing validation split; each part has its share of masks without an object.

    Raises:
        DataError: tells what is wrong, where, and what to do.
    """
    for name, value in (("max_train_rows", max_train_rows), ("image_size", image_size)):
        if value is not None and value < 1:
            raise DataError(f"`{name}` is {value}; it must be at least 1.")
    check_number(num_labelled)
    reader = _Reader(image_size)
    name, source, splits = _read(dataset, data_dir, reader, (image_column, mask_column), seed)
    reader.settle(splits, source)
    splits = _complete(splits, reader.notes, seed)
    if max_train_rows is not None:
        splits["train"] = splits["train"].take(slice(max_train_rows))
    check_splits({split: len(rows) for split, rows in splits.items()}, source)
    notes = reader.notes + repeat_notes({split: keys_of(rows.images) for split, rows in splits.items()})
    data = SegmentationData(name, splits["train"], splits["validation"], splits.get("test"), notes=notes)
    if num_labelled is not None:
        kept, others = parted(len(data.train), num_labelled, seed, source, data.notes)
        data.train, data.unlabelled = data.train.take(kept), data.train.images[others] if len(others) else None
    if unlabelled is not None:
        images = pictures_without_masks(fspath(unlabelled), data.image_size, image_size)
        data.notes.append(f"{len(images)} images without masks from {unlabelled}.")
        data.unlabelled = images if data.unlabelled is None else np.concatenate([data.unlabelled, images])
    return data


def _read(
    dataset: Any, data_dir: str | None, reader: _Reader, columns: tuple[str | None, str | None], seed: int
) -> tuple[str, str, dict[str, SegmentationSplit]]:
    """The name of a data set, its description for messages, and its splits."""
    dataset = fspath(dataset) if isinstance(dataset, PathLike) else dataset
    if dataset is None or (isinstance(dataset, str) and dataset == "digits"):
        drawn = draw_digit_masks(seed).items()
        return (
            "digits",
            "embedded digits",
            {split: reader.rows(rows, f"digits, {split} split") for split, rows in drawn},
        )
    path = find_data(dataset, data_dir, (".npz", ".parquet"), "digits") if isinstance(dataset, str) else None
    if path is not None and not is_stored(path):
        return path.stem if path.is_file() else path.name, dataset, _read_path(path, reader)
    tables = stored(path) if path else from_hub(dataset) if isinstance(dataset, str) else in_memory(dataset)
    return tables.name, tables.source, _read_tables(tables, reader, *columns)


class _Reader:
    """Checks and converts images and masks, and counts what it did.

    Attributes:
        image_size: the side to which all are resized, or None.
        one_channel: number of images with one channel.
        notes: for [`SegmentationData`].
    """

    def __init__(self, image_size: int | None):
        self.image_size = image_size
        self.one_channel = 0
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
            image, mask = self.image(np.asarray(image), drawn), as_mask(np.asarray(mask), where)
            if image.shape[:2] != mask.shape:
                raise DataError(
                    f"{where}: the image is {size_of(image)} pixels and its mask {size_of(mask)}; both must have the "
                    "same size. Resize the mask (nearest neighbour) or check that it belongs to this image."
                )
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
        return SegmentationSplit(np.stack(images), np.stack(masks), origins)

    def image(self, image: np.ndarray, where: str) -> np.ndarray:
        """As [`as_rgb`]; counts images with one channel."""
        found = as_rgb(image, where)
        self.one_channel += image.ndim == 2 or image.shape[2] == 1
        return found

    def settle(self, splits: dict[str, SegmentationSplit], source: str) -> None:
        """Settle what needs all splits: their size, the meaning of 255, and counts."""
        shapes = {split: size_of(rows.masks[0]) for split, rows in splits.items()}
        if len(set(shapes.values())) > 1:
            raise DataError(f"{source}: the splits have images of different sizes, {shapes}. Give `image_size`.")
        masks = [rows.masks for rows in splits.values()]
        total = sum(len(part) for part in masks)
        if not any((part == 1).any() for part in masks) and any((part == IGNORE).any() for part in masks):
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
        if self.one_channel:
            self.notes.append(f"{self.one_channel} of {total} images have one channel: repeated as three.")

    def _notice_mixed(self, masks: list[np.ndarray]) -> None:
        """Note if some masks hold 255 but no 1, as if 255 were their object, and others hold a 1."""
        objects = sum(int((part == 1).any((1, 2)).sum()) for part in masks)
        others = sum(int(((part == IGNORE).any((1, 2)) & ~(part == 1).any((1, 2))).sum()) for part in masks)
        if objects and others:
            self.notes.append(
                f"{others} masks hold 255 but no 1, while {objects} hold a 1: their 255 does not count either. If it "
                "is their object, write it as 1."
            )


def _complete(splits: dict[str, SegmentationSplit], notes: list[str], seed: int) -> dict[str, SegmentationSplit]:
    """Add a missing validation split: a single table is split 80/10/10; else it is a tenth of train."""
    objects = {split: (rows.masks == 1).any((1, 2))[:, None] for split, rows in splits.items()}
    parts = complete_splits(objects, seed, notes)
    return {
        split: splits[key] if len(ids) == len(splits[key]) else splits[key].take(ids)
        for split, (key, ids) in parts.items()
    }


# --- where the data is -----------------------------------------------------------------------------------------------


def _read_path(path: Path, reader: _Reader) -> dict[str, SegmentationSplit]:
    if path.is_file():
        return {_split_of(path.stem) or "all": _read_npz(path, reader)}
    files = sorted(path.glob("*.npz"))
    if files:
        splits: dict[str, SegmentationSplit] = {}
        for file in files:
            split = _split_of(file.stem) or ("all" if len(files) == 1 else None)
            if split is None or split in splits:
                raise DataError(
                    f"{file}: the name must contain one of the words train, val or test, for one split each. Found "
                    f"{', '.join(f.name for f in files)}."
                )
            splits[split] = _read_npz(file, reader)
        return splits
    if (path / "images").is_dir():
        return {"all": _read_folder(path, reader)}
    folders: dict[str, Path] = {}
    for folder in sorted(path.iterdir()):
        split = _split_of(folder.name) if (folder / "images").is_dir() else None
        if split in folders:
            raise DataError(
                f"{folder}: {folders[split].name}/ beside it is already the {split} split. Give one folder per split, "
                "and put the images of both into it."
            )
        if split is not None:
            folders[split] = folder
    if not folders:
        raise DataError(
            f"{path}: found {', '.join(sorted(p.name for p in path.iterdir())[:8]) or 'nothing'}; expected .npz files "
            "(one per split), or folders images/ and masks/, here or below train/, validation/ and test/."
        )
    return {split: _read_folder(folder, reader) for split, folder in folders.items()}


def _split_of(name: str) -> str | None:
    """`weizmann32_val` -> `validation`; None if no word of the name names a split."""
    words = re.findall(r"[a-z]+", name.lower())
    return next((split for split, known in SPLIT_WORDS.items() if set(words) & set(known)), None)


def _read_npz(file: Path, reader: _Reader) -> SegmentationSplit:
    try:
        with np.load(file, allow_pickle=False) as stored:
            missing = [name for name in ("images", "masks") if name not in stored.files]
            if missing:
                raise DataError(
                    f"{file}: arrays {', '.join(stored.files)}; expected images (N, H, W, 3) and masks (N, H, W)."
                )
            images, masks = stored["images"], stored["masks"]
    except DataError:
        raise
    except Exception as error:  # a broken archive, or objects, which would need unpickling
        raise DataError(
            f"{file}: not readable as arrays: {error}. Save it with np.savez(file, images=..., masks=...)."
        ) from error
    if not images.ndim or not masks.ndim:
        raise DataError(
            f"{file}: images of shape {images.shape} and masks of shape {masks.shape}; expected (N, H, W, 3) and "
            "(N, H, W)."
        )
    if len(images) != len(masks):
        raise DataError(f"{file}: {len(images)} images, but {len(masks)} masks. Every image needs one mask.")
    return reader.rows(zip(images, masks, strict=True), str(file))


def _read_folder(folder: Path, reader: _Reader) -> SegmentationSplit:
    files = paired_files(folder)
    return reader.rows(((pixels(image), mask_values(mask)) for image, mask in files), str(folder), files)


def _read_tables(
    tables: Tables, reader: _Reader, image_column: str | None, mask_column: str | None
) -> dict[str, SegmentationSplit]:
    reader.notes += tables.notes
    splits = {}
    for split, table in tables.splits.items():
        place, columns = tables.origins[split].source, table.column_names
        image = _column(columns, image_column, IMAGE_NAMES, "image_column", place)
        mask = _column(columns, mask_column, MASK_NAMES, "mask_column", place)
        pairs = ((pixels(row[image]), mask_values(row[mask])) for row in table.select_columns([image, mask]))
        splits[split] = reader.rows(pairs, place, ids=tables.origins[split].ids)
    if (image, mask) != (IMAGE_NAMES[0], MASK_NAMES[0]) and None in (image_column, mask_column):
        reader.notes.append(f"images: column {image!r}; masks: column {mask!r}.")
    return splits


def _column(columns: Sequence[str], given: str | None, usual: Sequence[str], argument: str, source: str) -> str:
    found = given if given is not None else next((name for name in usual if name in columns), None)
    if found is None or found not in columns:
        hint = did_you_mean(given or usual[0], columns)
        raise DataError(
            f"{source}: `{argument}` is {given!r}, but the columns are {', '.join(columns)}.{hint} Give one of them."
        )
    return found
