"""The kinds of output of `seal-hf predict` and `seal-hf evaluate`."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import OutputKind
    from .flags import Flags


def open_kind(flags: Flags, options: Namespace) -> OutputKind:
    """The [`OutputKind`] for `options.model`, without loading its weights.

    Raises:
        OSError: the folder or repo does not exist.
        ValueError: another kind of model, or a flag for another kind of output.
    """
    from ...saving.kinds import kind_of_model

    kind = kind_of_model(options.model, {} if options.revision is None else {"revision": options.revision})
    flags.check_kind(options, kind)
    return output_kinds()[kind].of(options)


def output_kinds() -> dict[str, type[OutputKind]]:
    """Kind of model (`saving/kinds.py`) -> its class. Imported late, so that `--help` is quick."""
    from .labels import LabelOutput
    from .masks import MaskOutput
    from .tags import TagOutput

    return {"multi_label": LabelOutput, "tag_sequence": TagOutput, "binary_mask": MaskOutput}
