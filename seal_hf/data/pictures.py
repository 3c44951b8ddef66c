"""Images, with or without gold masks, read one at a time: for training, evaluation and prediction.

They come from an image file; a folder of image files; a folder of images and gold masks, which `mask_pairs.py` pairs;
COCO's annotations; an `.npz` file with `images` (N, H, W, 3) uint8 and gold `masks` (N, H, W); or tables with a column
of images and one of masks.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.masks import IGNORE, MOST_CLASSES
from ..utils.files import visible
from ..utils.messages import did_you_mean, few
from .column_choice import need_column
from .common import DataError, id_column
from .image_files import (
    IMAGE_SUFFIXES,
    MaskFiles,
    are_coloured,
    as_rgb,
    files_by_stem,
    is_image,
    pixels,
    size_of,
)
from .image_tables import check_files
from .mask_lists import TABLES as LISTS
from .mask_lists import names_masks, without_masks
from .mask_pairs import find_pairs
from .mask_values import MaskValues, find_names
from .name_files import colours_beside
from .row_tables import Chunk, parts
from .stored_arrays import StoredArray
from .table_sources import ALL, Tables, by_split, chosen_split, is_stored, split_of, tables_of

# --- COCO's annotations -----------------------------------------------------------------------------------------------
# A `.json` with `images`, `categories` and `annotations`, whose `segmentation` is polygons or a run-length encoding.
# Classes are the background and the categories by their ids.

BACKGROUND = "background"
NO_CLASS = (BACKGROUND, "_background_", "__background__", "__ignore__")  # names of what no object is
MOST_PIXELS = 1 << 28  # of a mask
KEYS = {"images", "annotations", "categories"}
BLURRED = "masks are JPEG files, which blurs them: values from 128 on are read as 255, others as 0."
EXPORT = "Export polygons of labelme, CVAT, Supervisely or YOLO as COCO's annotations, or as masks."


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
        ids = Counter(number for number, *_ in self._infos)
        twice = next((number for number, count in ids.items() if count > 1), None)
        if twice is not None:
            raise DataError(f"{path}: {ids[twice]} images have the id {twice!r}. Give each image its own.")
        self._folder = folder
        counts = Counter(
            "without an image" if number not in ids else "without a mask" if not one.get("segmentation") else ""
            for number, some in self._of_image.items()
            for one in some
        )
        left_out = [f"{count} annotations {why}" for why, count in counts.items() if why]
        if left_out and not counts[""]:
            raise DataError(f"{path}: has {' and '.join(left_out)}, and no others. Give masks of these images.")
        self.notes = [f"{path.name}: {each} left out." for each in left_out]

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
                if one.get("segmentation"):
                    area = _drawn(one["segmentation"], height, width, where)
                    drawn.append((int(area.sum()), self._classes[one["category_id"]], area))
            for _, kind, area in sorted(drawn, key=lambda each: -each[0]):
                mask[area] = kind
            yield where, mask


def coco_files(path: Path) -> list[Path]:
    """The annotations in a folder, its folder `annotations`, or the folders of its splits; or this file. COCO has those
    of instances beside those of keypoints."""
    if path.is_file():
        return [path]
    places = [path, *(each for each in visible(path) if each.is_dir())]
    files = [file for place in places for file in visible(place) if file.suffix.lower() == ".json"]
    found = [file for file in files if _is_coco(file)]
    return [file for file in found if file.stem.startswith("instances")] or found


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


# --- images one at a time ---------------------------------------------------------------------------------------------

IMAGE_NAMES, MASK_NAMES = ("image", "images", "pixel_values"), ("mask", "masks", "label", "labels", "annotation")
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
        source: where they are, for messages.
        files: the image files, if they have files.
        ids: of the rows of a table.
        class_names: names of the classes that the data have.
        order: the class of the model for each class of the data; None if they are the same.
    """

    names: list[str]
    images: Arrays
    masks: Arrays | None = None
    values: MaskValues = field(default_factory=MaskValues)
    num_classes: int = 2
    columns: Sequence[str] = ()
    notes: list[str] = field(default_factory=list)
    source: str = ""
    files: Sequence[Path] | None = None
    ids: np.ndarray | None = None
    class_names: list[str] | None = None
    order: np.ndarray | None = None

    @property
    def total(self) -> int:
        return len(self.names)

    def chunks(self, size: int) -> Iterator[Chunk]:
        """All images, `size` at a time; each row has its `name`."""
        for part in parts(self, size):
            names, images = [{"name": picture.name} for picture in part], [picture.image for picture in part]
            yield Chunk(names, images, None if self.masks is None else [picture.mask for picture in part])

    def __iter__(self) -> Iterator[Picture]:
        """Raises DataError for a wrong image or mask, and for a mask whose size differs from its image's."""
        masks = self._settled() if self.masks else ((where, None) for where in self.names)
        for name, (where, image), (place, mask) in zip(self.names, self.images(), masks, strict=True):
            image = as_rgb(image, where)
            if mask is not None:
                check_size(image, mask, place)
            yield Picture(name, image, mask)

    def _read(self) -> Iterator[tuple[str, np.ndarray]]:
        assert self.masks is not None
        for where, mask in self.masks():
            mask = self.values.read(mask, where)
            if self.order is not None:
                mask = self.order[mask]
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


