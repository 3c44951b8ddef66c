"""Images as rows of tensors: with label sets, as the image processor of a model reads them, and their augmentation; and
with masks, and their crops: random ones for training, and predictions averaged over many (Gygli et al. 2017, §5.2).

The papers train on random 24 x 24 crops of 32 x 32 images and test on 36 of them, at the offsets {0, 2, 3, 4, 6, 8} in
both directions, averaged back onto the image.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import datasets
import numpy as np
import torch
from datasets import Dataset
from torch import Tensor

from ...core.masks import IGNORE
from ...core.space import REWARD_CODES
from ...utils.compat import without_torchvision
from ...utils.files import loading
from ...utils.gate import PROCESSOR, check_origin, check_trust, no_questions
from ..common import IMAGE, DataError
from ..image_files import as_rgb, pixels
from .collators import TensorRows

# --- images with label sets -------------------------------------------------------------------------------------------

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


# --- images with masks ------------------------------------------------------------------------------------------------

Processor = TypeVar("Processor")  # an image processor, of transformers or one that is like it

CROP_SIZE = 24
CROP_OFFSETS = (0, 2, 3, 4, 6, 8)  # of the papers, for 32 pixels
CROPS_AT_ONCE = 64  # in one forward: all 36 of 40 images would hold 22 times the memory


class MaskRows(TensorRows):
    """Images and masks for the Trainer: a batch is `pixel_values` float32 (B, 3, H, W) and `labels` int64 (B, H, W).

    They are kept as bytes, which take an eighth of the memory that a batch takes.

    Args:
        split: a [`SegmentationSplit`], or the like: `images` uint8 (N, H, W, 3) and `masks` (N, H, W) of whole numbers:
            class ids from 0 on, of two classes 0 (background) and 1 (foreground), 255 (does not count) and 254 (no
            gold, see [`reward_rows`]).
        crop_size: side in pixels of the random crops in a batch; None: whole images.
        seed: of the crops. The crop of a row depends only on (seed, epoch, row): a resumed run sees the same crops with
            any number of processes, and all repeats of a batch (`batch_repeats`) are the same.
        mean, std: pixels are (value / 255 - mean) / std, with numbers or one per channel; a pretrained task-net has its
            own in its image processor, see [`pixel_scaling`].
        flip_channels: put blue first, not red.
        reward_codes: (N, ...), what a reward must know about each image, for images whose mask is 254.

    Raises:
        ValueError: images or masks of another shape, type or values; crops larger than the images.
    """

    def __init__(
        self,
        split: Any,
        crop_size: int | None = None,
        seed: int = 0,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        flip_channels: bool = False,
        reward_codes: np.ndarray | None = None,
    ):
        _check_split(split)
        arrays = split.images, split.masks.astype(np.uint8, copy=False)
        images, masks = (torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)
        self.dense, self.ragged, self.length = {"pixel_values": images, "labels": masks}, {}, len(images)
        if reward_codes is not None:
            self.dense[REWARD_CODES] = torch.as_tensor(reward_codes)
        height, width = masks.shape[1:]
        if crop_size is not None and not 1 <= crop_size <= min(height, width):
            raise ValueError(
                f"`crop_size` is {crop_size}, but the images are {height} x {width} pixels. Take smaller crops, or "
                "None (--crop_size 0) for whole images."
            )
        self.crop_size, self.seed = crop_size, seed
        self.inputs = getattr(split, "inputs", None)
        self.set_epoch(0)
        self.flip_channels = flip_channels
        self.mean, self.std = (torch.as_tensor(value, dtype=torch.float32).view(-1, 1, 1) for value in (mean, std))

    def reads_as(self, processor: Any) -> bool:
        """True if an image processor gives the same pixels, see [`pixel_scaling`], to a thousandth of their range."""
        scaling = {"mean": 0.0, "std": 1.0, "flip_channels": False, **pixel_scaling(processor)}
        mean, std = (torch.as_tensor(scaling[name], dtype=torch.float32).view(-1, 1, 1) for name in ("mean", "std"))
        ends = torch.tensor([0.0, 1.0]).view(2, 1, 1, 1)  # black and white
        near = ((ends - self.mean) / self.std - (ends - mean) / std).abs() <= 1e-3 / std
        return bool(near.all()) and self.flip_channels == scaling["flip_channels"]

    @property
    def is_random(self) -> bool:
        return self.crop_size is not None

    def set_epoch(self, epoch: int) -> None:
        """New crops, uniform over all places; [`NewEpoch`] calls it."""
        self.epoch = epoch
        if self.crop_size is not None:
            places = np.array(self.dense["labels"].shape[1:]) - self.crop_size + 1
            draws = np.random.default_rng((self.seed, epoch)).random((self.length, 2))
            self.corners = torch.from_numpy((draws * places).astype(np.int64))  # (N, 2), upper left

    def batch(self, indices: Sequence[int]) -> dict[str, Tensor]:
        rows = torch.as_tensor(indices, dtype=torch.long)
        at: Tensor | tuple[Tensor, ...] = rows
        if self.crop_size is not None:
            pixels = self.corners[rows].unsqueeze(2) + torch.arange(self.crop_size)  # (B, 2, s)
            at = rows.view(-1, 1, 1), pixels[:, 0].unsqueeze(2), pixels[:, 1].unsqueeze(1)
        images = self.dense["pixel_values"][at].permute(0, 3, 1, 2)
        pixel_values = images.float().div_(255).sub_(self.mean).div_(self.std)  # in place: one copy
        if self.flip_channels:
            pixel_values = pixel_values.flip(1)
        others = {name: self.dense[name][rows] for name in self.dense if name not in ("pixel_values", "labels")}
        return {"pixel_values": pixel_values, "labels": self.dense["labels"][at].long(), **others}


def _check_split(split: Any) -> None:
    images, masks = split.images, split.masks
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise ValueError(
            f"`images` has shape {images.shape} and type {images.dtype}; expected uint8 (N, H, W, 3), values from 0 to "
            "255. Of values in [0, 1]: (255 * images).round().astype(np.uint8)."
        )
    if masks.shape != images.shape[:3] or masks.dtype.kind not in "biu":
        raise ValueError(
            f"`masks` has shape {masks.shape} and type {masks.dtype}; expected whole numbers {images.shape[:3]}, one "
            "mask per image, of its size. Resize them together (load_masks does, with image_size)."
        )
    wrong = (masks < 0) | (masks > IGNORE)
    if wrong.any():
        row = int(wrong.reshape(len(masks), -1).any(1).argmax())
        raise ValueError(
            f"`masks` holds {masks[row][wrong[row]][0]} in row {row}; expected class ids from 0 to {IGNORE - 1}, and "
            f"{IGNORE} (does not count; not -100). Map your values to these."
        )


def pixel_scaling(processor: Any) -> dict[str, Any]:
    """`mean`, `std` and `flip_channels` with which [`MaskRows`] gives the same pixels as an image processor of
    transformers; empty if its defaults do. Some processors do not normalise (MobileViT's), and some attributes exist
    only in a few.

    Raises:
        ValueError: the processor both normalises and flips the channels: processors differ in the order; or its
            `rescale_factor` is 0 or less.
    """
    normalised, flipped = (bool(getattr(processor, f"do_{what}", None)) for what in ("normalize", "flip_channel_order"))
    if normalised and flipped:
        raise ValueError(
            f"The image processor, a {type(processor).__name__}, has do_normalize=True and do_flip_channel_order=True, "
            "which seal_hf does not support: their order is not known. Set one of them to False in its "
            "preprocessor_config.json."
        )
    # (f value - m) / s = (value / 255 - m / 255 f) / (s / 255 f), where f multiplies the bytes
    factor = getattr(processor, "rescale_factor", 1 / 255) if getattr(processor, "do_rescale", True) else 1
    if not factor > 0:
        raise ValueError(
            f"The image processor has `rescale_factor` {factor!r} in preprocessor_config.json; expected a number above "
            "0."
        )
    mean, std = (processor.image_mean, processor.image_std) if normalised else ([0.0] * 3, [1.0] * 3)
    scaling: dict[str, Any] = {"flip_channels": True} if flipped else {}
    if normalised or factor != 1 / 255:
        for name, values in (("mean", mean), ("std", std)):
            scaling[name] = [value / (255 * factor) for value in np.broadcast_to(values, 3).tolist()]
    return scaling


def resize_to(processor: Processor, size: tuple[int, int]) -> Processor:
    """`processor`, set to resize images of any size to the (H, W) pixels of [`MaskRows`]. Saved with a net, it makes
    `pipeline("image-segmentation")` feed the net as in training. [`MaskRows`] itself resizes nothing."""
    settings: dict[str, Any] = {"do_resize": True, "size": {"height": size[0], "width": size[1]}}
    others = ("do_center_crop", "do_pad", "keep_aspect_ratio")
    settings |= {other: False for other in others if getattr(processor, other, None)}
    for name, value in settings.items():
        setattr(processor, name, value)
    return processor


def check_scaling(folder: str | Path, processor: Any) -> None:
    """Raises ValueError if the loss-net in `folder` was trained on pixels of another scale than `processor` gives,
    according to its saved image processor; without one, nothing is checked."""
    if not (Path(folder) / "preprocessor_config.json").is_file():
        return
    found, wanted = pixel_scaling(load_image_processor(str(folder))), pixel_scaling(processor)
    if found != wanted:
        raise ValueError(
            f"The loss-net in {folder} was trained on pixels with {found or 'no normalisation'}, but this "
            f"task-net reads them with {wanted or 'none'}. Train both on the same pixels (seal-hf "
            "train mask-energy --task_net_path)."
        )


def check_crop_size(size: int) -> None:
    """Raises ValueError if `size` < 1."""
    if size < 1:
        raise ValueError(f"`crop_size` is {size}; it must be at least 1 pixel, or None for whole images.")


def crop_offsets(length: int, size: int, offsets: Sequence[int] | int | None = None) -> list[int]:
    """Where crops of `size` pixels begin along a side of `length` pixels.

    Args:
        offsets: the offsets; or their number, evenly spaced, and raised if they would not cover the side; None: the
            papers' if they fit, as on 32 pixels, else as many.

    Raises:
        ValueError: `offsets` do not fit: the first crop must begin at 0, the last end at the edge, without gaps.
    """
    if length <= size:
        return [0]
    if offsets is None:
        offsets = CROP_OFFSETS if _fit(CROP_OFFSETS, length, size) else len(CROP_OFFSETS)
    if isinstance(offsets, int):
        count = min(max(offsets, -(-length // size)), length - size + 1)
        return sorted(set(np.linspace(0, length - size, count).round().astype(int).tolist()))
    if not _fit(offsets, length, size):
        raise ValueError(
            f"`crop_offsets` is {list(offsets)}, which does not fit crops of {size} pixels on a side of {length}: the "
            f"first must be 0, the last {length - size}, and no step larger than {size}. Give for example "
            f"{crop_offsets(length, size, len(offsets))}, or leave it out."
        )
    return list(offsets)


def _fit(offsets: Sequence[int], length: int, size: int) -> bool:
    steps = (b - a for a, b in itertools.pairwise(offsets))
    whole = bool(offsets) and offsets[0] == 0 and offsets[-1] + size == length
    return whole and all(0 < step <= size for step in steps)


def crop_averaged(
    forward: Callable[[Tensor], Tensor],
    pixel_values: Tensor,
    size: int = CROP_SIZE,
    offsets: Sequence[int] | int | None = None,
) -> Tensor:
    """Class probabilities, averaged for each pixel over its crops, as logits.

    Args:
        forward: crops (N, 3, s, s) -> logits (N, C, s, s), at the crops' own resolution.
        pixel_values: (B, 3, H, W).
        size: s; a smaller side of an image is not cropped.
        offsets: see [`crop_offsets`].

    Returns:
        (B, C, H, W): the log of the mean softmax, or, for one channel, the log-odds of the mean σ. The softmax (or σ)
        of the result is that mean.
    """
    batch, _, height, width = pixel_values.shape
    down, across = crop_offsets(height, size, offsets), crop_offsets(width, size, offsets)
    places = [(slice(i, i + size), slice(j, j + size)) for i in down for j in across]
    at_once, logits = max(1, CROPS_AT_ONCE // batch), []
    for few in (places[k : k + at_once] for k in range(0, len(places), at_once)):
        logits += forward(torch.cat([pixel_values[..., i, j] for i, j in few])).float().split(batch)
    one = logits[0].shape[1] == 1
    total = logits[0].new_zeros(batch, logits[0].shape[1], height, width)
    count = logits[0].new_zeros(height, width)
    for (i, j), part in zip(places, logits, strict=True):
        total[..., i, j] += torch.sigmoid(part) if one else part.softmax(1)
        count[i, j] += 1
    mean = total / count
    return torch.logit(mean, eps=1e-6) if one else mean.clamp_min(1e-30).log()
