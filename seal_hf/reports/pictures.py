"""Pictures of images and masks, side by side."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

import numpy as np


def check_picture(count: int) -> None:
    """Raises ValueError if pictures are asked for, but matplotlib is missing."""
    if count and importlib.util.find_spec("matplotlib") is None:
        raise ValueError("`picture` needs matplotlib: pip install 'seal_hf[plot]'.")


def draw_layers(
    path: str | Path, layers: Mapping[str, np.ndarray], legend: Mapping[str, np.ndarray] | None = None
) -> None:
    """A picture with a row for each layer and a column for each of its N images.

    Args:
        layers: name -> (N, H, W, 3) in colour, or (N, H, W) in grey, from 0 to 1.
        legend: name -> colour (3,), from 0 to 1.

    Raises:
        ValueError: matplotlib is missing.
    """
    check_picture(1)
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    count = min(map(len, layers.values()))
    figure = Figure(figsize=(1.2 * count + 1, 1.2 * len(layers)), layout="constrained")
    axes = figure.subplots(len(layers), count, squeeze=False)
    for row, (name, layer) in zip(axes, layers.items(), strict=True):
        row[0].set_ylabel(name)
        for axis, picture in zip(row, layer, strict=True):
            axis.imshow(picture, cmap="gray", vmin=0, vmax=1 if picture.ndim == 2 else None)
            axis.set_xticks([])
            axis.set_yticks([])
    if legend:
        patches = [Patch(facecolor=tuple(colour), edgecolor="black", label=name) for name, colour in legend.items()]
        figure.legend(handles=patches, loc="outside lower center", ncols=max(2, count), fontsize="small")
    figure.savefig(path, dpi=150)
