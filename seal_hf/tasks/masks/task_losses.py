"""Task losses of masks: the task-net's own losses, each with its equation and source.

All of them begin with the cross-entropy of the pixels that count. All but the first add a weighted cost of a whole mask
ŷ, the relaxed output. The cost lies in [0, 1] and is averaged over images. With several classes it is the mean over the
classes present in the image. The space says what differs between masks of two and of several classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...core.masks import IGNORE, counted
from ...core.task_losses import loss_named
from ...utils.options import Options, option

PIXEL_LOSSES = ("sum", "mean")


@dataclass
class PixelLoss(Options):
    """Cross-entropy, Σ_i -w(y_i) log p_i(y_i), and the base class of the other losses. Their fields are their options.

    Attributes:
        pixel_loss: `sum` over the pixels, then the mean over the batch, as for every output of this package (λ1 is
            meaningful only with that); or `mean` over the pixels that count in the accumulation window of this process,
            with class weights the weighted mean, as torch's. The authors take the mean for Weizmann. `sum` is H · W
            times `mean`, so λ1 with `mean` corresponds to λ1 · H · W with `sum`. Where some pixels do not count, `mean`
            depends a little on how a batch is divided among processes.
        class_weight: (C,) w >= 0; default: 1.
    """

    pixel_loss: str = option("sum", choices=PIXEL_LOSSES)

    also_reads = ("class_weight",)
    class_weight = None

    @classmethod
    def from_arguments(cls, args: Any) -> PixelLoss:
        """The loss that [`SealTrainingArguments`] name, with its options.

        Raises:
            ValueError: `task_loss` is unknown for masks.
        """
        kind = loss_named(args, MASK_TASK_LOSSES, "masks")
        return kind(**kind.values_from(args))

    def __call__(
        self,
        space: Any,
        logits: Tensor,
        labels: Tensor,
        window: Sequence[Tensor] = (),
        gold_share: Tensor | float = 1.0,
    ) -> Tensor:
        """The loss of a batch, a scalar, whose mean over the micro-batches of a window is the loss of the window.

        Args:
            space: the [`PixelSpace`] of the masks.
            logits: of the task-net, of any size.
            labels: (B, H, W), class ids, and 255 where a pixel does not count.
            window: the labels of all micro-batches of the window, for a mean over pixels; empty if this batch is one.
            gold_share: the share of the window's rows that have gold, by which a mean over pixels is multiplied. All
                else is a mean over rows already.
        """
        gold, mask = space.gold(labels)
        logits, weight = space.fit(logits, labels), self._pixel_weights(labels)
        scale: Tensor | float = 1 / len(labels)
        if self.pixel_loss == "mean":
            totals = [self._pixel_weights(each.to(labels.device)).sum() for each in window] or [weight.sum()]
            scale = gold_share / torch.stack(totals).mean().clamp_min(torch.finfo(weight.dtype).tiny)
        return scale * space.cross_entropy(logits, labels, weight) + self.term(space, logits, gold, mask)

    def term(self, space: Any, logits: Tensor, gold: Tensor, mask: Tensor) -> Tensor | float:
        """The weighted cost of whole masks, a mean over images: scalar. Here it is 0.

        Args:
            space: the [`PixelSpace`] of the masks.
            logits, gold, mask: as `fit` and `gold` of the space return them.
        """
        return 0.0

    def weigh(self, weights: dict[str, Tensor]) -> None:
        """Set the weights of the classes."""
        self.class_weight = weights["class_weight"]

    def _pixel_weights(self, labels: Tensor) -> Tensor:
        """The class weight of each pixel, 0 where it does not count: (B, H, W)."""
        mask = labels != IGNORE
        if self.class_weight is None:
            return mask.float()
        self.class_weight = self.class_weight.to(labels.device)  # moved once
        return self.class_weight[labels.masked_fill(~mask, 0)] * mask


@dataclass
class SoftIoU(PixelLoss):
    """Cross-entropy + w (1 - soft IoU) (Rahman & Wang 2016). Soft IoU is the score that a regression energy learns to
    predict."""

    soft_iou_weight: float = option(1.0, least=0)  # w

    def term(self, space: Any, logits: Tensor, gold: Tensor, mask: Tensor) -> Tensor:
        iou = space.agreement(space.relax(logits).unsqueeze(1), gold, "iou", mask)
        return self.soft_iou_weight * (1 - iou).mean()


@dataclass
class Dice(PixelLoss):
    """Cross-entropy + w (1 - soft F1) (Dice; Milletari et al. 2016)."""

    dice_weight: float = option(1.0, least=0)  # w

    def term(self, space: Any, logits: Tensor, gold: Tensor, mask: Tensor) -> Tensor:
        f1 = space.agreement(space.relax(logits).unsqueeze(1), gold, "f1", mask)
        return self.dice_weight * (1 - f1).mean()


@dataclass
class Lovasz(PixelLoss):
    """Cross-entropy + w times the Lovász extension of 1 - IoU, see [`lovasz`]; of several classes Lovász-softmax."""

    lovasz_weight: float = option(1.0, least=0)  # w

    def term(self, space: Any, logits: Tensor, gold: Tensor, mask: Tensor) -> Tensor:
        y_hat, y = (counted(values, mask).flatten(-2) for values in (space.relax(logits), gold))
        cost = 1 - space.over_classes(1 - lovasz(y_hat, y).unsqueeze(1), gold)
        return self.lovasz_weight * cost.mean()


MASK_TASK_LOSSES: dict[str, type[PixelLoss]] = {
    "cross_entropy": PixelLoss,
    "soft_iou": SoftIoU,
    "dice": Dice,
    "lovasz": Lovasz,
}


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
