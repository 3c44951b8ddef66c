"""Output spaces: everything the method must know about one kind of structured output.

A space turns logits into relaxed structures, and draws and scores candidates, so that the algorithm, the energies and
the energy losses need not know about label sets, tag sequences or masks. All methods are vectorised over the batch B
and the candidates S. Nothing loops over examples. In training three things wait for the device: the sizes of sparse
label sets, the pieces of masks for the rule `connected`, and rewards that are Python functions.

A new one is a file here and its class in `SPACES`, then an energy that reads its structures (`energies/`), a
[`SealModel`] that builds both nets (`models/`), by whose name messages call it (`model_name`). What people read of
it has its own rooms: decisions (`decisions/`), figures (`metrics/`), files and the model card (`reports/`).
"""

from __future__ import annotations

from .base import SAMPLE_WEIGHT, OutputSpace
from .masks import BinaryMaskSpace, MaskSpace, mask_space
from .multilabel import SPARSE_FROM, UNKNOWN, MultiLabelSpace
from .pixels import PixelSpace
from .rewarded import (
    REWARD_CODES,
    RewardBinaryMaskSpace,
    RewardLabelSpace,
    RewardMaskSpace,
    RewardTagSpace,
    reward_space,
)
from .tags import TAG_SCORES, TagSequenceSpace

SPACES: dict[str, type[OutputSpace]] = {
    space.name: space for space in (MultiLabelSpace, TagSequenceSpace, BinaryMaskSpace, MaskSpace)
}
COSTS = tuple(dict.fromkeys(cost for space in SPACES.values() for cost in space.costs))  # of any space

__all__ = [
    "COSTS",
    "REWARD_CODES",
    "SAMPLE_WEIGHT",
    "SPACES",
    "SPARSE_FROM",
    "TAG_SCORES",
    "UNKNOWN",
    "BinaryMaskSpace",
    "MaskSpace",
    "MultiLabelSpace",
    "OutputSpace",
    "PixelSpace",
    "RewardBinaryMaskSpace",
    "RewardLabelSpace",
    "RewardMaskSpace",
    "RewardTagSpace",
    "TagSequenceSpace",
    "mask_space",
    "reward_space",
]
