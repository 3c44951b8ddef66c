"""Hypergradients against closed forms, a dense solve, finite differences of the solved inner problem, and each
other."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

from seal_hf import MultiLabelEnergy, MultiLabelSpace
from seal_hf.extensions.hypergradient import (
    METHODS,
    Hypergradient,
    detached,
    flatten,
    gradient,
    hessian_product,
    select_parameters,
    solve_cg,
    solve_minimal_residual,
    solve_neumann,
    unflatten,
)
from tests.tiny_models import tiny_config

N, M = 6, 4


def close(a, b, tolerance=1e-4):
    """By norm, relative."""
    return (a - b).norm() <= tolerance * b.norm().clamp_min(1e-12)


class Quadratic:
    """L_in = φᵀAφ/2 - φᵀBθ, whose minimum is φ* = A⁻¹Bθ; L_out = ‖φ - t‖²/2 + cᵀθ + φᵀDθ."""

    def __init__(self):
        g = torch.Generator().manual_seed(0)
        root = torch.randn(N, N, generator=g)
        self.A = root @ root.T / N + torch.eye(N)  # eigenvalues in about [1, 4]
        self.B, self.D = torch.randn(N, M, generator=g), torch.randn(N, M, generator=g)
        self.t, self.c = torch.randn(N, generator=g), torch.randn(M, generator=g)
        self.theta = torch.randn(M, generator=g).requires_grad_()
        self.best = torch.linalg.solve(self.A, self.B @ self.theta.detach())

    def inner(self, phi):
        w = phi["w"].reshape(-1)
        return w @ self.A @ w / 2 - w @ (self.B @ self.theta)

    def outer(self, phi):
        w = phi["w"].reshape(-1)
        return (w - self.t).square().sum() / 2 + self.c @ self.theta + w @ (self.D @ self.theta)

    def at_minimum(self):
        return {"w": self.best.view(2, 3)}

    def closed_form(self):
        slope = self.best - self.t + self.D @ self.theta.detach()
        direct = self.c + self.D.T @ self.best
        return direct + self.B.T @ torch.linalg.solve(self.A, slope), direct


@pytest.mark.parametrize("method, scale", [("neumann", None), *((method, 4.0) for method in METHODS)])
def test_on_a_quadratic_it_is_the_closed_form(method, scale):
    problem = Quadratic()
    terms = N if method == "cg" else 60
    (found,), facts = Hypergradient(method, terms, scale=scale)(
        problem.inner, problem.outer, problem.at_minimum(), [problem.theta]
    )
    full, direct = problem.closed_form()
    expected = direct if method == "none" else full
    assert close(found, expected, 1e-5)
    cosine = torch.dot(direct, expected) / direct.norm() / expected.norm()
    assert facts["cosine"].item() == pytest.approx(cosine.item(), abs=5e-3)
    assert facts["direct_norm"].item() == pytest.approx(direct.norm().item(), rel=1e-4)
    assert facts["full_norm"].item() == pytest.approx(expected.norm().item(), rel=5e-3)
    if method in ("neumann", "cg"):
        assert facts["residual"] < 5e-3


def test_damping_solves_the_damped_system():
    problem = Quadratic()
    slope = problem.best - problem.t + problem.D @ problem.theta.detach()
    expected = torch.linalg.solve(problem.A + 0.7 * torch.eye(N), slope)
    product = lambda v: problem.A @ v  # noqa: E731
    assert close(solve_neumann(product, slope, 60, 4.0, 0.7)[0], expected)
    assert close(solve_minimal_residual(product, slope, 60, 0.7)[0], expected)
    assert close(solve_cg(product, slope, N, 0.7)[0], expected)


def test_a_scale_for_each_term_leaves_the_least_residual():
    """One term: no fixed scale leaves less, of a grid of them; n terms: at most ((κ - 1) / (κ + 1))ⁿ; and what is said
    to be left is what is left."""
    problem = Quadratic()
    b, product = torch.randn(N, generator=torch.Generator().manual_seed(1)), lambda v: problem.A @ v
    left = lambda u: ((b - problem.A @ u).norm() / b.norm()).item()  # noqa: E731
    u, _ = solve_minimal_residual(product, b, 1)
    grid = [left(solve_neumann(product, b, 1, scale.item())[0]) for scale in torch.linspace(0.5, 8, 200)]
    assert left(u) <= min(grid) <= left(u) + 1e-3
    eigenvalues = torch.linalg.eigvalsh(problem.A)
    kappa = (eigenvalues[-1] / eigenvalues[0]).item()
    for terms in (2, 5, 9):
        u, facts = solve_minimal_residual(product, b, terms)
        assert facts["residual"].item() == pytest.approx(left(u), abs=1e-5)
        assert left(u) <= ((kappa - 1) / (kappa + 1)) ** terms
    u, facts = solve_minimal_residual(lambda v: 9 * v, b, 1)  # where a scale of 100 leaves (1 - 0.09)⁵ of five terms
    assert close(u, b / 9, 1e-6) and facts["curvature"].item() == pytest.approx(9)


class Nets:
    """A small task-net and a multi-label energy, in one bilevel problem; φ is the whole task-net."""

    def __init__(self, energy_weight=0.5, rows=24):
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 3))
        self.energy = MultiLabelEnergy(3, 3, 4)
        self.space, self.weight = MultiLabelSpace(), energy_weight
        self.x = torch.randn(rows, 3)
        self.labels = (self.x @ torch.randn(3, 3) + torch.randn(rows, 3) > 0).float()
        self.theta = list(self.energy.parameters())

    def logits(self, phi):
        return functional_call(self.net, phi, (self.x,))

    def inner(self, phi):
        """With a ridge, so that the minimum is one point and the Hessian is positive there."""
        logits = self.logits(phi)
        energy = self.energy(self.x, self.space.output(logits)).mean()
        ridge = sum(p.square().sum() for p in phi.values())
        return self.space.task_loss(logits, self.labels) + self.weight * energy + 0.05 * ridge

    def outer(self, phi):
        """SSVM without the hinge, which would hide rows."""
        output = self.space.output(self.logits(phi))
        gold = self.energy(self.x, self.labels.unsqueeze(1))
        return (self.space.cost(output, self.labels, "f1") - self.energy(self.x, output) + gold).mean()

    def solved(self, start=None):
        """By gradient descent to near the minimum, or from where it is near, and by Newton's method from there."""
        phi = detached(start or select_parameters(self.net, "all"))
        for _ in range(0 if start else 50):
            grads = torch.autograd.grad(self.inner(phi), list(phi.values()))
            phi = detached({name: p - 0.5 * g for (name, p), g in zip(phi.items(), grads, strict=True)})
        for _ in range(6):
            vector, like = flatten(list(phi.values())), phi
            hessian = torch.autograd.functional.hessian(lambda v, like=like: self.inner(unflatten(v, like)), vector)
            phi = detached(unflatten(vector - torch.linalg.solve(hessian, gradient(self.inner, phi)), like))
        return phi


