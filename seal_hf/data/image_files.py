"""Image files, and PIL images, as arrays."""

from __future__ import annotations

import mimetypes
from collections.abc import Collection
from os.path import commonprefix
from pathlib import Path
from string import digits as DIGITS
from typing import Any

import numpy as np

from ..core.masks import IGNORE
from ..utils.files import visible
from .common import DataError
from .late import datasets
from .name_files import Colour

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff")
RANGE_16 = 2**16 - 1  # largest value of 16 bits
FOLDERS = (  # names of folders of images and of their masks, also in capitals: ours, and those of well-known data
    ("images", "masks"),
    ("JPEGImages", "SegmentationClassPNG"),
    ("JPEGImages", "SegmentationClass"),
    ("img_dir", "ann_dir"),
    ("images", "annotations"),
    ("images", "labels"),
    ("imgs", "masks"),
    ("image", "mask"),
    ("image", "label"),
)
ENDINGS = ("_mask", "_segmentation", "_label", "_labels", "_gt", "_seg")  # of masks in the folder of their images
BESIDE = (("", "_masks"), ("", "_labels"), ("", "annot"), ("_images", "_masks"))  # after `train` and other splits


def files_by_stem(folder: Path) -> dict[str, Path]:
    """Name without suffix -> image file of a folder. Other files are left out.

    Raises:
        DataError: two files share a name, an image has an unsupported type, or the folder has no image.
    """
    found: dict[str, Path] = {}
    for file in visible(folder):
        if file.suffix.lower() in IMAGE_SUFFIXES:
            other = found.setdefault(file.stem, file)
            if other is not file:
                raise DataError(
                    f"{file}: {other.name} beside it has the same name apart from the suffix, but this name says which "
                    "mask belongs to an image. Remove or rename one of them."
                )
        elif (mimetypes.guess_type(file.name)[0] or "").startswith("image/"):
            raise DataError(
                f"{file}: images of type {file.suffix} are not supported. Convert them to one of "
                f"{', '.join(IMAGE_SUFFIXES)}, masks to .png."
            )
    if not found:
        below = [each.name for each in visible(folder) if each.is_dir()]
        hint = f" Folders in it, such as {below[0]}/, are not read." if below else ""
        raise DataError(f"{folder}: no images. Give at least one of type {', '.join(IMAGE_SUFFIXES)}.{hint}")
    return found


def pixels(image: Any) -> np.ndarray:
    """The pixels of a file, a PIL image, nested lists, or a cell with a file's bytes or path. Values other than 8 bits
    per channel stay unchanged, see [`as_rgb`]."""
    image = _opened_cell(image)
    if not hasattr(image, "convert"):  # no PIL image
        values = _array(image)
        whole = values.dtype.kind in "iu" and values.size and values.min() >= 0 and values.max() <= 255
        return values.astype(np.uint8) if whole else values
    image = _upright(image)
    if image.mode in ("1", "LA"):
        return np.asarray(image.convert("L"))
    if image.mode == "I" and (values := np.asarray(image)).min() >= 0 and values.max() <= RANGE_16:
        return values.astype(np.uint16)  # how pillow reads some files of 16 bits
    values = np.asarray(image if image.mode[0] in "LIF" and image.mode != "LAB" else image.convert("RGB"))
    return values.astype(values.dtype.newbyteorder("="), copy=False)  # big-endian in some TIFF files


def _upright(image: Any) -> Any:
    """A PIL image turned as its EXIF data say; that of a file is already."""
    from PIL import ImageOps

    return ImageOps.exif_transpose(image)


