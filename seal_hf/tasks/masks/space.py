"""Masks of two classes and of several; `pixels.py` has what they share, also how samples are made coherent."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from ...core.masks import IGNORE, MOST_CLASSES, log_odds, resized_logits
from ...core.space import LossTraits, drawable, mixed_logs, mixed_odds
from .pixels import PixelSpace, counted, smoothing

FLIP_LENGTHS = (0.5, 2.0, 4.0, 8.0)  # pixels; for `flip`: from salt and pepper to the size of a limb


class BinaryMaskSpace(PixelSpace):
    """Masks: y in {0, 1}^(H x W), independent Bernoulli pixels under the task-net.

    Logits are (B, 2, h, w), (B, 1, h, w) or log-odds (B, H, W), candidates (B, S, H, W). A pixel is foreground with
    probability p = σ(z). With two channels the log-odds z (B, H, W) are z_1 - z_0, so that σ(z) is their softmax; with
    one channel they are that channel. Labels are 0 (background), 1 (foreground) and 255 (does not count).

    Args:
        options: as for [`PixelSpace`].
    """

    name = "binary_mask"
    fills_box = True
    structure_dims = 2
    dvn_gold_starts = 0.5  # Gygli et al. 2017 too
    num_classes = 2

    @classmethod
    def made_for(cls, task_net: PreTrainedModel, **options: Any) -> BinaryMaskSpace:
        return cls(**options)

    def check_loss(self, loss: LossTraits, num_labels: int) -> None:
        """As for all masks; ValueError also for InfNet+."""
        if loss.has_partner:
            raise ValueError(
                f"energy_loss={loss.name!r} has no cost-augmented network for masks of two classes. Use infnet, or "
                "margin."
            )
        super().check_loss(loss, num_labels)

    def check(self, logits: Tensor, labels: Tensor) -> None:
        """Logits must be (B, 2, h, w), (B, 1, h, w) or log-odds (B, H, W), labels (B, H, W).

        Raises:
            ValueError: the message names both shapes.
        """
        channels = logits.dim() == 4 and logits.shape[1] in (1, 2)
        log_odds = logits.dim() == 3 and logits.shape == labels.shape
        if labels.dim() != 3 or not (channels or log_odds) or logits.shape[0] != labels.shape[0]:
            raise ValueError(
                f"The task-net's logits have shape {tuple(logits.shape)} and `labels` have shape "
                f"{tuple(labels.shape)}; a binary segmentation task-net gives (batch, 2, h, w) or (batch, 1, h, w) and "
                "takes masks (batch, H, W). Load it with num_labels=2 and give masks of 0, 1 and 255 (ignored)."
            )

    def fit(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Log-odds (B, H, W) at the labels' size, which all other methods need if they also get labels or a mask."""
        return log_odds(logits, labels.shape[-2:])

    def shape(self, features: Tensor, num_labels: int) -> tuple[int, ...]:
        return (features.shape[0], *features.shape[-2:])

    def gold(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """(B, H, W) of 0, 1 and 255 -> float32 (B, H, W), 0 where it does not count; mask (B, H, W) bool."""
        return (labels == 1).float(), labels != IGNORE

    def relax(self, logits: Tensor) -> Tensor:
        """ŷ = σ(z), the softmax of two channels: float32 (B, h, w)."""
        return torch.sigmoid(log_odds(logits))

    def likeliest(self, logits: Tensor) -> Tensor:
        return (logits >= 0).float()

    def drawn(self, p: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
        shape = (p.shape[0], num_samples, *p.shape[2:])
        if self.sample_coherence == "none":
            return (torch.rand(shape, device=p.device, generator=generator) < drawable(p)).float()
        return (self.noise(shape, p.device, generator) < torch.special.ndtri(p)).float()

    @torch.no_grad()
    def perturb(self, logits: Tensor, num_samples: int, std: float, generator: torch.Generator) -> Tensor:
        """σ(z + std · g), g as coherent as the samples: float32 (B, K, H, W)."""
        z = log_odds(logits).unsqueeze(1)
        return torch.sigmoid(z + std * self.noise((z.shape[0], num_samples, *z.shape[2:]), z.device, generator))

    @torch.no_grad()
    def flip(self, gold: Tensor, generator: torch.Generator) -> Tensor:
        """The gold with pixels flipped where a smooth random field is low: (B, 1, H, W). The rate, uniform in [0, 1/2],
        and the field's correlation length, one of `FLIP_LENGTHS`, are drawn for each image."""
        noise = torch.randn(gold.shape, device=gold.device, generator=generator)
        drawn = torch.randint(len(FLIP_LENGTHS), (len(gold),), device=gold.device, generator=generator)
        rows, columns = (
            torch.stack([smoothing(size, length, gold.device) for length in FLIP_LENGTHS])[drawn]
            for size in gold.shape[1:]
        )  # (B, H, H) and (B, W, W)
        flips = rows @ noise @ columns.transpose(1, 2) < torch.special.ndtri(self._flip_rate(gold, generator))
        return (gold - flips.float()).abs().unsqueeze(1)

    def mix(self, logits: Tensor, gold: Tensor, share: float) -> Tensor:
        """The log-odds of (1 - m) σ(z) + m y*, m = `share` in (0, 1): (B, H, W)."""
        return mixed_odds(log_odds(logits, gold.shape[-2:]), gold, share)

    def log_prob(self, logits: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Σ_i y_i z_i - softplus(z_i) over the pixels that count, under independent pixels: (B, S).

        These sums would cancel. With the likeliest mask m it is Σ_i (y_i - m_i) z_i - softplus(-|z_i|).
        """
        z = log_odds(logits, y.shape[-2:])
        likeliest = counted(F.softplus(-z.abs()), mask).sum((1, 2)).unsqueeze(1)  # (B, 1), its -log P
        return _dot(y - (z > 0).to(y.dtype).unsqueeze(1), counted(z, mask)) - likeliest

    def log_patches(self, logits: Tensor, y: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        z = log_odds(logits, y.shape[-2:]).unsqueeze(1)
        counts = torch.ones_like(z, dtype=torch.bool) if mask is None else mask.unsqueeze(1)
        ones, zeros, inf = (y > 0.5) & counts, (y <= 0.5) & counts, float("inf")
        low = self.patches(torch.where(ones, z, inf), inf).amin((3, 5))  # least likely foreground: (B, S, G, G)
        high = self.patches(torch.where(zeros, z, -inf), -inf).amax((3, 5))  # most likely background
        # log(σ(a) - σ(b)) = log σ(a) + log σ(-b) + log(1 - exp(b - a)), for a > b
        gap = torch.log(-torch.expm1(-(low - high).clamp_min(0)))
        alone = self.patches(torch.where(ones, F.logsigmoid(z), torch.where(zeros, F.logsigmoid(-z), 0.0)), 0.0)
        return F.logsigmoid(low) + F.logsigmoid(-high) + gap, alone.sum((3, 5))

    def sums(self, y_hat: Tensor, y: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        y_hat, y = counted(y_hat, mask), counted(y, mask)
        return _dot(y_hat, y), y_hat.sum((2, 3)) + y.sum((1, 2)).unsqueeze(1)

    def over_classes(self, values: Tensor, y: Tensor) -> Tensor:
        return values

    def cross_entropy(self, logits: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(logits, (labels == 1).float(), weight=weight, reduction="sum")

    def decode(self, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        """1 where the probability is at least 0.5, else 0: int64 (B, h, w)."""
        return (self.relax(logits) >= 0.5).long()


class MaskSpace(PixelSpace):
    """Masks of C classes: one-hot y in {0, 1}^(C x H x W), independent categorical pixels under the task-net.

    Logits are (B, C, h, w), candidates (B, S, C, H, W). Labels are class ids, 0 to C - 1, and 255 (does not count). A
    pixel that does not count is zero in all channels. Coherent samples lay the classes on [0, 1] in the order of their
    ids: a smooth field that goes from one class to another passes through those between them that are likely there.

    Args:
        num_classes: C, from 2 to 255.
        options: as for [`PixelSpace`].

    Raises:
        ValueError: another number of classes, or as [`PixelSpace`].
    """

    name = "masks"
    structure_dims = 3
    label_dim = 1

    def __init__(self, num_classes: int, *args: Any, **options: Any):
        super().__init__(*args, **options)
        if not 2 <= num_classes <= MOST_CLASSES:
            raise ValueError(
                f"`num_classes` is {num_classes}; it must be from 2 to {MOST_CLASSES}, as {IGNORE} is taken."
            )
        self.num_classes = num_classes

    @classmethod
    def made_for(cls, task_net: PreTrainedModel, **options: Any) -> MaskSpace:
        config: Any = task_net.config
        return cls(config.num_labels, **options)

    def check(self, logits: Tensor, labels: Tensor) -> None:
        """Logits must be (B, C, h, w), labels (B, H, W).

        Raises:
            ValueError: the message names both shapes.
        """
        fits = logits.dim() == 4 and labels.dim() == 3 and len(logits) == len(labels)
        if not fits or logits.shape[1] != self.num_classes:
            raise ValueError(
                f"The task-net's logits have shape {tuple(logits.shape)} and `labels` have shape "
                f"{tuple(labels.shape)}; a segmentation task-net of {self.num_classes} classes gives (batch, "
                f"{self.num_classes}, h, w) and takes masks (batch, H, W) of class ids and {IGNORE} (ignored). Check "
                "the model's `num_labels`."
            )

    def fit(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Logits (B, C, H, W) at the labels' size, float32."""
        return resized_logits(logits, labels.shape[-2:])

    def gold(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """(B, H, W) of class ids and 255 -> one-hot float32 (B, C, H, W), zero where a pixel does not count; mask (B,
        H, W)."""
        classes = torch.arange(self.num_classes, device=labels.device).view(-1, 1, 1)
        return (labels.unsqueeze(1) == classes).float(), labels != IGNORE

    def relax(self, logits: Tensor) -> Tensor:
        """ŷ, the softmax over classes: float32 (B, C, h, w)."""
        return logits.float().softmax(1)

    def logits(self, y: Tensor) -> Tensor:
        """log y, y clipped to at least 1e-6, float32."""
        return y.float().clamp_min(1e-6).log()

    def likeliest(self, logits: Tensor) -> Tensor:
        return torch.zeros_like(logits).scatter_(2, logits.argmax(2, keepdim=True), 1)

    def drawn(self, p: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
        shape = (len(p), num_samples, *p.shape[3:])
        if self.sample_coherence == "none":
            u = torch.rand(shape, device=p.device, generator=generator)
        else:
            u = torch.special.ndtr(self.noise(shape, p.device, generator))
        u = u.clamp_min_(torch.finfo(u.dtype).eps / 2)  # 0 would draw a first class of any p
        below = u.unsqueeze(2) < p.cumsum(2)  # (B, K, C, H, W)
        below[:, :, -1] = True  # the last sum may differ slightly from 1
        return torch.cat([below[:, :, :1], below[:, :, 1:] & ~below[:, :, :-1]], dim=2).float()

    @torch.no_grad()
    def perturb(self, logits: Tensor, num_samples: int, std: float, generator: torch.Generator) -> Tensor:
        """softmax(logits + std · g), g as coherent as the samples, one for each class: float32 (B, K, C, H, W)."""
        batch, classes, *size = logits.shape
        noise = self.noise((batch, num_samples * classes, *size), logits.device, generator)
        return (logits.float().unsqueeze(1) + std * noise.unflatten(1, (num_samples, classes))).softmax(2)

    def mix(self, logits: Tensor, gold: Tensor, share: float) -> Tensor:
        """The log-probabilities of (1 - m) softmax(z) + m y*, m = `share` in (0, 1): (B, C, H, W)."""
        return mixed_logs(resized_logits(logits, gold.shape[-2:]).log_softmax(1), gold, share)

    def log_prob(self, logits: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Σ_i Σ_c y_ic log softmax(logits_i)_c over the pixels that count: (B, S)."""
        return _dot(y, counted(resized_logits(logits, y.shape[-2:]).log_softmax(1), mask))

    def log_patches(self, logits: Tensor, y: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        log_p = resized_logits(logits, y.shape[-2:]).double().log_softmax(1)  # ends of intervals may nearly meet
        p, ids = log_p.exp(), y.argmax(2, keepdim=True)

        def of_y(values: Tensor, ids: Tensor, fill: float) -> Tensor:
            """The value (B, C, H, W) of each pixel's class, `fill` where none counts: in patches."""
            chosen = values.unsqueeze(1).expand(*y.shape[:2], *values.shape[1:]).gather(2, ids).squeeze(2)
            chosen = chosen if mask is None else chosen.masked_fill(~mask.unsqueeze(1), fill)
            return self.patches(chosen, fill)

        def overlap(p: Tensor, ids: Tensor) -> Tensor:
            """What the intervals of all pixels of a patch have in common, if it is not negative."""
            ends = F.pad(p.cumsum(1), (0, 0, 0, 0, 1, 0))  # (B, C + 1, H, W): class c lies between ends c and c + 1
            return of_y(ends[:, 1:], ids, 1.0).amin((3, 5)) - of_y(ends[:, :-1], ids, 0.0).amax((3, 5))

        mirrored = overlap(p.flip(1), p.shape[1] - 1 - ids)  # exact near 1, as the other one near 0
        together = torch.maximum(overlap(p, ids), mirrored).clamp_min(0).log()
        return together.float(), of_y(log_p, ids, 0.0).sum((3, 5)).float()

    def sums(self, y_hat: Tensor, y: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        y_hat, y = counted(y_hat, mask).flatten(3), counted(y, mask).flatten(2)  # (B, S, C, P) and (B, C, P)
        overlap = torch.einsum("bscp,bcp->bsc", y_hat, y)
        return overlap, y_hat.sum(3) + y.sum(2).unsqueeze(1)

    def over_classes(self, values: Tensor, y: Tensor) -> Tensor:
        present = (y > 0).any(-1).any(-1).unsqueeze(1)  # (B, 1, C)
        size = present.sum(2)  # (B, 1)
        mean = (values * present).sum(2) / size.clamp_min(1)
        return torch.where(size > 0, mean, torch.ones_like(mean))

    def cross_entropy(self, logits: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
        return (F.cross_entropy(logits, labels, ignore_index=IGNORE, reduction="none") * weight).sum()

    def decode(self, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        """The likeliest class of each pixel: int64 (B, h, w)."""
        return logits.argmax(1)


def _dot(y: Tensor, z: Tensor) -> Tensor:
    """(B, S, ...) · (B, ...) -> (B, S), without a product of that size in memory."""
    return (y.flatten(2) @ z.flatten(1).unsqueeze(2)).squeeze(2)


def mask_space(config: Any) -> type[PixelSpace]:
    """The space of a task-net with this config: one or two labels are binary masks."""
    return BinaryMaskSpace if config.num_labels <= 2 else MaskSpace