def check_size(image: np.ndarray, mask: np.ndarray, where: str) -> None:
    """Raises DataError if an image and its mask have different sizes."""
    if image.shape[:2] != mask.shape:
        raise DataError(
            f"{where}: the image is {size_of(image)} pixels and its mask {size_of(mask)}; both must have the same "
            "size. Resize the mask (nearest neighbour) or check that it belongs to this image."
        )


def of_pairs(pairs: Sequence[tuple[np.ndarray, np.ndarray]], source: str) -> Pictures:
    """Images with masks that are in memory."""
    images, masks = zip(*pairs, strict=True)
    return Pictures([str(i) for i in range(len(pairs))], _rows(images, source), _rows(masks, source), source=source)


def _rows(arrays: Iterable[np.ndarray], source: Any) -> Arrays:
    return lambda: ((f"{source}, row {i}", row) for i, row in enumerate(arrays))


def pictures_of(
    path: Path,
    gold: bool = False,
    values: MaskValues | None = None,
    num_classes: int = 2,
    class_names: Sequence[str] | None = None,
    split: str | None = None,
) -> Pictures:
    """The images of a file or folder; `gold`: with their masks, in the values and classes of a model.

    Args:
        split: of the data with masks, or of tables; default: test, or the only one.
        class_names: of the model. Classes that the data name in another order are mapped.

    Raises:
        DataError: the file does not exist, there is no image, an image's type is not supported, masks are missing, or
            the data name a class that the model lacks.
    """
    if gold or is_stored(path):
        splits = pictures_by_split(path) if gold else pictures_of_tables(tables_of(None, path), gold=False)
        chosen = chosen_split([*splits], split, str(path))
        found = splits[chosen]
        others = " It has no test split." if split is None and chosen != "test" else ""
        said = f"{path}: the rows of its {chosen} split.{others}"
        found.notes += [said] if chosen != ALL and (others or len(splits) > 1) else []
        found.values, found.num_classes = values or MaskValues(), num_classes
        named = found.class_names or (find_names(path) if path.exists() else None)
        if named and class_names and [*named] != [*class_names]:
            _take_order(found, named, class_names, path)
        return found
    if split is not None:
        raise DataError(f"`split` is {split!r}, but {path} is read as images without splits. Leave it out.")
    if path.suffix.lower() == ".npz":
        return _of_arrays(path, gold)
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


def _take_order(found: Pictures, names: Sequence[str], model: Sequence[str], path: Path) -> None:
    """Map the classes of the data to those of the model by their names, if these are not numbers."""
    if all(name.isdigit() for name in model) or len(model) == 2:  # of two classes, the second is the object
        return
    unknown = [name for name in names if name not in model]
    if unknown:
        raise DataError(
            f"{path}: the data have the class {unknown[0]!r}, but the model has {few(list(model))}."
            f"{did_you_mean(unknown[0], model)} Is it the right model?"
        )
    found.order = np.full(256, IGNORE, np.uint8)
    found.order[: len(names)] = [model.index(name) for name in names]
    found.notes.append("the data have the classes of the model in another order: they are compared by name.")