class MaskFiles:
    """Reads masks that belong together, in which an index of a palette has one colour.

    Args:
        ids: the classes of colours, for masks that are drawn in colours; None: masks hold class ids.
        source: the file with these colours, for messages.
    """

    def __init__(self, ids: dict[Colour, int] | None = None, source: Any = None):
        self._ids, self._source = ids, source
        self._colours: dict[int, tuple[tuple[int, ...], str]] = {}  # index -> its colour, and where it was seen first

    def values(self, mask: Any, where: str | None = None) -> np.ndarray:
        """The stored values of a mask: indices of a palette; grey values of a GIF, which has nothing else, and of a
        palette of black and white alone, in any order; 0 and 1 for one bit.

        Args:
            where: the place, for messages; default: `mask`, the path of a file.

        Raises:
            DataError: an index has another colour than in a mask before: each file numbers its colours by itself.
        """
        image = _opened_cell(mask)
        if self._ids is not None:
            return self._of_colours(as_rgb(pixels(image), where or str(mask)), where or str(mask))
        values = _array(image)
        if getattr(image, "mode", None) != "P":
            return values
        given = np.reshape(image.getpalette("RGB"), (-1, 3))
        colours = np.zeros((256, 3), np.uint8)
        colours[: len(given)] = given
        used = np.flatnonzero(np.bincount(values.ravel(), minlength=256))
        is_grey = (colours[used] == colours[used, :1]).all()
        if is_grey and (image.format == "GIF" or _is_black_and_white(given, colours[used])):
            return colours[values, 0]
        for index in used[used != IGNORE].tolist():
            colour = tuple(colours[index].tolist())
            first, place = self._colours.setdefault(index, (colour, where or str(mask)))
            if first != colour:
                raise DataError(
                    f"{where or mask}: the index {index} of its palette is the colour {colour}, but {first} in "
                    f"{place}. Each file numbers its colours by itself, so its indices are no class ids. Turn the "
                    "colours into ids, and save all masks with one palette or as grey values."
                )
        return values

    def _of_colours(self, drawn: np.ndarray, where: str) -> np.ndarray:
        """(H, W, 3) colours -> (H, W) class ids. Raises DataError for a colour that has no class."""
        assert self._ids is not None
        codes, which = np.unique(drawn @ np.array([1 << 16, 1 << 8, 1]), return_inverse=True)  # a number for a colour
        colours = [(code >> 16, code >> 8 & 255, code & 255) for code in codes.tolist()]
        unknown = next((colour for colour in colours if colour not in self._ids), None)
        if unknown is not None:
            raise DataError(
                f"{where}: the mask has the colour {unknown}, which no class in {self._source} has. Add a line for it. "
                "Save masks as PNG: JPEG and resizing change colours."
            )
        return np.array([self._ids[colour] for colour in colours], np.uint8)[which].reshape(drawn.shape[:2])


def is_coloured(mask: Path) -> bool:
    """True for a mask with red, green and blue, not one whose alpha channel says all."""
    values = np.asarray(opened(mask))
    varies = values.ndim == 3 and (values[..., :3] != values[0, 0, :3]).any()
    return values.shape[2:] == (3,) or (values.shape[2:] == (4,) and bool(varies))


def _is_black_and_white(palette: np.ndarray, used: np.ndarray) -> bool:
    """True if a palette has these two colours alone, and no more than one used index for each."""
    return bool(np.isin(palette.sum(1), (0, 3 * 255)).all()) and len(np.unique(used, axis=0)) == len(used)