@pytest.fixture(scope="module")
def solved():
    nets = Nets()
    phi = nets.solved()
    assert gradient(nets.inner, phi).norm() < 1e-4
    return nets, phi


def dense_hessian(nets, phi):
    eye = torch.eye(sum(p.numel() for p in phi.values()))
    return torch.stack([hessian_product(nets.inner, phi)(row) for row in eye])


def test_the_product_agrees_with_the_dense_hessian_of_torch(solved):
    nets, phi = solved
    dense = torch.func.hessian(nets.inner)(phi)
    rows = [torch.cat([dense[a][b].reshape(phi[a].numel(), -1) for b in phi], 1) for a in phi]
    dense = torch.cat(rows).detach()
    v = torch.randn(len(dense), generator=torch.Generator().manual_seed(1))
    assert close(hessian_product(nets.inner, phi)(v), dense @ v, 1e-5)
    assert close(hessian_product(nets.inner, phi)(100 * v), 100 * (dense @ v), 1e-5)


def test_neumann_and_cg_agree_with_a_dense_solve(solved):
    nets, phi = solved
    hessian = dense_hessian(nets, phi)
    eigenvalues = torch.linalg.eigvalsh(hessian)
    assert eigenvalues[0] > 0
    b = gradient(nets.outer, phi)
    expected = torch.linalg.solve(hessian, b)
    product = hessian_product(nets.inner, phi)
    u, facts = solve_cg(product, b, 60)
    assert close(u, expected, 1e-3) and facts["residual"] < 1e-4
    u, facts = solve_neumann(product, b, 1000, eigenvalues[-1].item())
    assert close(u, expected, 1e-3) and facts["residual"] < 1e-3


