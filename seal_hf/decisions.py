"""From probabilities to decisions, whichever model gives the probabilities. Everything here is on numpy arrays: nothing
imports torch or transformers. `core/decisions.py` says how decisions are fitted and chosen, and the `decisions` of each
task have its decoders."""

from typing import TYPE_CHECKING, Any

from .core.decisions import FIXED, FOLDABLE, THRESHOLD, Decisions, as_threshold
from .core.task import DECISIONS
from .tasks.labels.decisions.decoders import decode_expected_f1, rescaled
from .tasks.labels.decisions.fitting import (
    platt_scaling,
    thresholds_of_label_f1,
)
from .tasks.labels.decisions.label_decisions import (
    CALIBRATED_CLOSED,
    CLOSED,
    NEVER_EMPTY,
    SEEN,
    SEEN_F1,
    LabelDecisions,
)
from .tasks.masks.decisions import ClassMaskDecisions, MaskDecisions
from .tasks.tags.decisions import TagDecisions

if TYPE_CHECKING:
    from .tasks.labels.decisions.estimator import DecidingClassifier

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
    "decode_expected_f1",
    "platt_scaling",
    "rescaled",
    "thresholds_of_label_f1",
]


def __getattr__(name: str) -> Any:
    """The estimator; scikit-learn is imported when it is first used."""
    if name == "DecidingClassifier":
        from .tasks.labels.decisions.estimator import DecidingClassifier

        return DecidingClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
