"""Soft span F1 against seqeval's strict mode on all short tag sequences, and against enumeration elsewhere."""

import itertools

import pytest
import torch
from seqeval.scheme import IOB2, IOBES, Entities

from seal_hf.tasks.tags.space import SoftSpanF1

BIO = ["O", "B-PER", "I-PER", "I-LOC", "B-LOC"]
BIOES = ["O", "B-PER", "I-PER", "E-PER", "S-PER", "S-LOC", "I-LOC"]


def spans(tags, scheme):
    return {(e.start, e.end, e.tag) for e in Entities([list(tags)], scheme).entities[0]}


def valid_bioes(tags):
    """Whether I-X and E-X follow B-X or I-X of their type, and nothing else does."""
    for before, tag in itertools.pairwise(["O", *tags, "O"]):
        if (before[0] in "BI") != (tag[0] in "IE") or (before[0] in "BI" and before[2:] != tag[2:]):
            return False
    return True


def f1(a, b):
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 1.0


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("names, scheme", [(BIO, IOB2), (BIOES, IOBES)])
def test_it_is_seqevals_strict_f1_on_hard_sequences(names, scheme, length):
    """Of BIO every pair of sequences, orphaned I-X included; of BIOES every gold, and candidates that are valid."""
    if len(names) ** length > 1000:
        names = names[:5]
    all_tags = list(itertools.product(range(len(names)), repeat=length))
    words = [[names[tag] for tag in y] for y in all_tags]
    found = [spans(w, scheme) for w in words]
    chosen = [n for n, w in enumerate(words) if scheme is IOB2 or valid_bioes(w)]
    y = torch.nn.functional.one_hot(torch.tensor(all_tags), len(names)).float()
    y_hat = y[chosen].expand(len(y), -1, -1, -1)
    got = SoftSpanF1(names)(y_hat, y, torch.ones(len(y), length, dtype=torch.bool))
    expected = torch.tensor([[f1(gold, found[n]) for n in chosen] for gold in found])
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=0)


def test_spans_of_ignored_types_count_neither_as_gold_nor_as_predicted():
    all_tags = torch.tensor(list(itertools.product(range(len(BIO)), repeat=3)))
    found = [{s for s in spans([BIO[tag] for tag in y], IOB2) if s[2] != "LOC"} for y in all_tags.tolist()]
    y = torch.nn.functional.one_hot(all_tags, len(BIO)).half()  # computed in float32
    got = SoftSpanF1(BIO, ignored=["LOC"])(y.expand(len(y), -1, -1, -1), y, torch.ones(len(y), 3, dtype=torch.bool))
    expected = torch.tensor([[f1(gold, other) for other in found] for gold in found])
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=0)


def expectation(y_hat, gold, names, scheme):
    """2 E[hits] / (gold + E[predicted]), over all sequences of independent positions."""
    target, hits, predicted = spans(gold, scheme), 0.0, 0.0
    for y in itertools.product(range(len(names)), repeat=len(gold)):
        p = 1.0
        for t, tag in enumerate(y):
            p *= y_hat[t][tag]
        found = spans([names[tag] for tag in y], scheme)
        hits, predicted = hits + p * len(found & target), predicted + p * len(found)
    return 2 * hits / (len(target) + predicted)


GOLD = [
    ["B-PER", "I-PER", "O", "B-LOC"],
    ["B-PER", "B-PER", "I-PER", "I-PER"],
    ["O", "O", "O", "O"],
    ["B-LOC", "I-PER", "B-LOC", "I-LOC"],
]


@pytest.fixture(scope="module")
def relaxed():
    y_hat = 2 * torch.randn(len(GOLD), 2, 4, len(BIO), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gold = torch.nn.functional.one_hot(torch.tensor([[BIO.index(tag) for tag in row] for row in GOLD]), len(BIO))
    return y_hat.softmax(-1), gold.double(), torch.ones(len(GOLD), 4, dtype=torch.bool)


def test_relaxed_sequences_have_expected_counts_under_independent_positions(relaxed):
    got = SoftSpanF1(BIO)(*relaxed)
    assert ((got >= 0) & (got <= 1)).all() and (got[2] == 0).all()
    for b, row in enumerate(GOLD):
        for s in range(2):
            expected = expectation(relaxed[0][b, s].tolist(), row, BIO, IOB2)
            assert got[b, s].item() == pytest.approx(expected, abs=1e-12)


def test_no_value_is_read_on_the_way_and_autocast_changes_nothing(relaxed):
    """Meta tensors have shapes alone; whatever would wait for a device fails on them."""
    assert SoftSpanF1(BIO)(*(x.to("meta") for x in relaxed)).is_meta
    single = relaxed[0].float(), relaxed[1].float(), relaxed[2]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(SoftSpanF1(BIO)(*single).double(), SoftSpanF1(BIO)(*relaxed), atol=1e-6, rtol=0)


def test_gradients_are_finite_differences(relaxed):
    y_hat, gold, mask = relaxed
    assert torch.autograd.gradcheck(lambda y: SoftSpanF1(BIO)(y, gold, mask), y_hat.clone().requires_grad_())
    hard = gold.unsqueeze(1).clone().requires_grad_()  # a probability of 0, and one of 1
    (gradient,) = torch.autograd.grad(SoftSpanF1(BIO)(1 - hard, gold, mask).sum(), hard)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("junk", [1e3, float("nan")])
def test_what_does_not_count_has_no_influence(relaxed, junk):
    y_hat, gold, _ = relaxed
    places = torch.tensor([[1, 3, 4, 5], [0, 1, 2, 3], [5, 6, 7, 8], [0, 2, 4, 8]])  # 4 of 9 positions
    mask = torch.zeros(4, 9, dtype=torch.bool).scatter(1, places, True)
    wide_y, wide_gold = torch.full((4, 2, 9, len(BIO)), junk, dtype=torch.float64), torch.zeros(4, 9, len(BIO)).double()
    for b in range(4):
        wide_y[b, :, places[b]], wide_gold[b, places[b]] = y_hat[b], gold[b]
    expected = SoftSpanF1(BIO)(*relaxed)
    torch.testing.assert_close(SoftSpanF1(BIO)(wide_y, wide_gold, mask), expected, atol=1e-12, rtol=0)


def test_nothing_to_find_and_nothing_found_is_right():
    nothing = torch.zeros(2, 3, len(BIO))
    nothing[:, :, 0] = 1
    mask = torch.tensor([[True, False, True], [False, False, False]])
    assert SoftSpanF1(BIO)(nothing.unsqueeze(1), nothing, mask).tolist() == [[1.0], [1.0]]
    assert SoftSpanF1(BIO)(torch.zeros(2, 3, 0, 5), torch.zeros(2, 0, 5), mask[:, :0]).tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize(
    "tags, message", [(["NN", "O"], "The tag 'NN' is neither O nor"), (["O", "I-PER"], "No tag begins a span")]
)
def test_tags_without_spans_are_named(tags, message):
    with pytest.raises(ValueError, match=message):
        SoftSpanF1(tags)
