"""Images with label sets as rows of tensors, as the image processor of a model reads them, and their augmentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from datasets import Dataset
from torch import Tensor

from ...utils.compat import without_torchvision
from ...utils.files import loading
from ...utils.gate import PROCESSOR, check_origin, check_trust, no_questions
from ..common import IMAGE, DataError
from ..image_files import as_rgb, pixels
from .collators import TensorRows

Augmentation = Callable[[Tensor, Tensor], Tensor]
KEPT = 2 << 30  # bytes: more pixels than this are not kept in memory, but read again for each batch
AT_ONCE = 8  # images in memory at their own size
DRAWS = 8  # random numbers for each image and epoch
PROBE = 64  # side of the images that show how a processor scales, in pixels
LOW, HIGH = 51, 204  # their values: above 1, which some processors take for values that are scaled already


class Pixels:
    """What an image processor does, in two steps: an image becomes bytes of the size that the net reads, which can be
    kept and augmented; a batch of these is scaled, channel c as

        value[c] = scale[c] · byte[order[c]] + shift[c]

    The scaling is measured on images of one colour. So any processor fits that resizes, crops, pads, rescales,
    normalises and reorders channels.

    Args:
        processor: an image processor of transformers.

    Raises:
        ValueError: it is no image processor, does not give three channels, or mixes them.
    """

    def __init__(self, processor: Any):
        if not hasattr(processor, "preprocess"):
            raise ValueError(
                f"`processor` is a {type(processor).__name__}, expected the image processor of the model: "
                "AutoImageProcessor.from_pretrained(name)."
            )
        self.processor, self.name = processor, type(processor).__name__
        flat = np.full((4, PROBE, PROBE, 3), LOW, dtype=np.uint8)
        for channel in range(3):
            flat[1 + channel, ..., channel] = HIGH
        try:
            values = self._values(list(flat), ["an image of one colour"] * 4)
        except (TypeError, KeyError, AttributeError, IndexError, OverflowError, ZeroDivisionError) as error:
            raise ValueError(
                f"The image processor, a {self.name}, fails with an image: {type(error).__name__}: {error}. Was its "
                "preprocessor_config.json edited?"
            ) from error
        centres = values[:, :, values.shape[2] // 2, values.shape[3] // 2]  # (4, C)
        slopes = ((centres[1:] - centres[0]) / (HIGH - LOW)).T  # (C, 3), by output and input
        scale, self.order = slopes.abs().max(1)
        others = slopes.abs().sum(1) - scale
        if len(slopes) != 3 or (scale == 0).any() or (others > 1e-3 * scale).any():
            raise ValueError(
                f"The image processor, a {self.name}, does not give the three channels of an image, each scaled for "
                "itself. Use a model that reads RGB images, with its own image processor."
            )
        slope = slopes.gather(1, self.order[:, None])
        self.scale, self.shift = slope[..., None], (centres[0][:, None] - slope * LOW)[..., None]  # (3, 1, 1)

    def bytes_of(self, images: Sequence[Any], places: Sequence[str]) -> Tensor:
        """N images -> (N, 3, h, w) uint8, at the size that the net reads, red first.

        Args:
            images: paths, PIL images, arrays (H, W) or (H, W, 3) of uint8, or cells of a table. An image with one
                channel is repeated as three.
            places: name the images in messages.

        Raises:
            DataError: one of them is not an image of 8 bits per channel.
            ValueError: the processor gives different sizes, or does more than it may, see the class.
        """
        cells = (Path(image) if isinstance(image, str) else image for image in images)
        values = self._values([as_rgb(pixels(c), where) for c, where in zip(cells, places, strict=True)], places)
        found = torch.empty_like(values)
        found[:, self.order] = (values - self.shift) / self.scale
        whole = found.round().clamp_(0, 255)
        if not torch.allclose(whole, found, rtol=0, atol=0.1):
            raise ValueError(
                f"{places[0]}: the image processor, a {self.name}, gives pixels that are no scaled bytes. Use one that "
                "resizes, crops, pads, rescales and normalises, and nothing else."
            )
        return whole.byte()

    def scaled(self, images: Tensor) -> Tensor:
        """(B, 3, h, w) of bytes -> float32, as the processor gives them."""
        return images[:, self.order].float().mul_(self.scale).add_(self.shift)  # in place: one copy of floats

    def _values(self, images: list[np.ndarray], places: Sequence[str]) -> Tensor:
        """What the processor gives for N images (H, W, 3): (N, C, h, w) float32."""
        options: dict[str, Any] = {"return_tensors": "pt", "input_data_format": "channels_last"}
        try:
            found = self.processor(images, **options)["pixel_values"]
        except ValueError as error:
            sizes = [tuple(self.processor(image, **options)["pixel_values"].shape[-2:]) for image in images]
            other = next((i for i, size in enumerate(sizes) if size != sizes[0]), None)
            if other is None:
                raise
            raise self.size_error(places[other], sizes[other], sizes[0]) from error
        if found.dim() != 4 or len(found) != len(images):
            raise ValueError(
                f"The image processor, a {self.name}, gives {tuple(found.shape)} for {len(images)} images. Use the "
                "image processor of an image classifier."
            )
        return found.float()

    def size_error(self, place: str, found: Sequence[int], first: Sequence[int]) -> ValueError:
        """The error for an image that becomes (h, w) pixels, unlike those before."""
        return ValueError(
            f"{place}: the image processor, a {self.name}, makes it {found[0]} x {found[1]} pixels, but other images "
            f"{first[0]} x {first[1]}; a batch needs one size. Set it: seal_hf.resize_to(processor, (height, width)), "
            "or --image_size."
        )


@dataclass(frozen=True)
class FlipAndCrop:
    """The usual augmentation: each image is mirrored with probability 1/2, and moved by up to a share of its sides; the
    pixels at its border are repeated.

    Args:
        flip: False if left and right mean something, as in texts and digits.
        crop: the share; 0: images stay where they are.
    """

    flip: bool = True
    crop: float = 0.125

    def __call__(self, images: Tensor, noise: Tensor) -> Tensor:
        """(B, C, H, W), and (B, 8) in [0, 1) -> (B, C, H, W)."""
        count, channels, height, width = images.shape
        rows = self._moved(height, noise[:, 1:2])
        columns = self._moved(width, noise[:, 2:3])
        if self.flip:
            columns = torch.where(noise[:, :1] < 0.5, columns.flip(1), columns)
        image, channel = torch.arange(count).view(-1, 1, 1, 1), torch.arange(channels).view(-1, 1, 1)
        return images[image, channel, rows[:, None, :, None], columns[:, None, None, :]]

    def _moved(self, length: int, noise: Tensor) -> Tensor:
        """Source places (B, length) along a side."""
        most = int(self.crop * length)
        return (torch.arange(length) + (noise * (2 * most + 1)).long() - most).clamp(0, length - 1)


AUGMENTATIONS: dict[str, Augmentation | None] = {
    "flip_crop": FlipAndCrop(),
    "flip": FlipAndCrop(crop=0.0),
    "crop": FlipAndCrop(flip=False),
    "none": None,
}


class ImageRows(TensorRows):
    """Images for the Trainer: a batch is `pixel_values` float32 (B, 3, h, w) and the other columns.

    Images are read once, and kept as bytes at the size that the net reads. If all would need more than 2 GiB, each is
    read again for its batch (`dataloader_num_workers` reads ahead).

    Args:
        dataset: a column `image` of images or paths; numeric columns, such as `labels`.
        processor: the image processor of the model, which sets size and scaling.
        augment: (images (B, 3, h, w) uint8, noise (B, 8) in [0, 1)) -> images of the same shape, for training rows;
            such as [`FlipAndCrop`]. The noise of a row depends only on (seed, epoch, row). So a function that draws
            nothing else gives the same images in a resumed run, and with any number of processes. None: images as they
            are.
        seed: of the noise.

    Raises:
        DataError: a file is missing, or not an image of 8 bits per channel.
        ValueError: the processor does not fit, see [`Pixels`], or gives images of different sizes.
    """

    def __init__(self, dataset: Dataset, processor: Any, augment: Augmentation | None = None, seed: int = 0):
        if IMAGE not in dataset.column_names:
            raise DataError(
                f"The data has no column {IMAGE!r} (its columns: {', '.join(dataset.column_names)}). Rename yours."
            )
        others = dataset.remove_columns([name for name in dataset.column_names if name in (IMAGE, "text")])
        super().__init__(others)
        self.length = len(dataset)
        self._read(dataset.cast_column(IMAGE, datasets.Image(decode=False))[IMAGE], processor)
        self.augment, self.seed = augment, seed
        self.set_epoch(0)

    @classmethod
    def of(cls, images: Sequence[Any], processor: Any) -> ImageRows:
        """Rows of images alone, which are read batch by batch: paths, PIL images, arrays or cells of tables."""
        rows = cls.__new__(cls)
        rows.dense, rows.ragged, rows.multi_hot, rows.padding, rows.length = {}, {}, {}, {}, len(images)
        rows.augment = None
        rows._read(images, processor, kept=0)
        return rows

    @property
    def is_random(self) -> bool:
        return self.augment is not None

    def unaugmented(self) -> ImageRows:
        rows = copy(self)
        rows.augment = None
        return rows

    def _read(self, images: Sequence[Any], processor: Any, kept: int | None = None) -> None:
        """Take these images; keep them as bytes if they are at most `kept` bytes."""
        self.images, self.pixels, count = images, Pixels(processor), len(images)
        self.size: tuple[int, ...] | None = None  # (h, w)
        if not count:
            return
        first = self._bytes(range(1))
        self.size = tuple(first.shape[2:])
        self.inputs = {"image_size": list(self.size)}
        if count * first.numel() <= (KEPT if kept is None else kept):
            self.dense["pixel_values"] = self._bytes(range(count))

    def _bytes(self, rows: Sequence[int]) -> Tensor:
        """The bytes of rows, (B, 3, h, w)."""
        return torch.cat([self._read_few(rows[i : i + AT_ONCE]) for i in range(0, len(rows), AT_ONCE)])

    def _read_few(self, rows: Sequence[int]) -> Tensor:
        images = [self.images[int(row)] for row in rows]
        places = [_place(image, row) for image, row in zip(images, rows, strict=True)]
        found = self.pixels.bytes_of(images, places)
        if self.size is not None and tuple(found.shape[2:]) != self.size:
            raise self.pixels.size_error(places[0], found.shape[2:], self.size)
        return found

    def set_epoch(self, epoch: int) -> None:
        """New noise for the augmentation; [`NewEpoch`] calls it."""
        if self.augment is not None:
            noise = np.random.default_rng((self.seed, epoch)).random((self.length, DRAWS), dtype=np.float32)
            self.noise = torch.from_numpy(noise)

    def batch(self, indices: Sequence[int]) -> dict[str, Tensor]:
        batch = super().batch(indices)
        images = batch.get("pixel_values")
        if images is None:
            images = self._bytes(indices)
        if self.augment is not None:
            augmented = self.augment(images, self.noise[torch.as_tensor(indices, dtype=torch.long)])
            if getattr(augmented, "shape", None) != images.shape:
                found = getattr(augmented, "shape", type(augmented).__name__)
                raise ValueError(f"`augment` returned {found} for images of {images.shape}. Return the same shape.")
            images = augmented
        return {**batch, "pixel_values": self.pixels.scaled(images)}


def _place(image: Any, row: Any) -> str:
    """An image in messages: its file, or its row."""
    path = image.get("path") if isinstance(image, dict) and not image.get("bytes") else image
    return str(path) if isinstance(path, (str, Path)) else f"image {row} (counting from 0)"


def load_image_processor(name: str, *, trust_remote_code: bool = False, **hub: Any) -> Any:
    """The image processor of a folder or repo, one that works without torchvision.

    Args:
        trust_remote_code: True runs the code that the folder or repo names.

    Raises:
        ValueError: no image processor is there, or a damaged one, or one that does not pass the gate, see
            [`check_origin`]; or pillow is not installed.
    """
    from transformers import AutoImageProcessor  # imported late, since pillow is optional

    code = check_trust(name, trust_remote_code, hub.get("revision"))
    try:
        check_origin(name, hub, files=PROCESSOR)
        with loading(name, "an image processor"), no_questions(name, hub):
            return AutoImageProcessor.from_pretrained(name, **without_torchvision(), **{**hub, **code})
    except OSError as error:
        raise ValueError(
            f"{name} has no image processor to read images. Save the one that the model was trained with "
            "there: processor.save_pretrained(folder)."
        ) from error
    except ImportError as error:
        raise ValueError(f"The image processor of {name} needs a package that is not installed: {error}") from error
