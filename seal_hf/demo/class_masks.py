"""Masks of several classes on the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from ..cli.outputs.class_masks import ClassMaskOutput
from ..decisions import FIXED
from ..models.batches import image_batches
from ..structures.masks import palette
from . import markup
from .masks import MaskView, enlarged
from .views import ALTERNATIVES

OPACITY = 0.55  # of the classes over the image
CAPTION = (
    "The decided mask, and masks in which a class gives its pixels to the next likeliest class. Energies are those of "
    "the loss-net, lower is better."
)


class ClassMaskView(MaskView):
    """The classes in colour over the image, with a legend; the probability of the decided class as grey values."""

    what: ClassVar[str] = "masks of several classes"
    cuts: ClassVar[bool] = False
    kind: ClassMaskOutput

    @property
    def decoders(self) -> Sequence[str]:
        return (FIXED,)

    @property
    def stored(self) -> str:
        return FIXED

    def threshold_of(self, decoder: str) -> None:
        return None

    @property
    def names(self) -> list[str]:
        """Of the classes."""
        named = {int(i): name for i, name in self.kind.config["id2label"].items()}
        return [named[i] for i in sorted(named)]

    def answer(self, given: np.ndarray, decoder: str) -> list[Any]:
        ((probabilities, mask),) = self.kind.predicted([given])
        grey = (255 * self.kind.of_decided(probabilities)).round().astype(np.uint8)
        there, colours = shares(mask), palette()
        parts = [markup.legend([(self.names[i], bytes(colours[i]).hex(), share) for i, share in there.items()])]
        if self.has_energies:
            parts.append(markup.energies(self.given_up(given, list(there)), "pixels", CAPTION))
        return [enlarged(coloured(given, mask)), enlarged(grey), markup.answer(*parts)]

    @torch.no_grad()
    def given_up(self, given: np.ndarray, classes: Sequence[int]) -> list[markup.Alternative]:
        """The decided mask, then those without one of its largest classes, at the size that the nets read, with the
        share of pixels that keep their class."""
        model, space = self.kind.model, self.kind.model.space
        ((pixels, _),) = image_batches([given], model.processor, 1)
        pixels = pixels.to(model.task_net.device)
        relaxed, decided = model.predict(pixel_values=pixels)
        found = []
        for i in (None, *classes[:ALTERNATIVES]):
            mask = decided
            if i is not None:
                others = relaxed.clone()
                others[:, i] = -1
                mask = others.argmax(1)
            energy = model.energy(space.gold(mask)[0], pixel_values=pixels).item()
            kept = (mask == decided).double().mean().item()
            what = "decided" if i is None else f"without {self.names[i]}"
            found.append(markup.Alternative(what, kept, energy, decided=i is None))
        return found

    def previewed(self, rows: Sequence[dict[str, Any]], inputs: Sequence[Any]) -> Any:
        return [(enlarged(coloured(image, row["mask"])), row["name"]) for row, image in zip(rows, inputs, strict=True)]


def shares(mask: np.ndarray) -> dict[int, float]:
    """The classes of a mask (H, W) with their shares of the pixels, the largest first."""
    counts = np.bincount(mask.ravel())
    order = [int(i) for i in np.argsort(-counts, kind="stable") if counts[i]]
    return {i: float(counts[i] / mask.size) for i in order}


def coloured(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """An image (H, W, 3) with the colours of its mask (H, W) of class ids over it, uint8."""
    return (image * (1 - OPACITY) + palette()[mask] * OPACITY).round().astype(np.uint8)
