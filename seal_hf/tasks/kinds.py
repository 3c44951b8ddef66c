"""The kind of output that a task-net has."""

from __future__ import annotations

from itertools import chain

from transformers import PreTrainedModel

from ..core.space import OutputSpace
from ..saving.model import SealModel
from ..utils.modules import without_wrapper
from .labels.model import SealForMultiLabel
from .masks.model import SealForSegmentation, check_logit_map
from .tags.model import SealForTokenClassification

KINDS: tuple[type[SealModel], ...] = (SealForMultiLabel, SealForTokenClassification, SealForSegmentation)
LABEL_SET_HEADS = ("ForSequenceClassification", "ForImageClassification", "ForMultiLabel")


def kind_of(model: SealModel | PreTrainedModel, space: OutputSpace | None = None) -> type[SealModel] | None:
    """The [`SealModel`] class for a task-net: that of `space`, or else the one that the name of the task-net's class
    and its `config.problem_type` imply; None if they do not."""
    if isinstance(model, SealModel):
        return type(model)
    if space is not None:
        return next((kind for kind in KINDS if isinstance(space, kind.space_class)), None)
    name = type(without_wrapper(model)).__name__
    check_logit_map("`model`", name)
    named = (kind for kind in KINDS if name.endswith(kind.space_class.head or LABEL_SET_HEADS))
    problem_type = getattr(getattr(model, "config", None), "problem_type", None)
    typed = (kind for kind in KINDS if problem_type and kind.space_class.problem_type == problem_type)
    return next(chain(named, typed), None)
