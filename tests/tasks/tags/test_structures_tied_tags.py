"""Chains over groups of tags. Oracle: the chain over all tags, with the groups' transitions repeated."""

import pytest
import torch

from seal_hf.tasks.tags import chains as crf
from seal_hf.tasks.tags.chains import TiedTags, tied_crf
from seal_hf.tasks.tags.space import TagSequenceSpace
from seal_hf.tasks.tags.task_losses import CRFLoss

GROUPS = [0, 1, 0, 2, 1]
TAGS = ["()", "+1(S)", "()NP", "-1(S)", "+1(VP)"]  # of the levels in GROUPS
MASK = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]]).bool()


@pytest.fixture
def chain():
    """Emissions, NaN where nothing counts, and the weights of both chains."""
    torch.manual_seed(0)
    emissions = torch.randn(3, 4, 5, dtype=torch.float64).masked_fill(~MASK.unsqueeze(2), float("nan"))
    weights = {"transitions": torch.randn(3, 3), "start": torch.randn(3), "end": torch.randn(3)}
    weights = {name: weight.double() for name, weight in weights.items()}
    whole = {name: weight[GROUPS] for name, weight in weights.items()}
    return emissions, weights, whole | {"transitions": whole["transitions"][:, GROUPS]}


def test_sums_maxima_and_scores_are_those_of_the_chain_over_all_tags(chain):
    emissions, weights, whole = chain
    tied = TiedTags(GROUPS)
    for name in ("marginals", "viterbi"):
        torch.testing.assert_close(
            getattr(tied, name)(emissions, mask=MASK, **weights), getattr(crf, name)(emissions, mask=MASK, **whole)
        )
    ids = torch.randint(5, (3, 4))
    candidates = torch.rand(3, 2, 4, 5, dtype=torch.float64).softmax(-1)
    one_hot = torch.nn.functional.one_hot(ids, 5).double().unsqueeze(1)
    for name in ("log_probability", "sequence_score"):
        for y in (ids, one_hot, candidates) if name == "sequence_score" else (ids, one_hot):
            found = getattr(tied, name)(emissions, y=y, mask=MASK, **weights)
            torch.testing.assert_close(found, getattr(crf, name)(emissions, y=y, mask=MASK, **whole))


def test_gradients_are_those_of_the_chain_over_all_tags(chain):
    emissions, weights, _ = chain
    labels, found = torch.tensor([[0, -100, 3, 1], [2, 2, 4, -100], [-100] * 4]), []
    emissions = emissions.nan_to_num(7.0)
    for tied in (TiedTags(GROUPS), None):
        given = emissions.clone().requires_grad_()
        net = crf.CRF(5, tied).double()
        own = {name: w if tied else w[GROUPS] for name, w in weights.items()}
        own["transitions"] = own["transitions"] if tied else own["transitions"][:, GROUPS]
        net.load_state_dict(own)
        loss = net(given, labels)
        loss.sum().backward()
        found.append((loss.detach(), given.grad))
    torch.testing.assert_close(found[0], found[1])


def test_samples_occur_as_often_as_the_marginals_say(chain):
    emissions, weights, _ = chain
    tied, count = TiedTags(GROUPS), 100_000
    drawn = tied.sample(emissions, mask=MASK, noise=torch.rand(3, 4, 2 * count, dtype=torch.float64), **weights)
    assert (drawn.eq(-100) == ~MASK.unsqueeze(1)).all()
    share = torch.nn.functional.one_hot(drawn.clamp_min(0), 5).double().mean(1) * MASK.unsqueeze(2)
    torch.testing.assert_close(share, tied.marginals(emissions, mask=MASK, **weights), atol=6e-3, rtol=0)
    pairs = torch.zeros(5, 5, dtype=torch.float64).index_put_(
        (drawn[0, :, 0], drawn[0, :, 2]), torch.tensor(1 / count, dtype=torch.float64), accumulate=True
    )
    every = torch.cartesian_prod(torch.arange(5), torch.arange(5))  # of the first row's first two positions
    y = torch.stack([every[:, 0], every[:, 1] * 0, every[:, 1]], dim=1)[:, [0, 1, 2]]
    p = torch.zeros(25, dtype=torch.float64)
    for last in range(5):
        rows = torch.cat([y, torch.full((25, 1), last)], dim=1)
        p += tied.log_probability(
            emissions[:1].expand(25, -1, -1), y=rows, mask=MASK[:1].expand(25, -1), **weights
        ).exp()
    torch.testing.assert_close(pairs, p.view(5, 5), atol=6e-3, rtol=0)


def test_the_crf_of_trees_has_the_transitions_of_their_levels_and_the_space_decodes_by_it():
    assert tied_crf(TAGS).transitions.shape == (3, 3) and tied_crf(TAGS).num_tags == 5
    assert tied_crf(["O", "B-X", "I-X"]).transitions.shape == (3, 3) and tied_crf(["O", "B-X"]).tied is None
    net = tied_crf(TAGS)
    torch.nn.init.normal_(net.transitions)
    space = TagSequenceSpace(TAGS, CRFLoss(TAGS, net))
    assert space.decoder == "viterbi" and space.decoders == ("viterbi", "independent")
    logits = torch.randn(3, 4, 5)
    counted = space.counting(MASK)
    samples = counted.sample(logits, 3, torch.Generator().manual_seed(0))
    assert samples.shape == (3, 3, 4, 5) and (samples.sum(-1) == MASK.unsqueeze(1)).all()
    decided = space.decode(logits, mask=MASK)
    y = torch.nn.functional.one_hot(decided.clamp_min(0), 5).float().unsqueeze(1) * MASK[:, None, :, None]
    assert (space.log_prob(logits, y, MASK) >= space.log_prob(logits, samples, MASK) - 1e-5).all()
