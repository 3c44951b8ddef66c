"""How the decoder of tag sequences is chosen by what a trainer predicts with each.

`seal_hf/decisions/tags.py` compares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.arrays import first_output
from ...core.sequences import IGNORED
from ...core.tag_schemes import given_types, scheme_of
from ...core.trees import has_trees
from ...decisions import TagDecisions
from ...training.decisions import predicted
from .metrics import Tags
from .space import WITHIN_SCHEME


def fit_decisions(trainer: Any, dataset: Any, decoder: str | None) -> TagDecisions:
    """The decisions of tags or trees, chosen on validation rows; see `training/decisions.py`."""
    by_decoder, gold = predicted_tags(trainer, dataset, trainer.space.decoders)
    kind = "srl" if given_types(trainer.space.label_names) else scheme_of(trainer.space.label_names)
    trees = has_trees(trainer.space.label_names)
    pos = [[""] * len(tags) for tags in gold] if trees else None  # unknown here: all words of a tree count
    return fit_tags(by_decoder, gold, kind, trainer.args, decoder, pos)


def fit_tags(
    predicted: Mapping[str, Tags],
    gold: Tags,
    kind: str,
    args: Any,
    decoder: str | None = None,
    pos: Sequence[Sequence[str]] | None = None,
) -> TagDecisions:
    """Fit decisions of tag sequences. With `constrained_decoding`, only decoders that follow the scheme are compared.

    Args:
        predicted: the predictions of each decoder.
        kind: as in `tag_metrics`.
        decoder: default: `args.decoder`.
        pos: as for `TagDecisions.fit`.
    """
    decoder = args.decoder if decoder is None else decoder
    if decoder is None and args.constrained_decoding:
        predicted = {name: tags for name, tags in predicted.items() if name in WITHIN_SCHEME}
    return TagDecisions.fit(predicted, gold, kind, decoder=decoder, pos=pos)


def predicted_tags(trainer: Any, dataset: Any, decoders: Sequence[str]) -> tuple[dict[str, Tags], Tags]:
    """Tag names at labelled positions: those of each decoder, from one pass over the rows, and gold."""
    output = predicted(trainer, dataset, decoders)
    names, labels = np.asarray(trainer.space.label_names, dtype=object), first_output(output.label_ids)
    arrays = output.predictions if isinstance(output.predictions, tuple) else (output.predictions,)

    def named(ids: np.ndarray) -> Tags:
        return [names[row[counts]].tolist() for row, counts in zip(ids, labels != IGNORED, strict=True)]

    return {name: named(np.asarray(ids)) for name, ids in zip(decoders, arrays, strict=True)}, named(labels)