def pictures_by_split(path: Path) -> dict[str, Pictures]:
    """Images with masks by split, in any layout; `all` if nothing names a split.

    Raises:
        DataError: nothing is found; names of files or folders that name no split, or one twice.
    """
    if is_stored(path):
        return pictures_of_tables(tables_of(None, path))
    if path.suffix.lower() == ".npz":
        return {split_of(path.stem) or ALL: _of_arrays(path, True)}
    files = sorted(path.glob("*.npz")) if path.is_dir() else []
    if files:
        named, others = by_split(files, path)
        if len(files) == 1:
            named, others = named or {ALL: files[0]}, []
        if others:
            raise DataError(
                f"{others[0]}: the name must contain one of the words train, val or test, for one split each. Found "
                f"{', '.join(f.name for f in files)}."
            )
        return {split: _of_arrays(file, True) for split, file in named.items()}
    if not path.exists():
        raise DataError(f"{path}: no such file or folder.")
    if path.is_file() and path.suffix.lower() not in (".json", *LISTS):
        raise DataError(
            f"{path}: expected a folder with images/ and masks/, a .csv that names images and their masks, an .npz or "
            ".parquet file, or annotations of COCO."
        )
    while path.is_dir() and len(only := visible(path)) == 1 and only[0].is_dir() and not split_of(only[0].name):
        path = only[0]  # as of an archive
    pairs = None if path.suffix.lower() == ".json" else find_pairs(path)
    if pairs is None and path.suffix.lower() not in LISTS and (annotated := coco_files(path)):
        return _of_coco(annotated, path if path.is_dir() else path.parent)
    if pairs is None:
        raise _no_masks(path)
    read, names, notes = _mask_files(path, [mask for some in pairs.splits.values() for _, mask in some])
    splits = {split: _of_files(read, names, some) for split, some in pairs.splits.items()}
    next(iter(splits.values())).notes += notes + pairs.notes
    return splits


def _no_masks(path: Path) -> DataError:
    if path.is_file():
        return DataError(
            f"{path}: no line names an image file and its mask that exist. A table needs the titles image and mask. "
            f"{EXPORT}"
        )
    beside = [each for each in visible(path.parent) if each.is_dir() and names_masks(each.name)]
    if (
        masks := next((each for each in beside if without_masks(each.name).strip("_-") == path.name), None)
    ) is not None:
        return DataError(
            f"{path}: holds images alone; their masks are beside it, in {masks.name}/. Give the folder of both, "
            f"{path.parent}."
        )
    image = next((file for file in path.rglob("*") if is_image(file)), None)
    shown = ", ".join([p.name for p in visible(path)][:8]) or "nothing"
    none = f"no images of type {', '.join(IMAGE_SUFFIXES)}; found {shown}"
    what = none if image is None else f"has images, such as {image.relative_to(path)}, but no masks"
    return DataError(
        f"{path}: {what}; expected .npz files (one per split), or folders images/ and masks/, train/ and train_masks/, "
        "or other names that say which are masks; files such as a.jpg and a_mask.png; a .csv that names both; or "
        f"COCO's annotations in a .json. {EXPORT}"
    )


def pictures_of_tables(
    tables: Tables, image_column: str | None = None, mask_column: str | None = None, gold: bool = True
) -> dict[str, Pictures]:
    """Images with masks by split, of tables with a column of images and, for `gold`, one of masks.

    Args:
        image_column, mask_column: default: the first of the usual names.

    Raises:
        DataError: a column is missing, or an image has no file.
    """
    splits: dict[str, Pictures] = {}
    files = MaskFiles()
    for split, table in tables.splits.items():
        place, columns, data = table.source, table.columns, table.data
        image = _column(columns, image_column, IMAGE_NAMES, "image_column", place)
        mask = _column(columns, mask_column, MASK_NAMES, "mask_column", place) if gold else image
        for column in (image, mask):
            check_files(data, column, table.place)
        splits[split] = Pictures(
            [str(i) for i in range(len(data))],
            _cells(data, image, place, lambda cell, _: pixels(cell)),
            _cells(data, mask, place, files.values) if gold else None,
            source=place,
            ids=id_column(data["id"][:]) if "id" in columns else None,
        )
    usual = (image, mask) == (IMAGE_NAMES[0], MASK_NAMES[0]) or None not in (image_column, mask_column)
    notes = [] if usual or not gold else [f"images: column {image!r}; masks: column {mask!r}."]
    next(iter(splits.values())).notes += [*tables.notes, *notes]
    return splits


