"""Linear chains against enumeration of all tag sequences, and gradients against finite differences; frequencies of
samples by a chi-square test."""

import itertools
from functools import partial

import pytest
import torch
from scipy.stats import chisquare

from seal_hf.core.tensors import pack, uniform, unpack
from seal_hf.tasks.tags.chains import CRF, log_partition, log_probability, marginals, sample, sequence_score, viterbi

B, T, C = 5, 6, 3
INF = float("inf")
MASK = torch.tensor(
    [[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 1, 0], [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]]
).bool()
CHAINS = ["free", "without ends", "forbidden"]
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def chain(kind="free", dtype=torch.float64, seed=0):
    """Emissions, and (transitions, start, end)."""
    g = torch.Generator().manual_seed(seed)
    emissions, transitions, start, end = (
        2 * torch.randn(shape, generator=g, dtype=torch.float64).to(dtype) for shape in [(B, T, C), (C, C), (C,), (C,)]
    )
    if kind == "without ends":
        start = end = None
    if kind == "forbidden":  # tag 2 follows 1 and itself alone, and neither starts nor follows 0: as I-X does
        transitions[0, 2] = start[2] = end[1] = -INF
    return emissions, (transitions, start, end)


def enumerate_scores(emissions, weights, b, mask=MASK):
    """All sequences over the counted positions of a row, and their scores, term by term."""
    transitions, start, end = (None if w is None else w.tolist() for w in weights)
    e = emissions[b][mask[b]].tolist()
    scores = {}
    for y in itertools.product(range(C), repeat=len(e)):
        s = sum(e[t][tag] for t, tag in enumerate(y)) + sum(transitions[a][c] for a, c in itertools.pairwise(y))
        if y and start is not None:
            s += start[y[0]] + end[y[-1]]
        scores[y] = s
    return scores


def call(function, emissions, weights, *y, mask=MASK, **more):
    given = {"y": y[0]} if y else {}
    return function(emissions, weights[0], **given, mask=mask, start=weights[1], end=weights[2], **more)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", CHAINS)