def _array(values: Any) -> np.ndarray:
    """Nested lists as an array. Raises DataError for lists of different lengths."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise DataError(f"an image or mask of nested lists has rows of different lengths ({error}).") from error


def _opened_cell(cell: Any) -> Any:
    """The image of a path, or of `{"bytes": ..., "path": ...}` as in parquet; other cells unchanged."""
    if isinstance(cell, dict) and cell.get("bytes") is not None:
        return opened(Path(cell.get("path") or "an image of the table"), cell["bytes"])
    if isinstance(cell, dict) and cell.get("path"):
        cell = cell["path"]
    return opened(Path(cell)) if isinstance(cell, (str, Path)) else cell


def as_rgb(image: np.ndarray, where: str) -> np.ndarray:
    """(H, W), (H, W, 1), (H, W, 3) or (H, W, 4), uint8, uint16 or bool -> (H, W, 3) uint8. 16 bits are scaled by the
    range of their type, which is said once.

    Raises:
        DataError: another shape or type; names the place `where`.
    """
    if image.dtype == bool:
        image = image.astype(np.uint8) * 255
    if image.dtype == np.uint16:
        from transformers.utils import logging  # late: tables of scores are read without it

        logging.get_logger(__name__).warning_once(
            "Images of 16 bits per channel are read as 8 bits: 0 to 65535 become 0 to 255. Scale those whose values "
            "end far below, such as 12 bits, before."
        )
        image = (image // (RANGE_16 // 255)).astype(np.uint8)
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] not in (1, 3, 4)):
        raise DataError(
            f"{where}: the image has shape {image.shape} and type {image.dtype}; expected uint8 (H, W, 3), values "
            f"from 0 to 255.{_conversion(image)}"
        )
    if image.ndim == 2 or image.shape[2] == 1:
        image = np.repeat(image.reshape(*image.shape[:2], 1), 3, 2)
    return image[..., :3]


def _conversion(image: np.ndarray) -> str:
    """What makes an image of such an array, for messages."""
    if image.ndim == 3 and image.shape[0] in (1, 3, 4):
        return " Move the channels behind: image.transpose(1, 2, 0)."
    if image.ndim not in (2, 3) or image.dtype.kind not in "iuf" or image.dtype == np.uint8:
        return ""
    if image.dtype.kind == "f":
        return " For values in [0, 1]: (255 * image).round().astype(np.uint8)."
    return f" For {8 * image.itemsize} bits per channel: (image / {np.iinfo(image.dtype).max} * 255).astype(np.uint8)."


def opened(file: Path, content: bytes | None = None) -> Any:
    """A PIL image, from a file or its content. It goes through `datasets`, since pillow is optional: only image files
    need it."""
    try:
        image = datasets.Image().decode_example({"path": str(file), "bytes": content})
    except ImportError as error:
        raise DataError(f"{file}: image files need pillow: pip install 'seal_hf[vision]'.") from error
    except Exception as error:
        raise DataError(f"{file}: not readable as an image: {error}. Replace or remove it.") from error
    if (count := getattr(image, "n_frames", 1)) > 1:
        image.close()
        raise DataError(f"{file}: holds {count} pictures, such as pages or frames; expected one. Save each as a file.")
    if image.format not in ("GIF", "TIFF"):
        return image
    found = image.copy()  # these stay open, for further pictures
    found.format = image.format
    image.close()
    return found


def resized(array: np.ndarray, size: int | tuple[int, int]) -> np.ndarray:
    """Resize an image (H, W, 3) bilinearly, or a mask (H, W) to the nearest pixel. `size` is (h, w), or one number for
    both."""
    sides = (size, size) if isinstance(size, int) else size
    if array.ndim == 2:
        places = zip(sides, array.shape, strict=True)
        return array[np.ix_(*(((np.arange(side) + 0.5) * length / side).astype(int) for side, length in places))]
    import torch  # late: tables of scores are read without it
    import torch.nn.functional as F

    planes = torch.from_numpy(array.copy()).permute(2, 0, 1).unsqueeze(0).float()
    planes = F.interpolate(planes, size=sides, mode="bilinear", antialias=True)
    return planes[0].permute(1, 2, 0).round().clamp(0, 255).byte().numpy()


def size_of(array: np.ndarray) -> str:
    return f"{array.shape[0]} x {array.shape[1]}"


def image_folders(folder: Path) -> tuple[Path, Path] | None:
    """The folders of images and of masks in a folder; None if it lacks one of them."""
    below = {each.name.lower(): each for each in visible(folder) if each.is_dir()} if folder.is_dir() else {}
    found = ([below.get(name.lower()) for name in names] for names in FOLDERS)
    return next(((images, masks) for images, masks in found if images and masks), None)


def has_both(folder: Path) -> bool:
    """True for a folder with images and masks, whose names end in one of [`ENDINGS`]."""
    stems = [each.stem for each in visible(folder) if each.suffix.lower() in IMAGE_SUFFIXES]
    return {stem.endswith(ENDINGS) for stem in stems} == {True, False}


def folders_beside(folder: Path) -> list[tuple[Path, Path]]:
    """The folders of images in a folder that have their masks beside them, as `train` and `train_masks`."""
    below = {each.name.lower(): each for each in visible(folder) if each.is_dir()}
    found = ((name, name.removesuffix(own) + other) for own, other in BESIDE for name in below if name.endswith(own))
    return [(below[images], below[masks]) for images, masks in found if masks in below and masks != images]


def paired_files(images: Path, masks: Path, listed: Path | None = None) -> list[tuple[Path, Path]]:
    """The files in a folder of images, sorted by name, each with its mask. The names may differ as [`_by_images`]
    says. Of one folder with both, masks are the files whose names end in one of [`ENDINGS`].

    Args:
        listed: a list of the images to take, see [`_names_in`]; default: all.

    Raises:
        DataError: an image without a mask or a mask without an image; or as [`files_by_stem`].
    """
    pictures, drawn = files_by_stem(images), files_by_stem(masks)
    if images == masks:
        pictures = {stem: file for stem, file in drawn.items() if not stem.endswith(ENDINGS)}
        drawn = {stem: file for stem, file in drawn.items() if stem.endswith(ENDINGS)}
    drawn = _by_images(drawn, pictures)
    if listed is not None:
        names = _names_in(listed, pictures)
        if not names:
            raise DataError(f"{listed}: names no image. Correct the list, or remove it.")
        for what, of, part in (("image", pictures, images), ("mask", drawn, masks)):
            if (missing := next((name for name in names if name not in of), None)) is not None:
                raise DataError(
                    f"{listed}: names {missing!r}, but no {what} in {part} is called so. Correct the list, or remove "
                    "it."
                )
        pictures, drawn = ({name: of[name] for name in names} for of in (pictures, drawn))
    for have, lack, part in ((pictures, drawn, masks), (drawn, pictures, images)):
        alone = sorted(set(have) - set(lack))
        if alone:
            others = f", nor for {len(alone) - 1} others" if len(alone) > 1 else ""
            raise DataError(
                f"{have[alone[0]]}: no file of this name in {part}{others}. Give each image one mask of its "
                f"name ({', '.join(IMAGE_SUFFIXES)}), or remove it."
            )
    return [(pictures[stem], drawn[stem]) for stem in pictures]


def _names_in(listed: Path, images: Collection[str]) -> list[str]:
    """The names of images in a list, without suffixes and folders: a line is a name, or begins with one."""
    lines = [line.strip() for line in listed.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    return [whole if (whole := _name_of(line)) in images else _name_of(line.split()[0]) for line in lines]


def _name_of(file: str) -> str:
    path = Path(file)
    return path.stem if path.suffix.lower() in IMAGE_SUFFIXES else path.name


def _by_images(masks: dict[str, Path], images: Collection[str]) -> dict[str, Path]:
    """Masks by the names of images. The names of all masks may end alike, as `a_mask` for `a`, and those of all images
    and masks may begin and end alike, as `image_1` and `mask_1`, or `1_training` and `1_manual1`."""
    if masks.keys() & set(images):
        return masks
    known = [sum(stem[: len(stem) - n] in images for stem in masks) for n in range(len(_end([*masks])) + 1)]
    if length := known.index(max(known)):  # that of the ending without which most masks are images; 0 for none
        return {stem[:-length]: file for stem, file in masks.items()}
    own, of_images = _different_parts([*masks]), _different_parts([*images])
    if own.keys() == of_images.keys() and len(own) == len(masks) == len(images) > 1:
        return {of_images[part]: masks[own[part]] for part in of_images}
    return masks


def _different_parts(stems: list[str]) -> dict[str, str]:
    """The part of each name in which names differ -> the name. Digits are in that part, as in 10, 11, 12."""
    begin, end = commonprefix(stems).rstrip(DIGITS), _end(stems).lstrip(DIGITS)
    return {stem[len(begin) : len(stem) - len(end)]: stem for stem in stems}


def _end(stems: list[str]) -> str:
    """How all names end."""
    return commonprefix([stem[::-1] for stem in stems])[::-1]
