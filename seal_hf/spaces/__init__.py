"""Output spaces: everything the method must know about one kind of structured output.

A space turns logits into relaxed structures, draws and scores candidates, and is the only place that knows whether the
output is a label set, a tag sequence or a mask. Energies and energy losses are generic over spaces. All methods are
pure tensor functions, vectorised over the batch B and the candidates S; nothing loops over examples and nothing
synchronises with the device. A new one is a file here and its class in `SPACES`.
"""

from __future__ import annotations

from .base import OutputSpace
from .masks import BinaryMaskSpace
from .multilabel import SPARSE_FROM, MultiLabelSpace
from .rewarded import REWARD_CODES, RewardSpace
from .tags import TAG_SCORES, TagSequenceSpace

SPACES: dict[str, type[OutputSpace]] = {
    space.name: space for space in (MultiLabelSpace, TagSequenceSpace, BinaryMaskSpace)
}
COSTS = tuple(dict.fromkeys(cost for space in SPACES.values() for cost in space.costs))  # of any space

__all__ = [
    "COSTS",
    "REWARD_CODES",
    "SPACES",
    "SPARSE_FROM",
    "TAG_SCORES",
    "BinaryMaskSpace",
    "MultiLabelSpace",
    "OutputSpace",
    "RewardSpace",
    "TagSequenceSpace",
]
