"""Images with label sets in tables: a column of images, or of names of image files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from ..utils.messages import did_you_mean
from .column_choice import TEXTS, need_column
from .common import IMAGE, DataError
from .image_files import IMAGE_SUFFIXES
from .late import datasets, pa, pc

if TYPE_CHECKING:
    from datasets import Dataset

STRINGS = ("string", "large_string")
USUAL = ("image", "images", "file_name", "filename", "file", "image_path", "path")  # names of the column
FOLDER = "images"  # where files may be, beside the table that names them
LOOKED_AT = 100  # rows


def is_image(feature: Any) -> bool:
    """True for a column of images: a `datasets.Image`, or the bytes and path that one is stored as."""
    return isinstance(feature, datasets.Image) or (isinstance(feature, dict) and feature.keys() == {"bytes", "path"})


def image_column(
    features: Mapping[str, Any], values: Mapping[str, Sequence[Any]], asked: str | None, text_column: str | None
) -> str | None:
    """The column of images, or of names of image files; None for a table without one, and for one with texts.

    Args:
        features: column -> its feature in a `datasets.Dataset`; empty for a file of lines.
        values: column -> values, at least of the columns that may name files.
        asked, text_column: the columns that the user names.

    Raises:
        DataError: several columns may hold the images.
    """
    if asked is not None or text_column is not None:
        return asked
    stored = [name for name, feature in features.items() if is_image(feature)]
    found = stored or [name for name, column in values.items() if names_images(column)]
    if any(name.lower() in TEXTS and name not in found for name in (*features, *values)):
        return None
    usual = [name for name in USUAL if name in found]
    if len(found) > 1 and not usual:
        raise DataError(
            f"{len(found)} columns hold images or names of image files: {', '.join(found)}. Name the one to classify "
            "by `image_column` (--image_column)."
        )
    return next(iter((*usual, *found)), None)


def names_images(values: Sequence[Any]) -> bool:
    """True if most of the first values of a column are names of image files; the others are then mistakes."""
    shown = [value for value in values[:LOOKED_AT] if value not in (None, "")]
    named = [isinstance(value, str) and "://" not in value and _suffix(value) in IMAGE_SUFFIXES for value in shown]
    return 2 * sum(named) > len(named)


def _suffix(name: str) -> str:
    return PurePath(name.replace("\\", "/")).suffix.lower()


def stored_images(table: Dataset, column: str, folder: Path, source: str, place: Callable[[int], str]) -> Dataset:
    """The images of a table, as a data set with the column `image`.

    Args:
        column: holds images, or names of files.
        folder: the place of files whose names are relative.
        source, place: describe the table, and one of its rows, in messages.

    Raises:
        DataError: the column is missing or holds something else; or as [`image_paths`].
    """
    need_column(column, table.column_names, "image_column", source)
    feature = table.features[column]
    if getattr(feature, "dtype", None) in STRINGS:
        return named_images(table[column][:], folder, place)
    if not is_image(feature):
        raise DataError(
            f"{source}: the column {column!r} holds {feature}, expected images or names of image files. Name another "
            "one by `image_column` (--image_column), or cast it: dataset.cast_column(name, datasets.Image())."
        )
    check_files(table, column, place)
    found = table.select_columns([column])
    found = found if column == IMAGE else found.rename_column(column, IMAGE)
    return found.cast_column(IMAGE, datasets.Image())


def check_files(table: Dataset, column: str, place: Callable[[int], str]) -> None:
    """Raises DataError if an image of a column has neither bytes nor a file on this machine; names the row. `datasets`
    would look for other names on the network. No image is read."""
    stored = is_image(table.features[column])
    if not stored and getattr(table.features[column], "dtype", None) not in STRINGS:
        return  # pixels
    missing: list[tuple[int, Any]] = []  # row, name
    rows = 0
    for part in table.select_columns([column]).with_format("arrow").iter(1000):
        cells = part[column]
        if stored:
            named = pc.is_null(pc.struct_field(cells, "bytes")).to_numpy()
            cells = pc.struct_field(cells, "path")
        else:
            named = np.ones(len(cells), dtype=bool)
        found = ((i, cells[i].as_py()) for i in np.flatnonzero(named).tolist())
        missing += [(rows + i, name) for i, name in found if not name or not os.path.isfile(name)]
        rows += len(cells)
    if missing:
        row, name = missing[0]
        what = f"no image file {name!r} on this machine" if name else f"no image in the column {column!r}"
        others = f", nor for {len(missing) - 1} other rows" if len(missing) > 1 else ""
        raise DataError(
            f"{place(row)}: {what}{others}. Store the bytes of the images in the table, or the paths of existing files."
        )


def named_images(names: Sequence[Any], folder: Path, place: Callable[[int], str]) -> Dataset:
    """Images by the names of their files, as a data set with the column `image`. No file is read yet. Arguments and
    errors as for [`image_paths`]."""
    files = image_paths(names, folder, place)
    storage = pa.StructArray.from_arrays(
        [pa.nulls(len(files), pa.binary()), pa.array(files, pa.string())], ["bytes", "path"]
    )
    info = datasets.DatasetInfo(features=datasets.Features({IMAGE: datasets.Image()}))
    return datasets.Dataset(pa.table({IMAGE: storage}), info=info)


def image_paths(names: Sequence[Any], folder: Path, place: Callable[[int], str]) -> list[str]:
    """Paths of image files by their names.

    Args:
        names: relative to `folder`, or to `images` in it.
        folder: of the table with the names.
        place: describes a row in messages.

    Raises:
        DataError: a file does not exist; names the row.
    """
    files = [_path(name, folder) for name in names]
    missing = [row for row, file in enumerate(files) if file is None]
    if missing:
        name, folders = names[missing[0]], (folder, folder / FOLDER)
        known = [file.name for place in folders if place.is_dir() for file in place.iterdir()]
        others = f", nor for {len(missing) - 1} other rows" if len(missing) > 1 else ""
        raise DataError(
            f"{place(missing[0])}: no image file {name!r} in {folder} or its folder {FOLDER}/{others}."
            f"{did_you_mean(str(name), known)} Write the names as they are from the folder of the table on."
        )
    return [file for file in files if file is not None]


def _path(name: Any, folder: Path) -> str | None:
    """The path of a file; None if it does not exist."""
    if not isinstance(name, str) or not name:
        return None
    spellings = dict.fromkeys((name, name.replace("\\", "/")))  # as Windows writes paths
    paths = (place / spelling for spelling in spellings for place in (folder, folder / FOLDER))
    return next((str(path) for path in paths if os.path.isfile(path)), None)
