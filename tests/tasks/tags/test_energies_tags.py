"""Energies of tag sequences: oracles are the equations written as loops over all sequences of a small space."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from seal_hf import ENERGIES
from seal_hf.core.energy import check_energy_options

C, T, H, G, B = 3, 4, 5, 6, 2
NAMES = [name for name, energy in ENERGIES.items() if name.startswith(("chain", "tag_"))]
TAGS = torch.tensor(list(itertools.product(range(C), repeat=T)))  # (C^T, T)


def energy_of(name, **options):
    torch.manual_seed(0)
    net = ENERGIES[name](C, H, G, **options).double().eval()
    net.reset_parameters()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return net


@pytest.fixture
def features():
    return torch.randn(B, T, H, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def one_hot():
    return F.one_hot(TAGS, C).double().expand(B, -1, -1, -1)


def language_model(model, features, tags):
    """-log P of one tag sequence, a step at a time."""
    if model.backward:
        tags, features = tags.flip(0), features.flip(0)
    state, total = None, 0.0
    for t in range(len(tags) + 1):
        tag = torch.zeros(C + 1, dtype=torch.float64)
        tag[C if t == 0 else tags[t - 1]] = 1
        word = torch.zeros(0) if not model.word_size else torch.zeros(H) if t == 0 else features[t - 1]
        output, state = model.lstm(torch.cat([tag, word]).view(1, 1, -1), state)
        log_p = model.next_tag(output[0, 0]).log_softmax(-1)
        total -= log_p[C if t == len(tags) else tags[t]]
    return total


@pytest.mark.parametrize("name", ["chain", "chain_ge_a", "chain_ge_b", "chain_ge_c"])
def test_chains_and_language_models_are_their_equations_on_all_sequences(name, features):
    options = {"language_model_weight": 0.7} if name == "chain_ge_c" else {}
    net = energy_of(name, **options)
    found = net(features, one_hot())
    every = 1 if name == "chain" else 9
    for b in range(B):
        local = net.label_embeddings(features[b])
        for s in range(0, len(TAGS), every):
            tags = TAGS[s]
            expected = -local[torch.arange(T), tags].sum() - net.transitions[tags[:-1], tags[1:]].sum()
            for term, model in net.global_terms.items():
                weight = 0.7 if "words" in term else 1.0
                expected = expected + weight * language_model(model, features[b], tags)
            torch.testing.assert_close(found[b, s], expected)
    assert [m.backward for m in net.global_terms.values()] == ["backwards" in term for term in net.language_models]


def test_a_language_model_is_a_distribution_over_sequences_of_all_lengths(features):
    """Summed over all sequences up to a length, with the mass of longer ones, probabilities are 1."""
    model = energy_of("chain_ge_a").global_terms["forwards"]
    total, longest = 0.0, 5
    for length in range(longest + 1):
        tags = torch.tensor(list(itertools.product(range(C), repeat=length)), dtype=torch.long).view(C**length, length)
        y = F.pad(F.one_hot(tags, C).double(), (0, 0, 0, longest - length)).unsqueeze(0)
        mask = (torch.arange(longest) < length).unsqueeze(0)
        probability = (-model(torch.zeros(1, longest, H, dtype=torch.float64), y, mask)).exp().sum()
        total += probability
    assert 0.5 < total < 1  # a start: what is missing is the mass of longer sequences ...
    with torch.no_grad():  # ... and none is, where the end is certain after the first tag
        model.next_tag.weight.zero_()
        model.next_tag.bias[:] = torch.tensor([0.0, 0.0, 0.0, 40.0])
    empty = model(torch.zeros(1, 1, H, dtype=torch.float64), torch.zeros(1, 1, 1, C).double(), torch.tensor([[False]]))
    torch.testing.assert_close(empty, torch.zeros(1, 1, dtype=torch.float64), rtol=0, atol=1e-12)


def test_attention_is_its_equation(features):
    net = energy_of("tag_attention")
    y = one_hot()[:, ::7]
    from seal_hf.tasks.tags.energies import sinusoids

    found = net(features, y)
    for b, s in itertools.product(range(B), range(y.shape[1])):
        hidden = net.inputs(y[b, s]) + sinusoids(T, G, y)
        queries, keys, values = net.attention(hidden).chunk(3, dim=-1)
        mixed = ((queries @ keys.T) / G**0.5).softmax(-1) @ values
        local = (net.label_embeddings(features[b]) * y[b, s]).sum()
        torch.testing.assert_close(found[b, s], -local - net.outputs(mixed).max(-1).values.sum())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_padding_and_holes_change_nothing(name, dtype, tolerance, features):
    """Positions that do not count, full of other values, put in between and behind."""
    net = energy_of(name).to(dtype)
    y = torch.softmax(torch.randn(B, 7, T, C, dtype=dtype), -1)
    features = features.to(dtype)

    def put(values, dim):
        first, rest = values.split([1, T - 1], dim)
        junk = 7 * torch.rand_like(first)
        return torch.cat([first, junk, junk, rest, junk], dim)

    mask = torch.tensor([[True, False, False, True, True, True, False]]).expand(B, -1)
    plain = net(features, y)
    torch.testing.assert_close(net(put(features, 1), put(y, 2), mask), plain, rtol=tolerance, atol=tolerance)
    short = net(features[:, :2], y[:, :, :2])
    mask = torch.tensor([[True, True, False, False]]).expand(B, -1)
    torch.testing.assert_close(net(features, y, mask), short, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_candidates_do_not_see_each_other_and_gradients_are_right(name, features):
    net = energy_of(name)
    y = torch.softmax(torch.randn(B, 3, T, C, dtype=torch.float64), -1)
    alone = torch.cat([net(features, y[:, s : s + 1]) for s in range(3)], dim=1)
    torch.testing.assert_close(net(features, y), alone)
    mask = torch.tensor([[True, True, False, True], [True, False, True, False]])
    torch.autograd.gradcheck(lambda y, x: net(x, y, mask), (y.requires_grad_(), features.requires_grad_()))


@pytest.mark.parametrize("name", NAMES)
def test_a_row_without_positions_is_finite(name, features):
    net = energy_of(name)
    y = one_hot()[:, :2].clone().requires_grad_()
    energies = net(features, y, torch.tensor([[True] * T, [False] * T]))
    energies.sum().backward()
    assert torch.isfinite(energies).all() and torch.isfinite(y.grad).all() and not y.grad[1].any()


@pytest.mark.parametrize("name", NAMES)
def test_no_tensor_has_a_pair_of_tags_for_each_position_of_each_candidate(name):
    """Forward and backward: B S T C² numbers would be 60 times the candidates for 60 tags."""
    rows, candidates, length, tags = 2, 3, 4, 40
    net, largest = ENERGIES[name](tags, H, G), []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            found = function(*arguments, **(options or {}))
            largest.extend(x.numel() for x in tree_leaves(found) if torch.is_tensor(x) and x.is_floating_point())
            return found

    y = torch.rand(rows, candidates, length, tags).softmax(-1).requires_grad_()
    with Sizes():
        net(torch.rand(rows, length, H), y, torch.ones(rows, length, dtype=torch.bool)).sum().backward()
    assert y.numel() <= max(largest) < y.numel() * tags / 8


def test_the_weight_of_language_models_is_refused_where_no_energy_reads_it():
    with pytest.raises(ValueError, match="holds 'language_model_weight', which the energy 'chain_ge_b' lacks"):
        check_energy_options("chain_ge_b", {"language_model_weight": 2.0})
    check_energy_options("chain_ge_c", {"language_model_weight": 2.0})
