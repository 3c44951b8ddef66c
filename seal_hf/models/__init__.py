"""Task-net and loss-net together, one class per kind of output."""

from ..nets.encoders import MLPConfig
from .base import SealModel
from .kinds import KINDS, kind_of
from .masks import SealForSegmentation
from .multilabel import MLPForMultiLabel, SealForMultiLabel
from .tokens import SealForTokenClassification, is_bilstm

__all__ = [
    "KINDS",
    "MLPConfig",
    "MLPForMultiLabel",
    "SealForMultiLabel",
    "SealForSegmentation",
    "SealForTokenClassification",
    "SealModel",
    "is_bilstm",
    "kind_of",
]
