"""Output spaces: everything the method must know about one kind of structured output.

A space turns logits into relaxed structures, and draws and scores candidates, so that the algorithm, the energies and
the energy losses need not know about label sets, tag sequences or masks. All methods are vectorised over the batch B
and the candidates S. Nothing loops over examples. In training three things wait for the device: the sizes of sparse
label sets, the pieces of masks for the rule `connected`, and rewards that are Python functions.

A new one is a folder of `tasks/`, whose `space.py` has the class for `SPACES`. Beside it stand an energy that reads its
structures (`energies.py`), a [`SealModel`] that builds both nets (`model.py`), by whose name messages call it
(`model_name`), its metrics, its report and its part of the model card.
"""

from __future__ import annotations

from ..core.space import OutputSpace
from .labels.space import MultiLabelSpace
from .masks.space import BinaryMaskSpace, MaskSpace
from .tags.space import TagSequenceSpace

SPACES: dict[str, type[OutputSpace]] = {
    space.name: space for space in (MultiLabelSpace, TagSequenceSpace, BinaryMaskSpace, MaskSpace)
}
COSTS = tuple(dict.fromkeys(cost for space in SPACES.values() for cost in space.costs))  # of any space
