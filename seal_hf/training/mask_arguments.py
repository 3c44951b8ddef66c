"""The arguments of masks."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..core.task import choices


@dataclass
class MaskArguments:
    """The arguments that only masks read.

    Parameters that control masks (tasks/masks/pixels.py):
        pixel_loss (`str`, default `"sum"`): cross-entropy over pixels: `sum`, as over labels, or `mean`. Choose λ1 anew
            when you change it.
        soft_iou_weight (`float`, default 1.0): weight of 1 - soft IoU in the task loss `soft_iou`.
        dice_weight (`float`, default 1.0): weight of 1 - soft F1 in the task loss `dice`.
        lovasz_weight (`float`, default 1.0): weight of the Lovász extension of 1 - IoU in the task loss `lovasz`.
        sample_coherence (`str`, default `"none"`): dependence between the pixels of a sample: `none`; `field`, a smooth
            random field; `patches`, one draw for all pixels of a patch. Each pixel keeps its probabilities. `inputs`:
            samples are the task-net's own masks for noisy copies of the image, with new dropout; nothing is drawn.
        coherence_size (`int`, default 4): scale of the field, or side of a patch, in pixels.
        independent_share (`float`, default 0.1): share of patches whose pixels are independent.
        input_noise_std (`float`, default 0.1): standard deviation of the noise of `inputs`, in the pixel units of the
            task-net; the FCN's range is 0 to 1.
    """

    pixel_loss: str = field(
        default="sum", metadata={"help": f"Over the pixels of a mask: {', '.join(choices()['pixel_loss'])}."}
    )
    soft_iou_weight: float = field(default=1.0, metadata={"help": "Weight of 1 - soft IoU in the loss soft_iou."})
    dice_weight: float = field(default=1.0, metadata={"help": "Weight of 1 - soft F1 in the loss dice."})
    lovasz_weight: float = field(default=1.0, metadata={"help": "Weight of the Lovász extension in the loss lovasz."})
    sample_coherence: str = field(
        default="none", metadata={"help": f"Samples of masks: {', '.join(choices()['sample_coherence'])}."}
    )
    coherence_size: int = field(default=4, metadata={"help": "Scale of the field or side of a patch, in pixels."})
    independent_share: float = field(default=0.1, metadata={"help": "Share of patches with independent pixels."})
    input_noise_std: float = field(
        default=0.1, metadata={"help": "Standard deviation of noise on inputs, in pixel units."}
    )
