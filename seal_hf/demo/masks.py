"""Masks of images on the page; here those of two classes, in `class_masks.py` those of several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..cli.outputs.masks import MaskOutput
from ..data.image_files import IMAGE_SUFFIXES
from ..decisions import MaskDecisions
from . import markup
from .limits import image_of
from .views import View, image_field

if TYPE_CHECKING:
    from gradio.components import Component

COLOUR, OPACITY = (235, 64, 52), 0.45  # of the mask over the image
SMALLEST = 320  # pixels of the longer side; smaller images are enlarged
CUTS = (0.3, 0.5, 0.7)  # thresholds of the masks beside the decided one
CAPTION = "The decided mask and those at other thresholds. Energies are those of the loss-net, lower is better."


class MaskView(View):
    """The mask over the image, the probabilities as grey values, and energies."""

    what: ClassVar[str] = "masks of images"
    one: ClassVar[str] = "One image"
    many: ClassVar[str] = "Several images"
    unit: ClassVar[str] = "image"
    files = (*IMAGE_SUFFIXES, ".npz")
    several: ClassVar[bool] = True
    shown: ClassVar[int] = 24
    kind: MaskOutput

    @property
    def decisions(self) -> MaskDecisions:
        return MaskDecisions.from_config(SimpleNamespace(**self.kind.config))

    @property
    def decoders(self) -> Sequence[str]:
        return self.decisions.names

    @property
    def stored(self) -> str:
        return self.decisions.decoder

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
    """An image (H, W, 3) with its mask (H, W) of 0 and 1 in colour over it, uint8."""
    weight = OPACITY * mask[..., None]
    return (image * (1 - weight) + np.array(COLOUR) * weight).round().astype(np.uint8)


def enlarged(image: np.ndarray) -> np.ndarray:
    """A small image with each pixel as a square, so that it can be seen."""
    factor = max(1, SMALLEST // max(image.shape[:2]))
    return image.repeat(factor, 0).repeat(factor, 1)
