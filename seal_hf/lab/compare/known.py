"""The kinds of output that are compared, by their words on the command line; without a word it is the first."""

from ...tasks.labels.compare import LABEL_SETS
from ...tasks.masks.compare import MASKS
from ...tasks.tags.compare import SRL, TAGGING
from ...tasks.trees.compare import PARSING
from .kinds import Kind

KINDS: dict[str, Kind] = {kind.word: kind for kind in (LABEL_SETS, TAGGING, SRL, PARSING, MASKS)}
