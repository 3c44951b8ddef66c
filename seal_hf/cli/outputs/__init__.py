"""The kinds of output of `seal-hf predict` and `seal-hf evaluate`."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import OutputKind
    from .flags import Flags


TREES = "trees"


def open_kind(flags: Flags, options: Namespace) -> OutputKind:
    """The [`OutputKind`] for `options.model`, without loading its weights.

    Raises:
        OSError: the folder or repo does not exist.
        ValueError: another kind of model, or a flag for another kind of output.
    """
    from ...core.trees import has_trees
    from ...saving.kinds import TAG_SEQUENCE, kind_of_model, saved_config

    hub = {} if options.revision is None else {"revision": options.revision}
    kind = kind_of_model(options.model, hub)
    flags.check_kind(options, kind)
    if kind == TAG_SEQUENCE and has_trees((saved_config(options.model, hub).get("id2label") or {}).values()):
        kind = TREES
    return output_kinds()[kind](options)


def output_kinds() -> dict[str, type[OutputKind]]:
    """Kind of model (`saving/kinds.py`), or TREES -> its class. Imported late, so that `--help` is quick."""
    from .class_masks import ClassMaskOutput
    from .labels import LabelOutput
    from .masks import BinaryMaskOutput
    from .tags import TagOutput
    from .trees import TreeOutput

    return {
        "multi_label": LabelOutput,
        "tag_sequence": TagOutput,
        TREES: TreeOutput,
        "binary_mask": BinaryMaskOutput,
        "masks": ClassMaskOutput,
    }