def test_partition_and_marginals_are_sums_over_all_sequences(kind, dtype):
    emissions, weights = chain(kind, dtype)
    log_z, p = call(log_partition, emissions, weights), call(marginals, emissions, weights)
    assert log_z.dtype == p.dtype == dtype and log_z[-1] == 0 and (p[~MASK] == 0).all()
    for b in range(B):
        scores = enumerate_scores(emissions, weights, b)
        expected = torch.tensor(list(scores.values()), dtype=torch.float64).logsumexp(0)
        torch.testing.assert_close(log_z[b].double(), expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
        by_hand = torch.zeros(int(MASK[b].sum()), C, dtype=torch.float64)
        for y, s in scores.items():
            for t, tag in enumerate(y):
                by_hand[t, tag] += (s - expected).exp()
        torch.testing.assert_close(p[b][MASK[b]].double(), by_hand, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def all_sequences(b, mask=MASK):
    """Every tag sequence over the counted positions of a row, as labels (N, T)."""
    found = list(itertools.product(range(C), repeat=int(mask[b].sum())))
    tags = torch.full((len(found), mask.shape[1]), -100)
    tags[:, mask[b]] = torch.tensor(found).view(len(found), -1).long()
    return tags


@pytest.mark.parametrize("kind", CHAINS)
def test_probabilities_of_all_sequences_are_the_normalised_scores_and_sum_to_one(kind):
    emissions, weights = chain(kind)
    for b in range(B):
        tags, row, mask = all_sequences(b), emissions[b : b + 1], MASK[b : b + 1]
        s = torch.tensor(list(enumerate_scores(emissions, weights, b).values()), dtype=torch.float64)
        y = torch.nn.functional.one_hot(tags.clamp_min(0), C).double().unsqueeze(0)
        found = call(log_probability, row, weights, y, mask=mask)[0]
        assert found.exp().sum().item() == pytest.approx(1, abs=1e-12)
        torch.testing.assert_close(found, s - s.logsumexp(0), atol=1e-12, rtol=1e-12)
        many = row.expand(len(tags), -1, -1)
        found = call(log_probability, many, weights, tags, mask=mask.expand(len(tags), -1))
        torch.testing.assert_close(found, s - s.logsumexp(0), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("kind", CHAINS)
def test_samples_occur_at_the_frequencies_of_their_probabilities(kind, number=30_000):
    emissions, weights = chain(kind, torch.float32)
    drawn = call(sample, emissions, weights, mask=MASK, noise=noise(number))
    assert drawn.shape == (B, number, T) and (drawn.transpose(1, 2)[~MASK] == -100).all()
    for b in range(B - 1):  # the last row has no positions
        place = {y: i for i, y in enumerate(map(tuple, all_sequences(b)[:, MASK[b]].tolist()))}
        found, counts = drawn[b][:, MASK[b]].unique(dim=0, return_counts=True)
        observed = torch.zeros(len(place), dtype=torch.float64)
        observed[[place[y] for y in map(tuple, found.tolist())]] = counts.double()
        s = torch.tensor(list(enumerate_scores(emissions, weights, b).values()), dtype=torch.float64)
        expected = number * s.softmax(0)
        assert not observed[expected == 0].any()
        rare = expected < 5  # one group, as the test's approximation asks
        groups = [torch.cat([x[~rare], x[rare].sum().view(1)]) for x in (observed, expected)]
        present = groups[1] > 0
        assert present.sum() == 1 or chisquare(*(x[present] for x in groups)).pvalue > 1e-3


def noise(number, seed=4, dtype=torch.float32):
    return uniform((B, T, number), torch.zeros((), dtype=dtype), torch.Generator().manual_seed(seed))


def test_extreme_noise_draws_no_forbidden_tag():
    """Rounding of a cumulative sum must not reach a last tag of probability 0, nor noise near 0 a first one."""
    for dtype in TOLERANCE:
        emissions, _ = chain(dtype=dtype)
        for order in itertools.permutations([0.0, -INF, -INF]):
            start = torch.tensor(order, dtype=dtype)
            for u in (torch.finfo(dtype).eps / 2, 1 - torch.finfo(dtype).eps / 2):
                free = torch.zeros(C, C, dtype=dtype)
                tags = sample(emissions, free, MASK, torch.full((B, T, 1), u, dtype=dtype), start)
                firsts = [row[counted][0].item() for row, counted in zip(tags[:-1, 0], MASK, strict=False)]
                assert set(firsts) == {order.index(0.0)}


def test_a_long_chain_keeps_its_precision():
    """2,000 positions in float32, against float64."""
    g = torch.Generator().manual_seed(0)
    emissions, *weights = (4 * torch.randn(shape, generator=g) for shape in [(2, 2000, C), (C, C), (C,), (C,)])
    mask = torch.ones(2, 2000, dtype=torch.bool)
    exact = [w.double() for w in weights]
    for function, close in ((marginals, dict(atol=1e-5, rtol=0)), (log_partition, dict(atol=0, rtol=1e-6))):
        found = call(function, emissions, weights, mask=mask).double()
        torch.testing.assert_close(found, call(function, emissions.double(), exact, mask=mask), **close)


@pytest.mark.parametrize("kind", CHAINS)
def test_viterbi_is_the_best_of_all_allowed_sequences(kind):
    for seed in range(5):
        emissions, weights = chain(kind, seed=seed)
        tags = call(viterbi, emissions, weights)
        assert tags.dtype == torch.int64 and (tags[~MASK] == -100).all()
        for b in range(B):
            scores = enumerate_scores(emissions, weights, b)
            assert tuple(tags[b][MASK[b]].tolist()) == max(scores, key=scores.get)


@pytest.mark.parametrize("kind", CHAINS)
def test_scores_of_tags_and_of_one_hot_candidates_are_the_sum_of_their_terms(kind):
    emissions, weights = chain(kind)
    for b in range(B):
        scores, mask = enumerate_scores(emissions, weights, b), MASK[b : b + 1]
        tags = torch.full((len(scores), T), -100)
        tags[:, mask[0]] = torch.tensor(list(scores)).view(len(scores), -1).long()
        expected = torch.tensor(list(scores.values()), dtype=torch.float64)
        row = emissions[b : b + 1]
        got = call(sequence_score, row.expand(len(scores), -1, -1), weights, tags, mask=mask.expand(len(scores), -1))
        torch.testing.assert_close(got, expected, atol=1e-12, rtol=1e-12)
        y = torch.nn.functional.one_hot(tags.clamp_min(0), C).double().unsqueeze(0)
        torch.testing.assert_close(
            call(sequence_score, row, weights, y, mask=mask)[0], expected, atol=1e-12, rtol=1e-12
        )


def test_the_score_of_a_relaxed_candidate_is_the_expectation_under_independent_positions():
    emissions, weights = chain()
    y = torch.randn(B, 2, T, C, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).softmax(-1)
    got = call(sequence_score, emissions, weights, y)
    for b, s in itertools.product(range(B), range(2)):
        p, expected = y[b, s][MASK[b]].tolist(), 0.0
        for tags, score in enumerate_scores(emissions, weights, b).items():
            for t, tag in enumerate(tags):
                score *= p[t][tag]
            expected += score
        assert got[b, s].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", CHAINS)
def test_gradients_are_finite_differences(kind):
    emissions, weights = chain(kind)
    free = [None if w is None else w.clone().masked_fill(w.isneginf(), 0).requires_grad_() for w in weights]

    def forbid(values):
        return [v if w is None else v.masked_fill(w.isneginf(), -INF) for v, w in zip(values, weights, strict=True)]

    y = torch.randn(B, 2, T, C, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).softmax(-1)
    emissions, y = emissions.requires_grad_(), y.requires_grad_()
    values = [v for v in free if v is not None]
    tags = torch.stack([all_sequences(b)[0] for b in range(B)])  # all 0, which no chain forbids
    for function in (log_partition, marginals, partial(log_probability, y=tags)):

        def f(emissions, *values, function=function):
            transitions, start, end = forbid(values if len(values) == 3 else [*values, None, None])
            return function(emissions, transitions, mask=MASK, start=start, end=end)

        assert torch.autograd.gradcheck(f, (emissions, *values))
    if kind == "free":
        assert torch.autograd.gradcheck(
            lambda e, y, *values: call(sequence_score, e, values, y), (emissions, y, *values), eps=1e-5
        )


def test_forbidden_transitions_give_finite_gradients_even_if_given_as_a_parameter_and_every_path_is_forbidden():
    emissions, weights = chain("forbidden")
    weights = [w.requires_grad_() for w in weights]
    emissions.requires_grad_()
    log_z = call(log_partition, emissions, weights)
    assert all(g.isfinite().all() for g in torch.autograd.grad(log_z.sum(), [emissions, *weights]))
    closed = [weights[0], torch.full_like(weights[1], -INF), weights[2]]
    log_z = call(log_partition, emissions, closed)
    assert log_z[:-1].isneginf().all() and log_z[-1] == 0
    assert all(g.isfinite().all() for g in torch.autograd.grad(log_z.sum(), [emissions, weights[0]]))
    p = call(marginals, emissions, closed)
    assert not p.any() and not any(g.any() for g in torch.autograd.grad(p.sum(), [emissions, weights[0]]))
    assert call(log_probability, emissions, closed, torch.zeros(B, T, dtype=torch.long))[:-1].isneginf().all()
    drawn = call(sample, emissions, closed, mask=MASK, noise=noise(2))
    assert ((drawn >= 0) & (drawn < C)).transpose(1, 2)[MASK].all()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", CHAINS)
@pytest.mark.parametrize("junk", [1e3, float("nan")])
def test_what_does_not_count_has_no_influence(kind, dtype, junk):
    """Other values at the holes and two positions before and five after, against the packed batch."""
    emissions, weights = chain(kind, dtype)
    y = torch.rand(B, 2, T, C, generator=torch.Generator().manual_seed(1)).to(dtype).softmax(-1)
    mask = torch.nn.functional.pad(MASK, (2, 5))
    wide = torch.nn.functional.pad(emissions, (0, 0, 2, 5)).masked_fill(~mask.unsqueeze(2), junk).requires_grad_()
    wide_y = torch.nn.functional.pad(y, (0, 0, 2, 5)).masked_fill(~mask[:, None, :, None], junk)
    packed, emissions = pack(MASK, emissions)
    _, y = pack(MASK, y, dim=2)
    close = {"atol": TOLERANCE[dtype], "rtol": TOLERANCE[dtype]}
    log_z = call(log_partition, wide, weights, mask=mask)
    torch.testing.assert_close(log_z, call(log_partition, emissions, weights, mask=packed), **close)
    (gradient,) = torch.autograd.grad(log_z.sum(), wide)
    assert (gradient[~mask] == 0).all()
    torch.testing.assert_close(gradient[mask], call(marginals, emissions, weights, mask=packed)[packed], **close)
    score = call(sequence_score, wide, weights, wide_y, mask=mask)
    torch.testing.assert_close(score, call(sequence_score, emissions, weights, y, mask=packed), **close)
    tags = call(viterbi, wide, weights, mask=mask)
    assert torch.equal(tags[mask], call(viterbi, emissions, weights, mask=packed)[packed])
    torch.testing.assert_close(call(marginals, wide, weights, mask=mask)[mask], gradient[mask], **close)
    u = noise(3, dtype=dtype)
    wider = torch.nn.functional.pad(u, (0, 0, 2, 5)).masked_fill(~mask.unsqueeze(2), 0.5)
    drawn, expected = call(sample, wide, weights, mask=mask, noise=wider), pack(MASK, u)[1]
    expected = call(sample, emissions, weights, mask=packed, noise=expected)
    assert torch.equal(drawn.transpose(1, 2)[mask], expected.transpose(1, 2)[packed])


def test_pack_moves_counted_positions_to_the_front_and_unpack_back():
    x = torch.arange(B * 2 * T * C).view(B, 2, T, C)
    packed, tags, of_tags = pack(MASK, x[:, 0], x[:, 0, :, 0])
    _, y = pack(MASK, x, dim=2)
    for b, n in enumerate(MASK.sum(1).tolist()):
        assert packed[b].tolist() == [True] * n + [False] * (T - n)
        assert torch.equal(tags[b, :n], x[b, 0][MASK[b]]) and torch.equal(of_tags[b, :n], x[b, 0, :, 0][MASK[b]])
        assert torch.equal(y[b, :, :n], x[b][:, MASK[b]])
    assert torch.equal(unpack(MASK, tags, fill=-1), x[:, 0].masked_fill(~MASK.unsqueeze(2), -1))
    assert torch.equal(unpack(MASK, y, dim=2), x.masked_fill(~MASK[:, None, :, None], 0))


def test_a_crfs_loss_is_the_negative_log_likelihood():
    emissions, weights = chain()
    crf = CRF(C).double()
    tags = torch.randint(0, C, (B, T), generator=torch.Generator().manual_seed(2)).masked_fill(~MASK, -100)
    uniform = -emissions.log_softmax(-1).gather(2, tags.clamp_min(0).unsqueeze(2)).squeeze(2)
    torch.testing.assert_close(crf(emissions, tags), (uniform * MASK).sum(1), atol=1e-12, rtol=0)  # zeros at first
    with torch.no_grad():
        for parameter, value in zip((crf.transitions, crf.start, crf.end), weights, strict=True):
            parameter.copy_(value)
    loss = crf(emissions, tags)
    for b in range(B):
        scores = enumerate_scores(emissions, weights, b)
        log_z = torch.tensor(list(scores.values()), dtype=torch.float64).logsumexp(0)
        assert loss[b].item() == pytest.approx((log_z - scores[tuple(tags[b][MASK[b]].tolist())]).item(), abs=1e-12)


def test_batches_without_rows_or_positions():
    weights = chain()[1]
    for shape in [(0, T, C), (2, 0, C)]:
        emissions, mask = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape[:2], dtype=torch.bool)
        y = torch.zeros(shape[0], 3, *shape[1:], dtype=torch.float64)
        assert call(log_partition, emissions, weights, mask=mask).tolist() == [0.0] * shape[0]
        assert call(marginals, emissions, weights, mask=mask).shape == shape
        assert call(viterbi, emissions, weights, mask=mask).shape == shape[:2]
        u = torch.rand(*shape[:2], 3)
        assert call(sample, emissions, weights, mask=mask, noise=u).shape == (shape[0], 3, shape[1])
        assert call(log_probability, emissions, weights, y, mask=mask).tolist() == [[0.0] * 3] * shape[0]
        assert call(sequence_score, emissions, weights, y, mask=mask).shape == (shape[0], 3)
        assert call(sequence_score, emissions, weights, mask.long(), mask=mask).shape == shape[:1]


def test_half_precision_is_computed_in_float32():
    emissions, weights = chain("forbidden", torch.float32)
    half, y = emissions.bfloat16(), torch.rand(B, 2, T, C, generator=torch.Generator().manual_seed(1))
    functions = [(log_partition, ()), (marginals, ()), (viterbi, ()), (sequence_score, (y,)), (log_probability, (y,))]
    for function, extra in [*functions, (partial(sample, noise=noise(3)), ())]:
        expected = call(function, half.float(), weights, *extra)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(call(function, half, weights, *extra), expected)
    tags = torch.zeros(B, T, dtype=torch.long)
    assert torch.equal(CRF(C)(half, tags), CRF(C)(half.float(), tags))


def test_no_value_is_read_on_the_way():
    """Meta tensors have shapes alone; whatever would wait for a device fails on them."""
    weights = [torch.zeros(shape, device="meta") for shape in [(C, C), (C,), (C,)]]
    emissions, mask = torch.zeros(B, T, C, device="meta"), torch.zeros(B, T, device="meta", dtype=torch.bool)
    for function in (log_partition, marginals, viterbi):
        assert call(function, emissions, weights, mask=mask).is_meta
    assert call(sample, emissions, weights, mask=mask, noise=torch.zeros(B, T, 3, device="meta")).is_meta
    assert CRF(C).to("meta")(emissions, mask.long()).is_meta