def _cells(data: Any, column: str, place: str, read: Callable[[Any, str], np.ndarray]) -> Arrays:
    rows = data.select_columns([column])
    return lambda: ((where, read(row[column], where)) for i, row in enumerate(rows) if (where := f"{place}, row {i}"))


def _column(columns: Sequence[str], given: str | None, usual: Sequence[str], argument: str, source: str) -> str:
    found = given if given is not None else next((name for name in usual if name in columns), None)
    if found is None:
        raise DataError(
            f"{source}: no column is called {' or '.join(usual)}; the columns are {', '.join(columns)}. Call one so, "
            f"or name it with `{argument}` in training."
        )
    need_column(found, columns, argument, source)
    return found


def _of_coco(files: Sequence[Path], folder: Path) -> dict[str, Pictures]:
    splits: dict[str, Pictures] = {}
    named, others = by_split(files, folder, lambda file: file.stem if split_of(file.stem) else file.parent.name)
    if len(files) == 1:
        named, others = {ALL: files[0]}, []
    if others:
        raise DataError(
            f"{others[0]}: annotations must name one split each, train, val or test, in the name of the file or its "
            f"folder. Found {', '.join(each.name for each in files)}."
        )
    for split, file in named.items():
        coco = CocoFile(file, folder)
        first = next(iter(splits.values()), None)
        if first is not None and first.class_names != coco.class_names:
            raise DataError(f"{file}: its categories are not those of {first.source}. Give all splits the same ones.")
        images = coco.images
        if not images:
            raise DataError(f"{file}: no images. Give at least one.")
        splits[split] = Pictures(
            [image.stem for image in images],
            _files(images, pixels),
            coco.masks,
            notes=coco.notes,
            source=str(file),
            files=images,
            class_names=coco.class_names,
        )
    return splits


def _of_files(read: MaskFiles, names: list[str] | None, pairs: Sequence[tuple[Path, Path]]) -> Pictures:
    files, drawn = [image for image, _ in pairs], [mask for _, mask in pairs]
    own, source = [file.stem for file in files], str(files[0].parent.parent)
    return Pictures(
        own, _files(files, pixels), _files(drawn, read.values), source=source, files=files, class_names=names
    )


def _mask_files(path: Path, masks: Sequence[Path]) -> tuple[MaskFiles, list[str] | None, list[str]]:
    """What reads the masks of a folder; the names of their classes if they are drawn in colours that a file beside the
    data names, and notes. Of two classes, the background comes first."""
    notes = [BLURRED] if any(mask.suffix.lower() in (".jpg", ".jpeg") for mask in masks) else []
    colours = colours_beside(path) or colours_beside(path.parent)
    if colours is None or not are_coloured(masks, colours[1].values()):
        return MaskFiles(), None, notes
    file, found = colours
    if len(found) > MOST_CLASSES:
        raise DataError(f"{file}: {len(found)} classes, more than {MOST_CLASSES}. Leave out those that no mask has.")
    names = sorted(found, key=lambda name: len(found) == 2 and name.lower() not in NO_CLASS)
    ids = {found[name]: i for i, name in enumerate(names)}
    return MaskFiles(ids, file), names, [f"masks are read by the colours in {file.name}."]


def _files(files: list[Path], read: Callable[[Path], np.ndarray]) -> Arrays:
    return lambda: ((str(file), read(file)) for file in files)


def _of_arrays(path: Path, gold: bool) -> Pictures:
    images, masks = StoredArray(path, "images"), StoredArray(path, "masks") if gold else None
    if not len(images):
        raise DataError(f"{path}: no images. Give at least one.")
    if masks is not None and len(masks) != len(images):
        raise DataError(f"{path}: {len(images)} images, but {len(masks)} masks. Every image needs one mask.")
    names = [str(i) for i in range(len(images))]
    return Pictures(names, _rows(images, path), None if masks is None else _rows(masks, path), source=str(path))