def test_it_is_the_slope_of_the_outer_loss_of_the_solved_inner_problem(solved):
    """[L_out(θ + εd, φ*(θ + εd)) - L_out(θ - εd, φ*(θ - εd))] / 2ε, the inner problem solved anew."""
    nets, phi = solved
    grads, _ = Hypergradient("cg", 60)(nets.inner, nets.outer, phi, nets.theta)
    torch.manual_seed(3)
    directions = [torch.randn_like(t) for t in nets.theta]
    slope = sum((g * d).sum() for g, d in zip(grads, directions, strict=True))
    direct = torch.autograd.grad(nets.outer(phi), nets.theta)
    values = []
    for sign in (1, -1):
        other = Nets()
        with torch.no_grad():
            for t, base, d in zip(other.theta, nets.theta, directions, strict=True):
                t.copy_(base + sign * 0.02 * d)
        values.append(other.outer(other.solved(start=phi)).item())
    measured = (values[0] - values[1]) / 0.04
    assert slope.item() == pytest.approx(measured, rel=0.01)
    alone = sum((g * d).sum() for g, d in zip(direct, directions, strict=True)).item()
    assert abs(alone - measured) > 0.05 * abs(measured)  # the direct term alone would not pass


@pytest.mark.parametrize("method", METHODS)
def test_without_an_energy_in_the_inner_loss_there_is_no_implicit_term(method):
    nets = Nets(energy_weight=0.0)
    phi = nets.solved()
    grads, facts = Hypergradient(method, 5)(nets.inner, nets.outer, phi, nets.theta)
    assert facts["implicit_norm"] == 0
    assert torch.equal(flatten(grads), flatten(torch.autograd.grad(nets.outer(phi), nets.theta)))


def test_micro_batches_and_processes_are_a_mean():
    """Two halves of a batch, as micro-batches, or as processes whose vectors `reduce` averages, give the direction of
    the whole."""
    whole, halves = Nets(), [Nets(), Nets()]
    for i, half in enumerate(halves):
        half.x, half.labels = (t[12 * i : 12 * i + 12] for t in (whole.x, whole.labels))
    phi = detached(select_parameters(whole.net, "all"))
    for method in list(METHODS)[1:]:
        config = Hypergradient(method, 4, damping=2.0)
        expected = config.adjoint([whole.inner], [whole.outer], phi)
        found = config.adjoint([h.inner for h in halves], [h.outer for h in halves], phi)
        assert close(found.direction, expected.direction, 1e-3)


def test_parameters_of_the_net_are_not_touched(solved):
    nets, phi = solved
    before = [p.clone() for p in nets.net.parameters()]
    Hypergradient("neumann", 3)(nets.inner, nets.outer, dict(nets.net.named_parameters()), nets.theta)
    assert all(torch.equal(a, b) for a, b in zip(before, nets.net.parameters(), strict=True))
    assert all(p.grad is None for p in [*nets.net.parameters(), *nets.theta])


# --- failures name their remedy --------------------------------------------------------------------------------------


def diagonal(*values):
    values = torch.tensor(values)
    return lambda v: values * v


def test_a_series_that_diverges_says_which_scale_would_not():
    config = Hypergradient("neumann", 30, scale=2.0)
    _, facts = solve_neumann(diagonal(1.0, 9.0), torch.ones(2), config.terms, config.scale)
    advice = config.advice(facts["residual"].item(), facts["curvature"].item())
    assert "hypergradient_scale" in advice and "reaches 9" in advice
    _, facts = solve_neumann(diagonal(1.0, 9.0), torch.ones(2), 30, 9.0)
    assert config.advice(facts["residual"].item(), facts["curvature"].item()) is None


