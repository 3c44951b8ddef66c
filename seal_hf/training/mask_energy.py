"""An energy network of masks on its own: gradient-based inference on crops, averaged (Gygli et al. 2017, §5.2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..data.tensors.crops import check_crop_size, crop_averaged
from .energy_trainer import EnergyTrainer


class MaskEnergyTrainer(EnergyTrainer):
    """An [`EnergyTrainer`] whose energy network has been trained on crops, and sees crops at prediction too: a mask is
    inferred for each crop of an image, and their average is the image's.

    Args:
        crop_size: pixels a side, as of the training rows ([`MaskRows`]); None: inference on whole images.
        crop_offsets: where crops begin, or how many there are along a side, see [`crop_offsets`]; the papers' six, the
            default, make 36 crops of an image, each with an inference of its own. Two cover 32 pixels at a ninth of
            the time.
        args, kwargs: as of `EnergyTrainer`.

    Raises:
        ValueError: a `crop_size` below 1; or as `EnergyTrainer`.

    `eval_loss` compares the energies of averaged and gold mask on the whole image, which the network sees at another
    scale than crops.
    """

    def __init__(self, *args, crop_size: int | None = None, crop_offsets: Sequence[int] | int | None = None, **kwargs):
        super().__init__(*args, **kwargs)
        if crop_size is not None:
            check_crop_size(crop_size)
        self.crop_size, self.crop_offsets = crop_size, crop_offsets

    @torch.no_grad()
    def infer(self, x: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """As of `EnergyTrainer`: ŷ (B, 1, H, W), and the images, which are what the energy reads."""
        name = self.model.energy.reads
        if self.crop_size is None or max(x[name].shape[-2:]) <= self.crop_size:
            return super().infer(x)

        def forward(crops: Tensor) -> Tensor:
            return self.space.logits(super(MaskEnergyTrainer, self).infer({**x, name: crops})[0])

        averaged = crop_averaged(forward, x[name], self.crop_size, self.crop_offsets)
        return self.space.relax(averaged).unsqueeze(1), self.model.encode(x)
