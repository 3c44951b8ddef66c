"""The kinds of output that are compared, by their words on the command line; without a word it is the first."""

from .base import Figures, Kind, Scored
from .labels import LABEL_SETS
from .masks import MASKS
from .rewards import REWARDED
from .tags import SRL, TAGGING
from .trees import PARSING

KINDS: dict[str, Kind] = {kind.word: kind for kind in (LABEL_SETS, TAGGING, SRL, PARSING, MASKS)}

__all__ = ["KINDS", "REWARDED", "Figures", "Kind", "Scored"]