def test_an_inverse_that_is_barely_solved_says_what_would_solve_it():
    """Five terms of scale 100 leave 0.91⁴ = 0.69 where the curvature is 9."""
    config = Hypergradient("neumann", 5, scale=100.0)
    _, facts = solve_neumann(diagonal(9.0, 9.0), torch.ones(2), config.terms, config.scale)
    advice = config.advice(facts["residual"].item(), facts["curvature"].item())
    assert all(word in advice for word in ("residual 0.686", "`hypergradient_scale` (now 100) towards", "9", "'cg'"))
    for method, other in (("neumann", True), ("cg", False)):
        advice = Hypergradient(method, 5).advice(0.6, 2.0)
        assert "barely" in advice and "`hypergradient_terms`" in advice and ("'cg'" in advice) == other
        assert Hypergradient(method, 5).advice(0.4, 2.0) is None
        assert "not finite" in Hypergradient(method, 5).advice(float("nan"), 2.0)


def test_one_term_of_a_given_scale_takes_no_product_that_could_be_judged():
    config = Hypergradient("neumann", 1, scale=100.0)
    u, facts = solve_neumann(diagonal(9.0, 9.0), torch.ones(2), config.terms, config.scale)
    assert torch.equal(u, torch.ones(2) / 100)
    assert config.advice(facts["residual"].item(), facts["curvature"].item()) is None


@pytest.mark.parametrize("method, scale", [("neumann", 2.0), ("neumann", None), ("cg", None)])
def test_negative_curvature_asks_for_damping(method, scale):
    config = Hypergradient(method, 30, scale=scale)
    b = torch.ones(2)
    product = diagonal(1.0, -3.0)

    def solve(damping, terms=60):
        if method == "cg":
            return solve_cg(product, b, 30, damping)
        if scale is None:
            return solve_minimal_residual(product, b, terms, damping)
        return solve_neumann(product, b, terms, scale + damping / 2, damping)

    _, facts = solve(0.0, terms=30)
    advice = config.advice(facts["residual"].item(), facts["curvature"].item())
    assert "hypergradient_damping" in advice
    u, facts = solve(4.0)
    assert config.advice(facts["residual"].item(), facts["curvature"].item()) is None
    assert close(u, torch.tensor([1 / 5, 1.0]), 1e-3)


def test_conjugate_gradient_never_ends_farther_from_the_solution_than_it_started():
    """Along b the curvature is 0.05, so that the first step is of length 20 and leaves 19 times b."""
    u, facts = solve_cg(diagonal(-0.9, 1.0), torch.ones(2), 1)
    assert u.tolist() == [0, 0] and facts["residual"] == 1 and facts["curvature"] > 0


def test_conjugate_gradient_stays_where_it_is_done():
    u, facts = solve_cg(diagonal(2.0, 4.0), torch.tensor([1.0, 0.0]), 20)
    assert torch.equal(u, torch.tensor([0.5, 0.0])) and facts["residual"] == 0
    u, facts = solve_cg(diagonal(2.0, 4.0), torch.zeros(2), 3)
    assert torch.equal(u, torch.zeros(2))


@pytest.mark.parametrize("options", [{"method": "newton"}, {"terms": 0}, {"scale": 0.0}])
def test_options_out_of_range_are_named(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Hypergradient(**options)


# --- subsets ---------------------------------------------------------------------------------------------------------


def bert(**changes):
    from transformers import AutoModelForSequenceClassification

    return AutoModelForSequenceClassification.from_config(tiny_config("bert", **changes))


def test_subsets_by_name():
    model = bert()
    assert list(select_parameters(model, "head")) == ["classifier.weight", "classifier.bias"]
    assert len(select_parameters(model, "all")) == len(list(model.parameters()))
    assert all("layer.1" in name for name in select_parameters(model, r"layer\.1\."))
    with pytest.raises(ValueError, match="frozen"):
        select_parameters(model, "adapters")
    with pytest.raises(ValueError, match="regular expression"):
        select_parameters(model, "nothing of this name")
    with pytest.raises(
        ValueError, match="`hypergradient_parameters` is 'scores\\(', which is not a regular expression: miss"
    ):
        select_parameters(model, "scores(")


def test_subsets_of_a_lora():
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(bert(), peft.LoraConfig(task_type="SEQ_CLS", target_modules=["query"]))
    head, adapters = (set(select_parameters(model, subset)) for subset in ("head", "adapters"))
    assert head and all("classifier" in name for name in head)
    assert adapters and all("lora_" in name for name in adapters)
    assert head | adapters == set(select_parameters(model, "all"))
