"""The names of figures for readers, by kind of output."""

from __future__ import annotations

from collections.abc import Mapping

from ..spaces import MaskSpace, OutputSpace, PixelSpace, TagSequenceSpace
from ..structures.trees import has_trees
from . import class_masks, masks, multilabel, tags, trees


def figure_names(space: OutputSpace) -> Mapping[str, str]:
    """Key of a figure, without its split -> its name for readers, of all figures of a kind of output."""
    if isinstance(space, PixelSpace):
        return class_masks.CLASS_FIGURES if isinstance(space, MaskSpace) else masks.FIGURES
    if isinstance(space, TagSequenceSpace):
        return trees.FIGURES if has_trees(space.label_names) else tags.FIGURES
    return multilabel.FIGURES
