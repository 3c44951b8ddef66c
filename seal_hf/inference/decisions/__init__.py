"""How a task-net's outputs become decisions; see base.py."""

from .base import FIXED, FOLDABLE, THRESHOLD, Decisions, as_threshold
from .labels import CALIBRATED_CLOSED, CLOSED, NEVER_EMPTY, SEEN, SEEN_F1, LabelDecisions
from .masks import ClassMaskDecisions, MaskDecisions
from .tags import TagDecisions

DECISIONS: dict[str, type[Decisions]] = {  # by the name of the output space
    "multi_label": LabelDecisions,
    "tag_sequence": TagDecisions,
    "binary_mask": MaskDecisions,
    "masks": ClassMaskDecisions,
}

__all__ = [
    "CALIBRATED_CLOSED",
    "CLOSED",
    "DECISIONS",
    "FIXED",
    "FOLDABLE",
    "NEVER_EMPTY",
    "SEEN",
    "SEEN_F1",
    "THRESHOLD",
    "ClassMaskDecisions",
    "Decisions",
    "LabelDecisions",
    "MaskDecisions",
    "TagDecisions",
    "as_threshold",
]
