"""Binary masks: which pixels count, and the log-odds of foreground."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

IGNORE = 255  # the label of an ignored pixel, as in Pascal VOC and Hugging Face's segmentation heads


def log_odds(logits: Tensor, size: Sequence[int] | None = None) -> Tensor:
    """z = log p / (1 - p) of every pixel, float32 (B, H, W), from two channels, one channel, or log-odds (B, H, W).

    `size` resizes them bilinearly, as Hugging Face's segmentation heads do in their losses.
    """
    logits = logits.float()
    if logits.dim() == 4:
        logits = logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0]
    if size is not None and tuple(size) != tuple(logits.shape[-2:]):
        resized = F.interpolate(logits.unsqueeze(1), size=tuple(size), mode="bilinear", align_corners=False)
        logits = resized.squeeze(1)
    return logits
