"""Cards of trees: those of tags, with code that makes a tree of the tags."""

from __future__ import annotations

from typing import Any

from ...reports.card_kinds import ADAPTERS_LIBRARY, OURS, PEFT_LIBRARY, CardKind
from ..tags.card import TAGS
from .report import FIGURES

SEAL_TREES = """\
from seal_hf import SealForTokenClassification, tags_to_tree

model = SealForTokenClassification.from_pretrained($name, with_loss_net=False)
words = "a sentence to parse".split()
probabilities, tags = model.predict([words]$columns)
tree = tags_to_tree(words, tags[0])  # in brackets
"""

TREES: dict[str, Any] = TAGS | {
    "plain": {},
    "seal": SEAL_TREES,
    "plainly": "Without `seal_hf`, each token gets its own likeliest tag, and no tree is made.",
    "task": "constituency parsing",
    "figures": FIGURES,
    "files": ("new.txt", "trees.mrg"),
}

CARDS = {
    "trees_tokens": CardKind(**TREES),
    "trees_tokens_peft": CardKind(**TREES | PEFT_LIBRARY),
    "trees_tokens_adapters": CardKind(**TREES | ADAPTERS_LIBRARY),
    "trees_words": CardKind(**TREES | OURS),
}
