"""Image files, and PIL images, as arrays."""

from __future__ import annotations

import mimetypes
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ..core.masks import IGNORE
from ..utils.files import visible
from .common import DataError
from .late import datasets
from .name_files import Colour

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff")
RANGE_8, RANGE_16 = 2**8 - 1, 2**16 - 1  # largest values of 8 and 16 bits
MOST_CLEAR = 0.9  # share of pixels near black or white in a mask that JPEG blurred


def is_image(file: Path) -> bool:
    """True for a file with pixels, also of a type that is not read."""
    kind = mimetypes.guess_type(file.name)[0] or ""
    return file.suffix.lower() in IMAGE_SUFFIXES or (kind.startswith("image/") and "svg" not in kind)


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
        elif is_image(file):
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
        palette of black and white alone, in any order; 0 and 1 for one bit; 0 and 255 of a JPEG.

        Args:
            where: the place, for messages; default: `mask`, the path of a file.

        Raises:
            DataError: an index has another colour than in a mask before: each file numbers its colours by itself.
        """
        image = _opened_cell(mask)
        if self._ids is not None:
            return self._of_colours(as_rgb(pixels(image), where or str(mask)), where or str(mask))
        values = _array(image)
        if getattr(image, "format", None) == "JPEG":
            return _of_jpeg(values, where or str(mask))
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


def are_coloured(masks: Iterable[Path], colours: Collection[Colour]) -> bool:
    """True for masks that are drawn in these colours of classes. Others hold ids, perhaps one in three equal channels,
    or in the alpha channel."""
    for mask in masks:
        values = np.asarray(opened(mask))
        varies = values.ndim == 3 and bool((values[..., :3] != values[0, 0, :3]).any())
        if values.shape[2:] != (3,) and not (values.shape[2:] == (4,) and varies):
            return False
        if (values[..., :1] != values[..., :3]).any():
            return True
        greys = np.unique(values[..., 0]).tolist()
        if any((grey, grey, grey) not in colours for grey in greys):
            return False
        if greys[-1] >= len(colours):
            return True
    return True


def _of_jpeg(values: np.ndarray, where: str) -> np.ndarray:
    """0 and 255 of a mask that JPEG blurred.

    Raises:
        DataError: the mask holds more than black and white.
    """
    grey = values if values.ndim == 2 else values.mean(-1)
    is_white = grey >= RANGE_8 / 2
    is_clear = np.abs(grey - RANGE_8 * is_white) < RANGE_8 / 4
    if (grey.max() and not is_white.any()) or is_clear.mean() < MOST_CLEAR:
        raise DataError(
            f"{where}: a mask in a JPEG file, which changes class ids, and it is not black and white. Save the masks "
            "as PNG from their source."
        )
    return (RANGE_8 * is_white).astype(np.uint8)


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
