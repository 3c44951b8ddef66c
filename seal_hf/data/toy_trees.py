"""The embedded parsing task: sentences of a small grammar with probabilities. Nothing is downloaded.

What a phrase belongs to depends on its first word and on the rest of the sentence: one with `of` belongs to a noun,
one with `in` or `with` to a verb, one with `near` to either. `saw`, `left` and `found` are read in several ways. No
sentence occurs twice.
"""

from __future__ import annotations

import numpy as np

from ..core.tag_schemes import Span
from .brackets import Tree

SIZES = {"train": 300, "validation": 100, "test": 200}
DEEPEST = 4  # from here on, each symbol takes its first rule
RULES: dict[str, list[tuple[float, str]]] = {  # symbol -> (probability, children)
    "S": [(0.8, "NP VP ."), (0.1, "PP , NP VP ."), (0.1, "NP VP , CLAUSE .")],
    "CLAUSE": [(1.0, "NP VP")],
    "NP": [(0.25, "PRP"), (0.4, "DT NN"), (0.15, "DT JJ NN"), (0.15, "BASE OF_PP"), (0.05, "NP , SBAR ,")],
    "BASE": [(0.7, "DT NN"), (0.3, "DT JJ NN")],
    "VP": [(0.2, "VBD"), (0.4, "VBD NP"), (0.2, "VBD NP PP"), (0.1, "VBD SBAR"), (0.1, "VBD PP ADVP")],
    "PP": [(1.0, "IN NP")],
    "OF_PP": [(1.0, "OF NP")],
    "SBAR": [(1.0, "WDT CLAUSE")],
    "ADVP": [(1.0, "RB")],
}
LABELS = {"CLAUSE": "S", "BASE": "NP", "OF_PP": "PP", "OF": "IN"}
WORDS = {
    "PRP": "she he it they",
    "DT": "the a every",
    "JJ": "old red quiet left found",
    "NN": "cat dog house ship book saw park letter",
    "VBD": "saw heard left read found painted",
    "IN": "with in near",
    "OF": "of of near",
    "WDT": "that",
    "RB": "often there quickly",
    ".": ".",
    ",": ",",
}


def toy_trees(seed: int = 0) -> dict[str, list[Tree]]:
    """300 / 100 / 200 trees of mostly 4 to 15 words, by split; `line` is the number in the split, counted from 1."""
    rng = np.random.default_rng(seed)
    known: dict[tuple[str, ...], Tree] = {}
    while len(known) < sum(SIZES.values()):
        tree = Tree([], [], [])
        _expand("S", 0, tree, rng)
        known.setdefault(tuple(tree.words), tree)
    trees = iter(known.values())
    return {split: [next(trees)._replace(line=line + 1) for line in range(size)] for split, size in SIZES.items()}


def _expand(symbol: str, depth: int, tree: Tree, rng: np.random.Generator) -> None:
    """Add what a symbol becomes to the end of a tree."""
    if symbol in WORDS:
        tree.words.append(str(rng.choice(WORDS[symbol].split())))
        tree.pos.append(LABELS.get(symbol, symbol))
        return
    chances, children = zip(*RULES[symbol], strict=True)
    chosen = children[0] if depth >= DEEPEST else children[int(rng.choice(len(children), p=chances))]
    place, start = len(tree.spans), len(tree.words)
    tree.spans.append(Span(LABELS.get(symbol, symbol), 0, 0))
    for child in chosen.split():
        _expand(child, depth + 1, tree, rng)
    tree.spans[place] = Span(LABELS.get(symbol, symbol), start, len(tree.words))
