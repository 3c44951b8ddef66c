"""What masks of two and of several classes share: options, coherent noise, costs and the task loss.

Samples. The task-net's own distribution is a product over pixels, so its plain samples are salt and pepper, which an
energy easily tells from any mask (SEAL, §4.4, blames NCE's failure on images on that). A *coherent* sample keeps every
pixel's probabilities and couples neighbours. A pixel's classes are intervals of [0, 1], as long as their probabilities,
and it gets the class of the interval that holds Φ(g_i). For two classes:

    y_i = 1[ Φ(g_i) < p_i ],    g = Gaussian noise with g_i ~ N(0, 1) for every single pixel

* `none`: g_i independent.
* `field`: g smooth, corr(g_i, g_j) ≈ exp(-d²/2ℓ²) at a distance of d pixels (a Gaussian copula). The probability of a
  mask is that of a box under 10³ correlated Gaussians, which has no closed form.
* `patches`: one g for a whole patch of ℓ x ℓ pixels, or, with probability ε for each patch, independent ones. Within
  a patch of one g, a mask is drawn if Φ(g) is in the intervals of all its pixels' classes: with the probability [least
  upper end] - [greatest lower end], or 0. For two classes the foreground is then {i : p_i > u}: the most likely pixels,
  however many. The probability of a mask is the product over patches of (1 - ε) · that + ε · the product over pixels:
  exact, and positive for every mask if ε > 0. With ε = 0 nearly every gold mask has probability 0, and noise that
  cannot draw the gold is useless for NCE.
* `inputs`: not drawn from p; the samples are the task-net's own masks, its likeliest classes, at K copies of the image,
  perturbed by pixel noise and dropout. They are as smooth as the task-net's output and wrong where it is unsure. They
  have no known probability. If the task-net is certain, all K equal its output: see `distinct_samples`.

NCE needs log P_N(y | x) of the noise. Without it (`ranking`) the optimum differs: -E(x, y) estimates log p(y | x) -
log P_N(y | x), the correction to the noise, not log p(y | x). A field and perturbed inputs allow only that; `nce` on
them is refused. An exact noise term does not always help: over 10³ pixels, log P_N of gold and samples differ by tens
of nats, most when the noise is least like real masks (large patches, small ε, an untrained task-net). If the gold is
less likely than the samples, -log P_N alone tells it from them, the loss is 0 and the energy learns nothing. So begin
with `ranking`; for `nce` use small patches or ε near 1.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from ...core.masks import IGNORE, MOST_CLASSES, counted, log_odds, resized_logits
from ...core.space import (
    SAMPLE_WEIGHT,
    LossTraits,
    OutputSpace,
    all_counted,
    balanced_weights,
    drawable,
    mixed_logs,
    mixed_odds,
    ratio,
    repeated_bits,
)
from ...utils.options import check_value
from .task_losses import PixelLoss

# each with the arguments that a run reads only for it
COHERENCE: dict[str, tuple[str, ...]] = {
    "none": (),
    "field": ("coherence_size",),
    "patches": ("coherence_size", "independent_share"),
    "inputs": ("input_noise_std",),
}


class PixelSpace(OutputSpace):
    """Base class of masks: one class for each of H x W pixels, independent under the task-net.

    Labels (B, H, W) are class ids and 255 (does not count). `check_values` tests them once, at the start of a run: a
    check in every step would wait for the device.

    Args:
        sample_coherence: how a sample couples its pixels: `none`, `field`, `patches` or `inputs`, see the module.
        coherence_size: ℓ in pixels, > 0: the correlation length of a field, or the side of a patch (an integer).
        independent_share: ε in [0, 1]: how often the pixels of a patch are drawn independently; only for `patches`.
        loss: one of `MASK_TASK_LOSSES` in `tasks/masks/task_losses.py`; default: cross-entropy, summed over pixels.

    Attributes:
        num_classes: C.
        window: see [`in_window`].

    Raises:
        ValueError: an unknown name, or a number outside its range.
    """

    model_name = "SealForSegmentation"
    energy_program = "seal-hf train mask-energy"
    problem_type = None  # Hugging Face has none for segmentation
    costs = (*OutputSpace.costs, "iou")
    weights = ("class_weight",)
    label_dim = 1
    num_classes: int
    window: Sequence[Tensor] = ()

    def __init__(
        self,
        sample_coherence: str = "none",
        coherence_size: float = 4,
        independent_share: float = 0.1,
        loss: PixelLoss | None = None,
    ):
        check_value("sample_coherence", sample_coherence, COHERENCE)
        if not coherence_size > 0 or (sample_coherence == "patches" and coherence_size != int(coherence_size)):
            raise ValueError(f"`coherence_size` is {coherence_size} pixels; it must be above 0, and whole for patches.")
        if not 0 <= independent_share <= 1:
            raise ValueError(f"`independent_share` is {independent_share}; it must be from 0 to 1.")
        self.sample_coherence, self.loss = sample_coherence, loss or PixelLoss()
        self.coherence_size, self.independent_share = coherence_size, independent_share

    @classmethod
    def from_arguments(cls, args: Any, task_net: PreTrainedModel) -> PixelSpace:
        """The space of this task-net's masks, with its options from [`SealTrainingArguments`]. Raises ValueError if
        `task_loss` is unknown for masks."""
        return cls(*cls.sizes_of(task_net), **cls.options_from(args))

    @staticmethod
    def options_from(args: Any) -> dict[str, Any]:
        """The options of the constructor from [`SealTrainingArguments`]. ValueError for another kind's task loss."""
        names = ("sample_coherence", "coherence_size", "independent_share")
        return {"loss": PixelLoss.from_arguments(args)} | {name: getattr(args, name) for name in names}

    @classmethod
    def for_model(cls, task_net: PreTrainedModel) -> PixelSpace:
        return cls(*cls.sizes_of(task_net))

    @classmethod
    def sizes_of(cls, task_net: PreTrainedModel) -> tuple[Any, ...]:
        """The first arguments of the constructor, which the task-net's config has."""
        return ()

    def of(self, batch: dict[str, Tensor]) -> OutputSpace:
        """As in the base class. Raises ValueError for weights of images, which the pixel losses do not support."""
        if SAMPLE_WEIGHT in batch and isinstance(self.loss, PixelLoss):
            raise ValueError(f"The rows have a column `{SAMPLE_WEIGHT}`, which no task loss of masks reads. Remove it.")
        return super().of(batch)

    def in_window(self, labels: Sequence[Tensor]) -> OutputSpace:
        """A mean over pixels is that of all pixels in the window."""
        if len(labels) < 2 or not (isinstance(self.loss, PixelLoss) and self.loss.pixel_loss == "mean"):
            return self
        space = copy(self)
        space.window = labels
        return space

    def check_loss(self, loss: LossTraits, num_labels: int) -> None:
        """Raises ValueError for NCE on noise that has no closed-form probability or cannot draw the gold, and for
        options that samples from perturbed inputs do not support."""
        super().check_loss(loss, num_labels)
        if loss.reads_noise and self._noise_probability_is_unknown:
            raise ValueError(
                f"energy_loss={loss.name!r} needs log P of its samples, but sample_coherence="
                f"{self.sample_coherence!r} with independent_share={self.independent_share} gives none (field, inputs) "
                "or one that is 0 for nearly every gold mask (patches without independent pixels). Use "
                "energy_loss='ranking', which needs no probability; or sample_coherence='patches' with "
                "independent_share above 0, whose probability is exact."
            )
        if self.samples_from_inputs and (loss.perturbs or loss.gold_mix):
            name = "regression_samples='continuous'" if loss.perturbs else f"gold_mix={loss.gold_mix}"
            raise ValueError(
                f"{name} changes the probabilities that structures are drawn from, but sample_coherence='inputs' draws "
                "none: its samples are the task-net's masks at perturbed inputs. Leave out one of them"
                + (", or take regression_samples='discrete'." if loss.perturbs else ".")
            )

    @property
    def samples_from_inputs(self) -> bool:
        return self.sample_coherence == "inputs"

    @property
    def _noise_probability_is_unknown(self) -> bool:
        without = self.sample_coherence == "patches" and not self.independent_share
        return without or self.sample_coherence in ("field", "inputs")

    def check_values(self, labels: Tensor, where: str) -> None:
        """Labels must be class ids, or 255 where a pixel does not count.

        Raises:
            ValueError: the message names the wrong value.
        """
        wrong = labels[((labels < 0) | (labels >= self.num_classes)) & (labels != IGNORE)]
        if len(wrong):
            raise ValueError(
                f"`labels` of `{where}` holds {wrong[0].item():g}, but the masks have {self.num_classes} classes: a "
                f"pixel is 0 to {self.num_classes - 1}, or {IGNORE} where it does not count. Check the model's "
                "`num_labels` and the masks."
            )

    @abstractmethod
    def gold(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Turn labels (B, H, W) into the gold as floats (B, ...), 0 where a pixel does not count, and the mask (B, H,
        W) of the pixels that do."""

    # --- drawing -----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, logits: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
        """Draw masks in which each pixel has each class with its probability, coherent as chosen: float32 (B, K, ...).
        With perturbed inputs, they are the masks given to `proposing`."""
        if self.samples_from_inputs:
            if self.propose is None:
                raise ValueError("sample_coherence='inputs' needs the task-net: call `space.proposing(...)` first.")
            return self.likeliest(self.propose(num_samples, generator))
        return self.drawn(self.relax(logits).unsqueeze(1), num_samples, generator)

    @abstractmethod
    def likeliest(self, logits: Tensor) -> Tensor:
        """The likeliest masks, float32 (B, K, ...), of logits (B, K, ...) that went through `fit`."""

    @abstractmethod
    def drawn(self, p: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
        """K masks with the probabilities p (B, 1, ...), coherent as chosen: (B, K, ...)."""

    def noise(self, shape: tuple[int, ...], device: torch.device, generator: torch.Generator) -> Tensor:
        """Gaussian noise g of `shape` (B, K, H, W), N(0, 1) at every pixel, coherent as chosen."""
        noise = torch.randn(shape, device=device, generator=generator)
        if self.sample_coherence == "field":
            rows, columns = (smoothing(size, self.coherence_size, device) for size in shape[2:])
            return rows @ noise @ columns.T
        if self.sample_coherence == "patches":
            size = int(self.coherence_size)
            grid = (*shape[:2], *(-(-pixels // size) for pixels in shape[2:]))  # (B, K, patches down, across)
            shared = torch.randn(grid, device=device, generator=generator)
            alone = torch.rand(grid, device=device, generator=generator) < self.independent_share
            shared, alone = (_spread(values, size, shape[2:]) for values in (shared, alone))
            return torch.where(alone, noise, shared)
        return noise

    def repeated(self, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """As in the base class. Masks are compared by the pixels that count."""
        return repeated_bits(counted(y, mask).flatten(2))

    # --- probabilities -----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def log_noise(self, logits: Tensor, y: Tensor, mask: Tensor | None = None, *, normalized: bool = False) -> Tensor:
        """log P_N(y) of hard masks under the distribution that `sample` draws from: exact, in [-inf, 0], (B, S).

        Raises:
            ValueError: for a field and for perturbed inputs, which have no closed form.
        """
        if self.sample_coherence == "none":
            return self.log_prob(logits, y, mask)
        if self.sample_coherence in ("field", "inputs"):
            raise ValueError(
                f"Masks with sample_coherence={self.sample_coherence!r} have no closed-form probability. Use "
                "energy_loss='ranking', or sample_coherence='patches'."
            )
        together, alone = self.log_patches(logits, y, mask)
        inf = float("inf")
        shares = [math.log(share) if share else -inf for share in (1 - self.independent_share, self.independent_share)]
        return torch.logaddexp(shares[0] + together, shares[1] + alone).sum((2, 3))

    @abstractmethod
    def log_patches(self, logits: Tensor, y: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The log-probabilities of each patch, with one g and with independent pixels: (B, S, patches down, patches
        across) each."""

    def patches(self, values: Tensor, fill: float) -> Tensor:
        """Divide (B, S, H, W) into patches: (B, S, patches down, size, patches across, size), padded with `fill` below
        and at the right."""
        size = int(self.coherence_size)
        height, width = values.shape[2:]
        values = F.pad(values, (0, -width % size, 0, -height % size), value=fill)
        return values.view(*values.shape[:2], -1, size, values.shape[3] // size, size)

    # --- against the gold --------------------------------------------------------------------------------------------

    def score(self, y_hat: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Soft IoU = Σ min(ŷ, y) / Σ max(ŷ, y) (Gygli et al. 2017; SEAL Eq. 10), over the pixels that count: (B, S).

        For y in {0, 1} the sums are ŷ·y and Σ ŷ + Σ y - ŷ·y. Of two classes it is the foreground's, and two empty masks
        score 1. Of several classes it is the mean over those present in y, and 1 if no pixel counts.
        """
        return self.agreement(y_hat, y, "iou", mask)

    def agreement(self, y_hat: Tensor, y: Tensor, kind: str, mask: Tensor | None = None) -> Tensor:
        """Soft IoU (`iou`), or soft F1 (`f1`, Dice), a mean over the same classes: (B, S)."""
        overlap, total = self.sums(y_hat, y, mask)
        return self.over_classes(ratio(overlap, total - overlap) if kind == "iou" else ratio(2 * overlap, total), y)

    def num_counted(self, y: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            return all_counted(y, math.prod(y.shape[-2:]))
        return mask.sum((1, 2)).unsqueeze(1).float()

    @abstractmethod
    def over_classes(self, values: Tensor, y: Tensor) -> Tensor:
        """The mean of values (B, S, C) over the classes present in y. Values of one class, (B, S), stay as they are."""

    def task_loss(self, logits: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """As in the base class, by a loss of `tasks/masks/task_losses.py` or a user's own."""
        if isinstance(self.loss, PixelLoss):
            return self.loss(self, logits, labels, self.window)
        return self.loss(logits, labels, weight=self.sample_weight)

    @abstractmethod
    def cross_entropy(self, logits: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
        """Σ of weight (B, H, W), 0 where a pixel does not count, times the pixels' cross-entropy. Scalar."""

    def balance(self, labels: Iterable[Tensor]) -> Tensor:
        """Weights for `class_weight`, (C,): the [`balanced_weights`] of the pixels that have a class."""
        size = self.num_classes
        counts: Any = sum(torch.bincount(part[part < size].flatten().long(), minlength=size) for part in labels)
        return balanced_weights(counts)


def smoothing(size: int, length: float, device: torch.device | str = "cpu") -> Tensor:
    """A matrix (size, size) that smooths noise. Its rows have unit norm, and a_ij ∝ exp(-(i - j)² / ℓ²).

    For white noise N, A N Aᵀ has variance 1 everywhere. Its correlation between (i, j) and (k, l) is
    (A Aᵀ)_ik (A Aᵀ)_jl, which is exp(-d² / 2ℓ²) away from the edges and a little more near them.
    """
    steps = torch.arange(size, device=device, dtype=torch.float32)
    return F.normalize(torch.exp(-(((steps.unsqueeze(1) - steps) / length) ** 2)), dim=1)


def _spread(values: Tensor, size: int, shape: tuple[int, ...]) -> Tensor:
    """Copies each patch's value to its pixels."""
    return values.repeat_interleave(size, 2).repeat_interleave(size, 3)[:, :, : shape[0], : shape[1]]


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

    def check_loss(self, loss: LossTraits, num_labels: int) -> None:
        """As for all masks. Raises ValueError also for InfNet+."""
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
        """Turn labels (B, H, W) of 0, 1 and 255 into float32 (B, H, W), 0 where a pixel does not count, and the mask
        (B, H, W), bool."""
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

    def __init__(self, num_classes: int, *args: Any, **options: Any):
        super().__init__(*args, **options)
        if not 2 <= num_classes <= MOST_CLASSES:
            raise ValueError(
                f"`num_classes` is {num_classes}; it must be from 2 to {MOST_CLASSES}, as {IGNORE} is taken."
            )
        self.num_classes = num_classes

    @classmethod
    def sizes_of(cls, task_net: PreTrainedModel) -> tuple[Any, ...]:
        config: Any = task_net.config
        return (config.num_labels,)

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
        """Turn class ids (B, H, W), or 255, into one-hot float32 (B, C, H, W), zero where a pixel does not count, and
        the mask (B, H, W), bool."""
        classes = torch.arange(self.num_classes, device=labels.device).view(-1, 1, 1)
        return (labels.unsqueeze(1) == classes).float(), labels != IGNORE

    def relax(self, logits: Tensor) -> Tensor:
        """ŷ, the softmax over classes: float32 (B, C, h, w)."""
        return logits.float().softmax(1)

    def logits(self, y: Tensor) -> Tensor:
        """The logarithm of y, clipped to at least 1e-6: float32."""
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
