"""The names of figures for readers, by kind of output."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.space import OutputSpace
from ..core.trees import has_trees
from .labels import report as multilabel
from .masks import report as class_masks
from .masks import report as masks
from .masks.pixels import PixelSpace
from .masks.space import MaskSpace
from .tags import report as tags
from .tags.space import TagSequenceSpace
from .trees import report as trees


def figure_names(space: OutputSpace) -> Mapping[str, str]:
    """Key of a figure, without its split -> its name for readers, of all figures of a kind of output."""
    if isinstance(space, PixelSpace):
        return class_masks.CLASS_FIGURES if isinstance(space, MaskSpace) else masks.FIGURES
    if isinstance(space, TagSequenceSpace):
        return trees.FIGURES if has_trees(space.label_names) else tags.FIGURES
    return multilabel.FIGURES
