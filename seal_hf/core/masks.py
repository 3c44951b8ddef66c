"""Masks: which pixels count, logits at another size, the log-odds of foreground, and colours of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

IGNORE = 255  # the label of an ignored pixel, as in Pascal VOC and Hugging Face's segmentation heads
MOST_CLASSES = IGNORE  # a pixel is one byte


def resized_logits(logits: Tensor, size: Sequence[int]) -> Tensor:
    """Logits (B, C, h, w) resized to (H, W), float32. The interpolation is bilinear, as in the losses of Hugging Face's
    segmentation heads."""
    logits = logits.float()
    if tuple(size) == tuple(logits.shape[-2:]):
        return logits
    from torch.nn.functional import interpolate  # decisions and figures of masks need no torch

    return interpolate(logits, size=tuple(size), mode="bilinear", align_corners=False)


def log_odds(logits: Tensor, size: Sequence[int] | None = None) -> Tensor:
    """z = log p / (1 - p) of every pixel, float32 (B, H, W), from two channels, one channel, or log-odds (B, H, W).

    `size` resizes them, see [`resized_logits`].
    """
    logits = logits.float()
    if logits.dim() == 4:
        logits = logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0]
    return logits if size is None else resized_logits(logits.unsqueeze(1), size).squeeze(1)


def counted(values: Tensor, mask: Tensor | None) -> Tensor:
    """`values` (B, ..., H, W) with 0 where `mask` (B, H, W) is False."""
    if mask is None:
        return values
    return values.masked_fill(~mask.view(len(mask), *[1] * (values.dim() - 3), *mask.shape[1:]), 0)


def palette() -> np.ndarray:
    """The colours of Pascal VOC, one for each value of a mask: (256, 3) uint8.

    Bits 0, 3 and 6 of a value are the highest three bits of red, bits 1, 4 and 7 those of green, bits 2 and 5 the
    highest two of blue. Class 0 is black.
    """
    values = np.arange(256)
    colours = [sum((values >> (3 * place + channel) & 1) << (7 - place) for place in range(3)) for channel in range(3)]
    return np.stack(colours, axis=1).astype(np.uint8)
