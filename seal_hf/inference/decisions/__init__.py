"""How a task-net's outputs become decisions; see base.py."""

from .base import FIXED, FOLDABLE, THRESHOLD, Decisions, as_threshold
from .labels import NEVER_EMPTY, LabelDecisions
from .masks import MaskDecisions
from .tags import TagDecisions

__all__ = [
    "FIXED",
    "FOLDABLE",
    "NEVER_EMPTY",
    "THRESHOLD",
    "Decisions",
    "LabelDecisions",
    "MaskDecisions",
    "TagDecisions",
    "as_threshold",
]
