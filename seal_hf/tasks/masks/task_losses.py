"""Task losses of masks: their names, and the terms that `PixelSpace.task_loss` adds to the cross-entropy of pixels."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ...utils.options import Options


class PixelLoss(Options):
    """The task loss of masks, `PixelSpace.task_loss`: the cross-entropy of the pixels that count. Those below add a
    term that looks at a whole mask."""

    also_reads: ClassVar[tuple[str, ...]] = ("class_weight",)


class SoftIoU(PixelLoss):
    """Cross-entropy and 1 - soft IoU."""

    also_reads: ClassVar[tuple[str, ...]] = ("soft_iou_weight", "class_weight")


class Dice(PixelLoss):
    """Cross-entropy and 1 - soft F1 (Dice)."""

    also_reads: ClassVar[tuple[str, ...]] = ("dice_weight", "class_weight")


class Lovasz(PixelLoss):
    """Cross-entropy and the Lovász extension of 1 - IoU, see [`lovasz`]."""

    also_reads: ClassVar[tuple[str, ...]] = ("lovasz_weight", "class_weight")


MASK_TASK_LOSSES = {"cross_entropy": PixelLoss, "soft_iou": SoftIoU, "dice": Dice, "lovasz": Lovasz}


def lovasz(y_hat: Tensor, y: Tensor) -> Tensor:
    """The Lovász extension of 1 - IoU at the errors |ŷ - y| (Berman, Triki, Blaschko, CVPR 2018).

        Σ_k e_k [ Δ({1..k}) - Δ({1..k-1}) ],     e_1 >= e_2 >= ...,     Δ(M) = |M| / |{y = 1} ∪ M|

    Δ(M) is 1 - IoU if the pixels M are wrong. The extension equals it for ŷ in {0, 1}, and is convex in the errors.
    A pixel with ŷ = y = 0 has no influence.

    Args:
        y_hat: (..., P) in [0, 1].
        y: (..., P) of 0 and 1.

    Returns:
        (...), in [0, 1].
    """
    errors, order = (y_hat - y).abs().sort(dim=-1, descending=True)
    gold = y.gather(-1, order)
    wrong_or_gold = gold.sum(-1, keepdim=True) + (1 - gold).cumsum(-1)  # |{y = 1} ∪ {1..k}|
    places = torch.arange(1, y.shape[-1] + 1, device=y.device, dtype=y.dtype)
    of_first = places / wrong_or_gold.clamp_min(1)  # Δ({1..k})
    return (errors * of_first.diff(dim=-1, prepend=torch.zeros_like(of_first[..., :1]))).sum(-1)
