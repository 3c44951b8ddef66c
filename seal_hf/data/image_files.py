"""Image files, and PIL images, as arrays."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
import torch.nn.functional as F

from .common import DataError

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")


def files_by_stem(folder: Path) -> dict[str, Path]:
    """The image files of a folder by their names without suffix; what is no image is left out.

    Raises:
        DataError: two files of one such name, images of a type that is not read, or no image at all.
    """
    found: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        if file.suffix.lower() in IMAGE_SUFFIXES:
            other = found.setdefault(file.stem, file)
            if other is not file:
                raise DataError(
                    f"{file}: {other.name} beside it has the same name but for the suffix; an image and its mask are "
                    "found by that name. Remove or rename one of them."
                )
        elif (mimetypes.guess_type(file.name)[0] or "").startswith("image/"):
            raise DataError(
                f"{file}: images of type {file.suffix} are not read. Convert them to one of "
                f"{', '.join(IMAGE_SUFFIXES)}, masks to .png."
            )
    if not found:
        raise DataError(f"{folder}: no images. Give at least one, with its mask, of type {', '.join(IMAGE_SUFFIXES)}.")
    return found


def pixels(image: Any) -> np.ndarray:
    """Of a file, a PIL image, or nested lists. What is not 8 bits per channel stays as it is, to be refused."""
    image = opened(image) if isinstance(image, Path) else image
    if not hasattr(image, "convert"):
        values = np.asarray(image)
        whole = values.dtype.kind in "iu" and values.size and values.min() >= 0 and values.max() <= 255
        return values.astype(np.uint8) if whole else values
    if image.mode in ("1", "LA"):
        return np.asarray(image.convert("L"))
    return np.asarray(image if image.mode[0] in "LIF" else image.convert("RGB"))


def mask_values(mask: Any) -> np.ndarray:
    """As it is stored: of a palette, the indices; of one bit, 0 and 1."""
    return np.asarray(opened(mask) if isinstance(mask, Path) else mask)


def opened(file: Path) -> Any:
    """A PIL image. Through `datasets`, as pillow is no dependency of ours: only image files need it."""
    try:
        return datasets.Image().decode_example({"path": str(file), "bytes": None})
    except ImportError as error:
        raise DataError(f"{file}: image files need pillow, which is not installed: pip install pillow.") from error
    except Exception as error:
        raise DataError(f"{file}: not readable as an image: {error}. Replace or remove it.") from error


def resized(array: np.ndarray, size: int) -> np.ndarray:
    """An image (H, W, 3) bilinearly, a mask (H, W) to the nearest pixel: (size, size, ...)."""
    if array.ndim == 2:
        rows, columns = (((np.arange(size) + 0.5) * length / size).astype(int) for length in array.shape)
        return array[np.ix_(rows, columns)]
    planes = torch.from_numpy(array.copy()).permute(2, 0, 1).unsqueeze(0).float()
    planes = F.interpolate(planes, size=(size, size), mode="bilinear", antialias=True)
    return planes[0].permute(1, 2, 0).round().clamp(0, 255).byte().numpy()


def size_of(array: np.ndarray) -> str:
    return f"{array.shape[0]} x {array.shape[1]}"
