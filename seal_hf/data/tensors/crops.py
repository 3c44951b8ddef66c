"""Crops of images: random ones for training, and predictions averaged over many for tests (Gygli et al. 2017, §5.2).

The papers train on random 24 x 24 crops of 32 x 32 images and test on 36 of them, at the offsets {0, 2, 3, 4, 6, 8} in
both directions, averaged back onto the image.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ...core.masks import IGNORE
from ...core.space import REWARD_CODES
from .collators import TensorRows
from .images import load_image_processor

Processor = TypeVar("Processor")  # an image processor, of transformers or one that is like it

CROP_SIZE = 24
CROP_OFFSETS = (0, 2, 3, 4, 6, 8)  # of the papers, for 32 pixels
CROPS_AT_ONCE = 64  # in one forward: all 36 of 40 images would hold 22 times the memory


class MaskRows(TensorRows):
    """Images and masks for the Trainer: a batch is `pixel_values` float32 (B, 3, H, W) and `labels` int64 (B, H, W).

    Kept as bytes, an eighth of their size in a batch.

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
        reward_codes: (N, ...), what a reward must know about each image, for masks of 254.

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
    `pipeline("image-segmentation")` feed it as in training. [`MaskRows`] itself resizes nothing."""
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
