"""Trees as tags. Oracles: the tree that was encoded, trees derived by hand, the properties of any tree."""

import random

import pytest

from seal_hf.core.tag_schemes import Span
from seal_hf.core.trees import has_trees, levels_of, tree_spans, tree_tags

LABELS = ("S", "NP", "VP", "PRT|ADVP", "X")


def random_tree(rng, start, length, chain=True):
    """Constituents in preorder over `length` words, the first over all of them if `chain`."""
    found = [Span(rng.choice(LABELS), start, start + length) for _ in range(rng.choice((1, 1, 2, 3)) if chain else 0)]
    if length > 1:
        cuts = sorted(rng.sample(range(1, length), rng.randint(1, min(3, length - 1))))
        for begin, end in zip([0, *cuts], [*cuts, length], strict=True):
            size = end - begin
            found += random_tree(rng, start + begin, size, chain=size > 1 or rng.random() < 0.5)
    return found


def test_encoding_and_decoding_a_random_tree_is_the_identity():
    rng = random.Random(0)
    for _ in range(2000):
        length = rng.randint(1, 25)
        spans = random_tree(rng, 0, length, chain=length > 1 or rng.random() < 0.5)
        tags = tree_tags(spans, length)
        assert len(tags) == length and has_trees(tags)
        assert tree_spans(tags) == spans


def check(spans, length):
    """A tree: in preorder, nested, and covered by its first constituent."""
    assert spans == sorted(spans, key=lambda span: (span.start, -span.end))
    if length > 1:
        assert (spans[0].start, spans[0].end) == (0, length)
    opened = []
    for span in spans:
        assert 0 <= span.start < span.end <= length
        while opened and opened[-1].end <= span.start:
            opened.pop()
        assert not opened or span.end <= opened[-1].end
        opened.append(span)


def test_every_sequence_of_tags_is_a_tree():
    rng = random.Random(1)
    levels = [f"{level:+d}({labels})" for level in range(-6, 7) for labels in ("S", "NP(QP", "VP")]
    known = [level + own for level in [*levels, "()"] for own in ("", "NP", "ADVP(X")]
    for _ in range(2000):
        length = rng.randint(1, 25)
        spans = tree_spans(rng.choices(known, k=length))
        check(spans, length)
        assert tree_spans(tree_tags(spans, length)) == spans  # and what was decoded is encoded again


@pytest.mark.parametrize(
    "tags, spans",
    [
        (["+2(NP)", "-1(S)", "()VP"], [("S", 0, 3), ("NP", 0, 2), ("VP", 2, 3)]),
        (["()"], []),
        (["()INTJ(X"], [("INTJ", 0, 1), ("X", 0, 1)]),
        (["+1(S(VP)", "+0(S(VP)", "()"], [("S", 0, 3), ("VP", 0, 3)]),
        (["+1(S)", "+0(NP)", "()"], [("S", 0, 3)]),  # two labels for one constituent: the first
        (["()", "()", "()"], [("ROOT", 0, 3)]),  # no label at all
        (["-3(S)", "+9(NP)", "+1(VP)"], [("S", 0, 3), ("NP", 1, 3)]),  # levels count by their order
        (["+2(NP)", "-9()X", "()"], [("ROOT", 0, 3), ("NP", 0, 2), ("X", 1, 2)]),
    ],
)
def test_trees_derived_by_hand(tags, spans):
    assert tree_spans(tags) == [Span(*span) for span in spans]


def test_long_and_deep_sentences_need_no_recursion():
    length = 20_000
    right = [Span("X", i, length) for i in range(length - 1)]
    left = [Span("X", 0, length - i) for i in range(length - 1)]
    for spans in (right, left):
        assert tree_spans(tree_tags(spans, length)) == spans


def test_a_tag_of_another_encoding_is_named():
    assert has_trees(["+1(S)", "()"]) and not has_trees(["+1(S)", "B-NP"]) and not has_trees([])
    for tag in ("B-NP", "O", "1(S)", "+1(S", "+1S", "+1(S)(NP", "+1(S)NP("):
        with pytest.raises(ValueError, match="not one of a tree in relative levels"):
            tree_spans(["+1(S)", tag])


def test_levels_are_numbered_by_the_signs():
    assert levels_of(["()", "+1(S)", "+1(NP)X", "-1(S)", "()NP"]) == [0, 1, 1, 2, 0]
