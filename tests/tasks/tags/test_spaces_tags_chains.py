"""The distribution of a task-net that decodes by a chain: a CRF, the tags' scheme, or both. Oracles: enumeration of all
tag sequences, independent tags, finite differences."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from losses import energy_loss

from seal_hf import TagSequenceSpace
from seal_hf.core.tag_schemes import is_well_formed
from seal_hf.core.tensors import IGNORED
from seal_hf.tasks.rewards.space import RewardTagSpace
from seal_hf.tasks.tags.chains import CRF
from seal_hf.tasks.tags.task_losses import CRFLoss

NAMES = ["I-x", "O", "B-x", "B-y"]  # the tag that may not come first has the least noise
C = len(NAMES)
LABELS = torch.tensor([[1, IGNORED, 2, 0, 1, IGNORED], [2, IGNORED, 0, 3, IGNORED, IGNORED]])
MASK = LABELS != IGNORED
CHAINS = ["viterbi", "constrained", "constrained_viterbi"]


def crf(std=1.0):
    chain = CRF(C).double()
    with torch.no_grad():
        for p in chain.parameters():
            p.normal_(std=std, generator=torch.Generator().manual_seed(3)) if std else p.zero_()
    return chain


def space(decoder, std=1.0, kind=TagSequenceSpace, **options):
    loss = None if decoder in ("independent", "constrained") else CRFLoss(NAMES, crf(std))
    given = [lambda codes, y, mask: y.sum((2, 3))] if kind is RewardTagSpace else []
    return kind(*given, NAMES, loss=loss, **options).decided_by(decoder)


def bound(decoder, **options):
    """The space of a batch with the labels above."""
    return space(decoder, **options).of({"labels": LABELS})


@pytest.fixture
def logits():
    return torch.randn(*LABELS.shape, C, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def scores(space, logits, b):
    """Every allowed tag sequence of a row, and its score, term by term."""
    chain, e = space.loss.crf, logits[b][MASK[b]].tolist()
    found = {}
    for y in itertools.product(range(C), repeat=len(e)):
        s = sum(row[tag] for row, tag in zip(e, y, strict=True))
        if chain is not None:
            s += chain.start[y[0]].item() + chain.end[y[-1]].item()
            s += sum(chain.transitions[pair].item() for pair in itertools.pairwise(y))
        if space.decoder == "viterbi" or is_well_formed([NAMES[tag] for tag in y], "bio"):
            found[y] = s
    return found


def one_hot(sequences, b):
    """(N, T, C), zero where a position does not count."""
    y = torch.zeros(len(sequences), LABELS.shape[1], C, dtype=torch.float64)
    y[:, MASK[b]] = F.one_hot(torch.tensor(list(sequences)), C).double()
    return y


@pytest.mark.parametrize("decoder", CHAINS)
def test_the_relaxed_output_is_the_marginals_and_probabilities_sum_to_one(logits, decoder):
    own = bound(decoder)
    relaxed = own.relax(logits)
    assert (relaxed[~MASK] == 0).all() and torch.equal(own.output(logits), relaxed.unsqueeze(1))
    for b in range(2):
        found = scores(own, logits, b)
        p = torch.tensor(list(found.values()), dtype=torch.float64).softmax(0)
        y = one_hot(found, b)
        torch.testing.assert_close(relaxed[b], (p[:, None, None] * y).sum(0), atol=1e-12, rtol=0)
        row, mask = logits[b : b + 1], MASK[b : b + 1]
        for log_p in (own.log_prob(row, y.unsqueeze(0), mask), own.log_noise(row, y[None], mask, normalized=True)):
            torch.testing.assert_close(log_p[0].exp(), p, atol=1e-12, rtol=0)
        free = own.log_noise(row, y.unsqueeze(0), mask)[0]  # up to a constant
        torch.testing.assert_close(free - free.logsumexp(0), p.log(), atol=1e-10, rtol=0)
        everything = one_hot(list(itertools.product(range(C), repeat=int(MASK[b].sum()))), b)
        log_p = own.log_prob(row, everything.unsqueeze(0), mask)
        assert log_p.exp().sum().item() == pytest.approx(1, abs=1e-12)
        assert log_p.isneginf().sum().item() == len(everything) - len(found)
        assert own.log_noise(row, everything.unsqueeze(0), mask).isfinite().all()
        best = max(found, key=found.get)
        assert tuple(own.decode(row, mask=mask)[0][MASK[b]].tolist()) == best


@pytest.mark.parametrize("decoder", CHAINS)
def test_samples_are_the_chains_own_and_within_the_scheme(logits, decoder, number=20_000):
    own = bound(decoder)
    drawn = own.sample(logits.float(), number, torch.Generator().manual_seed(1))
    assert drawn.shape == (2, number, *LABELS.shape[1:], C) and drawn.dtype == torch.float32
    assert torch.equal(drawn.sum(-1), MASK.float().unsqueeze(1).expand(-1, number, -1))
    torch.testing.assert_close(drawn.mean(1).double(), own.relax(logits), atol=0.015, rtol=0)
    for b in range(2):
        found = scores(own, logits, b)
        sequences = {tuple(row) for row in drawn[b][:, MASK[b]].argmax(-1).unique(dim=0).tolist()}
        assert sequences <= set(found)
        p = torch.tensor(list(found.values()), dtype=torch.float64).softmax(0)
        joint = torch.einsum("n,nc,nd->cd", p, *one_hot(found, b)[:, MASK[b]].unbind(1)[:2])
        pairs = torch.einsum("kc,kd->cd", *drawn[b][:, MASK[b]].unbind(1)[:2]) / number
        torch.testing.assert_close(pairs.double(), joint, atol=0.015, rtol=0)


@pytest.mark.parametrize("kind", [TagSequenceSpace, RewardTagSpace])
def test_without_transitions_all_is_as_for_independent_tags(logits, kind):
    plain, chain = (bound(name, std=0.0, kind=kind) for name in ("independent", "viterbi"))
    keep = MASK.unsqueeze(-1)
    torch.testing.assert_close(chain.relax(logits), plain.relax(logits) * keep, atol=1e-12, rtol=0)
    made = [[s.sample(logits, 200, torch.Generator().manual_seed(1)) for s in (plain, chain)]]
    made += [[s.perturb(logits, 5, 0.7, torch.Generator().manual_seed(1)) for s in (plain, chain)]]
    for expected, found in made:
        torch.testing.assert_close(found, expected * keep.unsqueeze(1), atol=1e-12, rtol=0)
    y, gold = made[0][1], plain.gold(LABELS)[0].double()
    for normalized in (False, True):
        a, b = (s.log_noise(logits, y, MASK, normalized=normalized) for s in (plain, chain))
        difference = b - a
        torch.testing.assert_close(difference, difference[:, :1].expand_as(difference), atol=1e-12, rtol=0)
        assert not normalized or difference.abs().max() < 1e-12
    torch.testing.assert_close(chain.log_prob(logits, y, MASK), plain.log_prob(logits, y, MASK), atol=1e-12, rtol=0)
    torch.testing.assert_close(chain.task_loss(logits, LABELS), plain.task_loss(logits, LABELS))
    if kind is TagSequenceSpace:
        mixed = [s.relax(s.mix(logits, gold, 0.3)) for s in (plain, chain)]
        torch.testing.assert_close(mixed[1], mixed[0] * keep, atol=1e-12, rtol=0)


@pytest.mark.parametrize("decoder", CHAINS)
def test_gradients_are_finite_differences_and_those_of_an_expectation(logits, decoder):
    """Of the relaxed output and of log P, in the logits and in the transitions."""
    own = bound(decoder)
    gold = own.gold(LABELS)[0].double().unsqueeze(1)
    chain = [] if own.loss.crf is None else list(own.loss.crf.parameters())
    assert [id(p) for p in own.parameters] == [id(p) for p in chain]
    weight = torch.randn(logits.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))

    def values(z, *_):
        return (own.relax(z) * weight).sum(), own.log_prob(z, gold, MASK).sum()

    logits.requires_grad_()
    assert torch.autograd.gradcheck(values, (logits, *chain))
    assert torch.autograd.gradgradcheck(values, (logits, *chain))
    expected = sum(
        (torch.tensor(list(found.values())).softmax(0) * (one_hot(found, b) * weight[b]).sum((1, 2))).sum()
        for b in range(2)
        for found in [scores(own, logits.detach(), b)]
    )
    assert values(logits)[0].item() == pytest.approx(expected.item(), abs=1e-6)
    (slope,) = torch.autograd.grad(own.relax(logits)[0, 2, 3], logits)
    assert not slope[~MASK].any() and slope[0, 4].any()  # a pull on one tag reaches its neighbours


@pytest.mark.parametrize("junk", [1e3, float("nan")])
@pytest.mark.parametrize("decoder", CHAINS)
def test_what_does_not_count_has_no_influence(logits, decoder, junk):
    """Neither on the values nor on what is drawn."""
    own = bound(decoder)
    other = logits.masked_fill(~MASK.unsqueeze(-1), junk)
    for made in (
        lambda z: own.relax(z),
        lambda z: own.sample(z, 7, torch.Generator().manual_seed(1)),
        lambda z: own.perturb(z, 3, 0.5, torch.Generator().manual_seed(1)),
        lambda z: own.log_noise(z, own.gold(LABELS)[0].double().unsqueeze(1), MASK),
    ):
        assert torch.equal(made(other), made(logits))
    y = own.sample(logits, 3, torch.Generator().manual_seed(1))
    noisy = y.masked_fill(~MASK[:, None, :, None], junk)
    assert torch.equal(own.log_prob(other, noisy, MASK), own.log_prob(logits, y, MASK))


def test_perturbed_outputs_are_marginals_of_the_logits_with_noise(logits):
    own, plain = bound("constrained_viterbi"), space("independent")
    number, std = 3, 0.5
    found = own.perturb(logits, number, std, torch.Generator().manual_seed(1))
    moved = plain.perturb(logits, number, std, torch.Generator().manual_seed(1)).log()
    for k in range(number):
        torch.testing.assert_close(found[:, k], own.relax(moved[:, k]), atol=1e-12, rtol=0)


def test_samples_nearer_the_gold_stay_within_the_scheme(logits):
    own = bound("constrained_viterbi")
    gold = own.gold(LABELS)[0]
    mixed = own.mix(logits, gold, 0.6)
    drawn = own.sample(mixed, 500, torch.Generator().manual_seed(1))
    nearer, before = ((own.relax(z) * gold).sum() for z in (mixed, logits))
    assert nearer > before and own.log_prob(mixed, drawn, MASK).isfinite().all()


@pytest.mark.parametrize("distinct", [False, True])
def test_a_gold_that_breaks_the_scheme_teaches_nothing(logits, distinct):
    """No sample can be it: the row's loss is 0, without a gradient; the other row's is as it is alone."""
    own, loss = space("constrained"), energy_loss("nce", num_samples=6, distinct_samples=distinct)
    labels = LABELS.clone()
    labels[0, 0] = 0  # I-x at the beginning

    def of(rows):
        given = own.of({"labels": labels[rows]})
        found = loss.candidates(given, logits[rows], labels[rows], torch.Generator().manual_seed(1))
        energies = torch.randn(2, 8, generator=torch.Generator().manual_seed(2))[: len(labels[rows])].requires_grad_()
        value = loss(energies, found)
        return value, torch.autograd.grad(value, energies)[0]

    value, gradient = of(slice(0, 1))
    assert value == 0 and not gradient.any()
    value, gradient = of(slice(None))
    assert value > 0 and not gradient[0].any() and gradient[1].any() and gradient.isfinite().all()


def test_a_length_that_the_scheme_excludes_is_finite():
    """In BIOES without O and S no sentence has one word."""
    own = TagSequenceSpace(["B-x", "E-x"], constrained=True).of({"labels": torch.tensor([[0, IGNORED], [0, 1]])})
    logits = torch.zeros(2, 2, 2, requires_grad=True)
    relaxed = own.relax(logits)
    (slope,) = torch.autograd.grad(relaxed.square().sum(), logits)
    assert relaxed[0].abs().sum() == 0 and slope.isfinite().all()
    assert torch.equal(relaxed[1], torch.eye(2))
    y = own.sample(logits, 3, torch.Generator().manual_seed(1))
    assert own.log_noise(logits, y, own.counted, normalized=True).isfinite().all()


def test_half_precision_is_computed_in_float32(logits):
    own, half = bound("constrained_viterbi"), logits.bfloat16()
    own.loss.crf.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = own.relax(half), own.sample(half, 3, torch.Generator().manual_seed(1))
        log_p = own.log_prob(half, found[1], MASK)
    assert {x.dtype for x in (*found, log_p)} == {torch.float32}
    assert torch.equal(found[0], own.relax(half.float()))
    assert torch.equal(found[1], own.sample(half.float(), 3, torch.Generator().manual_seed(1)))
    assert torch.equal(log_p, own.log_prob(half.float(), found[1], MASK))
