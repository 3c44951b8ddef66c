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
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from ...core.masks import IGNORE
from ...core.space import SAMPLE_WEIGHT, LossTraits, OutputSpace, all_counted, balanced_weights, ratio, repeated_bits
from ...utils.options import Options, check_value


class PixelLoss(Options):
    """The task loss of masks, `PixelSpace.task_loss`: the cross-entropy of the pixels that count. Those below add a
    term that looks at a whole mask."""

    also_reads: ClassVar[tuple[str, ...]] = ("class_weight",)


class SoftIoU(PixelLoss):
    """1 - soft IoU."""

    also_reads: ClassVar[tuple[str, ...]] = ("soft_iou_weight", "class_weight")


class Dice(PixelLoss):
    """1 - soft F1."""

    also_reads: ClassVar[tuple[str, ...]] = ("dice_weight", "class_weight")


class Lovasz(PixelLoss):
    """The Lovász extension of 1 - IoU, see [`lovasz`]."""

    also_reads: ClassVar[tuple[str, ...]] = ("lovasz_weight", "class_weight")


MASK_TASK_LOSSES = {"cross_entropy": PixelLoss, "soft_iou": SoftIoU, "dice": Dice, "lovasz": Lovasz}
PIXEL_LOSSES = ("sum", "mean")


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
        pixel_loss: cross-entropy over pixels: `sum`, then the mean over the batch, as for every output of this package
            (λ1 is meaningful only with that); or `mean` over all pixels that count, the authors' choice for Weizmann.
            `sum` is H · W times `mean`, so λ1 with `mean` corresponds to λ1 · H · W with `sum`.
        sample_coherence: how a sample couples its pixels: `none`, `field`, `patches` or `inputs`, see the module.
        coherence_size: ℓ in pixels, > 0: the correlation length of a field, or the side of a patch (an integer).
        independent_share: ε in [0, 1]: how often the pixels of a patch are drawn independently; only for `patches`.
        soft_iou_weight, dice_weight, lovasz_weight: w >= 0, weights of further terms of the task loss, see `task_loss`.

    Attributes:
        num_classes: C.
        class_weight: (C,), weights of classes in cross-entropy; None: 1.

    Raises:
        ValueError: an unknown name, or a number outside its range.
    """

    model_name = "SealForSegmentation"
    energy_program = "seal-hf train mask-energy"
    problem_type = None  # Hugging Face has none for segmentation
    costs = (*OutputSpace.costs, "iou")
    weights = ("class_weight",)
    labels_last = False
    num_classes: int
    class_weight: Tensor | None = None

    def __init__(
        self,
        pixel_loss: str = "sum",
        sample_coherence: str = "none",
        coherence_size: float = 4,
        independent_share: float = 0.1,
        soft_iou_weight: float = 0.0,
        dice_weight: float = 0.0,
        lovasz_weight: float = 0.0,
    ):
        check_value("pixel_loss", pixel_loss, PIXEL_LOSSES)
        check_value("sample_coherence", sample_coherence, COHERENCE)
        if not coherence_size > 0 or (sample_coherence == "patches" and coherence_size != int(coherence_size)):
            raise ValueError(f"`coherence_size` is {coherence_size} pixels; it must be above 0, and whole for patches.")
        if not 0 <= independent_share <= 1:
            raise ValueError(f"`independent_share` is {independent_share}; it must be from 0 to 1.")
        self.pixel_loss, self.sample_coherence = pixel_loss, sample_coherence
        self.coherence_size, self.independent_share = coherence_size, independent_share
        self.term_weights = {"soft_iou": soft_iou_weight, "dice": dice_weight, "lovasz": lovasz_weight}
        for name, weight in self.term_weights.items():
            if not weight >= 0:
                raise ValueError(f"`{name}_weight` is {weight}; it must be 0 or more.")

    @classmethod
    def from_arguments(cls, args: Any, task_net: PreTrainedModel) -> PixelSpace:
        """Raises ValueError if `task_loss` is unknown for masks."""
        return cls.made_for(task_net, **cls.options_from(args))

    @staticmethod
    def options_from(args: Any) -> dict[str, Any]:
        """The options of the constructor from [`SealTrainingArguments`]. ValueError for another kind's task loss."""
        if args.task_loss not in MASK_TASK_LOSSES:
            raise ValueError(
                f"`task_loss` is {args.task_loss!r}; for masks it must be one of {', '.join(MASK_TASK_LOSSES)}."
            )
        names = ("pixel_loss", "sample_coherence", "coherence_size", "independent_share")
        options = {name: getattr(args, name) for name in names}
        if args.task_loss != "cross_entropy":
            options[f"{args.task_loss}_weight"] = getattr(args, f"{args.task_loss}_weight")
        return options

    @classmethod
    def for_model(cls, task_net: PreTrainedModel) -> PixelSpace:
        return cls.made_for(task_net)

    @classmethod
    @abstractmethod
    def made_for(cls, task_net: PreTrainedModel, **options: Any) -> PixelSpace:
        """The space of this task-net's outputs."""

    def of(self, batch: dict[str, Tensor]) -> OutputSpace:
        """Raises ValueError for weights of images, which the pixel losses do not support."""
        if SAMPLE_WEIGHT in batch and self.loss is None:
            raise ValueError(f"The rows have a column `{SAMPLE_WEIGHT}`, which no task loss of masks reads. Remove it.")
        return super().of(batch)

    def weigh(self, weights: dict[str, Tensor]) -> None:
        if self.loss is not None:  # a user's own, which refuses them
            super().weigh(weights)
        self.class_weight = weights["class_weight"]

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
        """Labels (B, H, W) -> the gold as floats, (B, ...), 0 where a pixel does not count, and the mask (B, H, W)."""

    # --- drawing -----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, logits: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
        """Masks in which each pixel has each class with its probability, coherent as chosen; or, from perturbed inputs,
        the masks given to `proposing`. Float32 (B, K, ...)."""
        if self.samples_from_inputs:
            if self.propose is None:
                raise ValueError("sample_coherence='inputs' needs the task-net: call `space.proposing(...)` first.")
            return self.likeliest(self.propose(num_samples, generator))
        return self.drawn(self.relax(logits).unsqueeze(1), num_samples, generator)

    @abstractmethod
    def likeliest(self, logits: Tensor) -> Tensor:
        """The likeliest masks, of logits (B, K, ...) that went through `fit`: float32 (B, K, ...)."""

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
        """Compares masks by the pixels that count."""
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
        """(B, S, H, W) -> (B, S, patches down, size, patches across, size), padded with `fill` below and right."""
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
        """The mean of values (B, S, C) over the classes present in y; those of one class, (B, S), as they are."""

    def task_loss(self, logits: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Cross-entropy of the pixels that count plus weighted terms of whole masks, mean over images:

            Σ_i -w(y_i) log p_i(y_i) + w_iou (1 - soft IoU) + w_dice (1 - soft F1) + w_lovasz · Lovász

        The first term is summed over pixels and averaged over the batch, or it is the `mean` over the batch's pixels,
        with class weights the weighted mean, as torch's. 1 - soft IoU (Rahman & Wang 2016) and 1 - soft F1 (Dice;
        Milletari et al. 2016) are costs of the relaxed output; soft IoU is the score that a regression energy learns to
        predict. The Lovász extension ([`lovasz`]; for several classes Lovász-softmax, Berman et al. 2018) is another
        relaxation of 1 - IoU, with the mean over the classes present in each image. A user's own loss replaces all.
        Scalar.
        """
        if self.loss is not None:
            return self.loss(logits, labels, weight=self.sample_weight)
        return self.loss_of(logits, labels)

    def loss_of(self, logits: Tensor, labels: Tensor, gold_share: Tensor | float = 1.0) -> Tensor:
        """The task loss without a user's own. A mean over pixels is multiplied by `gold_share`, the share of the rows
        that have gold; all else is a mean over rows already."""
        gold, mask = self.gold(labels)
        logits, (weight, total) = self.fit(logits, labels), self._pixel_weights(labels, mask)
        scale = 1 / len(labels) if self.pixel_loss == "sum" else gold_share / total
        loss = scale * self.cross_entropy(logits, labels, weight)
        for name, of_term in self.term_weights.items():
            if of_term:
                loss = loss + of_term * self._term(name, self.relax(logits), gold, mask).mean()
        return loss

    @abstractmethod
    def cross_entropy(self, logits: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
        """Σ of weight (B, H, W), 0 where a pixel does not count, times the pixels' cross-entropy. Scalar."""

    def _term(self, name: str, y_hat: Tensor, gold: Tensor, mask: Tensor) -> Tensor:
        """A term of the task loss for each image: (B, 1)."""
        if name != "lovasz":
            return 1 - self.agreement(y_hat.unsqueeze(1), gold, {"soft_iou": "iou", "dice": "f1"}[name], mask)
        y_hat, y = (counted(values, mask).flatten(-2) for values in (y_hat, gold))
        return 1 - self.over_classes(1 - lovasz(y_hat, y).unsqueeze(1), gold)

    def _pixel_weights(self, labels: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The class weight of each pixel, 0 where it does not count, (B, H, W), and their sum, above 0."""
        if self.class_weight is None:
            return mask.float(), mask.sum().clamp_min(1)
        self.class_weight = self.class_weight.to(labels.device)  # moved once
        weight = self.class_weight[labels.masked_fill(~mask, 0)] * mask
        return weight, weight.sum().clamp_min(torch.finfo(weight.dtype).tiny)

    def balance(self, labels: Iterable[Tensor]) -> Tensor:
        """For `class_weight`: [`balanced_weights`] of the pixels that have a class, (C,)."""
        size = self.num_classes
        counts: Any = sum(torch.bincount(part[part < size].flatten().long(), minlength=size) for part in labels)
        return balanced_weights(counts)


def smoothing(size: int, length: float, device: torch.device | str = "cpu") -> Tensor:
    """A (size, size) with rows of unit norm, a_ij ∝ exp(-(i - j)² / ℓ²).

    For white noise N, A N Aᵀ has variance 1 everywhere. Its correlation between (i, j) and (k, l) is
    (A Aᵀ)_ik (A Aᵀ)_jl, which is exp(-d² / 2ℓ²) away from the edges and a little more near them.
    """
    steps = torch.arange(size, device=device, dtype=torch.float32)
    return F.normalize(torch.exp(-(((steps.unsqueeze(1) - steps) / length) ** 2)), dim=1)


def counted(values: Tensor, mask: Tensor | None) -> Tensor:
    """`values` (B, ..., H, W) with 0 where `mask` (B, H, W) is False."""
    if mask is None:
        return values
    return values.masked_fill(~mask.view(len(mask), *[1] * (values.dim() - 3), *mask.shape[1:]), 0)


def _spread(values: Tensor, size: int, shape: tuple[int, ...]) -> Tensor:
    """Copies each patch's value to its pixels."""
    return values.repeat_interleave(size, 2).repeat_interleave(size, 3)[:, :, : shape[0], : shape[1]]
