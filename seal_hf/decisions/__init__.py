"""From probabilities to decisions, whichever model gives the probabilities. Everything here is on numpy arrays: nothing
imports torch or transformers. base.py says how decisions are fitted and chosen."""

from .base import FIXED, FOLDABLE, THRESHOLD, Decisions, as_threshold
from .closed_sets import decode_closed_f1
from .decoders import (
    constant_probabilities,
    decode_expected_f1,
    platt_scaling,
    rescaled,
    thresholds_of_label_f1,
    tune_thresholds_per_label,
)
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
    "constant_probabilities",
    "decode_closed_f1",
    "decode_expected_f1",
    "platt_scaling",
    "rescaled",
    "thresholds_of_label_f1",
    "tune_thresholds_per_label",
]
