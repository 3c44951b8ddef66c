"""Metrics of constituency trees by the conventions of evalb with its COLLINS.prm.

A bracket is a label over some words. The root (ROOT, TOP, S1) is no bracket, nor are parts of speech. Words whose part
of speech is `,`, `:`, ` `` `, `''` or `.` are left out before brackets are compared, and with them a constituent that
has no other word. ADVP and PRT are the same label. Brackets that occur twice in a tree count twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ...core.tag_schemes import Span
from ...core.trees import ROOT, tree_spans
from ..tags.metrics import Tags, figures_of, named_tags, token_counts

PUNCTUATION = frozenset({",", ":", "``", "''", "."})
UNCOUNTED = frozenset({"", ROOT, "TOP", "S1"})  # labels
EQUAL = {"PRT": "ADVP"}
FIGURES = ("accuracy", "precision", "recall", "f1", "exact_match")


def brackets(spans: Sequence[Span], pos: Sequence[str]) -> list[Span]:
    """The brackets that count, with their words numbered without punctuation.

    Args:
        spans: the constituents of a tree over n words.
        pos: n parts of speech.
    """
    places = [0, *accumulate(part not in PUNCTUATION for part in pos)]
    found = (Span(EQUAL.get(label, label), places[start], places[end]) for label, start, end in spans)
    return [span for span in found if span.end > span.start and span.type not in UNCOUNTED]


def bracket_counts(predicted: Tags, gold: Tags, pos: Sequence[Sequence[str]]) -> np.ndarray:
    """Right, predicted and gold brackets of each tree: (N, 3) int64. A tree is an exact match if all three are equal.

    Args:
        predicted, gold: N sequences of tags, see [`tree_spans`].
        pos: N lists of parts of speech.

    Raises:
        ValueError: sequences have differing lengths, or a tag is not one of a tree.
    """
    counts = []
    for ours, theirs, parts in zip(predicted, gold, pos, strict=True):
        if not len(ours) == len(theirs) == len(parts):
            raise ValueError(
                f"a tree has {len(ours)} predicted tags, {len(theirs)} gold tags and {len(parts)} parts of speech; "
                "expected as many"
            )
        found, there = (Counter(brackets(tree_spans(tags), parts)) for tags in (ours, theirs))
        counts.append(((found & there).total(), found.total(), there.total()))
    return np.array(counts, dtype=np.int64).reshape(-1, 3)


def tree_metrics(predicted: Tags, gold: Tags, pos: Sequence[Sequence[str]]) -> dict[str, float]:
    """`precision`, `recall` and `f1` of the labelled brackets of all trees together, 0/0 being 0; `exact_match`, the
    share of trees with all brackets right and no other; `accuracy` of the tags. All are in [0, 1].

    Arguments and errors as for [`bracket_counts`]; ValueError also without tags.
    """
    right_tags, tags = token_counts(predicted, gold).sum(0).tolist()
    counts = bracket_counts(predicted, gold, pos)
    figures = {"accuracy": right_tags / tags, **figures_of(*counts.sum(0).tolist())}
    return figures | {"exact_match": float(np.mean((counts == counts[:, :1]).all(1)))}


def label_report(predicted: Tags, gold: Tags, pos: Sequence[Sequence[str]]) -> dict[str, dict[str, float]]:
    """`precision`, `recall`, `f1` and `support`, the number in gold, of each label, the most frequent first."""
    right: Counter[str] = Counter()
    found: Counter[str] = Counter()
    there: Counter[str] = Counter()
    for ours, theirs, parts in zip(predicted, gold, pos, strict=True):
        one, other = (Counter(brackets(tree_spans(tags), parts)) for tags in (ours, theirs))
        for counter, spans in ((right, one & other), (found, one), (there, other)):
            counter.update(span.type for span in spans.elements())
    names = sorted(found | there, key=lambda name: (-there[name], name))
    return {name: {**figures_of(right[name], found[name], there[name]), "support": there[name]} for name in names}


def tree_compute_metrics(label_names: Sequence[str], pos: Sequence[Sequence[str]]) -> Callable[[Any], dict[str, float]]:
    """The metrics of trees for a Trainer, `Trainer(compute_metrics=...)`, for the rows with these parts of speech, in
    their order; see [`tree_metrics`]. The function takes what that of [`tagging_compute_metrics`] takes. Of a row that
    was cut, it counts the words that are left.

    Raises:
        ValueError: by the function, for other rows than those of `pos`.
    """
    names = np.asarray(label_names, dtype=object)

    def compute_metrics(eval_prediction: Any) -> dict[str, float]:
        predicted, gold = named_tags(eval_prediction, names)
        if len(gold) != len(pos):
            raise ValueError(f"{len(gold)} rows are evaluated, but these metrics are for {len(pos)} rows")
        return tree_metrics(predicted, gold, [row[: len(tags)] for row, tags in zip(pos, gold, strict=True)])

    compute_metrics.figures = FIGURES  # type: ignore[attr-defined]  # as for label sets
    return compute_metrics
