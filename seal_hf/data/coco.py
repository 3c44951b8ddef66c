"""Masks of COCO's annotations: a `.json` with `images`, `categories` and `annotations`, whose `segmentation` is
polygons or a run-length encoding. Classes are the background and the categories by their ids."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..core.masks import MOST_CLASSES
from ..utils.files import visible
from .common import DataError

BACKGROUND = "background"
NO_CLASS = (BACKGROUND, "_background_", "__background__", "__ignore__")  # names of what no object is
MOST_PIXELS = 1 << 28  # of a mask
KEYS = {"images", "annotations", "categories"}


class CocoFile:
    """A file of annotations.

    Attributes:
        images: the files of its images.
        class_names: `background` and the names of the categories, by their ids.
        notes: what is left out, with counts.

    Raises:
        DataError: another form, or an image that does not exist; names the file and the image.
    """

    def __init__(self, path: Path, folder: Path):
        self.path = path
        try:
            content = json.loads(path.read_text(encoding="utf-8-sig"))
            self._of_image: dict[Any, list[dict[str, Any]]] = {}
            for one in content["annotations"]:
                self._of_image.setdefault(one["image_id"], []).append(one)
            kinds = sorted(content["categories"], key=lambda kind: kind["id"])
            names = [(kind["id"], str(kind["name"])) for kind in kinds]
            self._infos = [
                (one["id"], str(one["file_name"]), int(one["height"]), int(one["width"])) for one in content["images"]
            ]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(f"{path}: not annotations of COCO: {error!r} is missing or of another form.") from error
        objects = [(number, name) for number, name in names if name.lower() not in NO_CLASS]
        self.class_names = [BACKGROUND, *(name for _, name in objects)]
        self._classes = {number: i for i, (number, _) in enumerate(objects, start=1)}
        self._classes |= {number: 0 for number, name in names if name.lower() in NO_CLASS}
        huge = next((name for _, name, height, width in self._infos if not 0 < height * width <= MOST_PIXELS), None)
        if huge is not None:
            raise DataError(f"{path}: the height and width of {huge!r} are not those of an image. Correct them.")
        if len(self.class_names) > MOST_CLASSES:
            raise DataError(f"{path}: {len(objects)} categories, more than {MOST_CLASSES - 1}. Leave some out.")
        self._folder = folder
        counts = Counter("segmentation" not in one for some in self._of_image.values() for one in some)
        self.notes = [f"{path.name}: {counts[True]} annotations without a mask left out."] if counts[True] else []

    @cached_property
    def images(self) -> list[Path]:
        return [self._found(name) for _, name, *_ in self._infos]

    def _found(self, name: str) -> Path:
        own = name.replace("\\", "/")
        places = dict.fromkeys((self.path.parent, self.path.parent.parent, self._folder))
        inside = [place / below for place in places for below in ("", "images", self.path.stem.rpartition("_")[2])]
        file = next((place / own for place in inside if (place / own).is_file()), None)
        file = file or next((place / Path(own).name for place in inside if (place / Path(own).name).is_file()), None)
        if file is None:
            raise DataError(f"{self.path}: no image file {name!r} in {self._folder} or beside the annotations.")
        return file

    def masks(self) -> Iterator[tuple[str, np.ndarray]]:
        """The place and the mask (H, W) uint8 of each image. Smaller objects lie above larger ones."""
        for number, name, height, width in self._infos:
            where, mask = f"{self.path}, {name}", np.zeros((height, width), np.uint8)
            drawn = []
            for one in self._of_image.get(number, ()):
                if one.get("category_id") not in self._classes:
                    raise DataError(f"{where}: the category {one.get('category_id')!r} is not among the categories.")
                if "segmentation" in one:
                    area = _drawn(one["segmentation"], height, width, where)
                    drawn.append((int(area.sum()), self._classes[one["category_id"]], area))
            for _, kind, area in sorted(drawn, key=lambda each: -each[0]):
                mask[area] = kind
            yield where, mask


def coco_files(path: Path) -> list[Path]:
    """The annotations in a folder, its folder `annotations`, or the folders of its splits; or this file."""
    if path.is_file():
        return [path]
    places = [path, *(each for each in visible(path) if each.is_dir())]
    files = [file for place in places for file in visible(place) if file.suffix.lower() == ".json"]
    return [file for file in files if _is_coco(file)]


def _is_coco(file: Path) -> bool:
    try:
        content = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and KEYS <= content.keys() and bool(content["images"])


def _drawn(segmentation: Any, height: int, width: int, where: str) -> np.ndarray:
    """(H, W) bool of polygons, or of a run-length encoding."""
    try:
        if isinstance(segmentation, dict):
            return _of_runs(segmentation, height, width)
        polygons = [np.asarray(points, dtype=np.float64) for points in segmentation]
        if any(p.ndim != 1 or len(p) < 6 or len(p) % 2 or not np.isfinite(p).all() for p in polygons):
            raise ValueError("a polygon of fewer than three points")
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise DataError(
            f"{where}: a segmentation is not readable: {error}. Expected polygons [[x, y, x, y, x, y, ...]], or "
            f"a run-length encoding of {height} x {width} pixels."
        ) from error
    if not polygons:
        return np.zeros((height, width), bool)
    try:
        from pycocotools import mask as coco
    except ImportError as error:
        raise DataError(f"{where}: polygons need pycocotools: pip install 'seal_hf[coco]'.") from error
    inside = [np.clip(p.reshape(-1, 2), 0, (width, height)).ravel().tolist() for p in polygons]
    drawn = coco.merge(coco.frPyObjects(inside, height, width))
    return _of_runs({"size": drawn["size"], "counts": drawn["counts"].decode()}, height, width)


def _of_runs(encoded: dict[str, Any], height: int, width: int) -> np.ndarray:
    """Runs of 0 and 1, column by column, as numbers or in COCO's text."""
    if [*encoded["size"]] != [height, width]:
        raise ValueError(f"its size is {encoded['size']}, but that of the image is {[height, width]}")
    counts = encoded["counts"]
    runs = np.array(_runs_of_text(counts) if isinstance(counts, str) else counts, dtype=np.int64)
    if (runs < 0).any() or math.fsum(runs) != height * width:
        raise ValueError(f"its runs have {runs.sum()} pixels, not {height * width}")
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(width, height).T


def _runs_of_text(text: str) -> Sequence[int]:
    """Numbers of five bits a character, lowest first; from the fourth on, differences to the one before the last."""
    runs: list[int] = []
    value = shift = 0
    for char in text:
        bits = ord(char) - 48
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        value -= (1 << shift) if bits & 16 else 0
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
        value = shift = 0
    return runs
