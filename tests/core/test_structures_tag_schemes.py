"""Oracles: seqeval for both readings, on all short sequences; brute force for conversions and transitions."""

import itertools

import numpy as np
import pytest
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2, IOBES, Tokens

from seal_hf.core.tag_schemes import Span, allowed_transitions, convert, encode, is_well_formed, scheme_of, spans

BIO = ["O", "B-X", "I-X", "B-Y", "I-Y"]
BIOES = [*BIO, "E-X", "S-X", "E-Y", "S-Y"]
NAMES = {"bio": BIO, "bioes": BIOES}
LENGTH = {"bio": 5, "bioes": 4}


def sequences(scheme):
    return (s for n in range(LENGTH[scheme] + 1) for s in itertools.product(NAMES[scheme], repeat=n))


@pytest.mark.parametrize(("scheme", "reference"), [("bio", IOB2), ("bioes", IOBES)])
def test_strict_spans_are_those_of_seqeval(scheme, reference):
    for tags in sequences(scheme):
        expected = [(e.tag, e.start, e.end) for e in Tokens(list(tags), reference).entities]
        assert spans(tags, scheme) == expected, tags


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
def test_lenient_spans_are_those_of_conlleval(scheme):
    for tags in sequences(scheme):
        expected = [(kind, start, end + 1) for kind, start, end in get_entities(list(tags))]
        assert spans(tags, scheme, strict=False) == expected, tags


def test_all_sets_of_spans_survive_both_schemes():
    def all_spans(length, start=0):
        if start >= length:
            yield []
            return
        yield from all_spans(length, start + 1)
        for end in range(start + 1, length + 1):
            for kind in "XY":
                yield from ([Span(kind, start, end), *rest] for rest in all_spans(length, end))

    count = 0
    for found in all_spans(4):
        bio, bioes = encode(found, 4, "bio"), encode(found, 4, "bioes")
        assert spans(bio, "bio") == spans(bioes, "bioes") == found
        assert convert(bio, "bioes") == bioes and convert(bioes, "bio") == bio
        assert convert(bio, "bio") == bio and convert(bioes, "bioes") == bioes
        bilou = [tag.replace("E-", "L-").replace("S-", "U-") for tag in bioes]
        assert convert(bilou, "bio") == bio
        count += 1
    assert count == 153  # f(n) = f(n - 1) + 2 (f(0) + ... + f(n - 1))


def test_iob1_becomes_bio():
    # CoNLL-2003's own way: B- only where two spans of one type touch
    assert convert(["I-PER", "I-PER", "O", "I-LOC", "I-ORG", "B-ORG"], "bio") == [
        *("B-PER", "I-PER", "O", "B-LOC", "B-ORG", "B-ORG")
    ]
    for tags in sequences("bio"):
        assert is_well_formed(convert(tags, "bio"), "bio")


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
def test_allowed_sequences_are_exactly_those_that_survive_a_round_trip(scheme):
    names = NAMES[scheme]
    between, start, end = allowed_transitions(names)
    assert between.shape == (len(names), len(names)) and between.dtype == start.dtype == end.dtype == np.bool_
    for ids in itertools.product(range(len(names)), repeat=LENGTH[scheme]):
        allowed = start[ids[0]] and end[ids[-1]] and all(between[i, j] for i, j in itertools.pairwise(ids))
        tags = [names[i] for i in ids]
        assert allowed == (encode(spans(tags, scheme), len(tags), scheme) == tags) == is_well_formed(tags, scheme), tags


def test_plain_tags_allow_everything():
    for part in allowed_transitions(["O", "N", "V"]):
        assert part.all()
    assert is_well_formed(["N", "V"], "plain")


@pytest.mark.parametrize(
    ("names", "scheme"),
    [
        (["O", "B-X", "I-X"], "bio"),
        (["B-C-ARG1", "I-C-ARG1"], "bio"),
        (["O", "I-X"], "bio"),
        (BIOES, "bioes"),
        (["O", "U-X"], "bioes"),
        (["O", "N", "V", "^"], "plain"),  # O is the pronoun of the Twitter tags
        (["O"], "plain"),
        (["B-X", "NN"], "plain"),
        ([], "plain"),
    ],
)
def test_scheme_of(names, scheme):
    assert scheme_of(names) == scheme


def test_plain_tags_have_no_spans():
    with pytest.raises(ValueError, match="bio and bioes; found 'plain'"):
        spans(["N"], "plain")


def test_bilou_is_bioes_in_other_letters():
    letters = str.maketrans({"E": "L", "S": "U"})
    for tags in sequences("bioes"):
        bilou = [tag.translate(letters) if tag.endswith("-X") else tag for tag in tags]
        assert spans(bilou, "bioes") == spans(tags, "bioes")
        assert is_well_formed(bilou, "bioes") == is_well_formed(tags, "bioes")
