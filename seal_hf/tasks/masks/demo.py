"""Masks of images on the page; those of two classes, then those of several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from ...core.decisions import Decisions
from ...core.masks import palette
from ...data.image_files import IMAGE_SUFFIXES
from ...lab.demo import markup
from ...lab.demo.files import image_of
from ...lab.demo.views import ALTERNATIVES, IMAGES, View, image_field
from ...saving.batches import image_batches
from .decisions import ClassMaskDecisions, MaskDecisions
from .files import ClassMaskOutput, MaskOutput

if TYPE_CHECKING:
    from gradio.components import Component

COLOUR, OPACITY = (235, 64, 52), 0.45  # of the mask over the image
SMALLEST = 320  # pixels of the longer side; smaller images are enlarged
CUTS = (0.3, 0.5, 0.7)  # thresholds of the masks beside the decided one
CAPTION = "The decided mask and those at other thresholds. Energies are those of the loss-net, lower is better."


class MaskView(View):
    """The mask over the image, the probabilities as grey values, and energies."""

    what: ClassVar[str] = "masks of images"
    decided_by: type[Decisions] = MaskDecisions
    one: ClassVar[str] = "One image"
    many: ClassVar[str] = "Several images"
    unit: ClassVar[str] = "image"
    files = (*IMAGE_SUFFIXES, ".npz")
    several: ClassVar[bool] = True
    shown: ClassVar[int] = 24
    examples = IMAGES
    kind: MaskOutput

    def threshold_of(self, decoder: str) -> float | None:
        return self.decisions.cut(decoder)

    def inputs(self) -> list[Component]:
        return [image_field()]

    def outputs(self) -> list[Component]:
        import gradio as gr

        looks: dict[str, Any] = {"format": "png", "interactive": False, "buttons": ["download", "fullscreen"]}
        with gr.Row():
            shown = [gr.Image(label=label, min_width=160, **looks) for label in ("Mask", "Probability")]
        return [*shown, gr.HTML(apply_default_css=False)]

    def read(self, *values: Any) -> np.ndarray:
        return image_of(values[0])

    def answer(self, given: np.ndarray, decoder: str) -> list[Any]:
        ((probability, mask),) = self.under(decoder).predicted([given])
        grey = (255 * probability).round().astype(np.uint8)
        said = f"{markup.percent(mask.mean())} of {mask.size:,} pixels are foreground, at a threshold of "
        parts = [markup.note(f"{said}{self.decisions.cut(decoder):g}.")]
        if self.has_energies:
            parts.append(markup.energies(self.alternatives(given, decoder, probability), "foreground", CAPTION))
        return [enlarged(overlaid(given, mask)), enlarged(grey), markup.answer(*parts)]

    def alternatives(self, given: np.ndarray, decoder: str, probability: np.ndarray) -> list[markup.Alternative]:
        """The decided mask, then those at other thresholds, with the share of foreground pixels."""
        decided = self.decisions.cut(decoder)
        return [
            markup.Alternative(
                f"threshold {cut:g}",
                float((probability.astype(np.float64) >= cut).mean()),
                self.under(str(cut)).energies([given])[0],
                decided=cut == decided,
            )
            for cut in (decided, *(cut for cut in CUTS if cut != decided))
        ]

    # --- files -------------------------------------------------------------------------------------------------------

    def output_suffix(self, path: Path) -> str:
        return ""

    def preview(self) -> Component:
        import gradio as gr

        return gr.Gallery(label="Masks", format="png", columns=4, height="auto", object_fit="contain", buttons=[])

    def previewed(self, rows: Sequence[dict[str, Any]], inputs: Sequence[Any]) -> Any:
        return [(enlarged(overlaid(image, row["mask"])), row["name"]) for row, image in zip(rows, inputs, strict=True)]


def overlaid(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """An image (H, W, 3), uint8, with its mask (H, W) of 0 and 1 drawn over it in colour."""
    weight = OPACITY * mask[..., None]
    return (image * (1 - weight) + np.array(COLOUR) * weight).round().astype(np.uint8)


def enlarged(image: np.ndarray) -> np.ndarray:
    """A small image, enlarged so that each pixel is a square that can be seen."""
    factor = max(1, SMALLEST // max(image.shape[:2]))
    return image.repeat(factor, 0).repeat(factor, 1)


# Masks of several classes on the page.

CLASS_OPACITY = 0.55  # of the classes over the image
CLASS_CAPTION = (
    "The decided mask, and masks in which a class gives its pixels to the next likeliest class. Energies are those of "
    "the loss-net, lower is better."
)


class ClassMaskView(MaskView):
    """The classes in colour over the image, with a legend; the probability of the decided class as grey values."""

    what: ClassVar[str] = "masks of several classes"
    decided_by = ClassMaskDecisions
    cuts: ClassVar[bool] = False
    kind: ClassMaskOutput

    def threshold_of(self, decoder: str) -> None:
        return None

    @property
    def names(self) -> list[str]:
        """The names of the classes."""
        named = {int(i): name for i, name in self.kind.config["id2label"].items()}
        return [named[i] for i in sorted(named)]

    def answer(self, given: np.ndarray, decoder: str) -> list[Any]:
        ((probabilities, mask),) = self.kind.predicted([given])
        grey = (255 * self.kind.of_decided(probabilities)).round().astype(np.uint8)
        there, colours = shares(mask), palette()
        parts = [markup.legend([(self.names[i], bytes(colours[i]).hex(), share) for i, share in there.items()])]
        if self.has_energies:
            parts.append(markup.energies(self.given_up(given, list(there)), "pixels", CLASS_CAPTION))
        return [enlarged(coloured(given, mask)), enlarged(grey), markup.answer(*parts)]

    @torch.no_grad()
    def given_up(self, given: np.ndarray, classes: Sequence[int]) -> list[markup.Alternative]:
        """The decided mask, and masks in which one of its largest classes gives its pixels to the next likeliest class.
        They have the size that the nets read. Each has the share of pixels that keep their class, and its energy."""
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
    """An image (H, W, 3), uint8, with the colours of its mask (H, W) of class ids drawn over it."""
    return (image * (1 - CLASS_OPACITY) + palette()[mask] * CLASS_OPACITY).round().astype(np.uint8)
