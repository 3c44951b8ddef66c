"""Model cards of masks: code that loads the net, how decoders decide, in words, and a card for each kind of net."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.decisions import FIXED, THRESHOLD
from ...core.masks import palette
from ...core.space import OutputSpace
from ...reports.card_kinds import CardKind, cut_in_words
from .decisions import ClassMaskDecisions, MaskDecisions
from .evaluation import BASELINES, CLASS_FIGURES, FIGURES, class_ious
from .fcn import FCNConfig
from .space import MaskSpace

IMAGES = """\
from transformers import pipeline

segment = pipeline("image-segmentation", $name)
masks = {part["label"]: part["mask"] for part in segment("image.png")}  # PIL images: 255 for pixels with the label
"""
IMAGES_FCN = "import seal_hf  # registers the FCN with the Auto classes\n" + IMAGES
SEAL_IMAGES = """\
from seal_hf import SealForSegmentation

model = SealForSegmentation.from_pretrained($name, with_loss_net=False)
probabilities, masks = model.predict(["image.png"])
mask = masks[0]  # (height, width): 1 for pixels with label 1 of the table below
"""


def _decided_figures(decoder: str) -> list[str]:
    tuned = [key for key in FIGURES if key.endswith("_tuned")]
    return tuned if decoder == THRESHOLD else [key.removesuffix("_tuned") for key in tuned]


OF_MASKS: dict[str, Any] = {
    "seal": SEAL_IMAGES,
    "plainly": "A `transformers` pipeline gives each pixel its likelier class: a threshold of 0.5.",
    "pipeline_tag": "image-segmentation",
    "task": "binary image segmentation",
    "figures": FIGURES,
    "decided": _decided_figures,
    "baselines": BASELINES,
    "decisions": MaskDecisions,
    "in_words": lambda name, decisions: cut_in_words("A pixel is foreground", name, decisions),
    "unit": "image",
    "files": ("images", "masks"),
}
OF_CLASS_MASKS: dict[str, Any] = OF_MASKS | {
    "plainly": "",
    "task": "semantic segmentation",
    "figures": CLASS_FIGURES,
    "decided": lambda decoder: ["mean_iou", "pixel_accuracy"],
    "decisions": ClassMaskDecisions,
    "in_words": lambda name, decisions: "A pixel gets its likeliest class.",
}

CARDS = {
    "images": CardKind({FIXED: IMAGES}, **OF_MASKS),
    "images_fcn": CardKind({FIXED: IMAGES_FCN}, is_ours=True, **OF_MASKS),
    "class_images": CardKind({FIXED: IMAGES}, **OF_CLASS_MASKS),
    "class_images_fcn": CardKind({FIXED: IMAGES_FCN}, is_ours=True, **OF_CLASS_MASKS),
}


def card_of(model: Any, space: OutputSpace, library: str | None) -> str:
    """The key in `CARDS` for a task-net, see `Task.card_of`."""
    of_classes = "class_" if isinstance(space, MaskSpace) else ""
    return of_classes + ("images_fcn" if model.config.model_type == FCNConfig.model_type else "images")


def label_columns(space: OutputSpace, metrics: Mapping[str, float], names: Sequence[str]) -> dict[str, list[str]]:
    """For masks of several classes, the colour of each class and its IoU."""
    if not isinstance(space, MaskSpace):
        return {}
    colours = ["#" + bytes(colour).hex() for colour in palette()[: len(names)]]
    columns = {"colour": [f'<span style="color:{colour}">&#9632;</span> `{colour}`' for colour in colours]}
    for title, split in (("IoU, validation", "eval"), ("IoU, test", "test")):
        ious = class_ious(metrics, split, names)
        if not all(map(math.isnan, ious)):
            columns[title] = ["-" if math.isnan(value) else f"{value:.4f}" for value in ious]
    return columns
