"""Binary masks over H x W pixels: task-net logits (B, 2, h, w) or (B, 1, h, w), labels (B, H, W) of 0, 1 and 255 (does
not count); candidates `y` (B, S, H, W).

A pixel is foreground with probability p = σ(z). With two channels the log-odds z (B, H, W) are z_1 - z_0, so that σ(z)
is their softmax; with one channel they are that channel.

Samples. The task-net's own distribution is a product over pixels, so its plain samples are salt and pepper, which an
energy easily tells from any mask (SEAL, §4.4, blames NCE's failure on images on that). A *coherent* sample keeps every
pixel's probability and couples neighbours:

    y_i = 1[ Φ(g_i) < p_i ],    g = Gaussian noise with g_i ~ N(0, 1) for every single pixel

* `none`: g_i independent.
* `field`: g smooth, corr(g_i, g_j) ≈ exp(-d²/2ℓ²) at a distance of d pixels (a Gaussian copula). The probability of a
  mask is that of an orthant under 10³ correlated Gaussians, which has no closed form.
* `patches`: one g for a whole patch of ℓ x ℓ pixels, or, with probability ε for each patch, independent ones. Within
  a patch of one g, with u = Φ(g), the foreground is {i : p_i > u}: the most likely pixels, however many. Such a
  threshold set has the probability [min of p_i over it] - [max of p_i over the rest]; all other sets have 0. The
  probability of a mask is then the product over patches of (1 - ε) · that + ε · the product over pixels: exact, and
  positive for every mask if ε > 0. With ε = 0 nearly every gold mask has probability 0, and noise that cannot draw the
  gold is useless for NCE.
* `inputs`: not drawn from p; the samples are the task-net's own masks 1[p'_i >= 1/2] at K copies of the image,
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
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from ..structures.masks import IGNORE, log_odds
from ..utils.options import check_value
from .base import SAMPLE_WEIGHT, LossTraits, OutputSpace, drawable, mixed_odds, ratio, repeated_bits

# each with the arguments that a run reads only for it
COHERENCE: dict[str, tuple[str, ...]] = {
    "none": (),
    "field": ("coherence_size",),
    "patches": ("coherence_size", "independent_share"),
    "inputs": ("input_noise_std",),
}
MASK_TASK_LOSSES: dict[str, tuple[str, ...]] = {"cross_entropy": (), "soft_iou": ("soft_iou_weight",)}
PIXEL_LOSSES = ("sum", "mean")
FLIP_LENGTHS = (0.5, 2.0, 4.0, 8.0)  # pixels; for `flip`: from salt and pepper to the size of a limb


class BinaryMaskSpace(OutputSpace):
    """Masks: y in {0, 1}^(H x W), independent Bernoulli pixels under the task-net.

    Labels are 0 (background), 1 (foreground) and 255 (does not count). Other values would be taken as background: a
    check would wait for the device in every step, so [`MaskRows`] checks once.

    Args:
        pixel_loss: the task loss over pixels: `sum`, then the mean over the batch, as for every output of this package
            (λ1 is meaningful only with that); or `mean` over all pixels that count, the authors' choice for Weizmann.
            `sum` is H · W times `mean`, so λ1 with `mean` corresponds to λ1 · H · W with `sum`.
        sample_coherence: how a sample couples its pixels: `none`, `field`, `patches` or `inputs`, see the module.
        coherence_size: ℓ in pixels, > 0: the correlation length of a field, or the side of a patch (an integer).
        independent_share: ε in [0, 1]: how often the pixels of a patch are drawn independently; only for `patches`.
        soft_iou_weight: w >= 0, the weight of 1 - soft IoU in the task loss, see `task_loss`.

    Raises:
        ValueError: an unknown name, or a number outside its range.
    """

    name = "binary_mask"
    model_name = "SealForSegmentation"
    head = "ForSemanticSegmentation"
    energy_program = "run_mask_energy.py"
    fills_box = True
    problem_type = None  # Hugging Face has none for segmentation
    structure_dims = 2
    costs = (*OutputSpace.costs, "iou")
    dvn_gold_starts = 0.5  # Gygli et al. 2017 too

    def __init__(
        self,
        pixel_loss: str = "sum",
        sample_coherence: str = "none",
        coherence_size: float = 4,
        independent_share: float = 0.1,
        soft_iou_weight: float = 0.0,
    ):
        check_value("pixel_loss", pixel_loss, PIXEL_LOSSES)
        check_value("sample_coherence", sample_coherence, COHERENCE)
        if not coherence_size > 0 or (sample_coherence == "patches" and coherence_size != int(coherence_size)):
            raise ValueError(f"`coherence_size` is {coherence_size} pixels; it must be above 0, and whole for patches.")
        if not 0 <= independent_share <= 1:
            raise ValueError(f"`independent_share` is {independent_share}; it must be from 0 to 1.")
        self.pixel_loss, self.sample_coherence = pixel_loss, sample_coherence
        self.coherence_size, self.independent_share = coherence_size, independent_share
        if not soft_iou_weight >= 0:
            raise ValueError(f"`soft_iou_weight` is {soft_iou_weight}; it must be 0 or more.")
        self.soft_iou_weight = soft_iou_weight

    @classmethod
    def from_arguments(cls, args: Any, task_net: PreTrainedModel) -> BinaryMaskSpace:
        """Raises ValueError if `task_loss` is unknown for masks."""
        if args.task_loss not in MASK_TASK_LOSSES:
            raise ValueError(
                f"`task_loss` is {args.task_loss!r}; for masks it must be one of {', '.join(MASK_TASK_LOSSES)}."
            )
        weight = args.soft_iou_weight if args.task_loss == "soft_iou" else 0.0
        return cls(args.pixel_loss, args.sample_coherence, args.coherence_size, args.independent_share, weight)

    def of(self, batch: dict[str, Tensor]) -> OutputSpace:
        """Raises ValueError for weights of images, which the pixel losses do not support."""
        if SAMPLE_WEIGHT in batch and self.loss is None:
            raise ValueError(f"The rows have a column `{SAMPLE_WEIGHT}`, which no task loss of masks reads. Remove it.")
        return super().of(batch)

    def check_loss(self, loss: LossTraits, num_labels: int) -> None:
        """Raises ValueError for InfNet+, for NCE on noise that has no closed-form probability or cannot draw the gold,
        and for options that samples from perturbed inputs do not support."""
        if loss.has_partner:
            raise ValueError(
                f"energy_loss={loss.name!r} has no cost-augmented network for masks. Use infnet, or margin."
            )
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

    # --- drawing -----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, logits: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
        """Masks in which each pixel is 1 with its probability, coherent as chosen; or, from perturbed inputs, the masks
        given to `proposing`. Float32 (B, K, H, W)."""
        if self.samples_from_inputs:
            if self.propose is None:
                raise ValueError("sample_coherence='inputs' needs the task-net: call `space.proposing(...)` first.")
            return (self.propose(num_samples, generator) >= 0).float()
        p = self.relax(logits).unsqueeze(1)  # (B, 1, H, W)
        shape = (p.shape[0], num_samples, *p.shape[2:])
        if self.sample_coherence == "none":
            return (torch.rand(shape, device=p.device, generator=generator) < drawable(p)).float()
        return (self.noise(shape, p.device, generator) < torch.special.ndtri(p)).float()

    @torch.no_grad()
    def perturb(self, logits: Tensor, num_samples: int, std: float, generator: torch.Generator) -> Tensor:
        """σ(z + std · g), g as coherent as the samples: float32 (B, K, H, W)."""
        z = log_odds(logits).unsqueeze(1)
        return torch.sigmoid(z + std * self.noise((z.shape[0], num_samples, *z.shape[2:]), z.device, generator))

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

    def repeated(self, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Compares masks as sets of the pixels that count."""
        return repeated_bits(_counted(y, mask).flatten(2))

    # --- probabilities -----------------------------------------------------------------------------------------------

    def log_prob(self, logits: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Σ_i y_i z_i - softplus(z_i) over the pixels that count, under independent pixels: (B, S)."""
        z = log_odds(logits, y.shape[-2:])
        constant = _counted(F.softplus(z), mask).sum((1, 2)).unsqueeze(1)  # (B, 1)
        return _dot(y, _counted(z, mask)) - constant

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
        z = log_odds(logits, y.shape[-2:]).unsqueeze(1)
        counts = torch.ones_like(z, dtype=torch.bool) if mask is None else mask.unsqueeze(1)
        ones, zeros, inf = (y > 0.5) & counts, (y <= 0.5) & counts, float("inf")
        low = self._patches(torch.where(ones, z, inf), inf).amin((3, 5))  # least likely foreground: (B, S, G, G)
        high = self._patches(torch.where(zeros, z, -inf), -inf).amax((3, 5))  # most likely background
        # log(σ(a) - σ(b)) = log σ(a) + log σ(-b) + log(1 - exp(b - a)), for a > b
        gap = torch.log(-torch.expm1(-(low - high).clamp_min(0)))
        together = F.logsigmoid(low) + F.logsigmoid(-high) + gap
        alone = self._patches(torch.where(ones, F.logsigmoid(z), torch.where(zeros, F.logsigmoid(-z), 0.0)), 0.0)
        shares = [math.log(share) if share else -inf for share in (1 - self.independent_share, self.independent_share)]
        return torch.logaddexp(shares[0] + together, shares[1] + alone.sum((3, 5))).sum((2, 3))

    def _patches(self, values: Tensor, fill: float) -> Tensor:
        """(B, S, H, W) -> (B, S, patches down, size, patches across, size), padded with `fill` below and right."""
        size = int(self.coherence_size)
        height, width = values.shape[2:]
        values = F.pad(values, (0, -width % size, 0, -height % size), value=fill)
        return values.view(*values.shape[:2], -1, size, values.shape[3] // size, size)

    # --- against the gold --------------------------------------------------------------------------------------------

    def score(self, y_hat: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Soft IoU = Σ min(ŷ, y) / Σ max(ŷ, y) (Gygli et al. 2017; SEAL Eq. 10), over the pixels that count: (B, S).

        For y in {0, 1} the sums are ŷ·y and Σ ŷ + Σ y - ŷ·y. Two empty masks score 1.
        """
        overlap, total = self._sums(y_hat, y, mask)
        return ratio(overlap, total - overlap)

    def cost(self, y_hat: Tensor, y: Tensor, kind: str = "l1", mask: Tensor | None = None) -> Tensor:
        """Δ: `iou` = 1 - soft IoU, `f1` = 1 - soft F1 (Dice), `l1` = Σ|ŷ - y|, `l1_mean` = `l1` per pixel that counts.
        (B, S)."""
        self.check_cost(kind)
        overlap, total = self._sums(y_hat, y, mask)
        if kind == "iou":
            return 1 - ratio(overlap, total - overlap)
        if kind == "f1":
            return 1 - ratio(2 * overlap, total)
        distance = total - 2 * overlap  # |ŷ - y| = ŷ + y - 2 ŷ y for y in {0, 1}
        if kind == "l1":
            return distance
        pixels = y[0].numel() if mask is None else mask.sum((1, 2)).clamp_min(1).unsqueeze(1)
        return distance / pixels

    @staticmethod
    def _sums(y_hat: Tensor, y: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """ŷ·y and Σ ŷ + Σ y over the pixels that count, both (B, S)."""
        y_hat, y = _counted(y_hat, mask), _counted(y, mask)
        return _dot(y_hat, y), y_hat.sum((2, 3)) + y.sum((1, 2)).unsqueeze(1)

    def task_loss(self, logits: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Cross-entropy of the pixels that count plus w (1 - soft IoU), mean over images (Rahman & Wang 2016):

            Σ_i -log p_i(y_i) + w (1 - s(p, y)),     s = `score`

        The first term is summed over pixels and averaged over the batch, or the `mean` over the batch's pixels. The
        second term is the score that a regression energy learns to predict. A user's own loss replaces both. Scalar.
        """
        if self.loss is not None:
            return self.loss(logits, labels, weight=self.sample_weight)
        gold, mask = self.gold(labels)
        z = log_odds(logits, labels.shape[-2:])
        loss = F.binary_cross_entropy_with_logits(z, gold, weight=mask.float(), reduction="sum")
        loss = loss / (len(labels) if self.pixel_loss == "sum" else mask.sum().clamp_min(1))
        if self.soft_iou_weight:
            loss = loss + self.soft_iou_weight * self.cost(torch.sigmoid(z).unsqueeze(1), gold, "iou", mask).mean()
        return loss

    def decode(self, logits: Tensor, threshold: float = 0.5, mask: Tensor | None = None) -> Tensor:
        """1 where the probability is at least `threshold`, else 0: int64 (B, h, w)."""
        return (self.relax(logits) >= threshold).long()


def smoothing(size: int, length: float, device: torch.device | str = "cpu") -> Tensor:
    """A (size, size) with rows of unit norm, a_ij ∝ exp(-(i - j)² / ℓ²).

    For white noise N, A N Aᵀ has variance 1 everywhere. Its correlation between (i, j) and (k, l) is
    (A Aᵀ)_ik (A Aᵀ)_jl, which is exp(-d² / 2ℓ²) away from the edges and a little more near them.
    """
    steps = torch.arange(size, device=device, dtype=torch.float32)
    return F.normalize(torch.exp(-(((steps.unsqueeze(1) - steps) / length) ** 2)), dim=1)


def _spread(values: Tensor, size: int, shape: tuple[int, ...]) -> Tensor:
    """Copies each patch's value to its pixels."""
    return values.repeat_interleave(size, 2).repeat_interleave(size, 3)[:, :, : shape[0], : shape[1]]


def _counted(values: Tensor, mask: Tensor | None) -> Tensor:
    """`values`, (B, H, W) or (B, S, H, W), with 0 where `mask` (B, H, W) is False."""
    if mask is None:
        return values
    return values.masked_fill(~(mask if values.dim() == 3 else mask.unsqueeze(1)), 0)


def _dot(y: Tensor, z: Tensor) -> Tensor:
    """(B, S, H, W) · (B, H, W) -> (B, S), without a product of that size in memory."""
    return (y.flatten(2) @ z.flatten(1).unsqueeze(2)).squeeze(2)
