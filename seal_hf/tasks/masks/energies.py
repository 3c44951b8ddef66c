"""The convolutional energy over an image and a mask (deep value network, Gygli et al. 2017; SEAL, appendix B.3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...core.energy import Energy

CELLS = 6  # the last feature map is CELLS x CELLS: a 24 x 24 input after two strides of 2


class GridEnergy(Energy):
    """E(x, y) = -v(x, y): one convolutional net over image and mask as channels, without a local and a global part.

    Three 5 x 5 convolutions with strides 1, 2 and 2 (64, 128, 128 channels), then linear layers 4608 -> 384 -> 192 ->
    1; ReLU between all layers, dropout after the first linear one. With the default `width` these are the authors'
    sizes.

    The first convolution is linear, so W * [x, y] = W_x * x + W_y * y: the image's part is computed once per input and
    added to the part of each of the S candidates. It is 5 % of the net's work at 24 x 24, and the image is not copied
    per candidate.

    The linear layers are made for 24 x 24 pixels, the papers' crops. For other sizes the last feature map is averaged
    to 6 x 6 cells first: positions are then coarser, and a net trained on crops sees larger images at another scale.

    Args:
        channels: number of the image's channels.
        dropout: rate in [0, 1).
        width: channels of the first convolution, >= 1; the others have twice as many.
        mask_channels: 1, or C for masks of C classes, see [`ClassGridEnergy`].
    """

    space = "binary_mask"
    pooled = False
    reads = "pixel_values"  # the input itself, without an encoder

    @classmethod
    def from_config(cls, config: Any, feature_size: int) -> GridEnergy:
        """The energy of a [`LossNetConfig`]. `feature_size` is not used, since it computes its own features."""
        return cls(**(config.energy_options or {}))

    def __init__(self, channels: int = 3, dropout: float = 0.25, width: int = 64, mask_channels: int = 1):
        super().__init__()
        self.mask_channels = mask_channels
        self.from_image = nn.Conv2d(channels, width, 5, padding=2)
        self.from_mask = nn.Conv2d(mask_channels, width, 5, padding=2, bias=False)
        self.convolutions = nn.Sequential(
            nn.Conv2d(width, 2 * width, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 5, stride=2, padding=2),
            nn.ReLU(),
        )
        self.linear = nn.Sequential(
            nn.Linear(2 * width * CELLS**2, 384),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(384, 192),
            nn.ReLU(),
            nn.Linear(192, 1),
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise as PyTorch does, the authors' choice. The two parts of the first layer are initialised as one
        convolution."""
        bound = 1 / math.sqrt((self.from_image.in_channels + self.mask_channels) * 5 * 5)
        assert self.from_image.bias is not None
        for parameter in (self.from_image.weight, self.from_image.bias, self.from_mask.weight):
            nn.init.uniform_(parameter, -bound, bound)
        for layer in (*self.convolutions, *self.linear):
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()

    def forward(self, features: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Images `features` (B, 3, H, W), masks y (B, S, H, W), or of several classes (B, S, C, H, W), in [0, 1] ->
        energies (B, S). Pixels outside `mask` (B, H, W) are 0 in every candidate.

        Raises:
            ValueError: images or masks have other shapes.
        """
        self._check_shapes(features, y)
        return self._energies(self.from_image(features), y, mask)

    def at(self, features: Tensor, mask: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        """As in `Energy`. The image's part of the first convolution is computed once."""
        with torch.no_grad():
            seen = self.from_image(features)

        def energies(y: Tensor) -> Tensor:
            self._check_shapes(features, y)
            return self._energies(seen, y, mask)

        return energies

    def _energies(self, seen: Tensor, y: Tensor, mask: Tensor | None) -> Tensor:
        """The energies, given `seen`, the image's part of the first layer, (B, width, H, W)."""
        size = y.shape[-2:]
        if mask is not None:
            y = y.masked_fill(~mask.view(len(mask), *[1] * (y.dim() - 3), *size), 0)
        drawn = self.from_mask(y.reshape(-1, self.mask_channels, *size))  # (B S, width, H, W)
        hidden = seen.unsqueeze(1) + drawn.unflatten(0, y.shape[:2])  # (B, S, width, H, W)
        hidden = F.relu(hidden).flatten(0, 1).contiguous(memory_format=torch.channels_last)  # faster convolutions
        hidden = self.convolutions(hidden)  # (B S, 2 width, H/4, W/4)
        if hidden.shape[-2:] != (CELLS, CELLS):
            hidden = F.adaptive_avg_pool2d(hidden, CELLS)
        return -self.linear(hidden.flatten(1)).view(y.shape[:2])

    def _check_shapes(self, images: Tensor, y: Tensor) -> None:
        _check_shapes(images, y)


class ClassGridEnergy(GridEnergy):
    """The [`GridEnergy`] of masks of C classes: the mask is C channels beside the image's, one for each class."""

    space = "masks"

    @classmethod
    def from_config(cls, config: Any, feature_size: int) -> ClassGridEnergy:
        return cls(mask_channels=config.num_labels, **(config.energy_options or {}))

    def _check_shapes(self, images: Tensor, y: Tensor) -> None:
        _check_shapes(images, y, self.mask_channels)


def _check_shapes(images: Tensor, y: Tensor, *classes: int) -> None:
    if images.dim() != 4 or (*y.shape[:1], *y.shape[2:]) != (len(images), *classes, *images.shape[2:]):
        raise ValueError(
            f"The images have shape {tuple(images.shape)} and the candidates {tuple(y.shape)}; expected (batch, "
            f"channels, height, width) and (batch, candidates, {''.join(f'{size} classes, ' for size in classes)}"
            "height, width): masks have the size of their images."
        )
