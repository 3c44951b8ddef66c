"""From probabilities to decisions, whichever model gives the probabilities. Everything here is on numpy arrays: nothing
imports torch or transformers. base.py says how decisions are fitted and chosen."""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from .estimator import DecidingClassifier

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
    "DecidingClassifier",
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


def __getattr__(name: str) -> Any:
    """The estimator; scikit-learn is imported when it is first used."""
    if name == "DecidingClassifier":
        from .estimator import DecidingClassifier

        return DecidingClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
