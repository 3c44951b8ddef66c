"""Energy losses against closed forms over all label sets of a small space, and their gradients against finite
differences."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from losses import LOSSES_OF_ENERGIES, energy_loss

from seal_hf import ENERGY_LOSSES, MultiLabelEnergy, MultiLabelSpace
from seal_hf.energy_losses import log_inclusion

L, H = 4, 5
SPACE = MultiLabelSpace()
SAMPLED = {
    "nce": 6,
    "ranking": 6,
    "regression_s": 5,
    "contrastive_divergence": 6,
    "infnet_plus": 1,
}  # columns after ŷ and gold, of K = 6
SETS = torch.tensor(list(itertools.product([0.0, 1.0], repeat=L)))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def problem():
    torch.manual_seed(0)
    logits, features = torch.randn(3, L), torch.randn(3, H)
    labels = torch.tensor([[1.0, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0]])
    return logits, features, labels, MultiLabelEnergy(L, H, 6)


def partner(loss, logits):
    """Logits of a cost-augmented network, where the loss has one."""
    return logits.flip(1) if loss.has_partner else None


def exact_partition(energy, features):
    """log Σ_y exp(-E(x, y)) over all 2^L label sets: (B,)."""
    return torch.logsumexp(-energy(features, SETS.expand(features.shape[0], -1, -1)), dim=1)


def test_nce_with_many_samples_approaches_the_exact_value(problem):
    """(1/K) Σ_k exp(s(y_k)) -> Σ_y exp(-E(y)): the loss, less its log K, tends to the exact ranking value."""
    logits, features, labels, energy = problem
    K = 200_000
    loss = energy_loss("nce", num_samples=K)
    with torch.no_grad():
        candidates = loss.candidates(SPACE, logits, labels, generator())
        estimate = loss(energy(features, candidates.y), candidates)
        y = labels.unsqueeze(1)
        s_gold = (-energy(features, y) - SPACE.log_prob(logits, y)).squeeze(1)
        exact = -(s_gold - torch.logaddexp(s_gold, math.log(K) + exact_partition(energy, features))).mean()
    assert estimate.item() == pytest.approx(exact.item(), abs=0.02)


def test_ranking_with_many_samples_approaches_its_exact_value(problem):
    logits, features, labels, energy = problem
    K = 200_000
    loss = energy_loss("ranking", num_samples=K)
    with torch.no_grad():
        candidates = loss.candidates(SPACE, logits, labels, generator())
        estimate = loss(energy(features, candidates.y), candidates)
        all_sets = SETS.expand(3, -1, -1)
        expected = torch.logsumexp(-energy(features, all_sets) + SPACE.log_prob(logits, all_sets), dim=1) + math.log(K)
        gold = -energy(features, labels.unsqueeze(1)).squeeze(1)
        exact = -(gold - torch.logaddexp(gold, expected)).mean()
    assert estimate.item() == pytest.approx(exact.item(), abs=0.02)


def test_nce_is_cross_entropy_over_gold_and_samples(problem):
    logits, features, labels, energy = problem
    loss = energy_loss("nce", num_samples=7)
    candidates = loss.candidates(SPACE, logits, labels, generator())
    energies = energy(features, candidates.y)
    p = torch.sigmoid(logits)
    rows = []
    for b in range(3):
        s = []
        for y in [labels[b], *candidates.y[b, 2:]]:
            log_p = sum(math.log(p[b, j] if y[j] else 1 - p[b, j]) for j in range(L))
            s.append((-energy(features[b : b + 1], y.view(1, 1, L)).squeeze() - log_p).item())
        rows.append(-s[0] + math.log(sum(math.exp(v) for v in s)))
    assert loss(energies, candidates).item() == pytest.approx(sum(rows) / 3, rel=1e-5)


@pytest.mark.parametrize("num_samples, distinct", [(400, False), (20, True), (4, True)])
def test_nce_is_minimised_where_the_energy_is_the_negative_log_likelihood_of_the_data(num_samples, distinct):
    """With data from a known P and much noise, gradient of the exact expectation vanishes at E = -log P + const. Of
    distinct samples, too, however often the likeliest are drawn."""
    torch.manual_seed(0)
    target = torch.softmax(torch.randn(2**L), 0)
    energies = torch.zeros(2**L, requires_grad=True)
    logits = torch.randn(1, L)
    loss = energy_loss("nce", num_samples=num_samples, distinct_samples=distinct)
    optimizer = torch.optim.Adam([energies], lr=0.05)
    weights = 2 ** torch.arange(L - 1, -1, -1)
    for step in range(400):
        gold = SETS[torch.multinomial(target, 256, replacement=True, generator=generator(step))]
        candidates = loss.candidates(SPACE, logits.expand(256, -1), gold, generator(step))
        codes = (candidates.y.round() * weights).sum(-1).long()
        optimizer.zero_grad()
        loss(energies[codes], candidates).backward()
        optimizer.step()
    assert (torch.softmax(-energies.detach(), 0) - target).abs().max() < 0.03


@pytest.mark.parametrize("name", ["nce", "ranking"])
def test_the_options_of_a_contrast_are_those_of_its_formula(name, problem):
    """-log exp s(y*) / Σ exp s(y), s = -E - log P(drawn) + α Δ over the different candidates, in loops over rows."""
    logits, features, labels, energy = problem
    loss = energy_loss(name, num_samples=30, cost_weight=1.5, margin_cost="l1", distinct_samples=True, gold_mix=0.4)
    candidates = loss.candidates(SPACE, logits, labels, generator())
    value = loss(energy(features, candidates.y), candidates).item()
    rows, sizes = [], []
    for b in range(3):
        p = 0.6 * torch.sigmoid(logits[b]) + 0.4 * labels[b]
        terms = {}
        for y in candidates.y[b, 1:]:
            s = -energy(features[b : b + 1], y.view(1, 1, L)).item() + 1.5 * (y - labels[b]).abs().sum().item()
            noise = torch.where(y > 0, p, 1 - p).prod().item()
            drawn = math.log(1 - (1 - noise) ** 30)  # at least once in 30 draws
            terms[tuple(y.tolist())] = s - (drawn if name == "nce" else 0.0)
        sizes.append(len(terms))
        rows.append(-terms[tuple(labels[b].tolist())] + math.log(sum(math.exp(s) for s in terms.values())))
    assert value == pytest.approx(sum(rows) / 3, rel=1e-4)
    assert max(sizes) < 31  # some were drawn twice


def test_the_probability_to_be_among_k_draws_is_exact_at_all_sizes():
    """Against doubles; of rare structures K P, of certain ones 1."""
    log_p = torch.tensor([-300.0, -40.0, -15.001, -14.999, -8.0, -1.0, -1e-3, -1e-9, 0.0])
    expected = [-300 + math.log(7)] + [
        math.log(-math.expm1(7 * math.log1p(-math.exp(v)))) for v in log_p[1:-2].tolist()
    ]
    torch.testing.assert_close(log_inclusion(log_p, 7), torch.tensor([*expected, 0.0, 0.0]), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(log_inclusion(log_p, 1), log_p, rtol=1e-5, atol=2e-7)


def test_discrete_structures_of_regression_s_are_drawn_from_the_task_net(problem):
    logits, features, labels, energy = problem
    loss = energy_loss("regression_s", num_samples=9, regression_samples="discrete")
    candidates = loss.candidates(SPACE, logits, labels, generator())
    assert torch.equal(candidates.y[:, 2:], SPACE.sample(logits, 8, generator()))
    value = torch.sigmoid(-energy(features, candidates.y))[:, [0, *range(2, 10)]].double()
    s = SPACE.score(candidates.y, labels)[:, [0, *range(2, 10)]].double()
    by_hand = -(s * value.log() + (1 - s) * (1 - value).log()).sum(1).mean()
    torch.testing.assert_close(loss(energy(features, candidates.y), candidates).double(), by_hand)


def test_margin_is_the_hinge_on_the_tasks_output(problem):
    logits, features, labels, energy = problem
    loss = energy_loss("margin", margin_cost="l1")
    candidates = loss.candidates(SPACE, logits, labels, generator())
    y_hat = torch.sigmoid(logits)
    gap = energy(features, labels.unsqueeze(1)).squeeze(1) - energy(features, y_hat.unsqueeze(1)).squeeze(1)
    by_hand = torch.relu((y_hat - labels).abs().sum(1) + gap).mean()
    torch.testing.assert_close(loss(energy(features, candidates.y), candidates), by_hand)


def test_regression_is_cross_entropy_between_score_and_sigmoid_of_minus_energy(problem):
    logits, features, labels, energy = problem
    loss = energy_loss("regression")
    candidates = loss.candidates(SPACE, logits, labels, generator())
    value = torch.sigmoid(-energy(features, torch.sigmoid(logits).unsqueeze(1))).squeeze(1)
    s = SPACE.score(torch.sigmoid(logits).unsqueeze(1), labels).squeeze(1)
    by_hand = -(s * value.log() + (1 - s) * (1 - value).log()).mean()
    torch.testing.assert_close(loss(energy(features, candidates.y), candidates), by_hand)


def test_regression_s_with_one_structure_or_no_noise_is_regression(problem):
    logits, features, labels, energy = problem
    plain = energy_loss("regression")
    reference = plain(energy(features, plain.candidates(SPACE, logits, labels, generator()).y),
                      plain.candidates(SPACE, logits, labels, generator()))  # fmt: skip
    for K in (1, 3):
        loss = energy_loss("regression_s", num_samples=K, perturbation_std=0.0)
        candidates = loss.candidates(SPACE, logits, labels, generator())
        torch.testing.assert_close(loss(energy(features, candidates.y), candidates), K * reference)


@pytest.mark.parametrize("name", sorted(LOSSES_OF_ENERGIES))
def test_gradients_match_finite_differences(name, problem):
    logits, features, labels, energy = problem
    loss = energy_loss(name, num_samples=4)
    candidates = loss.candidates(SPACE, logits, labels, generator(), partner(loss, logits))
    for field in ("y", "log_noise", "score", "cost"):
        value = getattr(candidates, field)
        setattr(candidates, field, value.double() if value is not None else None)
    energies = energy(features, candidates.y.float()).detach().double().requires_grad_()
    assert torch.autograd.gradcheck(lambda e: loss(e, candidates), (energies,))
    energy, features = energy.double(), features.double()
    parameters = dict(energy.named_parameters())

    def through_the_network(*values):
        named = dict(zip(parameters, values, strict=True))
        return loss(torch.func.functional_call(energy, named, (features, candidates.y)), candidates)

    assert torch.autograd.gradcheck(
        through_the_network, tuple(p.detach().requires_grad_() for p in parameters.values())
    )
    y = candidates.y[:, :1].clone().requires_grad_()
    gold = labels.double()

    def term(value):
        row = torch.cat([value, gold.unsqueeze(1)], dim=1) if loss.reads_gold else value
        return loss.task_term(energy(features, row), SPACE.cost(value, gold, "f1"))

    assert torch.autograd.gradcheck(term, (y,))


@pytest.mark.parametrize("name", sorted(LOSSES_OF_ENERGIES))
def test_candidates_carry_no_gradient_and_keep_their_order(name, problem):
    logits, _, labels, _ = problem
    loss = energy_loss(name, num_samples=6)
    candidates = loss.candidates(SPACE, logits.requires_grad_(), labels, generator(), partner(loss, logits))
    assert not candidates.y.requires_grad
    torch.testing.assert_close(candidates.y[:, 0], torch.sigmoid(logits).detach())
    assert torch.equal(candidates.y[:, 1], labels)
    assert candidates.y.shape[1] == 2 + SAMPLED.get(name, 0)


@pytest.mark.parametrize("name", sorted(name for name, loss in ENERGY_LOSSES.items() if loss.reads_output))
def test_a_differentiable_output_takes_the_losses_gradient(name, problem):
    logits, features, labels, energy = problem
    loss = energy_loss(name, num_samples=6)
    logits.requires_grad_()
    candidates = loss.candidates(SPACE, logits, labels, generator(), partner(loss, logits), differentiable=True)
    (slope,) = torch.autograd.grad(loss(energy(features, candidates.y), candidates), logits)
    assert slope.abs().sum() > 0


def test_contrastive_divergence_is_the_augmented_likelihood_of_gold(problem):
    """-log of exp(-E(y*)) over the sum of exp(-E(y) + Δ(y, y*)) of output, gold and samples, one by one."""
    logits, features, labels, energy = problem
    loss = energy_loss("contrastive_divergence", num_samples=5, margin_cost="l1")
    candidates = loss.candidates(SPACE, logits, labels, generator())
    energies = energy(features, candidates.y)
    rows = []
    for b in range(3):
        costs = [(y - labels[b]).abs().sum().item() for y in candidates.y[b]]
        total = sum(math.exp(-e.item() + c) for e, c in zip(energies[b], costs, strict=True))
        rows.append(energies[b, 1].item() + math.log(total))
    assert loss(energies, candidates).item() == pytest.approx(sum(rows) / 3, rel=1e-5)


def test_the_task_term_is_the_energy_or_the_estimated_score():
    energy = torch.tensor([[1.0], [-2.0]])
    assert energy_loss("nce").task_term(energy).item() == pytest.approx(-0.5)
    torch.testing.assert_close(energy_loss("regression").task_term(energy), -torch.sigmoid(-energy).mean())
    energies, cost = torch.tensor([[1.0, 3.0], [-2.0, -2.5]]), torch.tensor([[0.5], [0.25]])
    violations = {
        "rescaled": [0.5 + 2.0, 0.25 - 0.5],
        "slack": [0.5 * 3.0, 0.25 * 0.5],
        "contrastive": [3.0, 0.5],
        "perceptron": [2.0, -0.5],
    }
    for kind, (first, second) in violations.items():
        infnet = energy_loss("infnet", margin_type=kind)
        assert infnet.task_term(energies, cost).item() == pytest.approx(-(first + second) / 2)
        cut = energy_loss("infnet", margin_type=kind, inference_truncation=True)
        assert cut.task_term(energies, cost).item() == pytest.approx(-(max(first, 0) + max(second, 0)) / 2)
    assert energy_loss("infnet_plus", perceptron_weight=3.0).task_term(energies, cost).item() == pytest.approx(
        -3 * 0.75
    )
    cut = energy_loss("infnet_plus", perceptron_weight=3.0, inference_truncation=True)
    assert cut.task_term(energies, cost).item() == pytest.approx(-3 * 1.0)


def test_energy_is_the_papers_formula(problem):
    """SEAL Eq. 2 term by term, in loops."""
    _, features, labels, energy = problem
    b, M, c, v = (
        energy.label_embeddings.weight, energy.projection.weight.T, energy.bias, energy.direction.weight[0]
    )  # fmt: skip
    for x, y in zip(features, labels, strict=True):
        local = sum(y[i] * (b[i] @ x) for i in range(L))
        value = -(local + v @ F.softplus(M @ y + c))
        torch.testing.assert_close(energy(x.unsqueeze(0), y.view(1, 1, L)).squeeze(), value)


def test_the_gradient_of_the_global_term_couples_all_labels(problem):
    """∂E_global/∂y_i = -{Mᵀ diag(γ'(M y + c)) v}_i (SEAL §2): depends on every other label."""
    _, features, labels, energy = problem
    y = labels.unsqueeze(1).clone().requires_grad_()
    (gradient,) = torch.autograd.grad(energy(features, y).sum(), y)
    M, c, v = energy.projection.weight.T, energy.bias, energy.direction.weight[0]
    expected = -(features @ energy.label_embeddings.weight.T + (torch.sigmoid(labels @ M.T + c) * v) @ M)
    torch.testing.assert_close(gradient.squeeze(1), expected)
